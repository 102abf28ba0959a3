//! What lies on a line: a cell, or a frame.

use crate::fault::Faults;
use crate::frame::{Frame, FrameAal, FramePool};
use wire::{Cell, CircuitId, Counters, Time};

/// What a line carries: cells or frames.
pub(crate) trait Unit: Default + Sized {
    fn at(&self) -> Time;
    fn set_at(&mut self, at: Time);
    fn circuit(&self) -> CircuitId;
    /// Time on the line, in cell times.
    fn cell_times(&self) -> u64;
    fn count(&self, counters: &mut Counters);
    fn count_all(units: &[Self], counters: &mut Counters) {
        for unit in units {
            unit.count(counters);
        }
    }
    /// Counts units that leave at `now`, and gives them that time.
    fn send_at(units: &mut [Self], now: Time, counters: &mut Counters) {
        for unit in units {
            unit.count(counters);
            unit.set_at(now);
        }
    }
    /// Goes to a slot that holds nothing of use.
    fn pass_to(&mut self, slot: &mut Self);
    fn duplicate(&self, pool: &mut FramePool) -> Self;
    fn discard(self, pool: &mut FramePool);
    /// Flips a bit; false if a receiver would notice and drop it instead.
    fn corrupt(&mut self, faults: &mut Faults) -> bool;
}

impl Unit for Cell {
    fn at(&self) -> Time {
        Cell::at(self)
    }

    fn set_at(&mut self, at: Time) {
        Cell::set_at(self, at);
    }

    fn circuit(&self) -> CircuitId {
        Cell::circuit(self)
    }

    fn cell_times(&self) -> u64 {
        1
    }

    fn count(&self, counters: &mut Counters) {
        counters.cells += 1;
        counters.pdus += u64::from(ends_pdu(self.header_word()));
        counters.octets += wire::cell::PAYLOAD_OCTETS as u64;
    }

    #[inline]
    fn count_all(cells: &[Self], counters: &mut Counters) {
        let pdus = cells.iter().filter(|cell| ends_pdu(cell.header_word())).count();
        counters.pass([cells.len(), pdus, cells.len() * wire::cell::PAYLOAD_OCTETS].map(|n| n as u64));
    }

    #[inline]
    fn send_at(cells: &mut [Self], now: Time, counters: &mut Counters) {
        Self::count_all(cells, counters);
        for cell in cells {
            cell.set_at(now);
        }
    }

    #[inline]
    fn pass_to(&mut self, slot: &mut Self) {
        *slot = *self;
    }

    fn duplicate(&self, _: &mut FramePool) -> Self {
        *self
    }

    fn discard(self, _: &mut FramePool) {}

    fn corrupt(&mut self, faults: &mut Faults) -> bool {
        // Beyond the 32 header bits lies the payload; a flipped header bit stands for an error that the HEC missed.
        match faults.below(32 + 384) {
            bit @ 0..32 => self.set_header_word(self.header_word() ^ 1 << bit),
            bit => self.payload[(bit - 32) / 8] ^= 1 << (bit % 8),
        }
        true
    }
}

/// Whether a cell of this header is the last of an AAL5 PDU: user data with the ATM-user-to-ATM-user bit.
pub(crate) const fn ends_pdu(header_word: u32) -> bool {
    header_word & 0b1010 == 0b0010
}

impl Unit for Frame {
    fn at(&self) -> Time {
        Frame::at(self)
    }

    fn set_at(&mut self, at: Time) {
        Frame::set_at(self, at);
    }

    fn circuit(&self) -> CircuitId {
        self.circuit
    }

    fn cell_times(&self) -> u64 {
        self.cells()
    }

    fn count(&self, counters: &mut Counters) {
        match self.aal {
            FrameAal::Aal5 | FrameAal::Aal34 => {
                counters.pdus += 1;
                counters.octets += self.len() as u64;
            }
            FrameAal::Aal0 => {
                counters.cells += 1;
                counters.octets += wire::cell::PAYLOAD_OCTETS as u64;
            }
        }
    }

    #[inline]
    fn pass_to(&mut self, slot: &mut Self) {
        // Its buffer is its own: what is stale goes the other way.
        core::mem::swap(self, slot);
    }

    fn duplicate(&self, pool: &mut FramePool) -> Self {
        pool.share(self)
    }

    fn discard(self, pool: &mut FramePool) {
        pool.release(self);
    }

    fn corrupt(&mut self, _: &mut Faults) -> bool {
        false
    }
}
