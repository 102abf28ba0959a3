//! Tables for other programs: rows and curves as tidy CSV, an observation a line, each number with all its digits.

use super::data::{Data, field};
use ::lab::experiment::{Published, Row};

/// From, to of what was published.
pub(super) fn ends(row: &Row) -> (Option<f64>, Option<f64>) {
    match row.published {
        Published::Number(n) => (Some(n), Some(n)),
        Published::Range(from, to) => (Some(from), Some(to)),
        Published::Words(_) => (None, None),
    }
}

/// What a row is about: of a phrase the quotation.
pub(super) fn what(row: &Row) -> &str {
    match &row.published {
        Published::Words(words) if row.what == "in words" => words,
        _ => &row.what,
    }
}

fn line(fields: impl IntoIterator<Item = String>) -> String {
    fields.into_iter().map(|f| field(&f)).collect::<Vec<_>>().join(",") + "\n"
}

fn number(n: Option<f64>) -> String {
    n.map_or(String::new(), |n| n.to_string())
}

/// Rows.
pub(super) fn rows(data: &Data) -> String {
    let mut text = String::from(
        "experiment,id,fact,what,unit,published_from,published_to,modelled,measured,deviation,to_the_digit,verdict\n",
    );
    for outcome in &data.outcomes {
        for row in &outcome.rows {
            let (from, to) = ends(row);
            text += &line([
                outcome.experiment.clone(),
                row.id.clone(),
                row.fact.clone(),
                what(row).to_owned(),
                row.unit.clone(),
                number(from),
                number(to),
                number(row.modelled),
                number(row.measured.map(|m| m.median)),
                number(row.deviation),
                row.to_the_digit.map_or(String::new(), |same| same.to_string()),
                row.verdict.name().to_owned(),
            ]);
        }
    }
    text
}

/// Points of all figures.
pub(super) fn curves(data: &Data) -> String {
    let mut text = String::from("experiment,figure,x_axis,y_axis,series,origin,x,y,low,high\n");
    for outcome in &data.outcomes {
        for figure in &outcome.figures {
            for series in &figure.series {
                for [x, y, low, high] in &series.points {
                    let origin = format!("{:?}", series.origin).to_lowercase();
                    text += &line([
                        outcome.experiment.clone(),
                        figure.name.clone(),
                        figure.axes[0].clone(),
                        figure.axes[1].clone(),
                        series.label.clone(),
                        origin,
                        x.to_string(),
                        y.to_string(),
                        low.to_string(),
                        high.to_string(),
                    ]);
                }
            }
        }
    }
    text
}
