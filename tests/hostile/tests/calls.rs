//! Calls: what a user who calls can take of what all share, and what ends with a right.

use crate::managed::Managed;
use control::calls::applications::User;
use control::calls::setup::Wanted;
use control::config::parse;
use control::daemon::DaemonOptions;
use endpoint::calls::{Answer, Event, Sap, Session, Step, StepOutcome, Traffic};
use endpoint::{Connection, Endpoint, EndpointConfig, OpenOptions};
use hostile::{Class, Trial, as_user, circuit};
use serde_json::json;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

const SOON: Duration = Duration::from_secs(10);
/// Users, neither of whom runs the network.
const EVE: u32 = 60_001;
const ALICE: u32 = 60_002;
/// A session of the tests' own: no connection has such a number.
const SESSION: u64 = u64::MAX;

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[host.delta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni40" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
[[link]]
ends = ["gamma", "s1:2"]
signalling = { version = "uni40" }
[[link]]
ends = ["delta", "s1:3"]
signalling = { version = "uni31", by = "program" }
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
category = "cbr"
pcr = "4000 cell/s"
"#;

fn rule(user: u32, more: &str) -> String {
    format!("[[allow]]\nusers = [{user}]\ncircuits = [\"0.101\"]\nmax_calls = 4\n{more}\n")
}

const CALLS: &str = "calls = [\"*\"]\nmax_bandwidth = \"10000 cell/s\"";

fn ground() -> Managed {
    ground_with(&[rule(EVE, CALLS), rule(ALICE, CALLS)].concat())
}

fn ground_with(rules: &str) -> Managed {
    let ground = Managed::up(parse(&(NETWORK.to_owned() + rules), "net.toml").unwrap(), |_| DaemonOptions::default());
    until("addresses", || ["alpha", "beta", "gamma"].iter().all(|host| ground.address_of(host).is_some()));
    ground
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    hostile::within(SOON, what, is_so);
}

impl Managed {
    fn address_of(&self, host: &str) -> Option<Aesa> {
        let calls = self.daemon.controller().calls();
        calls.with(|exchange, _| exchange.addresses(host)).unwrap().first().copied()
    }

    fn address(&self, host: &str) -> Aesa {
        self.address_of(host).unwrap()
    }

    /// A session of another user.
    fn session(&self, user: u32, host: &str) -> Option<Session> {
        as_user(user, || Session::open(&self.socket, host).unwrap())
    }

    /// Somebody at a host who answers nothing.
    fn listen(&self, host: &str) -> Session {
        let mut session = Session::open(&self.socket, host).unwrap();
        session.listen(None, Sap::ANY).unwrap();
        session
    }
}

fn cbr(cells_per_s: u32) -> Traffic {
    Traffic { category: "cbr".into(), pcr: Some(cells_per_s), ..Traffic::default() }
}

/// The cause by which a call is released.
fn released(session: &mut Session, wanted: u64) -> CauseValue {
    loop {
        match session.next_event(Some(SOON)).unwrap() {
            Some(Event::Released { call, cause, .. }) if call == wanted => return CauseValue(cause),
            Some(_) => {}
            None => panic!("call {wanted} was not released"),
        }
    }
}

#[test]
fn a_users_calls_and_open_circuits_reserve_no_more_together_than_the_user_may() {
    let ground = ground();
    let (_beta, to) = (ground.listen("beta"), ground.address("beta"));
    let Some(mut eve) = ground.session(EVE, "alpha") else { return };
    let mut call = |cells_per_s| eve.begin_call(to, Sap::ANY, &cbr(cells_per_s));
    let why = call(6000).unwrap_err().to_string();
    assert!(why.contains("max_bandwidth") && why.contains("12000 cell/s"), "{why}");
    let first = call(4000).unwrap();
    let why = call(2000).unwrap_err().to_string();
    assert!(why.contains("may reserve 2000 cell/s more"), "{why}");
    call(1000).unwrap();
    // Best effort reserves nothing.
    eve.begin_call(to, Sap::ANY, &Traffic::default()).unwrap();

    // A circuit of the description, whose contract reserves 4000.
    let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
    let mut endpoint = as_user(EVE, || Endpoint::create(&ground.socket, &config).unwrap()).unwrap();
    let why = endpoint.open(circuit(101), OpenOptions::default()).unwrap_err().to_string();
    assert!(why.contains("max_bandwidth"), "{why}");
    eve.release(first, CauseValue::NORMAL).unwrap();
    until("the call's share is free", || endpoint.open(circuit(101), OpenOptions::default()).is_ok());
    let why = eve.begin_call(to, Sap::ANY, &cbr(3000)).unwrap_err().to_string();
    assert!(why.contains("may reserve 4000 cell/s more"), "{why}");

    let mut alice = ground.session(ALICE, "alpha").unwrap();
    alice.begin_call(to, Sap::ANY, &cbr(5000)).expect("another user has a share of their own");
}

#[test]
fn steps_that_leave_together_are_held_to_the_rights_and_bounds_of_their_user() {
    let narrow = "calls = [\"4800\"]\nmax_bandwidth = \"10000 cell/s\"";
    let ground = ground_with(&[rule(EVE, CALLS), rule(ALICE, narrow)].concat());
    let (_beta, to) = (ground.listen("beta"), ground.address("beta"));
    let call = |traffic| Step::Call { to: to.to_string(), sap: None, traffic, backward: None };
    let all = |session: &mut Session, steps: Vec<Step>| {
        steps.into_iter().try_for_each(|step| session.queue(step)).unwrap();
        session.settle().unwrap();
        std::iter::from_fn(|| session.next_outcome()).collect::<Vec<_>>()
    };
    let began =
        |all: &[StepOutcome]| all.iter().filter(|outcome| matches!(outcome, StepOutcome::Calling { .. })).count();
    let Some(mut eve) = ground.session(EVE, "alpha") else { return };
    // 4000 each way for one of them; then there is no bandwidth, and after three more no place.
    let outcomes = all(&mut eve, [vec![call(Some(cbr(4000))); 2], vec![call(None); 6]].concat());
    assert_eq!(began(&outcomes), 4, "{outcomes:?}");
    for (at, why) in [(1, "max_bandwidth"), (5, "max_calls"), (7, "max_calls")] {
        assert!(matches!(&outcomes[at], StepOutcome::Refused(reason) if reason.contains(why)), "{outcomes:?}");
    }
    // Nobody releases or answers calls of others.
    let StepOutcome::Calling { call: number } = outcomes[0] else { panic!("{outcomes:?}") };
    let mut alice = ground.session(ALICE, "alpha").unwrap();
    let foreign = vec![
        Step::Release { call: number, cause: 16 },
        Step::Accept { call: number },
        Step::Accept { call: number + 1 },
    ];
    let outcomes = all(&mut alice, foreign);
    assert!(outcomes.iter().all(|o| matches!(o, StepOutcome::Refused(why) if why.contains("no call"))), "{outcomes:?}");
    // Nor calls whom no rule lets them call.
    let outcomes = all(&mut alice, vec![call(None); 3]);
    assert!(
        outcomes.iter().all(|o| matches!(o, StepOutcome::Refused(why) if why.contains("may not call"))),
        "{outcomes:?}"
    );
}

#[test]
fn a_call_that_is_being_released_has_its_place_and_its_rate_until_the_network_has_released_it() {
    let ground = ground();
    let (_beta, to) = (ground.listen("beta"), ground.address("beta"));
    let user = User { uid: EVE, max_calls: 4, max_reserved: 10_000 };
    let calls = ground.daemon.controller().calls();
    let some = |traffic: &Traffic| {
        // Nothing leaves before the end of this: as on a signalling link that is slow.
        calls.with(|exchange, now| {
            let wanted = Wanted { sap: Sap::ANY, forward: traffic, backward: traffic, multipoint: false };
            let mut begun = 0;
            loop {
                match exchange.call(SESSION, user, "alpha", to, wanted, now) {
                    Ok(Answer::Calling { call }) => {
                        exchange.release(SESSION, call, CauseValue::NORMAL, now).unwrap();
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(why) => return (begun, why.to_string()),
                }
                begun += 1;
                assert!(begun < 1000, "without a bound");
            }
        })
    };
    let (begun, why) = some(&Traffic::default());
    assert!(begun == 4 && why.contains("max_calls"), "{begun} calls, then: {why}");
    until("they are gone", || calls.report().interfaces.iter().all(|interface| interface.calls == 0));
    let (begun, why) = some(&cbr(2000));
    assert!(begun == 2 && why.contains("max_bandwidth"), "{begun} calls, then: {why}");
    until("they are gone", || calls.report().interfaces.iter().all(|interface| interface.calls == 0));
    assert_eq!(calls.with(|exchange, _| exchange.reserved_by(EVE)), 0);
    calls.with(|exchange, now| exchange.end_session(SESSION, now));
}

#[test]
fn a_party_is_a_call_of_its_user() {
    let ground = ground();
    let mut beta = ground.listen("beta");
    let Some(mut eve) = ground.session(EVE, "alpha") else { return };
    let call = eve.begin_multipoint(ground.address("beta"), Sap::ANY, &Traffic::default()).unwrap();
    assert!(beta.accept(Some(SOON)).unwrap().is_some());
    loop {
        match eve.next_event(Some(SOON)).unwrap() {
            Some(Event::Connected { .. }) => break,
            Some(Event::Alerting { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let (_gamma, to) = (ground.listen("gamma"), ground.address("gamma"));
    let mut parties = Vec::new();
    let why = loop {
        match eve.begin_party(call, to) {
            Ok(party) => parties.push(party),
            Err(why) => break why.to_string(),
        }
        assert!(parties.len() < 1000, "without a bound");
    };
    // One application is a party of a call at a host once: others may have been refused, and their places free, before the last try.
    assert!(why.contains("max_calls") && parties.len() >= 3, "{} parties, then: {why}", parties.len());
    let dropped = |eve: &mut Session| match eve.next_event(Some(SOON)).unwrap() {
        Some(Event::PartyDropped { .. }) => {}
        other => panic!("{other:?}"),
    };
    dropped(&mut eve);
    until("a place is free", || eve.begin_party(call, to).is_ok());
    eve.begin_call(to, Sap::ANY, &Traffic::default())
        .map(drop)
        .or_else(|why| if why.to_string().contains("max_calls") { Ok(()) } else { Err(why) })
        .unwrap();
}

#[test]
fn who_is_called_by_somebody_can_call_and_be_called_by_others() {
    let ground = ground();
    let Some(mut alice) = ground.session(ALICE, "beta") else { return };
    alice.listen(None, Sap::ANY).unwrap();
    let mut eve = ground.session(EVE, "alpha").unwrap();
    let calls: Vec<u64> =
        (0..4).map(|_| eve.begin_call(ground.address("beta"), Sap::ANY, &Traffic::default()).unwrap()).collect();
    // Of one caller, a quarter of them is presented.
    for call in &calls[1..] {
        assert_eq!(released(&mut eve, *call), CauseValue::BUSY);
    }
    // Alice answers nothing, and has all her own calls.
    let _gamma = ground.listen("gamma");
    let mut own: Vec<u64> =
        (0..4).map(|_| alice.begin_call(ground.address("gamma"), Sap::ANY, &Traffic::default()).unwrap()).collect();
    let why = alice.begin_call(ground.address("gamma"), Sap::ANY, &Traffic::default()).unwrap_err().to_string();
    assert!(why.contains("max_calls"), "{why}");
    // And somebody else still reaches her.
    own.drain(..2).for_each(|call| alice.release(call, CauseValue::NORMAL).unwrap());
    let mut other = Session::open(&ground.socket, "gamma").unwrap();
    until("a call of another caller is presented", || {
        let call = other.begin_call(ground.address("beta"), Sap::ANY, &Traffic::default()).unwrap();
        loop {
            match other.next_event(Some(SOON)).unwrap() {
                Some(Event::Alerting { call: of }) if of == call => return true,
                Some(Event::Released { call: of, .. }) if of == call => return false,
                Some(_) => {}
                None => panic!("nothing came of call {call}"),
            }
        }
    });
}

#[test]
fn calls_that_have_ended_make_no_other_yield() {
    let alices = format!("[[allow]]\nusers = [{ALICE}]\ncircuits = [\"0.101\"]\nmax_calls = 16\n{CALLS}\n");
    let ground = ground_with(&(alices + &rule(EVE, CALLS)));
    let Some(mut alice) = ground.session(ALICE, "beta") else { return };
    alice.listen(None, Sap::ANY).unwrap();
    let _gamma = ground.listen("gamma");
    // Fourteen calls of hers have been released; what she has is counted anew when it matters.
    let to = ground.address("gamma");
    for _ in 0..14 {
        let call = alice.begin_call(to, Sap::ANY, &Traffic::default()).unwrap();
        alice.release(call, CauseValue::NORMAL).unwrap();
    }
    let of_beta = || {
        let report = ground.daemon.controller().calls().report();
        report.interfaces.iter().filter(|at| at.station == "beta").map(|at| at.calls).sum::<usize>()
    };
    until("they are gone", || of_beta() == 0);
    let present = |session: &mut Session| {
        let call = session.begin_call(ground.address("beta"), Sap::ANY, &Traffic::default()).unwrap();
        let event = session.next_event(Some(SOON)).unwrap();
        assert!(matches!(event, Some(Event::Alerting { call: of }) if of == call), "{event:?}");
    };
    let mut eve = ground.session(EVE, "alpha").unwrap();
    (0..2).for_each(|_| present(&mut eve));
    present(&mut Session::open(&ground.socket, "gamma").unwrap());
    assert_eq!(eve.next_event(Some(Duration::from_millis(100))).unwrap(), None);
}

#[test]
fn nobody_takes_calls_that_another_user_listens_for() {
    let ground = ground();
    let Some(mut alice) = ground.session(ALICE, "beta") else { return };
    alice.listen(Some(0), Sap::ANY).unwrap();
    let mut eve = ground.session(EVE, "beta").unwrap();
    for (selector, sap) in [(Some(0), Sap::LLC), (Some(0), Sap::ANY), (None, Sap::TTCP), (None, Sap::ANY)] {
        let why = eve.listen(selector, sap).unwrap_err().to_string();
        assert!(why.contains("another session"), "{selector:?} {sap}: {why}");
    }
    eve.listen(Some(1), Sap::LLC).expect("nobody else's calls");
    // Her own may overlap: the one that says most has the call.
    alice.listen(Some(0), Sap::LLC).unwrap();
    let why = alice.listen(Some(1), Sap::ANY).unwrap_err().to_string();
    assert!(why.contains("another session"), "{why}");
}

#[test]
fn a_right_to_call_that_goes_takes_calls_parties_and_listening_with_it_and_leaves_anothers_alone() {
    let ground = ground();
    let Some(mut eve) = ground.session(EVE, "alpha") else { return };
    let mut alice = ground.session(ALICE, "alpha").unwrap();
    let mut beta = ground.listen("beta");
    let to = ground.address("beta");
    let mut up = |session: &mut Session| {
        let call = session.begin_call(to, Sap::ANY, &Traffic::default()).unwrap();
        assert!(beta.accept(Some(SOON)).unwrap().is_some());
        until(
            "the call is up",
            || matches!(session.next_event(Some(SOON)).unwrap(), Some(Event::Connected { call: of, .. }) if of == call),
        );
        call
    };
    let (lost, kept) = (up(&mut eve), up(&mut alice));
    eve.listen(Some(7), Sap::ANY).unwrap();
    alice.listen(Some(8), Sap::ANY).unwrap();

    let rules = [rule(EVE, ""), rule(ALICE, CALLS)].concat();
    ground.daemon.reload(parse(&(NETWORK.to_owned() + &rules), "net.toml").unwrap()).unwrap();
    assert_eq!(released(&mut eve, lost), CauseValue::BEARER_NOT_AUTHORISED);
    let mut gamma = Session::open(&ground.socket, "gamma").unwrap();
    let mut alpha = ground.address("alpha");
    let mut call = |selector| {
        alpha.0[19] = selector;
        gamma.begin_call(alpha, Sap::ANY, &Traffic::default()).unwrap()
    };
    let (to_eve, to_alice) = (call(7), call(8));
    assert_eq!(released(&mut gamma, to_eve), CauseValue::INCOMPATIBLE);
    until("Alice hears of her call", || matches!(alice.next_event(Some(SOON)).unwrap(), Some(Event::Incoming { .. })));
    assert_eq!((alice.is_released(kept).unwrap(), gamma.is_released(to_alice).unwrap()), (None, None));
    assert!(eve.begin_call(to, Sap::ANY, &Traffic::default()).unwrap_err().to_string().contains("calls = "));
}

#[test]
fn who_may_not_manage_any_more_signals_for_no_host_any_more_and_another_program_does() {
    let manages = |user| rule(user, "role = \"manage\"");
    let ground = ground_with(&[manages(EVE), manages(ALICE)].concat());
    let open = |user| as_user(user, || Connection::open(&ground.socket).unwrap());
    let serve = |program: &Connection| program.manage(json!({ "calls": { "serve": { "host": "delta" } } }));
    let list = |program: &Connection| program.manage(json!({ "calls": "list" }));
    let is_served = || {
        let status = ground.daemon.controller().calls().with(|exchange, now| exchange.report(now));
        status.interfaces.iter().any(|interface| interface.station == "delta" && interface.up)
    };
    let Some(eve) = open(EVE) else { return };
    let alice = open(ALICE).unwrap();
    serve(&eve).unwrap();
    let why = serve(&alice).unwrap_err().to_string();
    assert!(why.contains("delta"), "{why}");
    let reload = |rules: &[String]| {
        ground.daemon.reload(parse(&(NETWORK.to_owned() + &rules.concat()), "net.toml").unwrap()).unwrap();
    };
    // Rules that leave the right, and a change of another user's.
    reload(&[manages(EVE), rule(ALICE, "role = \"watch\"")]);
    assert!(serve(&alice).is_err());
    assert!(is_served() && list(&eve).is_ok());
    reload(&[rule(EVE, "role = \"watch\""), manages(ALICE)]);
    until("nobody signals for the host", || !is_served());
    until("the program hears of it by the end of its connection", || list(&eve).is_err());
    serve(&alice).unwrap();
    assert!(is_served());
    let why = serve(&open(EVE).unwrap()).unwrap_err().to_string();
    assert!(why.contains("may watch, but not manage"), "{why}");
}

#[test]
fn a_user_who_calls_and_releases_without_end_holds_up_neither_circuits_nor_anothers_calls() {
    without_end(|eve, to| {
        if let Ok(call) = eve.begin_call(to, Sap::ANY, &Traffic::default()) {
            eve.release(call, CauseValue::NORMAL).unwrap();
        }
    });
    // Requests of 64 steps, of which two are always under way.
    without_end(|eve, to| {
        let to = to.to_string();
        eve.queue(Step::Call { to, sap: None, traffic: None, backward: None }).unwrap();
        while let Some(outcome) = eve.next_outcome() {
            if let StepOutcome::Calling { call } = outcome {
                eve.queue(Step::Release { call, cause: CauseValue::NORMAL.0 }).unwrap();
            }
        }
    });
}

/// Another user's calls beside one who does something without end.
fn without_end(does: impl Fn(&mut Session, Aesa) + Sync) {
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let (_beta, to) = (ground.listen("beta"), ground.address("beta"));
        let Some(mut eve) = ground.session(EVE, "alpha") else { return };
        let mut alice = ground.session(ALICE, "alpha").unwrap();
        let mut slowest = Duration::ZERO;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while attack.goes_on() {
                    does(&mut eve, to);
                }
            });
            while attack.goes_on() {
                let begin = Instant::now();
                let call = alice.begin_call(to, Sap::ANY, &Traffic::default()).unwrap();
                let alerted = alice.next_event(Some(SOON)).unwrap();
                assert!(matches!(alerted, Some(Event::Alerting { .. })), "{alerted:?}");
                slowest = slowest.max(begin.elapsed());
                alice.release(call, CauseValue::NORMAL).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        attack.took("another user's call", slowest, Duration::from_millis(500));
    });
}

#[test]
fn a_session_with_hundreds_of_calls_ends_without_a_long_round() {
    let ground = ground();
    let clear = || {
        let clear = |core: &mut host::engine::Core| {
            let longest = core.stats().longest_round;
            core.clear_longest();
            longest
        };
        ground.daemon.engine.with(clear).unwrap()
    };
    let mut best = Duration::MAX;
    // A virtual processor may be taken away, and the time counts as the thread's. Nobody takes it each time.
    for _ in 0..4 {
        const CALLS: usize = 400;
        let mut beta = ground.listen("beta");
        let mut alpha = Session::open(&ground.socket, "alpha").unwrap();
        let (mut begun, mut up) = (0, 0);
        while up < CALLS {
            // Few at a time, so that none waits for its answer too long on a busy machine.
            while begun < CALLS.min(up + 20) {
                alpha.begin_call(ground.address("beta"), Sap::ANY, &Traffic::default()).unwrap();
                begun += 1;
            }
            while let Some(Event::Incoming { call, .. }) = beta.next_event(Some(Duration::ZERO)).unwrap() {
                beta.begin_accept(call).unwrap();
            }
            match alpha.next_event(Some(Duration::from_millis(1))).unwrap() {
                Some(Event::Connected { .. }) => up += 1,
                Some(Event::Released { text, .. }) => panic!("{text}"),
                _ => {}
            }
        }
        clear();
        drop(alpha);
        let calls = ground.daemon.controller().calls();
        until("the calls are gone", || calls.report().interfaces.iter().all(|interface| interface.calls == 0));
        best = best.min(clear());
        if best < Duration::from_millis(1) {
            return;
        }
    }
    panic!("a round of {best:?}");
}

#[test]
fn what_a_call_that_is_refused_costs_depends_on_its_users_own_calls() {
    const OTHERS: usize = 2000;
    let ground = ground();
    let (_beta, to) = (ground.listen("beta"), ground.address("beta"));
    let (eve, calls) = (User { uid: EVE, max_calls: 1, max_reserved: 0 }, ground.daemon.controller().calls());
    let traffic = Traffic::default();
    let wanted = Wanted { sap: Sap::ANY, forward: &traffic, backward: &traffic, multipoint: false };
    // Nothing leaves before the end of this, and nobody else does anything.
    let (best, listed) = calls.with(|exchange, now| {
        let mut call = |session, user| exchange.call(session, user, "alpha", to, wanted, now);
        (0..OTHERS).for_each(|_| drop(call(SESSION - 1, User::unlimited(0)).unwrap()));
        call(SESSION, eve).unwrap();
        let mut refused = || {
            let begin = Instant::now();
            (0..64).for_each(|_| assert!(call(SESSION, eve).is_err()));
            begin.elapsed()
        };
        let best = (0..4).map(|_| refused()).min();
        let listed = || {
            let begin = Instant::now();
            (0..64).for_each(|_| assert_eq!(exchange.report_of(EVE, |_| true, now).calls.len(), 1));
            begin.elapsed()
        };
        (best, (0..4).map(|_| listed()).min())
    });
    calls.with(|exchange, now| [SESSION, SESSION - 1].map(|session| exchange.end_session(session, now)));
    until("they are gone", || calls.report().interfaces.iter().all(|interface| interface.calls == 0));
    // When the calls of all were counted for each, it took a millisecond and more.
    assert!(best < Some(Duration::from_micros(400)), "64 refused calls took {best:?}");
    // While a list was made of all calls, each took as long.
    assert!(listed < Some(Duration::from_millis(10)), "64 lists took {listed:?}");
}
