//! Addresses whose station has gone: for [`SILENCE`] nobody else may claim one, so that whoever waits for a station to
//! fail, or makes it fail, does not get its packets and calls.
//!
//! In: addresses that an owner leaves, or takes up again. Out: whose an address still is. Each owner has room for so
//! many; beyond, and where all room is taken, the owner that has most loses its oldest.

use crate::shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Time;

/// How long an address stays with an owner that has gone: as long as an ATMARP server believes an entry (RFC 2225
/// section 8.4.1).
pub const SILENCE: Duration = Duration::from_secs(20 * 60);

/// Addresses `A` of owners `O`.
#[derive(Debug)]
pub struct Reservations<A, O> {
    entries: BTreeMap<A, (O, Time)>,
    /// When each ends.
    ends: BTreeSet<(Time, A)>,
    shares: Shares<O, (Time, A)>,
    max_of_owner: usize,
    max: usize,
}

impl<A: Ord + Copy, O: Ord + Copy> Reservations<A, O> {
    /// Room for so many addresses of an owner, and of all owners.
    pub fn new(max_of_owner: usize, max: usize) -> Self {
        Reservations { entries: BTreeMap::new(), ends: BTreeSet::new(), shares: Shares::default(), max_of_owner, max }
    }

    /// An owner has left an address.
    pub fn reserve(&mut self, address: A, owner: O, now: Time) {
        self.expire(now);
        self.take(address);
        let own = self.shares.count(owner) >= self.max_of_owner;
        let full = self.entries.len() >= self.max;
        let yields = if own { Some(owner) } else { full.then(|| self.shares.most()).flatten() };
        if let Some((_, oldest)) = yields.and_then(|yields| self.shares.entries(yields).next()) {
            self.take(oldest);
        }
        let end = now + SILENCE;
        self.entries.insert(address, (owner, end));
        self.ends.insert((end, address));
        self.shares.insert(owner, (end, address));
    }

    /// Whose an address still is, though its owner has gone.
    pub fn owner(&self, address: A, now: Time) -> Option<O> {
        self.entries.get(&address).filter(|(_, end)| now < *end).map(|(owner, _)| *owner)
    }

    /// Whether an address is still somebody else's.
    pub fn is_of_another(&self, address: A, owner: O, now: Time) -> bool {
        self.owner(address, now).is_some_and(|of| of != owner)
    }

    /// An address has an owner that is there, or is to be free.
    pub fn take(&mut self, address: A) -> Option<O> {
        let (owner, end) = self.entries.remove(&address)?;
        self.ends.remove(&(end, address));
        self.shares.remove(owner, (end, address));
        Some(owner)
    }

    /// Nothing is kept for an owner any more.
    pub fn forget(&mut self, owner: O) {
        for (end, address) in self.shares.forget(owner) {
            self.entries.remove(&address);
            self.ends.remove(&(end, address));
        }
    }

    /// Forgets what has ended.
    pub fn expire(&mut self, now: Time) {
        while let Some((_, address)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.take(address);
        }
    }

    /// When the next one ends.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Each address that still has an owner.
    pub fn iter(&self, now: Time) -> impl Iterator<Item = (A, O)> + '_ {
        self.entries.iter().filter(move |(_, (_, end))| now < *end).map(|(address, (owner, _))| (*address, *owner))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(s: u64) -> Time {
        Time::from_millis(s * 1000)
    }

    #[test]
    fn an_address_stays_with_who_has_left_it_for_twenty_minutes() {
        let mut kept = Reservations::new(4, 8);
        kept.reserve(7, 'a', seconds(10));
        assert!(kept.is_of_another(7, 'b', seconds(1209)) && !kept.is_of_another(7, 'a', seconds(1209)));
        assert!(!kept.is_of_another(7, 'b', seconds(1210)));
        kept.expire(seconds(1210));
        assert!(kept.is_empty() && kept.poll_timeout().is_none());
        kept.reserve(7, 'a', seconds(2000));
        assert_eq!(kept.take(7), Some('a'));
        assert!(!kept.is_of_another(7, 'b', seconds(2000)));
    }

    #[test]
    fn who_leaves_many_addresses_pushes_out_its_own() {
        let mut kept = Reservations::new(4, 6);
        kept.reserve(1, 'v', seconds(0));
        (10..30).for_each(|n| kept.reserve(n, 'e', seconds(1)));
        assert_eq!((kept.len(), kept.owner(1, seconds(2)), kept.owner(29, seconds(2))), (5, Some('v'), Some('e')));
        // All room is taken: who has most yields.
        kept.reserve(2, 'v', seconds(2));
        kept.reserve(3, 'w', seconds(2));
        assert_eq!([1, 2, 3].map(|n| kept.owner(n, seconds(2))), [Some('v'), Some('v'), Some('w')]);
        assert_eq!(kept.len(), 6);
        kept.forget('e');
        assert_eq!(kept.len(), 3);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_plain_list_keeps(
            steps in proptest::collection::vec((0u8..4, 0u8..12, 0u8..4, 0u64..400), 0..200)
        ) {
            let (mut kept, mut plain) = (Reservations::new(100, 100), BTreeMap::new());
            let mut now = Time::ZERO;
            for (what, address, owner, wait) in steps {
                now += Duration::from_secs(wait);
                match what {
                    0 => prop_assert_eq!(kept.take(address), plain.remove(&address).map(|(of, _)| of)),
                    1 => {
                        kept.forget(owner);
                        plain.retain(|_, (of, _)| *of != owner);
                    }
                    _ => {
                        kept.reserve(address, owner, now);
                        plain.insert(address, (owner, now + SILENCE));
                    }
                }
                kept.expire(now);
                plain.retain(|_, (_, end)| *end > now);
                for address in 0..12 {
                    prop_assert_eq!(kept.owner(address, now), plain.get(&address).map(|(of, _)| *of));
                }
                prop_assert_eq!((kept.len(), kept.ends.len()), (plain.len(), plain.len()));
            }
        }
    }
}
