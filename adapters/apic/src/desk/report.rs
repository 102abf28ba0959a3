//! What a desk tells of itself.

use super::{Desk, Layout};
use crate::{Monitor, Port};
use core::time::Duration;
use wire::Counters;

/// A chip.
#[derive(Debug, Clone)]
pub struct ChipReport {
    /// Whether it has power.
    pub power: bool,
    /// Cells that came in at each port, and what was dropped before its output was known; in the order of
    /// [`Port::ALL`].
    pub received: [Counters; 3],
    /// Cells that left by each port, and what was dropped before that.
    pub sent: [Counters; 3],
    /// See there.
    pub monitor: Monitor,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it is made of.
    pub layout: Layout,
    /// Chips in their order.
    pub chips: Vec<ChipReport>,
    /// Circuits that pass it, one way each.
    pub routes: usize,
    /// Circuits that a change of the layout left without a way.
    pub lost_routes: u64,
    /// Cells that came in at ports of chips that a change of the layout replaced, and what was dropped before its output
    /// was known: what waited for that included.
    pub former_received: Counters,
    /// Cells that left by ports of those chips, and what was dropped before that: what waited for an output included.
    pub former_sent: Counters,
    /// How long its time has stood still, because the processor could not keep up.
    pub stood: Duration,
}

impl Desk {
    /// How it stands.
    pub fn report(&self) -> Report {
        let chip = |chip: &crate::Apic| ChipReport {
            power: chip.has_power(),
            received: Port::ALL.map(|port| *chip.received(port)),
            sent: Port::ALL.map(|port| *chip.sent(port)),
            monitor: chip.monitor(),
        };
        Report {
            layout: self.layout.clone(),
            chips: self.chips.iter().map(chip).collect(),
            routes: self.routes.len(),
            lost_routes: self.routes.lost(),
            former_received: self.former.received,
            former_sent: self.former.sent,
            stood: self.clock.stood(),
        }
    }
}
