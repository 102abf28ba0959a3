//! Switches with their tables, as emulators have them: links between ports, and for each switch which port and label
//! is mapped onto which.

use net::SwitchElementConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A port of a switch with a label, as `1:10:100` or, for a path, `1:10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) port: u16,
    vpi: u16,
    /// Of a path: none.
    vci: Option<u16>,
}

impl Entry {
    /// `port:vpi:vci`, or `port:vpi`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u16>> = text.trim().split(':').map(|part| part.trim().parse().ok()).collect();
        match numbers?.as_slice() {
            [port, vpi] => Some(Entry { port: *port, vpi: *vpi, vci: None }),
            [port, vpi, vci] => Some(Entry { port: *port, vpi: *vpi, vci: Some(*vci) }),
            _ => None,
        }
    }

    fn end(&self, switch: &str) -> String {
        let vci = self.vci.map_or_else(|| "*".to_owned(), |vci| vci.to_string());
        format!("{switch}:{} {}.{vci}", self.port, self.vpi)
    }
}

/// What an emulator's file says of ATM.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Each switch, and its mappings.
    pub(super) switches: BTreeMap<String, Vec<[Entry; 2]>>,
    /// Links between a switch's port and another's, or a station.
    pub(super) links: Vec<[(String, Option<u16>); 2]>,
    pub(super) remarks: Vec<String>,
}

impl Tables {
    /// One mapping; the same one the other way is the same.
    pub(super) fn map(&mut self, switch: &str, from: Entry, to: Entry) {
        if from.vci.is_some() != to.vci.is_some() {
            self.remarks.push(format!("{switch}: a path cannot be mapped onto a channel: left out"));
            return;
        }
        let mappings = self.switches.entry(switch.to_owned()).or_default();
        if !mappings.contains(&[from, to]) && !mappings.contains(&[to, from]) {
            mappings.push([from, to]);
        }
    }

    /// The description, and the remarks.
    pub(super) fn description(&self) -> (String, Vec<String>) {
        let mut names: BTreeMap<&str, String> = BTreeMap::new();
        let stations = self.links.iter().flatten().map(|(name, _)| name);
        for name in self.switches.keys().chain(stations) {
            if !names.contains_key(name.as_str()) {
                let plain = super::plain(name, &mut |other| names.values().any(|taken| taken == other));
                names.insert(name, plain);
            }
        }
        let mut remarks = self.remarks.clone();
        let mut linked: BTreeSet<(&str, u16)> = BTreeSet::new();
        linked.extend(self.links.iter().flatten().filter_map(|(name, port)| Some((name.as_str(), (*port)?))));
        let (mut text, mut links, mut circuits) = (String::new(), String::new(), String::new());
        for [a, b] in &self.links {
            let [a, b] = [a, b].map(|(name, port)| {
                port.map_or_else(|| names[name.as_str()].clone(), |port| format!("{}:{port}", names[name.as_str()]))
            });
            let _ = write!(links, "\n[[link]]\nends = [\"{a}\", \"{b}\"]\n");
        }
        let mut hosts: BTreeSet<String> = self
            .links
            .iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .filter(|name| !self.switches.contains_key(*name))
            .map(|name| names[name].clone())
            .collect();
        for (name, mappings) in &self.switches {
            let switch = &names[name.as_str()];
            for [from, to] in mappings {
                let _ = write!(circuits, "\n[[circuit]]\nends = [\"{}\", \"{}\"]\n", from.end(switch), to.end(switch));
                for entry in [from, to].into_iter().filter(|entry| !linked.contains(&(name.as_str(), entry.port))) {
                    let host = format!("{switch}-port{}", entry.port);
                    if hosts.insert(host.clone()) {
                        let _ = write!(links, "\n[[link]]\nends = [\"{host}\", \"{switch}:{}\"]\n", entry.port);
                        remarks
                            .push(format!("nothing is at port {} of {name}: a host `{host}` stands there", entry.port));
                    }
                }
            }
            let ports = linked.iter().filter(|(other, _)| other == name).map(|(_, port)| *port);
            let ports = ports.chain(mappings.iter().flatten().map(|entry| entry.port)).max().unwrap_or(0);
            let _ = writeln!(text, "\n[switch.{switch}]");
            if ports >= SwitchElementConfig::default().ports {
                let _ = writeln!(text, "ports = {}", ports.saturating_add(1));
            }
        }
        if !hosts.is_empty() {
            remarks.push(
                "routers and other stations are hosts here: to connect the emulator's own, make it [outside.NAME], and give \
                 its link cells_udp"
                    .into(),
            );
        }
        for host in &hosts {
            let _ = writeln!(text, "\n[host.{host}]");
        }
        (text + &links + &circuits, remarks)
    }
}
