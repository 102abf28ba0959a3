//! Two hosts at a switch, on links in memory, each with an application that has all circuits open.
#![allow(dead_code)] // Each test program uses a part.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{EndpointId, HostEndpoint, HostInterface};
use net::topology::{CircuitDescription, CircuitEnd, Fabric, LinkDescription};
use net::{FramePool, LinkConfig, LinkId, Network, NodeId, SwitchElement, SwitchElementConfig, TapConfig};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use traffic::{Category, Contract, Flow};
use wire::{CellRate, CircuitId, Time};

pub const BUFFERS: u32 = 32;
/// Those that an application sends from; the others are for what comes.
pub const TO_SEND: u32 = 24;
pub const GEOMETRY: Geometry =
    Geometry { send_ring: 32, receive_ring: 16, free_ring: 32, buffers: BUFFERS, buffer_octets: 4096 };
/// With more buffers to receive into than the receive ring has slots.
pub const SHORT_RING: Geometry = Geometry { receive_ring: 4, ..GEOMETRY };
pub const SIZES: [usize; 9] = [1, 40, 41, 64, 88, 89, 1500, 4000, 4096];
/// Best effort, credits, credits, a rate above all that is sent, which the switch polices, and best effort.
pub const CIRCUITS: [u16; 5] = [100, 101, 102, 103, 104];

pub fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

pub fn contract(vci: u16) -> Contract {
    let fast = CellRate::from_cells_per_s(1e9);
    match vci {
        101 | 102 => Contract { flow: Flow::Credit, ..Contract::default() },
        103 => Contract { category: Category::Cbr, pcr: fast, ..Contract::default() },
        _ => Contract::default(),
    }
}

/// What an SDU is, whoever has seen it last.
#[derive(Debug, Clone, PartialEq)]
pub struct Sdu {
    pub octets: Vec<u8>,
    pub uu: u8,
    pub clp: bool,
}

/// An application with all circuits open.
pub struct Application {
    pub id: EndpointId,
    pub local: Local,
    pub channels: Vec<ChannelId>,
    /// Its own buffers that are free.
    pub idle: Vec<u32>,
    pub completed: u32,
    /// What was pushed and is not known to have come, by circuit.
    pub away: Vec<VecDeque<Sdu>>,
    pub got: Vec<u64>,
}

pub struct World {
    pub random: StdRng,
    pub network: Network,
    pub hosts: [NodeId; 2],
    pub switch: NodeId,
    pub links: [LinkId; 2],
    pub ends: [Application; 2],
    pub now: Time,
    pub sent: u32,
}

impl World {
    pub fn new(seed: u64) -> Self {
        World::with(seed, Events::Polling)
    }

    pub fn with(seed: u64, events: Events) -> Self {
        let mut network = Network::new(FramePool::new(4, 100));
        let mut fabric: Fabric<HostInterface> = Fabric::new();
        let hosts = ["alpha", "beta"].map(|name| fabric.add_host(&mut network, name, HostInterface::new(4)).unwrap());
        let switch = fabric.add_switch(&mut network, "s1", SwitchElementConfig::default()).unwrap();
        let links = [("alpha", "s1:0"), ("beta", "s1:1")].map(|(host, port)| {
            let ends = [host, port].map(|end| end.parse().unwrap());
            fabric.add_link(&mut network, &LinkDescription { ends, config: LinkConfig::default() }).unwrap()
        });
        for vci in CIRCUITS {
            let ends = ["alpha", "beta"].map(|host| CircuitEnd::new(host, circuit(vci))).to_vec();
            let described = CircuitDescription { ends, contract: contract(vci), ..CircuitDescription::default() };
            fabric.add_circuit(&mut network, &described).unwrap();
        }
        let geometry = if seed.is_multiple_of(2) { GEOMETRY } else { SHORT_RING };
        let ends = hosts.map(|host| Application::new(network.node_mut(host).unwrap(), geometry, events));
        let random = StdRng::seed_from_u64(seed);
        World { random, network, hosts, switch, links, ends, now: Time::ZERO, sent: 0 }
    }

    pub fn push(&mut self) {
        let random = &mut self.random;
        let (from, at) = (random.random_range(0..2), random.random_range(0..CIRCUITS.len()));
        let end = &mut self.ends[from];
        let octets = SIZES[random.random_range(0..SIZES.len())];
        let Some(buffer) = end.idle.pop() else { return };
        self.sent += 1;
        let mut sdu = vec![self.sent as u8; octets];
        sdu.iter_mut().zip(self.sent.to_be_bytes()).for_each(|(octet, n)| *octet = n);
        end.local.segment.copy_in(end.local.segment.geometry().buffer_at(buffer).unwrap(), &sdu);
        let clp = random.random_range(0..12) == 0;
        let (uu, channel) = (random.random_range(0..3), end.channels[at].0);
        let d = Head { channel, octets: octets as u32, uu, clp, ..Head::of_buffer(buffer) };
        if end.local.send.push(d) {
            end.away[at].push_back(Sdu { octets: sdu, uu, clp });
        } else {
            end.idle.push(buffer);
        }
    }

    /// Overwrites buffers that have come back: whoever reads them later reads nonsense.
    pub fn reclaim(&mut self) {
        for end in &mut self.ends {
            let consumed = end.local.send.consumed();
            while end.completed != consumed {
                let (_, buffer) = end.local.send.given_back(end.completed);
                end.completed = end.completed.wrapping_add(1);
                if buffer == Descriptor::INLINE {
                    continue;
                }
                end.local.segment.copy_in(end.local.segment.geometry().buffer_at(buffer).unwrap(), &[0xee; 4096]);
                end.idle.push(buffer);
            }
        }
    }

    /// Takes up to `most` SDUs that have come to an end.
    pub fn take(&mut self, to: usize, most: usize) {
        for _ in 0..most {
            let end = &mut self.ends[to];
            let Some(d) = end.local.receive.pop() else { return };
            let octets = d.head.octets as usize;
            let mut sdu = d.inline.get(..octets.min(40)).unwrap().to_vec();
            if d.head.buffer != Descriptor::INLINE {
                let at = end.local.segment.geometry().buffer_at(d.head.buffer).unwrap();
                sdu = end.local.segment.octets(at, octets).iter().map(|octet| octet.load(Ordering::Relaxed)).collect();
                assert!(end.local.free.push(Head::of_buffer(d.head.buffer)));
            }
            let at = end.channels.iter().position(|channel| channel.0 == d.head.channel).unwrap();
            end.got[at] += 1;
            let got = Sdu { octets: sdu, uu: d.head.uu, clp: d.head.clp };
            let away = &mut self.ends[1 - to].away[at];
            if contract(CIRCUITS[at]).flow == Flow::Credit {
                assert_eq!(away.pop_front(), Some(got), "the next SDU of a circuit with credits");
            } else {
                // Those before it were lost.
                while let Some(lost) = away.pop_front() {
                    if lost == got {
                        return;
                    }
                }
                panic!("an SDU that nobody sent, or that was late: {} octets", got.octets.len());
            }
        }
    }

    pub fn pass(&mut self) {
        self.now += Duration::from_micros(self.random.random_range(1..300));
        for _ in 0..self.random.random_range(1..4) {
            self.network.run(self.now);
        }
    }

    /// Begins or ends a look at a link, which sees cells only.
    pub fn tap(&mut self) {
        let link = self.links[self.random.random_range(0..2)];
        let tap = self.random.random::<bool>().then(|| TapConfig { records: 10, octets: 1000, ..TapConfig::default() });
        assert!(self.network.set_tap(link, tap));
    }

    pub fn settle(&mut self) {
        for _ in 0..2000 {
            self.now += Duration::from_micros(100);
            self.network.run(self.now);
            (0..2).for_each(|end| self.take(end, 100));
            self.reclaim();
        }
    }

    /// Lets all come to rest; applications take nothing.
    pub fn settle_quietly(&mut self) {
        for _ in 0..100 {
            self.now += Duration::from_millis(1);
            while self.network.run(self.now) {}
        }
    }

    pub fn check(&mut self) {
        for (host, port) in self.hosts.into_iter().zip([0, 1]) {
            let link = self.network.link_info(self.links[port]).unwrap();
            let (carries, line) = (link.config.carries, link.from_b);
            assert!(link.from_a.add_up(carries) && link.from_b.add_up(carries));
            let host: &mut HostInterface = self.network.peek_node(host).unwrap();
            assert_eq!(host.mismatch(), None);
            assert_eq!(host.intake_mismatch(0, carries, &line), None);
        }
        let switch: &mut SwitchElement = self.network.peek_node(self.switch).unwrap();
        assert_eq!(switch.mismatch(), None);
    }
}

impl Application {
    pub fn new(host: &mut HostInterface, geometry: Geometry, events: Events) -> Self {
        let mut application = Application::without_circuits(host, geometry, events);
        let id = application.id;
        application.channels = CIRCUITS.iter().map(|vci| host.open(id, circuit(*vci), Aal::Aal5).unwrap()).collect();
        application
    }

    /// One more, which has no circuit open.
    pub fn other(host: &mut HostInterface) -> Self {
        Application::without_circuits(host, GEOMETRY, Events::Polling)
    }

    fn without_circuits(host: &mut HostInterface, geometry: Geometry, events: Events) -> Self {
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut local = Local::new(&segment);
        assert!((TO_SEND..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let id = host.attach(HostEndpoint::new(segment, events, DataPath::Shared, None)).unwrap();
        let away = vec![VecDeque::new(); CIRCUITS.len()];
        Application {
            id,
            local,
            channels: Vec::new(),
            idle: (0..TO_SEND).collect(),
            completed: 0,
            away,
            got: vec![0; CIRCUITS.len()],
        }
    }
}
