//! The convergence sublayer of the pair: what is sent is read at its length, what lost a cell is found, and the PDUs are
//! those of `sar`.

use crate::penn::{Host, World, pattern};
use penn::driver::{Aal, Control, REASSEMBLY_TIME, TABLE, Written};
use sar::SduMeta;
use sar::aal34::{Event, Reassembler, ReassemblyConfig, Sender, Slots};
use std::time::Duration;
use wire::{Cell, CircuitId, DropReason, Time};

const VCI: u16 = 0x8007;
const TICK: Duration = crate::penn::TICK;

/// The cells of one SDU.
fn cells_of(host: &mut Host, file: usize, sdu: &[u8], now: &mut Time) -> Vec<Cell> {
    assert_eq!(host.write(file, sdu, *now), Written::Done);
    let mut cells = Vec::new();
    let mut cell = [Cell::default()];
    while let Some(at) = host.segmenter.poll_timeout() {
        *now = at.max(*now);
        host.segmenter.fill(&mut cell, &mut host.memory, *now);
        cells.push(cell[0]);
        // An AAL5 PDU's last cell is a transfer of its own.
        let at = *now;
        host.with(|driver, cards| driver.handle_timeout(cards, at));
    }
    cells
}

/// Cells come, and the clock ticks: what the reader gets.
fn read_after(host: &mut Host, file: usize, cells: &[Cell], now: &mut Time) -> Vec<Vec<u8>> {
    host.reassembler.handle_cells(cells, *now);
    let until = *now + 2 * TICK;
    while *now < until {
        let next = host.with(|driver, cards| driver.poll_timeout(cards));
        *now = next.max(*now);
        host.reassembler.run(&mut host.memory, 64, *now);
        let at = *now;
        host.with(|driver, cards| driver.handle_timeout(cards, at));
    }
    let mut buffer = vec![0; 70_000];
    std::iter::from_fn(|| host.driver.read(file, &mut buffer).unwrap().map(|n| buffer[..n].to_vec())).collect()
}

/// A sender and a receiver with a circuit.
fn pair(vci: u16, aal: Aal) -> ([Host; 2], [usize; 2]) {
    let mut hosts = [Host::new(), Host::new()];
    let files = [0, 1].map(|n| hosts[n].open(vci, Time::ZERO));
    for (host, file) in hosts.iter_mut().zip(files) {
        if vci & 0x8000 == 0 {
            host.driver.control(file, Control::Aal(aal), Time::ZERO).unwrap();
        }
    }
    (hosts, files)
}

#[test]
fn an_sdu_of_any_length_is_read_at_its_length() {
    for (vci, aal) in [(VCI, Aal::Bare), (100, Aal::Aal5)] {
        let ([mut from, mut to], [writer, reader]) = pair(vci, aal);
        let (mut now, mut then) = (Time::ZERO, Time::ZERO);
        for octets in (1..150).chain([1000, 9180, 65_000]) {
            let sdu = pattern(octets, octets as u8);
            let cells = cells_of(&mut from, writer, &sdu, &mut now);
            let got = read_after(&mut to, reader, &cells, &mut then);
            assert!(got == [sdu], "{octets} octets of {aal:?}");
        }
        assert_eq!(to.driver.statistics.lost_pdus, 0);
    }
}

/// B-6: numbers are made and not looked at; what is lost shows in the length.
#[test]
fn every_single_lost_cell_of_a_pdu_is_found_at_each_place_of_each_length() {
    for (vci, aal) in [(VCI, Aal::Bare), (100, Aal::Aal5)] {
        let ([mut from, mut to], [writer, reader]) = pair(vci, aal);
        let (mut now, mut then) = (Time::ZERO, Time::ZERO);
        for octets in [1, 36, 37, 40, 45, 80, 81, 84, 85, 130, 300, 44 * 10, 48 * 10, 44 * 34] {
            let sdu = pattern(octets, octets as u8);
            let count = cells_of(&mut from, writer, &sdu, &mut now).len();
            for lost in 0..count {
                let mut cells = cells_of(&mut from, writer, &sdu, &mut now);
                cells.remove(lost);
                let next = pattern(77, lost as u8);
                let behind = cells_of(&mut from, writer, &next, &mut now);
                let third = cells_of(&mut from, writer, &sdu, &mut now);
                let before = to.driver.statistics.lost_pdus;
                let got = read_after(&mut to, reader, &[cells, behind, third].concat(), &mut then);
                // Where the end was lost, the next PDU has no beginning of its own; a PDU of one cell leaves no trace.
                let last = lost + 1 == count && count > 1;
                let expected = if last { vec![sdu.clone()] } else { vec![next, sdu.clone()] };
                assert!(got == expected, "{octets} octets, cell {lost} of {count} lost, {aal:?}");
                let found = to.driver.statistics.lost_pdus - before;
                assert_eq!(found, u64::from(count > 1), "{octets} octets, cell {lost} of {count}");
            }
        }
        assert_eq!(to.driver.counters().dropped(DropReason::Length), to.driver.statistics.lost_pdus);
        assert!(to.driver.statistics.lost_pdus > 50);
        assert_eq!(to.reassembler.counters().dropped_total(), 0, "the cards look at no number");
    }
}

#[test]
fn sixteen_cells_that_sequence_numbers_would_not_miss_are_missed_by_the_length() {
    let ([mut from, mut to], [writer, reader]) = pair(VCI, Aal::Bare);
    let (mut now, mut then) = (Time::ZERO, Time::ZERO);
    let mut cells = cells_of(&mut from, writer, &pattern(44 * 40, 1), &mut now);
    let sequence = |cell: &Cell| cell.payload[0] >> 2 & 15;
    assert!(cells.iter().map(sequence).eq((0..41).map(|n| n % 16)), "numbers are made");
    cells.drain(5..21);
    assert!(read_after(&mut to, reader, &cells, &mut then).is_empty());
    assert_eq!(to.driver.counters().dropped(DropReason::Length), 1);
}

#[test]
fn what_the_card_sends_the_standard_reassembler_takes() {
    let mut host = Host::new();
    let file = host.open(VCI, Time::ZERO);
    let circuit = CircuitId::new(0, VCI).unwrap();
    let mut now = Time::ZERO;
    let mut memory = vec![0; 66_000];
    let mut slots = Slots::new(&mut memory, 66_000);
    let config = ReassemblyConfig { max_sdu_octets: 65_535, ..ReassemblyConfig::default() };
    let mut standard = Reassembler::new(config);
    for octets in [1, 4, 37, 40, 45, 1000, 9180, 65_000] {
        let sdu = pattern(octets, 3);
        let cells = cells_of(&mut host, file, &sdu, &mut now);
        assert!(cells.iter().all(|cell| cell.circuit() == circuit));
        let step = standard.push(&cells, &mut slots, now);
        let Event::Complete { slot, mid: 0, sdu_octets, .. } = step.event else { panic!("{octets}: {:?}", step.event) };
        assert_eq!((step.cells_used, sdu_octets), (cells.len(), octets));
        assert!(slots.slot(slot)[..octets] == sdu[..]);
    }
}

#[test]
fn what_the_standard_sender_sends_the_card_takes_up_to_the_longest_sdu() {
    let ([_, mut to], [_, reader]) = pair(VCI, Aal::Bare);
    let mut sender = Sender::new(CircuitId::new(0, VCI).unwrap(), 5).unwrap();
    let mut then = Time::ZERO;
    for octets in [1, 4, 37, 40, 45, 1000, 9180, 65_516, 65_535] {
        let sdu = pattern(octets, 3);
        let mut segmentation = sender.begin(octets, SduMeta::default()).unwrap();
        let mut cells = vec![Cell::default(); sar::aal34::cells(octets)];
        assert_eq!(segmentation.fill(&sdu, &mut cells), cells.len());
        assert!(read_after(&mut to, reader, &cells, &mut then) == [sdu], "{octets} octets");
    }
    assert_eq!(to.reassembler.entries(), 0);
}

#[test]
fn aal5_of_the_card_and_of_the_standard_engine_are_one() {
    let ([mut from, mut to], [writer, reader]) = pair(100, Aal::Aal5);
    let circuit = CircuitId::new(0, 100).unwrap();
    let (mut now, mut then) = (Time::ZERO, Time::ZERO);
    let mut standard = sar::Reassembler::<wire::Counters>::new(sar::ReassemblyConfig::default());
    for octets in [1, 40, 41, 48, 1500, 9180] {
        let sdu = pattern(octets, 7);
        let cells = cells_of(&mut from, writer, &sdu, &mut now);
        let mut buffer = vec![0; 10_000];
        let step = standard.push(&cells, &mut buffer, now);
        assert!(matches!(step.event, sar::Event::Complete { .. }), "{octets}: {:?}", step.event);
        assert!(buffer[..octets] == sdu[..]);
        let mut segmentation = sar::Segmentation::new(circuit, octets, SduMeta::default()).unwrap();
        let mut theirs = vec![Cell::default(); cells.len()];
        assert_eq!(segmentation.fill(&sdu, &mut theirs), cells.len());
        assert_eq!(cells, theirs, "{octets} octets");
        assert!(read_after(&mut to, reader, &theirs, &mut then) == [sdu]);
    }
}

#[test]
fn a_pdu_whose_end_never_comes_gives_its_list_back_after_a_time() {
    let ([mut from, mut to], [writer, reader]) = pair(VCI, Aal::Bare);
    let (mut now, mut then) = (Time::ZERO, Time::ZERO);
    let mut cells = cells_of(&mut from, writer, &pattern(1000, 1), &mut now);
    cells.pop();
    assert!(read_after(&mut to, reader, &cells, &mut then).is_empty());
    assert_eq!((to.reassembler.entries(), to.reassembler.free_slots()), (1, 8192 - cells.len()));
    let until = then + REASSEMBLY_TIME + 2 * TICK;
    while then < until {
        assert!(read_after(&mut to, reader, &[], &mut then).is_empty());
    }
    assert_eq!((to.reassembler.entries(), to.reassembler.free_slots()), (0, 8192));
    assert_eq!(to.driver.counters().dropped(DropReason::Timeout), 1);
}

#[test]
fn pdus_beyond_the_table_are_counted_by_their_reason() {
    let mut world = World::new();
    let writer = world.hosts[0].open(0x8009, Time::ZERO);
    world.hosts[1].open(0x8009, Time::ZERO);
    for n in 0..TABLE + 4 {
        let now = world.now;
        assert_eq!(world.hosts[0].write(writer, &[n as u8; 40], now), Written::Done);
        world.run_for(TICK);
    }
    world.run_for(4 * TICK);
    let driver = &world.hosts[1].driver;
    assert_eq!((driver.counters().dropped(DropReason::TableFull), driver.counters().pdus), (4, TABLE as u64));
}
