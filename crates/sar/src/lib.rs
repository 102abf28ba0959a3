//! Segmentation and reassembly: cells from SDUs and SDUs from cells, as state machines that own no memory.
//!
//! In: an SDU and room for cells, or cells and room for an SDU; both in batches, both the caller's. Out: how far it
//! got. Nothing is allocated. A [`Segmentation`] goes on where it stopped, so that circuits can take turns; a
//! [`Reassembler`] writes into the buffer that its caller took from the receiving endpoint. AAL5 follows I.363.5,
//! AAL0 is the bare cell. What AAL5 does per octet is done by a [`Kernel`] that fits the processor.
//!
//! ```
//! use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
//! use wire::{Cell, CircuitId, Time};
//!
//! let circuit = CircuitId::new(0, 100).unwrap();
//! let mut cells = [Cell::default(); 8];
//! let mut out = Segmentation::new(circuit, 100, SduMeta::default())?;
//! let n = out.fill(&[7; 100], &mut cells);
//! assert_eq!(n, 3);
//!
//! let mut buffer = [0; 128];
//! let mut back = Reassembler::new(ReassemblyConfig::default());
//! let step = back.push(&cells[..n], &mut buffer, Time::ZERO);
//! assert!(matches!(step.event, Event::Complete { sdu_octets: 100, .. }));
//! assert_eq!(buffer[..100], [7; 100]);
//! # Ok::<(), sar::SegmentError>(())
//! ```
#![deny(unsafe_code)]

pub mod aal0;
pub mod aal1;
pub mod aal2;
pub mod aal34;
mod batch;
mod demux;
mod fault;
mod kernel;
mod reassemble;
mod segment;

pub use batch::{segment_batch, segment_batch_by, segment_batch53};
pub use demux::{CircuitCounts, Demux, OpenError};
pub use kernel::{Batch, Checksum, Delivery, DemuxConfig, Kernel, Outgoing, Progress, Reason};
pub use reassemble::{Count, Event, Reassembler, ReassemblyConfig, Step};
pub use segment::{SegmentError, Segmentation};

/// What travels beside an SDU's octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SduMeta {
    /// AAL5 user-to-user indication.
    pub uu: u8,
    /// AAL5 common part indicator: zero, unless sender and receiver know better (I.363.5 lets others be discarded).
    pub cpi: u8,
    /// Cell loss priority: of every cell out; of any cell in.
    pub clp: bool,
    /// Congestion experienced: of the last cell (I.363.5 section 9.2.1.1).
    pub congestion: bool,
}
