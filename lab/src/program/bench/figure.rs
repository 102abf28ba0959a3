//! Figures of several panels, for the benchmarks: lines over a logarithmic axis.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

/// After Okabe and Ito: told apart by those who see fewer colours too. The last four are after Tol, for figures with more
/// curves.
pub(crate) const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 40),
    RGBColor(110, 110, 110),
    RGBColor(51, 34, 136),
    RGBColor(136, 34, 85),
    RGBColor(0, 0, 0),
    RGBColor(153, 153, 51),
];

/// Lines by name, in the order of their legend.
pub(super) type Series = Vec<(String, Vec<(f64, f64)>)>;

/// A line for each value of `name` among the rows, in the order in which they come, of the numbers `x` and `y`.
pub(super) fn series<'a>(rows: impl IntoIterator<Item = &'a Value>, name: &str, x: &str, y: &str) -> Series {
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or_default();
    let mut series = Series::new();
    for row in rows {
        let point = (number(row, x), number(row, y));
        let name = row[name].as_str().unwrap_or_default();
        match series.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name.to_owned(), vec![point])),
        }
    }
    series
}

/// One panel.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Whether the vertical axis is logarithmic too.
    pub(super) log_y: bool,
    pub(super) series: Series,
}

/// An SVG of panels, two to a row.
pub(super) fn draw(panels: &[Panel<'_>]) -> Result<String> {
    let mut svg = String::new();
    {
        let rows = panels.len().div_ceil(2).max(1);
        let root = SVGBackend::with_string(&mut svg, (1200, 430 * rows as u32)).into_drawing_area();
        root.fill(&WHITE).map_err(wrong)?;
        for (part, panel) in root.split_evenly((rows, 2)).iter().zip(panels) {
            lines(part, panel)?;
        }
        root.present().map_err(wrong)?;
    }
    Ok(svg)
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the figure: {error}")
}

fn lines(part: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel<'_>) -> Result<()> {
    let all = || panel.series.iter().flat_map(|(_, points)| points).filter(|p| p.0 > 0.0 && p.1.is_finite());
    if all().count() == 0 {
        return Ok(());
    }
    let (low, high) = all().fold((f64::MAX, 0f64), |(l, h), p| (l.min(p.0), h.max(p.0)));
    let (bottom, top) = all().filter(|p| p.1 > 0.0).fold((f64::MAX, 0f64), |(l, h), p| (l.min(p.1), h.max(p.1)));
    let mut builder = ChartBuilder::on(part);
    builder.caption(panel.title, ("sans-serif", 20)).margin(12).x_label_area_size(40).y_label_area_size(72);
    let x = (low..high.max(low * 1.01) * 1.05).log_scale();
    macro_rules! plot {
        ($chart:expr) => {{
            let mut chart = $chart.map_err(wrong)?;
            let mesh = &mut chart.configure_mesh();
            mesh.x_desc(panel.x).y_desc(panel.y).x_label_formatter(&|v| short(*v)).y_label_formatter(&|v| short(*v));
            mesh.draw().map_err(wrong)?;
            for (i, (name, points)) in panel.series.iter().enumerate() {
                let colour = COLOURS[i % COLOURS.len()];
                let points = points.iter().copied().filter(|p| p.0 > 0.0 && (!panel.log_y || p.1 > 0.0));
                let line = LineSeries::new(points, colour.stroke_width(2)).point_size(3);
                let drawn = chart.draw_series(line).map_err(wrong)?;
                drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            }
            let labels = &mut chart.configure_series_labels();
            labels.position(SeriesLabelPosition::UpperLeft);
            labels.background_style(WHITE.mix(0.8)).border_style(RGBColor(190, 190, 190)).draw().map_err(wrong)
        }};
    }
    if panel.log_y {
        plot!(builder.build_cartesian_2d(x, (bottom * 0.8..top * 1.5).log_scale()))
    } else {
        plot!(builder.build_cartesian_2d(x, 0.0..top * 1.25))
    }
}

/// 1200000 as 1.2M.
fn short(value: f64) -> String {
    let trimmed = |v: f64, unit: &str| {
        let text = format!("{v:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value.abs() {
        v if v >= 1e6 => trimmed(value / 1e6, "M"),
        v if v >= 1e3 => trimmed(value / 1e3, "k"),
        v if v > 0.0 && v < 1.0 => format!("{value:.2}"),
        _ => trimmed(value, ""),
    }
}
