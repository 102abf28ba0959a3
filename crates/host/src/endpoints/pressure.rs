//! Applications that fall behind with what they are given: who sends to them makes way, for as long as it helps.

use super::Endpoints;
use crate::channels::EndpointId;
use crate::events::ask_for_catching_up;
use crate::events::machine::{LINGER, REST, STALL};
use crate::host_endpoint::{Backlogged, PollState, ReceiveProgress};
use std::collections::HashSet;
use std::time::Duration;
use wire::{CircuitId, Time};

/// How often one of the applications that have SDUs to take is looked at: its index is in a line that it writes.
const REVIEW: Duration = Duration::from_micros(5);
/// Where an application was stalled, it shares the host's processor, and will for a while.
const REMEMBER: Duration = Duration::from_millis(10);
/// An application that has taken nothing for so long waits for something else than the processor.
const GIVE_UP: Duration = Duration::from_millis(5);
/// Rests in which an application has taken next to nothing until those who send to it rest no more for it.
const RESTS_IN_VAIN: u8 = 8;
/// An application that waits for the processor takes this part of its ring in a rest; who takes less waits for
/// something else.
const TAKEN_IN_A_REST: u32 = 16;
/// However small the ring of one that is behind is, others send so many SDUs between two rests.
const LEAST_ROOM: u32 = 8;
/// What others' ticks bring so soon after an application's own tick is told with it: all clocks of a rate tick
/// together.
const WITH_ITS_TICK: Duration = Duration::from_micros(100);
/// For such an application nobody rests for so long.
const SLOW: Duration = Duration::from_millis(100);

/// How the applications of a host, or of all hosts of a thread, get on. Who is behind slows down those who send to it,
/// and nobody else: see [`Endpoints::set_pressed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Some application is behind with its receive ring.
    pub(crate) pressed: bool,
    /// Some application gets on only while the host's thread sleeps.
    pub(crate) stalled: bool,
    /// The set of backlogged receivers has changed.
    pub(crate) changed: bool,
    /// A sender is paused for a backlogged receiver. Clocks and soft timers keep their own times and do not count.
    pub(crate) awaited: bool,
    /// A pause ended, or reached a tick, without progress; the receiver may be dead.
    pub(crate) rested: bool,
    /// SDUs that the smallest ring of those behind had room for when its application fell behind.
    pub(crate) room: u32,
}

impl Default for Pressure {
    fn default() -> Self {
        Pressure { pressed: false, stalled: false, changed: false, awaited: false, rested: false, room: u32::MAX }
    }
}

impl Endpoints {
    /// How the applications of this host get on; of a rest's end it is told once.
    pub(crate) fn poll_pressure(&mut self, now: Time) -> Pressure {
        let rested = std::mem::take(&mut self.rested);
        let changed = std::mem::take(&mut self.backlogged_changed);
        let room = self.room.unwrap_or(u32::MAX);
        let (pressed, stalled) = (!self.backlogged.is_empty(), now < self.stalled_until);
        Pressure { pressed, stalled, changed, awaited: false, rested, room }
    }

    /// As [`Pressure::awaited`], of this host's endpoints.
    pub(crate) fn awaits(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// While an application is behind: how many descriptors, which may be for it, an endpoint may send between two
    /// rests.
    pub(crate) fn pressed_room(&self) -> u32 {
        self.room.unwrap_or(u32::MAX).min(self.elsewhere.room).max(LEAST_ROOM)
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
    pub(crate) fn handle_pressure(&mut self, everywhere: Pressure, now: Time) {
        self.elsewhere = everywhere;
        if everywhere.rested && now.since(self.reviewed) >= REST {
            self.reviewed = now;
            self.give_up_on_the_stuck(now);
        }
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

    /// A channel rests because its receiver is behind.
    pub(crate) fn note_rest(&mut self) {
        self.rested = true;
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
        if protected
            && !lossless
            && endpoint.backlogged.is_none()
            && now >= endpoint.slow_until
            && endpoint.falls_behind()
        {
            let consumed = endpoint.consumed();
            endpoint.backlogged = Some(Backlogged { consumed, rests: 0, seen: consumed });
            if self.backlogged.is_empty() {
                self.reviewed = now;
            }
            self.backlogged.push(id);
            self.progress = now;
            self.backlogged_changed = true;
        }
        if protected {
            self.watch(id, now);
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
        if endpoint.strategy.machine.wakes_on_delivery() && matches!(endpoint.poll_state, PollState::Armed) {
            self.activate(id);
        } else if self.news.last() != Some(&id) {
            self.news.push(id);
        }
    }

    /// Its application has something to take: looks whether it does.
    fn watch(&mut self, id: EndpointId, now: Time) {
        let Some(endpoint) = self.find(id) else { return };
        if endpoint.receive_progress.is_some() {
            return;
        }
        let consumed = endpoint.consumed();
        if endpoint.given_up == Some(consumed) {
            return;
        }
        endpoint.given_up = None;
        endpoint.receive_progress = Some(ReceiveProgress { consumed, since: now });
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
        let consumed = endpoint.consumed();
        if consumed != receive_progress.consumed {
            receive_progress = ReceiveProgress { consumed, since: now };
        } else if now.since(receive_progress.since) >= GIVE_UP {
            endpoint.given_up = Some(consumed);
            return;
        } else if now.since(receive_progress.since) >= STALL {
            self.stalled_until = now + REMEMBER;
        }
        if let Some(endpoint) = self.find(id) {
            endpoint.receive_progress = Some(receive_progress);
            self.receive_progress.push_back(id);
        }
    }

    /// Others have rested for a while. Whoever has taken next to nothing meanwhile, time and again, waits for something
    /// else than the processor: for it they do not rest any more. Once is not enough: its processor may have been
    /// another's meanwhile.
    fn give_up_on_the_stuck(&mut self, now: Time) {
        let mut backlogged = std::mem::take(&mut self.backlogged);
        let before = backlogged.len();
        backlogged.retain(|id| {
            let Some(endpoint) = self.find(*id) else { return false };
            let consumed = endpoint.consumed();
            let Some(last) = endpoint.backlogged else { return false };
            let enough = (endpoint.geometry().receive_ring / TAKEN_IN_A_REST).max(1);
            let taken = consumed.wrapping_sub(last.consumed);
            let rests = if taken < enough { last.rests + 1 } else { 0 };
            let stuck = rests >= RESTS_IN_VAIN;
            endpoint.backlogged = (!stuck).then_some(Backlogged { consumed, rests, ..last });
            if stuck {
                endpoint.slow_until = now + SLOW;
                ask_for_catching_up(&endpoint.segment, false);
            }
            !stuck
        });
        self.backlogged_changed |= backlogged.len() != before;
        self.backlogged = backlogged;
    }

    /// Whether somebody has fallen behind or caught up since that was last told.
    pub(crate) fn has_behind_changed(&self) -> bool {
        self.backlogged_changed
    }

    /// Forgets those that are behind no more.
    pub(crate) fn release_if_caught_up(&mut self, now: Time) {
        if self.backlogged.is_empty() {
            return;
        }
        let mut backlogged = std::mem::take(&mut self.backlogged);
        let before = backlogged.len();
        let (mut least, mut got_on) = (None::<u32>, false);
        backlogged.retain(|id| {
            let Some(endpoint) = self.find(*id) else { return false };
            if endpoint.caught_up() {
                endpoint.backlogged = None;
                ask_for_catching_up(&endpoint.segment, false);
            }
            let (room, consumed) = (endpoint.geometry().receive_ring / 4, endpoint.consumed());
            let Some(state) = &mut endpoint.backlogged else { return false };
            got_on |= std::mem::replace(&mut state.seen, consumed) != consumed;
            least = Some(least.map_or(room, |least| least.min(room)));
            true
        });
        self.backlogged_changed |= backlogged.len() != before;
        self.backlogged = backlogged;
        self.room = least;
        if got_on {
            self.progress = now;
        }
    }
}
