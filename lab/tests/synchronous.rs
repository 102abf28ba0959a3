//! Hosts, circuits and applications under a clock alone: in virtual time and on this machine's.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, HostEndpoint, HostInterface};
use lab::synchronous::{Executive, Slot};
use net::{Carries, End, FramePool, LinkConfig, Network, NodeId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wire::{CircuitId, Time};

const PERIOD: Duration = Duration::from_millis(2);
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 2048 };
const ALWAYS: Slot = Slot { every: 1, first: 0, budget: Duration::from_millis(1) };

/// An application's rings, and its channel.
struct Application {
    local: Local,
    channel: u32,
}

impl Application {
    fn send(&mut self, number: u64) -> bool {
        let head = Head { channel: self.channel, octets: 8, ..Head::of_buffer(Descriptor::INLINE) };
        let mut descriptor = Descriptor::from(head);
        descriptor.inline[..8].copy_from_slice(&number.to_be_bytes());
        self.local.send.push(descriptor)
    }

    fn receive(&mut self) -> Option<u64> {
        let descriptor = self.local.receive.pop()?;
        if descriptor.head.buffer == Descriptor::INLINE {
            return descriptor.inline[..8].try_into().map(u64::from_be_bytes).ok();
        }
        let mut sdu = [0; 8];
        self.local.segment.copy_out(GEOMETRY.buffer_at(descriptor.head.buffer)?, &mut sdu);
        assert!(descriptor.head.octets == 8 && self.local.free.push(Head::of_buffer(descriptor.head.buffer)));
        Some(u64::from_be_bytes(sdu))
    }
}

/// Two hosts on a link, an application at each.
fn world() -> (Network, [NodeId; 2], [Application; 2]) {
    let mut network = Network::new(FramePool::new(64, 65_536));
    let circuit = CircuitId::new(0, 100).unwrap();
    let nodes = ["alpha", "beta"].map(|name| {
        let mut host = HostInterface::new(4);
        host.add_circuit(circuit, CircuitConfig::default());
        network.add_node(name, Box::new(host))
    });
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
    let applications = nodes.map(|node| {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..GEOMETRY.buffers).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host = network.node_mut::<HostInterface>(node).unwrap();
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        Application { local, channel: host.open(id, circuit, Aal::Aal5).unwrap().0 }
    });
    (network, nodes, applications)
}

fn was_interrupted(network: &mut Network, nodes: [NodeId; 2]) -> bool {
    nodes.iter().any(|node| {
        let host = network.node_mut::<HostInterface>(*node).unwrap();
        host.endpoints().iter().any(|status| status.event_counts.bells + status.event_counts.doorbells > 0)
    })
}

type Log = Rc<RefCell<Vec<(Time, u64)>>>;

/// Alpha's task sends `each` numbers in a turn, beta's notes what has come, and when.
fn with_tasks(each: u64) -> (Executive, [NodeId; 2], Rc<Cell<u64>>, Log) {
    let (network, nodes, [mut alpha, mut beta]) = world();
    let mut executive = Executive::new(network, PERIOD, 16, Time::ZERO);
    let (sent, log): (Rc<Cell<u64>>, Log) = Default::default();
    let (sending, noting) = (Rc::clone(&sent), Rc::clone(&log));
    executive.add_task(ALWAYS, move |_| {
        for _ in 0..each {
            let number = sending.get();
            sending.set(number + u64::from(alpha.send(number)));
        }
    });
    executive.add_task(ALWAYS, move |now| {
        while let Some(number) = beta.receive() {
            noting.borrow_mut().push((now, number));
        }
    });
    (executive, nodes, sent, log)
}

#[test]
fn what_a_task_sends_in_a_tick_the_other_one_has_in_the_next_and_only_the_clock_interrupts() {
    let (mut executive, nodes, sent, log) = with_tasks(3);
    for _ in 0..100 {
        let now = executive.poll_timeout();
        executive.handle_timeout(now, || now);
        // Between two ticks nothing runs, whenever somebody asks.
        let before = log.borrow().len();
        executive.handle_timeout(now + PERIOD / 2, || now);
        assert_eq!(log.borrow().len(), before);
    }
    assert_eq!(sent.get(), 300);
    let log = log.borrow();
    assert_eq!(log.len(), 297, "what was sent in the last tick has not left");
    for (number, (at, got)) in (0..).zip(log.iter()) {
        let sent_at = PERIOD * (number as u32 / 3 + 1);
        assert_eq!((*got, *at), (number, Time::ZERO + sent_at + PERIOD));
    }
    assert_eq!((executive.counts().ticks, executive.counts().missed), (100, 0));
    assert!(!was_interrupted(executive.network(), nodes));
}

#[test]
fn a_task_that_takes_too_long_makes_ticks_rarer_and_loses_nothing_and_the_others_have_their_turns() {
    let (mut executive, nodes, sent, log) = with_tasks(1000);
    let clock = Rc::new(Cell::new(Time::ZERO));
    let (computing, turns) = (Rc::clone(&clock), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&turns);
    // It computes for two and a half ticks.
    executive.add_task(ALWAYS, move |now| {
        computing.set(now + PERIOD * 5 / 2);
        counted.set(counted.get() + 1);
    });
    for _ in 0..50 {
        let now = executive.poll_timeout().max(clock.get());
        clock.set(now);
        executive.handle_timeout(now, || clock.get());
    }
    let counts = executive.counts();
    assert_eq!((counts.ticks, turns.get(), counts.overruns), (50, 50, 50));
    // Ticks at 2, 7, 12 ms ...: of five, two are served.
    assert!(counts.missed >= 50 && counts.longest == PERIOD * 5 / 2, "{counts:?}");
    // A ring's worth a tick, however much is offered: no work is thrown away.
    assert_eq!(sent.get(), 50 * u64::from(GEOMETRY.send_ring));
    let got: Vec<u64> = log.borrow().iter().map(|(_, number)| *number).collect();
    assert_eq!(got, (0..49 * u64::from(GEOMETRY.send_ring)).collect::<Vec<_>>());
    assert!(!was_interrupted(executive.network(), nodes));
}

#[test]
fn live_on_one_thread_it_ticks_by_this_machines_clock_and_wakes_nobody() {
    let (mut executive, nodes, sent, log) = with_tasks(8);
    let begun = std::time::Instant::now();
    // Fifty ticks, however long a busy machine takes to serve as many.
    executive.run_live(|| sent.get() >= 50 * 8).unwrap();
    let counts = executive.counts();
    let clock = (begun.elapsed().as_micros() / PERIOD.as_micros()) as u64;
    assert!(counts.ticks >= 50 && counts.ticks + counts.missed <= clock, "{counts:?} of {clock}: none is served early");
    let got: Vec<u64> = log.borrow().iter().map(|(_, number)| *number).collect();
    assert_eq!(sent.get(), counts.ticks * 8);
    assert_eq!(got, (0..(counts.ticks - 1) * 8).collect::<Vec<_>>());
    assert!(!was_interrupted(executive.network(), nodes));
}
