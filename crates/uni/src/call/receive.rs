//! Messages from the peer, through the states. Errors are handled in the order of Q.2931 section 5.6: the head, the
//! call reference, the message type, the state, then the elements.

use super::decode::{Decoded, Verdict, decode};
use super::timer::Timer;
use super::{Call, CallId, Calls, Event, Side, State};
use wire::Time;
use wire::q2931::{
    CallReference, Cause, CauseValue, ConnectionId, Element, ElementId, Message, MessageAction, MessageType, VciChoice,
};

impl Calls {
    /// A message of the signalling link.
    pub fn handle_message(&mut self, octets: &[u8], now: Time) {
        self.counts.received += 1;
        let Ok(message) = Message::new_checked(octets) else {
            self.counts.ignored += 1;
            return;
        };
        let reference = message.reference();
        match reference.value {
            CallReference::GLOBAL => return self.on_global(&message),
            CallReference::DUMMY => {
                self.counts.ignored += 1;
                return;
            }
            _ => {}
        }
        let call = CallId { value: reference.value, ours: reference.to_originator };
        let kind = message.message_type();
        let Some(state) = self.state(call) else { return self.on_unknown(call, &message, now) };
        if kind == MessageType::SETUP {
            self.counts.ignored += 1;
            return;
        }
        let is_clearing = matches!(kind, MessageType::RELEASE | MessageType::RELEASE_COMPLETE);
        if message.is_truncated() && !is_clearing {
            return self.report(call.reference(), self.state_number(call), CauseValue::WRONG_LENGTH, &[]);
        }
        if !is_known(kind) {
            return self.wrong_message(call, &message, CauseValue::MESSAGE_UNKNOWN, now);
        }
        if !self.is_expected(call, state, kind) {
            return self.wrong_message(call, &message, CauseValue::WRONG_STATE, now);
        }
        let mut decoded = decode(&message);
        self.require_connection(call, kind, &mut decoded);
        if !is_clearing {
            if !decoded.missing.is_empty() || !decoded.invalid.is_empty() {
                return self.on_incomplete(call, kind, &decoded);
            }
            match decoded.verdict {
                Verdict::Process => {}
                Verdict::Drop => return self.report_elements(call, kind, &decoded),
                Verdict::Clear => {
                    let (value, named) = decoded.trouble.unwrap_or((CauseValue::INVALID_CONTENTS, Vec::new()));
                    return self.clear(call, Cause::with(self.config.location, value, &named), now);
                }
            }
        }
        self.on_expected(call, kind, &mut decoded, now);
        if self.calls.contains_key(&call) {
            self.report_elements(call, kind, &decoded);
        }
    }

    /// Whether a message of this type has a meaning in this state.
    fn is_expected(&self, call: CallId, state: State, kind: MessageType) -> bool {
        match kind {
            MessageType::CALL_PROCEEDING => state == State::OutgoingInitiated,
            MessageType::ALERTING => matches!(state, State::OutgoingInitiated | State::OutgoingProceeding),
            MessageType::CONNECT => state.is_outgoing(),
            MessageType::CONNECT_ACKNOWLEDGE => matches!(state, State::IncomingConnect | State::Active) && !call.ours,
            MessageType::NOTIFY => !matches!(state, State::OutgoingInitiated | State::Releasing),
            MessageType::ADD_PARTY => {
                !call.ours && self.is_multipoint(call) && matches!(state, State::Active | State::IncomingReceived)
            }
            MessageType::ADD_PARTY_ACKNOWLEDGE | MessageType::ADD_PARTY_REJECT | MessageType::PARTY_ALERTING => {
                call.ours && self.is_multipoint(call) && matches!(state, State::Active | State::OutgoingDelivered)
            }
            MessageType::DROP_PARTY | MessageType::DROP_PARTY_ACKNOWLEDGE => {
                self.is_multipoint(call) && state != State::Releasing
            }
            _ => true,
        }
    }

    /// A message for a call reference that is not in use (section 5.6.3).
    fn on_unknown(&mut self, call: CallId, message: &Message<'_>, now: Time) {
        match message.message_type() {
            MessageType::SETUP if !call.ours => self.on_setup(call, message, now),
            MessageType::SETUP | MessageType::RELEASE_COMPLETE => self.counts.ignored += 1,
            MessageType::STATUS_ENQUIRY => self.report(call.reference(), 0, CauseValue::STATUS_ENQUIRY, &[]),
            MessageType::STATUS => match decode(message).elements.call_state() {
                Some(0) | None => self.counts.ignored += 1,
                Some(_) => self.refuse(call, CauseValue::WRONG_STATE, &[]),
            },
            _ => self.refuse(call, CauseValue::INVALID_CALL_REFERENCE, &[]),
        }
    }

    /// RELEASE COMPLETE for a call that is not taken.
    fn refuse(&mut self, call: CallId, value: CauseValue, diagnostic: &[u8]) {
        let cause = Element::Cause(Cause::with(self.config.location, value, diagnostic));
        self.send_dispensable(call.reference(), MessageType::RELEASE_COMPLETE, &[cause]);
    }

    fn on_setup(&mut self, id: CallId, message: &Message<'_>, now: Time) {
        if message.is_truncated() {
            return self.refuse(id, CauseValue::WRONG_LENGTH, &[]);
        }
        let mut decoded = decode(message);
        let multipoint = decoded.elements.bearer().is_some_and(|bearer| bearer.multipoint);
        if multipoint && !decoded.elements.has(ElementId::ENDPOINT_REFERENCE) {
            decoded.missing.push(ElementId::ENDPOINT_REFERENCE.0);
        }
        if self.config.side == Side::User && !decoded.elements.has(ElementId::CONNECTION_ID) {
            decoded.missing.push(ElementId::CONNECTION_ID.0);
        }
        if !decoded.missing.is_empty() {
            return self.refuse(id, CauseValue::MANDATORY_MISSING, &decoded.missing);
        }
        if !decoded.invalid.is_empty() {
            return self.refuse(id, CauseValue::INVALID_CONTENTS, &decoded.invalid);
        }
        match decoded.verdict {
            Verdict::Process => {}
            Verdict::Drop => return self.report_elements(id, MessageType::SETUP, &decoded),
            Verdict::Clear => {
                let (value, named) = decoded.trouble.unwrap_or((CauseValue::INVALID_CONTENTS, Vec::new()));
                return self.refuse(id, value, &named);
            }
        }
        if let Err(value) = self.admit(now) {
            self.counts.limited += 1;
            return self.refuse(id, value, &[]);
        }
        let connection = match self.take_label(decoded.elements.connection(), id) {
            Ok(connection) => connection,
            Err(value) => return self.refuse(id, value, &[]),
        };
        let call = Call {
            state: State::IncomingPresent,
            timer: None,
            attempts: 0,
            connection: Some(connection),
            connection_known: decoded.elements.connection() == Some(connection),
            again: None,
            parties: multipoint.then(|| Box::new(super::Parties::received(decoded.elements.endpoint_reference()))),
        };
        self.calls.insert(id, call);
        let elements = std::mem::take(&mut decoded.elements);
        self.events.push_back(Event::Setup { call: id, elements, connection });
        self.report_elements(id, MessageType::SETUP, &decoded);
    }

    /// The limits of the interface.
    fn admit(&mut self, now: Time) -> Result<(), CauseValue> {
        if self.calls.len() >= self.config.max_calls {
            return Err(CauseValue::RESOURCES);
        }
        if now.since(self.second.0).as_secs() >= 1 {
            self.second = (now, 0);
        }
        self.second.1 += 1;
        if self.second.1 > self.config.max_calls_per_second { Err(CauseValue::TEMPORARY_FAILURE) } else { Ok(()) }
    }

    /// The circuit of an incoming call: as the peer wants it, or any where this side chooses.
    fn take_label(&mut self, wanted: Option<ConnectionId>, id: CallId) -> Result<ConnectionId, CauseValue> {
        let vpci = self.labels.vpci();
        match wanted {
            Some(ConnectionId { vpci: wanted, vci: VciChoice::Exactly(vci) }) => {
                let taken = self.labels.take(wanted, vci, id);
                let unavailable = match self.config.side {
                    Side::User => CauseValue::ASSIGNMENT_FAILED,
                    Side::Network => CauseValue::VPCI_VCI_UNAVAILABLE,
                };
                if taken { Ok(ConnectionId::exactly(wanted, vci)) } else { Err(unavailable) }
            }
            Some(ConnectionId { vci: VciChoice::None, .. }) => Err(CauseValue::BEARER_NOT_IMPLEMENTED),
            Some(ConnectionId { vpci: wanted, .. }) if wanted != vpci => Err(CauseValue::VPCI_VCI_UNAVAILABLE),
            _ => {
                let vci = self.labels.take_any(id).ok_or(CauseValue::NO_VPCI_VCI)?;
                Ok(ConnectionId::exactly(vpci, vci))
            }
        }
    }

    /// The first answer to a SETUP without a circuit must name one.
    fn require_connection(&mut self, id: CallId, kind: MessageType, decoded: &mut Decoded) {
        let is_answer = matches!(kind, MessageType::CALL_PROCEEDING | MessageType::ALERTING | MessageType::CONNECT);
        let unknown = self.calls.get(&id).is_some_and(|call| call.connection.is_none());
        if is_answer && unknown && !decoded.elements.has(ElementId::CONNECTION_ID) {
            decoded.missing.push(ElementId::CONNECTION_ID.0);
        }
    }

    fn on_incomplete(&mut self, call: CallId, kind: MessageType, decoded: &Decoded) {
        let (value, named) = if decoded.missing.is_empty() {
            (CauseValue::INVALID_CONTENTS, &decoded.invalid)
        } else {
            (CauseValue::MANDATORY_MISSING, &decoded.missing)
        };
        match kind {
            // Never an answer to STATUS: two sides would go on for ever.
            MessageType::STATUS => self.counts.ignored += 1,
            MessageType::ADD_PARTY if !decoded.elements.has(ElementId::CALLED_NUMBER) => {
                self.refuse_party(call, decoded.elements.endpoint_reference(), value, named);
            }
            _ => self.report(call.reference(), self.state_number(call), value, named),
        }
    }

    fn report_elements(&mut self, call: CallId, kind: MessageType, decoded: &Decoded) {
        if let Some((value, named)) = decoded.trouble.as_ref().filter(|_| decoded.report && kind != MessageType::STATUS)
        {
            self.report(call.reference(), self.state_number(call), *value, named);
        }
    }

    /// A message that is not known, or not expected now (sections 5.6.4 and 5.6.5): as it says itself, or by STATUS.
    fn wrong_message(&mut self, call: CallId, message: &Message<'_>, value: CauseValue, now: Time) {
        let kind = message.message_type().0;
        match message.action() {
            Some(MessageAction::Drop) => self.counts.ignored += 1,
            Some(MessageAction::Clear) => self.clear(call, Cause::with(self.config.location, value, &[kind]), now),
            Some(MessageAction::DropAndReport) | None => {
                self.report(call.reference(), self.state_number(call), value, &[kind]);
            }
        }
    }

    fn on_expected(&mut self, id: CallId, kind: MessageType, decoded: &mut Decoded, now: Time) {
        let elements = std::mem::take(&mut decoded.elements);
        match kind {
            MessageType::CALL_PROCEEDING | MessageType::ALERTING | MessageType::CONNECT => {
                if let Some(connection) = elements.connection()
                    && let Err(value) = self.learn(id, connection)
                {
                    return self.clear(id, self.cause(value), now);
                }
                match kind {
                    MessageType::CALL_PROCEEDING => {
                        self.enter(id, State::OutgoingProceeding, Some(Timer::T310), now);
                        self.events.push_back(Event::Proceeding(id));
                    }
                    MessageType::ALERTING => {
                        self.enter(id, State::OutgoingDelivered, Some(Timer::T301), now);
                        self.events.push_back(Event::Alerting(id));
                    }
                    _ => {
                        let Some(connection) = self.connection(id) else { return };
                        self.enter(id, State::Active, None, now);
                        self.send(id, MessageType::CONNECT_ACKNOWLEDGE, &[]);
                        self.first_party_answered(id, now);
                        self.events.push_back(Event::Connected { call: id, elements, connection });
                    }
                }
            }
            MessageType::CONNECT_ACKNOWLEDGE => {
                if self.state(id) == Some(State::IncomingConnect) {
                    self.enter(id, State::Active, None, now);
                    self.events.push_back(Event::Active(id));
                }
            }
            MessageType::RELEASE => {
                let mut answer = Vec::new();
                if !decoded.missing.is_empty() {
                    answer.push(Element::Cause(Cause::with(
                        self.config.location,
                        CauseValue::MANDATORY_MISSING,
                        &decoded.missing,
                    )));
                }
                self.send(id, MessageType::RELEASE_COMPLETE, &answer);
                let cause = elements.cause().unwrap_or_else(|| self.cause(CauseValue::NORMAL_UNSPECIFIED));
                self.forget(id, Some(cause));
            }
            MessageType::RELEASE_COMPLETE => {
                let cause = elements.cause().unwrap_or_else(|| self.cause(CauseValue::NORMAL_UNSPECIFIED));
                self.forget(id, Some(cause));
            }
            MessageType::NOTIFY => self.events.push_back(Event::Notified { call: id, elements }),
            MessageType::STATUS_ENQUIRY => self.on_enquiry(id, &elements),
            MessageType::STATUS => self.on_status(id, &elements, now),
            _ => self.on_party_message(id, kind, elements, now),
        }
    }

    /// The circuit that the peer names in an answer.
    fn learn(&mut self, id: CallId, connection: ConnectionId) -> Result<(), CauseValue> {
        let Some(call) = self.calls.get_mut(&id) else { return Ok(()) };
        call.connection_known = true;
        match (call.connection, connection.vci) {
            (Some(known), _) if known == connection => Ok(()),
            (None, VciChoice::Exactly(vci)) if self.labels.take(connection.vpci, vci, id) => {
                call.connection = Some(connection);
                Ok(())
            }
            _ => Err(CauseValue::ASSIGNMENT_FAILED),
        }
    }

    /// STATUS (section 5.6.12): what the peer says of the call, against what it is here.
    fn on_status(&mut self, id: CallId, elements: &super::ElementList, now: Time) {
        let (Some(peer), Some(cause)) = (elements.call_state(), elements.cause()) else { return };
        let Some(call) = self.calls.get(&id) else { return };
        let state = call.state;
        if cause.value == CauseValue::STATUS_ENQUIRY && matches!(call.timer, Some((_, Timer::T322))) {
            self.set_timer(id, None, now);
        }
        let is_releasing = matches!(peer, 11 | 12);
        match (state, peer) {
            (_, 0) => self.forget(id, Some(cause)),
            (State::Releasing, _) => {}
            // The peer is ahead: a message to this side was lost.
            (_, _) if is_releasing || peer == 10 && (state.is_outgoing() || state.is_unanswered()) => {
                self.clear(id, self.cause(CauseValue::WRONG_STATE), now);
            }
            _ => {}
        }
    }
}

/// Whether this is a message of point-to-point or point-to-multipoint call control.
fn is_known(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::ALERTING
            | MessageType::CALL_PROCEEDING
            | MessageType::CONNECT
            | MessageType::CONNECT_ACKNOWLEDGE
            | MessageType::RELEASE
            | MessageType::RELEASE_COMPLETE
            | MessageType::NOTIFY
            | MessageType::STATUS_ENQUIRY
            | MessageType::STATUS
            | MessageType::ADD_PARTY
            | MessageType::ADD_PARTY_ACKNOWLEDGE
            | MessageType::ADD_PARTY_REJECT
            | MessageType::DROP_PARTY
            | MessageType::DROP_PARTY_ACKNOWLEDGE
            | MessageType::PARTY_ALERTING
    )
}
