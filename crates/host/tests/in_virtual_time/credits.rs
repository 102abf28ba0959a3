//! A circuit with credits at a host whose link ends in the test: who waits for credit goes on once there is some.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::credit::{self, Entry, Kind};
use wire::{Cell, CircuitId, Label, Time};

const GEOMETRY: Geometry =
    Geometry { send_ring: 16, receive_ring: 16, free_ring: 16, buffers: 16, buffer_octets: 2048 };

/// A host whose circuit 0.100 has credits that the test grants.
struct Stage {
    network: Network,
    node: net::NodeId,
    link: LinkId,
    now: Time,
    start: Option<Entry>,
}

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

impl Stage {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(4, 64));
        let node = network.add_node("host", Box::new(HostInterface::new(4)));
        let config = LinkConfig { carries: Carries::Cells, peer_takes_credits: true, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
        let host = network.node_mut::<HostInterface>(node).unwrap();
        let contract = Contract { flow: Flow::Credit, ..Contract::default() };
        host.add_circuit(circuit(), CircuitConfig { contract, ..CircuitConfig::default() });
        Stage { network, node, link, now: Time::ZERO, start: None }
    }

    fn host(&mut self) -> &mut HostInterface {
        self.network.node_mut(self.node).unwrap()
    }

    fn endpoint(&mut self, aal: Aal) -> (Local, ChannelId, host::EndpointId) {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let client = Local::new(&segment);
        let attached = HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None);
        let id = self.host().attach(attached).unwrap();
        let channel = self.host().open(id, circuit(), aal).unwrap();
        (client, channel, id)
    }

    /// Some rounds; what left but for credit cells.
    fn run(&mut self) -> Vec<Cell> {
        let mut out = Vec::new();
        for _ in 0..10 {
            self.now += Duration::from_micros(1);
            self.network.run(self.now);
            let start = &mut self.start;
            self.network.external(self.link, self.now, |io| {
                let n = io.cells_in(0).len();
                for cell in io.cells_in(0) {
                    match credit::is_credit(cell.header_word()) {
                        true => *start = credit::parse(&cell.payload).unwrap().next(),
                        false => out.push(*cell),
                    }
                }
                io.consume(0, n);
            });
        }
        out
    }

    /// So many cells may have left in all.
    fn grant(&mut self, cells: u32) {
        let incarnation = self.start.expect("the host asks first").incarnation;
        let limit = Entry { kind: Kind::Limit, incarnation, label: Label::Vc(circuit()), cells };
        let cell = credit::emit(&[limit]);
        assert_eq!(self.network.external(self.link, self.now, |io| io.put_cell(0, &cell)), Some(true));
    }
}

fn push(client: &mut Local, channel: ChannelId, buffer: u32, octets: u32) {
    assert!(client.send.push(Head { channel: channel.0, octets, ..Head::of_buffer(buffer) }));
}

#[test]
fn sdus_leave_as_far_as_credit_goes_and_go_on_where_they_stopped() {
    let mut stage = Stage::new();
    let (mut client, channel, _) = stage.endpoint(Aal::Aal5);
    for buffer in 0..3 {
        push(&mut client, channel, buffer, 200);
    }
    assert_eq!(stage.run(), []);
    let mut left = 0;
    // 200 octets are five cells; each grant ends somewhere else in them.
    for granted in [3, 4, 9, 11, 15] {
        stage.grant(granted);
        left += stage.run().len();
        assert_eq!(left, granted as usize);
    }
    let sent = stage.host().circuit(circuit()).unwrap().sent;
    assert_eq!((sent.pdus, sent.cells, sent.octets), (3, 15, 600));
}

#[test]
fn whoever_waits_for_credit_on_a_circuit_goes_on_with_it() {
    let mut stage = Stage::new();
    let (mut data, to_data, data_id) = stage.endpoint(Aal::Aal5);
    let (mut oam, to_oam, oam_id) = stage.endpoint(Aal::Oam);
    stage.run();
    let mut granted = 0;
    for depart in [false, true] {
        push(&mut data, to_data, 0, 40);
        push(&mut oam, to_oam, 0, 52);
        assert_eq!(stage.run(), []);
        if depart {
            assert!(stage.host().depart(data_id) && stage.host().depart(oam_id));
            assert_eq!(stage.run(), []);
        }
        granted += 2;
        stage.grant(granted);
        let left = stage.run();
        assert_eq!(left.len(), 2);
        assert_eq!(left.iter().filter(|cell| cell.header_word() & 8 != 0).count(), 1, "one of them is OAM");
    }
    assert!(!stage.host().departs(data_id) && !stage.host().departs(oam_id));
}

#[test]
fn who_opens_a_circuit_again_that_it_closed_in_the_middle_of_an_sdu_comes_after_the_cell_that_ends_that() {
    let mut stage = Stage::new();
    let other = CircuitId::new(0, 101).unwrap();
    stage.host().add_circuit(other, CircuitConfig::default());
    let (mut client, first, id) = stage.endpoint(Aal::Aal5);
    stage.run();
    stage.grant(3);
    push(&mut client, first, 0, 200);
    assert_eq!(stage.run().len(), 3);
    stage.host().close(id, first).unwrap();
    // Another circuit might have the place of the one that leaves.
    let beside = stage.host().open(id, other, Aal::Aal5).unwrap();
    let again = stage.host().open(id, circuit(), Aal::Aal5).unwrap();
    push(&mut client, again, 1, 200);
    // What was pushed is taken up, before there is credit.
    stage.host().close(id, beside).unwrap();
    stage.grant(20);
    let ends: Vec<bool> = stage.run().iter().map(|cell| cell.header_word() & 2 != 0).collect();
    assert_eq!(ends, [true, false, false, false, false, true]);
    assert_eq!(stage.host().mismatch(), None);
}

#[test]
fn an_endpoint_that_opens_and_closes_a_circuit_without_credit_does_not_run_out_of_channels() {
    let mut stage = Stage::new();
    let (mut client, mut channel, id) = stage.endpoint(Aal::Aal5);
    stage.run();
    stage.grant(3);
    for _ in 0..100 {
        push(&mut client, channel, 0, 200);
        stage.run();
        stage.host().close(id, channel).unwrap();
        channel = stage.host().open(id, circuit(), Aal::Aal5).unwrap();
        assert!(channel.place() <= 1, "the place of what has not left, and one more");
    }
    stage.grant(20);
    push(&mut client, channel, 1, 200);
    assert_eq!(stage.run().len(), 1 + 5);
    assert_eq!(stage.host().open(id, circuit(), Aal::Oam).unwrap().place(), 0);
    assert_eq!(stage.host().mismatch(), None);
}

#[test]
fn sdus_that_leave_whole_use_up_their_credit_and_are_counted() {
    let mut stage = Stage::new();
    let (mut client, channel, _) = stage.endpoint(Aal::Aal5);
    for buffer in 0..6 {
        push(&mut client, channel, buffer, 200);
    }
    assert_eq!(stage.run(), []);
    let mut left = 0;
    // Five cells each: two SDUs at once, one, two and a part, the rest.
    for granted in [10, 15, 27, 30, 60] {
        stage.grant(granted);
        for _ in 0..3 {
            left += stage.run().len();
        }
        assert_eq!(left, granted.min(30) as usize, "{granted} cells were granted");
    }
    let host = stage.host();
    let (of_circuit, of_endpoint) = (host.circuit_counts(circuit()).unwrap().sent, host.endpoints()[0].sent);
    for sent in [of_circuit, of_endpoint] {
        assert_eq!((sent.cells, sent.pdus, sent.octets, sent.dropped_total()), (30, 6, 1200, 0));
    }
    assert_eq!(host.mismatch(), None);
}

#[test]
fn a_neighbour_that_talks_nonsense_about_credits_harms_the_circuits_of_its_link_only() {
    for seed in 1..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut stage = Stage::new();
        let (mut client, channel, _) = stage.endpoint(Aal::Aal5);
        // Another link of the host has an innocent circuit with credits, whose neighbour grants what it says.
        let config = LinkConfig { carries: Carries::Cells, peer_takes_credits: true, ..LinkConfig::default() };
        let there = stage.network.connect(End::Port(stage.node, 1), End::External, config).unwrap();
        let innocent = CircuitId::new(0, 200).unwrap();
        let contract = Contract { flow: Flow::Credit, ..Contract::default() };
        stage.host().add_circuit(innocent, CircuitConfig { port: 1, contract, ..CircuitConfig::default() });
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut other = Local::new(&segment);
        let id = stage.host().attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let to_other = stage.host().open(id, innocent, Aal::Aal5).unwrap();
        stage.run();
        let mine = stage.start.expect("the host asks").incarnation;
        let mut theirs = None;
        let mut left = 0;
        for step in 0..60u32 {
            for _ in 0..random.random_range(0..8) {
                let label = if random.random() { Label::Vc(circuit()) } else { Label::Vc(innocent) };
                let kind = [Kind::Limit, Kind::Check, Kind::Start][random.random_range(0..3)];
                let known = [mine, theirs.unwrap_or(mine), mine.wrapping_add(1)][random.random_range(0..3)];
                let incarnation = if random.random() { known } else { random.random() };
                let cells = if random.random() { random.random() } else { random.random_range(0..3000) };
                let cell = credit::emit(&[Entry { kind, incarnation, label, cells }]);
                stage.network.external(stage.link, stage.now, |io| io.put_cell(0, &cell));
            }
            // Its ring may be full: it is granted what the neighbour says.
            client.send.push(Head { channel: channel.0, octets: 200, ..Head::of_buffer(step % 8) });
            push(&mut other, to_other, step % 8, 200);
            let mut came = 0;
            for _ in 0..3 {
                stage.run();
                stage.network.external(there, stage.now, |io| {
                    for cell in io.cells_in(0) {
                        match credit::is_credit(cell.header_word()) {
                            true => {
                                theirs = credit::parse(&cell.payload).unwrap().next().map(|entry| entry.incarnation)
                            }
                            false => came += 1,
                        }
                    }
                    io.consume(0, io.cells_in(0).len());
                    let Some(incarnation) = theirs.filter(|_| came == 0) else { return };
                    let cells = (step + 1) * 5;
                    let limit = Entry { kind: Kind::Limit, incarnation, label: Label::Vc(innocent), cells };
                    io.put_cell(0, &credit::emit(&[limit]));
                });
            }
            left += came;
            assert_eq!(left, (step + 1) * 5, "seed {seed}, step {step}");
            assert_eq!(stage.host().mismatch(), None);
        }
    }
}
