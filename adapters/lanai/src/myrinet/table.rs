//! The routes of circuits between the ports of a Myrinet: what a message's tag means to whoever gets it.

use net::{Label, RouteError};
use std::collections::HashMap;
use wire::{CircuitId, DropReason};

/// Routes at most.
pub(super) const MAX_ROUTES: usize = 65_536;

/// A way out: port, and label there.
type Branch = (u16, Label);

#[derive(Debug, Default)]
struct Route {
    branches: Vec<Branch>,
    /// Of a route with several branches: the group that its receivers are in.
    group: Option<u16>,
    /// Tells it from the route before it of the same port and label: of that one PDUs may be under way.
    number: u16,
}

/// What a PDU's sender does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the host of this port.
    Port(u16),
    /// To all of a group.
    Group(u16),
}

#[derive(Debug, Default)]
pub(super) struct Table {
    routes: HashMap<(u16, Label), Route>,
    /// Groups that no route has.
    spare: Vec<u16>,
    groups: u16,
    /// The last route's number.
    last: u16,
}

/// A group whose members are others from now on: the sender, then the receivers; none if it is no group any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Regrouped {
    pub(super) group: u16,
    pub(super) members: Vec<u16>,
}

impl Table {
    /// One branch more.
    pub(super) fn add(
        &mut self,
        ports: usize,
        from: (u16, Label),
        to: Branch,
    ) -> Result<Option<Regrouped>, RouteError> {
        if usize::from(from.0.max(to.0)) >= ports {
            return Err(RouteError::NoPort(from.0.max(to.0)));
        }
        if from.1.is_path() != to.1.is_path() {
            return Err(RouteError::Mixed);
        }
        let known = self.routes.get(&from);
        if known.is_some_and(|route| route.branches.iter().any(|branch| branch.0 == to.0)) {
            return Err(RouteError::Exists(to.0));
        }
        if known.is_none() && self.routes.len() >= MAX_ROUTES {
            return Err(RouteError::Full(MAX_ROUTES));
        }
        let needs_group = known.is_some_and(|route| route.branches.len() == 1);
        let is_new = known.is_none();
        let group = if needs_group { Some(self.group()?) } else { None };
        if is_new {
            self.last = self.last.wrapping_add(1);
        }
        let route = self.routes.entry(from).or_insert_with(|| Route { number: self.last, ..Route::default() });
        route.group = route.group.or(group);
        route.branches.push(to);
        Ok(regrouped(from.0, route))
    }

    fn group(&mut self) -> Result<u16, RouteError> {
        if let Some(group) = self.spare.pop() {
            return Ok(group);
        }
        // Group 0 is none.
        self.groups = self.groups.checked_add(1).ok_or(RouteError::Full(usize::from(u16::MAX)))?;
        Ok(self.groups)
    }

    /// One branch less, or all; whether there was one, and the group that is another.
    pub(super) fn remove(&mut self, from: (u16, Label), port: Option<u16>) -> (bool, Option<Regrouped>) {
        let Some(route) = self.routes.get_mut(&from) else { return (false, None) };
        let before = route.branches.len();
        route.branches.retain(|branch| port.is_some_and(|port| branch.0 != port));
        let removed = route.branches.len() < before;
        let mut change = regrouped(from.0, route);
        if route.branches.len() < 2
            && let Some(group) = route.group.take()
        {
            self.spare.push(group);
            change = Some(Regrouped { group, members: Vec::new() });
        }
        if route.branches.is_empty() {
            self.routes.remove(&from);
        }
        (removed, change)
    }

    fn find(&self, port: u16, circuit: CircuitId) -> Option<&Route> {
        let channel = self.routes.get(&(port, Label::Vc(circuit)));
        channel.or_else(|| self.routes.get(&(port, Label::Vp(circuit.vpi))))
    }

    /// Where a PDU goes that came in at a port, and the number of its route.
    pub(super) fn way(&self, port: u16, circuit: CircuitId) -> Option<(Way, u16)> {
        let route = self.find(port, circuit)?;
        let way = match route.group {
            Some(group) => Way::Group(group),
            None => Way::Port(route.branches.first()?.0),
        };
        Some((way, route.number))
    }

    /// The circuit under which a PDU of a route goes out at a port.
    pub(super) fn out(&self, from: u16, circuit: CircuitId, number: u16, port: u16) -> Result<CircuitId, DropReason> {
        let route = self.find(from, circuit).ok_or(DropReason::UnknownCircuit)?;
        if route.number != number {
            return Err(DropReason::Closed);
        }
        let branch = route.branches.iter().find(|branch| branch.0 == port);
        Ok(match branch.ok_or(DropReason::UnknownCircuit)?.1 {
            Label::Vc(circuit) => circuit,
            Label::Vp(vpi) => CircuitId { vpi, vci: circuit.vci },
        })
    }

    pub(super) fn has(&self, from: (u16, Label)) -> bool {
        self.routes.contains_key(&from)
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }
}

fn regrouped(sender: u16, route: &Route) -> Option<Regrouped> {
    let members = core::iter::once(sender).chain(route.branches.iter().map(|branch| branch.0)).collect();
    Some(Regrouped { group: route.group?, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(vci: u16) -> Label {
        Label::Vc(CircuitId::new(0, vci).unwrap())
    }

    #[test]
    fn a_second_branch_makes_a_group_and_without_it_the_group_is_another_routes() {
        let mut table = Table::default();
        let circuit = CircuitId::new(0, 40).unwrap();
        assert_eq!(table.add(4, (0, vc(40)), (1, vc(50))), Ok(None));
        assert_eq!(table.way(0, circuit), Some((Way::Port(1), 1)));
        let regrouped = table.add(4, (0, vc(40)), (2, vc(60))).unwrap().unwrap();
        assert_eq!(regrouped, Regrouped { group: 1, members: vec![0, 1, 2] });
        assert_eq!(table.way(0, circuit), Some((Way::Group(1), 1)));
        assert_eq!(table.out(0, circuit, 1, 2).ok(), CircuitId::new(0, 60));
        let unknown = Err(DropReason::UnknownCircuit);
        assert_eq!((table.out(0, circuit, 1, 3), table.out(1, circuit, 1, 2)), (unknown, unknown));
        assert_eq!(table.out(0, circuit, 2, 2), Err(DropReason::Closed), "a PDU of a later route");
        assert_eq!(table.add(4, (0, vc(40)), (2, vc(61))), Err(RouteError::Exists(2)));
        assert_eq!(table.add(4, (0, vc(40)), (4, vc(61))), Err(RouteError::NoPort(4)));
        let (removed, change) = table.remove((0, vc(40)), Some(1));
        assert!(removed);
        assert_eq!(change, Some(Regrouped { group: 1, members: vec![] }));
        assert_eq!(table.way(0, circuit), Some((Way::Port(2), 1)));
        assert_eq!(table.remove((0, vc(40)), None), (true, None));
        assert_eq!((table.len(), table.remove((0, vc(40)), None)), (0, (false, None)));
    }
}
