//! The pipeline in time: clocks, rates and losses that its units give, and the same octets as the one without time.

use super::super::Reassembler;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wire::CircuitId;
use wire::aal34::{Segment, SegmentType};

const CELL_BITS: f64 = 424.0;

fn circuit_cell(vci: u16, fill: u8, end: bool) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end };
    let header = CellHeader { circuit: CircuitId::new(0, vci).unwrap(), payload_type, clp: false };
    Cell::new(header, [fill; 48])
}

fn pdu_cell(vci: u16, mid: u16, segment_type: SegmentType, li: u8, fill: u8) -> Cell {
    let header = CellHeader { circuit: CircuitId::new(0, vci | 0x8000).unwrap(), ..CellHeader::default() };
    Cell::new(header, Segment { segment_type, sequence: 0, mid, li }.emit(&[fill; 44]))
}

fn small() -> Config {
    Config { circuits: 4, pdus: 4, slots: 24, longest_list: 20, open_at_begin_only: false }
}

/// Runs until nothing is left to do, or `until`; takes what crosses the bus.
fn settle(pipeline: &mut Pipeline, until: Time, mut each: impl FnMut(Fetched)) {
    let mut now = Time::ZERO;
    loop {
        pipeline.run(now);
        while let Some(fetched) = pipeline.poll_fetched() {
            each(fetched);
            pipeline.run(now);
        }
        let Some(next) = pipeline.poll_timeout().filter(|next| *next <= until) else { break };
        now = now.max(next);
    }
    pipeline.run(until);
}

/// The units keep the times of Traw and Smith (1993).
#[test]
fn every_operation_takes_the_clocks_that_the_paper_gives_and_none_takes_more() {
    let mut p = Pipeline::configured(Build::published()).unwrap();
    let cell = 2_700;
    // A CS-PDU of one cell that takes an entry, and ends: the longest lookup and the longest append.
    p.handle_cell(&pdu_cell(5, 1, SegmentType::Single, 44, 1), Time::ZERO);
    p.run(Time::from_nanos(cell - 1));
    assert_eq!(p.works().lookup.operations, 0, "the verdict comes with the last octet");
    settle(&mut p, Time::from_micros(10), |_| {});
    let works = p.works();
    assert_eq!((works.manager.longest, works.lookup.longest, works.lists.longest), (cell, 11 * CLOCK, 13 * CLOCK));
    let list = p.entries().next().unwrap().0;
    // Its removal empties the list and takes an end from it: the longest removal.
    let before = p.works().lists;
    assert!(p.read(list, 1));
    settle(&mut p, Time::from_micros(20), |_| {});
    let after = p.works().lists;
    assert_eq!((after.operations - before.operations, after.nanos - before.nanos), (1, 13 * CLOCK));
    // A circuit's body is whole.
    p.handle_cell(&circuit_cell(9, 1, true), Time::from_micros(20));
    settle(&mut p, Time::from_micros(30), |_| {});
    let (list, _) = p.entries().find(|(_, key)| matches!(key, Key::Circuit { .. })).unwrap();
    assert!(p.read(list, 1));
    settle(&mut p, Time::from_micros(40), |_| {});
    assert_eq!((p.works().store.longest, p.works().fetch.longest), (2_400, 1_200));
    let before = p.works().lists;
    assert!(p.delete(list) && !p.delete(list));
    settle(&mut p, Time::from_micros(50), |_| {});
    let works = p.works();
    assert!(
        works.lists.nanos > before.nanos && works.lists.longest == 13 * CLOCK && works.lookup.longest == 11 * CLOCK
    );
    assert_eq!((works.manager.longest, works.store.longest, works.fetch.longest), (2_700, 2_400, 1_200));
    assert_eq!((p.free_slots(), p.check()), (8192, Ok(())));
}

/// What a card stores of `cells` PDUs of one cell that come so many nanoseconds apart, in Mbit/s from first to last,
/// and what it drops; with a host that reads whatever it may, or none.
fn carried(build: Build, cells: u64, apart: u64, drains: bool) -> (f64, u64) {
    let mut p = Pipeline::configured(build).unwrap();
    let cell = circuit_cell(100, 1, true);
    let list = ListId::from_number(0);
    let mut read = 0u64;
    for n in 0..cells {
        let at = Time::from_nanos(n * apart);
        while let Some(next) = p.poll_timeout().filter(|next| *next < at) {
            p.run(next);
            read += u64::from(p.poll_fetched().is_some());
            if drains && p.status(list).is_some_and(|block| block.cells > 0) {
                p.read(list, 1);
            }
        }
        p.handle_cell(&cell, at);
    }
    let end = cells * apart;
    let stored = p.counters().cells;
    assert!(!drains || read > stored * 9 / 10, "{read} of {stored} read");
    (stored as f64 * CELL_BITS / end as f64 * 1e3, p.counters().dropped_total())
}

/// Traw and Smith (1993), from the units alone.
#[test]
fn the_list_manager_lets_650_mbit_s_through_and_half_of_it_with_a_host_that_drains() {
    let wide = Build::wide();
    let apart = wide.line.as_nanos() as u64;
    // More than there is room for: what is stored is what the list manager appends.
    let (alone, dropped) = carried(wide, 14_000, apart, false);
    assert!((alone / 650.0 - 1.0).abs() < 0.05 && dropped > 0, "{alone}");
    let (drained, dropped) = carried(wide, 14_000, apart, true);
    assert!((drained / 325.0 - 1.0).abs() < 0.05 && dropped > 0, "{drained}");
    // At the limit itself nothing is lost without drains, and half of it with them.
    let (_, none) = carried(wide, 8_000, 650, false);
    let (_, half) = carried(wide, 8_000, 650, true);
    assert!(none == 0 && (half as f64 / 4_000.0 - 1.0).abs() < 0.05, "{none} and {half}");
    // As built, a full OC-3c line loses nothing, drained or not.
    let (rate, dropped) = carried(Build::published(), 8_000, 2_700, true);
    assert!(dropped == 0 && (rate - 157.0).abs() < 0.5, "{rate}");
}

#[test]
fn a_line_that_is_faster_than_the_way_into_the_buffer_fills_the_fifo_and_then_loses_cells() {
    let build = Build { line: Duration::from_nanos(2_000), ..Build::published() };
    let (rate, dropped) = carried(build, 4_000, 2_000, false);
    // 48 octets in 2.4 us, 424 bits each.
    assert!(dropped > 0 && (rate - CELL_BITS / 2.4).abs() < 2.0, "{rate}");
    let mut p = Pipeline::configured(build).unwrap();
    (0..100).for_each(|n| p.handle_cell(&circuit_cell(1, 1, true), Time::from_nanos(n * 2_000)));
    settle(&mut p, Time::from_millis(1), |_| {});
    assert_eq!(p.works().fifo_peak, 480, "ten bodies of 48 octets are in 512");
    assert_eq!(p.counters().cells + p.counters().dropped(DropReason::QueueFull), 100);
}

/// Traw and Smith (1993): the body is in the FIFO by the time its CRC-10 is known.
#[test]
fn a_body_whose_check_fails_is_flushed_from_the_fifo_and_its_neighbours_arrive() {
    let mut p = Pipeline::configured(Build::published()).unwrap();
    let good = |fill| pdu_cell(5, u16::from(fill), SegmentType::Single, 44, fill);
    let mut bad = good(2);
    bad.payload[20] ^= 1;
    let mut octets = emit53(&good(3), Format::Uni);
    octets[3] ^= 0x10;
    p.handle_cell(&good(1), Time::ZERO);
    p.handle_cell(&bad, Time::from_nanos(2_700));
    p.run(Time::from_nanos(2 * 2_700 - 1));
    assert_eq!(p.counters().dropped(DropReason::Crc), 0);
    assert_eq!((p.works().flushed, p.works().fifo_peak), (0, 44 + 48), "no verdict on the second yet");
    p.handle_cell(&good(4), Time::from_nanos(2 * 2_700 - 1));
    p.handle_octets(&octets, Time::from_nanos(3 * 2_700));
    settle(&mut p, Time::from_micros(30), |_| {});
    assert_eq!((p.works().flushed, p.counters().dropped(DropReason::Crc)), (1, 1));
    assert_eq!((p.counters().dropped(DropReason::HeaderError), p.counters().cells), (1, 2));
    let mut got = Vec::new();
    for (n, list) in p.entries().map(|(list, _)| list).collect::<Vec<_>>().into_iter().enumerate() {
        assert!(p.read(list, 9));
        settle(&mut p, Time::from_micros(40 + 10 * n as u64), |fetched| got.push(fetched.body[0]));
    }
    got.sort_unstable();
    assert_eq!(got, [1, 4]);
}

/// Traw and Smith (1993): the host writes the list memory while it configures the card, and only reads status blocks
/// afterwards.
#[test]
fn the_host_reads_and_writes_the_list_memory_until_the_card_runs() {
    let mut p = Pipeline::new(Build { config: small(), ..Build::published() }).unwrap();
    p.handle_cell(&circuit_cell(1, 1, true), Time::ZERO);
    assert_eq!(p.counters().dropped(DropReason::LinkDown), 1, "no cell is taken before");
    for (at, word) in ram::image(&small()) {
        assert!(p.write_ram(at, word));
        assert_eq!(p.read_ram(at), Some(word));
    }
    p.start();
    assert_eq!((p.write_ram(0, 7), p.read_ram(0)), (false, None));
    assert_eq!((p.free_slots(), p.check()), (24, Ok(())));
    p.handle_cell(&circuit_cell(1, 1, true), Time::from_micros(3));
    settle(&mut p, Time::from_micros(20), |_| {});
    let (list, _) = p.entries().next().unwrap();
    assert_eq!(p.status(list), Some(Block { cells: 1, ends: 1, dropped: 0 }));
    let too_many = Config { slots: 1 << 14, ..Config::default() };
    assert!(Pipeline::new(Build { config: too_many, ..Build::published() }).is_err(), "32K words hold it not");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Circuit { vci: u16, end: bool },
    Pdu { mid: u16, kind: u8, damaged: bool },
    Read { list: u16, cells: u32 },
    Delete { list: u16 },
    Wait { nanos: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (32u16..38, any::<bool>()).prop_map(|(vci, end)| Step::Circuit { vci, end }),
        4 => (0u16..6, 0u8..4, prop::bool::weighted(0.1))
            .prop_map(|(mid, kind, damaged)| Step::Pdu { mid, kind, damaged }),
        3 => (0u16..8, 1u32..6).prop_map(|(list, cells)| Step::Read { list, cells }),
        1 => (0u16..10).prop_map(|list| Step::Delete { list }),
        2 => (0u64..9_000).prop_map(|nanos| Step::Wait { nanos }),
    ]
}

fn cell_of(step: Step, fill: u8) -> Option<Cell> {
    match step {
        Step::Circuit { vci, end } => Some(circuit_cell(vci, fill, end)),
        Step::Pdu { mid, kind, damaged } => {
            let mut cell = pdu_cell(5, mid, SegmentType::from_bits(kind), 44, fill);
            cell.payload[30] ^= u8::from(damaged);
            Some(cell)
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Cells first, reads afterwards: every list has what the reassembler without time has, and every drop its reason.
    #[test]
    fn in_time_and_without_it_the_same_octets_are_on_the_same_lists(
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut p = Pipeline::configured(Build { config: small(), ..Build::published() }).unwrap();
        let mut plain = Reassembler::new(small()).unwrap();
        let mut now = 0;
        for (n, step) in steps.iter().enumerate() {
            if let Some(cell) = cell_of(*step, n as u8) {
                p.handle_cell(&cell, Time::from_nanos(now));
                plain.handle_cell(&cell, Time::from_nanos(now));
                now += 2_700;
            }
        }
        settle(&mut p, Time::from_millis(1), |_| {});
        prop_assert_eq!(p.counters(), plain.counters());
        prop_assert_eq!(p.check(), Ok(()));
        prop_assert!(p.entries().eq(plain.entries()));
        let mut now = 1_000_000;
        for (list, _) in plain.entries().collect::<Vec<_>>() {
            let status = plain.status(list).unwrap();
            let expected = Block { cells: status.cells as u16, ends: status.ends as u16, dropped: status.dropped as u16 };
            prop_assert_eq!(p.status(list), Some(expected));
            while let Some((tag, body)) = plain.pop(list) {
                prop_assert!(p.read(list, 1));
                let mut got = Vec::new();
                now += 10_000;
                settle(&mut p, Time::from_nanos(now), |fetched| got.push(fetched));
                prop_assert_eq!(got.len(), 1);
                prop_assert_eq!((got[0].list, got[0].tag), (list, tag));
                prop_assert_eq!(&got[0].body[..body.len()], body);
            }
        }
        prop_assert_eq!(p.free_slots(), 24);
    }

    /// Everything at once, with the line faster than it can be: what is read is in order, once, and as it came; no slot
    /// is lost.
    #[test]
    fn reads_deletions_and_cells_at_the_same_time_lose_no_slot_and_mix_no_bodies(
        steps in proptest::collection::vec(step(), 0..200), line in 300u64..3_000,
    ) {
        let build = Build { config: small(), line: Duration::from_nanos(line), ..Build::published() };
        let mut p = Pipeline::configured(build).unwrap();
        let mut last: BTreeMap<Key, u8> = BTreeMap::new();
        let mut sent: BTreeMap<u8, Key> = BTreeMap::new();
        let (mut now, mut got, mut cells) = (0, Vec::new(), 0);
        for (n, step) in steps.iter().enumerate() {
            match *step {
                Step::Read { list, cells } => {
                    p.read(ListId::from_number(list), cells);
                }
                Step::Delete { list } => {
                    p.delete(ListId::from_number(list));
                }
                Step::Wait { nanos } => now += nanos,
                cell => {
                    if let Some(cell) = cell_of(cell, n as u8) {
                        if let Ok(intake) = manager::examine(&cell) {
                            sent.insert(n as u8, intake.key);
                        }
                        p.handle_cell(&cell, Time::from_nanos(now));
                        cells += 1;
                        now += line;
                    }
                }
            }
            settle(&mut p, Time::from_nanos(now), |fetched| got.push(fetched));
        }
        settle(&mut p, Time::from_nanos(now + 1_000_000), |fetched| got.push(fetched));
        for fetched in &got {
            let fill = fetched.body[0];
            let octets = usize::from(fetched.tag.octets);
            prop_assert!(fetched.body[..octets].iter().all(|octet| *octet == fill), "a body of two cells");
            let key = sent.get(&fill).copied();
            prop_assert!(key.is_some(), "{} was never sent", fill);
            let before = key.and_then(|key| last.insert(key, fill));
            prop_assert!(before.is_none_or(|before| before < fill), "out of order");
        }
        let counters = p.counters();
        let waiting: u64 = (0..8).filter_map(|list| p.status(ListId::from_number(list))).map(|b| u64::from(b.cells)).sum();
        let deleted = counters.dropped(DropReason::Closed);
        prop_assert_eq!(counters.cells, got.len() as u64 + waiting + deleted);
        prop_assert_eq!(counters.cells + counters.dropped_total() - deleted, cells);
        prop_assert_eq!(p.check(), Ok(()));
        prop_assert_eq!(p.free_slots() as u64 + waiting, 24);
    }

    /// A host that configures nonsense harms nobody: no index leaves its table.
    #[test]
    fn any_list_memory_is_survived(
        words in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..300),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut p = Pipeline::new(Build { config: small(), ..Build::published() }).unwrap();
        ram::image(&small()).chain(words).for_each(|(at, word)| {
            p.write_ram(at % 128, word);
        });
        p.start();
        let mut now = 0;
        for (n, step) in steps.iter().enumerate() {
            match *step {
                Step::Read { list, cells } => drop(p.read(ListId::from_number(list), cells)),
                Step::Delete { list } => drop(p.delete(ListId::from_number(list))),
                Step::Wait { nanos } => now += nanos,
                cell => cell_of(cell, n as u8).iter().for_each(|cell| p.handle_cell(cell, Time::from_nanos(now))),
            }
            now += 2_700;
            settle(&mut p, Time::from_nanos(now), |_| {});
        }
        settle(&mut p, Time::from_nanos(now + 1_000_000), |_| {});
        prop_assert!(p.poll_timeout().is_none());
    }
}
