//! Applications that fall behind with what they are given: who sends to them makes way, for as long as it helps.

use super::Endpoints;
use crate::channels::EndpointId;
use crate::events::ask_for_catching_up;
use crate::events::machine::{LINGER, STALL};
use crate::host_endpoint::{PollState, ReceiveProgress};
use std::collections::HashSet;
use std::time::Duration;
use wire::{CircuitId, Time};

/// How often one of the applications that have SDUs to take is looked at: its index is in a line that it writes.
const REVIEW: Duration = Duration::from_micros(5);
/// Where an application was stalled, it shares the host's processor, and will for a while.
const REMEMBER: Duration = Duration::from_millis(10);
/// An application that has SDUs to take and has taken none for so long has stopped: it waits for something else than
/// the processor. Shorter would not do: its processor may be another's meanwhile.
const STOPPED: Duration = Duration::from_millis(5);
/// What others' ticks bring so soon after an application's own tick is told with it: all clocks of a rate tick
/// together.
const WITH_ITS_TICK: Duration = Duration::from_micros(100);

/// How the applications of a host, or of all hosts of a thread, get on. Who is behind slows down those who send to it,
/// and nobody else: see [`Endpoints::set_pressed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Some application is behind with its receive ring.
    pub(crate) pressed: bool,
    /// Some application gets on only while the host's thread sleeps.
    pub(crate) stalled: bool,
    /// The set of backlogged receivers has changed.
    pub(crate) changed: bool,
    /// A sender is paused for a backlogged receiver. Clocks and soft timers keep their own times and do not count.
    pub(crate) awaited: bool,
}

impl Endpoints {
    /// How the applications of this host get on.
    pub(crate) fn poll_pressure(&mut self, now: Time) -> Pressure {
        let changed = std::mem::take(&mut self.backlogged_changed);
        let (pressed, stalled) = (!self.backlogged.is_empty(), now < self.stalled_until);
        Pressure { pressed, stalled, changed, awaited: false }
    }

    /// As [`Pressure::awaited`], of this host's endpoints.
    pub(crate) fn awaits(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Whether an application that is behind takes what it was given, or one gives back what it has borrowed: it is
    /// looked at without being asked to ring.
    pub(crate) fn gets_on(&self, now: Time) -> bool {
        let taking = !self.backlogged.is_empty() && self.elsewhere.awaited && now.since(self.progress) < LINGER;
        taking || self.borrowers.gets_on(now)
    }

    /// Before a sleep: asks those that are behind to ring once they have caught up, where somebody waits for it: their
    /// ring interrupts them, and may give their processor to a third. False if none is asked.
    pub(crate) fn ask_backlogged(&mut self) -> bool {
        if !self.elsewhere.awaited {
            return false;
        }
        for at in 0..self.backlogged.len() {
            if let Some(endpoint) = self.find(self.backlogged[at]) {
                ask_for_catching_up(&endpoint.segment, true);
                endpoint.held_back = true;
            }
        }
        !self.backlogged.is_empty()
    }

    /// How the applications of all hosts of this thread get on: they have one processor to wait for.
    pub(crate) fn handle_pressure(&mut self, everywhere: Pressure) {
        self.elsewhere = everywhere;
    }

    /// The circuits on which applications receive that are behind.
    pub(crate) fn behind_circuits(&self) -> impl Iterator<Item = CircuitId> {
        let place = |id: &EndpointId| self.list.binary_search_by_key(id, |(i, _)| *i).ok();
        let channels = self.backlogged.iter().filter_map(place).flat_map(|at| self.list[at].1.channels.iter());
        channels.filter(|channel| channel.direction.receives()).map(|channel| channel.circuit)
    }

    /// Sets the circuits whose receivers are backlogged. Returns circuits whose back-pressure state changed.
    pub(crate) fn set_pressed(&mut self, circuits: HashSet<u32>) -> Vec<u32> {
        let changed = self.pressed.symmetric_difference(&circuits).copied().collect();
        self.pressed = circuits;
        changed
    }

    /// Looks whether all that an endpoint sends to is behind: then it rests itself. Where some are, their channels
    /// rest.
    pub(crate) fn review_pressed(&mut self, id: EndpointId) {
        let Ok(at) = self.list.binary_search_by_key(&id, |(i, _)| *i) else { return };
        let pressed = &self.pressed;
        let endpoint = &mut self.list[at].1;
        let (mut some, mut all, mut lossless) = (false, true, true);
        for channel in endpoint.channels.iter_mut().filter(|channel| channel.direction.sends()) {
            channel.pressed = pressed.contains(&channel.circuit.key());
            (some, all) = (some || channel.pressed, all && channel.pressed);
            lossless &= channel.lossless;
        }
        endpoint.lossless = lossless;
        let awaits = some && endpoint.strategy.machine.rests_until_caught_up();
        match self.awaiting.iter().position(|i| *i == id) {
            Some(place) if !awaits => _ = self.awaiting.swap_remove(place),
            None if awaits => self.awaiting.push(id),
            _ => {}
        }
        let all = some && all;
        if std::mem::replace(&mut endpoint.pressed, all) && !all && self.resting.contains(&id) {
            self.resting.retain(|i| *i != id);
            self.activate(id);
        }
    }

    /// An SDU was delivered to it, perhaps: the end of a run. `lossless`: the circuit's credits hold its senders back,
    /// and nobody else has to make way.
    pub(crate) fn handle_delivered(&mut self, id: EndpointId, lossless: bool, now: Time) {
        let Some(endpoint) = self.find(id) else { return };
        let (borrows, outcome) = (endpoint.has_borrowed(), endpoint.take_receive_outcome(now));
        self.outcome.add(outcome);
        if borrows {
            self.borrowers.note(id, now);
        }
        let Some(endpoint) = self.find(id) else { return };
        endpoint.show();
        endpoint.note_round(now);
        if !endpoint.strategy.has_news() {
            return;
        }
        let protected = endpoint.strategy.machine.is_protected();
        if protected && !lossless && endpoint.backlogged.is_none() && endpoint.falls_behind() && !endpoint.has_stopped()
        {
            endpoint.backlogged = Some(ReceiveProgress { consumed: endpoint.consumed(), since: now });
            self.backlogged.push(id);
            self.progress = now;
            self.backlogged_changed = true;
        }
        self.watch(id, now);
        let Some(endpoint) = self.find(id) else { return };
        let in_each_round = matches!(endpoint.poll_state, PollState::Next | PollState::Always);
        let told_later = match endpoint.strategy.machine.tells_at_ticks() {
            true => endpoint.ticked.is_none_or(|ticked| now.since(ticked) >= WITH_ITS_TICK),
            false => in_each_round,
        };
        if told_later {
            return;
        }
        if endpoint.strategy.machine.wakes_on_delivery() && matches!(endpoint.poll_state, PollState::Armed) {
            self.activate(id);
        } else if self.news.last() != Some(&id) {
            self.news.push(id);
        }
    }

    /// Its application has something to take: looks whether it does.
    fn watch(&mut self, id: EndpointId, now: Time) {
        let Some(endpoint) = self.find(id) else { return };
        if endpoint.receive_progress.is_some() || endpoint.has_stopped() {
            return;
        }
        endpoint.receive_progress = Some(ReceiveProgress { consumed: endpoint.consumed(), since: now });
        self.receive_progress.push_back(id);
    }

    /// Looks how one of those gets on.
    pub(super) fn review(&mut self, now: Time) {
        if now < self.next_review {
            return;
        }
        let Some(id) = self.receive_progress.pop_front() else { return };
        self.next_review = now + REVIEW;
        let Some(endpoint) = self.find(id) else { return };
        let Some(mut receive_progress) = endpoint.receive_progress.take() else { return };
        if endpoint.has_taken_all() {
            return;
        }
        let idle = receive_progress.idle(endpoint.consumed(), now);
        if idle >= STOPPED {
            endpoint.note_stopped();
            return;
        } else if idle >= STALL {
            self.stalled_until = now + REMEMBER;
        }
        if let Some(endpoint) = self.find(id) {
            endpoint.receive_progress = Some(receive_progress);
            self.receive_progress.push_back(id);
        }
    }

    /// Whether somebody has fallen behind or caught up since that was last told.
    pub(crate) fn has_behind_changed(&self) -> bool {
        self.backlogged_changed
    }

    /// Forgets those that are behind no more, and those that have stopped: nobody waits for these.
    pub(crate) fn release_if_caught_up(&mut self, now: Time) {
        if self.backlogged.is_empty() {
            return;
        }
        let mut backlogged = std::mem::take(&mut self.backlogged);
        let before = backlogged.len();
        backlogged.retain(|id| {
            let Some(endpoint) = self.find(*id) else { return false };
            let caught_up = endpoint.caught_up();
            let Some(mut progress) = endpoint.backlogged.take() else { return false };
            let idle = progress.idle(endpoint.consumed(), now);
            if caught_up || idle >= STOPPED {
                if !caught_up {
                    endpoint.note_stopped();
                }
                ask_for_catching_up(&endpoint.segment, false);
                return false;
            }
            endpoint.backlogged = Some(progress);
            if idle.is_zero() {
                self.progress = now;
            }
            true
        });
        self.backlogged_changed |= backlogged.len() != before;
        self.backlogged = backlogged;
    }
}
