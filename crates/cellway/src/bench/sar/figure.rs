//! The figure: ratios to memcpy over the size of the SDU, and the cost of a cell over the number of circuits.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(110, 110, 110),
];

type Series<'a> = BTreeMap<(usize, &'a str), Vec<(f64, f64)>>;

/// An SVG.
pub(super) fn draw(rows: &[Value], curve: &[Value]) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (1200, 900)).into_drawing_area();
        root.fill(&WHITE).map_err(wrong)?;
        let parts = root.split_evenly((2, 2));
        for (part, key, set, title) in [
            (&parts[0], "segment_vs_memcpy", "l2", "Segmentation, in the second-level cache"),
            (&parts[1], "reassemble_vs_memcpy", "l2", "Reassembly, in the second-level cache"),
            (&parts[2], "segment_vs_memcpy", "dram", "Segmentation, from and to main memory"),
        ] {
            let mut series = Series::new();
            for (i, row) in rows.iter().enumerate().filter(|(_, r)| r["working_set"] == set) {
                let name = row["kernel"].as_str().unwrap_or_default();
                let known = series.keys().find(|(_, n)| *n == name).map_or(i, |(i, _)| *i);
                let point = (number(row, "sdu_octets"), number(row, key));
                series.entry((known, name)).or_default().push(point);
            }
            if !series.is_empty() {
                lines(part, title, "octets of the SDU", "of memcpy", &series)?;
            }
        }
        let points = curve.iter().map(|r| (number(r, "circuits"), number(r, "nanoseconds_per_cell"))).collect();
        let series = Series::from([((0, "PDUs of one to three cells, random order"), points)]);
        if !curve.is_empty() {
            lines(&parts[3], "Reassembly with lookup", "circuits", "nanoseconds per cell", &series)?;
        }
        root.present().map_err(wrong)?;
    }
    Ok(svg)
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_default()
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the figure: {error}")
}

fn lines(
    part: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    x: &str,
    y: &str,
    series: &Series<'_>,
) -> Result<()> {
    let all = || series.values().flatten();
    let (low, high) = all().fold((f64::MAX, 0f64), |(l, h), p| (l.min(p.0), h.max(p.0)));
    let top = all().fold(0f64, |t, p| t.max(p.1)) * 1.15;
    let mut chart = ChartBuilder::on(part)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((low..high * 1.05).log_scale(), 0.0..top)
        .map_err(wrong)?;
    let mesh = &mut chart.configure_mesh();
    mesh.x_desc(x).y_desc(y).x_label_formatter(&|v| format!("{v:.0}")).draw().map_err(wrong)?;
    for (i, ((_, name), points)) in series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        let drawn = chart.draw_series(line).map_err(wrong)?;
        drawn.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(190, 190, 190))
        .draw()
        .map_err(wrong)
}
