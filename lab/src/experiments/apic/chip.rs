//! One chip and its host's memory in virtual time.

use apic::grant::{Area, DONE, Descriptor, Owner};
use apic::notify::Interrupt;
use apic::{Aal, Apic, COMPLETED, Channel, Config, Connection, Direction, INTERVAL_PARTS, PRODUCED, Port, Ring};
use bus::HostMemory;
use bus::memory::Flat;
use wire::{Cell, CellHeader, CircuitId, DropReason, PayloadType, Time};

const OWNER: Owner = Owner(1);
/// Rings of 16 descriptors, one behind the other, and the one area.
const RINGS: u64 = 0x1000;
const AREA: u64 = 0x10000;
const AREA_OCTETS: u32 = 0x80000;

struct Station {
    chip: Apic,
    memory: Flat,
    produced: [u32; 8],
    now: Time,
}

impl Station {
    fn new(config: Config) -> Self {
        let mut chip = Apic::new(config);
        chip.set_area(0, Some(Area { owner: OWNER, address: AREA, octets: AREA_OCTETS, writable: true }));
        Station { chip, memory: Flat::new(0, AREA as usize + AREA_OCTETS as usize), produced: [0; 8], now: Time::ZERO }
    }

    fn ring(channel: u16) -> Ring {
        Ring { address: RINGS + 0x100 * u64::from(channel), entries: 16 }
    }

    fn open(&mut self, channel: u16, direction: Direction) -> Option<()> {
        let (aal, interrupt) = (Aal::Aal5, Interrupt::Never);
        let settings = Channel { owner: OWNER, aal, direction, ring: Self::ring(channel), interrupt };
        self.chip.open(channel, settings).ok()
    }

    /// As many descriptors as the ring takes, up to a number ever.
    fn fill(&mut self, channel: u16, most: u32, offset: u32, length: u32) -> Option<()> {
        let n = usize::from(channel);
        while self.produced[n] < most && self.produced[n].wrapping_sub(self.chip.read_page(channel, COMPLETED)) < 16 {
            let at = Self::ring(channel).address + u64::from(self.produced[n] % 16) * 16;
            let descriptor = Descriptor { offset, length, ..Descriptor::default() };
            self.memory.write(at, &descriptor.to_octets()).ok()?;
            self.produced[n] += 1;
            self.chip.write_page(channel, PRODUCED, self.produced[n], self.now);
        }
        Some(())
    }

    /// The next slot, if there is one before `until`.
    fn step(&mut self, until: Time) -> bool {
        let Some(next) = self.chip.poll_timeout().filter(|next| *next <= until) else { return false };
        self.now = next.max(self.now);
        self.chip.handle_timeout(self.now, &mut self.memory)
    }

    fn slots(&self, nanos: u128) -> f64 {
        nanos as f64 / self.chip.slot_nanos()
    }
}

fn vc(vci: u16) -> Option<CircuitId> {
    CircuitId::new(0, vci)
}

/// A chip under full load.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Full {
    /// What both links carried, in Gbit/s of 53 octets a cell.
    pub(super) transit_gbit_s: f64,
    /// What its memory got.
    pub(super) memory_mbit_s: f64,
    /// Cells of the transit that were dropped.
    pub(super) lost_in_transit: u64,
    /// PDUs for memory that were dropped whole.
    pub(super) discarded: u64,
}

/// Both links full in both directions; what comes from one of them is copied to memory, or not.
pub(super) fn full_load(config: Config, copied: bool) -> Option<Full> {
    const CELLS: usize = 32;
    let mut station = Station::new(config);
    station.open(0, Direction::Receive { low_latency: false })?;
    let there = Connection::to(Port::Right, vc(40)?);
    let there = if copied { there.and_channel(0) } else { there };
    station.chip.connect(Port::Left, vc(40)?, there).ok()?;
    station.chip.connect(Port::Right, vc(40)?, Connection::to(Port::Left, vc(40)?)).ok()?;
    let mut cells = vec![Cell::new(CellHeader::default(), [0; 48]); CELLS];
    let sdu = vec![0x5a; CELLS * 48 - 8];
    sar::Segmentation::new(vc(40)?, sdu.len(), sar::SduMeta::default()).ok()?.fill(&sdu, &mut cells);
    let mut sent = 0;
    while station.now < Time::from_millis(4) {
        station.fill(0, u32::MAX, 0, 2048)?;
        for port in [Port::Left, Port::Right] {
            station.chip.handle_cell(port, &cells[sent % CELLS], station.now);
        }
        sent += 1;
        station.step(Time::from_millis(1000));
        for port in [Port::Left, Port::Right] {
            while station.chip.poll_cell(port).is_some() {}
        }
    }
    let seconds = station.now.as_secs_f64();
    let links = [Port::Left, Port::Right].map(|port| *station.chip.sent(port));
    let channel = station.chip.channel(0)?;
    Some(Full {
        transit_gbit_s: links.iter().map(|link| link.cells).sum::<u64>() as f64 * 424.0 / seconds / 1e9,
        memory_mbit_s: channel.octets as f64 * 8.0 / seconds / 1e6,
        lost_in_transit: links.iter().map(wire::Counters::dropped_total).sum(),
        discarded: channel.dropped(DropReason::EarlyDiscard),
    })
}

/// Messages that a chip sends to itself: how many came, and how many are other than they were.
pub(super) fn loopback(config: Config) -> Option<(u32, u32)> {
    const OUT: u32 = 0x40000;
    let mut station = Station::new(config);
    station.open(0, Direction::Transmit { connection: Connection::to_channel(1), interval: 0 })?;
    station.open(1, Direction::Receive { low_latency: false })?;
    let (mut came, mut other) = (0, 0);
    for n in 1..=300 {
        let octets = n * 30;
        let data: Vec<u8> = (0..octets).map(|i| (i * 7 + n) as u8).collect();
        station.memory.write(AREA + u64::from(OUT), &data).ok()?;
        station.fill(1, n, 0, 9216)?;
        station.fill(0, n, OUT, octets)?;
        while station.step(Time::from_millis(10_000)) {}
        came += u32::from(station.chip.read_page(1, COMPLETED) == n);
        let place = Station::ring(1).address + u64::from((n - 1) % 16) * 16 + 12;
        let status = station.memory.slice(place, 4)?.try_into().map(u32::from_le_bytes).ok()?;
        let same = station.memory.slice(AREA, data.len())? == data;
        other += u32::from(status != DONE | octets || !same);
    }
    Some((came, other))
}

/// Four channels to four circuits of one link, of which the first has an interval for 100 Mbit/s: Mbit/s of cells that
/// each has got, with a memory that is no bottleneck.
pub(super) fn reserved(config: Config) -> Option<[f64; 4]> {
    let mut station = Station::new(Config { memory_bits_per_s: 4e9, ..config });
    let interval = (config.link_bits_per_s / 100e6 * f64::from(INTERVAL_PARTS)).round() as u32;
    for channel in 0..4 {
        let connection = Connection::to(Port::Right, vc(100 + channel)?);
        station.open(channel, Direction::Transmit { connection, interval: if channel == 0 { interval } else { 0 } })?;
    }
    let mut cells = [0u64; 4];
    let end = Time::from_millis(5);
    loop {
        for channel in 0..4 {
            station.fill(channel, u32::MAX, 0, 4096)?;
        }
        if !station.step(end) {
            break;
        }
        while let Some(cell) = station.chip.poll_cell(Port::Right) {
            cells[usize::from(cell.circuit().vci.get() - 100)] += 1;
        }
    }
    Some(cells.map(|n| n as f64 * 424.0 / station.now.as_secs_f64() / 1e6))
}

/// Messages of 8192 octets out of memory, as fast as it goes: Mbit/s.
pub(super) fn sends(config: Config) -> Option<f64> {
    let mut station = Station::new(config);
    let connection = Connection::to(Port::Right, vc(100)?);
    station.open(0, Direction::Transmit { connection, interval: 0 })?;
    loop {
        station.fill(0, u32::MAX, 0, 8192)?;
        if !station.step(Time::from_millis(5)) {
            break;
        }
        while station.chip.poll_cell(Port::Right).is_some() {}
    }
    Some(station.chip.channel(0)?.octets as f64 * 8.0 / station.now.as_secs_f64() / 1e6)
}

/// What a connection cache made of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cached {
    pub(super) misses: u64,
    pub(super) lost: u64,
}

/// Cells of so many connections in turns, 6400 in all, one in each slot.
pub(super) fn cached(config: Config, connections: u16) -> Option<Cached> {
    let mut station = Station::new(config);
    for n in 0..connections {
        station.chip.connect(Port::Left, vc(100 + n)?, Connection::to(Port::Right, vc(100 + n)?)).ok()?;
    }
    let slot = station.chip.slot_nanos();
    // The connections come one by one at first, so that each one's first miss is over before the next.
    let first = |n: u64| Time::from_nanos(n * 10_000);
    for number in 0..6400u64 {
        let steady = number.saturating_sub(u64::from(connections));
        let at =
            first(number.min(connections.into())) + core::time::Duration::from_nanos((steady as f64 * slot) as u64);
        while station.step(at) {
            while station.chip.poll_cell(Port::Right).is_some() {}
        }
        station.now = at;
        let circuit = vc(100 + (number % u64::from(connections)) as u16)?;
        let cell = Cell::new(CellHeader { circuit, ..CellHeader::default() }, [0; 48]);
        station.chip.handle_cell(Port::Left, &cell, at);
    }
    while station.step(Time::from_millis(10_000)) {
        while station.chip.poll_cell(Port::Right).is_some() {}
    }
    Some(Cached { misses: station.chip.monitor().misses, lost: 6400 - station.chip.sent(Port::Right).cells })
}

/// Slots that a cell takes through an idle chip, and slots between the cells of a batch that the chip sends itself.
pub(super) fn ways(config: Config) -> Option<[f64; 2]> {
    let mut station = Station::new(config);
    station.chip.connect(Port::Left, vc(40)?, Connection::to(Port::Right, vc(41)?).low_latency()).ok()?;
    let begin = Time::from_micros(10);
    station.now = begin;
    let payload_type = PayloadType::User { congestion: false, end: false };
    let cell = Cell::new(CellHeader { circuit: vc(40)?, payload_type, clp: false }, [0; 48]);
    station.chip.handle_cell(Port::Left, &cell, begin);
    while station.chip.poll_cell(Port::Right).is_none() {
        if !station.step(Time::from_millis(1)) {
            return None;
        }
    }
    let transit = station.slots(station.now.since(begin).as_nanos());
    let connection = Connection::to(Port::Right, vc(50)?);
    station.open(0, Direction::Transmit { connection, interval: 0 })?;
    // One batch: its cells are in the Transmit FIFO at once.
    station.fill(0, 1, 0, config.batch as u32 * 48 - 8)?;
    let mut left = Vec::new();
    while station.step(Time::from_millis(10)) {
        while station.chip.poll_cell(Port::Right).is_some() {
            left.push(station.now);
        }
    }
    let (first, last) = (left.first()?, left.last()?);
    Some([transit, station.slots(last.since(*first).as_nanos()) / (left.len() - 1).max(1) as f64])
}
