//! docs/lab/networks.md has the figures of the three networks' models, and the evidence of each line of the paper's table.

use super::all;
use lab::experiment::{Figure, Published, Row, Verdict};
use std::fmt::Write as _;

/// As a table of the page: three digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn table(figure: &Figure) -> String {
    let [x, y] = &figure.axes;
    let mut text = format!("{}: {y}\n\n| {x} |", figure.title);
    figure.series.iter().for_each(|series| write!(text, " {} |", series.label).unwrap());
    text.push_str("\n|---|");
    figure.series.iter().for_each(|_| text.push_str("---|"));
    let mut at: Vec<f64> = figure.series.iter().flat_map(|series| series.points.iter().map(|p| p[0])).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    for x in at {
        write!(text, "\n| {x} |").unwrap();
        for series in &figure.series {
            let point = series.points.iter().find(|point| point[0] == x);
            write!(text, " {} |", point.map_or("-".into(), |point| number(point[1]))).unwrap();
        }
    }
    text
}

fn evidence(rows: &[&Row]) -> String {
    let mut text = String::from("| id | line | evidence | what the model says |\n|---|---|---|---|");
    for row in rows {
        let line = match &row.published {
            Published::Words(words) if row.what == "in words" => format!("\"{words}\""),
            Published::Words(words) => format!("{}: {words}", row.what),
            Published::Number(n) => format!("{}: {n} {}", row.what, row.unit),
            Published::Range(from, to) => format!("{}: {from} to {to} {}", row.what, row.unit),
        };
        let value = row.modelled.map(|value| format!("{} {}. ", number(value), row.unit)).unwrap_or_default();
        let verdict = row.verdict.name();
        write!(text, "\n| {} | {line} | {verdict} | {value}{} |", row.id, row.note).unwrap();
    }
    text
}

fn block(name: &str) -> String {
    let outcomes = all().iter().filter(|outcome| outcome.experiment.starts_with("seed002"));
    match name.split_once(' ').unwrap() {
        ("figure", figure) => {
            let mut figures = outcomes.flat_map(|outcome| &outcome.figures);
            table(figures.find(|own| own.name == figure).unwrap_or_else(|| panic!("no figure {figure}")))
        }
        ("evidence", ids) => {
            let (from, to) = ids.split_once('-').unwrap_or((ids, ids));
            let range = from.parse::<u32>().unwrap()..=to.parse().unwrap();
            let id = |row: &Row| row.id.strip_prefix("C-").and_then(|id| id.parse().ok()).unwrap_or(0);
            let mut rows: Vec<&Row> =
                outcomes.flat_map(|outcome| &outcome.rows).filter(|r| range.contains(&id(r))).collect();
            rows.sort_by_key(|row| id(row));
            evidence(&rows)
        }
        (kind, _) => panic!("no block {kind}"),
    }
}

#[test]
fn the_page_has_the_figures_of_the_models_and_the_evidence_of_each_line() {
    let page = include_str!("../../../docs/lab/networks.md");
    let mut made = String::new();
    let mut skips = false;
    for line in page.lines() {
        skips &= line != "<!-- end -->";
        if !skips {
            made.push_str(line);
            made.push('\n');
        }
        if let Some(name) =
            line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")).filter(|n| *n != "end")
        {
            skips = true;
            made.push_str(&block(name));
            made.push('\n');
        }
    }
    if made != page {
        let there = concat!(env!("CARGO_TARGET_TMPDIR"), "/networks.md");
        std::fs::write(there, &made).unwrap();
        let other = made.lines().zip(page.lines()).find(|(made, kept)| made != kept);
        panic!("docs/lab/networks.md is not what the models say: {there} is. {other:?}");
    }
}

#[test]
fn each_id_of_the_seeds_networks_from_u_net_to_the_comparison_has_a_row() {
    let rows: Vec<&Row> = all().iter().flat_map(|outcome| &outcome.rows).collect();
    for n in 12..=43 {
        let id = format!("C-{n}");
        assert!(
            rows.iter().any(|row| row.id == id && row.verdict != Verdict::Absent),
            "{id} has no row that says something"
        );
    }
}
