//! Messages that wait for a peer that takes none.

use super::*;

const BOUND: usize = 8 + 1024;

fn small() -> Calls {
    let mut calls = Calls::new(Config { max_calls: 8, ..Config::new(Side::Network, Version::Uni40) });
    calls.link_established(NOW);
    calls
}

fn active(calls: &mut Calls, reference: u32) -> CallId {
    let id = CallId { value: reference, ours: false };
    feed(calls, CallReference::from_originator(reference), MessageType::SETUP, &setup().0);
    calls.connect(id, &ElementList::default(), NOW).unwrap();
    id
}

#[test]
fn dispensable_messages_that_nobody_takes_are_dropped_and_counted_and_those_of_calls_are_kept() {
    let mut calls = small();
    let id = active(&mut calls, 1);
    let mut asked = calls.waiting();
    let unknown = CallReference::from_originator(99);
    for _ in 0..1000 {
        feed(&mut calls, unknown, MessageType::STATUS_ENQUIRY, &[]);
        feed(&mut calls, unknown, MessageType::ALERTING, &[]);
        feed(&mut calls, id.reference().reversed(), MessageType::STATUS_ENQUIRY, &[]);
        calls.notify(id, &ElementList::default()).unwrap();
        asked += 4;
        assert!(calls.waiting() <= BOUND, "{} messages wait", calls.waiting());
    }
    assert_eq!((calls.waiting(), calls.counts().unsent), (BOUND, (asked - BOUND) as u64));
    // RELEASE, and the answers of new calls, still reach the peer.
    calls.release(id, cause(CauseValue::NORMAL), NOW).unwrap();
    active(&mut calls, 2);
    let sent: Vec<MessageType> = std::iter::from_fn(|| calls.poll_transmit())
        .map(|octets| Message::new_checked(&octets).unwrap().message_type())
        .collect();
    assert_eq!(sent[BOUND..], [MessageType::RELEASE, MessageType::CONNECT]);
    // Once there is room, enquiries are answered again.
    feed(&mut calls, unknown, MessageType::STATUS_ENQUIRY, &[]);
    assert_eq!(calls.waiting(), 1);
}

#[test]
fn a_peer_that_takes_none_of_the_messages_that_cannot_be_dropped_loses_its_link() {
    let mut calls = small();
    let id = active(&mut calls, 1);
    let before = calls.waiting();
    let all = Element::Restart(RestartClass::All);
    let global = CallReference::from_originator(CallReference::GLOBAL);
    let mut asked = 0;
    while !calls.is_overrun() {
        feed(&mut calls, global, MessageType::RESTART, &[all]);
        asked += 1;
        assert!(calls.waiting() <= 4 * BOUND, "{} messages wait", calls.waiting());
    }
    assert_eq!((calls.waiting(), calls.counts().unsent), (0, (before + asked) as u64));
    assert_eq!(calls.setup(setup(), NOW), Err(Refused::LinkDown));
    feed(&mut calls, global, MessageType::RESTART, &[all]);
    assert_eq!(calls.waiting(), 0, "nothing is queued for a link that is being released");
    assert_eq!(calls.state(id), None);
    calls.link_released(NOW);
    calls.link_established(NOW);
    assert!(!calls.is_overrun() && calls.setup(setup(), NOW).is_ok());
}
