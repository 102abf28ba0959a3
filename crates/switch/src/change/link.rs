//! The last phase of a transaction: labels are set and taken away. Nothing fails here, and each change is constant work
//! but for cells that are dropped with their circuit.
//!
//! Pages were reserved for the table as it was and all that is added. What a removal gives back on the way is free for
//! whatever is added after it, so that no page is ever short.

use super::{Change, Kind, Pending, Point};
use crate::circuit::{Circuit, Frame, NONE, flag};
use crate::index::Outgoing;
use crate::{CellPlane, Switch};
use wire::{Cell, DropReason};

impl Switch {
    pub(super) fn link(&mut self, p: &mut Pending, change: Change) {
        match change.kind {
            Kind::Add => {
                let prepared = p.prepared[p.next_prepared];
                p.next_prepared += 1;
                self.link_branch(change, prepared.line, prepared.root);
            }
            Kind::Remove => self.unlink(change.from),
            Kind::RemoveLeaf => self.unlink_leaf(change.from, change.to),
        }
    }

    fn set(&mut self, (port, label): Point, number: u32) {
        let leaves = Outgoing::of(&self.plane.circuits[number as usize]);
        let set = self.index.set(port.into(), label, number, leaves);
        debug_assert!(set.is_ok(), "a page that was reserved is short");
    }

    fn link_branch(&mut self, change: Change, line: u32, root: u32) {
        let id = self.index.get(change.from.0.into(), change.from.1);
        self.plane.circuits[line as usize].flags |= flag::LIVE;
        let Circuit { port, profile, .. } = self.plane.circuits[line as usize];
        self.plane.count_promised(port, profile, 1);
        self.plane.note_end(port, true);
        let side = self.plane.circuits[line as usize].side;
        if self.plane.circuits[line as usize].is(flag::CREDIT) {
            let set = self.leaving.set(change.to.0.into(), change.to.1, line, Outgoing::NONE);
            debug_assert!(set.is_ok(), "a page that was reserved is short");
            self.plane.notice_check(side);
        }
        if id == 0 {
            self.plane.note_end(change.from.0, true);
            self.set(change.from, line);
        } else if root == NONE {
            self.plane.join(id, line);
        } else {
            self.plane.make_root(id, root);
            self.plane.join(root, line);
            self.set(change.from, root);
        }
    }

    fn unlink(&mut self, from: Point) {
        let id = self.index.get(from.0.into(), from.1);
        self.plane.note_end(from.0, false);
        self.set(from, 0);
        let circuit = self.plane.circuits[id as usize];
        if circuit.is(flag::CREDIT) {
            let set = self.leaving.set(circuit.port.into(), circuit.out_label(), 0, Outgoing::NONE);
            debug_assert!(set.is_ok());
        }
        if circuit.is(flag::ROOT) {
            for leaf in std::mem::take(&mut self.plane.roots[circuit.side as usize]) {
                self.plane.retire(leaf);
            }
            self.plane.end_root(id);
        } else {
            self.plane.retire(id);
        }
    }

    fn unlink_leaf(&mut self, from: Point, to: Point) {
        let id = self.index.get(from.0.into(), from.1);
        let circuit = self.plane.circuits[id as usize];
        if !circuit.is(flag::ROOT) {
            self.unlink(from);
            return;
        }
        let CellPlane { circuits, roots, .. } = &mut self.plane;
        let leaves = &mut roots[circuit.side as usize];
        let goes = |leaf: &u32| (circuits[*leaf as usize].port, circuits[*leaf as usize].out_label()) == to;
        if let Some(at) = leaves.iter().position(goes) {
            let leaf = leaves.remove(at);
            self.plane.retire(leaf);
        }
        if self.plane.roots[circuit.side as usize].is_empty() {
            self.plane.note_end(from.0, false);
            self.set(from, 0);
            self.plane.end_root(id);
        } else {
            self.plane.note_shared_ports(id);
        }
    }
}

impl CellPlane {
    /// A line that is not in use.
    pub(super) fn take_circuit(&mut self) -> Option<u32> {
        if self.in_use >= self.max_circuits {
            return None;
        }
        if self.free_circuit == NONE && self.circuits.len() > self.max_circuits {
            // Lines of circuits that are gone, whose numbers still wait in queues.
            for at in 0..self.used_ports.len() {
                let port = usize::from(self.used_ports[at]);
                for class in 0..self.ports[port].classes.len() {
                    self.forget_gone(port, class);
                }
            }
        }
        let id = self.free_circuit;
        if id != NONE {
            self.free_circuit = self.circuits[id as usize].head;
        } else if self.circuits.len() > self.max_circuits {
            return None;
        } else {
            self.circuits.push(Circuit::default());
        }
        self.in_use += 1;
        Some(if id == NONE { self.circuits.len() as u32 - 1 } else { id })
    }

    /// Gives a line back that was never linked, or whose circuit was retired.
    pub(super) fn give_circuit(&mut self, id: u32) {
        self.in_use -= 1;
        self.free_line(id);
    }

    pub(crate) fn free_line(&mut self, id: u32) {
        self.circuits[id as usize] = Circuit { head: self.free_circuit, ..Circuit::default() };
        self.free_circuit = id;
    }

    /// Turns the only branch of a route into a leaf of `root`.
    fn make_root(&mut self, id: u32, root: u32) {
        let leaves = vec![id];
        let side = match self.free_roots.pop() {
            Some(side) => {
                self.roots[side as usize] = leaves;
                side
            }
            None => {
                self.roots.push(leaves);
                self.roots.len() as u32 - 1
            }
        };
        let branch = &mut self.circuits[id as usize];
        let kept = flag::PATH | flag::PDUS | flag::POLICED;
        let inside = branch.frame != Frame::Between;
        let line = Circuit {
            flags: branch.flags & kept | flag::ROOT | flag::LIVE,
            label: branch.label,
            times: if branch.is(flag::POLICED) { branch.times } else { [0; 2] },
            profile: branch.profile,
            received: branch.received,
            excess: branch.excess,
            frame: if inside { Frame::Accepted } else { Frame::Between },
            side,
            ..Circuit::default()
        };
        branch.flags &= !flag::POLICED;
        branch.times = if line.is(flag::POLICED) { [0; 2] } else { branch.times };
        self.profiles.share(line.profile);
        self.circuits[root as usize] = line;
    }

    /// Adds a leaf. Within a PDU it waits for the next one.
    fn join(&mut self, root: u32, line: u32) {
        let Circuit { frame, side, received, dropped, .. } = self.circuits[root as usize];
        let (inside, side) = (frame != Frame::Between, side as usize);
        self.missed.insert(line, received.wrapping_sub(dropped));
        let leaf = &mut self.circuits[line as usize];
        leaf.flags &= !flag::POLICED;
        if inside && leaf.is(flag::PDUS) {
            leaf.frame = Frame::NotYet;
        }
        self.roots[side].push(line);
        self.note_shared_ports(root);
    }

    fn note_shared_ports(&mut self, root: u32) {
        let leaves = &self.roots[self.circuits[root as usize].side as usize];
        let mut ports: Vec<u16> = leaves.iter().map(|leaf| self.circuits[*leaf as usize].port).collect();
        ports.sort_unstable();
        self.circuits[root as usize].sent_part = ports.windows(2).any(|pair| pair[0] == pair[1]);
    }

    fn end_root(&mut self, id: u32) {
        let circuit = self.circuits[id as usize];
        self.free_roots.push(circuit.side);
        self.profiles.release(circuit.profile);
        self.give_circuit(id);
    }

    /// A circuit comes in or leaves by a port from now on, or no more.
    fn note_end(&mut self, port: u16, exists: bool) {
        let ends = self.ends.entry(port).or_default();
        *ends = if exists { *ends + 1 } else { *ends - 1 };
        if *ends == 0 {
            self.ends.remove(&port);
        }
    }

    /// A branch of this profile leaves by a port, or does no more.
    pub(super) fn count_promised(&mut self, port: u16, profile: u16, sign: i32) {
        if self.profiles.get(profile).is_promised() {
            let promised = &mut self.ports[usize::from(port)].promised;
            *promised = promised.saturating_add_signed(sign);
        }
    }

    /// Ends a branch: what it has queued is dropped, a PDU that was sent in part is aborted, its line is free again
    /// when no queue names it.
    fn retire(&mut self, id: u32) {
        let circuit = self.circuits[id as usize];
        let mut at = circuit.head;
        for _ in 0..circuit.queued {
            let (_, next) = self.store.get(at);
            self.store.free(at);
            at = next;
        }
        self.missed.remove(&id);
        self.note_end(circuit.port, false);
        let profile = *self.profiles.get(circuit.profile);
        let port = &mut self.ports[usize::from(circuit.port)];
        *(if circuit.is(flag::CREDIT) { &mut port.held } else { &mut port.used }) -= u32::from(circuit.data_queued());
        port.management.forget(&circuit);
        port.counters.sent.drop_n(DropReason::Closed, circuit.queued.into());
        if circuit.frame == Frame::Accepted {
            port.release(&circuit, profile.kept_cells());
        }
        if let Some(side) = self.contract_of(id) {
            self.end_contract(side, usize::from(circuit.port), &profile);
        }
        let port = &mut self.ports[usize::from(circuit.port)];
        let mut may_send = true;
        if circuit.is(flag::CREDIT) {
            may_send = self.credits.get(circuit.side).sender.room() > 0;
            self.credits.remove(circuit.side);
        }
        if circuit.is(flag::PDUS) && circuit.sent_part && may_send {
            // AAL5's abort: a last cell whose length field is zero (I.363.5).
            let mut abort = Cell::default();
            abort.set_header_word(circuit.label | 2);
            port.count_made(1);
            if !port.push_control(abort) {
                port.counters.sent.drop_one(DropReason::QueueFull);
            }
        }
        self.count_promised(circuit.port, circuit.profile, -1);
        self.profiles.release(circuit.profile);
        if !circuit.is(flag::LISTED) {
            self.give_circuit(id);
            return;
        }
        self.in_use -= 1;
        let (port, class) = (usize::from(circuit.port), profile.class as usize);
        self.circuits[id as usize] = Circuit { flags: flag::LISTED, ..Circuit::default() };
        self.ports[port].ready -= 1;
        let turn = &mut self.ports[port].classes[class];
        turn.gone += 1;
        // Each gone number costs its share of this walk once.
        if turn.gone as usize > turn.queue.len() / 2 + 32 {
            self.forget_gone(port, class);
        }
    }

    /// Takes numbers of circuits that are gone out of a queue.
    pub(crate) fn forget_gone(&mut self, port: usize, class: usize) {
        let turn = &mut self.ports[port].classes[class];
        if turn.gone == 0 {
            return;
        }
        let mut first = [0];
        if turn.queue.peek(&self.pool, &mut first) == 1 && !self.circuits[first[0] as usize].is(flag::LIVE) {
            turn.left = 0;
        }
        turn.gone = 0;
        let (circuits, free) = (&mut self.circuits, &mut self.free_circuit);
        turn.queue.retain(&mut self.pool, |id| {
            let live = circuits[id as usize].is(flag::LIVE);
            if !live {
                circuits[id as usize] = Circuit { head: *free, ..Circuit::default() };
                *free = id;
            }
            live
        });
    }
}
