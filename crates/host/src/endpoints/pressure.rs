//! Applications that fall behind with what they are given: who sends to them makes way, for as long as it helps.

use super::Endpoints;
use crate::channels::EndpointId;
use crate::events::ask_for_catching_up;
use crate::events::machine::LINGER;
use crate::host_endpoint::{Pace, PollState, Receivers};
use std::collections::HashSet;
use std::time::Duration;
use wire::{CircuitId, Time};

/// How often one of the applications that have SDUs to take is looked at: its index is in a line that it writes.
const REVIEW: Duration = Duration::from_micros(5);
/// Where an application was stalled, it shares the host's processor, and will for a while.
const REMEMBER: Duration = Duration::from_millis(10);
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
            channel.pressed = !channel.lossless && pressed.contains(&channel.circuit.key());
            (some, all) = (some || channel.pressed, all && channel.pressed);
            lossless &= channel.lossless;
        }
        let receivers = match (some && all, lossless) {
            (true, _) => Receivers::Behind,
            (false, true) => Receivers::Lossless,
            (false, false) => Receivers::Ready,
        };
        let awaits = some && endpoint.strategy.machine.is_hybrid();
        match self.awaiting.iter().position(|i| *i == id) {
            Some(place) if !awaits => _ = self.awaiting.swap_remove(place),
            None if awaits => self.awaiting.push(id),
            _ => {}
        }
        let before = std::mem::replace(&mut endpoint.receivers, receivers);
        let rests = matches!(endpoint.poll_state, PollState::At(_)) && endpoint.strategy.machine.is_hybrid();
        if before == Receivers::Behind && receivers != before && rests {
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
        let watched = endpoint.watch(now);
        let behind = endpoint.strategy.machine.is_protected()
            && !lossless
            && !endpoint.progress.is_backlogged()
            && endpoint.falls_behind()
            && !endpoint.has_stopped();
        if behind {
            endpoint.progress.set_backlogged(true);
            self.backlogged.push(id);
            self.progress = now;
            self.backlogged_changed = true;
        }
        if watched {
            self.watched.push_back(id);
        }
        let Some(endpoint) = self.find(id) else { return };
        let in_each_round = matches!(endpoint.poll_state, PollState::Next | PollState::Always);
        let told_later = match endpoint.strategy.machine.tells_at_ticks() {
            true => endpoint.ticked.is_none_or(|ticked| now.since(ticked) >= WITH_ITS_TICK),
            false => in_each_round,
        };
        if told_later {
            return;
        }
        if endpoint.strategy.machine.is_hybrid() && matches!(endpoint.poll_state, PollState::Armed) {
            self.activate(id);
        } else if self.news.last() != Some(&id) {
            self.news.push(id);
        }
    }

    /// Looks how one of those gets on.
    pub(super) fn review(&mut self, now: Time) {
        if now < self.next_review {
            return;
        }
        let Some(id) = self.watched.pop_front() else { return };
        self.next_review = now + REVIEW;
        let Some(endpoint) = self.find(id) else { return };
        if endpoint.has_taken_all() {
            return endpoint.progress.forget();
        }
        if endpoint.pace(now) == Pace::Stalled {
            self.stalled_until = now + REMEMBER;
        }
        if self.find(id).is_some_and(|endpoint| endpoint.progress.is_watched()) {
            self.watched.push_back(id);
        }
    }

    /// The same before a round. Whether somebody has fallen behind or caught up since that was last told.
    pub(crate) fn look_at_backlogged(&mut self, now: Time) -> bool {
        self.release_if_caught_up(now);
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
            let (caught_up, pace) = (endpoint.caught_up(), endpoint.pace(now));
            if pace == Pace::Stopped {
                self.watched.retain(|watched| watched != id);
            }
            let Some(endpoint) = self.find(*id) else { return false };
            if caught_up || pace == Pace::Stopped {
                endpoint.progress.set_backlogged(false);
                ask_for_catching_up(&endpoint.segment, false);
                return false;
            }
            if pace == Pace::Takes {
                self.progress = now;
            }
            true
        });
        self.backlogged_changed |= backlogged.len() != before;
        self.backlogged = backlogged;
    }
}
