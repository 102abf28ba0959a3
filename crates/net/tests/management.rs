//! OAM cells where a link is full of frames for ever.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, Network, RouteOptions, SwitchElement, SwitchElementConfig,
};
use sar::SduMeta;
use std::time::Duration;
use wire::oam::{Flow, Function};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, Time};

fn id(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

#[test]
fn oam_of_each_circuit_passes_a_frame_link_that_frames_fill_for_ever() {
    const CIRCUITS: u16 = 200;
    let mut network = Network::new(FramePool::new(256, 4096));
    let switch = network.add_node(
        "s1",
        Box::new(SwitchElement::new(SwitchElementConfig { ports: 3, kept_ports: 0, max_routes: 1000 })),
    );
    let frames = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
    let slow = LinkConfig { rate: CellRate::from_cells_per_s(10_000.0), queue_cells: 8, ..frames.clone() };
    let data = network.connect(End::External, End::Port(switch, 0), frames).unwrap();
    let oam = network.connect(End::External, End::Port(switch, 1), LinkConfig::default()).unwrap();
    let out = network.connect(End::Port(switch, 2), End::External, slow).unwrap();
    let element = network.node_mut::<SwitchElement>(switch).unwrap();
    let label = |vci| Label::Vc(id(vci));
    element.add_route((0, label(50)), (2, label(50)), RouteOptions::default()).unwrap();
    for vci in 100..100 + CIRCUITS {
        element.add_route((1, label(vci)), (2, label(vci)), RouteOptions::default()).unwrap();
    }
    let (mut passed, mut other) = (Vec::new(), 0);
    for round in 0..4000u64 {
        let now = Time::ZERO + Duration::from_micros(round * 300);
        // Whole PDUs, far more than the link sends.
        network.external(data, now, |io| {
            for _ in 0..12 {
                let frame = io.pool_mut().copy_in(id(50), FrameAal::Aal5, SduMeta::default(), &[7; 100]).unwrap();
                io.put_frame(0, frame).unwrap();
            }
        });
        if round == 20 {
            let cells = (100..100 + CIRCUITS).map(|vci| {
                let header = CellHeader { circuit: id(vci), ..CellHeader::default() };
                Cell::new(Flow::F5EndToEnd.header(header), Function::ContinuityCheck.emit())
            });
            network.external(oam, now, |io| cells.for_each(|cell| assert!(io.put_cell(0, &cell))));
        }
        while network.run(now) {}
        network.external(out, now, |io| {
            while let Some((frame, octets)) = io.frame_in(0) {
                match frame.aal {
                    FrameAal::Aal0 => {
                        passed.push(CircuitId::from_key(u32::from_be_bytes(octets[..4].try_into().unwrap()) >> 4))
                    }
                    _ => other += 1,
                }
                io.release_frame(0);
            }
        });
    }
    let expected: Vec<_> = (100..100 + CIRCUITS).map(id).collect();
    assert_eq!(passed, expected);
    let dropped = network.link_info(out).unwrap().from_a.sent.dropped(DropReason::QueueFull);
    assert!(other > 500 && dropped > 10_000, "{other} frames of data passed, {dropped} did not");
}
