//! A receiver on a circuit with credits that closes, or whose circuit another opens: what was kept for it is gone and counted, and its
//! credit is its neighbour's again at once, not when that asks.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network, NodeId};
use sar::{SduMeta, Segmentation};
use std::sync::Arc;
use std::time::Duration;
use switch::credit::Sender;
use traffic::{Contract, Flow};
use wire::credit;
use wire::{Cell, CircuitId, DropReason, Label, Time, aal5};

const GEOMETRY: Geometry =
    Geometry { send_ring: 16, receive_ring: 16, free_ring: 16, buffers: 16, buffer_octets: 2048 };

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

/// A host with a circuit whose neighbour is the test.
struct Stage {
    network: Network,
    node: NodeId,
    link: LinkId,
    sender: Sender,
    now: Time,
}

impl Stage {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(4, 64));
        let node = network.add_node("host", Box::new(HostInterface::new(4)));
        let config = LinkConfig { carries: Carries::Cells, peer_takes_credits: true, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
        let contract = Contract { flow: Flow::Credit, ..Contract::default() };
        let config = CircuitConfig { contract, ..CircuitConfig::default() };
        network.node_mut::<HostInterface>(node).unwrap().add_circuit(circuit(), config);
        let mut stage = Stage { network, node, link, sender: Sender::new(1), now: Time::ZERO };
        let check = stage.sender.check(Label::Vc(circuit()));
        stage.put(&credit::emit(&[check]));
        stage.run();
        stage
    }

    fn host(&mut self) -> &mut HostInterface {
        self.network.node_mut(self.node).unwrap()
    }

    fn open(&mut self) -> (Local, EndpointId, ChannelId) {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut client = Local::new(&segment);
        assert!((0..16).all(|buffer| client.free.push(Head::of_buffer(buffer))));
        let id = self.host().attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = self.host().open(id, circuit(), Aal::Aal5).unwrap();
        (client, id, channel)
    }

    fn put(&mut self, cell: &Cell) {
        assert_eq!(self.network.external(self.link, self.now, |io| io.put_cell(0, cell)), Some(true));
    }

    /// Too short a time for any timer of credits.
    fn run(&mut self) {
        for _ in 0..10 {
            self.now += Duration::from_micros(1);
            self.network.run(self.now);
            let sender = &mut self.sender;
            self.network.external(self.link, self.now, |io| {
                for cell in io.cells_in(0).iter().filter(|cell| credit::is_credit(cell.header_word())) {
                    for entry in credit::parse(&cell.payload).unwrap() {
                        sender.handle_limit(&entry);
                    }
                }
                io.consume(0, io.cells_in(0).len());
            });
        }
    }

    /// Sends PDUs until there is no credit left; the last one in part.
    fn send_all(&mut self) {
        let sdu = [0xee; 1500];
        let mut cells = vec![Cell::default(); aal5::cells(sdu.len())];
        Segmentation::new(circuit(), sdu.len(), SduMeta::default()).unwrap().fill(&sdu, &mut cells);
        for n in 0.. {
            if self.sender.room() == 0 {
                self.run();
            }
            if self.sender.room() == 0 {
                return;
            }
            self.put(&cells[n % cells.len()]);
            self.sender.sent(1);
        }
    }
}

#[test]
fn a_receiver_that_closes_gives_its_credit_back_at_once() {
    for end in ["close", "detach", "close and open"] {
        let mut stage = Stage::new();
        let window = stage.sender.room();
        assert!(window > 100);
        let (_client, id, channel) = stage.open();
        stage.send_all();
        let kept = window - stage.sender.room();
        assert_eq!(kept, window, "the ring has 16 slots");
        match end {
            "detach" => assert!(stage.host().detach(id)),
            _ => stage.host().close(id, channel).unwrap(),
        }
        if end == "close and open" {
            stage.open();
        }
        stage.run();
        assert_eq!(stage.sender.room(), window, "{end}");
        let closed = stage.host().circuit_counts(circuit()).unwrap().received.dropped(DropReason::Closed);
        assert!(closed >= u64::from(kept), "{end}: {closed} of {kept}");
    }
}
