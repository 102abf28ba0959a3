//! The cards of Traw and Smith, with their driver: a wire from the Segmenter of one host to the Reassembler of another.

use bus::memory::{Flat, HostMemory};
use penn::Streaming;
use penn::driver::{BUFFER_OCTETS, BUFFERS, Cards, Control, Overlap, Penn, PennError, TABLE, Variant, Written};
use penn::reassembler::{CONFIGURING, Card, register as rr};
use penn::reassembly::Config;
use penn::reassembly::units::Build;
use penn::segmenter::{Segmenter, register as sr};
use penn::{FAILED, IDLE};
use proptest::prelude::*;
use std::time::Duration;
use wire::{Cell, DropReason, Time};

const MEMORY: usize = 1 << 20;
/// The process's own memory begins here; the driver's buffers before.
pub(crate) const USER: u32 = (BUFFERS * BUFFER_OCTETS) as u32;
pub(crate) const CONFIG: Config =
    Config { circuits: 16, pdus: 16, slots: 8192, longest_list: 8192, open_at_begin_only: false };
pub(crate) const TICK: Duration = Duration::from_micros(16_667);

pub(crate) struct Host {
    pub(crate) segmenter: Segmenter,
    pub(crate) reassembler: Card,
    pub(crate) memory: Flat,
    pub(crate) driver: Penn,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with_card(Card::new(CONFIG).unwrap())
    }

    fn with_card(mut reassembler: Card) -> Self {
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut memory = Flat::new(0, MEMORY);
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let driver = Penn::probe(&mut cards, 0, 32, TICK, Time::ZERO);
        Host { segmenter, reassembler, memory, driver }
    }

    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut Penn, &mut Cards<'_, Flat>) -> R) -> R {
        let Host { segmenter, reassembler, memory, driver } = self;
        f(driver, &mut Cards { segmenter, reassembler, memory })
    }

    pub(crate) fn open(&mut self, vci: u16, now: Time) -> usize {
        let file = self.driver.open();
        self.driver.control(file, Control::Vci(vci), now).unwrap();
        file
    }

    pub(crate) fn write(&mut self, file: usize, data: &[u8], now: Time) -> Written {
        self.memory.write(USER.into(), data).unwrap();
        self.with(|driver, cards| driver.write(cards, file, USER, data.len(), now)).unwrap()
    }

    fn next(&mut self) -> Time {
        self.with(|driver, cards| driver.poll_timeout(cards))
    }
}

/// Two hosts: what `0` sends comes to `1`.
pub(crate) struct World {
    pub(crate) hosts: [Host; 2],
    pub(crate) now: Time,
    pub(crate) sent: Vec<(Time, Cell)>,
}

impl World {
    pub(crate) fn new() -> Self {
        World { hosts: [Host::new(), Host::new()], now: Time::ZERO, sent: Vec::new() }
    }

    pub(crate) fn run(&mut self, until: Time) {
        let mut cells = [Cell::default(); 8];
        loop {
            let cell = self.hosts[0].segmenter.poll_timeout();
            let next = self.hosts.iter_mut().map(Host::next).chain(cell).min().unwrap_or(until).max(self.now);
            if next >= until {
                self.now = until;
                return;
            }
            self.now = next;
            let [from, to] = &mut self.hosts;
            let n = from.segmenter.fill(&mut cells, &mut from.memory, self.now);
            self.sent.extend(cells[..n].iter().map(|cell| (self.now, *cell)));
            to.reassembler.handle_cells(&cells[..n], self.now);
            for host in &mut self.hosts {
                host.reassembler.run(&mut host.memory, 64, self.now);
                let now = self.now;
                host.with(|driver, cards| driver.handle_timeout(cards, now));
            }
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run(self.now + time);
    }
}

pub(crate) fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8 ^ seed).collect()
}

/// B-5, B-29, B-33: bare payloads, seen by the clock alone.
#[test]
fn a_circuits_octets_cross_and_are_drained_by_the_clock() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    let reader = world.hosts[1].open(100, Time::ZERO);
    let data = pattern(48 * 1000, 1);
    assert_eq!(world.hosts[0].write(writer, &data, Time::ZERO), Written::Done);
    let mut got = vec![0; 100_000];
    world.run(Time::from_millis(16));
    assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(None), "nothing is seen before the first tick");
    world.run(Time::from_millis(60));
    assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(Some(data.len())));
    assert_eq!(got[..data.len()], data);
    assert_eq!(world.hosts[1].reassembler.free_slots(), 8192);
    assert!(world.hosts[1].driver.statistics.ticks >= 3);
}

/// B-13, B-14, B-19: units on their clocks behind the same registers; the driver writes their list memory, and finds and
/// fetches what it does from a card in no time.
#[test]
fn through_units_on_their_clocks_the_same_octets_cross_and_each_cell_takes_its_way() {
    let build = Build { config: CONFIG, ..Build::published() };
    let mut card = Card::in_time(build).unwrap();
    assert_eq!(card.read(rr::STATUS), IDLE | CONFIGURING);
    card.handle_cells(&[Cell::default()], Time::ZERO);
    assert_eq!(card.counters().dropped(DropReason::LinkDown), 1, "nothing is taken before it is configured");
    let mut world = World::new();
    world.hosts[1] = Host::with_card(card);
    assert_eq!((world.hosts[1].reassembler.read(rr::STATUS), world.hosts[1].reassembler.free_slots()), (IDLE, 8192));
    let before = world.hosts[1].reassembler.counters().dropped(DropReason::BadDescriptor);
    world.hosts[1].reassembler.write(rr::RAM_DATA, 7, Time::ZERO);
    let after = world.hosts[1].reassembler.counters().dropped(DropReason::BadDescriptor);
    assert_eq!(after - before, 1, "the list memory is the list manager's now");
    let data = pattern(48 * 1000, 1);
    let sdus = [pattern(1000, 2), pattern(44 * 20, 3)];
    let mut got = vec![0; 100_000];
    for vci in [100, 0x8005] {
        let writer = world.hosts[0].open(vci, world.now);
        let reader = world.hosts[1].open(vci, world.now);
        let now = world.now;
        if vci == 100 {
            assert_eq!(world.hosts[0].write(writer, &data, now), Written::Done);
            world.run_for(Duration::from_nanos(200 + 1200 + 2600));
            let works = world.hosts[1].reassembler.works().unwrap();
            assert_eq!(works.lookup.operations, 0, "the first cell is in the Cell Manager");
            world.run_for(Duration::from_millis(60));
            assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(Some(data.len())));
            assert_eq!(got[..data.len()], data);
            continue;
        }
        for sdu in &sdus {
            let now = world.now;
            assert_eq!(world.hosts[0].write(writer, sdu, now), Written::Done);
            world.run_for(Duration::from_millis(40));
            let n = world.hosts[1].driver.read(reader, &mut got).unwrap().unwrap();
            assert!(n == sdu.len() && got[..n] == sdu[..], "{n} octets");
        }
    }
    let card = &world.hosts[1].reassembler;
    let works = card.works().unwrap();
    let cells = world.sent.len() as u64;
    assert_eq!((works.manager.operations, works.store.operations, works.fetch.operations), (cells, cells, cells));
    assert_eq!((works.manager.longest, works.store.longest, works.fetch.longest), (2_700, 2_400, 1_200));
    assert!(works.lookup.longest <= 550 && works.lists.longest == 650);
    assert!(works.fifo_peak <= 4 * 48, "{} octets in the FIFO", works.fifo_peak);
    assert_eq!(card.free_slots(), 8192);
}

/// B-2, B-9, B-11: a word each 100 ns, a cell as soon as its data are there, the line's pace.
#[test]
fn cells_leave_at_the_lines_pace_once_their_data_have_come_over_the_bus() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[0].write(writer, &pattern(48 * 100, 1), Time::ZERO);
    world.run(Time::from_millis(1));
    assert_eq!(world.sent.len(), 100);
    // Set-up and twelve words of 100 ns.
    assert_eq!(world.sent[0].0.as_nanos(), 200 + 1200);
    // Then the line, slower than the bus: 2831.2 ns a cell.
    let whole = world.sent[99].0 - world.sent[0].0;
    assert!((whole.as_nanos() as f64 / 99.0 - 2831.2).abs() < 0.1, "{whole:?}");
}

/// B-4, B-7, B-10, B-15, B-27: the VCI's highest bit, VCI and MID by control calls, MIDs told apart.
#[test]
fn connectionless_pdus_of_two_mids_are_told_apart_and_come_whole() {
    let mut world = World::new();
    let files = [0, 1].map(|mid| {
        let file = world.hosts[0].driver.open();
        // One circuit, so one file sends; the MID changes between PDUs.
        if mid == 0 {
            world.hosts[0].driver.control(file, Control::Vci(0x8005), Time::ZERO).unwrap();
        }
        file
    });
    let reader = world.hosts[1].open(0x8005, Time::ZERO);
    let sdus = [pattern(1001, 1), pattern(1, 2), pattern(44 * 20, 3)];
    for (mid, sdu) in sdus.iter().enumerate() {
        world.hosts[0].driver.control(files[0], Control::Mid(mid as u16), world.now).unwrap();
        let now = world.now;
        while world.hosts[0].write(files[0], sdu, now) == Written::Wait {
            world.run_for(Duration::from_millis(1));
        }
        world.run_for(Duration::from_millis(5));
    }
    world.run_for(Duration::from_millis(60));
    let mut got = vec![0; 2000];
    for sdu in &sdus {
        let n = world.hosts[1].driver.read(reader, &mut got).unwrap().unwrap();
        assert!(n == sdu.len() && got[..n] == sdu[..], "{n} octets");
    }
    assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(None));
    assert_eq!(world.hosts[1].reassembler.entries(), 0, "whole PDUs leave no entry behind");
}

/// B-25: two kernel buffers of 64 KB.
#[test]
fn two_kernel_buffers_let_a_process_go_on_and_a_third_write_waits() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    let sdu = pattern(60_000, 1);
    let writes = [0, 1, 2].map(|_| world.hosts[0].write(writer, &sdu, Time::ZERO));
    assert_eq!(writes, [Written::Done, Written::Done, Written::Wait]);
    world.run(Time::from_millis(4));
    let now = world.now;
    assert_eq!(
        world.hosts[0].write(writer, &sdu, now),
        Written::Done,
        "the first has gone: 3.54 ms at the line's rate"
    );
    world.run(Time::from_millis(30));
    assert_eq!(world.hosts[0].segmenter.counters().pdus, 3);
}

/// B-26, B-28: streaming from the process's own pages under three policies.
#[test]
fn a_process_that_waits_for_the_card_has_its_transfer_to_itself() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[0].driver.control(writer, Control::Variant(Variant::KernelIdle), Time::ZERO).unwrap();
    let Written::Until(ticket) = world.hosts[0].write(writer, &pattern(48_000, 1), Time::ZERO) else {
        panic!("it went on");
    };
    world.run(Time::from_millis(2));
    assert!(!world.hosts[0].driver.is_written(ticket), "1000 cells take 2.83 ms");
    world.run(Time::from_millis(3));
    assert!(world.hosts[0].driver.is_written(ticket));
    assert_eq!(world.hosts[0].driver.would_wait(writer), Ok(false));
}

/// B-11: header, HEC, SAR-PDU with CRC-10, an octet each clock; the bus streams on while a cell is framed.
#[test]
fn the_segmenter_frames_a_cell_octet_by_octet_with_both_checks() {
    let mut memory = Flat::new(0, 1 << 12);
    memory.write(0, &pattern(1000, 5)).unwrap();
    let line = wire::CellRate::from_line_bits_per_s(160e6).unwrap();
    for (vci, unit) in [(100u32, 48), (0x8005, 44)] {
        let mut card = Segmenter::on_line(Streaming::MICRO_CHANNEL, line);
        for (register, value) in [(sr::SOURCE, 0), (sr::LENGTH, 1000), (sr::HEADER, vci << 4), (sr::MID, 7)] {
            card.write(register, value, Time::ZERO);
        }
        card.write(sr::START, 1, Time::ZERO);
        let (mut got, mut last) = (Vec::new(), Time::ZERO);
        while let Some(at) = card.poll_timeout() {
            let framed = card.frame(&mut memory, at).unwrap();
            // The pacer rounds to whole nanoseconds.
            assert!(framed.first == at && framed.first + Duration::from_nanos(1) >= last, "one cell at a time");
            assert_eq!((framed.last - framed.first).as_nanos(), 53 * 50, "an octet in 50 ns at 160 Mbit/s");
            last = framed.last;
            // Read by what the formats say, not by what the card has.
            let cell = wire::octets::parse53(&framed.octets, wire::octets::Format::Uni).unwrap();
            assert_eq!(u32::from(cell.circuit().vci.get()), vci);
            if unit == 48 {
                got.extend(cell.payload);
            } else {
                let (segment, body) = wire::aal34::Segment::parse(&cell.payload).unwrap();
                assert_eq!((segment.mid, usize::from(segment.sequence)), (7, got.len() / 44 % 16));
                got.extend(body);
            }
        }
        assert_eq!(got[..1000], pattern(1000, 5));
        // The bus needs 25 us for the whole, the line 55: they work at once.
        let cells = 1000usize.div_ceil(unit) as u64;
        assert!(last.as_nanos().abs_diff(200 + (unit as u64 / 4) * 100 + cells * 2650) <= 1, "{last}");
    }
}

#[test]
fn on_anothers_bus_no_cell_leaves_before_its_octets_have_come() {
    let mut memory = Flat::new(0, 1 << 12);
    memory.write(0, &pattern(1000, 5)).unwrap();
    let line = wire::CellRate::from_line_bits_per_s(160e6).unwrap();
    let mut card = Segmenter::on_bus(line);
    assert_eq!(card.wanted(64), 0, "nothing is to be sent");
    for (register, value) in [(sr::SOURCE, 0), (sr::LENGTH, 1000), (sr::HEADER, 100 << 4), (sr::START, 1)] {
        card.write(register, value, Time::ZERO);
    }
    let mut cells = [Cell::default(); 32];
    let (mut crossed, mut sent, mut got) = (0, 0, Vec::new());
    while card.wanted(64) > 0 {
        // The line is not looked after: the card takes what its buffer holds, whole bursts of 64 octets.
        let octets = card.wanted(64);
        assert!(octets == 64 || octets == 1000 - crossed);
        card.handle_bus(octets);
        crossed += octets;
    }
    assert_eq!(crossed, 512);
    for at in 0..1_000_000 {
        let n = card.fill(&mut cells, &mut memory, Time::from_nanos(at));
        sent += n as u32;
        got.extend(cells[..n].iter().flat_map(|cell| cell.payload));
        assert!((sent * 48).min(1000) <= crossed);
        let octets = card.wanted(64);
        card.handle_bus(octets);
        crossed += octets;
        if card.read(sr::STATUS) == IDLE {
            // 21 cells, the first at once, at 2650 ns each.
            assert_eq!(at, 20 * 2650);
            break;
        }
    }
    assert_eq!((sent, &got[..1000]), (21, &pattern(1000, 5)[..]));
}

#[test]
fn each_overlap_policy_does_what_it_says() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    let octets = 9216;
    for policy in [Overlap::Block, Overlap::Trust, Overlap::Fault] {
        let sent = world.sent.len();
        let now = world.now;
        world.hosts[0].driver.control(writer, Control::Variant(Variant::User(policy)), now).unwrap();
        let written = world.hosts[0].write(writer, &pattern(octets, 1), now);
        let host = &world.hosts[0];
        match (policy, written) {
            (Overlap::Block, Written::Until(ticket)) => {
                assert!(!host.driver.is_written(ticket));
                world.run_for(Duration::from_millis(20));
                assert!(world.hosts[0].driver.is_written(ticket));
            }
            (Overlap::Trust, Written::Done) => {
                // A process that breaks the trust sends what it overwrote with.
                world.hosts[0].memory.write(u64::from(USER) + 4800, &[0xee; 48]).unwrap();
                world.run_for(Duration::from_millis(20));
                assert_eq!(world.sent[sent + 100].1.payload, [0xee; 48]);
            }
            (Overlap::Fault, Written::Done) => {
                assert!(host.driver.must_wait(USER) && host.driver.must_wait(USER + 9215));
                assert!(!host.driver.must_wait(USER + 3 * 4096));
                world.run_for(Duration::from_millis(20));
                assert!(!world.hosts[0].driver.must_wait(USER));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.sent.len() - sent, octets / 48);
    }
}

/// B-32: the POLL list.
#[test]
fn circuits_are_polled_in_the_order_of_their_times() {
    let mut host = Host::new();
    for (vci, micros) in [(100, 5000), (101, 1000), (102, 3000), (103, 1000)] {
        let file = host.open(vci, Time::ZERO);
        host.driver.control(file, Control::PollRate(Duration::from_micros(micros)), Time::ZERO).unwrap();
    }
    assert_eq!(host.driver.poll_order(), [101, 103, 102, 100]);
    host.driver.close(1).unwrap();
    assert_eq!(host.driver.poll_order(), [103, 102, 100]);
    assert_eq!(host.driver.control(0, Control::Vci(102), Time::ZERO), Err(PennError::Table));
    assert_eq!(host.driver.close(1), Err(PennError::File));
}

/// B-17, B-33: the host reads CAM entries and deletes.
#[test]
fn what_nobody_has_open_is_deleted_and_its_slots_are_free_again() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[0].write(writer, &pattern(9600, 1), Time::ZERO);
    world.run(Time::from_millis(10));
    assert_eq!(world.hosts[1].reassembler.free_slots(), 8192 - 200);
    world.run(Time::from_millis(20));
    assert_eq!(world.hosts[1].reassembler.free_slots(), 8192);
    assert_eq!(world.hosts[1].driver.statistics.strangers, 1);
    assert_eq!(world.hosts[1].reassembler.counters().dropped(DropReason::Closed), 200);
}

/// B-24: probing resets both cards, whatever they were about.
#[test]
fn a_probe_finds_cards_in_use_and_leaves_them_empty_and_idle() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[1].open(100, Time::ZERO);
    world.hosts[0].write(writer, &pattern(9600, 1), Time::ZERO);
    world.run(Time::from_micros(200));
    assert_eq!(world.hosts[0].segmenter.read(sr::STATUS) & IDLE, 0);
    assert!(world.hosts[1].reassembler.free_slots() < 8192);
    for host in &mut world.hosts {
        let now = Time::from_micros(200);
        host.driver = host.with(|_, cards| Penn::probe(cards, 0, 32, TICK, now));
        assert_eq!(host.segmenter.read(sr::STATUS), IDLE);
        assert_eq!((host.reassembler.read(rr::STATUS), host.reassembler.free_slots()), (IDLE, 8192));
    }
}

/// B-30, B-31: 256 circuits have entries, and 256 connectionless PDUs; more have none.
#[test]
fn the_tables_have_256_entries_each() {
    let mut world = World::new();
    let mut host = Host::new();
    for vci in 0..TABLE as u16 {
        host.open(1000 + vci, Time::ZERO);
    }
    let file = host.driver.open();
    assert_eq!(host.driver.control(file, Control::Vci(5000), Time::ZERO), Err(PennError::Table));
    host.driver.close(7).unwrap();
    assert_eq!(host.driver.control(file, Control::Vci(5000), Time::ZERO), Ok(()));

    let writer = world.hosts[0].open(0x8009, Time::ZERO);
    let reader = world.hosts[1].open(0x8009, Time::ZERO);
    for n in 0..TABLE + 4 {
        let now = world.now;
        assert_eq!(world.hosts[0].write(writer, &[n as u8; 40], now), Written::Done);
        world.run_for(TICK);
    }
    world.run_for(4 * TICK);
    let mut got = [0; 64];
    let mut read = 0;
    while world.hosts[1].driver.read(reader, &mut got) == Ok(Some(40)) {
        assert_eq!(got[0], read as u8, "the oldest first");
        read += 1;
    }
    assert_eq!((read, world.hosts[1].driver.statistics.lost_pdus), (TABLE, 4));
}

/// B-34: the timer is all that calls: 60 times a second, and one fetch for all that a circuit had.
#[test]
fn a_tick_comes_sixty_times_a_second_and_drains_all_of_a_circuit_at_once() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[1].open(100, Time::ZERO);
    for _ in 0..6 {
        let now = world.now;
        world.hosts[0].write(writer, &pattern(4800, 1), now);
        world.run_for(10 * TICK);
    }
    let statistics = world.hosts[1].driver.statistics;
    assert!((59..=60).contains(&statistics.ticks), "{statistics:?}");
    assert_eq!(statistics.fetches, 6);
}

/// B-35: about 2.6 Mbit arrive in a tick, 3 Mbit fit.
#[test]
fn one_sixtieth_of_a_second_at_full_rate_fits_the_buffer() {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    let reader = world.hosts[1].open(100, Time::ZERO);
    let (mut sent, mut got, mut buffer) = (0, 0, vec![0; 1 << 20]);
    while world.now < Time::from_millis(300) {
        let now = world.now;
        while world.hosts[0].write(writer, &pattern(48 * 1365, 1), now) == Written::Done {
            sent += 48 * 1365;
        }
        world.run_for(Duration::from_millis(1));
        got += world.hosts[1].driver.read(reader, &mut buffer).unwrap().unwrap_or(0);
    }
    assert_eq!(world.hosts[1].reassembler.counters().dropped_total(), 0);
    let mbit_s = got as f64 * 8.0 / 0.3 / 1e6;
    assert!(mbit_s > 100.0 && got <= sent, "{mbit_s} Mbit/s");
}

#[test]
fn memory_that_is_not_there_fails_the_transfer_and_the_card_goes_on() {
    let mut memory = Flat::new(0, 4096);
    let mut card = Segmenter::new(Streaming::MICRO_CHANNEL);
    let mut cells = [Cell::default(); 100];
    for (source, sent, status) in [(4000, 2, IDLE | FAILED), (0, 3, IDLE)] {
        for (register, value) in [(sr::SOURCE, source), (sr::LENGTH, 144), (sr::HEADER, 100 << 4), (sr::START, 1)] {
            card.write(register, value, Time::ZERO);
        }
        assert_eq!(card.read(sr::STATUS), 0);
        let mut n = 0;
        for at in 1..100 {
            n += card.fill(&mut cells, &mut memory, Time::from_micros(at * 10));
        }
        assert_eq!((n, card.read(sr::STATUS)), (sent, status));
    }
}

proptest! {
    #[test]
    fn any_register_writes_are_survived(
        writes in proptest::collection::vec((any::<bool>(), 0u32..14, prop_oneof![0u32..40, any::<u32>()]), 0..200),
        vcis in proptest::collection::vec(any::<u16>(), 1..20),
    ) {
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut card = Card::new(CONFIG).unwrap();
        let mut memory = Flat::new(0, 1 << 16);
        let mut cells = [Cell::default(); 16];
        for (i, (first, register, value)) in writes.into_iter().enumerate() {
            let now = Time::from_micros(i as u64 * 50);
            if first {
                segmenter.write(register, value, now);
                segmenter.read(register);
            } else {
                card.write(register, value, now);
                card.read(register);
            }
            let n = segmenter.fill(&mut cells, &mut memory, now);
            card.handle_cells(&cells[..n], now);
            let circuit = wire::CircuitId::new(0, vcis[i % vcis.len()]).unwrap();
            card.handle_cells(&[Cell::new(wire::CellHeader { circuit, ..Default::default() }, [1; 48])], now);
            card.run(&mut memory, 8, now);
            prop_assert_eq!(card.check(), Ok(()));
        }
        card.write(rr::RESET, 0, Time::ZERO);
        prop_assert_eq!((card.read(rr::STATUS), card.free_slots()), (IDLE, 8192));
    }
}
