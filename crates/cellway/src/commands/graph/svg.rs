//! A topology as SVG, in colours of a light page or a dark one.

use super::layout::{Place, places};
use super::topology::{State, label, name, state, utilization};
use crate::commands::top::picture::{escaped, fill, style_sheet};
use control::results::graph::{Topology, TopologyStation};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A box's height, and the height of a row.
const BOX: f64 = 42.0;
const ROW: f64 = 66.0;
/// Between two columns of boxes.
const GAP: f64 = 176.0;
/// Around everything, and below it for the legend.
const MARGIN: f64 = 20.0;
const LEGEND: f64 = 28.0;
/// Widths of characters of a name and of a label, at most.
const NAME_CHARACTER: f64 = 8.6;
const LABEL_CHARACTER: f64 = 6.8;
const LABEL_HEIGHT: f64 = 15.0;
/// Characters of a name that are shown.
const NAME: usize = 24;
/// Where on a line its label may stand, as shares of the line from its inner end.
const STANDS: [f64; 7] = [0.6, 0.5, 0.7, 0.4, 0.8, 0.3, 0.2];

/// Left, top, width, height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area(pub(super) [f64; 4]);

impl Area {
    /// Whether two have a point in common.
    pub(super) fn meets(&self, other: &Area) -> bool {
        let (Area([x, y, w, h]), Area([u, v, p, q])) = (self, other);
        x < &(u + p) && u < &(x + w) && y < &(v + q) && v < &(y + h)
    }
}

/// A curve from a point by another one to a third.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve(pub(super) [[f64; 2]; 3]);

impl Curve {
    /// The point at a share of it.
    pub(super) fn at(&self, t: f64) -> [f64; 2] {
        let Curve([a, b, c]) = self;
        [0, 1].map(|i| (1.0 - t) * (1.0 - t) * a[i] + 2.0 * t * (1.0 - t) * b[i] + t * t * c[i])
    }
}

/// Where everything is.
pub(super) struct Drawing {
    /// Of each station.
    pub(super) boxes: Vec<Area>,
    /// Of each link, as far as its stations are there, with its place in the list.
    pub(super) lines: Vec<(usize, Curve)>,
    /// Of each label, with its link's place.
    pub(super) labels: Vec<(usize, Area)>,
    size: [f64; 2],
}

/// The beginning of a long name.
fn shown(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['\u{2026}']).collect()
}

/// Finds places for everything.
pub(super) fn drawing(topology: &Topology) -> Drawing {
    let numbers: BTreeMap<&str, usize> =
        topology.stations.iter().map(|station| station.name.as_str()).zip(0..).collect();
    let links: Vec<(usize, [usize; 2])> = (topology.links.iter().enumerate())
        .filter_map(|(nth, link)| {
            let [a, b] = link.ends.each_ref().map(|end| numbers.get(end.station.as_str()).copied());
            Some((nth, [a?, b?]))
        })
        .collect();
    let ends: Vec<[usize; 2]> = links.iter().map(|(_, ends)| *ends).collect();
    let places = places(topology.stations.len(), &ends);
    let longest = topology.stations.iter().map(|station| shown(&station.name).chars().count()).max().unwrap_or(0);
    let wide = (longest as f64 * NAME_CHARACTER + 24.0).max(96.0);
    let area = |place: &Place| {
        Area([MARGIN + place.column as f64 * (wide + GAP), MARGIN + place.row * ROW + (ROW - BOX) / 2.0, wide, BOX])
    };
    let boxes: Vec<Area> = places.iter().map(area).collect();
    let lines = lines(&links, &places, &boxes);
    let labels = labels(topology, &lines, &boxes);
    let far = |i: usize| boxes.iter().map(|area| area.0[i] + area.0[i + 2]).fold(0.0, f64::max);
    // A line between stations of the last column bends out of it.
    let size = [far(0) + MARGIN + GAP / 2.0, far(1) + MARGIN + LEGEND];
    Drawing { boxes, lines, labels, size }
}

fn lines(links: &[(usize, [usize; 2])], places: &[Place], boxes: &[Area]) -> Vec<(usize, Curve)> {
    let mut alike: BTreeMap<[usize; 2], usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for (nth, [a, b]) in links {
        let before = alike.entry([*a.min(b), *a.max(b)]).or_default();
        // 0, 1, -1, 2, ...: parallel links lie beside each other.
        let aside = before.div_ceil(2) as f64 * if *before % 2 == 1 { 1.0 } else { -1.0 };
        *before += 1;
        let [one, two] = [boxes[*a].0, boxes[*b].0];
        let middle = |area: [f64; 4]| area[1] + area[3] / 2.0;
        let left_first = places[*a].column < places[*b].column;
        let curve = if places[*a].column == places[*b].column {
            let x = one[0] + one[2];
            let out = x + 48.0 + 22.0 * (*before as f64 - 1.0);
            [[x, middle(one)], [out, (middle(one) + middle(two)) / 2.0], [x, middle(two)]]
        } else {
            let [from, to] = if left_first { [one[0] + one[2], two[0]] } else { [one[0], two[0] + two[2]] };
            let (y, z) = (middle(one), middle(two));
            [[from, y], [(from + to) / 2.0, (y + z) / 2.0 + 34.0 * aside], [to, z]]
        };
        lines.push((*nth, Curve(curve)));
    }
    lines
}

/// A place for each label: on its line, where it covers neither a box nor another label if there is such a place.
fn labels(topology: &Topology, lines: &[(usize, Curve)], boxes: &[Area]) -> Vec<(usize, Area)> {
    let mut placed: Vec<(usize, Area)> = Vec::new();
    for (nth, curve) in lines {
        let text = label(&topology.links[*nth]);
        if text.is_empty() {
            continue;
        }
        let wide = text.chars().count() as f64 * LABEL_CHARACTER + 6.0;
        let at = |t: f64| {
            let [x, y] = curve.at(t);
            Area([x - wide / 2.0, y - LABEL_HEIGHT / 2.0, wide, LABEL_HEIGHT])
        };
        let is_free = |area: &Area| {
            !boxes.iter().any(|other| other.meets(area)) && !placed.iter().any(|(_, other)| other.meets(area))
        };
        let stands = STANDS.iter().chain(STANDS[1..].iter());
        let area = stands.map(|t| at(*t)).find(is_free).unwrap_or_else(|| at(0.5));
        placed.push((*nth, area));
    }
    placed
}

fn class(state: State) -> &'static str {
    match state {
        State::Idle => "dim",
        State::Active => "green",
        State::Dropping => "yellow",
        State::Down => "red",
    }
}

/// The style sheet: fills as in pictures of `top`, and the same colours for lines.
fn styles() -> String {
    style_sheet(|name, colour| format!("{}.l-{name}{{stroke:{colour};fill:none}}", fill(name, colour)))
}

/// The picture.
pub(super) fn svg(topology: &Topology) -> String {
    let drawing = drawing(topology);
    let [width, height] = drawing.size.map(f64::ceil);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui,sans-serif\" font-size=\"14\"><title>Topology of {} stations and {} \
         links</title><style>{}</style><rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        topology.stations.len(),
        topology.links.len(),
        styles()
    );
    for (nth, Curve([a, b, c])) in &drawing.lines {
        let link = &topology.links[*nth];
        let state = state(link);
        let dashes = if state == State::Down { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = writeln!(
            svg,
            "<path class=\"l-{}\" stroke-width=\"{:.1}\"{dashes} d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"><title>{}</title></path>",
            class(state),
            1.5 + 4.0 * utilization(link),
            a[0],
            a[1],
            b[0],
            b[1],
            c[0],
            c[1],
            escaped(&name(link))
        );
    }
    for (station, area) in topology.stations.iter().zip(&drawing.boxes) {
        station_box(&mut svg, station, area);
    }
    for (nth, Area([x, y, wide, high])) in &drawing.labels {
        let link = &topology.links[*nth];
        let class = if state(link) == State::Idle { "dim" } else { class(state(link)) };
        let _ = writeln!(
            svg,
            "<rect class=\"paper\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high}\"/>\
             <text class=\"{class}\" font-size=\"11\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + wide / 2.0,
            y + 11.0,
            escaped(&label(link))
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"dim\" font-size=\"11\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
        height - 12.0,
        match topology.seconds {
            Some(seconds) => format!("cells each second, from the first end and from the second, over {seconds:.1} s"),
            None => "rates of links as they are described".to_owned(),
        }
    );
    svg + "</svg>\n"
}

fn station_box(svg: &mut String, station: &TopologyStation, area: &Area) {
    let Area([x, y, wide, high]) = area;
    let border = if station.alarm { "red" } else { "ink" };
    let (round, line) = match station.kind.as_str() {
        "host" => (8, "stroke-width=\"1.2\""),
        "outside" => (8, "stroke-width=\"1.2\" stroke-dasharray=\"3 3\""),
        _ => (0, "stroke-width=\"2.4\""),
    };
    let middle = x + wide / 2.0;
    let _ = writeln!(
        svg,
        "<g><title>{} {}</title><rect class=\"paper\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high}\" \
         rx=\"{round}\"/><rect class=\"l-{border}\" {line} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" \
         height=\"{high}\" rx=\"{round}\"/><text class=\"ink\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{:.1}\">{}\
         </text><text class=\"dim\" font-size=\"11\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{:.1}\">{}{}</text></g>",
        escaped(&station.kind),
        escaped(&station.name),
        y + 19.0,
        escaped(&shown(&station.name)),
        y + 34.0,
        escaped(&station.kind),
        if station.alarm { ", alarm" } else { "" },
    );
}
