//! Other bounds of a switch while it runs, in pieces of which none takes long: see [`::switch::Switch::begin_bounds`].

use super::route::RouteError;
use super::{PortState, SwitchElement, SwitchElementConfig, visit};
use std::collections::TryReserveError;

/// What a switch's tables grow by, allocated where nobody waits for it; and afterwards what is to be dropped there.
#[derive(Debug, Default)]
pub struct Room {
    cells: ::switch::Room,
    ports: Vec<PortState>,
    gone: Vec<PortState>,
}

impl Room {
    /// For a switch that has some bounds and is to have others.
    ///
    /// # Errors
    /// There is no such memory.
    pub fn new(had: SwitchElementConfig, wanted: SwitchElementConfig) -> Result<Self, TryReserveError> {
        Ok(Room {
            cells: ::switch::Room::new(&had.of_cells(), &wanted.of_cells())?,
            ports: ::switch::part(had.ports.into(), wanted.ports.into())?,
            gone: Vec::new(),
        })
    }
}

impl SwitchElement {
    /// Gives it other bounds, all at once. What waits and what was counted stays.
    ///
    /// # Errors
    /// A port or a route beyond them is in use; nothing has changed.
    pub fn set_config(&mut self, config: SwitchElementConfig) -> Result<(), RouteError> {
        let mut room = Room::new(self.config, config).map_err(|_| ::switch::ChangeError::NoMemory)?;
        self.begin_config(config, &mut room)?;
        while self.settle(usize::MAX, &mut room) {}
        Ok(())
    }

    /// Begins to give it other bounds: [`SwitchElement::settle`] goes on. `room` is what its tables grow by. What waits
    /// and what was counted stays.
    ///
    /// # Errors
    /// A port or a route beyond them is in use; nothing has changed.
    pub fn begin_config(&mut self, config: SwitchElementConfig, room: &mut Room) -> Result<(), RouteError> {
        if self.routes.len() - self.free.len() > config.max_routes {
            return Err(RouteError::Full(config.max_routes));
        }
        let cells = config.of_cells();
        self.cells.begin_bounds(cells.ports, cells.circuits, &mut room.cells)?;
        self.ports.add_part(&mut room.ports, config.ports.into());
        self.linked.retain(|port| *port < config.ports);
        self.config = config;
        Ok(())
    }

    /// Makes or takes away some of the ports that are to come or go, `most` at most. False if there are none.
    pub fn settle(&mut self, most: usize, room: &mut Room) -> bool {
        let (there, wanted) = (self.ports.len(), usize::from(self.config.ports));
        for _ in there..wanted.min(there.saturating_add(most)) {
            self.ports.push(PortState::default());
        }
        let left = wanted.max(there.saturating_sub(most));
        if there > left {
            let mut gone = self.ports.take_from(left, PortState::owns_memory);
            for port in gone.iter_mut().filter(|port| port.gateway.has_orphans()) {
                // Frames of their routes that are gone have not been given back yet.
                if let Some(first) = self.ports.get_mut(0) {
                    first.gateway.adopt(&mut port.gateway);
                    visit(&mut self.linked, 0);
                }
            }
            room.gone.append(&mut gone);
        }
        self.cells.settle(most, &mut room.cells) | (there != wanted)
    }

    /// Whether there is a port that is neither yet to come nor about to go.
    pub(super) fn has_port(&self, port: u16) -> bool {
        port < self.config.ports && usize::from(port) < self.ports.len()
    }
}
