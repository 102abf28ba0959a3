//! The tables and figures of a whole grid: for each row the mean over the seeds and its 95 % interval.

use super::plan::Plan;
use super::{HEAD, file_of};
use crate::experiments::data::field;
use crate::experiments::{figure, report};
use ::lab::experiment::Figure;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Figures of a grid at most; the tables have all rows.
const FIGURES: usize = 40;

/// Student's t, 97.5 %, by degrees of freedom from 1; beyond the table it is below the last.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Mean, and the ends of the 95 % interval of the mean; of one number, itself.
pub(super) fn interval(all: &[f64]) -> [f64; 3] {
    let n = all.len().max(1) as f64;
    let mean = all.iter().sum::<f64>() / n;
    if all.len() < 2 {
        return [mean; 3];
    }
    let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = T[(all.len() - 2).min(T.len() - 1)] * (variance / n).sqrt();
    [mean, mean - half, mean + half]
}

/// A row of the experiment: its id, what, unit.
type Key = [String; 3];
/// By the combination of values: the results of the seeds.
type Points = BTreeMap<usize, Vec<f64>>;

/// The fields of a line of CSV (RFC 4180).
pub(super) fn fields(line: &str) -> Vec<String> {
    let (mut all, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(core::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

/// Reads all points: the whole table, and the numbers by row.
fn read(plan: &Plan, folder: &Path) -> Result<(String, Vec<(Key, Points)>)> {
    let (mut table, mut rows): (String, Vec<(Key, Points)>) = (format!("{HEAD}\n"), Vec::new());
    let seeds = plan.points() / combinations(plan);
    for point in 0..plan.points() {
        let path = file_of(folder, point);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for line in text.lines() {
            let all = fields(line);
            let (Some([id, what, unit]), Some(Ok(number))) = (all.get(4..7), all.get(9).map(|n| n.parse::<f64>()))
            else {
                continue;
            };
            let key = [id.clone(), what.clone(), unit.clone()];
            let at = rows.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                rows.push((key, Points::new()));
                rows.len() - 1
            });
            rows[at].1.entry(point / seeds).or_default().push(number);
        }
        table.push_str(&text);
    }
    Ok((table, rows))
}

fn combinations(plan: &Plan) -> usize {
    plan.axes.iter().map(|(_, values)| values.len()).product()
}

/// The values of all axes but the first, in words.
fn others(plan: &Plan, values: &[f64]) -> String {
    let named = |((name, _), value): (&(String, Vec<f64>), &f64)| {
        let constant = name.split_once('.').map_or(name.as_str(), |(_, constant)| constant);
        format!("{constant} {}", crate::experiments::digits(*value))
    };
    let all: Vec<String> = plan.axes.iter().zip(values).skip(1).map(named).collect();
    if all.is_empty() { "mean and 95 % interval".to_owned() } else { all.join(", ") }
}

fn varies(points: &Points) -> bool {
    let (low, high) = points.values().flatten().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
    high - low > 1e-9 * high.abs()
}

fn draw(plan: &Plan, name: &str, [id, what, unit]: &Key, points: &Points) -> Result<String> {
    let title = format!("{id}: {}", what.chars().take(70).collect::<String>());
    let mut figure = Figure::new(name, &title, [&plan.axes[0].0, unit], [false, false]);
    let mut curves: Vec<(String, Vec<[f64; 4]>)> = Vec::new();
    let seeds = plan.points() / combinations(plan);
    for (combination, numbers) in points {
        let (values, _) = plan.point(combination * seeds);
        let ([mean, low, high], label) = (interval(numbers), others(plan, &values));
        let point = [values[0], mean, low, high];
        match curves.iter_mut().find(|(known, _)| *known == label) {
            Some((_, curve)) => curve.push(point),
            None => curves.push((label, vec![point])),
        }
    }
    curves.into_iter().for_each(|(label, curve)| {
        figure.add_bars(&label, curve);
    });
    figure::draw(&figure, None)
}

/// Writes them; the names of the files.
pub(super) fn write(plan: &Plan, folder: &Path) -> Result<Vec<String>> {
    let (table, rows) = read(plan, folder)?;
    let names: Vec<&str> = plan.axes.iter().map(|(name, _)| name.as_str()).collect();
    let mut curves = format!("id,what,unit,{},mean,low,high,seeds\n", names.join(","));
    let seeds = plan.points() / combinations(plan);
    let mut files = vec!["rows.csv".to_owned(), "curves.csv".to_owned()];
    for (key, points) in &rows {
        for (combination, numbers) in points {
            let (values, _) = plan.point(combination * seeds);
            let key = key.iter().map(|part| field(part));
            let numbers = values.into_iter().chain(interval(numbers)).chain([numbers.len() as f64]);
            curves.push_str(&key.chain(numbers.map(|n| n.to_string())).collect::<Vec<_>>().join(","));
            curves.push('\n');
        }
    }
    for (number, (key, points)) in rows.iter().filter(|(_, points)| varies(points)).take(FIGURES).enumerate() {
        let name = format!("{:02}-{}", number + 1, key[0]);
        report::write(folder, &format!("{name}.svg"), &draw(plan, &name, key, points)?)?;
        files.push(format!("{name}.svg"));
    }
    report::write(folder, "rows.csv", &table)?;
    report::write(folder, "curves.csv", &curves)?;
    Ok(files)
}
