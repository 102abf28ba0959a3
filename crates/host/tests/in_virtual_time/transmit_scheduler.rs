//! Circuits of one endpoint before a line that is full: a reserved rate is kept beside bulk data, which has the rest.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, Network, NodeId, Side};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId, DropReason, Time};

const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 128, buffer_octets: 2048 };
/// Cells a second.
const LINE: f64 = 100_000.0;
const RESERVED: f64 = 1000.0;
/// The window, a long frame behind it, and a cell.
const WAIT: Duration = Duration::from_micros((64 + 32 + 1) * 10);
const STEP: Duration = Duration::from_micros(100);
const BULK_OCTETS: u32 = 1500;
const BULK_CELLS: u64 = 32;
/// SDUs of bulk data that are on their way at once: most of the ring.
const BULK_AWAY: u64 = 48;

struct Bench {
    network: Network,
    nodes: [NodeId; 2],
    ends: Vec<(EndpointId, Local)>,
    /// At each end: of bulk data, of the reserved rate.
    channels: Vec<[ChannelId; 2]>,
    now: Time,
}

/// What came of a run.
#[derive(Debug)]
struct Outcome {
    /// Single cells of the reserved rate that were pushed, and that came.
    pushed: u64,
    came: u64,
    longest: Duration,
    bulk: u64,
}

impl Bench {
    fn new(carries: Carries, events: Events, path: DataPath) -> Self {
        let mut network = Network::new(FramePool::new(512, 4096));
        let nodes = ["a", "b"].map(|name| network.add_node(name, Box::new(HostInterface::new(4))));
        let rate = CellRate::from_cells_per_s(LINE);
        let config = LinkConfig { carries, rate, queue_cells: 1024, ..LinkConfig::default() };
        let link = network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
        assert!(network.set_link_window(link, Side::A, Some(64)));
        let pcr = CellRate::from_cells_per_s(RESERVED);
        // A cell that had to wait for the line does not delay those behind it for ever.
        let reserved = Contract { category: Category::Cbr, pcr, cdvt: 2 * WAIT, ..Contract::default() };
        let mut bench = Bench { network, nodes, ends: Vec::new(), channels: Vec::new(), now: Time::ZERO };
        for (at, events) in [(0, events), (1, Events::Polling)] {
            let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
            let mut local = Local::new(&segment);
            (0..GEOMETRY.buffers).for_each(|buffer| _ = local.free.push(Head::of_buffer(buffer)));
            let host: &mut HostInterface = bench.network.node_mut(bench.nodes[at]).unwrap();
            let id = host.attach(HostEndpoint::new(segment, events, path, None)).unwrap();
            let channels = [(100, Contract::default()), (200, reserved)].map(|(vci, contract)| {
                let circuit = CircuitId::new(0, vci).unwrap();
                host.add_circuit(circuit, CircuitConfig { contract, ..CircuitConfig::default() });
                host.open(id, circuit, Aal::Aal5).unwrap()
            });
            bench.ends.push((id, local));
            bench.channels.push(channels);
        }
        bench
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let busy = self.network.run(self.now);
            let next = if busy { self.now } else { self.network.poll_timeout().unwrap_or(end).max(self.now) };
            self.now = next.max(self.now + Duration::from_nanos(1)).min(end);
        }
    }

    fn push(&mut self, descriptor: Descriptor) -> bool {
        let (id, local) = &mut self.ends[0];
        let (id, pushed) = (*id, local.send.push(descriptor));
        self.network.node_mut::<HostInterface>(self.nodes[0]).unwrap().handle_doorbell(id);
        pushed
    }

    fn run(&mut self, time: Duration) -> Outcome {
        let end = self.now + time;
        let interval = Duration::from_secs_f64(1.0 / RESERVED);
        let mut outcome = Outcome { pushed: 0, came: 0, longest: Duration::ZERO, bulk: 0 };
        let (mut next, mut away, mut bulk_pushed) = (self.now, VecDeque::new(), 0);
        while self.now < end {
            if next <= self.now {
                next += interval;
                let mut descriptor = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
                (descriptor.head.channel, descriptor.head.octets) = (self.channels[0][1].0, 40);
                assert!(self.push(descriptor), "the ring has no room for the reserved rate at {}", self.now);
                away.push_back(self.now);
                outcome.pushed += 1;
            }
            while bulk_pushed - outcome.bulk < BULK_AWAY {
                let mut descriptor = Descriptor::from(Head::of_buffer((bulk_pushed % BULK_AWAY) as u32));
                (descriptor.head.channel, descriptor.head.octets) = (self.channels[0][0].0, BULK_OCTETS);
                assert!(
                    self.push(descriptor),
                    "no room for {bulk_pushed} at {}, {} of the rate away",
                    self.now,
                    away.len()
                );
                bulk_pushed += 1;
            }
            self.pass(STEP);
            let local = &mut self.ends[1].1;
            while let Some(got) = local.receive.pop() {
                if got.head.buffer != Descriptor::INLINE {
                    assert!(local.free.push(Head::of_buffer(got.head.buffer)));
                }
                if got.head.channel == self.channels[1][1].0 {
                    outcome.came += 1;
                    let waited = self.now.since(away.pop_front().expect("sent before it came"));
                    outcome.longest = outcome.longest.max(waited);
                } else {
                    assert_eq!(got.head.octets, BULK_OCTETS);
                    outcome.bulk += 1;
                }
            }
        }
        outcome
    }
}

#[test]
fn a_reserved_rate_is_kept_beside_bulk_data_of_the_same_endpoint_and_bulk_data_has_the_rest_of_the_line() {
    for carries in [Carries::Cells, Carries::Frames] {
        for events in [Events::Polling, Events::Interrupt, Events::Hybrid { quota: 4 }] {
            for path in [DataPath::Shared, DataPath::Copying] {
                let mut bench = Bench::new(carries, events, path);
                let outcome = bench.run(Duration::from_secs(1));
                let case = format!("{carries:?}, {events}, {path:?}: {outcome:?}");
                assert!(outcome.came + 3 >= outcome.pushed && outcome.pushed == RESERVED as u64, "{case}");
                assert!(outcome.longest <= WAIT + 2 * STEP, "{case}");
                let rest = (LINE - RESERVED) as u64;
                assert!((outcome.bulk + 4) * BULK_CELLS >= rest, "{case}");
                // What has left is counted whole, but for what leaves now.
                let host: &mut HostInterface = bench.network.node_mut(bench.nodes[0]).unwrap();
                let sent = host.circuit_counts(CircuitId::new(0, 100).unwrap()).unwrap().sent;
                assert!((outcome.bulk..=outcome.bulk + BULK_AWAY).contains(&sent.pdus), "{case}: {sent:?}");
                assert_eq!(sent.octets, sent.pdus * u64::from(BULK_OCTETS), "{case}: {sent:?}");
            }
        }
    }
}

#[test]
fn a_round_ends_at_its_bound_and_the_next_begins_with_the_endpoint_whose_turn_it_would_have_been() {
    const ENDPOINTS: u16 = 20;
    // What an endpoint may send in its turn, and all of them in a round.
    const TURN: u64 = 1024;
    const ROUND: u64 = 16 * TURN;
    let mut network = Network::new(FramePool::new(8, 4096));
    let node = network.add_node("a", Box::new(HostInterface::new(ENDPOINTS.into())));
    let config = LinkConfig { queue_cells: 40_000, ..LinkConfig::default() };
    network.connect(End::Port(node, 0), End::External, config).unwrap();
    let host: &mut HostInterface = network.node_mut(node).unwrap();
    let mut ends = Vec::new();
    for vci in 100..100 + ENDPOINTS {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let circuit = CircuitId::new(0, vci).unwrap();
        host.add_circuit(circuit, CircuitConfig::default());
        let channel = host.open(id, circuit, Aal::Aal5).unwrap();
        for buffer in 0..GEOMETRY.send_ring {
            let mut descriptor = Descriptor::from(Head::of_buffer(buffer));
            (descriptor.head.channel, descriptor.head.octets) = (channel.0, BULK_OCTETS);
            assert!(local.send.push(descriptor));
        }
        host.handle_doorbell(id);
        ends.push((id, local));
    }
    let mut sent = || {
        network.run(Time::ZERO);
        let host: &mut HostInterface = network.node_mut(node).unwrap();
        let all = host.endpoints();
        let of = |id: &EndpointId| all.iter().find(|endpoint| endpoint.id == *id).unwrap().sent.cells;
        ends.iter().map(|(id, _)| of(id)).collect::<Vec<_>>()
    };
    let (first, second) = (sent(), sent());
    assert_eq!(first.iter().sum::<u64>(), ROUND, "{first:?}");
    assert_eq!(second.iter().sum::<u64>(), 2 * ROUND, "{second:?}");
    // Sixteen have had a turn; the other four have theirs before anybody's second.
    assert_eq!(first.iter().filter(|n| **n == TURN).count(), 16);
    let begun: Vec<bool> = first.iter().map(|n| *n > 0).collect();
    assert!(second.iter().all(|n| *n >= TURN), "{begun:?} {second:?}");
    assert_eq!(second.iter().filter(|n| **n == 2 * TURN).count(), 12);
    let last = begun.iter().rposition(|begun| *begun).unwrap();
    assert_eq!(second[last], TURN, "who had the last turn of a round has not the first of the next");
}

#[test]
fn what_is_sent_at_a_host_without_a_link_is_counted_as_link_down_once_by_circuit_and_endpoint() {
    let mut network = Network::new(FramePool::new(8, 4096));
    let node = network.add_node("a", Box::new(HostInterface::new(4)));
    let host: &mut HostInterface = network.node_mut(node).unwrap();
    let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
    let mut local = Local::new(&segment);
    let id = host.attach(HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, None)).unwrap();
    let circuit = CircuitId::new(0, 100).unwrap();
    host.add_circuit(circuit, CircuitConfig::default());
    let channel = host.open(id, circuit, Aal::Aal5).unwrap();
    for buffer in 0..3 {
        let mut descriptor = Descriptor::from(Head::of_buffer(buffer));
        (descriptor.head.channel, descriptor.head.octets) = (channel.0, BULK_OCTETS);
        assert!(local.send.push(descriptor));
    }
    host.handle_doorbell(id);
    while network.run(Time::ZERO) {}
    let host: &mut HostInterface = network.node_mut(node).unwrap();
    let endpoint = host.endpoints().remove(0).sent;
    for sent in [host.circuit_counts(circuit).unwrap().sent, endpoint] {
        assert_eq!((sent.dropped(DropReason::LinkDown), sent.dropped_total(), sent.pdus), (3, 3, 0));
    }
    assert_eq!(host.mismatch(), None);
}

#[test]
fn a_circuit_of_a_reserved_rate_has_the_first_turn_though_it_has_never_waited() {
    let mut network = Network::new(FramePool::new(8, 4096));
    let node = network.add_node("a", Box::new(HostInterface::new(1)));
    let link = network.connect(End::Port(node, 0), End::External, LinkConfig::default()).unwrap();
    let host: &mut HostInterface = network.node_mut(node).unwrap();
    let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
    let mut local = Local::new(&segment);
    let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
    let reserved =
        Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(RESERVED), ..Contract::default() };
    let channels = [(100, Contract::default()), (200, reserved)].map(|(vci, contract)| {
        let circuit = CircuitId::new(0, vci).unwrap();
        host.add_circuit(circuit, CircuitConfig { contract, ..CircuitConfig::default() });
        host.open(id, circuit, Aal::Aal5).unwrap()
    });
    let mut push = |channel: ChannelId, octets: u32| {
        assert!(local.send.push(Head { channel: channel.0, octets, ..Head::of_buffer(0) }));
    };
    let mut left = |now: Time| {
        while network.run(now) {}
        let take = |io: &mut net::NodeIo<'_>| {
            let vcis: Vec<u16> = io.cells_in(0).iter().map(|cell| cell.header().circuit.vci.get()).collect();
            io.consume(0, vcis.len());
            vcis
        };
        network.external(link, now, take).unwrap()
    };
    push(channels[1], 40);
    assert_eq!(left(Time::ZERO), [200]);
    push(channels[0], BULK_OCTETS);
    push(channels[1], 40);
    let order = left(Time::from_millis(10));
    assert_eq!((order.len() as u64, order[0]), (1 + BULK_CELLS, 200));
}
