//! The receiving side: sequence numbers checked and corrected, lost and misinserted cells found, blocks aligned.

use super::blocks::{BlockError, Blocks, stream_octets};
use super::sequence::{Current, Held, State};
use core::time::Duration;
use wire::aal1::{Pointer, SequenceNumber, Verdict};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, Counters, DropReason, PayloadType, Time};

/// What a circuit's stream is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverConfig {
    /// Octets of a block, as the sender has them, if the stream has a structure.
    pub block_octets: Option<usize>,
    /// Whether the sender puts a residual time stamp into the odd cells.
    pub residual: bool,
    /// After so long without a cell the place in the stream is given up: eight lost cells look like none.
    pub timeout: Option<Duration>,
}

/// A piece of the stream, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Octets as they were sent, or damaged: AAL1 does not check them.
    Octets {
        /// The octets.
        octets: &'a [u8],
        /// Octets of the block before the first of them; zero in a stream without structure.
        block_at: usize,
    },
    /// Octets of cells that were lost: something is to be put in their place.
    Lost {
        /// How many.
        octets: usize,
        /// As above.
        block_at: usize,
    },
    /// How many octets are missing here, or too many, is not known.
    Break,
    /// A cycle of eight cells has ended: the time stamp that it carried, unless a part of it was lost.
    Residual(Option<u8>),
}

/// What has happened to the stream, by the names of the circuit emulation service's MIB (AF-VTOA-0078).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Sequence numbers of which one bit was put right.
    pub headers_corrected: u64,
    /// Sequence numbers that could not be put right.
    pub headers_invalid: u64,
    /// Times that a valid count was not the next one.
    pub sequence_violations: u64,
    /// Cells that did not come.
    pub lost_cells: u64,
    /// Cells that do not belong to the stream, or came twice.
    pub misinserted_cells: u64,
    /// Times that the place in the stream was lost.
    pub sync_losses: u64,
    /// Pointers of wrong parity or without meaning.
    pub pointer_errors: u64,
    /// Times that a pointer put the blocks elsewhere than they were.
    pub pointer_reframes: u64,
    /// Times that no cell came for too long.
    pub starvations: u64,
}

/// One circuit's receiver. It keeps one cell at most.
#[derive(Debug, Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    check: wire::aal1::Receiver,
    sequence: State,
    held: ([u8; PAYLOAD_OCTETS], SequenceNumber),
    blocks: Option<Blocks>,
    /// The blocks' place is known.
    aligned: bool,
    /// The time stamp's bits so far in this cycle, and which of them have come.
    residual: (u8, u8),
    last_cell: Time,
    counters: Counters,
    statistics: Statistics,
}

impl Receiver {
    /// Before the first cell.
    ///
    /// # Errors
    /// Blocks of no octets.
    pub fn new(config: ReceiverConfig) -> Result<Self, BlockError> {
        let mut receiver = Receiver {
            blocks: config.block_octets.map(Blocks::new).transpose()?,
            config,
            check: wire::aal1::Receiver::default(),
            sequence: State::default(),
            held: ([0; PAYLOAD_OCTETS], SequenceNumber::default()),
            aligned: false,
            residual: (0, 0),
            last_cell: Time::ZERO,
            counters: Counters::default(),
            statistics: Statistics::default(),
        };
        receiver.lose_place();
        Ok(receiver)
    }

    /// Takes cells of this circuit and hands `sink` what they carry. Cells that are not user data are passed over.
    pub fn push(&mut self, cells: &[Cell], mut sink: impl FnMut(Piece<'_>), now: Time) {
        for cell in cells {
            if matches!(cell.header().payload_type, PayloadType::User { .. }) {
                self.last_cell = now;
                self.take(&cell.payload, &mut sink);
            }
        }
    }

    fn take(&mut self, payload: &[u8; PAYLOAD_OCTETS], sink: &mut impl FnMut(Piece<'_>)) {
        let number = match self.check.check(payload[0]) {
            Verdict::Valid(number) => Some(number),
            Verdict::Corrected(number) => {
                self.statistics.headers_corrected += 1;
                Some(number)
            }
            Verdict::Invalid => {
                self.statistics.headers_invalid += 1;
                None
            }
        };
        let decision = self.sequence.step(number.map(|number| number.count));
        self.statistics.sequence_violations += u64::from(matches!(self.sequence, State::OutOfSequence { .. }));
        match decision.held {
            Held::None => {}
            Held::Take { lost, count, numbered } => {
                for ahead in (1..=lost).rev() {
                    self.lose(count.wrapping_sub(ahead) & 7, sink);
                }
                let (payload, number) = self.held;
                self.deliver(&payload, count, numbered.then_some(number), sink);
            }
            Held::Misinserted => {
                self.statistics.misinserted_cells += 1;
                self.counters.drop_one(DropReason::Sequence);
            }
            Held::Drop => self.counters.drop_one(DropReason::Sequence),
        }
        if decision.lost_sync {
            self.statistics.sync_losses += 1;
            self.lose_place();
            sink(Piece::Break);
        }
        match (decision.current, number) {
            (Current::Take, Some(number)) => self.deliver(payload, number.count, Some(number), sink),
            (Current::Hold, _) => self.held = (*payload, number.unwrap_or_default()),
            _ => self.counters.drop_one(DropReason::Sequence),
        }
    }

    /// A cell in its place. Without a `number` its own is not to be believed, and the rule says whether it has a
    /// pointer.
    fn deliver(
        &mut self,
        payload: &[u8; PAYLOAD_OCTETS],
        count: u8,
        number: Option<SequenceNumber>,
        sink: &mut impl FnMut(Piece<'_>),
    ) {
        let mut pointer = false;
        if let Some(blocks) = &mut self.blocks {
            blocks.enter(count);
            pointer = blocks.has_pointers()
                && number.map_or(self.aligned && blocks.due(count).is_some(), SequenceNumber::has_pointer);
            if pointer {
                blocks.point();
            }
        }
        if pointer && number.is_some() {
            self.follow(payload[1], sink);
        }
        if self.aligned {
            let octets = &payload[PAYLOAD_OCTETS - stream_octets(pointer)..];
            let block_at = self.advance(octets.len());
            self.counters.cells = self.counters.cells.wrapping_add(1);
            self.counters.octets = self.counters.octets.wrapping_add(octets.len() as u64);
            sink(Piece::Octets { octets, block_at });
        } else {
            self.counters.drop_one(DropReason::Sequence);
        }
        self.take_residual(count, number, sink);
    }

    /// Checks the place of the blocks against a pointer, which is right if they differ.
    fn follow(&mut self, octet: u8, sink: &mut impl FnMut(Piece<'_>)) {
        let Some(blocks) = &mut self.blocks else { return };
        match Pointer::parse(octet) {
            Ok(Pointer::Offset(offset)) => {
                if self.aligned && !blocks.agrees(offset) {
                    self.statistics.pointer_reframes += 1;
                    sink(Piece::Break);
                }
                blocks.align(offset);
                self.aligned = true;
            }
            Ok(Pointer::Dummy) => {}
            Err(_) => self.statistics.pointer_errors += 1,
        }
    }

    /// A cell that never came, of this count.
    fn lose(&mut self, count: u8, sink: &mut impl FnMut(Piece<'_>)) {
        self.statistics.lost_cells += 1;
        let mut pointer = false;
        if let Some(blocks) = &mut self.blocks {
            blocks.enter(count);
            pointer = blocks.due(count).is_some();
            if pointer {
                blocks.point();
            }
        }
        if self.aligned {
            let octets = stream_octets(pointer);
            let block_at = self.advance(octets);
            sink(Piece::Lost { octets, block_at });
        }
        self.take_residual(count, None, sink);
    }

    fn advance(&mut self, octets: usize) -> usize {
        self.blocks.as_mut().map_or(0, |blocks| {
            let at = blocks.at();
            blocks.advance(octets);
            at
        })
    }

    fn take_residual(&mut self, count: u8, number: Option<SequenceNumber>, sink: &mut impl FnMut(Piece<'_>)) {
        if !self.config.residual || count & 1 == 0 {
            return;
        }
        let bit = 8u8 >> (count / 2);
        if let Some(number) = number {
            self.residual.0 |= if number.csi { bit } else { 0 };
            self.residual.1 |= bit;
        }
        if count == 7 {
            let (bits, come) = core::mem::take(&mut self.residual);
            sink(Piece::Residual((come == 15).then_some(bits)));
        }
    }

    fn lose_place(&mut self) {
        // Without pointers, every place is as good as any other.
        self.aligned = !self.blocks.is_some_and(|blocks| blocks.has_pointers());
        self.residual = (0, 0);
    }

    /// When the place in the stream is given up if no cell comes.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waits = self.sequence != State::Start;
        self.config.timeout.filter(|_| waits).map(|limit| self.last_cell + limit)
    }

    /// Gives up the place in the stream if no cell has come for too long; says whether it did.
    pub fn handle_timeout(&mut self, now: Time, mut sink: impl FnMut(Piece<'_>)) -> bool {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return false;
        }
        self.statistics.starvations += 1;
        if self.sequence.holds() {
            self.counters.drop_one(DropReason::Timeout);
        }
        if self.sequence.is_placed() {
            sink(Piece::Break);
        }
        self.sequence = State::Start;
        self.lose_place();
        true
    }

    /// Cells handed on and their octets of the stream; cells dropped by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What has happened to the stream.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
