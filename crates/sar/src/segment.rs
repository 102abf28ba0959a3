//! AAL5 segmentation (I.363.5): the SDU is read once; each octet is copied into its cell and taken into the CRC then.

use crate::SduMeta;
use wire::aal5::{MAX_SDU_OCTETS, TRAILER_OCTETS, Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
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
    header: CellHeader,
    meta: SduMeta,
    sdu_octets: usize,
    cells_done: usize,
    cells: usize,
    crc: Crc32,
}

impl Segmentation {
    /// Begins an SDU of `sdu_octets` octets on `circuit`.
    ///
    /// # Errors
    /// No octets, or more than 65 535.
    pub fn new(circuit: CircuitId, sdu_octets: usize, meta: SduMeta) -> Result<Self, SegmentError> {
        match sdu_octets {
            0 => Err(SegmentError::Empty),
            1..=MAX_SDU_OCTETS => Ok(Self::of(circuit, sdu_octets, meta)),
            _ => Err(SegmentError::TooLong(sdu_octets)),
        }
    }

    /// An abort: one cell that ends whatever PDU the receiver has begun, with length 0.
    pub fn abort(circuit: CircuitId) -> Self {
        Self::of(circuit, 0, SduMeta::default())
    }

    fn of(circuit: CircuitId, sdu_octets: usize, meta: SduMeta) -> Self {
        let payload_type = PayloadType::User { congestion: meta.congestion, end: false };
        let header = CellHeader { circuit, payload_type, clp: meta.clp };
        Segmentation { header, meta, sdu_octets, cells_done: 0, cells: cells(sdu_octets), crc: Crc32::new() }
    }

    /// Writes the next cells of `sdu` (the same octets at each call) into `out`; gives how many. None are written when
    /// the SDU is done, or if `sdu` is shorter than it was said to be.
    pub fn fill(&mut self, sdu: &[u8], out: &mut [Cell]) -> usize {
        if sdu.len() < self.sdu_octets {
            return 0;
        }
        self.fill_with(|at, part| part.copy_from_slice(&sdu[at..at + part.len()]), out)
    }

    /// The same for an SDU that is not a slice, such as one in memory that its owner may still write: `read(at, part)`
    /// copies the SDU's octets from `at` on into `part`. Each octet is asked for once, and the CRC is of what was copied.
    #[inline]
    pub fn fill_with(&mut self, mut read: impl FnMut(usize, &mut [u8]), out: &mut [Cell]) -> usize {
        let n = out.len().min(self.cells - self.cells_done);
        for cell in &mut out[..n] {
            let at = (self.cells_done * PAYLOAD_OCTETS).min(self.sdu_octets);
            let octets = (self.sdu_octets - at).min(PAYLOAD_OCTETS);
            self.cells_done += 1;
            let last = self.cells_done == self.cells;
            let mut header = self.header;
            header.payload_type = PayloadType::User { congestion: self.meta.congestion, end: last };
            cell.clear(header);
            read(at, &mut cell.payload[..octets]);
            cell.payload[octets..].fill(0);
            if last {
                self.finish(cell);
            } else {
                self.crc.update(&cell.payload);
            }
        }
        n
    }

    fn finish(&mut self, cell: &mut Cell) {
        const AT: usize = PAYLOAD_OCTETS - TRAILER_OCTETS;
        let mut trailer = Trailer { uu: self.meta.uu, cpi: self.meta.cpi, length: self.sdu_octets as u16, crc: 0 };
        cell.payload[AT..].copy_from_slice(&trailer.to_octets());
        self.crc.update(&cell.payload[..PAYLOAD_OCTETS - 4]);
        trailer.crc = self.crc.finish();
        cell.payload[AT..].copy_from_slice(&trailer.to_octets());
    }

    /// Whether all cells have been written.
    pub const fn is_done(&self) -> bool {
        self.cells_done == self.cells
    }

    /// Cells still to be written.
    pub const fn cells_left(&self) -> usize {
        self.cells - self.cells_done
    }

    /// The circuit.
    pub const fn circuit(&self) -> CircuitId {
        self.header.circuit
    }

    /// Octets of the SDU.
    pub const fn sdu_octets(&self) -> usize {
        self.sdu_octets
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
