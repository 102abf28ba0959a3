//! Applications that go right after they have sent: what is in their rings still leaves, in order and whole.

use crate::lan::{self, Lan, circuit, until};
use endpoint::{ChannelId, Endpoint, EndpointConfig, Events, Geometry, OpenOptions};
use std::time::Duration;
use wire::{Counters, DropReason};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

/// An endpoint of 64 buffers with a circuit.
fn open(lan: &Lan, host: &str, vci: u16, events: Events) -> (Endpoint, ChannelId) {
    let geometry = Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 192, buffer_octets: 2048 };
    let config =
        EndpointConfig { host: host.into(), geometry, events, send_buffers: Some(64), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(vci), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

/// One who looks once a second only: what is pushed stays in the ring until the endpoint goes.
const SELDOM: Events = Events::Clocked { hertz: 1 };

fn sdu(i: usize) -> Vec<u8> {
    (0..480).map(|at| (at * 7 + i) as u8).collect()
}

fn push(endpoint: &mut Endpoint, channel: ChannelId, sdus: std::ops::Range<usize>) {
    for i in sdus {
        endpoint.send_copy(channel, &sdu(i)).unwrap();
    }
}

fn sent_by_alpha(lan: &Lan, vci: u16) -> Counters {
    let find = move |core: &mut host::engine::Core| {
        let circuits = core.host("alpha").unwrap().1.circuits();
        circuits.into_iter().find(|c| c.circuit == circuit(vci)).unwrap().sent
    };
    lan.engine.with(find).unwrap()
}

fn endpoints_of_alpha(lan: &Lan) -> usize {
    lan.engine.with(|core| core.host("alpha").unwrap().1.endpoints().len()).unwrap()
}

#[test]
fn what_was_sent_before_the_application_went_arrives_and_the_next_opener_comes_after_it() {
    let lan = Lan::new();
    let (mut b, _) = open(&lan, "beta", 100, Events::Interrupt);
    for round in 0..5 {
        let base = round * 96;
        let (mut first, channel) = open(&lan, "alpha", 100, SELDOM);
        push(&mut first, channel, base..base + 64);
        drop(first);
        // The circuit is free as soon as the service has seen the connection end.
        lan.until_free("alpha", 100);
        let (mut second, channel) = open(&lan, "alpha", 100, Events::Interrupt);
        push(&mut second, channel, base + 64..base + 96);
        for i in base..base + 96 {
            let got = b.receive(TIMEOUT).unwrap().unwrap_or_else(|| panic!("SDU {i} did not come"));
            assert!(got[..] == sdu(i)[..], "SDU {i} came changed or out of its order");
        }
        drop(second);
        until("the endpoints have ended", || endpoints_of_alpha(&lan) == 0);
    }
}

#[test]
fn a_channel_that_is_closed_in_the_middle_of_a_pdu_ends_it_and_the_next_opener_comes_after_that() {
    let lan = Lan::new();
    let long = |host: &str| {
        let geometry = Geometry { buffers: 32, buffer_octets: 65_536, ..Geometry::default() };
        Endpoint::create(&lan.socket, &EndpointConfig { host: host.into(), geometry, ..Default::default() }).unwrap()
    };
    let (mut a, mut next, mut b) = (long("alpha"), long("alpha"), long("beta"));
    b.open(circuit(200), OpenOptions::default()).unwrap();
    for round in 0..5 {
        // 1250 cells, and 1000 cells a second.
        let channel = a.open(circuit(200), OpenOptions::default()).unwrap();
        let before = sent_by_alpha(&lan, 200).cells;
        a.send_copy(channel, &[round; 60_000]).unwrap();
        until("it has begun", || sent_by_alpha(&lan, 200).cells > before);
        a.close(channel).unwrap();
        // Another endpoint has the circuit at once.
        let channel = next.open(circuit(200), OpenOptions::default()).unwrap();
        push(&mut next, channel, 0..1);
        loop {
            let got = b.receive(TIMEOUT).unwrap().expect("the next one's");
            // On a machine that is very busy the long one may have left whole.
            if got[..] == sdu(0)[..] {
                break;
            }
            assert!(got[..] == [round; 60_000], "round {round}: {} octets", got.len());
        }
        next.close(channel).unwrap();
    }
    let (sent, received) = (sent_by_alpha(&lan, 200), lan.received("beta", 200));
    let cut = sent.dropped(DropReason::Closed);
    assert!(cut > 0, "{sent:?}");
    assert_eq!((received.dropped(DropReason::Aborted), received.dropped_total()), (cut, cut));
    assert_eq!((sent.pdus, received.pdus), (10 - cut, 10 - cut));
}

#[test]
fn an_endpoint_that_is_released_sends_nothing_more() {
    let lan = Lan::new();
    let (mut b, _) = open(&lan, "beta", 100, Events::Interrupt);
    let id = {
        let (mut a, channel) = open(&lan, "alpha", 100, SELDOM);
        push(&mut a, channel, 90..91);
        assert!(b.receive(TIMEOUT).unwrap().expect("what is sent before")[..] == sdu(90)[..]);
        // Between two rounds, however long this takes: nobody has looked at what is sent when its endpoint goes.
        let detach = move |core: &mut host::engine::Core| {
            push(&mut a, channel, 0..10);
            let (_, alpha) = core.host("alpha").unwrap();
            let id = alpha.endpoints()[0].id;
            assert!(alpha.detach(id));
            (a, id)
        };
        let (_a, id) = lan.engine.with(detach).unwrap();
        id
    };
    let (mut a, channel) = open(&lan, "alpha", 100, Events::Interrupt);
    push(&mut a, channel, 50..51);
    assert!(b.receive(TIMEOUT).unwrap().expect("the next opener's")[..] == sdu(50)[..]);
    let gone = lan.engine.with(move |core| !core.host("alpha").unwrap().1.depart(id)).unwrap();
    assert!(gone, "it had ended before");
}

#[test]
fn a_circuit_that_is_removed_takes_what_waits_with_it() {
    let lan = Lan::new();
    let (mut a, channel) = open(&lan, "alpha", 200, SELDOM);
    push(&mut a, channel, 0..64);
    drop(a);
    lan.until_free("alpha", 200);
    let removed = lan.engine.with(|core| {
        let described = lan::described(200);
        core.host("alpha").unwrap().1.remove_circuit(described.ends[0].circuit)
    });
    assert!(removed.unwrap());
    until("the endpoint has ended", || endpoints_of_alpha(&lan) == 0);
}
