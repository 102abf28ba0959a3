//! AAL3/4 segmentation (I.363.3): one MID's SDUs into cells, each octet read once.

use crate::kernel::Remainder;
use crate::{Kernel, SduMeta};
use wire::aal34::{
    CPCS_OCTETS, Header, LI_ABORT, MAX_MID, SAR_PAYLOAD, SAR_PAYLOAD_OCTETS, Segment, SegmentType, Trailer,
    cpcs_pdu_octets, put_crc,
};
use wire::{Cell, CellHeader, CircuitId, PayloadType};

/// Longest SDU: what the length field says.
pub const MAX_SDU_OCTETS: usize = 65_535;

/// Why an SDU cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The length field has 16 bits.
    #[error("an SDU of {0} octets: AAL3/4 carries 65535 at most")]
    TooLong(usize),
    /// A MID has ten bits.
    #[error("MID {0}: 1023 is the largest")]
    Mid(u16),
    /// A MID that two senders on one circuit would share.
    #[error("MID {0} twice on one circuit")]
    MidTwice(u16),
    /// No lane of this number.
    #[error("no lane {0}")]
    NoLane(usize),
    /// The lane's SDU before has not been sent to its end.
    #[error("lane {0} is still sending")]
    Busy(usize),
}

/// How many cells an SDU takes.
pub const fn cells(sdu_octets: usize) -> usize {
    cpcs_pdu_octets(sdu_octets).div_ceil(SAR_PAYLOAD_OCTETS)
}

/// What one MID's sender keeps from SDU to SDU: tags and sequence numbers go on.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    remainder: Remainder,
    circuit: CircuitId,
    mid: u16,
    tag: u8,
    sequence: u8,
}

impl Sender {
    /// Before the first SDU of `mid` on `circuit`.
    ///
    /// # Errors
    /// A MID beyond 1023.
    pub fn new(circuit: CircuitId, mid: u16) -> Result<Self, SegmentError> {
        Self::with_kernel(Kernel::chosen(), circuit, mid)
    }

    /// The same with another kernel's CRC-10.
    ///
    /// # Errors
    /// As above.
    pub fn with_kernel(kernel: Kernel, circuit: CircuitId, mid: u16) -> Result<Self, SegmentError> {
        if mid > MAX_MID {
            return Err(SegmentError::Mid(mid));
        }
        Ok(Sender { remainder: kernel.remainder10(), circuit, mid, tag: 0, sequence: 0 })
    }

    /// Its MID.
    pub const fn mid(&self) -> u16 {
        self.mid
    }

    /// Gives the next SDU this tag: for who makes a sender for each SDU, and has to let successive ones differ.
    pub const fn with_tag(self, tag: u8) -> Self {
        Sender { tag, ..self }
    }

    /// Begins an SDU of `sdu_octets` octets. `meta`'s loss priority and congestion go into every cell's header; AAL3/4
    /// has no user-to-user octet, and its CPI is always zero.
    ///
    /// # Errors
    /// More than 65 535 octets.
    pub fn begin(&mut self, sdu_octets: usize, meta: SduMeta) -> Result<Segmentation, SegmentError> {
        if sdu_octets > MAX_SDU_OCTETS {
            return Err(SegmentError::TooLong(sdu_octets));
        }
        let payload_type = PayloadType::User { congestion: meta.congestion, end: false };
        let segmentation = Segmentation {
            remainder: self.remainder,
            header: CellHeader { circuit: self.circuit, payload_type, clp: meta.clp },
            mid: self.mid,
            tag: self.tag,
            sequence: self.sequence,
            sdu_octets,
            cells_done: 0,
            cells: cells(sdu_octets),
            aborted: false,
        };
        self.tag = self.tag.wrapping_add(1);
        self.sequence = (self.sequence + (segmentation.cells & 15) as u8) & 15;
        Ok(segmentation)
    }
}

/// One SDU on its way into cells.
#[derive(Debug, Clone, Copy)]
pub struct Segmentation {
    remainder: Remainder,
    header: CellHeader,
    mid: u16,
    tag: u8,
    /// Sequence number of the next cell.
    sequence: u8,
    sdu_octets: usize,
    cells_done: usize,
    cells: usize,
    aborted: bool,
}

impl Segmentation {
    /// Writes the next cells of `sdu` (the same octets at each call) into `out`; gives how many. None are written when
    /// the SDU is done, or if `sdu` is shorter than it was said to be.
    pub fn fill(&mut self, sdu: &[u8], out: &mut [Cell]) -> usize {
        if sdu.len() < self.sdu_octets {
            return 0;
        }
        self.fill_with(|at, part| part.copy_from_slice(&sdu[at..at + part.len()]), out)
    }

    /// The same for an SDU that is not a slice: `read(at, part)` copies the SDU's octets from `at` on into `part`. Each
    /// octet is asked for once.
    #[inline]
    pub fn fill_with(&mut self, mut read: impl FnMut(usize, &mut [u8]), out: &mut [Cell]) -> usize {
        let n = out.len().min(self.cells - self.cells_done);
        // The CRC reads more at once than was written at once, which a processor does well only some time later.
        for group in out[..n].chunks_mut(8) {
            for cell in &mut *group {
                cell.clear(self.header);
                self.write(&mut read, &mut cell.payload);
            }
            for cell in group {
                let crc = (self.remainder)(&cell.payload);
                put_crc(&mut cell.payload, crc);
            }
        }
        n
    }

    fn write(&mut self, read: &mut impl FnMut(usize, &mut [u8]), payload: &mut [u8; 48]) {
        let (first, last) = (self.cells_done == 0, self.cells_done + 1 == self.cells);
        let at = self.cells_done * SAR_PAYLOAD_OCTETS;
        let body = &mut payload[SAR_PAYLOAD];
        let mut li = SAR_PAYLOAD_OCTETS;
        if self.aborted {
            body.fill(0);
            li = LI_ABORT.into();
        } else {
            if last {
                li = cpcs_pdu_octets(self.sdu_octets) - at;
                body[li..].fill(0);
            }
            // The PDU's octets `at..at + li`: header, SDU, padding and trailer, as far as they fall into this cell.
            let from = if first { CPCS_OCTETS } else { 0 };
            let to = if last { li - CPCS_OCTETS } else { li };
            let sdu_at = at + from - CPCS_OCTETS;
            let octets = self.sdu_octets.saturating_sub(sdu_at).min(to - from);
            if octets > 0 {
                read(sdu_at, &mut body[from..from + octets]);
            }
            body[from + octets..to].fill(0);
            let length = self.sdu_octets as u16;
            if first {
                let header = Header { cpi: 0, tag: self.tag, buffer_octets: length };
                body[..CPCS_OCTETS].copy_from_slice(&header.to_octets());
            }
            if last {
                body[to..li].copy_from_slice(&Trailer { tag: self.tag, length }.to_octets());
            }
        }
        let segment_type = match (first, last) {
            (true, true) => SegmentType::Single,
            (true, false) => SegmentType::Begin,
            (false, false) => SegmentType::Continuation,
            (false, true) => SegmentType::End,
        };
        Segment { segment_type, sequence: self.sequence, mid: self.mid, li: li as u8 }.put_fields(payload);
        self.sequence = (self.sequence + 1) & 15;
        self.cells_done += 1;
    }

    /// Gives the SDU up. If its first cell has gone out, one more cell tells the receiver (EOM with LI 63); if none
    /// has, none will; after the last one nothing changes.
    pub fn abort(&mut self) {
        if !self.is_done() {
            self.aborted = true;
            self.cells = if self.cells_done == 0 { 0 } else { self.cells_done + 1 };
        }
    }

    /// Whether all cells have been written.
    pub const fn is_done(&self) -> bool {
        self.cells_done == self.cells
    }

    /// Cells still to be written.
    pub const fn cells_left(&self) -> usize {
        self.cells - self.cells_done
    }

    /// Its MID.
    pub const fn mid(&self) -> u16 {
        self.mid
    }

    /// Octets of the SDU.
    pub const fn sdu_octets(&self) -> usize {
        self.sdu_octets
    }
}
