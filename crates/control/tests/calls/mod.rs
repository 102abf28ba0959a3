//! Calls of applications through a running daemon, on real sockets and shared memory.
#![forbid(unsafe_code)]

mod beside;
mod ground;
mod parties;
mod registration;
mod steps;
mod yielding;

use control::policy;
use endpoint::calls::{CallError, Event, Sap, Session, Traffic};
use endpoint::{Endpoint, EndpointConfig};
use ground::{Ground, STAR, TWO};
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

const SOON: Duration = Duration::from_secs(10);

fn traffic() -> Traffic {
    Traffic::default()
}

/// Sends a text each way over a call's circuit.
fn converse(ground: &Ground, (from, a): (&str, &endpoint::calls::Circuit), (to, b): (&str, &endpoint::calls::Circuit)) {
    let endpoint = |host: &str| {
        let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
        Endpoint::create(&ground.socket, &config).unwrap()
    };
    let (mut near, mut far) = (endpoint(from), endpoint(to));
    let (there, back) = (near.open_call(a).unwrap(), far.open_call(b).unwrap());
    near.send_copy(there, b"hello").unwrap();
    assert_eq!(&*far.receive(Some(SOON)).unwrap().expect("the SDU arrives"), b"hello");
    far.send_copy(back, b"and back, longer than what a descriptor holds by itself").unwrap();
    assert!(near.receive(Some(SOON)).unwrap().expect("and the answer").ends_with(b"itself"));
}

#[test]
fn an_application_calls_an_address_and_has_a_circuit_until_either_side_releases_it() {
    let ground = Ground::new(STAR);
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    let (_, own) = callee.listen(None, Sap::LLC).unwrap();
    assert_eq!(own, [to.to_string()]);
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    for releases_here in [true, false] {
        let call = caller.begin_call(to, Sap::LLC, &traffic()).unwrap();
        let Some(Event::Incoming { call: incoming, from, to: called, .. }) = callee.next_event(Some(SOON)).unwrap()
        else {
            panic!("no call came")
        };
        let [alpha] = ground.addresses("alpha");
        assert_eq!(
            (from, called),
            (Some(alpha.to_string()), Some(to.to_string())),
            "the network has checked who calls"
        );
        assert!(matches!(caller.next_event(Some(SOON)).unwrap(), Some(Event::Alerting { .. })));
        callee.begin_accept(incoming).unwrap();
        let circuit = |event: Option<Event>, call: u64| match event {
            Some(Event::Connected { call: of, circuit, .. }) if of == call => {
                endpoint::calls::Circuit { call, circuit: circuit.parse().unwrap() }
            }
            other => panic!("{other:?}"),
        };
        let near = circuit(caller.next_event(Some(SOON)).unwrap(), call);
        let far = circuit(callee.next_event(Some(SOON)).unwrap(), incoming);
        assert!(near.circuit.vci.get() >= 1024 && far.circuit.vci.get() >= 1024, "labels of calls");
        converse(&ground, ("alpha", &near), ("beta", &far));
        let ((first, own), (second, others)) = if releases_here {
            ((&mut caller, call), (&mut callee, incoming))
        } else {
            ((&mut callee, incoming), (&mut caller, call))
        };
        assert_eq!(second.is_released(others).unwrap(), None);
        first.release(own, CauseValue::NORMAL).unwrap();
        match second.next_event(Some(SOON)).unwrap() {
            Some(Event::Released { call, cause: 16, .. }) => assert_eq!(call, others),
            other => panic!("{other:?}"),
        }
        let gone =
            Endpoint::create(&ground.socket, &EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() });
        assert!(gone.unwrap().open_call(&near).is_err(), "the circuit went with the call");
        ground.await_quiet();
    }
}

#[test]
fn a_call_passes_two_switches_by_iisp_and_by_the_second_way_where_the_first_is_gone() {
    let ground = Ground::new(TWO);
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(Some(0), Sap::ANY).unwrap();
    let answering = std::thread::spawn(move || {
        let far = callee.accept(Some(SOON)).unwrap().expect("a call");
        (callee, far)
    });
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let near = caller.call(to, Sap::LLC, &traffic(), SOON).unwrap();
    let (callee, far) = answering.join().unwrap();
    let status = ground.status();
    assert_eq!(status.through.len(), 2, "{status:?}");
    converse(&ground, ("alpha", &near), ("beta", &far));
    // What a session has ends with it.
    drop(callee);
    assert_eq!(release_of(&mut caller, near.call), 16);
    ground.await_quiet();
    let links = ["s1:2", "s1:3"].map(|port| TWO.find(&format!("[[link]]\nends = [\"{port}")).unwrap());
    ground.apply(&(TWO[..links[0]].to_owned() + &TWO[links[1]..]));
    let (_caller, _callee, _) = set_up(&ground, "beta", "alpha", 2);
    assert!(ground.status().through.iter().all(|call| !format!("{call:?}").contains(":2 ")));
}

#[test]
fn each_switch_holds_a_call_to_its_contract_in_both_directions_and_tells_what_it_made_of_it() {
    let ground = Ground::new(TWO);
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(Some(0), Sap::ANY).unwrap();
    let answering = std::thread::spawn(move || {
        let far = callee.accept(Some(SOON)).unwrap().expect("a call");
        (callee, far)
    });
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let cbr = Traffic { category: "cbr".into(), pcr: Some(5000), ..traffic() };
    let near = caller.call(to, Sap::LLC, &cbr, SOON).unwrap();
    let (_callee, far) = answering.join().unwrap();
    converse(&ground, ("alpha", &near), ("beta", &far));
    let status = ground.status();
    assert_eq!(status.through.len(), 2);
    for call in &status.through {
        let ways: Vec<bool> = call.counters.iter().map(|counted| counted.forward).collect();
        assert_eq!(ways, [true, false], "{call:?}");
        // A cell there, two back.
        for (counted, cells) in call.counters.iter().zip([1, 2]) {
            assert_eq!((counted.contract_cells_per_s, counted.jitter_s.is_some()), (Some(5000.0), true));
            assert_eq!((counted.offered, counted.conformed, counted.sent), (cells, cells, cells), "{call:?}");
            assert_eq!((counted.policed, counted.queue_dropped), (0, 0));
        }
    }
    // The switches hold cells to it: these, which no host has paced, are beyond it.
    let policed = ground.overload(("alpha", "s1"), near.circuit, 100);
    let status = ground.status();
    let counted = &status.through.iter().find(|call| call.from.starts_with("s1")).unwrap().counters[0];
    assert_eq!((counted.offered, counted.policed), (101, policed), "{counted:?}");
    assert!(policed > 80, "{policed} of 100 cells at once");
    drop(caller);
    ground.await_quiet();
}

/// The cause by which a call was released; other events are passed over.
fn release_of(session: &mut Session, wanted: u64) -> u8 {
    loop {
        match session.next_event(Some(SOON)).unwrap() {
            Some(Event::Released { call, cause, .. }) if call == wanted => return cause,
            Some(_) => {}
            None => panic!("call {wanted} was not released"),
        }
    }
}

#[test]
fn a_call_that_cannot_be_says_why() {
    let ground = Ground::new(STAR);
    let [beta] = ground.addresses("beta");
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let mut cause = |to: Aesa, traffic: &Traffic| match caller.call(to, Sap::LLC, traffic, SOON) {
        Err(CallError::Released(cause)) => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(cause(beta, &traffic()), CauseValue::INCOMPATIBLE, "nobody listens there");
    assert_eq!(cause(Aesa([0x39; 20]), &traffic()), CauseValue::NO_ROUTE);
    let too_much = Traffic { category: "cbr".into(), pcr: Some(300_000), ..traffic() };
    assert_eq!(cause(beta, &too_much), CauseValue::CELL_RATE, "half of the link is for calls");
    let failures = ground.status().failures;
    assert_eq!(failures.iter().map(|failure| failure.cause).collect::<Vec<_>>(), [88, 3, 37]);
    let gfr = Traffic { category: "gfr".into(), ..traffic() };
    let refused = caller.begin_call(beta, Sap::ANY, &gfr).unwrap_err().to_string();
    assert!(refused.contains("cannot be signalled"), "{refused}");
    let nowhere = Session::open(&ground.socket, "nowhere").unwrap().listen(None, Sap::ANY).unwrap_err().to_string();
    assert!(nowhere.contains("nowhere") && nowhere.contains("signalling = "), "{nowhere}");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(None, Sap::ANY).unwrap();
    let call = caller.begin_call(beta, Sap::ANY, &traffic()).unwrap();
    let Some(Event::Incoming { call: incoming, .. }) = callee.next_event(Some(SOON)).unwrap() else {
        panic!("no call")
    };
    assert!(
        caller.begin_accept(incoming).unwrap_err().to_string().contains("of this session"),
        "it is another session's"
    );
    callee.release(incoming, CauseValue::REJECTED).unwrap();
    assert_eq!(release_of(&mut caller, call), 21);
    ground.await_quiet();
}

/// Sets `n` calls up from one host to another.
fn set_up(ground: &Ground, from: &str, to: &str, n: usize) -> (Session, Session, Vec<u64>) {
    let [address] = ground.addresses(to);
    let mut callee = Session::open(&ground.socket, to).unwrap();
    callee.listen(None, Sap::ANY).unwrap();
    let mut caller = Session::open(&ground.socket, from).unwrap();
    let calls: Vec<u64> = (0..n).map(|_| caller.begin_call(address, Sap::ANY, &traffic()).unwrap()).collect();
    let (mut accepted, mut up) = (0, 0);
    while up < n {
        if accepted < n
            && let Some(Event::Incoming { call, .. }) = callee.next_event(Some(Duration::from_millis(20))).unwrap()
        {
            callee.begin_accept(call).unwrap();
            accepted += 1;
        }
        match caller.next_event(Some(Duration::ZERO)).unwrap() {
            Some(Event::Connected { .. }) => up += 1,
            Some(Event::Released { text, .. }) => panic!("{text}"),
            _ => {}
        }
    }
    (caller, callee, calls)
}

#[test]
fn a_switch_that_goes_takes_exactly_its_calls_with_it() {
    let ground = Ground::new(TWO);
    let (mut through, far_end, _) = set_up(&ground, "alpha", "beta", 5);
    let (mut local, _local_end, _) = set_up(&ground, "alpha", "gamma", 3);
    assert_eq!(ground.status().through.len(), 5 * 2 + 3);
    // Switch s2 and its host are not in the description any more.
    ground.apply(&TWO[..TWO.find("# s2").unwrap()]);
    for _ in 0..5 {
        match through.next_event(Some(SOON)).unwrap() {
            Some(Event::Released { cause, .. }) => assert_eq!(cause, CauseValue::OUT_OF_ORDER.0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(local.next_event(Some(Duration::from_millis(200))).unwrap(), None, "the others are up");
    assert_eq!(ground.status().through.len(), 3);
    drop(far_end);
    // It comes back, and calls with it.
    ground.apply(TWO);
    let again = set_up(&ground, "alpha", "beta", 2);
    drop((again, through, local));
    ground.await_quiet();
}

#[test]
fn a_description_that_stays_leaves_calls_alone_and_one_with_more_ports_too() {
    let ground = Ground::new(STAR);
    let (mut caller, _callee, _) = set_up(&ground, "alpha", "beta", 4);
    ground.apply(&format!("{STAR}\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n"));
    ground.apply(&STAR.replace("[switch.s1]\n", "[switch.s1]\nports = 100\n"));
    assert_eq!(caller.next_event(Some(Duration::from_millis(300))).unwrap(), None);
    assert_eq!(ground.status().through.len(), 4);
    // Signalling has moved with the ports and goes on.
    drop((caller, _callee));
    ground.await_quiet();
    drop(set_up(&ground, "beta", "alpha", 1));
    // A circuit of a description has none of the labels of calls, nor those of signalling.
    for vci in [1024, 5] {
        let text = format!("{STAR}\n[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n");
        assert!(ground.try_apply(&text).is_err(), "0.{vci}");
    }
}

#[test]
fn a_user_calls_whom_a_rule_names_and_has_as_many_calls_as_it_says() {
    use control::config::parse;
    use endpoint::seqpacket::{Groups, Peer};
    use host::quota::Kind;
    let rules = "[[allow]]\nusers = [1001]\nhost = \"alpha\"\ncalls = [\"4700\"]\nmax_calls = 3\n";
    let config = parse(&format!("{STAR}{rules}"), "x").unwrap();
    let peer = |uid| Peer { pid: 1, uid, gid: uid, groups: Groups::new(&[]) };
    let may = |uid, host: &str, to: Option<[u8; 20]>| {
        policy::may_call(&config.rules, &peer(uid), 1000, host, to.map(Aesa).as_ref()).is_ok()
    };
    let mut near = [0; 20];
    near[0] = 0x47;
    assert!(may(1001, "alpha", Some(near)) && may(1001, "alpha", None) && may(1000, "beta", Some([0x39; 20])));
    assert!(!may(1001, "beta", Some(near)) && !may(1001, "alpha", Some([0x39; 20])) && !may(1002, "alpha", Some(near)));
    assert_eq!(policy::limits(&config.rules, &peer(1001), 1000).get(Kind::Calls), 3);
    assert_eq!(policy::limits(&config.rules, &peer(1002), 1000).get(Kind::Calls), 0);
    for (wrong, says) in [("calls = [\"xyz\"]", "calls \"xyz\""), ("", "without circuits and calls")] {
        let text = format!("{STAR}{}", rules.replace("calls = [\"4700\"]\n", &format!("{wrong}\n")));
        let why = format!("{:#}", parse(&text, "x").unwrap_err());
        assert!(why.contains(says), "{why}");
    }
}

/// How long a set-up and its release take, the middle one of many.
fn usual(ground: &Ground, calls: usize) -> Duration {
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(None, Sap::ANY).unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..calls {
            // The caller releases as soon as it is connected, which may be before `accept` returns.
            match callee.accept(Some(SOON)) {
                Err(CallError::Released(cause)) if cause == CauseValue::NORMAL => {}
                call => assert!(call.unwrap().is_some(), "a call"),
            }
        }
        callee
    });
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let mut times = Vec::new();
    for _ in 0..calls {
        let begin = Instant::now();
        let circuit = caller.call(to, Sap::ANY, &traffic(), SOON).unwrap();
        times.push(begin.elapsed());
        caller.release(circuit.call, CauseValue::NORMAL).unwrap();
    }
    drop((answering.join().unwrap(), caller));
    ground.await_quiet();
    times.sort();
    times[calls / 2]
}

#[test]
fn a_port_that_floods_its_signalling_channel_does_not_hold_up_calls_at_others_and_what_is_dropped_is_told() {
    let ground = Ground::new(STAR);
    let before = usual(&ground, 50);
    let flood = ground.flood("s1", 3);
    let flooded = usual(&ground, 50);
    // Where calls are quick, most of the garbage is still in the link's queue, which holds some two thousand PDUs.
    ground.until("more has come than is on its way", |status| {
        let port = status.interfaces.iter().find(|i| (i.station.as_str(), i.port) == ("s1", 3)).unwrap();
        port.dropped + port.link_errors + port.ignored > 2000
    });
    let (sent, dropped) = flood.stop();
    assert!(sent > 1000, "{sent} PDUs of garbage");
    let status = ground.status();
    let port = status.interfaces.iter().find(|i| (i.station.as_str(), i.port) == ("s1", 3)).unwrap();
    // The engine counts a PDU that finds no room; the signalling link counts the others.
    assert!(port.dropped >= dropped && port.link_errors > 0, "{port:?}");
    assert!(port.dropped + port.link_errors + port.ignored > sent / 4, "{sent} sent: {port:?}");
    for other in status.interfaces.iter().filter(|i| i.port != 3) {
        assert_eq!((other.dropped, other.link_errors), (0, 0), "{other:?}");
    }
    // No performance test: twice the usual time, and what a machine that others use as well adds to that.
    assert!(flooded < 2 * before + Duration::from_millis(500), "{flooded:?} instead of {before:?}");
}
