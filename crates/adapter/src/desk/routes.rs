//! The connections of circuits: a circuit from one port to others is a tree of chips, with a label of its own on each
//! link between them.

use crate::apic::{Apic, Connection, ConnectionError, Port};
use net::desk::{LINKS, Place, Plan};
use net::{Label, RouteError};
use std::collections::{BTreeMap, BTreeSet};
use wire::{CircuitId, Vci, Vpi};

/// The first label of a link between chips; those below are reserved (I.361).
const FIRST_VCI: u16 = 32;

/// Where an element's port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) chip: usize,
    pub(super) port: Port,
}

/// A link as a port of its chip.
pub(super) fn link_port(link: usize) -> Port {
    Port::ALL[link.min(LINKS - 1)]
}

/// Where a port of the element is: at a chip's third port, or at an open end.
pub(super) fn at(plan: &Plan, port: u16) -> Option<At> {
    let port = usize::from(port);
    if port < plan.chips() {
        return Some(At { chip: port, port: Port::Memory });
    }
    let end = plan.open_ends().get(port - plan.chips())?;
    let Place { chip, link } = plan.at_end(*end);
    Some(At { chip, port: link_port(link) })
}

/// What comes in by a port of a chip under a label.
type Input = (At, CircuitId);

#[derive(Debug, Clone, Default)]
struct Route {
    /// Ports and labels that it leaves by.
    branches: Vec<(u16, CircuitId)>,
    low_latency: bool,
    /// Its label on each link between chips that it passes.
    labels: BTreeMap<Place, CircuitId>,
    /// Its connections.
    made: BTreeMap<Input, Connection>,
}

/// What comes in at a port of the element under a label.
type Key = (u16, CircuitId);

/// The labels of a link between chips that are in use.
#[derive(Debug, Default)]
struct Used {
    labels: BTreeSet<u16>,
    /// All below are in use, from the first one on.
    free_from: u16,
}

impl Used {
    /// The lowest free one below `end`.
    fn take(&mut self, end: u32) -> Option<u16> {
        let first = u32::from(self.free_from.max(FIRST_VCI));
        let vci = (first..end).map(|vci| vci as u16).find(|vci| !self.labels.contains(vci))?;
        self.labels.insert(vci);
        // The last of all is never passed: it is found to be taken.
        self.free_from = vci.saturating_add(1);
        Some(vci)
    }

    fn release(&mut self, vci: u16) {
        self.labels.remove(&vci);
        self.free_from = self.free_from.min(vci);
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<Key, Route>,
    /// Those of the chips before, which have no connections in these yet.
    former: BTreeMap<Key, Route>,
    /// Labels of each link between chips that are in use.
    used: BTreeMap<Place, Used>,
    /// Those that had no way in other chips.
    lost: u64,
}

fn channel(label: Label) -> Result<CircuitId, RouteError> {
    match label {
        Label::Vc(circuit) => Ok(circuit),
        Label::Vp(_) => Err(RouteError::NoPaths),
    }
}

impl Routes {
    pub(super) fn add(
        &mut self,
        plan: &Plan,
        chips: &mut [Apic],
        from: (u16, Label),
        to: (u16, Label),
        low_latency: bool,
    ) -> Result<(), RouteError> {
        let (key, branch) = ((from.0, channel(from.1)?), (to.0, channel(to.1)?));
        for port in [from.0, to.0] {
            at(plan, port).ok_or(RouteError::NoPort(port))?;
        }
        self.install(plan, chips, key);
        let mut wanted = self.routes.get(&key).cloned().unwrap_or_default();
        if wanted.branches.iter().any(|(port, _)| *port == branch.0) {
            return Err(RouteError::Exists(branch.0));
        }
        wanted.branches.push(branch);
        wanted.low_latency = low_latency;
        self.change(plan, chips, key, wanted)
    }

    /// Whether its cells take the bypass.
    pub(super) fn set_low_latency(
        &mut self,
        plan: &Plan,
        chips: &mut [Apic],
        from: (u16, Label),
        low_latency: bool,
    ) -> Result<(), RouteError> {
        let key = (from.0, channel(from.1)?);
        self.install(plan, chips, key);
        let Some(route) = self.routes.get(&key) else { return Ok(()) };
        let wanted = Route { low_latency, ..route.clone() };
        self.change(plan, chips, key, wanted)
    }

    /// One branch less, or all; whether there was one.
    pub(super) fn remove(
        &mut self,
        plan: &Plan,
        chips: &mut [Apic],
        port: u16,
        label: Label,
        out: Option<u16>,
    ) -> bool {
        let Ok(circuit) = channel(label) else { return false };
        self.install(plan, chips, (port, circuit));
        let Some(route) = self.routes.get(&(port, circuit)) else { return false };
        let mut wanted = route.clone();
        wanted.branches.retain(|(port, _)| out.is_some_and(|out| *port != out));
        let removed = wanted.branches.len() < route.branches.len();
        // Less of what there is always fits.
        removed && self.change(plan, chips, (port, circuit), wanted).is_ok()
    }

    /// The chips are others: they get the connections anew by [`Routes::install_some`]. Gives what is of no use any more, to be dropped.
    pub(super) fn leave_chips(&mut self) -> Routes {
        let mut routes = std::mem::take(&mut self.routes);
        self.former.append(&mut routes);
        Routes { used: std::mem::take(&mut self.used), ..Routes::default() }
    }

    /// Some connections anew, in other chips. False if there were none left to be made.
    pub(super) fn install_some(&mut self, plan: &Plan, chips: &mut [Apic], most: usize) -> bool {
        for n in 0..most {
            let Some(key) = self.former.first_key_value().map(|(key, _)| *key) else { return n > 0 };
            self.install(plan, chips, key);
        }
        true
    }

    /// The connections of a route anew, if other chips have them not yet.
    fn install(&mut self, plan: &Plan, chips: &mut [Apic], key: Key) {
        let Some(route) = self.former.remove(&key) else { return };
        let branches = route.branches.iter().filter(|(port, _)| at(plan, *port).is_some()).copied().collect();
        let wanted = Route { branches, low_latency: route.low_latency, ..Route::default() };
        let fits = at(plan, key.0).is_some() && self.change(plan, chips, key, wanted).is_ok();
        self.lost += u64::from(!fits);
    }

    /// The chips that a route passes.
    pub(super) fn chips_of(&self, port: u16, label: CircuitId) -> Vec<usize> {
        let route = self.routes.get(&(port, label));
        let chips: BTreeSet<usize> =
            route.into_iter().flat_map(|route| route.made.keys()).map(|(at, _)| at.chip).collect();
        chips.into_iter().collect()
    }

    pub(super) fn has(&self, port: u16, label: Label) -> bool {
        let there = |key| self.routes.contains_key(&key) || self.former.contains_key(&key);
        channel(label).is_ok_and(|circuit| there((port, circuit)))
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len() + self.former.len()
    }

    /// Those that had no way in other chips.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Makes a route what is wanted, chip by chip. On an error all is as before.
    fn change(&mut self, plan: &Plan, chips: &mut [Apic], key: Key, mut wanted: Route) -> Result<(), RouteError> {
        let had = self.routes.get(&key).cloned().unwrap_or_default();
        let laid = self.lay(plan, chips, key, &mut wanted);
        let made = laid.and_then(|()| make(chips, &had.made, &wanted.made).map_err(refused));
        if let Err(error) = made {
            self.release(&wanted.labels, &had.labels);
            return Err(error);
        }
        self.release(&had.labels, &wanted.labels);
        if wanted.branches.is_empty() {
            self.routes.remove(&key);
        } else {
            self.routes.insert(key, wanted);
        }
        Ok(())
    }

    /// The labels and connections of a route's tree; links that it has keep their labels.
    fn lay(&mut self, plan: &Plan, chips: &[Apic], key: Key, route: &mut Route) -> Result<(), RouteError> {
        let before = core::mem::take(&mut route.labels);
        route.made.clear();
        let source = at(plan, key.0).ok_or(RouteError::NoPort(key.0))?;
        for (port, label) in route.branches.clone() {
            let end = at(plan, port).ok_or(RouteError::NoPort(port))?;
            let mut input: Input = (source, key.1);
            for link in plan.path(source.chip, end.chip) {
                let place = Place { chip: input.0.chip, link };
                let known = route.labels.get(&place).or_else(|| before.get(&place)).copied();
                let label = match known {
                    Some(label) => label,
                    None => self.take_label(place, chips).ok_or(RouteError::Refused(NO_LABEL))?,
                };
                route.labels.insert(place, label);
                leave(route, input, link_port(link), label);
                // A path has no open ends.
                let Some(next) = plan.next(place) else { return Err(RouteError::NoPort(port)) };
                input = (At { chip: next.chip, port: link_port(next.link) }, label);
            }
            leave(route, input, end.port, label);
        }
        // Those of links that it no longer passes are given back by whoever called.
        Ok(())
    }

    fn take_label(&mut self, place: Place, chips: &[Apic]) -> Option<CircuitId> {
        let most = chips.get(place.chip)?.config().vcis.min(1 << 16);
        let vci = self.used.entry(place).or_default().take(most)?;
        Some(CircuitId { vpi: Vpi::default(), vci: Vci(vci) })
    }

    /// Frees the labels of some links that are not among others.
    fn release(&mut self, some: &BTreeMap<Place, CircuitId>, others: &BTreeMap<Place, CircuitId>) {
        for (place, label) in some.iter().filter(|(place, _)| !others.contains_key(place)) {
            if let Some(used) = self.used.get_mut(place) {
                used.release(label.vci.get());
            }
        }
    }
}

const NO_LABEL: &str = "a link between chips has no label left";

/// A copy more of what comes in somewhere.
fn leave(route: &mut Route, input: Input, port: Port, label: CircuitId) {
    let low_latency = route.low_latency;
    let connection = route.made.entry(input).or_insert(Connection { low_latency, ..Connection::default() });
    *connection = connection.and(port, label);
}

/// Connections of chips, from what they are to what they shall be; on an error they are as before.
fn make(
    chips: &mut [Apic],
    had: &BTreeMap<Input, Connection>,
    wanted: &BTreeMap<Input, Connection>,
) -> Result<(), ConnectionError> {
    let mut done = Vec::new();
    for (input, connection) in wanted {
        let before = had.get(input);
        if before == Some(connection) {
            continue;
        }
        let (At { chip, port }, label) = *input;
        let made = match before {
            Some(_) => chips[chip].reconnect(port, label, *connection),
            None => chips[chip].connect(port, label, *connection),
        };
        if let Err(error) = made {
            for (At { chip, port }, label) in done {
                match had.get(&(At { chip, port }, label)) {
                    // Room for what was there is there again.
                    Some(before) => drop(chips[chip].reconnect(port, label, *before)),
                    None => drop(chips[chip].disconnect(port, label)),
                }
            }
            return Err(error);
        }
        done.push(*input);
    }
    for (At { chip, port }, label) in had.keys().filter(|input| !wanted.contains_key(input)) {
        chips[*chip].disconnect(*port, *label);
    }
    // What waits for an output that the route has no more would leave under a label that another may have.
    for (input, connection) in had {
        let kept = wanted.get(input).map_or([None; 3], |wanted| wanted.outputs);
        let chip = &mut chips[input.0.chip];
        for (port, (label, kept)) in Port::ALL.into_iter().zip(connection.outputs.into_iter().zip(kept)) {
            if let Some(label) = label.filter(|label| kept != Some(*label)) {
                chip.drop_waiting(port, label);
            }
        }
    }
    Ok(())
}

fn refused(error: ConnectionError) -> RouteError {
    RouteError::Refused(match error {
        ConnectionError::Label(_) => "a chip's table ends before this label: take a VPI below 16, a VCI below 4096",
        ConnectionError::InUse(_) => "the label has a connection already",
        ConnectionError::TableFull(_) => "a chip's table has no entry left",
        ConnectionError::CacheFull(_) => "a chip has no place left for low-latency connections",
        ConnectionError::Unknown(_) => "a connection is gone",
    })
}
