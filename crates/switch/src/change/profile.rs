//! A branch gets another profile while its cells pass: what it has queued stays, in the order in which it came.

use super::{ChangeError, Point};
use crate::circuit::{Circuit, Frame, NONE, flag};
use crate::profile::Profile;
use crate::{CellPlane, Switch};
use wire::Label;

impl Switch {
    /// Gives the branch from port and label `from` to port and label `to` another profile; its schedules begin anew.
    /// What it counted stays. Whether it has credits, and whether its cells are those of PDUs, cannot change.
    ///
    /// # Errors
    /// [`ChangeError`], and nothing has changed.
    pub fn change_profile(
        &mut self,
        from: (u16, Label),
        to: (u16, Label),
        profile: &Profile,
    ) -> Result<(), ChangeError> {
        if let Some(port) = [from.0, to.0].into_iter().find(|port| *port >= self.config.ports) {
            return Err(ChangeError::NoPort(port));
        }
        let route = self.index.get(from.0.into(), from.1);
        let (id, first) = self.plane.branch_to(route, to).ok_or(ChangeError::NotFound(from.0, from.1))?;
        let credit = self.check_profile(profile, from, to)?;
        let circuit = &self.plane.circuits[id as usize];
        let had = *self.plane.profiles.get(circuit.profile);
        let of_pdus = profile.pdu_cells.is_some() && !from.1.is_path();
        if had == *profile {
            return Ok(());
        }
        if credit || circuit.is(flag::CREDIT) || of_pdus != circuit.is(flag::PDUS) {
            return Err(ChangeError::Fixed(to.0, to.1));
        }
        let users = 1 + u32::from(first && route != id);
        let full = ChangeError::ProfilesFull(self.config.profiles);
        let number = self.plane.profiles.hold(profile).ok_or(full)?;
        (1..users).for_each(|_| self.plane.profiles.share(number));
        if first && route != id {
            // Policing is the root's.
            self.plane.give_number(route, number);
            self.plane.set_policing(route, profile);
        }
        self.plane.give_profile(id, number, route == id);
        Ok(())
    }
}

impl CellPlane {
    /// The line of a route's branch, and whether it is the first.
    fn branch_to(&self, route: u32, to: Point) -> Option<(u32, bool)> {
        let goes = |id: u32| {
            let circuit = &self.circuits[id as usize];
            (circuit.port, circuit.out_label()) == to
        };
        if route == 0 {
            return None;
        }
        let circuit = &self.circuits[route as usize];
        if !circuit.is(flag::ROOT) {
            return goes(route).then_some((route, true));
        }
        let leaves = &self.roots[circuit.side as usize];
        leaves.iter().position(|leaf| goes(*leaf)).map(|at| (leaves[at], at == 0))
    }

    fn give_number(&mut self, id: u32, number: u16) {
        let had = std::mem::replace(&mut self.circuits[id as usize].profile, number);
        self.profiles.release(had);
    }

    /// Policing by this profile from now on, or none.
    fn set_policing(&mut self, id: u32, profile: &Profile) {
        let circuit = &mut self.circuits[id as usize];
        let frames = profile.frames.is_some() && circuit.is(flag::PDUS);
        circuit.flags &= !flag::POLICED;
        circuit.flags |= if profile.police.is_some() || frames { flag::POLICED } else { 0 };
        circuit.times = [0; 2];
    }

    /// `policed`: the branch is its route's only one, so that policing is its own.
    fn give_profile(&mut self, id: u32, number: u16, policed: bool) {
        let Circuit { port, profile, frame, side, queued, flags, times, .. } = self.circuits[id as usize];
        let (had, wanted) = (*self.profiles.get(profile), *self.profiles.get(number));
        // Without a contract the line itself counts what EPD and PPD dropped.
        let plain = flags & (flag::POLICED | flag::MANAGED) == 0;
        let (mut tally, measured) = self.contract_of(id).map(|side| self.contracts.counted(side)).unwrap_or_default();
        tally.early = if plain { times[0] } else { tally.early };
        if self.contract_of(id).is_some() {
            self.end_contract(side, usize::from(port), &had);
        }
        if frame == Frame::Accepted {
            let mut circuit = self.circuits[id as usize];
            let state = &mut self.ports[usize::from(port)];
            state.release(&circuit, had.kept_cells());
            state.hold(&mut circuit, wanted.kept_cells());
            self.circuits[id as usize].epoch = circuit.epoch;
        }
        self.unlist(id);
        self.count_promised(port, profile, -1);
        self.count_promised(port, number, 1);
        self.give_number(id, number);
        let circuit = &mut self.circuits[id as usize];
        circuit.side = NONE;
        circuit.flags &= !flag::MANAGED;
        if policed {
            self.set_policing(id, &wanted);
        } else {
            circuit.times = [0; 2];
        }
        let circuit = &mut self.circuits[id as usize];
        if wanted.is_managed() {
            circuit.flags |= flag::MANAGED;
            circuit.side = self.contracts.add(id, port, wanted.class, wanted.shape, self.max_circuits);
            self.contracts.set_counted(circuit.side, (tally, measured));
        } else {
            circuit.times[0] = tally.early;
        }
        if queued > 0 {
            self.enqueue(id, &[], 0);
        }
    }

    /// Takes a circuit out of the queue of those that take turns.
    fn unlist(&mut self, id: u32) {
        let circuit = &mut self.circuits[id as usize];
        if !circuit.is(flag::LISTED) {
            return;
        }
        circuit.flags &= !flag::LISTED;
        let (port, class) = (usize::from(circuit.port), self.profiles.get(circuit.profile).class as usize);
        self.forget_gone(port, class);
        let turn = &mut self.ports[port].classes[class];
        turn.left = 0;
        turn.queue.retain(&mut self.pool, |listed| listed != id);
        self.ports[port].ready -= 1;
    }
}
