//! Two hosts on a link, round by round: what lenders and borrowers have of each other, and what a round ends of it.

use crate::channels::EndpointId;
use crate::interface::HostInterface;
use crate::lent::Lent;
use crate::{CircuitConfig, HostEndpoint};
use endpoint::layout::{self, Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{DataPath, Direction, Events, Geometry, Local, OpenOptions};
use net::{Carries, End, LinkConfig, Network, NodeId};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wire::{CircuitId, DropReason, Time};

const SMALL: Geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 8, buffers: 8, buffer_octets: 4096 };

fn circuit() -> CircuitId {
    CircuitId::from_key(100)
}

struct World {
    network: Network,
    /// The lenders', and the borrower's.
    hosts: [NodeId; 2],
    now: Time,
}

/// An application.
struct Application {
    id: EndpointId,
    channel: u32,
    local: Local,
}

impl Application {
    fn send(&mut self, octets: u32, buffer: u32) {
        assert!(self.local.send.push(Head { channel: self.channel, octets, ..Head::of_buffer(buffer) }));
    }

    fn give_back(&mut self, buffer: u32) {
        assert!(self.local.free.push(Head::of_buffer(buffer)));
    }
}

impl World {
    fn new() -> Self {
        let mut network = Network::sharded(1, 64, 65_536);
        let hosts = ["alpha", "beta"].map(|name| {
            let mut host = HostInterface::new(4);
            host.add_circuit(circuit(), CircuitConfig::default());
            network.add_node(name, Box::new(host))
        });
        let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
        network.connect(End::Port(hosts[0], 0), End::Port(hosts[1], 0), config).unwrap();
        World { network, hosts, now: Time::from_micros(1) }
    }

    fn host(&mut self, at: usize) -> &mut HostInterface {
        self.network.node_mut(self.hosts[at]).unwrap()
    }

    fn attach(&mut self, at: usize, geometry: Geometry, lends: bool) -> Application {
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let local = Local::new(&segment);
        let host = self.host(at);
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        if lends {
            host.lend(id, Lent::of_nothing(geometry)).unwrap();
        }
        let direction = if at == 0 { Direction::Send } else { Direction::Receive };
        let channel = host.open_with(id, circuit(), OpenOptions { direction, ..OpenOptions::default() }).unwrap();
        Application { id, channel: channel.0, local }
    }

    fn lender(&mut self, geometry: Geometry) -> Application {
        self.attach(0, geometry, true)
    }

    fn borrower(&mut self, geometry: Geometry) -> Application {
        let application = self.attach(1, geometry, false);
        self.host(1).borrow(application.id, endpoint::ChannelId(application.channel)).unwrap();
        application
    }

    /// A lender's memory, as long as anybody has it.
    fn memory(&mut self, lender: &Application) -> Weak<Lent> {
        let endpoint = self.host(0).endpoints.find(lender.id).unwrap();
        Arc::downgrade(endpoint.lends.as_ref().unwrap())
    }

    /// An SDU in the lender's buffer 5 is the first that the borrower has, and gives back.
    fn lend_and_give_back(&mut self, lender: &mut Application, borrower: &mut Application) {
        lender.send(3000, 5);
        self.settle();
        let got = borrower.local.receive.pop().unwrap().head.buffer;
        assert_eq!(layout::Lent::from_buffer(got), Some(layout::Lent { region: 0, buffer: 5 }));
        borrower.give_back(got);
        self.settle();
    }

    /// True if there was anything to do.
    fn round(&mut self) -> bool {
        self.now += Duration::from_micros(1);
        self.network.run(self.now)
    }

    /// Until all has been done that is done within 200 ms.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.now += Duration::from_millis(10);
            while self.round() {}
        }
    }
}

/// The reaper's thread may have it for a while.
fn is_gone(memory: &Weak<Lent>) -> bool {
    let until = Instant::now() + Duration::from_secs(2);
    while memory.strong_count() > 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    memory.strong_count() == 0
}

#[test]
fn a_borrower_whose_ring_is_full_keeps_no_memory_of_lenders() {
    let mut world = World::new();
    let borrower = world.borrower(SMALL);
    let mut sender = world.attach(0, SMALL, false);
    (0..2).for_each(|_| sender.send(40, Descriptor::INLINE));
    world.settle();
    world.host(0).detach(sender.id);
    for _ in 0..3 {
        let mut lender = world.lender(SMALL);
        let memory = world.memory(&lender);
        lender.send(3000, 5);
        world.settle();
        assert!(world.host(1).borrowed(borrower.id, 0).is_none(), "nothing of it was ever out");
        world.host(0).release_endpoint(lender.id);
        world.settle();
        assert!(is_gone(&memory));
    }
    let [status] = &world.host(1).endpoints()[..] else { panic!("one endpoint") };
    assert_eq!((status.received.pdus, status.received.dropped_total()), (2, 3), "{status:?}");
}

#[test]
fn a_borrower_that_has_given_all_back_keeps_no_memory_of_a_lender_however_that_ends() {
    let ends: [fn(&mut World, EndpointId, endpoint::ChannelId); 4] = [
        |world, id, _| _ = world.host(0).release_endpoint(id),
        |world, id, _| _ = world.host(0).depart(id),
        |world, id, channel| world.host(0).close(id, channel).unwrap(),
        |world, _, _| _ = world.host(0).remove_circuit(circuit()),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let mut world = World::new();
        let mut borrower = world.borrower(SMALL);
        let mut lender = world.lender(SMALL);
        let memory = world.memory(&lender);
        world.lend_and_give_back(&mut lender, &mut borrower);
        assert!(world.host(1).borrowed(borrower.id, 0).is_some());
        end(&mut world, lender.id, endpoint::ChannelId(lender.channel));
        world.host(1);
        world.settle();
        assert!(world.host(1).borrowed(borrower.id, 0).is_none(), "end {n}");
        world.host(0).release_endpoint(lender.id);
        world.settle();
        assert!(is_gone(&memory), "end {n}");
    }
}

#[test]
fn an_engine_tells_hosts_at_rest_that_a_circuit_with_a_lender_is_removed() {
    let mut world = World::new();
    let mut borrower = world.borrower(SMALL);
    let mut lender = world.lender(SMALL);
    let memory = world.memory(&lender);
    world.lend_and_give_back(&mut lender, &mut borrower);
    // The borrower's host has nothing to look at.
    world.host(1).set_events(borrower.id, Events::Interrupt).unwrap();
    world.settle();
    let engine = crate::engine::start(world.network).unwrap();
    let (hosts, id) = (world.hosts, borrower.id);
    engine
        .with(move |core| core.network.node_mut::<HostInterface>(hosts[0]).unwrap().remove_circuit(circuit()))
        .unwrap();
    let region = move |core: &mut crate::engine::Core| {
        core.network.peek_node::<HostInterface>(hosts[1]).unwrap().borrowed(id, 0)
    };
    assert!(engine.with(region).unwrap().is_none());
    engine.stop();
    assert!(is_gone(&memory));
}

#[test]
fn what_comes_back_falsely_while_its_parcel_is_delivered_ends_no_other_ones_loan() {
    let mut world = World::new();
    let mut borrower = world.borrower(Geometry { receive_ring: 8, ..SMALL });
    let mut lender = world.lender(SMALL);
    let number = |buffer| layout::Lent { region: 0, buffer }.to_buffer().unwrap();
    borrower.give_back(0);
    borrower.give_back(number(0));
    [0, 0, 1].into_iter().for_each(|buffer| lender.send(3000, buffer));
    world.settle();
    let got: Vec<u32> = std::iter::from_fn(|| borrower.local.receive.pop()).map(|d| d.head.buffer).collect();
    assert_eq!(got, [number(0), 0, number(1)]);
    lender.send(3000, 2);
    world.settle();
    assert_eq!(borrower.local.receive.pop().unwrap().head.buffer, number(2));
    assert_eq!(lender.local.send.consumed(), 0, "buffer 1 is out");
    borrower.give_back(number(1));
    world.settle();
    assert_eq!(lender.local.send.consumed(), 3, "buffer 2 is out");
    borrower.give_back(number(2));
    borrower.give_back(number(2));
    world.settle();
    assert_eq!(lender.local.send.consumed(), 4);
    let [status] = &world.host(1).endpoints()[..] else { panic!("one endpoint") };
    assert_eq!(status.received.dropped(DropReason::BadDescriptor), 1);
}

#[test]
fn what_an_ended_borrower_had_goes_back_in_pieces_and_the_hosts_do_not_rest_before() {
    const SDUS: u32 = 3000;
    let mut world = World::new();
    let borrowing = Geometry { receive_ring: 8192, free_ring: 8192, buffer_octets: 64, ..SMALL };
    let borrower = world.borrower(borrowing);
    let lending = Geometry { send_ring: 4096, buffers: 4096, buffer_octets: 64, ..SMALL };
    let mut lender = world.lender(lending);
    for buffer in 0..SDUS {
        // Each in a parcel of its own.
        lender.send(64, buffer);
        while world.round() {}
    }
    assert_eq!(lender.local.send.consumed(), 0);
    world.host(1).detach(borrower.id);
    let mut before = 0;
    while world.round() {
        let now = lender.local.send.consumed();
        assert!(now - before <= 1024, "{} in one round", now - before);
        before = now;
    }
    assert_eq!(before, SDUS);
}
