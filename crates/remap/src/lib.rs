//! Single copy by pages (Almesberger 1995, sections 3.2 to 3.5): an SDU leaves from the application's own pages, and
//! arrives in pages that become the application's.
//!
//! State machines without system calls. In: what processes do with their pages, what a network interface is done with,
//! headers of PDUs. Out: orders to whoever keeps page tables and frames ([`Tables`]), scatter-gather lists, guesses
//! where data will be wanted. A driver of a modelled host carries the orders out on a modelled memory, an endpoint by
//! `mmap`.
//!
//! | module | what |
//! |---|---|
//! | [`spaces`] | processes' pages on frames: send locking, copy on write, replacement by a read, mapping of what was received |
//! | [`gather`] | the scatter-gather list that a segmenter walks |
//! | [`runs`] | frames that lie in a row, to be taken and given back |
//! | [`layers`] | headers and trailers of a PDU, layer by layer |
//! | [`look`] | the quick look at a PDU that is still in the adapter, and the check of what it assumed |
//! | [`predict`] | where the next PDU of a circuit will be wanted, and whether its trailers ask for another strategy |
//! | [`align`] | padding, and the alignment that avoids a copy |
#![forbid(unsafe_code)]

pub mod align;
pub mod gather;
pub mod layers;
pub mod look;
pub mod predict;
pub mod runs;
pub mod spaces;

pub use gather::{Extent, Frame, Gather};
pub use runs::Runs;
pub use spaces::{FramePlace, Hold, Overlap, Process, Refusal, Sending, Spaces, Tables};
