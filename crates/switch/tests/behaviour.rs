//! What a switch does, case by case: translation, multipoint, discard, transactions, OAM.

use switch::{ChangeError, Flow, Outputs, Profile, Progress, Switch, SwitchConfig, Transaction};
use wire::oam::{Function, Location, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time, Vpi};

const NOW: Time = Time::ZERO;

fn vc(vpi: u16, vci: u16) -> Label {
    Label::Vc(CircuitId::new(vpi, vci).unwrap())
}

fn vp(vpi: u16) -> Label {
    Label::Vp(Vpi::new(vpi).unwrap())
}

fn cell(label: Label, end: bool, mark: u8) -> Cell {
    let Label::Vc(circuit) = label else { panic!("cells are of channels") };
    let payload_type = PayloadType::User { congestion: false, end };
    Cell::new(CellHeader { circuit, payload_type, clp: false }, [mark; 48])
}

fn switch() -> Switch {
    Switch::new(SwitchConfig {
        ports: 4,
        circuits: 16,
        index_pages: 64,
        queue_cells: 100,
        credit_cells: 50,
        control_cells: 4,
        ..SwitchConfig::default()
    })
}

/// PDUs of up to ten cells, a queue of forty.
fn short() -> Profile {
    Profile { queue_cells: 40, pdu_cells: Some(10), ..Profile::default() }
}

fn add(switch: &mut Switch, from: (u16, Label), to: (u16, Label), profile: &Profile) {
    let mut change = Transaction::new();
    change.add(from, to, profile);
    switch.apply(change).unwrap();
}

fn take(switch: &mut Switch, port: u16) -> Vec<Cell> {
    let mut out = [Cell::default(); 500];
    let n = switch.poll_transmit(port, &mut out, NOW);
    out[..n].to_vec()
}

fn marks(cells: &[Cell]) -> Vec<u8> {
    cells.iter().map(|cell| cell.payload[0]).collect()
}

/// Links with room for so many cells each.
#[derive(Default)]
struct Links(Vec<Vec<Cell>>, Vec<Cell>, usize);

impl Links {
    fn with_room(cells: usize) -> Self {
        Links(vec![Vec::new(); 4], vec![Cell::default(); cells], cells)
    }
}

impl Outputs for Links {
    fn slots(&mut self, port: u16) -> &mut [Cell] {
        let room = self.2 - self.0[usize::from(port)].len();
        &mut self.1[..room]
    }

    fn commit(&mut self, port: u16, n: usize) {
        self.0[usize::from(port)].extend_from_slice(&self.1[..n]);
    }
}

#[test]
fn a_channel_goes_before_the_path_that_it_is_in_and_a_path_keeps_its_channels() {
    let mut switch = switch();
    add(&mut switch, (0, vp(7)), (1, vp(9)), &short());
    add(&mut switch, (0, vc(7, 100)), (2, vc(1, 33)), &short());
    switch.handle_cells(
        0,
        &[cell(vc(7, 99), true, 1), cell(vc(7, 100), true, 2), cell(vc(8, 99), true, 3)],
        NOW,
        &mut (),
    );
    let (path, channel) = (take(&mut switch, 1), take(&mut switch, 2));
    assert_eq!((path[0].circuit(), path.len()), (CircuitId::new(9, 99).unwrap(), 1));
    assert_eq!((channel[0].circuit(), channel.len()), (CircuitId::new(1, 33).unwrap(), 1));
    assert_eq!(channel[0].header().payload_type, PayloadType::User { congestion: false, end: true });
    assert_eq!(switch.port_counters(0).received.dropped(DropReason::UnknownCircuit), 1);
}

#[test]
fn cells_pass_at_once_while_nothing_waits_and_the_link_has_room() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    let mut links = Links::with_room(2);
    let cells: Vec<Cell> = (0..4).map(|i| cell(vc(0, 50), false, i)).collect();
    switch.handle_cells(0, &cells, NOW, &mut links);
    assert_eq!(marks(&links.0[1]), [0, 1]);
    // A link with room again is of no use to cells behind others that wait.
    links.2 = 10;
    switch.handle_cells(0, &[cell(vc(0, 50), true, 4)], NOW, &mut links);
    assert_eq!(links.0[1].len(), 2);
    assert_eq!(marks(&take(&mut switch, 1)), [2, 3, 4]);
    assert_eq!(switch.route((0, vc(0, 50))).unwrap().counters.sent(), 5);
}

#[test]
fn waiting_circuits_take_turns_by_their_weight() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 50)), &short());
    add(&mut switch, (0, vc(0, 60)), (1, vc(0, 60)), &Profile { weight: 2, ..short() });
    let of = |vci: u16, mark: u8| cell(vc(0, vci), true, mark);
    let cells: Vec<Cell> = (0..4).map(|i| of(50, i)).chain((10..14).map(|i| of(60, i))).collect();
    switch.handle_cells(0, &cells, NOW, &mut ());
    let mut out = [Cell::default(); 2];
    assert_eq!(switch.poll_transmit(1, &mut out, NOW), 2);
    assert_eq!(marks(&out), [0, 10]);
    // A turn that the link cut short goes on.
    assert_eq!(marks(&take(&mut switch, 1)), [11, 1, 12, 13, 2, 3]);
}

#[test]
fn a_pdu_for_which_a_queue_has_no_room_is_dropped_whole() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    // Eight PDUs of five cells: the fifth and sixth find less than ten places, the longest PDU's, in the circuit's queue.
    for pdu in 0..8 {
        let cells: Vec<Cell> = (0..5).map(|i| cell(vc(0, 50), i == 4, pdu)).collect();
        switch.handle_cells(0, &cells, NOW, &mut ());
    }
    let sent = take(&mut switch, 1);
    assert_eq!(marks(&sent), [0, 1, 2, 3, 4, 5, 6].map(|pdu| [pdu; 5]).concat());
    assert_eq!(switch.port_counters(1).sent.dropped(DropReason::EarlyDiscard), 5);
    assert_eq!(switch.route((0, vc(0, 50))).unwrap().counters.dropped, 5);
}

#[test]
fn a_leaf_that_joins_within_a_pdu_begins_with_the_next_one() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    switch.handle_cells(0, &[cell(vc(0, 50), false, 1)], NOW, &mut ());
    add(&mut switch, (0, vc(0, 50)), (2, vc(0, 52)), &short());
    switch.handle_cells(0, &[cell(vc(0, 50), false, 2), cell(vc(0, 50), true, 3)], NOW, &mut ());
    switch.handle_cells(0, &[cell(vc(0, 50), false, 4), cell(vc(0, 50), true, 5)], NOW, &mut ());
    assert_eq!(marks(&take(&mut switch, 1)), [1, 2, 3, 4, 5]);
    assert_eq!(marks(&take(&mut switch, 2)), [4, 5]);
    assert_eq!(switch.circuits(), 3);
}

#[test]
fn a_leaf_that_leaves_ends_the_pdu_that_it_sent_in_part_with_an_abort() {
    let mut switch = switch();
    let from = (0, vc(0, 50));
    for port in 1..4 {
        add(&mut switch, from, (port, vc(0, 50 + port)), &short());
    }
    switch.handle_cells(0, &[cell(vc(0, 50), false, 1), cell(vc(0, 50), false, 2)], NOW, &mut ());
    let mut out = [Cell::default(); 1];
    assert_eq!(switch.poll_transmit(2, &mut out, NOW), 1);
    let mut change = Transaction::new();
    change.remove_leaf(from, (2, vc(0, 52)));
    change.remove_leaf(from, (3, vc(0, 53)));
    switch.apply(change).unwrap();
    let aborted = take(&mut switch, 2);
    assert_eq!(aborted.len(), 1);
    assert_eq!(aborted[0].circuit(), CircuitId::new(0, 52).unwrap());
    assert!(matches!(aborted[0].header().payload_type, PayloadType::User { end: true, .. }));
    assert_eq!(aborted[0].payload, [0; 48]);
    // Nothing of the PDU had left by port 3.
    assert!(take(&mut switch, 3).is_empty());
    assert_eq!(switch.port_counters(2).sent.dropped(DropReason::Closed), 1);
    assert_eq!(switch.port_counters(3).sent.dropped(DropReason::Closed), 2);
    assert_eq!(marks(&take(&mut switch, 1)), [1, 2]);
}

#[test]
fn a_transaction_that_cannot_be_made_whole_changes_nothing() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    let before: Vec<_> = switch.routes(0).collect();
    let mut change = Transaction::new();
    change.remove((0, vc(0, 50)));
    for vci in 100..115 {
        change.add((0, vc(0, vci)), (1, vc(0, vci)), &short());
    }
    change.add((0, vc(0, 115)), (1, vc(0, 115)), &short());
    let failed = switch.apply(change.clone()).unwrap_err();
    assert_eq!((failed.index, failed.error), (16, ChangeError::Full(16)));
    assert_eq!(switch.routes(0).collect::<Vec<_>>(), before);
    assert_eq!(switch.circuits(), 1);
    // One circuit less fits, in slices, and cells pass meanwhile.
    let mut change = Transaction::new();
    for vci in 100..115 {
        change.add((0, vc(0, vci)), (1, vc(0, vci)), &short());
    }
    switch.begin(change).unwrap();
    while switch.advance(1).unwrap() == Progress::More {
        switch.handle_cells(0, &[cell(vc(0, 50), true, 1)], NOW, &mut ());
        assert_eq!(take(&mut switch, 1).len(), 1);
    }
    assert_eq!(switch.circuits(), 16);
}

#[test]
fn a_change_that_makes_no_sense_is_refused_with_its_reason() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    let window = Profile { flow: Flow::Credit { window: 8 }, ..short() };
    let refused = |switch: &mut Switch, from, to, profile: &Profile| {
        let mut change = Transaction::new();
        change.add(from, to, profile);
        switch.apply(change).unwrap_err().error
    };
    assert_eq!(refused(&mut switch, (9, vc(0, 1)), (1, vc(0, 1)), &short()), ChangeError::NoPort(9));
    assert_eq!(refused(&mut switch, (0, vc(0, 1)), (1, vp(0)), &short()), ChangeError::Mixed);
    let again = refused(&mut switch, (0, vc(0, 50)), (1, vc(0, 51)), &short());
    assert_eq!(again, ChangeError::Exists(1, vc(0, 51)));
    assert_eq!(refused(&mut switch, (0, vc(0, 1)), (1, vc(0, 1)), &window), ChangeError::NoCredit(0));
    switch.set_credit(0, true);
    switch.set_credit(1, true);
    assert_eq!(refused(&mut switch, (0, vc(0, 50)), (1, vc(0, 1)), &window), ChangeError::CreditMultipoint);
    let wide = Profile { flow: Flow::Credit { window: 51 }, ..short() };
    assert_eq!(refused(&mut switch, (0, vc(0, 1)), (1, vc(0, 1)), &wide), ChangeError::NoWindow(51));
    let long = Profile { pdu_cells: Some(41), ..short() };
    let error = ChangeError::QueueTooShort { queue_cells: 40, pdu_cells: 41 };
    assert_eq!(refused(&mut switch, (0, vc(0, 1)), (1, vc(0, 1)), &long), error);
    let mut change = Transaction::new();
    change.remove((0, vc(0, 1)));
    assert_eq!(switch.apply(change).unwrap_err().error, ChangeError::NotFound(0, vc(0, 1)));
    assert_eq!(switch.circuits(), 1);
}

#[test]
fn a_loopback_cell_of_the_segment_is_answered() {
    let mut switch = switch();
    add(&mut switch, (0, vc(3, 50)), (1, vc(0, 51)), &short());
    let request = |circuit, payload_type| {
        let header = CellHeader { circuit, payload_type, clp: false };
        Cell::new(header, Function::Loopback(Loopback::request(77)).emit())
    };
    let channel = CircuitId::new(3, 50).unwrap();
    let path = CircuitId::new(3, 3).unwrap();
    let cells = [request(channel, PayloadType::OamSegment), request(path, PayloadType::default())];
    switch.handle_cells(0, &cells, NOW, &mut ());
    let answers = take(&mut switch, 0);
    assert_eq!(answers.iter().map(Cell::circuit).collect::<Vec<_>>(), [channel, path]);
    for answer in answers {
        let returned = Function::Loopback(Loopback { request: false, ..Loopback::request(77) });
        assert_eq!(Function::parse(&answer.payload), Ok(returned));
    }
    // The end-to-end flow passes.
    switch.handle_cells(0, &[request(channel, PayloadType::OamEndToEnd)], NOW, &mut ());
    assert_eq!(take(&mut switch, 1).len(), 1);
}

#[test]
fn a_named_switch_answers_for_itself_on_end_to_end_flows() {
    let mut switch = switch();
    let name = Location::named("s1");
    switch.set_location(name);
    add(&mut switch, (0, vc(3, 50)), (1, vc(0, 51)), &short());
    let channel = CircuitId::new(3, 50).unwrap();
    let request = |location| {
        let header = CellHeader { circuit: channel, payload_type: PayloadType::OamEndToEnd, clp: false };
        let loopback = Loopback { location, ..Loopback::request(77) };
        (header, loopback, Cell::new(header, Function::Loopback(loopback).emit()))
    };
    let returned = |header, loopback: Loopback| {
        Cell::new(header, Function::Loopback(Loopback { request: false, location: name.unwrap(), ..loopback }).emit())
    };
    // For every point: answered, and passed on as it came.
    let (header, loopback, cell) = request(Location::EVERY_POINT);
    switch.handle_cells(0, &[cell], NOW, &mut ());
    assert_eq!(take(&mut switch, 0), [returned(header, loopback)]);
    let passed = take(&mut switch, 1);
    assert_eq!((passed.len(), passed[0].payload), (1, cell.payload));
    // For this one: turned round.
    let (header, loopback, cell) = request(name.unwrap());
    switch.handle_cells(0, &[cell], NOW, &mut ());
    assert_eq!(take(&mut switch, 0), [returned(header, loopback)]);
    assert!(take(&mut switch, 1).is_empty());
    // For the end, for another, an answer under way, a damaged one: passed on.
    let mut damaged = request(Location::EVERY_POINT).2;
    damaged.payload[20] ^= 1;
    let answer = returned(header, loopback);
    for cell in [request(Location::END_POINT).2, request(Location::named("s2").unwrap()).2, answer, damaged] {
        switch.handle_cells(0, &[cell], NOW, &mut ());
        assert_eq!((take(&mut switch, 0).len(), take(&mut switch, 1).len()), (0, 1));
    }
}

#[test]
fn a_path_s_switch_is_no_point_of_the_channels_in_it() {
    let mut switch = switch();
    switch.set_location(Location::named("s1"));
    let path = |vpi| Label::Vp(Vpi::new(vpi).unwrap());
    add(&mut switch, (0, path(3)), (1, path(4)), &short());
    let request = |vci, payload_type| {
        let header = CellHeader { circuit: CircuitId::new(3, vci).unwrap(), payload_type, clp: false };
        let loopback = Loopback { location: Location::EVERY_POINT, ..Loopback::request(77) };
        Cell::new(header, Function::Loopback(loopback).emit())
    };
    switch.handle_cells(0, &[request(50, PayloadType::OamEndToEnd)], NOW, &mut ());
    assert_eq!((take(&mut switch, 0).len(), take(&mut switch, 1).len()), (0, 1));
    switch.handle_cells(0, &[request(4, PayloadType::default())], NOW, &mut ());
    assert_eq!((take(&mut switch, 0).len(), take(&mut switch, 1).len()), (1, 1));
}

#[test]
fn other_bounds_keep_what_is_queued_and_counted() {
    let mut switch = switch();
    add(&mut switch, (0, vc(0, 50)), (3, vc(0, 51)), &short());
    switch.handle_cells(0, &[cell(vc(0, 50), true, 1), cell(vc(0, 50), true, 2)], NOW, &mut ());
    let counted = (switch.port_counters(0), switch.routes(0).next().unwrap());
    assert_eq!(switch.set_bounds(3, 16), Err(ChangeError::NoPort(3)));
    assert_eq!(switch.set_bounds(4, 0), Err(ChangeError::Full(0)));
    for (ports, circuits) in [(9, 40), (4, 1)] {
        switch.set_bounds(ports, circuits).unwrap();
        assert_eq!((switch.port_counters(0), switch.routes(0).next().unwrap()), counted);
        assert_eq!(switch.store_cells(), switch.config().store_cells());
    }
    // One circuit is all there may be now; a new port takes part once the bounds allow it.
    let mut second = Transaction::new();
    second.add((3, vc(0, 60)), (8, vc(0, 61)), &short());
    assert_eq!(switch.apply(second.clone()).unwrap_err().error, ChangeError::NoPort(8));
    switch.set_bounds(9, 1).unwrap();
    // New ports are down.
    switch.set_up(8, true);
    assert_eq!(switch.apply(second.clone()).unwrap_err().error, ChangeError::Full(1));
    switch.set_bounds(9, 2).unwrap();
    switch.apply(second).unwrap();
    switch.handle_cells(3, &[cell(vc(0, 60), true, 3)], NOW, &mut ());
    assert_eq!((marks(&take(&mut switch, 3)), marks(&take(&mut switch, 8))), (vec![1, 2], vec![3]));
}
