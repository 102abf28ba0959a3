//! Many calls at once: steps that are queued, leave together and are answered together.

use super::ground::{Ground, STAR};
use super::{SOON, release_of};
use endpoint::calls::{Circuit, Event, MAX_STEPS, Sap, Session, Step, StepOutcome, Traffic};
use endpoint::{Connection, Endpoint, EndpointConfig};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

fn call(to: Aesa) -> Step {
    Step::Call { to: to.to_string(), sap: Some(Sap::LLC.to_string()), traffic: None, backward: None }
}

fn release(call: u64) -> Step {
    Step::Release { call, cause: CauseValue::NORMAL.0 }
}

fn outcomes(session: &mut Session) -> Vec<StepOutcome> {
    std::iter::from_fn(|| session.next_outcome()).collect()
}

/// Answers so many calls; gives their circuits.
fn answer(mut session: Session, calls: usize) -> (Session, Vec<Circuit>) {
    let mut circuits = Vec::new();
    while circuits.len() < calls {
        let event = session.next_event(Some(SOON)).unwrap().expect("a call");
        if let Event::Incoming { call, .. } = event {
            session.queue(Step::Accept { call }).unwrap();
        }
        for outcome in outcomes(&mut session) {
            let StepOutcome::Accepted { call, circuit } = outcome else { panic!("{outcome:?}") };
            circuits.push(Circuit { call, circuit: circuit.parse().unwrap() });
        }
    }
    (session, circuits)
}

#[test]
fn hundreds_of_calls_are_set_up_and_released_by_steps_that_leave_together() {
    const CALLS: usize = 5 * MAX_STEPS / 2;
    let ground = Ground::new(STAR);
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(None, Sap::LLC).unwrap();
    let answering = std::thread::spawn(move || answer(callee, CALLS));
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    for _ in 0..CALLS {
        caller.queue(call(to)).unwrap();
    }
    assert!(caller.unsettled() >= MAX_STEPS / 2, "the last ones wait for more");
    let (mut begun, mut up) = (BTreeSet::new(), BTreeSet::new());
    let begin = Instant::now();
    while up.len() < CALLS {
        assert!(begin.elapsed() < SOON, "{} of {CALLS} calls are up", up.len());
        match caller.next_event(Some(SOON)).unwrap() {
            Some(Event::Connected { call, .. }) => assert!(up.insert(call)),
            Some(Event::Released { text, .. }) => panic!("{text}"),
            _ => {}
        }
        for outcome in outcomes(&mut caller) {
            let StepOutcome::Calling { call } = outcome else { panic!("{outcome:?}") };
            begun.insert(call);
        }
    }
    assert_eq!((begun, caller.unsettled()), (up.clone(), 0), "each call that began is up");
    let (callee, circuits) = answering.join().unwrap();
    // An answer's outcome names a circuit that is there.
    let config = EndpointConfig { host: "beta".into(), ..EndpointConfig::default() };
    Endpoint::create(&ground.socket, &config).unwrap().open_call(&circuits[CALLS - 1]).unwrap();
    up.iter().try_for_each(|call| caller.queue(release(*call))).unwrap();
    caller.settle().unwrap();
    assert_eq!((outcomes(&mut caller), caller.unsettled()), (vec![StepOutcome::Done; CALLS], 0));
    ground.await_quiet();
    drop(callee);
}

#[test]
fn a_step_that_is_refused_says_why_and_keeps_no_other_from_being_taken() {
    let ground = Ground::new(STAR);
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(None, Sap::ANY).unwrap();
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let abr = Traffic { category: "abr".into(), ..Traffic::default() };
    let wrong = |to: String, sap: &str, traffic| Step::Call { to, sap: Some(sap.into()), traffic, backward: None };
    let steps = [
        wrong("47".into(), "any", None),
        wrong(to.to_string(), "nothing", None),
        wrong(to.to_string(), "any", Some(abr)),
        release(1 << 40),
        Step::Accept { call: 1 << 40 },
        call(to),
    ];
    steps.into_iter().try_for_each(|step| caller.queue(step)).unwrap();
    // It would wait for an event, but the refusals are told at once.
    assert_eq!((caller.next_event(Some(10 * SOON)).unwrap(), caller.unsettled()), (None, 0));
    let got = outcomes(&mut caller);
    for (outcome, why) in got.iter().zip(["address \"47\"", "service access point", "abr", "no call", "no call"]) {
        assert!(
            matches!(outcome, StepOutcome::Refused(reason) if reason.contains(why)),
            "{outcome:?} is to say: {why}"
        );
    }
    let [.., StepOutcome::Calling { call }] = got[..] else { panic!("{got:?}") };
    // What asks for something else meanwhile is answered in its turn, and the session goes on.
    let Some(Event::Incoming { call: offered, .. }) = callee.next_event(Some(SOON)).unwrap() else { panic!("no call") };
    assert_eq!(callee.next_event(Some(Duration::ZERO)).unwrap(), None);
    callee.queue(Step::Accept { call: offered }).unwrap();
    assert!(callee.list().unwrap()["calls"].as_array().is_some_and(|calls| !calls.is_empty()));
    assert!(matches!(outcomes(&mut callee)[..], [StepOutcome::Accepted { .. }]));
    callee.queue(release(offered)).unwrap();
    callee.queue(release(offered)).unwrap();
    callee.settle().unwrap();
    assert!(matches!(outcomes(&mut callee)[..], [StepOutcome::Done, StepOutcome::Refused(_)]));
    assert_eq!(release_of(&mut caller, call), 16);
    ground.await_quiet();

    // A host that is not there is named once, and no request has more steps than the bound.
    let mut nowhere = Session::open(&ground.socket, "nowhere").unwrap();
    (0..3).try_for_each(|call| nowhere.queue(release(call))).unwrap();
    nowhere.settle().unwrap();
    let all = outcomes(&mut nowhere);
    assert!(
        all.len() == 3 && all.iter().all(|o| matches!(o, StepOutcome::Refused(why) if why.contains("nowhere"))),
        "{all:?}"
    );
    let steps = vec![json!({ "accept": { "call": 1 } }); MAX_STEPS + 1];
    let request = json!({ "calls": { "steps": { "host": "alpha", "steps": steps } } });
    let why = Connection::open(&ground.socket).unwrap().manage(request).unwrap_err().to_string();
    assert!(why.contains("send 64 at most"), "{why}");
}
