//! A server whose calls have all places of its user, and one more caller.

use super::ground::{Ground, STAR};
use control::calls::applications::{Refusal, User};
use control::calls::call_controller::CallController;
use control::calls::setup::Wanted;
use endpoint::calls::{Answer, Event, Sap, Traffic};
use wire::Time;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// Sessions of nobody's: connections are counted from 1.
const SERVER: u64 = u64::MAX;
const CALLER: u64 = u64::MAX - 1;
const MOST: u64 = 8;
const SERVED: User = User { uid: 1000, max_calls: MOST, max_reserved: 0 };

fn events(controller: &mut CallController, session: u64) -> Vec<Event> {
    match controller.take_events(session, true) {
        Some(Answer::Events(events)) => events,
        other => panic!("{other:?}"),
    }
}

fn call(controller: &mut CallController, to: Aesa, now: Time) -> u64 {
    let traffic = Traffic::default();
    let wanted = Wanted { sap: Sap::ANY, forward: &traffic, backward: &traffic, multipoint: false };
    match controller.call(CALLER, User::unlimited(0), "alpha", to, wanted, now) {
        Ok(Answer::Calling { call }) => call,
        other => panic!("{other:?}"),
    }
}

/// The next call that the server is presented.
fn presented(ground: &Ground) -> u64 {
    let mut found = None;
    ground.until("a call is presented", |_| {
        let came = ground.controller(|controller, _| events(controller, SERVER));
        found = came.iter().find_map(|event| if let Event::Incoming { call, .. } = event { Some(*call) } else { None });
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_server_with_all_its_calls_is_presented_one_more_and_can_release_another_for_it() {
    let ground = Ground::new(STAR);
    let [to] = ground.addresses("beta");
    ground.controller(|controller, _| controller.listen(SERVER, SERVED, "beta", None, Sap::ANY)).unwrap();
    let mut answered = Vec::new();
    for _ in 0..MOST {
        ground.controller(|controller, now| call(controller, to, now));
        let came = presented(&ground);
        ground.controller(|controller, now| controller.accept(SERVER, SERVED, came, now)).unwrap();
        answered.push(came);
    }
    // It cannot have one more, and the caller hears of that at once.
    let mut told = Vec::new();
    let called = ground.controller(|controller, now| call(controller, to, now));
    let came = presented(&ground);
    let refused = ground.controller(|controller, now| controller.accept(SERVER, SERVED, came, now));
    assert!(matches!(refused, Err(Refusal::NoCall(number)) if number == came), "{refused:?}");
    ground.until("the caller is told", |_| {
        told.extend(ground.controller(|controller, _| events(controller, CALLER)));
        let is_busy = |event: &Event| matches!(event, Event::Released { call, cause, .. } if (*call, *cause) == (called, CauseValue::BUSY.0));
        told.iter().any(is_busy)
    });
    // In place of another, while that is still being released.
    let called = ground.controller(|controller, now| call(controller, to, now));
    let came = presented(&ground);
    ground.controller(|controller, now| {
        controller.release(SERVER, answered[0], CauseValue::RESOURCES, now).unwrap();
        controller.accept(SERVER, SERVED, came, now).unwrap();
    });
    ground.until("the caller is connected", |_| {
        told.extend(ground.controller(|controller, _| events(controller, CALLER)));
        told.iter().any(|event| matches!(event, Event::Connected { call, .. } if *call == called))
    });
}
