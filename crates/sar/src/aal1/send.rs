//! The sending side: octets of the stream into cells, with sequence numbers, pointers and residual time stamps.

use super::blocks::{BlockError, Blocks, stream_octets};
use wire::aal1::SequenceNumber;
use wire::{Cell, CellHeader, CircuitId, Counters};

/// What a circuit's stream is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderConfig {
    /// Octets of a block, if the stream has a structure: for n channels of 64 kbit/s, n.
    pub block_octets: Option<usize>,
    /// Cell loss priority of every cell.
    pub clp: bool,
}

/// How far the octets went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Filled {
    /// Octets taken from the front of what was given; the rest, less than a cell's, is to be given again.
    pub octets_used: usize,
    /// Cells written.
    pub cells: usize,
}

/// One circuit's sender. The stream starts with a block's first octet.
#[derive(Debug, Clone)]
pub struct Sender {
    header: CellHeader,
    blocks: Option<Blocks>,
    count: u8,
    /// The residual time stamp of this cycle, and the one for the next.
    residual: u8,
    next_residual: u8,
    counters: Counters,
}

impl Sender {
    /// Before the first octet.
    ///
    /// # Errors
    /// Blocks of no octets.
    pub fn new(circuit: CircuitId, config: SenderConfig) -> Result<Self, BlockError> {
        Ok(Sender {
            header: CellHeader { circuit, clp: config.clp, ..CellHeader::default() },
            blocks: config.block_octets.map(Blocks::new).transpose()?,
            count: 0,
            residual: 0,
            next_residual: 0,
            counters: Counters::default(),
        })
    }

    /// Octets of the stream that the next cell takes: 46 with a pointer, else 47.
    pub fn next_octets(&self) -> usize {
        let mut blocks = self.blocks;
        stream_octets(blocks.as_mut().is_some_and(|blocks| {
            blocks.enter(self.count);
            blocks.due(self.count).is_some()
        }))
    }

    /// The four bits that the next cycle of eight cells will carry: see [`super::srts`]. They stay until replaced.
    pub const fn set_residual(&mut self, residual: u8) {
        self.next_residual = residual & 15;
    }

    /// The next cell's sequence count: a cycle begins with 0.
    pub const fn next_count(&self) -> u8 {
        self.count
    }

    /// Writes as many cells as there are octets and room for.
    pub fn fill(&mut self, octets: &[u8], out: &mut [Cell]) -> Filled {
        self.fill_with(octets.len(), |at, part| part.copy_from_slice(&octets[at..at + part.len()]), out)
    }

    /// The same for `octets` octets that are not a slice: `read(at, part)` copies those from `at` on into `part`, each
    /// once.
    pub fn fill_with(&mut self, octets: usize, mut read: impl FnMut(usize, &mut [u8]), out: &mut [Cell]) -> Filled {
        let mut filled = Filled { octets_used: 0, cells: 0 };
        for cell in out {
            let pointer = self.blocks.as_mut().and_then(|blocks| {
                blocks.enter(self.count);
                blocks.due(self.count)
            });
            let n = stream_octets(pointer.is_some());
            if octets - filled.octets_used < n {
                break;
            }
            if self.count == 0 {
                self.residual = self.next_residual;
            }
            // Odd cells: the time stamp, its highest bit in cell 1.
            let csi =
                if self.count & 1 == 0 { pointer.is_some() } else { self.residual >> (3 - self.count / 2) & 1 != 0 };
            cell.clear(self.header);
            let [first, rest @ ..] = &mut cell.payload;
            *first = SequenceNumber { csi, count: self.count }.to_octet();
            if let Some(pointer) = pointer {
                rest[0] = pointer.to_octet();
            }
            let from = rest.len() - n;
            read(filled.octets_used, &mut rest[from..]);
            if let Some(blocks) = &mut self.blocks {
                if pointer.is_some() {
                    blocks.point();
                }
                blocks.advance(n);
            }
            self.count = (self.count + 1) & 7;
            filled.octets_used += n;
            filled.cells += 1;
        }
        self.counters.cells = self.counters.cells.wrapping_add(filled.cells as u64);
        self.counters.octets = self.counters.octets.wrapping_add(filled.octets_used as u64);
        filled
    }

    /// Cells written and their octets of the stream.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
