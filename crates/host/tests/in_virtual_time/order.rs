//! In which order circuits and endpoints send where a line has no room for all: who closes, who goes, whose contract changes.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::topology::{CircuitOptions, CircuitTable};
use net::{End, FramePool, LinkConfig, LinkId, Network, NodeId, Side};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellRate, CircuitId, DropReason, PayloadType, Time};

const GEOMETRY: Geometry =
    Geometry { send_ring: 32, receive_ring: 8, free_ring: 8, buffers: 16, buffer_octets: 65_536 };
/// Cells a second, ten microseconds each.
const LINE: f64 = 100_000.0;
const CELL: Duration = Duration::from_micros(10);

/// A host whose link ends in the test, and takes some cells at once only.
struct Stage {
    network: Network,
    node: NodeId,
    link: LinkId,
    now: Time,
}

struct User {
    local: Local,
    id: EndpointId,
}

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

impl Stage {
    fn new(window: usize) -> Self {
        let mut network = Network::new(FramePool::new(4, 64));
        let node = network.add_node("host", Box::new(HostInterface::new(8)));
        let rate = CellRate::from_cells_per_s(LINE);
        let config = LinkConfig { rate, queue_cells: 64, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
        assert!(network.set_link_window(link, Side::A, Some(window)));
        Stage { network, node, link, now: Time::ZERO }
    }

    fn host(&mut self) -> &mut HostInterface {
        self.network.node_mut(self.node).unwrap()
    }

    fn circuit(&mut self, vci: u16, contract: Contract) {
        self.host().add_circuit(circuit(vci), CircuitConfig { contract, ..CircuitConfig::default() });
    }

    fn user(&mut self, events: Events) -> User {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let local = Local::new(&segment);
        let attached = HostEndpoint::new(segment, events, DataPath::Shared, None);
        User { local, id: self.host().attach(attached).unwrap() }
    }

    fn open(&mut self, user: &User, vci: u16) -> ChannelId {
        self.host().open(user.id, circuit(vci), Aal::Aal5).unwrap()
    }

    /// Time passes; the cells that left, and when.
    fn pass(&mut self, time: Duration) -> Vec<(Time, Cell)> {
        let (end, mut out) = (self.now + time, Vec::new());
        while self.now < end {
            self.now += CELL;
            while self.network.run(self.now) {}
            let now = self.now;
            self.network.external(self.link, now, |io| {
                let n = io.cells_in(0).len();
                out.extend(io.cells_in(0).iter().map(|cell| (now, *cell)));
                io.consume(0, n);
            });
        }
        out
    }

    fn push(&mut self, user: &mut User, channel: ChannelId, (buffer, octets): (u32, u32)) {
        let descriptor = Head { channel: channel.0, octets, ..Head::of_buffer(buffer) };
        assert!(user.local.send.push(descriptor));
        self.host().handle_doorbell(user.id);
    }

    /// Ends with everything counted.
    fn settle(&mut self) {
        self.pass(Duration::from_secs(1));
        assert_eq!(self.host().mismatch(), None);
    }
}

fn cbr(cells_per_s: f64) -> Contract {
    let pcr = CellRate::from_cells_per_s(cells_per_s);
    Contract { category: Category::Cbr, pcr, cdvt: Duration::from_millis(1), ..Contract::default() }
}

/// The lengths that the ends of AAL5 PDUs say, in order; 0: given up.
fn lengths(cells: &[(Time, Cell)]) -> Vec<u16> {
    let ends = cells.iter().filter(|(_, c)| matches!(c.header().payload_type, PayloadType::User { end: true, .. }));
    ends.map(|(_, c)| u16::from_be_bytes([c.payload[42], c.payload[43]])).collect()
}

#[test]
fn who_opens_a_circuit_sends_after_the_cell_that_ends_the_pdu_of_who_has_closed_it() {
    for first_attached in [true, false] {
        let mut stage = Stage::new(8);
        stage.circuit(100, Contract::default());
        // Whose turn comes first in a round must not matter.
        let (mut next, mut closes) = if first_attached {
            let next = stage.user(Events::Polling);
            (next, stage.user(Events::Polling))
        } else {
            let closes = stage.user(Events::Polling);
            (stage.user(Events::Polling), closes)
        };
        for round in 0..3 {
            let channel = stage.open(&closes, 100);
            stage.push(&mut closes, channel, (0, 60_000));
            let mut cells = stage.pass(20 * CELL);
            assert!(!cells.is_empty() && cells.len() < 100, "in the middle of 1251 cells: {}", cells.len());
            stage.host().close(closes.id, channel).unwrap();
            let channel = stage.open(&next, 100);
            for octets in [100, 200] {
                stage.push(&mut next, channel, (0, octets));
            }
            cells.extend(stage.pass(Duration::from_millis(5)));
            assert_eq!(lengths(&cells), [0, 100, 200], "round {round}");
            stage.host().close(next.id, channel).unwrap();
            stage.pass(Duration::from_millis(1));
        }
        let sent = stage.host().circuit_counts(circuit(100)).unwrap().sent;
        assert_eq!((sent.pdus, sent.dropped(DropReason::Closed)), (6, 3));
        stage.settle();
    }
}

#[test]
fn those_who_had_a_circuit_one_after_another_send_in_that_order_what_they_have_left() {
    let mut stage = Stage::new(4);
    stage.circuit(100, Contract::default());
    // The last has the first turn of each round.
    let mut users = [(); 4].map(|()| stage.user(Events::Polling));
    users.reverse();
    let mut wanted = Vec::new();
    for (n, user) in users.iter_mut().enumerate() {
        let channel = stage.open(user, 100);
        for sdu in 0..6 {
            // Some are one cell, some leave in many pieces.
            let octets = [40, 1000, 400][sdu % 3] + n as u32 * 1000 * u32::from(sdu % 3 == 1);
            stage.push(user, channel, (sdu as u32, octets));
            wanted.push(octets as u16);
        }
        if n < 3 {
            assert!(stage.host().depart(user.id));
        }
    }
    let cells = stage.pass(Duration::from_millis(100));
    assert_eq!(lengths(&cells), wanted);
    assert_eq!(stage.host().endpoints().len(), 1, "those who had left have ended");
    stage.settle();
}

#[test]
fn a_circuit_whose_contract_is_taken_back_has_no_turn_before_others_any_more() {
    let mut stage = Stage::new(16);
    stage.circuit(100, cbr(LINE / 2.0));
    stage.circuit(200, Contract::default());
    let mut user = stage.user(Events::Polling);
    let channels = [100, 200].map(|vci| stage.open(&user, vci));
    let fill = |stage: &mut Stage, user: &mut User, rounds: usize| {
        let mut came = [0usize; 2];
        let mut away = [0usize; 2];
        for _ in 0..rounds {
            for (n, channel) in channels.iter().enumerate() {
                while away[n] - came[n] < 8 * 10 {
                    stage.push(user, *channel, (n as u32, 400));
                    away[n] += 9;
                }
            }
            for (_, cell) in stage.pass(10 * CELL) {
                came[usize::from(cell.circuit() == circuit(200))] += 1;
            }
        }
        came
    };
    let reserved = fill(&mut stage, &mut user, 200);
    assert!(reserved[0] > 800, "the rate is kept: {reserved:?}");
    stage.pass(Duration::from_millis(10));
    let options = CircuitOptions {
        aal: net::FrameAal::Aal5,
        contract: Contract::default(),
        sends: true,
        receives: true,
        oam: Default::default(),
    };
    CircuitTable::change_circuit(stage.host(), 0, circuit(100), &options).unwrap();
    let both = fill(&mut stage, &mut user, 200);
    assert!(both[0].abs_diff(both[1]) < 200 && both[0] + both[1] > 1900, "they take turns: {both:?}");
    stage.settle();
}

#[test]
fn an_sdu_that_has_begun_leaves_to_its_end_whatever_the_clock_of_its_endpoint() {
    for events in [Events::Clocked { hertz: 20 }, Events::Polling] {
        let mut stage = Stage::new(16);
        stage.circuit(100, Contract::default());
        let mut user = stage.user(events);
        let channel = stage.open(&user, 100);
        stage.pass(Duration::from_millis(60));
        for _ in 0..2 {
            stage.push(&mut user, channel, (0, 20_000));
            let cells = stage.pass(Duration::from_millis(120));
            assert_eq!((lengths(&cells), cells.len()), (vec![20_000], wire::aal5::cells(20_000)), "{events}");
            let took = cells[cells.len() - 1].0.since(cells[0].0);
            assert!(took < 420 * CELL, "{events}: {took:?}");
        }
        stage.settle();
    }
}
