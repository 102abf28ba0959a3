//! A TUN or TAP device over IP over ATM: the machine's own TCP/IP stack on circuits.
//!
//! A packet is read from the device straight into the buffer that becomes its SDU, behind room for the header, and
//! written to the device straight from such a buffer. The device leaves checksums and the cutting of long packets to
//! us; a peer that is such a device too gets them as they are, in one SDU; for any other it is done here (`passage`).
//! TCP segments that come one after the other are written as one packet, whoever has cut them
//! ([`Join`](crate::ip::Join)).
//!
//! Two shells: [`Tun`] is a user of an endpoint, in whatever process; [`Line`] is the outside end of a frame link, on
//! the network's own thread, which spares a packet two rings and two wake-ups.

mod device;
mod line;
mod mac;
mod passage;
mod sys;
mod user;

pub use device::{Device, DeviceSettings};
pub use line::Line;
pub use mac::stable_mac;
pub use user::Tun;

use crate::ip::Config;

/// PDUs, or packets, that are taken from one side before the other is looked at: as many segments as become one packet.
const TURN: usize = 64;
/// Octets of packets likewise: what is read in a turn is written while it is still in the second-level cache.
const TURN_OCTETS: usize = 128 * 1024;
/// Where packets are long: two of the longest. While more are read, who receives them has nothing to do, and sleeps.
const LONG_TURN_OCTETS: usize = 64 * 1024;

/// What a device on circuits is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The device's name.
    pub name: String,
    /// Bits of its IPv4 address that are the subnet's.
    pub prefix: u8,
    /// The interface; a bridged encapsulation makes a TAP device, a routed one a TUN device.
    pub ip: Config,
    /// Whether the device leaves checksums and cutting to us.
    pub device_offload: bool,
    /// The MAC address of a TAP device; without, one that the system draws at each start.
    pub mac: Option<[u8; 6]>,
    /// The network namespace it is made in, as a path such as `/run/netns/red`; without, the calling thread's.
    pub namespace: Option<std::path::PathBuf>,
}

impl Settings {
    /// A device of this name in the calling thread's network namespace, which leaves work over if the interface may.
    pub fn new(name: &str, prefix: u8, ip: Config) -> Self {
        Settings { name: name.into(), prefix, device_offload: ip.offload, ip, mac: None, namespace: None }
    }

    fn device(&self) -> DeviceSettings {
        DeviceSettings {
            name: self.name.clone(),
            address: self.ip.address.map(|address| (address, self.prefix)),
            ipv6: self.ip.ipv6,
            mac: self.mac,
            mtu: self.ip.mtu,
            ethernet: self.ip.encapsulation.is_bridged(),
            offload: self.device_offload,
            takes_long: true,
            namespace: self.namespace.clone(),
        }
    }
}
