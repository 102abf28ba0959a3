//! How often octets cross the memory bus by each data path: a count of what was done, held against what a path is to cost.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::path::Crossings;
use host::{CircuitConfig, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, Network};
use std::sync::Arc;
use wire::{CircuitId, Time};

const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 128, buffer_octets: 9216 };
const SDUS: u32 = 40;
const OCTETS: usize = 9180;

/// Sends SDUs from one host's endpoint to another's by `path`, and one of 40 octets; what each of the two has counted.
fn exchange(path: DataPath, carries: Carries) -> [Crossings; 2] {
    let mut network = Network::new(FramePool::new(64, 65_536));
    let circuit = CircuitId::new(0, 100).unwrap();
    let nodes = ["alpha", "beta"].map(|name| {
        let mut host = HostInterface::new(4);
        host.add_circuit(circuit, CircuitConfig::default());
        network.add_node(name, Box::new(host))
    });
    let config = LinkConfig { carries, ..LinkConfig::default() };
    network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
    let mut ends = nodes.map(|node| {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..64).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host = network.node_mut::<HostInterface>(node).unwrap();
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, path, None)).unwrap();
        (local, host.open(id, circuit, Aal::Aal5).unwrap().0)
    });
    let sdu: Vec<u8> = (0..OCTETS).map(|i| (i * 31 + i / 251) as u8).collect();
    let (mut now, mut came) = (Time::ZERO, 0);
    for n in 0..=SDUS {
        let [(alpha, channel), (beta, _)] = &mut ends;
        let buffer = 64 + n % 64;
        let mut head = Head { channel: *channel, octets: OCTETS as u32, ..Head::of_buffer(buffer) };
        if n == SDUS {
            head = Head { octets: 40, buffer: Descriptor::INLINE, ..head };
        } else {
            alpha.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), &sdu);
        }
        assert!(alpha.send.push(head));
        for _ in 0..1000 {
            network.run(now);
            now += std::time::Duration::from_micros(10);
            let Some(got) = beta.receive.pop() else { continue };
            if n < SDUS {
                let mut octets = vec![0; got.head.octets as usize];
                beta.segment.copy_out(GEOMETRY.buffer_at(got.head.buffer).unwrap(), &mut octets);
                assert!(octets == sdu && beta.free.push(Head::of_buffer(got.head.buffer)));
            }
            came += 1;
            break;
        }
    }
    assert_eq!(came, SDUS + 1);
    nodes.map(|node| network.node_mut::<HostInterface>(node).unwrap().endpoints()[0].crossings)
}

/// With the application's store or load: twice by the shared paths each way, four times by the copying one to send.
#[test]
fn shared_memory_crosses_once_each_way_and_a_copying_path_three_times_to_send() {
    let octets = u64::from(SDUS) * OCTETS as u64;
    for carries in [Carries::Cells, Carries::Frames] {
        for (path, copied, crossed) in [(DataPath::Shared, 0, 1), (DataPath::ZeroCopy, 0, 1), (DataPath::Copying, 1, 3)]
        {
            let [sent, received] = exchange(path, carries);
            assert_eq!(
                sent,
                Crossings { copied: copied * octets, fetched: octets, delivered: 0 },
                "{path:?} {carries:?}"
            );
            assert_eq!((sent.total(), received.total()), (crossed * octets, octets), "{path:?} {carries:?}");
            // An SDU that comes in cells is written as it is reassembled; 40 octets are in a buffer unless they came whole.
            assert!(received.copied == 0 && received.fetched == 0 && received.delivered == octets, "{received:?}");
        }
    }
}
