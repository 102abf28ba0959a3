//! Rings of switches: no input waits for an output, so nothing can wait in a circle.

use net::{
    Carries, End, FramePool, Label, LinkConfig, Network, Node, NodeIo, RouteOptions, SwitchElement, SwitchElementConfig,
};
use sar::{SduMeta, Segmentation};
use std::any::Any;
use wire::{CircuitId, Time};

const SWITCHES: u16 = 5;

/// Sends SDUs without end, as fast as its link takes them, and counts the cells or frames that arrive.
#[derive(Default)]
struct Flood {
    current: Option<Segmentation>,
    got: u64,
}

impl Node for Flood {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        while !io.cells_in(0).is_empty() {
            let n = io.cells_in(0).len();
            io.consume(0, n);
            self.got += n as u64;
        }
        while io.frame_in(0).is_some() {
            io.release_frame(0);
            self.got += 1;
        }
        let circuit = CircuitId::new(0, 100).unwrap();
        let sdu = [7; 1500];
        if io.carries(0) == Some(Carries::Frames) {
            while io.room(0) > 0
                && let Some(frame) = io.pool_mut().copy_in(circuit, net::FrameAal::Aal5, SduMeta::default(), &sdu)
            {
                io.put_frame(0, frame).unwrap();
            }
            return true;
        }
        while !io.cells_out(0).is_empty() {
            let new = || Segmentation::new(circuit, sdu.len(), SduMeta::default()).unwrap();
            let current = self.current.get_or_insert_with(new);
            let n = current.fill(&sdu, io.cells_out(0));
            if current.is_done() {
                self.current = None;
            }
            io.commit(0, n);
        }
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn saturated_ring_moves(carries: Carries) {
    let mut network = Network::new(FramePool::new(256, 2048));
    let n = SWITCHES;
    let switches: Vec<_> = (0..n)
        .map(|i| network.add_node(&format!("s{i}"), Box::new(SwitchElement::new(SwitchElementConfig::default()))))
        .collect();
    let hosts: Vec<_> = (0..n).map(|i| network.add_node(&format!("h{i}"), Box::<Flood>::default())).collect();
    let link = LinkConfig { carries, ..LinkConfig::default() };
    for i in 0..usize::from(n) {
        let next = (i + 1) % usize::from(n);
        // Port 0: the host; port 1: the next switch; port 2: the one before.
        network.connect(End::Port(hosts[i], 0), End::Port(switches[i], 0), link.clone()).unwrap();
        network.connect(End::Port(switches[i], 1), End::Port(switches[next], 2), link.clone()).unwrap();
    }
    let label = |vci| Label::Vc(CircuitId::new(0, vci).unwrap());
    for i in 0..usize::from(n) {
        let at = |hop: usize| switches[(i + hop) % usize::from(n)];
        // Two hops along the ring, under labels of the circuit's own.
        let vci = 200 + i as u16;
        let hops = [((0, 100), (1, vci)), ((2, vci), (1, vci)), ((2, vci), (0, 100))];
        for (hop, ((port, from), (out, to))) in hops.into_iter().enumerate() {
            let switch = network.node_mut::<SwitchElement>(at(hop)).unwrap();
            switch.add_route((port, label(from)), (out, label(to)), RouteOptions::default()).unwrap();
        }
    }
    let mut before = vec![0; usize::from(n)];
    for moment in 1..=4 {
        for round in 0..50u64 {
            network.run(Time::from_micros(moment * 1000 + round));
        }
        for (host, before) in hosts.iter().zip(&mut before) {
            let got = network.node_mut::<Flood>(*host).unwrap().got;
            assert!(got > *before, "{carries:?}: nothing arrived in 50 rounds, {got} before");
            *before = got;
        }
    }
}

#[test]
fn a_saturated_ring_of_switches_on_unlimited_links_never_stands_still() {
    saturated_ring_moves(Carries::Cells);
    saturated_ring_moves(Carries::Frames);
}
