//! Each cell, frame and PDU is accounted for where a switch converts between cells and frames: random cells and frames of all
//! adaptation layers, cells that are lost, PDUs that stop, links that nobody empties, too few frames, and routes that come and go.

use net::random::Random;
use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::{SduMeta, Segmentation, aal34};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, DropReason, Time, Vpi};

const PORTS: [Carries; 4] = [Carries::Cells, Carries::Frames, Carries::Frames, Carries::Cells];

struct World {
    network: Network,
    switch: NodeId,
    links: Vec<LinkId>,
    random: Random,
    now: Time,
    /// Whether somebody empties the link of a port.
    read: [bool; 4],
    reasons: BTreeSet<DropReason>,
}

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// The adaptation layer of a channel.
fn aal(vci: u16) -> FrameAal {
    match vci % 8 {
        0..4 => FrameAal::Aal5,
        4..7 => FrameAal::Aal34,
        _ => FrameAal::Aal0,
    }
}

fn cells_of(circuit: CircuitId, octets: usize, aal: FrameAal, tag: u8) -> Vec<Cell> {
    let (sdu, meta) = (vec![octets as u8; octets], SduMeta::default());
    let mut cells = vec![Cell::default(); octets / 40 + 3];
    let n = match aal {
        FrameAal::Aal0 => return vec![Cell::new(CellHeader { circuit, ..CellHeader::default() }, [7; 48])],
        FrameAal::Aal5 => Segmentation::new(circuit, octets, meta).unwrap().fill(&sdu, &mut cells),
        FrameAal::Aal34 => {
            let mid = u16::from(tag % 4);
            aal34::Sender::new(circuit, mid).unwrap().with_tag(tag).begin(octets, meta).unwrap().fill(&sdu, &mut cells)
        }
    };
    cells.truncate(n);
    cells
}

impl World {
    fn new(seed: u64) -> Self {
        // Frames for few PDUs at once.
        let mut network = Network::new(FramePool::new(12, 20_000));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let connect = |(port, carries): (usize, &Carries)| {
            let config = LinkConfig { carries: *carries, ..LinkConfig::default() };
            network.connect(End::External, End::Port(switch, port as u16), config).unwrap()
        };
        let links = PORTS.iter().enumerate().map(connect).collect();
        let (random, read, reasons) = (Random::new(seed), [true; 4], BTreeSet::new());
        let mut world = World { network, switch, links, random, now: Time::ZERO, read, reasons };
        // Branches of both kinds, which are there before the first cell.
        for vci in [100, 104, 107] {
            for port in [1, 2, 3] {
                world.route((0, Label::Vc(vc(vci))), (port, Label::Vc(vc(vci + 100))), aal(vci));
            }
        }
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn switch(&mut self) -> &mut SwitchElement {
        self.network.node_mut(self.switch).unwrap()
    }

    fn route(&mut self, from: (u16, Label), to: (u16, Label), aal: FrameAal) {
        let options = RouteOptions { aal, ..RouteOptions::default() };
        // One branch may be there, or have no room.
        let _ = self.switch().add_route(from, to, options);
    }

    fn run(&mut self) {
        while self.network.run(self.now) {
            self.read();
        }
        self.read();
    }

    fn read(&mut self) {
        for (link, _) in self.links.iter().zip(self.read).filter(|(_, read)| *read) {
            self.network.external(*link, self.now, |io| {
                io.consume(0, io.cells_in(0).len());
                while let Some(frame) = io.take_frame(0) {
                    io.pool_mut().release(frame);
                }
            });
        }
    }

    fn send_cells(&mut self, port: usize, circuit: CircuitId) {
        let (octets, tag) = (1 + self.below(3000) as usize, self.below(256) as u8);
        let mut cells = cells_of(circuit, octets, aal(circuit.vci.get()), tag);
        match self.below(8) {
            // One is lost.
            0 | 1 if cells.len() > 1 => drop(cells.remove(tag as usize % cells.len())),
            // The rest does not come.
            2 | 3 => cells.truncate(1 + tag as usize % cells.len()),
            _ => {}
        }
        self.network
            .external(self.links[port], self.now, |io| cells.iter().filter(|cell| io.put_cell(0, cell)).count());
    }

    fn send_frame(&mut self, port: usize, vci: u16) {
        let (aal, octets) = (aal(vci), 1 + self.below(15_000) as usize);
        let octets = if aal == FrameAal::Aal0 { 52 } else { octets };
        self.network.external(self.links[port], self.now, |io| {
            if let Some(frame) = io.pool_mut().copy_in(vc(vci), aal, SduMeta::default(), &vec![0; octets]) {
                let _ = io.put_frame(0, frame).map_err(|frame| io.pool_mut().release(frame));
            }
        });
    }

    fn step(&mut self) {
        let (port, vci) = (self.below(4) as usize, 100 + self.below(12) as u16);
        match self.below(20) {
            0..11 => {
                for _ in 0..=self.below(4) {
                    let vci = if self.below(3) == 0 { vci } else { 100 + self.below(12) as u16 };
                    match PORTS[port] {
                        Carries::Cells => self.send_cells(port, vc(vci)),
                        Carries::Frames => self.send_frame(port, vci),
                    }
                }
                self.run();
            }
            11..14 => {
                let to = self.below(4) as u16;
                // The first branch of a route, or one more in mid-stream.
                self.route((port as u16, Label::Vc(vc(vci))), (to, Label::Vc(vc(vci + 100))), aal(vci));
            }
            14 => {
                self.switch().remove_route(port as u16, Label::Vc(vc(vci)), None);
                self.run();
            }
            15 => {
                // One branch less.
                let routes: Vec<_> = self.switch().routes().map(|route| (route.port, route.label)).collect();
                if let Some((from, label)) = routes.get(self.below(30) as usize) {
                    self.switch().remove_route(*from, *label, Some(port as u16));
                }
            }
            16 => self.read[port] = !self.read[port],
            17 => {
                let path = |vpi| Label::Vp(Vpi::new(vpi).unwrap());
                self.route((0, path(5)), (1, path(6)), FrameAal::Aal5);
                self.send_cells(0, CircuitId::new(5, vci).unwrap());
                self.run();
            }
            _ => {
                self.now += Duration::from_millis(self.random.below(4000));
                self.run();
            }
        }
    }

    fn mismatch(&mut self) -> Option<String> {
        let links: Vec<_> = self.network.links().map(|l| (l.config.carries, l.from_a, l.from_b)).collect();
        self.reasons.extend(links.iter().flat_map(|(.., out)| out.sent.drops().map(|(reason, _)| reason)));
        let switch = self.network.peek_node::<SwitchElement>(self.switch).unwrap();
        for route in switch.routes() {
            self.reasons.extend(route.received.drops().map(|(reason, _)| reason));
        }
        let ports = links.iter().zip(0..).find_map(|((carries, into, out), port)| {
            assert!(into.add_up(*carries) && out.add_up(*carries), "{into:?} {out:?}");
            let came = switch.intake_mismatch(port, *carries, into);
            came.or_else(|| switch.output_mismatch(port, *carries, out))
        });
        ports.or_else(|| switch.mismatch())
    }
}

#[test]
fn what_a_gateway_took_has_left_was_dropped_or_has_not_ended() {
    let mut reasons = BTreeSet::new();
    for seed in 1..=12 {
        let mut world = World::new(seed);
        for step in 0..1500 {
            world.step();
            assert_eq!(world.mismatch(), None, "seed {seed}, step {step}");
        }
        world.read = [true; 4];
        for _ in 0..4 {
            world.now += Duration::from_millis(6000);
            world.run();
        }
        assert_eq!(world.mismatch(), None, "seed {seed}, at the end");
        assert_eq!(world.network.pool().in_use(), 0, "seed {seed}");
        reasons.append(&mut world.reasons);
    }
    use DropReason::{Closed, Crc, NoBuffer, QueueFull, Sequence, Timeout, WrongAal};
    let wanted = [Closed, Crc, NoBuffer, QueueFull, Sequence, Timeout, WrongAal];
    let missing: Vec<_> = wanted.iter().filter(|reason| !reasons.contains(reason)).collect();
    assert!(missing.is_empty(), "{missing:?} missing of {reasons:?}");
}
