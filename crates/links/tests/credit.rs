//! Circuits with credits over links to another Cellway, in virtual time: real host interfaces and switches at both ends, and between
//! them the datagrams of a UDP link, which are lost, repeated and overtaken, or the octets of a TCP connection.

use crate::between::{Between, Datagrams, Octets};
use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{HostEndpoint, HostInterface};
use net::topology::{CircuitDescription, Fabric, LinkDescription};
use net::{FramePool, LinkConfig, LinkId, Network, SwitchElementConfig};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::{CircuitId, Time};

const BUFFERS: u32 = 64;
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 2 * BUFFERS, buffer_octets: 9216 };

/// One end: a host, behind a switch or not, and a link to the other end.
struct Side {
    network: Network,
    link: LinkId,
    local: Local,
    channel: u32,
    sent: u32,
}

fn circuit(ends: [&str; 2]) -> CircuitDescription {
    let contract = Contract { flow: Flow::Credit, ..Contract::default() };
    CircuitDescription {
        ends: ends.iter().map(|e| e.parse().unwrap()).collect(),
        contract,
        ..CircuitDescription::default()
    }
}

impl Side {
    fn new(switched: bool) -> Self {
        let mut network = Network::new(FramePool::new(4, 100));
        let mut fabric: Fabric<HostInterface> = Fabric::new();
        let node = fabric.add_host(&mut network, "here", HostInterface::new(4)).unwrap();
        fabric.add_outside("there").unwrap();
        fabric.add_switch(&mut network, "s1", SwitchElementConfig::default()).unwrap();
        let outside = LinkConfig { peer_takes_credits: true, ..LinkConfig::default() };
        let mut add = |fabric: &mut Fabric<HostInterface>, ends: [&str; 2], config| {
            let link = LinkDescription { ends: ends.map(|end| end.parse().unwrap()), config };
            fabric.add_link(&mut network, &link).unwrap()
        };
        let near = if switched { "s1:1" } else { "here" };
        let link = add(&mut fabric, [near, "there"], outside);
        if switched {
            add(&mut fabric, ["here", "s1:0"], LinkConfig::default());
        }
        fabric.add_circuit(&mut network, &circuit(["here 0.100", "there 0.100"])).unwrap();
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host: &mut HostInterface = network.node_mut(node).unwrap();
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = host.open(id, CircuitId::new(0, 100).unwrap(), Aal::Aal5).unwrap().0;
        Side { network, link, local, channel, sent: 0 }
    }
}

impl Side {
    /// Sends by the next buffer, which is free again once what was sent before has come: see [`Talk`].
    fn send(&mut self, sdu: &[u8]) {
        let buffer = BUFFERS + self.sent % BUFFERS;
        self.sent += 1;
        self.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), sdu);
        let descriptor = Head { channel: self.channel, octets: sdu.len() as u32, ..Head::of_buffer(buffer) };
        assert!(self.local.send.push(descriptor));
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let d = self.local.receive.pop()?;
        if d.head.buffer == Descriptor::INLINE {
            return Some(d.inline[..d.head.octets as usize].to_vec());
        }
        let mut sdu = vec![0; d.head.octets as usize];
        self.local.segment.copy_out(GEOMETRY.buffer_at(d.head.buffer).unwrap(), &mut sdu);
        assert!(self.local.free.push(Head::of_buffer(d.head.buffer)));
        Some(sdu)
    }
}

/// Both ends send SDUs to each other, and look seldom for what has come.
struct Talk<B> {
    sides: [Side; 2],
    between: B,
    now: Time,
    random: StdRng,
    sent: [Vec<Vec<u8>>; 2],
    got: [Vec<Vec<u8>>; 2],
}

impl<B: Between> Talk<B> {
    fn new(seed: u64, between: B) -> Self {
        let sides = [Side::new(false), Side::new(seed % 2 == 1)];
        let random = StdRng::seed_from_u64(seed);
        Talk { sides, between, now: Time::from_micros(1), random, sent: Default::default(), got: Default::default() }
    }

    /// Lets time pass, by rounds of 20 microseconds.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let ends = self.sides.each_mut().map(|side| (&mut side.network, side.link));
            self.between.carry(ends, self.now);
            for side in &mut self.sides {
                for _ in 0..4 {
                    side.network.run(self.now);
                }
            }
            self.now += Duration::from_micros(20);
        }
    }

    fn take(&mut self, most: usize) {
        for n in 0..2 {
            let taken: Vec<_> = std::iter::from_fn(|| self.sides[n].receive()).take(most).collect();
            self.got[n].extend(taken);
        }
    }

    fn send(&mut self, n: usize) {
        let mut sdu = vec![0; self.random.random_range(41..=9180)];
        self.random.fill_bytes(&mut sdu);
        self.sides[n].send(&sdu);
        self.sent[n].push(sdu);
    }

    /// Sends more than the other end has buffers for, for a while, and then takes all that comes.
    fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for n in 0..2 {
                // A buffer is used again only when what was sent by it has been taken out of the ring, or more than that.
                while self.sides[n].local.send.room() > 0
                    && self.sides[n].sent - self.sides[n].local.send.consumed() < BUFFERS - 1
                {
                    self.send(n);
                }
            }
            let time = Duration::from_micros(self.random.random_range(0..3000));
            self.pass(time);
            let most = self.random.random_range(0..20);
            self.take(most);
        }
        for _ in 0..150 {
            self.pass(Duration::from_millis(2));
            self.take(usize::MAX);
        }
    }
}

#[test]
fn datagrams_that_overtake_each_other_and_come_twice_cost_a_circuit_with_credits_nothing() {
    for seed in 0..6 {
        let mut talk = Talk::new(seed, Datagrams::new(seed, 0.0, 0.05, 0.1));
        talk.run(40);
        let Talk { sent, got, between, .. } = talk;
        assert!(between.codecs.iter().all(|codec| codec.repeated_datagrams() > 0 && codec.lost_datagrams() == 0));
        for n in 0..2 {
            assert!(sent[n].len() > 100, "seed {seed}: only {} sent; {}", sent[n].len(), between.troubles());
            assert!(got[1 - n] == sent[n], "seed {seed}: {} of {} came", got[1 - n].len(), sent[n].len());
        }
    }
}

#[test]
fn datagrams_that_are_lost_cost_their_pdus_and_no_credit() {
    for seed in 0..6 {
        let mut talk = Talk::new(seed, Datagrams::new(seed, 0.02, 0.02, 0.05));
        talk.run(40);
        let before = talk.got.each_ref().map(Vec::len);
        for n in 0..2 {
            assert!(before[1 - n] * 4 > talk.sent[n].len(), "seed {seed}: {} of {}", before[1 - n], talk.sent[n].len());
            assert!(talk.got[1 - n].iter().all(|sdu| talk.sent[n].contains(sdu)));
        }
        // From then on nothing is lost: all credit has come back, and what is sent comes, but for what a lost end may cost.
        (talk.between.loss, talk.between.credit_loss) = (0.0, 0.0);
        talk.sent = Default::default();
        talk.got = Default::default();
        talk.run(40);
        for n in 0..2 {
            assert!(talk.sent[n].len() > 100, "seed {seed}: only {} sent", talk.sent[n].len());
            let lost = talk.sent[n].len() - talk.got[1 - n].len();
            assert!(lost <= 1, "seed {seed}: {lost} of {} lost", talk.sent[n].len());
        }
    }
}

#[test]
fn cells_over_tcp_carry_credits_and_lose_nothing() {
    for seed in 0..4 {
        let mut talk = Talk::new(seed, Octets::new(seed));
        talk.run(40);
        for n in 0..2 {
            assert!(talk.sent[n].len() > 100, "seed {seed}: only {} sent", talk.sent[n].len());
            assert!(
                talk.got[1 - n] == talk.sent[n],
                "seed {seed}: {} of {} came",
                talk.got[1 - n].len(),
                talk.sent[n].len()
            );
        }
    }
}

#[test]
fn a_link_whose_peer_takes_no_credits_refuses_the_circuit_and_says_what_would_do() {
    let mut network = Network::new(FramePool::new(4, 100));
    let mut fabric: Fabric<HostInterface> = Fabric::new();
    fabric.add_host(&mut network, "here", HostInterface::new(4)).unwrap();
    fabric.add_outside("there").unwrap();
    let ends = ["here", "there"].map(|end| end.parse().unwrap());
    fabric.add_link(&mut network, &LinkDescription { ends, config: LinkConfig::default() }).unwrap();
    let refused = fabric.add_circuit(&mut network, &circuit(["here 0.100", "there 0.100"])).unwrap_err().to_string();
    assert!(refused.contains("carries no credits") && refused.contains("tcp"), "{refused}");
}
