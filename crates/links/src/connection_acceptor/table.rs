//! Who waits, who is let in, and who must go where too many wait: decisions without a socket.
//!
//! Bounds: [`CANDIDATES`] for each listening link, [`ALL`] in all. Where one more comes, somebody must go: of the
//! address that has the most there, of those that have got least far ([`Rank`]), the oldest. So connections from one
//! address push out each other, and never the only one from another address.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Candidates of one link at most.
pub(super) const CANDIDATES: usize = 32;
/// Candidates of all links at most.
pub(super) const ALL: usize = 256;
/// A candidate that says nothing is let go after this time.
const SILENCE: Duration = Duration::from_secs(5);
/// A free seat goes to a candidate that has been silent for so long: one that comes and goes at once costs its link
/// nothing.
const QUIET: Duration = Duration::from_millis(100);
/// A TLS handshake takes this long at most.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// A candidate that is ready waits this long for the seat at most.
const WAIT: Duration = Duration::from_secs(30);
/// A connection that has been silent for so long makes room for another one from its address.
const STALE: Duration = Duration::from_secs(10);

/// Whose a connection is, as far as an address can tell: an IPv6 network hands out 64 bits of it.
pub(super) fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

/// How far a candidate has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It has said nothing that makes sense.
    Silent,
    /// Its handshake is under way.
    Begun,
    /// It may have the seat.
    Ready,
}

/// A connection that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Its number.
    pub(super) id: u64,
    /// The number of the link that it is for.
    pub(super) door: u64,
    pub(super) origin: IpAddr,
    pub(super) until: Instant,
    /// When it may have a free seat although it is silent; never with TLS.
    pub(super) quiet: Option<Instant>,
    pub(super) rank: Rank,
}

/// Who sits at a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occupant {
    pub(super) origin: IpAddr,
    /// Messages heard from it, and since when no other has come.
    pub(super) heard: u64,
    pub(super) since: Instant,
}

/// All candidates, oldest first.
#[derive(Debug, Default)]
pub(super) struct Table {
    candidates: Vec<Candidate>,
}

impl Table {
    /// One more; gives who must go for it.
    #[must_use]
    pub(super) fn insert(&mut self, id: u64, door: u64, origin: IpAddr, tls: bool, now: Instant) -> Option<u64> {
        let of_door = self.candidates.iter().filter(|c| c.door == door).count();
        let leaves = if of_door >= CANDIDATES {
            self.victim(Some(door))
        } else if self.candidates.len() >= ALL {
            self.victim(None)
        } else {
            None
        };
        if let Some(leaves) = leaves {
            self.remove(leaves);
        }
        let until = now + if tls { HANDSHAKE } else { SILENCE };
        self.candidates.push(Candidate {
            id,
            door,
            origin,
            until,
            quiet: (!tls).then_some(now + QUIET),
            rank: Rank::Silent,
        });
        leaves
    }

    fn victim(&self, door: Option<u64>) -> Option<u64> {
        let all = || self.candidates.iter().filter(|c| door.is_none_or(|door| c.door == door));
        let of_origin = |origin| all().filter(|c| c.origin == origin).count();
        // The first of equals: the oldest.
        let most = all().map(|c| of_origin(c.origin)).max()?;
        all().filter(|c| of_origin(c.origin) == most).min_by_key(|c| c.rank).map(|c| c.id)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.candidates.retain(|c| c.id != id);
    }

    /// It has got so far.
    pub(super) fn promote(&mut self, id: u64, rank: Rank, now: Instant) {
        if let Some(candidate) = self.candidates.iter_mut().find(|c| c.id == id && c.rank < rank) {
            candidate.rank = rank;
            if rank == Rank::Ready {
                candidate.until = now + WAIT;
            }
        }
    }

    /// Who is let in next at a link, if anybody.
    pub(super) fn next(&self, door: u64, tls: bool, occupant: Option<&Occupant>, now: Instant) -> Option<u64> {
        let mut here = self.candidates.iter().filter(|c| c.door == door);
        let is_ready = |c: &&Candidate| c.rank == Rank::Ready;
        match occupant {
            None => {
                let is_quiet = |c: &&Candidate| c.quiet.is_some_and(|at| at <= now);
                here.clone().find(is_ready).or_else(|| here.find(is_quiet)).map(|c| c.id)
            }
            // Who came in by TLS has proven who it is.
            Some(o) if o.heard == 0 && !tls => here.find(is_ready).map(|c| c.id),
            Some(o) if o.since + STALE <= now => here.find(|c| is_ready(c) && c.origin == o.origin).map(|c| c.id),
            Some(_) => None,
        }
    }

    /// Whose time is over.
    pub(super) fn overdue(&self, now: Instant) -> Option<u64> {
        self.candidates.iter().find(|c| c.until <= now).map(|c| c.id)
    }

    /// When to look again.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        let quiet = self.candidates.iter().filter_map(|c| c.quiet.filter(|at| *at > now));
        self.candidates.iter().map(|c| c.until).chain(quiet).min()
    }

    /// Whether anybody waits for a link.
    pub(super) fn waits_for(&self, door: u64) -> bool {
        self.candidates.iter().any(|c| c.door == door)
    }

    pub(super) fn of_door(&self, door: u64) -> Vec<u64> {
        self.candidates.iter().filter(|c| c.door == door).map(|c| c.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_flood_from_one_address_pushes_out_itself_and_nobody_else() {
        let (mut table, now) = (Table::default(), Instant::now());
        assert_eq!(table.insert(0, 7, address(1), false, now), None);
        for id in 1..1000 {
            let gone = table.insert(id, 7, address(2), false, now);
            assert_eq!(gone, (id >= CANDIDATES as u64).then(|| id - (CANDIDATES as u64 - 1)));
        }
        // The other's is still there, and is next once it has spoken.
        table.promote(0, Rank::Ready, now);
        assert_eq!(table.next(7, false, None, now), Some(0));
    }

    #[test]
    fn who_speaks_takes_the_place_of_who_does_not_and_of_no_other_and_who_is_silent_a_free_one_later() {
        let (mut table, now) = (Table::default(), Instant::now());
        let silent = Occupant { origin: address(1), heard: 0, since: now };
        let _ = table.insert(1, 7, address(2), false, now);
        assert_eq!(table.next(7, false, Some(&silent), now + QUIET), None);
        assert_eq!(table.next(7, false, None, now), None);
        assert_eq!(table.timeout(now), Some(now + QUIET));
        assert_eq!(table.next(7, false, None, now + QUIET), Some(1));
        assert_eq!(table.timeout(now + QUIET), Some(now + SILENCE));
        table.promote(1, Rank::Ready, now);
        assert_eq!(table.next(7, false, Some(&silent), now), Some(1));
        let speaks = Occupant { heard: 1, ..silent };
        let later = now + STALE;
        assert_eq!(table.next(7, false, Some(&speaks), later), None, "from another address");
        let same = Occupant { origin: address(2), ..speaks };
        assert_eq!((table.next(7, false, Some(&same), now), table.next(7, false, Some(&same), later)), (None, Some(1)));
        // Silence is no certificate.
        let _ = table.insert(2, 9, address(3), true, now);
        assert_eq!(table.next(9, true, None, later), None);
        // By TLS, both have shown their certificates.
        assert_eq!(table.next(7, true, Some(&silent), later), None);
        assert_eq!(table.next(8, false, None, now), None);
    }

    proptest! {
        #[test]
        fn bounds_hold_and_an_address_of_its_own_keeps_its_place(floods in proptest::collection::vec((0u64..12, 3u8..6, any::<bool>()), 1..600)) {
            let (mut table, now) = (Table::default(), Instant::now());
            let _ = table.insert(0, 5, address(1), false, now);
            for (id, (door, last, ready)) in (1..).zip(floods) {
                let gone = table.insert(id, door, address(last), true, now);
                prop_assert_ne!(gone, Some(0));
                if ready {
                    table.promote(id, Rank::Ready, now);
                }
                prop_assert!(table.candidates.len() <= ALL && table.of_door(door).len() <= CANDIDATES);
            }
            prop_assert!(table.waits_for(5));
        }
    }

    #[test]
    fn an_ipv6_network_is_one_origin_and_mapped_addresses_are_their_own() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
