//! The endpoints of a host, and which of them have to be looked at in this round.
//!
//! An endpoint stands in one of three places: among those that are looked at in each round, in a POLL list until its time,
//! or nowhere until its doorbell rings. So a round costs what the busy endpoints cost, however many there are.

use crate::attached::{Attached, Behind, Fed, Looked};
use crate::channels::EndpointId;
use crate::events::machine::{LINGER, Look, Next, REST, SOFT_BACKUP, STALL};
use crate::events::poll_list::PollList;
use crate::events::{ask_for_catching_up, disarm};
use endpoint::Events;
use std::collections::{HashSet, VecDeque};
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
/// An application that waits for the processor takes this part of its ring in a rest; who takes less waits for something else.
const TAKEN_IN_A_REST: u32 = 16;
/// However small the ring of one that is behind is, others send so many SDUs between two rests.
const LEAST_ROOM: u32 = 8;
/// What others' ticks bring so soon after an application's own tick is told with it: all clocks of a rate tick together.
const WITH_ITS_TICK: Duration = Duration::from_micros(100);
/// For such an application nobody rests for so long.
const SLOW: Duration = Duration::from_millis(100);

/// Places of the list of clocked endpoints that a round looks at because a doorbell rang, at most: whoever rings, and however
/// often, a round takes no longer than these looks.
const SCAN: usize = 4;

/// How the applications of a host, or of all hosts of a thread, get on. Who is behind slows down those who send to it, and
/// nobody else: see [`Endpoints::set_pressed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Some application is behind with its receive ring.
    pub(crate) pressed: bool,
    /// Some application gets on only while the host's thread sleeps.
    pub(crate) stalled: bool,
    /// Who is behind has changed.
    pub(crate) changed: bool,
    /// Somebody rests until those who are behind have caught up. Clocks and soft timers look at their times, whoever has.
    pub(crate) awaited: bool,
    /// Some endpoint has rested to its end or to its next tick: whoever was behind and took nothing meanwhile may never take anything.
    pub(crate) rested: bool,
    /// SDUs that the smallest ring of those behind had room for when its application fell behind.
    pub(crate) room: u32,
}

impl Default for Pressure {
    fn default() -> Self {
        Pressure { pressed: false, stalled: false, changed: false, awaited: false, rested: false, room: u32::MAX }
    }
}

/// The endpoints.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    /// By number.
    list: Vec<(EndpointId, Attached)>,
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
    behind: Vec<EndpointId>,
    /// ... and whether that has changed.
    behind_changed: bool,
    /// Circuits of this host at whose other ends applications are behind.
    pressed: HashSet<u32>,
    /// When one of them was last seen to have taken something.
    progress: Time,
    /// As [`Pressure::room`].
    room: Option<u32>,
    /// Those that rest meanwhile.
    resting: Vec<EndpointId>,
    /// Those that go on, or some of whose channels do, as soon as they have caught up.
    awaiting: Vec<EndpointId>,
    /// When those who are behind were looked at last.
    reviewed: Time,
    /// Those whose applications have SDUs to take; the first is looked at next.
    fed: VecDeque<EndpointId>,
    /// One of them was stalled not long ago.
    stalled_until: Time,
    /// When one of them is looked at next.
    next_review: Time,
    /// What the applications of the thread's other hosts suffer.
    elsewhere: Pressure,
    /// An endpoint of this host has rested to its end or to its next tick.
    rested: bool,
    turn: usize,
    /// Which the thread runs on, counted from 1; 0: unknown.
    processor: u32,
}

impl Endpoints {
    /// How the applications of this host get on; of a rest's end it is told once.
    pub(crate) fn poll_pressure(&mut self, now: Time) -> Pressure {
        let rested = std::mem::take(&mut self.rested);
        let changed = std::mem::take(&mut self.behind_changed);
        let room = self.room.unwrap_or(u32::MAX);
        let (pressed, stalled) = (!self.behind.is_empty(), now < self.stalled_until);
        Pressure { pressed, stalled, changed, awaited: false, rested, room }
    }

    /// As [`Pressure::awaited`], of this host's endpoints.
    pub(crate) fn awaits(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// While an application is behind: how many descriptors, which may be for it, an endpoint may send between two rests.
    pub(crate) fn pressed_room(&self) -> u32 {
        self.room.unwrap_or(u32::MAX).min(self.elsewhere.room).max(LEAST_ROOM)
    }

    /// Whether an application that is behind takes what it was given: it is looked at without being asked to ring.
    pub(crate) fn gets_on(&self, now: Time) -> bool {
        !self.behind.is_empty() && self.elsewhere.awaited && now.since(self.progress) < LINGER
    }

    /// Before a sleep: asks those that are behind to ring once they have caught up, where somebody waits for it: their ring
    /// interrupts them, and may give their processor to a third. False if none is asked.
    pub(crate) fn ask_those_behind(&mut self) -> bool {
        if !self.elsewhere.awaited {
            return false;
        }
        for at in 0..self.behind.len() {
            if let Some(endpoint) = self.find(self.behind[at]) {
                ask_for_catching_up(&endpoint.segment, true);
                endpoint.held_back = true;
            }
        }
        !self.behind.is_empty()
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
        let channels = self.behind.iter().filter_map(place).flat_map(|at| self.list[at].1.channels.iter());
        channels.filter(|channel| channel.direction.receives()).map(|channel| channel.circuit)
    }

    /// At the other ends of these circuits applications are behind. Gives those of which that was not known, and those of
    /// which it holds no more.
    pub(crate) fn set_pressed(&mut self, circuits: HashSet<u32>) -> Vec<u32> {
        let changed = self.pressed.symmetric_difference(&circuits).copied().collect();
        self.pressed = circuits;
        changed
    }

    /// Looks whether all that an endpoint sends to is behind: then it rests itself. Where some are, their channels rest.
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

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(EndpointId, Attached)> {
        self.list.iter()
    }

    /// Those after one of them, by number.
    pub(crate) fn after(&self, after: Option<EndpointId>) -> &[(EndpointId, Attached)] {
        let from = self.list.partition_point(|(id, _)| Some(*id) <= after);
        &self.list[from..]
    }

    /// Takes one in; its number is higher than all others'.
    pub(crate) fn push(&mut self, id: EndpointId, endpoint: Attached) {
        let asleep = endpoint.asleep;
        self.list.push((id, endpoint));
        if !asleep {
            self.activate(id);
        }
    }

    /// Its memory may be touched from now on.
    pub(crate) fn wake(&mut self, id: EndpointId) {
        if self.find(id).is_some_and(|endpoint| std::mem::take(&mut endpoint.asleep)) {
            self.activate(id);
        }
    }

    pub(crate) fn remove(&mut self, id: EndpointId) -> bool {
        let Ok(at) = self.list.binary_search_by_key(&id, |(i, _)| *i) else { return false };
        self.unlist(id);
        self.behind_changed |= self.behind.contains(&id);
        for list in [&mut self.active, &mut self.news, &mut self.behind, &mut self.resting, &mut self.awaiting] {
            list.retain(|i| *i != id);
        }
        self.fed.retain(|i| *i != id);
        // Its memory is a client's, and may take time to end.
        crate::reaper::dispose(self.list.remove(at));
        true
    }

    pub(crate) fn find(&mut self, id: EndpointId) -> Option<&mut Attached> {
        // Numbers only grow, so the list is sorted.
        let at = self.list.binary_search_by_key(&id, |(i, _)| *i).ok()?;
        Some(&mut self.list[at].1)
    }

    /// Its time is not waited for any more.
    fn unlist(&mut self, id: EndpointId) {
        let Some(endpoint) = self.find(id) else { return };
        let soft = endpoint.strategy.machine.is_soft();
        if let Looked::At(slot) = std::mem::replace(&mut endpoint.look, Looked::Not) {
            let list = if soft { &mut self.soft } else { &mut self.clocked };
            list.remove(slot);
        }
    }

    /// Looks at it from this round on.
    fn activate(&mut self, id: EndpointId) {
        let Some(endpoint) = self.find(id) else { return };
        if matches!(endpoint.look, Looked::Next | Looked::Always) {
            return;
        }
        if endpoint.look == Looked::Armed {
            disarm(&endpoint.segment);
        }
        self.unlist(id);
        if let Some(endpoint) = self.find(id) {
            endpoint.look = Looked::Next;
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
        let held_back = std::mem::take(&mut endpoint.held_back);
        if endpoint.look != Looked::Armed {
            return held_back;
        }
        let reason = held_back || endpoint.is_waiting();
        self.activate(id);
        if reason {
            self.scan();
        }
        reason
    }

    /// An interrupt on one channel prompts a look at others (Smith 2002, section 3.1): at endpoints that wait for a tick and
    /// have something to send. They send what is left of their last tick's quota, so that a clock bounds them as before.
    fn scan(&mut self) {
        let mut found = [None; SCAN];
        let most = SCAN - self.scanned;
        for (place, id) in found.iter_mut().zip(self.clocked.sweep(self.scan_from, most)) {
            *place = Some(*id);
        }
        self.scanned += most;
        self.scan_from = self.scan_from.wrapping_add(most);
        for id in found.into_iter().flatten() {
            let wants = |e: &mut Attached| {
                let machine = &e.strategy.machine;
                machine.tells_at_ticks() && !e.pressed && machine.quota(false) > 0 && e.is_waiting()
            };
            if self.find(id).is_some_and(wants) {
                self.unlist(id);
                if let Some(endpoint) = self.find(id) {
                    endpoint.look = Looked::Always;
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
        self.behind_changed |= self.behind.contains(&id);
        for list in [&mut self.news, &mut self.behind, &mut self.resting, &mut self.awaiting] {
            list.retain(|i| *i != id);
        }
        self.fed.retain(|i| *i != id);
        true
    }

    /// An SDU was delivered to it, perhaps: the end of a run. `lossless`: the circuit's credits hold its senders back, and nobody
    /// else has to make way.
    pub(crate) fn handle_delivered(&mut self, id: EndpointId, lossless: bool, now: Time) {
        let Some(endpoint) = self.find(id) else { return };
        endpoint.show();
        if !endpoint.strategy.has_news() {
            return;
        }
        let protected = endpoint.strategy.machine.is_protected();
        if protected && !lossless && endpoint.behind.is_none() && now >= endpoint.slow_until && endpoint.falls_behind()
        {
            let consumed = endpoint.consumed();
            endpoint.behind = Some(Behind { consumed, rests: 0, seen: consumed });
            if self.behind.is_empty() {
                self.reviewed = now;
            }
            self.behind.push(id);
            self.progress = now;
            self.behind_changed = true;
        }
        if protected {
            self.watch(id, now);
        }
        let Some(endpoint) = self.find(id) else { return };
        let in_each_round = matches!(endpoint.look, Looked::Next | Looked::Always);
        let told_later = match endpoint.strategy.machine.tells_at_ticks() {
            true => endpoint.ticked.is_none_or(|ticked| now.since(ticked) >= WITH_ITS_TICK),
            false => in_each_round,
        };
        if told_later {
            return;
        }
        if endpoint.strategy.machine.wakes_on_delivery() && matches!(endpoint.look, Looked::Armed) {
            self.activate(id);
        } else if self.news.last() != Some(&id) {
            self.news.push(id);
        }
    }

    /// Its application has something to take: looks whether it does.
    fn watch(&mut self, id: EndpointId, now: Time) {
        let Some(endpoint) = self.find(id) else { return };
        if endpoint.fed.is_some() {
            return;
        }
        let consumed = endpoint.consumed();
        if endpoint.given_up == Some(consumed) {
            return;
        }
        endpoint.given_up = None;
        endpoint.fed = Some(Fed { consumed, since: now });
        self.fed.push_back(id);
    }

    /// Looks how one of those gets on.
    fn review(&mut self, now: Time) {
        if now < self.next_review {
            return;
        }
        let Some(id) = self.fed.pop_front() else { return };
        self.next_review = now + REVIEW;
        let Some(endpoint) = self.find(id) else { return };
        let Some(mut fed) = endpoint.fed.take() else { return };
        if endpoint.has_taken_all() {
            return;
        }
        let consumed = endpoint.consumed();
        if consumed != fed.consumed {
            fed = Fed { consumed, since: now };
        } else if now.since(fed.since) >= GIVE_UP {
            endpoint.given_up = Some(consumed);
            return;
        } else if now.since(fed.since) >= STALL {
            self.stalled_until = now + REMEMBER;
        }
        if let Some(endpoint) = self.find(id) {
            endpoint.fed = Some(fed);
            self.fed.push_back(id);
        }
    }

    /// At the beginning of a round: those whose time has come are looked at.
    pub(crate) fn handle_due(&mut self, now: Time) {
        self.scanned = 0;
        while let Some(id) = self.clocked.pop_due(now).or_else(|| self.soft.pop_due(now)) {
            let Some(endpoint) = self.find(id) else { continue };
            endpoint.look = Looked::Not;
            endpoint.strategy.counts.ticks = endpoint.strategy.counts.ticks.wrapping_add(1);
            endpoint.ticked = Some(now);
            if endpoint.strategy.machine.tells_at_ticks() {
                endpoint.tell();
            }
            // A tick at which nothing is taken because somebody is behind is a rest too.
            self.rested = true;
            self.resting.retain(|i| *i != id);
            self.activate(id);
        }
    }

    /// Others have rested for a while. Whoever has taken next to nothing meanwhile, time and again, waits for something else
    /// than the processor: for it they do not rest any more. Once is not enough: its processor may have been another's meanwhile.
    fn give_up_on_the_stuck(&mut self, now: Time) {
        let mut behind = std::mem::take(&mut self.behind);
        let before = behind.len();
        behind.retain(|id| {
            let Some(endpoint) = self.find(*id) else { return false };
            let consumed = endpoint.consumed();
            let Some(last) = endpoint.behind else { return false };
            let enough = (endpoint.geometry().receive_ring / TAKEN_IN_A_REST).max(1);
            let taken = consumed.wrapping_sub(last.consumed);
            let rests = if taken < enough { last.rests + 1 } else { 0 };
            let stuck = rests >= RESTS_IN_VAIN;
            endpoint.behind = (!stuck).then_some(Behind { consumed, rests, ..last });
            if stuck {
                endpoint.slow_until = now + SLOW;
                ask_for_catching_up(&endpoint.segment, false);
            }
            !stuck
        });
        self.behind_changed |= behind.len() != before;
        self.behind = behind;
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
    pub(crate) fn at(&mut self, place: usize) -> Option<(EndpointId, &mut Attached)> {
        let id = *self.active.get(place)?;
        self.find(id).map(|endpoint| (id, endpoint))
    }

    /// At the end of a round: tells applications, and decides what comes next for those that were looked at. True if one of them
    /// had used its quota and has a new one: another round has something to do.
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
        self.active.append(&mut active);
        again
    }

    fn stays(&mut self, id: EndpointId, stalled: bool, now: Time, again: &mut bool) -> bool {
        let processor = self.processor;
        let Some(endpoint) = self.find(id) else { return false };
        endpoint.look = Looked::Always;
        let used_up = std::mem::take(&mut endpoint.used_up);
        if endpoint.is_departing() {
            return true;
        }
        endpoint.strategy.publish_processor(&endpoint.segment, processor);
        let worked = endpoint.strategy.has_news();
        if endpoint.strategy.machine.tells_at_ticks() {
            endpoint.show();
            endpoint.let_on();
        } else {
            endpoint.tell();
        }
        let look = Look { worked, waiting: endpoint.is_waiting(), pressed: endpoint.pressed, stalled };
        let next = endpoint.strategy.machine.handle_look(look, now);
        *again |= used_up && next == Next::Stay && endpoint.quota() > 0;
        match next {
            Next::Stay => true,
            Next::Arm => {
                let armed = endpoint.arm();
                if armed {
                    endpoint.look = Looked::Armed;
                }
                !armed
            }
            // An SDU half sent is seen to its end, and what is in parcels until it has been read.
            Next::At(_) if endpoint.outbound.is_in_an_sdu() || endpoint.outbound.is_aboard() => true,
            Next::At(time) => {
                let (soft, ticks) = (endpoint.strategy.machine.is_soft(), endpoint.strategy.machine.tells_at_ticks());
                let slot = if soft { self.soft.insert(time, id) } else { self.clocked.insert(time, id) };
                if !ticks {
                    self.resting.push(id);
                }
                if let Some(endpoint) = self.find(id) {
                    endpoint.look = Looked::At(slot);
                    if !ticks {
                        endpoint.strategy.counts.rests = endpoint.strategy.counts.rests.wrapping_add(1);
                    }
                }
                false
            }
        }
    }

    /// Whether somebody has fallen behind or caught up since that was last told.
    pub(crate) fn has_behind_changed(&self) -> bool {
        self.behind_changed
    }

    /// Forgets those that are behind no more.
    pub(crate) fn release_if_caught_up(&mut self, now: Time) {
        if self.behind.is_empty() {
            return;
        }
        let mut behind = std::mem::take(&mut self.behind);
        let before = behind.len();
        let (mut least, mut got_on) = (None::<u32>, false);
        behind.retain(|id| {
            let Some(endpoint) = self.find(*id) else { return false };
            if endpoint.caught_up() {
                endpoint.behind = None;
                ask_for_catching_up(&endpoint.segment, false);
            }
            let (room, consumed) = (endpoint.geometry().receive_ring / 4, endpoint.consumed());
            let Some(state) = &mut endpoint.behind else { return false };
            got_on |= std::mem::replace(&mut state.seen, consumed) != consumed;
            least = Some(least.map_or(room, |least| least.min(room)));
            true
        });
        self.behind_changed |= behind.len() != before;
        self.behind = behind;
        self.room = least;
        if got_on {
            self.progress = now;
        }
    }

    /// Whether no endpoint wants a look before its time, or somebody's call.
    pub(crate) fn rests(&self) -> bool {
        let lists = [&self.active, &self.news, &self.behind];
        lists.into_iter().all(Vec::is_empty) && self.fed.is_empty() && self.soft.head().is_none()
    }

    /// Whether the thread may sleep: nobody polls, lingers, or has something to send that does not wait for a line.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let active = std::mem::take(&mut self.active);
        let quiet = active.iter().all(|id| {
            let polls = |e: &Attached| e.strategy.kind() == Events::Polling;
            let waits = |e: &Attached| e.look == Looked::Always && e.is_leaving();
            self.find(*id).is_none_or(|e| waits(e) && !polls(e))
        });
        self.active = active;
        quiet
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
