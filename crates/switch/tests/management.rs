//! OAM cells at a full output: they have room of their own, in which nobody takes the places of others, and data keeps its own.

use std::collections::BTreeMap;
use switch::oam::{EndPoint, PointConfig};
use switch::{Profile, Switch, SwitchConfig, Transaction};
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time, Vci, Vpi};

const QUEUE: u32 = 400;
const INNOCENT: u16 = 1000;
const FORGER: u16 = 9000;

fn vc(vci: u16) -> Label {
    Label::Vc(CircuitId::new(0, vci).unwrap())
}

/// Everything goes from port 0 to port 1.
fn switch(labels: impl IntoIterator<Item = Label>, profile: Profile) -> Switch {
    let config = SwitchConfig { ports: 2, circuits: 9000, queue_cells: QUEUE, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    let mut change = Transaction::new();
    for label in labels {
        change.add((0, label), (1, label), &profile);
    }
    switch.apply(change).unwrap();
    switch
}

fn cells() -> Profile {
    Profile { pdu_cells: None, queue_cells: 400, ..Profile::default() }
}

fn user(vci: u16, number: u32) -> Cell {
    let mut payload = [0; 48];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let circuit = CircuitId::new(0, vci).unwrap();
    Cell::new(CellHeader { circuit, ..CellHeader::default() }, payload)
}

fn oam(vci: u16) -> Cell {
    let circuit = CircuitId::new(0, vci).unwrap();
    let header = Flow::F5EndToEnd.header(CellHeader { circuit, ..CellHeader::default() });
    Cell::new(header, Function::ContinuityCheck.emit())
}

fn is_user(cell: &Cell) -> bool {
    matches!(cell.header().payload_type, PayloadType::User { .. })
}

fn take(switch: &mut Switch, n: usize) -> Vec<Cell> {
    let mut out = vec![Cell::default(); n];
    let n = switch.poll_transmit(1, &mut out, Time::ZERO);
    out.truncate(n);
    out
}

#[test]
fn oam_of_a_thousand_circuits_passes_an_output_whose_queue_is_full_of_data_for_ever_and_keeps_its_place_among_data() {
    let circuits: Vec<u16> = (100..100 + INNOCENT).collect();
    let mut switch = switch(circuits.iter().map(|vci| vc(*vci)), cells());
    let (mut number, mut got) = (0, BTreeMap::<u16, Vec<Cell>>::new());
    let mut before = BTreeMap::new();
    let mut full = |switch: &mut Switch| {
        // Twice the queue, spread over all circuits.
        for _ in 0..2 * QUEUE {
            number += 1;
            switch.handle_cells(
                0,
                &[user(circuits[(number * 7) as usize % circuits.len()], number)],
                Time::ZERO,
                &mut (),
            );
        }
        number
    };
    full(&mut switch);
    for vci in &circuits {
        before.insert(*vci, full_mark(&switch, *vci));
        switch.handle_cells(0, &[oam(*vci)], Time::ZERO, &mut ());
    }
    for _ in 0..200 {
        full(&mut switch);
        for cell in take(&mut switch, 40) {
            got.entry(cell.circuit().vci.get()).or_default().push(cell);
        }
    }
    assert_eq!(switch.port_counters(1).sent.dropped(DropReason::ManagementFull), 0);
    assert!(switch.port_counters(1).sent.dropped(DropReason::QueueFull) > 100_000);
    for vci in &circuits {
        let cells = &got[vci];
        let place = cells.iter().position(|cell| !is_user(cell)).expect("an OAM cell was lost to data");
        assert_eq!(place as u64, before[vci], "an OAM cell of {vci} has overtaken data, or data it");
        assert_eq!(cells.iter().filter(|cell| !is_user(cell)).count(), 1);
    }
}

/// Cells that a circuit has in the queue.
fn full_mark(switch: &Switch, vci: u16) -> u64 {
    switch.route((0, vc(vci))).unwrap().counters.queued.into()
}

#[test]
fn a_flood_of_forged_oam_cells_takes_nothing_from_oam_and_data_of_others() {
    let innocent: Vec<u16> = (100..100 + INNOCENT).collect();
    let run = |flood: usize| {
        let labels = innocent.iter().map(|vci| vc(*vci)).chain((0..60).map(|n| vc(FORGER + n)));
        let mut switch = switch(labels, cells());
        let mut passed = BTreeMap::<u16, Vec<Cell>>::new();
        let mut number = 0;
        for round in 0..20 {
            let forged: Vec<Cell> = (0..flood).map(|n| oam(FORGER + (n % 60) as u16)).collect();
            switch.handle_cells(0, &forged, Time::ZERO, &mut ());
            // Data by far more than there is room for, and three OAM cells of each circuit.
            for vci in innocent.iter().filter(|vci| *vci % 20 == round % 20).cycle().take(3 * 50) {
                let data: Vec<Cell> = (0..10).map(|n| user(*vci, number + n)).collect();
                number += 10;
                switch.handle_cells(0, &data, Time::ZERO, &mut ());
                switch.handle_cells(0, &[oam(*vci)], Time::ZERO, &mut ());
            }
            loop {
                let out = take(&mut switch, 4096);
                if out.is_empty() {
                    break;
                }
                for cell in out.into_iter().filter(|cell| cell.circuit().vci.get() < FORGER) {
                    passed.entry(cell.circuit().vci.get()).or_default().push(cell);
                }
            }
        }
        let counters = switch.port_counters(1).sent;
        (passed, counters.dropped(DropReason::QueueFull), counters.dropped(DropReason::ManagementFull))
    };
    let (calm, flooded) = (run(0), run(60_000));
    assert_eq!(calm.2, 0);
    assert!(flooded.2 > 20 * 50_000, "{} forged cells had no room", flooded.2);
    assert!(calm.1 > 0, "there was room for all data");
    assert_eq!((calm.1, calm.0.len()), (flooded.1, flooded.0.len()));
    let oam_of = |cells: &[Cell]| cells.iter().filter(|cell| !is_user(cell)).count();
    assert!(calm.0.values().all(|cells| oam_of(cells) == 3));
    assert!(calm.0 == flooded.0, "others' cells are not those that pass without the flood");
}

#[test]
fn forged_loopback_requests_leave_room_for_the_answers_of_others_and_for_ends_of_pdus() {
    let pdus = Profile { pdu_cells: Some(10), queue_cells: 40, ..Profile::default() };
    let mut switch = switch((100..300).chain([FORGER]).map(vc), pdus);
    let mut change = Transaction::new();
    change.add((1, vc(50)), (0, vc(50)), &pdus);
    switch.apply(change).unwrap();
    // A PDU that has begun to leave by port 0.
    switch.handle_cells(1, &[user(50, 1)], Time::ZERO, &mut ());
    let mut out = [Cell::default(); 400];
    assert_eq!(switch.poll_transmit(0, &mut out, Time::ZERO), 1);
    let request = |vci, tag| {
        let header = CellHeader { circuit: CircuitId::new(0, vci).unwrap(), ..CellHeader::default() };
        Cell::new(Flow::F5Segment.header(header), Function::Loopback(Loopback::request(tag)).emit())
    };
    let flood: Vec<Cell> = (0..5000).map(|tag| request(FORGER, tag)).collect();
    switch.handle_cells(0, &flood, Time::ZERO, &mut ());
    (100..300).for_each(|vci| switch.handle_cells(0, &[request(vci, 7)], Time::ZERO, &mut ()));
    let mut change = Transaction::new();
    change.remove((1, vc(50)));
    switch.apply(change).unwrap();
    let n = switch.poll_transmit(0, &mut out, Time::ZERO);
    let of = |vci: u16| out[..n].iter().filter(|cell| cell.circuit().vci.get() == vci).count();
    assert_eq!((of(FORGER), of(50)), (8, 1));
    assert!((100..300).all(|vci| of(vci) == 1));
    assert_eq!(switch.port_counters(0).sent.dropped(DropReason::ManagementFull), 5000 - 8);
}

#[test]
fn a_path_has_room_for_the_oam_of_its_channels_and_of_its_own_flows_as_a_channel_has() {
    let mut switch = switch([Label::Vp(Vpi::new(0).unwrap()), Label::Vp(Vpi::new(1).unwrap())], cells());
    let other = Cell::new(CellHeader { circuit: CircuitId::new(1, 77).unwrap(), ..CellHeader::default() }, [0; 48]);
    switch.handle_cells(0, &[other; 500], Time::ZERO, &mut ());
    let dropped = |switch: &Switch, reason| switch.port_counters(1).sent.dropped(reason);
    assert_eq!(dropped(&switch, DropReason::QueueFull), 100);
    let circuit = CircuitId { vpi: Vpi::new(0).unwrap(), vci: Vci::F4_END_TO_END };
    let f4 = Cell::new(CellHeader { circuit, ..CellHeader::default() }, Function::ContinuityCheck.emit());
    let all: Vec<Cell> = (0..200).flat_map(|_| [f4, oam(50)]).collect();
    switch.handle_cells(0, &all, Time::ZERO, &mut ());
    // Further cells of one circuit leave the room for such 15/16 free: 4096 (1 - 1/17) + 1.
    let kept = 400 - dropped(&switch, DropReason::ManagementFull);
    let route = switch.route((0, Label::Vp(Vpi::new(0).unwrap()))).unwrap();
    assert_eq!((route.counters.dropped, route.counters.queued.into()), (400 - kept, kept));
    assert_eq!((kept, dropped(&switch, DropReason::QueueFull)), (241, 100));
    assert_eq!(switch.queued_at(1), 400 + kept as usize);
    let out = take(&mut switch, 1000);
    assert_eq!(out.iter().filter(|cell| cell.circuit().vpi.get() == 0).count() as u64, kept);
    assert_eq!((out.len(), switch.queued_at(1), switch.queued()), (400 + kept as usize, 0, 0));
}

#[test]
fn a_cell_of_resource_management_in_a_paths_oam_channel_takes_room_of_data() {
    let mut switch = switch([Label::Vp(Vpi::new(0).unwrap())], cells());
    let circuit = CircuitId { vpi: Vpi::new(0).unwrap(), vci: Vci::F4_END_TO_END };
    let mut cell = Cell::new(CellHeader { circuit, ..CellHeader::default() }, [0; 48]);
    cell.set_header_word(cell.header_word() | 0b1100);
    switch.handle_cells(0, &[cell; 410], Time::ZERO, &mut ());
    let sent = switch.port_counters(1).sent;
    assert_eq!((sent.dropped(DropReason::QueueFull), sent.dropped(DropReason::ManagementFull)), (10, 0));
}

#[test]
fn an_oam_cell_for_an_output_that_is_down_is_dropped_for_that_reason_and_counted_with_its_circuit() {
    let mut switch = switch([vc(100)], cells());
    switch.set_up(1, false);
    switch.handle_cells(0, &[oam(100)], Time::ZERO, &mut ());
    let sent = switch.port_counters(1).sent;
    assert_eq!((sent.dropped(DropReason::LinkDown), sent.dropped_total()), (1, 1));
    assert_eq!((switch.route((0, vc(100))).unwrap().counters.dropped, switch.queued()), (1, 0));
}

#[test]
fn a_circuit_that_is_removed_leaves_its_room_for_oam_and_data_to_others() {
    let mut switch = switch([vc(200)], cells());
    for round in 1..=3 {
        let mut change = Transaction::new();
        change.add((0, vc(100)), (1, vc(100)), &cells());
        switch.apply(change).unwrap();
        switch.handle_cells(0, &[user(100, 1); 300], Time::ZERO, &mut ());
        switch.handle_cells(0, &[oam(100); 50], Time::ZERO, &mut ());
        assert_eq!(switch.queued_at(1), 350);
        let mut change = Transaction::new();
        change.remove((0, vc(100)));
        switch.apply(change).unwrap();
        let sent = switch.port_counters(1).sent;
        assert_eq!((switch.queued_at(1), sent.dropped(DropReason::Closed)), (0, 350 * round));
    }
    switch.handle_cells(0, &[user(200, 1); 400], Time::ZERO, &mut ());
    assert_eq!(switch.queued_at(1), 400);
}

#[test]
fn oam_cells_that_wait_take_nothing_of_their_circuits_bound_for_data() {
    let mut switch = switch([vc(100)], Profile { queue_cells: 100, ..cells() });
    switch.handle_cells(0, &[oam(100); 50], Time::ZERO, &mut ());
    switch.handle_cells(0, &[user(100, 1); 150], Time::ZERO, &mut ());
    let sent = switch.port_counters(1).sent;
    assert_eq!((switch.queued_at(1), sent.dropped(DropReason::QueueFull), sent.dropped_total()), (150, 50, 50));
}

#[test]
fn all_ports_may_be_full_of_data_and_of_oam_at_once() {
    let config = SwitchConfig {
        ports: 2,
        circuits: 500,
        queue_cells: 10,
        management_cells: 100,
        credit_cells: 0,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(config);
    let mut change = Transaction::new();
    for (from, to) in [(0, 1), (1, 0)] {
        (100..201).for_each(|vci| change.add((from, vc(vci)), (to, vc(vci)), &cells()));
    }
    switch.apply(change).unwrap();
    for port in [0, 1] {
        (100..201).for_each(|vci| switch.handle_cells(port, &[oam(vci)], Time::ZERO, &mut ()));
        switch.handle_cells(port, &[user(100, 1); 11], Time::ZERO, &mut ());
    }
    assert_eq!((switch.queued(), config.store_cells()), (220, 220));
    for port in [0, 1] {
        let sent = switch.port_counters(port).sent;
        assert_eq!((sent.dropped(DropReason::ManagementFull), sent.dropped(DropReason::QueueFull)), (1, 1));
    }
}

#[test]
fn monitoring_through_a_full_queue_finds_exactly_the_cells_that_the_queue_had_no_room_for() {
    let mut switch = switch([vc(100), vc(200)], Profile { queue_cells: 350, ..cells() });
    let mut ends = [0, 1].map(|_| EndPoint::new(PointConfig { name: None, sends: true, sees_cells: true }));
    ends.iter_mut().for_each(|end| end.manage_monitoring(Some(128)).unwrap());
    let flow = |function: Function| {
        let circuit = CircuitId::new(0, 100).unwrap();
        Cell::new(Flow::F5EndToEnd.header(CellHeader { circuit, ..CellHeader::default() }), function.emit())
    };
    let [source, sink] = &mut ends;
    let (mut number, mut arrived, mut dropped) = (0u32, 0, 0);
    let mut rounds = 0;
    while rounds < 400 || sink.monitoring().1.unwrap().cells < u64::from(number) {
        rounds += 1;
        // Twice what the output sends, in bursts, and data of another circuit beside it; in the end a block that finds room.
        let cells = if rounds < 400 { 128 } else { 16 };
        for _ in 0..cells {
            if let Some(monitoring) = source.take_monitoring() {
                switch.handle_cells(0, &[flow(monitoring)], Time::ZERO, &mut ());
            }
            let cell = user(100, number);
            number += 1;
            source.handle_sent(&[cell], Time::ZERO);
            switch.handle_cells(0, &[cell], Time::ZERO, &mut ());
        }
        if rounds < 400 {
            switch.handle_cells(0, &[user(200, number); 64], Time::ZERO, &mut ());
        }
        if let Some(monitoring) = source.take_monitoring() {
            switch.handle_cells(0, &[flow(monitoring)], Time::ZERO, &mut ());
        }
        for cell in take(&mut switch, 96).into_iter().filter(|cell| cell.circuit().vci.get() == 100) {
            match Function::parse(&cell.payload) {
                Ok(function) if !is_user(&cell) => assert!(sink.handle_cell(&function, Time::ZERO)),
                _ => {
                    arrived += 1;
                    sink.handle_user_cells(&[cell], Time::ZERO);
                }
            }
        }
        dropped = switch.route((0, vc(100))).unwrap().counters.dropped;
        assert!(rounds < 2000, "the last block is not judged");
    }
    let found = sink.monitoring().1.unwrap();
    assert!(dropped > 10_000, "{dropped}");
    assert_eq!((found.cells, found.lost), (number.into(), dropped));
    assert_eq!((found.misinserted, found.monitoring_lost, found.errored_blocks), (0, 0, 0));
    assert_eq!(arrived, u64::from(number) - dropped);
}

#[test]
fn f4_cells_whose_channel_becomes_another_circuits_leave_the_room_for_management_cells_and_take_that_of_data() {
    let path = Label::Vp(Vpi::new(5).unwrap());
    let mut switch = switch([path], cells());
    let cell = |vci, payload_type| {
        let circuit = CircuitId::new(5, vci).unwrap();
        Cell::new(CellHeader { circuit, payload_type, ..CellHeader::default() }, Function::ContinuityCheck.emit())
    };
    let user = PayloadType::User { congestion: false, end: false };
    for vci in [Vci::F4_SEGMENT, Vci::F4_END_TO_END] {
        // A segment's cells end here; those with a payload type of their own stay management cells.
        let (oam, f5) = (cell(vci.get(), user), cell(vci.get(), PayloadType::OamEndToEnd));
        switch.handle_cells(0, &[cell(100, user), oam, oam, f5, cell(101, user)], Time::ZERO, &mut ());
        let queued = switch.queued_at(1);
        switch.blank_channel((0, path), vci);
        assert_eq!(take(&mut switch, 100).len(), queued);
        assert!(switch.sums().add_up());
    }
    assert_eq!(switch.queued_at(1), 0);
    // All room is there again, and no more than before.
    let data: Vec<Cell> = (0..2 * QUEUE).map(|_| cell(100, user)).collect();
    switch.handle_cells(0, &data, Time::ZERO, &mut ());
    assert_eq!(take(&mut switch, 1000).len(), QUEUE as usize);
}
