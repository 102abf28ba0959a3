//! A description's network in virtual time: made and changed by the plans and steps that a daemon uses.

use super::SimulationError;
use crate::World;
use control::adapters::Adapters;
use control::config::Config;
use control::execution::{Execution, Progress};
use control::network_target::{Links, NetworkTarget};
use control::objects::{Objects, difference};
use control::plan::Plan;
use control::shells;
use control::sources::file;
use control::step::Model;
use host::HostInterface;
use net::{FramePool, LinkId, SwitchElement};
use std::collections::BTreeSet;

/// Frames of the network, and octets of each.
const FRAMES: [usize; 2] = [512, 65_568];
/// Reports of drops are by place, direction and reason.
pub(super) type Drops = Vec<(String, &'static str, &'static str, u64)>;

/// See the module's head.
pub(super) struct Simulated {
    pub(super) world: World<HostInterface>,
    links: Links,
    adapters: Adapters,
    model: Model,
    applied: Objects,
    watched: BTreeSet<LinkId>,
    seed: u64,
}

impl Simulated {
    /// The network of a description.
    pub(super) fn new(config: Config, seed: u64) -> Result<Self, SimulationError> {
        let mut simulated = Simulated {
            world: World::with_pool(seed, FramePool::new(FRAMES[0], FRAMES[1])),
            links: Links::default(),
            adapters: Adapters::default(),
            model: Model::default(),
            applied: Objects::new(),
            watched: BTreeSet::new(),
            seed,
        };
        simulated.apply(config)?;
        Ok(simulated)
    }

    /// Makes the network what a description says. All faults draw from the simulation's seed.
    pub(super) fn apply(&mut self, mut config: Config) -> Result<(), SimulationError> {
        if let Some(link) = config.shells.keys().next().and_then(|nth| config.description.links.get(*nth)) {
            let [a, b] = &link.ends;
            return Err(SimulationError::Outside(format!("{a} - {b}")));
        }
        for (link, nth) in config.description.links.iter_mut().zip(0..) {
            if let Some(faults) = &mut link.config.faults {
                faults.seed = self.seed.wrapping_mul(1009).wrapping_add(nth);
            }
        }
        let wanted = file::objects(&config);
        let mut plan = Plan::new(&self.applied, &difference(&self.applied, &wanted), &self.model);
        plan.check(&mut self.model).map_err(|problems| {
            let says: Vec<String> = problems.iter().map(ToString::to_string).collect();
            SimulationError::Network(says.join("\n"))
        })?;
        self.perform(Execution::new(plan))?;
        self.applied = wanted;
        self.watch();
        Ok(())
    }

    fn perform(&mut self, mut execution: Execution) -> Result<(), SimulationError> {
        let failed = |e: &dyn std::fmt::Display| SimulationError::Network(format!("{e:#}"));
        loop {
            let now = self.world.now();
            let (network, fabric) = self.world.parts();
            let mut target = NetworkTarget {
                network,
                fabric,
                links: &mut self.links,
                adapters: &self.adapters,
                placement: &Default::default(),
                now,
                dropped: Vec::new(),
            };
            match execution.run(&mut target, || true) {
                Progress::More => {}
                Progress::Make(need) => {
                    execution.give(shells::make(&need, &self.adapters).map_err(|e| format!("{e:#}")));
                }
                Progress::Done => return Ok(()),
                Progress::Undone(failure) => return Err(failed(&failure)),
            }
        }
    }

    /// Puts the cells of new links into the trace.
    fn watch(&mut self) {
        let all: Vec<LinkId> = self.world.parts().1.links().map(|(id, ..)| id).collect();
        for link in all {
            if self.watched.insert(link) {
                self.world.watch(link);
            }
        }
    }

    /// Takes links up or down: one by its name, or all of a station. False if there are none.
    pub(super) fn set_up(&mut self, link: Option<&str>, station: Option<&str>, up: bool) -> bool {
        let (network, fabric) = self.world.parts();
        let wanted: Vec<LinkId> = match (link, station) {
            (Some(name), _) => fabric.find_link(name).into_iter().collect(),
            (None, Some(station)) => {
                let at = |ends: &[net::topology::Attachment; 2]| ends.iter().any(|end| end.station == station);
                fabric.links().filter(|(_, link, _)| at(&link.ends)).map(|(id, ..)| id).collect()
            }
            (None, None) => Vec::new(),
        };
        wanted.iter().for_each(|id| _ = network.set_link_up(*id, up));
        !wanted.is_empty()
    }

    /// A host.
    pub(super) fn host(&mut self, name: &str) -> Option<&mut HostInterface> {
        let (network, fabric) = self.world.parts();
        network.node_mut(fabric.node(name)?)
    }

    /// What links and switches have dropped.
    pub(super) fn drops(&mut self) -> Drops {
        let mut drops = Drops::new();
        let (network, fabric) = self.world.parts();
        for info in network.links() {
            let Some(name) = fabric.link_name(info.id) else { continue };
            for (from, line) in [("from_a", &info.from_a), ("from_b", &info.from_b)] {
                drops.extend(line.sent.drops().map(|(reason, n)| (name.clone(), from, reason.name(), n)));
            }
        }
        let nodes: Vec<_> = network.nodes().map(|(id, name)| (id, name.to_owned())).collect();
        for (id, name) in nodes {
            let Some(switch) = network.node_mut::<SwitchElement>(id) else { continue };
            for port in 0..switch.config().ports {
                let counters = switch.port_drops(port);
                drops.extend(
                    counters.drops().map(|(reason, n)| (format!("{name}:{port}"), "through", reason.name(), n)),
                );
            }
        }
        drops
    }
}
