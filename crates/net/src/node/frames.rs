//! Frames at a node's ports: one by one, and runs of one circuit that pass a node whole.

use super::{Line, Lines, NodeIo};
use crate::frame::{Frame, FrameAal, counted, translate};
use crate::line::{Lane, Side};
use wire::{CircuitId, DropReason, Label, Time};

/// Frames of one circuit and layer that follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameRun {
    pub(crate) circuit: CircuitId,
    pub(crate) aal: FrameAal,
    pub(crate) frames: usize,
    /// The cells that they are.
    pub(crate) cells: usize,
}

/// Frames that were to pass a node: cells, PDUs and octets of those that were sent, and of those that found no room.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) sent: [u64; 3],
    pub(crate) refused: [u64; 3],
}

impl Passed {
    /// Frames that found no room.
    pub(crate) fn frames_refused(&self) -> u64 {
        self.refused[0] + self.refused[1]
    }
}

/// One frame more.
#[inline]
fn add(sums: &mut [u64; 3], of_frame: [u64; 3]) {
    sums.iter_mut().zip(of_frame).for_each(|(sum, n)| *sum += n);
}

/// Frames on a line at which it takes no more: each has as many free ones beside it at least, so that lines that nobody
/// reads, or slow ones, leave frames for the others.
fn most(free: usize) -> usize {
    (free / 2).max(1)
}

/// How many frames a line takes now, one after the other. One that is put there takes one from what is free.
pub(super) fn room(lane: &Lane<Frame>, promised: bool, free: usize) -> usize {
    let len = lane.len();
    if len >= most(free) {
        return 0;
    }
    lane.room(promised).min(((free + 1).saturating_sub(2 * len) / 3).max(1))
}

/// How many frames that have their buffers already a line takes, while `free` others are.
fn fitting(lane: &Lane<Frame>, promised: bool, free: usize) -> usize {
    lane.room(promised).min(most(free).saturating_sub(lane.len()))
}

impl Lines {
    fn put_frame(&mut self, line: u32, frame: Frame, promised: bool, now: Time) -> Result<(), Frame> {
        // This frame has been allocated since its sender asked for room.
        let free = self.pool.free() + 1;
        let Some(Some(Line::Frames(lane))) = self.lines.get_mut(line as usize) else { return Err(frame) };
        if fitting(lane, promised, free) == 0 {
            return Err(frame);
        }
        if let (Some(Some(taps)), true) = (self.taps.get_mut(line as usize / 2), lane.is_up()) {
            taps.see_frame(&frame, &self.pool, Side::of_line(line), now);
        }
        self.work += frame.cells() as usize;
        lane.put(frame, now, &mut self.pool)?;
        self.note_put(line);
        Ok(())
    }

    /// Moves the oldest `n` frames of a line, which are of one layer, to another on which they arrive at once, under
    /// another label. What finds no room there is dropped. `None`, and nothing has moved, if it is not such a line, or
    /// somebody looks at it.
    fn pass_frames(&mut self, from: u32, to: u32, n: usize, label: Label, now: Time) -> Option<Passed> {
        if self.taps.get(to as usize / 2).is_some_and(Option::is_some) {
            return None;
        }
        let both = self.lines.get_disjoint_mut([from as usize, to as usize]).ok()?;
        let [Some(Line::Frames(from)), Some(Line::Frames(to))] = both else { return None };
        if to.is_timed() || !to.is_up() {
            return None;
        }
        let (mut passed, mut cells, mut left) = (Passed::default(), 0, n);
        while left > 0 {
            let fit = left.min(fitting(to, false, self.pool.free() + 1));
            from.move_to(to, fit, now, |frame| {
                add(&mut passed.sent, counted(frame.aal, frame.len()));
                cells += frame.cells() as usize;
                frame.circuit = translate(label, frame.circuit);
            });
            left -= fit;
            if left > 0 {
                // One that is dropped leaves a buffer for others.
                let Some(frame) = from.take() else { break };
                add(&mut passed.refused, counted(frame.aal, frame.len()));
                self.pool.release(frame);
                left -= 1;
            }
        }
        to.count_drops(DropReason::QueueFull, passed.frames_refused());
        self.work += cells;
        Some(passed)
    }
}

impl NodeIo<'_> {
    /// The oldest frame that has arrived at `port`, and its SDU.
    #[inline]
    pub fn frame_in(&self, port: usize) -> Option<(&Frame, &[u8])> {
        match self.lines.get(self.port(port).input) {
            Some(Line::Frames(lane)) => lane.front().map(|f| (f, self.lines.pool.octets(f))),
            _ => None,
        }
    }

    /// The oldest frames at `port` that are of one circuit and one layer: one, or as many as are `most_cells` together,
    /// `most` at most.
    pub(crate) fn frame_run(&self, port: usize, most: usize, most_cells: usize) -> Option<FrameRun> {
        let Some(Line::Frames(lane)) = self.lines.get(self.port(port).input) else { return None };
        let frames = lane.readable();
        let first = frames.first()?;
        let same = |frame: &&Frame| (frame.circuit, frame.aal) == (first.circuit, first.aal);
        let mut run = FrameRun { circuit: first.circuit, aal: first.aal, frames: 0, cells: 0 };
        for frame in frames.iter().take(most).take_while(same) {
            let cells = run.cells + frame.cells() as usize;
            if run.frames > 0 && cells > most_cells {
                break;
            }
            (run.frames, run.cells) = (run.frames + 1, cells);
        }
        Some(run)
    }

    /// Passes the oldest `n` frames at `from`, a [`FrameRun`] or less of it, on at `to` under another label. What finds
    /// no room is dropped, counted at the link. `None`, and nothing has moved, if they have to pass one by one: where
    /// they do not arrive at once, or somebody looks at each.
    pub(crate) fn pass_frames(&mut self, from: usize, to: usize, n: usize, label: Label) -> Option<Passed> {
        let (input, output) = (self.port(from).input, self.port(to).output);
        let passed = self.lines.pass_frames(input, output, n, label, self.now)?;
        self.lines.note_taken(input);
        self.lines.note_put(output);
        Some(passed)
    }

    /// Takes the oldest frame off the link; pass it on or release it.
    pub fn take_frame(&mut self, port: usize) -> Option<Frame> {
        let line = self.port(port).input;
        let frame = match self.lines.get_mut(line) {
            Some(Line::Frames(lane)) => lane.take(),
            _ => None,
        };
        if frame.is_some() {
            self.lines.note_taken(line);
        }
        frame
    }

    /// Takes the oldest frame off the link and gives its buffer back.
    pub fn release_frame(&mut self, port: usize) {
        if let Some(frame) = self.take_frame(port) {
            self.lines.pool.release(frame);
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The frame itself, if there is no room (or no frame link).
    pub fn put_frame(&mut self, port: usize, frame: Frame) -> Result<(), Frame> {
        self.lines.put_frame(self.port(port).output, frame, false, self.now)
    }

    /// [`NodeIo::put_frame`] for a circuit whose rate is promised, where [`NodeIo::promised_room`] has room.
    ///
    /// # Errors
    /// As [`NodeIo::put_frame`].
    pub fn put_promised_frame(&mut self, port: usize, frame: Frame) -> Result<(), Frame> {
        self.lines.put_frame(self.port(port).output, frame, true, self.now)
    }
}
