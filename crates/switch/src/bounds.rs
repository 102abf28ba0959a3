//! Other bounds for a switch that runs: what is queued, counted and granted stays.

use crate::change::ChangeError;
use crate::circuit::flag;
use crate::port::Port;
use crate::{Class, Switch};
use wire::DropReason;

impl Switch {
    /// Gives it another number of ports, and another bound on circuits. New ports are up and carry no credits. Growing moves
    /// the tables once, which takes time in proportion to them.
    ///
    /// # Errors
    /// [`ChangeError::NoPort`] with a port in use that would be gone, [`ChangeError::Full`] if more circuits are in use,
    /// [`ChangeError::Busy`] while a transaction is under way; nothing has changed.
    pub fn set_bounds(&mut self, ports: u16, circuits: u32) -> Result<(), ChangeError> {
        if self.changes.is_some() {
            return Err(ChangeError::Busy);
        }
        let max_circuits = crate::max_circuits(circuits);
        let circuits = max_circuits as u32;
        if self.plane.in_use > max_circuits {
            return Err(ChangeError::Full(circuits));
        }
        if let Some(port) = self.last_port_in_use().filter(|port| *port >= ports) {
            return Err(ChangeError::NoPort(port));
        }
        for port in ports.into()..self.plane.ports.len() {
            // Lines of circuits that are gone, whose numbers still wait there.
            (0..Class::COUNT).for_each(|class| self.plane.forget_gone(port, class));
        }
        (self.config.ports, self.config.circuits) = (ports, circuits);
        self.index.set_ports(ports.into());
        self.leaving.set_ports(ports.into());
        self.alarms.end_ports(ports);
        let (config, plane) = (self.config, &mut self.plane);
        plane.max_circuits = max_circuits;
        plane.circuits.reserve_exact((max_circuits + 1).saturating_sub(plane.circuits.len()));
        crate::prefetch::large_pages(&mut plane.circuits);
        plane.store.set_capacity(config.store_cells());
        plane.contracts.set_ports(ports.into());
        plane.contracts.set_most(max_circuits);
        for port in plane.ports.drain(usize::from(ports).min(plane.ports.len())..) {
            plane.gone.add(&port.counters);
            // Its own cells that waited.
            plane.gone.sent.drop_n(DropReason::Closed, port.control.len() as u64);
        }
        plane.ports.resize_with(ports.into(), || Port::new(&config));
        let waiting = config.store_cells().min(circuits as usize);
        plane.pool.reserve(waiting * 2, usize::from(ports) * Class::COUNT);
        Ok(())
    }

    /// The highest port that a circuit comes in or leaves by.
    fn last_port_in_use(&self) -> Option<u16> {
        let comes_in = |port: &u16| self.index.labels((*port).into()).next().is_some();
        let last_in = (0..self.config.ports).rev().find(comes_in);
        let live = self.plane.circuits.iter().filter(|circuit| circuit.is(flag::LIVE) && !circuit.is(flag::ROOT));
        live.map(|circuit| circuit.port).chain(last_in).max()
    }
}
