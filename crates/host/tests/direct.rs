//! Direct circuits by way of the service: who may have one, that both sides meet, and what ends with what.

use crate::lan::{Lan, circuit, described, patient, until};
use endpoint::control::{OpenOptions, Refusal, Request, Response};
use endpoint::direct::{DirectConfig, DirectGeometry, Gone, layout};
use endpoint::seqpacket::Packets;
use endpoint::{Endpoint, EndpointConfig, Error};
use host::engine;
use rustix::fd::AsFd;
use std::time::Duration;

const SECONDS_10: Option<Duration> = Some(Duration::from_secs(10));

#[test]
fn both_sides_meet_and_each_hears_the_other() {
    let lan = Lan::new();
    // One waits for as long as can be said.
    let config = DirectConfig { patience: Some(Duration::MAX), ..patient() };
    let (mut a, mut b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| lan.open("alpha", 100, config).unwrap());
        let b = lan.open("beta", 100, patient()).unwrap();
        (a.join().unwrap(), b)
    });
    for octets in [1, 40, 41, 1088, 1089, 65_536, 1 << 20] {
        let mut loan = a.sender.loan(octets).expect("blocks");
        for (i, octet) in loan[..octets].iter_mut().enumerate() {
            *octet = ((i * 31) >> 3) as u8;
        }
        loan.send(octets).map_err(|(e, _)| e).unwrap();
        let got = b.receiver.receive(SECONDS_10).unwrap().expect("a message").to_vec();
        assert!(got.iter().enumerate().all(|(i, octet)| *octet == ((i * 31) >> 3) as u8) && got.len() == octets);
        b.sender.send_copy(&got).unwrap();
        assert_eq!(a.receiver.receive(SECONDS_10).unwrap().expect("an answer").to_vec(), got);
    }
    assert_eq!((a.sender.away_blocks(), b.sender.away_blocks()), (0, 0));
}

#[test]
fn only_best_effort_circuits_between_two_hosts_that_the_policy_allows_are_direct() {
    let lan = Lan::new();
    assert_eq!(lan.refused("alpha", 200), Some(Refusal::Invalid));
    assert_eq!(lan.refused("alpha", 666), Some(Refusal::NotAllowed));
    assert_eq!(lan.refused("alpha", 999), Some(Refusal::NoCircuit));
    assert_eq!(lan.refused("gamma", 100), Some(Refusal::NoHost));
    let alone = DirectConfig { patience: Some(Duration::from_millis(50)), ..patient() };
    assert!(matches!(lan.open("alpha", 100, alone), Err(Error::NoPeer(_))));
}

#[test]
fn one_end_has_one_opener_directly_or_not() {
    let lan = Lan::new();
    let mut usual =
        Endpoint::create(&lan.socket, &EndpointConfig { host: "alpha".into(), ..Default::default() }).unwrap();
    usual.open(circuit(101), OpenOptions::default()).unwrap();
    assert_eq!(lan.refused("alpha", 101), Some(Refusal::InUse));
    lan.until_free("beta", 101);
    let (a, _b) = lan.both(100);
    assert_eq!(lan.refused("alpha", 100), Some(Refusal::InUse));
    assert!(usual.open(circuit(100), OpenOptions::default()).is_err());
    drop(a);
    until("the end is free again", || usual.open(circuit(100), OpenOptions::default()).is_ok());
}

#[test]
fn the_circuits_end_is_both_sides_end_and_others_go_on() {
    let lan = Lan::new();
    let (mut a, mut b) = lan.both(100);
    let (mut c, mut d) = lan.both(101);
    a.sender.send_copy(b"last").unwrap();
    let removed = lan.engine.with(|core| core.fabric.remove_circuit(&mut core.network, &described(100)));
    removed.unwrap().unwrap();
    assert_eq!(b.receiver.receive(SECONDS_10).unwrap().unwrap().private(), Some(&b"last"[..]));
    assert!(matches!(b.receiver.receive(SECONDS_10), Err(Gone::Service)));
    assert!(matches!(a.receiver.receive(SECONDS_10), Err(Gone::Service)));
    c.sender.send_copy(b"still").unwrap();
    assert_eq!(d.receiver.receive(SECONDS_10).unwrap().unwrap().private(), Some(&b"still"[..]));
}

#[test]
fn memory_that_is_not_sealed_or_does_not_fit_is_refused_and_the_other_waits_on() {
    let lan = Lan::new();
    let packets = Packets::connect(&lan.socket).unwrap();
    let ask = |request: &Request, fds: &[rustix::fd::BorrowedFd<'_>]| {
        packets.send(request, fds).unwrap();
        packets.receive::<Response>().unwrap().unwrap().0
    };
    ask(&Request::hello(), &[]);
    let geometry = DirectGeometry::default();
    let request =
        |layout, geometry| Request::OpenDirect { host: "alpha".into(), vpi_vci: "0.102".into(), layout, geometry };
    let loose = rustix::fs::memfd_create("loose", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&loose, geometry.octets() as u64).unwrap();
    for (request, fds) in [
        (request(layout::VERSION, geometry), vec![loose.as_fd()]),
        (request(layout::VERSION, geometry), vec![packets.as_fd()]),
        (request(layout::VERSION, geometry), vec![]),
        (request(layout::VERSION + 1, geometry), vec![loose.as_fd()]),
        (request(layout::VERSION, DirectGeometry { ring: 7, ..geometry }), vec![loose.as_fd()]),
    ] {
        let answer = ask(&request, &fds);
        assert!(matches!(answer, Response::Refused { .. }), "{answer:?}");
    }
    drop(packets);
    let small = DirectConfig { geometry: DirectGeometry { returns: 8, ..geometry }, ..patient() };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| lan.open("alpha", 102, patient()));
        until("the first waits", || {
            let used = |core: &mut engine::Core| core.host("alpha").unwrap().1.circuits()[2].endpoint.is_some();
            lan.engine.with(used).unwrap()
        });
        let refused = lan.open("beta", 102, small).unwrap_err();
        assert!(
            refused.refusal() == Some(Refusal::Invalid) && refused.to_string().contains("return ring"),
            "{refused}"
        );
        let second = lan.open("beta", 102, patient());
        assert!(second.is_ok() && first.join().unwrap().is_ok());
    });
}
