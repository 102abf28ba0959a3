//! A topology for Graphviz and for Mermaid.

use super::topology::{State, label, name, state, utilization};
use control::results::graph::{Topology, TopologyLink, TopologyStation};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Colours that are seen on white and on black.
fn colour(state: State) -> &'static str {
    match state {
        State::Idle => "#808080",
        State::Active => "#2da44e",
        State::Dropping => "#bf8700",
        State::Down => "#e5534b",
    }
}

fn width(link: &TopologyLink) -> f64 {
    1.5 + 3.0 * utilization(link)
}

/// Text between quotation marks in DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// In the language of Graphviz.
pub(super) fn dot(topology: &Topology) -> String {
    let mut dot = "graph cellway {\n    graph [rankdir=LR, bgcolor=\"transparent\"];\n    \
                   node [fontname=\"sans-serif\", style=filled, fillcolor=\"white\"];\n    \
                   edge [fontname=\"sans-serif\", fontsize=10, fontcolor=\"#808080\"];\n"
        .to_owned();
    for station in &topology.stations {
        let shape = match station.kind.as_str() {
            "host" => "box",
            "outside" => "plaintext",
            _ => "box3d",
        };
        let border = if station.alarm { colour(State::Down) } else { "black" };
        // The kind is one of the words of the description's sections.
        let label = format!("{}\\n{}\"", quoted(&station.name).trim_end_matches('"'), station.kind);
        let _ = writeln!(dot, "    {} [shape={shape}, color=\"{border}\", label={label}];", quoted(&station.name));
    }
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| quoted(&end.station));
        let port = |end: usize| link.ends[end].port.map(|port| port.to_string()).unwrap_or_default();
        let state = state(link);
        let style = if state == State::Down { "dashed" } else { "solid" };
        let _ = writeln!(
            dot,
            "    {a} -- {b} [label={}, taillabel=\"{}\", headlabel=\"{}\", color=\"{}\", style={style}, penwidth={:.1}, \
             tooltip={}];",
            quoted(&label(link)),
            port(0),
            port(1),
            colour(state),
            width(link),
            quoted(&name(link)),
        );
    }
    dot + "}\n"
}

/// Text between quotation marks in Mermaid: its entities are written with a number sign.
fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '|' => out.push_str("#124;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// In the language of Mermaid.
pub(super) fn mermaid(topology: &Topology) -> String {
    let numbers: BTreeMap<&str, usize> =
        topology.stations.iter().map(|station| station.name.as_str()).zip(0..).collect();
    let mut text = "flowchart LR\n".to_owned();
    for (station, nth) in topology.stations.iter().zip(0..) {
        let TopologyStation { name, kind, alarm } = station;
        let label = format!("\"{}<br/>{}\"", entities(name), entities(kind));
        let shape = match kind.as_str() {
            "host" => format!("[{label}]"),
            "outside" => format!("({label})"),
            _ => format!("[[{label}]]"),
        };
        let _ = writeln!(text, "    n{nth}{shape}");
        if *alarm {
            let _ = writeln!(text, "    style n{nth} stroke:{},stroke-width:3px", colour(State::Down));
        }
    }
    let mut drawn = 0;
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| numbers.get(end.station.as_str()));
        let (Some(a), Some(b)) = (a, b) else { continue };
        let state = state(link);
        let line = if state == State::Down { "-.-" } else { "---" };
        let label = label(link);
        let label = if label.is_empty() { label } else { format!("|\"{}\"|", entities(&label)) };
        let _ = writeln!(text, "    n{a} {line}{label} n{b}");
        let _ = writeln!(text, "    linkStyle {drawn} stroke:{},stroke-width:{:.1}px", colour(state), width(link));
        drawn += 1;
    }
    text
}
