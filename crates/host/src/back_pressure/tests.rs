//! Every cell of the table, in virtual time, and the page that shows it.

use super::{Case, Circuit, Outcome, Receiver, TABLE, page};
use crate::engine::virtual_time::VirtualEngine;
use crate::{EndpointId, HostEndpoint, HostInterface};
use endpoint::client::SendError;
use endpoint::direct::{Direct, DirectConfig, DirectGeometry, Gone};
use endpoint::layout::{Descriptor, Geometry, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Events, Local};
use net::topology::{CircuitDescription, CircuitEnd, LinkDescription};
use net::{LinkConfig, NodeId, SwitchElementConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract, Flow};
use wire::{CellRate, CircuitId, Counters, DropReason};

const SLOTS: u32 = 32;
/// Buffers that an application sends from; it receives into the others, of which there are more than its ring has slots.
const TO_SEND: u32 = 32;
const BUFFERS: u32 = 96;
const GEOMETRY: Geometry =
    Geometry { send_ring: SLOTS, receive_ring: SLOTS, free_ring: 64, buffers: BUFFERS, buffer_octets: 2048 };
const OCTETS: u32 = 1000;
/// Between two rounds.
const STEP: Duration = Duration::from_micros(10);
/// A slow application takes one SDU in this time.
const SLOW: Duration = Duration::from_micros(500);
const OFFERED: Duration = Duration::from_millis(40);
/// A dead one dies so long after the beginning, and others get on as before.
const DIES: Duration = Duration::from_millis(2);
/// The bystander sends one SDU in this time, and each arrives within as much.
const BYSTANDER: Duration = Duration::from_micros(100);

/// Rounds after which nothing moves any more.
const SETTLES: u32 = 5000;

/// The circuit of the table, and one of a bystander from and to the same hosts.
const JUDGED: u16 = 100;
const BESIDE: u16 = 101;

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// An application with one circuit.
struct Application {
    host: NodeId,
    id: EndpointId,
    local: Local,
    channel: ChannelId,
    /// SDUs that it has pushed, and that it has taken.
    pushed: u32,
    taken: u32,
}

impl Application {
    /// SDUs that it has pushed and that wait.
    fn waiting(&mut self) -> u32 {
        self.pushed.wrapping_sub(self.local.send.consumed())
    }

    fn push(&mut self, channel: ChannelId) {
        let head = Head::of_buffer(self.pushed % TO_SEND);
        assert!(self.local.send.push(Head { channel: channel.0, octets: OCTETS, ..head }));
        self.pushed += 1;
    }

    /// Pushes as much as its ring and its buffers take.
    fn fill(&mut self) {
        while self.waiting() < TO_SEND {
            self.push(self.channel);
        }
    }

    /// Takes up to `most` SDUs; a hostile one gives back nonsense for their buffers.
    fn take(&mut self, most: u32, hostile: bool) {
        for _ in 0..most {
            let Some(d) = self.local.receive.pop() else { return };
            assert_eq!(d.head.octets, OCTETS);
            let buffer = if hostile { Descriptor::INLINE } else { d.head.buffer };
            self.local.free.push(Head::of_buffer(buffer));
            self.taken += 1;
        }
    }
}

/// What was measured in one cell.
#[derive(Debug)]
struct Measured {
    /// Why SDUs were dropped. If none was, all that were pushed have come.
    dropped: Vec<DropReason>,
    /// SDUs that were dropped, and that the application has taken.
    lost: u64,
    taken: u64,
    standstill: Duration,
}

impl Measured {
    fn is(&self, case: &Case) -> bool {
        let outcome = match case.outcome {
            Outcome::Lossless => self.dropped.is_empty(),
            // The first reason is always there, the others now and then.
            Outcome::Dropped(reasons) => {
                self.dropped.contains(&reasons[0]) && self.dropped.iter().all(|reason| reasons.contains(reason))
            }
            Outcome::Gone => false,
        };
        let in_time = match case.standstill {
            Some(most) => self.standstill <= most + STEP,
            // Who may wait for ever does so while nothing is taken.
            None => self.standstill >= SLOW,
        };
        outcome && in_time
    }
}

/// Three hosts at a switch. The table's circuit leads from alpha to beta, as multipoint also to gamma.
struct World {
    engine: VirtualEngine,
    sender: Application,
    receiver: Application,
    leaf: Option<Application>,
    /// Who sends from alpha to gamma beside it, and who receives that.
    beside: [Application; 2],
}

impl World {
    fn new(kind: Circuit) -> Self {
        let mut engine = VirtualEngine::new(1);
        let core = &mut engine.core;
        let names = ["alpha", "beta", "gamma"];
        let [alpha, beta, gamma] =
            names.map(|name| core.fabric.add_host(&mut core.network, name, HostInterface::new(4)).unwrap());
        core.fabric.add_switch(&mut core.network, "s1", SwitchElementConfig::default()).unwrap();
        for (port, name) in names.into_iter().enumerate() {
            let ends = [name.to_owned(), format!("s1:{port}")].map(|end| end.parse().unwrap());
            let link = LinkDescription { ends, config: LinkConfig::default() };
            core.fabric.add_link(&mut core.network, &link).unwrap();
        }
        let mut describe = |vci, ends: &[&str], contract| {
            let ends = ends.iter().map(|host| CircuitEnd::new(*host, circuit(vci))).collect();
            let described = CircuitDescription { ends, contract, ..CircuitDescription::default() };
            core.fabric.add_circuit(&mut core.network, &described).unwrap();
        };
        let ends: &[&str] = if kind == Circuit::Multipoint { &names } else { &names[..2] };
        describe(JUDGED, ends, contract(kind));
        describe(BESIDE, &["alpha", "gamma"], Contract::default());
        engine.find_hosts();
        let core = &mut engine.core;
        let mut application = |host: NodeId, vci| {
            let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
            let mut local = Local::new(&segment);
            assert!((TO_SEND..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
            let there: &mut HostInterface = core.network.node_mut(host).unwrap();
            let id = there.attach(HostEndpoint::new(segment, Events::default(), DataPath::Shared, None)).unwrap();
            let channel = there.open(id, circuit(vci), Aal::Aal5).unwrap();
            Application { host, id, local, channel, pushed: 0, taken: 0 }
        };
        let (sender, receiver) = (application(alpha, JUDGED), application(beta, JUDGED));
        let leaf = (kind == Circuit::Multipoint).then(|| application(gamma, JUDGED));
        let beside = [alpha, gamma].map(|host| application(host, BESIDE));
        World { engine, sender, receiver, leaf, beside }
    }

    fn host(&mut self, node: NodeId) -> &mut HostInterface {
        self.engine.core.network.node_mut(node).unwrap()
    }

    /// What has come to a host for the table's circuit.
    fn received(&mut self, node: NodeId) -> Counters {
        self.host(node).circuit_counts(circuit(JUDGED)).unwrap().received
    }

    fn ring(&mut self) {
        for (host, id) in [(self.sender.host, self.sender.id), (self.beside[0].host, self.beside[0].id)] {
            self.host(host).handle_doorbell(id);
        }
    }

    fn step(&mut self) {
        self.engine.round();
        self.engine.now += STEP;
        if let Some(leaf) = &mut self.leaf {
            leaf.take(SLOTS, false);
        }
        self.beside[1].take(SLOTS, false);
    }

    /// The receiver does what it does while the sender sends what it can; then it takes all that is left.
    fn run(mut self, receiver: Receiver) -> Measured {
        let (begun, mut since, mut standstill) = (self.engine.now, self.engine.now, Duration::ZERO);
        let (mut consumed, mut slow, mut beside) = (0, begun, begun);
        while self.engine.now.since(begun) < OFFERED {
            let now = self.engine.now;
            self.sender.fill();
            if now >= beside {
                let [from, to] = &mut self.beside;
                assert_eq!(from.pushed, to.taken, "{receiver:?}: the bystander's SDU is late or lost");
                from.push(from.channel);
                beside = now + BYSTANDER;
            }
            self.ring();
            match receiver {
                Receiver::Dead if now.since(begun) >= DIES => {
                    let (host, id) = (self.receiver.host, self.receiver.id);
                    self.host(host).depart(id);
                }
                Receiver::Fast | Receiver::Dead => self.receiver.take(SLOTS, false),
                Receiver::Slow if now >= slow => {
                    self.receiver.take(1, false);
                    slow = now + SLOW;
                }
                Receiver::Hostile => self.receiver.take(SLOTS, true),
                Receiver::Slow | Receiver::Stopped => {}
            }
            self.step();
            let done = self.sender.local.send.consumed();
            if done != consumed {
                (consumed, since) = (done, self.engine.now);
            }
            standstill = standstill.max(self.engine.now.since(since));
        }
        let received = self.settle(receiver);
        let reasons = DropReason::ALL.iter().copied();
        Measured {
            dropped: reasons.filter(|reason| received.dropped(*reason) > 0).collect(),
            lost: received.dropped_total(),
            taken: self.receiver.taken.into(),
            standstill,
        }
    }

    /// What the receiver's host has counted once nothing moves any more. The receiver takes what is left, if it is there and honest.
    fn settle(&mut self, receiver: Receiver) -> Counters {
        let honest = !matches!(receiver, Receiver::Dead | Receiver::Hostile);
        for _ in 0..SETTLES {
            if honest {
                self.receiver.take(SLOTS, false);
            }
            self.step();
        }
        let received = self.received(self.receiver.host);
        let sent = self.sender.pushed;
        if let Some(leaf) = &self.leaf {
            assert_eq!(leaf.taken, sent, "{receiver:?}: the fast leaf gets all");
        }
        if honest {
            assert_eq!(received.pdus + received.dropped_total(), u64::from(sent), "{receiver:?}: each is counted once");
        }
        received
    }
}

fn contract(kind: Circuit) -> Contract {
    // An SDU's cells leave in 22 us.
    let rate = CellRate::from_cells_per_s(1e6);
    match kind {
        Circuit::Credit => Contract { flow: Flow::Credit, ..Contract::default() },
        Circuit::Contract => Contract { category: Category::Cbr, pcr: rate, cdvt: STEP * 2, ..Contract::default() },
        Circuit::BestEffort | Circuit::Multipoint | Circuit::Direct => Contract::default(),
    }
}

#[test]
fn every_cell_of_the_table_is_what_happens_and_costs_a_bystander_nothing() {
    let mut wrong = Vec::new();
    for case in TABLE.iter().filter(|case| case.circuit != Circuit::Direct) {
        let measured = World::new(case.circuit).run(case.receiver);
        if !measured.is(case) {
            wrong.push(format!("{case:?}: {measured:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_sender_that_pauses_for_a_slow_receiver_loses_little() {
    for kind in [Circuit::BestEffort, Circuit::Contract] {
        let Measured { lost, taken, .. } = World::new(kind).run(Receiver::Slow);
        assert!(lost < 3 * taken / 2, "{kind:?}: {lost} lost, {taken} taken");
    }
}

#[test]
fn a_slow_receiver_pauses_its_own_channel_and_no_other_of_the_same_endpoint() {
    let mut world = World::new(Circuit::BestEffort);
    let (sender, other) = (world.sender.id, (world.beside[0].id, world.beside[0].channel));
    let host = world.host(world.sender.host);
    host.close(other.0, other.1).unwrap();
    let fast = host.open(sender, circuit(BESIDE), Aal::Aal5).unwrap();
    let (begun, mut take, mut send, mut sent_fast) = (world.engine.now, world.engine.now, world.engine.now, 0);
    while world.engine.now.since(begun) < OFFERED {
        let now = world.engine.now;
        if now >= send {
            assert_eq!(world.beside[1].taken, sent_fast, "the fast receiver's SDU is late or lost");
            world.sender.push(fast);
            (sent_fast, send) = (sent_fast + 1, now + BYSTANDER);
        }
        while world.sender.waiting() < TO_SEND / 2 {
            world.sender.push(world.sender.channel);
        }
        if now >= take {
            world.receiver.take(1, false);
            take = now + SLOW;
        }
        world.ring();
        world.step();
    }
    let lost = world.received(world.receiver.host).dropped_total();
    // Without a pause it would be as many as the sender could push.
    assert!(lost < 5 * u64::from(world.receiver.taken), "{lost} lost, {} taken", world.receiver.taken);
}

/// A direct circuit with a ring of few slots, and both sides.
fn direct() -> (Direct, Direct) {
    let geometry = DirectGeometry { ring: 8, returns: 16, blocks: 16, block_octets: 1024 };
    Direct::pair(&DirectConfig { geometry, ..DirectConfig::default() }).unwrap()
}

/// Sends until the sender is told that there is no room; how many.
fn fill(from: &mut Direct) -> u32 {
    let mut sent = 0;
    while from.sender.send_copy(&[7; OCTETS as usize]).is_ok() {
        sent += 1;
        assert!(sent < 1000, "a ring of eight slots is never full");
    }
    assert_eq!(from.sender.send_copy(&[7; OCTETS as usize]), Err(SendError::Full));
    sent
}

/// What a direct circuit does with a receiver: no host is there that could drop anything.
fn run_direct(receiver: Receiver) -> (Outcome, bool) {
    let (mut from, mut to) = direct();
    let mut sent = fill(&mut from);
    let mut taken = 0;
    let mut take = |most: u32| {
        let came = (0..most).map_while(|_| to.receiver.try_receive().map(|message| message.len())).count() as u32;
        taken += came;
        came
    };
    match receiver {
        Receiver::Fast => {
            for _ in 0..100 {
                take(SLOTS);
                sent += fill(&mut from);
            }
        }
        Receiver::Slow => {
            for _ in 0..100 {
                take(1);
                sent += fill(&mut from);
            }
        }
        Receiver::Stopped => (0..100).for_each(|_| sent += fill(&mut from)),
        Receiver::Dead => {
            drop(to);
            return (if from.sender.alive() == Err(Gone::Peer) { Outcome::Gone } else { Outcome::Lossless }, false);
        }
        Receiver::Hostile => {
            // It keeps what it has taken: the sender's blocks never come back.
            while let Some(message) = to.receiver.try_receive() {
                std::mem::forget(message);
            }
            fill(&mut from);
            return (Outcome::Lossless, fill(&mut from) == 0);
        }
    }
    let waits = fill(&mut from) == 0;
    while take(SLOTS) > 0 {}
    assert_eq!(taken, sent, "{receiver:?}");
    (Outcome::Lossless, waits)
}

#[test]
fn every_cell_of_direct_circuits_is_what_happens() {
    for case in TABLE.iter().filter(|case| case.circuit == Circuit::Direct) {
        let (outcome, waits) = run_direct(case.receiver);
        assert_eq!(outcome, case.outcome, "{case:?}");
        assert!(waits || case.standstill.is_some(), "{case:?}");
    }
}

#[test]
fn the_page_has_the_table() {
    const MARKS: [&str; 2] =
        ["<!-- made by the tests of host, CELLWAY_WRITE=1 -->\n", "<!-- end of what is made -->\n"];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let is = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = is.split_once(MARKS[0]).expect("the page has a place for the table");
    let (_, after) = rest.split_once(MARKS[1]).expect("the table has an end");
    let should = [before, MARKS[0], &page(), MARKS[1], after].concat();
    if std::env::var_os("CELLWAY_WRITE").is_some() {
        std::fs::write(&path, &should).unwrap();
    }
    assert!(is == should, "docs/events.md has another table: run this test with CELLWAY_WRITE=1");
}
