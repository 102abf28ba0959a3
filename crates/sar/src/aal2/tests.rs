//! Packets out and in again: each fault by its name, and whatever a network does to cells.

use super::*;
use core::time::Duration;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::aal2::StartField;
use wire::{Cell, CellHeader, CircuitId, PayloadType, Time};

type Owned = (u8, u8, Vec<u8>);

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

fn sender() -> Sender {
    Sender::new(circuit(), SenderConfig { long_packets: true, ..SenderConfig::default() })
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverConfig { long_packets: true, ..ReceiverConfig::default() })
}

/// The cells of packets; after a packet marked so, the half-filled cell goes out at once.
fn cells_of(s: &mut Sender, packets: &[(Owned, bool)]) -> Vec<Cell> {
    let mut out = Vec::new();
    for ((cid, uui, payload), flush) in packets {
        let mut room = [Cell::default(); 3];
        let mut n = s.push(Packet { cid: *cid, uui: *uui, payload }, &mut room, Time::ZERO).unwrap();
        n += usize::from(*flush && s.flush(&mut room[n]));
        out.extend_from_slice(&room[..n]);
    }
    let mut last = Cell::default();
    if s.flush(&mut last) {
        out.push(last);
    }
    out
}

fn run(r: &mut Receiver, cells: &[Cell]) -> Vec<Owned> {
    let mut out = Vec::new();
    r.push(cells, |p| out.push((p.cid, p.uui, p.payload.to_vec())));
    out
}

/// A packet whose octets tell which one it is.
fn packet(number: usize, octets: usize) -> Owned {
    (8 + (number % 248) as u8, (number % 28) as u8, (0..octets).map(|i| (number * 41 + i * 3 + 1) as u8).collect())
}

fn packets(octets: &[usize]) -> Vec<(Owned, bool)> {
    octets.iter().enumerate().map(|(number, octets)| (packet(number, *octets), false)).collect()
}

fn sent(packets: &[(Owned, bool)]) -> Vec<Owned> {
    packets.iter().map(|(packet, _)| packet.clone()).collect()
}

#[test]
fn the_offset_says_where_the_first_packet_or_the_padding_starts() {
    let offset = |cell: &Cell| StartField::parse(cell.payload[0]).unwrap().offset;
    // 67 octets: 47 and 20; then a packet of 30; at last padding.
    let cells = cells_of(&mut sender(), &packets(&[64, 27]));
    assert_eq!(cells.iter().map(offset).collect::<Vec<_>>(), [0, 20, 3]);
    // A cell that one packet fills to its end has no start, and neither has one that a packet only ends in.
    let cells = cells_of(&mut sender(), &packets(&[40, 64, 1, 44]));
    assert_eq!(cells.iter().map(offset).collect::<Vec<_>>(), [0, 47, 16, 20]);
    let sequence: Vec<bool> = cells.iter().map(|c| StartField::parse(c.payload[0]).unwrap().sequence).collect();
    assert_eq!(sequence, [false, true, false, true]);
    assert_eq!(run(&mut receiver(), &cells), sent(&packets(&[40, 64, 1, 44])));
}

#[test]
fn what_aal2_has_not_is_refused_and_changes_nothing() {
    let mut s = Sender::new(circuit(), SenderConfig::default());
    let good = Packet { cid: 8, uui: 0, payload: &[1; 45] };
    let mut push = |packet, room: &mut [Cell]| s.push(packet, room, Time::ZERO);
    assert_eq!(push(Packet { cid: 0, ..good }, &mut []), Err(PacketError::Channel));
    assert_eq!(push(Packet { uui: 32, ..good }, &mut []), Err(PacketError::Uui(32)));
    assert_eq!(push(Packet { payload: &[], ..good }, &mut []), Err(PacketError::Length { got: 0, max: 45 }));
    assert_eq!(push(Packet { payload: &[0; 46], ..good }, &mut []), Err(PacketError::Length { got: 46, max: 45 }));
    assert_eq!(push(good, &mut []), Err(PacketError::NoRoom { need: 1, room: 0 }));
    let mut room = [Cell::default(); 2];
    assert_eq!(push(good, &mut room), Ok(1));
    assert!(s.flush(&mut room[1]));
    assert_eq!(run(&mut receiver(), &room), [(8, 0, vec![1; 45])]);
}

#[test]
fn a_half_filled_cell_waits_for_the_timer_from_its_first_octet_on() {
    let mut s =
        Sender::new(circuit(), SenderConfig { timer_cu: Duration::from_micros(500), ..SenderConfig::default() });
    let mut out = [Cell::default(); 2];
    let packet = Packet { cid: 8, uui: 0, payload: &[1; 20] };
    assert_eq!(s.poll_timeout(), None);
    s.push(packet, &mut out, Time::from_micros(100)).unwrap();
    s.push(packet, &mut out, Time::from_micros(200)).unwrap();
    assert_eq!(s.poll_timeout(), Some(Time::from_micros(600)), "the second packet does not make the first wait longer");
    assert!(!s.handle_timeout(Time::from_micros(599), &mut out[0]));
    // The third one fills the cell; what flows over begins to wait now.
    assert_eq!(s.push(packet, &mut out, Time::from_micros(300)), Ok(1));
    assert_eq!(s.poll_timeout(), Some(Time::from_micros(800)));
    assert!(s.handle_timeout(Time::from_micros(800), &mut out[1]));
    assert_eq!((s.poll_timeout(), s.handle_timeout(Time::MAX, &mut Cell::default())), (None, false));
    assert_eq!(run(&mut receiver(), &out).len(), 3);
    assert_eq!((s.counters().cells, s.counters().pdus, s.counters().octets), (2, 3, 60));
}

#[test]
fn each_fault_has_its_name_and_the_next_start_is_found() {
    // Four cells of five packets, 0 to 4, in octets with headers: 33, 43, 43, 43, 26. Their starts: cell 0 at 0 and 33,
    // cell 1 at 29, cell 2 at 25, cell 3 at 21.
    let all = packets(&[30, 40, 40, 40, 23]);
    let check = |fault: Fault, whole: &[usize], spoil: &dyn Fn(&mut Vec<Cell>)| {
        let mut cells = cells_of(&mut sender(), &all);
        assert_eq!(cells.len(), 4);
        spoil(&mut cells);
        let mut r = receiver();
        r.channels().remove(7);
        let expected: Vec<Owned> = whole.iter().map(|number| all[*number].0.clone()).collect();
        assert_eq!(run(&mut r, &cells), expected, "{fault:?}");
        for other in Fault::ALL {
            assert_eq!(r.faults(other), u64::from(other == fault), "{fault:?}: {other:?}");
        }
        assert_eq!((r.counters().dropped(fault.reason()), r.counters().dropped_total()), (1, 1));
        assert_eq!(r.counters().pdus, whole.len() as u64);
    };
    let restart = |cell: &mut Cell, change: fn(&mut StartField)| {
        let mut start = StartField::parse(cell.payload[0]).unwrap();
        change(&mut start);
        cell.payload[0] = start.to_octet();
    };
    check(Fault::StartParity, &[0, 3, 4], &|cells| cells[1].payload[0] ^= 1);
    check(Fault::StartSequence, &[0, 3, 4], &|cells| _ = cells.remove(1));
    check(Fault::StartOffset, &[0, 3, 4], &|cells| {
        let sequence = cells[1].payload[0] & 2;
        let seven = 48 << 2 | sequence;
        cells[1].payload[0] = seven | (seven.count_ones() as u8 & 1 ^ 1);
    });
    check(Fault::Overlap, &[0], &|cells| {
        restart(&mut cells[1], |start| start.offset = 47);
        cells.truncate(2);
    });
    check(Fault::HeaderHec, &[0, 1, 3, 4], &|cells| cells[1].payload[1 + 29] ^= 1);
    check(Fault::UnknownChannel, &[0, 1, 3, 4], &|cells| {
        let header = wire::aal2::PacketHeader { cid: 7, payload_octets: 40, uui: 2 };
        cells[1].payload[30..33].copy_from_slice(&header.to_octets());
    });
}

#[test]
fn a_channel_that_nobody_opened_and_a_packet_too_long_are_counted_and_the_others_pass() {
    let all = packets(&[20, 50, 20]);
    let cells = cells_of(&mut sender(), &all);
    let mut r = Receiver::new(ReceiverConfig::default());
    r.channels().remove(8);
    assert_eq!(run(&mut r, &cells), [all[2].0.clone()]);
    assert_eq!((r.faults(Fault::TooLong), r.faults(Fault::UnknownChannel)), (1, 1));
    let mut channels = Channels::NONE;
    channels.insert(0);
    assert_eq!(channels, Channels::NONE);
    channels.insert(255);
    assert!(channels.contains(255) && !channels.contains(254) && !Channels::ALL.contains(0));
}

#[test]
fn a_header_across_two_cells_is_checked_when_it_is_whole() {
    for first in [41, 42, 43] {
        let all = packets(&[first, 10, 20]);
        let cells = cells_of(&mut sender(), &all);
        assert_eq!(run(&mut receiver(), &cells), sent(&all));
        let split = 44 - first;
        if (1..3).contains(&split) {
            let mut damaged = cells.clone();
            damaged[1].payload[1] ^= 2;
            let mut r = receiver();
            assert_eq!(run(&mut r, &damaged), [all[0].0.clone(), all[2].0.clone()]);
            assert_eq!(r.faults(Fault::SplitHeaderHec), 1);
        }
    }
}

#[test]
fn an_offset_that_contradicts_is_a_fault_whatever_was_expected() {
    let forged = |cell: &Cell, offset| {
        let mut cell = *cell;
        let sequence = StartField::parse(cell.payload[0]).unwrap().sequence;
        cell.payload[0] = StartField { offset, sequence }.to_octet();
        cell
    };
    // Nothing overlaps: the next packet should start at the front. Then: two octets of a header overlap.
    for first in [44, 42] {
        let all = packets(&[first, 10, 20]);
        let mut cells = cells_of(&mut sender(), &all);
        let second = StartField::parse(cells[1].payload[0]).unwrap().offset;
        let wrong = if first == 44 { 13 } else { 0 };
        assert_ne!(second, wrong);
        cells[1] = forged(&cells[1], wrong);
        if first == 42 {
            // What then stands at the front is padding.
            cells[1].payload[1] = 0;
        }
        let mut r = receiver();
        run(&mut r, &cells);
        assert_eq!((r.faults(Fault::Overlap), r.counters().dropped_total()), (1, 1));
    }
}

#[test]
fn a_receiver_that_comes_late_waits_for_a_start_and_finds_no_fault() {
    let all = packets(&[40, 64, 20, 30]);
    let cells = cells_of(&mut sender(), &all);
    assert_eq!(StartField::parse(cells[1].payload[0]).unwrap().offset, 47);
    let mut r = receiver();
    assert_eq!(run(&mut r, &cells[1..]), sent(&all[2..]));
    assert_eq!(r.counters().dropped_total(), 0);
}

#[test]
fn two_lost_cells_can_join_two_packets_which_only_the_layer_above_can_tell() {
    // A one-bit sequence number sees no two lost cells; with packets as long as a cell, the offset is always the same.
    let mut all = packets(&[20]);
    all.extend(packets(&[44; 6]));
    let mut cells = cells_of(&mut sender(), &all);
    drop(cells.drain(2..4));
    let mut r = receiver();
    assert_eq!(run(&mut r, &cells).len(), 5);
    assert_eq!(r.counters().dropped_total(), 0);
}

#[test]
fn cells_that_are_not_user_data_are_passed_over() {
    let all = packets(&[30, 40, 40]);
    let mut cells = cells_of(&mut sender(), &all);
    let oam = CellHeader { payload_type: PayloadType::OamEndToEnd, ..cells[0].header() };
    cells.insert(1, Cell::new(oam, [0x6a; 48]));
    assert_eq!(run(&mut receiver(), &cells), sent(&all));
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Pass,
    Lose,
    Repeat,
    /// One bit, anywhere.
    Damage(u16),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Pass),
        1 => Just(Fate::Lose),
        1 => Just(Fate::Repeat),
        2 => (0u16..384).prop_map(Fate::Damage),
    ]
}

fn some_packets() -> impl Strategy<Value = Vec<(Owned, bool)>> {
    proptest::collection::vec((1usize..=64, any::<u8>()), 1..80).prop_map(|sizes| {
        sizes.into_iter().enumerate().map(|(n, (octets, flush))| (packet(n, octets), flush < 20)).collect()
    })
}

/// Whether a packet came as it was sent, but for so many bits of its payload.
fn like((cid, uui, payload): &Owned, (cid2, uui2, payload2): &Owned, bits: u32) -> bool {
    let wrong = payload.iter().zip(payload2).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    (cid, uui, payload.len()) == (cid2, uui2, payload2.len()) && wrong <= bits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn packets_come_back_in_their_order_however_the_cells_are_cut(packets in some_packets()) {
        let mut s = sender();
        let cells = cells_of(&mut s, &packets);
        let mut r = receiver();
        prop_assert_eq!(run(&mut r, &cells), sent(&packets));
        prop_assert_eq!(r.counters().dropped_total(), 0);
        prop_assert_eq!(r.counters(), s.counters());
    }

    #[test]
    fn single_faults_deliver_no_packet_that_was_not_sent_and_cost_no_more_than_two_cells(
        packets in some_packets(), fate in fate(), at in any::<Index>()) {
        let cells = cells_of(&mut sender(), &packets);
        let mut input = cells.clone();
        let at = at.index(cells.len());
        match fate {
            Fate::Pass => {}
            Fate::Lose => { input.remove(at); }
            Fate::Repeat => input.insert(at, input[at]),
            Fate::Damage(bit) => input[at].payload[usize::from(bit / 8)] ^= 1 << (bit % 8),
        }
        let got = run(&mut receiver(), &input);
        for packet in &got {
            prop_assert!(packets.iter().any(|(sent, _)| like(sent, packet, 1)), "not sent: {packet:?}");
        }
        // All that lie in other cells have come: those that end before the cell, and those that start behind it and
        // behind the next one, whose start may have been needed to find the way back.
        let before = run(&mut receiver(), &cells[..at]);
        prop_assert_eq!(&got[..before.len()], &before[..]);
        let behind = run(&mut receiver(), cells.get(at + 2..).unwrap_or_default());
        prop_assert!(got.len() >= behind.len());
        prop_assert_eq!(&got[got.len() - behind.len()..], &behind[..]);
    }

    #[test]
    fn after_anything_at_all_the_next_packets_are_found(
        first in some_packets(), fates in proptest::collection::vec((fate(), any::<Index>()), 0..30), octets in proptest::collection::vec(any::<[u8; 8]>(), 0..20), next in some_packets()) {
        let mut s = sender();
        let mut input = cells_of(&mut s, &first);
        for (fate, at) in fates {
            if input.is_empty() { break }
            let at = at.index(input.len());
            match fate {
                Fate::Pass => input.swap(at, 0),
                Fate::Lose => { input.remove(at); }
                Fate::Repeat => input.insert(at, input[at]),
                Fate::Damage(bit) => input[at].payload[usize::from(bit / 8)] ^= 1 << (bit % 8),
            }
        }
        input.extend(octets.iter().map(|o| {
            let payload: Vec<u8> = o.iter().copied().cycle().take(48).collect();
            Cell::new(CellHeader::default(), payload.try_into().unwrap())
        }));
        let mut r = receiver();
        for (_, _, payload) in run(&mut r, &input) {
            prop_assert!((1..=64).contains(&payload.len()));
        }
        // The first cell may end what came before it wrongly; nothing in it is promised, all behind it is.
        let mut all = vec![(packet(0, 10), true)];
        all.extend(next);
        let got = run(&mut r, &cells_of(&mut s, &all));
        prop_assert!(got.len() + 1 >= all.len());
        prop_assert_eq!(&got[got.len() - (all.len() - 1)..], &sent(&all[1..])[..]);
    }
}
