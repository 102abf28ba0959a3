//! Cells over UDP: a cell link whose far end is a socket address. One 53-octet cell with HEC per datagram, as
//! cell-switch emulators speak, or Cellway's own batches ([`wire::udp`]), whose cells leave in the order in which they
//! were sent.
//!
//! Beside them [`pseudowire`]: what other vendors' routers speak.
//!
//! [`Codec`] is the part without a socket, [`Shell`] the socket, which sends and receives many datagrams by one system
//! call.

mod buffers;
pub mod heartbeat;
mod order;
pub mod pseudowire;
mod shell;

pub use buffers::{buffer_octets, granted_octets};
pub use shell::Shell;

use heartbeat::Heartbeats;
use net::node::NodeIo;
use order::{DatagramFate, Order};
use wire::cell::CELL_OCTETS;
use wire::heartbeat::Heartbeat;
use wire::octets::{Format, emit53, parse53};
use wire::udp::{Batch, MAX_CELLS, MAX_OCTETS, emit};
use wire::{DropReason, Time, Vpi, hec};

/// What a datagram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One cell of 53 octets with its HEC.
    Cell(Format),
    /// Up to 27 cells and a sequence number.
    Batch,
}

/// Datagrams to cells and back: the part without a socket.
#[derive(Debug)]
pub struct Codec {
    form: Form,
    receiver: hec::Receiver,
    next_out: u32,
    order: Order,
    corrected_headers: u64,
    heartbeats: Heartbeats,
}

/// Datagrams written one behind the other: octets of each but the last, which may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Octets in all.
    pub octets: usize,
    /// Octets of each datagram but the last.
    pub segment: usize,
    /// Cells in them.
    pub cells: usize,
}

impl Codec {
    /// A codec before the first datagram.
    pub fn new(form: Form) -> Self {
        Codec::starting_at(form, 0)
    }

    /// The same; the first batch that it writes has this number. One that nobody can foretell shows the peer that its
    /// own peer has begun anew.
    pub fn starting_at(form: Form, first: u32) -> Self {
        let receiver = hec::Receiver::default();
        let heartbeats = Heartbeats::new(first);
        Codec { form, receiver, next_out: first, order: Order::default(), corrected_headers: 0, heartbeats }
    }

    /// Whether the peer lives, where the form has heartbeats.
    pub fn heartbeats(&self) -> Option<&Heartbeats> {
        matches!(self.form, Form::Batch).then_some(&self.heartbeats)
    }

    /// The same, to be given the time and to be asked for what is due.
    pub fn heartbeats_mut(&mut self) -> Option<&mut Heartbeats> {
        matches!(self.form, Form::Batch).then_some(&mut self.heartbeats)
    }

    /// Datagrams that gaps in the sequence numbers show to be missing, and that have not come late (batches only).
    pub fn lost_datagrams(&self) -> u64 {
        self.order.lost()
    }

    /// Datagrams that came after later ones had waited for them, and were dropped (batches only).
    pub fn late_datagrams(&self) -> u64 {
        self.order.late()
    }

    /// Datagrams that came again, and were dropped (batches only).
    pub fn repeated_datagrams(&self) -> u64 {
        self.order.twice()
    }

    /// Headers in which one wrong bit was put right (I.432.1).
    pub fn corrected_headers(&self) -> u64 {
        self.corrected_headers
    }

    /// Cells of a datagram at most.
    pub const fn max_cells(&self) -> usize {
        match self.form {
            Form::Cell(_) => 1,
            Form::Batch => MAX_CELLS,
        }
    }

    /// Cells of one datagram go to port 0 of `io`, whose room one asks for before ([`Codec::has_room`]); what is none,
    /// or has no room, is counted there. A batch that is ahead of a missing one waits, until [`Codec::handle_timeout`]
    /// at most.
    pub fn receive(&mut self, datagram: &[u8], io: &mut NodeIo<'_>) {
        match self.form {
            Form::Cell(format) => self.receive_cell(datagram, format, io),
            Form::Batch if Heartbeat::is_one(datagram) => match Heartbeat::parse(datagram) {
                Ok(heartbeat) => {
                    if self.heartbeats.handle_heartbeat(&heartbeat, io.now()) {
                        self.order.begin_anew();
                        self.drop_abandoned(io);
                    }
                }
                Err(_) => io.count_drops(0, DropReason::Malformed, 1),
            },
            Form::Batch => match Batch::new_checked(datagram) {
                Ok(batch) => {
                    self.heartbeats.handle_cells(io.now());
                    let place = self.order.note(batch.sequence, datagram, io.now());
                    self.drop_abandoned(io);
                    match place {
                        DatagramFate::Next => put(&batch, io),
                        DatagramFate::Early => {}
                        DatagramFate::Drop => io.count_drops(0, DropReason::Sequence, batch.cells().count() as u64),
                    }
                    self.release(io);
                }
                Err(_) => io.count_drops(0, DropReason::Malformed, 1),
            },
        }
    }

    /// Counts what waited when the peer began anew.
    fn drop_abandoned(&mut self, io: &mut NodeIo<'_>) {
        for old in self.order.take_abandoned() {
            let cells = Batch::new_checked(&old).map_or(0, |batch| batch.cells().count());
            io.count_drops(0, DropReason::Sequence, cells as u64);
        }
    }

    fn receive_cell(&mut self, datagram: &[u8], format: Format, io: &mut NodeIo<'_>) {
        let Ok(mut octets) = <[u8; CELL_OCTETS]>::try_from(datagram) else {
            return io.count_drops(0, DropReason::Malformed, 1);
        };
        if let Some(header) = octets.first_chunk_mut::<5>() {
            match self.receiver.check(header) {
                hec::Verdict::Good => {}
                hec::Verdict::Corrected => self.corrected_headers += 1,
                hec::Verdict::Bad => return io.count_drops(0, DropReason::HeaderError, 1),
            }
        }
        match parse53(&octets, format) {
            // A peer with a line of a fixed rate sends them where it has nothing to send.
            Ok(cell) if cell.is_filler() => {}
            Ok(cell) if io.put_cell(0, &cell) => {}
            Ok(_) => io.count_drops(0, DropReason::QueueFull, 1),
            Err(_) => io.count_drops(0, DropReason::HeaderError, 1),
        }
    }

    /// Batches that need not wait for a missing one go to port 0 of `io`, as far as it has room. True if it has more.
    pub fn release(&mut self, io: &mut NodeIo<'_>) -> bool {
        while self.has_room(io) {
            if let Some(datagram) = self.order.pop() {
                if let Ok(batch) = Batch::new_checked(&datagram) {
                    put(&batch, io);
                }
            } else if self.order.is_full() {
                self.order.give_up();
            } else {
                return true;
            }
        }
        false
    }

    /// Gives up what is missing before batches that have waited for it for long enough, and releases them. For who has
    /// received all that is there: what seems to be missing may be among it.
    pub fn handle_timeout(&mut self, io: &mut NodeIo<'_>) {
        while self.release(io) && self.poll_timeout().is_some_and(|until| until <= io.now()) {
            self.order.give_up();
        }
    }

    /// Whether port 0 of `io` has room for the next datagram. A link that has not even room for one when it is empty
    /// drops some of it.
    pub fn has_room(&self, io: &NodeIo<'_>) -> bool {
        io.room(0) >= self.max_cells() || io.is_drained(0)
    }

    /// When to call [`Codec::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.order.timeout()
    }

    /// Drops the first cells at port 0 of `io` whose VPI the form has no room for, counted.
    fn drop_unfit(&self, io: &mut NodeIo<'_>) {
        let unfit = io.cells_in(0).iter().take_while(|cell| !self.fits(cell)).count();
        if unfit > 0 {
            io.consume(0, unfit);
            io.count_drops(0, DropReason::Malformed, unfit as u64);
        }
    }

    fn fits(&self, cell: &wire::Cell) -> bool {
        self.form != Form::Cell(Format::Uni) || cell.circuit().vpi <= Vpi::MAX_UNI
    }

    /// Writes the next datagram of the cells at port 0 of `io`; gives octets of it and cells in it. The cells stay
    /// until they are consumed.
    pub fn transmit(&self, io: &NodeIo<'_>, datagram: &mut [u8; MAX_OCTETS]) -> Option<(usize, usize)> {
        let written = self.fill(io, 1, datagram)?;
        Some((written.octets, written.cells))
    }

    /// Writes the next datagrams, as many as fit `octets`, and no more than `most`. The cells stay until they are
    /// consumed.
    pub fn fill(&self, io: &NodeIo<'_>, most: usize, octets: &mut [u8]) -> Option<Written> {
        let cells = io.cells_in(0);
        let fit = cells.iter().take_while(|cell| self.fits(cell)).count();
        let mut rest = cells.get(..fit).filter(|cells| !cells.is_empty())?;
        let (mut at, mut segment) = (0, 0);
        for n in 0..most {
            let (of_datagram, after) = rest.split_at(rest.len().min(self.max_cells()));
            let Some(datagram) = octets.get_mut(at..).filter(|room| room.len() >= self.max_octets()) else { break };
            let length = match (self.form, of_datagram) {
                (_, []) => break,
                (Form::Cell(format), [cell, ..]) => {
                    datagram[..CELL_OCTETS].copy_from_slice(&emit53(cell, format));
                    CELL_OCTETS
                }
                (Form::Batch, cells) => emit(self.next_out.wrapping_add(n as u32), cells, datagram),
            };
            (at, rest) = (at + length, after);
            if n == 0 {
                segment = length;
            }
            if length < segment {
                break;
            }
        }
        (at > 0).then_some(Written { octets: at, segment, cells: fit - rest.len() })
    }

    const fn max_octets(&self) -> usize {
        match self.form {
            Form::Cell(_) => CELL_OCTETS,
            Form::Batch => MAX_OCTETS,
        }
    }

    /// The datagram of [`Codec::transmit`] is on its way.
    pub fn transmitted(&mut self, cells: usize, io: &mut NodeIo<'_>) {
        self.sent(1, cells, io);
    }

    /// The first `datagrams` of [`Codec::fill`], with `cells` in them, are on their way.
    pub fn sent(&mut self, datagrams: usize, cells: usize, io: &mut NodeIo<'_>) {
        self.next_out = self.next_out.wrapping_add(datagrams as u32);
        io.consume(0, cells);
    }
}

/// A batch's cells go to port 0 of `io`.
fn put(batch: &Batch<'_>, io: &mut NodeIo<'_>) {
    for cell in batch.cells().filter(|cell| !cell.is_filler()) {
        if !io.put_cell(0, &cell) {
            io.count_drops(0, DropReason::QueueFull, 1);
        }
    }
}

#[cfg(test)]
mod tests;
