//! Link ends outside: the atmtcp protocol in pieces of any size, and both socket shells over loopback.

use links::atmtcp::Machine;
use links::tcp::{Role, Shell};
use links::udp::{self, Form};
use net::{
    Carries, CircuitNotice, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, PeerCircuit,
};
use proptest::prelude::*;
use sar::SduMeta;
use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::octets::Format;
use wire::{Cell, CellHeader, CircuitId, DropReason, PayloadType, Time};

type Sdu = (CircuitId, FrameAal, Vec<u8>);

/// Keeps all that arrives.
#[derive(Default)]
struct Sink {
    frames: Vec<Sdu>,
    cells: Vec<Cell>,
    cells_to_send: Vec<Cell>,
    to_send: Vec<Sdu>,
    /// Frames for which the link had no room.
    refused: usize,
}

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut busy = false;
        while let Some((frame, octets)) = io.frame_in(0) {
            self.frames.push((frame.circuit, frame.aal, octets.to_vec()));
            io.release_frame(0);
            busy = true;
        }
        let n = io.cells_in(0).len();
        self.cells.extend_from_slice(io.cells_in(0));
        io.consume(0, n);
        for (circuit, aal, octets) in self.to_send.drain(..) {
            let frame = io.pool_mut().copy_in(circuit, aal, SduMeta::default(), &octets).unwrap();
            if let Err(frame) = io.put_frame(0, frame) {
                io.pool_mut().release(frame);
                self.refused += 1;
            }
            busy = true;
        }
        for cell in self.cells_to_send.drain(..) {
            assert!(io.put_cell(0, &cell));
        }
        busy || n > 0
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn id(s: &str) -> CircuitId {
    s.parse().unwrap()
}

fn side(carries: Carries) -> (Network, NodeId, LinkId) {
    let mut network = Network::new(FramePool::new(32, 65_568));
    let sink = network.add_node("sink", Box::<Sink>::default());
    let config = LinkConfig { carries, ..LinkConfig::default() };
    let link = network.connect(End::Port(sink, 0), End::External, config).unwrap();
    (network, sink, link)
}

/// Octets into a machine in pieces of `piece`; what arrives at the node.
fn through(octets: &[u8], piece: usize, aal0: &[CircuitId]) -> (Vec<Sdu>, net::LineCounters, bool) {
    let (mut network, sink, link) = side(Carries::Frames);
    let mut machine = Machine::new();
    aal0.iter().for_each(|c| machine.set_aal(*c, FrameAal::Aal0));
    let mut failed = false;
    for part in octets.chunks(piece.max(1)) {
        let mut part = part;
        while !part.is_empty() && !failed {
            let taken = network.external(link, Time::ZERO, |io| machine.receive(part, io)).unwrap();
            match taken {
                Ok(n) => part = &part[n..],
                Err(_) => failed = true,
            }
            while network.run(Time::ZERO) {}
        }
    }
    network.external(link, Time::ZERO, |io| machine.drop_input(io));
    assert_eq!(network.pool().in_use(), 0);
    let counters = network.link_info(link).unwrap().from_b;
    (std::mem::take(&mut network.node_mut::<Sink>(sink).unwrap().frames), counters, failed)
}

const OPEN: &[u8] = b"\0\0\0\0\0\0\0\x30O 1.42 0.1.42 cbr,aal5:max_pcr=1000,max_sdu=9180";
const HELLO: &[u8] = b"\0\x01\0\x2a\0\0\0\x05hello";

#[test]
fn frames_that_linux_sends_arrive_whatever_pieces_tcp_makes_of_them() {
    let octets = [OPEN, HELLO, b"\0\0\0\0\0\0\0\x06C 1.42", HELLO].concat();
    for piece in 1..octets.len() {
        let (frames, ..) = through(&octets, piece, &[]);
        let hello = (id("1.42"), FrameAal::Aal5, b"hello".to_vec());
        assert_eq!(frames, [hello.clone(), hello], "pieces of {piece}");
    }
}

#[test]
fn a_giant_pdu_ends_the_connection_and_odd_frames_are_counted() {
    assert!(through(b"\0\0\0\x20\xff\xff\xff\xff", 8, &[]).2);
    let (frames, counters, failed) = through(&[b"\0\0\0\0\0\0\0\x03???\0\0\0\x2a\0\0\0\0", HELLO].concat(), 5, &[]);
    assert_eq!((frames.len(), counters.sent.dropped(DropReason::Malformed), failed), (1, 2, false));
}

#[test]
fn an_aal0_cells_header_is_turned_from_the_peers_order() {
    let mut octets = b"\0\0\0\x64\0\0\0\x34".to_vec();
    octets.extend_from_slice(&0x0000_0642u32.to_le_bytes());
    octets.extend_from_slice(&[7; 48]);
    let (frames, ..) = through(&octets, 7, &[id("0.100")]);
    assert_eq!((frames[0].1, &frames[0].2[..4]), (FrameAal::Aal0, &0x0000_0642u32.to_be_bytes()[..]));
    // And back: what goes out is what came in.
    let (mut network, sink, link) = side(Carries::Frames);
    network.node_mut::<Sink>(sink).unwrap().to_send.push(frames[0].clone());
    network.run(Time::ZERO);
    let mut machine = Machine::new();
    machine.set_aal(id("0.100"), FrameAal::Aal0);
    assert!(network.external(link, Time::ZERO, |io| machine.transmit(io)).unwrap());
    assert_eq!(machine.poll_transmit(), octets);
}

proptest! {
    #[test]
    fn no_octets_upset_the_machine(octets in proptest::collection::vec(any::<u8>(), 0..400), small: bool, piece in 1usize..50) {
        // Small lengths in the heads reach further into the state machine than random ones do.
        let mut octets = octets;
        if small {
            octets.chunks_mut(9).for_each(|c| c.iter_mut().take(7).for_each(|o| *o &= 1));
        }
        through(&octets, piece, &[id("1.1")]);
    }
}

/// Waits with a limit; loopback sockets need no more than moments.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// One round of a network with everything ready: what the engine does after its poll.
fn step(network: &mut Network, start: Instant) {
    let now = Time::from_nanos(start.elapsed().as_nanos() as u64);
    let ready: Vec<_> = network.externals().map(|(id, e)| (id, e.wants_read(), e.wants_write())).collect();
    for (id, read, write) in ready {
        network.handle_ready(id, read, write, now);
    }
    while network.run(now) {}
}

#[test]
fn two_networks_exchange_sdus_over_tcp_and_connect_again_after_a_break() {
    let start = Instant::now();
    let (mut a, sink_a, link_a) = side(Carries::Frames);
    let (mut b, sink_b, link_b) = side(Carries::Frames);
    let listening = Shell::new(Role::Listen("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = listening.local_address().unwrap();
    assert!(a.attach(link_a, Box::new(listening)));
    for _ in 0..2 {
        assert!(b.attach(link_b, Box::new(Shell::new(Role::Connect(address)).unwrap())));
        until("connect", || {
            step(&mut a, start);
            step(&mut b, start);
            a.link_info(link_a).unwrap().up && b.link_info(link_b).unwrap().up
        });
        let sdus: Vec<_> = [1, 1500, 65_535].map(|n| (id("0.100"), FrameAal::Aal5, vec![n as u8; n])).into();
        a.node_mut::<Sink>(sink_a).unwrap().to_send = sdus.clone();
        b.node_mut::<Sink>(sink_b).unwrap().to_send = sdus.clone();
        until("transfer", || {
            step(&mut a, start);
            step(&mut b, start);
            let got_a = a.node_mut::<Sink>(sink_a).unwrap().frames.len();
            got_a == 3 && b.node_mut::<Sink>(sink_b).unwrap().frames.len() == 3
        });
        assert_eq!(std::mem::take(&mut a.node_mut::<Sink>(sink_a).unwrap().frames), sdus);
        assert_eq!(std::mem::take(&mut b.node_mut::<Sink>(sink_b).unwrap().frames), sdus);
        // The peer goes: the link is down, and what is sent does not wait.
        b.attach(link_b, Box::new(Shell::new(Role::Connect("127.0.0.1:9".parse().unwrap())).unwrap()));
        until("end", || {
            step(&mut a, start);
            !a.link_info(link_a).unwrap().up
        });
        a.node_mut::<Sink>(sink_a).unwrap().to_send = sdus;
        step(&mut a, start);
        assert_eq!(a.pool().in_use(), 0);
    }
}

#[test]
fn cells_cross_udp_in_both_forms() {
    for form in [Form::Cell(Format::Uni), Form::Batch] {
        let start = Instant::now();
        let (mut a, sink_a, link_a) = side(Carries::Cells);
        let (mut b, sink_b, link_b) = side(Carries::Cells);
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [at_a, at_b]: [SocketAddr; 2] = [0, 1].map(|i| sockets[i].local_addr().unwrap());
        let [socket_a, socket_b] = sockets;
        a.attach(link_a, Box::new(udp::Shell::with_socket(socket_a, at_b, form).unwrap()));
        b.attach(link_b, Box::new(udp::Shell::with_socket(socket_b, at_a, form).unwrap()));
        let payload_type = PayloadType::User { congestion: false, end: true };
        let header = CellHeader { circuit: id("3.100"), payload_type, clp: true };
        let cells: Vec<_> = (0..100).map(|i| Cell::new(header, [i; 48])).collect();
        a.node_mut::<Sink>(sink_a).unwrap().cells_to_send = cells.clone();
        until("transfer", || {
            step(&mut a, start);
            step(&mut b, start);
            b.node_mut::<Sink>(sink_b).unwrap().cells.len() == 100
        });
        let got = &b.node_mut::<Sink>(sink_b).unwrap().cells;
        assert!(got.iter().zip(&cells).all(|(g, c)| g.header() == c.header() && g.payload == c.payload));
    }
}

/// A listening link, and its address.
fn listening(network: &mut Network, link: LinkId) -> SocketAddr {
    let shell = Shell::new(Role::Listen("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = shell.local_address().unwrap();
    assert!(network.attach(link, Box::new(shell)));
    address
}

fn status(network: &Network, link: LinkId) -> String {
    network.externals().find(|(id, _)| *id == link).unwrap().1.status()
}

/// A second frame link of a network, from a port of its own to outside.
fn another(network: &mut Network) -> (NodeId, LinkId) {
    let sink = network.add_node("another", Box::<Sink>::default());
    let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
    (sink, network.connect(End::Port(sink, 0), End::External, config).unwrap())
}

#[test]
fn a_peer_that_sends_nonsense_loses_its_link_with_a_reason_and_nothing_else() {
    let start = Instant::now();
    let (mut network, sink, link) = side(Carries::Frames);
    let (_, good_link) = another(&mut network);
    let (address, good_address) = (listening(&mut network, link), listening(&mut network, good_link));
    let mut bad = TcpStream::connect(address).unwrap();
    let _good = TcpStream::connect(good_address).unwrap();
    until("both up", || {
        step(&mut network, start);
        [link, good_link].iter().all(|l| network.link_info(*l).unwrap().up)
    });
    bad.write_all(&[0xff; 64]).unwrap();
    until("the link is lost", || {
        step(&mut network, start);
        !network.link_info(link).unwrap().up
    });
    assert!(status(&network, link).contains("no atmtcp"), "{}", status(&network, link));
    assert!(network.link_info(good_link).unwrap().up);
    assert_eq!(network.pool().in_use(), 0);
    // It may come back and behave.
    let mut back = TcpStream::connect(address).unwrap();
    back.write_all(HELLO).unwrap();
    until("the frame", || {
        step(&mut network, start);
        !network.node_mut::<Sink>(sink).unwrap().frames.is_empty()
    });
}

#[test]
fn a_peer_that_reads_nothing_does_not_stall_another_link() {
    let start = Instant::now();
    let (mut network, sink, link) = side(Carries::Frames);
    let (other, other_link) = another(&mut network);
    let (address, other_address) = (listening(&mut network, link), listening(&mut network, other_link));
    let _deaf = TcpStream::connect(address).unwrap();
    let mut reader = TcpStream::connect(other_address).unwrap();
    reader.set_nonblocking(true).unwrap();
    until("both up", || {
        step(&mut network, start);
        [link, other_link].iter().all(|l| network.link_info(*l).unwrap().up)
    });
    // To the deaf one until nothing goes any more: kernel's buffers, ours, and the link's queue are full.
    let mut refused = 0;
    while refused < 50 {
        let node = network.node_mut::<Sink>(sink).unwrap();
        node.to_send.push((id("0.100"), FrameAal::Aal5, vec![1; 60_000]));
        step(&mut network, start);
        refused = network.node_mut::<Sink>(sink).unwrap().refused;
    }
    let mut received = 0;
    for i in 0..100 {
        network.node_mut::<Sink>(other).unwrap().to_send.push((id("0.101"), FrameAal::Aal5, vec![i; 9000]));
        until("the other link's frame", || {
            step(&mut network, start);
            let mut octets = [0; 16_384];
            received += reader.read(&mut octets).unwrap_or(0);
            received >= (usize::from(i) + 1) * 9008
        });
    }
}

#[test]
fn circuits_that_come_and_go_are_told_to_the_peer_at_any_time_and_all_again_to_the_next() {
    let start = Instant::now();
    let (mut network, _, link) = side(Carries::Frames);
    let address = listening(&mut network, link);
    let notice = |aal| Some(CircuitNotice { aal, contract: Contract::default() });
    // More than the connection takes at once.
    for vci in 100..5100 {
        network.set_circuit(link, id(&format!("0.{vci}")), notice(FrameAal::Aal5));
    }
    network.set_circuit(link, id("0.50"), notice(FrameAal::Aal0));
    let texts = |network: &mut Network, stream: &mut TcpStream, n: usize| {
        let mut octets = Vec::new();
        let mut found = Vec::new();
        until("the texts", || {
            step(network, start);
            let mut part = [0; 65_536];
            if let Ok(n) = stream.read(&mut part) {
                octets.extend_from_slice(&part[..n]);
            }
            while octets.len() >= 8 && octets.len() >= 8 + usize::from(octets[7]) {
                let text: Vec<u8> = octets.drain(..8 + usize::from(octets[7])).skip(8).collect();
                found.push(String::from_utf8(text).unwrap());
            }
            found.len() >= n
        });
        found
    };
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let told = texts(&mut network, &mut stream, 5001);
        assert_eq!(told.len(), 5001);
        assert_eq!(told[0], "O 0.50 0.0.50 ubr,aal0:max_sdu=52");
        assert_eq!(told[1], "O 0.100 0.0.100 ubr,aal5:max_sdu=65535");
        network.set_circuit(link, id("0.60"), notice(FrameAal::Aal5));
        assert_eq!(texts(&mut network, &mut stream, 1), ["O 0.60 0.0.60 ubr,aal5:max_sdu=65535"]);
        network.set_circuit(link, id("0.60"), None);
        assert_eq!(texts(&mut network, &mut stream, 1), ["C 0.60"]);
        // And the other way.
        stream.write_all(OPEN).unwrap();
        let mut said = None;
        until("the peer's open", || {
            step(&mut network, start);
            said = network.poll_peer(link);
            said.is_some()
        });
        assert_eq!(said, Some(PeerCircuit { circuit: id("1.42"), opened: Some(Some(5)) }));
        drop(stream);
        until("its end", || {
            step(&mut network, start);
            said = network.poll_peer(link);
            said.is_some()
        });
        assert_eq!(said, Some(PeerCircuit { circuit: id("1.42"), opened: None }));
    }
}

#[test]
fn attempts_to_connect_become_rarer() {
    let (mut network, _, link) = side(Carries::Frames);
    // A port that nobody listens on: bound once and let go.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(network.attach(link, Box::new(Shell::new(Role::Connect(nobody)).unwrap())));
    let (mut now, mut attempts) = (Time::ZERO, Vec::new());
    while attempts.len() < 9 {
        // An attempt that is under way has 10 s.
        let now_is = now;
        let waiting = |n: &Network| {
            let at = n.externals().next().unwrap().1.poll_timeout();
            at.filter(|at| at.since(now_is) != Duration::from_secs(10))
        };
        let before = waiting(&network);
        let real = Instant::now();
        while waiting(&network).is_none() || waiting(&network) == before {
            network.handle_ready(link, true, false, now);
            network.run(now);
            assert!(real.elapsed() < Duration::from_secs(10));
        }
        let next = waiting(&network).unwrap();
        attempts.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(attempts, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
}
