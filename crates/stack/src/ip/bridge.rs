//! Which side an Ethernet address is at (IEEE 802.1Q clause 8.7): learnt from the senders of frames, forgotten after
//! five minutes, bounded, and with a share for each side. A frame costs the logarithm of the table at most. The same
//! table holds the IPv6 neighbours of an interface with several circuits ([`super::neighbours`]).
//!
//! An address belongs to the side that it was first heard from. Another gets it once that one has been silent for
//! [`SILENCE`], or by configuration: else whoever writes a station's address as his own would get what is for that
//! station.

use crate::shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Time;

const AGEING: Duration = Duration::from_secs(300);
/// An address whose station is not heard for so long may be another side's.
const SILENCE: Duration = Duration::from_secs(20);
/// An entry that was put in order within this time is not put in order again: frames of a stream cost one look-up.
const REFRESH: Duration = Duration::from_secs(1);
/// Addresses at most. Beyond that one is learnt only if another yields; else frames to it go to all.
const MAX_ENTRIES: usize = 4096;

/// Octets of an Ethernet address.
const OCTETS: usize = 6;

/// Where a station is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The device, or what is behind it.
    Device,
    Circuit(u32),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    side: Side,
    /// When it was heard last, and as it is in order.
    heard: Time,
    ordered: Time,
}

/// The table, of addresses `A`.
#[derive(Debug)]
pub(crate) struct Bridge<A = [u8; OCTETS]> {
    /// By configuration: these neither move nor age.
    fixed: BTreeMap<A, Side>,
    entries: BTreeMap<A, Entry>,
    /// All entries, first those not heard of for the longest time.
    order: BTreeSet<(Time, A)>,
    /// Those of each side, in the same order.
    shares: Shares<Side, (Time, A)>,
}

impl<A> Default for Bridge<A> {
    fn default() -> Self {
        Bridge { fixed: BTreeMap::new(), entries: BTreeMap::new(), order: BTreeSet::new(), shares: Shares::default() }
    }
}

impl Bridge {
    /// A frame has come from a side. False if its sender's address belongs to the device and it has come from
    /// elsewhere: what is behind the device would look for that station here.
    pub(crate) fn learn(&mut self, frame: &[u8], from: Side, now: Time) -> bool {
        let Some(source) = frame.get(OCTETS..).and_then(|f| f.first_chunk::<OCTETS>()) else { return true };
        // A group address is nobody's.
        source[0] & 1 == 1 || self.learn_address(source, from, now)
    }

    /// Where a frame's destination is; `None`: nobody knows.
    pub(crate) fn side(&self, frame: &[u8], now: Time) -> Option<Side> {
        self.side_of(frame.first_chunk::<OCTETS>()?, now)
    }
}

impl<A: Ord + Copy> Bridge<A> {
    /// An address is at a side, whatever frames say.
    pub(crate) fn fix(&mut self, address: A, side: Side) {
        self.remove(address);
        self.fixed.insert(address, side);
    }

    /// What has the address has been heard from a side. False if the address belongs to the device and that is another
    /// side.
    pub(crate) fn learn_address(&mut self, source: &A, from: Side, now: Time) -> bool {
        if let Some(side) = self.fixed.get(source) {
            return *side == from || *side != Side::Device;
        }
        if let Some(entry) = self.entries.get_mut(source) {
            if entry.side == from {
                entry.heard = now;
                if now < entry.ordered + REFRESH {
                    return true;
                }
            } else if now < entry.heard + SILENCE {
                return entry.side != Side::Device;
            }
            self.remove(*source);
        } else if self.entries.len() >= MAX_ENTRIES && !self.makes_room(from, now) {
            return true;
        }
        self.entries.insert(*source, Entry { side: from, heard: now, ordered: now });
        self.order.insert((now, *source));
        self.shares.insert(from, (now, *source));
        true
    }

    fn remove(&mut self, address: A) {
        if let Some(Entry { side, ordered, .. }) = self.entries.remove(&address) {
            self.order.remove(&(ordered, address));
            self.shares.remove(side, (ordered, address));
        }
    }

    /// In a full table the oldest entry ends for one of `side` if it has aged; else the oldest of the side that has
    /// most, if that are at least two more than its own. False if none does.
    fn makes_room(&mut self, side: Side, now: Time) -> bool {
        let aged = self.order.first().copied().filter(|(ordered, _)| *ordered + AGEING <= now);
        let share = || self.shares.who_yields(side).and_then(|most| self.shares.entries(most).next());
        let yields = aged.or_else(share);
        yields.map(|(_, address)| self.remove(address)).is_some()
    }

    /// Where an address is; `None`: nobody knows.
    pub(crate) fn side_of(&self, destination: &A, now: Time) -> Option<Side> {
        let learnt =
            || self.entries.get(destination).filter(|entry| entry.heard + AGEING > now).map(|entry| entry.side);
        self.fixed.get(destination).copied().or_else(learnt)
    }

    /// A circuit is gone.
    pub(crate) fn forget(&mut self, circuit: u32) {
        for (ordered, address) in self.shares.forget(Side::Circuit(circuit)) {
            self.entries.remove(&address);
            self.order.remove(&(ordered, address));
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

    fn learn_from(bridge: &mut Bridge, n: u32, side: Side, millis: u64) -> bool {
        let frame = [[0xff; OCTETS], address(n), [8, 0, 0, 0, 0, 0]].concat();
        bridge.learn(&frame, side, Time::from_millis(millis))
    }

    fn learn(bridge: &mut Bridge, n: u32, circuit: u32, seconds: u64) {
        learn_from(bridge, n, Side::Circuit(circuit), seconds * 1000);
    }

    fn leads(bridge: &Bridge, n: u32, seconds: u64) -> Option<u32> {
        match bridge.side(&address(n), Time::from_millis(seconds * 1000)) {
            Some(Side::Circuit(circuit)) => Some(circuit),
            Some(Side::Device) | None => None,
        }
    }

    #[test]
    fn an_address_moves_after_twenty_seconds_of_its_owners_silence_and_not_before() {
        let [one, two] = [1, 2].map(Side::Circuit);
        let at = |bridge: &Bridge, millis| bridge.side(&address(7), Time::from_millis(millis));
        let mut bridge = Bridge::default();
        assert!(learn_from(&mut bridge, 7, one, 0));
        // Each frame of its owner counts, those within a second of another too; those of who wants the address do not.
        assert!(learn_from(&mut bridge, 7, one, 900));
        for millis in (1000..20_900).step_by(100) {
            assert!(learn_from(&mut bridge, 7, two, millis), "the frame itself passes");
            assert_eq!(at(&bridge, millis), Some(one), "{millis} ms");
        }
        assert!(learn_from(&mut bridge, 7, two, 20_900));
        assert_eq!(at(&bridge, 20_900), Some(two));
        learn_from(&mut bridge, 7, one, 21_000);
        assert_eq!(at(&bridge, 21_000), Some(two), "whose it was waits as well");
        bridge.forget(2);
        learn_from(&mut bridge, 7, one, 21_000);
        assert_eq!(at(&bridge, 21_000), Some(one), "a circuit that is gone owns nothing");
        assert_eq!(bridge.shares.count(two), 0);
    }

    #[test]
    fn what_is_behind_the_device_is_held_against_circuits_and_the_other_way_round() {
        let mut bridge = Bridge::default();
        bridge.fix(address(1), Side::Device);
        assert!(learn_from(&mut bridge, 2, Side::Device, 0));
        assert!(!learn_from(&mut bridge, 1, Side::Circuit(3), 0), "the device's own, before it has said anything");
        assert!(!learn_from(&mut bridge, 2, Side::Circuit(3), 19_999));
        assert!(!learn_from(&mut bridge, 1, Side::Circuit(3), 1_000_000), "silence does not move what is fixed");
        assert_eq!([leads(&bridge, 1, 1000), leads(&bridge, 2, 19)], [None; 2]);
        assert!(learn_from(&mut bridge, 2, Side::Circuit(3), 20_000));
        assert!(learn_from(&mut bridge, 2, Side::Device, 30_000));
        assert_eq!(leads(&bridge, 2, 30), Some(3));
    }

    #[test]
    fn a_fixed_address_stays_with_its_circuit_whoever_had_it_and_however_full_the_table_is() {
        let mut bridge = Bridge::default();
        learn(&mut bridge, 7, 1, 0);
        bridge.fix(address(7), Side::Circuit(2));
        (100..10_000).for_each(|n| learn(&mut bridge, n, 1, 1));
        learn(&mut bridge, 7, 1, 1);
        assert_eq!([leads(&bridge, 7, 1), leads(&bridge, 7, 1000)], [Some(2); 2]);
        assert_eq!(bridge.shares.count(Side::Circuit(1)), MAX_ENTRIES);
    }

    #[test]
    fn a_group_address_is_nobodys() {
        let mut bridge = Bridge::default();
        for group in [[0xff; OCTETS], [1, 0, 0x5e, 0, 0, 1]] {
            let frame = [address(1), group, [8, 0, 0, 0, 0, 0]].concat();
            assert!(bridge.learn(&frame, Side::Circuit(1), Time::ZERO));
            assert_eq!(bridge.side(&group, Time::ZERO), None);
        }
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
        fn what_is_known_is_each_addresss_owner_and_the_shares_add_up(
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
                    let owns = plain.get(&n).is_none_or(|(on, heard)| *on == circuit || heard + 20 <= now);
                    if owns {
                        plain.insert(n, (circuit, now));
                    }
                }
                for n in 0..20 {
                    let known = plain.get(&n).filter(|(_, heard)| heard + 300 > now).map(|(on, _)| *on);
                    prop_assert_eq!(leads(&bridge, n, now), known);
                }
                let shares: usize = (0..4).map(|circuit| bridge.shares.count(Side::Circuit(circuit))).sum();
                prop_assert_eq!([shares, bridge.order.len()], [bridge.entries.len(); 2]);
            }
        }
    }
}
