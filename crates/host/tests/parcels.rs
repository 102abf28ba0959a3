//! SDUs that pass in parcels, mixed with those that become cells: what arrives is what was sent, in order, and a buffer is its sender's
//! again only once its SDU has been read.
//!
//! Two hosts at a switch, on links in memory. Whoever looks at a link (a capture) has all that passes it made into cells, so the same
//! circuit changes between the two again and again. `PARCELS_SEED` repeats a failure.

use endpoint::layout::Descriptor;
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Geometry, Local};
use host::{Attached, CircuitConfig, EndpointId, HostInterface};
use net::topology::{CircuitDescription, CircuitEnd, Fabric, LinkDescription};
use net::{
    End, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, SduAt, SduMemory, Switch, SwitchConfig,
    TapBuffer, TapConfig,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use traffic::{Category, Contract, Flow};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, Time};

const BUFFERS: u32 = 32;
/// Those that an application sends from; the others are for what comes.
const TO_SEND: u32 = 24;
const GEOMETRY: Geometry =
    Geometry { send_ring: 32, receive_ring: 16, free_ring: 32, buffers: BUFFERS, buffer_octets: 4096 };
/// With more buffers to receive into than the receive ring has slots.
const SHORT_RING: Geometry = Geometry { receive_ring: 4, ..GEOMETRY };
const SIZES: [usize; 9] = [1, 40, 41, 64, 88, 89, 1500, 4000, 4096];
/// Best effort, credits, credits, and a rate above all that is sent, which the switch polices.
const CIRCUITS: [u16; 4] = [100, 101, 102, 103];

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn contract(vci: u16) -> Contract {
    let fast = CellRate::from_cells_per_s(1e9);
    match vci {
        101 | 102 => Contract { flow: Flow::Credit, ..Contract::default() },
        103 => Contract { category: Category::Cbr, pcr: fast, ..Contract::default() },
        _ => Contract::default(),
    }
}

/// What an SDU is, whoever has seen it last.
#[derive(Debug, Clone, PartialEq)]
struct Sdu {
    octets: Vec<u8>,
    uu: u8,
    clp: bool,
}

/// An application with all circuits open.
struct Application {
    id: EndpointId,
    local: Local,
    channels: Vec<ChannelId>,
    /// Its own buffers that are free.
    idle: Vec<u32>,
    completed: u32,
    /// What was pushed and is not known to have come, by circuit.
    away: Vec<VecDeque<Sdu>>,
    got: Vec<u64>,
}

struct World {
    random: StdRng,
    network: Network,
    hosts: [NodeId; 2],
    switch: NodeId,
    links: [LinkId; 2],
    ends: [Application; 2],
    now: Time,
    sent: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        World::with(seed, Events::Polling)
    }

    fn with(seed: u64, events: Events) -> Self {
        let mut network = Network::new(FramePool::new(4, 100));
        let mut fabric: Fabric<HostInterface> = Fabric::new();
        let hosts = ["alpha", "beta"].map(|name| fabric.add_host(&mut network, name, HostInterface::new(4)).unwrap());
        let switch = fabric.add_switch(&mut network, "s1", SwitchConfig::default()).unwrap();
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

    fn push(&mut self) {
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
        let d = Descriptor { channel, octets: octets as u32, uu, clp, ..Descriptor::of_buffer(buffer) };
        if end.local.send.push(d) {
            end.away[at].push_back(Sdu { octets: sdu, uu, clp });
        } else {
            end.idle.push(buffer);
        }
    }

    /// Overwrites buffers that have come back: whoever reads them later reads nonsense.
    fn reclaim(&mut self) {
        for end in &mut self.ends {
            let consumed = end.local.send.consumed();
            while end.completed != consumed {
                let (_, buffer) = end.local.send.given_back(end.completed);
                end.completed = end.completed.wrapping_add(1);
                end.local.segment.copy_in(end.local.segment.geometry().buffer_at(buffer).unwrap(), &[0xee; 4096]);
                end.idle.push(buffer);
            }
        }
    }

    /// Takes up to `most` SDUs that have come to an end.
    fn take(&mut self, to: usize, most: usize) {
        for _ in 0..most {
            let end = &mut self.ends[to];
            let Some(d) = end.local.receive.pop() else { return };
            let octets = d.octets as usize;
            let mut sdu = d.inline.get(..octets.min(40)).unwrap().to_vec();
            if d.buffer != Descriptor::INLINE {
                let at = end.local.segment.geometry().buffer_at(d.buffer).unwrap();
                sdu = end.local.segment.octets(at, octets).iter().map(|octet| octet.load(Ordering::Relaxed)).collect();
                assert!(end.local.free.push(Descriptor::of_buffer(d.buffer)));
            }
            let at = end.channels.iter().position(|channel| channel.0 == d.channel).unwrap();
            end.got[at] += 1;
            let got = Sdu { octets: sdu, uu: d.uu, clp: d.clp };
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

    fn pass(&mut self) {
        self.now += Duration::from_micros(self.random.random_range(1..300));
        for _ in 0..self.random.random_range(1..4) {
            self.network.run(self.now);
        }
    }

    /// Begins or ends a look at a link, which sees cells only.
    fn tap(&mut self) {
        let link = self.links[self.random.random_range(0..2)];
        let tap = self.random.random::<bool>().then(|| TapConfig { records: 10, octets: 1000, ..TapConfig::default() });
        assert!(self.network.set_tap(link, tap));
    }

    fn settle(&mut self) {
        for _ in 0..2000 {
            self.now += Duration::from_micros(100);
            self.network.run(self.now);
            (0..2).for_each(|end| self.take(end, 100));
            self.reclaim();
        }
    }

    fn check(&mut self) {
        for (host, port) in self.hosts.into_iter().zip([0, 1]) {
            let link = self.network.link_info(self.links[port]).unwrap();
            let (carries, line) = (link.config.carries, link.from_b);
            assert!(link.from_a.add_up(carries) && link.from_b.add_up(carries));
            let host: &mut HostInterface = self.network.peek_node(host).unwrap();
            assert_eq!(host.mismatch(), None);
            assert_eq!(host.intake_mismatch(0, carries, &line), None);
        }
        let switch: &mut Switch = self.network.peek_node(self.switch).unwrap();
        assert_eq!(switch.mismatch(), None);
    }
}

impl Application {
    fn new(host: &mut HostInterface, geometry: Geometry, events: Events) -> Self {
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut local = Local::new(&segment);
        assert!((TO_SEND..BUFFERS).all(|buffer| local.free.push(Descriptor::of_buffer(buffer))));
        let id = host.attach(Attached::new(segment, events, DataPath::Shared, None)).unwrap();
        let channels: Vec<_> = CIRCUITS.iter().map(|vci| host.open(id, circuit(*vci), Aal::Aal5).unwrap()).collect();
        let away = vec![VecDeque::new(); CIRCUITS.len()];
        Application {
            id,
            local,
            channels,
            idle: (0..TO_SEND).collect(),
            completed: 0,
            away,
            got: vec![0; CIRCUITS.len()],
        }
    }
}

#[test]
fn what_arrives_is_what_was_sent_in_order_whether_it_passed_as_parcels_or_as_cells() {
    let one = std::env::var("PARCELS_SEED").ok().and_then(|seed| seed.parse().ok());
    let long = if std::env::var_os("CELLWAY_LONG").is_some() { 2000 } else { 40 };
    for seed in one.map_or(1..long, |seed: u64| seed..seed + 1) {
        let failed = |_| panic!("PARCELS_SEED={seed} cargo test -p host --test parcels");
        std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            let mut busy = world.random.random_range(2..40);
            for step in 0..3000 {
                match world.random.random_range(0..40) {
                    0 => world.tap(),
                    1 => busy = world.random.random_range(2..40),
                    at if at < busy => world.push(),
                    at if at % 3 == 0 => world.pass(),
                    at if at % 3 == 1 => world.take(at % 2, 1 + step % 5),
                    _ => world.reclaim(),
                }
            }
            world.settle();
            world.check();
            for end in &world.ends {
                assert_eq!(end.idle.len(), TO_SEND as usize, "all buffers are back");
                assert!(end.got.iter().all(|n| *n > 10), "{:?}", end.got);
                let credits = [1, 2].map(|at| end.away[at].len());
                assert_eq!(credits, [0, 0], "SDUs of circuits with credits have not come");
            }
        })
        .unwrap_or_else(failed);
    }
}

/// Takes parcels off its link and keeps them until the test lets go of them.
#[derive(Default)]
struct Keeper {
    parcels: Vec<net::Parcel>,
    cells: usize,
}

impl Node for Keeper {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let before = (self.parcels.len(), self.cells);
        loop {
            let n = io.cells_in(0).len();
            self.cells += n;
            io.consume(0, n);
            match io.take_parcel(0) {
                Some(parcel) => self.parcels.push(parcel),
                None if n == 0 => return before != (self.parcels.len(), self.cells),
                None => {}
            }
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn takes_parcels(&self) -> bool {
        true
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Kept {
    network: Network,
    host: NodeId,
    keeper: NodeId,
    link: LinkId,
    end: Application,
    now: Time,
}

impl Kept {
    fn new() -> Self {
        Kept::with(LinkConfig::default(), Events::Polling)
    }

    fn with(config: LinkConfig, events: Events) -> Self {
        let mut network = Network::new(FramePool::new(4, 100));
        let mut host = HostInterface::new(4);
        for vci in CIRCUITS {
            host.add_circuit(circuit(vci), CircuitConfig::default());
        }
        let end = Application::new(&mut host, GEOMETRY, events);
        let host = network.add_node("host", Box::new(host));
        let keeper = network.add_node("keeper", Box::<Keeper>::default());
        let ends = [End::Port(host, 0), End::Port(keeper, 0)];
        let link = network.connect(ends[0], ends[1], config).unwrap();
        Kept { network, host, keeper, link, end, now: Time::ZERO }
    }

    fn push(&mut self, at: usize, octets: u32) {
        let buffer = self.end.idle.pop().unwrap();
        let channel = self.end.channels[at].0;
        assert!(self.end.local.send.push(Descriptor { channel, octets, ..Descriptor::of_buffer(buffer) }));
    }

    /// Cells that have come, and the cells of each parcel.
    fn run(&mut self) -> (usize, Vec<usize>) {
        for _ in 0..5 {
            self.now += Duration::from_micros(1);
            self.network.run(self.now);
        }
        let keeper: &mut Keeper = self.network.node_mut(self.keeper).unwrap();
        (keeper.cells, keeper.parcels.iter().map(net::Parcel::cells).collect())
    }

    fn let_go(&mut self) {
        let keeper: &mut Keeper = self.network.node_mut(self.keeper).unwrap();
        keeper.parcels.clear();
    }
}

#[test]
fn buffers_come_back_once_their_parcel_has_been_read_and_a_channel_has_a_bounded_part_of_its_data_in_parcels() {
    let mut kept = Kept::new();
    // 4096 octets are 86 cells: 1536 cells are seventeen of them and some.
    for _ in 0..20 {
        kept.push(0, 4096);
    }
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.iter().sum::<usize>()), (0, 17 * 86), "{parcels:?}");
    assert_eq!(kept.end.local.send.consumed(), 0);
    // Another channel has room of its own, and what is short goes as a cell.
    kept.push(1, 64);
    kept.push(1, 40);
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.last()), (1, Some(&2)));
    assert_eq!(kept.end.local.send.consumed(), 1, "the short one is done with");
    let host: &mut HostInterface = kept.network.node_mut(kept.host).unwrap();
    let sent = host.circuit_counts(circuit(100)).unwrap().sent;
    assert_eq!((sent.cells, sent.pdus, sent.octets), (17 * 86, 17, 17 * 4096));
    assert_eq!(host.mismatch(), None);
    kept.let_go();
    let (_, parcels) = kept.run();
    assert_eq!((parcels.iter().sum::<usize>(), kept.end.local.send.consumed()), (3 * 86, 19));
    kept.let_go();
    kept.run();
    assert_eq!(kept.end.local.send.consumed(), 22);
}

#[test]
fn a_parcel_has_no_more_cells_than_the_link_has_room_for() {
    let mut kept = Kept::with(LinkConfig { queue_cells: 100, ..LinkConfig::default() }, Events::Polling);
    for _ in 0..3 {
        kept.push(0, 4096);
    }
    assert_eq!(kept.run(), (0, vec![86, 86, 86]));
}

#[test]
fn an_endpoint_that_waits_for_its_tick_gets_its_buffers_back_before() {
    let mut kept = Kept::with(LinkConfig::default(), Events::Clocked { hertz: 1000 });
    kept.push(0, 4096);
    // As many as one tick takes.
    for _ in 1..GEOMETRY.send_ring {
        let d = Descriptor { channel: kept.end.channels[0].0, octets: 8, ..Descriptor::of_buffer(Descriptor::INLINE) };
        assert!(kept.end.local.send.push(d));
    }
    assert_eq!(kept.run(), (31, vec![86]));
    assert_eq!(kept.end.local.send.consumed(), 31);
    kept.let_go();
    kept.run();
    assert!(kept.now < Time::from_micros(20));
    assert_eq!(kept.end.local.send.consumed(), 32);
}

#[test]
fn whoever_looks_at_a_link_sees_cells() {
    let mut kept = Kept::new();
    let config = TapConfig { records: 1000, octets: 100_000, ..TapConfig::default() };
    assert!(kept.network.set_tap(kept.link, Some(config.clone())));
    kept.push(0, 4096);
    assert_eq!(kept.run(), (86, vec![]));
    let mut seen = TapBuffer::new(&config);
    assert!(kept.network.drain_tap(kept.link, &mut seen));
    assert_eq!(seen.len(), 86);
    kept.network.set_tap(kept.link, None);
    kept.push(0, 4096);
    assert_eq!(kept.run(), (86, vec![86]));
}

/// Sends the beginning of a PDU, then a parcel of two.
#[derive(Debug, Default)]
struct Giver(bool);

#[derive(Debug)]
struct Memory(Vec<AtomicU8>);

impl SduMemory for Memory {
    fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        &self.0[at..at + octets]
    }
}

impl Node for Giver {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        if std::mem::replace(&mut self.0, true) {
            return false;
        }
        let header = CellHeader { circuit: circuit(100), ..CellHeader::default() };
        assert!(io.put_cell(0, &Cell::new(header, [1; 48])));
        let memory = Arc::new(Memory((0..2000).map(|n| AtomicU8::new(n as u8)).collect()));
        let mut parcel = io.new_parcel(circuit(100), memory);
        parcel.push(SduAt { at: 0, octets: 200, uu: 0 });
        parcel.push(SduAt { at: 500, octets: 300, uu: 9 });
        io.put_parcel(0, parcel).unwrap();
        true
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A host with circuit 0.100 open, behind a [`Giver`]; what it counted on that circuit, and what came.
fn given(config: CircuitConfig, geometry: Geometry) -> (wire::Counters, Vec<(u32, u8)>) {
    let mut network = Network::new(FramePool::new(4, 100));
    let mut host = HostInterface::new(4);
    for vci in CIRCUITS {
        host.add_circuit(circuit(vci), config.clone());
    }
    let mut end = Application::new(&mut host, geometry, Events::Polling);
    let host = network.add_node("host", Box::new(host));
    let giver = network.add_node("giver", Box::<Giver>::default());
    network.connect(End::Port(host, 0), End::Port(giver, 0), LinkConfig::default()).unwrap();
    (0..5).for_each(|n| _ = network.run(Time::from_micros(n)));
    let host: &mut HostInterface = network.node_mut(host).unwrap();
    assert_eq!(host.mismatch(), None);
    let mut came = Vec::new();
    while let Some(d) = end.local.receive.pop() {
        came.push((d.octets, d.uu));
    }
    (host.circuit_counts(circuit(100)).unwrap().received, came)
}

#[test]
fn a_parcel_behind_the_beginning_of_a_pdu_is_as_its_cells() {
    let (counted, came) = given(CircuitConfig::default(), GEOMETRY);
    // Two PDUs became one, whose checksum is wrong.
    assert_eq!(came, [(300, 9)]);
    assert_eq!((counted.cells, counted.pdus, counted.dropped(DropReason::Crc)), (13, 1, 1));
}

#[test]
fn an_sdu_that_is_too_long_for_its_circuit_or_its_receivers_buffers_is_dropped_as_such() {
    let mut kept = World::new(2);
    let host: &mut HostInterface = kept.network.node_mut(kept.hosts[1]).unwrap();
    let at = circuit(100);
    assert!(host.remove_circuit(at));
    host.add_circuit(at, CircuitConfig { max_sdu_octets: 1000, ..CircuitConfig::default() });
    let channel = host.open(kept.ends[1].id, at, Aal::Aal5).unwrap();
    kept.ends[1].channels[0] = channel;
    for octets in [1001, 1000, 1001, 64] {
        let end = &mut kept.ends[0];
        let buffer = end.idle.pop().unwrap();
        let d = Descriptor { channel: end.channels[0].0, octets, ..Descriptor::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
    (0..10).for_each(|_| kept.pass());
    let mut came = Vec::new();
    while let Some(d) = kept.ends[1].local.receive.pop() {
        came.push(d.octets);
    }
    assert_eq!(came, [1000, 64]);
    let host: &mut HostInterface = kept.network.node_mut(kept.hosts[1]).unwrap();
    assert_eq!(host.circuit_counts(at).unwrap().received.dropped(DropReason::Oversize), 2);
    kept.check();
}

/// Two hosts of which the second keeps SDUs of circuit 0.101 that its application has no room for: how many have come.
fn kept_back() -> (World, usize) {
    let mut world = World::with(1, Events::Interrupt);
    (0..10).for_each(|_| world.pass());
    for _ in 0..TO_SEND {
        let end = &mut world.ends[0];
        let buffer = end.idle.pop().unwrap();
        let d = Descriptor { channel: end.channels[1].0, octets: 1000, ..Descriptor::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
    let (sender, host) = (world.ends[0].id, world.hosts[0]);
    world.network.node_mut::<HostInterface>(host).unwrap().handle_doorbell(sender);
    (0..10).for_each(|_| world.pass());
    let came = world.ends[1].local.receive.waiting_now() as usize;
    assert_eq!(came, 4, "the ring has so many slots");
    (world, came)
}

#[test]
fn a_host_that_has_delivered_all_that_it_kept_has_nothing_to_do() {
    let (mut world, mut came) = kept_back();
    for _ in 0..100 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            assert!(world.ends[1].local.free.push(Descriptor::of_buffer(d.buffer)));
            came += 1;
        }
        world.pass();
    }
    assert_eq!(came, 4 + TO_SEND as usize);
    assert_eq!(world.ends[0].local.send.consumed(), TO_SEND);
    // Until the last timer of the circuits' credits has fired.
    for _ in 0..100 {
        world.now += Duration::from_millis(10);
        while world.network.run(world.now) {}
    }
    let due = world.network.poll_timeout();
    assert!(due.is_none_or(|due| due > world.now + Duration::from_secs(1)), "{due:?} at {}", world.now);
    world.check();
}

#[test]
fn parcels_that_were_kept_are_cells_to_who_opens_the_circuit_as_such() {
    let (mut world, _) = kept_back();
    let at = circuit(101);
    let host: &mut HostInterface = world.network.node_mut(world.hosts[1]).unwrap();
    host.close(world.ends[1].id, world.ends[1].channels[1]).unwrap();
    let channel = host.open(world.ends[1].id, at, Aal::Aal0).unwrap();
    let (mut sdus, mut cells) = (0, 0);
    for _ in 0..2000 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            match d.octets {
                1000 => sdus += 1,
                52 => cells += usize::from(d.channel == channel.0),
                octets => panic!("{octets} octets"),
            }
            if d.buffer != Descriptor::INLINE {
                assert!(world.ends[1].local.free.push(Descriptor::of_buffer(d.buffer)));
            }
        }
        world.pass();
    }
    // 1000 octets are 21 cells.
    assert_eq!((sdus, cells), (4, (TO_SEND as usize - 4) * 21));
    world.check();
}

#[test]
fn a_link_that_goes_down_loses_parcels_as_it_loses_their_cells() {
    let mut kept = Kept::new();
    kept.push(0, 4096);
    kept.push(0, 100);
    // The host's run puts a parcel on the link; the link is gone before the keeper runs.
    let host: Option<bool> =
        kept.network.with_node(kept.host, kept.now, |host: &mut HostInterface, io| host.run(io, io.now()));
    assert_eq!(host, Some(true));
    let on_it = kept.network.link_info(kept.link).unwrap().from_a;
    assert_eq!((on_it.sent.cells, on_it.sent.pdus, on_it.unread), (89, 2, 89));
    kept.network.set_link_up(kept.link, false);
    let lost = kept.network.link_info(kept.link).unwrap().from_a;
    assert_eq!((lost.lost, lost.unread, lost.sent.dropped(DropReason::LinkDown)), (89, 0, 89));
    assert!(lost.add_up(net::Carries::Cells));
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.len(), kept.end.local.send.consumed()), (0, 0, 2));
    // What is sent now goes the way of all cells.
    kept.push(0, 100);
    kept.run();
    assert_eq!(kept.network.link_info(kept.link).unwrap().from_a.sent.dropped(DropReason::LinkDown), 92);
}

#[test]
fn an_endpoint_ends_while_its_parcels_are_under_way_and_they_are_still_whole() {
    let mut kept = Kept::new();
    let buffer = kept.end.idle.last().copied().unwrap();
    kept.end.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), &[7; 200]);
    kept.push(0, 200);
    kept.run();
    let id = kept.end.id;
    let host: &mut HostInterface = kept.network.node_mut(kept.host).unwrap();
    assert!(host.release_endpoint(id));
    drop(kept.end);
    kept.network.run(kept.now);
    let keeper: &mut Keeper = kept.network.node_mut(kept.keeper).unwrap();
    let [parcel] = &keeper.parcels[..] else { panic!("{} parcels", keeper.parcels.len()) };
    assert!(parcel.octets(&parcel.sdus()[0]).iter().all(|octet| octet.load(Ordering::Relaxed) == 7));
    let mut cells = Vec::new();
    parcel.cut(&mut cells);
    assert_eq!(cells.len(), 5);
}
