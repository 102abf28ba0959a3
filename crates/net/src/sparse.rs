//! Counters of one circuit among very many: drops, of which most circuits have none, take memory from the first one on.

use wire::{Counters, DropReason};

/// What [`Counters`] says, in 32 octets until something is dropped. The first drop allocates, later ones do not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseCounters {
    /// Cells that passed.
    pub cells: u64,
    /// PDUs that passed whole.
    pub pdus: u64,
    /// Octets of SDU in those PDUs; of cell payload where only cells are seen.
    pub octets: u64,
    /// Of these only the drops count.
    drops: Option<Box<Counters>>,
}

const _: () = assert!(size_of::<SparseCounters>() == 32);

impl SparseCounters {
    /// Counts `n` drops, as [`Counters::drop_n`].
    pub fn drop_n(&mut self, reason: DropReason, n: u64) {
        if n > 0 {
            self.drops.get_or_insert_default().drop_n(reason, n);
        }
    }

    /// Counts one drop.
    pub fn drop_one(&mut self, reason: DropReason) {
        self.drop_n(reason, 1);
    }

    /// Counts cells, PDUs and octets that passed.
    #[inline]
    pub fn pass(&mut self, [cells, pdus, octets]: [u64; 3]) {
        self.cells = self.cells.wrapping_add(cells);
        self.pdus = self.pdus.wrapping_add(pdus);
        self.octets = self.octets.wrapping_add(octets);
    }

    /// Takes cells back that were counted as passed elsewhere, and were dropped after that.
    pub fn take_back(&mut self, cells: u64) {
        self.cells = self.cells.wrapping_sub(cells);
        self.octets = self.octets.wrapping_sub(cells.wrapping_mul(wire::cell::PAYLOAD_OCTETS as u64));
    }

    /// Adds the drops that `other` has counted.
    pub fn add_drops(&mut self, other: &Counters) {
        other.drops().for_each(|(reason, n)| self.drop_n(reason, n));
    }

    /// All of it.
    pub fn all(&self) -> Counters {
        let mut all = self.drops.as_deref().copied().unwrap_or_default();
        (all.cells, all.pdus, all.octets) = (self.cells, self.pdus, self.octets);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_what_counters_say() {
        let (mut sparse, mut dense) = (SparseCounters::default(), Counters::default());
        sparse.drop_n(DropReason::Closed, 0);
        assert!(sparse.drops.is_none() && sparse.all() == dense, "nothing was dropped yet");
        sparse.pass([7, 2, 90]);
        sparse.drop_one(DropReason::Crc);
        let mut more = Counters::default();
        more.drop_n(DropReason::NoBuffer, 3);
        sparse.add_drops(&more);
        (dense.cells, dense.pdus, dense.octets) = (7, 2, 90);
        dense.drop_one(DropReason::Crc);
        dense.drop_n(DropReason::NoBuffer, 3);
        assert_eq!(sparse.all(), dense);
    }
}
