//! The global call reference: restart of circuits (Q.2931 section 5.5).

use super::decode::decode;
use super::{CallId, Calls, Event, Refused};
use wire::Time;
use wire::q2931::{
    CallReference, Cause, CauseValue, ConnectionId, Element, ElementId, Message, MessageType, RestartClass, VciChoice,
};

/// A restart that the peer has not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Restart {
    asked: Option<(RestartClass, Option<ConnectionId>)>,
    timer: Option<Time>,
    attempts: u8,
}

impl Restart {
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.timer
    }

    /// The state in STATUS: 0, or 3D while a restart is asked for.
    const fn number(&self) -> u8 {
        if self.asked.is_some() { 0x3d } else { 0 }
    }
}

const OURS: CallReference = CallReference { value: CallReference::GLOBAL, to_originator: false };

impl Calls {
    /// Restarts circuits: the calls on them are cleared here at once, and at the peer by RESTART. One restart at a
    /// time.
    pub fn restart(&mut self, class: RestartClass, connection: Option<ConnectionId>, now: Time) -> Result<(), Refused> {
        if !self.link_up {
            return Err(Refused::LinkDown);
        }
        if self.restart.asked.is_some() || (class != RestartClass::All && connection.is_none()) {
            return Err(Refused::State);
        }
        let connection = connection.filter(|_| class != RestartClass::All);
        self.restart =
            Restart { asked: Some((class, connection)), timer: Some(now + self.config.timers.t316), attempts: 1 };
        self.clear_restarted(class, connection);
        self.send_restart(MessageType::RESTART, OURS, class, connection);
        Ok(())
    }

    fn send_restart(&mut self, kind: MessageType, to: CallReference, class: RestartClass, of: Option<ConnectionId>) {
        let connection = of.map(Element::Connection);
        let elements: Vec<Element> = connection.into_iter().chain([Element::Restart(class)]).collect();
        self.send_to(to, kind, &elements);
    }

    pub(super) fn restart_expired(&mut self, now: Time) {
        if self.restart.timer.is_none_or(|at| at > now) {
            return;
        }
        match self.restart.asked {
            // T316 runs twice; then the restart is given up, and the circuits are free here all the same.
            Some((class, connection)) if self.restart.attempts < 2 => {
                self.restart.attempts += 1;
                self.restart.timer = Some(now + self.config.timers.t316);
                self.send_restart(MessageType::RESTART, OURS, class, connection);
            }
            _ => self.restart = Restart::default(),
        }
    }

    fn clear_restarted(&mut self, class: RestartClass, connection: Option<ConnectionId>) {
        let ids: Vec<CallId> = match (class, connection) {
            (RestartClass::All, _) => self.calls.iter().map(|(id, _)| id).collect(),
            // All circuits of an interface are on one path.
            (RestartClass::Path, Some(named)) if named.vpci == self.labels.vpci() => {
                self.calls.iter().filter(|(_, call)| call.connection.is_some()).map(|(id, _)| id).collect()
            }
            (RestartClass::Channel, Some(ConnectionId { vpci, vci: VciChoice::Exactly(vci) })) => {
                self.labels.owner(vpci, vci).into_iter().collect()
            }
            _ => Vec::new(),
        };
        for id in ids {
            self.forget(id, Some(Cause::new(self.config.location, CauseValue::TEMPORARY_FAILURE)));
        }
    }

    /// A message with the global call reference.
    pub(super) fn on_global(&mut self, message: &Message<'_>) {
        let reference = message.reference();
        let state = self.restart.number();
        let kind = message.message_type();
        let from_originator = match kind {
            MessageType::RESTART => true,
            MessageType::RESTART_ACKNOWLEDGE => false,
            // An answer to STATUS would be answered in turn.
            MessageType::STATUS => {
                self.counts.ignored += 1;
                return;
            }
            _ => return self.report(reference.reversed(), state, CauseValue::INVALID_CALL_REFERENCE, &[]),
        };
        if from_originator == reference.to_originator {
            return self.report(reference.reversed(), state, CauseValue::INVALID_CALL_REFERENCE, &[]);
        }
        if message.is_truncated() {
            return self.report(reference.reversed(), state, CauseValue::WRONG_LENGTH, &[]);
        }
        let mut decoded = decode(message);
        let class = decoded.elements.restart();
        let connection = decoded.elements.connection();
        let needs_connection = class.is_some_and(|class| class != RestartClass::All);
        let is_channel = |c: ConnectionId| class == Some(RestartClass::Path) || matches!(c.vci, VciChoice::Exactly(_));
        if needs_connection && connection.is_none() {
            decoded.missing.push(ElementId::CONNECTION_ID.0);
        }
        if !decoded.missing.is_empty() {
            return self.report(reference.reversed(), state, CauseValue::MANDATORY_MISSING, &decoded.missing);
        }
        if needs_connection && !connection.is_some_and(is_channel) {
            decoded.invalid.push(ElementId::CONNECTION_ID.0);
        }
        let (Some(class), true) = (class, decoded.invalid.is_empty()) else {
            return self.report(reference.reversed(), state, CauseValue::INVALID_CONTENTS, &decoded.invalid);
        };
        if kind == MessageType::RESTART_ACKNOWLEDGE {
            // It must echo what was asked; otherwise it is for another restart.
            if self.restart.asked == Some((class, connection)) {
                self.restart = Restart::default();
            } else {
                self.counts.ignored += 1;
            }
            return;
        }
        let named = connection.filter(|_| class != RestartClass::All);
        self.clear_restarted(class, named);
        self.events.push_back(Event::Restarted(class));
        self.send_restart(MessageType::RESTART_ACKNOWLEDGE, reference.reversed(), class, named);
        // The connection identifier of a restart of all is one element too many.
        if class == RestartClass::All && connection.is_some() {
            self.report(reference.reversed(), state, CauseValue::ELEMENT_UNKNOWN, &[ElementId::CONNECTION_ID.0]);
        }
    }
}
