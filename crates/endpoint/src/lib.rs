//! What an application links: an endpoint on virtual circuits, with its data in memory shared with the host interface.
//!
//! An [`Endpoint`] has a communication segment of buffers and three rings of descriptors: send, receive and free
//! (U-Net, in Kazantzidis, 1997). The service opens circuits on it and then stays out of the way: sending and receiving
//! are stores and loads, and a system call only to wake somebody who sleeps. In: SDUs of the application. Out:
//! descriptors that the host interface takes, and the SDUs that it delivered.
//!
//! Two endpoints on one machine can share a ring pair of their own and leave the host interface out: [`direct`].
//!
//! The layout of the shared memory is in [`layout`], the messages to the service in [`control`].
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod app_memory;
#[cfg(not(loom))]
pub mod calls;
#[cfg(not(loom))]
pub mod client;
pub mod control;
#[allow(unsafe_code)]
pub mod direct;
pub mod events;
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod guard;
pub mod layout;
pub mod negotiate;
pub mod passed;
#[cfg(not(loom))]
mod raw_stream;
#[allow(unsafe_code)]
pub mod recycle;
pub mod ring;
#[cfg(not(loom))]
pub mod sealed;
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod segment;
#[cfg(loom)]
#[path = "ring_loom.rs"]
pub mod segment;
pub mod seqpacket;
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod shared;
pub mod socket_path;
mod sync;
mod system_service;
pub mod times;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod uffd;
#[cfg(not(loom))]
pub mod upcall;
#[cfg(not(loom))]
mod view;
pub mod waiting;
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod window;

#[cfg(not(loom))]
pub use app_memory::Memory;
#[cfg(not(loom))]
pub use client::{Connection, Endpoint, EndpointConfig, Error, Loan, Local, Received, SendError, SharedSdu};
pub use control::{Aal, DataPath, Direction, Events, OpenOptions};
#[cfg(not(loom))]
pub use guard::{Guarded, Hold, Overlap};
pub use layout::Geometry;
#[cfg(not(loom))]
pub use view::{Changed, Guarantee};
#[cfg(not(loom))]
pub use window::Window;

/// A channel: a circuit opened on an endpoint. The service gives the number: the channel's place in the low 16 bits,
/// above it the place's generation. No number is used twice, so a descriptor for a channel that is closed belongs to no
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ChannelId(pub u32);

impl ChannelId {
    /// The channel of a place in its generation.
    pub const fn new(place: u16, generation: u16) -> Self {
        ChannelId((generation as u32) << 16 | place as u32)
    }

    /// Its place among an endpoint's channels.
    pub const fn place(self) -> u16 {
        self.0 as u16
    }

    /// How many channels have had the place before.
    pub const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }
}
