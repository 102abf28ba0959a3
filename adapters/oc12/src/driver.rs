//! The driver of the OC-12c board ([`crate::Oc12`]), and the ways that a host has for an SDU between a process and the
//! board: who copies it, who sums it, whose pages the board reaches.
//!
//! In: writes and reads of processes, a look at the board (by an interrupt, a tick, a process that polls). Out: register
//! accesses, PDUs that have come, transfers that are over. What crosses the memory bus is counted by [`Memory`].
//!
//! | an octet crosses | sending | receiving |
//! |---|---|---|
//! | [`SendPath::Baseline`], [`ReceivePath::Baseline`] | 6 times | 6 times |
//! | [`SendPath::CopyAndSum`], [`ReceivePath::CopyAndSum`] | 4 times | 4 times |
//! | [`SendPath::Programmed`], [`ReceivePath::Programmed`] | twice | twice |
//! | [`SendPath::Direct`], [`ReceivePath::Direct`] | twice | twice |
//! | [`ReceivePath::Mapped`] | | twice where a page begins, else 4 times |
//!
//! Once of these is always the process's own store or load. A direct transfer needs a word's address; where it has none the
//! octets are copied.

mod call;
pub mod division;
pub mod scan;

use crate::registers as r;
use crate::{BLOCK_OCTETS, DATA_AT, FAILED, IDENTIFIER, MOVING, NONE, Oc12, SENT};
use bus::crossings::InternetSum;
use bus::iocc::{Fault, Memory, PAGE, Place};
use bus::memory::{CrossMemory, Descriptor, Reach, Unmapped};
use std::collections::VecDeque;
use wire::Time;

pub use call::{Arrival, Done, Header, Oc12Error, ReceivePath, Sdu, SendPath, Ticket};

/// Kernel buffers, each as long as a block and at the beginning of a page.
pub const BUFFERS: usize = 4;
/// Octets of the kernel's memory that these take.
pub const KERNEL_OCTETS: usize = BUFFERS * BLOCK_OCTETS;
/// Octets of a header at most.
pub const HEADER_OCTETS: usize = 64;
/// Received PDUs that wait for their process at most; more wait on the board.
pub const WAITING: usize = 16;

/// The board and its host's memory, as the driver is given them for a call.
#[derive(Debug)]
pub struct Io<'a> {
    /// The board.
    pub board: &'a mut Oc12,
    /// The host's memory.
    pub memory: &'a mut Memory,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Send {
        header: [u8; HEADER_OCTETS],
        split: usize,
        covers: usize,
        field: Option<usize>,
        vci: u16,
        data: Option<Place>,
    },
    Receive {
        to: Place,
        path: ReceivePath,
        sum: u16,
    },
}

#[derive(Debug, Clone, Copy)]
struct Job {
    ticket: Ticket,
    work: Work,
    block: u32,
    octets: usize,
    /// A kernel buffer in use.
    buffer: Option<usize>,
    /// What the board reaches meanwhile.
    x: Option<Descriptor>,
    sum: u16,
}

/// Where an SDU is before the board fetches it.
#[derive(Debug, Clone, Copy, Default)]
struct Staged {
    buffer: Option<usize>,
    x: Option<Descriptor>,
    /// The sum of its data, where the processor has made it.
    sum: Option<u16>,
}

/// What the driver has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Looks at the board.
    pub looks: u64,
    /// Of these, looks that found something.
    pub useful: u64,
    /// PDUs that came.
    pub arrived: u64,
    /// Octets copied because an address was not aligned.
    pub unaligned: u64,
    /// Pages mapped to processes.
    pub mapped: u64,
}

/// The driver.
#[derive(Debug)]
pub struct Driver {
    /// Where the kernel's buffers are in its memory.
    kernel: u32,
    used: [bool; BUFFERS],
    jobs: VecDeque<Job>,
    moving: bool,
    arrived: VecDeque<Arrival>,
    done: VecDeque<Done>,
    ticket: u64,
    /// What has been counted.
    pub statistics: Statistics,
}

impl Driver {
    /// A driver of `board`, with [`KERNEL_OCTETS`] of the kernel's memory from `kernel` on, which begins a page; `None` if it
    /// is another board.
    pub fn probe(board: &mut Oc12, kernel: u32) -> Option<Self> {
        let found = board.read(r::IDENTIFIER) == IDENTIFIER && Place::kernel(kernel).begins_page();
        found.then(|| Driver {
            kernel,
            used: [false; BUFFERS],
            jobs: VecDeque::new(),
            moving: false,
            arrived: VecDeque::new(),
            done: VecDeque::new(),
            ticket: 0,
            statistics: Statistics::default(),
        })
    }

    /// Opens a circuit whose headers are `split` octets.
    ///
    /// # Errors
    /// More than [`HEADER_OCTETS`].
    pub fn open(&mut self, board: &mut Oc12, vci: u16, split: usize, now: Time) -> Result<(), Oc12Error> {
        let split = u32::try_from(split).ok().filter(|split| *split as usize <= HEADER_OCTETS);
        let split = split.ok_or(Oc12Error::Header)?;
        board.write(r::VCI, vci.into(), now);
        board.write(r::SPLIT, split, now);
        Ok(())
    }

    /// Of what [`Driver::look`] would find, what the board interrupts for: [`crate::RECEIVED`] and the others.
    pub fn set_interrupts(&mut self, board: &mut Oc12, events: u32, now: Time) {
        board.write(r::ENABLE, events, now);
    }

    const fn buffer(&self, number: usize) -> Place {
        Place::kernel(self.kernel + (number * BLOCK_OCTETS) as u32)
    }

    fn take_buffer(&mut self) -> Result<usize, Oc12Error> {
        let free = self.used.iter().position(|used| !used).ok_or(Oc12Error::Busy)?;
        self.used[free] = true;
        Ok(free)
    }

    fn reach(memory: &mut Memory, at: Place, octets: usize, device_writes: bool) -> Result<Descriptor, Unmapped> {
        memory.enter(at.process);
        memory.attach(at.address, octets as u32, Reach { device_writes, tagged: false })
    }

    /// Begins to send octets of a process behind `header`. The process's pages are the board's until [`Driver::poll_done`]
    /// gives the ticket, where the path is [`SendPath::Direct`].
    ///
    /// # Errors
    /// See [`Oc12Error`]; nothing is sent.
    pub fn write(&mut self, io: &mut Io<'_>, sdu: Sdu, header: Header<'_>, now: Time) -> Result<Ticket, Oc12Error> {
        let Sdu { vci, from, octets, path } = sdu;
        let (split, covers) = (header.octets.len(), header.covers);
        let summed = header.field.is_none_or(|at| at.is_multiple_of(2) && at >= covers && at + 2 <= split);
        if split > HEADER_OCTETS || !split.is_multiple_of(2) || !covers.is_multiple_of(2) || covers > split || !summed {
            return Err(Oc12Error::Header);
        }
        if split + octets == 0 || split + octets > BLOCK_OCTETS - DATA_AT {
            return Err(Oc12Error::Length(octets));
        }
        let path = match path {
            // A header alone has nothing to be fetched.
            _ if octets == 0 => SendPath::Programmed,
            SendPath::Direct if !from.address.is_multiple_of(4) => {
                self.statistics.unaligned += octets as u64;
                SendPath::CopyAndSum
            }
            path => path,
        };
        let block = io.board.read(r::TX_FREE);
        if block == NONE {
            return Err(Oc12Error::Busy);
        }
        let staged = match self.stage(io.memory, from, octets, path) {
            Ok(staged) => staged,
            Err(error) => {
                io.board.write(r::RX_FREE, block, now);
                return Err(error);
            }
        };
        let mut place = [0; HEADER_OCTETS];
        place[..split].copy_from_slice(header.octets);
        if let (Some(sum), Some(at)) = (staged.sum, header.field) {
            let mut sum = InternetSum::from_value(sum);
            sum.add(&place[covers..split]);
            place[at..at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
        }
        let data = (path == SendPath::Programmed).then_some(from);
        let work = Work::Send { header: place, split, covers, field: header.field, vci, data };
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let Staged { buffer, x, sum } = staged;
        self.jobs.push_back(Job { ticket, work, block, octets, buffer, x, sum: sum.unwrap_or(0) });
        self.go_on(io, now);
        Ok(ticket)
    }

    /// What the processor does before the board fetches.
    fn stage(&mut self, memory: &mut Memory, from: Place, octets: usize, path: SendPath) -> Result<Staged, Oc12Error> {
        match path {
            SendPath::Programmed => return Ok(Staged::default()),
            SendPath::Direct => {
                let x = Self::reach(memory, from, octets, false)?;
                return Ok(Staged { x: Some(x), ..Staged::default() });
            }
            SendPath::Baseline | SendPath::CopyAndSum => {}
        }
        let buffer = self.take_buffer()?;
        let to = self.buffer(buffer);
        let sum = match path {
            SendPath::Baseline => memory.copy(from, to, octets).and_then(|()| memory.sum(to, octets, true)),
            _ => memory.copy_and_sum(from, to, octets),
        };
        let staged = sum.map_err(Oc12Error::from).and_then(|sum| {
            let x = Self::reach(memory, to, octets, false)?;
            Ok(Staged { buffer: Some(buffer), x: Some(x), sum: Some(sum) })
        });
        if staged.is_err() {
            self.used[buffer] = false;
        }
        staged
    }

    /// Begins to move an arrival's data to `to`, `room` octets at most, and gives its block back after that.
    ///
    /// # Errors
    /// See [`Oc12Error`]: the arrival can be read again, or released.
    pub fn read(
        &mut self,
        io: &mut Io<'_>,
        arrival: &Arrival,
        to: Place,
        room: usize,
        path: ReceivePath,
        now: Time,
    ) -> Result<Ticket, Oc12Error> {
        let octets = arrival.octets.min(room);
        if octets == 0 {
            return Err(Oc12Error::Length(0));
        }
        let own = match path {
            ReceivePath::Direct => to.address.is_multiple_of(4),
            path => path == ReceivePath::Programmed,
        };
        let buffer = if own { None } else { Some(self.take_buffer()?) };
        let place = buffer.map_or(to, |buffer| self.buffer(buffer));
        let x = if path == ReceivePath::Programmed {
            None
        } else {
            let reached = Self::reach(io.memory, place, octets, true);
            if let (Err(_), Some(buffer)) = (&reached, buffer) {
                self.used[buffer] = false;
            }
            Some(reached?)
        };
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let work = Work::Receive { to, path, sum: arrival.sum };
        self.jobs.push_back(Job { ticket, work, block: arrival.block, octets, buffer, x, sum: 0 });
        self.go_on(io, now);
        Ok(ticket)
    }

    /// Nobody reads the arrival: its block is free.
    pub fn release(&mut self, board: &mut Oc12, arrival: &Arrival, now: Time) {
        board.write(r::RX_FREE, arrival.block, now);
    }

    /// Begins the next transfer, if none is under way.
    fn go_on(&mut self, io: &mut Io<'_>, now: Time) {
        while !self.moving
            && let Some(job) = self.jobs.front().copied()
        {
            io.board.write(r::BLOCK, job.block, now);
            let (offset, command) = match &job.work {
                Work::Receive { .. } => (DATA_AT, r::TO_HOST),
                Work::Send { header, split, covers, .. } => {
                    io.board.put(job.block, 0, &header[..*covers]);
                    io.board.write(r::SUM, 0, now);
                    io.board.put(job.block, *covers, &header[*covers..*split]);
                    (*split, r::TO_BOARD)
                }
            };
            if let Work::Send { data: Some(from), split, .. } = job.work {
                let data = io.memory.fetch(from, job.octets);
                let put = data.is_ok_and(|data| io.board.put(job.block, split, &data));
                self.finish(io, !put, now);
                continue;
            }
            let Some(x) = job.x else {
                let moved = self.read_programmed(io, &job);
                self.finish(io, moved.is_err(), now);
                continue;
            };
            io.board.write(r::OFFSET, offset as u32, now);
            io.board.write(r::ADDRESS, x.bus, now);
            io.board.write(command, job.octets as u32, now);
            self.moving = true;
        }
    }

    fn read_programmed(&mut self, io: &mut Io<'_>, job: &Job) -> Result<(), Fault> {
        let Work::Receive { to, .. } = job.work else { return Ok(()) };
        let mut data = vec![0; job.octets];
        io.board.get(job.block, DATA_AT, &mut data);
        io.memory.deposit(to, &data)
    }

    /// The first job's octets have crossed.
    fn finish(&mut self, io: &mut Io<'_>, mut failed: bool, now: Time) {
        self.moving = false;
        let Some(mut job) = self.jobs.pop_front() else { return };
        if let Some(x) = job.x {
            io.memory.detach(x);
        }
        match job.work {
            Work::Receive { .. } if failed => io.board.write(r::RX_FREE, job.block, now),
            Work::Send { .. } if failed => io.board.write(r::RX_FREE, job.block, now),
            Work::Send { split, field, vci, .. } => {
                if job.buffer.is_none() {
                    job.sum = io.board.read(r::SUM) as u16;
                    if let Some(at) = field {
                        io.board.write(r::BLOCK, job.block, now);
                        io.board.write(r::INSERT, at as u32, now);
                    }
                }
                io.board.write(r::VCI, vci.into(), now);
                io.board.write(r::OCTETS, (split + job.octets) as u32, now);
                io.board.write(r::TX_READY, job.block, now);
            }
            Work::Receive { to, path, sum } => {
                let delivered = self.deliver(io.memory, &job, to, path, sum);
                failed |= delivered.is_err();
                job.sum = delivered.unwrap_or(0);
                io.board.write(r::RX_FREE, job.block, now);
            }
        }
        if let Some(buffer) = job.buffer {
            self.used[buffer] = false;
        }
        self.done.push_back(Done { ticket: job.ticket, sum: job.sum, failed });
    }

    /// From the kernel's buffer to the process, if there is one between.
    fn deliver(
        &mut self,
        memory: &mut Memory,
        job: &Job,
        to: Place,
        path: ReceivePath,
        sum: u16,
    ) -> Result<u16, Fault> {
        let Some(buffer) = job.buffer else { return Ok(sum) };
        let from = self.buffer(buffer);
        match path {
            ReceivePath::Baseline => {
                let sum = memory.sum(from, job.octets, true)?;
                memory.copy(from, to, job.octets)?;
                Ok(sum)
            }
            ReceivePath::CopyAndSum => memory.copy_and_sum(from, to, job.octets),
            ReceivePath::Mapped if to.begins_page() => {
                // Beyond the PDU's end a page has octets that are not this process's.
                let whole = job.octets / PAGE * PAGE;
                memory.exchange(from, to, whole)?;
                self.statistics.mapped += (whole / PAGE) as u64;
                memory.copy(from.after(whole as u32), to.after(whole as u32), job.octets - whole)?;
                Ok(sum)
            }
            ReceivePath::Mapped | ReceivePath::Direct | ReceivePath::Programmed => {
                self.statistics.unaligned += job.octets as u64;
                memory.copy(from, to, job.octets)?;
                Ok(sum)
            }
        }
    }

    /// Looks at the board: ends what is over, begins what waits, takes up to `most` PDUs that have come. Gives how many events it found.
    pub fn look(&mut self, io: &mut Io<'_>, most: usize, now: Time) -> usize {
        self.statistics.looks += 1;
        let status = io.board.read(r::STATUS);
        let mut found = usize::from(status & SENT != 0);
        if self.moving && status & MOVING == 0 {
            found += 1;
            self.finish(io, status & FAILED != 0, now);
        }
        self.go_on(io, now);
        let room = WAITING.saturating_sub(self.arrived.len());
        for _ in 0..most.min(room) {
            let block = io.board.read(r::RX_READY);
            if block == NONE {
                break;
            }
            let [vci, octets, split, sum] = [r::RX_VCI, r::RX_OCTETS, r::RX_SPLIT, r::RX_SUM].map(|n| io.board.read(n));
            let split = (split as usize).min(HEADER_OCTETS);
            let mut header = [0; HEADER_OCTETS];
            io.board.get(block, DATA_AT - split, &mut header[..split]);
            let octets = (octets as usize).saturating_sub(split);
            self.arrived.push_back(Arrival { vci: vci as u16, octets, sum: sum as u16, split, header, block });
            self.statistics.arrived += 1;
            found += 1;
        }
        self.statistics.useful += u64::from(found > 0);
        found
    }

    /// The next PDU that has come.
    pub fn poll_arrival(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// The next read or write that is over.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }
}
