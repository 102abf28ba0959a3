//! A host between two clients and a peer, in virtual time. The octets are what they do: descriptors that are right or nearly
//! right, cells of every payload type at either port, channels and endpoints that come and go, memory that is lent and
//! borrowed, circuits that change, a link that goes down, and time that passes. Afterwards the counters add up, and a PDU still crosses.

use endpoint::layout::{self, Descriptor, Geometry, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Direction, Events, Local, OpenOptions};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface, Lent};
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network, NodeId};
use rustix::fs::{MemfdFlags, memfd_create};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellRate, CircuitId, Time};

const GEOMETRY: Geometry = Geometry { send_ring: 8, receive_ring: 8, free_ring: 8, buffers: 8, buffer_octets: 256 };
/// What fresh endpoints use at the end: nothing else touches it.
const LAST: u32 = 999;
const CIRCUITS: [u32; 4] = [100, 101, 102, 103];

/// Acts from here on are about lent memory.
const LENDING: u8 = 240;

struct Session {
    network: Network,
    nodes: [NodeId; 2],
    inner: LinkId,
    /// From outside, at port 1 of the first host.
    outer: LinkId,
    clients: Vec<(usize, EndpointId, Local)>,
    now: Time,
}

fn config(which: u8, port: u16) -> CircuitConfig {
    let contract = if which.is_multiple_of(3) {
        Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() }
    } else {
        Contract::default()
    };
    let reassembly_timeout = (which % 2 == 1).then(|| Duration::from_millis(1));
    CircuitConfig { contract, reassembly_timeout, port, ..CircuitConfig::default() }
}

/// Takes whatever has come, and gives the endpoint's buffers back, and those that `gives` names besides.
fn take(local: &mut Local, gives: impl Fn(u32) -> bool) {
    while let Some(got) = local.receive.pop() {
        if got.head.buffer < GEOMETRY.buffers || gives(got.head.buffer) {
            let _ = local.free.push(Head::of_buffer(got.head.buffer));
        }
    }
}

impl Session {
    fn new(kind: u8) -> Self {
        let mut network = Network::new(FramePool::new(8, 4096));
        let nodes = ["a", "b"].map(|name| {
            let mut host = HostInterface::new(6);
            for (i, circuit) in CIRCUITS.into_iter().chain([LAST]).enumerate() {
                host.add_circuit(CircuitId::from_key(circuit), config(i as u8 + 1, 0));
            }
            network.add_node(name, Box::new(host))
        });
        let carries = if kind.is_multiple_of(2) { Carries::Cells } else { Carries::Frames };
        let between = LinkConfig { carries, queue_cells: 32, ..LinkConfig::default() };
        let inner = network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), between).expect("fresh ports");
        let outer =
            network.connect(End::External, End::Port(nodes[0], 1), LinkConfig::default()).expect("a fresh port");
        let mut session = Session { network, nodes, inner, outer, clients: Vec::new(), now: Time::ZERO };
        session.attach(0, kind);
        session.attach(1, kind >> 1);
        session
    }

    fn host(&mut self, which: usize) -> &mut HostInterface {
        self.network.node_mut(self.nodes[which]).expect("a host")
    }

    fn attach(&mut self, which: usize, kind: u8) {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).expect("a small segment"));
        let mut local = Local::new(&segment);
        for buffer in 0..4 {
            let _ = local.free.push(Head::of_buffer(buffer));
        }
        let path = [DataPath::Shared, DataPath::Copying, DataPath::ZeroCopy, DataPath::SingleCopy][kind as usize % 4];
        let events = [Events::Polling, Events::Interrupt, Events::Clocked { hertz: 1000 }, Events::Hybrid { quota: 2 }];
        let endpoint = HostEndpoint::new(segment, events[kind as usize / 4 % 4], path, None);
        if let Ok(id) = self.host(which).attach(endpoint) {
            self.clients.push((which, id, local));
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..400 {
            let busy = self.network.run(self.now);
            let next = self.network.poll_timeout().filter(|_| !busy).unwrap_or(self.now).max(self.now);
            self.now = next.max(self.now + Duration::from_nanos(1));
            if self.now > end {
                break;
            }
        }
        self.now = self.now.max(end);
    }

    /// What senders and receivers do so that SDUs are read where they are.
    fn lending(&mut self, what: u8, [a, b, c, d]: [u8; 4]) {
        let Some((which, id, local)) = (a as usize).checked_rem(self.clients.len()).map(|at| &mut self.clients[at])
        else {
            return;
        };
        let (which, id) = (*which, *id);
        match what % 4 {
            0 => {
                let memory = memfd_create("lent", MemfdFlags::CLOEXEC).expect("a memory file");
                let _ = self.host(which).lend(id, Lent::new(GEOMETRY, memory));
            }
            1 => {
                let _ = self.host(which).borrow(id, ChannelId(u32::from(b) % 5));
            }
            2 => take(local, |buffer| layout::Lent::from_buffer(buffer).is_some()),
            _ => {
                let false_one = layout::Lent { region: u16::from(c) % 3, buffer: u16::from(d) % 10 };
                if let Some(buffer) = false_one.to_buffer() {
                    let _ = local.free.push(Head::of_buffer(buffer));
                }
            }
        }
    }

    fn act(&mut self, what: u8, with: [u8; 4]) {
        if what >= LENDING {
            return self.lending(what, with);
        }
        let [a, b, c, d] = with;
        let number = if self.clients.is_empty() { 0 } else { a as usize % self.clients.len() };
        let circuit = CircuitId::from_key(CIRCUITS[b as usize % CIRCUITS.len()]);
        let (now, outer, inner) = (self.now, self.outer, self.inner);
        let Some((which, id, local)) = self.clients.get_mut(number).map(|(which, id, local)| (*which, *id, local))
        else {
            return self.attach(a as usize % 2, b);
        };
        match what % 13 {
            0 | 1 => {
                let buffer = if d.is_multiple_of(4) { Descriptor::INLINE } else { u32::from(d) % 9 };
                let mut descriptor = Descriptor::from(Head::of_buffer(buffer));
                descriptor.head.channel = u32::from(b) % 5;
                descriptor.head.octets = if d % 8 < 6 { 1 + u32::from(c) % 256 } else { 52 };
                let _ = local.send.push(descriptor);
                self.host(which).handle_doorbell(id);
            }
            2 => self.pass(Duration::from_nanos(1 << (a % 30))),
            3 | 4 => {
                let mut cell = Cell::default();
                cell.payload = [c; 48];
                cell.set_header_word(circuit.key() << 4 | u32::from(d) & 0xf);
                if c.is_multiple_of(2) {
                    let mut segmentation = sar::Segmentation::new(circuit, 40, sar::SduMeta::default()).expect("short");
                    segmentation.fill(&[a; 40], std::slice::from_mut(&mut cell));
                }
                let _ = self.network.external(outer, now, |io| io.put_cell(0, &cell));
            }
            5 => {
                let options = OpenOptions {
                    aal: [Aal::Aal5, Aal::Aal0, Aal::Aal34, Aal::Oam][c as usize % 4],
                    direction: [Direction::Both, Direction::Send, Direction::Receive][d as usize % 3],
                    reliable: d >= 128,
                };
                let _ = self.host(which).open_with(id, circuit, options);
            }
            6 => drop(self.host(which).close(id, ChannelId(u32::from(b) % 5))),
            7 => {
                match c % 3 {
                    0 => self.host(which).detach(id),
                    1 => self.host(which).depart(id),
                    _ => self.host(which).release_endpoint(id),
                };
                self.clients.remove(number);
                self.attach(which, d);
            }
            8 => take(local, |_| false),
            9 => {
                let _ = self.host(which).add_circuit(circuit, config(c, u16::from(d % 2)));
            }
            10 => {
                let _ = self.host(which).remove_circuit(circuit);
            }
            11 => local.segment.copy_in(usize::from(b) * 8 % GEOMETRY.buffers_at(), &with),
            _ => {
                let _ = self.network.set_link_up(inner, c % 2 == 0);
            }
        }
    }

    /// Whatever happened: nothing is counted twice or not at all, and who comes next is served.
    fn check(mut self) {
        self.pass(Duration::from_secs(2));
        let _ = self.network.set_link_up(self.inner, true);
        for which in [0, 1] {
            assert_eq!(self.host(which).mismatch(), None);
        }
        for link in self.network.links() {
            let carries = link.config.carries;
            assert!(link.from_a.add_up(carries) && link.from_b.add_up(carries), "{link:?}");
        }
        for (which, id, _) in std::mem::take(&mut self.clients) {
            self.host(which).detach(id);
        }
        self.pass(Duration::from_secs(2));
        for which in [0, 1] {
            self.attach(which, 0);
            let (_, id, _) = self.clients[which];
            self.host(which).open(id, CircuitId::from_key(LAST), Aal::Aal5).expect("the circuit is free");
        }
        let mut descriptor = Descriptor::from(Head::of_buffer(7));
        descriptor.head.octets = 200;
        assert!(self.clients[0].2.send.push(descriptor));
        self.pass(Duration::from_secs(1));
        let got = self.clients[1].2.receive.pop().expect("a PDU crosses");
        assert_eq!(got.head.octets, 200);
    }
}

/// What comes first says of which kind everything is; then each five octets are an act.
pub(crate) fn session(octets: &[u8]) {
    let Some((kind, acts)) = octets.split_first() else { return };
    let mut session = Session::new(*kind);
    for [what, with @ ..] in acts.as_chunks::<5>().0.iter().take(400) {
        session.act(*what, *with);
    }
    session.check();
}
