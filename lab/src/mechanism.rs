//! Off switches: a mechanism that a model can run without, so that a row shows whether the mechanism decides it.
//!
//! A switch replaces machines' constants ([`Mechanism::neutral`]), or an experiment asks [`crate::experiment::Run::on`] where
//! it builds its model.

use serde::{Deserialize, Serialize};

/// What can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Single copy by pages: without it, every octet is copied.
    PageMapping,
    /// Copying into and out of the kernel: without it, pages are locked and mapped.
    Copying,
    /// What IP, UDP and TCP cost for a packet and for the octets that they sum.
    Internet,
    /// Cut-through switching: without it, each switch stores a packet whole.
    CutThrough,
    /// Repeated unicast: without it, a group's message goes around the cycle.
    Repetition,
    /// A transfer of its own for what exceeds one buffer.
    SecondBuffer,
}

const IP_COSTS: &[(&str, f64)] = &[("ip_send_us", 0.0), ("ip_receive_us", 0.0), ("checksum_mb_s", 1e9)];

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 6] = [
        Mechanism::PageMapping,
        Mechanism::Copying,
        Mechanism::Internet,
        Mechanism::CutThrough,
        Mechanism::Repetition,
        Mechanism::SecondBuffer,
    ];

    /// As reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::PageMapping => "page mapping",
            Mechanism::Copying => "copying",
            Mechanism::Internet => "costs of IP",
            Mechanism::CutThrough => "cut-through switching",
            Mechanism::Repetition => "repeated unicast",
            Mechanism::SecondBuffer => "second buffer",
        }
    }

    /// Constants that take these values, on every machine that has them, while the mechanism is off.
    pub const fn neutral(self) -> &'static [(&'static str, f64)] {
        match self {
            Mechanism::Internet => IP_COSTS,
            Mechanism::SecondBuffer => &[("second_buffer_us", 0.0)],
            _ => &[],
        }
    }
}
