//! The figure of the demo's report: throughput over PDU size on logarithmic axes, as SVG. Its ink is the page's, light
//! or dark.

use control::results::demo::DemoThroughput;
use std::fmt::Write;

/// The whole, and the plot in it: from left, top to right, bottom.
const SIZE: [f64; 2] = [760.0, 380.0];
const PLOT: [f64; 4] = [70.0, 14.0, 744.0, 332.0];
/// Octets of a PDU, from and to.
const OCTETS: [f64; 2] = [60.0, 70_000.0];

/// From values to places: both ends, and where they lie.
struct Axis([f64; 2], [f64; 2]);

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let Axis([from, to], [begin, end]) = self;
        begin + (end - begin) * (value / from).ln() / (to / from).ln()
    }

    /// Its powers of ten.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let Axis([from, to], _) = *self;
        (from.log10().ceil() as i32..=to.log10().floor() as i32).map(|power| 10f64.powi(power))
    }
}

/// Throughput over PDU size, with memcpy's.
pub(super) fn throughput(rows: &[DemoThroughput]) -> String {
    let rates = || rows.iter().flat_map(|row| [row.gbit_s, row.memcpy_gbit_s]).filter(|rate| *rate > 0.0);
    let (top, bottom) = (rates().fold(1.0, f64::max) * 1.5, rates().fold(1.0, f64::min) / 2.0);
    let [left, upper, right, lower] = PLOT;
    let (x, y) = (Axis(OCTETS, [left, right]), Axis([bottom, top], [lower, upper]));
    let [width, height] = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-size=\"13\" fill=\"currentColor\" \
         role=\"img\"><title>Throughput over PDU size, beside memcpy</title><g stroke=\"currentColor\" stroke-opacity=\".2\">"
    );
    for octets in x.decades() {
        let _ = write!(svg, "<path d=\"M{0:.1} {upper}V{lower}\"/>", x.at(octets));
    }
    for rate in y.decades() {
        let _ = write!(svg, "<path d=\"M{left} {0:.1}H{right}\"/>", y.at(rate));
    }
    let _ = write!(svg, "<path d=\"M{left} {upper}V{lower}H{right}\" fill=\"none\" stroke-opacity=\"1\"/></g>");
    for octets in x.decades() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{octets}</text>",
            x.at(octets),
            lower + 18.0
        );
    }
    for rate in y.decades() {
        let _ =
            write!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{rate}</text>", left - 6.0, y.at(rate) + 4.0);
    }
    let (middle, end) = ((left + right) / 2.0, height - 8.0);
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{end}\" text-anchor=\"middle\">octets of a PDU</text>\
         <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">Gbit/s</text>",
        (upper + lower) / 2.0
    );
    let here = curve(rows, &x, &y, |row| row.gbit_s);
    let limit = curve(rows, &x, &y, |row| row.memcpy_gbit_s);
    let _ = write!(svg, "<g opacity=\".55\">{limit}</g><g color=\"#2f8fbd\">{here}</g>");
    for (line, (opacity, colour, label)) in
        [("1", "#2f8fbd", "application to application"), (".55", "currentColor", "memcpy, one core")].iter().enumerate()
    {
        let at = lower - 44.0 + 20.0 * line as f64;
        let _ = write!(
            svg,
            "<path d=\"M{} {at}h18\" stroke=\"{colour}\" stroke-width=\"2\" opacity=\"{opacity}\"/><text x=\"{}\" y=\"{}\">{label}</text>",
            right - 204.0,
            right - 180.0,
            at + 4.0
        );
    }
    svg + "</svg>"
}

/// A line with a dot at each row that has a rate.
fn curve(rows: &[DemoThroughput], x: &Axis, y: &Axis, of: fn(&DemoThroughput) -> f64) -> String {
    let points: Vec<[f64; 2]> =
        rows.iter().filter(|row| of(row) > 0.0).map(|row| [x.at(row.pdu_octets as f64), y.at(of(row))]).collect();
    let line: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let line = line.join(" ");
    let mut svg = format!("<polyline points=\"{line}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>");
    for [x, y] in points {
        let _ = write!(svg, "<circle fill=\"currentColor\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_with_a_rate_is_a_dot_within_the_plot_and_a_row_without_is_none() {
        let row = |pdu_octets, gbit_s| DemoThroughput {
            pdu_octets,
            gbit_s,
            memcpy_gbit_s: 100.0,
            vs_memcpy: gbit_s / 100.0,
            sent: 1,
            arrived: 1,
            in_place: 1,
        };
        let svg = throughput(&[row(64, 1.0), row(1500, 0.0), row(65_535, 40.0)]);
        assert_eq!(svg.matches("<circle").count(), 5);
        for at in svg.split("<circle").skip(1) {
            let number = |key: &str| at.split(key).nth(1)?.split('"').next()?.parse::<f64>().ok();
            let (x, y) = (number("cx=\"").unwrap(), number("cy=\"").unwrap());
            assert!((PLOT[0]..=PLOT[2]).contains(&x) && (PLOT[1]..=PLOT[3]).contains(&y), "{x} {y}");
        }
        // More octets lie to the right, a greater rate lies higher.
        let (x, y) = (Axis(OCTETS, [70.0, 744.0]), Axis([0.5, 150.0], [332.0, 14.0]));
        assert!(x.at(64.0) < x.at(1500.0) && y.at(1.0) > y.at(100.0));
        assert!(throughput(&[]).ends_with("</svg>"));
    }
}
