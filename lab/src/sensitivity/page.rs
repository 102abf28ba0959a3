//! `docs/lab/sensitivity.md`: constants with the rows that depend on them, what anchors leave open, and anchors left out.

use super::{Move, Sensitivity, left_out, open};
use crate::experiment::{Published, Row};

fn what(row: &Row) -> &str {
    match &row.published {
        Published::Words(words) if row.what == "in words" => words,
        _ => &row.what,
    }
}

/// A row's id and what it is about, cut short.
fn named(row: &Row) -> String {
    let what = what(row).replace('|', "/");
    let cut: String = what.chars().take(60).collect();
    let dots = if cut.len() < what.len() { "..." } else { "" };
    format!("{} {cut}{dots}", row.id)
}

fn said(m: &Move) -> String {
    let change = m.elasticity.map_or(String::new(), |e| format!(" ({e:+.2})"));
    format!("{}{change}{}", named(&m.row), if m.flipped { " **changes its verdict**" } else { "" })
}

/// Four significant digits.
fn digits(x: f64) -> String {
    let places = if x == 0.0 { 0 } else { (3 - x.abs().log10().floor() as i32).clamp(0, 4) };
    let text = format!("{x:.*}", places as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The page.
pub fn page(found: &[Sensitivity], factor: f64) -> String {
    let mut text = format!(
        "# Which constant decides which row\n\n`cellway-lab sensitivity --out docs/lab` has made this page, and a test compares the two. Every constant that no paper\n\
         gives is multiplied by {factor}, one after another, with it the copies of it that other machines have \"as on\" this one. All\n\
         experiments that use them run again (`--quick`, seed 1).\n\n\
         - In brackets: the per cent that a row changes for a per cent of the constant. A phrase is listed if its evidence changes.\n\
         - The interval is how far the constant may be off with its anchor's printed digits still met.\n\
         - A row that is not listed under a constant does not depend on it.\n\n"
    );
    for s in found {
        let kind = if s.calibrated { "calibrated on" } else { "assumed," };
        text += &format!("## `{}.{}`\n\n{kind} {}", s.machine, s.constant, s.origin);
        if let Some(interval) = s.interval() {
            text += &format!("; interval {:.2} %", interval * 100.0);
        }
        text += ".\n\n";
        if s.moves.is_empty() {
            text += "No row depends on it.\n\n";
            continue;
        }
        for m in &s.moves {
            text += &format!("- {}: {}\n", m.row.verdict.name(), said(m));
        }
        text.push('\n');
    }
    text += "## What the anchors leave open\n\nThe intervals above, carried through to the rows that are numbers: as if every anchor were off as far as its digits allow.\n\n\
             | row | modelled | from | to | most of it by |\n|---|---|---|---|---|\n";
    for open in open(found).iter().filter(|open| open.half() >= 0.0005) {
        let (Some(modelled), Some((by, _))) = (open.row.modelled, open.by.first()) else { continue };
        let ends = [1.0 - open.half(), 1.0 + open.half()].map(|part| digits(modelled * part));
        text += &format!("| {} | {} | {} | {} | `{by}` |\n", named(&open.row), digits(modelled), ends[0], ends[1]);
    }
    text += "\n## One anchor left out\n\nEach constant is fitted on the prediction that depends on it most, instead of on its anchor, to first order.\n\n\
             | constant | fitted on | its anchor is | would be |\n|---|---|---|---|\n";
    let left = left_out(found);
    for left in &left {
        let target = left.anchor.target().map_or(String::new(), digits);
        text += &format!(
            "| `{}` | {} | {}: {target} | {} |\n",
            left.constant,
            named(&left.instead),
            named(&left.anchor),
            digits(left.becomes)
        );
    }
    let fixed: Vec<&String> = left.iter().map(|left| &left.constant).collect();
    let names = found.iter().filter(|s| s.calibrated).map(|s| format!("{}.{}", s.machine, s.constant));
    let others: Vec<String> = names.filter(|name| !fixed.contains(&name)).collect();
    text += "\nNo number that is a prediction fixes any of the other calibrated constants within a quarter of its value:\n\n";
    others.iter().for_each(|name| text += &format!("- `{name}`\n"));
    text
}
