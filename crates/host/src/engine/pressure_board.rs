//! Where shards tell each other how the applications of their hosts get on: notes that each thread reads when they have
//! changed.

use crate::endpoints::Pressure;
use crate::interface::HostInterface;
use net::topology::{CircuitEnd, Fabric};
use net::{Bell, NodeId};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::CircuitId;

/// A host, its name, and a circuit on which an application of it is behind.
pub(super) type BackloggedCircuit = (NodeId, String, CircuitId);
/// By host: the circuits at whose other ends applications are behind.
pub(super) type Pressed = HashMap<NodeId, HashSet<u32>>;

/// What one shard tells the others.
#[derive(Default)]
pub(super) struct Told {
    pub(super) pressure: Pressure,
    pub(super) backlogged: Vec<BackloggedCircuit>,
}

#[derive(Default)]
pub(super) struct Notes {
    pub(super) told: Vec<Told>,
    /// Version of the backlog set.
    pub(super) changes: u64,
    /// How many results there were, and the last one: what each shard is told.
    pub(super) pressed: (u64, Vec<Pressed>),
}

/// Where shards tell each other how their applications get on.
pub(super) struct PressureBoard {
    pub(super) version: AtomicU64,
    notes: Mutex<Notes>,
    bells: Vec<Arc<Bell>>,
}

impl PressureBoard {
    pub(super) fn new(bells: Vec<Arc<Bell>>) -> Self {
        let told = bells.iter().map(|_| Told::default()).collect();
        let pressed = (0, bells.iter().map(|_| Pressed::new()).collect());
        let notes = Mutex::new(Notes { told, changes: 0, pressed });
        PressureBoard { version: AtomicU64::new(1), notes, bells }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is new: who sleeps is to read it.
    pub(super) fn publish(&self, by: usize) {
        self.version.fetch_add(1, Ordering::Release);
        self.bells.iter().enumerate().filter(|(number, _)| *number != by).for_each(|(_, bell)| bell.rouse());
    }
}

/// What a shard has told, and has read.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) version: u64,
    pub(super) told: Pressure,
    pub(super) everywhere: Pressure,
    pub(super) changes: u64,
    pub(super) pressed: u64,
}

impl Seen {
    /// Whether there is something on the board that was not read.
    pub(super) fn is_stale(&self, board: &PressureBoard) -> bool {
        board.version.load(Ordering::Acquire) != self.version
    }
}

pub(super) fn merge(all: &mut Pressure, one: Pressure) {
    all.pressed |= one.pressed;
    all.stalled |= one.stalled;
    all.changed |= one.changed;
    all.awaited |= one.awaited;
}

/// Where those who send to applications that are behind are. The root of a multipoint circuit is not told of a leaf that
/// is behind: the other leaves would wait for it.
pub(super) fn pressed_by(
    backlogged: &[BackloggedCircuit],
    fabric: &Fabric<HostInterface>,
    hosts: &[NodeId],
) -> Pressed {
    let mut pressed = Pressed::new();
    for (id, name, circuit) in backlogged {
        let here = CircuitEnd::new(name.clone(), *circuit);
        match fabric.find_circuit(&here) {
            Some(described) if described.ends.len() > 2 => {}
            Some(described) => {
                for end in described.ends.iter().filter(|end| **end != here) {
                    if let Some(node) = fabric.node(&end.station) {
                        pressed.entry(node).or_default().insert(end.circuit.key());
                    }
                }
            }
            // A network without descriptions: a label is one circuit.
            None => {
                for node in hosts.iter().filter(|node| *node != id) {
                    pressed.entry(*node).or_default().insert(circuit.key());
                }
            }
        }
    }
    pressed
}
