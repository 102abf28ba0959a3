//! Whether each packet that a host queued is accounted for.

use super::engine::Engine;
use super::{Fabric, PacketOutcome};
use wire::Counters;

/// What became of all packets of a fabric. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricSums {
    /// Packets that hosts have queued ([`Fabric::send`]).
    pub accepted: u64,
    /// Packets that arrived, and those that did not, by reason ([`Fabric::counters`]).
    pub counters: Counters,
    /// The same of mapping packets ([`Fabric::mapping_counters`]).
    pub mapping: Counters,
    /// Packets that stand in queues and slack buffers, or are on cables.
    pub held: u64,
}

impl FabricSums {
    /// Whether each packet that was accepted has arrived, was dropped for a reason, or is under way.
    pub fn add_up(&self) -> bool {
        let Self { accepted, counters, mapping, held } = self;
        let over = |counters: &Counters| counters.pdus.wrapping_add(counters.dropped_total());
        *accepted == over(counters).wrapping_add(over(mapping)).wrapping_add(*held)
    }

    /// With those of another fabric.
    pub fn add(&mut self, other: &FabricSums) {
        self.accepted = self.accepted.wrapping_add(other.accepted);
        self.counters.add(&other.counters);
        self.mapping.add(&other.mapping);
        self.held += other.held;
    }
}

impl Fabric {
    /// What became of all packets.
    pub fn sums(&self) -> FabricSums {
        let held = self.engine.packets.iter().filter(|packet| packet.references > 0 && !packet.delivered).count();
        let Engine { accepted, counters, mapping, .. } = self.engine;
        FabricSums { accepted, counters, mapping, held: held as u64 }
    }

    /// Packets that have arrived, and whose [`PacketOutcome::Arrived`] nobody has fetched yet.
    pub fn unfetched(&self) -> usize {
        let arrived = |(.., outcome): &&(_, _, PacketOutcome)| matches!(outcome, PacketOutcome::Arrived(_));
        self.engine.outcomes.iter().filter(arrived).count()
    }
}
