//! What an application links: an endpoint on virtual circuits, with its data in memory shared with the host interface.
//!
//! | to | use |
//! |---|---|
//! | reach the service | [`Service`], [`default_socket`] |
//! | send and receive SDUs on a host's circuits | [`Endpoint`], made by [`Service::endpoint`] |
//! | compose an SDU where the host reads it | [`Loan`], from [`Endpoint::loan`] |
//! | read an SDU where it arrived | [`Received`], from [`Endpoint::receive`] |
//! | join two programs of one machine without the host interface | [`Direct`], made by [`Service::direct`] |
//! | make and take calls | [`Session`], made by [`Service::calls`] |
//! | wait in a poll, epoll, mio or tokio loop | [`Endpoint::arm`], [`Endpoint::disarm`] and the descriptor of `AsFd` |
//!
//! Modules that this page does not show serve the project's own crates, and change without notice.
//!
//! An [`Endpoint`] has a communication segment of buffers and three rings of descriptors: send, receive and free
//! (U-Net, in Kazantzidis, 1997). The service opens circuits on it and then stays out of the way: sending and receiving
//! are stores and loads, and a system call only to wake somebody who sleeps. In: SDUs of the application. Out:
//! descriptors that the host interface takes, and the SDUs that it delivered.
//!
//! The project's `docs/building-on-it.md` has an echo in Rust, C and Python, and `docs/shared-memory.md` the layout of
//! the shared memory.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod app_memory;
#[cfg(not(loom))]
pub mod calls;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod control;
#[allow(unsafe_code)]
pub mod direct;
#[doc(hidden)]
pub mod events;
#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod guard;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod held;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod negotiate;
#[doc(hidden)]
pub mod passed;
#[cfg(not(loom))]
mod raw_stream;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod recycle;
#[doc(hidden)]
pub mod ring;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod sealed;
#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod segment;
#[cfg(loom)]
#[path = "ring_loom.rs"]
#[doc(hidden)]
pub mod segment;
#[doc(hidden)]
pub mod seqpacket;
#[cfg(not(loom))]
mod service;
#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod shared;
#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod shared_copy;
#[doc(hidden)]
pub mod socket_path;
mod sync;
mod system_service;
#[doc(hidden)]
pub mod times;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod uffd;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod upcall;
#[cfg(not(loom))]
mod view;
#[doc(hidden)]
pub mod waiting;
#[cfg(not(loom))]
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod window;

#[cfg(not(loom))]
pub use app_memory::Memory;
#[cfg(not(loom))]
pub use calls::{CallError, Session};
#[cfg(not(loom))]
#[doc(hidden)]
pub use client::{Connection, Local};
#[cfg(not(loom))]
pub use client::{Endpoint, EndpointConfig, Error, Loan, Received, SendError, SharedSdu, SystemError};
#[cfg(not(loom))]
pub use client::{request_limit, set_request_limit};
pub use control::{Aal, DataPath, Direction, Events, OpenOptions, Refusal};
#[cfg(not(loom))]
pub use direct::{Direct, DirectConfig};
#[cfg(not(loom))]
#[doc(hidden)]
pub use guard::{Guarded, Hold, Overlap};
pub use layout::Geometry;
#[cfg(not(loom))]
#[doc(hidden)]
pub use service::own_socket;
#[cfg(not(loom))]
pub use service::{SOCKET_VARIABLE, Service, default_socket};
#[cfg(not(loom))]
pub use view::{Changed, Guarantee};
#[cfg(not(loom))]
#[doc(hidden)]
pub use window::Window;
pub use wire::CircuitId;

/// A channel: a circuit opened on an endpoint. The service gives the number: the channel's place in the low 16 bits,
/// above it the place's generation. No number is used twice, so a descriptor for a channel that is closed belongs to no
/// other.
///
/// ```
/// use endpoint::ChannelId;
///
/// assert_eq!((ChannelId(0x0002_0005).place(), ChannelId(0x0002_0005).generation()), (5, 2));
/// ```
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
