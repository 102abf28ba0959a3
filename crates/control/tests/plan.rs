//! Plans in virtual time: random changes, with a failure at a random step. The network ends as the plan wants it, or as it was.
//!
//! `CELLWAY_LONG=1 cargo test -p cellway-control --test all plan::` runs ten thousand sequences; `CELLWAY_SEED=N` repeats one.

use crate::chance::{Failing, Random};
use control::adapters::Adapters;
use control::config::Host;
use control::execution::{Execution, Progress};
use control::network_target::{Links, NetworkTarget};
use control::objects::{Change, LinkSpec, Object, ObjectId, Objects, Owner, Spec, difference};
use control::plan::{Plan, roll_back};
use control::step::Model;
use host::HostInterface;
use net::topology::{CircuitDescription, Fabric, LinkDescription};
use net::{FramePool, LinkConfig, Network, SwitchElement, SwitchElementConfig};
use std::collections::BTreeMap;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, Time};

/// A network with everything that control knows of it.
struct World {
    network: Network,
    fabric: Fabric<HostInterface>,
    links: Links,
    adapters: Adapters,
    model: Model,
    applied: Objects,
    now: Time,
}

impl World {
    fn new() -> Self {
        World {
            network: Network::new(FramePool::new(4, 2048)),
            fabric: Fabric::new(),
            links: Links::default(),
            adapters: Adapters::default(),
            model: Model::default(),
            applied: Objects::new(),
            now: Time::ZERO,
        }
    }

    /// Everything that can be told of the network, by name.
    fn fingerprint(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let names: Vec<String> = self.fabric.stations().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let Some(id) = self.fabric.node(&name) else { continue };
            if let Some(host) = self.network.node_mut::<HostInterface>(id) {
                let circuits: Vec<_> = host.circuits().into_iter().map(|c| (c.circuit, c.config)).collect();
                all.insert(name, format!("{} {circuits:?}", host.max_endpoints()));
            } else if let Some(switch) = self.network.node_mut::<SwitchElement>(id) {
                let mut routes: Vec<String> = switch
                    .routes()
                    .map(|r| {
                        let mut to: Vec<_> = r.branches.iter().map(|b| (b.port, b.label)).collect();
                        to.sort_unstable();
                        format!("{} {} {to:?}", r.port, r.label)
                    })
                    .collect();
                routes.sort();
                all.insert(name, format!("{:?} {routes:?}", switch.config()));
            }
        }
        for (id, description, ports) in self.fabric.links() {
            let info = self.network.link_info(id).unwrap();
            let key = self.fabric.link_key(id).unwrap();
            let (promised, labels) = self.fabric.router().link_use(key).unwrap();
            let promised = promised.map(f64::round);
            let text = format!("{ports:?} {:?} {} {promised:?} {labels}", description.config, info.enabled);
            assert_eq!(info.config, &description.config, "the network has what the router thinks");
            all.insert(self.fabric.link_name(id).unwrap(), text);
        }
        for placed in self.fabric.router().circuits() {
            let way: Vec<String> = placed
                .route
                .hops
                .iter()
                .map(|hop| format!("{} {}", self.fabric.router().link_name(hop.link).unwrap(), hop.label))
                .collect();
            all.insert(placed.description.name(), format!("{:?} {way:?}", placed.description.contract));
        }
        all
    }

    /// The model has the same circuits on the same ways.
    fn model_agrees(&self) {
        let ways = |router: &net::topology::Router| -> BTreeMap<String, Vec<String>> {
            let hop = |hop: &net::topology::Hop| format!("{} {}", router.link_name(hop.link).unwrap(), hop.label);
            router.circuits().map(|p| (p.description.name(), p.route.hops.iter().map(hop).collect())).collect()
        };
        assert_eq!(ways(self.fabric.router()), ways(&self.model.router));
    }

    /// Applies what is wanted; `fails_at`: the step that fails. Whether it was done.
    fn apply(&mut self, wanted: &Objects, fails_at: Option<usize>) -> bool {
        let changes: Vec<Change> = difference(&self.applied, wanted);
        let mut plan = Plan::new(&self.applied, &changes, &self.model);
        let Ok(undo) = plan.check(&mut self.model) else { return false };
        let mut execution = Execution::new(plan);
        let mut left = fails_at.unwrap_or(usize::MAX);
        loop {
            let live = NetworkTarget {
                network: &mut self.network,
                fabric: &mut self.fabric,
                links: &mut self.links,
                adapters: &self.adapters,
                placement: &Default::default(),
                now: self.now,
                dropped: Vec::new(),
            };
            let mut target = Failing { live, left };
            let mut slice = 3;
            let progress = execution.run(&mut target, || {
                slice -= 1;
                slice > 0
            });
            left = target.left;
            // The network goes on between slices.
            self.now += Duration::from_micros(10);
            self.network.run(self.now);
            match progress {
                Progress::More => {}
                Progress::Make(need) => execution.give(Ok(control::shells::make(&need, &self.adapters).unwrap())),
                Progress::Done => {
                    self.applied = wanted.clone();
                    return true;
                }
                Progress::Undone(_) => {
                    roll_back(&mut self.model, undo);
                    return false;
                }
            }
        }
    }
}

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
const SWITCHES: [&str; 3] = ["s1", "s2", "s3"];

fn object(spec: Spec, order: usize) -> Object {
    Object { spec, owner: Owner::File, revision: 0, order: order as u64 }
}

/// What somebody might want: often near what there is.
fn change(wanted: &mut Objects, random: &mut Random) {
    let order = wanted.len();
    match random.below(10) {
        0 => {
            let name = HOSTS[random.below(4) as usize];
            let host = Host { max_endpoints: 1 + random.below(4) as usize, ..Host::default() };
            wanted.insert(ObjectId::Station(name.into()), object(Spec::Host(host), order));
        }
        1 => {
            let name = SWITCHES[random.below(3) as usize];
            let config = SwitchElementConfig {
                ports: 2 + random.below(5) as u16,
                kept_ports: 0,
                max_routes: 2 + random.below(20) as usize,
            };
            wanted.insert(ObjectId::Station(name.into()), object(Spec::Switch(config), order));
        }
        2 | 3 => {
            let near =
                if random.one_in(2) { HOSTS[random.below(4) as usize] } else { SWITCHES[random.below(3) as usize] };
            let far = SWITCHES[random.below(3) as usize];
            let config = LinkConfig {
                rate: [None, CellRate::from_cells_per_s(1000.0), CellRate::from_cells_per_s(300.0)]
                    [random.below(3) as usize],
                delay: Duration::from_micros(random.below(3) * 100),
                queue_cells: 16 << random.below(2),
                ..LinkConfig::default()
            };
            let description = LinkDescription { ends: [near.parse().unwrap(), far.parse().unwrap()], config };
            let enabled = !random.one_in(5);
            let id = ObjectId::link(&description, 0);
            let spec = LinkSpec { description, shell: None, follows: None, enabled, signalling: None };
            wanted.insert(id, object(Spec::Link(Box::new(spec)), order));
        }
        4..=6 => {
            let label = 32 + random.below(6);
            let end = |n: u64| format!("{} 0.{label}", HOSTS[n as usize]);
            let mut ends = vec![end(random.below(4)), end(random.below(4))];
            if random.one_in(5) {
                ends.push(end(random.below(4)));
            }
            let pcr = CellRate::from_cells_per_s(100.0 + 100.0 * random.below(3) as f64);
            let cbr = Contract { category: Category::Cbr, pcr, ..Contract::default() };
            let contract = if random.one_in(2) { cbr } else { Contract::default() };
            let ends = ends.iter().map(|end| end.parse().unwrap()).collect();
            let circuit = CircuitDescription { ends, contract, one_way: random.one_in(4), ..Default::default() };
            wanted.insert(ObjectId::circuit(&circuit), object(Spec::Circuit(circuit), order));
        }
        7 => {
            let port = |random: &mut Random| format!("{}:{} 7.*", SWITCHES[random.below(3) as usize], random.below(3));
            let ends = [port(random), port(random)].iter().map(|end| end.parse().unwrap()).collect();
            let circuit = CircuitDescription { ends, ..Default::default() };
            wanted.insert(ObjectId::circuit(&circuit), object(Spec::Circuit(circuit), order));
        }
        _ => {
            let n = random.below(wanted.len().max(1) as u64) as usize;
            if let Some(id) = wanted.keys().nth(n).cloned() {
                wanted.remove(&id);
            }
        }
    }
}

fn sequence(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::new();
    let (mut done, mut failed) = (0, 0);
    for _ in 0..12 {
        let mut wanted = world.applied.clone();
        for _ in 0..1 + random.below(6) {
            change(&mut wanted, &mut random);
        }
        let before = world.fingerprint();
        let fails_at = random.one_in(2).then(|| random.below(8) as usize);
        if world.apply(&wanted, fails_at) {
            done += 1;
            // A restart comes to the same: nothing depends on what there was before but labels and ports.
            let names = |world: &mut World| world.fingerprint().into_keys().collect::<Vec<_>>();
            let mut anew = World::new();
            if anew.apply(&wanted, None) && names(&mut world).iter().all(|name| !name.contains(':')) {
                assert_eq!(names(&mut anew), names(&mut world), "seed {seed}");
            }
        } else {
            failed += 1;
            assert_eq!(world.fingerprint(), before, "seed {seed}: not as it was");
        }
        world.model_agrees();
    }
    assert!(done + failed == 12);
    // All of it can go again, and leaves nothing.
    assert!(world.apply(&Objects::new(), None), "seed {seed}");
    assert!(world.fingerprint().is_empty(), "seed {seed}: {:?}", world.fingerprint());
    assert_eq!(world.network.nodes().count() + world.network.links().count(), 0, "seed {seed}");
}

#[test]
fn random_changes_and_failures_end_in_what_is_wanted_or_in_what_was() {
    if let Some(seed) = std::env::var("CELLWAY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return sequence(seed);
    }
    let n = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000 } else { 300 };
    for seed in 0..n {
        if std::panic::catch_unwind(|| sequence(seed)).is_err() {
            panic!("repeat it: CELLWAY_SEED={seed} cargo test -p cellway-control --test all plan::");
        }
    }
}
