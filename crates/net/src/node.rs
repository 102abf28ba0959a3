//! What a node sees: its ports, each one end of a link, as slices of cells or queues of frames.

mod frames;

pub(crate) use frames::FrameRun;

use crate::frame::{Frame, FramePool};
use crate::label_change::LabelChange;
use crate::line::{Carries, Lane, Purged, Side};
use crate::parcel::{Parcel, SduMemory, Spare};
use crate::ready::ReadySet;
use crate::ring::Ring;
use crate::tap::Taps;
use std::any::Any;
use std::sync::Arc;
use wire::{Cell, CircuitId, Counters, DropReason, Label, Time};

/// An element of a network: a host interface, a switch.
pub trait Node: Send {
    /// Does a bounded amount of work: reads inputs, writes outputs. True if it did anything: the caller runs it again.
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool;

    /// When the node wants to run even if nothing arrives.
    fn poll_timeout(&self) -> Option<Time>;

    /// Whether it has nothing to do until something arrives, [`Node::poll_timeout`] has come, or somebody has called it
    /// by [`crate::Network::node_mut`]: then rounds pass it over. A node that waits for room on a link has something
    /// to do.
    fn rests(&self) -> bool {
        false
    }

    /// Whether it takes [`Parcel`]s in place of cells ([`NodeIo::take_parcel`]), each as soon as it is the oldest on
    /// its link.
    fn takes_parcels(&self) -> bool {
        false
    }

    /// A link has been connected at a port, or removed.
    fn handle_link(&mut self, _port: u16, _link: Option<LinkProperties>) {}

    /// Next new label at its ports; traffic already on the link belongs to the old circuit ([`crate::LabelChanges`]). A node with
    /// circuits returns each label that it is given once.
    fn poll_label_change(&mut self) -> Option<LabelChange> {
        None
    }

    /// A label belongs to another circuit at the far end of the link at a port: drop the node's own cells (ends of PDUs, answers)
    /// that wait there for the removed circuit.
    fn drop_waiting(&mut self, _port: u16, _label: Label) {}

    /// For the owner, who knows the type: [`crate::Network::node_mut`].
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// What a node has to know of a link at one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProperties {
    /// Cells or frames.
    pub carries: Carries,
    /// Whether both its ends understand credit cells, and it keeps the order of cells.
    pub credit: bool,
    /// Whether a shell hands over what comes in, rather than a line that stamps it.
    pub outside: bool,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) enum Line {
    Cells(Lane<Cell>),
    Frames(Lane<Frame>),
}

impl Line {
    /// Whether what is put on it arrives later than at once.
    pub(crate) fn is_timed(&self) -> bool {
        match self {
            Line::Cells(lane) => lane.is_timed(),
            Line::Frames(lane) => lane.is_timed(),
        }
    }

    /// Moves what is due. True if anything moved.
    pub(crate) fn run(&mut self, now: Time, pool: &mut FramePool) -> bool {
        match self {
            Line::Cells(lane) => lane.run(now, pool),
            Line::Frames(lane) => lane.run(now, pool),
        }
    }

    /// When it has something to do next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Line::Cells(lane) => lane.poll_timeout(),
            Line::Frames(lane) => lane.poll_timeout(),
        }
    }

    /// [`Lane::under_way`].
    pub(crate) fn under_way(&mut self, labels: &[Label], pool: &mut FramePool) -> u64 {
        match self {
            Line::Cells(lane) => lane.under_way(labels, pool),
            Line::Frames(lane) => lane.under_way(labels, pool),
        }
    }

    /// [`Lane::outdate`].
    pub(crate) fn outdate(&mut self, labels: &[Label], ahead: u64) {
        match self {
            Line::Cells(lane) => lane.outdate(labels, ahead),
            Line::Frames(lane) => lane.outdate(labels, ahead),
        }
    }

    /// [`Lane::shorten_sieve`].
    pub(crate) fn shorten_sieve(&mut self, beyond: u64) {
        match self {
            Line::Cells(lane) => lane.shorten_sieve(beyond),
            Line::Frames(lane) => lane.shorten_sieve(beyond),
        }
    }

    fn purge_stale(&mut self, most: usize, pool: &mut FramePool) -> Purged {
        match self {
            Line::Cells(lane) => lane.purge_stale(most, pool),
            Line::Frames(lane) => lane.purge_stale(most, pool),
        }
    }

    /// [`Lane::unread_drops`].
    pub(crate) fn unread_drops(&self) -> (Counters, u64) {
        match self {
            Line::Cells(lane) => lane.unread_drops(),
            Line::Frames(lane) => lane.unread_drops(),
        }
    }
}

/// The two lines of a port, as indices into the network's lines; [`NONE`] where no link is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port {
    pub(crate) input: u32,
    pub(crate) output: u32,
}

pub(crate) const NONE: u32 = u32::MAX;

impl Port {
    pub(crate) const UNCONNECTED: Port = Port { input: NONE, output: NONE };
}

/// The lines and what belongs to them: taps, one place for each link, and the frame pool.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<Option<Line>>,
    pub(crate) taps: Vec<Option<Box<Taps>>>,
    pub(crate) pool: FramePool,
    /// The node that reads each line, or [`NONE`].
    pub(crate) readers: Vec<u32>,
    /// Whether that node takes parcels.
    pub(crate) parcels: Vec<bool>,
    pub(crate) spare: Spare,
    /// Nodes to be visited: something has arrived, or they do not rest.
    pub(crate) ready: ReadySet,
    /// Lines with a rate, a delay or faults that are to be looked at: something was put on them or taken off.
    pub(crate) moved: ReadySet,
    /// Lines on which units of circuits that have gone may be.
    pub(crate) stale_filters: ReadySet,
    /// Cells, and frames by their cells, that were put on lines, and what nodes did beside that
    /// ([`NodeIo::count_work`]): the work of a round.
    pub(crate) work: usize,
}

impl Lines {
    #[inline]
    fn get(&self, line: u32) -> Option<&Line> {
        self.lines.get(line as usize)?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, line: u32) -> Option<&mut Line> {
        self.lines.get_mut(line as usize)?.as_mut()
    }

    fn cells_out(&mut self, line: u32) -> &mut [Cell] {
        match self.get_mut(line) {
            Some(Line::Cells(lane)) => lane.writable(),
            _ => &mut [],
        }
    }

    /// `pdus`: how many of the cells end a PDU, if that is known.
    fn commit(&mut self, line: u32, n: usize, pdus: Option<u64>, now: Time) {
        let taps = self.taps.get_mut(line as usize / 2).and_then(Option::as_mut);
        if let Some(Some(Line::Cells(lane))) = self.lines.get_mut(line as usize) {
            if let (Some(taps), true) = (taps, lane.is_up()) {
                let cells = lane.writable();
                taps.see_cells(&cells[..n.min(cells.len())], Side::of_line(line), now);
            }
            match pdus {
                Some(pdus) => lane.commit_pdus(n, pdus, now, &mut self.pool),
                None => lane.commit(n, now, &mut self.pool),
            }
            self.work += n;
            self.note_put(line);
        }
    }

    /// Drops leading units of removed circuits, at most `most` per port. True if there are more.
    #[cold]
    pub(crate) fn purge_stale(&mut self, ports: &[Port], most: usize) -> bool {
        let mut more = false;
        for line in ports.iter().map(|port| port.input) {
            if !self.stale_filters.remove(line) {
                continue;
            }
            let Some(Some(filtered)) = self.lines.get_mut(line as usize) else { continue };
            let purged = filtered.purge_stale(most, &mut self.pool);
            if purged != Purged::Done {
                self.stale_filters.insert(line);
            }
            more |= purged == Purged::More;
            self.note_taken(line);
        }
        more
    }

    /// Something was put on a line.
    #[inline]
    fn note_put(&mut self, line: u32) {
        match self.get(line) {
            Some(put) if put.is_timed() => self.moved.insert(line),
            Some(_) => self.note_arrived(line),
            None => {}
        }
    }

    /// Something may have arrived at a line's far end.
    pub(crate) fn note_arrived(&mut self, line: u32) {
        let reader = self.readers.get(line as usize).copied().unwrap_or(NONE);
        if reader != NONE {
            self.ready.insert(reader);
        }
    }

    /// Something was taken off a line: more may arrive.
    pub(crate) fn note_taken(&mut self, line: u32) {
        if self.get(line).is_some_and(Line::is_timed) {
            self.moved.insert(line);
        }
    }

    /// Cells that a parcel may stand for which is put on a line now. A tap sees cells.
    fn parcel_room(&self, line: u32) -> Option<usize> {
        let taken = self.parcels.get(line as usize) == Some(&true);
        match self.get(line) {
            Some(Line::Cells(lane)) if taken && self.taps[line as usize / 2].is_none() => lane.parcel_room(),
            _ => None,
        }
    }

    fn put_parcel(&mut self, line: u32, parcel: Parcel) -> Result<(), Parcel> {
        let cells = parcel.cells();
        if self.parcel_room(line).is_none_or(|room| room < cells) {
            return Err(parcel);
        }
        let Some(Line::Cells(lane)) = self.get_mut(line) else { return Err(parcel) };
        lane.put_parcel(parcel);
        self.work += cells;
        self.note_put(line);
        Ok(())
    }

    pub(crate) fn room(&self, line: u32, promised: bool) -> usize {
        match self.get(line) {
            Some(Line::Cells(lane)) => lane.room(false),
            Some(Line::Frames(lane)) => frames::room(lane, promised, self.pool.free()),
            None => 0,
        }
    }

    fn count_drops(&mut self, line: u32, reason: DropReason, n: u64) {
        match self.get_mut(line) {
            Some(Line::Cells(lane)) => lane.count_drops(reason, n),
            Some(Line::Frames(lane)) => lane.count_drops(reason, n),
            None => {}
        }
    }
}

/// Work after which a round ends, in cells put on lines or otherwise handled: a tenth of a millisecond and more.
pub(crate) const ROUND_WORK: usize = 16_384;

/// A node's ports during one [`Node::run`]; also what a socket shell gets of an external link end, as port 0.
#[derive(Debug)]
pub struct NodeIo<'a> {
    pub(crate) ports: &'a [Port],
    pub(crate) lines: &'a mut Lines,
    pub(crate) now: Time,
}

impl NodeIo<'_> {
    /// Ports there are: one more than the highest that a link has been connected to.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The moment of this round.
    pub fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn port(&self, port: usize) -> Port {
        self.ports.get(port).copied().unwrap_or(Port::UNCONNECTED)
    }

    /// What the link at `port` carries; `None` if no link is there.
    pub fn carries(&self, port: usize) -> Option<Carries> {
        match self.lines.get(self.port(port).output)? {
            Line::Cells(_) => Some(Carries::Cells),
            Line::Frames(_) => Some(Carries::Frames),
        }
    }

    /// Cells that have arrived at `port`, oldest first, as many as lie side by side and are not behind a parcel.
    pub fn cells_in(&self, port: usize) -> &[Cell] {
        match self.lines.get(self.port(port).input) {
            Some(Line::Cells(lane)) => lane.readable(),
            _ => &[],
        }
    }

    /// Takes the first `n` cells of [`NodeIo::cells_in`] off the link.
    pub fn consume(&mut self, port: usize, n: usize) {
        let line = self.port(port).input;
        if let Some(Line::Cells(lane)) = self.lines.get_mut(line) {
            lane.consume(n);
            if n > 0 {
                self.lines.note_taken(line);
            }
        }
    }

    /// Room for cells at `port`, as much as lies side by side. Empty: wait, or drop and count. Contents are stale.
    pub fn cells_out(&mut self, port: usize) -> &mut [Cell] {
        self.lines.cells_out(self.port(port).output)
    }

    /// Sends the first `n` cells of [`NodeIo::cells_out`].
    pub fn commit(&mut self, port: usize, n: usize) {
        self.lines.commit(self.port(port).output, n, None, self.now);
    }

    /// [`NodeIo::commit`] of cells of which `pdus` are the last of a PDU.
    pub fn commit_pdus(&mut self, port: usize, n: usize, pdus: u64) {
        self.lines.commit(self.port(port).output, n, Some(pdus), self.now);
    }

    /// Sends one cell; false if there is no room (or no cell link).
    pub fn put_cell(&mut self, port: usize, cell: &Cell) -> bool {
        let Some(slot) = self.cells_out(port).first_mut() else { return false };
        *slot = *cell;
        self.commit(port, 1);
        true
    }

    /// Cells that a parcel may stand for which is put on the link at `port` now. `None`: it takes cells only.
    pub fn parcel_room(&self, port: usize) -> Option<usize> {
        self.lines.parcel_room(self.port(port).output)
    }

    /// A parcel without SDUs, to be filled.
    pub fn new_parcel(&mut self, circuit: CircuitId, memory: Arc<dyn SduMemory>) -> Parcel {
        Parcel::new(circuit, memory, self.lines.spare.take())
    }

    /// Sends a parcel.
    ///
    /// # Errors
    /// The parcel itself, if [`NodeIo::parcel_room`] is less than its cells.
    pub fn put_parcel(&mut self, port: usize, parcel: Parcel) -> Result<(), Parcel> {
        self.lines.put_parcel(self.port(port).output, parcel)
    }

    /// Takes a parcel off the link at `port`, if it is the oldest there.
    pub fn take_parcel(&mut self, port: usize) -> Option<Parcel> {
        match self.lines.get_mut(self.port(port).input) {
            Some(Line::Cells(lane)) => lane.take_parcel(),
            _ => None,
        }
    }

    /// A parcel is done with.
    pub fn recycle(&mut self, parcel: Parcel) {
        self.lines.spare.give(parcel);
    }

    /// How many cells or frames the link at `port` takes now.
    pub fn room(&self, port: usize) -> usize {
        self.lines.room(self.port(port).output, false)
    }

    /// [`NodeIo::room`] for a circuit whose rate is promised: its frames wait behind one long frame of others more than
    /// these may, so that a link's window costs it no rate.
    pub fn promised_room(&self, port: usize) -> usize {
        self.lines.room(self.port(port).output, true)
    }

    /// Whether the link at `port` passes anything; no without a link.
    pub fn is_up(&self, port: usize) -> bool {
        match self.lines.get(self.port(port).output) {
            Some(Line::Cells(lane)) => lane.is_up(),
            Some(Line::Frames(lane)) => lane.is_up(),
            None => false,
        }
    }

    /// Whether the far end of the link at `port` has taken all that was sent there.
    pub fn is_drained(&self, port: usize) -> bool {
        match self.lines.get(self.port(port).output) {
            Some(Line::Cells(lane)) => lane.is_drained(),
            Some(Line::Frames(lane)) => lane.is_drained(),
            None => true,
        }
    }

    /// The pool that frames take their buffers from.
    pub fn pool(&self) -> &FramePool {
        &self.lines.pool
    }

    /// The pool, to allocate, fill and release.
    pub fn pool_mut(&mut self) -> &mut FramePool {
        &mut self.lines.pool
    }

    /// Counts what a node did beside putting cells on lines: as much as so many cells. The round ends early once all
    /// nodes together have done enough.
    pub fn count_work(&mut self, cells: usize) {
        self.lines.work += cells;
    }

    /// What nodes have done in this round so far, in cells.
    pub(crate) fn work(&self) -> usize {
        self.lines.work
    }

    /// Counts what a node dropped instead of sending it at `port`.
    pub fn count_drops(&mut self, port: usize, reason: DropReason, n: u64) {
        self.lines.count_drops(self.port(port).output, reason, n);
    }

    /// Counts what was taken off the link at `port` and then lost: a connection that ended before it was sent.
    pub fn count_lost(&mut self, port: usize, reason: DropReason, n: u64) {
        self.lines.count_drops(self.port(port).input, reason, n);
    }

    /// Reads the cells at `port` while all outputs can be written: `f` gets them and returns how many it is done with.
    pub fn forward(&mut self, port: usize, f: impl FnOnce(&[Cell], &mut Self) -> usize) {
        let input = self.port(port).input;
        let Some(Line::Cells(lane)) = self.lines.get_mut(input) else { return };
        // The ring moves out for the time of `f` (three words and a pointer), so that reading it borrows nothing of the
        // lines that `f` writes. What is left in its place has no room: a link from the node to itself is full meanwhile.
        let (mut ring, cells): (Ring<Cell>, usize) = lane.lend_ring();
        let readable = ring.readable();
        let done = f(&readable[..readable.len().min(cells)], self);
        ring.consume(done);
        if let Some(Line::Cells(lane)) = self.lines.get_mut(input) {
            lane.return_ring(ring, done);
        }
        if done > 0 {
            self.lines.note_taken(input);
        }
    }
}

/// The outputs of a cell switch.
impl switch::Outputs for NodeIo<'_> {
    #[inline]
    fn slots(&mut self, port: u16) -> &mut [Cell] {
        self.cells_out(port.into())
    }

    #[inline]
    fn commit(&mut self, port: u16, n: usize) {
        NodeIo::commit(self, port.into(), n);
    }

    #[inline]
    fn commit_pdus(&mut self, port: u16, n: usize, pdus: u64) {
        NodeIo::commit_pdus(self, port.into(), n, pdus);
    }
}
