//! Sockets of a host whose received pages become its applications' (Almesberger 1995, section 3.3): buffers posted ahead, SDUs that wait
//! for one, and the alignment at which nothing is copied.
//!
//! In: buffers, and data that a driver has put somewhere. Out: what was given to whom, with the driver's own mark of the memory, which
//! it may use again.

use crate::iocc::PAGE;
use crate::paged::{Delivered, Paged};
use remap::Gather;
use remap::align::Alignment;
use remap::layers::{Flow, Layers, Sizes};
use remap::spaces::Process;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// SDUs that wait for a buffer, at most, of one socket.
const WAITING: usize = 64;
/// Octets at a PDU's beginning that hold all headers, options included.
pub const BEGINNING: usize = 160;

/// Whose data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// An application of UDP or TCP over IP, on any circuit.
    Flow(Flow),
    /// Whoever has a circuit that carries nothing but its data, by VCI.
    Circuit(u32),
}

/// An SDU that an application has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed<T> {
    /// Whose it is.
    pub whose: Whose,
    /// The buffer that it is in.
    pub address: u64,
    /// How it got there; of an SDU that is longer than the buffer the rest is lost.
    pub delivered: Delivered,
    /// The driver's mark.
    pub mark: T,
}

#[derive(Debug)]
struct Socket<T> {
    process: Process,
    /// Of the application's own control information.
    own: Sizes,
    posted: VecDeque<(u64, usize)>,
    waiting: VecDeque<(Gather, T)>,
}

/// The sockets.
#[derive(Debug)]
pub struct Sockets<T> {
    sockets: BTreeMap<Whose, Socket<T>>,
    /// No page is mapped.
    copies: bool,
}

impl<T> Default for Sockets<T> {
    fn default() -> Self {
        Sockets { sockets: BTreeMap::new(), copies: false }
    }
}

impl<T> Sockets<T> {
    /// Whether all octets are copied, also those of pages that could be mapped.
    pub const fn copy_always(&mut self, copies: bool) {
        self.copies = copies;
    }

    /// Opens a socket: data of `whose` are for a process; `own` are the sizes of a header and a trailer of the application's, before and
    /// behind its data. They are not part of what is given to it.
    pub fn bind(&mut self, whose: Whose, process: Process, own: Sizes) {
        let socket = Socket { process, own, posted: VecDeque::new(), waiting: VecDeque::new() };
        self.sockets.insert(whose, socket);
    }

    /// What an application is told: buffers that lie so are filled without a copy.
    pub const fn alignment(&self) -> Alignment {
        Alignment { page: PAGE, offset: 0 }
    }

    /// Where the next data are wanted in their page: where the first posted buffer says, or where applications are told to put
    /// theirs; `None`, if there is no such socket.
    pub fn placement(&self, whose: Whose) -> Option<usize> {
        let socket = self.sockets.get(&whose)?;
        Some(socket.posted.front().map_or(self.alignment().offset, |(address, _)| *address as usize % PAGE))
    }

    /// The application's own sizes, if it has a socket.
    pub fn own(&self, whose: Whose) -> Option<Sizes> {
        self.sockets.get(&whose).map(|socket| socket.own)
    }

    /// Whose a PDU is, and where its data are in it: `beginning` are its first octets, `octets` is its length. `None`: nobody's.
    pub fn find(&self, vci: u32, beginning: &[u8], octets: usize) -> Option<(Whose, Range<usize>)> {
        if self.sockets.contains_key(&Whose::Circuit(vci)) {
            return self.within(Whose::Circuit(vci), 0..octets);
        }
        let layers = Layers::new(beginning, octets).process_all().ok()?;
        self.within(Whose::Flow(layers.flow()?), layers.rest())
    }

    /// The data without the application's own header and trailer.
    pub fn within(&self, whose: Whose, range: Range<usize>) -> Option<(Whose, Range<usize>)> {
        let own = self.own(whose)?;
        let data = range.start + own.header..range.end.checked_sub(own.trailer)?;
        (data.start <= data.end).then_some((whose, data))
    }

    /// Gives a buffer to receive into, ahead of the data or behind them. If data wait, they are in it now.
    pub fn post(&mut self, memory: &mut Paged, whose: Whose, address: u64, octets: usize) -> Option<Completed<T>> {
        let socket = self.sockets.get_mut(&whose)?;
        match socket.waiting.pop_front() {
            Some((sdu, mark)) => Some(socket.give(memory, self.copies, whose, (address, octets), (sdu, mark))),
            None => {
                socket.posted.push_back((address, octets));
                None
            }
        }
    }

    /// Data have come, and lie where `sdu` says. Given to their application at once if it has posted a buffer, else they wait.
    ///
    /// # Errors
    /// There is no such socket, or too much waits: the driver's mark comes back.
    pub fn arrive(
        &mut self,
        memory: &mut Paged,
        whose: Whose,
        sdu: Gather,
        mark: T,
    ) -> Result<Option<Completed<T>>, T> {
        let Some(socket) = self.sockets.get_mut(&whose) else { return Err(mark) };
        match socket.posted.pop_front() {
            Some(buffer) => Ok(Some(socket.give(memory, self.copies, whose, buffer, (sdu, mark)))),
            None if socket.waiting.len() >= WAITING => Err(mark),
            None => {
                socket.waiting.push_back((sdu, mark));
                Ok(None)
            }
        }
    }
}

impl<T> Socket<T> {
    fn give(
        &self,
        memory: &mut Paged,
        copies: bool,
        whose: Whose,
        (address, room): (u64, usize),
        (mut sdu, mark): (Gather, T),
    ) -> Completed<T> {
        sdu.truncate(room);
        // A buffer that the process has not, or has no longer, gets nothing.
        let delivered = match copies {
            false => memory.deliver(self.process, address, &sdu),
            true => {
                let octets = memory.copy_out(&sdu);
                let copied = memory.overwrite(self.process, address, &octets);
                copied.map(|copied| Delivered { octets: copied, pages: 0, copied })
            }
        };
        let delivered = delivered.unwrap_or_default();
        Completed { whose, address, delivered, mark }
    }
}
