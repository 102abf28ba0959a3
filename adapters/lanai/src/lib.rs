//! The Myrinet interface: a LANai with its SRAM, its three DMA engines on one bus, and its control program as a state machine (Boden et
//! al. 1995; Kazantzidis 1997 section 4).
//!
//! In: messages that users queue, buffers they post, packets from the link, the time. Out: packets for the link, messages in the
//! host's memory, events. [`network`] puts interfaces on a [`crate::fabric::Fabric`].
//!
//! A message goes in parts of [`Config::buffer`] octets. For each part the program takes a buffer of the SRAM, has the host's engine
//! fetch the octets, puts route and head before them, and gives the packet to the send engine. What comes stands whole in a buffer
//! until the program has looked at it and the host's engine has moved it. When no buffer is free the interface stops the link: so what
//! the host is too slow for waits in the network, and is not lost.
//!
//! The SRAM does one access each half clock. The engines of the link have it first, since symbols do not wait; the host's engine gets
//! what they leave, and the processor what all leave. (The order of the real chip is not public.) [`Config`] has a switch for each mechanism.
//!
//! | module | what |
//! |---|---|
//! | [`packet`] | Myrinet packets, messages of mapping, heads of messages, tags of circuits |
//! | [`fabric`] | links, switches and cables in virtual time; routes and mapping |
//! | `config.rs`, `program.rs` | the interface and its control program |
//! | [`network`] | interfaces on a fabric |
//! | [`myrinet`] | a Myrinet as an element of a network, which circuits pass |
//! | [`kind`] | Myrinets as a kind of station of a daemon |
#![forbid(unsafe_code)]

mod config;
pub mod fabric;
pub mod kind;
pub mod myrinet;
pub mod network;
pub mod packet;
mod program;

pub use config::{Config, Costs, MulticastBy, Switches};
pub use network::NetworkSums;
pub use program::{Destination, Event, Lanai, LanaiSums, Monitor, Posted, Refused};
