//! What is outside at a link.

use super::{Device, Pseudowire, Served, Udp};
use crate::kinds::OwnEnd;
use net::Carries;

/// What is outside at a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Shell {
    /// ATM over TCP.
    AtmTcp {
        /// Who connects.
        role: links::tcp::Role,
        /// The host to which circuits of the peer's lead.
        peer_circuits_to: Option<String>,
        /// The texts of its TLS.
        tls: Option<links::tcp::TlsTexts>,
    },
    /// Cells over TCP.
    Tcp {
        /// Who connects.
        role: links::tcp::Role,
        /// The texts of its TLS.
        tls: Option<links::tcp::TlsTexts>,
    },
    /// Cells in datagrams.
    Udp(Udp),
    /// A pseudowire over UDP.
    Pseudowire(Pseudowire),
    /// A virtual adapter, and whoever drives it.
    Adapter(Served),
    /// An IP interface on a device.
    Interface(Box<Device>),
    /// What a station of a registered kind brings along.
    Own(OwnEnd),
}

impl Shell {
    /// What the far end of a link to it is called in messages, and what such a link carries.
    pub(crate) fn of_its_own(&self) -> Option<(&'static str, &str, Carries)> {
        match self {
            Shell::Adapter(served) => Some(("adapter", &served.name, Carries::Cells)),
            Shell::Interface(device) => Some(("interface", &device.name, Carries::Frames)),
            Shell::Own(end) => Some((end.kind(), end.name(), end.carries())),
            Shell::AtmTcp { .. } | Shell::Tcp { .. } | Shell::Udp(_) | Shell::Pseudowire(_) => None,
        }
    }
}
