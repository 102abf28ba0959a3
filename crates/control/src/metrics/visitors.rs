//! Who asks for metrics at a moment, and who must go where too many do: decisions without a socket.
//!
//! Where one more comes than there are places, somebody goes: of the address that has most, of those who get no answer
//! yet, the one who came first; if all get one, the one who has taken nothing of it for longest. So connections from
//! one address push out each other, and never the only one from another address, nor one that reads beside others that
//! do not.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Connections at once.
pub(super) const PLACES: usize = 64;
/// A request and its answer take no longer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Visitor {
    id: u64,
    origin: IpAddr,
    until: Instant,
    answered: bool,
    /// When it came, or last took something of its answer.
    moved: Instant,
}

/// All of them, those who came first before the others.
#[derive(Debug, Default)]
pub(super) struct Visitors(Vec<Visitor>);

/// Whose a connection is, as far as an address can tell: an IPv6 network hands out 64 bits of it.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

impl Visitors {
    /// One more; gives who must go for it.
    #[must_use]
    pub(super) fn insert(&mut self, id: u64, address: IpAddr, now: Instant) -> Option<u64> {
        let goes = if self.0.len() >= PLACES { self.last_in_rank() } else { None };
        if let Some(goes) = goes {
            self.remove(goes);
        }
        self.0.push(Visitor { id, origin: origin(address), until: now + PATIENCE, answered: false, moved: now });
        goes
    }

    fn last_in_rank(&self) -> Option<u64> {
        let of = |origin| self.0.iter().filter(|v| v.origin == origin).count();
        let most = self.0.iter().map(|v| of(v.origin)).max()?;
        self.0.iter().filter(|v| of(v.origin) == most).min_by_key(|v| (v.answered, v.moved)).map(|v| v.id)
    }

    /// It has asked and is being answered, and takes of it.
    pub(super) fn answer(&mut self, id: u64, now: Instant) {
        self.0.iter_mut().filter(|v| v.id == id).for_each(|v| (v.answered, v.moved) = (true, now));
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.0.retain(|v| v.id != id);
    }

    /// Whose time is over.
    pub(super) fn overdue(&self, now: Instant) -> Option<u64> {
        self.0.iter().find(|v| v.until <= now).map(|v| v.id)
    }

    /// When to look again.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.0.iter().map(|v| v.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn who_has_most_makes_room_and_of_those_who_has_not_asked_and_came_first() {
        let (mut visitors, now) = (Visitors::default(), Instant::now());
        assert_eq!(visitors.insert(0, address(1), now), None);
        for id in 1..PLACES as u64 {
            assert_eq!(visitors.insert(id, address(2), now), None);
        }
        visitors.answer(1, now);
        assert_eq!(
            visitors.insert(100, address(3), now),
            Some(2),
            "1 is being answered, 0 is the only one of its address"
        );
        assert_eq!(visitors.insert(101, address(2), now), Some(3));
        for id in 4..PLACES as u64 {
            visitors.answer(id, now);
        }
        visitors.answer(101, now);
        // Of those who are being answered, who has taken nothing for longest: not who came first.
        let later = now + Duration::from_millis(1);
        visitors.answer(1, later);
        assert_eq!(visitors.insert(102, address(1), later), Some(4), "all are being answered");
        assert_eq!(visitors.0.len(), PLACES);
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let (mut visitors, now) = (Visitors::default(), Instant::now());
        assert_eq!(visitors.insert(0, address(1), now), None);
        assert_eq!(visitors.insert(1, "::ffff:192.0.2.1".parse().unwrap(), now), None);
        for id in 2..PLACES as u64 {
            let host: IpAddr = format!("2001:db8::{id:x}").parse().unwrap();
            assert_eq!(visitors.insert(id, host, now), None);
        }
        assert_eq!(visitors.insert(100, address(9), now), Some(2));
        assert_eq!(visitors.0[0].origin, visitors.0[1].origin);
    }

    #[test]
    fn everybody_has_five_seconds() {
        let (mut visitors, now) = (Visitors::default(), Instant::now());
        assert_eq!((visitors.timeout(), visitors.overdue(now)), (None, None));
        assert_eq!(visitors.insert(7, address(1), now), None);
        visitors.answer(7, now);
        let end = now + PATIENCE;
        assert_eq!((visitors.timeout(), visitors.overdue(end - Duration::from_nanos(1))), (Some(end), None));
        assert_eq!(visitors.overdue(end), Some(7));
        visitors.remove(7);
        assert_eq!(visitors.overdue(end), None);
    }
}
