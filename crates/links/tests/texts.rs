//! Control texts of ATM over TCP by the thousand, from a peer and to it: no round takes or tells many of them at once.

use links::tcp::{Role, Shell};
use net::{Carries, CircuitNotice, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeIo};
use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::{CircuitId, DropReason, Time};

/// Takes nothing and sends nothing.
struct Nobody;

impl Node for Nobody {
    fn run(&mut self, _: &mut NodeIo<'_>, _: Time) -> bool {
        false
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
    address: SocketAddr,
    start: Instant,
}

impl Side {
    fn listening() -> Self {
        let mut network = Network::new(FramePool::new(8, 2048));
        let node = network.add_node("nobody", Box::new(Nobody));
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
        let shell = Shell::new(Role::Listen("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = shell.local_address().unwrap();
        assert!(network.attach(link, Box::new(shell)));
        Side { network, link, address, start: Instant::now() }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// The socket is looked at once.
    fn look(&mut self) {
        self.network.handle_ready(self.link, true, false, self.now());
    }

    fn malformed(&self) -> u64 {
        self.network.link_info(self.link).unwrap().from_b.sent.dropped(DropReason::Malformed)
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_round_takes_few_of_a_peers_texts_and_the_next_ones_take_the_rest() {
    const TEXTS: usize = 20_000;
    let mut side = Side::listening();
    let mut peer = TcpStream::connect(side.address).unwrap();
    peer.write_all(b"\0\0\0\0\0\0\0\x05C 0.5").unwrap();
    until("the link is up", || {
        side.look();
        side.network.link_info(side.link).unwrap().up
    });
    peer.set_nonblocking(true).unwrap();
    let octets = b"\0\0\0\0\0\0\0\x01?".repeat(TEXTS);
    let mut written = 0;
    // As much as the sockets hold, before any of it is read.
    until("the first texts are at the socket", || {
        written += peer.write(&octets[written..]).unwrap_or(0);
        written > octets.len() / 2
    });
    std::thread::sleep(Duration::from_millis(50));
    let mut most = 0;
    until("all texts are counted", || {
        written += peer.write(&octets[written..]).unwrap_or(0);
        let before = side.malformed();
        side.look();
        most = most.max(side.malformed() - before);
        while side.network.run(side.now()) {}
        side.malformed() == TEXTS as u64
    });
    assert!((1..=1024).contains(&most), "{most} texts in one look");
}

#[test]
fn a_round_tells_few_circuits_and_the_next_ones_tell_the_rest_without_being_asked() {
    const CIRCUITS: u16 = 5000;
    let mut side = Side::listening();
    for vci in 0..CIRCUITS {
        let notice = CircuitNotice { aal: FrameAal::Aal5, contract: Contract::default() };
        side.network.set_circuit(side.link, CircuitId::new(1, vci).unwrap(), Some(notice));
    }
    for _ in 0..2 {
        let mut peer = TcpStream::connect(side.address).unwrap();
        peer.set_nonblocking(true).unwrap();
        until("the link is up", || {
            side.look();
            side.network.link_info(side.link).unwrap().up
        });
        let (mut octets, mut most) = (Vec::new(), 0);
        until("all circuits are told", || {
            let told = |octets: &[u8]| octets.iter().filter(|octet| **octet == b'O').count();
            loop {
                let before = told(&octets);
                let busy = side.network.run(side.now());
                std::thread::sleep(Duration::from_micros(20));
                let mut part = vec![0; 1 << 20];
                if let Ok(n) = peer.read(&mut part) {
                    octets.extend_from_slice(&part[..n]);
                }
                most = most.max(told(&octets) - before);
                if !busy {
                    break told(&octets) == usize::from(CIRCUITS);
                }
            }
        });
        assert!((1..=1024).contains(&most), "{most} circuits in one round");
        drop(peer);
        until("the link is down", || {
            side.look();
            !side.network.link_info(side.link).unwrap().up
        });
    }
}
