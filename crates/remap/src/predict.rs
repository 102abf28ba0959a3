//! Heuristics of a circuit that several applications share (Almesberger 1995, sections 3.3 and 3.5): who the next PDU
//! is for, from the last ones; and whether PDUs so often have a trailer on two pages that they should come to memory in
//! a row.

use crate::layers::{Flow, Known, Layer, Sizes};
use std::collections::BTreeMap;

/// PDUs that a guess looks back at.
const LOOK_BACK: usize = 4;
/// Trailers that a strategy looks back at, ...
const TRAILERS: u32 = 16;
/// ... how many of them on two pages change it, ...
const SYSTEMATIC: u32 = 8;
/// ... and how many, at most, change it back.
const RARE: u32 = 1;
/// Applications whose sizes are remembered for a circuit.
const FLOWS: usize = 64;

/// How buffers for a circuit are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Single pages; a trailer that lies on two of them is repaired.
    #[default]
    Pages,
    /// Memory in a row, long enough for the longest PDU.
    Together,
}

/// What a circuit's last PDUs tell about its next one.
#[derive(Debug, Clone, Default)]
pub struct Predictor {
    /// The latest first; `None` was for nobody.
    recent: Vec<Option<Flow>>,
    known: BTreeMap<Flow, Known>,
    /// The last trailers, a bit each: on two pages.
    trailers: u32,
    seen: u32,
    strategy: Strategy,
}

impl Predictor {
    /// Who the next PDU is for: the most frequent among the last few, of two as frequent ones the later.
    pub fn expected(&self) -> Option<Flow> {
        let count = |flow: &Option<Flow>| self.recent.iter().filter(|other| *other == flow).count();
        // `max_by_key` gives the last of equals.
        self.recent.iter().rev().max_by_key(|flow| count(flow)).copied().flatten()
    }

    /// What stands before and behind the data of an application, as far as it is known.
    pub fn sizes(&self, flow: Flow) -> Sizes {
        self.known.get(&flow).map(Known::sizes).unwrap_or_default()
    }

    /// A PDU has been for an application, or for nobody.
    pub fn observe(&mut self, flow: Option<Flow>) {
        self.recent.insert(0, flow);
        self.recent.truncate(LOOK_BACK);
    }

    /// A layer of an application's PDU has been processed, the `depth`th from 0 on. What does not fit in any more is
    /// not remembered.
    pub fn tell(&mut self, flow: Flow, depth: usize, layer: Layer, sizes: Sizes) {
        if self.known.len() < FLOWS || self.known.contains_key(&flow) {
            self.known.entry(flow).or_default().tell(depth, layer, sizes);
        }
    }

    /// A PDU's trailer lies on two pages, or would, were they single ones. Gives a strategy if it changes now.
    pub fn observe_trailer(&mut self, on_two_pages: bool) -> Option<Strategy> {
        self.trailers = (self.trailers << 1 | u32::from(on_two_pages)) & ((1 << TRAILERS) - 1);
        self.seen = (self.seen + 1).min(TRAILERS);
        let two = self.trailers.count_ones();
        let wanted = match self.strategy {
            Strategy::Pages if two >= SYSTEMATIC => Strategy::Together,
            Strategy::Together if two <= RARE && self.seen == TRAILERS => Strategy::Pages,
            same => same,
        };
        (wanted != std::mem::replace(&mut self.strategy, wanted)).then_some(wanted)
    }

    /// How buffers are allocated now.
    pub const fn strategy(&self) -> Strategy {
        self.strategy
    }
}
