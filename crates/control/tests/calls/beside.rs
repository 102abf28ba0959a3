//! Calls beside a circuit of the description that has their label at another port of the same host.

use super::ground::{Ground, STAR};
use super::{SOON, traffic};
use endpoint::calls::{Event, Sap, Session};
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use std::time::Instant;
use wire::CircuitId;

/// Both hosts have a second link, and a circuit there whose label is the first that calls get.
fn text(signalling: bool) -> String {
    let links =
        [("alpha", 2), ("beta", 3)].map(|(host, port)| format!("[[link]]\nends = [\"{host}:1\", \"s1:{port}\"]\n"));
    let quiet = |line: &&str| signalling || !line.starts_with("signalling");
    let star: String = STAR.lines().filter(quiet).map(|line| line.to_owned() + "\n").collect();
    star + &links.concat() + "[[circuit]]\nends = [\"alpha:1 0.1024\", \"beta:1 0.1024\"]\n"
}

fn open(ground: &Ground, host: &str) -> (Endpoint, ChannelId) {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(&ground.socket, &config).unwrap();
    let channel = endpoint.open(CircuitId::new(0, 1024).unwrap(), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

#[test]
fn a_circuit_at_a_host_has_no_label_that_calls_of_the_host_may_be_given() {
    let ground = Ground::new(STAR);
    let refused = format!("{:#}", ground.try_apply(&text(true)).unwrap_err());
    assert!(refused.contains("1024") && refused.contains("choose another"), "{refused}");
}

#[test]
fn a_call_whose_label_a_circuit_has_at_another_port_of_its_host_leaves_that_circuit_alone() {
    // The circuit was there before there were calls.
    let ground = Ground::new(&text(false));
    let ((mut sender, channel), (mut receiver, _)) = (open(&ground, "alpha"), open(&ground, "beta"));
    let mut passes = || {
        sender.send_copy(channel, b"still here").unwrap();
        assert_eq!(&*receiver.receive(Some(SOON)).unwrap().expect("the SDU"), b"still here");
    };
    passes();
    ground.apply(&text(true));
    passes();
    let [to] = ground.addresses("beta");
    let mut callee = Session::open(&ground.socket, "beta").unwrap();
    callee.listen(None, Sap::LLC).unwrap();
    let mut caller = Session::open(&ground.socket, "alpha").unwrap();
    let call = caller.begin_call(to, Sap::LLC, &traffic()).unwrap();
    match callee.next_event(Some(SOON)).unwrap() {
        Some(Event::Incoming { call, .. }) => _ = callee.begin_accept(call),
        other => panic!("{other:?}"),
    }
    let end = Instant::now() + SOON;
    while !matches!(caller.next_event(Some(SOON)).unwrap(), Some(Event::Released { call: of, .. }) if of == call) {
        assert!(Instant::now() < end, "the call has no circuit at its host");
    }
    passes();
}
