//! Direct circuits by way of the service: who may have one, that both sides meet, and what ends with what.

use endpoint::control::{OpenOptions, Request, Response};
use endpoint::direct::{Direct, DirectConfig, DirectGeometry, Gone, layout};
use endpoint::seqpacket::{Packets, Peer};
use endpoint::{Endpoint, EndpointConfig, Error};
use host::HostInterface;
use host::engine::{self, EngineHandle};
use host::service::{Handler, Service};
use net::topology::{Attachment, CircuitDescription, CircuitEnd, LinkDescription};
use net::{Aal, FramePool, LinkConfig, Network};
use rustix::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId};

const SECONDS_10: Option<Duration> = Some(Duration::from_secs(10));

struct Policy;

impl Handler for Policy {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, circuit: CircuitId) -> Result<(), String> {
        if circuit.vci.get() == 666 { Err("circuit 0.666 is not for you".into()) } else { Ok(()) }
    }
    fn manage(&self, _: Peer, request: serde_json::Value) -> Result<serde_json::Value, String> {
        Ok(request)
    }
}

/// Two hosts on one link: best-effort circuits 0.100 to 0.103 and 0.666, and 0.200 with a contract.
struct Lan {
    engine: EngineHandle,
    service: Option<Service>,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn described(vci: u16) -> CircuitDescription {
    let ends = ["alpha", "beta"].map(|host| CircuitEnd { station: host.into(), circuit: circuit(vci) });
    let cbr = Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() };
    let contract = if vci == 200 { cbr } else { Contract::default() };
    CircuitDescription { ends: ends.to_vec(), aal: Aal::Aal5, contract }
}

impl Lan {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cellway.sock");
        let engine = engine::start(Network::new(FramePool::new(64, 65_536))).unwrap();
        engine
            .with(|core| {
                for name in ["alpha", "beta"] {
                    core.fabric.add_host(&mut core.network, name, HostInterface::new(16)).unwrap();
                }
                let ends = ["alpha", "beta"].map(|name| Attachment { station: name.into(), port: None });
                let link = LinkDescription { ends, config: LinkConfig::default() };
                core.fabric.add_link(&mut core.network, &link).unwrap();
                for vci in [100, 101, 102, 103, 666, 200] {
                    core.fabric.add_circuit(&mut core.network, &described(vci)).unwrap();
                }
            })
            .unwrap();
        let service = Service::start(&socket, engine.clone(), Arc::new(Policy), 64).unwrap();
        Lan { engine, service: Some(service), socket, _dir: dir }
    }

    fn open(&self, host: &str, vci: u16, config: DirectConfig) -> Result<Direct, Error> {
        Direct::open(&self.socket, host, circuit(vci), &config)
    }

    fn both(&self, vci: u16) -> (Direct, Direct) {
        std::thread::scope(|scope| {
            let a = scope.spawn(|| self.open("alpha", vci, patient()).unwrap());
            let b = self.open("beta", vci, patient()).unwrap();
            (a.join().unwrap(), b)
        })
    }

    fn refused(&self, host: &str, vci: u16) -> String {
        let config = DirectConfig { patience: Some(Duration::from_millis(100)), ..DirectConfig::default() };
        self.open(host, vci, config).unwrap_err().to_string()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

fn patient() -> DirectConfig {
    DirectConfig { patience: SECONDS_10, ..DirectConfig::default() }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < deadline, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn both_sides_meet_and_each_hears_the_other() {
    let lan = Lan::new();
    let (mut a, mut b) = lan.both(100);
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
    assert!(lan.refused("alpha", 200).contains("has a contract"));
    assert!(lan.refused("alpha", 666).contains("not for you"));
    assert!(lan.refused("alpha", 999).contains("no circuit"));
    assert!(lan.refused("gamma", 100).contains("no host"));
    assert!(lan.refused("alpha", 100).contains("nobody opened the other end"));
}

#[test]
fn one_end_has_one_opener_directly_or_not() {
    let lan = Lan::new();
    let mut usual =
        Endpoint::create(&lan.socket, &EndpointConfig { host: "alpha".into(), ..Default::default() }).unwrap();
    usual.open(circuit(101), OpenOptions::default()).unwrap();
    assert!(lan.refused("alpha", 101).contains("open already"));
    let (a, _b) = lan.both(100);
    assert!(lan.refused("alpha", 100).contains("open already"));
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
        assert!(lan.open("beta", 102, small).unwrap_err().to_string().contains("return ring"));
        let second = lan.open("beta", 102, patient());
        assert!(second.is_ok() && first.join().unwrap().is_ok());
    });
}
