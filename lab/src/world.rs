//! A network of named hosts and switches in virtual time.

use crate::trace::Trace;
use net::topology::{CircuitDescription, CircuitTable, Fabric, LinkDescription, TopologyError};
use net::{
    FrameAal, FramePool, LinkConfig, LinkId, Network, NodeId, SwitchElement, SwitchElementConfig, TapBuffer, TapConfig,
};
use std::time::Duration;
use traffic::Contract;
use wire::Time;

/// Rounds at one moment after which something is taken to spin without end.
const MAX_ROUNDS: usize = 1_000_000;

type Action<H> = Box<dyn FnOnce(&mut World<H>)>;

/// A test world whose hosts are of type `H`. See the crate's head.
pub struct World<H> {
    seed: u64,
    now: Time,
    network: Network,
    fabric: Fabric<H>,
    trace: Trace,
    links: Vec<LinkId>,
    seen: TapBuffer,
    tap: TapConfig,
    grain: Duration,
    schedule: Vec<(Time, Action<H>)>,
}

impl<H> std::fmt::Debug for World<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).field("now", &self.now).finish_non_exhaustive()
    }
}

impl<H: CircuitTable + 'static> World<H> {
    /// An empty world at moment zero, with 64 frames.
    pub fn new(seed: u64) -> Self {
        World::with_pool(seed, FramePool::new(64, 65_568))
    }

    /// An empty world with these frames.
    pub fn with_pool(seed: u64, pool: FramePool) -> Self {
        World::of(seed, Network::new(pool))
    }

    /// An empty world whose network has so many shards, each with 64 frames. Stations are in them in turn.
    pub fn sharded(seed: u64, shards: usize) -> Self {
        World::of(seed, Network::sharded(shards, 64, 65_568))
    }

    fn of(seed: u64, network: Network) -> Self {
        let tap = TapConfig { circuits: Vec::new(), records: 4096, octets: 1 << 20 };
        World {
            seed,
            now: Time::ZERO,
            network,
            fabric: Fabric::new(),
            trace: Trace::default(),
            links: Vec::new(),
            seen: TapBuffer::new(&tap),
            tap,
            grain: Duration::from_nanos(1),
            schedule: Vec::new(),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Looks at what is due at multiples of `grain` only, as a live engine that wakes now and then; scheduled actions keep
    /// their moments. Cells of a link with a rate still get a moment each, to the nanosecond: they are moved later, and
    /// many at a time, which is what makes coarse grains fast.
    pub fn set_grain(&mut self, grain: Duration) {
        self.grain = grain.max(Duration::from_nanos(1));
    }

    /// Says how late whoever runs the network may look after it: what a live one allows for with coarse grains. Call it before
    /// there are circuits.
    pub fn set_round(&mut self, round: Duration) {
        self.fabric.set_round(round);
    }

    /// The network itself.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The network and the names in it, for whoever builds it by other means than this world's.
    pub fn parts(&mut self) -> (&mut Network, &mut Fabric<H>) {
        (&mut self.network, &mut self.fabric)
    }

    /// A link that was added by such means: its cells are in the trace.
    pub fn watch(&mut self, link: LinkId) {
        self.network.set_tap(link, Some(self.tap.clone()));
        self.links.push(link);
    }

    /// Adds a host.
    ///
    /// # Panics
    /// If the name is taken: the test is wrong.
    pub fn add_host(&mut self, name: &str, host: H) {
        let id = self.fabric.add_host(&mut self.network, name, host).expect("a name of its own");
        self.place(id);
    }

    /// Adds a switch.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn add_switch(&mut self, name: &str) {
        let id =
            self.fabric.add_switch(&mut self.network, name, SwitchElementConfig::default()).expect("a name of its own");
        self.place(id);
    }

    /// Puts a new station into the shard whose turn it is.
    fn place(&mut self, id: NodeId) {
        let turn = self.network.nodes().count() - 1;
        self.network.move_node(id, turn % self.network.shards());
    }

    /// Adds a link. Its faults get a seed from the world's and the link's number.
    ///
    /// # Panics
    /// If an end does not exist or is taken.
    pub fn add_link(&mut self, a: &str, b: &str, mut config: LinkConfig) -> LinkId {
        if let Some(faults) = &mut config.faults {
            faults.seed = self.seed.wrapping_mul(1009).wrapping_add(self.links.len() as u64);
        }
        let ends = [a, b].map(|e| e.parse().expect("an end of a link"));
        let id = self.fabric.add_link(&mut self.network, &LinkDescription { ends, config }).expect("two free ends");
        self.network.set_tap(id, Some(self.tap.clone()));
        self.links.push(id);
        id
    }

    /// Adds a circuit between `ends`, like `alpha 0.100`; more than two: from the first to the others.
    ///
    /// # Errors
    /// As the topology refuses it.
    pub fn add_circuit(&mut self, ends: &[&str], aal: FrameAal, contract: Contract) -> Result<(), TopologyError> {
        let ends = ends.iter().map(|e| e.parse()).collect::<Result<_, _>>()?;
        self.fabric.add_circuit(&mut self.network, &CircuitDescription { ends, aal, contract, ..Default::default() })
    }

    /// Removes the circuit with these ends.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_circuit(&mut self, ends: &[&str]) -> Result<(), TopologyError> {
        let ends = ends.iter().map(|e| e.parse()).collect::<Result<_, _>>()?;
        let circuit = CircuitDescription { ends, ..Default::default() };
        self.fabric.remove_circuit(&mut self.network, &circuit).map(drop)
    }

    /// A host.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn host(&mut self, name: &str) -> &mut H {
        let id = self.fabric.node(name).expect("a host of this name");
        self.network.node_mut(id).expect("a host")
    }

    /// A switch.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn switch(&mut self, name: &str) -> &mut SwitchElement {
        let id = self.fabric.node(name).expect("a switch of this name");
        self.network.node_mut(id).expect("a switch")
    }

    /// Does something at a moment.
    pub fn at(&mut self, at: Time, action: impl FnOnce(&mut World<H>) + 'static) {
        let place = self.schedule.partition_point(|(t, _)| *t <= at);
        self.schedule.insert(place, (at, Box::new(action)));
    }

    /// What happens next after all that can happen now.
    fn next(&self) -> Option<Time> {
        let grain = self.grain.as_nanos() as u64;
        let due = |at: Time| if grain == 1 { at } else { Time::from_nanos(at.as_nanos().div_ceil(grain) * grain) };
        let scheduled = self.schedule.first().map(|(t, _)| *t);
        scheduled.into_iter().chain(self.network.poll_timeout().map(due)).min()
    }

    /// Everything that happens at this moment.
    fn step(&mut self) {
        while self.schedule.first().is_some_and(|(t, _)| *t <= self.now) {
            let (_, action) = self.schedule.remove(0);
            action(self);
        }
        for round in 0.. {
            let busy = self.network.run(self.now);
            for (number, link) in self.links.iter().enumerate() {
                if self.network.drain_tap(*link, &mut self.seen) {
                    self.trace.add_tap(number, &self.seen);
                }
            }
            if !busy {
                break;
            }
            assert!(round < MAX_ROUNDS, "the network spins at {}", self.now);
        }
    }

    /// Lets time pass until nothing is left to happen, or for `limit`. Returns whether all came to rest.
    ///
    /// # Panics
    /// If the counters of an element do not add up ([`crate::sums`]).
    pub fn settle(&mut self, limit: Duration) -> bool {
        let rested = self.pass(limit);
        let wrong = crate::sums::mismatches(&mut self.network);
        assert!(wrong.is_empty(), "seed {}: not all is accounted for:\n{}", self.seed, wrong.join("\n"));
        rested
    }

    /// The same without a look at the counters, which takes longer the more ports there are.
    pub fn pass(&mut self, limit: Duration) -> bool {
        let end = self.now + limit;
        loop {
            self.step();
            match self.next() {
                None => return true,
                Some(at) if at > end => {
                    self.now = end;
                    return false;
                }
                // A node that asks for a moment that has passed is run once more, a nanosecond later.
                Some(at) => self.now = if at > self.now { at } else { self.now + Duration::from_nanos(1) },
            }
        }
    }

    /// Everything that happens at this moment, without a step of the clock.
    pub fn run_moment(&mut self) {
        self.step();
    }

    /// Sets the clock to the next moment at which something happens, not beyond `until`. Returns whether there is one; the
    /// time is `until` otherwise.
    pub fn move_on(&mut self, until: Time) -> bool {
        match self.next().filter(|at| *at <= until) {
            None => {
                self.now = until.max(self.now);
                false
            }
            Some(at) => {
                self.now = if at > self.now { at } else { self.now + Duration::from_nanos(1) };
                true
            }
        }
    }

    /// The trace so far, with the counters of all links.
    pub fn trace(&self) -> Trace {
        let mut trace = self.trace;
        for link in self.network.links() {
            for counters in [link.from_a.sent, link.from_a.delivered, link.from_b.sent, link.from_b.delivered] {
                for n in [counters.cells, counters.pdus, counters.octets, counters.dropped_total()] {
                    trace.add(&n.to_be_bytes());
                }
            }
        }
        trace
    }
}
