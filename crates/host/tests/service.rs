//! Applications, service and engine together, on real sockets and shared memory.

use crate::lan::{Lan, circuit};
use endpoint::control::{BELL_OCTETS, Refusal, Request, Response};
use endpoint::layout::{CLIENT_SLEEPS, CLIENT_WAITS, NEWS_OF_SDUS};
use endpoint::segment::Segment;
use endpoint::seqpacket::Packets;
use endpoint::{
    Aal, Connection, DataPath, Direction, Endpoint, EndpointConfig, Error, Events, Geometry, OpenOptions, SendError,
};
use host::CircuitConfig;
use host::service::{Handler, Service, StartError};
use net::Carries;
use rustix::fd::{AsFd, OwnedFd};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    fn manage(
        &self,
        peer: endpoint::seqpacket::Peer,
        request: serde_json::Value,
        _: Vec<OwnedFd>,
    ) -> Result<String, String> {
        Ok(serde_json::json!({ "uid": peer.uid, "echo": request, "long": "x".repeat(300_000) }).to_string())
    }
}

/// Hosts alpha and beta with circuits 0.100 to 0.103, and one that nobody may open.
fn lan(carries: Carries) -> Lan {
    Lan::two_hosts(carries, AllowAll, |host| {
        for vci in [100, 101, 102, 103, 666] {
            host.add_circuit(circuit(vci), CircuitConfig::default());
        }
    })
}

impl Lan {
    fn create(&self, host: &str, path: DataPath, events: Events) -> Endpoint {
        let config = EndpointConfig { host: host.into(), path, events, ..EndpointConfig::default() };
        Endpoint::create(&self.socket, &config).unwrap()
    }

    fn endpoints_of(&self, name: &'static str) -> usize {
        self.engine.with(move |core| core.host(name).unwrap().1.endpoints().len()).unwrap()
    }
}

fn pattern(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 131 + seed * 17 + (i >> 8)) as u8).collect()
}

#[test]
fn pdus_of_every_size_arrive_octet_for_octet_by_each_data_path_and_link() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = lan(carries);
        for path in [DataPath::Shared, DataPath::Copying] {
            let mut a = lan.create("alpha", path, Events::Interrupt);
            let mut b = lan.create("beta", path, Events::Interrupt);
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
    let lan = lan(Carries::Cells);
    let mut a = lan.create("alpha", DataPath::Shared, Events::Interrupt);
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
    let lan = lan(Carries::Cells);
    let mut a = lan.create("alpha", DataPath::Shared, Events::Polling);
    let mut b = lan.create("beta", DataPath::Shared, Events::Polling);
    let aal0 = OpenOptions { aal: Aal::Aal0, ..OpenOptions::default() };
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
    let lan = lan(Carries::Cells);
    let mut a = lan.create("alpha", DataPath::Shared, Events::Interrupt);
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
    let lan = lan(Carries::Cells);
    let refused = |e: Error| e.refusal().unwrap_or_else(|| panic!("{e}"));
    let config = EndpointConfig { host: "gamma".into(), ..EndpointConfig::default() };
    assert_eq!(refused(Endpoint::create(&lan.socket, &config).unwrap_err()), Refusal::NoHost);
    let mut a = lan.create("alpha", DataPath::Shared, Events::Interrupt);
    let no_circuit = a.open(circuit(7), OpenOptions::default()).unwrap_err();
    assert!(no_circuit.to_string().contains("0.7"), "{no_circuit}");
    assert_eq!(refused(no_circuit), Refusal::NoCircuit);
    assert_eq!(refused(a.open(circuit(666), OpenOptions::default()).unwrap_err()), Refusal::NotAllowed);
    let channel = a.open(circuit(100), OpenOptions::default()).unwrap();
    let mut other = lan.create("alpha", DataPath::Shared, Events::Interrupt);
    assert_eq!(refused(other.open(circuit(100), OpenOptions::default()).unwrap_err()), Refusal::InUse);
    a.close(channel).unwrap();
    other.open(circuit(100), OpenOptions::default()).unwrap();
    assert!(matches!(
        Service::start(&lan.socket, lan.engine.clone(), Arc::new(AllowAll), 1),
        Err(StartError::Running(_))
    ));
    let nowhere = Connection::open(&lan.socket.with_extension("none")).unwrap_err();
    assert!(matches!(&nowhere, Error::NoService { .. }) && nowhere.to_string().contains("cellway up"), "{nowhere}");
}

#[test]
fn a_service_starts_where_the_doors_of_one_that_was_killed_listen_for_a_moment_yet() {
    let lan = lan(Carries::Cells);
    let path = lan.socket.with_extension("again");
    let listener = Packets::listen(&path).unwrap();
    let doors = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(listener);
    });
    let service = Service::start(&path, lan.engine.clone(), Arc::new(AllowAll), 1);
    doors.join().unwrap();
    assert!(service.is_ok(), "{service:?}");
}

#[test]
fn one_endpoint_may_send_and_another_receive_on_the_same_circuit() {
    let lan = lan(Carries::Frames);
    let endpoint = |host| lan.create(host, DataPath::Shared, Events::Interrupt);
    let [mut writer, mut reader, mut third] = [endpoint("alpha"), endpoint("alpha"), endpoint("alpha")];
    let mut far = endpoint("beta");
    let way = |direction| OpenOptions { direction, ..OpenOptions::default() };
    let out = writer.open(circuit(100), way(Direction::Send)).unwrap();
    let inward = reader.open(circuit(100), way(Direction::Receive)).unwrap();
    for taken in [Direction::Send, Direction::Receive, Direction::Both] {
        assert!(third.open(circuit(100), way(taken)).unwrap_err().refusal() == Some(Refusal::InUse), "{taken:?}");
    }
    let there = far.open(circuit(100), OpenOptions::default()).unwrap();
    writer.send_copy(out, b"out").unwrap();
    assert_eq!(&far.receive(TIMEOUT).unwrap().unwrap()[..], b"out");
    // What a receiver sends does not leave.
    reader.send_copy(inward, b"not mine to send").unwrap();
    far.send_copy(there, b"in").unwrap();
    assert_eq!(&reader.receive(TIMEOUT).unwrap().unwrap()[..], b"in");
    assert!(writer.try_receive().is_none() && far.try_receive().is_none());
    writer.close(out).unwrap();
    third.open(circuit(100), way(Direction::Send)).unwrap();
}

/// Whether reading would wait.
fn near_waits(near: &std::os::unix::net::UnixStream) -> bool {
    near.set_nonblocking(true).unwrap();
    matches!((&*near).read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn a_bell_of_the_clients_own_rings_for_sdus_opens_when_there_is_room_and_tells_of_the_end() {
    let mut lan = lan(Carries::Frames);
    let mut far = lan.create("beta", DataPath::Shared, Events::Interrupt);
    let there = far.open(circuit(100), OpenOptions::default()).unwrap();

    let packets = Packets::connect(&lan.socket).unwrap();
    let ask = |request: &Request, fds: &[rustix::fd::BorrowedFd<'_>]| {
        packets.send(request, fds).unwrap();
        packets.receive::<Response>().unwrap().unwrap()
    };
    ask(&Request::hello(), &[]);
    let geometry = Geometry { buffers: 16, ..Geometry::default() };
    let create =
        Request::CreateEndpoint { host: "alpha".into(), geometry, events: Events::Interrupt, path: DataPath::Shared };
    let (pipe, _) = rustix::pipe::pipe().unwrap();
    let (refused, _) = ask(&create, &[pipe.as_fd()]);
    assert!(matches!(refused, Response::Refused { .. }), "a pipe is no bell: {refused:?}");
    let (near, host_end) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (created, fds) = ask(&create, &[host_end.as_fd()]);
    assert!(matches!(created, Response::Created { .. }), "{created:?}");
    drop(host_end);
    let segment = Segment::open(&fds[0], geometry).unwrap();
    ask(&Request::open(circuit(100), OpenOptions::default()), &[]);

    segment.word32(CLIENT_SLEEPS).store(NEWS_OF_SDUS, Ordering::SeqCst);
    far.send_copy(there, b"ring").unwrap();
    let mut rung = [0; BELL_OCTETS];
    (&near).read_exact(&mut rung).unwrap();
    assert_eq!(segment.word32(CLIENT_SLEEPS).load(Ordering::SeqCst), 0, "one ring for one sleep");

    // What the client puts there is taken as soon as there is room: now.
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[0; 4096]).is_ok() {}
    near.set_nonblocking(false).unwrap();
    near.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    segment.word32(CLIENT_WAITS).store(1, Ordering::SeqCst);
    rustix::io::write(&fds[1], &1u64.to_ne_bytes()).unwrap();
    (&near).write_all(&[0]).unwrap();

    lan.service.take();
    // The octet above may be unread at the other end: the kernel calls that a reset.
    assert!(matches!((&near).read(&mut rung), Ok(0) | Err(_)) && !near_waits(&near));
}

#[test]
fn long_answers_to_management_requests_come_whole() {
    let lan = lan(Carries::Cells);
    let connection = Connection::open(&lan.socket).unwrap();
    let answer = connection.manage(serde_json::json!({ "status": [1, 2] })).unwrap();
    assert_eq!(answer["echo"]["status"][1], 2);
    assert_eq!(answer["long"].as_str().map(str::len), Some(300_000));
}

#[test]
fn an_endpoint_that_goes_frees_its_circuits_and_disturbs_no_other() {
    let lan = lan(Carries::Cells);
    let mut b = lan.create("beta", DataPath::Shared, Events::Interrupt);
    b.open(circuit(100), OpenOptions::default()).unwrap();
    for round in 0..20 {
        let mut a = lan.create("alpha", DataPath::Shared, Events::Interrupt);
        let channel = a.open(circuit(100), OpenOptions::default()).unwrap();
        a.send_copy(channel, &pattern(5000, round)).unwrap();
        assert_eq!(&b.receive(TIMEOUT).unwrap().expect("an SDU")[..], &pattern(5000, round)[..]);
        drop(a);
        let deadline = Instant::now() + Duration::from_secs(10);
        while lan.endpoints_of("alpha") > 0 {
            assert!(Instant::now() < deadline, "the endpoint is still there after ten seconds");
        }
    }
}

#[test]
fn when_the_service_goes_its_clients_are_told_and_a_restart_needs_no_cleaning() {
    let mut lan = lan(Carries::Cells);
    let mut a = lan.create("alpha", DataPath::Shared, Events::Interrupt);
    a.open(circuit(100), OpenOptions::default()).unwrap();
    let [mut patient, mut hasty, mut polling] = [Events::default(), Events::default(), Events::Polling]
        .map(|events| lan.create("beta", DataPath::Shared, events));
    drop(lan.service.take());
    assert!(matches!(a.receive(TIMEOUT), Err(Error::ServiceGone)));
    // However they wait: in a poll of their own, for a moment again and again, or not at all.
    let end = Instant::now() + Duration::from_secs(10);
    let hears = |wait: &mut dyn FnMut() -> Result<(), Error>| loop {
        match wait() {
            Ok(()) => assert!(Instant::now() < end, "nobody tells it"),
            Err(e) => break assert!(matches!(e, Error::ServiceGone), "{e}"),
        }
    };
    hears(&mut || {
        patient.arm();
        patient.disarm()
    });
    hears(&mut || hasty.receive(Some(Duration::from_micros(50))).map(|got| assert!(got.is_none())));
    hears(&mut || polling.receive(Some(Duration::ZERO)).map(|got| assert!(got.is_none())));
    hears(&mut || polling.check());
    // A socket file without a service, as kill -9 leaves it.
    let stale = endpoint::seqpacket::Packets::listen(&lan.socket).unwrap();
    drop(stale);
    assert!(lan.socket.exists());
    lan.service = Some(Service::start(&lan.socket, lan.engine.clone(), Arc::new(AllowAll), 32).unwrap());
    lan.create("alpha", DataPath::Shared, Events::Interrupt).open(circuit(100), OpenOptions::default()).unwrap();
}
