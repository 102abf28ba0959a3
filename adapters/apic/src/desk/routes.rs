//! The connections of circuits: a circuit from one port to others is a tree of chips, with a label of its own on each
//! link between them.

use super::connections::{At, Connections, Input, make};
use super::plan::{ChipPort, LINKS, Plan};
use super::unlaid::{Age, Key, Unlaid};
use crate::{Apic, Connection, Port};
use net::{Label, RouteError};
use std::collections::{BTreeMap, BTreeSet};
use wire::{CircuitId, Vci, Vpi};

/// The first label of a link between chips; those below are reserved (I.361).
const FIRST_VCI: u16 = 32;

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
    let ChipPort { chip, link } = plan.at_end(*end);
    Some(At { chip, port: link_port(link) })
}

/// Of links between chips.
type Labels = BTreeMap<ChipPort, CircuitId>;
/// A port and a label that a route leaves by.
type Branch = (u16, CircuitId);

#[derive(Debug, Clone, Default)]
struct Route {
    branches: Vec<Branch>,
    low_latency: bool,
    /// Its label on each link between chips that it passes.
    labels: Labels,
    /// Its connections. A branch whose port the chips do not have has none.
    made: Connections,
}

impl Route {
    /// Takes one branch, or all; whether there was one.
    fn leave_out(&mut self, out: Option<u16>) -> bool {
        let before = self.branches.len();
        self.branches.retain(|(port, _)| out.is_some_and(|out| *port != out));
        self.branches.len() < before
    }
}

/// What a branch adds to a route.
#[derive(Debug, Default)]
struct Growth {
    labels: Labels,
    /// The connection that it has where the branch begins, if there is one.
    had: Connections,
    /// That one with an output more, and the new ones behind it.
    wanted: Connections,
}

impl Growth {
    /// A copy more of what comes in somewhere.
    fn leave(&mut self, input: Input, port: Port, label: CircuitId, low_latency: bool) {
        let had = self.had.get(&input).copied();
        let new = || had.unwrap_or(Connection { low_latency, ..Connection::default() });
        let connection = self.wanted.entry(input).or_insert_with(new);
        *connection = connection.and(port, label);
    }
}

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
    /// Those that have no connections in these chips.
    unlaid: Unlaid<Route>,
    /// Labels of each link between chips that are in use.
    used: BTreeMap<ChipPort, Used>,
    /// Those that other chips had no room for, ever.
    lost: u64,
    /// Links and ends that routes were led over, ever: what they cost.
    laid: u64,
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
        if self.unlaid.has(&key) {
            return Err(RouteError::Refused(NO_WAY));
        }
        let known = self.routes.get(&key);
        if known.is_some_and(|route| route.branches.iter().any(|(port, _)| *port == branch.0)) {
            return Err(RouteError::Exists(branch.0));
        }
        if let Some(route) = known.filter(|route| route.low_latency != low_latency) {
            let mut wanted = Route { low_latency, ..route.clone() };
            wanted.branches.push(branch);
            return self.change(plan, chips, key, wanted);
        }
        let mut route = self.routes.remove(&key).unwrap_or_else(|| Route { low_latency, ..Route::default() });
        let added = self.add_branch(plan, chips, key, &mut route, branch);
        if !route.branches.is_empty() {
            self.routes.insert(key, route);
        }
        added
    }

    /// Leads a route to one port more. On an error all is as before.
    fn add_branch(
        &mut self,
        plan: &Plan,
        chips: &mut [Apic],
        key: Key,
        route: &mut Route,
        branch: Branch,
    ) -> Result<(), RouteError> {
        let growth = self.grow(plan, chips, key, route, &Labels::new(), branch)?;
        if let Err(error) = make(chips, &growth.had, &growth.wanted) {
            self.release(&growth.labels, &Labels::new());
            return Err(error);
        }
        route.branches.push(branch);
        route.labels.extend(growth.labels);
        route.made.extend(growth.wanted);
        Ok(())
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
        if let Some(route) = self.unlaid.get_mut(&key) {
            route.low_latency = low_latency;
        }
        // It is asked for each branch, and the first one changes all.
        let Some(route) = self.routes.get(&key).filter(|route| route.low_latency != low_latency) else { return Ok(()) };
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
        let key = (port, circuit);
        if let Some(route) = self.unlaid.get_mut(&key) {
            let removed = route.leave_out(out);
            if route.branches.is_empty() {
                self.unlaid.remove(&key);
            }
            return removed;
        }
        let Some(mut wanted) = self.routes.get(&key).cloned() else { return false };
        // Less of what there is always fits.
        wanted.leave_out(out) && self.change(plan, chips, key, wanted).is_ok()
    }

    /// The chips are others: they get the connections anew by [`Routes::install_some`]. Gives what is of no use any more, to be dropped.
    pub(super) fn leave_chips(&mut self) -> Routes {
        self.unlaid.leave(std::mem::take(&mut self.routes));
        Routes { used: std::mem::take(&mut self.used), ..Routes::default() }
    }

    /// Leads routes over other chips: over about `most` links, the last route whole. False if there were none left to be led.
    pub(super) fn install_some(&mut self, plan: &Plan, chips: &mut [Apic], most: usize) -> bool {
        let begun = self.laid;
        while self.laid - begun < most as u64 {
            let Some((key, age, route)) = self.unlaid.pop() else { return self.laid > begun };
            self.install_one(plan, chips, key, age, route);
        }
        true
    }

    /// The connections of a route anew, if other chips have them not yet.
    fn install(&mut self, plan: &Plan, chips: &mut [Apic], key: Key) {
        if let Some((age, route)) = self.unlaid.take(key) {
            self.install_one(plan, chips, key, age, route);
        }
    }

    /// The connections of a route of other chips. Without room for it, or without its ports, it stays as it is until the chips are others.
    fn install_one(&mut self, plan: &Plan, chips: &mut [Apic], key: Key, age: Age, route: Route) {
        self.laid += 1;
        let wanted = Route { labels: Labels::new(), made: Connections::new(), ..route };
        let has_ports = at(plan, key.0).is_some() && wanted.branches.iter().any(|(port, _)| at(plan, *port).is_some());
        let left = Route { branches: wanted.branches.clone(), low_latency: wanted.low_latency, ..Route::default() };
        if !has_ports || self.change(plan, chips, key, wanted).is_err() {
            self.unlaid.strand(key, age, left);
            self.lost += u64::from(age == 0);
        }
    }

    /// The chips that a route passes.
    pub(super) fn chips_of(&self, port: u16, label: CircuitId) -> Vec<usize> {
        let route = self.routes.get(&(port, label));
        let chips: BTreeSet<usize> =
            route.into_iter().flat_map(|route| route.made.keys()).map(|(at, _)| at.chip).collect();
        chips.into_iter().collect()
    }

    pub(super) fn has(&self, port: u16, label: Label) -> bool {
        let there = |key| self.routes.contains_key(&key) || self.unlaid.has(&key);
        channel(label).is_ok_and(|circuit| there((port, circuit)))
    }

    /// Those that have a way, or are to have one.
    pub(super) fn len(&self) -> usize {
        self.routes.len() + self.unlaid.left()
    }

    /// Those that other chips had no room for, ever.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Makes a route what is wanted, chip by chip. On an error all is as before.
    fn change(&mut self, plan: &Plan, chips: &mut [Apic], key: Key, mut wanted: Route) -> Result<(), RouteError> {
        let had = self.routes.get(&key).cloned().unwrap_or_default();
        let laid = self.lay(plan, chips, key, &mut wanted);
        let made = laid.and_then(|()| make(chips, &had.made, &wanted.made));
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
        for branch in route.branches.clone().into_iter().filter(|(port, _)| at(plan, *port).is_some()) {
            let growth = self.grow(plan, chips, key, route, &before, branch)?;
            route.labels.extend(growth.labels);
            route.made.extend(growth.wanted);
        }
        // Those of links that it no longer passes are given back by whoever called.
        Ok(())
    }

    /// What a branch adds to a route. The ways from one chip are a tree: it begins behind the last link that the route has on its
    /// way. Links that had a label `before` keep it. On an error no label is taken.
    fn grow(
        &mut self,
        plan: &Plan,
        chips: &[Apic],
        key: Key,
        route: &Route,
        before: &Labels,
        (port, label): Branch,
    ) -> Result<Growth, RouteError> {
        let source = at(plan, key.0).ok_or(RouteError::NoPort(key.0))?;
        let end = at(plan, port).ok_or(RouteError::NoPort(port))?;
        // Links, and where they lead, from the end back to what the route has already.
        let (mut way, mut chip, mut input) = (Vec::new(), end.chip, (source, key.1));
        while let Some(place) = plan.last(source.chip, chip) {
            // It leads there, and is no open end.
            let ChipPort { link, .. } = plan.next(place).ok_or(RouteError::NoPort(port))?;
            let to = At { chip, port: link_port(link) };
            if let Some(label) = route.labels.get(&place) {
                input = (to, *label);
                break;
            }
            way.push((place, to));
            chip = place.chip;
        }
        let mut growth = Growth::default();
        growth.had.extend(route.made.get(&input).map(|connection| (input, *connection)));
        self.laid += (way.len() + 1) as u64;
        for (place, to) in way.iter().rev() {
            let label = before.get(place).copied().or_else(|| self.take_label(*place, chips));
            let Some(label) = label else {
                self.release(&growth.labels, before);
                return Err(RouteError::Refused(NO_LABEL));
            };
            growth.labels.insert(*place, label);
            growth.leave(input, link_port(place.link), label, route.low_latency);
            input = (*to, label);
        }
        growth.leave(input, end.port, label, route.low_latency);
        Ok(growth)
    }

    fn take_label(&mut self, place: ChipPort, chips: &[Apic]) -> Option<CircuitId> {
        let most = chips.get(place.chip)?.config().vcis.min(1 << 16);
        let vci = self.used.entry(place).or_default().take(most)?;
        Some(CircuitId { vpi: Vpi::default(), vci: Vci(vci) })
    }

    /// Frees the labels of some links that are not among others.
    fn release(&mut self, some: &Labels, others: &Labels) {
        for (place, label) in some.iter().filter(|(place, _)| !others.contains_key(place)) {
            if let Some(used) = self.used.get_mut(place) {
                used.release(label.vci.get());
            }
        }
    }
}

const NO_LABEL: &str = "a link between chips has no label left";
const NO_WAY: &str = "the chips have no room for what the circuit has already";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::desk::Shape;

    #[test]
    fn a_tree_costs_its_links_and_ends_whether_it_grows_or_is_laid_anew() {
        let label = Label::Vc(CircuitId { vpi: Vpi::default(), vci: Vci(40) });
        for shape in [Shape::Chain, Shape::Ring, Shape::Shuffle] {
            let plan = Plan::new(shape, 256).unwrap();
            let chips = || (0..256).map(|_| Apic::new(Config::default())).collect::<Vec<_>>();
            let (mut routes, mut first, mut second) = (Routes::default(), chips(), chips());
            for to in 1..256 {
                routes.add(&plan, &mut first, (0, label), (to, label), false).unwrap();
            }
            assert_eq!(routes.laid, 255 + 255, "{shape:?}");
            let grown = routes.routes.clone();
            routes.leave_chips();
            assert!(routes.install_some(&plan, &mut second, 1));
            assert_eq!(routes.laid, 2 * (255 + 255) + 1, "{shape:?}");
            let anew = routes.routes.values().map(|route| (&route.labels, &route.made));
            assert!(anew.eq(grown.values().map(|route| (&route.labels, &route.made))), "{shape:?}");
        }
    }
}
