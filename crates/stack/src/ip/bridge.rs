//! Which circuit leads to which Ethernet address (IEEE 802.1Q clause 8.7): learnt from the senders of frames, forgotten after
//! five minutes, bounded, and with a share for each circuit. A frame costs the logarithm of the table at most.

use crate::shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Time;

const AGEING: Duration = Duration::from_secs(300);
/// An entry that was refreshed within this time is not refreshed again: frames of a stream cost one look-up.
const REFRESH: Duration = Duration::from_secs(1);
/// Addresses at most. Beyond that one is learnt only if another yields; else frames to it go to all.
const MAX_ENTRIES: usize = 4096;

/// Octets of an Ethernet address.
const OCTETS: usize = 6;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    entries: BTreeMap<[u8; OCTETS], (u32, Time)>,
    /// All entries, first those not heard of for the longest time.
    order: BTreeSet<(Time, [u8; OCTETS])>,
    /// Those of each circuit, in the same order.
    shares: Shares<u32, (Time, [u8; OCTETS])>,
}

impl Bridge {
    /// A frame has come on a circuit.
    pub(crate) fn learn(&mut self, frame: &[u8], circuit: u32, now: Time) {
        let Some(source) = frame.get(6..).and_then(|f| f.first_chunk::<OCTETS>()) else { return };
        // A group address is nobody's.
        if source[0] & 1 == 1 {
            return;
        }
        match self.entries.get(source).copied() {
            Some((on, heard)) if on == circuit && now < heard + REFRESH => return,
            Some(_) => self.remove(*source),
            None if self.entries.len() >= MAX_ENTRIES && !self.makes_room(circuit, now) => return,
            None => {}
        }
        self.entries.insert(*source, (circuit, now));
        self.order.insert((now, *source));
        self.shares.insert(circuit, (now, *source));
    }

    fn remove(&mut self, address: [u8; OCTETS]) {
        if let Some((circuit, heard)) = self.entries.remove(&address) {
            self.order.remove(&(heard, address));
            self.shares.remove(circuit, (heard, address));
        }
    }

    /// In a full table the oldest entry ends for one of `circuit` if it has aged; else the oldest of the circuit that has most,
    /// if that are at least two more than its own. False if none does.
    fn makes_room(&mut self, circuit: u32, now: Time) -> bool {
        let aged = self.order.first().copied().filter(|(heard, _)| *heard + AGEING <= now);
        let share = || self.shares.who_yields(circuit).and_then(|most| self.shares.entries(most).next());
        let yields = aged.or_else(share);
        yields.map(|(_, address)| self.remove(address)).is_some()
    }

    /// The circuit for a frame; `None`: all of them.
    pub(crate) fn circuit(&self, frame: &[u8], now: Time) -> Option<u32> {
        let destination = frame.first_chunk::<OCTETS>()?;
        let (circuit, heard) = self.entries.get(destination)?;
        (*heard + AGEING > now).then_some(*circuit)
    }

    /// A circuit is gone.
    pub(crate) fn forget(&mut self, circuit: u32) {
        for (heard, address) in self.shares.forget(circuit) {
            self.entries.remove(&address);
            self.order.remove(&(heard, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(n: u32) -> [u8; OCTETS] {
        let [a, b, c, d] = n.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    fn learn(bridge: &mut Bridge, n: u32, circuit: u32, seconds: u64) {
        let frame = [[0xff; OCTETS], address(n), [8, 0, 0, 0, 0, 0]].concat();
        bridge.learn(&frame, circuit, Time::from_millis(seconds * 1000));
    }

    fn leads(bridge: &Bridge, n: u32, seconds: u64) -> Option<u32> {
        bridge.circuit(&address(n), Time::from_millis(seconds * 1000))
    }

    #[test]
    fn a_circuit_that_fills_the_table_yields_its_oldest_entries_to_stations_of_others() {
        let mut bridge = Bridge::default();
        (0..10_000).for_each(|n| learn(&mut bridge, n, 1, u64::from(n) / 1000));
        assert_eq!((bridge.entries.len(), leads(&bridge, 9999, 10)), (MAX_ENTRIES, None), "its own stay");
        for n in 0..100 {
            learn(&mut bridge, 100_000 + n, 2, 10);
            learn(&mut bridge, 20_000 + n, 1, 10);
        }
        learn(&mut bridge, 200_000, 3, 11);
        assert!((0..100).all(|n| leads(&bridge, 100_000 + n, 11) == Some(2)));
        assert_eq!([leads(&bridge, 200_000, 11), leads(&bridge, 20_000, 11)], [Some(3), None]);
        assert_eq!([leads(&bridge, 100, 11), leads(&bridge, 101, 11)], [None, Some(1)], "the oldest ones went");
        // Who is heard of stays, and who has aged yields to everybody.
        learn(&mut bridge, 101, 1, 200);
        learn(&mut bridge, 300_000, 1, 305);
        assert_eq!([leads(&bridge, 101, 305), leads(&bridge, 300_000, 305)], [Some(1); 2]);
        bridge.forget(1);
        assert_eq!((bridge.entries.len(), leads(&bridge, 101, 305)), (101, None));
    }

    #[test]
    fn a_frame_costs_little_in_a_table_that_is_full() {
        let thread_time = || {
            let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
        };
        let mut bridge = Bridge::default();
        (0..MAX_ENTRIES as u32).for_each(|n| learn(&mut bridge, n, n % 3, 0));
        let begin = thread_time();
        // New addresses on all circuits, ever later, so that all age.
        (0..100_000).for_each(|n| learn(&mut bridge, 100_000 + n, n % 7, u64::from(n / 10)));
        let took = thread_time() - begin;
        assert!(took < Duration::from_millis(500), "{took:?}");
    }

    proptest! {
        #[test]
        fn what_is_known_is_the_last_circuit_of_each_address_and_the_shares_add_up(
            steps in proptest::collection::vec((0u32..20, 0u32..4, 0u64..100), 0..200)
        ) {
            let (mut bridge, mut plain, mut now) = (Bridge::default(), BTreeMap::new(), 0);
            for (n, circuit, wait) in steps {
                now += wait / 10;
                if wait == 99 {
                    bridge.forget(circuit);
                    plain.retain(|_, (on, _)| *on != circuit);
                } else {
                    learn(&mut bridge, n, circuit, now);
                    plain.insert(n, (circuit, now));
                }
                for n in 0..20 {
                    let known = plain.get(&n).filter(|(_, heard)| heard + 300 > now).map(|(on, _)| *on);
                    prop_assert_eq!(leads(&bridge, n, now), known);
                }
                let shares: usize = (0..4).map(|circuit| bridge.shares.count(circuit)).sum();
                prop_assert_eq!([shares, bridge.order.len()], [bridge.entries.len(); 2]);
            }
        }
    }
}
