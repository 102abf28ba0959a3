//! `[interface.NAME]`: IP over ATM on a TUN or TAP device that the network's own process serves.

use super::adapter::parse_mac;
use super::internet::{Addresses, parse_ip_address};
use super::word;
use crate::fault::{Faults, PartPath};
use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use stack::device::tun::{Settings, stable_mac};
use stack::ip::{Config, Encapsulation, IpInterface};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use wire::CircuitId;

/// The longest name of a device (IFNAMSIZ less its zero).
const MAX_NAME_OCTETS: usize = 15;

/// `[interface.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// The interface's name in the network: an end of one link, and of circuits.
    pub host: String,
    /// Address and prefix, such as `10.0.0.1/24` or `fd00:9::1/64`, or a list of both. A bridged device needs none.
    #[serde(default, skip_serializing_if = "Addresses::is_none")]
    pub address: Addresses,
    /// The device's name, if it is not the interface's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The network namespace of the device: a name of `ip netns`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<PathBuf>,
    /// Where Ethernet is bridged: the device's MAC address; without, one that follows from the machine, the host and the
    /// interface's name, the same at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Octets of the longest packet; 9180, or 1500 where Ethernet is bridged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<usize>,
    /// `llc`, `vc`, `llc-bridged`, `llc-bridged-fcs`, `vc-bridged` or `vc-bridged-fcs`.
    #[serde(default = "llc")]
    pub encapsulation: String,
    /// Whether checksums and the cutting of long packets may be left over to a peer that takes them.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Addresses at the far ends of circuits that do not say them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, IpAddr>,
    /// Where Ethernet is bridged: MAC addresses, and the circuit at whose far end each is, whatever frames say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stations: BTreeMap<String, String>,
    /// Packets to a network go to the peer of this address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routes: BTreeMap<String, IpAddr>,
    /// Whether it is the ATMARP server of its subnet.
    #[serde(default)]
    pub serve_atmarp: bool,
    /// The circuit to the subnet's ATMARP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atmarp_server: Option<String>,
}

fn llc() -> String {
    "llc".into()
}
fn yes() -> bool {
    true
}

/// A network with its prefix, and the peer that packets to it go to: all of one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    network: IpAddr,
    prefix: u8,
    via: IpAddr,
}

impl Route {
    /// Reads a network with its prefix.
    ///
    /// # Errors
    /// It is written otherwise, or the peer's address is of the other version of IP.
    pub fn parse(network: &str, via: IpAddr) -> Result<Self> {
        let (address, prefix) = parse_ip_address(network)?;
        if address.is_ipv4() != via.is_ipv4() {
            bail!("\"{network}\" and {via}: a network and the peer that leads there are both IPv4 or both IPv6");
        }
        Ok(Route { network: address, prefix, via })
    }

    /// Tells an interface.
    pub fn add_to(&self, ip: &mut IpInterface) {
        match (self.network, self.via) {
            (IpAddr::V4(network), IpAddr::V4(via)) => ip.add_route(network, self.prefix, via),
            (IpAddr::V6(network), IpAddr::V6(via)) => ip.add_route6(network, self.prefix, via),
            // `parse` makes none such.
            _ => {}
        }
    }
}

/// An interface as the daemon makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its name in the description.
    pub name: String,
    /// The device.
    pub settings: Settings,
    /// Addresses at the far ends of circuits.
    pub peers: BTreeMap<CircuitId, IpAddr>,
    /// MAC addresses at the far ends of circuits.
    pub stations: BTreeMap<[u8; 6], CircuitId>,
    /// Networks with their prefixes, and the peer that packets to them go to.
    pub routes: Vec<Route>,
    /// Whether it is the ATMARP server.
    pub serve_atmarp: bool,
    /// The circuit to the ATMARP server.
    pub atmarp_server: Option<CircuitId>,
}

impl Interface {
    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self, name: &str) -> Result<Device, Faults> {
        let mut faults = Faults::default();
        let addresses = faults.take("address", self.address.parse());
        let encapsulation = word(&mut faults, "encapsulation", &self.encapsulation, &ENCAPSULATIONS);
        let bridged = encapsulation.is_some_and(Encapsulation::is_bridged);
        if self.address.is_none() && encapsulation.is_some() && !bridged {
            faults.add(PartPath::default(), "address is missing: only a bridged device can be without");
        }
        let mac = self.mac(name, bridged, &mut faults);
        let mtu = self.mtu.unwrap_or(if bridged { 1500 } else { stack::ip::MTU });
        if !(576..=65_000).contains(&mtu) {
            faults.add("mtu", format!("mtu = {mtu}: an MTU is 576 to 65000"));
        }
        let device = self.device.as_deref().unwrap_or(name);
        // As the kernel has it (dev_valid_name); with % it would choose a name itself.
        let foreign = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
        if device.is_empty()
            || device.len() > MAX_NAME_OCTETS
            || device.contains(foreign)
            || [".", ".."].contains(&device)
        {
            let says = format!(
                "device = \"{device}\": a device's name has 1 to {MAX_NAME_OCTETS} letters, no blank, slash, colon or per cent"
            );
            faults.add(if self.device.is_some() { PartPath::from("device") } else { PartPath::default() }, says);
        }
        let circuit = |text: &str| text.parse::<CircuitId>().with_context(|| format!("circuit \"{text}\""));
        let mut peers = BTreeMap::new();
        for (on, peer) in &self.peers {
            if let Some(on) = faults.take(("peers", on), circuit(on)) {
                peers.insert(on, *peer);
            }
        }
        let mut stations = BTreeMap::new();
        for (mac, on) in &self.stations {
            let station = parse_mac(mac).and_then(|mac| Ok((mac, circuit(on)?)));
            stations.extend(faults.take(("stations", mac), station.context("stations")));
        }
        if !bridged && !stations.is_empty() {
            faults.add("stations", "stations are where Ethernet is bridged: give a bridged encapsulation");
        }
        let mut routes = Vec::new();
        for (network, via) in &self.routes {
            routes.extend(faults.take(("routes", network), Route::parse(network, *via).context("routes")));
        }
        if self.serve_atmarp && self.atmarp_server.is_some() {
            faults.add("atmarp_server", "serve_atmarp and atmarp_server: an interface is the server or asks it");
        }
        let atmarp_server = self.atmarp_server.as_deref().and_then(|on| faults.take("atmarp_server", circuit(on)));
        let namespace = self.namespace.as_ref().map(|name| PathBuf::from("/run/netns").join(name));
        let made = addresses.zip(encapsulation).map(|(addresses, encapsulation)| {
            let (address, prefix) = addresses.ipv4.unzip();
            let ip = Config { mtu, encapsulation, offload: self.offload, ipv6: addresses.ipv6, ..Config::new(address) };
            let settings = Settings { namespace, mac, ..Settings::new(device, prefix.unwrap_or_default(), ip) };
            let (name, serve_atmarp) = (name.to_owned(), self.serve_atmarp);
            Device { name, settings, peers, stations, routes, serve_atmarp, atmarp_server }
        });
        faults.or(made)
    }

    /// The MAC address of a bridged device.
    fn mac(&self, name: &str, bridged: bool, faults: &mut Faults) -> Option<[u8; 6]> {
        match &self.mac {
            Some(_) if !bridged => {
                faults.add("mac", "mac is where Ethernet is bridged: give a bridged encapsulation");
                None
            }
            Some(text) => faults.take("mac", parse_station_mac(text)),
            None => bridged.then(|| stable_mac(&self.host, name)),
        }
    }
}

/// A MAC address that a station can have: not a group's, not zero.
///
/// # Errors
/// It is written otherwise, or belongs to a group.
pub fn parse_station_mac(text: &str) -> Result<[u8; 6]> {
    let mac = parse_mac(text)?;
    if mac[0] & 1 == 1 || mac == [0; 6] {
        bail!("\"{text}\" is no station's address: the first octet is even, and not all octets are zero");
    }
    Ok(mac)
}

const ENCAPSULATIONS: [(&str, Encapsulation); 6] = [
    ("llc", Encapsulation::LlcRouted),
    ("vc", Encapsulation::VcRouted),
    ("llc-bridged", Encapsulation::LlcBridged { fcs: false }),
    ("llc-bridged-fcs", Encapsulation::LlcBridged { fcs: true }),
    ("vc-bridged", Encapsulation::VcBridged { fcs: false }),
    ("vc-bridged-fcs", Encapsulation::VcBridged { fcs: true }),
];

/// An address and its prefix: `10.0.0.1/24`.
///
/// # Errors
/// It is written otherwise.
pub fn parse_address(text: &str) -> Result<(Ipv4Addr, u8)> {
    let form = || anyhow!("\"{text}\" is no address with a prefix: write such as 10.0.0.1/24");
    let (address, prefix) = text.split_once('/').ok_or_else(form)?;
    let prefix = prefix.parse().ok().filter(|p| *p <= 32).ok_or_else(form)?;
    Ok((address.parse().map_err(|_| form())?, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(text: &str) -> Result<Device> {
        Ok(toml::from_str::<Interface>(&format!("host = \"alpha\"\n{text}"))?.describe("atm0")?)
    }

    #[test]
    fn an_interface_has_the_defaults_of_classical_ip() {
        let device = interface("address = \"10.0.0.1/24\"").unwrap();
        assert_eq!((device.settings.name.as_str(), device.settings.prefix), ("atm0", 24));
        assert_eq!((device.settings.ip.mtu, device.settings.ip.offload), (9180, true));
        assert_eq!(device.settings.namespace, None);
        let bridged =
            interface("address = \"10.0.0.1/24\"\nencapsulation = \"llc-bridged\"\nnamespace = \"red\"").unwrap();
        assert_eq!(bridged.settings.ip.mtu, 1500);
        let station = "address = \"10.0.0.1/24\"\nencapsulation = \"llc-bridged\"\n\
            stations = { \"02:00:00:00:00:09\" = \"0.101\" }";
        let stations = interface(station).unwrap().stations;
        assert_eq!(stations.into_iter().collect::<Vec<_>>(), [([2, 0, 0, 0, 0, 9], "0.101".parse().unwrap())]);
        assert_eq!(bridged.settings.namespace, Some("/run/netns/red".into()));
        let path = interface("address = \"10.0.0.1/24\"\nnamespace = \"/proc/7/ns/net\"").unwrap();
        assert_eq!(path.settings.namespace, Some("/proc/7/ns/net".into()));
    }

    #[test]
    fn a_bridged_device_needs_no_address_and_has_one_mac_address_at_each_start() {
        let bridged = |more: &str| interface(&format!("encapsulation = \"llc-bridged\"\n{more}")).unwrap().settings;
        let plain = bridged("");
        assert_eq!((plain.ip.address, plain.ip.ipv6), (None, None));
        assert!(plain.mac.is_some());
        assert_eq!(plain.mac, bridged("address = \"10.0.0.1/24\"").mac);
        assert_eq!(bridged("mac = \"02:00:00:00:00:09\"").mac, Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(interface("address = \"10.0.0.1/24\"").unwrap().settings.mac, None, "a routed device has none");
    }

    #[test]
    fn an_interface_has_an_ipv6_address_alone_or_beside_the_other() {
        let six = interface("address = \"fd00:9::1/64\"\nroutes = { \"::/0\" = \"fd00:9::2\" }").unwrap();
        assert_eq!((six.settings.ip.address, six.settings.ip.ipv6), (None, Some(("fd00:9::1".parse().unwrap(), 64))));
        assert_eq!(six.routes, [Route::parse("::/0", "fd00:9::2".parse().unwrap()).unwrap()]);
        let both = interface("address = [\"10.0.0.1/24\", \"fd00:9::1/64\"]").unwrap().settings;
        assert_eq!((both.ip.address, both.prefix), (Some(Ipv4Addr::new(10, 0, 0, 1)), 24));
        assert!(both.ip.ipv6.is_some());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        for (text, says) in [
            ("address = \"10.0.0.1\"", "prefix"),
            ("encapsulation = \"llc\"", "address is missing"),
            ("address = [\"10.0.0.1/24\", \"10.0.0.2/24\"]", "one IPv4"),
            ("address = \"10.0.0.1/24\"\nmac = \"02:00:00:00:00:09\"", "bridged"),
            ("encapsulation = \"llc-bridged\"\nmac = \"03:00:00:00:00:09\"", "no station's"),
            ("encapsulation = \"llc-bridged\"\nmac = \"00:00:00:00:00:00\"", "no station's"),
            ("address = \"fd00::1/64\"\nroutes = { \"2001:db8::/32\" = \"10.0.0.2\" }", "both IPv4 or both IPv6"),
            ("address = \"10.0.0.1/24\"\nencapsulation = \"snap\"", "write llc"),
            ("address = \"10.0.0.1/24\"\nmtu = 100", "576"),
            ("address = \"10.0.0.1/24\"\ndevice = \"a-name-that-is-too-long\"", "15 letters"),
            ("address = \"10.0.0.1/24\"\npeers = { \"x\" = \"10.0.0.2\" }", "circuit \"x\""),
            (
                "address = \"10.0.0.1/24\"\nencapsulation = \"vc-bridged\"\nstations = { \"02:0:1\" = \"0.101\" }",
                "six octets",
            ),
            ("address = \"10.0.0.1/24\"\nstations = { \"02:00:00:00:00:09\" = \"0.101\" }", "bridged"),
            ("address = \"10.0.0.1/24\"\nroutes = { \"10.1.0.0\" = \"10.0.0.2\" }", "routes"),
            ("address = \"10.0.0.1/24\"\nserve_atmarp = true\natmarp_server = \"0.100\"", "server"),
        ] {
            let e = format!("{:#}", interface(text).unwrap_err());
            assert!(e.contains(says), "{text}: {e}");
        }
    }
}
