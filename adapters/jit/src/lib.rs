//! A just-in-time DMA adapter (Almesberger 1995, section 2.2): it keeps next to
//! nothing, but fetches each cell's data from the host's memory when the cell leaves, and writes each cell's data there as
//! it comes.
//!
//! In: transmit descriptors, one queue per shaper; free buffers, in lists by kind; cells; the time. Out: cells, filled
//! buffers, one interrupt after a PDU's last cell, one when a free list falls below its threshold. Which list a circuit's
//! PDUs come to is set per circuit: a first, small buffer and then larger ones (the Fore AALI's way), or one list of
//! constant size (the NEC uPD98401's). The commands are calls, as no such chip's registers are of interest here; sizes and
//! alignments are fixed before data arrive. A bus that comes late is an overrun after a few cells when receiving, and an underrun
//! when sending: the line goes on with empty cells.
//!
//! [`driver`] is a driver of our own, which maps pages. [`plain`] is the opposite extreme for contrast: an adapter that leaves
//! everything to the host's processor.
#![forbid(unsafe_code)]

pub mod driver;
pub mod plain;

use bus::memory::HostMemory;
use core::time::Duration;
use std::collections::VecDeque;
use traffic::Pacer;
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
use wire::{Cell, CellHeader, CellRate, CircuitId, Counters, DropReason, PayloadType, Time};

/// Capacities and the delay of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Descriptors that a transmit queue holds.
    pub queue: usize,
    /// Transmit queues: one per shaper.
    pub queues: usize,
    /// Buffers that a free list holds.
    pub list: usize,
    /// Free lists.
    pub lists: usize,
    /// Circuits that can be open.
    pub circuits: usize,
    /// Cells that the adapter itself holds while it waits for the bus, each way (Almesberger, 1995).
    pub cells: usize,
    /// From a request for the bus to the transfer of a cell that has come.
    pub bus_delay: Duration,
    /// From a request for the bus to the data of the next cell to send. It is made when the cell before has left.
    pub fetch_delay: Duration,
    /// What a cell takes of the adapter's own processor, in either direction; zero, if hardware does all (Almesberger, 1995).
    pub processor: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            queue: 64,
            queues: 8,
            list: 256,
            lists: 8,
            circuits: 1024,
            cells: 8,
            bus_delay: Duration::from_micros(1),
            fetch_delay: Duration::from_micros(1),
            processor: Duration::ZERO,
        }
    }
}

/// A PDU to send: AAL5 from the host's memory, where it stays until it has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The circuit.
    pub circuit: CircuitId,
    /// Where the SDU lies.
    pub address: u64,
    /// 1 to 65535 octets.
    pub octets: u32,
    /// The host's own number for it.
    pub cookie: u64,
}

/// A free buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Where it is.
    pub address: u64,
    /// How long it is.
    pub octets: u32,
}

/// Where a circuit's PDUs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists {
    /// The list of each PDU's first buffer.
    pub first: usize,
    /// The list of all others; the same for buffers of one size.
    pub rest: usize,
}

/// What the host learns, in the order in which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A PDU's last cell has left; its memory is the host's again.
    Sent {
        /// The descriptor's number.
        cookie: u64,
        /// The memory was there all the time.
        whole: bool,
    },
    /// A PDU is in the host's memory.
    Received {
        /// The circuit.
        circuit: CircuitId,
        /// Its buffers, each with the octets of the PDU in it; padding and trailer are in them as well.
        buffers: Vec<(Buffer, u32)>,
        /// Octets of the SDU.
        octets: u32,
    },
    /// Buffers of a PDU that was lost come back.
    Returned {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// Why it was lost.
        reason: DropReason,
    },
    /// A free list has fallen below its threshold (Almesberger, 1995).
    Low {
        /// Which.
        list: usize,
    },
}

/// Bus addresses and octets.
type Pieces = Vec<(u64, u32)>;

#[derive(Debug)]
struct Sending {
    descriptor: Descriptor,
    /// Where the SDU lies, if not in a row.
    pieces: Option<Pieces>,
    done: u32,
    crc: Crc32,
    whole: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Descriptor, Option<Pieces>)>,
    sending: Option<Sending>,
    pacer: Option<Pacer>,
}

#[derive(Debug, Default)]
struct FreeList {
    /// Each with whether the next one is of the same batch.
    buffers: VecDeque<(Buffer, bool)>,
    threshold: usize,
    told: bool,
}

#[derive(Debug)]
struct Circuit {
    id: CircuitId,
    lists: Lists,
    buffers: Vec<(Buffer, u32)>,
    /// How many of them hold something; what follows is left of the batch.
    used: usize,
    octets: u32,
    crc: Crc32,
    tail: [u8; 8],
    lost: Option<DropReason>,
}

/// The adapter.
#[derive(Debug)]
pub struct Jit {
    config: Config,
    queues: Vec<Queue>,
    free: Vec<FreeList>,
    circuits: Vec<Circuit>,
    /// Cells that wait for the bus on their way in, with the time of their data's transfer.
    arrived: VecDeque<(Time, Cell)>,
    line: Pacer,
    /// When the data of the next cell to send have come.
    fetched: Time,
    /// Until when the adapter's own processor is busy.
    busy: Time,
    underruns: u64,
    turn: usize,
    events: VecDeque<Event>,
    counters: [Counters; 2],
}

impl Jit {
    /// An adapter on a line of OC-3c, with nothing set up.
    pub fn new(config: Config) -> Self {
        Jit {
            config,
            queues: (0..config.queues).map(|_| Queue::default()).collect(),
            free: (0..config.lists).map(|_| FreeList::default()).collect(),
            circuits: Vec::new(),
            arrived: VecDeque::with_capacity(config.cells),
            line: Pacer::new(CellRate::OC3C, Duration::ZERO),
            fetched: Time::ZERO,
            busy: Time::ZERO,
            underruns: 0,
            turn: 0,
            events: VecDeque::new(),
            counters: [Counters::default(); 2],
        }
    }

    /// Sets a queue's rate; `None` is the line's.
    pub fn shape(&mut self, queue: usize, rate: Option<CellRate>) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.pacer = rate.map(|rate| Pacer::new(rate, Duration::ZERO));
        }
    }

    /// Puts a PDU into a transmit queue; false if that is full, is none, or the PDU has a length that is none.
    pub fn send(&mut self, queue: usize, descriptor: Descriptor) -> bool {
        self.enqueue(queue, descriptor, None)
    }

    /// The same for an SDU in pieces, each its bus address and octets; the descriptor's address does not count. False also if they are
    /// not as long together as the descriptor says.
    pub fn send_gather(&mut self, queue: usize, descriptor: Descriptor, pieces: Vec<(u64, u32)>) -> bool {
        self.enqueue(queue, descriptor, Some(pieces))
    }

    fn enqueue(&mut self, queue: usize, descriptor: Descriptor, pieces: Option<Pieces>) -> bool {
        let whole = |pieces: &Pieces| {
            pieces.iter().map(|(_, octets)| u64::from(*octets)).sum::<u64>() == u64::from(descriptor.octets)
        };
        let fits = (1..=65_535).contains(&descriptor.octets) && pieces.as_ref().is_none_or(whole);
        let Some(queue) = self.queues.get_mut(queue).filter(|q| fits && q.waiting.len() < self.config.queue) else {
            self.counters[0].drop_one(DropReason::BadDescriptor);
            return false;
        };
        queue.waiting.push_back((descriptor, pieces));
        true
    }

    /// Opens a circuit for receiving; false if there is no room, it is open, or a list does not exist.
    pub fn open(&mut self, id: CircuitId, lists: Lists) -> bool {
        let exist = lists.first < self.free.len() && lists.rest < self.free.len();
        let free = self.circuits.len() < self.config.circuits && self.circuits.iter().all(|c| c.id != id);
        if exist && free {
            let (crc, tail) = (Crc32::new(), [0; 8]);
            self.circuits.push(Circuit { id, lists, buffers: Vec::new(), used: 0, octets: 0, crc, tail, lost: None });
        }
        exist && free
    }

    /// Lets a circuit's PDUs come to other lists, from the next buffer on (Almesberger, 1995); false if it is not open, or a list does not
    /// exist.
    pub fn set_lists(&mut self, id: CircuitId, lists: Lists) -> bool {
        let exist = lists.first < self.free.len() && lists.rest < self.free.len();
        let circuit = self.circuits.iter_mut().find(|c| exist && c.id == id);
        circuit.map(|circuit| circuit.lists = lists).is_some()
    }

    /// Sets when a free list is low.
    pub fn set_threshold(&mut self, list: usize, buffers: usize) {
        if let Some(list) = self.free.get_mut(list) {
            list.threshold = buffers;
        }
    }

    /// Puts a free buffer into a list; false if that is full or is none, or the buffer is shorter than a cell's payload.
    pub fn replenish(&mut self, list: usize, buffer: Buffer) -> bool {
        self.replenish_batch(list, &[buffer])
    }

    /// Puts a batch of free buffers into a list (Almesberger, 1995): a PDU takes a batch, and another one where it is longer. What it leaves of a
    /// batch comes back with it, empty. False if the list has not the room or is none, or a buffer is shorter than a cell's
    /// payload; then none is taken.
    pub fn replenish_batch(&mut self, list: usize, batch: &[Buffer]) -> bool {
        let fits = !batch.is_empty() && batch.iter().all(|buffer| buffer.octets as usize >= PAYLOAD_OCTETS);
        let most = self.config.list;
        let Some(list) = self.free.get_mut(list).filter(|list| fits && list.buffers.len() + batch.len() <= most) else {
            return false;
        };
        list.buffers.extend(batch.iter().enumerate().map(|(n, buffer)| (*buffer, n + 1 < batch.len())));
        list.told &= list.buffers.len() < list.threshold;
        true
    }

    /// What has happened: the interrupt is asserted while there is something.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the interrupt is asserted.
    pub fn interrupt(&self) -> bool {
        !self.events.is_empty()
    }

    /// Cells that leave at `now`, to the front of `out`; gives how many. Each cell's data come from memory now: whoever
    /// changes them before has changed the PDU.
    pub fn fill(&mut self, out: &mut [Cell], memory: &mut impl HostMemory, now: Time) -> usize {
        let mut filled = 0;
        while filled < out.len() && self.line.allowed(now, 1) > 0 && self.fetched.max(self.busy) <= now {
            let queues = self.queues.len();
            let ready = (0..queues).map(|n| (self.turn + n) % queues).find(|n| {
                let queue = &self.queues[*n];
                let due = queue.pacer.is_none_or(|pacer| pacer.allowed(now, 1) > 0);
                due && (queue.sending.is_some() || !queue.waiting.is_empty())
            });
            let Some(number) = ready else { break };
            self.turn = (number + 1) % queues;
            let queue = &mut self.queues[number];
            if queue.sending.is_none() {
                queue.sending = queue.waiting.pop_front().map(|(descriptor, pieces)| Sending {
                    descriptor,
                    pieces,
                    done: 0,
                    crc: Crc32::new(),
                    whole: true,
                });
            }
            let Some(sending) = &mut queue.sending else { break };
            // The line had room before the data were there, within a PDU that was due.
            let due = queue.pacer.as_ref().map_or(Time::ZERO, Pacer::next_time).max(self.line.next_time());
            self.underruns += u64::from(sending.done > 0 && self.fetched > due);
            let last = cell_of(sending, &mut out[filled], memory);
            filled += 1;
            self.fetched = now + self.config.fetch_delay;
            self.busy = now + self.config.processor;
            self.line.sent(1, now);
            if let Some(pacer) = &mut queue.pacer {
                pacer.sent(1, now);
            }
            self.counters[0].cells = self.counters[0].cells.wrapping_add(1);
            if last && let Some(over) = queue.sending.take() {
                let counters = &mut self.counters[0];
                counters.pdus = counters.pdus.wrapping_add(1);
                counters.octets = counters.octets.wrapping_add(over.descriptor.octets.into());
                if !over.whole {
                    counters.drop_one(DropReason::BadDescriptor);
                }
                self.events.push_back(Event::Sent { cookie: over.descriptor.cookie, whole: over.whole });
            }
        }
        filled
    }

    /// Cells come from the line. Beyond the few that the adapter holds while it waits for the bus, they are lost.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        for cell in cells {
            if self.arrived.len() < self.config.cells {
                // One transfer after the other, each as late as the bus is.
                let free = self.arrived.back().map_or(now, |(at, _)| *at).max(now);
                self.busy = self.busy.max(now) + self.config.processor;
                self.arrived.push_back(((free + self.config.bus_delay).max(self.busy), *cell));
            } else {
                self.counters[1].drop_one(DropReason::QueueFull);
                if let Some(circuit) = self.circuits.iter_mut().find(|c| c.id == cell.circuit()) {
                    circuit.lost.get_or_insert(DropReason::QueueFull);
                }
            }
        }
    }

    /// Moves the cells whose transfer is done to the host's memory.
    pub fn run(&mut self, memory: &mut impl HostMemory, now: Time) {
        while self.arrived.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, cell)) = self.arrived.pop_front() else { return };
            self.receive(&cell, memory);
        }
    }

    fn receive(&mut self, cell: &Cell, memory: &mut impl HostMemory) {
        let Jit { circuits, free, events, counters: [_, counters], .. } = self;
        let PayloadType::User { end, .. } = cell.header().payload_type else {
            return counters.drop_one(DropReason::WrongAal);
        };
        let Some(circuit) = circuits.iter_mut().find(|c| c.id == cell.circuit()) else {
            return counters.drop_one(DropReason::UnknownCircuit);
        };
        counters.cells = counters.cells.wrapping_add(1);
        if circuit.lost.is_none() {
            circuit.lost = circuit.take(&cell.payload, free, events, memory).err();
        }
        if !end {
            return;
        }
        let length = u32::from(u16::from_be_bytes([circuit.tail[2], circuit.tail[3]]));
        let cells = wire::aal5::cells(length as usize) as u32 * PAYLOAD_OCTETS as u32;
        let lost = circuit.lost.take().or(match circuit.crc.is_good() {
            false => Some(DropReason::Crc),
            true if length == 0 => Some(DropReason::Aborted),
            true if cells != circuit.octets => Some(DropReason::Length),
            true => None,
        });
        let buffers = core::mem::take(&mut circuit.buffers);
        (circuit.octets, circuit.crc, circuit.used) = (0, Crc32::new(), 0);
        match lost {
            Some(reason) => {
                counters.drop_one(reason);
                let buffers: Vec<Buffer> = buffers.into_iter().map(|(buffer, _)| buffer).collect();
                // Each event costs the host a buffer or a descriptor: so they are bounded.
                if !buffers.is_empty() {
                    events.push_back(Event::Returned { buffers, reason });
                }
            }
            None => {
                counters.pdus = counters.pdus.wrapping_add(1);
                counters.octets = counters.octets.wrapping_add(length.into());
                events.push_back(Event::Received { circuit: circuit.id, buffers, octets: length });
            }
        }
    }

    /// Buffers that are the adapter's: free, or in a PDU that has begun.
    pub fn buffers(&self) -> usize {
        let free = self.free.iter().map(|list| list.buffers.len()).sum::<usize>();
        free + self.circuits.iter().map(|circuit| circuit.buffers.len()).sum::<usize>()
    }

    /// Buffers in events that the host has not taken.
    pub fn buffers_told(&self) -> usize {
        let of = |event: &Event| match event {
            Event::Received { buffers, .. } => buffers.len(),
            Event::Returned { buffers, .. } => buffers.len(),
            Event::Sent { .. } | Event::Low { .. } => 0,
        };
        self.events.iter().map(of).sum()
    }

    /// When a cell leaves, or one's transfer is done.
    pub fn poll_timeout(&self) -> Option<Time> {
        let ready = self.queues.iter().filter(|queue| queue.sending.is_some() || !queue.waiting.is_empty());
        let due = ready.map(|queue| queue.pacer.as_ref().map_or(Time::ZERO, Pacer::next_time)).min();
        let leaves = due.map(|due| due.max(self.line.next_time()).max(self.fetched).max(self.busy));
        leaves.into_iter().chain(self.arrived.front().map(|(at, _)| *at)).min()
    }

    /// Cells within a PDU that left late because the bus did: the line had an empty cell in their place.
    pub const fn underruns(&self) -> u64 {
        self.underruns
    }

    /// What was sent; PDUs whose memory was not there.
    pub const fn sent(&self) -> &Counters {
        &self.counters[0]
    }

    /// What was received; cells and PDUs that were lost, by reason.
    pub const fn received(&self) -> &Counters {
        &self.counters[1]
    }
}

impl Circuit {
    /// Writes a cell's payload to the PDU's buffers, taking another where the last is full.
    fn take(
        &mut self,
        payload: &[u8; PAYLOAD_OCTETS],
        free: &mut [FreeList],
        events: &mut VecDeque<Event>,
        memory: &mut impl HostMemory,
    ) -> Result<(), DropReason> {
        if self.octets as usize >= wire::aal5::cells(wire::aal5::MAX_SDU_OCTETS) * PAYLOAD_OCTETS {
            return Err(DropReason::Oversize);
        }
        self.crc.update(payload);
        self.tail.copy_from_slice(&payload[PAYLOAD_OCTETS - 8..]);
        let mut rest = &payload[..];
        while !rest.is_empty() {
            let full = |(buffer, used): &(Buffer, u32)| *used == buffer.octets;
            if self.used == 0 || self.buffers.get(self.used - 1).is_none_or(full) {
                if self.used == self.buffers.len() {
                    self.take_batch(free, events)?;
                }
                self.used += 1;
            }
            let Some((buffer, used)) = self.buffers.get_mut(self.used - 1) else { return Err(DropReason::NoBuffer) };
            let (now, later) = rest.split_at(rest.len().min((buffer.octets - *used) as usize));
            let at = buffer.address.saturating_add((*used).into());
            memory.write(at, now).map_err(|_| DropReason::BadDescriptor)?;
            *used += now.len() as u32;
            rest = later;
        }
        self.octets += PAYLOAD_OCTETS as u32;
        Ok(())
    }

    /// Takes a batch for the PDU.
    fn take_batch(&mut self, free: &mut [FreeList], events: &mut VecDeque<Event>) -> Result<(), DropReason> {
        let number = if self.buffers.is_empty() { self.lists.first } else { self.lists.rest };
        let list = &mut free[number];
        let mut more = true;
        while more {
            let (buffer, goes_on) = list.buffers.pop_front().ok_or(DropReason::NoBuffer)?;
            self.buffers.push((buffer, 0));
            more = goes_on;
        }
        if list.buffers.len() < list.threshold && !core::mem::replace(&mut list.told, true) {
            events.push_back(Event::Low { list: number });
        }
        Ok(())
    }
}

/// Reads octets of an SDU in pieces from octet `at` on; false if some are not there.
fn read_pieces(pieces: &[(u64, u32)], mut at: u32, mut into: &mut [u8], memory: &mut impl HostMemory) -> bool {
    for (address, octets) in pieces {
        let Some(left) = octets.checked_sub(at) else {
            at -= octets;
            continue;
        };
        let (now, later) = into.split_at_mut(into.len().min(left as usize));
        if memory.read(address.saturating_add(at.into()), now).is_err() {
            return false;
        }
        (at, into) = (0, later);
    }
    into.is_empty()
}

/// Makes a PDU's next cell; true if it is the last.
fn cell_of(sending: &mut Sending, out: &mut Cell, memory: &mut impl HostMemory) -> bool {
    let Descriptor { circuit, address, octets, .. } = sending.descriptor;
    let cells = wire::aal5::cells(octets as usize) as u32 * PAYLOAD_OCTETS as u32;
    let last = sending.done + PAYLOAD_OCTETS as u32 >= cells;
    let payload_type = PayloadType::User { congestion: false, end: last };
    out.clear(CellHeader { circuit, payload_type, clp: false });
    out.payload = [0; PAYLOAD_OCTETS];
    let n = octets.saturating_sub(sending.done).min(PAYLOAD_OCTETS as u32) as usize;
    let there = match &sending.pieces {
        None => memory.read(address.saturating_add(sending.done.into()), &mut out.payload[..n]).is_ok(),
        Some(pieces) => read_pieces(pieces, sending.done, &mut out.payload[..n], memory),
    };
    sending.whole &= there || n == 0;
    sending.done += PAYLOAD_OCTETS as u32;
    if last {
        out.payload[PAYLOAD_OCTETS - 6..PAYLOAD_OCTETS - 4].copy_from_slice(&(octets as u16).to_be_bytes());
        sending.crc.update(&out.payload[..PAYLOAD_OCTETS - 4]);
        // A PDU whose memory was not there is not to be taken for one.
        let crc = sending.crc.finish() ^ u32::from(!sending.whole);
        out.payload[PAYLOAD_OCTETS - 4..].copy_from_slice(&crc.to_be_bytes());
    } else {
        sending.crc.update(&out.payload);
    }
    last
}
