//! Endpoints that end, in virtual time: what still leaves, until when, and what is counted.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Direction, Events, Geometry, Local, OpenOptions};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{End, FramePool, LinkConfig, LinkId, Network, NodeId};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId, DropReason, Time};

const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 64, buffer_octets: 512 };
/// Eleven cells.
const OCTETS: u32 = 480;
const STEP: Duration = Duration::from_millis(1);

/// A host whose link leads to another one, or ends in the test.
struct Stage {
    network: Network,
    nodes: Vec<NodeId>,
    link: LinkId,
    now: Time,
}

struct Application {
    id: EndpointId,
    channel: ChannelId,
    local: Local,
}

fn paced() -> Contract {
    Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() }
}

/// A cell a second.
fn slow() -> Contract {
    Contract { pcr: CellRate::from_cells_per_s(1.0), ..paced() }
}

impl Stage {
    fn new(hosts: usize, queue_cells: usize) -> Self {
        let mut network = Network::new(FramePool::new(4, 64));
        let nodes: Vec<_> =
            ["a", "b"][..hosts].iter().map(|name| network.add_node(name, Box::new(HostInterface::new(4)))).collect();
        let far = nodes.get(1).map_or(End::External, |node| End::Port(*node, 0));
        let config = LinkConfig { queue_cells, ..LinkConfig::default() };
        let link = network.connect(End::Port(nodes[0], 0), far, config).unwrap();
        Stage { network, nodes, link, now: Time::ZERO }
    }

    fn host(&mut self, at: usize) -> &mut HostInterface {
        self.network.node_mut(self.nodes[at]).unwrap()
    }

    fn add(&mut self, vci: u16, contract: Contract) {
        for at in 0..self.nodes.len() {
            let config = CircuitConfig { contract, ..CircuitConfig::default() };
            self.host(at).add_circuit(CircuitId::new(0, vci).unwrap(), config);
        }
    }

    fn open(&mut self, at: usize, vci: u16) -> Application {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        (0..GEOMETRY.buffers).for_each(|buffer| assert!(local.free.push(Head::of_buffer(buffer))));
        let host = self.host(at);
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = host.open(id, CircuitId::new(0, vci).unwrap(), Aal::Aal5).unwrap();
        Application { id, channel, local }
    }

    /// One more circuit, for an application that has some.
    fn reopen(&mut self, application: &mut Application, vci: u16) {
        application.channel = self.host(0).open(application.id, CircuitId::new(0, vci).unwrap(), Aal::Aal5).unwrap();
    }

    fn close(&mut self, application: &Application) {
        self.host(0).close(application.id, application.channel).unwrap();
    }

    /// A round each millisecond; the test takes what comes to it, or leaves it where it is. How many cells it took.
    fn pass(&mut self, time: Duration, takes: bool) -> usize {
        let (end, mut taken) = (self.now + time, 0);
        while self.now < end {
            while self.network.run(self.now) {}
            if takes && self.nodes.len() == 1 {
                self.network.external(self.link, self.now, |io| {
                    let n = io.cells_in(0).len();
                    taken += n;
                    io.consume(0, n);
                });
            }
            self.now += STEP;
        }
        taken
    }

    fn endpoints(&mut self) -> usize {
        self.host(0).endpoints().len()
    }

    /// SDUs sent on a circuit, and those that were dropped because they were closed.
    fn sent(&mut self, vci: u16) -> (u64, u64) {
        let sent = self.host(0).circuit_counts(CircuitId::new(0, vci).unwrap()).unwrap().sent;
        (sent.pdus, sent.dropped(DropReason::Closed))
    }
}

fn push(application: &mut Application, sdus: u32) {
    push_long(application, sdus, OCTETS);
}

/// SDUs of one cell.
fn push_cells(application: &mut Application, sdus: u32) {
    push_long(application, sdus, 40);
}

fn push_long(application: &mut Application, sdus: u32, octets: u32) {
    for buffer in 0..sdus {
        let descriptor = Head { channel: application.channel.0, octets, ..Head::of_buffer(buffer) };
        assert!(application.local.send.push(descriptor));
    }
}

#[test]
fn what_an_application_left_leaves_by_its_contract_for_half_a_second_and_the_next_opener_comes_after_it() {
    let mut stage = Stage::new(2, 64);
    stage.add(100, paced());
    let (mut gone, mut receiver) = (stage.open(0, 100), stage.open(1, 100));
    push(&mut gone, 64);
    assert!(stage.host(0).depart(gone.id));
    // The circuit is free at once.
    let mut next = stage.open(0, 100);
    push(&mut next, 1);
    stage.pass(Duration::from_millis(500), true);
    assert_eq!(stage.endpoints(), 2);
    // The cell that ends the SDU that has begun, and the eleven of the next opener's.
    stage.pass(Duration::from_millis(3), true);
    assert_eq!(stage.endpoints(), 1);
    stage.pass(Duration::from_millis(20), true);
    // 500 cells in half a second, of eleven each.
    assert_eq!(stage.sent(100), (45 + 1, 64 - 45));
    let received = stage.host(1).circuit(CircuitId::new(0, 100).unwrap()).unwrap().received;
    assert_eq!((received.pdus, received.dropped(DropReason::Aborted), received.dropped_total()), (46, 1, 1));
    assert_eq!(std::iter::from_fn(|| receiver.local.receive.pop()).filter(|got| got.head.octets == OCTETS).count(), 46);
    for at in 0..2 {
        assert_eq!(stage.host(at).mismatch(), None);
    }
}

#[test]
fn an_endpoint_ends_as_soon_as_all_has_left() {
    let mut stage = Stage::new(1, 64);
    stage.add(100, Contract::default());
    let mut gone = stage.open(0, 100);
    push(&mut gone, 3);
    assert!(stage.host(0).depart(gone.id) && stage.host(0).departs(gone.id));
    assert_eq!(stage.pass(2 * STEP, true), 33);
    assert_eq!((stage.endpoints(), stage.sent(100)), (0, (3, 0)));
    // With nothing to send it ends at once.
    let gone = stage.open(0, 100);
    assert!(stage.host(0).depart(gone.id) && !stage.host(0).departs(gone.id));
    assert_eq!(stage.endpoints(), 0);
}

#[test]
fn a_line_that_takes_nothing_holds_an_endpoint_for_half_a_second_and_in_the_middle_of_an_sdu_a_tenth_more() {
    let mut stage = Stage::new(1, 4);
    (100..102).for_each(|vci| stage.add(vci, Contract::default()));
    let mut begun = stage.open(0, 100);
    push(&mut begun, 3);
    stage.pass(STEP, false);
    let mut behind = stage.open(0, 101);
    push(&mut behind, 3);
    stage.pass(STEP, false);
    let [begun, behind] = [begun.id, behind.id];
    assert!([begun, behind].map(|id| stage.host(0).depart(id)) == [true; 2]);
    // The first round that sees them begins their time.
    let departs = |stage: &mut Stage| [begun, behind].map(|id| stage.host(0).departs(id));
    stage.pass(Duration::from_millis(500), false);
    assert_eq!(departs(&mut stage), [true, true]);
    stage.pass(STEP, false);
    assert_eq!(departs(&mut stage), [true, false], "nobody has seen a part of what it sent");
    stage.pass(Duration::from_millis(99), false);
    assert_eq!(departs(&mut stage), [true, false]);
    stage.pass(STEP, false);
    assert_eq!((departs(&mut stage), stage.endpoints()), ([false, false], 0));
    assert_eq!((stage.sent(100), stage.sent(101)), ((0, 3), (0, 3)));
    assert_eq!(stage.host(0).mismatch(), None);
    // Nobody waits for it any more.
    let mut next = stage.open(0, 100);
    push(&mut next, 1);
    assert_eq!(stage.pass(10 * STEP, true), 4 + 11);
}

#[test]
fn an_endpoint_that_is_given_up_ends_at_once_and_in_the_middle_of_an_sdu_with_the_cell_that_says_so() {
    let mut stage = Stage::new(1, 4);
    (100..102).for_each(|vci| stage.add(vci, Contract::default()));
    let [mut begun, mut behind] = [100, 101].map(|vci| stage.open(0, vci));
    push(&mut begun, 3);
    stage.pass(STEP, false);
    push(&mut behind, 3);
    stage.pass(STEP, false);
    assert!(stage.host(0).release_endpoint(behind.id) && stage.host(0).release_endpoint(begun.id));
    assert_eq!((stage.endpoints(), stage.sent(101)), (1, (0, 3)));
    // Four cells of eleven, and one that ends them.
    assert_eq!(stage.pass(3 * STEP, true), 5);
    assert_eq!((stage.endpoints(), stage.sent(100)), (0, (0, 3)));
    // Where the line does not take that one either, it is not waited for longer than a tenth of a second.
    let mut begun = stage.open(0, 100);
    push(&mut begun, 1);
    stage.pass(STEP, false);
    assert!(stage.host(0).release_endpoint(begun.id));
    stage.pass(Duration::from_millis(100), false);
    assert_eq!(stage.endpoints(), 1);
    stage.pass(STEP, false);
    assert_eq!((stage.endpoints(), stage.sent(100)), (0, (0, 4)));
    assert_eq!(stage.host(0).mismatch(), None);
}

#[test]
fn what_waits_for_a_circuit_that_is_removed_is_counted_at_its_endpoint_and_its_slots_come_back() {
    for goes in [false, true] {
        let mut stage = Stage::new(1, 64);
        (100..102).for_each(|vci| stage.add(vci, paced()));
        let mut application = stage.open(0, 100);
        let circuit = CircuitId::new(0, 100).unwrap();
        push(&mut application, 64);
        // Twelve cells: one SDU has left, and one has begun.
        stage.pass(12 * STEP, true);
        assert!(stage.host(0).remove_circuit(circuit));
        if goes {
            // Before a round has dropped any.
            assert!(stage.host(0).detach(application.id));
        } else {
            stage.pass(STEP, true);
            let counted = stage.host(0).endpoints()[0].sent;
            assert_eq!(
                (counted.pdus, counted.dropped(DropReason::Closed), application.local.send.consumed()),
                (1, 63, 64)
            );
            // The ring is whole again.
            application.channel =
                stage.host(0).open(application.id, CircuitId::new(0, 101).unwrap(), Aal::Aal5).unwrap();
            push(&mut application, 64);
            stage.pass(Duration::from_millis(11 * 64 + 1), true);
            assert_eq!(stage.sent(101), (64, 0));
        }
        assert_eq!(stage.host(0).mismatch(), None);
    }
}

#[test]
fn a_channel_that_closes_behind_one_that_was_closed_in_the_middle_of_an_sdu_leaves_its_own_circuit_to_others() {
    let mut stage = Stage::new(1, 64);
    (100..102).for_each(|vci| stage.add(vci, paced()));
    let mut first = stage.open(0, 100);
    push(&mut first, 2);
    stage.pass(3 * STEP, true);
    // Before the cell that ends the SDU has left.
    stage.close(&first);
    stage.reopen(&mut first, 101);
    stage.close(&first);
    let mut next = stage.open(0, 101);
    push(&mut next, 1);
    stage.pass(Duration::from_millis(100), true);
    assert_eq!((stage.sent(101), stage.sent(100)), ((1, 0), (0, 2)));
    assert_eq!(stage.host(0).mismatch(), None);
}

#[test]
fn a_channel_that_receives_and_closes_does_not_cut_the_sdu_that_leaves_on_another_of_its_circuit() {
    let mut stage = Stage::new(2, 64);
    (100..102).for_each(|vci| stage.add(vci, paced()));
    let (mut both, circuit) = (stage.open(0, 101), CircuitId::new(0, 100).unwrap());
    let _receiver = stage.open(1, 100);
    let [receives, sends] = [Direction::Receive, Direction::Send].map(|direction| {
        stage.host(0).open_with(both.id, circuit, OpenOptions { direction, ..OpenOptions::default() }).unwrap()
    });
    both.channel = sends;
    push(&mut both, 1);
    stage.pass(3 * STEP, true);
    stage.host(0).close(both.id, receives).unwrap();
    stage.pass(20 * STEP, true);
    assert_eq!(stage.sent(100), (1, 0));
    let received = stage.host(1).circuit_counts(circuit).unwrap().received;
    assert_eq!((received.pdus, received.dropped_total()), (1, 0));
}

#[test]
fn a_channel_at_the_place_of_one_that_was_closed_does_not_wait_for_the_pacer_of_that() {
    let mut stage = Stage::new(1, 64);
    stage.add(100, slow());
    stage.add(101, Contract::default());
    let mut application = stage.open(0, 100);
    // More than a cell a second, and the first has left.
    push_cells(&mut application, 2);
    stage.pass(2 * STEP, true);
    assert_eq!(stage.sent(100), (1, 0));
    stage.close(&application);
    stage.reopen(&mut application, 101);
    push(&mut application, 1);
    stage.pass(STEP, true);
    assert_eq!((stage.sent(101), stage.sent(100)), ((1, 0), (1, 1)));
    assert_eq!(stage.host(0).mismatch(), None);
}

#[test]
fn what_waits_for_its_pacer_leaves_as_another_contract_says() {
    let mut stage = Stage::new(1, 64);
    stage.add(100, slow());
    let mut application = stage.open(0, 100);
    push_cells(&mut application, 3);
    stage.pass(2 * STEP, true);
    assert_eq!(stage.sent(100), (1, 0));
    let (aal, oam) = (net::FrameAal::Aal5, OamOptions::default());
    let faster = CircuitOptions { contract: paced(), aal, sends: true, receives: true, oam };
    stage.host(0).change_circuit(0, CircuitId::new(0, 100).unwrap(), &faster).unwrap();
    stage.pass(3 * STEP, true);
    assert_eq!(stage.sent(100), (3, 0));
}

#[test]
fn a_round_drops_no_more_than_a_piece_of_what_waits_for_circuits_that_are_removed() {
    const RINGS: [u32; 3] = [4096, 512, 256];
    let mut stage = Stage::new(1, 64);
    let circuits = [100, 101, 102].map(|vci| CircuitId::new(0, vci).unwrap());
    let mut locals: Vec<Local> = Vec::new();
    for (circuit, send_ring) in circuits.into_iter().zip(RINGS) {
        stage.add(circuit.vci.get(), paced());
        let segment = Arc::new(Segment::anonymous(Geometry { send_ring, ..GEOMETRY }).unwrap());
        let mut local = Local::new(&segment);
        let id = stage.host(0).attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = stage.host(0).open(id, circuit, Aal::Aal5).unwrap();
        while local.send.push(Head { channel: channel.0, octets: OCTETS, ..Head::of_buffer(0) }) {}
        locals.push(local);
    }
    (0..500).for_each(|_| _ = stage.network.run(stage.now));
    assert_eq!(stage.host(0).endpoints().iter().map(|endpoint| endpoint.waiting).sum::<usize>(), 4864);
    assert!(circuits.iter().all(|circuit| stage.host(0).remove_circuit(*circuit)));
    let mut consumed = || locals.iter_mut().map(|local| local.send.consumed()).sum::<u32>();
    let (mut rounds, mut before) = (0, 0);
    while before < 4864 {
        assert!(stage.network.run(stage.now));
        let (now, ended) = (consumed(), if rounds == 0 { 3 } else { 0 });
        assert!(now - before <= 1024 + ended, "{} in round {rounds}", now - before);
        (rounds, before) = (rounds + 1, now);
    }
    assert_eq!(rounds, 5);
    assert_eq!(stage.host(0).mismatch(), None);
}
