//! Who says what of whose addresses, and who keeps others out of a LAN that begins.

use super::servers::asked;
use super::world::{BUS, FIRST, aesa, mac, name};
use super::*;

const EVE: usize = FIRST + 9;

fn join(node: usize) -> Control {
    let source = Destination::Mac(mac(node));
    Control { operation: Operation::JOIN, source, source_atm: aesa(node), ..Control::default() }
}

/// A client's call to a LES, and its identifier once it has joined.
fn joins(les: &mut Server, request: &Control) -> (Link, u16) {
    let link = Link::Taken(request.source_atm.0[18].into());
    les.handle_incoming(link, Some(request.source_atm), Service::Control, Time::ZERO);
    let joined = asked(les, link, request).unwrap();
    assert_eq!(joined.status, 0);
    (link, joined.lecid)
}

fn octets(control: &Control) -> [u8; CONTROL_OCTETS] {
    let mut octets = [0; CONTROL_OCTETS];
    control.emit(&[], &mut octets);
    octets
}

#[test]
fn a_client_that_joins_again_and_again_has_no_more_addresses_than_it_may() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let (eve, lecid) = joins(&mut les, &join(EVE));
    let address = |n: u8| Destination::Mac([2, 0, 0, 0, 1, n]);
    let again = |les: &mut Server, n| asked(les, eve, &Control { source: address(n), ..join(EVE) }).unwrap();
    let taken = (0..100).filter(|n| again(&mut les, *n).status == 0).count();
    assert_eq!((taken, again(&mut les, 99).status), (63, 6), "with the one that it has joined with");
    let repeated = again(&mut les, 0);
    assert_eq!((repeated.status, repeated.lecid), (0, lecid), "a request whose answer was lost is answered");
    joins(&mut les, &Control { source: address(99), ..join(A) });
}

#[test]
fn what_a_client_has_registered_no_other_client_redirects_or_takes_back() {
    let mut les = Server::new(name(), aesa(BUS), 4);
    let (a, of_a) = joins(&mut les, &join(A));
    let (b, of_b) = joins(&mut les, &join(B));
    let (eve, of_eve) = joins(&mut les, &Control { flags: flag::PROXY, ..join(EVE) });
    while les.poll_frame().is_some() {}
    let unknown = Destination::Mac([2, 0, 0, 0, 5, 5]);
    let answer = |target| Control {
        operation: Operation::ARP.response(),
        lecid: of_a,
        source_atm: aesa(A),
        target,
        target_atm: aesa(EVE),
        ..Control::default()
    };
    let change = |lecid, target| Control { operation: Operation::NARP, lecid, target, ..Control::default() };
    let mut passes = |link, control: &Control| {
        les.handle_frame(link, &octets(control));
        les.poll_frame().map(|(to, _)| to)
    };
    assert_eq!(passes(eve, &answer(Destination::Mac(mac(B)))), None);
    assert_eq!(passes(eve, &change(of_eve, Destination::Mac(mac(B)))), None);
    assert_eq!(passes(b, &change(of_b, unknown)), None, "it is no proxy");
    assert_eq!(passes(eve, &answer(unknown)), Some(a));
    assert!(matches!(passes(eve, &change(of_eve, unknown)), Some(Link::Made(_))));
    assert_eq!(les.counters().dropped(DropReason::NotPermitted), 3);
}

#[test]
fn a_client_believes_the_answer_to_its_question_and_forgets_only_what_a_proxy_has_said() {
    let mut world = joined();
    let (control, now) = (world.link_of(A, Service::Control), world.now);
    let client = &mut world.clients[0];
    let tell = |client: &mut Client, frame: &Control| {
        assert_eq!(client.handle_frame(control, &octets(frame), now), None);
        let calls = std::iter::from_fn(|| client.poll()).filter_map(|action| match action {
            Action::Call { to, .. } => Some(to),
            _ => None,
        });
        (calls.last(), client.counters().dropped(DropReason::NotPermitted))
    };
    client.send(&frame(mac(B), A, 0), now);
    let question = std::iter::from_fn(|| client.poll_frame()).find_map(|(_, octets)| Control::parse(&octets).ok());
    let answer = Control { target_atm: aesa(C), ..response_to(&question.expect("where B is"), 0) };
    let transaction = answer.transaction.wrapping_add(1);
    assert_eq!(tell(client, &Control { transaction, ..answer }), (None, 1), "nobody has asked this");
    assert_eq!(tell(client, &Control { target_atm: aesa(B), ..answer }), (Some(aesa(B)), 1));
    assert_eq!(tell(client, &answer), (None, 2), "it is answered already");
    let change = Control { operation: Operation::NARP, target: Destination::Mac(mac(B)), ..Control::default() };
    assert_eq!(tell(client, &change), (None, 3), "the LES has said where B is");
    client.send(&frame(mac(B), A, 1), now);
    let questions = std::iter::from_fn(|| client.poll_frame()).filter_map(|(_, octets)| Control::parse(&octets).ok());
    assert_eq!(questions.filter(|control| control.operation == Operation::ARP).count(), 0);
}

#[test]
fn a_station_that_does_not_answer_keeps_others_of_a_lan_waiting_for_a_few_seconds_only() {
    let mut les = Server::new(name(), aesa(BUS), 8);
    let mut bus = Unknown::new(8);
    // The silent host joins first, twice; the others' addresses are higher.
    let silent = [0, 1].map(|selector| {
        let mut address = aesa(0);
        address.0[19] = selector;
        address
    });
    let waits = [aesa(B), aesa(A)];
    for (number, atm) in silent.into_iter().chain(waits).enumerate() {
        let link = Link::Taken(number as u64);
        les.handle_incoming(link, Some(atm), Service::Control, Time::ZERO);
        bus.handle_incoming(link, Some(atm), Service::Multicast);
        bus.handle_up(link);
        les.handle_frame(link, &octets(&Control { source: Destination::None, source_atm: atm, ..join(A) }));
    }
    fn calls(action: Action) -> Option<(Link, Aesa)> {
        match action {
            Action::Call { link, to, multipoint: true, .. } => Some((link, to)),
            _ => None,
        }
    }
    let mut now = Time::from_millis(7000);
    les.handle_timeout(now);
    bus.handle_timeout(now);
    let first = [std::iter::from_fn(|| les.poll()).find_map(calls), std::iter::from_fn(|| bus.poll()).find_map(calls)];
    let [Some((les_call, to)), Some((bus_call, of_bus))] = first else { panic!("{first:?}") };
    assert_eq!([to, of_bus], [silent[0]; 2]);
    assert_eq!(les.poll_timeout(), bus.poll_timeout());
    now = les.poll_timeout().unwrap();
    assert_eq!(now, Time::from_millis(12_000));
    les.handle_timeout(now);
    bus.handle_timeout(now);
    for (call, mut actions) in [
        (les_call, std::iter::from_fn(|| les.poll()).collect::<Vec<_>>()),
        (bus_call, std::iter::from_fn(|| bus.poll()).collect::<Vec<_>>()),
    ] {
        actions.retain(|action| !matches!(action, Action::Answer(_)));
        let next = actions.iter().position(|action| calls(*action).is_some()).expect("another is called");
        assert_eq!(calls(actions.remove(next)).map(|(_, to)| to), Some(aesa(B)), "who has waited longest elsewhere");
        assert_eq!(actions, [Action::Release(call), Action::Release(Link::Taken(0))]);
    }
    assert_eq!(bus.len(), 3);
    let next = |les: &mut Server| (les.poll_timeout(), les.clients().count());
    assert_eq!(next(&mut les), (Some(now + Duration::from_secs(5)), 0));
    // It answers, and all others are called.
    les.handle_up(Link::Made(2));
    let added = std::iter::from_fn(|| les.poll()).filter(|action| matches!(action, Action::AddParty { .. }));
    assert_eq!((added.count(), les.clients().count()), (2, 1));
}

/// A JOIN of a station with a MAC address of its own choice, by a call that the network says is the station's.
fn joins_at(les: &mut Server, call: u64, station: usize, address: [u8; 6], at: u64) -> u16 {
    let (link, now) = (Link::Taken(call), Time::from_millis(at * 1000));
    les.handle_timeout(now);
    les.handle_incoming(link, Some(aesa(station)), Service::Control, now);
    let request = Control { source: Destination::Mac(address), ..join(station) };
    les.handle_frame(link, &octets(&request));
    while let Some(action) = les.poll() {
        // The station is on the distribute call at once.
        if let Action::Call { link, .. } = action {
            les.handle_up(link);
        }
        if let Action::AddParty { link, to } = action {
            les.handle_party(link, to, true);
        }
    }
    let answers = std::iter::from_fn(|| les.poll_frame()).filter(|(to, _)| *to == link);
    answers.filter_map(|(_, octets)| Control::parse(&octets).ok()).last().expect("an answer").status
}

#[test]
fn a_second_user_gets_the_mac_address_of_a_station_that_has_left_after_twenty_minutes_and_not_before() {
    let (granted, duplicate) = (0, 4);
    let mut les = Server::new(name(), aesa(BUS), 8);
    assert_eq!(joins_at(&mut les, 1, A, mac(A), 0), granted);
    les.set_time(Time::from_millis(10_000));
    les.handle_released(Link::Taken(1));
    assert_eq!(joins_at(&mut les, 2, B, mac(A), 11), duplicate);
    assert_eq!(
        (les.duplicates, les.registrations().collect::<Vec<_>>()),
        (1, vec![(mac(A), aesa(A).without_selector())])
    );
    // By REGISTER neither.
    assert_eq!(joins_at(&mut les, 2, B, mac(B), 12), granted);
    let registers = Control { operation: Operation::REGISTER, lecid: 1, source: Destination::Mac(mac(A)), ..join(B) };
    les.handle_frame(Link::Taken(2), &octets(&registers));
    let answer = les.poll_frame().and_then(|(_, octets)| Control::parse(&octets).ok()).expect("an answer");
    assert_eq!((answer.status, les.duplicates), (duplicate, 2));
    // The first user's station is back.
    assert_eq!(joins_at(&mut les, 3, A, mac(A), 13), granted);
    les.set_time(Time::from_millis(20_000));
    les.handle_released(Link::Taken(3));
    les.handle_released(Link::Taken(2));
    assert_eq!(joins_at(&mut les, 4, B, mac(A), 20 + 1199), duplicate);
    les.handle_released(Link::Taken(4));
    assert_eq!(joins_at(&mut les, 5, B, mac(A), 20 + 1200), granted);
}

#[test]
fn a_second_users_frames_from_the_first_ones_mac_address_do_not_pass_the_bus() {
    let mut bus = Unknown::new(8);
    for (call, station) in [(1, A), (2, B)] {
        bus.handle_incoming(Link::Taken(call), Some(aesa(station)), Service::Multicast);
        bus.handle_up(Link::Taken(call));
    }
    let forward = std::iter::from_fn(|| bus.poll()).find_map(|action| match action {
        Action::Call { link, .. } => Some(link),
        _ => None,
    });
    bus.handle_up(forward.expect("the forward call"));
    let passes = |bus: &mut Unknown, call, from: [u8; 6], at: u64| {
        bus.set_time(Time::from_millis(at * 1000));
        let data = [&[0, 9][..], &[0xff; 6], &from, &[8, 0], &[0; 46]].concat();
        bus.handle_frame(Link::Taken(call), &data);
        bus.poll_frame().is_some()
    };
    let refused = |bus: &Unknown| bus.counters().dropped(DropReason::NotPermitted);
    assert!(passes(&mut bus, 1, mac(A), 0));
    assert!(!passes(&mut bus, 2, mac(A), 1) && !passes(&mut bus, 2, mac(A), 1199));
    assert_eq!(refused(&bus), 2);
    assert!(
        passes(&mut bus, 2, mac(B), 1199) && passes(&mut bus, 1, mac(A), 1199),
        "the first one's pass all the time"
    );
    assert!(passes(&mut bus, 2, mac(A), 1199 + 1200), "after twenty minutes of silence");
    // Who is registered with the LES has its address though another was heard from there.
    bus.set_registrations([(mac(A), aesa(A).without_selector())].into_iter());
    assert!(passes(&mut bus, 1, mac(A), 2400) && !passes(&mut bus, 2, mac(A), 2400));
    assert_eq!(refused(&bus), 3);
}
