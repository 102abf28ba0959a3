//! What one object of a description may have and no second (an address, an end system identifier, a prefix, a device, a
//! socket, a port of this machine), and bounds of single values. In: a description whose parts are understood. Out: what
//! is wrong.

use super::signalling::{Identity, parse_prefix};
use super::{Config, File, Shell};
use crate::fault::{Faults, Part, PartPath};
use links::tcp::Role;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use wire::aesa::Aesa;

/// `sun_path` of `struct sockaddr_un` holds so many octets and a zero (unix(7)).
const SOCKET_PATH_OCTETS: usize = 107;

/// Routes of a switch at most: 64 octets for each of two circuits make 512 MiB.
const MAX_ROUTES: usize = 1 << 22;

/// Wrong parts: the way to an object, and its faults.
type Wrong = Vec<(Vec<Part>, Faults)>;

/// Values that have an owner.
struct Owned<K> {
    owners: BTreeMap<K, String>,
}

impl<K: Ord> Owned<K> {
    const fn new() -> Self {
        Owned { owners: BTreeMap::new() }
    }

    /// Gives a value to an owner; who has it already, if somebody has.
    fn give(&mut self, value: K, owner: String) -> Option<&str> {
        match self.owners.entry(value) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(owner);
                None
            }
            std::collections::btree_map::Entry::Occupied(taken) => Some(taken.into_mut()),
        }
    }
}

fn fault(way: [&str; 2], key: &str, says: String) -> (Vec<Part>, Faults) {
    let mut faults = Faults::default();
    faults.add(PartPath::from(key), says);
    (way.iter().map(|part| (*part).into()).collect(), faults)
}

/// All that is there twice.
pub(super) fn check(file: &File, config: &Config, folder: &Path) -> Wrong {
    let mut wrong = identifiers(file);
    let more = addresses(file, config, &wrong);
    wrong.extend(more);
    wrong.extend(internet_addresses(file));
    wrong.extend(prefixes(file));
    wrong.extend(sockets(file, folder));
    wrong.extend(devices(config));
    wrong.extend(follows_itself(config));
    wrong.extend(without_endpoints(file, config));
    wrong.extend(too_many_routes(file));
    wrong
}

/// End system identifiers of hosts and of virtual adapters, as far as they are written.
fn identifiers(file: &File) -> Wrong {
    let mut owned = Owned::new();
    let mut wrong = Wrong::new();
    let adapters = file.adapter.iter().filter_map(|(name, adapter)| {
        let keys = serde_json::to_value(adapter).ok()?;
        let esi = super::parse_mac(keys.get("esi")?.as_str()?).ok()?;
        Some(("adapter", name, esi))
    });
    let hosts = file.host.iter().filter_map(|(name, host)| {
        let identity = Identity::of(name, Some(host.esi.as_deref()?), None).ok()?;
        Some(("host", name, identity.esi))
    });
    for (section, name, esi) in hosts.chain(adapters) {
        if let Some(other) = owned.give(esi, format!("{section} {name}")) {
            let says = format!("{other} has this end system identifier: give each its own");
            wrong.push(fault([section, name], "esi", says));
        }
    }
    wrong
}

/// Whole addresses of hosts: those that are written, and those that switches make of their prefix.
fn addresses(file: &File, config: &Config, told: &Wrong) -> Wrong {
    let mut owned = Owned::new();
    let mut wrong = Wrong::new();
    for (name, host) in &file.host {
        let Ok(identity) = Identity::of(name, host.esi.as_deref(), host.address.as_deref()) else { continue };
        let registered = || prefix_at(file, config, name).map(|prefix| Aesa::new(prefix, identity.esi, 0));
        let Some(address) = identity.address.or_else(registered) else { continue };
        if let Some(other) = owned.give(address.without_selector(), format!("host {name}")) {
            let key = if host.address.is_some() { "address" } else { "esi" };
            let found = fault(["host", name], key, format!("{other} has this address: give each its own"));
            // An identifier that is there twice has been told.
            if told.iter().all(|(way, _)| *way != found.0) {
                wrong.push(found);
            }
        }
    }
    for (place, link) in file.link.iter().enumerate() {
        for address in link.signalling.iter().flat_map(|signalling| signalling.addresses().unwrap_or_default()) {
            if let Some(other) =
                owned.give(address.without_selector(), format!("the user at {}", link.ends.join(" - ")))
            {
                let mut faults = Faults::default();
                faults.add("signalling", format!("addresses: {other} has {address}: give each its own"));
                wrong.push((vec!["link".into(), config.place_of_link(place).into()], faults));
            }
        }
    }
    wrong
}

/// The prefix of the switch at which a host signals.
fn prefix_at(file: &File, config: &Config, host: &str) -> Option<[u8; wire::aesa::PREFIX_OCTETS]> {
    let links = config.description.links.iter().filter(|link| link.config.calls.is_some());
    let mut ends = links.map(|link| link.ends.each_ref().map(|end| end.station.as_str()));
    let [a, b] = ends.find(|ends| ends.contains(&host))?;
    let switch = file.switch.get(if a == host { b } else { a })?;
    parse_prefix(switch.prefix.as_deref()?).ok()
}

/// IP addresses of hosts, which `cellway ip` takes.
fn internet_addresses(file: &File) -> Wrong {
    let mut owned = Owned::new();
    let mut wrong = Wrong::new();
    for (name, host) in &file.host {
        let Some((address, _)) = host.ip.as_deref().and_then(|ip| super::parse_address(ip).ok()) else { continue };
        if let Some(other) = owned.give(address, format!("host {name}")) {
            wrong.push(fault(["host", name], "ip", format!("{other} has {address}: give each its own address")));
        }
    }
    wrong
}

/// Prefixes of switches: a call to a user of the second would end at the first.
fn prefixes(file: &File) -> Wrong {
    let mut owned = Owned::new();
    let mut wrong = Wrong::new();
    for (name, switch) in &file.switch {
        let Some(prefix) = switch.prefix.as_deref().and_then(|prefix| parse_prefix(prefix).ok()) else { continue };
        if let Some(other) = owned.give(prefix, format!("switch {name}")) {
            wrong.push(fault(["switch", name], "prefix", format!("{other} has this prefix: give each its own")));
        }
    }
    wrong
}

/// Sockets of virtual adapters.
fn sockets(file: &File, folder: &Path) -> Wrong {
    let mut owned = Owned::new();
    let mut wrong = Wrong::new();
    for (name, adapter) in &file.adapter {
        let path = folder.join(adapter.socket());
        if adapter.socket().file_name().is_none() {
            let says = "a socket is a file: write its name, such as \"guest.sock\"".to_owned();
            wrong.push(fault(["adapter", name], "socket", says));
        }
        // It is made beside its place, under the longer name, and then renamed.
        let beside = endpoint::socket_path::SocketPath::beside(&path);
        let octets = beside.now().as_os_str().as_bytes().len();
        if octets > SOCKET_PATH_OCTETS {
            let room = SOCKET_PATH_OCTETS - (octets - path.as_os_str().as_bytes().len());
            let says = format!("{} has more than the {room} octets that a socket's path may have", path.display());
            wrong.push(fault(["adapter", name], "socket", says));
        }
        if let Some(other) = owned.give(path, format!("adapter {name}")) {
            wrong.push(fault(["adapter", name], "socket", format!("{other} has this socket: give each its own")));
        }
    }
    wrong
}

/// Devices of interfaces, and ports of this machine at which links listen.
fn devices(config: &Config) -> Wrong {
    let mut devices = Owned::new();
    let (mut listeners, mut datagrams) = (Vec::new(), Vec::new());
    let mut wrong = Wrong::new();
    for (place, shell) in &config.shells {
        match shell {
            Shell::Interface(device) => {
                let key = (device.settings.namespace.clone(), device.settings.name.clone());
                if let Some(other) = devices.give(key, format!("interface {}", device.name)) {
                    let says = format!("{other} has the device {}: give each its own", device.settings.name);
                    wrong.push(fault(["interface", &device.name], "device", says));
                }
            }
            Shell::AtmTcp { role: Role::Listen(at), .. } => {
                port(config, *place, "atmtcp", *at, &mut listeners, &mut wrong)
            }
            Shell::Tcp { role: Role::Listen(at), .. } => {
                port(config, *place, "cells_tcp", *at, &mut listeners, &mut wrong)
            }
            Shell::Udp(udp) => port(config, *place, "cells_udp", udp.local, &mut datagrams, &mut wrong),
            Shell::Pseudowire(wire) => port(config, *place, "pseudowire", wire.local, &mut datagrams, &mut wrong),
            _ => {}
        }
    }
    wrong
}

/// A port of this machine for a link.
fn port(
    config: &Config,
    place: usize,
    key: &'static str,
    at: SocketAddr,
    taken: &mut Vec<(SocketAddr, usize)>,
    wrong: &mut Wrong,
) {
    let collides = |other: &SocketAddr| {
        let any = at.ip().is_unspecified() || other.ip().is_unspecified();
        at.port() != 0 && at.port() == other.port() && (at.ip() == other.ip() || any && at.is_ipv4() == other.is_ipv4())
    };
    if let Some((other, first)) = taken.iter().find(|(other, _)| collides(other)) {
        let mut faults = Faults::default();
        let ends = config.description.links.get(*first).map(crate::names::written).unwrap_or_default();
        faults.add(key, format!("{at}: link {ends} has {other}: give each its own address or port"));
        wrong.push((vec!["link".into(), config.place_of_link(place).into()], faults));
    }
    taken.push((at, place));
}

/// Links that follow themselves, alone or in a ring.
fn follows_itself(config: &Config) -> Wrong {
    let mut wrong = Wrong::new();
    for place in config.follows.keys() {
        let mut at = *place;
        let mut steps = 0;
        while let Some(next) = config.follows.get(&at) {
            (at, steps) = (*next, steps + 1);
            if at == *place || steps > config.follows.len() {
                break;
            }
        }
        if steps > 0 && at == *place {
            let mut faults = Faults::default();
            faults.add("follows", "it follows itself: such a link is down and stays down");
            wrong.push((vec!["link".into(), config.place_of_link(*place).into()], faults));
        }
    }
    wrong
}

/// Hosts that no application can use. Where a host signals, its calls have an endpoint of their own.
fn without_endpoints(file: &File, config: &Config) -> Wrong {
    let links = config.description.links.iter().filter(|link| link.config.calls.is_some());
    let signalling: Vec<&str> = links.flat_map(|link| &link.ends).map(|end| end.station.as_str()).collect();
    let least = |name: &str| if signalling.contains(&name) { 2 } else { 1 };
    let few = file.host.iter().filter(|(name, host)| host.max_endpoints < least(name));
    let says = |name: &str, n: usize| {
        let least = least(name);
        format!("max_endpoints = {n}: no application could use the host; write {least} or more")
    };
    few.map(|(name, host)| fault(["host", name], "max_endpoints", says(name, host.max_endpoints))).collect()
}

/// Switches whose tables no machine's memory holds.
fn too_many_routes(file: &File) -> Wrong {
    let beyond = file.switch.iter().filter(|(_, switch)| switch.max_routes > MAX_ROUTES);
    let says = |routes| format!("max_routes = {routes} is out of bounds: write {MAX_ROUTES} at most");
    beyond.map(|(name, switch)| fault(["switch", name], "max_routes", says(switch.max_routes))).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    fn said(text: &str) -> String {
        parse(text, "net.toml").map(|_| String::new()).unwrap_or_else(|wrong| wrong.to_string())
    }

    #[test]
    fn what_one_has_no_second_may_have() {
        let switch = "[switch.s1]\nprefix = \"47000580ffe100000000000001\"\n";
        let link = |host: &str, n: u8| {
            format!("[[link]]\nends = [\"{host}\", \"s1:{n}\"]\nsignalling = {{ version = \"uni31\" }}\n")
        };
        let out = |n: u8, key: &str| format!("[outside.o{n}]\n[[link]]\nends = [\"s1:{n}\", \"o{n}\"]\n{key}\n");
        let address = "47000580ffe100000000000001020000000007";
        for (text, says) in [
            ("[host.a]\nmax_endpoints = 0\n".to_owned(), "no application could use the host"),
            (
                format!("{switch}[host.a]\nmax_endpoints = 1\n{}", link("a", 0)),
                "no application could use the host; write 2 or more",
            ),
            ("[switch.s]\nmax_routes = 4194305\n".to_owned(), "write 4194304 at most"),
            (
                "[host.a]\nesi = \"0020ea000ee0\"\n[host.b]\nesi = \"00:20:ea:00:0e:e0\"\n".to_owned(),
                "host a has this end system identifier",
            ),
            (
                format!("[host.a]\naddress = \"{address}00\"\n[host.b]\naddress = \"{address}01\"\n"),
                "host a has this address",
            ),
            (
                format!(
                    "{switch}[host.a]\nesi = \"020000000007\"\n[host.b]\naddress = \"{address}00\"\n{}{}",
                    link("a", 0),
                    link("b", 1)
                ),
                "host a has this address",
            ),
            ("[host.a]\nip = \"10.0.0.1/24\"\n[host.b]\nip = \"10.0.0.1/16\"\n".to_owned(), "host a has 10.0.0.1"),
            (format!("{switch}{}", switch.replace("s1", "s2")), "switch s1 has this prefix"),
            (
                format!(
                    "[switch.s1]\n{}{}",
                    out(0, "atmtcp = \"listen 127.0.0.1:7\""),
                    out(1, "cells_tcp = \"listen 0.0.0.0:7\"")
                ),
                "0.0.0.0:7: link s1:0 - o0 has 127.0.0.1:7",
            ),
            (
                format!(
                    "[switch.s1]\n{}{}",
                    out(0, "cells_udp = { local = \"[::1]:7\", peer = \"[::1]:8\" }"),
                    out(1, "cells_udp = { local = \"[::1]:7\", peer = \"[::1]:9\" }")
                ),
                "[::1]:7: link s1:0 - o0 has",
            ),
            (
                "[switch.s1]\n[interface.a]\nhost = \"ha\"\naddress = \"10.0.0.1/24\"\ndevice = \"atm0\"\n\
                 [interface.b]\nhost = \"hb\"\naddress = \"10.0.1.1/24\"\ndevice = \"atm0\"\n\
                 [[link]]\nends = [\"ha\", \"s1:0\"]\n[[link]]\nends = [\"hb\", \"s1:1\"]\n"
                    .to_owned(),
                "interface a has the device atm0",
            ),
            (
                "[host.a]\n[switch.s1]\n[[link]]\nends = [\"a\", \"s1:0\"]\nfollows = \"a - s1:0\"\n".to_owned(),
                "it follows itself",
            ),
        ] {
            assert!(said(&text).contains(says), "{text}\n{}", said(&text));
        }
    }

    #[test]
    fn what_differs_is_in_order() {
        let switch = |n: u8| format!("[switch.s{n}]\nprefix = \"47000580ffe10000000000000{n}\"\n");
        let link = |host: &str, n: u8| {
            format!("[[link]]\nends = [\"{host}\", \"s{n}:0\"]\nsignalling = {{ version = \"uni31\" }}\n")
        };
        let address = "47000580ffe10000000000000";
        // One identifier below two prefixes is two addresses, where these are written.
        let text = format!(
            "{}{}[host.a]\naddress = \"{address}102000000000700\"\n[host.b]\naddress = \"{address}202000000000700\"\n{}{}\
             [outside.p]\n[outside.q]\n[[link]]\nends = [\"s1:3\", \"p\"]\natmtcp = \"listen 127.0.0.1:0\"\n\
             [[link]]\nends = [\"s1:4\", \"q\"]\natmtcp = \"listen 127.0.0.1:0\"\n",
            switch(1),
            switch(2),
            link("a", 1),
            link("b", 2)
        );
        assert_eq!(said(&text), "");
    }
}
