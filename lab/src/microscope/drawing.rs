//! A view as SVG: a lane for each unit, time from left to right, the PDU's events in colour, other work in grey.

use super::view::{Event, View};
use crate::model::recorder::Concern;
use std::fmt::Write;

const LEFT: f64 = 190.0;
const WIDTH: f64 = 860.0;
const LANE: f64 = 46.0;
const TOP: f64 = 64.0;
/// Pixels of a character, about.
const CHARACTER: f64 = 6.2;
/// After Okabe and Ito, as in all figures; one for each lane in turn.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#3a8fc4", "#785e28"];

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round step with five to ten of them in a range.
fn step(range: f64) -> f64 {
    let power = 10f64.powf((range.max(1e-3) / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| range / step <= 10.0).unwrap_or(10.0 * power)
}

struct Scale {
    begin: f64,
    pixels: f64,
}

impl Scale {
    fn x(&self, us: f64) -> f64 {
        LEFT + ((us - self.begin) * self.pixels).clamp(0.0, WIDTH)
    }
}

/// A bar with its words, where they fit; always with a title that shows when pointed at.
fn bar(svg: &mut String, scale: &Scale, event: &Event, y: f64, colour: &str, own: bool) {
    let (x, end) = (scale.x(event.from_us), scale.x(event.to_us));
    let width = (end - x).max(0.8);
    let (height, y) = if event.concern == Concern::Holds { (8.0, y + 32.0) } else { (20.0, y + 8.0) };
    let (from, to) = (event.from_us - scale.begin, event.to_us - scale.begin);
    let title = format!("{}: {:.2} to {:.2} us ({:.2} us)", event.what, from, to, to - from);
    let opacity = if event.concern == Concern::Holds { 0.55 } else { 1.0 };
    let _ = write!(
        svg,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\" opacity=\"{opacity}\"/>",
        escape(&title)
    );
    let fits = (width / CHARACTER) as usize;
    if own && event.concern == Concern::Works && fits > event.what.len() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#fff\" font-size=\"11\">{}</text>",
            x + 3.0,
            y + 14.0,
            escape(event.what)
        );
    }
    svg.push_str("</g>\n");
}

fn axis(svg: &mut String, scale: &Scale, range: f64, bottom: f64) {
    let step = step(range);
    let mut n = 0.0;
    while n * step <= range {
        let x = scale.x(scale.begin + n * step);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
            bottom + 16.0,
            (n * step * 1e3).round() / 1e3
        );
        n += 1.0;
    }
    let middle = LEFT + WIDTH / 2.0;
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">microseconds since the PDU's first event</text>",
        bottom + 34.0
    );
}

/// The picture.
pub fn svg(view: &View) -> String {
    let bottom = TOP + LANE * view.totals.len() as f64;
    let (width, height) = (LEFT + WIDTH + 30.0, bottom + 48.0);
    let begin = view.events.first().map_or(0.0, |event| event.from_us);
    let scale = Scale { begin, pixels: WIDTH / view.lasts_us.max(1e-3) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"13\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\">{}: {}</text>\n<text x=\"12\" y=\"44\" fill=\"#555\">PDU {} of {} takes {:.1} us. \
         Colour: this PDU. Grey: work for others. Thin: held by the unit.</text>\n",
        escape(view.experiment),
        escape(view.title),
        view.pdu,
        view.pdus,
        view.lasts_us
    );
    axis(&mut svg, &scale, view.lasts_us, bottom);
    for (n, total) in view.totals.iter().enumerate() {
        let (y, colour) = (TOP + LANE * n as f64, COLOURS[n % COLOURS.len()]);
        let _ = writeln!(
            svg,
            "<path d=\"M12 {y}H{:.0}\" stroke=\"#bbb\"/><text x=\"12\" y=\"{:.1}\">{}</text><text x=\"12\" y=\"{:.1}\" fill=\"#555\" font-size=\"11\">{:.1} us of work</text>",
            LEFT + WIDTH,
            y + 20.0,
            escape(&total.unit),
            y + 36.0,
            total.pdu_us
        );
        view.others.iter().filter(|e| e.unit == total.unit).for_each(|e| bar(&mut svg, &scale, e, y, "#cfd4da", false));
        view.events.iter().filter(|e| e.unit == total.unit).for_each(|e| bar(&mut svg, &scale, e, y, colour, true));
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn an_axis_has_five_to_ten_steps_whatever_its_length() {
        for range in [0.3, 1.0, 7.0, 49.9, 50.0, 1234.0, 99_999.0] {
            let steps = range / step(range);
            assert!((4.0..=10.0).contains(&steps), "{range}: {steps} steps");
        }
    }
}
