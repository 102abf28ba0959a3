//! The endpoints of a host, and which of them have to be looked at in this round.
//!
//! An endpoint stands in one of three places: among those that are looked at in each round, in a POLL list until its
//! time, or nowhere until its doorbell rings. So a round costs what the busy endpoints cost, however many there are.

mod borrowers;
mod pressure;

use crate::channels::EndpointId;
use crate::cycle_limit::ReceiveOutcome;
use crate::events::disarm;
use crate::events::machine::{Look, Next, REST, SOFT_BACKUP};
use crate::events::poll_list::PollList;
use crate::host_endpoint::{HostEndpoint, Life, PollState};
use borrowers::Borrowers;
use endpoint::Events;
pub(crate) use pressure::Pressure;
use std::collections::{HashSet, VecDeque};
use wire::Time;

/// Places of the list of clocked endpoints that a round looks at because a doorbell rang, at most: whoever rings, and
/// however often, a round takes no longer than these looks.
const SCAN: usize = 4;

/// The endpoints.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    /// By number.
    list: Vec<(EndpointId, HostEndpoint)>,
    /// Those that are looked at in each round.
    active: Vec<EndpointId>,
    /// Ticks and ends of rests.
    clocked: PollList<EndpointId>,
    /// Times of soft timers.
    soft: PollList<EndpointId>,
    /// Places of `clocked` that doorbells of this round have prompted a look at, and where the next one begins.
    scanned: usize,
    scan_from: usize,
    /// Those that were given something and are to be told at the end of the round.
    news: Vec<EndpointId>,
    /// Those whose applications are behind, ...
    backlogged: Vec<EndpointId>,
    /// ... and whether that has changed.
    backlogged_changed: bool,
    /// Circuits of this host at whose other ends applications are behind.
    pressed: HashSet<u32>,
    /// When one of them was last seen to have taken something.
    progress: Time,
    /// Those whose applications have borrowed SDUs.
    borrowers: Borrowers,
    /// Those that go on, or some of whose channels do, as soon as they have caught up.
    awaiting: Vec<EndpointId>,
    /// Those whose applications have SDUs to take; the first is looked at next.
    watched: VecDeque<EndpointId>,
    /// One of them was stalled not long ago.
    stalled_until: Time,
    /// When one of them is looked at next.
    next_review: Time,
    /// What the applications of the thread's other hosts suffer.
    elsewhere: Pressure,
    /// SDUs that came for them since that was asked last.
    outcome: ReceiveOutcome,
    turn: usize,
    /// Which the thread runs on, counted from 1; 0: unknown.
    processor: u32,
}

impl Endpoints {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(EndpointId, HostEndpoint)> {
        self.list.iter()
    }

    /// Those after one of them, by number.
    pub(crate) fn after(&self, after: Option<EndpointId>) -> &[(EndpointId, HostEndpoint)] {
        let from = self.list.partition_point(|(id, _)| Some(*id) <= after);
        &self.list[from..]
    }

    /// Takes one in; its number is higher than all others'.
    pub(crate) fn push(&mut self, id: EndpointId, endpoint: HostEndpoint) {
        let asleep = endpoint.life == Life::Asleep;
        self.list.push((id, endpoint));
        if !asleep {
            self.activate(id);
        }
    }

    /// Its memory may be touched from now on.
    pub(crate) fn wake(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.find(id).filter(|endpoint| endpoint.life == Life::Asleep) {
            endpoint.life = Life::Open;
            self.activate(id);
        }
    }

    pub(crate) fn remove(&mut self, id: EndpointId) -> bool {
        let Ok(at) = self.list.binary_search_by_key(&id, |(i, _)| *i) else { return false };
        self.unlist(id);
        self.backlogged_changed |= self.backlogged.contains(&id);
        for list in [&mut self.active, &mut self.news, &mut self.backlogged, &mut self.awaiting] {
            list.retain(|i| *i != id);
        }
        self.watched.retain(|i| *i != id);
        // Its memory is a client's, and may take time to end.
        crate::reaper::dispose(self.list.remove(at));
        true
    }

    pub(crate) fn find(&mut self, id: EndpointId) -> Option<&mut HostEndpoint> {
        // Numbers only grow, so the list is sorted.
        let at = self.list.binary_search_by_key(&id, |(i, _)| *i).ok()?;
        Some(&mut self.list[at].1)
    }

    /// Its time is not waited for any more.
    fn unlist(&mut self, id: EndpointId) {
        let Some(endpoint) = self.find(id) else { return };
        let soft = endpoint.strategy.machine.is_soft();
        if let PollState::At(slot) = std::mem::replace(&mut endpoint.poll_state, PollState::Not) {
            let list = if soft { &mut self.soft } else { &mut self.clocked };
            list.remove(slot);
        }
    }

    /// Looks at it from this round on.
    fn activate(&mut self, id: EndpointId) {
        let Some(endpoint) = self.find(id) else { return };
        if matches!(endpoint.poll_state, PollState::Next | PollState::Always) {
            return;
        }
        if endpoint.poll_state == PollState::Armed {
            disarm(&endpoint.segment);
        }
        self.unlist(id);
        if let Some(endpoint) = self.find(id) {
            endpoint.poll_state = PollState::Next;
            endpoint.strategy.machine.handle_wake();
            self.active.push(id);
        }
    }

    /// Its application rang.
    /// False if there was no reason to.
    pub(crate) fn handle_doorbell(&mut self, id: EndpointId) -> bool {
        let Some(endpoint) = self.find(id) else { return false };
        endpoint.strategy.counts.doorbells = endpoint.strategy.counts.doorbells.wrapping_add(1);
        // One that rests or waits for its tick has not asked for this; its application has caught up, perhaps.
        let (held_back, asked) = (std::mem::take(&mut endpoint.held_back), std::mem::take(&mut endpoint.asked));
        if endpoint.poll_state != PollState::Armed {
            return held_back || (asked && endpoint.has_more());
        }
        let reason = held_back || endpoint.is_waiting();
        // As `activate` does, but one that is armed waits for no time, and whoever rings has taken the request for it
        // away: to write that once more would take the line from the sender.
        endpoint.poll_state = PollState::Next;
        endpoint.strategy.machine.handle_wake();
        self.active.push(id);
        if reason {
            self.scan();
        }
        reason
    }

    /// An interrupt on one channel prompts a look at others (Smith 2002, section 3.1): at endpoints that wait for a
    /// tick and have something to send. They send what is left of their last tick's quota, so that a clock bounds them
    /// as before.
    fn scan(&mut self) {
        let mut found = [None; SCAN];
        let most = SCAN - self.scanned;
        for (place, id) in found.iter_mut().zip(self.clocked.sweep(self.scan_from, most)) {
            *place = Some(*id);
        }
        self.scanned += most;
        self.scan_from = self.scan_from.wrapping_add(most);
        for id in found.into_iter().flatten() {
            let wants = |e: &mut HostEndpoint| {
                let machine = &e.strategy.machine;
                machine.tells_at_ticks() && !e.is_pressed() && machine.quota(false) > 0 && e.is_waiting()
            };
            if self.find(id).is_some_and(wants) {
                self.unlist(id);
                if let Some(endpoint) = self.find(id) {
                    endpoint.poll_state = PollState::Always;
                    self.active.push(id);
                }
            }
        }
    }

    /// The thread runs on this processor (counted from 1).
    pub(crate) fn set_processor(&mut self, processor: u32) {
        self.processor = processor;
    }

    /// Changes a strategy.
    pub(crate) fn set_events(&mut self, id: EndpointId, kind: Events) -> bool {
        self.unlist(id);
        let Some(endpoint) = self.find(id) else { return false };
        let slots = endpoint.geometry().send_ring;
        endpoint.strategy.machine = crate::events::machine::Machine::new(kind, slots);
        // News that waited for a tick is told at the end of the next round.
        self.news.push(id);
        self.active.retain(|i| *i != id);
        self.activate(id);
        true
    }

    /// Its application has gone: it is looked at in each round until what is left has been sent. False if nothing is.
    pub(crate) fn depart(&mut self, id: EndpointId) -> bool {
        let Some(endpoint) = self.find(id) else { return false };
        if !endpoint.depart() {
            return false;
        }
        self.set_events(id, Events::Interrupt);
        self.backlogged_changed |= self.backlogged.contains(&id);
        for list in [&mut self.news, &mut self.backlogged, &mut self.awaiting] {
            list.retain(|i| *i != id);
        }
        self.watched.retain(|i| *i != id);
        true
    }

    /// At the beginning of a round: those whose time has come are looked at.
    pub(crate) fn handle_due(&mut self, now: Time) {
        self.scanned = 0;
        while let Some(id) = self.clocked.pop_due(now).or_else(|| self.soft.pop_due(now)) {
            let Some(endpoint) = self.find(id) else { continue };
            endpoint.poll_state = PollState::Not;
            endpoint.strategy.counts.ticks = endpoint.strategy.counts.ticks.wrapping_add(1);
            endpoint.ticked = Some(now);
            if endpoint.strategy.machine.tells_at_ticks() {
                endpoint.tell();
            }
            self.activate(id);
        }
    }

    /// Those to be looked at in this round; each time another one is first.
    pub(crate) fn turn(&mut self) -> (usize, usize) {
        let n = self.active.len();
        let first = if n == 0 { 0 } else { self.turn % n };
        self.turn = self.turn.wrapping_add(1);
        (first, n)
    }

    /// Only so many of them have been looked at in this round: the others are first in the next.
    pub(crate) fn end_turn(&mut self, looked_at: usize) {
        self.turn = self.turn.wrapping_add(looked_at.saturating_sub(1));
    }

    /// The one at a place of the turn.
    pub(crate) fn at(&mut self, place: usize) -> Option<(EndpointId, &mut HostEndpoint)> {
        let id = *self.active.get(place)?;
        self.find(id).map(|endpoint| (id, endpoint))
    }

    /// At the end of a round: tells applications, and decides what comes next for those that were looked at. True if
    /// one of them had used its quota and has a new one: another round has something to do.
    pub(crate) fn finish(&mut self, now: Time) -> bool {
        while let Some(id) = self.news.pop() {
            if let Some(endpoint) = self.find(id) {
                endpoint.tell();
            }
        }
        self.release_if_caught_up(now);
        self.review(now);
        let stalled = now < self.stalled_until || self.elsewhere.stalled;
        let (mut active, mut again) = (std::mem::take(&mut self.active), false);
        active.retain(|id| self.stays(*id, stalled, now, &mut again));
        // None has joined as a rule: then the list keeps its memory.
        if self.active.is_empty() {
            self.active = active;
        } else {
            self.active.append(&mut active);
        }
        again
    }

    fn stays(&mut self, id: EndpointId, stalled: bool, now: Time, again: &mut bool) -> bool {
        let processor = self.processor;
        let Some(endpoint) = self.find(id) else { return false };
        endpoint.poll_state = PollState::Always;
        let used_up = std::mem::take(&mut endpoint.used_up);
        if endpoint.is_departing() {
            return true;
        }
        endpoint.strategy.publish_processor(&endpoint.segment, processor);
        let worked = endpoint.strategy.has_news();
        if endpoint.strategy.machine.tells_at_ticks() {
            endpoint.show();
            endpoint.admit();
        } else {
            endpoint.tell();
        }
        let look = Look { worked, waiting: endpoint.is_waiting(), pressed: endpoint.is_pressed(), stalled };
        let next = endpoint.strategy.machine.handle_look(look, now);
        *again |= used_up && next == Next::Stay && endpoint.quota() > 0;
        match next {
            Next::Stay => true,
            Next::Arm => {
                let armed = endpoint.arm();
                if armed {
                    endpoint.poll_state = PollState::Armed;
                }
                !armed
            }
            // An SDU half sent is seen to its end, and what is in parcels until it has been read.
            Next::At(_) if endpoint.outbound.is_in_an_sdu() || endpoint.outbound.is_aboard() => true,
            Next::At(time) => {
                let (soft, ticks) = (endpoint.strategy.machine.is_soft(), endpoint.strategy.machine.tells_at_ticks());
                let slot = if soft { self.soft.insert(time, id) } else { self.clocked.insert(time, id) };
                if let Some(endpoint) = self.find(id) {
                    endpoint.poll_state = PollState::At(slot);
                    if !ticks {
                        endpoint.strategy.counts.rests = endpoint.strategy.counts.rests.wrapping_add(1);
                    }
                }
                false
            }
        }
    }

    /// Whether no endpoint wants a look before its time, or somebody's call.
    pub(crate) fn rests(&self) -> bool {
        let lists = [&self.active, &self.news, &self.backlogged];
        lists.into_iter().all(Vec::is_empty)
            && self.borrowers.is_empty()
            && self.watched.is_empty()
            && self.soft.head().is_none()
    }

    /// Whether the thread may sleep: nobody polls, lingers, or has something to send that does not wait for a line.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let active = std::mem::take(&mut self.active);
        let quiet = active.iter().all(|id| {
            let waits = |e: &HostEndpoint| e.poll_state == PollState::Always && e.is_leaving();
            self.find(*id).is_none_or(|e| waits(e) && !e.polls())
        });
        self.active = active;
        quiet
    }

    /// Whether one of them keeps the thread awake whatever happens.
    pub(crate) fn polls(&mut self) -> bool {
        (0..self.active.len()).any(|at| self.at(at).is_some_and(|(_, e)| e.polls()))
    }

    /// SDUs that came for them since this was asked last.
    pub(crate) fn take_receive_outcome(&mut self) -> ReceiveOutcome {
        std::mem::take(&mut self.outcome)
    }

    /// Before a sleep in which SDUs wait for a line, a pacer or credits: asks their applications to ring once they send
    /// something else. False if none is asked.
    pub(crate) fn ask_senders(&mut self) -> bool {
        let mut asked = false;
        for at in 0..self.active.len() {
            asked |= self.find(self.active[at]).is_some_and(HostEndpoint::ask_for_more);
        }
        asked
    }

    /// When the first SDU that waits for its pacer may go on.
    pub(crate) fn next_paced(&self) -> Option<Time> {
        let place = |id: &EndpointId| self.list.binary_search_by_key(id, |(i, _)| *i).ok();
        self.active.iter().filter_map(move |id| self.list[place(id)?].1.outbound.poll_timeout()).min()
    }

    /// The next tick or end of a rest.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let soft = self.soft.head().map(|t| t + SOFT_BACKUP);
        self.clocked.head().into_iter().chain(soft).min()
    }
}

const _: () = assert!(REST.as_micros() >= 100, "a rest shorter than a wake-up rests nobody");
