//! Circuits with credits, mixed with best effort, through random meshes with cycles of whole networks, each with hosts and switches of its
//! own, of one to three shards: within a network by links of memory, between them by UDP batches, which overtake each other, come twice and lose credits, and
//! by cells over TCP. Nothing of a circuit with credits is lost or comes out of order, and nothing stands still.
//!
//! In virtual time. 24 topologies, 10 000 where the environment has `CELLWAY_LONG=1`. `MESH_SEED` repeats one.

use crate::between::{Between, Datagrams, Octets};
use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{HostEndpoint, HostInterface};
use net::topology::{CircuitDescription, Fabric, LinkDescription};
use net::{LinkConfig, LinkId, Network, NodeId, SwitchElementConfig};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::{CellRate, CircuitId, Time};

const BUFFERS: u32 = 8;
const GEOMETRY: Geometry =
    Geometry { send_ring: 16, receive_ring: 16, free_ring: 16, buffers: 2 * BUFFERS, buffer_octets: 9216 };
const ROUND: Duration = Duration::from_micros(50);

/// A network of its own: a daemon's.
struct Island {
    network: Network,
    fabric: Fabric<HostInterface>,
    host: NodeId,
    /// The switches' ports that are taken.
    ports: Vec<u16>,
}

impl Island {
    /// A host, and switches in a chain or a ring, in so many shards in turn.
    fn new(random: &mut StdRng, shards: usize) -> Self {
        let mut network = Network::sharded(shards, 4, 100);
        let mut fabric: Fabric<HostInterface> = Fabric::new();
        let host = fabric.add_host(&mut network, "host", HostInterface::new(16)).unwrap();
        let switches = random.random_range(1..=3);
        let config = SwitchElementConfig { ports: 16, ..SwitchElementConfig::default() };
        for n in 0..switches {
            let switch = fabric.add_switch(&mut network, &format!("s{n}"), config).unwrap();
            assert!(network.move_node(switch, (n + 1) % shards));
        }
        let mut island = Island { network, fabric, host, ports: vec![0; switches] };
        let at = island.port(random.random_range(0..switches));
        island.link(["host", &at], random);
        for n in 1..switches + usize::from(switches == 3 && random.random()) {
            let ends = [n - 1, n % switches].map(|n| island.port(n));
            island.link([&ends[0], &ends[1]], random);
        }
        island
    }

    fn port(&mut self, switch: usize) -> String {
        self.ports[switch] += 1;
        format!("s{switch}:{}", self.ports[switch] - 1)
    }

    /// A link of memory, of some length and rate.
    fn link(&mut self, ends: [&str; 2], random: &mut StdRng) {
        let config = LinkConfig {
            rate: if random.random() { CellRate::from_cells_per_s(random.random_range(50_000.0..1e6)) } else { None },
            delay: Duration::from_micros(random.random_range(0..200)),
            ..LinkConfig::default()
        };
        let ends = ends.map(|end| end.parse().unwrap());
        self.fabric.add_link(&mut self.network, &LinkDescription { ends, config }).unwrap();
    }

    /// A link to another network.
    fn outside(&mut self, name: &str, random: &mut StdRng) -> LinkId {
        self.fabric.add_outside(name).unwrap();
        let near = self.port(random.random_range(0..self.ports.len()));
        let config =
            LinkConfig { peer_takes_credits: true, queue_cells: random.random_range(64..256), ..LinkConfig::default() };
        let ends = [near.as_str(), name].map(|end| end.parse().unwrap());
        self.fabric.add_link(&mut self.network, &LinkDescription { ends, config }).unwrap()
    }

    fn open(&mut self, label: CircuitId) -> End {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host: &mut HostInterface = self.network.node_mut(self.host).unwrap();
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = host.open(id, label, Aal::Aal5).unwrap().0;
        End { local, channel, sent: 0, got: 0 }
    }
}

/// An application at one end of a circuit.
struct End {
    local: Local,
    channel: u32,
    sent: u32,
    got: u32,
}

/// What the `n`th SDU of a circuit has: its length and content follow from both.
fn sdu(circuit: u32, n: u32) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(u64::from(circuit) << 32 | u64::from(n));
    let mut sdu = vec![random.random(); random.random_range(41..=9180)];
    sdu[..4].copy_from_slice(&circuit.to_be_bytes());
    sdu[4..8].copy_from_slice(&n.to_be_bytes());
    sdu
}

impl End {
    /// Sends the next SDU if a buffer is free: one is when what was sent by it has been taken out of the ring.
    fn send(&mut self, circuit: u32) {
        let under_way = self.sent - self.local.send.consumed();
        if self.local.send.room() == 0 || under_way >= BUFFERS - 1 {
            return;
        }
        let (buffer, sdu) = (BUFFERS + self.sent % BUFFERS, sdu(circuit, self.sent));
        self.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), &sdu);
        let octets = sdu.len() as u32;
        let descriptor = Head { channel: self.channel, octets, ..Head::of_buffer(buffer) };
        assert!(self.local.send.push(descriptor));
        self.sent += 1;
    }

    /// Takes an SDU; gives its number. It is what its circuit's sender sent under this number.
    fn take(&mut self, circuit: u32) -> Option<u32> {
        let d = self.local.receive.pop()?;
        let mut octets = vec![0; d.head.octets as usize];
        self.local.segment.copy_out(GEOMETRY.buffer_at(d.head.buffer).unwrap(), &mut octets);
        assert!(self.local.free.push(Head::of_buffer(d.head.buffer)));
        let n = u32::from_be_bytes(octets[4..8].try_into().unwrap());
        assert!(octets == sdu(circuit, n), "circuit {circuit}: another SDU than was sent as number {n}");
        self.got += 1;
        Some(n)
    }
}

struct Circuit {
    flow: Flow,
    ends: [(usize, End); 2],
    /// The number that comes next, or a later one where SDUs may be lost.
    next: u32,
}

/// A link between two networks: each with its end of it, and what is between them.
struct Joint {
    ends: [(usize, LinkId); 2],
    between: Box<dyn Between>,
}

struct Mesh {
    random: StdRng,
    islands: Vec<Island>,
    joints: Vec<Joint>,
    circuits: Vec<Circuit>,
    now: Time,
}

impl Mesh {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let shards = seed as usize % 3 + 1;
        let islands: Vec<_> = (0..random.random_range(2..=4)).map(|_| Island::new(&mut random, shards)).collect();
        let mut mesh = Mesh { random, islands, joints: Vec::new(), circuits: Vec::new(), now: Time::from_micros(1) };
        let n = mesh.islands.len();
        (1..n).for_each(|n| mesh.join([n - 1, n]));
        for _ in 0..mesh.random.random_range(0..3) {
            let (from, further) = (mesh.random.random_range(0..n), mesh.random.random_range(1..n));
            mesh.join([from, (from + further) % n]);
        }
        for _ in 0..mesh.random.random_range(2..=8) {
            let flow = if mesh.random.random_bool(0.7) { Flow::Credit } else { Flow::default() };
            mesh.add_circuit(flow);
        }
        mesh
    }

    /// Joins two networks by a connection or by datagrams.
    fn join(&mut self, islands: [usize; 2]) {
        let name = format!("o{}", self.joints.len());
        let ends = islands.map(|n| (n, self.islands[n].outside(&name, &mut self.random)));
        let seed = self.random.random();
        let between: Box<dyn Between> = if self.random.random_bool(0.4) {
            Box::new(Octets::new(seed))
        } else {
            let (twice, late) = (self.random.random_range(0.0..0.1), self.random.random_range(0.0..0.1));
            let mut datagrams = Datagrams::new(seed, 0.0, twice, late);
            // No more overtake one than are kept for it: a queue has ten of them, for eight rounds.
            datagrams.late_us = 200;
            datagrams.credit_loss = self.random.random_range(0.0..0.2);
            Box::new(datagrams)
        };
        self.joints.push(Joint { ends, between });
    }

    /// A circuit by a random way that enters no network twice, in pieces: each network has its own.
    fn add_circuit(&mut self, flow: Flow) {
        let label = CircuitId::new(0, 100 + self.circuits.len() as u16).unwrap();
        let at = |station: &str| format!("{station} {label}").parse().unwrap();
        let mut way = vec![self.random.random_range(0..self.islands.len())];
        let mut from = "host".to_owned();
        loop {
            let here = *way.last().unwrap();
            let onward: Vec<_> = (0..self.joints.len())
                .filter_map(|joint| {
                    let [(a, _), (b, _)] = self.joints[joint].ends;
                    let next = if a == here {
                        b
                    } else if b == here {
                        a
                    } else {
                        return None;
                    };
                    (!way.contains(&next)).then_some((joint, next))
                })
                .collect();
            let ends = way.len() > 1 && self.random.random_bool(0.4);
            let (to, next) = match onward.get(self.random.random_range(0..onward.len().max(1))) {
                Some((joint, next)) if !ends => (format!("o{joint}"), Some(*next)),
                _ => ("host".to_owned(), None),
            };
            let description = CircuitDescription {
                ends: vec![at(&from), at(&to)],
                contract: Contract { flow, ..Contract::default() },
                ..CircuitDescription::default()
            };
            let island = &mut self.islands[here];
            island.fabric.add_circuit(&mut island.network, &description).unwrap();
            let Some(next) = next else { break };
            way.push(next);
            from = to;
        }
        let ends = [way[0], way[way.len() - 1]].map(|n| (n, self.islands[n].open(label)));
        self.circuits.push(Circuit { flow, ends, next: 0 });
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            for Joint { ends, between } in &mut self.joints {
                let [a, b] = *ends;
                let [of_a, of_b] = self.islands.get_disjoint_mut([a.0, b.0]).unwrap();
                between.carry([(&mut of_a.network, a.1), (&mut of_b.network, b.1)], self.now);
            }
            for island in &mut self.islands {
                for _ in 0..3 {
                    island.network.run(self.now);
                }
            }
            self.now += ROUND;
        }
    }

    /// Takes up to `most` SDUs of each circuit.
    fn take(&mut self, most: usize) {
        let mut wrong = None;
        for (n, Circuit { flow, ends: [_, (_, end)], next }) in self.circuits.iter_mut().enumerate() {
            for _ in 0..most {
                let Some(number) = end.take(n as u32) else { break };
                if number != *next && (*flow == Flow::Credit || number < *next) {
                    wrong = Some(format!("circuit {n}: {number} where {next} comes next"));
                }
                *next = number + 1;
            }
        }
        if let Some(wrong) = wrong {
            self.fail(&wrong);
        }
    }

    fn fail(&self, why: &str) -> ! {
        for (n, Circuit { flow, ends: [(a, from), (b, to)], .. }) in self.circuits.iter().enumerate() {
            println!("circuit {n}, {flow:?}, from {a} to {b}: {} sent, {} came", from.sent, to.got);
        }
        for (n, island) in self.islands.iter().enumerate() {
            for link in island.network.links() {
                let drops = [link.from_a, link.from_b].map(|counters| counters.sent.drops().collect::<Vec<_>>());
                println!("network {n}, {:?}: {drops:?}", link.ends);
            }
        }
        for Joint { ends, between } in &self.joints {
            println!("{ends:?}: {}", between.troubles());
        }
        panic!("{why}");
    }

    fn run(&mut self) {
        for _ in 0..15 {
            for (n, Circuit { ends: [(_, end), _], .. }) in self.circuits.iter_mut().enumerate() {
                (0..self.random.random_range(0..8)).for_each(|_| end.send(n as u32));
            }
            let time = Duration::from_micros(self.random.random_range(0..3000));
            self.pass(time);
            let most = self.random.random_range(0..8);
            self.take(most);
        }
        // Each queue on the way empties, with time for credits that were lost.
        let all = |circuits: &[Circuit]| {
            circuits.iter().all(|circuit| circuit.flow != Flow::Credit || circuit.next == circuit.ends[0].1.sent)
        };
        for _ in 0..2000 {
            if all(&self.circuits) {
                return;
            }
            self.pass(Duration::from_millis(1));
            self.take(usize::MAX);
        }
        self.fail("something stands still");
    }
}

#[test]
fn circuits_with_credits_lose_nothing_in_any_mesh_of_any_links_in_the_long_run() {
    if let Some(seed) = std::env::var("MESH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return Mesh::new(seed).run();
    }
    let n = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000 } else { 24 };
    let mut sent = [0; 2];
    for seed in 0..n {
        println!("MESH_SEED={seed}");
        let mut mesh = Mesh::new(seed);
        mesh.run();
        for circuit in &mesh.circuits {
            sent[usize::from(circuit.flow == Flow::Credit)] += circuit.ends[0].1.sent;
        }
    }
    assert!(sent.iter().all(|sent| *sent > 2 * n as u32), "{sent:?} sent");
}
