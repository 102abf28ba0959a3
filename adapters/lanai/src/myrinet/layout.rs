//! What a Myrinet is made of, and the fabric that it becomes.

use crate::fabric::mapper::Settings;
use crate::fabric::{End, Fabric, FabricError, HostId, SWITCH_PORTS, SwitchId};
use crate::network::Network;
use crate::packet::mapping::Address;
use crate::packet::tag::TAG_OCTETS;
use crate::{Config, Posted};
use std::collections::BTreeMap;

/// Hosts of one Myrinet at most: each has memory for the messages that it sends and receives.
pub const MAX_HOSTS: usize = 64;
/// Switches of one Myrinet at most.
pub const MAX_SWITCHES: usize = 64;
/// The first host's address; the others follow. The prefix is Myricom's.
const FIRST_ADDRESS: Address = 0x0060_dd00_0001;

/// The longest message: an SDU of AAL5 and its tag.
const MESSAGE: usize = 65_535 + TAG_OCTETS;
/// Octets from one place in a host's memory to the next.
const PLACE: u64 = 0x1_0080;
/// Messages of circuits that a host has under way at most.
pub(super) const SLOTS: usize = 8;
/// Buffers for messages to come, of each interface that is in use.
const BUFFERS: u64 = 8;

/// User interface 0 is the IP driver's; circuits travel by this one.
pub const CIRCUITS: usize = 1;
/// The traffic generator's user interface.
pub const GENERATOR: usize = 2;

/// Where a cable ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plug {
    /// At a host, by its place in the list.
    Host(usize),
    /// At a switch, by its place in the list, and a port of it.
    Switch(usize, usize),
}

/// A cable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cable {
    /// What it joins.
    pub ends: [Plug; 2],
    /// Its length.
    pub metres: f64,
}

/// A Myrinet: hosts, switches, cables, and which mechanisms are on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    /// Names of hosts. Each is at the port of its place.
    pub hosts: Vec<String>,
    /// Names of switches, and their ports.
    pub switches: Vec<(String, usize)>,
    /// Cables.
    pub cables: Vec<Cable>,
    /// Links and switches.
    pub links: crate::fabric::Config,
    /// Interfaces.
    pub lanai: Config,
    /// Mapping.
    pub mapping: Settings,
}

/// Why a layout cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// More hosts, or more switches, than there may be.
    #[error("{what}: {count} are too many, {most} at most")]
    TooMany {
        /// Of which.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A switch has no such number of ports.
    #[error("switch {name}: {ports} ports; write {least} to {most}", least = SWITCH_PORTS.start(), most = SWITCH_PORTS.end())]
    Ports {
        /// The switch.
        name: String,
        /// Its ports.
        ports: usize,
    },
    /// A cable cannot be plugged.
    #[error("{0}")]
    Cable(#[from] FabricError),
}

impl Layout {
    /// The address of a host.
    pub fn address(host: usize) -> Address {
        FIRST_ADDRESS + host as u64
    }

    /// The host of an address.
    pub fn host(&self, address: Address) -> Option<usize> {
        let host = usize::try_from(address.checked_sub(FIRST_ADDRESS)?).ok()?;
        (host < self.hosts.len()).then_some(host)
    }

    /// An end of a cable as a description writes it.
    pub fn name(&self, plug: Plug) -> String {
        match plug {
            Plug::Host(host) => self.hosts.get(host).cloned().unwrap_or_default(),
            Plug::Switch(switch, port) => {
                let name = self.switches.get(switch).map_or("", |(name, _)| name);
                format!("{name}:{port}")
            }
        }
    }

    /// Whether a layout is the same but for its cables: those can be pulled and plugged while packets pass.
    pub fn differs_in_cables_only(&self, other: &Layout) -> bool {
        Layout { cables: Vec::new(), ..self.clone() } == Layout { cables: Vec::new(), ..other.clone() }
    }

    /// Its cables that another layout does not have.
    pub(super) fn cables_without(&self, other: &Layout) -> impl Iterator<Item = &Cable> {
        // At each plug is one.
        let others: BTreeMap<Plug, Cable> = other.cables.iter().map(|cable| (cable.ends[0], *cable)).collect();
        self.cables.iter().filter(move |cable| others.get(&cable.ends[0]) != Some(cable))
    }

    /// What is wrong with it: with the whole (`None`), or with a cable by its place.
    pub fn problems(&self) -> Vec<(Option<usize>, LayoutError)> {
        let mut all = Vec::new();
        let counts = [("hosts", self.hosts.len(), MAX_HOSTS), ("switches", self.switches.len(), MAX_SWITCHES)];
        for (what, count, most) in counts.into_iter().filter(|(_, count, most)| count > most) {
            all.push((None, LayoutError::TooMany { what, count, most }));
        }
        for (name, ports) in self.switches.iter().filter(|(_, ports)| !SWITCH_PORTS.contains(ports)) {
            all.push((None, LayoutError::Ports { name: name.clone(), ports: *ports }));
        }
        if all.is_empty() {
            let (mut fabric, places) = self.nodes();
            for (n, cable) in self.cables.iter().enumerate() {
                if let Err(e) = places.plug(&mut fabric, cable) {
                    all.push((Some(n), e.into()));
                }
            }
        }
        all
    }

    fn nodes(&self) -> (Fabric, Places) {
        let mut fabric = Fabric::new(self.links);
        let switches = self.switches.iter().filter_map(|(_, ports)| fabric.add_switch(*ports).ok()).collect();
        let hosts = self.hosts.iter().map(|_| fabric.add_host()).collect();
        (fabric, Places { hosts, switches })
    }

    /// Interfaces on a fabric, with buffers for circuits.
    pub(super) fn build(&self) -> (Network, Places) {
        let (mut fabric, places) = self.nodes();
        for cable in &self.cables {
            // A layout is checked before it is built; a cable that does not fit is not there.
            let _ = places.plug(&mut fabric, cable);
        }
        let mut network = Network::new(fabric);
        let lanai = Config { message: MESSAGE, ..self.lanai };
        for (n, host) in places.hosts.iter().enumerate() {
            let memory = (place(Region::End, 0) + PLACE) as usize;
            let number = network.add(*host, Self::address(n), lanai, self.mapping, memory);
            post(&mut network, number, CIRCUITS);
            post(&mut network, number, GENERATOR);
        }
        (network, places)
    }
}

fn post(network: &mut Network, number: usize, interface: usize) {
    let region = if interface == CIRCUITS { Region::Receive } else { Region::GeneratorReceive };
    let Some(station) = network.station(number) else { return };
    for n in 0..BUFFERS {
        // The queue is longer than these.
        let _ = station.lanai.post(interface, Posted { address: place(region, n), octets: MESSAGE as u32 });
    }
}

/// What a host's memory is used for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Region {
    /// Messages of circuits that are being sent: the copy block.
    Send,
    /// Messages of circuits that come.
    Receive,
    /// The generator's message, and the octet that acknowledges one.
    GeneratorSend,
    /// The generator's messages that come.
    GeneratorReceive,
    End,
}

/// Where a place of a region begins.
pub(super) fn place(region: Region, n: u64) -> u64 {
    let before = match region {
        Region::Send => 0,
        Region::Receive => SLOTS as u64,
        Region::GeneratorSend => SLOTS as u64 + BUFFERS,
        Region::GeneratorReceive => SLOTS as u64 + BUFFERS + 2,
        Region::End => SLOTS as u64 + 2 * BUFFERS + 2,
    };
    (before + n) * PLACE
}

/// A layout's hosts and switches in its fabric.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) hosts: Vec<HostId>,
    pub(super) switches: Vec<SwitchId>,
}

impl Places {
    pub(super) fn end(&self, plug: Plug) -> Option<End> {
        Some(match plug {
            Plug::Host(host) => End::Host(*self.hosts.get(host)?),
            Plug::Switch(switch, port) => End::Port(*self.switches.get(switch)?, port),
        })
    }

    /// Plugs a cable; one with an end that a layout does not have is ignored.
    pub(super) fn plug(&self, fabric: &mut Fabric, cable: &Cable) -> Result<(), FabricError> {
        let [Some(a), Some(b)] = cable.ends.map(|plug| self.end(plug)) else { return Ok(()) };
        fabric.connect(a, b, cable.metres)
    }

    /// Pulls a cable.
    pub(super) fn pull(&self, fabric: &mut Fabric, cable: &Cable) {
        if let Some(end) = self.end(cable.ends[0]) {
            let _ = fabric.disconnect(end);
        }
    }
}
