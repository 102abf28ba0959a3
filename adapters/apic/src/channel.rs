//! A channel: one direction of one process's traffic, with its ring of descriptors and what the chip keeps of it.

use super::grant::{Descriptor, Owner};
use super::notify::Interrupt;
use super::ring::{Ring, RingState};
use super::table::Connection;
use std::collections::VecDeque;
use wire::crc::Crc32;
use wire::{Counters, PayloadType};

/// Descriptors that a channel has on the chip.
pub(super) const PREFETCH: usize = 4;

/// A channel by its number, as long as it is the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChannelRef {
    pub(super) number: u16,
    pub(super) generation: u16,
}

/// What the cells of a channel are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aal {
    /// PDUs: a descriptor for each.
    Aal5,
    /// Payloads of single cells. A descriptor that is sent has whole cells; one that is received into has one cell.
    Raw,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From memory: where the cells go, under which labels, and slots from one to the next in 1/256 (0: no pacing).
    Transmit {
        /// See there. It may lead to a channel of this chip, as a loopback.
        connection: Connection,
        /// See there.
        interval: u32,
    },
    /// To memory: from connections that lead to the channel.
    Receive {
        /// Its cells take the bypass on their way to memory.
        low_latency: bool,
    },
    /// To memory, with packet splitting: the first octets of a PDU go into a buffer of the channel's own ring, the rest
    /// into one of a pool, from its beginning. AAL5 only.
    Split {
        /// As of [`Direction::Receive`]; the pool must have the same.
        low_latency: bool,
        /// Octets of the first part.
        head: u32,
        /// The channel that is the pool; it has the same owner.
        pool: u16,
    },
    /// A pool: its ring has buffers that all channels split into it share. A descriptor is complete as soon as the chip
    /// has read it.
    Pool {
        /// Whether it is for channels of low latency.
        low_latency: bool,
    },
}

/// A channel as the service opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Whose areas its descriptors may name.
    pub owner: Owner,
    /// See there.
    pub aal: Aal,
    /// See there.
    pub direction: Direction,
    /// See there.
    pub ring: Ring,
    /// When its events interrupt.
    pub interrupt: Interrupt,
}

impl Channel {
    pub(super) fn low_latency(&self) -> bool {
        match self.direction {
            Direction::Transmit { connection, .. } => connection.low_latency,
            Direction::Receive { low_latency }
            | Direction::Split { low_latency, .. }
            | Direction::Pool { low_latency } => low_latency,
        }
    }

    /// Whether cells may come for it.
    pub(super) fn receives(&self) -> bool {
        matches!(self.direction, Direction::Receive { .. } | Direction::Split { .. })
    }

    /// Whether the chip writes into its buffers.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.direction, Direction::Transmit { .. })
    }
}

/// A descriptor that was read and checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    pub(super) index: u32,
    pub(super) descriptor: Descriptor,
}

/// A channel's state.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) settings: Channel,
    pub(super) ring: RingState,
    /// Checked descriptors, oldest first.
    pub(super) ready: VecDeque<Buffer>,
    /// One is being read.
    pub(super) fetching: bool,
    /// No more are read until the owner resumes.
    pub(super) stopped: bool,
    pub(super) counters: Counters,
    /// Accesses to its page, and numbers written there, that mean nothing.
    pub(super) refused: u64,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    /// PDUs that came whole, and whose descriptors have no status yet.
    pub(super) unwritten: u64,
    /// The last descriptor of which some octets did not get to memory.
    pub(super) torn: Option<u32>,
}

impl State {
    pub(super) fn new(settings: Channel, ring: RingState) -> Self {
        State {
            settings,
            ring,
            ready: VecDeque::with_capacity(PREFETCH),
            fetching: false,
            stopped: false,
            counters: Counters::default(),
            refused: 0,
            sending: Sending::default(),
            receiving: Receiving::default(),
            unwritten: 0,
            torn: None,
        }
    }

    /// PDUs that the chip has taken and that are not over: descriptors that it has read, PDUs of which a part has left or
    /// come, and those that are on their way to memory.
    pub(super) fn open_pdus(&self) -> u64 {
        let begun = u64::from(self.sending.tagged > 0);
        let queued = match self.settings.direction {
            Direction::Transmit { .. } => self.ready.len() as u64 - begun,
            Direction::Receive { .. } | Direction::Split { .. } | Direction::Pool { .. } => 0,
        };
        queued + self.sending.unfinished + self.unwritten + u64::from(self.receiving.octets > 0)
    }
}

/// A PDU that leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Sending {
    /// The Pacer has the channel.
    pub(super) paced: bool,
    /// When it is due next, if it has something by then.
    pub(super) due: u64,
    /// Cells of the first buffer that have tags.
    pub(super) tagged: u32,
    /// PDUs that have tags, and whose last cell has not left.
    pub(super) unfinished: u64,
    /// Tags of this descriptor are void: a batch of it could not be read.
    pub(super) void: Option<u32>,
    /// Over the cells that have left.
    pub(super) crc: Crc32,
    /// A cell of a PDU has left, and its last one has not.
    pub(super) in_pdu: bool,
}

/// A PDU that comes.
#[derive(Debug, Clone, Default)]
pub(super) struct Receiving {
    /// Octets that have come, in whole cells.
    pub(super) octets: u32,
    pub(super) crc: Crc32,
    /// What is collected for one transfer.
    pub(super) batch: Option<u16>,
    /// The pool's buffer of a PDU that is split.
    pub(super) body: Option<(ChannelRef, Buffer)>,
    /// The rest is passed over, to the PDU's end.
    pub(super) skipping: bool,
}

/// The end of a PDU whose channel was closed after its first cell had left: without it the receiver would join the next PDU
/// to the beginning of this one, and lose both.
#[derive(Debug, Clone)]
pub(super) struct Abort {
    pub(super) connection: Connection,
    /// Over the cells that have left.
    pub(super) crc: Crc32,
}

/// A cell of a channel in the Transmit FIFO.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) channel: ChannelRef,
    pub(super) payload: [u8; 48],
    pub(super) first: bool,
    pub(super) last: bool,
    /// The PDU is given up: its memory was out of reach.
    pub(super) abort: bool,
    pub(super) length: u16,
    pub(super) uu: u8,
}

/// The payload type of a cell that ends a PDU, or not.
pub(super) fn user(end: bool) -> PayloadType {
    PayloadType::User { congestion: false, end }
}
