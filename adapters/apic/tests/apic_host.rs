//! A chip and its host's memory: PDUs by granted descriptors, pacing, batches, the notification queue, and processes
//! that forge.

use apic::Switches;
use apic::grant::{Area, BODY_AT, DONE, Descriptor, NO_BODY, Outcome, Owner};
use apic::notify::{self, Interrupt};
use apic::{
    Aal, Apic, COMPLETED, Channel, ChannelError, Config, Connection, Direction, INTERVAL_PARTS, PRODUCED, Port, Ring,
    STOP,
};
use bus::HostMemory;
use bus::memory::Flat;
use proptest::prelude::*;
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, DropReason, Time};

const ME: Owner = Owner(7);
const OTHER: Owner = Owner(8);
const MEMORY: usize = 1 << 20;
/// Rings of 16 descriptors, one behind the other; then areas.
const RINGS: u64 = 0x1000;
const AREAS: u64 = 0x10000;

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// A chip and its memory.
struct Station {
    chip: Apic,
    memory: Flat,
    produced: [u32; 8],
}

impl Station {
    fn new(config: Config) -> Self {
        Station { chip: Apic::new(config), memory: Flat::new(0, MEMORY), produced: [0; 8] }
    }

    fn ring(channel: u16) -> Ring {
        Ring { address: RINGS + 0x100 * u64::from(channel), entries: 16 }
    }

    fn open(&mut self, channel: u16, aal: Aal, direction: Direction) {
        let interrupt = Interrupt::AtOnce;
        let settings = Channel { owner: ME, aal, direction, ring: Self::ring(channel), interrupt };
        self.chip.open(channel, settings).unwrap();
    }

    /// Area `n` is 64 KB at its place.
    fn grant(&mut self, n: u16, owner: Owner, writable: bool) {
        let area = Area { owner, address: AREAS * (u64::from(n) + 1), octets: 0x10000, writable };
        assert!(self.chip.set_area(n, Some(area)));
    }

    fn queue(&mut self, channel: u16, descriptor: Descriptor, now: Time) {
        let n = &mut self.produced[usize::from(channel)];
        let at = Self::ring(channel).address + u64::from(*n % 16) * 16;
        self.memory.write(at, &descriptor.to_octets()).unwrap();
        *n += 1;
        self.chip.write_page(channel, PRODUCED, *n, now);
    }

    fn status(&self, channel: u16, n: u32) -> u32 {
        let at = Self::ring(channel).address + u64::from(n % 16) * 16 + 12;
        u32::from_le_bytes(self.memory.slice(at, 4).unwrap().try_into().unwrap())
    }

    /// Slots until `until`, or until nothing is left to do; cells that left by a link, with their times.
    fn run(&mut self, now: &mut Time, until: Time) -> Vec<(Time, Port, Cell)> {
        let mut left = Vec::new();
        while let Some(next) = self.chip.poll_timeout().filter(|next| *next <= until) {
            *now = next.max(*now);
            self.chip.handle_timeout(*now, &mut self.memory);
            for port in Port::ALL {
                while let Some(cell) = self.chip.poll_cell(port) {
                    left.push((*now, port, cell));
                }
            }
        }
        let sums = self.chip.sums();
        assert!(sums.add_up(), "{sums:?}");
        left
    }
}

fn long() -> Time {
    Time::from_millis(100_000)
}

/// A channel that sends to another of the same chip, by a connection that is a loopback at the memory's port.
fn loopback(config: Config, aal: Aal, interval: u32) -> Station {
    let mut station = Station::new(config);
    station.grant(0, ME, false);
    station.grant(1, ME, true);
    station.open(0, aal, Direction::Transmit { connection: Connection::to_channel(1), interval });
    station.open(1, aal, Direction::Receive { low_latency: false });
    station
}

#[test]
fn pdus_of_all_sizes_get_from_memory_to_memory_octet_for_octet() {
    for batch in [1, 4, 16] {
        let mut station = loopback(Config { batch, ..Config::default() }, Aal::Aal5, 0);
        let mut now = Time::ZERO;
        for (n, size) in [1u32, 39, 40, 41, 48, 88, 89, 1500, 9188, 40_000, 65_535].into_iter().enumerate() {
            let data: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
            station.memory.write(AREAS, &data).unwrap();
            station.memory.write(2 * AREAS, &vec![0xee; 0x10000]).unwrap();
            let room = if size % 2 == 0 { size } else { 0x10000 };
            station.queue(1, Descriptor { area: 1, length: room, ..Descriptor::default() }, now);
            station.queue(0, Descriptor { area: 0, length: size, ..Descriptor::default() }, now);
            assert!(station.run(&mut now, long()).is_empty());
            assert_eq!(station.status(0, n as u32), DONE);
            assert_eq!(station.status(1, n as u32), DONE | size);
            let got = station.memory.slice(2 * AREAS, 0x10000).unwrap();
            assert_eq!(&got[..size as usize], data, "{size} octets, batches of {batch}");
            // A batch is written before the length is known: padding may stand behind the SDU, within the buffer.
            let end = size.next_multiple_of(48).min(room) as usize;
            assert!(got[end..].iter().all(|octet| *octet == 0xee), "nothing beyond the buffer is written");
            assert_eq!(station.chip.read_page(1, COMPLETED), n as u32 + 1);
        }
        assert_eq!(station.chip.channel(1).unwrap().dropped_total(), 0);
    }
}

#[test]
fn cells_as_other_implementations_make_and_read_them() {
    let mut station = Station::new(Config::default());
    station.grant(0, ME, true);
    let connection = Connection::to(Port::Right, vc(99));
    station.open(0, Aal::Aal5, Direction::Transmit { connection, interval: 0 });
    station.open(1, Aal::Aal5, Direction::Receive { low_latency: false });
    station.chip.connect(Port::Left, vc(50), Connection::to_channel(1)).unwrap();
    // Forty octets that count: the CRC that I.363.5's implementers publish for them, UU 11 and CPI 0 apart.
    let sdu: Vec<u8> = (1..=40).collect();
    station.memory.write(AREAS, &sdu).unwrap();
    let mut now = Time::ZERO;
    station.queue(0, Descriptor { length: 40, ..Descriptor::default() }, now);
    let left = station.run(&mut now, long());
    let [(_, Port::Right, cell)] = left[..] else { panic!("{left:?}") };
    assert_eq!(cell.circuit(), vc(99));
    assert_eq!(cell.payload[40..], [0, 0, 0, 40, 0xbf, 0x67, 0x1e, 0xd0]);
    // And back, beside one with a wrong CRC.
    station.queue(1, Descriptor { offset: 0x100, length: 40, ..Descriptor::default() }, now);
    for wrong in [true, false] {
        let mut back = cell;
        back.set_header(CellHeader { circuit: vc(50), ..cell.header() });
        back.payload[7] ^= u8::from(wrong);
        station.chip.handle_cell(Port::Left, &back, now);
        station.run(&mut now, long());
    }
    assert_eq!(station.status(1, 0), DONE | 40);
    assert_eq!(station.memory.slice(AREAS + 0x100, 40).unwrap(), sdu);
    assert_eq!(station.chip.channel(1).unwrap().dropped(DropReason::Crc), 1);
}

#[test]
fn raw_cells_have_a_buffer_each() {
    let mut station = loopback(Config::default(), Aal::Raw, 0);
    let mut now = Time::ZERO;
    let data: Vec<u8> = (0..480).map(|i| (i % 251) as u8).collect();
    station.memory.write(AREAS, &data).unwrap();
    for n in 0..10 {
        station.queue(1, Descriptor { area: 1, offset: 100 * n, length: 48, ..Descriptor::default() }, now);
    }
    station.queue(0, Descriptor { area: 0, length: 480, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    // Four descriptors are on the chip at once; the others are read as those are used.
    let got: u32 = (0..10).filter(|n| station.status(1, *n) == DONE | 48).count() as u32;
    let lost = station.chip.channel(1).unwrap().dropped(DropReason::NoBuffer) as u32;
    assert_eq!(got + lost, 10);
    assert!(got >= 4);
    for n in 0..4usize {
        assert_eq!(station.memory.slice(2 * AREAS + 100 * n as u64, 48).unwrap(), &data[48 * n..48 * n + 48]);
    }
}

#[test]
fn a_paced_channel_keeps_its_interval_to_the_slot_and_without_pacing_it_does_not() {
    let gaps = |pacing: bool, batch: usize| {
        let switches = Switches { pacing, ..Config::default().switches };
        let config = Config { switches, batch, memory_bits_per_s: 4e9, ..Config::default() };
        let mut station = Station::new(config);
        station.grant(0, ME, false);
        let connection = Connection::to(Port::Right, vc(99));
        station.open(0, Aal::Aal5, Direction::Transmit { connection, interval: 10 * INTERVAL_PARTS });
        let mut now = Time::ZERO;
        station.queue(0, Descriptor { length: 48 * 100 - 8, ..Descriptor::default() }, now);
        let left = station.run(&mut now, long());
        assert_eq!(left.len(), 100);
        let slot = station.chip.slot_nanos();
        let gap = |pair: &[(Time, Port, Cell)]| pair[1].0.since(pair[0].0).as_nanos() as f64 / slot;
        let (least, most) = left.windows(2).map(gap).fold((f64::MAX, 0f64), |(l, m), g| (l.min(g), m.max(g)));
        (least, most, left[99].0.since(left[0].0).as_nanos() as f64 / slot / 99.0)
    };
    let (least, most, mean) = gaps(true, 1);
    assert!(least > 8.9 && most < 11.1 && (mean - 10.0).abs() < 0.05, "{least} {most} {mean}");
    // Batches keep the rate, and clump.
    let (least, most, mean) = gaps(true, 4);
    assert!(least < 1.1 && most > 36.0 && (mean - 10.0).abs() < 0.4, "{least} {most} {mean}");
    assert!(gaps(false, 4).2 < 3.0);
}

#[test]
fn links_of_the_chip_carry_all_while_its_memory_is_the_bottleneck() {
    let mut station = Station::new(Config::default());
    station.grant(0, ME, true);
    station.open(0, Aal::Aal5, Direction::Receive { low_latency: false });
    for (from, to) in [(Port::Left, Port::Right), (Port::Right, Port::Left)] {
        // Both directions in transit, and of the first a copy for the memory.
        let connection = Connection::to(to, vc(40));
        let copied = if from == Port::Left { connection.and_channel(0) } else { connection };
        station.chip.connect(from, vc(40), copied).unwrap();
    }
    let header = |end| {
        let payload_type = wire::PayloadType::User { congestion: false, end };
        CellHeader { circuit: vc(40), payload_type, clp: false }
    };
    let (mut now, mut sent) = (Time::ZERO, 0u64);
    // PDUs of 32 cells, all zeros, with a trailer that fits.
    let mut pdu = vec![0u8; 32 * 48];
    pdu[32 * 48 - 6..32 * 48 - 4].copy_from_slice(&1500u16.to_be_bytes());
    let crc = wire::crc::crc32(&pdu[..32 * 48 - 4]);
    pdu[32 * 48 - 4..].copy_from_slice(&crc.to_be_bytes());
    let mut queued = 0;
    while now < Time::from_millis(10) {
        while queued - station.chip.read_page(0, COMPLETED) < 15 {
            station.queue(0, Descriptor { length: 2000, ..Descriptor::default() }, now);
            queued += 1;
        }
        let at = (sent % 32) as usize;
        let cell = Cell::new(header(at == 31), pdu[at * 48..at * 48 + 48].try_into().unwrap());
        for port in [Port::Left, Port::Right] {
            station.chip.handle_cell(port, &cell, now);
        }
        sent += 1;
        now = station.chip.poll_timeout().unwrap().max(now);
        station.chip.handle_timeout(now, &mut station.memory);
        for port in [Port::Left, Port::Right] {
            while station.chip.poll_cell(port).is_some() {}
        }
    }
    let seconds = now.as_secs_f64();
    let links: u64 = [Port::Left, Port::Right].iter().map(|port| station.chip.sent(*port).cells).sum();
    let gbit = links as f64 * 424.0 / seconds / 1e9;
    assert!(gbit > 2.39, "{gbit} Gbit/s in transit");
    let lost: u64 = [Port::Left, Port::Right].iter().map(|port| station.chip.sent(*port).dropped_total()).sum();
    assert_eq!(lost, 0);
    let moved = station.chip.monitor().transfer_octets as f64 * 8.0 / seconds / 1e6;
    assert!((250.0..500.0).contains(&moved), "{moved} Mbit/s to memory");
    let counters = station.chip.channel(0).unwrap();
    assert!(counters.pdus > 250 && counters.dropped(DropReason::EarlyDiscard) > 100, "{counters:?}");
}

#[test]
fn cells_of_one_transfer_share_its_set_up() {
    let time = |batch| {
        let mut station = loopback(Config { batch, ..Config::default() }, Aal::Aal5, 0);
        let mut now = Time::ZERO;
        station.queue(1, Descriptor { area: 1, length: 0x10000, ..Descriptor::default() }, now);
        station.queue(0, Descriptor { length: 60_000, ..Descriptor::default() }, now);
        station.run(&mut now, long());
        assert_eq!(station.status(1, 0), DONE | 60_000);
        (now.as_nanos() as f64, station.chip.monitor().transfers)
    };
    let ((one, many), (eight, few)) = (time(1), time(8));
    // 1251 cells twice: 200 ns for each, or for eight.
    assert!(many > 2500 && few < 330, "{many} and {few} transfers");
    assert!(one - eight > 350_000.0, "{one} and {eight} ns");
}

#[test]
fn a_revoked_area_is_out_of_reach_at_once_and_the_next_pdu_is_whole() {
    let mut station = loopback(Config::default(), Aal::Aal5, 0);
    let mut now = Time::ZERO;
    for _ in 0..2 {
        station.queue(1, Descriptor { area: 1, length: 0x10000, ..Descriptor::default() }, now);
    }
    station.queue(0, Descriptor { length: 40_000, ..Descriptor::default() }, now);
    station.run(&mut now, Time::from_micros(100));
    assert!(station.chip.set_area(0, None));
    let reads = station.chip.channel(0).unwrap().cells;
    station.run(&mut now, long());
    assert_eq!(station.status(0, 0), Outcome::Revoked.status(0));
    assert!(station.chip.channel(0).unwrap().cells <= reads + 40, "what was in the FIFO, and the end");
    assert_eq!(station.chip.channel(1).unwrap().dropped(DropReason::Aborted), 1);
    assert_eq!(station.chip.read_page(0, STOP), 1);
    // The service grants it again, the owner resumes.
    station.grant(0, ME, false);
    station.chip.write_page(0, STOP, 1, now);
    station.queue(0, Descriptor { length: 300, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    assert_eq!((station.status(0, 1), station.status(1, 0)), (DONE, DONE | 300));
}

#[test]
fn a_channel_has_one_notification_and_an_interrupt_serves_many() {
    let mut station = loopback(Config::default(), Aal::Aal5, 0);
    station.chip.close(1);
    let interrupt = Interrupt::Within(Duration::from_micros(500));
    let direction = Direction::Receive { low_latency: false };
    let settings = Channel { owner: ME, aal: Aal::Aal5, direction, ring: Station::ring(1), interrupt };
    station.chip.open(1, settings).unwrap();
    let mut now = Time::ZERO;
    for _ in 0..10 {
        station.queue(1, Descriptor { area: 1, length: 1000, ..Descriptor::default() }, now);
        station.queue(0, Descriptor { length: 100, ..Descriptor::default() }, now);
    }
    station.run(&mut now, long());
    assert!(station.chip.interrupt(now));
    assert_eq!(station.chip.read_page(1, COMPLETED), 10);
    let mut read = [station.chip.read_notification().unwrap(), station.chip.read_notification().unwrap()];
    read.sort_unstable();
    assert_eq!(read, [(0, notify::DONE), (1, notify::DONE)]);
    assert_eq!((station.chip.read_notification(), station.chip.monitor().interrupts), (None, 1));
}

/// Octets of a page of the pool.
const PAGE: u32 = 4096;
/// Octets of a head.
const HEAD: u32 = 40;

/// Two channels that split what they get into heads of their own and pages of one pool, each fed by one that sends:
/// 0 to 1, 4 to 5; the pool is 2. Heads are in area 1, pages in area 2.
fn splitting(batch: usize) -> Station {
    let mut station = Station::new(Config { batch, ..Config::default() });
    for n in 0..3 {
        station.grant(n, ME, n > 0);
    }
    station.open(2, Aal::Aal5, Direction::Pool { low_latency: false });
    for channel in [1, 5] {
        station.open(channel, Aal::Aal5, Direction::Split { low_latency: false, head: HEAD, pool: 2 });
        let connection = Connection::to_channel(channel);
        station.open(channel - 1, Aal::Aal5, Direction::Transmit { connection, interval: 0 });
    }
    station
}

impl Station {
    fn body(&self, channel: u16, n: u32) -> u32 {
        let at = Self::ring(channel).address + u64::from(n % 16) * 16 + BODY_AT;
        u32::from_le_bytes(self.memory.slice(at, 4).unwrap().try_into().unwrap())
    }

    fn page(&mut self, n: u32, now: Time) {
        self.queue(2, Descriptor { area: 2, offset: n * PAGE, length: PAGE, uu: 0 }, now);
    }
}

#[test]
fn a_packet_is_split_into_a_head_and_a_page_of_a_pool_that_channels_share() {
    for batch in [1, 3, 16] {
        let mut station = splitting(batch);
        let (mut now, mut pages) = (Time::ZERO, 0);
        let sizes = [1u32, HEAD, HEAD + 1, 48, 89, 800, 1500, PAGE + HEAD];
        for n in 0..4 {
            station.page(n, now);
        }
        for (n, size) in sizes.into_iter().flat_map(|size| [size, size]).enumerate() {
            let (from, n) = ([0, 4][n % 2], n as u32);
            let data: Vec<u8> = (0..size).map(|i| (i * 7 + size + n) as u8).collect();
            station.memory.write(AREAS, &data).unwrap();
            station.memory.write(2 * AREAS, &vec![0xee; 0x10000]).unwrap();
            station.memory.write(3 * AREAS, &vec![0xee; 0x10000]).unwrap();
            station.queue(from + 1, Descriptor { area: 1, offset: 256 * n, length: 128, uu: 0 }, now);
            station.queue(from, Descriptor { length: size, ..Descriptor::default() }, now);
            station.run(&mut now, long());
            assert_eq!(station.status(from + 1, n / 2), DONE | size, "{size} octets, batches of {batch}");
            let (head, rest) = data.split_at(size.min(HEAD) as usize);
            let (at, own) = (2 * AREAS + 256 * u64::from(n), HEAD as usize);
            assert_eq!(&station.memory.slice(at, own).unwrap()[..head.len()], head);
            assert!(station.memory.slice(at + u64::from(HEAD), 256 - own).unwrap().iter().all(|octet| *octet == 0xee));
            if rest.is_empty() {
                assert_eq!(station.body(from + 1, n / 2), NO_BODY);
                continue;
            }
            // Pages in the order in which they were queued, whichever channel takes them; data begin with the page.
            assert_eq!(station.body(from + 1, n / 2), pages);
            let page = station.memory.slice(3 * AREAS + u64::from(pages % 16 * PAGE), PAGE as usize).unwrap();
            assert_eq!(&page[..rest.len()], rest, "{size} octets, batches of {batch}");
            assert!(page[rest.len().next_multiple_of(48).min(PAGE as usize)..].iter().all(|octet| *octet == 0xee));
            pages += 1;
            station.page((pages + 3) % 16, now);
        }
        for channel in [1, 5] {
            assert_eq!(station.chip.channel(channel).unwrap().dropped_total(), 0);
        }
        station.run(&mut now, long());
        // Four are on the chip at once: all that were queued.
        assert_eq!(station.chip.read_page(2, COMPLETED), pages + 4);
    }
}

#[test]
fn a_page_of_a_packet_that_fails_is_the_next_ones_and_without_a_page_packets_are_counted() {
    let mut station = splitting(4);
    station.chip.connect(Port::Left, vc(50), Connection::to_channel(1)).unwrap();
    let mut now = Time::ZERO;
    for _ in 0..4 {
        station.queue(1, Descriptor { area: 1, length: 128, ..Descriptor::default() }, now);
    }
    let data: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
    station.memory.write(AREAS, &data).unwrap();
    // Nothing is in the pool.
    station.queue(0, Descriptor { length: 1000, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    assert_eq!(station.chip.channel(1).unwrap().dropped(DropReason::NoBuffer), 1);
    station.page(0, now);
    // A PDU of other cells, whose check fails at its end.
    let mut cells = vec![Cell::new(CellHeader::default(), [0; 48]); 5];
    let mut segmentation = sar::Segmentation::new(vc(50), 200, sar::SduMeta::default()).unwrap();
    segmentation.fill(&[9; 200], &mut cells);
    cells[2].payload[0] ^= 1;
    for cell in &cells {
        station.chip.handle_cell(Port::Left, cell, now);
        station.run(&mut now, long());
    }
    assert_eq!(station.chip.channel(1).unwrap().dropped(DropReason::Crc), 1);
    station.queue(0, Descriptor { length: 1000, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    assert_eq!((station.status(1, 0), station.body(1, 0)), (DONE | 1000, 0));
    assert_eq!(station.memory.slice(3 * AREAS, 960).unwrap(), &data[40..]);
    // Longer than head and page together: refused, and the page stays.
    station.page(1, now);
    station.queue(0, Descriptor { length: PAGE + HEAD + 1, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    assert_eq!(station.chip.channel(1).unwrap().dropped(DropReason::Oversize), 1);
    station.queue(0, Descriptor { length: 100, ..Descriptor::default() }, now);
    station.run(&mut now, long());
    assert_eq!((station.status(1, 1), station.body(1, 1)), (DONE | 100, 1));
}

#[test]
fn a_pool_serves_its_owner_alone_and_its_descriptors_are_checked() {
    let mut station = splitting(4);
    let split = |low_latency, pool| Direction::Split { low_latency, head: HEAD, pool };
    let open = |station: &mut Station, owner, aal, direction| {
        let settings = Channel { owner, aal, direction, ring: Station::ring(7), interrupt: Interrupt::Never };
        station.chip.open(7, settings)
    };
    for (owner, aal, direction) in [
        (OTHER, Aal::Aal5, split(false, 2)),
        (ME, Aal::Aal5, split(true, 2)),
        (ME, Aal::Aal5, split(false, 1)),
        (ME, Aal::Aal5, split(false, 60)),
        (ME, Aal::Raw, split(false, 2)),
    ] {
        assert!(matches!(open(&mut station, owner, aal, direction), Err(ChannelError::Pool(_))), "{direction:?}");
    }
    let mut now = Time::ZERO;
    // Area 0 may not be written, area 3 is nobody's: a status, and no page.
    for area in [0, 3] {
        station.queue(2, Descriptor { area, length: PAGE, ..Descriptor::default() }, now);
        station.run(&mut now, long());
        station.chip.write_page(2, STOP, 1, now);
    }
    assert_eq!([0, 1].map(|n| station.status(2, n)), [Outcome::NotGranted.status(0); 2]);
    // The pool goes while a PDU has one of its pages; the channel goes as well, and nothing is left of either.
    station.page(2, now);
    station.queue(1, Descriptor { area: 1, length: 128, ..Descriptor::default() }, now);
    station.queue(0, Descriptor { length: 4000, ..Descriptor::default() }, now);
    let later = now + Duration::from_micros(30);
    station.run(&mut now, later);
    assert!(station.chip.close(2) && station.chip.close(1));
    station.run(&mut now, long());
    assert_eq!(station.chip.held(), (0, 0));
}

#[derive(Debug, Clone)]
enum Forged {
    Descriptor(u16, [u8; 16]),
    Page(u16, u32, u32),
    Wait(u64),
}

fn forged() -> impl Strategy<Value = Forged> {
    let near = (0u16..6, 0u32..0x20000, 0u32..0x20000)
        .prop_map(|(area, offset, length)| Descriptor { area, uu: 0, offset, length }.to_octets());
    prop_oneof![
        (2u16..4, prop_oneof![any::<[u8; 16]>(), near])
            .prop_map(|(channel, octets)| Forged::Descriptor(channel, octets)),
        (2u16..4, prop_oneof![Just(PRODUCED), Just(STOP), any::<u32>()], prop_oneof![0u32..40, any::<u32>()])
            .prop_map(|(channel, register, value)| Forged::Page(channel, register, value)),
        (0u64..20_000).prop_map(Forged::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Channels 2 and 3 are a process's that writes whatever it likes into its rings and pages. It may read area 2
    /// and write area 3. Areas 0 and 1 are of the process with channels 0 and 1, which sends to itself meanwhile.
    #[test]
    fn a_process_that_forges_descriptors_gets_nothing_but_its_own_error(
        forged in proptest::collection::vec(forged(), 1..120),
        sizes in proptest::collection::vec(1u32..9000, 1..8),
    ) {
        let mut station = loopback(Config::default(), Aal::Aal5, 0);
        for (n, writable) in [(2, false), (3, true)] {
            station.grant(n, OTHER, writable);
        }
        station.memory.write(AREAS, &[0x11; 0x10000]).unwrap();
        station.memory.write(3 * AREAS, &[0x33; 0x10000]).unwrap();
        let directions = [
            Direction::Transmit { connection: Connection::to_channel(3).and(Port::Right, vc(77)), interval: 0 },
            Direction::Receive { low_latency: false },
        ];
        for (n, direction) in [2, 3].into_iter().zip(directions) {
            let ring = Station::ring(n);
            let channel = Channel { owner: OTHER, aal: Aal::Aal5, direction, ring, interrupt: Interrupt::Never };
            station.chip.open(n, channel).unwrap();
        }
        let (mut now, mut written) = (Time::ZERO, [0u32; 4]);
        let mut left = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            station.queue(1, Descriptor { area: 1, length: *size, offset: 0x2000 * n as u32, uu: 0 }, now);
            station.queue(0, Descriptor { length: *size, ..Descriptor::default() }, now);
        }
        for action in forged {
            match action {
                Forged::Descriptor(channel, octets) => {
                    let n = &mut written[usize::from(channel)];
                    let at = Station::ring(channel).address + u64::from(*n % 16) * 16;
                    station.memory.write(at, &octets).unwrap();
                    *n += 1;
                    station.chip.write_page(channel, PRODUCED, *n, now);
                }
                Forged::Page(channel, register, value) => {
                    station.chip.write_page(channel, register, value, now);
                    station.chip.read_page(channel, register);
                }
                Forged::Wait(nanos) => {
                    let until = now + Duration::from_nanos(nanos);
                    left.extend(station.run(&mut now, until));
                    now = now.max(until);
                }
            }
        }
        left.extend(station.run(&mut now, long()));
        // It sends only what it may read, under the label that it was given.
        for (_, port, cell) in &left {
            prop_assert_eq!((*port, cell.circuit()), (Port::Right, vc(77)));
            // A PDU's last cell ends with its trailer.
            let data = if cell.header_word() & 2 == 0 { 48 } else { 40 };
            prop_assert!(cell.payload[..data].iter().all(|octet| [0, 0x33].contains(octet)));
        }
        // Nothing is written but its ring's words of status and its own area.
        let memory = &station.memory;
        prop_assert!(memory.slice(AREAS, 0x10000).unwrap().iter().all(|octet| *octet == 0x11));
        prop_assert!(memory.slice(3 * AREAS, 0x10000).unwrap().iter().all(|octet| *octet == 0x33));
        prop_assert!(memory.slice(5 * AREAS, 0x10000).unwrap().iter().all(|octet| *octet == 0));
        prop_assert!(memory.slice(4 * AREAS, 0x10000).unwrap().iter().all(|octet| [0, 0x33].contains(octet)));
        // The other process has all that it sent.
        for (n, size) in sizes.iter().enumerate() {
            prop_assert_eq!(station.status(0, n as u32), DONE);
            prop_assert_eq!(station.status(1, n as u32), DONE | size);
            let got = station.memory.slice(2 * AREAS + 0x2000 * n as u64, *size as usize).unwrap();
            prop_assert!(got.iter().all(|octet| *octet == 0x11));
        }
    }
}
