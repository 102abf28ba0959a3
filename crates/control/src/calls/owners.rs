//! Which switch port's user has an address: by the description, or by registration. Selectors do not count.

use std::collections::{BTreeMap, BTreeSet};
use wire::aesa::Aesa;

/// Owners of addresses, by interface.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By the description. A user with several links has an address at several ports.
    configured: BTreeMap<Aesa, BTreeSet<usize>>,
    /// By ILMI: the first user to register an address has it.
    registered: BTreeMap<Aesa, usize>,
}

impl Owners {
    /// The description gives the address to a port. Gives the other port whose user had registered it, and has it no
    /// more.
    pub(super) fn configure(&mut self, at: usize, address: &Aesa) -> Option<usize> {
        let key = address.without_selector();
        self.configured.entry(key).or_default().insert(at);
        self.registered.remove(&key).filter(|before| *before != at)
    }

    /// Whether only another port's user can have the address.
    pub(super) fn is_of_another(&self, at: usize, address: &Aesa) -> bool {
        let key = address.without_selector();
        match self.configured.get(&key) {
            Some(owners) => !owners.contains(&at),
            None => self.registered.get(&key).is_some_and(|owner| *owner != at),
        }
    }

    /// A user registers an address, or withdraws it. True if the port's addresses change: those of the description do
    /// not.
    pub(super) fn register(&mut self, at: usize, address: &Aesa, present: bool) -> bool {
        let key = address.without_selector();
        if self.configured.contains_key(&key) || self.is_of_another(at, address) {
            return false;
        }
        if present {
            self.registered.insert(key, at);
            true
        } else {
            self.registered.remove(&key).is_some()
        }
    }

    /// The port is gone.
    pub(super) fn forget(&mut self, at: usize) {
        self.registered.retain(|_, owner| *owner != at);
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

    #[test]
    fn the_first_user_to_register_an_address_has_it_until_it_withdraws() {
        let mut owners = Owners::default();
        assert!(owners.register(1, &address(1), true));
        assert!(owners.is_of_another(2, &address(1)) && !owners.is_of_another(1, &address(1)));
        assert!(!owners.register(2, &address(1), true) && !owners.register(2, &address(1), false));
        assert!(owners.register(1, &address(1), false) && !owners.register(1, &address(1), false));
        assert!(owners.register(2, &address(1), true));
        owners.forget(2);
        assert!(!owners.is_of_another(1, &address(1)));
    }

    #[test]
    fn the_description_comes_before_registration() {
        let mut owners = Owners::default();
        assert!(owners.register(1, &address(1), true));
        assert_eq!(owners.configure(2, &address(1)), Some(1));
        assert_eq!(owners.configure(3, &address(1)), None);
        assert!(owners.is_of_another(1, &address(1)) && !owners.is_of_another(2, &address(1)));
        // Registration of one's own changes nothing, so that withdrawal takes nothing.
        assert!(!owners.register(2, &address(1), true) && !owners.register(2, &address(1), false));
        owners.forget(2);
        assert!(owners.is_of_another(1, &address(1)) && !owners.is_of_another(3, &address(1)));
        owners.forget(3);
        assert!(owners.register(1, &address(1), true));
    }
}
