//! A site that calls by addresses: hosts with their addresses, and a switch for each prefix of these.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::aesa::{Aesa, PREFIX_OCTETS};

/// What the files of a site say.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// Hosts by the address that they have, without its selector.
    hosts: BTreeMap<Aesa, String>,
    /// `uni31` or `uni40`.
    pub(super) version: Option<&'static str>,
    pub(super) remarks: Vec<String>,
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl Site {
    /// A host with this address. An address that differs by its selector only is the same host's.
    pub(super) fn host(&mut self, name: &str, address: Aesa) {
        if let Some(other) = self.hosts.get(&address.without_selector()) {
            if other != name {
                self.remarks.push(format!("{name} ({address}) is the host `{other}`, by another selector or name"));
            }
            return;
        }
        let plain = super::plain(name, &mut |other| self.hosts.values().any(|taken| taken == other));
        self.hosts.insert(address.without_selector(), plain);
    }

    /// The description, and the remarks.
    pub(super) fn description(&self) -> (String, Vec<String>) {
        let version = self.version.unwrap_or("uni31");
        let mut switches: BTreeMap<[u8; PREFIX_OCTETS], Vec<(&String, &Aesa)>> = BTreeMap::new();
        self.hosts
            .iter()
            .for_each(|(address, name)| switches.entry(address.prefix()).or_default().push((name, address)));
        let mut remarks = self.remarks.clone();
        if switches.is_empty() {
            remarks.push("no addresses are known: add [host.NAME], or import hosts.atm too".into());
            switches.insert([0x47, 0, 5, 0x80, 0xff, 0xe1, 0, 0, 0, 0, 0, 0, 1], Vec::new());
        }
        let (mut stations, mut links) = (String::new(), String::new());
        let mut first: Option<String> = None;
        for (nth, (prefix, hosts)) in switches.iter().enumerate() {
            let switch =
                super::plain(&format!("s{}", nth + 1), &mut |name| self.hosts.values().any(|host| host == name));
            let ports = hosts.len() + switches.len();
            let _ = write!(stations, "\n[switch.{switch}]\nprefix = \"{}\"\nports = {}\n", hex(prefix), ports.max(64));
            for (name, address) in hosts {
                let _ = write!(stations, "\n[host.{name}]\nesi = \"{}\"\n", hex(&address.esi()));
                let signalling = format!("signalling = {{ version = \"{version}\" }}");
                let _ = write!(links, "\n[[link]]\nends = [\"{name}\", \"{switch}\"]\n{signalling}\n");
            }
            match &first {
                None => first = Some(switch),
                Some(first) => {
                    let signalling = "signalling = { version = \"iisp\" }";
                    let _ = write!(links, "\n[[link]]\nends = [\"{first}\", \"{switch}\"]\n{signalling}\n");
                }
            }
        }
        (stations + &links, remarks)
    }
}
