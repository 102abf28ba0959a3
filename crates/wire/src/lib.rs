//! ATM formats as typed views over octets, and the field's words as types.
//!
//! In: octets from a peer, never trusted. Out: views and plain structs whose contents are in range. No allocation, no
//! input or output, no clock. Standards: ITU-T I.361 (cell), I.432 (header error control), I.363 (adaptation layers),
//! I.610 (OAM), RFC 2684 (encapsulation), RFC 2225 (ATMARP), Q.2110 and Q.2931 (signalling).
//!
//! # Who may panic
//! A *view* is made by `new_checked`, which refuses octets that are too short; after that no accessor panics. `parse`
//! turns a view into a plain struct or an [`Error`]; `emit` writes a struct into a slice of at least `buffer_len()`
//! octets and panics, as slices do, only if the caller gave fewer.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod aal1;
pub mod aal2;
pub mod aal34;
pub mod aal5;
pub mod address;
pub mod aesa;
pub mod atmarp;
pub mod atmtcp;
pub mod cell;
pub mod count;
pub mod crc;
pub mod credit;
pub mod delineation;
pub mod erf;
pub mod heartbeat;
pub mod hec;
#[cfg(test)]
mod hex;
pub mod ilmi;
pub mod lane;
pub mod llc;
pub mod oam;
pub mod octets;
pub mod pcap;
pub mod pseudowire;
pub mod q2931;
pub mod recording;
pub mod sscop;
pub mod sunatm;
pub mod udp;
pub mod units;

pub use address::{AddressError, CircuitId, Label, PvcAddress, Vci, Vpi};
pub use cell::{Cell, CellHeader, PayloadType};
pub use count::{Counters, DropReason};
pub use units::{CellRate, Time};

/// Why octets are not what they were taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer octets than the format needs.
    #[error("{what}: {got} octets, at least {need} needed")]
    Truncated {
        /// The format.
        what: &'static str,
        /// Octets needed.
        need: usize,
        /// Octets given.
        got: usize,
    },
    /// A field holds a value that the format does not allow or this implementation does not know.
    #[error("{what}: {field} is {value:#x}")]
    Field {
        /// The format.
        what: &'static str,
        /// The field, by its name in the standard.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A checksum does not match.
    #[error("{what}: checksum is {got:#x}, computed {want:#x}")]
    Checksum {
        /// The format.
        what: &'static str,
        /// The checksum as received.
        got: u32,
        /// The checksum as computed over the received octets.
        want: u32,
    },
}
