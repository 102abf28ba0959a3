//! A circuit of a constant rate beside bulk data of the same endpoint, over real host interfaces and a switch, in virtual time.

use endpoint::layout::Descriptor;
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{Attached, HostInterface};
use lab::World;
use net::{Carries, LinkConfig};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId};

const RINGS: u32 = 256;
const BUFFERS: u32 = 64;
const GEOMETRY: Geometry =
    Geometry { send_ring: RINGS, receive_ring: RINGS, free_ring: RINGS, buffers: 2 * BUFFERS, buffer_octets: 9216 };
/// Octets of an SDU of one cell, and of one of 192.
const CONSTANT_OCTETS: usize = 40;
const BULK_OCTETS: u32 = 9180;
const BULK_CELLS: f64 = 192.0;
/// How often the applications look.
const LOOK: Duration = Duration::from_micros(500);
/// SDUs of the constant rate that are on their way at most: the host always has some, and the ring has room for others.
const ON_THEIR_WAY: u64 = 128;

/// An endpoint with both circuits open, the constant rate first.
struct Endpoint {
    local: Local,
    channels: [u32; 2],
    sent: [u64; 2],
    received: [u64; 2],
}

impl Endpoint {
    fn open(world: &mut World<HostInterface>, host: &str) -> Self {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..BUFFERS).all(|buffer| local.free.push(Descriptor::of_buffer(buffer))));
        let host = world.host(host);
        let id = host.attach(Attached::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channels = [110, 100].map(|vci| host.open(id, CircuitId::new(0, vci).unwrap(), Aal::Aal5).unwrap().0);
        Endpoint { local, channels, sent: [0; 2], received: [0; 2] }
    }

    /// Keeps both circuits busy: the ring is full whenever the application has looked.
    fn send(&mut self, arrived: u64) {
        let [constant, bulk] = self.channels;
        while self.sent[0] - arrived < ON_THEIR_WAY {
            let mut descriptor = Descriptor { channel: constant, ..Descriptor::of_buffer(Descriptor::INLINE) };
            descriptor.octets = CONSTANT_OCTETS as u32;
            if !self.local.send.push(descriptor) {
                break;
            }
            self.sent[0] += 1;
        }
        // What is in the buffers does not matter: they are used again at once.
        let buffer = |n: u64| BUFFERS + (n % u64::from(BUFFERS)) as u32;
        while self.local.send.push(Descriptor {
            channel: bulk,
            octets: BULK_OCTETS,
            ..Descriptor::of_buffer(buffer(self.sent[1]))
        }) {
            self.sent[1] += 1;
        }
    }

    fn receive(&mut self) {
        while let Some(descriptor) = self.local.receive.pop() {
            let which = usize::from(descriptor.channel != self.channels[0]);
            self.received[which] += 1;
            if descriptor.buffer != Descriptor::INLINE {
                assert!(self.local.free.push(Descriptor::of_buffer(descriptor.buffer)));
            }
        }
    }
}

/// The constant rate as a share of its contract, and bulk as a share of what it leaves.
fn shares(carries: Carries, grain: Duration, contract: Contract) -> [f64; 2] {
    let mut world = World::new(0);
    world.set_round(Duration::from_millis(1));
    world.set_grain(grain);
    for host in ["alpha", "beta"] {
        world.add_host(host, HostInterface::new(4));
    }
    world.add_switch("s1");
    for (host, port) in [("alpha", "s1:0"), ("beta", "s1:1")] {
        world.add_link(host, port, LinkConfig { carries, rate: Some(CellRate::OC3C), ..LinkConfig::default() });
    }
    world.add_circuit(&["alpha 0.100", "beta 0.100"], net::Aal::Aal5, Contract::default()).unwrap();
    world.add_circuit(&["alpha 0.110", "beta 0.110"], net::Aal::Aal5, contract).unwrap();
    let [mut alpha, mut beta] = ["alpha", "beta"].map(|host| Endpoint::open(&mut world, host));
    let mut begun = [0; 2];
    let (start, end) = (Duration::from_millis(200), Duration::from_millis(3200));
    let mut passed = Duration::ZERO;
    while passed < end {
        alpha.send(beta.received[0]);
        world.settle(LOOK);
        beta.receive();
        passed += LOOK;
        if passed == start {
            begun = beta.received;
        }
    }
    let per_s = |which: usize| (beta.received[which] - begun[which]) as f64 / (end - start).as_secs_f64();
    let pcr = contract.pcr.unwrap().cells_per_s();
    [per_s(0) / pcr, per_s(1) * BULK_CELLS / (CellRate::OC3C.cells_per_s() - pcr)]
}

#[test]
fn a_constant_rate_beside_bulk_data_of_its_endpoint_is_kept_on_cell_and_frame_links_and_bulk_has_the_rest() {
    let pcr = CellRate::from_payload_bits_per_s(10e6);
    let contract = Contract { category: Category::Cbr, pcr, cdvt: Duration::from_millis(1), ..Contract::default() };
    for carries in [Carries::Cells, Carries::Frames] {
        // As often as something happens, and as often as a busy engine comes by. A frame link is idle from the end of a long frame
        // until its sender looks again.
        for (micros, least) in [(1, 0.98), (50, 0.9)] {
            let [constant, bulk] = shares(carries, Duration::from_micros(micros), contract);
            eprintln!("{carries:?}, {micros} us: {constant:.5} of the contract, {bulk:.4} of the rest");
            assert!((constant - 1.0).abs() < 0.001, "{carries:?}, {micros} us: {constant:.5} of the contract");
            assert!(bulk > least, "{carries:?}, {micros} us: {bulk:.4} of what is left");
        }
    }
}
