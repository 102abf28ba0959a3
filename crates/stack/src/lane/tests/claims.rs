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
