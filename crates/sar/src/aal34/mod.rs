//! AAL3/4 (I.363.3), message mode: PDUs of several senders interleaved on one circuit, each cell checked by a CRC-10
//! and told from the others' by its MID.
//!
//! Out: a [`Sender`] per MID turns an SDU into a [`Segmentation`], which writes cells; an [`Interleaver`] takes turns
//! among several. In: a [`Reassembler`] of one circuit keeps at most so many PDUs open and writes each into the buffer
//! that its caller's [`Storage`] set aside for it. Octets are read once and written once.
//!
//! ```
//! use sar::SduMeta;
//! use sar::aal34::{Event, Interleaver, Reassembler, ReassemblyConfig, Slots};
//! use wire::{Cell, CircuitId, Time};
//!
//! let sdus = [[1; 100], [2; 100]];
//! let mut out = Interleaver::new(CircuitId::new(0, 100).unwrap(), &[5, 6])?;
//! out.begin(0, 100, SduMeta::default())?;
//! out.begin(1, 100, SduMeta::default())?;
//! let mut cells = [Cell::default(); 6];
//! assert_eq!(out.fill(|lane| &sdus[lane][..], &mut cells[..5]).done, Some(0));
//! assert_eq!(out.fill(|lane| &sdus[lane][..], &mut cells[5..]).done, Some(1));
//!
//! let mut memory = [0; 2 * 128];
//! let mut buffers = Slots::new(&mut memory, 128);
//! let mut back = Reassembler::new(ReassemblyConfig { max_open: 2, ..Default::default() });
//! let step = back.push(&cells, &mut buffers, Time::ZERO);
//! let Event::Complete { slot, mid: 5, sdu_octets: 100, .. } = step.event else { panic!() };
//! assert_eq!(buffers.slot(slot)[..100], sdus[0]);
//! let step = back.push(&cells[step.cells_used..], &mut buffers, Time::ZERO);
//! assert!(matches!(step.event, Event::Complete { mid: 6, .. }));
//! # Ok::<(), sar::aal34::SegmentError>(())
//! ```

mod interleave;
mod reassemble;
mod segment;
mod slots;

pub use interleave::{Filled, Interleaver};
pub use reassemble::{Event, Reassembler, ReassemblyConfig, Step, Storage};
pub use segment::{MAX_SDU_OCTETS, SegmentError, Segmentation, Sender, cells};
pub use slots::Slots;

#[cfg(test)]
mod tests;
