//! Who has the frames of unfinished PDUs at a gateway: one sender's many circuits take none from others.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::{SduMeta, Segmentation, aal34};
use std::time::Duration;
use wire::{Cell, CircuitId, DropReason, Time};

const BUFFERS: usize = 64;
/// Frames that one port's unfinished PDUs hold at most: half as many as are free beside them.
const HELD: usize = BUFFERS / 3;
/// Two senders' links, and the frame link that both send to.
const PORTS: [Carries; 3] = [Carries::Cells, Carries::Cells, Carries::Frames];
const ALICE: usize = 0;
const EVE: usize = 1;
const EVES: std::ops::Range<u16> = 1000..1300;

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

struct World {
    network: Network,
    switch: NodeId,
    links: Vec<LinkId>,
    now: Time,
}

impl World {
    fn new(routes: &[(usize, u16)], aal: FrameAal) -> Self {
        let mut network = Network::new(FramePool::new(BUFFERS, 20_000));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let connect = |(port, carries): (usize, &Carries)| {
            let config = LinkConfig { carries: *carries, ..LinkConfig::default() };
            network.connect(End::External, End::Port(switch, port as u16), config).unwrap()
        };
        let links = PORTS.iter().enumerate().map(connect).collect();
        for (port, vci) in routes {
            let (label, options) = (Label::Vc(vc(*vci)), RouteOptions { aal, ..RouteOptions::default() });
            network
                .node_mut::<SwitchElement>(switch)
                .unwrap()
                .add_route((*port as u16, label), (2, label), options)
                .unwrap();
        }
        World { network, switch, links, now: Time::ZERO }
    }

    /// Alice's two circuits, which were there before those of Eve.
    fn of_two() -> Self {
        let eves = EVES.map(|vci| (EVE, vci));
        Self::new(&[(ALICE, 100), (ALICE, 101)].into_iter().chain(eves).collect::<Vec<_>>(), FrameAal::Aal5)
    }

    fn send(&mut self, port: usize, cells: &[Cell]) {
        self.network.external(self.links[port], self.now, |io| assert!(cells.iter().all(|cell| io.put_cell(0, cell))));
        while self.network.run(self.now) {}
        let switch = self.network.peek_node::<SwitchElement>(self.switch).unwrap();
        assert_eq!(switch.mismatch(), None);
    }

    /// The first cell of a PDU on each of Eve's circuits, two of which would be needed.
    fn begin_eves(&mut self) {
        let cells: Vec<Cell> = EVES.map(|vci| cells_of(vci)[0]).collect();
        self.send(EVE, &cells);
    }

    /// The circuits of the frames that have arrived.
    fn got(&mut self) -> Vec<u16> {
        let take = |io: &mut net::NodeIo<'_>| {
            let mut got = Vec::new();
            while let Some(frame) = io.take_frame(0) {
                got.push(frame.circuit.vci.get());
                io.pool_mut().release(frame);
            }
            got
        };
        self.network.external(self.links[2], self.now, take).unwrap()
    }

    fn held(&self) -> usize {
        self.network.pool().in_use()
    }

    fn dropped(&mut self, reason: DropReason) -> u64 {
        let switch = self.network.node_mut::<SwitchElement>(self.switch).unwrap();
        switch.routes().map(|route| route.received.dropped(reason)).sum()
    }
}

/// The two cells of a PDU.
fn cells_of(vci: u16) -> [Cell; 2] {
    let mut cells = [Cell::default(); 2];
    assert_eq!(Segmentation::new(vc(vci), 50, SduMeta::default()).unwrap().fill(&[7; 50], &mut cells), 2);
    cells
}

#[test]
fn interleaved_pdus_that_are_never_finished_hold_no_more_frames_than_other_ones() {
    let circuits = 100..116;
    let routes: Vec<_> = circuits.clone().map(|vci| (EVE, vci)).collect();
    let mut world = World::new(&routes, FrameAal::Aal34);
    for mid in 0..16 {
        for vci in circuits.clone() {
            let mut cells = [Cell::default(); 4];
            let sender = aal34::Sender::new(vc(vci), mid);
            sender.unwrap().begin(100, SduMeta::default()).unwrap().fill(&[7; 100], &mut cells);
            world.send(EVE, &cells[..1]);
        }
    }
    assert_eq!(world.held(), HELD);
    assert_eq!(world.dropped(DropReason::NoBuffer), 256 - HELD as u64);
    world.now += Duration::from_secs(10);
    world.send(EVE, &[]);
    assert_eq!((world.held(), world.dropped(DropReason::Timeout)), (0, HELD as u64));
}

#[test]
fn a_sender_of_many_unfinished_pdus_takes_no_frame_from_another_port_that_holds_fewer() {
    let mut world = World::of_two();
    let [first, last] = cells_of(100);
    world.send(ALICE, &[first]);
    world.begin_eves();
    assert_eq!(world.held(), HELD);
    world.send(ALICE, &[last]);
    assert_eq!(world.got(), [100]);
    // Eve holds as many as she may: a PDU of Alice's takes the frame of one of hers.
    world.begin_eves();
    let [first, last] = cells_of(101);
    world.send(ALICE, &[first]);
    world.begin_eves();
    world.send(ALICE, &[last]);
    assert_eq!(world.got(), [101]);
}

#[test]
fn a_sender_of_many_pdus_finishes_those_that_have_frames() {
    let mut world = World::of_two();
    world.begin_eves();
    let ends: Vec<Cell> = EVES.map(|vci| cells_of(vci)[1]).collect();
    world.send(EVE, &ends);
    assert_eq!(world.got(), EVES.take(HELD).collect::<Vec<_>>(), "PDUs push each other out");
    world.send(EVE, &[]);
    assert_eq!(world.got(), [0; 0]);
    assert!(world.dropped(DropReason::NoBuffer) > 0);
}

#[test]
fn a_pdu_whose_end_is_at_hand_takes_no_frame_from_unfinished_ones_and_is_not_refused() {
    let mut world = World::of_two();
    world.begin_eves();
    let vci = EVES.end - 1;
    // The end of the one that was refused, and two whole ones behind it.
    let cells: Vec<Cell> = [&cells_of(vci)[1..], &cells_of(vci), &cells_of(vci)].concat();
    world.send(EVE, &cells);
    assert_eq!(world.got(), [vci; 2]);
    assert_eq!(world.held(), HELD);
}

#[test]
fn an_unfinished_pdu_that_is_silent_gives_its_frame_to_another_of_its_port() {
    let mut world = World::of_two();
    world.begin_eves();
    world.now += Duration::from_millis(100);
    let vci = EVES.end - 1;
    let [first, last] = cells_of(vci);
    // The end of the one that was refused; then one in two parts.
    for cell in [last, first, last] {
        world.send(EVE, &[cell]);
    }
    assert_eq!(world.got(), [vci]);
    world.send(EVE, &cells_of(EVES.start)[1..]);
    assert_eq!(world.got(), [0; 0], "the longest silent has given its frame up");
    world.send(EVE, &cells_of(EVES.start + 1)[1..]);
    assert_eq!(world.got(), [EVES.start + 1]);
}
