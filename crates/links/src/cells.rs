//! Cells over one TCP connection between two Cellways: batches of [`wire::udp`], one behind the other.
//!
//! TCP keeps the order of cells and loses none while the connection lasts, so such a link carries credit cells
//! ([`wire::credit`]). In: a peer's octets, and cells of a link. Out: the same the other way. Cells that the
//! connection's end has cost are counted `link_down`.

pub use crate::connection::LinkError;

use crate::connection::{Judgement, Out, begins_tls};
use net::node::NodeIo;
use wire::DropReason;
use wire::octets::CELL52_OCTETS;
use wire::udp::{Batch, HEAD_OCTETS, MAX_CELLS, MAX_OCTETS, emit, octets_of};

/// What the first octets of a connection show: a whole batch.
pub(crate) fn judge(octets: &[u8]) -> Judgement {
    let Some(begin) = octets.first_chunk() else { return Judgement::Open };
    match length(*begin) {
        Ok(length) if octets.len() >= length => Judgement::Speaks,
        Ok(_) => Judgement::Open,
        Err(error) => Judgement::Nonsense(error),
    }
}

/// Octets of the batch that begins so.
fn length(begin: [u8; 4]) -> Result<usize, LinkError> {
    octets_of(begin).map_err(|error| if begins_tls(&begin) { LinkError::Tls } else { LinkError::NoCells(error) })
}

/// One connection's protocol.
#[derive(Debug)]
pub struct Machine {
    /// The batch that is coming, or whose cells the link has not all taken.
    batch: Box<[u8; MAX_OCTETS]>,
    got: usize,
    /// Of a batch that has come whole: cells that the link has taken.
    taken: Option<usize>,
    out: Out,
    next_out: u32,
    heard: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new()
    }
}

impl Machine {
    /// A connection on which nothing has passed.
    pub fn new() -> Self {
        let batch = Box::new([0; MAX_OCTETS]);
        Machine { batch, got: 0, taken: None, out: Out::new(MAX_OCTETS), next_out: 0, heard: 0 }
    }

    pub(crate) fn out(&self) -> &Out {
        &self.out
    }

    pub(crate) fn out_mut(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Batches that have come whole on this connection.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// Octets for the peer.
    pub fn poll_transmit(&self) -> &[u8] {
        self.out.poll_transmit()
    }

    /// The first `n` octets of [`Machine::poll_transmit`] are on their way.
    pub fn transmitted(&mut self, n: usize) {
        self.out.transmitted(n);
    }

    /// Whether cells wait for room on the link: read no more from the peer until they have gone.
    pub fn is_blocked(&self) -> bool {
        self.taken.is_some()
    }

    /// How many octets the batch that has begun has in all; at least those of the part that says so.
    fn expected(&self) -> Result<usize, LinkError> {
        match self.batch.first_chunk() {
            Some(begin) if self.got >= begin.len() => length(*begin),
            _ => Ok(4),
        }
    }

    /// Takes the peer's octets, in pieces of any size; gives how many it took. Fewer than all: the link is full.
    ///
    /// # Errors
    /// [`LinkError`]: drop the connection.
    pub fn receive(&mut self, octets: &[u8], io: &mut NodeIo<'_>) -> Result<usize, LinkError> {
        let mut rest = octets;
        loop {
            if !self.hand_on(io) || rest.is_empty() {
                return Ok(octets.len() - rest.len());
            }
            self.take(&mut rest)?;
        }
    }

    /// Takes octets up to the end of the batch. True where that has come.
    fn take(&mut self, octets: &mut &[u8]) -> Result<bool, LinkError> {
        while !octets.is_empty() {
            let expected = self.expected()?;
            let n = octets.len().min(expected - self.got);
            self.batch[self.got..self.got + n].copy_from_slice(&octets[..n]);
            self.got += n;
            *octets = &octets[n..];
            if self.got > HEAD_OCTETS && self.got == self.expected()? {
                self.taken = Some(0);
                self.heard += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the link the cells of a batch that has come whole. False if it has no room for all of them.
    fn hand_on(&mut self, io: &mut NodeIo<'_>) -> bool {
        let Some(taken) = &mut self.taken else { return true };
        if let Ok(batch) = Batch::new_checked(&self.batch[..self.got]) {
            for cell in batch.cells().skip(*taken) {
                if !cell.is_filler() && !io.put_cell(0, &cell) {
                    return false;
                }
                *taken += 1;
            }
        }
        (self.taken, self.got) = (None, 0);
        true
    }

    /// Takes cells of the link; false if there are none or no room for them.
    pub fn transmit(&mut self, io: &mut NodeIo<'_>) -> bool {
        let cells = io.cells_in(0);
        if cells.is_empty() || !self.out.has_room() {
            return false;
        }
        let n = cells.len().min(MAX_CELLS);
        let mut batch = [0; MAX_OCTETS];
        let octets = emit(self.next_out, &cells[..n], &mut batch);
        self.out.push(&[&batch[..octets]], n as u32);
        self.next_out = self.next_out.wrapping_add(1);
        io.consume(0, n);
        true
    }

    /// Counts cells that came and that the connection's end keeps from the network.
    pub(crate) fn lose(&mut self, mut octets: &[u8], io: &mut NodeIo<'_>) {
        if self.is_blocked() {
            self.drop_input(io);
        }
        while let Ok(true) = self.take(&mut octets) {
            self.drop_input(io);
        }
    }

    /// Counts the cells of a batch that has come, whole or in part, and that the link has not taken.
    fn drop_input(&mut self, io: &mut NodeIo<'_>) {
        let cells = match self.taken.take() {
            Some(taken) => (self.got - HEAD_OCTETS) / CELL52_OCTETS - taken,
            None if self.got >= 4 => self.expected().map_or(0, |octets| (octets - HEAD_OCTETS) / CELL52_OCTETS),
            None => 0,
        };
        self.got = 0;
        if cells > 0 {
            io.count_drops(0, DropReason::LinkDown, cells as u64);
        }
    }

    /// The connection has ended: cells that have not gone or come whole are lost and counted. On the next connection
    /// all begins anew.
    pub fn disconnect(&mut self, io: &mut NodeIo<'_>) {
        self.drop_input(io);
        let lost = self.out.end();
        if lost > 0 {
            io.count_lost(0, DropReason::LinkDown, lost);
        }
        (self.next_out, self.heard) = (0, 0);
    }
}
