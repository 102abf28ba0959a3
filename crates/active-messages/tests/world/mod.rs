//! Nodes in virtual time, each with a circuit to each other one, which loses, repeats and delays what it carries.

use active_messages::{Config, Node, PeerId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BinaryHeap;
use std::time::Duration;
use wire::Time;

/// What circuits do to messages: chances in a thousand, and by how much a message may be late.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub lost: u32,
    pub repeated: u32,
    pub damaged: u32,
    pub late: Duration,
}

impl Faults {
    pub const NONE: Faults = Faults { lost: 0, repeated: 0, damaged: 0, late: Duration::ZERO };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    /// Turned round: the heap gives the greatest.
    at: std::cmp::Reverse<(Time, u64)>,
    from: usize,
    to: usize,
    octets: Vec<u8>,
}

/// See the module's head.
pub struct World<S> {
    pub nodes: Vec<Node<S>>,
    pub states: Vec<S>,
    pub now: Time,
    pub carried: u64,
    faults: Faults,
    random: StdRng,
    flights: BinaryHeap<Flight>,
}

/// What a circuit takes, at least.
pub const DELAY: Duration = Duration::from_micros(30);

impl<S> World<S> {
    pub fn new(states: Vec<S>, config: Config, faults: Faults, seed: u64) -> Self {
        let count = states.len();
        World {
            nodes: (0..count).map(|_| Node::new(count - 1, config)).collect(),
            states,
            now: Time::ZERO,
            carried: 0,
            faults,
            random: StdRng::seed_from_u64(seed),
            flights: BinaryHeap::new(),
        }
    }

    /// How node `at` names node `other`.
    pub fn peer(at: usize, other: usize) -> PeerId {
        PeerId(if other < at { other } else { other - 1 })
    }

    /// Which node `at` means by a peer.
    pub fn node(at: usize, peer: PeerId) -> usize {
        if peer.0 < at { peer.0 } else { peer.0 + 1 }
    }

    fn launch(&mut self, from: usize, to: usize, mut octets: Vec<u8>) {
        let random = &mut self.random;
        let Faults { lost, repeated, damaged, late } = self.faults;
        if random.random_range(0..1000) < lost {
            return;
        }
        let copies = if random.random_range(0..1000) < repeated { 2 } else { 1 };
        if random.random_range(0..1000) < damaged {
            // AAL5 finds damage; what it does not find are octets that somebody else wrote.
            octets.truncate(random.random_range(0..8));
        }
        for _ in 0..copies {
            let late = Duration::from_nanos(random.random_range(0..=late.as_nanos() as u64));
            self.carried += 1;
            let at = std::cmp::Reverse((self.now + DELAY + late, self.carried));
            self.flights.push(Flight { at, from, to, octets: octets.clone() });
        }
    }

    /// Sends all that can be sent.
    fn transmit(&mut self) {
        for from in 0..self.nodes.len() {
            for peer in self.nodes[from].peers() {
                while let Some(octets) = self.nodes[from].poll_transmit(peer, self.now).map(<[u8]>::to_vec) {
                    self.nodes[from].sent(peer, self.now);
                    self.launch(from, Self::node(from, peer), octets);
                }
            }
        }
    }

    /// One event: something arrives, or a timer goes off. False, if nothing will ever happen.
    pub fn step(&mut self) -> bool {
        self.transmit();
        let flight = self.flights.peek().map(|flight| flight.at.0.0);
        let timer = self.nodes.iter().filter_map(Node::poll_timeout).min();
        let Some(next) = flight.into_iter().chain(timer).min() else { return false };
        self.now = next.max(self.now);
        while let Some(flight) = self.flights.peek() {
            if flight.at.0.0 > self.now {
                break;
            }
            let Some(Flight { from, to, octets, .. }) = self.flights.pop() else { break };
            self.nodes[to].handle(Self::peer(to, from), &octets, &mut self.states[to], self.now);
        }
        for node in &mut self.nodes {
            node.handle_timeout(self.now);
        }
        true
    }
}
