//! A peer whose link has signalling sends without end what a signalling channel can carry: circuits pass on, and calls of others are made.

use crate::managed::Managed;
use control::calls::setup::{Wanted, elements};
use control::config::parse;
use control::daemon::DaemonOptions;
use endpoint::calls::{Event, Sap, Session, Traffic};
use hostile::{Attack, Class, Field, Trial, circuit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sar::{Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use uni::call::{CallId, Config, ElementList, Side, Version};
use uni::port::Port;
use wire::aesa::Aesa;
use wire::q2931::{Cause, CauseValue, Element, Location, Party};
use wire::sscop::{Pdu, Sequence, Source};
use wire::udp::{Batch, MAX_CELLS, MAX_OCTETS, emit};
use wire::{Cell, Time};

const SOON: Duration = Duration::from_secs(10);
const SAAL: u16 = 5;
const ILMI: u16 = 16;

/// The peer's socket and where the link's is.
static PEER: LazyLock<(UdpSocket, u16)> = LazyLock::new(|| {
    let [peer, link] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    peer.set_nonblocking(true).unwrap();
    (peer, link.local_addr().unwrap().port())
});

/// Where the peer is a user.
fn user() -> Managed {
    ground(r#"version = "uni40""#)
}

/// Where the peer is another network.
fn network() -> Managed {
    ground(r#"version = "iisp", routes = ["39"]"#)
}

fn ground(peers: &str) -> Managed {
    let (peer, link) = &*PEER;
    let text = format!(
        r#"
[host.alpha]
[host.beta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[outside.away]
[[link]]
ends = ["alpha", "s1:0"]
signalling = {{ version = "uni40" }}
[[link]]
ends = ["beta", "s1:1"]
signalling = {{ version = "uni40" }}
[[link]]
ends = ["s1:2", "away"]
cells_udp = {{ local = "127.0.0.1:{link}", peer = "127.0.0.1:{}", form = "batch" }}
signalling = {{ {peers} }}
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
"#,
        peer.local_addr().unwrap().port()
    );
    let ground = Managed::up(parse(&text, "net.toml").unwrap(), |_| DaemonOptions::default());
    let begin = Instant::now();
    while ["alpha", "beta"].iter().any(|host| address(&ground, host).is_none()) {
        assert!(begin.elapsed() < SOON, "no addresses");
        std::thread::sleep(Duration::from_millis(2));
    }
    ground
}

fn address(ground: &Managed, host: &str) -> Option<Aesa> {
    let calls = ground.daemon.controller().calls();
    calls.with(|exchange, _| exchange.addresses(host)).unwrap().first().copied()
}

/// The peer's end of the link.
struct Peer {
    sequence: u32,
    waiting: Vec<Cell>,
}

impl Peer {
    fn new() -> Self {
        // What came for who was here before.
        while PEER.0.recv(&mut [0; MAX_OCTETS]).is_ok() {}
        Peer { sequence: 0, waiting: Vec::new() }
    }

    fn send(&mut self, vci: u16, sdu: &[u8]) {
        let mut cells = [Cell::default(); 128];
        let n = Segmentation::new(circuit(vci), sdu.len(), SduMeta::default()).unwrap().fill(sdu, &mut cells);
        self.waiting.extend_from_slice(&cells[..n]);
        while self.waiting.len() >= MAX_CELLS {
            self.flush();
        }
    }

    /// Sends a datagram of what waits. What the socket has no room for is lost.
    fn flush(&mut self) {
        let first = self.waiting.len().min(MAX_CELLS);
        if first == 0 {
            return;
        }
        let mut datagram = [0; MAX_OCTETS];
        let octets = emit(self.sequence, &self.waiting[..first], &mut datagram);
        self.sequence += 1;
        self.waiting.drain(..first);
        let _ = PEER.0.send_to(&datagram[..octets], ("127.0.0.1", PEER.1));
    }

    fn pdu(&mut self, pdu: &Pdu<'_>) {
        let mut octets = vec![0; pdu.buffer_len()];
        pdu.emit(&mut octets);
        self.send(SAAL, &octets);
    }
}

/// A peer that speaks as it should.
struct Caller {
    port: Port,
    reassembler: Reassembler,
    sdu: Vec<u8>,
    begin: Instant,
    setup: ElementList,
    random: StdRng,
    calls: VecDeque<CallId>,
    alerted: usize,
}

impl Caller {
    fn new(version: Version, to: Aesa) -> Self {
        let mut port = Port::new(Config::new(Side::User, version));
        port.start(Time::ZERO);
        let traffic = Traffic::default();
        let wanted = Wanted { sap: Sap::ANY, forward: &traffic, backward: &traffic, multipoint: false };
        Caller {
            port,
            reassembler: Reassembler::new(ReassemblyConfig::default()),
            sdu: vec![0; 4096],
            begin: Instant::now(),
            setup: elements(None, to, wanted).unwrap(),
            random: StdRng::seed_from_u64(7),
            calls: VecDeque::new(),
            alerted: 0,
        }
    }

    /// Calls, if the link is up; the oldest of more than `most` calls is released. Then hears and answers.
    fn turn(&mut self, peer: &mut Peer, most: usize) {
        let now = Time::ZERO + self.begin.elapsed();
        // Under another number each time.
        let mut number = [0x39; 20];
        self.random.fill(&mut number[1..]);
        self.setup.set(Element::Calling(Party { indicators: Some((0, 1)), ..Party::aesa(Aesa(number)) }));
        if let Ok(call) = self.port.calls_mut().setup(self.setup.clone(), now) {
            self.calls.push_back(call);
        }
        if self.port.calls().len() > most
            && let Some(call) = self.calls.pop_front()
        {
            // Perhaps it has been released meanwhile.
            let cause = Cause::new(Location::USER, CauseValue::NORMAL);
            let _ = self.port.calls_mut().release(call, cause, now);
        }
        let mut octets = [0; MAX_OCTETS];
        while let Ok(n) = PEER.0.recv(&mut octets) {
            // A heartbeat is none.
            let Ok(batch) = Batch::new_checked(&octets[..n]) else { continue };
            for cell in batch.cells().filter(|cell| cell.header().circuit == circuit(SAAL)) {
                let step = self.reassembler.push(&[cell], &mut self.sdu, now);
                if let sar::Event::Complete { sdu_octets, .. } = step.event {
                    self.port.handle_pdu(&self.sdu[..sdu_octets], now);
                }
            }
        }
        if self.port.poll_timeout().is_some_and(|due| due <= now) {
            self.port.handle_timeout(now);
        }
        while let Some(event) = self.port.poll() {
            self.alerted += usize::from(matches!(event, uni::call::Event::Alerting(_)));
        }
        while let Some(sdu) = self.port.poll_transmit(now) {
            peer.send(SAAL, &sdu);
        }
        peer.flush();
    }
}

/// What has come to the switch from the peer: messages, and what the signalling channels could make nothing of.
fn heard(ground: &Managed) -> u64 {
    let report = ground.daemon.controller().calls().report();
    let at = report.interfaces.iter().find(|at| at.station == "s1" && at.port == 2).unwrap();
    at.received + at.link_errors + at.dropped
}

/// A peer that attacks, knowing beta's address, beside calls between two hosts.
fn beside_calls(ground: fn() -> Managed, attacks: impl Fn(&Attack, Aesa) + Sync) {
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let mut listens = Session::open(ground.socket(), "beta").unwrap();
        listens.listen(None, Sap::ANY).unwrap();
        let (mut calls, to) = (Session::open(ground.socket(), "alpha").unwrap(), address(ground, "beta").unwrap());
        let mut slowest = Duration::ZERO;
        std::thread::scope(|scope| {
            scope.spawn(|| attacks(attack, to));
            while attack.goes_on() {
                let begin = Instant::now();
                let call = calls.begin_call(to, Sap::ANY, &Traffic::default()).unwrap();
                let alerted = calls.next_event(Some(SOON)).unwrap();
                assert!(matches!(alerted, Some(Event::Alerting { .. })), "{alerted:?}");
                slowest = slowest.max(begin.elapsed());
                calls.release(call, CauseValue::NORMAL).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        attack.took("a call between others", slowest, Duration::from_millis(500));
        assert!(heard(ground) > 100, "the attack has not come: {}", heard(ground));
    });
}

/// A peer that does something without end.
fn without_end(does: impl FnMut(&mut Peer, &mut StdRng) + Send) {
    let does = Mutex::new(does);
    beside_calls(user, |attack, _| {
        let (mut peer, mut random) = (Peer::new(), StdRng::seed_from_u64(7));
        let mut does = does.lock().unwrap();
        while attack.goes_on() {
            does(&mut peer, &mut random);
        }
    });
}

fn octets(random: &mut StdRng, most: usize) -> Vec<u8> {
    let mut octets = vec![0; random.random_range(1..=most)];
    random.fill(&mut octets[..]);
    octets
}

#[test]
fn garbage_on_the_channels_of_signalling_holds_up_nobody() {
    without_end(|peer, random| {
        let vci = [SAAL, ILMI][random.random_range(0..2)];
        let sdu = octets(random, 600);
        peer.send(vci, &sdu);
    });
}

#[test]
fn connections_of_sscop_that_begin_and_end_without_end_hold_up_nobody() {
    without_end(|peer, random| {
        let sq = random.random();
        let mr = Sequence::new(128);
        let uu = octets(random, 64);
        match random.random_range(0..6) {
            0 => peer.pdu(&Pdu::End { source: Source::User, uu: &uu }),
            1 => peer.pdu(&Pdu::Resync { sq, mr, uu: &uu }),
            2 => peer.pdu(&Pdu::Recover { sq, mr }),
            3 => peer.pdu(&Pdu::Poll { s: Sequence::new(random.random()), ps: Sequence::new(random.random()) }),
            _ => peer.pdu(&Pdu::Begin { sq, mr, uu: &[] }),
        }
    });
}

#[test]
fn messages_in_sequence_without_end_hold_up_nobody_whatever_they_say() {
    let (mut s, mut since) = (0, u32::MAX);
    without_end(move |peer, random| {
        // Now and then anew: whoever was told nothing of a window begins one.
        if since > 100 {
            peer.pdu(&Pdu::Begin { sq: random.random(), mr: Sequence::new(1 << 20), uu: &[] });
            (s, since) = (0, 0);
        }
        // A message's head (Q.2931: protocol, call reference, type), and elements of any kind and length.
        let mut message = vec![9, 3];
        message.extend(random.random_range(0u32..1 << 24).to_be_bytes().iter().skip(1));
        let kinds = [0x05, 0x5a, 0x4d, 0x75, 0x7d, 0x80, 0x46];
        message.extend([kinds[random.random_range(0..kinds.len())], 0x80]);
        let elements = octets(random, 200);
        message.extend((elements.len() as u16).to_be_bytes());
        message.extend(elements);
        peer.pdu(&Pdu::Data { s: Sequence::new(s), data: &message });
        (s, since) = (s + 1, since + 1);
    });
}

/// A peer that calls without end, and has so many calls at most. Gives how often beta was alerted.
fn call(attack: &Attack, mut caller: Caller, most: usize) -> usize {
    let mut peer = Peer::new();
    while attack.goes_on() {
        caller.turn(&mut peer, most);
    }
    caller.alerted
}

#[test]
fn calls_of_a_peer_that_end_at_once_and_begin_without_end_hold_up_nobody() {
    // Most have ended before they come to beta.
    beside_calls(user, |attack, to| {
        call(attack, Caller::new(Version::Uni40, to), 16);
    });
}

fn calls_that_stay(ground: fn() -> Managed, version: Version) {
    beside_calls(ground, |attack, to| {
        let alerted = call(attack, Caller::new(version, to), usize::MAX);
        assert!(alerted > 100, "calls that got through: {alerted}");
    });
}

#[test]
fn calls_of_a_peer_that_stay_and_begin_without_end_hold_up_nobody() {
    calls_that_stay(user, Version::Uni40);
}

#[test]
fn calls_of_another_network_under_ever_other_numbers_hold_up_nobody() {
    calls_that_stay(network, Version::Iisp);
}
