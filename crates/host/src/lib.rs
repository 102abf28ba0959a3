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

mod alarms;
mod answers;
mod app_memory;
pub mod back_pressure;
mod channels;
mod circuit;
mod circuits;
mod credit;
mod cycle_limit;
mod direct;
mod doorbell;
mod ended;
mod endpoints;
pub mod engine;
pub mod events;
mod host_endpoint;
mod intake;
mod interface;
mod inward;
mod lending;
mod lent;
mod oam;
mod outbound;
mod outward;
mod pages;
pub mod panics;
pub mod path;
mod proxy;
pub mod quota;
mod reaper;
mod receive_backlog;
mod rounds;
pub mod service;
#[allow(unsafe_code)]
mod sys;
mod transmit_scheduler;

/// What a live network adds to the variation of delay at each hop: its thread is on time to within this, or the
/// tolerance of contracts is used up.
pub const ROUND: std::time::Duration = std::time::Duration::from_millis(1);

pub use channels::EndpointId;
pub use circuit::{CircuitConfig, CircuitCounts, CircuitStatus};
pub use doorbell::Doorbell;
pub use ended::{EndedCounts, EndedObject};
pub use events::{Bell, EventCounts};
pub use host_endpoint::{AttachError, HostEndpoint};
pub use interface::{EndpointStatus, HostInterface, OpenError};
pub use lent::Lent;
pub use oam::{MAX_POINTS, OamError, OamStatus};
