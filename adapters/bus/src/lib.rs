//! A host's memory and bus as an adapter that is the bus's master sees them, and the parts that several drivers share.
//!
//! In: an adapter's reads and writes by bus address; loads, stores and copies of a process and its kernel. Out: octets,
//! faults, and a count of what crossed the bus, by who moved it. The crate is called `bus` because the bus is the border
//! between an adapter and its host: each crate of an adapter uses this one for the host's side.
//!
//! | module | what |
//! |---|---|
//! | [`memory`] | the host's memory by bus address, without processes |
//! | [`iocc`] | the same behind an I/O channel controller: page frames, translation for devices |
//! | [`paged`] | the same where SDUs leave from processes' own pages and arrive in them |
//! | [`crossings`] | what crosses that memory's bus, by who moves it |
//! | [`peers`] | other cards of the bus, which an adapter reaches past the host's memory |
//! | [`sockets`] | a kernel's sockets above a driver that maps pages |
//! | [`clock`] | the time of an element that is simulated, beside its network's |
//!
//! ```
//! use bus::HostMemory;
//! use bus::memory::Flat;
//!
//! let mut memory = Flat::new(0x1000, 16);
//! memory.write(0x1008, &[7; 8])?;
//! assert!(memory.write(0x1009, &[7; 8]).is_err());
//! # Ok::<(), bus::Unmapped>(())
//! ```
#![forbid(unsafe_code)]

pub mod clock;
pub mod crossings;
pub mod iocc;
pub mod memory;
pub mod paged;
pub mod peers;
pub mod sockets;

pub use memory::{HostMemory, Unmapped};
