//! The timers of calls, parties and the link.

use super::{CallId, Calls, Event, State};
use wire::Time;
use wire::q2931::{Cause, CauseValue, Element, MessageType};

/// A call's timer: it has one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    T301,
    T303,
    T308,
    T310,
    T313,
    T322,
}

impl Calls {
    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let calls = self.timers.first().map(|(at, _, _)| *at);
        [calls, self.link_timer, self.restart.deadline()].into_iter().flatten().min()
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, call, party)) = self.timers.first()
            && at <= now
        {
            self.timers.remove(&(at, call, party));
            match party {
                Some(party) => self.party_expired(call, party, now),
                None => self.call_expired(call, now),
            }
        }
        if self.link_timer.is_some_and(|at| at <= now) {
            self.link_timer = None;
            self.clear_all(CauseValue::OUT_OF_ORDER, |_| true);
        }
        self.restart_expired(now);
    }

    /// Starts a call's timer in place of the one that it has, or stops it.
    pub(super) fn set_timer(&mut self, id: CallId, timer: Option<Timer>, now: Time) {
        let t = &self.config.timers;
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some((at, _)) = call.timer.take() {
            self.timers.remove(&(at, id, None));
        }
        call.attempts = 0;
        if let Some(timer) = timer {
            let length = match timer {
                Timer::T301 => t.t301,
                Timer::T303 => t.t303,
                Timer::T308 => t.t308,
                Timer::T310 => t.t310,
                Timer::T313 => t.t313,
                Timer::T322 => t.t322,
            };
            let at = now + length;
            call.timer = Some((at, timer));
            self.timers.insert((at, id, None));
        }
    }

    /// Enters a state with its timer.
    pub(super) fn enter(&mut self, id: CallId, state: State, timer: Option<Timer>, now: Time) {
        self.set_timer(id, timer, now);
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = state;
            call.again = None;
        }
    }

    fn call_expired(&mut self, id: CallId, now: Time) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some((_, timer)) = call.timer.take() else { return };
        let (attempts, again) = (call.attempts, call.again.clone());
        let location = self.config.location;
        let timed_out = |name: &[u8]| Cause::with(location, CauseValue::TIMER, name);
        match timer {
            Timer::T303 | Timer::T308 if attempts == 0 => {
                self.set_timer(id, Some(timer), now);
                if let Some(call) = self.calls.get_mut(&id) {
                    call.attempts = 1;
                }
                if let Some(octets) = again.filter(|_| self.link_up) {
                    self.push(octets.into_vec());
                }
            }
            Timer::T303 => {
                // The peer never answered: it is told, and the caller hears that nobody responds.
                self.send(id, MessageType::RELEASE_COMPLETE, &[Element::Cause(timed_out(b"303"))]);
                self.forget(id, Some(self.cause(CauseValue::NO_RESPONSE)));
            }
            Timer::T308 => self.forget(id, None),
            Timer::T310 => self.clear(id, self.cause(CauseValue::NO_RESPONSE), now),
            Timer::T301 => self.clear(id, self.cause(CauseValue::NO_ANSWER), now),
            Timer::T313 => self.clear(id, timed_out(b"313"), now),
            Timer::T322 if attempts == 0 => {
                self.set_timer(id, Some(timer), now);
                if let Some(call) = self.calls.get_mut(&id) {
                    call.attempts = 1;
                }
                self.send(id, MessageType::STATUS_ENQUIRY, &[]);
            }
            Timer::T322 => self.clear(id, timed_out(b"322"), now),
        }
    }

    /// This side gives a call up: RELEASE to the peer, and the user hears why.
    pub(super) fn clear(&mut self, id: CallId, cause: Cause, now: Time) {
        if self.state(id).is_some_and(|state| state != State::Releasing) {
            self.events.push_back(Event::Released { call: id, cause });
            self.send_release(id, cause, now);
        }
    }

    /// RELEASE, and its repetition with the timer that ran out.
    pub(super) fn send_release(&mut self, id: CallId, cause: Cause, now: Time) {
        if !self.link_up {
            return self.forget_silently(id);
        }
        if let Some(parties) = self.calls.get_mut(&id).and_then(|call| call.parties.take()) {
            for (at, party) in parties.deadlines() {
                self.timers.remove(&(at, id, Some(party)));
            }
        }
        self.enter(id, State::Releasing, Some(Timer::T308), now);
        let timer = Cause::with(self.config.location, CauseValue::TIMER, b"308");
        let again = [Element::Cause(cause), Element::Cause(timer)];
        if let Some(call) = self.calls.get_mut(&id) {
            call.again = Some(super::list::message(id.reference(), MessageType::RELEASE, &again).into_boxed_slice());
        }
        self.send(id, MessageType::RELEASE, &again[..1]);
    }

    fn forget_silently(&mut self, id: CallId) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = State::Releasing;
        }
        self.forget(id, None);
    }

    /// The link is no more: all calls are cleared, without a word to the peer.
    pub fn abandon(&mut self, value: CauseValue) {
        (self.link_up, self.link_timer) = (false, None);
        self.out.clear();
        self.enquiries = None;
        self.clear_all(value, |_| true);
    }

    /// Clears calls without a word to the peer.
    pub(super) fn clear_all(&mut self, value: CauseValue, which: impl Fn(State) -> bool) {
        let mut ids: Vec<CallId> = self.calls.iter().filter(|(_, call)| which(call.state)).map(|(id, _)| id).collect();
        ids.sort_unstable();
        for id in ids {
            self.forget(id, Some(Cause::new(self.config.location, value)));
        }
    }
}
