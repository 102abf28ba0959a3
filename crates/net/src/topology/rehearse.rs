//! A description tried out on a network of its own, before the real one is touched: what cannot be is known while all
//! that exists still stands.

use super::{CircuitOptions, CircuitTable, Description, Fabric, Station, TopologyError};
use crate::frame::FramePool;
use crate::network::Network;
use crate::node::{Node, NodeIo};
use crate::switch::SwitchConfig;
use std::any::Any;
use std::collections::BTreeSet;
use wire::{CircuitId, Time};

/// A host that knows its circuits and does nothing.
#[derive(Debug, Default)]
struct Stand(BTreeSet<(u16, CircuitId)>);

impl Node for Stand {
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

impl CircuitTable for Stand {
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, _: &CircuitOptions) -> Result<(), String> {
        if self.0.insert((port, circuit)) { Ok(()) } else { Err("it is in use".into()) }
    }

    fn remove_circuit(&mut self, port: u16, circuit: CircuitId) {
        self.0.remove(&(port, circuit));
    }
}

impl Description {
    /// Whether a network can be made so: names, ports, ways, labels and what links can carry. `switch` says how each
    /// switch is configured.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn rehearse(&self, mut switch: impl FnMut(&str) -> SwitchConfig) -> Result<(), TopologyError> {
        let mut network = Network::new(FramePool::new(1, 64));
        let mut fabric = Fabric::<Stand>::new();
        for (name, _) in self.stations.iter().filter(|(_, station)| **station == Station::Switch) {
            fabric.add_switch(&mut network, name, switch(name))?;
        }
        fabric.apply(&mut network, self, |_| Stand::default()).map(drop)
    }
}
