//! A figure of an experiment as SVG: lines for models, rings for published points, dots with bars for measurements.

use crate::bench::figure::COLOURS;
use ::lab::experiment::{Figure, Origin};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

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
    for (i, series) in figure.series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<(f64, f64)> = series.points.iter().map(|p| (p[0], p[1])).collect();
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
        let origin = series.origin;
        drawn.map_err(wrong)?.label(&series.label).legend(move |(x, y)| match origin {
            Origin::Published => Circle::new((x + 9, y), 5, colour.stroke_width(2)).into_dyn(),
            _ => PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)).into_dyn(),
        });
    }
    chart
        .configure_series_labels()
        .position(emptiest(figure))
        .border_style(RGBColor(200, 200, 200))
        .background_style(WHITE.mix(0.85))
        .draw()
        .map_err(wrong)
}

/// The corner with the fewest points, for the legend.
fn emptiest(figure: &Figure) -> SeriesLabelPosition {
    let scale = |v: f64, logarithmic: bool| if logarithmic { v.max(1e-9).ln() } else { v };
    let points = || {
        let all = figure.series.iter().flat_map(|s| &s.points);
        all.map(|p| [0, 1].map(|i| scale(p[i], figure.logarithmic[i])))
    };
    let middle = |i: usize| {
        let (low, high) = points().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p[i]), h.max(p[i])));
        let low = if figure.logarithmic[i] { low } else { low.min(0.0) };
        (low + high) / 2.0
    };
    let at = [middle(0), middle(1)];
    let count =
        |right: bool, upper: bool| points().filter(|p| (p[0] > at[0]) == right && (p[1] > at[1]) == upper).count();
    let corners = [
        (count(true, false), SeriesLabelPosition::LowerRight),
        (count(false, true), SeriesLabelPosition::UpperLeft),
        (count(true, true), SeriesLabelPosition::UpperRight),
        (count(false, false), SeriesLabelPosition::LowerLeft),
    ];
    corners.into_iter().min_by_key(|(n, _)| *n).map_or(SeriesLabelPosition::LowerRight, |(_, corner)| corner)
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
        let root = SVGBackend::with_string(&mut svg, (760, 440)).into_drawing_area();
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
}
