//! The reassembler as a whole: what it delivers, what it drops, and that no slot is lost whatever arrives.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use wire::aal34::{LI_ABORT, Segment, SegmentType};
use wire::octets::{Format, emit53};
use wire::{CellHeader, CircuitId, PayloadType};

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
    Config { circuits: 2, pdus: 2, slots: 6, longest_list: 5, open_at_begin_only: false }
}

fn stored(event: Event) -> ListId {
    match event {
        Event::Stored { list, .. } => list,
        other => panic!("{other:?}"),
    }
}

/// Traw and Smith (1993): capacities.
#[test]
fn the_default_is_the_published_hardware() {
    let r = Reassembler::new(Config::default()).unwrap();
    assert_eq!((r.circuits.capacity(), r.pdus.capacity(), r.free_slots()), (256, 256, 8192));
    // "The Reassembler buffer can accommodate 3 Mbits" (Traw and Smith, 1993).
    assert_eq!(8192 * 48 * 8 / 1024 / 1024, 3);
    assert_eq!(r.check(), Ok(()));
}

/// Traw and Smith (1993): keys of VCI and MID, lists in order. All cells have one segment number, which is not looked
/// at.
#[test]
fn cells_of_two_interleaved_pdus_are_told_apart_by_mid_and_come_out_in_order() {
    let mut r = Reassembler::new(small()).unwrap();
    use SegmentType::{Begin, End};
    let now = Time::from_micros(3);
    let a = stored(r.handle_cell(&pdu_cell(5, 1, Begin, 44, 0xa1), now));
    let b = stored(r.handle_cell(&pdu_cell(5, 2, Begin, 44, 0xb1), now));
    assert_eq!(
        r.handle_cell(&pdu_cell(5, 1, End, 8, 0xa2), now),
        Event::Stored { list: a, opened: false, ended: true }
    );
    let status = r.status(a).unwrap();
    assert_eq!((status.cells, status.ends, status.last_cell), (2, 1, now));
    assert_eq!(r.key(b), Some(Key::Pdu { vci: 0x8005, mid: 2 }));
    let mut memory = [0; 200];
    let read = r.read_into(a, 10, &mut memory);
    assert_eq!(read, Read { cells: 2, octets: 52, ended: true, aborted: false });
    assert_eq!((memory[43], memory[44], memory[52]), (0xa1, 0xa2, 0));
    assert_eq!(r.read_into(b, 10, &mut memory), Read { cells: 1, octets: 44, ended: false, aborted: false });
}

/// Traw and Smith (1993): the host's read command.
#[test]
fn a_read_stops_at_the_cells_asked_for_at_a_pdus_end_and_where_no_body_fits() {
    let mut r = Reassembler::new(small()).unwrap();
    let list = stored(r.handle_cell(&circuit_cell(32, 1, false), Time::ZERO));
    for (fill, end) in [(2, true), (3, false), (4, false)] {
        r.handle_cell(&circuit_cell(32, fill, end), Time::ZERO);
    }
    let mut memory = [0; 100];
    assert_eq!(r.read_into(list, 1, &mut memory).cells, 1);
    assert_eq!(r.read_into(list, 9, &mut memory), Read { cells: 1, octets: 48, ended: true, aborted: false });
    assert_eq!(r.read_into(list, 9, &mut memory[..47]), Read::default());
    assert_eq!(r.read_into(list, 9, &mut memory).cells, 2);
    assert_eq!(r.status(list).unwrap().cells, 0);
}

/// Traw and Smith (1993): what the Cell Manager and the CAM lookup drop.
#[test]
fn each_drop_has_its_reason() {
    let now = Time::ZERO;
    let fresh = || Reassembler::new(small()).unwrap();
    let expect = |r: &Reassembler, event: Event, reason: DropReason| {
        assert_eq!(event, Event::Dropped(reason));
        assert_eq!((r.counters().dropped(reason), r.counters().dropped_total()), (1, 1));
        assert_eq!(r.check(), Ok(()));
    };

    let mut r = fresh();
    let mut octets = emit53(&circuit_cell(32, 1, false), Format::Uni);
    assert!(matches!(r.handle_octets(&octets, now), Event::Stored { .. }));
    octets[3] ^= 0x10;
    let event = r.handle_octets(&octets, now);
    expect(&r, event, DropReason::HeaderError);

    let mut r = fresh();
    let mut bad = pdu_cell(5, 1, SegmentType::Begin, 44, 9);
    bad.payload[20] ^= 1;
    let event = r.handle_cell(&bad, now);
    expect(&r, event, DropReason::Crc);
    assert_eq!(r.entries().count(), 0, "a flushed body opens no list");

    let mut r = fresh();
    let event = r.handle_cell(&pdu_cell(5, 1, SegmentType::Begin, 40, 9), now);
    expect(&r, event, DropReason::Malformed);

    let mut r = fresh();
    r.handle_cell(&circuit_cell(32, 1, false), now);
    r.handle_cell(&circuit_cell(33, 1, false), now);
    let event = r.handle_cell(&circuit_cell(34, 1, false), now);
    expect(&r, event, DropReason::TableFull);
    assert!(matches!(r.handle_cell(&pdu_cell(5, 1, SegmentType::Single, 8, 9), now), Event::Stored { .. }));

    let mut r = fresh();
    let list = stored(r.handle_cell(&circuit_cell(32, 1, false), now));
    for _ in 1..5 {
        r.handle_cell(&circuit_cell(32, 1, false), now);
    }
    let event = r.handle_cell(&circuit_cell(32, 1, false), now);
    expect(&r, event, DropReason::QueueFull);
    assert_eq!(r.status(list).unwrap().dropped, 1);
    let other = stored(r.handle_cell(&circuit_cell(33, 1, false), now));
    assert_eq!(r.handle_cell(&circuit_cell(33, 1, false), now), Event::Dropped(DropReason::NoBuffer));
    assert_eq!(r.status(other).unwrap().dropped, 1);

    let mut r = Reassembler::new(Config { open_at_begin_only: true, ..small() }).unwrap();
    let event = r.handle_cell(&pdu_cell(5, 1, SegmentType::Continuation, 44, 9), now);
    expect(&r, event, DropReason::Sequence);
}

/// Traw and Smith (1993): deleting an entry and its list.
#[test]
fn a_deleted_list_gives_its_slots_and_its_number_back() {
    let mut r = Reassembler::new(small()).unwrap();
    let list = stored(r.handle_cell(&circuit_cell(32, 1, false), Time::ZERO));
    r.handle_cell(&circuit_cell(32, 1, false), Time::ZERO);
    assert_eq!(r.delete(list), Some(2));
    assert_eq!((r.delete(list), r.status(list), r.key(list)), (None, None, None));
    assert_eq!((r.free_slots(), r.counters().dropped(DropReason::Closed)), (6, 2));
    assert_eq!(stored(r.handle_cell(&circuit_cell(99, 1, false), Time::ZERO)), list);
    assert_eq!(r.find(Key::Circuit { vci: 99 }), Some(list));
    assert_eq!(r.status(list).unwrap().appended, 1);
}

#[test]
fn an_abort_ends_the_pdu_and_says_so() {
    let mut r = Reassembler::new(small()).unwrap();
    let list = stored(r.handle_cell(&pdu_cell(5, 1, SegmentType::Begin, 44, 1), Time::ZERO));
    r.handle_cell(&pdu_cell(5, 1, SegmentType::End, LI_ABORT, 1), Time::ZERO);
    let read = r.read_into(list, 9, &mut [0; 100]);
    assert_eq!(read, Read { cells: 2, octets: 44, ended: true, aborted: true });
}

#[test]
fn oam_is_left_to_others() {
    let mut r = Reassembler::new(small()).unwrap();
    let header = CellHeader { payload_type: PayloadType::OamEndToEnd, ..circuit_cell(32, 0, false).header() };
    assert_eq!(r.handle_cell(&Cell::new(header, [0; 48]), Time::ZERO), Event::Management);
    assert_eq!(r.entries().count(), 0);
}

#[test]
fn capacities_that_are_none_are_refused() {
    let config = Config::default();
    for bad in [
        Config { circuits: 0, ..config },
        Config { pdus: MAX_ENTRIES + 1, ..config },
        Config { slots: 0, ..config },
        Config { slots: u32::MAX as usize, ..config },
    ] {
        assert!(Reassembler::new(bad).is_err(), "{bad:?}");
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Circuit(u16, u8, bool),
    Pdu(u16, u8, u8, u8),
    Damaged(u16, usize),
    Read(u16, usize),
    Delete(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (30u16..34, any::<u8>(), any::<bool>()).prop_map(|(vci, fill, end)| Operation::Circuit(vci, fill, end)),
        6 => (0u16..4, 0u8..4, 0u8..64, any::<u8>()).prop_map(|(mid, st, li, fill)| Operation::Pdu(mid, st, li, fill)),
        1 => (0u16..4, 0usize..384).prop_map(|(mid, bit)| Operation::Damaged(mid, bit)),
        4 => (0u16..7, 0usize..6).prop_map(|(list, cells)| Operation::Read(list, cells)),
        1 => (0u16..7).prop_map(Operation::Delete),
    ]
}

proptest! {
    #[test]
    fn whatever_arrives_and_whatever_the_host_does_every_cell_is_stored_once_or_dropped_once(
        begin_only: bool, operations in proptest::collection::vec(operation(), 0..300),
    ) {
        let config = Config { circuits: 3, pdus: 3, slots: 12, longest_list: 7, open_at_begin_only: begin_only };
        let mut r = Reassembler::new(config).unwrap();
        let mut model: BTreeMap<ListId, VecDeque<(u8, usize)>> = BTreeMap::new();
        let (mut given, mut closed) = (0, 0);
        for (step, operation) in operations.into_iter().enumerate() {
            let now = Time::from_micros(step as u64);
            match operation {
                Operation::Circuit(vci, fill, end) => {
                    given += 1;
                    if let Event::Stored { list, opened, .. } = r.handle_cell(&circuit_cell(vci, fill, end), now) {
                        prop_assert_eq!(r.key(list), Some(Key::Circuit { vci }));
                        prop_assert!(!opened || r.status(list).unwrap().appended == 1);
                        model.entry(list).or_default().push_back((fill, 48));
                    }
                }
                Operation::Pdu(mid, st, li, fill) => {
                    given += 1;
                    let cell = pdu_cell(9, mid, SegmentType::from_bits(st), li, fill);
                    if let Event::Stored { list, .. } = r.handle_cell(&cell, now) {
                        prop_assert_eq!(r.key(list), Some(Key::Pdu { vci: 0x8009, mid }));
                        let octets = if li == LI_ABORT { 0 } else { usize::from(li) };
                        model.entry(list).or_default().push_back((fill, octets));
                    }
                }
                Operation::Damaged(mid, bit) => {
                    given += 1;
                    let mut cell = pdu_cell(9, mid, SegmentType::Begin, 44, 1);
                    cell.payload[bit / 8] ^= 1 << (bit % 8);
                    prop_assert_eq!(r.handle_cell(&cell, now), Event::Dropped(DropReason::Crc));
                }
                Operation::Read(list, cells) => {
                    let list = ListId::from_number(list);
                    let mut memory = [0; 400];
                    let read = r.read_into(list, cells, &mut memory);
                    let mut at = 0;
                    for _ in 0..read.cells {
                        let (fill, octets) = model.get_mut(&list).unwrap().pop_front().unwrap();
                        prop_assert!(memory[at..at + octets].iter().all(|octet| *octet == fill));
                        at += octets;
                    }
                    prop_assert_eq!(at, read.octets);
                }
                Operation::Delete(list) => {
                    let list = ListId::from_number(list);
                    let cells = model.remove(&list).map_or(0, |queue| queue.len());
                    closed += cells as u64;
                    prop_assert_eq!(r.delete(list).unwrap_or(0) as usize, cells);
                }
            }
            prop_assert_eq!(r.check(), Ok(()));
            let waiting: usize = model.values().map(VecDeque::len).sum();
            prop_assert_eq!(r.free_slots(), 12 - waiting);
            let counters = r.counters();
            prop_assert_eq!(counters.dropped(DropReason::Closed), closed);
            prop_assert_eq!(counters.cells + counters.dropped_total() - closed, given);
        }
    }
}
