//! Other bounds for a switch that runs: what is queued, counted and granted stays.
//!
//! Nothing takes long where the switch runs. What its tables grow by is allocated by whoever asks for more ([`Room`]),
//! and nothing in them moves. Ports come and go a few at a time ([`Switch::settle`]).

use crate::active::{Block, Pool};
use crate::change::ChangeError;
use crate::circuit::Circuit;
use crate::contracts::{AtPort, Entry, Tally};
use crate::index::ROOTS;
use crate::port::Port;
use crate::table::part;
use crate::{Class, Switch, SwitchConfig, max_circuits};
use std::collections::TryReserveError;
use wire::{Cell, DropReason};

/// What a switch's tables grow by: memory that was allocated elsewhere. What is left of it afterwards was not needed,
/// or is what the switch does not need any more; it is to be dropped where nobody waits.
#[derive(Debug, Default)]
pub struct Room {
    circuits: Vec<Circuit>,
    entries: Vec<Entry>,
    tallies: Vec<Tally>,
    cells: Vec<Cell>,
    free: Vec<u32>,
    blocks: Vec<Block>,
    ports: Vec<Port>,
    roots: [Vec<[u32; ROOTS]>; 2],
    at_ports: Vec<AtPort>,
    gone: Vec<Port>,
}

impl Room {
    /// For a switch that has some bounds and is to have others.
    ///
    /// # Errors
    /// There is no such memory.
    pub fn new(had: &SwitchConfig, wanted: &SwitchConfig) -> Result<Self, TryReserveError> {
        let lines = |config: &SwitchConfig| max_circuits(config.circuits) + 1;
        let blocks = |config: &SwitchConfig| Pool::blocks_for(config.waiting(), config.queues());
        let ports = (had.ports.into(), wanted.ports.into());
        Ok(Room {
            circuits: part(lines(had), lines(wanted))?,
            entries: part(lines(had), lines(wanted))?,
            tallies: part(lines(had), lines(wanted))?,
            cells: part(had.store_cells(), wanted.store_cells())?,
            free: part(had.store_cells(), wanted.store_cells())?,
            blocks: part(blocks(had), blocks(wanted))?,
            ports: part(ports.0, ports.1)?,
            roots: [part(ports.0, ports.1)?, part(ports.0, ports.1)?],
            at_ports: part(ports.0, ports.1)?,
            gone: Vec::new(),
        })
    }
}

impl Switch {
    /// Gives it another number of ports, and another bound on circuits, all at once: [`Switch::begin_bounds`] and
    /// [`Switch::settle`].
    ///
    /// # Errors
    /// As there; nothing has changed.
    pub fn set_bounds(&mut self, ports: u16, circuits: u32) -> Result<(), ChangeError> {
        let wanted = SwitchConfig { ports, circuits, ..self.config };
        let mut room = Room::new(&self.config, &wanted).map_err(|_| ChangeError::NoMemory)?;
        self.begin_bounds(ports, circuits, &mut room)?;
        while self.settle(usize::MAX, &mut room) {}
        Ok(())
    }

    /// Gives it another bound on circuits, and begins to give it another number of ports, which [`Switch::settle`] goes
    /// on with. New ports are down and carry no credits. `room` is what its tables grow by.
    ///
    /// # Errors
    /// [`ChangeError::NoPort`] with a port in use that would be gone, [`ChangeError::Full`] if more circuits are in
    /// use, [`ChangeError::Busy`] while a transaction is under way or ports are being taken away; nothing has changed.
    pub fn begin_bounds(&mut self, ports: u16, circuits: u32, room: &mut Room) -> Result<(), ChangeError> {
        if self.changes.is_some() || self.plane.ports.len() > self.config.ports.into() {
            return Err(ChangeError::Busy);
        }
        let max_circuits = max_circuits(circuits);
        let circuits = max_circuits as u32;
        if self.plane.in_use > max_circuits {
            return Err(ChangeError::Full(circuits));
        }
        if let Some((port, _)) = self.plane.ends.last_key_value().filter(|(port, _)| **port >= ports) {
            return Err(ChangeError::NoPort(*port));
        }
        self.wanted_ports = ports;
        self.config.circuits = circuits;
        let wanted = SwitchConfig { ports, ..self.config };
        let plane = &mut self.plane;
        plane.max_circuits = max_circuits;
        plane.circuits.add_part(&mut room.circuits, max_circuits + 1);
        plane.contracts.set_most(max_circuits, &mut room.entries, &mut room.tallies);
        plane.store.set_capacity(wanted.store_cells(), &mut room.cells, &mut room.free);
        plane.pool.add_part(&mut room.blocks, wanted.waiting(), wanted.queues());
        plane.ports.add_part(&mut room.ports, ports.into());
        plane.contracts.ports().add_part(&mut room.at_ports, ports.into());
        let [roots, leaving] = &mut room.roots;
        self.index.roots().add_part(roots, ports.into());
        self.leaving.roots().add_part(leaving, ports.into());
        if ports < self.config.ports {
            self.config.ports = ports;
            self.alarms.end_ports(ports);
        }
        Ok(())
    }

    /// Makes or takes away some of the ports that are to come or go, `most` at most. Those that are gone are put to
    /// what is left of `room`. False if there are none.
    pub fn settle(&mut self, most: usize, room: &mut Room) -> bool {
        let (there, wanted) = (self.plane.ports.len(), usize::from(self.wanted_ports));
        if there > wanted {
            self.end_ports(most.min(there - wanted), room);
        }
        for _ in there..wanted.min(there.saturating_add(most)) {
            self.plane.ports.push(Port::new(&self.config));
            self.plane.contracts.ports().push(AtPort::NONE);
            self.index.roots().push([0; ROOTS]);
            self.leaving.roots().push([0; ROOTS]);
        }
        let ports = self.plane.ports.len().min(wanted);
        self.config.ports = ports as u16;
        there != wanted
    }

    /// Takes the last ports away, which no circuit uses.
    fn end_ports(&mut self, ports: usize, room: &mut Room) {
        let left = self.plane.ports.len() - ports;
        for port in left..self.plane.ports.len() {
            self.drop_indications(port as u16);
            let plane = &mut self.plane;
            // Lines of circuits that are gone, whose numbers still wait there.
            (0..Class::COUNT).for_each(|class| plane.forget_gone(port, class));
            let port = &plane.ports[port];
            plane.gone.add(&port.counters);
            // Its own cells that waited.
            plane.gone.sent.drop_n(DropReason::Closed, port.control.len() as u64);
        }
        let plane = &mut self.plane;
        plane.used_ports.retain(|port| usize::from(*port) < left);
        // Those that have ever been up; what the others are is dropped in no time.
        room.gone.extend(plane.ports.take_from(left, Port::owns_memory));
        plane.contracts.ports().truncate(left);
        self.index.roots().truncate(left);
        self.leaving.roots().truncate(left);
    }
}
