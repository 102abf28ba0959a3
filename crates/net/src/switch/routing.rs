//! Routes that are added, changed and removed: in the cell switch, and in the tables by which frames find them.

use super::gateway::Leaving;
use super::route::{Branch, Route, RouteError, RouteOptions, RouteTable, key};
use super::table::KeyTable;
use super::{Label, SwitchElement, sums};
use crate::label_change::LabelChange;
use crate::sparse::SparseCounters;
use switch::Transaction;
use wire::{CircuitId, Vci};

impl SwitchElement {
    /// Lets what comes in at `port` under `label` go out at `out_port` under `out_label`. A second call with another
    /// `out_port` makes the route point-to-multipoint. One direction only: a circuit both ways is two routes.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    pub fn add_route(
        &mut self,
        (port, label): (u16, Label),
        (out_port, out_label): (u16, Label),
        options: RouteOptions,
    ) -> Result<(), RouteError> {
        if !self.has_port(port) || !self.has_port(out_port) {
            return Err(RouteError::NoPort(port.max(out_port)));
        }
        if label.is_path() != out_label.is_path() {
            return Err(RouteError::Mixed);
        }
        let known = self.table(port, label).get(key(label));
        let branches = known.and_then(|r| self.routes[r as usize].as_ref()).map_or(&[][..], |route| &route.branches);
        if branches.iter().any(|branch| branch.port == out_port) {
            return Err(RouteError::Exists(out_port));
        }
        if known.is_none() && self.routes.len() - self.free.len() >= self.config.max_routes {
            return Err(RouteError::Full(self.config.max_routes));
        }
        let mut change = Transaction::new();
        let profile = options.profile(self.cells.config().queue_cells);
        change.add((port, label), (out_port, out_label), &profile);
        self.cells.apply(change).map_err(|failed| failed.error)?;
        let index = known.unwrap_or_else(|| {
            let index = self.free.pop().unwrap_or_else(|| {
                self.routes.push(None);
                self.routes.len() as u32 - 1
            });
            self.routes[index as usize] = Some(Box::new(Route::new(port, label, options)));
            self.table_mut(port, label).insert(key(label), index);
            index
        });
        if let Some(route) = self.routes[index as usize].as_mut() {
            route.managed = options.is_managed();
            route.branches.push(Branch { port: out_port, label: out_label, sent: SparseCounters::default() });
        }
        if known.is_none() && self.ports[usize::from(port)].link.is_some() {
            self.label_changes.note(LabelChange::In(port, label));
        }
        let state = &mut self.ports[out_port as usize];
        let leaving = if out_label.is_path() { &state.out_vps } else { &state.out_vcs };
        // Two routes may leave under one label.
        if leaving.get(key(out_label)).is_none() && state.link.is_some() {
            self.label_changes.note(LabelChange::Out(out_port, out_label));
        }
        let at = state.gateway.add(Leaving::new(out_label, index, port, options.aal));
        let table = if out_label.is_path() { &mut state.out_vps } else { &mut state.out_vcs };
        table.insert(key(out_label), at);
        Ok(())
    }

    /// Gives the branch of a route that leaves by `to` another contract: what waits stays, and schedules begin anew.
    /// Credits and the adaptation layer stay as they are.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    pub fn change_route(
        &mut self,
        from: (u16, Label),
        to: (u16, Label),
        options: RouteOptions,
    ) -> Result<(), RouteError> {
        if !self.has_port(from.0) || !self.has_port(to.0) {
            return Err(RouteError::NoPort(from.0.max(to.0)));
        }
        self.cells.change_profile(from, to, &options.profile(self.cells.config().queue_cells))?;
        let route = self.table(from.0, from.1).get(key(from.1));
        if let Some(route) = route.and_then(|at| self.routes[at as usize].as_mut()) {
            route.managed = options.is_managed();
        }
        Ok(())
    }

    /// Ends one branch of a route, or with `out_port` `None` the route. Returns whether it was there.
    pub fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        if !self.has_port(port) {
            return false;
        }
        let Some(index) = self.table(port, label).get(key(label)) else { return false };
        let Some(route) = self.routes[index as usize].as_mut() else { return false };
        let ends = |branch: &mut Branch| out_port.is_none_or(|port| port == branch.port);
        let ended: Vec<Branch> = route.branches.extract_if(.., ends).collect();
        let empty = route.branches.is_empty();
        let mut change = Transaction::new();
        if empty {
            change.remove((port, label));
        }
        for branch in &ended {
            if !empty {
                change.remove_leaf((port, label), (branch.port, branch.label));
            }
            let (begun, open) = self.leaving_of(index, branch);
            self.forget_leaving(index, branch);
            if let Some(route) = self.routes[index as usize].as_mut() {
                // What the branch answers for leaves with it.
                let answered = sums::over(&branch.sent.all()).wrapping_add(open);
                route.units = route.units.wrapping_add(begun).wrapping_sub(answered);
            }
        }
        // It can fail for a route that is not there only, and then nothing has to be removed.
        let _ = self.cells.apply(change);
        if empty {
            self.routes[index as usize] = None;
            self.table_mut(port, label).remove(key(label));
            self.free.push(index);
        }
        !ended.is_empty()
    }

    /// Where a branch is among those that leave by its port.
    fn find_leaving(&self, route: u32, branch: &Branch) -> Option<usize> {
        let state = &self.ports[branch.port as usize];
        let table = if branch.label.is_path() { &state.out_vps } else { &state.out_vcs };
        let is_it = |leaving: &Option<Box<Leaving>>| {
            leaving.as_ref().is_some_and(|leaving| leaving.route == route && leaving.label == branch.label)
        };
        let list = &state.gateway.leaving;
        let found = table.get(key(branch.label)).filter(|at| is_it(&list[*at as usize]));
        // Two routes may leave under one label; the table knows the later one.
        found.map(|at| at as usize).or_else(|| list.iter().position(is_it))
    }

    /// PDUs of a branch that have begun at its gateway, and those that have not ended.
    pub(super) fn leaving_of(&self, route: u32, branch: &Branch) -> (u64, u64) {
        let leaving = self.find_leaving(route, branch);
        let leaving = leaving.and_then(|at| self.ports[branch.port as usize].gateway.leaving[at].as_ref());
        leaving.map_or((0, 0), |leaving| leaving.pdus())
    }

    fn forget_leaving(&mut self, route: u32, branch: &Branch) {
        let Some(at) = self.find_leaving(route, branch) else { return };
        let state = &mut self.ports[branch.port as usize];
        state.gateway.remove(at as u32);
        let table = if branch.label.is_path() { &mut state.out_vps } else { &mut state.out_vcs };
        if table.get(key(branch.label)) == Some(at as u32) {
            table.remove(key(branch.label));
        }
    }

    pub(super) fn table(&self, port: u16, label: Label) -> &KeyTable {
        let state = &self.ports[port as usize];
        if label.is_path() { &state.vps } else { &state.vcs }
    }

    fn table_mut(&mut self, port: u16, label: Label) -> &mut KeyTable {
        let state = &mut self.ports[port as usize];
        if label.is_path() { &mut state.vps } else { &mut state.vcs }
    }
}

impl RouteTable for SwitchElement {
    fn add_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        SwitchElement::add_route(self, from, to, options)
    }

    fn change_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        SwitchElement::change_route(self, from, to, options)
    }

    fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        SwitchElement::remove_route(self, port, label, out_port)
    }

    fn set_up_channel(&mut self, from: (u16, Label), to: (u16, Label), vci: Vci) {
        let (Label::Vp(near), Label::Vp(far)) = (from.1, to.1) else { return };
        self.cells.blank_channel(from, vci);
        self.label_changes.note(LabelChange::In(from.0, Label::Vc(CircuitId { vpi: near, vci })));
        self.label_changes.note(LabelChange::Out(to.0, Label::Vc(CircuitId { vpi: far, vci })));
    }
}
