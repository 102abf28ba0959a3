//! Classical IP over calls in a world of a server and clients: registration, calls to next hops, idle circuits, and a
//! network that refuses and releases calls, and loses PDUs, as it likes.

use super::*;
use crate::ip::{Config as IpConfig, VNET_OCTETS, Verdict};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn aesa(station: usize) -> Aesa {
    let mut octets = [0x47; 20];
    octets[18] = station as u8;
    octets[19] = 0;
    Aesa(octets)
}

fn ip(station: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, station as u8 + 1)
}

fn packet(to: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[16..20].copy_from_slice(&to.octets());
    packet
}

struct Station {
    ip: IpInterface,
    calls: Calls,
    heard: usize,
}

/// A call: its ends as (station, number of the call there), and whether the circuit is open.
struct Link {
    ends: [(usize, u64); 2],
    is_up: bool,
}

struct World {
    stations: Vec<Station>,
    links: Vec<Link>,
    now: Time,
    next: u64,
    random: u64,
    /// Of 256 calls and PDUs, how many are refused and lost.
    bad: u64,
    made: usize,
}

impl World {
    /// The first station is the server.
    fn new(stations: usize, idle: Duration) -> Self {
        let now = Time::ZERO;
        let station = |n: usize| {
            let mut interface = IpInterface::new(IpConfig { number: number(aesa(n)), ..IpConfig::new(ip(n)) });
            if n == 0 {
                interface.serve(16, now);
            }
            let config = Config { idle, ..Config::new((n > 0).then_some(aesa(0))) };
            Station { calls: Calls::new(config, &mut interface, now), ip: interface, heard: 0 }
        };
        let stations = (0..stations).map(station).collect();
        World { stations, links: Vec::new(), now, next: 1, random: 1, bad: 0, made: 0 }
    }

    fn chance(&mut self) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 256 < self.bad
    }

    fn release(&mut self, at: usize) {
        let link = self.links.remove(at);
        for (station, call) in link.ends {
            let Station { ip, calls, .. } = &mut self.stations[station];
            calls.handle_released(call, ip, self.now);
        }
    }

    /// Carries out what a station wants of calls. True if it wanted anything.
    fn carry_out(&mut self, n: usize) -> bool {
        let Some(action) = self.stations[n].calls.poll() else { return false };
        match action {
            Action::Call(to) => {
                self.made += 1;
                let callee = (0..self.stations.len()).find(|n| aesa(*n) == to);
                let numbers = [self.next, self.next + 1];
                self.next += 2;
                let refused = self.chance();
                match callee.filter(|_| !refused) {
                    Some(callee) => {
                        self.stations[n].calls.handle_begun(to, numbers[0]);
                        self.links.push(Link { ends: [(n, numbers[0]), (callee, numbers[1])], is_up: false });
                        self.stations[callee].calls.handle_incoming(numbers[1], Some(aesa(n)));
                    }
                    None => self.stations[n].calls.handle_refused(to, self.now),
                }
            }
            Action::Answer(call) => {
                let at = self.links.iter().position(|link| link.ends[1] == (n, call)).unwrap();
                if self.chance() {
                    self.release(at);
                } else {
                    self.links[at].is_up = true;
                    for (station, call) in self.links[at].ends.into_iter().rev() {
                        let Station { ip, calls, .. } = &mut self.stations[station];
                        assert!(calls.handle_open(call, call as u32, ip, self.now));
                    }
                }
            }
            Action::Release(call, _) => {
                if let Some(at) = self.links.iter().position(|link| link.ends.contains(&(n, call))) {
                    self.release(at);
                }
            }
        }
        true
    }

    fn deliver(&mut self, n: usize, circuit: u32, sdu: &[u8]) {
        if self.chance() {
            return;
        }
        let carries = |link: &&Link| link.is_up && link.ends.contains(&(n, circuit.into()));
        let link = self.links.iter().find(carries).expect("what is sent is sent on a circuit");
        let (to, call) = if link.ends[0].0 == n { link.ends[1] } else { link.ends[0] };
        let station = &mut self.stations[to];
        station.heard += usize::from(station.ip.handle_pdu(call as u32, sdu, self.now).is_some());
    }

    fn send(&mut self, n: usize, octets: &[u8]) {
        match self.stations[n].ip.route(octets, self.now) {
            Verdict::To(circuit) => {
                let mut sdu = [&[0; 8], octets].concat();
                let made = self.stations[n].ip.encapsulate(&mut sdu, octets.len()).unwrap();
                self.deliver(n, circuit, &sdu[..made]);
            }
            Verdict::Waits(hop) => self.stations[n].ip.keep(hop, &[0; VNET_OCTETS], octets, self.now),
            Verdict::Dropped => {}
            other => panic!("{other:?}"),
        }
    }

    /// Until nobody has anything to do at this moment.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut any = false;
            for n in 0..self.stations.len() {
                let now = self.now;
                let Station { ip, calls, .. } = &mut self.stations[n];
                ip.handle_timeout(now);
                calls.handle_timeout(ip, now);
                any |= self.carry_out(n);
                let mut sdu = [0; 200];
                while let Some((circuit, octets)) = self.stations[n].ip.poll_pdu(&mut sdu) {
                    self.deliver(n, circuit, &sdu[..octets]);
                    any = true;
                }
                let mut room = [0; 200];
                while let Some((_, octets)) = self.stations[n].ip.poll_kept(&mut room) {
                    self.send(n, &room[..octets]);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
        panic!("the stations never rest");
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        loop {
            let due = |s: &Station| s.ip.poll_timeout().into_iter().chain(s.calls.poll_timeout()).min();
            let next = self.stations.iter().filter_map(due).min().unwrap_or(end);
            // A deadline in the past is of a refused call in this very step.
            self.now = next.max(self.now + Duration::from_millis(1)).min(end);
            self.settle();
            if self.now >= end {
                return;
            }
        }
    }

    fn registered(&self) -> bool {
        self.stations[1..].iter().all(|s| s.ip.client().unwrap().is_registered())
    }
}

#[test]
fn clients_register_by_a_call_and_the_first_packet_to_a_station_calls_it() {
    let mut world = World::new(3, IDLE);
    world.pass(Duration::from_millis(1));
    assert!(world.registered());
    assert_eq!(world.links.len(), 2, "each client has called the server");
    world.send(1, &packet(ip(2)));
    assert_eq!(world.stations[2].heard, 0, "it waits for its circuit");
    world.settle();
    assert_eq!((world.stations[2].heard, world.links.len()), (1, 3));
    // The way back is the same circuit, and the server is reached on its clients' own.
    for (from, to) in [(2, 1), (1, 2), (1, 0), (0, 2)] {
        world.send(from, &packet(ip(to)));
        world.settle();
    }
    assert_eq!(world.stations.iter().map(|s| s.heard).collect::<Vec<_>>(), [1, 1, 3]);
    assert_eq!(world.links.len(), 3);
    // What the server does not know goes nowhere, least of all to the only station that has a circuit.
    world.send(1, &packet(ip(9)));
    world.settle();
    assert_eq!(world.stations[1].ip.sent.dropped(DropReason::UnknownCircuit), 1);
}

#[test]
fn a_circuit_without_packets_is_released_and_those_to_the_server_stay() {
    let idle = Duration::from_secs(80);
    let mut world = World::new(3, idle);
    world.pass(Duration::from_secs(5));
    world.send(1, &packet(ip(2)));
    world.settle();
    for _ in 0..20 {
        world.pass(idle / 2);
        world.send(2, &packet(ip(1)));
        world.settle();
    }
    assert_eq!((world.links.len(), world.stations[1].heard), (3, 20), "packets keep it");
    world.pass(idle + idle / 4);
    assert_eq!(world.links.len(), 2);
    assert!(world.registered());
    // The server reaches a station by its entry.
    world.send(2, &packet(ip(1)));
    world.settle();
    assert_eq!((world.links.len(), world.stations[1].heard), (3, 21));
}

#[test]
fn a_server_that_goes_is_called_ever_less_often_and_registered_with_anew() {
    let mut world = World::new(2, IDLE);
    world.pass(Duration::from_secs(1));
    world.bad = 256;
    world.release(0);
    let before = world.made;
    world.pass(Duration::from_secs(600));
    assert!((8..20).contains(&(world.made - before)), "{} calls in ten minutes", world.made - before);
    world.bad = 0;
    world.pass(Duration::from_secs(65));
    assert!(world.registered() && world.links.len() == 1);
    // The server itself calls a client that it wants to reach, where the client's own call has gone.
    world.bad = 256;
    world.release(0);
    world.settle();
    world.bad = 0;
    world.send(0, &packet(ip(1)));
    world.settle();
    assert_eq!(world.stations[1].heard, 1);
}

#[test]
fn nobody_speaks_for_another_and_more_calls_than_there_may_be_are_refused() {
    let mut world = World::new(3, IDLE);
    // Station 2 says that it is station 1.
    let mut twin = IpInterface::new(IpConfig { number: number(aesa(1)), ..IpConfig::new(ip(1)) });
    let config = Config::new(Some(aesa(0)));
    world.stations[2].calls = Calls::new(config, &mut twin, Time::ZERO);
    world.stations[2].ip = twin;
    world.pass(Duration::from_secs(20));
    let server = &world.stations[0].ip;
    let entries: Vec<_> = server.server().unwrap().entries().map(|(ip, end, _)| (ip, end.number)).collect();
    assert_eq!(entries, [(ip(1), number(aesa(1)))]);
    assert!(server.received.dropped(DropReason::NotPermitted) > 0 && world.links.len() == 2);
    let mut interface = IpInterface::new(IpConfig::new(ip(0)));
    let mut calls = Calls::new(Config { max_calls: 2, ..Config::new(None) }, &mut interface, Time::ZERO);
    (1..4).for_each(|call| calls.handle_incoming(call, None));
    let refused = Some(Action::Release(3, CauseValue::RESOURCES));
    assert_eq!([calls.poll(), calls.poll(), calls.poll()], [Some(Action::Answer(1)), Some(Action::Answer(2)), refused]);
    assert!(!calls.handle_open(3, 3, &mut interface, Time::ZERO));
}

#[test]
fn a_station_that_has_all_calls_yields_one_to_who_calls_and_one_to_who_is_called() {
    let now = Time::ZERO;
    let mut interface = IpInterface::new(IpConfig::new(ip(0)));
    let mut calls = Calls::new(Config { max_calls: 4, ..Config::new(Some(aesa(9))) }, &mut interface, now);
    (1..=4).for_each(|call| calls.handle_incoming(call, Some(aesa(5))));
    (1..=4).for_each(|call| assert_eq!(calls.poll(), Some(Action::Answer(call))));
    (2..=4).for_each(|call| assert!(calls.handle_open(call, call as u32, &mut interface, now)));
    let yields = |call| Some(Action::Release(call, CauseValue::RESOURCES));
    // Call 1 has no circuit yet.
    calls.handle_incoming(10, Some(aesa(6)));
    assert_eq!([calls.poll(), calls.poll()], [yields(1), Some(Action::Answer(10))]);
    // The server is called, although the one that goes has not gone yet.
    calls.handle_timeout(&mut interface, now);
    assert_eq!([calls.poll(), calls.poll()], [yields(2), Some(Action::Call(aesa(9)))]);
    calls.handle_released(1, &mut interface, now);
    assert_eq!(calls.handle_released(2, &mut interface, now), Some(2));
    calls.handle_begun(aesa(9), 20);
    assert_eq!(calls.len(), 4);
    // Two, one and one: nobody has two more than another.
    calls.handle_incoming(11, Some(aesa(6)));
    assert_eq!(calls.poll(), yields(11));
    calls.handle_incoming(12, Some(aesa(5)));
    assert_eq!(calls.poll(), yields(12));
    assert_eq!(calls.counters.dropped(DropReason::TableFull), 4);
}

proptest! {
    #[test]
    fn whatever_the_network_does_each_reaches_each_once_it_is_good_and_no_circuit_is_left(
        seed: u64,
        bad in 1u64..200,
        steps in proptest::collection::vec((0usize..4, 0usize..4, 0u64..20_000, 0usize..8), 1..60),
    ) {
        let idle = Duration::from_secs(60);
        let mut world = World::new(4, idle);
        (world.random, world.bad) = (seed, bad);
        for (from, to, millis, cut) in steps {
            world.send(from, &packet(ip(to)));
            world.settle();
            if cut < world.links.len() {
                world.release(cut);
            }
            world.pass(Duration::from_millis(millis));
        }
        world.bad = 0;
        world.pass(Duration::from_secs(200));
        prop_assert!(world.registered());
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                let before = world.stations[to].heard;
                world.send(from, &packet(ip(to)));
                world.settle();
                prop_assert_eq!(world.stations[to].heard, before + 1, "{} to {}", from, to);
            }
        }
        for n in 0..4 {
            let ends = world.links.iter().flat_map(|link| link.ends).filter(|(station, _)| *station == n).count();
            let Station { ip, calls, .. } = &world.stations[n];
            prop_assert!(calls.len() == ends && ip.peers().count() == ends && !calls.is_setting_up());
        }
        world.pass(idle * 3);
        prop_assert_eq!(world.links.len(), 3, "calls to the server stay");
    }
}
