//! An emulated LAN in virtual time.

mod claims;
mod direct;
mod servers;
mod world;

use super::*;
use proptest::prelude::*;
use std::time::Duration;
use wire::Time;
use wire::lane::{Destination, Operation};
use world::{BUS, FIRST, LES, World, aesa, config, frame, mac, name};

const A: usize = FIRST;
const B: usize = FIRST + 1;
const C: usize = FIRST + 2;

fn joined() -> World {
    let mut world = World::new(3);
    world.pass(Duration::from_secs(5));
    assert!(world.all_up());
    world
}

#[test]
fn clients_find_their_lan_by_the_lecs_and_hear_broadcasts_but_not_their_own() {
    let mut world = joined();
    let mut ids: Vec<_> = world.clients.iter().map(|client| client.lecid().unwrap()).collect();
    ids.sort();
    assert_eq!((ids, world.les.clients().count(), world.bus.len()), (vec![1, 2, 3], 3, 3));
    // Each to the LES and to the BUS, and a tree from either.
    assert_eq!(world.calls.len(), 3 * 2 + 2, "the calls to the LECS are released");
    world.send(A, BROADCAST, 7);
    world.pass(Duration::from_secs(1));
    assert_eq!([A, B, C].map(|at| world.taken(at, A)), [vec![], vec![7], vec![7]]);
}

#[test]
fn frames_go_by_the_bus_first_and_none_is_lost_or_overtaken_when_a_direct_call_takes_over() {
    let mut world = joined();
    let before = world.made;
    for number in 0..100 {
        world.send(A, mac(B), number);
        world.pass(Duration::from_millis(30));
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(world.taken(B, A), (0..100).collect::<Vec<_>>());
    assert_eq!(world.clients[0].direct().collect::<Vec<_>>(), [mac(B)]);
    assert!(world.taken(C, A).is_empty() && world.made == before + 1);
    // The way back is the same call: B flushes, for its first frame went by the BUS.
    for number in 0..30 {
        world.send(B, mac(A), number);
        world.pass(Duration::from_millis(20));
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(world.taken(A, B), (0..30).collect::<Vec<_>>());
    assert_eq!((world.made, world.clients[1].direct().collect::<Vec<_>>()), (before + 1, vec![mac(A)]));
    // Nobody sends any more.
    world.pass(Duration::from_secs(1300));
    assert_eq!(world.calls.len(), 8);
    assert!(world.all_up());
}

#[test]
fn a_destination_that_nobody_knows_gets_one_frame_a_second_and_the_rest_is_counted() {
    let mut world = joined();
    for number in 0..50 {
        world.send(A, [2, 0, 0, 0, 9, 9], number);
        world.pass(Duration::from_millis(100));
    }
    assert!(world.clients[0].counters().dropped(DropReason::QueueFull) >= 35);
    assert!(world.taken(B, A).is_empty(), "it is for nobody here");
    world.send(A, mac(A), 1);
    world.clients[0].send(&[0; 2000], world.now);
    world.clients[0].send(&[0; 5], world.now);
    assert_eq!(world.clients[0].counters().dropped(DropReason::Oversize), 1);
    assert_eq!(world.clients[0].counters().dropped(DropReason::Malformed), 1);
}

#[test]
fn a_lan_whose_servers_lose_their_calls_comes_back() {
    let mut world = joined();
    for service in [Service::Control, Service::Multicast] {
        for multipoint in [false, true] {
            let numbers: Vec<u64> = world
                .calls
                .iter()
                .filter(|(_, c)| (c.service, c.multipoint) == (service, multipoint))
                .map(|(number, _)| *number)
                .collect();
            assert!(!numbers.is_empty());
            numbers.into_iter().for_each(|number| world.end(number));
            world.pass(Duration::from_millis(100));
            assert!(!world.all_up(), "{service:?} {multipoint}");
            world.pass(Duration::from_secs(30));
            assert!(world.all_up(), "{service:?} {multipoint}");
            assert_eq!((world.calls.len(), world.les.clients().count(), world.bus.len()), (8, 3, 3));
        }
    }
}

#[test]
fn a_client_that_dies_leaves_the_lan_and_its_next_life_joins_with_the_same_addresses() {
    let mut world = joined();
    for number in 0..50 {
        world.send(A, mac(C), number);
        world.pass(Duration::from_millis(40));
    }
    assert_eq!(world.clients[0].direct().collect::<Vec<_>>(), [mac(C)]);
    world.taken(C, A);
    // It comes back to a LAN that is not there.
    world.replace(C, Config { server: Some(aesa(99)), ..config(C) });
    world.pass(Duration::from_secs(1));
    assert_eq!((world.les.clients().count(), world.bus.len()), (2, 2));
    assert_eq!(world.clients[0].direct().count(), 0);
    world.send(A, BROADCAST, 1);
    world.send(A, mac(B), 2);
    world.send(A, mac(C), 3);
    world.pass(Duration::from_secs(1));
    assert_eq!((world.taken(B, A), world.taken(C, A)), (vec![1, 2], vec![]));
    world.replace(C, config(C));
    world.pass(Duration::from_secs(5));
    assert!(world.all_up());
    world.send(A, mac(C), 4);
    world.pass(Duration::from_secs(20));
    world.send(A, mac(C), 5);
    world.pass(Duration::from_secs(2));
    assert!(world.taken(C, A).ends_with(&[4, 5]));
}

#[test]
fn servers_that_start_anew_are_joined_anew() {
    let mut world = joined();
    for node in [LES, BUS] {
        world.cut_off(node);
        if node == LES {
            world.les = Server::new(name(), aesa(BUS), 16);
        } else {
            world.bus = Unknown::new(16);
        }
        world.pass(Duration::from_millis(100));
        assert!(world.clients.iter().all(|client| !client.is_up()));
        world.send(A, BROADCAST, 9);
        assert_eq!(world.clients[0].counters().dropped(DropReason::UnknownCircuit), 1 + u64::from(node == BUS));
        world.pass(Duration::from_secs(10));
        assert!(world.all_up());
        assert_eq!((world.calls.len(), world.les.clients().count(), world.bus.len()), (8, 3, 3));
        world.send(B, BROADCAST, 10);
        world.pass(Duration::from_secs(1));
        assert_eq!([A, B, C].map(|at| world.taken(at, B)), [vec![10], vec![], vec![10]]);
    }
}

#[test]
fn a_client_with_another_ones_mac_address_joins_twenty_minutes_after_that_one_has_gone() {
    let mut world = joined();
    world.replace(C, Config { mac: mac(A), ..config(C) });
    world.pass(Duration::from_secs(200));
    assert_eq!([A, B, C].map(|node| world.clients[node - FIRST].is_up()), [true, true, false]);
    assert_eq!(world.les.clients().count(), 2);
    world.replace(A, config(9));
    world.pass(Duration::from_secs(1190));
    assert!(!world.clients[C - FIRST].is_up());
    world.pass(Duration::from_secs(80));
    assert!(world.clients[C - FIRST].is_up());
}

#[test]
fn frames_are_as_long_as_ethernets_shortest_ones() {
    let mut world = joined();
    let short = [&BROADCAST[..], &mac(A), &[8, 6], &[7; 28]].concat();
    world.clients[0].send(&short, world.now);
    let (_, sent) = world.clients[0].poll_frame().unwrap();
    assert_eq!((sent.len(), &sent[2..44], &sent[44..]), (62, &short[..], &[0; 18][..]));
    let long = [&short[..], &[8; MAX_FRAME_OCTETS - 42]].concat();
    world.clients[0].send(&long, world.now);
    assert_eq!(world.clients[0].poll_frame().unwrap().1.len(), 1516);
}

#[test]
fn what_a_client_remembers_is_bounded_and_counted() {
    let mut world = joined();
    let now = world.now;
    let client = &mut world.clients[0];
    let unknown = |n: u32| [&[2, 1][..], &n.to_be_bytes()].concat().try_into().unwrap();
    for n in 0..1100 {
        client.send(&frame(unknown(n), A, n), now);
        while client.poll_frame().is_some() {}
    }
    assert_eq!(client.counters().dropped(DropReason::TableFull), 1100 - 1024);
    // One went to the BUS, five wait.
    (0..10).for_each(|n| client.send(&frame(unknown(0), A, n), now));
    assert_eq!(client.counters().dropped(DropReason::QueueFull), 5);
    for n in 0..80 {
        client.handle_incoming(Link::Taken(10_000 + n), Some(aesa(50)), Service::Direct, now);
    }
    let releases = |client: &mut Client| {
        let all = std::iter::from_fn(|| client.poll());
        all.filter_map(|action| if let Action::Release(link) = action { Some(link) } else { None }).collect::<Vec<_>>()
    };
    assert_eq!((releases(client).len(), client.counters().dropped(DropReason::NotPermitted)), (16, 16));
    // All places are one station's: another one is heard all the same, and the first call of that one ends.
    let other = Link::Taken(20_000);
    client.handle_incoming(other, Some(aesa(51)), Service::Direct, now);
    assert_eq!(releases(client), [Link::Taken(10_000)]);
    client.handle_incoming(Link::Taken(20_001), Some(aesa(50)), Service::Direct, now);
    assert_eq!(releases(client), [Link::Taken(20_001)]);
}

#[test]
fn a_client_takes_servers_calls_from_its_servers_only_and_frames_from_its_calls_only() {
    let mut world = World::new(1);
    let now = world.now;
    for service in [Service::Control, Service::Multicast, Service::Direct] {
        let link = Link::Taken(service.pid().into());
        world.clients[0].handle_incoming(link, Some(aesa(77)), service, now);
        let release = std::iter::from_fn(|| world.clients[0].poll()).any(|action| action == Action::Release(link));
        assert!(release, "{service:?}");
    }
    world.pass(Duration::from_secs(5));
    assert!(world.all_up());
    let data = [&[0, 9][..], &frame(mac(A), B, 1)].concat();
    let now = world.now;
    assert_eq!(world.clients[0].handle_frame(Link::Taken(99_999), &data, now), None);
    assert_eq!(world.clients[0].counters().dropped(DropReason::NotPermitted), 4);
}

/// Stock `les` answers LE_ARP there.
#[test]
fn a_client_takes_its_les_answers_on_control_distribute_too() {
    let mut client = Client::new(Config { server: Some(aesa(LES)), ..config(A) });
    let (control, distribute, now) = (Link::Made(1), Link::Taken(7), Time::ZERO);
    client.handle_timeout(now);
    assert!(matches!(client.poll(), Some(Action::Call { link, .. }) if link == control));
    client.handle_up(control, now);
    client.handle_incoming(distribute, Some(aesa(LES)), Service::Control, now);
    assert_eq!(client.poll(), Some(Action::Answer(distribute)));
    client.handle_up(distribute, now);
    let answer = |client: &mut Client, change: &dyn Fn(&mut Control)| {
        let (_, question) = client.poll_frame().expect("a question");
        let mut answer = response_to(&Control::parse(&question).unwrap(), 0);
        change(&mut answer);
        let mut octets = [0; CONTROL_OCTETS];
        answer.emit(&[], &mut octets);
        assert_eq!(client.handle_frame(distribute, &octets, now), None);
    };
    answer(&mut client, &|join| join.lecid = 5);
    assert_eq!(client.lecid(), Some(5));
    answer(&mut client, &|arp| arp.target_atm = aesa(BUS));
    let called = client.poll();
    assert!(
        matches!(called, Some(Action::Call { to, service: Service::Multicast, .. }) if to == aesa(BUS)),
        "{called:?}"
    );
}

#[test]
fn addresses_behind_a_bridge_age_fast_while_the_topology_changes_and_a_narp_forgets_one() {
    let mut world = joined();
    let (control, mut now) = (world.link_of(A, Service::Control), world.now);
    let client = &mut world.clients[0];
    let remote = [2, 0, 0, 0, 7, 7];
    let tell = |client: &mut Client, control_frame: Control, now| {
        let mut octets = [0; CONTROL_OCTETS];
        control_frame.emit(&[], &mut octets);
        assert_eq!(client.handle_frame(control, &octets, now), None);
    };
    /// The transaction of the question that a frame to a destination raises, if it raises one.
    fn question(client: &mut Client, to: [u8; 6], now: Time) -> Option<u32> {
        client.send(&frame(to, A, 0), now);
        let frames = std::iter::from_fn(|| client.poll_frame()).collect::<Vec<_>>();
        let controls = frames.iter().filter_map(|(_, octets)| Control::parse(octets).ok());
        controls.filter(|control| control.operation == Operation::ARP).map(|control| control.transaction).next_back()
    }
    let answer = |transaction| Control {
        operation: Operation::ARP.response(),
        transaction,
        source_atm: aesa(A),
        target: Destination::Mac(remote),
        target_atm: aesa(B),
        flags: flag::REMOTE,
        ..Control::default()
    };
    let transaction = question(client, remote, now).expect("an unknown destination");
    tell(client, answer(transaction), now);
    assert_eq!(question(client, remote, now), None, "it is known");
    let topology = Control { operation: Operation::TOPOLOGY, flags: flag::TOPOLOGY, ..Control::default() };
    tell(client, topology, now);
    now += Duration::from_secs(14);
    client.handle_timeout(now);
    assert_eq!(question(client, remote, now), None);
    now += Duration::from_secs(2);
    client.handle_timeout(now);
    let frames = std::iter::from_fn(|| client.poll_frame()).filter_map(|(_, octets)| Control::parse(&octets).ok());
    let again = frames.last().expect("it is asked for anew after C18");
    assert_eq!((again.operation, again.target), (Operation::ARP, Destination::Mac(remote)));
    tell(client, answer(again.transaction), now);
    assert_eq!(question(client, remote, now), None);
    tell(client, Control { operation: Operation::NARP, target: Destination::Mac(remote), ..Control::default() }, now);
    assert!(question(client, remote, now).is_some(), "it is forgotten");
}

/// Control frames that look right, and any octets.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let destination = || {
        prop_oneof![
            Just(Destination::None),
            (0usize..9).prop_map(|node| Destination::Mac(mac(node))),
            Just(Destination::Mac(BROADCAST)),
            Just(Destination::Route([0; 6])),
        ]
    };
    let operation = prop_oneof![1u16..12, 0x101u16..0x10c];
    let fields = (operation, any::<[u8; 4]>(), destination(), destination(), 0usize..9, 0usize..9);
    let control = fields.prop_map(|(operation, [status, transaction, lecid, flags], source, target, from, to)| {
        let control = Control {
            operation: Operation(operation),
            status: (status % 12).into(),
            transaction: (transaction % 8).into(),
            lecid: (lecid % 4).into(),
            flags: flags.into(),
            source,
            target,
            source_atm: aesa(from),
            target_atm: aesa(to),
            ..Control::default()
        };
        let mut octets = vec![0; CONTROL_OCTETS];
        control.emit(&[], &mut octets);
        octets
    });
    prop_oneof![4 => control, 1 => proptest::collection::vec(any::<u8>(), 0..130)]
}

proptest! {
    #[test]
    fn whatever_comes_in_whatever_order_the_machines_stay_within_their_bounds(
        steps in proptest::collection::vec((0u8..6, 0u32..6, 0usize..9, 0u64..3_000, octets()), 0..80),
    ) {
        let mut lecs = Configuration::new(vec![Lan { name: name(), server: aesa(LES) }]);
        let (mut les, mut bus) = (Server::new(name(), aesa(BUS), 2), Unknown::new(2));
        let mut clients = [Client::new(config(A)), Client::new(Config { server: Some(aesa(LES)), ..config(B) })];
        let mut now = Time::ZERO;
        for (event, number, node, millis, octets) in steps {
            let link = if number < 3 { Link::Made(number) } else { Link::Taken(number.into()) };
            let service = [Service::Control, Service::Direct, Service::Multicast][node % 3];
            let from = (node > 0).then(|| aesa(node));
            match event {
                0 => {
                    lecs.handle_incoming(link, from, service, now);
                    les.handle_incoming(link, from, service, now);
                    bus.handle_incoming(link, from, service);
                    clients.iter_mut().for_each(|client| client.handle_incoming(link, from, service, now));
                }
                1 => {
                    les.handle_up(link);
                    bus.handle_up(link);
                    clients.iter_mut().for_each(|client| client.handle_up(link, now));
                }
                2 => {
                    lecs.handle_released(link);
                    les.handle_released(link);
                    bus.handle_released(link);
                    clients.iter_mut().for_each(|client| client.handle_released(link, now));
                }
                3 => {
                    les.handle_party(link, aesa(node), millis % 2 == 0);
                    bus.handle_party(link, aesa(node), millis % 2 == 0);
                }
                4 => clients.iter_mut().for_each(|client| client.send(&frame(mac(node), A, 0), now)),
                _ => {
                    lecs.handle_frame(link, &octets);
                    les.handle_frame(link, &octets);
                    bus.handle_frame(link, &octets);
                    for client in &mut clients {
                        let _ = client.handle_frame(link, &octets, now);
                    }
                }
            }
            now += Duration::from_millis(millis);
            lecs.handle_timeout(now);
            les.handle_timeout(now);
            clients.iter_mut().for_each(|client| client.handle_timeout(now));
            prop_assert!(les.clients().count() <= 2 && bus.len() <= 2);
            // Time has come for everything that was due.
            let deadlines = clients.iter().map(Client::poll_timeout).chain([lecs.poll_timeout(), les.poll_timeout()]);
            prop_assert!(deadlines.flatten().all(|at| at > now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_network_does_the_lan_is_whole_once_it_is_good(
        seed: u64,
        bad in 0u64..60,
        steps in proptest::collection::vec((FIRST..FIRST + 4, FIRST..FIRST + 4, 0u64..5_000, 0usize..20), 1..40),
    ) {
        let mut world = World::new(4);
        (world.random, world.bad) = (seed, bad);
        for (from, to, millis, cut) in steps {
            world.send(from, if from == to { BROADCAST } else { mac(to) }, 0);
            if let Some(number) = world.calls.keys().nth(cut).copied() {
                world.end(number);
            }
            world.pass(Duration::from_millis(millis));
        }
        world.bad = 0;
        world.pass(Duration::from_secs(400));
        prop_assert!(world.all_up());
        world.heard.iter_mut().for_each(Vec::clear);
        let all = FIRST..FIRST + 4;
        for number in 1..60 {
            for (from, to) in all.clone().flat_map(|from| all.clone().map(move |to| (from, to))) {
                world.send(from, if from == to { BROADCAST } else { mac(to) }, number);
            }
            world.pass(Duration::from_millis(500));
        }
        world.pass(Duration::from_secs(10));
        for (at, from) in all.clone().flat_map(|at| all.clone().map(move |from| (at, from))) {
            let heard = world.taken(at, from);
            // A broadcast and a frame of each number; those of one kind in their order.
            let expected = if at == from { 0 } else { 2 };
            for number in 1..60 {
                let times = heard.iter().filter(|n| **n == number).count();
                prop_assert_eq!(times, expected, "{} of {} at {}: {:?}", number, from, at, heard);
            }
        }
        // Each client has a call to the LES, one to the BUS, and is a leaf of either's tree.
        let trees: Vec<usize> = world.calls.values().filter(|c| c.multipoint).map(|c| c.leaves.len()).collect();
        prop_assert_eq!(trees, vec![4, 4]);
        let of = |service| world.calls.values().filter(|c| !c.multipoint && c.service == service).count();
        prop_assert_eq!((of(Service::Control), of(Service::Multicast)), (4, 4));
        prop_assert!(of(Service::Direct) <= 12);
    }
}
