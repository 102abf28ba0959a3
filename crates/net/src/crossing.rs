//! A link between elements of two shards: how what one shard has sent comes to the other.
//!
//! Either shard has both lines of such a link. What leaves on one arrives, in the sender's shard, at a [`Crossing`], an
//! element that has a mailbox for each direction in common with the one of the other shard. Cells are handed over by
//! ownership: the ring that holds them is exchanged for the empty one in the mailbox, and there for the receiver's
//! empty one, so a cell is copied nowhere on its way and a hand-over costs the same for one as for all of them. Frames
//! are copied, out of a buffer of one shard's pool into one of the other's.

use crate::bell::Bell;
use crate::frame::{Frame, FrameAal};
use crate::mailbox::Mailbox;
use crate::node::{Line, Node, NodeIo, Port};
use crate::ring::Ring;
use sar::SduMeta;
use std::any::Any;
use std::sync::Arc;
use wire::{Cell, CircuitId, Time};

/// Octets of frames in a mailbox beyond which no more are added to those that are in it.
const HAND_OVER_OCTETS: usize = 256 * 1024;

/// Cells of one hand-over.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    ring: Ring<Cell>,
    /// The giver's time, which the taker's must have reached: no cell comes from the future.
    at: Time,
}

/// A frame without a buffer: its octets follow those of the one before.
#[derive(Debug)]
struct Loose {
    circuit: CircuitId,
    aal: FrameAal,
    meta: SduMeta,
    octets: usize,
    at: Time,
}

/// Frames of one hand-over.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    frames: Vec<Loose>,
    octets: Vec<u8>,
    /// Frames, and octets, that the taker has taken.
    taken: (usize, usize),
    at: Time,
}

/// The mailboxes of a link: from A to B, and back.
#[derive(Debug, Clone)]
pub(crate) enum Mailboxes {
    Cells([Arc<Mailbox<Cells>>; 2]),
    Frames([Arc<Mailbox<Frames>>; 2]),
}

impl Mailboxes {
    /// Of a link of cells whose queues hold so many.
    pub(crate) fn of_cells(queue: usize) -> Self {
        let mailbox = || Arc::new(Mailbox::new(Cells { ring: Ring::new(queue.max(1)), at: Time::ZERO }));
        Mailboxes::Cells([mailbox(), mailbox()])
    }

    /// Of a link of frames.
    pub(crate) fn of_frames() -> Self {
        let mailbox = || Arc::new(Mailbox::new(Frames::default()));
        Mailboxes::Frames([mailbox(), mailbox()])
    }

    /// Cells or frames in a direction's mailbox, while neither shard runs.
    pub(crate) fn waiting(&self, direction: usize) -> u64 {
        match self {
            Mailboxes::Cells(boxes) => boxes[direction].look(|cells| cells.ring.len() as u64),
            Mailboxes::Frames(boxes) => boxes[direction].look(|frames| (frames.frames.len() - frames.taken.0) as u64),
        }
    }
}

/// One shard's half of a link between two shards: an element at the far ends of that shard's lines of the link.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub(crate) mailboxes: Mailboxes,
    half: Half,
    /// Something has come for which there was no room, or that was given after the moment of the last look.
    blocked: bool,
}

impl Crossing {
    /// The half of shard `number` that fills mailbox `gives`; the other shard is `peer`, and has `bell`.
    pub(crate) fn new(mailboxes: Mailboxes, gives: usize, (peer, bell): (usize, Arc<Bell>), number: usize) -> Self {
        Crossing { mailboxes, half: Half { gives, peer, bell, number }, blocked: false }
    }

    /// The number of the other shard.
    pub(crate) fn peer(&self) -> usize {
        self.half.peer
    }
}

/// What was done with what has come.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    /// Something was taken, or can be at a later moment.
    worked: bool,
    /// Something has come that could not be taken.
    blocked: bool,
}

/// What a half does with its mailboxes.
#[derive(Debug)]
struct Half {
    /// Which mailbox it fills; it empties the other.
    gives: usize,
    /// The other shard, and its bell.
    peer: usize,
    bell: Arc<Bell>,
    /// This shard.
    number: usize,
}

impl Half {
    /// Takes cells that the other shard has handed over to the readers of this shard's line.
    fn take_cells(&self, boxes: &[Arc<Mailbox<Cells>>; 2], io: &mut NodeIo<'_>, line: u32, now: Time) -> Took {
        let Some(Some(Line::Cells(lane))) = io.lines.lines.get_mut(line as usize) else { return Took::default() };
        let (mut early, mut moved) = (false, false);
        let empty = |cells: &mut Cells| {
            early = cells.at > now;
            if early {
                return false;
            }
            if lane.arrived.is_empty() {
                core::mem::swap(&mut lane.arrived, &mut cells.ring);
                moved = true;
                return true;
            }
            // The last ones have not all been read: as many as fit go behind them.
            while let Some(cell) = cells.ring.front().copied().filter(|_| lane.arrived.room() > 0) {
                let _ = lane.arrived.push(cell);
                cells.ring.consume(1);
                moved = true;
            }
            cells.ring.is_empty()
        };
        let took = boxes[1 - self.gives].take(empty, &self.bell, self.number);
        if moved {
            io.lines.note_arrived(line);
        }
        Took { worked: moved || early, blocked: took == Some(false) }
    }

    /// Hands over what has arrived at the end of this shard's line.
    fn give_cells(&self, boxes: &[Arc<Mailbox<Cells>>; 2], io: &mut NodeIo<'_>, line: u32, now: Time) -> bool {
        let Some(Some(Line::Cells(lane))) = io.lines.lines.get_mut(line as usize) else { return false };
        if lane.arrived.is_empty() {
            return false;
        }
        let fill = |cells: &mut Cells| {
            core::mem::swap(&mut lane.arrived, &mut cells.ring);
            cells.at = now;
        };
        let given = boxes[self.gives].give(fill, &self.bell, self.number);
        if given {
            io.lines.note_taken(line);
        }
        given
    }

    fn take_frames(&self, boxes: &[Arc<Mailbox<Frames>>; 2], io: &mut NodeIo<'_>, line: u32, now: Time) -> Took {
        let (mut early, mut moved) = (false, false);
        let lines = &mut *io.lines;
        let empty = |frames: &mut Frames| {
            early = frames.at > now;
            while let Some(loose) = frames.frames.get(frames.taken.0).filter(|_| !early) {
                if lines.room(line, true) == 0 {
                    break;
                }
                let from = frames.taken.1;
                let octets = frames.octets.get(from..from + loose.octets).unwrap_or_default();
                // All pools have buffers of one length: it fits once one is free.
                let frame = lines.pool.copy_in(loose.circuit, loose.aal, loose.meta, octets);
                let Some(mut frame) = frame else { break };
                frame.set_at(loose.at);
                let refused = match lines.lines.get_mut(line as usize) {
                    Some(Some(Line::Frames(lane))) => lane.arrived.push(frame).err(),
                    _ => Some(frame),
                };
                if let Some(frame) = refused {
                    lines.pool.release(frame);
                    break;
                }
                frames.taken = (frames.taken.0 + 1, from + loose.octets);
                moved = true;
            }
            let all = frames.taken.0 == frames.frames.len();
            if all {
                frames.frames.clear();
                frames.octets.clear();
                frames.taken = (0, 0);
            }
            all
        };
        let took = boxes[1 - self.gives].take(empty, &self.bell, self.number);
        if moved {
            io.lines.note_arrived(line);
        }
        Took { worked: moved || early, blocked: took == Some(false) }
    }

    fn give_frames(&self, boxes: &[Arc<Mailbox<Frames>>; 2], io: &mut NodeIo<'_>, line: u32, now: Time) -> bool {
        let lines = &mut *io.lines;
        let Some(Some(Line::Frames(lane))) = lines.lines.get_mut(line as usize) else { return false };
        if lane.arrived.is_empty() {
            return false;
        }
        let pool = &mut lines.pool;
        let fill = |frames: &mut Frames| {
            frames.at = now;
            while frames.octets.len() < HAND_OVER_OCTETS
                && let Some(frame) = lane.arrived.pop()
            {
                let octets = pool.octets(&frame);
                frames.octets.extend_from_slice(octets);
                let Frame { circuit, aal, meta, .. } = frame;
                frames.frames.push(Loose { circuit, aal, meta, octets: octets.len(), at: frame.at() });
                pool.release(frame);
            }
        };
        let given = boxes[self.gives].give(fill, &self.bell, self.number);
        if given {
            lines.note_taken(line);
            // More may wait than went.
            lines.note_arrived(line);
        }
        given
    }
}

impl Node for Crossing {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let Some(Port { input, output }) = io.ports.first().copied() else { return false };
        let (took, gave) = match &self.mailboxes {
            Mailboxes::Cells(boxes) => {
                (self.half.take_cells(boxes, io, output, now), self.half.give_cells(boxes, io, input, now))
            }
            Mailboxes::Frames(boxes) => {
                (self.half.take_frames(boxes, io, output, now), self.half.give_frames(boxes, io, input, now))
            }
        };
        self.blocked = took.blocked;
        took.worked | gave
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn rests(&self) -> bool {
        !self.blocked
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
