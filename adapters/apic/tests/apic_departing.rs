//! A channel that is closed, or lost with the chip's power, while PDUs are under way: each PDU that the chip had taken has left,
//! is in its buffer with a status, or is counted as lost.

use apic::grant::{Area, DONE, Descriptor, Owner};
use apic::notify::Interrupt;
use apic::{Aal, Apic, Channel, Config, Connection, Direction, PRODUCED, Port, Ring};
use bus::HostMemory;
use bus::memory::Flat;
use sar::{SduMeta, Segmentation};
use std::time::Duration;
use wire::crc::Crc32;
use wire::{Cell, CircuitId, Counters, DropReason, PayloadType, Time};

const RING: u64 = 0x1000;
const AREA: u64 = 0x10000;
/// PDUs of each run, as many descriptors as the chip reads ahead.
const PDUS: u32 = 4;
const OCTETS: u32 = 1000;

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// A chip with channel 0 open, whose ring has a descriptor for each PDU.
struct Station {
    chip: Apic,
    memory: Flat,
    now: Time,
    /// Cells that have left.
    left: Vec<Cell>,
}

impl Station {
    fn new(direction: Direction) -> Self {
        let mut station = Station {
            chip: Apic::new(Config::default()),
            memory: Flat::new(0, 1 << 20),
            now: Time::ZERO,
            left: Vec::new(),
        };
        let area = Area { owner: Owner(7), address: AREA, octets: 0x10000, writable: true };
        assert!(station.chip.set_area(0, Some(area)));
        let ring = Ring { address: RING, entries: 16 };
        let interrupt = Interrupt::AtOnce;
        station.chip.open(0, Channel { owner: Owner(7), aal: Aal::Aal5, direction, ring, interrupt }).unwrap();
        for n in 0..PDUS {
            let descriptor = Descriptor { offset: n * 0x1000, length: OCTETS, ..Descriptor::default() };
            station.memory.write(RING + 16 * u64::from(n), &descriptor.to_octets()).unwrap();
        }
        station.chip.write_page(0, PRODUCED, PDUS, Time::ZERO);
        station
    }

    fn run(&mut self, until: Time) {
        while let Some(next) = self.chip.poll_timeout().filter(|next| *next <= until) {
            self.now = next.max(self.now);
            assert!(self.chip.handle_timeout(self.now, &mut self.memory));
            for port in Port::ALL {
                self.left.extend(std::iter::from_fn(|| self.chip.poll_cell(port)));
            }
        }
        self.now = self.now.max(until);
    }

    /// Closes the channel, or cuts the power; what it has carried and lost.
    fn end(&mut self, reason: DropReason) -> Counters {
        match reason {
            DropReason::Closed => assert!(self.chip.close(0)),
            _ => {
                self.chip.set_power(false);
                assert_eq!(self.chip.poll_timeout(), None, "a chip without power has nothing to do");
            }
        }
        let before = *self.chip.former_channels();
        // What is left of it in the chip changes nothing any more.
        self.run(self.now + Duration::from_millis(10));
        assert_eq!(*self.chip.former_channels(), before);
        assert!(self.chip.sums().add_up(), "{:?}", self.chip.sums());
        before
    }

    /// Descriptors that have a status without an error.
    fn written(&self) -> u64 {
        let status = |n: u32| self.memory.slice(RING + 16 * u64::from(n) + 12, 4).unwrap().try_into().unwrap();
        (0..PDUS).filter(|n| u32::from_le_bytes(status(*n)) & (DONE | 0x7f00_0000) == DONE).count() as u64
    }
}

/// The last cell of a PDU that its sender has not given up.
fn is_end(cell: &Cell) -> bool {
    ends(cell) && cell.payload[42..44] != [0, 0]
}

fn ends(cell: &Cell) -> bool {
    matches!(cell.header().payload_type, PayloadType::User { end: true, .. })
}

const REASONS: [DropReason; 2] = [DropReason::Closed, DropReason::LinkDown];

#[test]
fn pdus_that_a_channel_had_begun_to_send_or_had_read_are_counted_when_it_ends() {
    for reason in REASONS {
        let mut seen = [0; 2];
        for nanos in (0..120_000).step_by(210) {
            let connection = Connection::to(Port::Right, vc(99));
            let mut station = Station::new(Direction::Transmit { connection, interval: 0 });
            station.run(Time::from_nanos(nanos));
            let counters = station.end(reason);
            let (sent, lost) = (counters.pdus, counters.dropped(reason));
            if reason == DropReason::Closed {
                // Cells that were made before still leave.
                let ends = station.left.iter().filter(|cell| is_end(cell)).count() as u64;
                assert_eq!(sent, ends, "{nanos} ns");
            }
            assert_eq!(counters.dropped_total(), lost, "{nanos} ns");
            // By then all descriptors have been read.
            let taken = if nanos > 10_000 { u64::from(PDUS) } else { sent + lost };
            assert!(sent + lost == taken && taken <= u64::from(PDUS), "{nanos} ns: {counters:?}");
            seen = [seen[0].max(sent), seen[1].max(lost)];
        }
        assert_eq!(seen, [u64::from(PDUS); 2], "all were sent, and all were lost");
    }
}

#[test]
fn a_pdu_that_is_cut_by_the_end_of_its_channel_is_ended_and_the_next_ones_arrive_whole() {
    let direction = |low_latency| Direction::Transmit {
        connection: Connection { low_latency, ..Connection::to(Port::Right, vc(99)) },
        interval: 0,
    };
    let mut cut = 0;
    for (nanos, low_latency) in (0..120_000).step_by(730).flat_map(|nanos| [(nanos, false), (nanos, true)]) {
        let mut station = Station::new(direction(low_latency));
        station.run(Time::from_nanos(nanos));
        let sent = station.end(DropReason::Closed).pdus;
        // Somebody else has its number and its circuit next.
        let ring = Ring { address: RING, entries: 16 };
        let interrupt = Interrupt::AtOnce;
        let channel = Channel { owner: Owner(7), aal: Aal::Aal5, direction: direction(low_latency), ring, interrupt };
        station.chip.open(0, channel).unwrap();
        station.chip.write_page(0, PRODUCED, PDUS, station.now);
        station.run(station.now + Duration::from_millis(10));
        let (mut whole, mut given_up) = (0, 0);
        for cells in station.left.split_inclusive(ends) {
            let octets: Vec<u8> = cells.iter().flat_map(|cell| cell.payload).collect();
            let (body, crc) = octets.split_last_chunk().unwrap();
            let mut right = Crc32::new();
            right.update(body);
            assert_eq!(right.finish(), u32::from_be_bytes(*crc), "{nanos} ns: {} cells", cells.len());
            match is_end(cells.last().unwrap()) {
                true => assert_eq!(cells.len(), wire::aal5::cells(OCTETS as usize), "{nanos} ns"),
                false => assert!(cells.len() > 1, "{nanos} ns: the end of nothing"),
            }
            whole += u64::from(is_end(cells.last().unwrap()));
            given_up += u64::from(!is_end(cells.last().unwrap()));
        }
        assert_eq!(whole, sent + u64::from(PDUS), "{nanos} ns");
        assert!(given_up <= 1 && station.left.last().is_some_and(is_end), "{nanos} ns");
        assert!(station.chip.sums().add_up(), "{:?}", station.chip.sums());
        cut += given_up;
    }
    assert!(cut > 10, "{cut} were cut");
}

#[test]
fn pdus_that_were_arriving_or_on_their_way_to_memory_are_counted_when_their_channel_ends() {
    let mut cells = vec![Cell::default(); 24];
    let n =
        Segmentation::new(vc(50), OCTETS as usize, SduMeta::default()).unwrap().fill(&[5; OCTETS as usize], &mut cells);
    cells.truncate(n);
    for reason in REASONS {
        let mut seen = [0; 2];
        for nanos in (0..200_000).step_by(530) {
            let mut station = Station::new(Direction::Receive { low_latency: false });
            station.chip.connect(Port::Left, vc(50), Connection::to_channel(0)).unwrap();
            // The chip reads its descriptors first.
            let begin = Time::from_micros(20);
            station.run(begin);
            let all = cells.iter().cycle().take(PDUS as usize * cells.len());
            for cell in all {
                if station.now >= begin + Duration::from_nanos(nanos) {
                    break;
                }
                station.chip.handle_cell(Port::Left, cell, station.now);
                station.run(station.now + Duration::from_nanos(400));
            }
            // Cells that have not come to the channel yet are counted as cells.
            let end = station.now.max(begin + Duration::from_nanos(nanos));
            station.run(end);
            let counters = station.end(reason);
            let (received, lost) = (counters.pdus, counters.dropped(reason));
            assert_eq!((received, counters.octets), (station.written(), received * u64::from(OCTETS)), "{nanos} ns");
            assert_eq!(counters.dropped_total(), lost, "{nanos} ns");
            let came = (nanos.div_ceil(400)).div_ceil(n as u64).min(u64::from(PDUS));
            // The last one's first cell may be on its way to the channel.
            assert!(received + lost == came || received + lost + 1 == came, "{nanos} ns: {came} came, {counters:?}");
            seen = [seen[0].max(received), seen[1].max(lost)];
        }
        assert!(seen[0] == u64::from(PDUS) && seen[1] > 0, "{seen:?}");
    }
}

#[test]
fn a_pdu_whose_buffer_was_revoked_is_lost_and_not_received_as_well() {
    let mut station = Station::new(Direction::Receive { low_latency: false });
    station.chip.connect(Port::Left, vc(50), Connection::to_channel(0)).unwrap();
    station.run(Time::from_micros(20));
    station.chip.set_area(0, None);
    let mut cells = [Cell::default(); 24];
    let n = Segmentation::new(vc(50), 1000, SduMeta::default()).unwrap().fill(&[5; 1000], &mut cells);
    for cell in &cells[..n] {
        station.chip.handle_cell(Port::Left, cell, station.now);
        station.run(station.now + Duration::from_micros(1));
    }
    station.run(station.now + Duration::from_millis(1));
    let counters = station.chip.channel(0).unwrap();
    assert_eq!((counters.pdus, counters.dropped(DropReason::BadDescriptor), counters.dropped_total()), (0, 1, 1));
    assert_eq!(station.end(DropReason::Closed).dropped(DropReason::Closed), 0);
}
