//! Who makes way for applications that are behind: hosts say who is, and who sends to them is told.
//!
//! Applications share the processors, whatever shard their hosts are in. So the threads of several shards tell each
//! other on a board how their applications get on, each when that changes, and the engine's thread, which knows the
//! circuits, writes there at which of their ends somebody is behind.

use super::pressure_board::{BackloggedCircuit, Pressed, PressureBoard, merge, pressed_by};
use super::shard_loop::{Names, ShardLoop};
use crate::endpoints::Pressure;
use crate::interface::HostInterface;
use net::topology::Fabric;
use net::{NodeId, Shard};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::{CircuitId, Time};

impl ShardLoop {
    /// Before a round: who has caught up since the last one is behind no more, so that nobody's tick passes for it.
    pub(super) fn look_at_backlogged(&mut self, shard: &mut Shard, names: Names<'_>, now: Time) {
        if !self.pressure.is_some_and(|pressure| pressure.pressed) {
            return;
        }
        let mut changed = false;
        for id in &self.hosts {
            changed |= shard.peek_node::<HostInterface>(*id).is_some_and(|host| host.endpoints.look_at_backlogged(now));
        }
        if changed {
            self.share_pressure(shard, names, now);
        }
    }

    /// Hears of all hosts how their applications get on. The hosts have this thread's processor in common; but who is
    /// behind slows down those who send to it, and nobody else.
    pub(super) fn share_pressure(&mut self, shard: &mut Shard, names: Names<'_>, now: Time) {
        let (mut everywhere, mut awaited) = (Pressure::default(), false);
        for id in &self.hosts {
            let Some(host) = shard.peek_node::<HostInterface>(*id) else { continue };
            merge(&mut everywhere, host.endpoints.poll_pressure(now));
            awaited |= host.endpoints.awaits();
        }
        let changed = everywhere.changed || std::mem::take(&mut self.hosts_changed);
        everywhere.changed = false;
        if let Some(board) = self.board.take() {
            everywhere = self.exchange(&board, shard, names, everywhere, changed);
            self.board = Some(board);
        } else {
            if changed && let Some((fabric, hosts)) = names {
                let pressed = pressed_by(&self.backlogged(shard), fabric, hosts);
                self.press_senders(shard, pressed);
                awaited = self.awaits(shard);
            }
            everywhere.awaited = awaited;
        }
        if self.pressure == Some(everywhere) {
            return;
        }
        self.pressure = Some(everywhere);
        for id in &self.hosts {
            if let Some(host) = shard.node_mut::<HostInterface>(*id) {
                host.endpoints.handle_pressure(everywhere);
            }
        }
    }

    fn awaits(&self, shard: &mut Shard) -> bool {
        self.hosts.iter().any(|id| shard.peek_node::<HostInterface>(*id).is_some_and(|host| host.endpoints.awaits()))
    }

    /// Tells the other shards how it is `here`, and hears how it is everywhere.
    fn exchange(
        &mut self,
        board: &Arc<PressureBoard>,
        shard: &mut Shard,
        names: Names<'_>,
        mut here: Pressure,
        changed: bool,
    ) -> Pressure {
        here.awaited = self.awaits(shard);
        if changed || here != self.seen.told {
            let backlogged = changed.then(|| self.backlogged(shard));
            let mut notes = board.lock();
            let told = &mut notes.told[shard.number()];
            (self.seen.told, told.pressure) = (here, here);
            if let Some(backlogged) = backlogged
                && told.backlogged != backlogged
            {
                told.backlogged = backlogged;
                notes.changes += 1;
            }
            drop(notes);
            board.publish(shard.number());
        }
        if !self.seen.is_stale(board) {
            return self.seen.everywhere;
        }
        self.seen.version = board.version.load(Ordering::Acquire);
        if let Some((fabric, hosts)) = names {
            self.resolve(board, shard, fabric, hosts, changed);
        }
        let mut notes = board.lock();
        let mut everywhere = Pressure::default();
        notes.told.iter().for_each(|told| merge(&mut everywhere, told.pressure));
        let pressed = (std::mem::replace(&mut self.seen.pressed, notes.pressed.0) != notes.pressed.0)
            .then(|| std::mem::take(&mut notes.pressed.1[shard.number()]));
        drop(notes);
        self.seen.everywhere = everywhere;
        if let Some(pressed) = pressed {
            self.press_senders(shard, pressed);
        }
        everywhere
    }

    /// The engine's thread: at which circuits of which hosts who is behind slows down somebody.
    fn resolve(
        &mut self,
        board: &PressureBoard,
        shard: &Shard,
        fabric: &Fabric<HostInterface>,
        hosts: &[NodeId],
        anew: bool,
    ) {
        let (changes, backlogged) = {
            let notes = board.lock();
            if notes.changes == self.seen.changes && !anew {
                return;
            }
            (notes.changes, notes.told.iter().flat_map(|told| told.backlogged.iter().cloned()).collect::<Vec<_>>())
        };
        self.seen.changes = changes;
        let pressed = pressed_by(&backlogged, fabric, hosts);
        let mut notes = board.lock();
        // Each shard applies those of its own hosts.
        notes.pressed.1.fill(pressed);
        notes.pressed.0 += 1;
        drop(notes);
        board.publish(shard.number());
        self.seen.version = board.version.load(Ordering::Acquire);
    }

    /// Circuits on which applications of this shard are behind.
    fn backlogged(&self, shard: &mut Shard) -> Vec<BackloggedCircuit> {
        let mut backlogged = Vec::new();
        for id in &self.hosts {
            let circuits: Vec<CircuitId> = shard
                .peek_node::<HostInterface>(*id)
                .map(|host| host.endpoints.behind_circuits().collect())
                .unwrap_or_default();
            let name = shard.node_name(*id).unwrap_or_default();
            backlogged.extend(circuits.into_iter().map(|circuit| (*id, name.to_owned(), circuit)));
        }
        backlogged
    }

    /// Tells the hosts at which of their circuits' other ends applications are behind.
    fn press_senders(&mut self, shard: &mut Shard, mut pressed: Pressed) {
        for id in &self.hosts {
            let circuits = pressed.remove(id).unwrap_or_default();
            let Some(host) = shard.peek_node::<HostInterface>(*id) else { continue };
            if host.set_pressed(circuits) {
                // Some of its endpoints rest no more.
                shard.node_mut::<HostInterface>(*id);
            }
        }
    }
}
