//! What joins a network to sockets: ATM over TCP, by TLS where it leaves the machine, cells over TCP and UDP, and the
//! relay.
//!
//! In: octets of a peer, and cells or frames of a link's external end. Out: the same the other way. Each kind of link
//! is a protocol without a socket ([`atmtcp::Machine`], [`cells::Machine`], [`udp::Codec`]) and a shell that puts it on
//! one ([`net::External`]), run by the thread that owns the network. Nothing in a shell blocks. Connections that come
//! in, and TLS handshakes, are the work of a thread of this crate's own. Formats: [`wire::atmtcp`], [`wire::udp`],
//! [`wire::octets`].
#![deny(unsafe_code)]

pub mod atmtcp;
pub mod cells;
mod connection;
mod connection_acceptor;
pub mod relay;
mod sys;
pub mod tcp;
pub mod udp;

pub use relay::Relay;
