//! What a switch tells about its circuits and ports.

use crate::circuit::{Circuit, flag};
use crate::contracts::{Measured, Tally};
use crate::port::PortCounters;
use crate::{Profile, Switch};
use wire::{Label, Time};

/// What was counted of one circuit, or of one leaf. Counters wrap after 2^64 cells, `excess` after 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitCounters {
    /// Cells that came in for it.
    pub received: u64,
    /// Cells dropped, for whatever reason; its port tells reasons apart.
    pub dropped: u64,
    /// Cells that wait in its queue.
    pub queued: u16,
    /// Cells beyond its contract, tagged or dropped. Those that were dropped count in `dropped` too.
    pub excess: u32,
    /// Of those dropped: by policing.
    pub policed: u64,
    /// Of those dropped: with whole PDUs (EPD), or as the rest of a PDU that had lost a cell (PPD).
    pub early: u64,
    /// Nanoseconds by which a shaped cell left after it was due, at most: the variation of delay that this switch has
    /// added, up to four seconds.
    pub late_nanos: u64,
    /// Cells of a shaped circuit that left when they were due, in 1000 s: measured over a second and what the next cell
    /// took to come.
    pub cells_per_1000_s: u64,
}

impl CircuitCounters {
    fn of(circuit: &Circuit, contract: Option<(Tally, Measured)>, now: Time) -> Self {
        let Circuit { received, dropped, queued, excess, .. } = *circuit;
        let plain = circuit.flags & (flag::POLICED | flag::ROOT | flag::MANAGED) == 0;
        let without = Tally { early: if plain { circuit.times[0] } else { 0 }, ..Tally::default() };
        let (Tally { policed, early }, measured) = contract.unwrap_or((without, Measured::default()));
        let (late_nanos, rate) = (measured.late_nanos(), measured.rate_at(now));
        // At the root of a point-to-multipoint circuit only policing drops.
        let policed = if circuit.is(flag::ROOT) { dropped } else { policed };
        CircuitCounters { received, dropped, queued, excess, policed, early, late_nanos, cells_per_1000_s: rate }
    }

    /// Cells that were sent on with CLP 1 for being beyond the contract. Wraps after 2^32.
    pub const fn tagged(&self) -> u32 {
        self.excess.wrapping_sub(self.policed as u32)
    }

    /// Cells within the contract.
    pub const fn conformed(&self) -> u64 {
        self.received.wrapping_sub(self.policed).wrapping_sub(self.tagged() as u64)
    }

    /// Cells dropped for want of room in a queue.
    pub const fn overflowed(&self) -> u64 {
        self.dropped.wrapping_sub(self.policed).wrapping_sub(self.early)
    }

    /// Cells that were sent.
    pub const fn sent(&self) -> u64 {
        self.received.wrapping_sub(self.dropped).wrapping_sub(self.queued as u64)
    }
}

/// Where a route goes: its only branch, or one leaf of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchInfo {
    /// Port and label that it leaves by.
    pub to: (u16, Label),
    /// What was counted of it. Of the only branch of a route this is what was counted of the route.
    pub counters: CircuitCounters,
    /// What it has in common with others.
    pub profile: Profile,
    /// Cells of the route that did not come to it: those before it was added, the rest of the PDU in which it was, and
    /// those that policing dropped before all branches.
    pub missed: u64,
}

/// A route of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// Port and label that it comes in by.
    pub from: (u16, Label),
    /// What was counted where it comes in.
    pub counters: CircuitCounters,
    /// Its branches, in the order in which they were added.
    pub branches: Vec<BranchInfo>,
}

impl RouteInfo {
    /// A branch for which not every cell of the route is accounted for: as sent, dropped or waiting there, or missed.
    pub fn mismatch(&self) -> Option<&BranchInfo> {
        self.branches.iter().find(|branch| {
            let of = &branch.counters;
            let went = [of.sent(), of.dropped, of.queued.into(), branch.missed];
            went.into_iter().fold(0, u64::wrapping_add) != self.counters.received
        })
    }
}

impl Switch {
    /// Circuits in use: one for each route, and one more for each leaf of a point-to-multipoint route.
    pub fn circuits(&self) -> usize {
        self.plane.in_use
    }

    /// Cells queued at all ports.
    pub fn queued(&self) -> usize {
        self.plane.store.len()
    }

    /// Cells queued at one port.
    pub fn queued_at(&self, port: u16) -> usize {
        self.plane
            .ports
            .get(usize::from(port))
            .map_or(0, |port| (port.used + port.held + port.management.waiting()) as usize)
    }

    /// Most cells that can be queued at all ports.
    pub fn store_cells(&self) -> usize {
        self.plane.store.capacity()
    }

    /// What was counted at one port.
    pub fn port_counters(&self, port: u16) -> PortCounters {
        self.plane.ports.get(usize::from(port)).map(|port| port.counters).unwrap_or_default()
    }

    /// How many cells were for one port and were dropped: what changes less often than [`Switch::port_counters`] and
    /// costs less to ask for.
    pub fn dropped_at(&self, port: u16) -> u64 {
        self.plane.ports.get(usize::from(port)).map_or(0, |port| port.counters.sent.dropped_total())
    }

    /// The route of this label at this port, if there is one.
    pub fn route(&self, from: (u16, Label)) -> Option<RouteInfo> {
        let id = (from.0 < self.config.ports).then(|| self.index.get(from.0.into(), from.1))?;
        (id != 0).then(|| self.route_info(from, id))
    }

    /// All routes of one port, by ascending VPI, a path before its channels.
    pub fn routes(&self, port: u16) -> impl Iterator<Item = RouteInfo> + '_ {
        let known = (port < self.config.ports).then_some(port);
        known.into_iter().flat_map(move |port| {
            self.index.labels(port.into()).map(move |(label, id)| self.route_info((port, label), id))
        })
    }

    fn route_info(&self, from: (u16, Label), id: u32) -> RouteInfo {
        let circuit = &self.plane.circuits[id as usize];
        let policed = if circuit.is(flag::ROOT) { circuit.dropped } else { 0 };
        let branch = |id: u32| {
            let circuit = &self.plane.circuits[id as usize];
            let profile = *self.plane.profiles.get(circuit.profile);
            let missed = self.plane.missed.get(&id).copied().unwrap_or_default().wrapping_add(policed);
            BranchInfo { to: (circuit.port, circuit.out_label()), counters: self.counters_of(id), profile, missed }
        };
        let branches = match circuit.is(flag::ROOT) {
            true => self.plane.roots[circuit.side as usize].iter().map(|leaf| branch(*leaf)).collect(),
            false => vec![branch(id)],
        };
        RouteInfo { from, counters: self.counters_of(id), branches }
    }

    fn counters_of(&self, id: u32) -> CircuitCounters {
        let contract = self.plane.contract_of(id).map(|side| self.plane.contracts.counted(side));
        CircuitCounters::of(&self.plane.circuits[id as usize], contract, self.plane.now)
    }
}
