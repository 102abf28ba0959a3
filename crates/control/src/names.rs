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
