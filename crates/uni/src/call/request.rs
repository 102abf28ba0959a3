//! What the user of call control asks for.

use super::decode::is_of_uni31;
use super::timer::Timer;
use super::{Call, CallId, Calls, ElementList, Event, Parties, Refused, Side, State, Version};
use wire::Time;
use wire::q2931::{CallReference, Cause, CauseValue, ConnectionId, Element, ElementId, MessageType};

/// Calls that are looked at in one step, so that a peer that establishes the link again and again costs as much each
/// time, however many calls there are.
const ASKED_AT_ONCE: usize = 64;

impl Calls {
    /// The signalling link is established. The peer is asked for the state of active calls, some at a time.
    pub fn link_established(&mut self, now: Time) {
        self.link_up = true;
        self.link_timer = None;
        self.out.resume();
        self.enquiries = Some(CallId { value: 0, ours: false });
        self.resume_enquiries(now);
    }

    /// The signalling link is down: calls that are not active are cleared, and the others wait for it (T309).
    pub fn link_released(&mut self, now: Time) {
        self.link_up = false;
        self.out.clear();
        self.enquiries = None;
        self.clear_all(CauseValue::OUT_OF_ORDER, |state| state != State::Active);
        if !self.calls.is_empty() && self.link_timer.is_none() {
            self.link_timer = Some(now + self.config.timers.t309);
        }
        self.events.push_back(Event::EstablishLink);
    }

    /// Whether there are calls that the peer has not been asked about since the link was established.
    pub const fn has_enquiries(&self) -> bool {
        self.enquiries.is_some()
    }

    /// Looks at some more calls, and asks the peer for the state of those that are active; call it when the link has
    /// room. While messages wait, nothing is asked. T322 of a call begins when it is asked about.
    pub fn resume_enquiries(&mut self, now: Time) {
        let Some(from) = self.enquiries.filter(|_| self.out.is_empty()) else { return };
        let (active, rest) = self.calls.active_part(from, ASKED_AT_ONCE);
        self.enquiries = rest;
        for id in active {
            self.set_timer(id, Some(Timer::T322), now);
            self.send(id, MessageType::STATUS_ENQUIRY, &[]);
        }
    }

    /// Asks the peer for the state of an active call.
    pub fn enquire(&mut self, id: CallId, now: Time) -> Result<(), Refused> {
        if self.state(id) != Some(State::Active) {
            return Err(Refused::State);
        }
        self.set_timer(id, Some(Timer::T322), now);
        self.send(id, MessageType::STATUS_ENQUIRY, &[]);
        Ok(())
    }

    /// Elements that the peer's version has.
    pub(super) fn for_peer(&self, elements: &ElementList) -> Vec<Element> {
        let all = self.config.version != Version::Uni31;
        elements.0.iter().filter(|element| all || is_of_uni31(element.id())).copied().collect()
    }

    fn free_reference(&mut self) -> Option<CallId> {
        // There are more references than calls, so that a free one is near.
        for _ in 0..=self.calls.len() {
            self.next_reference = self.next_reference % (CallReference::DUMMY - 1) + 1;
            let id = CallId { value: self.next_reference, ours: true };
            if !self.calls.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Calls: sends SETUP. The network side chooses the circuit, and the user side leaves it to the network unless
    /// `elements` name one.
    pub fn setup(&mut self, mut elements: ElementList, now: Time) -> Result<CallId, Refused> {
        if !self.link_up {
            return Err(Refused::LinkDown);
        }
        if self.calls.len() >= self.config.max_calls {
            self.counts.limited += 1;
            return Err(Refused::Limit(CauseValue::RESOURCES));
        }
        let id = self.free_reference().ok_or(Refused::Limit(CauseValue::RESOURCES))?;
        let mut connection = None;
        if self.config.side == Side::Network {
            let vci = self.labels.take_any(id).ok_or(Refused::Limit(CauseValue::NO_VPCI_VCI))?;
            let chosen = ConnectionId::exactly(self.labels.vpci(), vci);
            elements.set(Element::Connection(chosen));
            connection = Some(chosen);
        } else {
            elements.remove(ElementId::CONNECTION_ID);
        }
        let multipoint = elements.bearer().is_some_and(|bearer| bearer.multipoint);
        let parties = multipoint.then(|| {
            elements.set(Element::EndpointReference(Default::default()));
            Box::new(Parties::sent())
        });
        let octets = super::list::message(id.reference(), MessageType::SETUP, &self.for_peer(&elements));
        let call = Call {
            state: State::OutgoingInitiated,
            timer: None,
            attempts: 0,
            connection,
            connection_known: connection.is_some(),
            again: None,
            parties,
        };
        self.calls.insert(id, call);
        self.enter(id, State::OutgoingInitiated, Some(Timer::T303), now);
        if let Some(call) = self.calls.get_mut(&id) {
            call.again = Some(octets.clone().into_boxed_slice());
        }
        self.push(octets);
        Ok(id)
    }

    /// The first answer names the circuit if SETUP did not, and the party of a point-to-multipoint call.
    fn answer(&mut self, id: CallId, kind: MessageType, elements: &ElementList) {
        let mut all = self.for_peer(elements);
        if let Some(call) = self.calls.get_mut(&id) {
            if let Some(connection) = call.connection.filter(|_| !call.connection_known) {
                all.push(Element::Connection(connection));
                call.connection_known = true;
            }
            if let Some(reference) = call.parties.as_ref().and_then(|parties| parties.first_received()) {
                all.push(Element::EndpointReference(reference));
            }
        }
        self.send(id, kind, &all);
    }

    /// Answers SETUP by CALL PROCEEDING.
    pub fn proceed(&mut self, id: CallId, now: Time) -> Result<(), Refused> {
        if self.state(id) != Some(State::IncomingPresent) {
            return Err(Refused::State);
        }
        self.answer(id, MessageType::CALL_PROCEEDING, &ElementList::default());
        self.enter(id, State::IncomingProceeding, None, now);
        Ok(())
    }

    /// Answers by ALERTING.
    pub fn alert(&mut self, id: CallId, now: Time) -> Result<(), Refused> {
        if !matches!(self.state(id), Some(State::IncomingPresent | State::IncomingProceeding)) {
            return Err(Refused::State);
        }
        self.answer(id, MessageType::ALERTING, &ElementList::default());
        self.enter(id, State::IncomingReceived, None, now);
        Ok(())
    }

    /// Answers by CONNECT. The user side waits for its acknowledgement; the network side does not.
    pub fn connect(&mut self, id: CallId, elements: &ElementList, now: Time) -> Result<(), Refused> {
        if !self.state(id).is_some_and(State::is_unanswered) {
            return Err(Refused::State);
        }
        self.answer(id, MessageType::CONNECT, elements);
        match self.config.side {
            Side::User => self.enter(id, State::IncomingConnect, Some(Timer::T313), now),
            Side::Network => self.enter(id, State::Active, None, now),
        }
        self.first_party_answered(id, now);
        Ok(())
    }

    /// Sends NOTIFY.
    pub fn notify(&mut self, id: CallId, elements: &ElementList) -> Result<(), Refused> {
        if self.state(id).is_none_or(|state| state == State::Releasing) {
            return Err(Refused::State);
        }
        let elements = self.for_peer(elements);
        self.send_dispensable(id.reference(), MessageType::NOTIFY, &elements);
        Ok(())
    }

    /// Releases a call, or refuses one that has not been answered at all.
    pub fn release(&mut self, id: CallId, cause: Cause, now: Time) -> Result<(), Refused> {
        match self.state(id) {
            None | Some(State::Releasing) => Err(Refused::State),
            Some(State::IncomingPresent) => {
                self.send(id, MessageType::RELEASE_COMPLETE, &[Element::Cause(cause)]);
                self.forget(id, None);
                Ok(())
            }
            Some(_) => {
                self.send_release(id, cause, now);
                Ok(())
            }
        }
    }
}
