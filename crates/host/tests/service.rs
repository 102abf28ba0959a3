//! Applications, service and engine together, on real sockets and shared memory.

use endpoint::{Aal, Connection, DataPath, Endpoint, EndpointConfig, Error, Events, Geometry, OpenOptions, SendError};
use host::engine::{self, EngineHandle};
use host::service::{Handler, Service, StartError};
use host::{CircuitConfig, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, Network};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{CircuitId, DropReason};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

struct AllowAll;

impl Handler for AllowAll {
    fn admit(&self, _: endpoint::seqpacket::Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: endpoint::seqpacket::Peer, _: &str, circuit: CircuitId) -> Result<(), String> {
        if circuit.vci.get() == 666 { Err("circuit 0.666 is not for you".into()) } else { Ok(()) }
    }
    fn manage(&self, peer: endpoint::seqpacket::Peer, request: serde_json::Value) -> Result<serde_json::Value, String> {
        Ok(serde_json::json!({ "uid": peer.uid, "echo": request, "long": "x".repeat(300_000) }))
    }
}

/// Two hosts, alpha and beta, on one link, with circuits 0.100 to 0.103.
struct Lan {
    engine: EngineHandle,
    service: Option<Service>,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Lan {
    fn new(carries: Carries) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cellway.sock");
        let engine = engine::start(Network::new(FramePool::new(64, 65_536))).unwrap();
        engine
            .with(move |core| {
                let nodes = ["alpha", "beta"].map(|name| {
                    let mut host = HostInterface::new(16);
                    for vci in [100, 101, 102, 103, 666] {
                        host.add_circuit(CircuitId::new(0, vci).unwrap(), CircuitConfig::default());
                    }
                    core.network.add_node(name, Box::new(host))
                });
                let config = LinkConfig { carries, ..LinkConfig::default() };
                core.network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
            })
            .unwrap();
        let service = Service::start(&socket, engine.clone(), Arc::new(AllowAll), 32).unwrap();
        Lan { engine, service: Some(service), socket, _dir: dir }
    }

    fn endpoint(&self, host: &str, path: DataPath, events: Events) -> Endpoint {
        let config = EndpointConfig { host: host.into(), path, events, ..EndpointConfig::default() };
        Endpoint::create(&self.socket, &config).unwrap()
    }

    fn endpoints_of(&self, name: &'static str) -> usize {
        self.engine.with(move |core| core.host(name).unwrap().1.endpoints().len()).unwrap()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn pattern(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 131 + seed * 17 + (i >> 8)) as u8).collect()
}

#[test]
fn pdus_of_every_size_arrive_octet_for_octet_by_each_data_path_and_link() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = Lan::new(carries);
        for path in [DataPath::Shared, DataPath::Copying] {
            let mut a = lan.endpoint("alpha", path, Events::Interrupt);
            let mut b = lan.endpoint("beta", path, Events::Interrupt);
            let to_b = a.open(circuit(100), OpenOptions::default()).unwrap();
            let at_b = b.open(circuit(100), OpenOptions::default()).unwrap();
            for octets in [1, 39, 40, 41, 48, 88, 89, 1500, 9180, 9188, 65_535] {
                let sdu = pattern(octets, octets);
                a.send_copy(to_b, &sdu).unwrap();
                let got = b.receive(TIMEOUT).unwrap().expect("an SDU");
                assert_eq!((got.channel(), &got[..]), (at_b, &sdu[..]), "{octets} octets, {path:?}, {carries:?}");
                drop(got);
                b.send_copy(at_b, &sdu).unwrap();
                assert_eq!(&a.receive(TIMEOUT).unwrap().expect("an SDU back")[..], &sdu[..]);
            }
        }
    }
}

#[test]
fn a_thousand_pdus_at_full_speed_lose_nothing_while_buffers_last() {
    let lan = Lan::new(Carries::Cells);
    let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
    let geometry =
        Geometry { receive_ring: 4096, free_ring: 4096, buffers: 1200, buffer_octets: 2048, ..Geometry::default() };
    let config = EndpointConfig { host: "beta".into(), geometry, send_buffers: Some(8), ..EndpointConfig::default() };
    let mut b = Endpoint::create(&lan.socket, &config).unwrap();
    let to_b = a.open(circuit(101), OpenOptions::default()).unwrap();
    b.open(circuit(101), OpenOptions::default()).unwrap();
    for i in 0..1000 {
        while a.send_copy(to_b, &pattern(1500, i)) == Err(SendError::Full) {
            assert!(a.wait_send(TIMEOUT).unwrap());
        }
    }
    for i in 0..1000 {
        let got = b.receive(TIMEOUT).unwrap().expect("an SDU");
        assert_eq!(&got[..], &pattern(1500, i)[..], "PDU {i}");
    }
}

#[test]
fn aal0_messages_and_polling_endpoints_work() {
    let lan = Lan::new(Carries::Cells);
    let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Polling);
    let mut b = lan.endpoint("beta", DataPath::Shared, Events::Polling);
    let aal0 = OpenOptions { aal: Aal::Aal0 };
    let to_b = a.open(circuit(102), aal0).unwrap();
    b.open(circuit(102), aal0).unwrap();
    let mut message = pattern(52, 1);
    message[..4].copy_from_slice(&[0, 0, 0, 0]);
    a.send_copy(to_b, &message).unwrap();
    let got = b.receive(TIMEOUT).unwrap().expect("a cell");
    assert_eq!(&got[4..], &message[4..]);
    assert_eq!(&got[..4], &(102u32 << 4).to_be_bytes());
}

#[test]
fn a_pdu_without_a_free_buffer_is_counted_and_dropped() {
    let lan = Lan::new(Carries::Cells);
    let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
    let config = EndpointConfig {
        host: "beta".into(),
        geometry: Geometry { buffers: 4, ..Geometry::default() },
        send_buffers: Some(3),
        ..EndpointConfig::default()
    };
    let mut b = Endpoint::create(&lan.socket, &config).unwrap();
    let to_b = a.open(circuit(100), OpenOptions::default()).unwrap();
    b.open(circuit(100), OpenOptions::default()).unwrap();
    for i in 0..3 {
        a.send_copy(to_b, &pattern(100, i)).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let dropped = lan
            .engine
            .with(|core| core.host("beta").unwrap().1.circuits()[0].received.dropped(DropReason::NoBuffer))
            .unwrap();
        if dropped == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{dropped} drops counted, not 2");
    }
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the first")[..], &pattern(100, 0)[..]);
    a.send_copy(to_b, &pattern(100, 9)).unwrap();
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("one after")[..], &pattern(100, 9)[..]);
}

#[test]
fn refusals_say_what_is_wrong() {
    let lan = Lan::new(Carries::Cells);
    let refused = |e: Error| e.to_string();
    let config = EndpointConfig { host: "gamma".into(), ..EndpointConfig::default() };
    assert!(refused(Endpoint::create(&lan.socket, &config).unwrap_err()).contains("no host `gamma`"));
    let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
    assert!(refused(a.open(circuit(7), OpenOptions::default()).unwrap_err()).contains("no circuit 0.7"));
    assert!(refused(a.open(circuit(666), OpenOptions::default()).unwrap_err()).contains("not for you"));
    let channel = a.open(circuit(100), OpenOptions::default()).unwrap();
    let mut other = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
    assert!(refused(other.open(circuit(100), OpenOptions::default()).unwrap_err()).contains("open already"));
    a.close(channel).unwrap();
    other.open(circuit(100), OpenOptions::default()).unwrap();
    assert!(matches!(
        Service::start(&lan.socket, lan.engine.clone(), Arc::new(AllowAll), 1),
        Err(StartError::Running(_))
    ));
    let nowhere = Connection::open(&lan.socket.with_extension("none")).unwrap_err();
    assert!(refused(nowhere).contains("cellway up"));
}

#[test]
fn long_answers_to_management_requests_come_whole() {
    let lan = Lan::new(Carries::Cells);
    let connection = Connection::open(&lan.socket).unwrap();
    let answer = connection.manage(serde_json::json!({ "status": [1, 2] })).unwrap();
    assert_eq!(answer["echo"]["status"][1], 2);
    assert_eq!(answer["long"].as_str().map(str::len), Some(300_000));
}

#[test]
fn an_endpoint_that_goes_frees_its_circuits_and_disturbs_no_other() {
    let lan = Lan::new(Carries::Cells);
    let mut b = lan.endpoint("beta", DataPath::Shared, Events::Interrupt);
    b.open(circuit(100), OpenOptions::default()).unwrap();
    for round in 0..20 {
        let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
        let channel = a.open(circuit(100), OpenOptions::default()).unwrap();
        a.send_copy(channel, &pattern(5000, round)).unwrap();
        assert_eq!(&b.receive(TIMEOUT).unwrap().expect("an SDU")[..], &pattern(5000, round)[..]);
        drop(a);
        let deadline = Instant::now() + Duration::from_secs(1);
        while lan.endpoints_of("alpha") > 0 {
            assert!(Instant::now() < deadline, "the endpoint is still there after a second");
        }
    }
}

#[test]
fn when_the_service_goes_its_clients_are_told_and_a_restart_needs_no_cleaning() {
    let mut lan = Lan::new(Carries::Cells);
    let mut a = lan.endpoint("alpha", DataPath::Shared, Events::Interrupt);
    a.open(circuit(100), OpenOptions::default()).unwrap();
    drop(lan.service.take());
    assert!(matches!(a.receive(TIMEOUT), Err(Error::ServiceGone)));
    // A socket file without a service, as kill -9 leaves it.
    let stale = endpoint::seqpacket::Packets::listen(&lan.socket).unwrap();
    drop(stale);
    assert!(lan.socket.exists());
    lan.service = Some(Service::start(&lan.socket, lan.engine.clone(), Arc::new(AllowAll), 32).unwrap());
    lan.endpoint("alpha", DataPath::Shared, Events::Interrupt).open(circuit(100), OpenOptions::default()).unwrap();
}
