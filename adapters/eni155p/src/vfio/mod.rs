//! The adapter as a PCI device of a virtual machine, by the vfio-user protocol (version 0.0) over a UNIX socket.
//!
//! In: a client's messages (QEMU's, or any other's): accesses to configuration space and memory window, descriptors of
//! the guest's memory, an eventfd for the interrupt. Out: replies, DMA to and from what the guest mapped, interrupts; on
//! the other side cells of a network's link ([`apart::Apart`] and [`server::Server`] are [`net::external::External`]s).
//!
//! | module | what |
//! |---|---|
//! | [`protocol`] | messages as octets: parsed and written, nothing else |
//! | [`guest`] | the guest's memory: ranges of bus addresses, each a part of a file |
//! | [`session`] | what one client has set up; requests to answers |
//! | [`server`] | the socket: clients that come, go, crash and come back |
//! | `bus` | the time that DMA takes |
//! | [`apart`] | the server on a thread of its own, so that a slow client holds up no network |
//!
//! A client can do to the adapter what it likes and to nobody else anything: a message that is none ends its connection,
//! a request that makes no sense is answered by an error, and the guest's memory is reached by reading and writing its
//! file, so that a file cut short under us is an error and no signal.

pub mod apart;
mod bus;
pub mod guest;
mod passed;
pub mod protocol;
pub mod server;
pub mod session;
