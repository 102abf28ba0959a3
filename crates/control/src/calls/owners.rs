//! Which switch port's user has an address: by the description, or by registration. Selectors do not count. An address
//! that is no longer registered waits 20 minutes for the user of its port: whoever makes a user's ILMI fail does not get
//! the user's calls.

use stack::reservations::Reservations;
use std::collections::{BTreeMap, BTreeSet};
use wire::Time;
use wire::aesa::Aesa;

/// Addresses that wait for the user of one port, as many as ILMI lets a user register, and for all.
const MAX_KEPT_OF_PORT: usize = 64;
const MAX_KEPT: usize = 65_536;

/// Owners of addresses, by interface.
#[derive(Debug)]
pub(super) struct Owners {
    /// By the description. A user with several links has an address at several ports.
    configured: BTreeMap<Aesa, BTreeSet<usize>>,
    /// By ILMI: the first user to register an address has it.
    registered: BTreeMap<Aesa, usize>,
    /// Those that are no longer registered.
    kept: Reservations<Aesa, usize>,
}

impl Default for Owners {
    fn default() -> Self {
        let kept = Reservations::new(MAX_KEPT_OF_PORT, MAX_KEPT);
        Owners { configured: BTreeMap::new(), registered: BTreeMap::new(), kept }
    }
}

impl Owners {
    /// The description gives the address to a port. Gives the other port whose user had registered it, and has it no
    /// more.
    pub(super) fn configure(&mut self, at: usize, address: &Aesa) -> Option<usize> {
        let key = address.without_selector();
        self.configured.entry(key).or_default().insert(at);
        self.kept.take(key);
        self.registered.remove(&key).filter(|before| *before != at)
    }

    /// Whether only another port's user can have the address.
    pub(super) fn is_of_another(&self, at: usize, address: &Aesa, now: Time) -> bool {
        let key = address.without_selector();
        match (self.configured.get(&key), self.registered.get(&key)) {
            (Some(owners), _) => !owners.contains(&at),
            (None, Some(owner)) => *owner != at,
            (None, None) => self.kept.is_of_another(key, at, now),
        }
    }

    /// A user registers an address, or withdraws it. True if the port's addresses change: those of the description do
    /// not.
    pub(super) fn register(&mut self, at: usize, address: &Aesa, present: bool, now: Time) -> bool {
        let key = address.without_selector();
        if self.configured.contains_key(&key) || self.is_of_another(at, address, now) {
            return false;
        }
        if present {
            self.kept.take(key);
            self.registered.insert(key, at);
            return true;
        }
        let had = self.registered.remove(&key).is_some();
        if had {
            self.kept.reserve(key, at, now);
        }
        had
    }

    /// The port is gone.
    pub(super) fn forget(&mut self, at: usize) {
        self.registered.retain(|_, owner| *owner != at);
        self.kept.forget(at);
        self.configured.retain(|_, owners| {
            owners.remove(&at);
            !owners.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> Aesa {
        Aesa([n; 20])
    }

    fn seconds(s: u64) -> Time {
        Time::from_millis(s * 1000)
    }

    #[test]
    fn the_first_user_to_register_an_address_has_it_until_twenty_minutes_after_it_was_withdrawn() {
        let mut owners = Owners::default();
        let one = address(1);
        assert!(owners.register(1, &one, true, seconds(0)));
        assert!(owners.is_of_another(2, &one, seconds(0)) && !owners.is_of_another(1, &one, seconds(0)));
        let by_another = |owners: &mut Owners, at| [true, false].map(|present| owners.register(2, &one, present, at));
        assert_eq!(by_another(&mut owners, seconds(1)), [false; 2]);
        assert!(owners.register(1, &one, false, seconds(10)) && !owners.register(1, &one, false, seconds(10)));
        assert_eq!(by_another(&mut owners, seconds(1209)), [false; 2]);
        // Its user comes back, and goes again.
        assert!(owners.register(1, &one, true, seconds(1209)) && owners.register(1, &one, false, seconds(1300)));
        assert_eq!(by_another(&mut owners, seconds(2499)), [false; 2]);
        assert!(owners.register(2, &one, true, seconds(2500)));
        // A port that the description removes owns nothing, and waits for nobody.
        owners.forget(2);
        assert!(!owners.is_of_another(1, &one, seconds(2500)));
        assert!(owners.register(1, &one, true, seconds(2500)) && owners.register(1, &one, false, seconds(2500)));
        owners.forget(1);
        assert!(owners.register(2, &one, true, seconds(2500)));
    }

    #[test]
    fn a_user_who_registers_ever_other_addresses_keeps_its_own_number_of_them_and_no_other_users() {
        let mut owners = Owners::default();
        assert!(
            owners.register(1, &address(1), true, seconds(0)) && owners.register(1, &address(1), false, seconds(0))
        );
        for n in 0..=255 {
            let mut many = address(2);
            many.0[0] = n;
            assert!(owners.register(2, &many, true, seconds(1)) && owners.register(2, &many, false, seconds(1)));
        }
        assert_eq!(owners.kept.len(), 1 + MAX_KEPT_OF_PORT);
        assert!(owners.is_of_another(2, &address(1), seconds(2)));
    }

    #[test]
    fn the_description_comes_before_registration() {
        let (mut owners, now) = (Owners::default(), seconds(0));
        assert!(owners.register(1, &address(1), true, now));
        assert_eq!(owners.configure(2, &address(1)), Some(1));
        assert_eq!(owners.configure(3, &address(1)), None);
        assert!(owners.is_of_another(1, &address(1), now) && !owners.is_of_another(2, &address(1), now));
        // Registration of one's own changes nothing, so that withdrawal takes nothing.
        assert!(!owners.register(2, &address(1), true, now) && !owners.register(2, &address(1), false, now));
        owners.forget(2);
        assert!(owners.is_of_another(1, &address(1), now) && !owners.is_of_another(3, &address(1), now));
        owners.forget(3);
        assert!(owners.register(1, &address(1), true, now));
        // It comes before what waits for a user as well.
        assert!(owners.register(1, &address(1), false, now));
        assert_eq!(owners.configure(2, &address(1)), None);
        assert!(!owners.is_of_another(2, &address(1), now) && owners.is_of_another(1, &address(1), now));
    }
}
