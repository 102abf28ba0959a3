//! Heartbeats on real sockets: a peer that is gone without a word takes the link down, and one that is back takes it up; a
//! peer of the version before keeps its link.

use links::udp::{Form, Shell};
use net::{End, FramePool, LinkConfig, LinkId, Network, Node, NodeIo};
use std::any::Any;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, CircuitId, Time};

/// Takes what comes.
#[derive(Default)]
struct Sink(usize);

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let n = io.cells_in(0).len();
        io.consume(0, n);
        self.0 += n;
        n > 0
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Side {
    network: Network,
    link: LinkId,
    begun: Instant,
}

impl Side {
    fn new(socket: UdpSocket, peer: SocketAddr) -> Self {
        let mut network = Network::new(FramePool::new(1, 64));
        let node = network.add_node("sink", Box::<Sink>::default());
        let link = network.connect(End::Port(node, 0), End::External, LinkConfig::default()).unwrap();
        assert!(network.attach(link, Box::new(Shell::with_socket(socket, peer, Form::Batch).unwrap())));
        Side { network, link, begun: Instant::now() }
    }

    fn step(&mut self) {
        let now = Time::ZERO + self.begun.elapsed();
        self.network.handle_ready(self.link, true, false, now);
        self.network.run(now);
    }

    fn is_up(&self) -> bool {
        self.network.link_info(self.link).unwrap().up
    }

    fn status(&self) -> String {
        self.network.externals().next().unwrap().1.status()
    }
}

/// Runs sides until something holds.
fn until(what: &str, sides: &mut [&mut Side], holds: impl Fn(&[&mut Side]) -> bool) {
    let begun = Instant::now();
    while !holds(sides) {
        assert!(begun.elapsed() < Duration::from_secs(60), "not in time: {what}: {}", sides[0].status());
        sides.iter_mut().for_each(|side| side.step());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn sockets() -> ([UdpSocket; 2], [SocketAddr; 2]) {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    (sockets, addresses)
}

#[test]
fn a_peer_that_is_gone_takes_the_link_down_until_it_is_back() {
    let ([a, b], [at_a, at_b]) = sockets();
    let (mut here, mut there) = (Side::new(a, at_b), Side::new(b, at_a));
    // Each hears the other's first heartbeat, and then that it is heard: a few rounds, on one machine.
    for _ in 0..50 {
        here.step();
        there.step();
    }
    assert!(here.is_up() && there.is_up() && !here.status().contains("hear"), "{}", here.status());
    drop(there);
    until("down", &mut [&mut here], |sides| !sides[0].is_up());
    assert!(here.status().contains("no heartbeat for"), "{}", here.status());
    let mut again = Side::new(UdpSocket::bind(at_b).unwrap(), at_a);
    until("up", &mut [&mut here, &mut again], |sides| sides[0].is_up() && !sides[0].status().contains("hear"));
}

#[test]
fn a_link_taken_down_at_one_end_is_down_at_the_other_and_comes_back_with_it() {
    let ([a, b], [at_a, at_b]) = sockets();
    let (mut here, mut there) = (Side::new(a, at_b), Side::new(b, at_a));
    there.network.set_link_up(there.link, false);
    until("down", &mut [&mut here, &mut there], |sides| !sides[0].is_up());
    assert!(here.status().contains("taken down at the far end"), "{}", here.status());
    there.network.set_link_up(there.link, true);
    until("up", &mut [&mut here, &mut there], |sides| sides[0].is_up() && sides[1].is_up());
}

#[test]
fn a_peer_of_the_version_before_gets_its_cells_through_and_keeps_its_link() {
    let ([a, old], [at_a, at_old]) = sockets();
    let mut here = Side::new(a, at_old);
    old.connect(at_a).unwrap();
    let mut batch = [0; wire::udp::MAX_OCTETS];
    let header = CellHeader { circuit: CircuitId::new(0, 100).unwrap(), ..CellHeader::default() };
    let octets = wire::udp::emit(1, &[Cell::new(header, [0; 48])], &mut batch);
    old.send(&batch[..octets]).unwrap();
    // Longer than a silence that would take down a peer with heartbeats.
    let begun = Instant::now();
    until("three seconds", &mut [&mut here], |_| begun.elapsed() > Duration::from_secs(3));
    assert!(here.is_up());
    assert_eq!(here.network.link_info(here.link).unwrap().from_b.sent.cells, 1);
}
