//! A channel's ring of descriptors: its place is the service's choice, its content the process's.

use super::grant::DESCRIPTOR_OCTETS;

/// Where a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Its first descriptor on the bus.
    pub address: u64,
    /// Descriptors: a power of two, at most 4096.
    pub entries: u32,
}

/// How far the two sides are. Indices count without end and wrap after 2^32.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingState {
    ring: Ring,
    produced: u32,
    fetched: u32,
    completed: u32,
}

impl RingState {
    pub(super) fn new(ring: Ring) -> Option<Self> {
        let good = ring.entries.is_power_of_two() && ring.entries <= 4096;
        let end = ring.address.checked_add(u64::from(ring.entries) * DESCRIPTOR_OCTETS);
        (good && end.is_some()).then_some(RingState { ring, produced: 0, fetched: 0, completed: 0 })
    }

    /// The process says how many descriptors it has written, ever. False: not a number that is possible.
    pub(super) fn produce(&mut self, produced: u32) -> bool {
        let waiting = produced.wrapping_sub(self.completed);
        let possible = waiting <= self.ring.entries && waiting >= self.produced.wrapping_sub(self.completed);
        if possible {
            self.produced = produced;
        }
        possible
    }

    /// The next descriptor to read, as its index.
    pub(super) fn next(&self) -> Option<u32> {
        (self.produced != self.fetched).then_some(self.fetched)
    }

    pub(super) fn advance(&mut self) {
        self.fetched = self.fetched.wrapping_add(1);
    }

    /// One more descriptor has its status.
    pub(super) fn complete(&mut self) {
        self.completed = self.completed.wrapping_add(1);
    }

    pub(super) fn completed(&self) -> u32 {
        self.completed
    }

    /// Where a descriptor is.
    pub(super) fn address(&self, index: u32) -> u64 {
        self.ring.address + u64::from(index & (self.ring.entries - 1)) * DESCRIPTOR_OCTETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_produce_more_than_the_ring_has_nor_take_back() {
        let mut state = RingState::new(Ring { address: 0x1000, entries: 4 }).unwrap();
        assert!(!state.produce(5) && !state.produce(u32::MAX) && state.next().is_none());
        assert!(state.produce(4) && !state.produce(3));
        let mut seen = Vec::new();
        while let Some(index) = state.next() {
            seen.push(state.address(index));
            state.advance();
        }
        assert_eq!(seen, [0x1000, 0x1010, 0x1020, 0x1030]);
        assert!(!state.produce(5));
        state.complete();
        assert!(state.produce(5) && !state.produce(6));
        for bad in [0, 3, 8192, u32::MAX] {
            assert!(RingState::new(Ring { address: 0, entries: bad }).is_none());
        }
        assert!(RingState::new(Ring { address: u64::MAX - 15, entries: 1 }).is_none());
    }
}
