//! The host interface: what stands between applications' endpoints and the network.
//!
//! [`HostInterface`] is a node of a [`net::Network`]: a state machine without threads or clocks. In: descriptors from
//! endpoints' send rings, cells or frames from links. Out: cells or frames, and SDUs in the endpoints' own buffers.
//! [`engine`] is the thread that runs a network on this machine's clock, and [`service`] the door through which
//! applications get their endpoints and circuits; neither decides anything about data.
//!
//! A data path ([`path`]) and an event strategy ([`events`]) is a module each.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod aal34;
mod attached;
mod channels;
mod circuit;
mod circuits;
mod credit;
mod departing;
mod direct;
mod doorbell;
mod doors;
mod endpoints;
pub mod engine;
pub mod events;
mod interface;
mod inward;
#[allow(unsafe_code)]
pub mod measure;
mod outbound;
mod outward;
mod own;
mod pages;
pub mod path;
pub mod quota;
mod reaper;
mod rounds;
pub mod service;
#[allow(unsafe_code)]
mod sys;
mod turns;

pub use attached::{AttachError, Attached};
pub use circuit::{CircuitCounts, CircuitStatus};
pub use doorbell::Doorbell;
pub use events::{Bell, EventCounts};
pub use interface::{CircuitConfig, EndpointId, EndpointStatus, HostInterface, OpenError};
pub use sys::measure_remap;
