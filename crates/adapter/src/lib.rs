//! Register-level models of ATM adapters, and drivers for them.
//!
//! In: a host's register accesses, its memory, cells from a line, the time. Out: cells for the line, writes to the
//! host's memory, an interrupt line. A model is a state machine: it has no thread, no clock and no socket, and whatever a
//! host writes to it is survived and counted. What a guest does through a bus and what a test does by hand are the same
//! calls.
//!
//! | module | what |
//! |---|---|
//! | [`midway`] | the Efficient Networks ENI155P: "Midway" segmentation and reassembly |
//! | [`tonga`] | its PCI bridge: configuration space, serial EEPROM |
//! | [`suni`] | its line framer |
//! | [`penn`] | the Segmenter and the Reassembler of Traw and Smith |
//! | [`jit`] | a just-in-time DMA adapter, which keeps next to nothing |
//! | [`plain`] | an adapter without an adaptation layer, for contrast |
//! | [`apic`] | the ATM Port Interconnect Controller, a switch of three ports for a desk area |
//! | [`desk`] | a network of APICs as an element of a network, and cameras, displays and stores at it |
//! | [`lanai`] | the Myrinet interface and its control program |
//! | [`oc12`] | the second generation of it, on one board, at OC-12c |
//! | [`memory`] | the host's memory, as an adapter sees it |
//! | [`crossings`] | what crosses that memory's bus, by who moves it |
//! | [`iocc`] | the same behind an I/O channel controller: page frames, translation for devices |
//! | [`paged`] | the same where SDUs leave from processes' own pages and arrive in them |
//! | [`vfio`] | the adapter as a PCI device of a virtual machine |
//! | [`driver`] | a driver of our own for each model |
//!
//! ```
//! use adapter::midway::{Config, Eni155p};
//! use wire::Time;
//!
//! let mut adapter = Eni155p::new(Config::default());
//! let mut id = [0; 4];
//! adapter.config_read(0, &mut id);
//! assert_eq!(u32::from_le_bytes(id), 0x0002_111a);
//! // The Midway's identity register: bit 9 says "ASIC".
//! adapter.bar_read(0x40000, &mut id, Time::ZERO);
//! assert_ne!(u32::from_le_bytes(id) & 0x200, 0);
//! ```
#![forbid(unsafe_code)]

pub mod apic;
mod clock;
pub mod crossings;
pub mod desk;
pub mod driver;
pub mod iocc;
pub mod jit;
pub mod lanai;
pub mod memory;
pub mod midway;
pub mod myrinet;
pub mod oc12;
pub mod paged;
pub mod penn;
pub mod plain;
pub mod suni;
pub mod tonga;
pub mod vfio;

pub use memory::{HostMemory, Unmapped};
