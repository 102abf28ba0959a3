//! Where a switch sends calls: prefixes and ports. The longest prefix wins; the next best takes over where it fails.

use std::collections::BTreeMap;
use wire::aesa::{Aesa, Prefix};

/// Routes by prefix. Ports of one prefix are tried in the order in which they were added.
#[derive(Debug, Default)]
pub struct Routes {
    /// By length, the longest last.
    by_bits: BTreeMap<u8, BTreeMap<Prefix, Vec<usize>>>,
}

impl Routes {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls to addresses that begin with `prefix` may go to `port`.
    pub fn add(&mut self, prefix: Prefix, port: usize) {
        let ports = self.by_bits.entry(prefix.bits()).or_default().entry(prefix).or_default();
        if !ports.contains(&port) {
            ports.push(port);
        }
    }

    /// Takes a route back.
    pub fn remove(&mut self, prefix: Prefix, port: usize) {
        if let Some(of_length) = self.by_bits.get_mut(&prefix.bits())
            && let Some(ports) = of_length.get_mut(&prefix)
        {
            ports.retain(|p| *p != port);
            if ports.is_empty() {
                of_length.remove(&prefix);
            }
        }
    }

    /// Takes all routes to a port back.
    pub fn remove_port(&mut self, port: usize) {
        for of_length in self.by_bits.values_mut() {
            of_length.retain(|_, ports| {
                ports.retain(|p| *p != port);
                !ports.is_empty()
            });
        }
    }

    /// Whether the longest prefix of `address` leads to `port`.
    pub fn leads(&self, address: &Aesa, port: usize) -> bool {
        self.of_prefixes(*address).next().is_some_and(|ports| ports.contains(&port))
    }

    /// Ports for `address`, the best first. A port can occur more than once.
    pub fn lookup(&self, address: &Aesa) -> impl Iterator<Item = usize> + '_ {
        self.of_prefixes(*address).flatten().copied()
    }

    /// The ports of each prefix of `address`, the longest prefix first.
    fn of_prefixes(&self, address: Aesa) -> impl Iterator<Item = &Vec<usize>> + '_ {
        self.by_bits.iter().rev().filter_map(move |(bits, of)| of.get(&Prefix::new(address, *bits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_shorter_ones_follow() {
        let mut routes = Routes::new();
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        routes.add(Prefix::ALL, 9);
        routes.add(prefix("4700"), 1);
        routes.add(prefix("470005"), 2);
        routes.add(prefix("470005"), 3);
        let address = |text: &str| Aesa(*prefix(text).octets());
        let ports = |routes: &Routes, text: &str| routes.lookup(&address(text)).collect::<Vec<_>>();
        assert_eq!(ports(&routes, "47000580"), [2, 3, 1, 9]);
        assert_eq!(ports(&routes, "47000681"), [1, 9]);
        assert_eq!(ports(&routes, "39"), [9]);
        let leads = |text: &str, port| routes.leads(&address(text), port);
        assert!(leads("47000580", 2) && leads("47000580", 3) && !leads("47000580", 1) && !leads("47000580", 9));
        assert!(leads("47000681", 1) && leads("39", 9) && !leads("39", 1));
        routes.remove(prefix("470005"), 2);
        assert_eq!(ports(&routes, "47000580"), [3, 1, 9]);
    }
}
