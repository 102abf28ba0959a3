//! What a relay carried: `relay`.

use crate::status::CounterStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A relay, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Relayed {
    /// Its links, link 0 first.
    pub links: Vec<RelayedLink>,
    /// What was recorded; `null` without `write` and `print`.
    pub recorded: Option<Recorded>,
}

/// A link of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelayedLink {
    /// Its number.
    pub link: usize,
    /// As it was written.
    pub what: String,
    /// How its far end is, in words; `null` for one that only listens in.
    pub state: Option<String>,
    /// Connections that it has had; `null` where it is no socket.
    pub connections: Option<u64>,
    /// What came from it; `null` for one that only listens in.
    pub from: Option<Frames>,
    /// What was sent to it; `null` for one that only listens in.
    pub to: Option<Frames>,
    /// Circuits that its peer has opened; `null` for one that only listens in.
    pub circuits: Option<usize>,
}

/// Frames, which are PDUs and control texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frames {
    /// Frames.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Those that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl From<&wire::Counters> for Frames {
    fn from(c: &wire::Counters) -> Self {
        let CounterStatus { pdus, octets, dropped, .. } = c.into();
        Frames { frames: pdus, octets, dropped }
    }
}

/// What a relay wrote to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// Records.
    pub records: u64,
    /// Frames that the recorder had no room for.
    pub missed: u64,
}
