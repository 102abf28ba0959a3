//! Who makes way for applications that are behind: hosts say who is, and who sends to them is told.

use super::Core;
use crate::endpoints::Pressure;
use crate::interface::HostInterface;
use net::NodeId;
use net::topology::CircuitEnd;
use std::collections::{HashMap, HashSet};
use wire::{CircuitId, Time};

impl Core {
    /// Before a round: who has caught up since the last one is behind no more, so that nobody's tick passes for it.
    pub(super) fn look_at_those_behind(&mut self, now: Time) {
        if !self.pressure.is_some_and(|pressure| pressure.pressed) {
            return;
        }
        let mut changed = false;
        for id in &self.hosts {
            changed |= self.network.peek_node::<HostInterface>(*id).is_some_and(|host| host.look_at_those_behind(now));
        }
        if changed {
            self.share_pressure(now);
        }
    }

    /// Hears of all hosts how their applications get on. The hosts have this thread's processor in common; but who is behind
    /// slows down those who send to it, and nobody else.
    pub(super) fn share_pressure(&mut self, now: Time) {
        let network = &mut self.network;
        let mut everywhere = Pressure::default();
        for id in &self.hosts {
            let Some(host) = network.peek_node::<HostInterface>(*id) else { continue };
            let here = host.poll_pressure(now);
            everywhere.pressed |= here.pressed;
            everywhere.stalled |= here.stalled;
            everywhere.rested |= here.rested;
            everywhere.room = everywhere.room.min(here.room);
            everywhere.changed |= here.changed;
        }
        if everywhere.changed || std::mem::take(&mut self.hosts_changed) {
            self.press_senders();
        }
        let network = &mut self.network;
        everywhere.changed = false;
        everywhere.awaited =
            self.hosts.iter().any(|id| network.peek_node::<HostInterface>(*id).is_some_and(|host| host.awaits()));
        if self.pressure == Some(everywhere) {
            return;
        }
        self.pressure = Some(everywhere).filter(|p| !p.rested);
        for id in &self.hosts {
            if let Some(host) = network.node_mut::<HostInterface>(*id) {
                host.handle_pressure(everywhere, now);
            }
        }
    }

    /// Tells the hosts at which of their circuits' other ends applications are behind.
    fn press_senders(&mut self) {
        let mut behind: Vec<(NodeId, CircuitId)> = Vec::new();
        for id in &self.hosts {
            if let Some(host) = self.network.peek_node::<HostInterface>(*id) {
                behind.extend(host.behind_circuits().map(|circuit| (*id, circuit)));
            }
        }
        let mut pressed: HashMap<NodeId, HashSet<u32>> = HashMap::new();
        if !behind.is_empty() {
            let names: HashMap<NodeId, String> = self.network.nodes().map(|(id, name)| (id, name.to_owned())).collect();
            for (id, circuit) in behind {
                let Some(name) = names.get(&id) else { continue };
                let here = CircuitEnd::new(name.clone(), circuit);
                match self.fabric.find_circuit(&here) {
                    Some(described) => {
                        for end in described.ends.iter().filter(|end| **end != here) {
                            if let Some(node) = self.fabric.node(&end.station) {
                                pressed.entry(node).or_default().insert(end.circuit.key());
                            }
                        }
                    }
                    // A network without descriptions: a label is one circuit.
                    None => {
                        for node in self.hosts.iter().filter(|node| **node != id) {
                            pressed.entry(*node).or_default().insert(circuit.key());
                        }
                    }
                }
            }
        }
        for id in &self.hosts {
            let circuits = pressed.remove(id).unwrap_or_default();
            let Some(host) = self.network.peek_node::<HostInterface>(*id) else { continue };
            if host.set_pressed(circuits) {
                // Some of its endpoints rest no more.
                self.network.node_mut::<HostInterface>(*id);
            }
        }
    }
}
