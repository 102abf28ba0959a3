//! A figure of an experiment as SVG: lines for models, rings for published points, dots with bars for measurements. Each
//! curve has its name beside its end.

use super::labels;
use crate::bench::figure::COLOURS;
use ::lab::experiment::{Figure, Origin};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Pixels of a figure, and of the column with the labels.
const SIZE: (u32, u32) = (960, 440);
const LABELS: i32 = 240;

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a figure: {error}")
}

/// From, to; with some room, and not empty.
fn limits(values: impl Iterator<Item = f64> + Clone, logarithmic: bool) -> (f64, f64) {
    let positive = values.clone().filter(|v| v.is_finite() && (!logarithmic || *v > 0.0));
    let (low, high) = positive.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return (0.1, 1.0);
    }
    if logarithmic {
        (low / 1.3, high * 1.3)
    } else {
        let room = ((high - low.min(0.0)) * 0.08).max(1e-6);
        (low.min(0.0), high + room)
    }
}

fn render<X, Y>(root: &DrawingArea<SVGBackend<'_>, Shift>, (figure, on): (&Figure, &str), x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .margin_right(LABELS)
        .caption(&figure.title, ("sans-serif", 18))
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .x_desc(format!("{}{on}", figure.axes[0]))
        .y_desc(&figure.axes[1])
        .light_line_style(WHITE)
        .x_label_formatter(&|x| super::digits(*x))
        .y_label_formatter(&|y| super::digits(*y))
        .draw()
        .map_err(wrong)?;
    let mut ends = Vec::new();
    for (i, series) in figure.series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<(f64, f64)> = series.points.iter().map(|p| (p[0], p[1])).collect();
        let last = points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0));
        ends.extend(last.map(|last| (i, chart.backend_coord(last))));
        let drawn = match series.origin {
            Origin::Modelled => {
                let bars = series.points.iter().filter(|p| p[3] > p[2]);
                let bars = bars.map(|p| PathElement::new(vec![(p[0], p[2]), (p[0], p[3])], colour));
                chart.draw_series(bars).map_err(wrong)?;
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))
            }
            Origin::Published => {
                chart.draw_series(points.into_iter().map(|p| Circle::new(p, 5, colour.stroke_width(2))))
            }
            Origin::Measured => {
                let bars = series.points.iter().map(|p| PathElement::new(vec![(p[0], p[2]), (p[0], p[3])], colour));
                chart.draw_series(bars).map_err(wrong)?;
                chart.draw_series(LineSeries::new(points, colour.stroke_width(1)).point_size(4))
            }
        };
        drawn.map_err(wrong)?;
    }
    name_curves(root, figure, &ends)
}

/// Writes each curve's name beside its end, with a thin line from one to the other.
fn name_curves(root: &DrawingArea<SVGBackend<'_>, Shift>, figure: &Figure, ends: &[(usize, (i32, i32))]) -> Result<()> {
    let texts: Vec<Vec<String>> = ends.iter().map(|(i, _)| labels::lines(&figure.series[*i].label)).collect();
    let heights: Vec<(i32, usize)> = ends.iter().zip(&texts).map(|((_, at), lines)| (at.1, lines.len())).collect();
    let left = SIZE.0 as i32 - LABELS + 16;
    let places = labels::places(&heights, 30, SIZE.1 as i32 - 8);
    for (((i, (x, y)), lines), place) in ends.iter().zip(&texts).zip(places) {
        let colour = COLOURS[i % COLOURS.len()];
        let middle = place + lines.len() as i32 * labels::LINE / 2;
        root.draw(&PathElement::new([(*x, *y), (left - 4, middle)], colour.mix(0.5))).map_err(wrong)?;
        for (n, line) in lines.iter().enumerate() {
            let at = (left, place + n as i32 * labels::LINE);
            root.draw(&Text::new(line.clone(), at, ("sans-serif", 12).into_font().color(&colour))).map_err(wrong)?;
        }
    }
    Ok(())
}

/// The SVG. Where something was measured, it says on which machine.
pub(super) fn draw(figure: &Figure, measured_on: Option<&str>) -> Result<String> {
    let measured = figure.series.iter().any(|series| series.origin == Origin::Measured);
    let on = measured_on.filter(|_| measured).map_or(String::new(), |on| format!(" (measured on: {on})"));
    let what = (figure, on.as_str());
    let all = || figure.series.iter().flat_map(|s| &s.points);
    let (x0, x1) = limits(all().map(|p| p[0]), figure.logarithmic[0]);
    let (y0, y1) = limits(all().flat_map(|p| [p[1], p[2], p[3]]), figure.logarithmic[1]);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(wrong)?;
        match figure.logarithmic {
            [true, true] => render(&root, what, (x0..x1).log_scale(), (y0..y1).log_scale())?,
            [true, false] => render(&root, what, (x0..x1).log_scale(), y0..y1)?,
            [false, true] => render(&root, what, x0..x1, (y0..y1).log_scale())?,
            [false, false] => render(&root, what, x0..x1, y0..y1)?,
        }
        root.present().map_err(wrong)?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::lab::experiment::Measured;

    #[test]
    fn a_figure_of_each_kind_of_axis_and_curve_is_drawn_and_an_empty_one_too() {
        for logarithmic in [[true, true], [true, false], [false, true], [false, false]] {
            let mut figure = Figure::new("f", "A title", ["x", "y"], logarithmic);
            assert!(draw(&figure, Some("a machine")).unwrap().contains("<svg"));
            figure.add("model", Origin::Modelled, [(1.0, 2.0), (10.0, 20.0)]);
            figure.add("paper", Origin::Published, [(1.0, 2.5)]);
            let measured = Measured { median: 3.0, least: 2.0, greatest: 9.0 };
            assert!(!draw(&figure, Some("a machine")).unwrap().contains("a machine"));
            figure.add_measured("here", [(5.0, Some(measured)), (6.0, None)]);
            let svg = draw(&figure, Some("a machine")).unwrap();
            assert!(svg.contains("a machine") && !draw(&figure, None).unwrap().contains("measured on"));
            assert!(svg.contains("<circle") && svg.contains("<polyline") && svg.contains("A title"));
        }
    }

    #[test]
    fn each_curve_has_a_colour_of_its_own_and_its_name_beside_its_end() {
        let mut figure = Figure::new("f", "Nine ways", ["x", "y"], [false, false]);
        let names =
            ["interrupts", "process", "0.4", "0.5", "1", "2", "4", "coalesced", "NAPI"].map(|n| format!("by {n}"));
        for (i, name) in names.iter().enumerate() {
            figure.add(name, Origin::Modelled, [(1.0, i as f64), (2.0, i as f64 * 1.01)]);
        }
        let svg = draw(&figure, None).unwrap();
        let colours: std::collections::BTreeSet<&str> = svg
            .split("<polyline")
            .filter(|part| part.contains("stroke-width=\"2\""))
            .filter_map(|part| part.split("stroke=\"").nth(1)?.split('"').next())
            .collect();
        assert!(colours.len() >= names.len(), "{colours:?}");
        assert!(names.iter().all(|name| svg.contains(name.as_str())));
        let distinct: std::collections::BTreeSet<[u8; 3]> = COLOURS.iter().map(|c| [c.0, c.1, c.2]).collect();
        assert_eq!(distinct.len(), COLOURS.len());
    }
}
