//! The order of datagrams by their sequence numbers: what comes in order passes, what comes early waits a little for
//! what is missing, and what comes twice or too late is dropped. So cells leave in the order in which they were sent,
//! each once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;
use wire::Time;

/// Datagrams that wait for a missing one at most.
const HELD: u32 = 128;
/// How long they wait.
const PATIENCE: Duration = Duration::from_millis(2);
/// A number so far ahead is a gap; one farther away is of a peer that began anew.
const GAP: u32 = 1 << 16;
/// So many in a row of numbers that were passed longer ago than [`KNOWN`] show that the peer began anew.
const OLD_IN_A_ROW: u32 = 16;
/// So many numbers back are known to have come, or not.
const KNOWN: u32 = u128::BITS;

/// What to do with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatagramFate {
    /// It is the next.
    Next,
    /// It waits for those before it.
    Early,
    /// It came twice, or after it was given up, or may be of a peer that begins anew.
    Drop,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: Option<u32>,
    /// Which of the last 128 numbers have come: bit 0 is the one before `next`.
    seen: u128,
    /// What waits since when, by how far it was ahead of number 0 of `base`.
    held: BTreeMap<u32, (Time, Box<[u8]>)>,
    base: u32,
    /// What waited when the peer began anew, until [`Order::take_abandoned`].
    abandoned: BTreeMap<u32, (Time, Box<[u8]>)>,
    /// Until when the first of them wait for what is missing before them.
    until: Option<Time>,
    /// The number that would follow those that may be of a peer that began anew, and how many these are.
    anew: Option<(u32, u32)>,
    lost: u64,
    late: u64,
    twice: u64,
}

impl Order {
    /// Datagrams that have not come, as far as gaps show.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Datagrams that came after they had been given up.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Datagrams that came again.
    pub(super) fn twice(&self) -> u64 {
        self.twice
    }

    /// When what is missing has been waited for long enough: then [`Order::give_up`].
    pub(super) fn timeout(&self) -> Option<Time> {
        self.until.filter(|_| !self.has_next())
    }

    /// Whether more than may be held waits for what is missing: then [`Order::give_up`] at once.
    pub(super) fn is_full(&self) -> bool {
        let last = self.held.keys().next_back();
        !self.has_next() && last.zip(self.next).is_some_and(|(last, next)| last - self.key(next) > HELD)
    }

    fn has_next(&self) -> bool {
        self.next.is_some_and(|next| self.held.contains_key(&self.key(next)))
    }

    /// Where a datagram belongs. After [`DatagramFate::Next`], take what [`Order::pop`] gives; early ones are kept
    /// here.
    pub(super) fn note(&mut self, sequence: u32, datagram: &[u8], now: Time) -> DatagramFate {
        let Some(next) = self.next else {
            self.begin(sequence);
            return DatagramFate::Next;
        };
        let (ahead, behind) = (sequence.wrapping_sub(next), next.wrapping_sub(sequence));
        if ahead == 0 {
            self.anew = None;
            self.pass();
            DatagramFate::Next
        } else if ahead <= HELD {
            self.anew = None;
            self.hold(sequence, datagram, now);
            DatagramFate::Early
        } else if behind <= KNOWN {
            let bit = 1 << (behind - 1);
            if self.seen & bit == 0 {
                self.seen |= bit;
                self.lost = self.lost.saturating_sub(1);
                self.late += 1;
            } else {
                self.twice += 1;
            }
            DatagramFate::Drop
        } else if ahead < GAP {
            // What waits comes first, as far as it is there: [`Order::is_full`].
            self.hold(sequence, datagram, now);
            DatagramFate::Early
        } else {
            // Datagrams of long ago may come twice, a few in a row. A peer that begins anew seldom begins there.
            let enough = if behind < GAP { OLD_IN_A_ROW } else { 1 };
            let before = self.anew.filter(|(next, _)| *next == sequence).map_or(0, |(_, n)| n);
            if before < enough {
                self.anew = Some((sequence.wrapping_add(1), before + 1));
                self.twice += u64::from(behind < GAP);
                return DatagramFate::Drop;
            }
            self.begin_anew();
            self.begin(sequence);
            DatagramFate::Next
        }
    }

    /// The peer is known to have begun anew: its next datagram is the first, whatever its number is. What waited is
    /// abandoned ([`Order::take_abandoned`]).
    pub(super) fn begin_anew(&mut self) {
        self.abandoned.append(&mut self.held);
        (self.next, self.until, self.anew) = (None, None, None);
    }

    /// Datagrams of before the peer began anew, which will not pass any more; for who calls [`Order::note`].
    pub(super) fn take_abandoned(&mut self) -> impl Iterator<Item = Box<[u8]>> + use<> {
        std::mem::take(&mut self.abandoned).into_values().map(|(_, datagram)| datagram)
    }

    fn hold(&mut self, sequence: u32, datagram: &[u8], now: Time) {
        match self.held.entry(self.key(sequence)) {
            Entry::Occupied(_) => self.twice += 1,
            Entry::Vacant(place) => drop(place.insert((now, datagram.into()))),
        }
        self.until.get_or_insert(now + PATIENCE);
    }

    /// The next of those that waited, if its turn has come.
    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        let key = self.key(self.next?);
        let (_, datagram) = self.held.remove(&key)?;
        self.pass();
        if !self.has_next() {
            // Those that are left wait for something else, which any of them may have shown to be missing.
            self.until = self.held.values().map(|(at, _)| *at + PATIENCE).min();
        }
        Some(datagram)
    }

    /// Gives up what is missing before the first of those that wait; then [`Order::pop`] has them.
    pub(super) fn give_up(&mut self) {
        let Some((first, next)) = self.held.keys().next().copied().zip(self.next) else { return };
        let missing = first.wrapping_sub(self.key(next));
        self.lost += u64::from(missing);
        self.seen = self.seen.checked_shl(missing).unwrap_or(0);
        self.next = Some(next.wrapping_add(missing));
    }

    fn begin(&mut self, sequence: u32) {
        (self.next, self.seen, self.anew) = (Some(sequence.wrapping_add(1)), u128::MAX, None);
        // Keys grow from here and do not wrap while anything is held.
        self.base = sequence;
    }

    fn key(&self, sequence: u32) -> u32 {
        sequence.wrapping_sub(self.base)
    }

    fn pass(&mut self) {
        self.seen = self.seen << 1 | 1;
        self.next = self.next.map(|next| next.wrapping_add(1));
        if self.held.is_empty() {
            self.base = self.next.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What passes, in order, of numbers that come one after another; a pause at the end.
    fn passed(order: &mut Order, numbers: &[u32]) -> Vec<u32> {
        let mut out = Vec::new();
        let take = |order: &mut Order, out: &mut Vec<u32>| {
            while let Some(octets) = order.pop() {
                out.push(u32::from_be_bytes(octets[..].try_into().unwrap()));
            }
        };
        let mut now = Time::ZERO;
        for n in numbers {
            now += Duration::from_micros(1);
            if order.note(*n, &n.to_be_bytes(), now) == DatagramFate::Next {
                out.push(*n);
            }
            take(order, &mut out);
            while order.is_full() {
                order.give_up();
                take(order, &mut out);
            }
            assert!(order.held.len() <= HELD as usize);
        }
        while order.timeout().is_some() {
            order.give_up();
            take(order, &mut out);
        }
        out
    }

    fn of(numbers: &[u32]) -> (Vec<u32>, u64, u64, u64) {
        let mut order = Order::default();
        let out = passed(&mut order, numbers);
        (out, order.lost(), order.late(), order.twice())
    }

    #[test]
    fn what_comes_early_waits_and_what_comes_twice_is_dropped() {
        assert_eq!(of(&[7, 8, 9]), (vec![7, 8, 9], 0, 0, 0));
        assert_eq!(of(&[7, 9, 8, 10]), (vec![7, 8, 9, 10], 0, 0, 0));
        assert_eq!(of(&[7, 9, 9, 8, 8, 10]), (vec![7, 8, 9, 10], 0, 0, 2));
        assert_eq!(of(&[7, 12]), (vec![7, 12], 4, 0, 0));
        assert_eq!(of(&[u32::MAX, 1, 0]), (vec![u32::MAX, 0, 1], 0, 0, 0));
        // Before the first one that came.
        assert_eq!(of(&[7, 6]), (vec![7], 0, 0, 1));
        assert_eq!(of(&[7, 5000, 5001]), (vec![7, 5000, 5001], 4992, 0, 0));
    }

    #[test]
    fn each_gap_is_waited_for_by_itself() {
        let mut order = Order::default();
        let at = Time::from_micros;
        assert_eq!(order.note(7, &[7], at(0)), DatagramFate::Next);
        for (n, us) in [(9, 100), (12, 1500), (11, 1600)] {
            assert_eq!(order.note(n, &[n as u8], at(us)), DatagramFate::Early);
        }
        assert_eq!((order.timeout(), order.is_full()), (Some(at(2100)), false));
        order.give_up();
        assert_eq!((order.timeout(), order.pop().as_deref(), order.pop()), (None, Some(&[9][..]), None));
        // 10 is missing since 12 has come.
        assert_eq!(order.timeout(), Some(at(3500)));
        assert_eq!(order.note(10, &[10], at(2200)), DatagramFate::Next);
        assert_eq!(
            (order.pop().as_deref(), order.pop().as_deref(), order.lost()),
            (Some(&[11][..]), Some(&[12][..]), 1)
        );
        assert_eq!(order.timeout(), None);
    }

    #[test]
    fn a_full_window_gives_up_its_first_gap_only() {
        let mut order = Order::default();
        for n in [0].into_iter().chain(2..100).chain(101..=HELD) {
            order.note(n, &[0], Time::ZERO);
            assert!(!order.is_full());
        }
        order.note(HELD + 1, &[0], Time::ZERO);
        assert!(!order.is_full(), "{HELD} ahead");
        order.note(HELD + 2, &[0], Time::ZERO);
        assert!(order.is_full());
        order.give_up();
        assert_eq!(std::iter::from_fn(|| order.pop()).count(), 98);
        assert_eq!((order.is_full(), order.lost()), (false, 1));
        assert_eq!(order.note(100, &[0], Time::ZERO), DatagramFate::Next);
        assert_eq!(std::iter::from_fn(|| order.pop()).count(), 30);
    }

    #[test]
    fn what_comes_after_it_was_given_up_is_late_and_not_lost() {
        let mut order = Order::default();
        assert_eq!(passed(&mut order, &[7, 9]), [7, 9]);
        assert_eq!(order.lost(), 1);
        assert_eq!(passed(&mut order, &[8, 8, 10]), [10]);
        assert_eq!((order.lost(), order.late(), order.twice()), (0, 1, 1));
    }

    #[test]
    fn a_peer_that_begins_anew_costs_one_datagram_and_a_stray_one_costs_itself() {
        assert_eq!(of(&[1_000_000, 5, 6, 7]), (vec![1_000_000, 6, 7], 0, 0, 0));
        assert_eq!(of(&[1_000_000, 5, 1_000_001]), (vec![1_000_000, 1_000_001], 0, 0, 0));
        // Near what it had, more of them.
        let anew: Vec<u32> = [1_000_000].into_iter().chain(999_000..999_018).collect();
        assert_eq!(of(&anew), (vec![1_000_000, 999_016, 999_017], 0, 0, 16));
    }

    #[test]
    fn a_few_in_a_row_that_come_again_late_are_of_no_other_peer() {
        let numbers: Vec<u32> = (0..200).chain(20..35).chain(200..210).collect();
        assert_eq!(of(&numbers), ((0..210).collect(), 0, 0, 15));
    }

    proptest! {
        #[test]
        fn what_passes_is_in_order_and_once_and_near_disorder_costs_nothing(
            start: u32, swaps in proptest::collection::vec((0usize..200, 1usize..8, any::<bool>()), 0..60),
        ) {
            let mut numbers: Vec<u32> = (0..200).map(|n| start.wrapping_add(n)).collect();
            let sent = numbers.clone();
            let mut twice = Vec::new();
            for (at, by, again) in swaps {
                if again {
                    twice.push((at, numbers[at]));
                }
                if at > 0 && at + by < numbers.len() {
                    let number = numbers.remove(at);
                    // One that is behind by few.
                    if sent.iter().position(|n| *n == number).is_some_and(|home| home.abs_diff(at + by) < 16) {
                        numbers.insert(at + by, number);
                    } else {
                        numbers.insert(at, number);
                    }
                }
            }
            for (at, number) in twice {
                numbers.insert((at + 10).min(numbers.len()), number);
            }
            if numbers[0] == sent[0] {
                let (out, lost, late, _) = of(&numbers);
                prop_assert_eq!((out, lost, late), (sent, 0, 0));
            }
        }

        #[test]
        fn no_numbers_upset_it(numbers in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..200, (u32::MAX - 50)..], 0..300)) {
            let mut order = Order::default();
            passed(&mut order, &numbers);
            prop_assert!(order.held.is_empty());
        }
    }
}
