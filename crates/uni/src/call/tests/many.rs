//! What one message costs does not depend on how many calls are up.

use super::*;
use std::collections::BTreeMap;

const MANY: u32 = 5000;
/// Calls that are looked at in one step.
const STEP: usize = 64;

/// An interface with many calls of the peer's, of which those for which `answers` holds are active.
fn with_many(answers: impl Fn(u32) -> bool) -> Calls {
    let mut calls = Calls::new(Config::new(Side::Network, Version::Uni40));
    calls.link_established(NOW);
    for value in 1..=MANY {
        let id = CallId { value, ours: false };
        feed(&mut calls, CallReference::from_originator(value), MessageType::SETUP, &setup().0);
        calls.proceed(id, NOW).unwrap();
        if answers(value) {
            calls.connect(id, &ElementList::default(), NOW).unwrap();
        }
    }
    while calls.poll_transmit().is_some() || calls.poll().is_some() {}
    calls.calls.visited.set(0);
    calls
}

#[test]
fn a_link_that_is_established_again_and_again_costs_as_much_each_time_however_many_calls_are_active() {
    for answers in [true, false] {
        let mut calls = with_many(|_| answers);
        for n in 1..=100 {
            calls.link_established(NOW);
            assert!(calls.calls.visited.get() <= n * STEP, "{} calls were looked at", calls.calls.visited.get());
            assert!(calls.timers.len() <= STEP && calls.waiting() <= STEP, "{} timers", calls.timers.len());
        }
    }
}

#[test]
fn each_active_call_is_asked_about_once_and_its_timer_begins_then() {
    let mut calls = with_many(|value| value % 3 != 0);
    let mut now = NOW;
    calls.link_established(now);
    let mut asked = BTreeMap::new();
    while calls.has_enquiries() || calls.waiting() > 0 {
        while let Some(octets) = calls.poll_transmit() {
            let message = Message::new_checked(&octets).unwrap();
            assert_eq!(message.message_type(), MessageType::STATUS_ENQUIRY);
            let id = CallId { value: message.reference().value, ours: false };
            assert_eq!(asked.insert(id, now), None, "{id:?} is asked about twice");
            assert_eq!(calls.calls.get(&id).unwrap().timer, Some((now + calls.config.timers.t322, Timer::T322)));
        }
        now += std::time::Duration::from_millis(1);
        calls.resume_enquiries(now);
    }
    assert_eq!(asked.len(), (1..=MANY).filter(|value| value % 3 != 0).count());
}

#[test]
fn a_restart_of_one_channel_looks_at_no_other_call() {
    let mut calls = with_many(|_| true);
    let global = CallReference::from_originator(CallReference::GLOBAL);
    let id = CallId { value: 1234, ours: false };
    let restart = |calls: &mut Calls, class, connection| {
        feed(calls, global, MessageType::RESTART, &[Element::Connection(connection), Element::Restart(class)]);
    };
    let connection = calls.connection(id).unwrap();
    restart(&mut calls, RestartClass::Channel, connection);
    assert_eq!(events(&mut calls)[0], Event::Released { call: id, cause: calls.cause(CauseValue::TEMPORARY_FAILURE) });
    // Nobody has these.
    restart(&mut calls, RestartClass::Channel, connection);
    restart(&mut calls, RestartClass::Channel, ConnectionId { vpci: 1, ..connection });
    restart(&mut calls, RestartClass::Path, ConnectionId { vpci: 1, ..connection });
    assert_eq!((calls.len(), calls.calls.visited.get()), (MANY as usize - 1, 0));
    restart(&mut calls, RestartClass::Path, connection);
    assert_eq!((calls.len(), calls.labels().in_use()), (0, 0));
}
