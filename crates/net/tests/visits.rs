//! How much one visit of a switch does, whatever its ports have waiting, and that each port has its turn.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::SduMeta;
use wire::{Cell, CellHeader, CircuitId, DropReason, Time};

/// Cells after which a visit ends, and what it may do beyond.
const ENOUGH: u64 = 16_384;
/// Cells that a port may hand over in one visit.
const TURN: u64 = 2048;
const PORTS: u16 = 64;

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn cell(vci: u16) -> Cell {
    Cell::new(CellHeader { circuit: vc(vci), ..CellHeader::default() }, [7; 48])
}

struct World {
    network: Network,
    switch: NodeId,
    links: Vec<LinkId>,
}

impl World {
    fn new(ports: impl IntoIterator<Item = Carries>) -> Self {
        let mut network = Network::new(FramePool::new(512, 65_568));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let connect = |(carries, port): (Carries, u16)| {
            let config = LinkConfig { carries, ..LinkConfig::default() };
            network.connect(End::External, End::Port(switch, port), config).unwrap()
        };
        let links = ports.into_iter().zip(0..).map(connect).collect();
        World { network, switch, links }
    }

    fn route(&mut self, from: (u16, u16), to: (u16, u16), aal: FrameAal) {
        let (from, to) = ((from.0, Label::Vc(vc(from.1))), (to.0, Label::Vc(vc(to.1))));
        let switch = self.network.node_mut::<SwitchElement>(self.switch).unwrap();
        switch.add_route(from, to, RouteOptions { aal, ..RouteOptions::default() }).unwrap();
    }

    fn send(&mut self, port: u16, vci: u16, n: u64) {
        let cell = cell(vci);
        let put = |io: &mut net::NodeIo<'_>| assert!((0..n).all(|_| io.put_cell(0, &cell)));
        self.network.external(self.links[usize::from(port)], Time::ZERO, put);
    }

    fn switch(&mut self) -> &SwitchElement {
        self.network.peek_node::<SwitchElement>(self.switch).unwrap()
    }

    /// Cells of no circuit that each port has taken.
    fn taken(&mut self) -> Vec<u64> {
        (0..PORTS).map(|port| self.switch().port_drops(port).dropped(DropReason::UnknownCircuit)).collect()
    }
}

#[test]
fn a_visit_takes_no_more_for_many_ports_and_the_next_one_begins_where_it_stopped() {
    let mut world = World::new([Carries::Cells; PORTS as usize]);
    (0..PORTS).for_each(|port| world.send(port, 9, TURN));
    for visit in 1..=u64::from(PORTS) * TURN / ENOUGH {
        assert!(world.network.run(Time::ZERO));
        let taken = world.taken();
        assert_eq!(taken.iter().sum::<u64>(), visit * ENOUGH);
        let had_turn = taken.iter().take_while(|n| **n == TURN).count() as u64;
        assert_eq!(had_turn, visit * ENOUGH / TURN, "{taken:?}");
    }
}

#[test]
fn each_port_has_its_turn_while_others_always_have_more() {
    let mut world = World::new([Carries::Cells; PORTS as usize]);
    let mut sent = vec![0; PORTS.into()];
    for _ in 0..64 {
        let taken = world.taken();
        for port in 0..PORTS {
            // An odd number: visits end within turns.
            let more = 3001 - (sent[usize::from(port)] - taken[usize::from(port)]);
            world.send(port, 9, more);
            sent[usize::from(port)] += more;
        }
        world.network.run(Time::ZERO);
    }
    let taken = world.taken();
    let (least, most) = (*taken.iter().min().unwrap(), *taken.iter().max().unwrap());
    assert!(most - least <= TURN && least >= 7 * TURN, "{least} to {most}");
}

#[test]
fn copies_for_leaves_are_part_of_what_a_visit_does() {
    let mut world = World::new([Carries::Cells; PORTS as usize]);
    (1..PORTS).for_each(|port| world.route((0, 100), (port, 100), FrameAal::Aal5));
    world.send(0, 100, TURN);
    let mut before = 0;
    loop {
        let worked = world.network.run(Time::ZERO);
        let routes: Vec<_> = world.switch().routes().collect();
        let sent = &routes[0].branches;
        let done: u64 = sent.iter().map(|branch| branch.sent.cells + branch.queued + branch.sent.dropped_total()).sum();
        assert!(done - before <= 2 * ENOUGH, "{} cells in one visit", done - before);
        before = done;
        if !worked {
            break;
        }
    }
    assert_eq!(before, TURN * u64::from(PORTS - 1), "all copies were made");
}

#[test]
fn a_long_frame_counts_as_its_cells() {
    let mut world = World::new([Carries::Frames, Carries::Frames, Carries::Cells]);
    (0..2).for_each(|port| world.route((port, 100), (2, 100 + port), FrameAal::Aal5));
    const CELLS: u64 = 1355;
    let octets = vec![7; 65_000];
    for port in 0..2 {
        world.network.external(world.links[port], Time::ZERO, |io| {
            for _ in 0..60 {
                let frame = io.pool_mut().copy_in(vc(100), FrameAal::Aal5, SduMeta::default(), &octets).unwrap();
                io.put_frame(0, frame).unwrap();
            }
        });
    }
    let mut before = 0;
    loop {
        let worked = world.network.run(Time::ZERO);
        let taken: u64 = world.switch().routes().map(|route| route.received.cells).sum();
        assert!(taken - before < ENOUGH + CELLS, "{} cells in one visit", taken - before);
        before = taken;
        if !worked {
            break;
        }
    }
    assert_eq!(before, 120 * CELLS, "all frames were taken");
}

#[test]
fn a_visit_sends_no_more_at_many_ports_whose_links_have_room_again() {
    let mut world = World::new([Carries::Cells; 32]);
    let per_port = 6000;
    for port in 1..32 {
        world.route((0, 100 + port), (port, 100), FrameAal::Aal0);
        for _ in 0..per_port / 2000 {
            world.send(0, 100 + port, 2000);
            while world.network.run(Time::ZERO) {}
        }
    }
    let mut left = 31 * per_port;
    let mut read = |world: &mut World| {
        let consume = |io: &mut net::NodeIo<'_>| {
            let mut read = 0;
            while !io.cells_in(0).is_empty() {
                read += io.cells_in(0).len();
                io.consume(0, io.cells_in(0).len());
            }
            read as u64
        };
        let read: u64 =
            world.links.iter().map(|link| world.network.external(*link, Time::ZERO, consume).unwrap()).sum();
        left -= read;
        (read, left)
    };
    // What the links had taken.
    read(&mut world);
    loop {
        let worked = world.network.run(Time::ZERO);
        let (sent, left) = read(&mut world);
        assert!(sent <= ENOUGH + 4096, "{sent} cells in one visit");
        if !worked {
            assert_eq!(left, 0);
            break;
        }
    }
}
