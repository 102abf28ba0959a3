//! `pseudowire` of a link: ATM over MPLS in UDP datagrams, to a router that speaks RFC 4717.

use super::word;
use crate::fault::Faults;
use links::udp::pseudowire::{Carries, Config};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use wire::CircuitId;
use wire::pseudowire::{MAX_LABEL, MIN_LABEL, PORT};

/// `pseudowire = { ... }` of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pseudowire {
    /// This end. MPLS in UDP has port 6635.
    pub local: SocketAddr,
    /// The far end.
    pub peer: SocketAddr,
    /// `cells`: cells of all circuits, many to a packet; `aal5`: SDUs of one circuit.
    #[serde(default = "cells")]
    pub mode: String,
    /// The label of what this end sends: the peer has chosen it. 16 to 1048575.
    pub label_out: u32,
    /// The label of what this end receives.
    pub label_in: u32,
    /// Whether packets have a control word, which numbers them. Those of `aal5` have one always.
    #[serde(default = "yes")]
    pub control_word: bool,
    /// With `aal5`: the link's circuit whose SDUs pass, such as `0.100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<String>,
}

fn cells() -> String {
    "cells".into()
}
fn yes() -> bool {
    true
}

impl Pseudowire {
    /// Whether whole SDUs pass.
    pub fn carries_frames(&self) -> bool {
        self.mode == "aal5"
    }

    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn config(&self) -> Result<Config, Faults> {
        let mut faults = Faults::default();
        let is_aal5 = word(&mut faults, "mode", &self.mode, &[("cells", false), ("aal5", true)]);
        for (key, label) in [("label_out", self.label_out), ("label_in", self.label_in)] {
            if !(MIN_LABEL..=MAX_LABEL).contains(&label) {
                faults.add(key, format!("{label} is out of bounds: a label is {MIN_LABEL} to {MAX_LABEL}"));
            }
        }
        if self.peer.port() != PORT {
            tracing::debug!("pseudowire to {}: routers listen at port {PORT} (RFC 7510)", self.peer);
        }
        let carries = match (is_aal5, &self.circuit) {
            (Some(true), Some(circuit)) => faults.take("circuit", circuit.parse::<CircuitId>()).map(Carries::Sdus),
            (Some(true), None) => {
                faults.add("circuit", "a pseudowire of `aal5` carries one circuit: name it, such as \"0.100\"");
                None
            }
            (Some(false), Some(_)) => {
                faults.add("circuit", "cells name their circuits themselves: leave `circuit` out");
                None
            }
            (Some(false), None) => Some(Carries::Cells),
            (None, _) => None,
        };
        if is_aal5 == Some(true) && !self.control_word {
            faults.add("control_word", "SDUs have a control word always (RFC 4717): leave this out");
        }
        let made = carries.map(|carries| Config {
            carries,
            label_out: self.label_out,
            label_in: self.label_in,
            control_word: self.control_word,
        });
        faults.or(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &str) -> Result<Config, String> {
        let text = format!("local = \"[::1]:6635\"\npeer = \"[::1]:6636\"\nlabel_out = 100\n{more}");
        let read: Pseudowire = toml::from_str(&text).map_err(|e| e.to_string())?;
        read.config().map_err(|faults| format!("{:#}", anyhow::Error::from(faults)))
    }

    #[test]
    fn a_pseudowire_carries_cells_or_the_sdus_of_one_circuit() {
        let config = read("label_in = 200").unwrap();
        let cells = Config { carries: Carries::Cells, label_out: 100, label_in: 200, control_word: true };
        assert_eq!(config, cells);
        let sdus = read("label_in = 200\nmode = \"aal5\"\ncircuit = \"0.100\"").unwrap();
        assert_eq!(sdus.carries, Carries::Sdus("0.100".parse().unwrap()));
        for (more, says) in [
            ("label_in = 15", "16 to 1048575"),
            ("label_in = 1048576", "16 to 1048575"),
            ("label_in = 200\nmode = \"aal5\"", "name it"),
            ("label_in = 200\ncircuit = \"0.100\"", "leave `circuit` out"),
            ("label_in = 200\nmode = \"aal1\"", "aal5"),
            ("label_in = 200\nmode = \"aal5\"\ncircuit = \"0.100\"\ncontrol_word = false", "always"),
        ] {
            let e = read(more).unwrap_err();
            assert!(e.contains(says), "{more}: {e}");
        }
    }
}
