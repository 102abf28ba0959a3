//! Topologies as pictures and text: nothing covers anything else, everything is well formed, and the same each time.

use super::layout::places;
use super::svg::{Area, drawing, svg};
use super::topology::{State, of_description, state};
use super::{Format, written};
use crate::kinds::kinds;
use control::results::graph::{Topology, TopologyEnd, TopologyLink, TopologyStation};
use proptest::prelude::*;

fn end(station: usize) -> TopologyEnd {
    TopologyEnd { station: format!("n{station}"), port: Some(0) }
}

fn topology(stations: usize, links: &[[usize; 2]]) -> Topology {
    let station = |n| TopologyStation { name: format!("n{n}"), kind: "switch".to_owned(), alarm: n == 1 };
    let link = |(nth, ends): (usize, &[usize; 2])| TopologyLink {
        ends: ends.map(end),
        up: nth % 4 != 3,
        rate_cells_per_s: Some(353_207.0),
        circuits: Some(1),
        cells_per_s: Some([12_345.0 * nth as f64, 0.0]),
        dropped_per_s: Some(if nth % 4 == 2 { 5.0 } else { 0.0 }),
    };
    Topology {
        seconds: Some(1.0),
        stations: (0..stations).map(station).collect(),
        links: links.iter().enumerate().map(link).collect(),
    }
}

fn two_hosts() -> Topology {
    topology(3, &[[0, 2], [1, 2]])
}

/// Every example of the project, and its name.
fn examples() -> Vec<(String, Topology)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let descriptions = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let read = |path: std::path::PathBuf| {
        let topology = of_description(&control::config::load(&kinds(), &path).unwrap());
        (path.file_name().unwrap().to_string_lossy().into_owned(), topology)
    };
    descriptions.map(read).collect()
}

#[test]
fn a_star_has_its_switch_in_the_middle() {
    let all = places(3, &[[0, 2], [1, 2]]);
    let mut columns = [0, 1, 2].map(|station| all[station].column);
    assert_eq!(columns[2], 1, "{all:?}");
    columns.sort_unstable();
    assert_eq!(columns, [0, 1, 2]);
    assert!(all.iter().all(|place| place.row == 0.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_two_stations_have_one_place_and_lines_join_neighbouring_columns(
        links in proptest::collection::vec([0..30_usize, 0..30_usize], 0..60)
    ) {
        let links: Vec<[usize; 2]> = links.into_iter().filter(|[a, b]| a != b).collect();
        let all = places(30, &links);
        for (nth, place) in all.iter().enumerate() {
            for other in &all[..nth] {
                prop_assert!(place.column != other.column || (place.row - other.row).abs() >= 1.0, "{all:?}");
            }
        }
        for [a, b] in &links {
            prop_assert!(all[*a].column.abs_diff(all[*b].column) <= 1, "{a} {b}: {all:?}");
        }
        prop_assert_eq!(&places(30, &links), &all);
    }

    #[test]
    fn no_line_passes_through_a_station_that_it_does_not_join(
        links in proptest::collection::vec([0..12_usize, 0..12_usize], 0..24)
    ) {
        let links: Vec<[usize; 2]> = links.into_iter().filter(|[a, b]| a != b).collect();
        let drawing = drawing(&topology(12, &links));
        for (nth, curve) in &drawing.lines {
            let points = (0..=100).map(|t| curve.at(f64::from(t) / 100.0)).map(|[x, y]| Area([x, y, 0.1, 0.1]));
            for point in points {
                let through = drawing.boxes.iter().enumerate().filter(|(_, area)| {
                    let Area([x, y, w, h]) = area;
                    Area([x + 1.0, y + 1.0, w - 2.0, h - 2.0]).meets(&point)
                });
                prop_assert_eq!(through.count(), 0, "link {} of {:?}", nth, links);
            }
        }
    }
}

#[test]
fn labels_of_the_examples_cover_neither_stations_nor_each_other() {
    let fat_tree: Vec<[usize; 2]> = (0..4).flat_map(|core| (4..12).map(move |edge| [core, edge])).collect();
    let star: Vec<[usize; 2]> = (1..40).map(|leaf| [0, leaf]).collect();
    let mut all = examples();
    all.push(("star".into(), topology(40, &star)));
    all.push(("two links side by side".into(), topology(3, &[[0, 1], [0, 1], [1, 2]])));
    assert!(all.len() > 6 && !fat_tree.is_empty());
    for (name, topology) in all {
        let drawing = drawing(&topology);
        let mut covered: Vec<&Area> = drawing.boxes.iter().collect();
        for (nth, area) in &drawing.labels {
            let other = covered.iter().find(|other| other.meets(area));
            assert!(other.is_none(), "{name}: the label of link {nth} at {area:?} meets {other:?}");
            covered.push(area);
        }
    }
}

#[test]
fn pictures_are_well_formed_with_every_station_and_the_same_each_time() {
    let mut hostile = two_hosts();
    hostile.stations[0].kind = "<&\">".to_owned();
    let mut all = examples();
    all.push(("hostile".into(), hostile));
    all.push(("nothing".into(), Topology::default()));
    for (name, topology) in all {
        let picture = svg(&topology);
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|e| panic!("{name}: {e}\n{picture}"));
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        for station in &topology.stations {
            assert!(texts.contains(&station.name.as_str()), "{name}: no {} in {texts:?}", station.name);
        }
        assert_eq!(svg(&topology), picture);
    }
}

#[test]
fn every_text_and_line_has_a_colour_of_its_own_on_a_dark_page() {
    let picture = svg(&topology(5, &[[0, 1], [1, 2], [2, 3], [3, 4]]));
    let (light, dark) = picture.split_once("@media(prefers-color-scheme:dark)").unwrap();
    let document = roxmltree::Document::parse(&picture).unwrap();
    let classes = document.descendants().filter_map(|node| node.attribute("class"));
    let mut seen = 0;
    for class in classes {
        let rule = format!(".{class}{{");
        assert!(light.contains(&rule) && dark.contains(&rule), "{class}");
        seen += 1;
    }
    assert!(seen > 20);
    let shapes = document.descendants().filter(|node| ["text", "path", "rect"].contains(&node.tag_name().name()));
    assert!(shapes.clone().count() > 20 && shapes.into_iter().all(|node| node.attribute("class").is_some()));
}

#[test]
fn the_state_of_a_link_is_what_it_carries_drops_or_that_it_is_down() {
    let topology = topology(5, &[[0, 1], [1, 2], [2, 3], [3, 4]]);
    let states: Vec<State> = topology.links.iter().map(state).collect();
    assert_eq!(states, [State::Idle, State::Active, State::Dropping, State::Down]);
    let picture = svg(&topology);
    for class in ["l-dim", "l-green", "l-yellow", "l-red"] {
        assert!(picture.contains(&format!("<path class=\"{class}\"")), "{class}");
    }
    assert!(picture.contains("stroke-dasharray=\"6 4\"") && picture.contains(">down<"));
}

#[test]
fn mermaid_and_dot_are_as_they_were() {
    let mut topology = two_hosts();
    topology.stations[0].kind = "host".to_owned();
    topology.links[1].up = false;
    let wanted = "flowchart LR\n    n0[\"n0<br/>host\"]\n    n1[[\"n1<br/>switch\"]]\n    style n1 stroke:#e5534b,stroke-width:3px\n    \
                  n2[[\"n2<br/>switch\"]]\n    n0 ---|\"0 #124; 0 cell/s\"| n2\n    linkStyle 0 stroke:#808080,stroke-width:1.5px\n    \
                  n1 -.-|\"down\"| n2\n    linkStyle 1 stroke:#e5534b,stroke-width:1.6px\n";
    assert_eq!(written(&topology, Format::Mermaid), wanted);
    let dot = written(&topology, Format::Dot);
    for line in [
        "\"n0\" [shape=box, color=\"black\", label=\"n0\\nhost\"];",
        "\"n1\" [shape=box3d, color=\"#e5534b\", label=\"n1\\nswitch\"];",
        "\"n1\" -- \"n2\" [label=\"down\", taillabel=\"0\", headlabel=\"0\", color=\"#e5534b\", style=dashed",
    ] {
        assert!(dot.contains(line), "{line} in\n{dot}");
    }
}
