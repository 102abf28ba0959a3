//! How links and circuits are written in output and found by name.

use net::topology::{CircuitDescription, LinkDescription};

/// A link as its description writes it.
pub fn written(link: &LinkDescription) -> String {
    format!("{} - {}", link.ends[0], link.ends[1])
}

/// A circuit's name in output: its ends.
pub fn circuit_name(c: &CircuitDescription) -> String {
    c.ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ")
}
