//! Which ends of links have signalling, and where calls go from there: what the description comes to for calls.
//!
//! In: the links as they were made, with their ports, and what hosts and switches say of addresses. Out: an interface
//! for each end that is a host or a switch of this network, and the routes of each switch: to its users by
//! registration, to other switches by the shortest way over IISP links, the others after it.

use crate::config::Signalling;
use crate::config::signalling::Identity;
use anyhow::Result;
use net::LinkConfig;
use net::topology::Station;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uni::call::{self, Side, Version};
use wire::CellRate;
use wire::aesa::{Aesa, PREFIX_OCTETS, Prefix};

/// One end of a link with signalling.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// The host or switch.
    pub station: String,
    /// Its port.
    pub port: u16,
    /// Of a host: who it is. `None`: a switch.
    pub host: Option<Identity>,
    /// Call control.
    pub call: call::Config,
    /// What calls may be promised.
    pub rate: Option<CellRate>,
    /// What the link adds to a call's transit delay.
    pub delay_ms: u16,
    /// Whether a program signals here, and speaks ILMI: for a host that leaves its side to one.
    pub program: bool,
    /// Whether ILMI is spoken here.
    pub ilmi: bool,
    /// Addresses of the user at a switch's port who does not register them.
    pub addresses: Vec<Aesa>,
    /// Whether the far end belongs to this network.
    pub is_inner: bool,
}

/// A switch with signalling.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Switch {
    /// Of its users' addresses.
    pub prefix: [u8; PREFIX_OCTETS],
    /// The port where its signalling goes.
    pub control_port: u16,
    /// Prefixes and the ports that lead there, the best of each prefix first.
    pub routes: Vec<(Prefix, u16)>,
}

/// All of a network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    /// Ends of links.
    pub interfaces: Vec<Interface>,
    /// Switches by name.
    pub switches: BTreeMap<String, Switch>,
}

/// A link with signalling as it was made.
#[derive(Debug, Clone)]
pub struct Link<'a> {
    /// Its ends: station, kind, port.
    pub ends: [(&'a str, Station, u16); 2],
    /// Its properties.
    pub config: &'a LinkConfig,
    /// What the description says.
    pub signalling: &'a Signalling,
}

impl Layout {
    /// What these links come to. `host` and `switch` say who a host is, and a switch's prefix and control port.
    ///
    /// # Errors
    /// A text of the description cannot be understood.
    pub fn of(
        links: &[Link<'_>],
        host: impl Fn(&str) -> Result<Identity>,
        switch: impl Fn(&str) -> Result<([u8; PREFIX_OCTETS], u16)>,
    ) -> Result<Self> {
        let mut layout = Layout::default();
        // Of each switch: the neighbours, and prefixes beyond the network.
        let mut trunks: BTreeMap<&str, Vec<(&str, u16)>> = BTreeMap::new();
        let mut beyond: BTreeMap<&str, Vec<(Prefix, u16)>> = BTreeMap::new();
        for link in links {
            let sides = link.signalling.sides([link.ends[0].1, link.ends[1].1])?;
            for (at, side) in sides.into_iter().enumerate() {
                let Some(side) = side else { continue };
                let (name, station, port) = link.ends[at];
                let (far, far_station, _) = link.ends[1 - at];
                let identity = (station == Station::Host).then(|| host(name)).transpose()?;
                if station == Station::Switch {
                    let (prefix, control_port) = switch(name)?;
                    layout.switches.insert(name.to_owned(), Switch { prefix, control_port, routes: Vec::new() });
                    if far_station == Station::Switch {
                        trunks.entry(name).or_default().push((far, port));
                    }
                    for prefix in link.signalling.routes()? {
                        beyond.entry(name).or_default().push((prefix, port));
                    }
                }
                let mut addresses = link.signalling.addresses()?;
                if far_station == Station::Host && station == Station::Switch {
                    addresses.extend(host(far)?.address);
                }
                layout.interfaces.push(interface(link, (name, port), side, identity, addresses)?);
            }
        }
        for (name, routes) in routes(&layout.switches, &trunks, &beyond) {
            if let Some(switch) = layout.switches.get_mut(&name) {
                switch.routes = routes;
            }
        }
        Ok(layout)
    }
}

fn interface(
    link: &Link<'_>,
    (station, port): (&str, u16),
    side: Side,
    host: Option<Identity>,
    addresses: Vec<Aesa>,
) -> Result<Interface> {
    let version = link.signalling.version()?;
    let share = link.signalling.share(link.config)?;
    // A user takes the labels that the network chooses, whatever they are.
    let [first, last] = if side == Side::User && version != Version::Iisp {
        [wire::Vci::FIRST_USER.get(), u16::MAX]
    } else {
        share.vcis
    };
    let labels = (share.vpi.get(), first, last);
    let call = call::Config {
        labels,
        max_calls: link.signalling.max_calls,
        max_calls_per_second: link.signalling.max_calls_per_second,
        ..call::Config::new(side, version)
    };
    let program = host.is_some() && link.signalling.by_program()?;
    Ok(Interface {
        station: station.to_owned(),
        port,
        host,
        program,
        call,
        rate: share.rate,
        delay_ms: u16::try_from(link.config.delay.as_millis()).unwrap_or(u16::MAX),
        ilmi: link.signalling.ilmi && version != Version::Iisp && !program,
        addresses,
        is_inner: link.ends.iter().all(|(_, station, _)| *station != Station::Outside),
    })
}

/// The routes of all switches: to each other's prefixes, and to those beyond, by the number of links.
fn routes(
    switches: &BTreeMap<String, Switch>,
    trunks: &BTreeMap<&str, Vec<(&str, u16)>>,
    beyond: &BTreeMap<&str, Vec<(Prefix, u16)>>,
) -> BTreeMap<String, Vec<(Prefix, u16)>> {
    let mut all: BTreeMap<String, Vec<(usize, Prefix, u16)>> = BTreeMap::new();
    for target in switches.keys() {
        let own = switches
            .get(target)
            .map(|switch| Prefix::new(Aesa::new(switch.prefix, [0; 6], 0), PREFIX_OCTETS as u8 * 8));
        let far = beyond.get(target.as_str()).into_iter().flatten().map(|(prefix, _)| *prefix);
        let prefixes: Vec<Prefix> = own.into_iter().chain(far).collect();
        let distances = distances(target, trunks);
        for (name, ports) in trunks {
            for (neighbour, port) in ports {
                let Some(distance) = distances.get(neighbour).filter(|_| *name != target) else { continue };
                // A neighbour that is farther away would send the call back here.
                if distances.get(name).is_some_and(|own| distance <= own) {
                    let routes = all.entry((*name).to_owned()).or_default();
                    routes.extend(prefixes.iter().map(|prefix| (*distance, *prefix, *port)));
                }
            }
        }
    }
    for (name, routes) in beyond {
        all.entry((*name).to_owned()).or_default().extend(routes.iter().map(|(prefix, port)| (0, *prefix, *port)));
    }
    all.into_iter()
        .map(|(name, mut routes)| {
            routes.sort_by_key(|(distance, _, port)| (*distance, *port));
            (name, routes.into_iter().map(|(_, prefix, port)| (prefix, port)).collect())
        })
        .collect()
}

fn distances<'a>(target: &'a str, trunks: &BTreeMap<&'a str, Vec<(&'a str, u16)>>) -> BTreeMap<&'a str, usize> {
    let mut distances = BTreeMap::from([(target, 0)]);
    let mut queue = VecDeque::from([target]);
    while let Some(name) = queue.pop_front() {
        let next = distances.get(name).copied().unwrap_or_default() + 1;
        let neighbours: BTreeSet<&str> = trunks.get(name).into_iter().flatten().map(|(far, _)| *far).collect();
        for neighbour in neighbours {
            if !distances.contains_key(neighbour) {
                distances.insert(neighbour, next);
                queue.push_back(neighbour);
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(prefix: u8) -> Switch {
        Switch { prefix: [prefix; PREFIX_OCTETS], ..Switch::default() }
    }

    #[test]
    fn calls_go_the_shortest_way_first_and_never_to_a_neighbour_that_is_farther_away() {
        // A square a - b - d, a - c - d, with a spur d - e.
        let switches =
            ["a", "b", "c", "d", "e"].iter().zip(1..).map(|(name, n)| ((*name).to_owned(), switch(n))).collect();
        let trunks = BTreeMap::from([
            ("a", vec![("b", 0), ("c", 1)]),
            ("b", vec![("a", 0), ("d", 1)]),
            ("c", vec![("a", 0), ("d", 1)]),
            ("d", vec![("b", 0), ("c", 1), ("e", 2)]),
            ("e", vec![("d", 0)]),
        ]);
        let beyond = BTreeMap::from([("e", vec![(Prefix::ALL, 7)])]);
        let routes = routes(&switches, &trunks, &beyond);
        let of = |name: &str, prefix: u8| -> Vec<u16> {
            let wanted = Prefix::new(Aesa([prefix; 20]), 104);
            routes[name].iter().filter(|(prefix, _)| *prefix == wanted).map(|(_, port)| *port).collect()
        };
        assert_eq!(of("a", 4), [0, 1], "two ways of two links");
        assert_eq!(of("a", 2), [0], "not by c, which is farther from b than a is");
        assert_eq!(of("b", 3), [0, 1]);
        assert_eq!(of("d", 5), [2]);
        assert_eq!(routes["e"].last(), Some(&(Prefix::new(Aesa([1; 20]), 104), 0)));
        assert!(routes["e"].contains(&(Prefix::ALL, 7)) && routes["a"].contains(&(Prefix::ALL, 0)));
    }
}
