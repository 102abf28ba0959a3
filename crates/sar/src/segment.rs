//! AAL5 segmentation (I.363.5): the SDU is read once; each octet is copied into its cell and taken into the CRC then.

mod gather;

use crate::SduMeta;
use crate::kernel::{Kernel, Out, SLOT, WIRE};
use core::sync::atomic::AtomicU8;
use wire::aal5::{MAX_SDU_OCTETS, Trailer, cells};
use wire::{Cell, CellHeader, CircuitId, PayloadType};

/// Why an SDU cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// AAL5 carries 65 535 octets at most.
    #[error("an SDU of {0} octets: AAL5 carries 65535 at most")]
    TooLong(usize),
    /// Length 0 means abort; I.363.5 has no SDU without octets.
    #[error("an SDU of no octets: AAL5 takes that for an abort")]
    Empty,
}

/// One SDU on its way into cells.
#[derive(Debug, Clone, Copy)]
pub struct Segmentation {
    out: Out,
    kernel: Kernel,
}

pub(crate) const fn checked(sdu_octets: usize) -> Result<(), SegmentError> {
    match sdu_octets {
        0 => Err(SegmentError::Empty),
        1..=MAX_SDU_OCTETS => Ok(()),
        _ => Err(SegmentError::TooLong(sdu_octets)),
    }
}

#[inline]
pub(crate) const fn out(circuit: CircuitId, sdu_octets: usize, meta: SduMeta, state: u128) -> Out {
    let payload_type = PayloadType::User { congestion: meta.congestion, end: false };
    let header = CellHeader { circuit, payload_type, clp: meta.clp };
    let trailer = Trailer { uu: meta.uu, cpi: meta.cpi, length: sdu_octets as u16, crc: 0 };
    let [uu, cpi, l1, l0, ..] = trailer.to_octets();
    Out {
        state,
        head: u32::from_le_bytes(header.to_word().to_be_bytes()),
        sdu_octets: sdu_octets as u32,
        cells: cells(sdu_octets) as u32,
        done: 0,
        trailer: u32::from_le_bytes([uu, cpi, l1, l0]),
    }
}

impl Segmentation {
    /// Begins an SDU of `sdu_octets` octets on `circuit`.
    ///
    /// # Errors
    /// No octets, or more than 65 535.
    pub fn new(circuit: CircuitId, sdu_octets: usize, meta: SduMeta) -> Result<Self, SegmentError> {
        Self::with_kernel(Kernel::chosen(), circuit, sdu_octets, meta)
    }

    /// The same by a kernel of the caller's choice.
    ///
    /// # Errors
    /// As [`Segmentation::new`].
    pub fn with_kernel(
        kernel: Kernel,
        circuit: CircuitId,
        sdu_octets: usize,
        meta: SduMeta,
    ) -> Result<Self, SegmentError> {
        checked(sdu_octets)?;
        Ok(Segmentation { out: out(circuit, sdu_octets, meta, kernel.start()), kernel })
    }

    /// Gives the SDU up: what is left of it is one cell, which ends the PDU that the receiver has begun, with length 0
    /// and the CRC of what was sent. If no cell was written yet, none is needed and [`Segmentation::is_done`] is true.
    pub fn abort(&mut self) {
        let begun = self.out.done > 0 && !self.is_done();
        self.out.sdu_octets = 0;
        self.out.trailer = 0;
        self.out.cells = u32::from(begun);
        self.out.done = 0;
    }

    /// Writes the next cells of `sdu` (the same octets at each call) into `out`; gives how many. None are written when
    /// the SDU is done, or if `sdu` is shorter than it was said to be.
    pub fn fill(&mut self, sdu: &[u8], out: &mut [Cell]) -> usize {
        // SAFETY: slices give their octets and cells.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<SLOT>(sdu.as_ptr(), sdu.len(), out.as_mut_ptr().cast(), out.len())
        }
    }

    /// The same for an SDU in memory that its owner may still write. Some kernels read an octet twice, to copy it and
    /// for the CRC: an owner that writes meanwhile may send a PDU that its receiver drops, and nothing else.
    pub fn fill_shared(&mut self, sdu: &[AtomicU8], out: &mut [Cell]) -> usize {
        // SAFETY: as above; no octet is an invalid value, whoever writes it when, and no decision depends on one.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<SLOT>(sdu.as_ptr().cast(), sdu.len(), out.as_mut_ptr().cast(), out.len())
        }
    }

    /// Writes the next cells as on the wire, 53 octets each with their HEC (I.432.1); gives how many cells.
    pub fn fill53(&mut self, sdu: &[u8], out: &mut [u8]) -> usize {
        // SAFETY: as many cells as there are 53 octets.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<WIRE>(sdu.as_ptr(), sdu.len(), out.as_mut_ptr(), out.len() / WIRE)
        }
    }

    /// # Safety
    /// `sdu` gives `octets` octets, `to` has room for `room` cells of `S` octets.
    #[allow(unsafe_code)]
    unsafe fn run<const S: usize>(&mut self, sdu: *const u8, octets: usize, to: *mut u8, room: usize) -> usize {
        if octets < self.sdu_octets() {
            return 0;
        }
        // SAFETY: the caller's, and the SDU's octets are there.
        unsafe { self.kernel.segment::<S>(&mut self.out, sdu, to, room) }
    }

    /// Whether all cells have been written.
    pub const fn is_done(&self) -> bool {
        self.out.done == self.out.cells
    }

    /// Cells still to be written.
    pub const fn cells_left(&self) -> usize {
        (self.out.cells - self.out.done) as usize
    }

    /// The circuit.
    pub const fn circuit(&self) -> CircuitId {
        CellHeader::from_word(self.out.head.swap_bytes()).circuit
    }

    /// Octets of the SDU.
    pub const fn sdu_octets(&self) -> usize {
        self.out.sdu_octets as usize
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CIRCUIT: &str = "1.42";

    fn all(sdu: &[u8], meta: SduMeta) -> Vec<Cell> {
        let mut out = vec![Cell::default(); cells(sdu.len())];
        let mut s = Segmentation::new(CIRCUIT.parse().unwrap(), sdu.len(), meta).unwrap();
        assert_eq!(s.fill(sdu, &mut out), out.len());
        assert!(s.is_done());
        out
    }

    #[test]
    fn a_pdu_is_right_by_the_trailer_check_that_reads_whole_pdus() {
        for octets in [1, 40, 41, 48, 88, 89, 1500, 9188, 65_535] {
            let sdu: Vec<u8> = (0..octets).map(|i| i as u8).collect();
            let cells = all(&sdu, SduMeta { uu: 3, ..SduMeta::default() });
            let pdu: Vec<u8> = cells.iter().flat_map(|c| c.payload).collect();
            let trailer = wire::aal5::check(&pdu).unwrap();
            assert_eq!((usize::from(trailer.length), trailer.uu), (octets, 3));
            assert_eq!(&pdu[..octets], &sdu[..]);
            assert!(pdu[octets..pdu.len() - 8].iter().all(|o| *o == 0), "padding is zero");
            let ends = cells.iter().map(|c| c.header().payload_type.bits() & 1).collect::<Vec<_>>();
            assert_eq!(ends.iter().position(|e| *e == 1), Some(cells.len() - 1));
        }
    }

    #[test]
    fn lengths_that_aal5_has_not_are_refused() {
        let circuit = CIRCUIT.parse().unwrap();
        assert_eq!(Segmentation::new(circuit, 0, SduMeta::default()).err(), Some(SegmentError::Empty));
        assert!(Segmentation::new(circuit, 65_536, SduMeta::default()).is_err());
        assert_eq!(Segmentation::new(circuit, 5, SduMeta::default()).unwrap().fill(&[0; 4], &mut [Cell::default()]), 0);
    }

    proptest! {
        #[test]
        fn in_any_portions_the_cells_are_the_same(sdu in proptest::collection::vec(any::<u8>(), 1..2000), portion in 1usize..9) {
            let whole = all(&sdu, SduMeta::default());
            let mut s = Segmentation::new(CIRCUIT.parse().unwrap(), sdu.len(), SduMeta::default()).unwrap();
            let mut parts = Vec::new();
            while !s.is_done() {
                let mut room = vec![Cell::default(); portion];
                let n = s.fill(&sdu, &mut room);
                parts.extend_from_slice(&room[..n]);
            }
            prop_assert_eq!(parts, whole);
        }
    }
}
