//! How links and circuits are written in output and found by name.

use net::Carries;
use net::topology::LinkDescription;

/// A link as its description writes it.
pub fn written(link: &LinkDescription) -> String {
    format!("{} - {}", link.ends[0], link.ends[1])
}

/// What a link carries, as descriptions and output write it.
pub fn carries_name(carries: Carries) -> &'static str {
    match carries {
        Carries::Cells => "cells",
        Carries::Frames => "frames",
    }
}

/// Ends of a link or a circuit, as they are written, with another name of a station.
pub(crate) fn renamed_ends(ends: &str, from: &str, to: &str) -> String {
    let renamed = |end: &str| match end.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with([':', ' ']) => format!("{to}{rest}"),
        _ => end.to_owned(),
    };
    ends.split(" - ").map(renamed).collect::<Vec<_>>().join(" - ")
}
