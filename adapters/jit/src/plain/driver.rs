//! The driver of an adapter without an adaptation layer: AAL5 in software, a cell at a time. It counts what the processor has to do, so that
//! a modelled machine can be charged for it.

use super::{CELL_WORDS, Plain};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use wire::{Cell, CircuitId, DropReason, Time};

/// What the processor has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Interrupts served.
    pub interrupts: u64,
    /// Words moved to and from the adapter.
    pub words: u64,
    /// Octets that went through the CRC-32.
    pub checked: u64,
}

/// One circuit both ways.
#[derive(Debug)]
pub struct Driver {
    circuit: CircuitId,
    sending: Option<(Segmentation, Vec<u8>)>,
    /// A cell that found no room yet.
    held: Option<Cell>,
    reassembler: Reassembler,
    buffer: Vec<u8>,
    /// What the processor has done.
    pub work: Work,
    /// PDUs that were lost.
    pub lost: u64,
}

impl Driver {
    /// A driver of this circuit.
    pub fn new(circuit: CircuitId) -> Self {
        Driver {
            circuit,
            sending: None,
            held: None,
            reassembler: Reassembler::new(ReassemblyConfig::default()),
            buffer: vec![0; wire::aal5::MAX_SDU_OCTETS + 56],
            work: Work::default(),
            lost: 0,
        }
    }

    /// Takes an SDU to send; gives it back while another one is being sent, or if it has a length that is none.
    ///
    /// # Errors
    /// The SDU, unsent.
    pub fn send(&mut self, sdu: Vec<u8>) -> Result<(), Vec<u8>> {
        let begun = Segmentation::new(self.circuit, sdu.len(), SduMeta::default());
        match begun {
            Ok(segmentation) if self.sending.is_none() => {
                self.sending = Some((segmentation, sdu));
                Ok(())
            }
            _ => Err(sdu),
        }
    }

    /// Makes cells for as long as the adapter has room; true if the SDU has gone.
    pub fn run(&mut self, adapter: &mut Plain) -> bool {
        let Some((segmentation, sdu)) = &mut self.sending else { return true };
        loop {
            let mut cell = [Cell::default()];
            let made = match self.held.take() {
                Some(held) => {
                    cell[0] = held;
                    1
                }
                None => {
                    let made = segmentation.fill(sdu, &mut cell);
                    self.work.checked += 48 * made as u64;
                    made
                }
            };
            if made == 0 {
                self.sending = None;
                return true;
            }
            if !adapter.write(&cell[0]) {
                self.held = Some(cell[0]);
                return false;
            }
            self.work.words += CELL_WORDS;
        }
    }

    /// Serves an interrupt: takes the cells that wait, and gives each SDU that is whole to `done`.
    pub fn handle_interrupt(&mut self, adapter: &mut Plain, now: Time, mut done: impl FnMut(&[u8])) {
        if !adapter.interrupt() {
            return;
        }
        self.work.interrupts += 1;
        while let Some(cell) = adapter.read() {
            self.work.words += CELL_WORDS;
            if cell.circuit() != self.circuit {
                continue;
            }
            self.work.checked += 48;
            match self.reassembler.push(&[cell], &mut self.buffer, now).event {
                Event::NeedMore => {}
                Event::Complete { sdu_octets, .. } => done(&self.buffer[..sdu_octets]),
                Event::Failed(reason) => self.lost += u64::from(reason != DropReason::WrongAal),
            }
        }
    }
}
