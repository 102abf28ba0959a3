//! Servers alone: what they answer, refuse and count.

use super::super::frames::MAX_FRAMES;
use super::super::*;
use super::world::{BUS, FIRST, LES, aesa, frame, mac, name};
use super::{A, B, C};
use wire::Time;
use wire::lane::{Destination, Operation};
use wire::q2931::Octets;

/// What a LES answers to a request on a call of its own.
pub(super) fn asked(les: &mut Server, link: Link, request: &Control) -> Option<Control> {
    let mut octets = [0; CONTROL_OCTETS];
    request.emit(&[], &mut octets);
    les.handle_frame(link, &octets);
    while let Some(action) = les.poll() {
        match action {
            Action::Call { link, .. } => les.handle_up(link),
            Action::AddParty { link, to } => les.handle_party(link, to, true),
            _ => {}
        }
    }
    let answer = std::iter::from_fn(|| les.poll_frame()).find(|(on, _)| *on == link);
    answer.map(|(_, octets)| Control::parse(&octets).unwrap())
}

#[test]
fn a_les_refuses_what_is_taken_or_wrong_with_its_status() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let request = |node: usize, operation| Control {
        operation,
        source: Destination::Mac(mac(node)),
        source_atm: aesa(node),
        lan_type: 1,
        max_frame: 1,
        ..Control::default()
    };
    let mut join = |node: usize, number: u64, change: &dyn Fn(&mut Control)| {
        let link = Link::Taken(number);
        les.handle_incoming(link, Some(aesa(node)), Service::Control, Time::ZERO);
        let mut control = request(node, Operation::JOIN);
        change(&mut control);
        let answer = asked(&mut les, link, &control).unwrap();
        if answer.status != 0 {
            les.handle_released(link);
        }
        (answer.status, answer.lecid)
    };
    assert_eq!(join(A, 1, &|_| {}), (0, 1));
    assert_eq!(join(A, 2, &|_| {}).0, 5, "the same ATM address");
    assert_eq!(join(B, 3, &|c| c.source = Destination::Mac(mac(A))).0, 4, "the same MAC address");
    assert_eq!(join(B, 4, &|c| c.source_atm = aesa(C)).0, 10, "another ATM address than the caller's");
    assert_eq!(join(B, 5, &|c| c.source = Destination::Mac(BROADCAST)).0, 9);
    assert_eq!(join(B, 6, &|c| c.max_frame = 2).0, 2);
    assert_eq!(join(B, 7, &|c| c.name = Octets::new(b"other").unwrap()).0, 2);
    assert_eq!(join(B, 8, &|_| {}), (0, 2));
    let (a, b) = (Link::Taken(1), Link::Taken(8));
    let mine = |node: usize, lecid, operation| Control { lecid, ..request(node, operation) };
    let other = Destination::Mac([2, 0, 0, 0, 0, 99]);
    let register = Control { source: other, ..mine(A, 1, Operation::REGISTER) };
    assert_eq!(asked(&mut les, a, &Control { lecid: 2, ..register }).unwrap().status, 8);
    assert_eq!(asked(&mut les, a, &register).unwrap().status, 0);
    let twin = Control { source: other, ..mine(B, 2, Operation::REGISTER) };
    assert_eq!(asked(&mut les, b, &twin).unwrap().status, 4);
    let ask = Control { target: other, ..mine(B, 2, Operation::ARP) };
    let answer = asked(&mut les, b, &ask).unwrap();
    assert_eq!((answer.status, answer.target_atm, answer.lecid), (0, aesa(A), 2));
    let unregister = Control { operation: Operation::UNREGISTER, ..register };
    assert_eq!(asked(&mut les, a, &unregister).unwrap().status, 0);
    assert_eq!(asked(&mut les, a, &unregister).unwrap().status, 9);
    assert_eq!(asked(&mut les, b, &ask), None, "nobody has it");
    let bus = asked(&mut les, b, &Control { target: Destination::Mac(BROADCAST), ..ask }).unwrap();
    assert_eq!(bus.target_atm, aesa(BUS));
}

#[test]
fn a_lecs_says_where_a_lan_is_and_that_there_is_none() {
    let mut lecs = Configuration::new(vec![Lan { name: name(), server: aesa(LES) }]);
    let link = Link::Taken(1);
    lecs.handle_incoming(link, Some(aesa(A)), Service::Control, Time::ZERO);
    assert_eq!(lecs.poll(), Some(Action::Answer(link)));
    let mut ask = |name: &[u8]| {
        let request = Control { name: Octets::new(name).unwrap(), source_atm: aesa(A), ..Control::default() };
        let mut octets = [0; CONTROL_OCTETS];
        request.emit(&[], &mut octets);
        lecs.handle_frame(link, &octets);
        Control::parse(&lecs.poll_frame().unwrap().1).unwrap()
    };
    let found = ask(b"lab");
    assert_eq!((found.status, found.target_atm, found.name), (0, aesa(LES), name()));
    assert_eq!(ask(b"").target_atm, aesa(LES));
    assert_eq!(ask(b"other").status, 20);
    lecs.handle_timeout(Time::from_millis(400_000));
    assert_eq!(lecs.poll(), Some(Action::Release(link)));
}

#[test]
fn servers_refuse_calls_above_their_bounds_and_of_other_services_and_count_them() {
    let mut les = Server::new(name(), aesa(BUS), 2);
    let mut bus = Unknown::new(2);
    let mut lecs = Configuration::new(Vec::new());
    for number in 0..70 {
        let (link, from) = (Link::Taken(number), Some(aesa(FIRST + number as usize)));
        les.handle_incoming(link, from, Service::Control, Time::ZERO);
        bus.handle_incoming(link, from, Service::Multicast);
        lecs.handle_incoming(link, from, Service::Control, Time::ZERO);
        let answered = |taken: u64| if number < taken { Action::Answer(link) } else { Action::Release(link) };
        assert_eq!([les.poll(), bus.poll(), lecs.poll()], [Some(answered(2)), Some(answered(2)), Some(answered(64))]);
    }
    let full = [les.counters(), bus.counters(), lecs.counters()].map(|c| c.dropped(DropReason::TableFull));
    assert_eq!((full, bus.len()), ([68, 68, 6], 2));
    let link = Link::Taken(100);
    bus.handle_released(Link::Taken(0));
    bus.handle_incoming(link, Some(aesa(FIRST + 1)), Service::Multicast);
    assert_eq!(bus.poll(), Some(Action::Release(link)), "this client has a call already");
    bus.handle_incoming(link, None, Service::Multicast);
    assert_eq!(bus.poll(), Some(Action::Release(link)), "nothing could be sent back");
    les.handle_incoming(link, Some(aesa(A)), Service::Direct, Time::ZERO);
    lecs.handle_incoming(link, Some(aesa(A)), Service::Multicast, Time::ZERO);
    let refused = [les.counters(), bus.counters(), lecs.counters()].map(|c| c.dropped(DropReason::NotPermitted));
    assert_eq!(refused, [1, 2, 1]);
    // Calls on which nobody joins end.
    assert_eq!(les.poll(), Some(Action::Release(link)));
    les.handle_timeout(les.poll_timeout().unwrap());
    assert_eq!([les.poll(), les.poll()], [0, 1].map(|number| Some(Action::Release(Link::Taken(number)))));
    assert_eq!(les.poll_timeout(), None);
}

#[test]
fn a_client_registers_so_many_addresses_and_no_more() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let link = Link::Taken(1);
    les.handle_incoming(link, Some(aesa(A)), Service::Control, Time::ZERO);
    let join = Control { operation: Operation::JOIN, source_atm: aesa(A), ..Control::default() };
    let joined = asked(&mut les, link, &join).unwrap();
    assert_eq!((joined.status, joined.max_frame, joined.name), (0, 1, name()));
    let register = |n: u8| Control {
        operation: Operation::REGISTER,
        source: Destination::Mac([2, 0, 0, 0, 1, n]),
        lecid: joined.lecid,
        ..join
    };
    let taken = (0..70).filter(|n| asked(&mut les, link, &register(*n)).unwrap().status == 0).count();
    assert_eq!(taken, 64);
    assert_eq!(asked(&mut les, link, &register(99)).unwrap().status, 6);
}

#[test]
fn a_proxy_is_asked_for_addresses_that_nobody_has_and_only_a_proxy_may_answer_for_them() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let [a, b] = [A, B].map(|node| {
        let link = Link::Taken(node as u64);
        les.handle_incoming(link, Some(aesa(node)), Service::Control, Time::ZERO);
        let flags = if node == B { flag::PROXY | 2 } else { 2 };
        let join = Control { operation: Operation::JOIN, source_atm: aesa(node), flags, ..Control::default() };
        let joined = asked(&mut les, link, &join).unwrap();
        assert_eq!(joined.flags, flags & flag::PROXY, "version 2 is not promised");
        (link, joined.lecid)
    });
    let unknown = Destination::Mac([2, 0, 0, 0, 5, 5]);
    let ask =
        Control { operation: Operation::ARP, lecid: a.1, source_atm: aesa(A), target: unknown, ..Control::default() };
    let mut octets = [0; CONTROL_OCTETS];
    ask.emit(&[], &mut octets);
    les.handle_frame(a.0, &octets);
    let (tree, asked) = les.poll_frame().unwrap();
    assert!(matches!(tree, Link::Made(_)) && asked[..] == octets);
    let answer = Control { target_atm: aesa(B), flags: flag::REMOTE, ..response_to(&ask, 0) };
    answer.emit(&[], &mut octets);
    les.handle_frame(a.0, &octets);
    assert_eq!((les.poll_frame(), les.counters().dropped(DropReason::NotPermitted)), (None, 1));
    les.handle_frame(b.0, &octets);
    assert_eq!(les.poll_frame().map(|(to, octets)| (to, octets.to_vec())), Some((a.0, octets.to_vec())));
}

#[test]
fn a_bus_passes_on_frames_of_its_clients_that_are_frames() {
    let mut bus = Unknown::new(4);
    let client = Link::Taken(1);
    bus.handle_incoming(client, Some(aesa(A)), Service::Multicast);
    bus.handle_up(client);
    let tree = std::iter::from_fn(|| bus.poll()).find_map(|action| match action {
        Action::Call { link, to, multipoint: true, .. } if to == aesa(A) => Some(link),
        _ => None,
    });
    let data = [&[0, 1][..], &frame(mac(B), A, 1)].concat();
    bus.handle_frame(client, &data);
    assert_eq!(bus.counters().dropped(DropReason::UnknownCircuit), 1, "nobody is on its tree yet");
    bus.handle_up(tree.unwrap());
    bus.handle_frame(client, &data);
    assert_eq!(bus.poll_frame(), Some((tree.unwrap(), data.clone().into())));
    bus.handle_frame(Link::Taken(2), &data);
    bus.handle_frame(client, &data[..10]);
    let join = Control { operation: Operation::JOIN, ..Control::default() };
    let mut octets = [0; CONTROL_OCTETS];
    join.emit(&[], &mut octets);
    bus.handle_frame(client, &octets);
    assert_eq!(bus.poll_frame(), None);
    let dropped = |reason| bus.counters().dropped(reason);
    assert_eq!([DropReason::UnknownCircuit, DropReason::Malformed].map(dropped), [2, 2]);
    // A shell that takes nothing costs a bounded number of frames.
    (0..300).for_each(|_| bus.handle_frame(client, &data));
    assert_eq!(bus.counters().dropped(DropReason::QueueFull), 300 - MAX_FRAMES as u64);
    assert_eq!(std::iter::from_fn(|| bus.poll_frame()).count(), MAX_FRAMES);
}

/// A BUS with clients under the addresses, all on its tree.
fn bus_of(clients: &[Aesa]) -> Unknown {
    let mut bus = Unknown::new(clients.len());
    for (client, number) in clients.iter().zip(0..) {
        bus.handle_incoming(Link::Taken(number), Some(*client), Service::Multicast);
        bus.handle_up(Link::Taken(number));
        while let Some(action) = bus.poll() {
            match action {
                Action::Call { link, .. } => bus.handle_up(link),
                Action::AddParty { link, to } => bus.handle_party(link, to, true),
                _ => {}
            }
        }
    }
    bus
}

#[test]
fn a_client_that_floods_the_bus_pushes_out_its_own_frames_and_no_others() {
    // Eve's host has three clients, under selectors of its own choice.
    let eve = [0, 1, 2].map(|selector| caller(FIRST + 50, selector).unwrap());
    let mut bus = bus_of(&[eve[0], eve[1], eve[2], aesa(A), aesa(B)]);
    let of = |client: usize, number: u32| [&[0, client as u8][..], &frame(BROADCAST, client, number)].concat();
    let (mut sent, mut flood, mut heard) = (Vec::new(), 0, Vec::new());
    for round in 0..200 {
        for n in 0..150 {
            flood += 1;
            bus.handle_frame(Link::Taken(n % 3), &of(9, flood));
        }
        for client in [3, 4] {
            bus.handle_frame(Link::Taken(client as u64), &of(client, round));
            sent.push(of(client, round));
        }
        // The shell has room for a few, and for all now and then.
        let room = if round % 50 == 49 { MAX_FRAMES } else { 5 };
        heard.extend(std::iter::from_fn(|| bus.poll_frame()).take(room).map(|(_, octets)| octets.to_vec()));
    }
    heard.extend(std::iter::from_fn(|| bus.poll_frame()).map(|(_, octets)| octets.to_vec()));
    let (of_eve, of_others): (Vec<_>, Vec<_>) = heard.into_iter().partition(|octets| octets[1] == 9);
    assert!(of_others == sent, "{} of {} frames of others were heard", of_others.len(), sent.len());
    let lost = u64::from(flood) - of_eve.len() as u64;
    assert!(lost > 20_000 && of_eve.len() > MAX_FRAMES);
    assert_eq!(bus.counters().dropped(DropReason::QueueFull), lost);
}

#[test]
fn all_who_flood_the_bus_have_equal_shares_of_its_room() {
    let clients = [A, B, C].map(aesa);
    let mut bus = bus_of(&clients);
    let of = |client: usize| [&[0, client as u8][..], &frame(BROADCAST, client, 1)].concat();
    for client in [0, 0, 1, 0, 1, 2, 2, 0, 1] {
        (0..400).for_each(|_| bus.handle_frame(Link::Taken(client as u64), &of(client)));
    }
    let waiting: Vec<_> = std::iter::from_fn(|| bus.poll_frame()).map(|(_, octets)| octets[1]).collect();
    let share = |client: u8| waiting.iter().filter(|of| **of == client).count();
    assert!([0, 1, 2].iter().all(|client| (85..=86).contains(&share(*client))), "{:?}", [0, 1, 2].map(share));
    assert_eq!(bus.counters().dropped(DropReason::QueueFull), 3600 - MAX_FRAMES as u64);
    // What leaves gives its share back.
    (0..400).for_each(|_| bus.handle_frame(Link::Taken(0), &of(0)));
    assert_eq!(std::iter::from_fn(|| bus.poll_frame()).count(), MAX_FRAMES);
}

#[test]
fn questions_without_end_to_a_les_push_out_no_answer_to_others() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let mut join = |node: usize| {
        let link = Link::Taken(node as u64);
        les.handle_incoming(link, Some(aesa(node)), Service::Control, Time::ZERO);
        let join = Control { operation: Operation::JOIN, source_atm: aesa(node), ..Control::default() };
        let joined = asked(&mut les, link, &join).unwrap();
        let target = Destination::Mac(BROADCAST);
        let ask = Control { operation: Operation::ARP, lecid: joined.lecid, source_atm: aesa(node), target, ..join };
        let mut octets = [0; CONTROL_OCTETS];
        ask.emit(&[], &mut octets);
        (link, octets)
    };
    let [eve, other] = [A, B].map(&mut join);
    for _ in 0..10 {
        (0..1000).for_each(|_| les.handle_frame(eve.0, &eve.1));
        les.handle_frame(other.0, &other.1);
    }
    let answers: Vec<_> = std::iter::from_fn(|| les.poll_frame()).map(|(to, _)| to).collect();
    assert_eq!(answers.iter().filter(|to| **to == other.0).count(), 10);
    assert_eq!(
        (answers.len(), les.counters().dropped(DropReason::QueueFull)),
        (MAX_FRAMES, 10_010 - MAX_FRAMES as u64)
    );
    // What waits for a call that goes is counted.
    les.handle_frame(other.0, &other.1);
    les.handle_released(other.0);
    assert_eq!((les.poll_frame(), les.counters().dropped(DropReason::Closed)), (None, 1));
}

/// A caller of a host, by its selector.
fn caller(host: usize, selector: u8) -> Option<Aesa> {
    let mut address = aesa(host);
    address.0[19] = selector;
    Some(address)
}

#[test]
fn one_station_that_takes_all_places_yields_them_to_others() {
    let (now, eve) = (Time::ZERO, FIRST + 50);
    let mut les = Server::new(name(), aesa(BUS), 8);
    let mut bus = Unknown::new(8);
    let mut lecs = Configuration::new(vec![Lan { name: name(), server: aesa(LES) }]);
    for number in 0..64 {
        let (link, from) = (Link::Taken(number), caller(eve, number as u8));
        lecs.handle_incoming(link, from, Service::Control, now);
        if number < 8 {
            les.handle_incoming(link, from, Service::Control, now);
            bus.handle_incoming(link, from, Service::Multicast);
        }
    }
    // Two of them have joined the LAN, as far as that is hers.
    for number in [0, 1] {
        let join = Control {
            operation: Operation::JOIN,
            source_atm: caller(eve, number).unwrap(),
            lan_type: 1,
            max_frame: 1,
            ..Control::default()
        };
        let mut octets = [0; CONTROL_OCTETS];
        join.emit(&[], &mut octets);
        les.handle_frame(Link::Taken(number.into()), &octets);
    }
    let clear = |les: &mut Server, bus: &mut Unknown, lecs: &mut Configuration| {
        while les.poll().is_some() {}
        while bus.poll().is_some() {}
        while lecs.poll().is_some() {}
    };
    clear(&mut les, &mut bus, &mut lecs);
    let others = [(100, A), (101, B), (102, A + 10)];
    for (number, host) in others {
        let (link, from) = (Link::Taken(number), caller(host, 0));
        les.handle_incoming(link, from, Service::Control, now);
        bus.handle_incoming(link, from, Service::Multicast);
        lecs.handle_incoming(link, from, Service::Control, now);
        // Those who have joined stay longest; else the first goes.
        let n = number - 100;
        let yielded = [2 + n, n, n].map(|number| Some(Action::Release(Link::Taken(number))));
        let first = [les.poll(), bus.poll(), lecs.poll()];
        assert_eq!(first, yielded, "{number}");
        let mut rest = std::iter::from_fn(|| bus.poll());
        assert!(rest.any(|action| action == Action::Answer(link)), "{number}");
        assert_eq!([les.poll(), lecs.poll()], [Some(Action::Answer(link)); 2]);
    }
    // She gets none of theirs, and no more of her own.
    let link = Link::Taken(200);
    les.handle_incoming(link, caller(eve, 200), Service::Control, now);
    bus.handle_incoming(link, caller(eve, 200), Service::Multicast);
    lecs.handle_incoming(link, caller(eve, 200), Service::Control, now);
    assert_eq!([les.poll(), bus.poll(), lecs.poll()], [Some(Action::Release(link)); 3]);
    assert_eq!((bus.len(), les.counters().dropped(DropReason::TableFull)), (8, 4));
}
