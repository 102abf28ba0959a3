//! Whom the event strategies wake, and when they look, in virtual time: to the last wake-up the same on any machine.

use endpoint::layout::{BY_FUTEX, CLIENT_SLEEPS, Descriptor, Head, NEWS_OF_SDUS};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::{End, FramePool, LinkConfig, Network, NodeId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{CircuitId, Time};

const GEOMETRY: Geometry = Geometry { send_ring: 16, receive_ring: 256, free_ring: 16, buffers: 1, buffer_octets: 64 };

/// Hosts a and b on a link.
struct Bench {
    network: Network,
    nodes: [NodeId; 2],
    now: Time,
}

/// An endpoint with a circuit.
struct Application {
    host: NodeId,
    id: EndpointId,
    local: Local,
    segment: Arc<Segment>,
    channel: ChannelId,
}

impl Bench {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(4, 64));
        let nodes = ["a", "b"].map(|name| network.add_node(name, Box::new(HostInterface::new(64))));
        network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), LinkConfig::default()).unwrap();
        Bench { network, nodes, now: Time::ZERO }
    }

    fn host(&mut self, node: NodeId) -> &mut HostInterface {
        self.network.node_mut(node).unwrap()
    }

    fn application(&mut self, at: usize, events: Events, vci: u16) -> Application {
        let (node, circuit) = (self.nodes[at], CircuitId::new(0, vci).unwrap());
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let host = self.host(node);
        let id = host.attach(HostEndpoint::new(segment.clone(), events, DataPath::Shared, None)).unwrap();
        host.add_circuit(circuit, CircuitConfig::default());
        let channel = host.open(id, circuit, Aal::Aal5).unwrap();
        Application { host: node, id, local: Local::new(&segment), segment, channel }
    }

    /// An SDU of so many octets; whoever sends it rings if that was asked for.
    fn send(&mut self, sender: &mut Application, octets: u32) {
        let head = Head::of_buffer(Descriptor::INLINE);
        assert!(sender.local.send.push(Head { channel: sender.channel.0, octets, ..head }));
        self.host(sender.host).handle_doorbell(sender.id);
    }

    /// All that is to be done now; then the time goes on, to `end` at most.
    fn step(&mut self, end: Time) {
        while self.network.run(self.now) {}
        let next = self.network.poll_timeout().filter(|at| *at > self.now);
        self.now = next.unwrap_or(end).min(end);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(end);
        }
    }
}

#[test]
fn a_clock_wakes_an_application_once_for_many_pdus_and_interrupts_once_for_each() {
    const PDUS: u32 = 100;
    let bells = |events: Events| {
        let mut bench = Bench::new();
        let mut sender = bench.application(0, Events::Interrupt, 100);
        let mut receiver = bench.application(1, events, 100);
        let mut came = 0;
        for n in 0..PDUS {
            bench.send(&mut sender, 1 + n % 40);
            let end = bench.now + Duration::from_millis(1);
            while bench.now < end {
                // It sleeps whenever it has taken all that came, and looks when it is woken.
                let sleeps = receiver.segment.word32(CLIENT_SLEEPS);
                sleeps.store(NEWS_OF_SDUS | BY_FUTEX, Ordering::Relaxed);
                bench.step(end);
                while sleeps.load(Ordering::Relaxed) == 0
                    && let Some(got) = receiver.local.receive.pop()
                {
                    assert_eq!(got.head.octets, 1 + came % 40);
                    came += 1;
                }
            }
        }
        let host = bench.nodes[1];
        (bench.host(host).endpoints()[0].event_counts.bells, came)
    };
    assert_eq!(bells(Events::Interrupt), (PDUS.into(), PDUS));
    // At 20, 40, 60 and 80 ms; nobody has been told of what was sent after the last of them.
    assert_eq!(bells(Events::Clocked { hertz: 50 }), (4, 81));
}

#[test]
fn what_a_tick_takes_from_one_is_told_to_the_other_at_the_same_tick() {
    let mut bench = Bench::new();
    let clock = Events::Clocked { hertz: 1000 };
    let (mut sender, receiver) = (bench.application(0, clock, 100), bench.application(1, clock, 100));
    bench.pass(Duration::from_micros(500));
    let head = Head::of_buffer(Descriptor::INLINE);
    assert!(sender.local.send.push(Head { channel: sender.channel.0, octets: 7, ..head }));
    let sleeps = receiver.segment.word32(CLIENT_SLEEPS);
    sleeps.store(NEWS_OF_SDUS | BY_FUTEX, Ordering::Relaxed);
    bench.pass(Duration::from_micros(490));
    assert_ne!(sleeps.load(Ordering::Relaxed), 0, "the tick is at a millisecond");
    bench.pass(Duration::from_micros(20));
    assert_eq!(sleeps.load(Ordering::Relaxed), 0, "woken at it");
}

/// Smith 2002, section 3.1: an interrupt on one channel prompts scanning of others.
#[test]
fn a_doorbell_prompts_a_look_at_a_few_endpoints_that_wait_for_their_ticks() {
    const CLOCKED: u16 = 20;
    const RINGING: u16 = 100;
    let mut bench = Bench::new();
    let vcis = RINGING + 1..=RINGING + CLOCKED;
    let mut clocked: Vec<_> = vcis.clone().map(|vci| bench.application(0, Events::Clocked { hertz: 1 }, vci)).collect();
    let mut receivers: Vec<_> = vcis.map(|vci| bench.application(1, Events::Interrupt, vci)).collect();
    let mut ringing = bench.application(0, Events::Interrupt, RINGING);
    let mut rung = bench.application(1, Events::Interrupt, RINGING);
    bench.pass(Duration::from_millis(100));
    for sender in &mut clocked {
        let head = Head::of_buffer(Descriptor::INLINE);
        assert!(sender.local.send.push(Head { channel: sender.channel.0, octets: 7, ..head }));
    }
    let mut arrived = |bench: &mut Bench, time: Duration| {
        bench.pass(time);
        receivers.iter_mut().map(|receiver| std::iter::from_fn(|| receiver.local.receive.pop()).count()).sum::<usize>()
    };
    assert_eq!(arrived(&mut bench, Duration::from_millis(600)), 0, "a clock looks at its ticks only");
    for ring in 1..=3 {
        bench.send(&mut ringing, ring);
        let looked = arrived(&mut bench, Duration::from_millis(1));
        assert_eq!(looked, 4, "a ring prompts a look at four, and at others than the ring before");
        assert_eq!(rung.local.receive.pop().map(|got| got.head.octets), Some(ring));
    }
    assert_eq!(arrived(&mut bench, Duration::from_millis(200)), 0);
    assert_eq!(arrived(&mut bench, Duration::from_millis(200)), usize::from(CLOCKED) - 3 * 4, "the others at the tick");
}
