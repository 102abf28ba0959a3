//! What joins a network to sockets: ATM over TCP, by TLS where it leaves the machine, cells over UDP, and the relay.
//!
//! In: octets of a peer, and cells or frames of a link's external end. Out: the same the other way. Each kind of link is a protocol
//! without a socket ([`atmtcp::Machine`], [`udp::Codec`]) and a shell that puts it on one ([`net::External`]), run by the
//! thread that owns the network. Nothing in a shell blocks. Formats: [`wire::atmtcp`], [`wire::udp`], [`wire::octets`].
#![forbid(unsafe_code)]

pub mod atmtcp;
pub mod relay;
pub mod udp;

pub use relay::Relay;
