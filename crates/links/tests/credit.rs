//! Circuits with credits over links to another Cellway, in virtual time: real host interfaces and switches at both ends, and between
//! them the datagrams of a UDP link, which are lost, repeated and overtaken, or the octets of a TCP connection.

use endpoint::layout::Descriptor;
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{Attached, HostInterface};
use links::cells;
use links::udp::{Codec, Form};
use net::topology::{CircuitDescription, Fabric, LinkDescription};
use net::{FramePool, LinkConfig, LinkId, Network, SwitchConfig};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::udp::MAX_OCTETS;
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
        fabric.add_switch(&mut network, "s1", SwitchConfig::default()).unwrap();
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
        assert!((0..BUFFERS).all(|buffer| local.free.push(Descriptor::of_buffer(buffer))));
        let host: &mut HostInterface = network.node_mut(node).unwrap();
        let id = host.attach(Attached::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
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
        let descriptor =
            Descriptor { channel: self.channel, octets: sdu.len() as u32, ..Descriptor::of_buffer(buffer) };
        assert!(self.local.send.push(descriptor));
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let d = self.local.receive.pop()?;
        if d.buffer == Descriptor::INLINE {
            return Some(d.inline[..d.octets as usize].to_vec());
        }
        let mut sdu = vec![0; d.octets as usize];
        self.local.segment.copy_out(GEOMETRY.buffer_at(d.buffer).unwrap(), &mut sdu);
        assert!(self.local.free.push(Descriptor::of_buffer(d.buffer)));
        Some(sdu)
    }
}

/// What is between two ends.
trait Between {
    /// Takes what each end sends, and gives each what comes.
    fn carry(&mut self, sides: &mut [Side; 2], now: Time);
}

/// A UDP link's datagrams. Shares of them are lost, come twice, or come later than others.
struct Datagrams {
    codecs: [Codec; 2],
    /// To each end: what arrives when.
    on_the_way: [Vec<(Time, Vec<u8>)>; 2],
    loss: f64,
    twice: f64,
    late: f64,
    random: StdRng,
}

impl Datagrams {
    fn new(seed: u64, loss: f64, twice: f64, late: f64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let codecs = [(); 2].map(|()| Codec::starting_at(Form::Batch, random.next_u32()));
        Datagrams { codecs, on_the_way: [Vec::new(), Vec::new()], loss, twice, late, random }
    }
}

impl Between for Datagrams {
    fn carry(&mut self, sides: &mut [Side; 2], now: Time) {
        for (n, side) in sides.iter_mut().enumerate() {
            let (codec, to_other) = (&mut self.codecs[n], &mut self.on_the_way[1 - n]);
            let take = |io: &mut net::NodeIo<'_>| {
                let mut datagram = [0; MAX_OCTETS];
                while let Some((octets, cells)) = codec.transmit(io, &mut datagram) {
                    codec.transmitted(cells, io);
                    let mut at = now + Duration::from_micros(100);
                    for chance in [self.late, self.late / 2.0] {
                        if self.random.random_bool(chance) {
                            at += Duration::from_micros(self.random.random_range(1..400));
                        }
                    }
                    if !self.random.random_bool(self.loss) {
                        to_other.push((at, datagram[..octets].to_vec()));
                    }
                    if self.random.random_bool(self.twice) {
                        to_other.push((at + Duration::from_micros(700), datagram[..octets].to_vec()));
                    }
                }
            };
            side.network.external(side.link, now, take).unwrap();
        }
        for (n, side) in sides.iter_mut().enumerate() {
            let codec = &mut self.codecs[n];
            // In the order of their arrival; of equal times, of their departure.
            self.on_the_way[n].sort_by_key(|(at, _)| *at);
            let due = self.on_the_way[n].partition_point(|(at, _)| *at <= now);
            let give = |io: &mut net::NodeIo<'_>| {
                for (_, datagram) in self.on_the_way[n].drain(..due) {
                    codec.receive(&datagram, io);
                }
                codec.handle_timeout(io);
            };
            side.network.external(side.link, now, give).unwrap();
        }
    }
}

/// A TCP connection's octets, in pieces of random sizes.
struct Octets {
    machines: [cells::Machine; 2],
    on_the_way: [VecDeque<u8>; 2],
    random: StdRng,
}

impl Between for Octets {
    fn carry(&mut self, sides: &mut [Side; 2], now: Time) {
        for n in 0..2 {
            let Octets { machines, on_the_way, random } = self;
            let give = |io: &mut net::NodeIo<'_>| {
                let machine = &mut machines[n];
                while machine.transmit(io) {}
                let octets = machine.poll_transmit();
                let piece = octets.len().min(random.random_range(0..20_000));
                on_the_way[1 - n].extend(&octets[..piece]);
                machine.transmitted(piece);
                let here = on_the_way[n].make_contiguous();
                let piece = here.len().min(random.random_range(0..20_000));
                let taken = machine.receive(&here[..piece], io).unwrap();
                on_the_way[n].drain(..taken);
            };
            sides[n].network.external(sides[n].link, now, give).unwrap();
        }
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
            self.between.carry(&mut self.sides, self.now);
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
            assert!(sent[n].len() > 100, "seed {seed}: only {} sent", sent[n].len());
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
        talk.between.loss = 0.0;
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
        let random = StdRng::seed_from_u64(seed);
        let mut talk = Talk::new(seed, Octets { machines: Default::default(), on_the_way: Default::default(), random });
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
