//! In its steady state a network allocates nothing: counted by the allocator itself.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations;
use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, Network, Node, NodeIo, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::{SduMeta, Segmentation};
use std::any::Any;
use std::time::Duration;
use wire::{CellRate, CircuitId, Time};

/// Sends the same SDU for ever, as cells or frames, and forgets what arrives.
struct Source {
    sdu: Vec<u8>,
    current: Option<Segmentation>,
    got: u64,
}

impl Node for Source {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let n = io.cells_in(0).len();
        io.consume(0, n);
        self.got += n as u64;
        while io.frame_in(0).is_some() {
            io.release_frame(0);
            self.got += 1;
        }
        let circuit = CircuitId::new(0, 100).unwrap();
        match io.carries(0) {
            Some(Carries::Cells) => {
                let new = || Segmentation::new(circuit, self.sdu.len(), SduMeta::default()).unwrap();
                let current = self.current.get_or_insert_with(new);
                let n = current.fill(&self.sdu, io.cells_out(0));
                if current.is_done() {
                    self.current = None;
                }
                io.commit(0, n);
            }
            _ if io.room(0) > 0 => {
                if let Some(frame) = io.pool_mut().copy_in(circuit, FrameAal::Aal5, SduMeta::default(), &self.sdu) {
                    io.put_frame(0, frame).unwrap();
                }
            }
            _ => {}
        }
        false
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn passing_cells_and_frames_through_links_and_a_switch_allocates_nothing() {
    let mut network = Network::new(FramePool::new(64, 65_568));
    let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
    let delay = Duration::from_micros(50);
    let links = [
        LinkConfig::default(),
        LinkConfig { rate: Some(CellRate::OC3C), delay, ..LinkConfig::default() },
        LinkConfig { carries: Carries::Frames, queue_cells: 16, ..LinkConfig::default() },
    ];
    let sources = links.map(|config| {
        let source = Source { sdu: vec![7; 1500], current: None, got: 0 };
        let node = network.add_node("source", Box::new(source));
        let port = network.links().count() as u16;
        network.connect(End::Port(node, 0), End::Port(switch, port), config).unwrap();
        node
    });
    let label = Label::Vc(CircuitId::new(0, 100).unwrap());
    // A ring: cells to a slower link, cells to frames, frames to cells.
    for port in 0..3 {
        let to = ((port + 1) % 3, label);
        network
            .node_mut::<SwitchElement>(switch)
            .unwrap()
            .add_route((port, label), to, RouteOptions::default())
            .unwrap();
    }
    let run = |network: &mut Network, from: u64| {
        for n in from..from + 20_000 {
            network.run(Time::from_micros(n));
        }
    };
    run(&mut network, 0);
    let before = allocations();
    run(&mut network, 20_000);
    assert_eq!(allocations() - before, 0);
    // 40 ms at OC-3c are 14 128 cells, or 441 PDUs of 32 cells.
    for (node, least) in sources.into_iter().zip([10_000, 14_000, 400]) {
        let got = network.node_mut::<Source>(node).unwrap().got;
        assert!(got > least, "{got}, not {least}");
    }
    assert!(network.pool().in_use() <= 64);
}
