//! Traffic contracts, policing, pacing and admission (ITU-T I.371, ATM Forum TM 4.0).
//!
//! In: arrival times of cells, contracts. Out: whether a cell conforms, when the next may go, whether a circuit fits on
//! a link. No clock, no allocation: `now` is passed in.
//!
//! Time inside is kept in fixed point ([`clock::Fine`]: nanoseconds and 2^-32 of one), so that the interval of a rate
//! that is no whole number of nanoseconds does not drift.
#![forbid(unsafe_code)]

pub mod admission;
pub mod category;
pub mod clock;
pub mod conformance;
pub mod contract;
pub mod frame;
pub mod gcra;
pub mod pacer;
pub mod wheel;

pub use admission::{Admission, HOP_CELLS, Refused, periodic_queue};
pub use category::Category;
pub use clock::{CellClock, Fine};
pub use conformance::Conformance;
pub use contract::{Contract, ContractError, Discard, Flow};
pub use frame::{FrameBucket, FrameCell, FrameConformance, FrameFault, FrameGcra};
pub use gcra::{Gcra, LeakyBucket};
pub use pacer::Pacer;
pub use wheel::Wheel;
