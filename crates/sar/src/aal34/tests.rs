//! AAL3/4 out and in again: each failure by its reason, and whatever a network does to cells.

use super::*;
use crate::SduMeta;
use core::time::Duration;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::aal34::{Header, SAR_PAYLOAD, Segment, SegmentType, check};
use wire::{Cell, CellHeader, CircuitId, DropReason, PayloadType, Time};

const SLOT: usize = 2048;

fn circuit() -> CircuitId {
    CircuitId::new(1, 42).unwrap()
}

fn cells_of(sender: &mut Sender, sdu: &[u8]) -> Vec<Cell> {
    let mut s = sender.begin(sdu.len(), SduMeta::default()).unwrap();
    let mut out = vec![Cell::default(); cells(sdu.len())];
    assert_eq!(s.fill(sdu, &mut out), out.len());
    assert!(s.is_done());
    out
}

/// What came of PDUs: who sent it, and its octets or why not.
type Outcome = (u16, Result<Vec<u8>, DropReason>);

fn run(r: &mut Reassembler, mut input: &[Cell]) -> Vec<Outcome> {
    let mut memory = vec![0; SLOT * 16];
    run_in(r, &mut input, &mut Slots::new(&mut memory, SLOT))
}

fn run_in(r: &mut Reassembler, input: &mut &[Cell], slots: &mut Slots<'_>) -> Vec<Outcome> {
    let mut out = Vec::new();
    loop {
        let step = r.push(input, slots, Time::ZERO);
        *input = &input[step.cells_used..];
        match step.event {
            Event::NeedMore => return out,
            Event::Complete { slot, mid, sdu_octets, .. } => {
                out.push((mid, Ok(slots.slot(slot)[..sdu_octets].to_vec())))
            }
            Event::Failed { mid, reason, .. } => out.push((mid, Err(reason))),
        }
    }
}

/// A cell changed in its fields and body, and its CRC made right again.
fn forged(cell: &Cell, change: impl FnOnce(&mut Segment, &mut [u8; 44])) -> Cell {
    let (mut segment, body) = Segment::parse(&cell.payload).unwrap();
    let mut body = *body;
    change(&mut segment, &mut body);
    Cell::new(cell.header(), segment.emit(&body))
}

#[test]
fn a_pdu_is_right_by_the_check_that_reads_whole_pdus() {
    let mut sender = Sender::new(circuit(), 1023).unwrap();
    let mut sequence = 0;
    for (n, octets) in [0, 1, 35, 36, 37, 40, 41, 80, 81, 1500, 9188, 65_535].into_iter().enumerate() {
        let sdu: Vec<u8> = (0..octets).map(|i| i as u8).collect();
        let cells = cells_of(&mut sender, &sdu);
        let mut pdu = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            let (segment, body) = Segment::parse(&cell.payload).unwrap();
            let expected = match (i == 0, i + 1 == cells.len()) {
                (true, true) => SegmentType::Single,
                (true, false) => SegmentType::Begin,
                (false, false) => SegmentType::Continuation,
                (false, true) => SegmentType::End,
            };
            assert_eq!((segment.segment_type, segment.sequence, segment.mid), (expected, sequence, 1023));
            let counts = segment.payload_octets().expect("an LI that the segment type allows");
            assert!(body[counts..].iter().all(|octet| *octet == 0));
            pdu.extend_from_slice(&body[..counts]);
            sequence = (sequence + 1) % 16;
        }
        assert_eq!(check(&pdu), Ok(&sdu[..]));
        assert_eq!(Header::parse(&pdu).unwrap().tag, n as u8, "successive PDUs have tags of their own");
    }
}

#[test]
fn what_aal34_has_not_is_refused() {
    assert_eq!(Sender::new(circuit(), 1024).err(), Some(SegmentError::Mid(1024)));
    let mut sender = Sender::new(circuit(), 0).unwrap();
    assert_eq!(sender.begin(65_536, SduMeta::default()).err(), Some(SegmentError::TooLong(65_536)));
    assert_eq!(sender.begin(5, SduMeta::default()).unwrap().fill(&[0; 4], &mut [Cell::default()]), 0);
    assert_eq!(Interleaver::new(circuit(), &[4, 4]).err(), Some(SegmentError::MidTwice(4)));
    let mut lanes = Interleaver::new(circuit(), &[4]).unwrap();
    assert_eq!(lanes.begin(1, 1, SduMeta::default()), Err(SegmentError::NoLane(1)));
    lanes.begin(0, 1, SduMeta::default()).unwrap();
    assert_eq!(lanes.begin(0, 1, SduMeta::default()), Err(SegmentError::Busy(0)));
}

#[test]
fn each_way_to_fail_has_its_reason_and_the_next_pdu_is_whole() {
    let sdu = [9; 100];
    let check = |reason: DropReason, spoil: &dyn Fn(&mut Vec<Cell>)| {
        let mut sender = Sender::new(circuit(), 7).unwrap();
        let mut input = cells_of(&mut sender, &sdu);
        assert_eq!(input.len(), 3);
        spoil(&mut input);
        input.extend(cells_of(&mut sender, &sdu));
        let config = ReassemblyConfig { max_sdu_octets: 500, max_open: 1, ..ReassemblyConfig::default() };
        let mut r = Reassembler::new(config);
        assert_eq!(run(&mut r, &input), [(7, Err(reason)), (7, Ok(sdu.to_vec()))], "{reason}");
        assert_eq!((r.counters().dropped(reason), r.open_pdus()), (1, 0));
    };
    check(DropReason::Sequence, &|cells| _ = cells.remove(1));
    check(DropReason::Sequence, &|cells| _ = cells.remove(2));
    check(DropReason::Sequence, &|cells| cells.insert(1, cells[1]));
    check(DropReason::Sequence, &|cells| cells[1].payload[20] ^= 1);
    check(DropReason::Aborted, &|cells| cells[2] = forged(&cells[2], |segment, _| segment.li = 63));
    check(DropReason::Length, &|cells| cells[1] = forged(&cells[1], |segment, _| segment.li = 40));
    check(DropReason::Length, &|cells| cells[2] = forged(&cells[2], |segment, _| segment.li = 18));
    check(DropReason::Length, &|cells| {
        cells[2] = forged(&cells[2], |segment, body| {
            // The length says one octet too few, and the padding is as it was.
            body[usize::from(segment.li) - 1] -= 4;
        })
    });
    check(DropReason::Length, &|cells| cells[0] = forged(&cells[0], |_, body| body[3] = 99));
    check(DropReason::Length, &|cells| cells[0] = forged(&cells[0], |_, body| body[3] = 60));
    check(DropReason::Length, &|cells| cells[0] = forged(&cells[0], |_, body| body[3] = 36));
    check(DropReason::Oversize, &|cells| cells[0] = forged(&cells[0], |_, body| body[2] = 2));
    check(DropReason::Malformed, &|cells| cells[0] = forged(&cells[0], |_, body| body[0] = 1));
    check(DropReason::Malformed, &|cells| {
        cells[2] = forged(&cells[2], |segment, body| body[usize::from(segment.li) - 4] = 1);
    });
    check(DropReason::Tag, &|cells| {
        cells[2] = forged(&cells[2], |segment, body| body[usize::from(segment.li) - 3] ^= 1);
    });
}

#[test]
fn sixteen_lost_cells_show_in_the_length() {
    let mut sender = Sender::new(circuit(), 7).unwrap();
    let mut input = cells_of(&mut sender, &[3; 1000]);
    drop(input.drain(2..18));
    input.extend(cells_of(&mut sender, &[4; 1000]));
    let mut r = Reassembler::new(ReassemblyConfig::default());
    assert_eq!(run(&mut r, &input), [(7, Err(DropReason::Length)), (7, Ok(vec![4; 1000]))]);
}

#[test]
fn the_end_of_one_pdu_is_not_taken_for_that_of_the_next() {
    let mut sender = Sender::new(circuit(), 7).unwrap();
    // Sixteen cells each, so that the sequence numbers of both are the same; the lost ones are the first's end and the
    // second's beginning.
    let (first, second) = (cells_of(&mut sender, &[1; 690]), cells_of(&mut sender, &[2; 690]));
    assert_eq!(first.len(), 16);
    let mixed: Vec<Cell> = first[..9].iter().chain(&second[9..]).copied().collect();
    let mut r = Reassembler::new(ReassemblyConfig::default());
    assert_eq!(run(&mut r, &mixed), [(7, Err(DropReason::Tag))]);
}

#[test]
fn cells_of_no_open_pdu_and_of_a_wrong_crc_are_counted_as_cells() {
    let mut sender = Sender::new(circuit(), 7).unwrap();
    let mut input = cells_of(&mut sender, &[9; 100]);
    input.remove(0);
    let mut damaged = input[0];
    damaged.payload[0] ^= 0x80;
    input.push(damaged);
    input.push(forged(&input[0], |segment, _| (segment.segment_type, segment.li) = (SegmentType::Single, 4)));
    let mut r = Reassembler::new(ReassemblyConfig::default());
    assert_eq!(run(&mut r, &input), []);
    let of = |reason| r.cell_counters().dropped(reason);
    assert_eq!((of(DropReason::Sequence), of(DropReason::Crc), of(DropReason::Length)), (2, 1, 1));
    assert_eq!(r.counters().dropped_total(), 0);
}

#[test]
fn cells_that_are_not_user_data_are_passed_over() {
    let mut sender = Sender::new(circuit(), 7).unwrap();
    let mut input = cells_of(&mut sender, &[9; 100]);
    let oam = CellHeader { payload_type: PayloadType::OamEndToEnd, ..input[0].header() };
    input.insert(1, Cell::new(oam, [0x6a; 48]));
    let mut r = Reassembler::new(ReassemblyConfig::default());
    assert_eq!(run(&mut r, &input), [(7, Ok(vec![9; 100]))]);
    assert_eq!((r.cell_counters().cells, r.cell_counters().dropped_total()), (3, 0));
}

#[test]
fn no_more_pdus_are_open_than_there_are_slots_and_no_more_than_fit_the_storage() {
    let mut senders: Vec<Sender> = (0..3).map(|mid| Sender::new(circuit(), mid).unwrap()).collect();
    let input: Vec<Cell> = senders.iter_mut().map(|sender| cells_of(sender, &[9; 100])[0]).collect();
    let mut r = Reassembler::new(ReassemblyConfig { max_open: 2, ..ReassemblyConfig::default() });
    assert_eq!(run(&mut r, &input), [(2, Err(DropReason::TooManyOpen))]);
    assert_eq!(r.open_pdus(), 2);
    let mut r = Reassembler::new(ReassemblyConfig { max_open: 2, ..ReassemblyConfig::default() });
    let mut memory = [0; 199];
    let outcome = run_in(&mut r, &mut &input[..], &mut Slots::new(&mut memory, 100));
    assert_eq!(outcome, [(1, Err(DropReason::NoBuffer)), (2, Err(DropReason::NoBuffer))]);
}

#[test]
fn pdus_that_stop_are_given_up_after_the_timeout_the_longest_waiting_first() {
    let limit = Duration::from_millis(5);
    let mut r = Reassembler::new(ReassemblyConfig { timeout: Some(limit), ..ReassemblyConfig::default() });
    assert_eq!(r.poll_timeout(), None);
    let mut memory = vec![0; SLOT * 16];
    let mut slots = Slots::new(&mut memory, SLOT);
    let [one, two] = [1, 2].map(|mid| cells_of(&mut Sender::new(circuit(), mid).unwrap(), &[9; 100]));
    let _ = r.push(&one[..1], &mut slots, Time::from_millis(1));
    let _ = r.push(&two[..1], &mut slots, Time::from_millis(2));
    let _ = r.push(&one[1..2], &mut slots, Time::from_millis(3));
    assert_eq!(r.poll_timeout(), Some(Time::from_millis(7)));
    assert_eq!(r.handle_timeout(Time::from_millis(6)), None);
    let failed = |event| matches!(event, Some(Event::Failed { mid: 2, reason: DropReason::Timeout, slot: Some(_) }));
    assert!(failed(r.handle_timeout(Time::from_millis(7))));
    assert_eq!((r.handle_timeout(Time::from_millis(7)), r.poll_timeout()), (None, Some(Time::from_millis(8))));
    let step = r.push(&one[2..], &mut slots, Time::from_millis(7));
    assert!(matches!(step.event, Event::Complete { mid: 1, .. }));
    assert_eq!(r.poll_timeout(), None);
}

#[test]
fn lanes_take_turns_cell_by_cell() {
    let mut lanes = Interleaver::new(circuit(), &[5, 6, 7]).unwrap();
    for lane in 0..3 {
        lanes.begin(lane, 100 + 40 * lane, SduMeta::default()).unwrap();
    }
    let mut mids = Vec::new();
    while lanes.cells_left() > 0 {
        let mut room = [Cell::default(); 4];
        let filled = lanes.fill(|_| &[1; 200], &mut room);
        mids.extend(room[..filled.cells].iter().map(|cell| Segment::parse(&cell.payload).unwrap().0.mid));
    }
    assert_eq!(mids, [5, 6, 7, 5, 6, 7, 5, 6, 7, 6, 7, 7]);
}

#[test]
fn a_beginning_that_announces_a_pdu_of_one_cell_gets_no_slot() {
    let first = cells_of(&mut Sender::new(circuit(), 7).unwrap(), &[9; 100])[0];
    let mut r = Reassembler::new(ReassemblyConfig::default());
    let mut memory = [0; 200];
    let step = r.push(&[forged(&first, |_, body| body[3] = 36)], &mut Slots::new(&mut memory, 200), Time::ZERO);
    assert_eq!(step.event, Event::Failed { slot: None, mid: 7, reason: DropReason::Length });
}

#[test]
fn a_pdu_that_leaves_no_room_for_its_trailer_fails_before_its_end() {
    let cells = cells_of(&mut Sender::new(circuit(), 7).unwrap(), &[9; 100]);
    let two = [forged(&cells[0], |_, body| body[3] = 80), cells[1]];
    assert_eq!(run(&mut Reassembler::new(ReassemblyConfig::default()), &two), [(7, Err(DropReason::Length))]);
}

#[test]
fn an_abort_ends_a_pdu_that_has_begun_and_hides_one_that_has_not() {
    let mut sender = Sender::new(circuit(), 7).unwrap();
    let mut out = vec![Cell::default(); 8];
    let mut s = sender.begin(200, SduMeta::default()).unwrap();
    let n = s.fill(&[1; 200], &mut out[..2]);
    s.abort();
    let n = n + s.fill(&[1; 200], &mut out[2..]);
    assert_eq!((n, s.is_done()), (3, true));
    let mut unseen = sender.begin(200, SduMeta::default()).unwrap();
    unseen.abort();
    assert_eq!(unseen.fill(&[1; 200], &mut out[3..]), 0);
    let mut r = Reassembler::new(ReassemblyConfig::default());
    assert_eq!(run(&mut r, &out[..3]), [(7, Err(DropReason::Aborted))]);
}

#[test]
fn what_travels_beside_the_octets_arrives() {
    let meta = SduMeta { uu: 0, cpi: 0, clp: true, congestion: true };
    let mut cells = [Cell::default(); 3];
    Sender::new(circuit(), 7).unwrap().begin(100, meta).unwrap().fill(&[1; 100], &mut cells);
    let mut memory = [0; 100];
    let mut r = Reassembler::new(ReassemblyConfig { max_open: 1, ..ReassemblyConfig::default() });
    let step = r.push(&cells, &mut Slots::new(&mut memory, 100), Time::ZERO);
    assert_eq!(step, Step { cells_used: 3, event: Event::Complete { slot: 0, mid: 7, sdu_octets: 100, meta } });
    // One cell of low priority is enough; of congestion, the last cell's word counts.
    for (i, cell) in cells.iter_mut().enumerate() {
        let payload_type = PayloadType::User { congestion: i == 0, end: false };
        cell.set_header(CellHeader { clp: i == 1, payload_type, ..cell.header() });
    }
    let meta = SduMeta { congestion: false, ..meta };
    let step = r.push(&cells, &mut Slots::new(&mut memory, 100), Time::ZERO);
    assert_eq!(step.event, Event::Complete { slot: 0, mid: 7, sdu_octets: 100, meta });
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Lose(Index),
    Repeat(Index),
    Swap(Index),
    /// Up to three wrong bits: an odd number is divided by x+1, and two only by what has a period of 511 bits.
    Damage(Index, [u16; 3]),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        any::<Index>().prop_map(Fault::Lose),
        any::<Index>().prop_map(Fault::Repeat),
        any::<Index>().prop_map(Fault::Swap),
        (any::<Index>(), [0u16..384, 0..384, 0..384]).prop_map(|(i, bits)| Fault::Damage(i, bits)),
    ]
}

/// SDUs by lane, and the cells of all lanes interleaved.
fn interleaved(sdus: &[Vec<Vec<u8>>], portion: usize) -> Vec<Cell> {
    let mids: Vec<u16> = (0..sdus.len() as u16).map(|lane| lane * 93).collect();
    let mut lanes = Interleaver::new(circuit(), &mids).unwrap();
    let mut next = vec![0; sdus.len()];
    for (lane, of_lane) in sdus.iter().enumerate() {
        lanes.begin(lane, of_lane[0].len(), SduMeta::default()).unwrap();
    }
    let mut out = Vec::new();
    loop {
        let mut room = vec![Cell::default(); portion];
        let filled = lanes.fill(|lane| &sdus[lane][next[lane]], &mut room);
        out.extend_from_slice(&room[..filled.cells]);
        if let Some(lane) = filled.done {
            next[lane] += 1;
            if let Some(sdu) = sdus[lane].get(next[lane]) {
                lanes.begin(lane, sdu.len(), SduMeta::default()).unwrap();
            }
        } else if filled.cells == 0 {
            assert_eq!(lanes.cells_left(), 0);
            return out;
        }
    }
}

fn sdus() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let sdu = (0usize..SLOT, any::<u8>()).prop_map(|(n, seed)| (0..n).map(|i| (i * 7) as u8 ^ seed).collect());
    proptest::collection::vec(proptest::collection::vec(sdu, 1..4), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn in_any_portions_interleaved_every_sdu_arrives_in_its_order(sdus in sdus(), portion in 1usize..9, slots in 5usize..16) {
        let mut r = Reassembler::new(ReassemblyConfig { max_open: slots, ..ReassemblyConfig::default() });
        let outcome = run(&mut r, &interleaved(&sdus, portion));
        for (lane, expected) in sdus.iter().enumerate() {
            let mid = lane as u16 * 93;
            let got: Vec<_> = outcome.iter().filter(|(from, _)| *from == mid).map(|(_, sdu)| sdu.clone().unwrap()).collect();
            prop_assert_eq!(&got, expected);
        }
        prop_assert_eq!((r.open_pdus(), r.counters().dropped_total(), r.cell_counters().dropped_total()), (0, 0, 0));
    }

    #[test]
    fn whatever_the_network_does_no_wrong_sdu_comes_out_and_the_next_one_does(
        sdus in sdus(), faults in proptest::collection::vec(fault(), 0..20)) {
        // A cell is damaged once at most: four bits and more can escape the CRC.
        let mut input: Vec<(Cell, bool)> = interleaved(&sdus, 8).into_iter().map(|cell| (cell, false)).collect();
        for f in faults {
            if input.is_empty() { break }
            let n = input.len();
            match f {
                Fault::Lose(i) => { input.remove(i.index(n)); }
                Fault::Repeat(i) => { let i = i.index(n); input.insert(i, input[i]); }
                Fault::Swap(i) => { let i = i.index(n); input.swap(i, (i + 1) % n); }
                Fault::Damage(i, bits) => {
                    let (cell, damaged) = &mut input[i.index(n)];
                    if !core::mem::replace(damaged, true) {
                        bits.into_iter().for_each(|bit| cell.payload[usize::from(bit / 8)] ^= 1 << (bit % 8));
                    }
                }
            }
        }
        let input: Vec<Cell> = input.into_iter().map(|(cell, _)| cell).collect();
        let mut r = Reassembler::new(ReassemblyConfig { max_open: 16, ..ReassemblyConfig::default() });
        for (mid, outcome) in run(&mut r, &input) {
            if let Ok(sdu) = outcome {
                prop_assert!(sdus[usize::from(mid) / 93].contains(&sdu), "a wrong SDU was delivered");
            }
        }
        prop_assert!(r.open_pdus() <= sdus.len());
        for lane in 0..sdus.len() as u16 {
            let mut sender = Sender::new(circuit(), lane * 93).unwrap();
            let outcome = run(&mut r, &cells_of(&mut sender, &[0xee; 200]));
            prop_assert_eq!(outcome.last(), Some(&(lane * 93, Ok(vec![0xee; 200]))));
        }
        prop_assert_eq!(r.open_pdus(), 0);
    }

    #[test]
    fn no_cells_break_the_slots(payloads in proptest::collection::vec((0u8..4, 0u8..16, 0u16..6, 0u8..64, any::<[u8; 8]>()), 0..200), max_open in 1usize..5) {
        let mut r = Reassembler::new(ReassemblyConfig { max_open, max_sdu_octets: 600, ..ReassemblyConfig::default() });
        for (at, (st, sequence, mid, li, some)) in payloads.into_iter().enumerate() {
            let mut body = [0; 44];
            body[..4].copy_from_slice(&some[..4]);
            body[2] &= 1;
            if let Some(tail) = usize::from(li).checked_sub(4).and_then(|at| body.get_mut(at..at + 4)) {
                tail.copy_from_slice(&some[4..]);
            }
            let segment = Segment { segment_type: SegmentType::from_bits(st), sequence, mid, li };
            let cell = Cell::new(CellHeader { circuit: circuit(), ..CellHeader::default() }, segment.emit(&body));
            prop_assert_eq!(&cell.payload[SAR_PAYLOAD], &body[..]);
            run(&mut r, &[cell]);
            prop_assert!(r.open_pdus() <= max_open);
            if at % 50 == 49 {
                // All slots are on the list by age: giving everything up leaves none open.
                while r.handle_timeout(Time::MAX).is_some() {}
                prop_assert_eq!(r.open_pdus(), 0);
            }
        }
    }
}
