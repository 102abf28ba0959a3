//! Which PDU each unit of [`super::pair`] is at: what a [`Recorder`] has to know of two hosts and their adapters.
//!
//! The number of a PDU is in its data. Where only its place is known (a buffer that the bus reads, cells in order), the
//! driver's order or the buffer's address gives it. TCP's segments have no numbers of writes: their spans name no PDU.

use super::carrier::Transport;
use super::machine::{Occupation, Resource};
use super::recorder::{Concern, Recorder, Span, Timeline};
use std::collections::{BTreeMap, VecDeque};
use wire::{Cell, PayloadType, Time};

/// Units, from the writing application to the reading one; two hosts have all, one host has the first of each pair.
const UNITS: [(&str, &str); 11] = [
    ("sender: application", "writing application"),
    ("sender: interrupts", "interrupts"),
    ("sender: I/O bus", "I/O bus"),
    ("sender: adapter", "adapter, sending"),
    ("line", "line"),
    ("receiver: adapter", "adapter, receiving"),
    ("receiver: I/O bus", ""),
    ("receiver: interrupts", ""),
    ("receiver: application", "reading application"),
    ("sender: system", "system"),
    ("receiver: system", ""),
];
const ADAPTER: [usize; 2] = [3, 5];
const LINE: usize = 4;

/// What the I/O bus moves: from or to a buffer at this address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moving {
    pub(super) out: bool,
    pub(super) address: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct PairRecord {
    recorder: Recorder,
    loopback: bool,
    /// Octets of a PDU before its number.
    number_at: Option<usize>,
    written: u64,
    /// By the address of the driver's buffer: the PDU that was put there.
    buffers: BTreeMap<u64, u64>,
    /// PDUs that the driver has and whose last cell has not left; and those of which no interrupt has told that they left.
    outgoing: VecDeque<u64>,
    unconfirmed: VecDeque<u64>,
    /// When the first octet of a PDU came to the sender's adapter, and its first cell to the line.
    fetched: BTreeMap<u64, Time>,
    left: BTreeMap<u64, (Time, u64)>,
    /// By host and buffer: transfers to it whose PDU is not known yet.
    landing: BTreeMap<(usize, u64), Vec<[Time; 2]>>,
    /// PDUs of the interrupt at hand, by host.
    interrupt: [(&'static str, Option<[u64; 2]>); 2],
    socket: VecDeque<u64>,
    reading: Option<u64>,
}

fn one(pdu: Option<u64>) -> Option<[u64; 2]> {
    pdu.map(|pdu| [pdu; 2])
}

impl PairRecord {
    pub(super) fn new(transport: Transport, loopback: bool) -> Self {
        let names = UNITS.map(|(two, single)| if loopback { single } else { two }.to_owned());
        let number_at = match transport {
            Transport::Raw => Some(0),
            // LLC/SNAP, IP, UDP.
            Transport::Udp { .. } => Some(8 + 20 + 8),
            Transport::Tcp => None,
        };
        PairRecord {
            recorder: Recorder::new(names),
            loopback,
            number_at,
            written: 0,
            buffers: BTreeMap::new(),
            outgoing: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            fetched: BTreeMap::new(),
            left: BTreeMap::new(),
            landing: BTreeMap::new(),
            interrupt: [("interrupt", None); 2],
            socket: VecDeque::new(),
            reading: None,
        }
    }

    fn unit(loopback: bool, at: usize, resource: Resource) -> usize {
        match (at, resource) {
            (0, Resource::Task(0)) => 0,
            (0, Resource::Task(1)) if loopback => 8,
            (0, Resource::Task(_)) => 9,
            (0, Resource::Interrupts) => 1,
            (0, Resource::Transfer) => 2,
            (_, Resource::Transfer) => 6,
            (_, Resource::Interrupts) => 7,
            (_, Resource::Task(1)) => 8,
            (_, Resource::Task(_)) => 10,
        }
    }

    fn number(&self, pdu: &[u8]) -> Option<u64> {
        let octets = pdu.get(self.number_at?..)?.first_chunk::<4>()?;
        Some(u64::from(u32::from_be_bytes(*octets)))
    }

    fn hold(&mut self, unit: usize, what: &'static str, pdu: u64, [from, to]: [Time; 2], cells: u64) {
        self.recorder.add(Span { unit, what, pdus: Some([pdu; 2]), concern: Concern::Holds, from, to, cells });
    }

    /// Time has passed at a host.
    pub(super) fn advanced(&mut self, at: usize, occupations: Vec<Occupation>) {
        let loopback = self.loopback;
        self.recorder.advanced(occupations, |resource| Self::unit(loopback, at, resource));
    }

    fn finished(&mut self, at: usize, resource: Resource, what: &'static str, pdus: Option<[u64; 2]>) {
        self.recorder.finished(Self::unit(self.loopback, at, resource), what, pdus);
    }

    /// The application's write has returned.
    pub(super) fn wrote(&mut self, at: usize) {
        let pdu = self.number_at.map(|_| self.written);
        self.written += 1;
        self.finished(at, Resource::Task(0), "write", one(pdu));
    }

    /// The driver has a PDU, which is in this buffer.
    pub(super) fn sent(&mut self, at: usize, address: u64, pdu: &[u8]) {
        if let (0, Some(number)) = (at, self.number(pdu)) {
            self.buffers.insert(address, number);
            self.outgoing.push_back(number);
            self.unconfirmed.push_back(number);
        }
    }

    /// The bus has moved something.
    pub(super) fn transferred(&mut self, at: usize, moving: Option<Moving>, now: Time) {
        let Some(Moving { out, address }) = moving else { return };
        let unit = Self::unit(self.loopback, at, Resource::Transfer);
        if !out {
            self.landing.entry((at, address)).or_default().extend(self.recorder.take(unit));
            return;
        }
        let pdu = if at == 0 { self.buffers.get(&address).copied() } else { None };
        let parts = self.recorder.take(unit);
        if let Some(pdu) = pdu {
            let begin = parts.first().map_or(now, |part| part[0]);
            self.fetched.entry(pdu).or_insert(begin);
        }
        parts.into_iter().for_each(|part| self.recorder.work(unit, "DMA, memory to adapter", one(pdu), part));
    }

    /// Cells have left a host.
    pub(super) fn crossed(&mut self, at: usize, cells: &[Cell], now: Time) {
        if at != 0 || self.number_at.is_none() {
            return self.recorder.count_cells(LINE, cells.len() as u64);
        }
        for cell in cells {
            let Some(pdu) = self.outgoing.front().copied() else { continue };
            let (since, count) = self.left.entry(pdu).or_insert((now, 0));
            *count += 1;
            if !matches!(cell.header().payload_type, PayloadType::User { end: true, .. }) {
                continue;
            }
            let (since, count) = (*since, *count);
            self.outgoing.pop_front();
            let fetched = self.fetched.remove(&pdu).unwrap_or(since);
            self.hold(ADAPTER[0], "in the adapter's memory", pdu, [fetched, now], 0);
            self.hold(LINE, "first to last cell", pdu, [since, now], count);
        }
    }

    /// An interrupt has begun: so many PDUs have left, these have come.
    pub(super) fn interrupted<'a>(&mut self, at: usize, sent: usize, came: impl Iterator<Item = (u64, &'a [u8])>) {
        let left: Vec<u64> =
            if at == 0 { self.unconfirmed.drain(..sent.min(self.unconfirmed.len())).collect() } else { Vec::new() };
        let mut arrived = Vec::new();
        for (address, pdu) in came {
            let number = self.number(pdu).filter(|_| at == 1 || self.loopback);
            self.landed(at, address, number);
            arrived.extend(number);
        }
        let range = |all: &[u64]| Some([*all.first()?, *all.last()?]);
        self.interrupt[at] = match (range(&arrived), range(&left)) {
            (Some(came), _) => ("interrupt: PDU has come", Some(came)),
            (None, Some(left)) => ("interrupt: PDU has left", Some(left)),
            _ => ("interrupt", None),
        };
    }

    /// A PDU is in the receiver's memory.
    fn landed(&mut self, at: usize, address: u64, number: Option<u64>) {
        let unit = Self::unit(self.loopback, at, Resource::Transfer);
        let parts = self.landing.remove(&(at, address)).unwrap_or_default();
        if let (Some(pdu), Some(last)) = (number, parts.last().map(|part| part[1])) {
            let since = self.left.remove(&pdu).map_or(last, |(since, _)| since);
            self.hold(ADAPTER[1], "in the adapter's memory", pdu, [since, last], 0);
        }
        parts.into_iter().for_each(|part| self.recorder.work(unit, "DMA, adapter to memory", one(number), part));
    }

    /// The interrupt is over.
    pub(super) fn handled(&mut self, at: usize) {
        let (what, pdus) = core::mem::replace(&mut self.interrupt[at], ("interrupt", None));
        self.finished(at, Resource::Interrupts, what, pdus);
    }

    /// TCP's acknowledgement is made.
    pub(super) fn acknowledged(&mut self, at: usize) {
        self.finished(at, Resource::Interrupts, "acknowledgement", None);
    }

    /// A process of the system has slept again.
    pub(super) fn system(&mut self, at: usize) {
        self.finished(at, Resource::Task(2), "process of the system", None);
    }

    /// A PDU is on the receiver's socket.
    pub(super) fn queued(&mut self, pdu: &[u8]) {
        self.socket.extend(self.number(pdu));
    }

    /// The application has begun to read.
    pub(super) fn reads(&mut self) {
        self.reading = self.socket.pop_front();
    }

    /// The application has read.
    pub(super) fn read(&mut self, at: usize) {
        let pdu = self.reading.take();
        self.finished(at, Resource::Task(1), "read", one(pdu));
    }

    pub(super) fn finish(mut self) -> Timeline {
        for ((at, _), parts) in core::mem::take(&mut self.landing) {
            let unit = Self::unit(self.loopback, at, Resource::Transfer);
            parts.into_iter().for_each(|part| self.recorder.work(unit, "DMA, not finished", None, part));
        }
        self.recorder.finish()
    }
}
