//! What one call takes of a peer, and what the machine keeps of its circuits.

use super::*;
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network};
use wire::Time;

/// A link of frames to nowhere, and its machine.
struct Side {
    network: Network,
    link: LinkId,
    machine: Machine,
}

impl Side {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(8, 2048));
        let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
        Side { network, link, machine: Machine::new() }
    }

    fn receive(&mut self, octets: &[u8]) -> usize {
        let machine = &mut self.machine;
        self.network.external(self.link, Time::ZERO, |io| machine.receive(octets, io)).unwrap().unwrap()
    }

    /// All of it, in as many calls as that takes.
    fn receive_all(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            let taken = self.receive(octets);
            octets = &octets[taken..];
        }
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.network.link_info(self.link).unwrap().from_b.sent.dropped(reason)
    }
}

fn text(text: &str) -> Vec<u8> {
    let head = Head { circuit: CircuitId::default(), octets: text.len() }.to_octets();
    [&head[..], text.as_bytes()].concat()
}

#[test]
fn one_call_takes_a_bounded_number_of_texts_and_of_frames_that_are_dropped() {
    let empty = Head { circuit: CircuitId::new(0, 42).unwrap(), octets: 0 }.to_octets().to_vec();
    for message in [text("C 0.5"), text("?"), empty] {
        let octets = message.repeat(5000);
        let mut side = Side::new();
        let taken = side.receive(&octets);
        assert!((1..=MESSAGES * message.len()).contains(&taken), "{taken} octets at once");
        side.receive_all(&octets[taken..]);
        let malformed = if message.ends_with(b"5") { 0 } else { 5000 };
        assert_eq!(side.dropped(DropReason::Malformed), malformed);
    }
}

#[test]
fn openings_beyond_the_bound_are_counted_and_the_circuits_of_a_gone_peer_are_closed_for_the_next() {
    let mut side = Side::new();
    let id = |n: usize| CircuitId::new(1, n as u16).unwrap();
    let open = |n| text(&Control::Open { circuit: id(n), qos: "ubr,aal5" }.to_string());
    for first in [0, 20_000] {
        for n in 0..peer::MAX_CIRCUITS + 3 {
            side.receive_all(&open(first + n));
        }
        assert_eq!(side.machine.peer_circuits().count(), peer::MAX_CIRCUITS);
        // While nobody has fetched the closings of the first peer.
        while first > 0 && side.machine.poll_peer().is_some_and(|event| event.opened.is_none()) {}
        while side.machine.poll_peer().is_some() {}
        let machine = &mut side.machine;
        side.network.external(side.link, Time::ZERO, |io| machine.disconnect(io)).unwrap();
    }
    assert_eq!(side.dropped(DropReason::TableFull), 6);
    let closed: Vec<_> = std::iter::from_fn(|| side.machine.poll_peer()).collect();
    assert_eq!(closed.len(), peer::MAX_CIRCUITS);
    assert!(closed.iter().all(|event| event.opened.is_none() && event.circuit >= id(20_000)));
}
