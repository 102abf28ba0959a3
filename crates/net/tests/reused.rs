//! Labels that are set up anew while cells and frames are under way: paths, leaves, links to the outside, long queues, and links that go
//! down meanwhile. Old cells carry 0xee.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::SduMeta;
use std::time::Duration;
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, PayloadType, Time, Vpi};

const OLD: u8 = 0xee;

fn id(vpi: u16, vci: u16) -> CircuitId {
    CircuitId::new(vpi, vci).unwrap()
}

fn vc(vpi: u16, vci: u16) -> Label {
    Label::Vc(id(vpi, vci))
}

fn vp(vpi: u16) -> Label {
    Label::Vp(Vpi::new(vpi).unwrap())
}

/// Two switches, joined at their ports 0; their other ports lead out.
struct World {
    network: Network,
    switches: [NodeId; 2],
    trunk: LinkId,
    /// By switch and port.
    links: [Vec<LinkId>; 2],
    carries: Carries,
    now: Time,
}

impl World {
    fn new(shards: usize, trunk: LinkConfig, carries: Carries) -> Self {
        let mut network = match shards {
            1 => Network::new(FramePool::new(256, 65_536)),
            _ => Network::sharded(shards, 256, 65_536),
        };
        let switches = ["s1", "s2"]
            .map(|name| network.add_node(name, Box::new(SwitchElement::new(SwitchElementConfig::default()))));
        assert!(network.move_node(switches[1], shards - 1));
        let trunk = network.connect(End::Port(switches[0], 0), End::Port(switches[1], 0), trunk).unwrap();
        let outside = LinkConfig { carries, queue_cells: 32_768, ..LinkConfig::default() };
        let links = switches.map(|switch| {
            let link = |port| network.connect(End::External, End::Port(switch, port), outside.clone()).unwrap();
            (1..4).map(link).collect()
        });
        World { network, switches, trunk, links, carries, now: Time::ZERO }
    }

    fn switch(&mut self, which: usize) -> &mut SwitchElement {
        self.network.node_mut(self.switches[which]).unwrap()
    }

    fn route(&mut self, which: usize, from: (u16, Label), to: (u16, Label)) {
        self.switch(which).add_route(from, to, RouteOptions::default()).unwrap();
    }

    fn remove(&mut self, which: usize, port: u16, label: Label) {
        assert!(self.switch(which).remove_route(port, label, None));
    }

    /// Cells of PDUs of two, or frames, that come in at the first switch.
    fn send(&mut self, port: u16, circuit: CircuitId, what: u8, count: usize) {
        let carries = self.carries;
        let link = self.links[0][usize::from(port) - 1];
        let put = |io: &mut net::NodeIo<'_>| {
            for n in 0..count {
                if carries == Carries::Frames {
                    let frame =
                        io.pool_mut().copy_in(circuit, FrameAal::Aal5, SduMeta::default(), &[what; 100]).unwrap();
                    io.put_frame(0, frame).unwrap();
                    continue;
                }
                let payload_type = PayloadType::User { congestion: false, end: n % 2 == 1 };
                assert!(io.put_cell(0, &Cell::new(CellHeader { circuit, payload_type, clp: false }, [what; 48])));
            }
        };
        self.network.external(link, self.now, put).unwrap();
    }

    /// What left the second switch by a port: circuits and first octets.
    fn left(&mut self, port: u16) -> Vec<(CircuitId, u8)> {
        let take = |io: &mut net::NodeIo<'_>| {
            let mut left = Vec::new();
            while let Some(cell) = io.cells_in(0).first().copied() {
                left.push((cell.circuit(), cell.payload[0]));
                io.consume(0, 1);
            }
            while let Some((frame, octets)) = io.frame_in(0) {
                left.push((frame.circuit, octets[0]));
                io.release_frame(0);
            }
            left
        };
        self.network.external(self.links[1][usize::from(port) - 1], self.now, take).unwrap()
    }

    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout().filter(|at| *at <= until) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = until;
    }

    fn check(&mut self) {
        let links: Vec<_> = self.network.links().map(|l| (l.ends, l.config.carries, l.from_a, l.from_b)).collect();
        for (ends, carries, from_a, from_b) in links {
            assert!(from_a.add_up(carries) && from_b.add_up(carries), "{ends:?} {from_a:?} {from_b:?}");
            for (end, into, from) in [(ends[0], from_b, from_a), (ends[1], from_a, from_b)] {
                let End::Port(node, port) = end else { continue };
                let switch = self.network.peek_node::<SwitchElement>(node).unwrap();
                assert_eq!(switch.intake_mismatch(port, carries, &into), None);
                assert_eq!(switch.output_mismatch(port, carries, &from), None);
                assert_eq!(switch.mismatch(), None);
            }
        }
    }
}

fn slow(carries: Carries) -> LinkConfig {
    let rate = Some(CellRate::from_cells_per_s(100_000.0).unwrap());
    LinkConfig { carries, rate, delay: Duration::from_micros(500), queue_cells: 32_768, ..LinkConfig::default() }
}

#[test]
fn a_path_that_is_made_anew_gets_nothing_of_the_one_before_and_channels_beside_it_lose_nothing() {
    for shards in 1..3 {
        let mut world = World::new(shards, slow(Carries::Cells), Carries::Cells);
        let paths = [((1, vp(7)), (0, vp(5)), (2, vp(9))), ((1, vp(8)), (0, vp(6)), (2, vp(10)))];
        for (from, on, to) in paths {
            world.route(0, from, on);
            world.route(1, (0, on.1), to);
        }
        for _ in 0..50 {
            world.send(1, id(7, 40), OLD, 2);
            world.send(1, id(8, 40), 1, 2);
        }
        world.run(Duration::from_micros(400));
        assert!(world.left(2).is_empty(), "all is on the line");
        let (from, on, _) = paths[0];
        world.remove(0, from.0, from.1);
        world.remove(1, 0, on.1);
        // A channel of the path that was, and a channel that is no other's.
        world.route(0, (2, vc(1, 40)), (0, vc(5, 40)));
        world.route(1, (0, vc(5, 40)), (3, vc(2, 99)));
        world.route(0, (2, vp(3)), (0, vp(5)));
        world.route(1, (0, vp(5)), (3, vp(4)));
        world.send(2, id(1, 40), 2, 10);
        world.send(2, id(3, 41), 3, 10);
        world.run(Duration::from_secs(1));
        assert_eq!(world.left(2), [(id(10, 40), 1); 100]);
        assert_eq!(world.left(3), [[(id(2, 99), 2); 10], [(id(4, 41), 3); 10]].concat());
        world.check();
    }
}

#[test]
fn a_label_of_a_leaf_that_has_gone_brings_its_next_circuit_nothing() {
    let mut world = World::new(1, slow(Carries::Cells), Carries::Cells);
    world.route(0, (1, vc(0, 100)), (0, vc(0, 200)));
    world.route(0, (1, vc(0, 100)), (2, vc(0, 300)));
    world.route(1, (0, vc(0, 200)), (1, vc(0, 400)));
    // In the middle of a PDU.
    world.send(1, id(0, 100), OLD, 31);
    world.run(Duration::from_micros(600));
    assert!(world.switch(0).remove_route(1, vc(0, 100), Some(0)));
    world.remove(1, 0, vc(0, 200));
    world.route(0, (3, vc(0, 100)), (0, vc(0, 200)));
    world.route(1, (0, vc(0, 200)), (2, vc(0, 400)));
    world.send(3, id(0, 100), 1, 20);
    world.run(Duration::from_secs(1));
    assert_eq!(world.left(2), [(id(0, 400), 1); 20], "nor the end of the PDU that was cut");
    world.check();
    // A further leaf is no new circuit: what is under way is its root's.
    world.send(3, id(0, 100), 2, 20);
    world.run(Duration::from_micros(600));
    world.route(1, (0, vc(0, 200)), (3, vc(0, 401)));
    world.run(Duration::from_secs(1));
    assert_eq!(world.left(2), [(id(0, 400), 2); 20]);
    world.check();
}

#[test]
fn a_long_queue_of_old_cells_holds_up_nobody_and_is_dropped_piece_by_piece() {
    for (shards, carries) in [(1, Carries::Cells), (2, Carries::Cells), (1, Carries::Frames)] {
        let at_once = LinkConfig { rate: None, ..slow(carries) };
        let mut world = World::new(shards, at_once, carries);
        world.route(0, (1, vc(0, 100)), (0, vc(0, 200)));
        world.route(0, (1, vc(0, 101)), (0, vc(0, 201)));
        world.route(1, (0, vc(0, 200)), (1, vc(0, 300)));
        world.route(1, (0, vc(0, 201)), (1, vc(0, 301)));
        let (long, short) = if carries == Carries::Cells { (9_000, 500) } else { (20, 5) };
        for _ in 0..2 {
            world.send(1, id(0, 100), OLD, long);
            world.send(1, id(0, 101), 1, short);
        }
        world.run(Duration::from_micros(10));
        for (which, port, label) in [(0, 1, vc(0, 100)), (1, 0, vc(0, 200))] {
            world.remove(which, port, label);
        }
        world.route(0, (2, vc(0, 100)), (0, vc(0, 200)));
        world.route(1, (0, vc(0, 200)), (2, vc(0, 300)));
        world.send(2, id(0, 100), 2, 8);
        world.run(Duration::from_secs(1));
        assert_eq!(world.left(1), vec![(id(0, 301), 1); 2 * short], "{carries:?}");
        assert_eq!(world.left(2), [(id(0, 300), 2); 8], "{carries:?}");
        let closed = world.network.link_info(world.trunk).unwrap().from_a.sent.dropped(DropReason::Closed);
        assert_eq!(closed, 2 * long as u64);
        world.check();
        assert!(world.network.pools().all(|pool| pool.in_use() == 0));
    }
}

#[test]
fn what_waits_for_a_socket_leaves_under_no_label_of_another_circuit() {
    for carries in [Carries::Cells, Carries::Frames] {
        let mut world = World::new(1, LinkConfig { carries, ..LinkConfig::default() }, carries);
        world.route(0, (1, vc(0, 100)), (0, vc(0, 200)));
        world.route(1, (0, vc(0, 200)), (1, vc(0, 300)));
        world.send(1, id(0, 100), OLD, 10);
        world.run(Duration::from_millis(1));
        world.remove(1, 0, vc(0, 200));
        world.remove(0, 1, vc(0, 100));
        world.route(0, (2, vc(0, 100)), (0, vc(0, 201)));
        world.route(1, (0, vc(0, 201)), (1, vc(0, 300)));
        world.send(2, id(0, 100), 1, 10);
        world.run(Duration::from_millis(1));
        assert_eq!(world.left(1), [(id(0, 300), 1); 10], "{carries:?}");
        world.check();
    }
}

#[test]
fn a_link_that_goes_down_meanwhile_takes_old_cells_with_it_and_no_new_ones_later() {
    for shards in 1..3 {
        let mut world = World::new(shards, slow(Carries::Cells), Carries::Cells);
        world.route(0, (1, vc(0, 100)), (0, vc(0, 200)));
        world.route(1, (0, vc(0, 200)), (1, vc(0, 300)));
        world.send(1, id(0, 100), OLD, 1000);
        world.run(Duration::from_millis(1));
        world.left(1);
        world.remove(0, 1, vc(0, 100));
        world.remove(1, 0, vc(0, 200));
        world.route(0, (2, vc(0, 100)), (0, vc(0, 200)));
        world.route(1, (0, vc(0, 200)), (2, vc(0, 300)));
        world.run(Duration::from_micros(100));
        let trunk = world.trunk;
        world.network.set_link_up(trunk, false);
        world.network.set_link_up(trunk, true);
        world.send(2, id(0, 100), 1, 100);
        world.run(Duration::from_secs(1));
        assert_eq!(world.left(2), [(id(0, 300), 1); 100], "{shards} shards");
        assert_eq!(world.left(1), []);
        world.check();
    }
}
