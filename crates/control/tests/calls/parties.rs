//! Point-to-multipoint calls of applications, calls that change hands, and calls that carry something one way only.

use super::ground::{Ground, TWO};
use super::{SOON, release_of, traffic};
use control::calls::applications::User;
use control::calls::setup::Wanted;
use endpoint::calls::{Answer, CallError, Circuit, Event, Sap, Session, Traffic};
use endpoint::{ChannelId, Endpoint, EndpointConfig};
use wire::q2931::CauseValue;

fn endpoint(ground: &Ground, host: &str) -> Endpoint {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    Endpoint::create(&ground.socket, &config).unwrap()
}

/// Waits for a call, opens its circuit and answers it.
fn answer(ground: &Ground, host: &str, session: &mut Session) -> (u64, Endpoint, ChannelId) {
    let Some(Event::Incoming { call, traffic, .. }) = session.next_event(Some(SOON)).unwrap() else {
        panic!("no call")
    };
    assert_eq!(traffic[1], Traffic { sdu_octets: traffic[1].sdu_octets, ..Traffic::none() }, "nothing is sent back");
    let circuit = session.take(call).unwrap();
    let mut endpoint = endpoint(ground, host);
    let channel = endpoint.open_call(&circuit).unwrap();
    session.begin_accept(call).unwrap();
    assert!(matches!(session.next_event(Some(SOON)).unwrap(), Some(Event::Connected { .. })));
    (call, endpoint, channel)
}

/// What comes next at an endpoint.
fn next(endpoint: &mut Endpoint) -> Option<Vec<u8>> {
    endpoint.receive(Some(SOON)).unwrap().map(|sdu| sdu.to_vec())
}

#[test]
fn a_root_adds_and_drops_parties_behind_two_switches_and_each_gets_what_it_sends() {
    let ground = Ground::new(TWO);
    let hosts = ["beta", "gamma"];
    let leaves = hosts.map(|host| ground.addresses::<1>(host)[0]);
    // A set-up that nobody has been alerted by yet: nothing comes between the two.
    let why = ground.controller(|controller, now| {
        let (session, user) = (u64::MAX, User::unlimited(0));
        let wanted = Wanted { sap: Sap::LLC, forward: &traffic(), backward: &Traffic::none(), multipoint: true };
        let called = controller.call(session, user, "alpha", leaves[0], wanted, now);
        let Ok(Answer::Calling { call }) = called else { panic!("{called:?}") };
        let why = controller.add_party(session, user, call, leaves[1], now).unwrap_err();
        controller.end_session(session, now);
        why.to_string()
    });
    assert!(why.contains("is not up"), "{why}");
    ground.await_quiet();
    let mut sessions = hosts.map(|host| Session::open(&ground.socket, host).unwrap());
    sessions.iter_mut().for_each(|session| drop(session.listen(None, Sap::LLC).unwrap()));
    let mut root = Session::open(&ground.socket, "alpha").unwrap();
    let call = root.begin_multipoint(leaves[0], Sap::LLC, &traffic()).unwrap();
    let [first, second] = &mut sessions;
    let (far, mut beta, _) = answer(&ground, "beta", first);
    let circuit = loop {
        match root.next_event(Some(SOON)).unwrap() {
            Some(Event::Connected { circuit, .. }) => break circuit.parse().unwrap(),
            Some(Event::Alerting { .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    let mut alpha = endpoint(&ground, "alpha");
    let channel = alpha.open_call(&Circuit { call, circuit }).unwrap();
    alpha.send_copy(channel, b"to one").unwrap();
    assert_eq!(next(&mut beta).as_deref(), Some(&b"to one"[..]));

    let party = root.begin_party(call, leaves[1]).unwrap();
    let (near, mut gamma, _) = answer(&ground, "gamma", second);
    assert!(
        matches!(root.next_event(Some(SOON)).unwrap(), Some(Event::PartyAdded { party: added, .. }) if added == party)
    );
    alpha.send_copy(channel, b"to both").unwrap();
    for leaf in [&mut beta, &mut gamma] {
        assert_eq!(next(leaf).as_deref(), Some(&b"to both"[..]));
    }
    // A party that cannot be had fails alone.
    let nobody = wire::aesa::Aesa([0x39; 20]);
    assert!(matches!(root.add_party(call, nobody, SOON), Err(CallError::Released(CauseValue::NO_ROUTE))));

    root.drop_party(call, 0, CauseValue::NORMAL).unwrap();
    assert_eq!(release_of(first, far), 16);
    alpha.send_copy(channel, b"to the other").unwrap();
    assert_eq!(next(&mut gamma).as_deref(), Some(&b"to the other"[..]));
    // The last party takes the call with it.
    second.release(near, CauseValue::NORMAL).unwrap();
    assert_eq!(release_of(&mut root, call), 16);
    ground.await_quiet();
    // A call that is presented, so that it is there for as long as nobody answers.
    let call = root.begin_call(leaves[0], Sap::LLC, &traffic()).unwrap();
    let why = root.begin_party(call, leaves[1]).unwrap_err().to_string();
    assert!(why.contains("not point-to-multipoint"), "{why}");
}

#[test]
fn a_call_that_was_presented_to_one_session_is_taken_by_another_of_the_same_user_and_outlives_the_first() {
    let ground = Ground::new(TWO);
    let [gamma] = ground.addresses("gamma");
    let mut listener = Session::open(&ground.socket, "gamma").unwrap();
    listener.listen(None, Sap::ANY).unwrap();
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let one_way = [&traffic(), &Traffic::none()];
    let call = caller.begin_call_with(gamma, Sap::LLC, one_way).unwrap();
    let Some(Event::Incoming { call: offered, sap, .. }) = listener.next_event(Some(SOON)).unwrap() else {
        panic!("no call")
    };
    assert_eq!(sap, "llc");
    let mut server = Session::open(&ground.socket, "gamma").unwrap();
    let circuit = server.take(offered).unwrap();
    drop(listener);
    server.begin_accept(offered).unwrap();
    assert!(matches!(server.next_event(Some(SOON)).unwrap(), Some(Event::Connected { .. })));
    let mut endpoint = endpoint(&ground, "gamma");
    endpoint.open_call(&circuit).unwrap();
    assert!(server.take(offered).is_err(), "it has been answered");
    caller.release(call, CauseValue::NORMAL).unwrap();
    assert_eq!(release_of(&mut server, offered), 16);
    ground.await_quiet();
}

#[test]
fn what_cannot_be_signalled_is_refused_with_a_sentence() {
    let ground = Ground::new(TWO);
    let [gamma] = ground.addresses("gamma");
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let abr = Traffic { category: "abr".into(), pcr: Some(1000), ..traffic() };
    let why = caller.begin_call(gamma, Sap::ANY, &abr).unwrap_err().to_string();
    assert!(why.contains("has no ABR source") && why.contains("nrt-vbr"), "{why}");
    let cbr = Traffic { category: "cbr".into(), pcr: Some(1000), ..traffic() };
    let why = caller.begin_call_with(gamma, Sap::ANY, [&traffic(), &cbr]).unwrap_err().to_string();
    assert!(why.contains("of the same category"), "{why}");
    ground.await_quiet();
}
