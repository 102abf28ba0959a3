//! A label that a circuit through an element has after another: nothing that was sent on the first leaves on the second.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, RouteOptions,
    RouteTable,
};
use sar::SduMeta;
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, Time};

/// Ports of an element, each with an outside link.
pub const PORTS: usize = 4;
const OLD: u8 = 0xee;

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn label(vci: u16) -> Label {
    Label::Vc(vc(vci))
}

/// An element with an outside link at each port.
pub struct World {
    network: Network,
    node: NodeId,
    links: Vec<LinkId>,
    now: Time,
}

impl World {
    /// This element, and links that carry cells or frames.
    pub fn new(element: Box<dyn Node>, carries: Carries) -> Self {
        let mut network = Network::new(FramePool::new(512, 65_536));
        let node = network.add_node("net", element);
        let config = LinkConfig { carries, ..LinkConfig::default() };
        let link = |port| network.connect(End::External, End::Port(node, port), config.clone()).unwrap();
        let links = (0..PORTS as u16).map(link).collect();
        World { network, node, links, now: Time::ZERO }
    }

    /// Runs it for a time.
    pub fn run(&mut self, duration: Duration) {
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

    fn at<R>(&mut self, port: usize, f: impl FnOnce(&mut NodeIo<'_>) -> R) -> R {
        self.network.external(self.links[port], self.now, f).unwrap()
    }

    fn send(&mut self, port: usize, vci: u16, what: u8, count: usize) {
        self.at(port, |io| {
            for n in 0..count {
                if io.carries(0) == Some(Carries::Cells) {
                    io.put_cell(0, &Cell::new(CellHeader { circuit: vc(vci), ..CellHeader::default() }, [what; 48]));
                    continue;
                }
                let sdu = vec![what; 1 + n * 701 % 9000];
                let frame = io.pool_mut().copy_in(vc(vci), FrameAal::Aal5, SduMeta::default(), &sdu).unwrap();
                io.put_frame(0, frame).unwrap();
            }
        });
    }

    /// What has left by a port: label, and the first octet.
    fn left(&mut self, port: usize) -> Vec<(u16, u8)> {
        self.at(port, |io| {
            let mut left = Vec::new();
            while let Some(cell) = io.cells_in(0).first().copied() {
                left.push((cell.circuit().vci.get(), cell.payload[0]));
                io.consume(0, 1);
            }
            while let Some((frame, octets)) = io.frame_in(0) {
                left.push((frame.circuit.vci.get(), octets[0]));
                io.release_frame(0);
            }
            left
        })
    }
}

/// A circuit from port 0 is removed after a while, and others get its labels: at its beginning, at its end, and on its way.
pub fn attack<E: Node + RouteTable + 'static>(mut world: World, nanos: u64) {
    let node = world.node;
    let options = RouteOptions::default();
    world.network.node_mut::<E>(node).unwrap().add_route((0, label(100)), (3, label(200)), options).unwrap();
    world.send(0, 100, OLD, 30);
    world.run(Duration::from_nanos(nanos));
    let before = world.left(3);
    assert!(before.iter().all(|left| *left == (200, OLD)));
    let element = world.network.node_mut::<E>(node).unwrap();
    assert!(element.remove_route(0, label(100), None));
    element.add_route((0, label(100)), (3, label(201)), options).unwrap();
    element.add_route((1, label(100)), (3, label(200)), options).unwrap();
    for (port, what) in [(0, 1), (1, 2)] {
        world.send(port, 100, what, 10);
    }
    world.run(Duration::from_millis(20));
    let mut left = world.left(3);
    left.sort_unstable();
    assert_eq!(left, [[(200, 2); 10], [(201, 1); 10]].concat(), "after {nanos} ns, {} had left", before.len());
}
