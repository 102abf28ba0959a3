//! Which circuit may have which address, by configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Addresses that are tied to circuits, and those of each circuit.
#[derive(Debug, Default)]
pub(super) struct Ties {
    of_address: BTreeMap<Ipv4Addr, u32>,
    of_circuit: BTreeSet<(u32, Ipv4Addr)>,
}

impl Ties {
    /// A circuit has an address.
    pub(super) fn tie(&mut self, circuit: u32, ip: Ipv4Addr) {
        if let Some(before) = self.of_address.insert(ip, circuit) {
            self.of_circuit.remove(&(before, ip));
        }
        self.of_circuit.insert((circuit, ip));
    }

    /// Whether a circuit may have an address: one that is tied to it, or, if none is, one that is tied to none.
    pub(super) fn allow(&self, circuit: u32, ip: Ipv4Addr) -> bool {
        match self.of_address.get(&ip) {
            Some(owner) => *owner == circuit,
            None => self.of(circuit).next().is_none(),
        }
    }

    /// A circuit is gone.
    pub(super) fn forget(&mut self, circuit: u32) {
        for ip in self.of(circuit).collect::<Vec<_>>() {
            self.of_address.remove(&ip);
            self.of_circuit.remove(&(circuit, ip));
        }
    }

    fn of(&self, circuit: u32) -> impl Iterator<Item = Ipv4Addr> + '_ {
        let all = (circuit, Ipv4Addr::UNSPECIFIED)..=(circuit, Ipv4Addr::BROADCAST);
        self.of_circuit.range(all).map(|(_, ip)| *ip)
    }
}
