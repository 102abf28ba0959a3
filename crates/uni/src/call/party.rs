//! Parties of point-to-multipoint calls (Q.2971, UNI 3.1 section 5.6): the root adds leaves to an active call one by
//! one.

use super::{CallId, Calls, ElementList, Event, Refused, State};
use std::collections::BTreeMap;
use wire::Time;
use wire::q2931::{Cause, CauseValue, Element, EndpointReference, MessageType, PartyState};

/// A party: its call, and its endpoint reference there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId {
    /// The call.
    pub call: CallId,
    /// The endpoint reference's value; 0 is the party of SETUP.
    pub reference: u16,
}

/// Where a party stands. The numbers in STATUS are those of Q.2971.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// 1: ADD PARTY or SETUP was sent.
    AddInitiated,
    /// 4: PARTY ALERTING came.
    AlertingDelivered,
    /// 6: ADD PARTY or SETUP came.
    AddReceived,
    /// 7: PARTY ALERTING was sent.
    AlertingReceived,
    /// A.
    Active,
    /// B: DROP PARTY was sent.
    DropInitiated,
}

impl Stand {
    const fn number(self) -> u8 {
        match self {
            Stand::AddInitiated => 1,
            Stand::AlertingDelivered => 4,
            Stand::AddReceived => 6,
            Stand::AlertingReceived => 7,
            Stand::Active => 0xa,
            Stand::DropInitiated => 0xb,
        }
    }
}

#[derive(Debug)]
struct Party {
    stand: Stand,
    timer: Option<Time>,
}

/// The parties of one call.
#[derive(Debug)]
pub(super) struct Parties {
    parties: BTreeMap<u16, Party>,
    next: u16,
}

impl Parties {
    fn with(reference: u16, stand: Stand) -> Self {
        Parties { parties: BTreeMap::from([(reference, Party { stand, timer: None })]), next: 0 }
    }

    /// Of a call whose SETUP this side sends: party 0.
    pub(super) fn sent() -> Self {
        Self::with(0, Stand::AddInitiated)
    }

    /// Of a call whose SETUP came.
    pub(super) fn received(reference: Option<EndpointReference>) -> Self {
        Self::with(reference.map_or(0, |r| r.value), Stand::AddReceived)
    }

    /// The party that a SETUP brought and that answers it.
    pub(super) fn first_received(&self) -> Option<EndpointReference> {
        let received = |p: &Party| matches!(p.stand, Stand::AddReceived | Stand::AlertingReceived);
        let first = self.parties.iter().find(|(_, party)| received(party));
        first.map(|(value, _)| EndpointReference { value: *value, to_originator: true })
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = (Time, u16)> + '_ {
        self.parties.iter().filter_map(|(reference, party)| party.timer.map(|at| (at, *reference)))
    }

    fn remain(&self) -> bool {
        self.parties.values().any(|party| party.stand != Stand::DropInitiated)
    }
}

impl Calls {
    pub(super) fn is_multipoint(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|c| c.parties.is_some())
    }

    fn parties(&mut self, call: CallId) -> Option<&mut Parties> {
        self.calls.get_mut(&call)?.parties.as_deref_mut()
    }

    fn stand(&mut self, id: PartyId) -> Option<Stand> {
        Some(self.parties(id.call)?.parties.get(&id.reference)?.stand)
    }

    /// How many parties a call has.
    pub fn party_count(&self, call: CallId) -> usize {
        self.calls.get(&call).and_then(|c| c.parties.as_ref()).map_or(0, |parties| parties.parties.len())
    }

    fn set_party(&mut self, id: PartyId, stand: Option<Stand>, timer: Option<Time>) {
        let Some(parties) = self.parties(id.call) else { return };
        let old = match stand {
            Some(stand) => parties.parties.insert(id.reference, Party { stand, timer }),
            None => parties.parties.remove(&id.reference),
        };
        if let Some(at) = old.and_then(|party| party.timer) {
            self.timers.remove(&(at, id.call, Some(id.reference)));
        }
        if let Some(at) = timer.filter(|_| stand.is_some()) {
            self.timers.insert((at, id.call, Some(id.reference)));
        }
    }

    /// The party's reference in a message of this side.
    fn reference_element(id: PartyId) -> Element {
        Element::EndpointReference(EndpointReference { value: id.reference, to_originator: !id.call.ours })
    }

    fn send_party(&mut self, id: PartyId, kind: MessageType, elements: &[Element]) {
        let mut all = elements.to_vec();
        all.push(Self::reference_element(id));
        self.send(id.call, kind, &all);
    }

    /// The party of SETUP stands as its call does.
    pub(super) fn first_party_answered(&mut self, call: CallId, _now: Time) {
        let Some(parties) = self.parties(call) else { return };
        if let Some(reference) = parties.parties.keys().next().copied() {
            self.set_party(PartyId { call, reference }, Some(Stand::Active), None);
        }
    }

    /// Adds a party to a call that this side began.
    pub fn add_party(&mut self, call: CallId, elements: &ElementList, now: Time) -> Result<PartyId, Refused> {
        let most = self.config.max_parties;
        let ready = matches!(self.state(call), Some(State::Active | State::OutgoingDelivered)) && call.ours;
        let parties = self.parties(call).filter(|_| ready).ok_or(Refused::State)?;
        if parties.parties.len() >= most {
            return Err(Refused::Limit(CauseValue::TOO_MANY_PARTIES));
        }
        loop {
            parties.next = parties.next % 0x7fff + 1;
            if !parties.parties.contains_key(&parties.next) {
                break;
            }
        }
        let id = PartyId { call, reference: parties.next };
        self.set_party(id, Some(Stand::AddInitiated), Some(now + self.config.timers.t399));
        let elements = self.for_peer(elements);
        self.send_party(id, MessageType::ADD_PARTY, &elements);
        Ok(id)
    }

    /// Answers ADD PARTY by PARTY ALERTING.
    pub fn alert_party(&mut self, id: PartyId) -> Result<(), Refused> {
        if self.stand(id) != Some(Stand::AddReceived) {
            return Err(Refused::State);
        }
        self.set_party(id, Some(Stand::AlertingReceived), None);
        self.send_party(id, MessageType::PARTY_ALERTING, &[]);
        Ok(())
    }

    /// Answers ADD PARTY by ADD PARTY ACKNOWLEDGE.
    pub fn accept_party(&mut self, id: PartyId, elements: &ElementList) -> Result<(), Refused> {
        if !matches!(self.stand(id), Some(Stand::AddReceived | Stand::AlertingReceived)) {
            return Err(Refused::State);
        }
        self.set_party(id, Some(Stand::Active), None);
        let elements = self.for_peer(elements);
        self.send_party(id, MessageType::ADD_PARTY_ACKNOWLEDGE, &elements);
        Ok(())
    }

    /// Drops a party, or refuses one that has not been answered. The last party takes the call with it.
    pub fn drop_party(&mut self, id: PartyId, cause: Cause, now: Time) -> Result<(), Refused> {
        match self.stand(id) {
            None | Some(Stand::DropInitiated) => return Err(Refused::State),
            Some(Stand::AddReceived) => {
                self.set_party(id, None, None);
                self.send_party(id, MessageType::ADD_PARTY_REJECT, &[Element::Cause(cause)]);
            }
            Some(_) => {
                self.set_party(id, Some(Stand::DropInitiated), Some(now + self.config.timers.t398));
                if self.parties(id.call).is_some_and(|parties| parties.remain()) {
                    self.send_party(id, MessageType::DROP_PARTY, &[Element::Cause(cause)]);
                }
            }
        }
        if self.parties(id.call).is_some_and(|parties| !parties.remain()) {
            self.send_release(id.call, cause, now);
        }
        Ok(())
    }

    pub(super) fn refuse_party(
        &mut self,
        call: CallId,
        reference: Option<EndpointReference>,
        value: CauseValue,
        named: &[u8],
    ) {
        match reference {
            Some(reference) => {
                let cause = Element::Cause(Cause::with(self.config.location, value, named));
                self.send_party(PartyId { call, reference: reference.value }, MessageType::ADD_PARTY_REJECT, &[cause]);
            }
            None => self.report(call.reference(), self.state_number(call), value, named),
        }
    }

    /// STATUS ENQUIRY: the call's state, and the party's where one is named.
    pub(super) fn on_enquiry(&mut self, call: CallId, elements: &ElementList) {
        let state = Element::CallState(self.state_number(call));
        let mut answer = vec![state, self.cause_element(CauseValue::STATUS_ENQUIRY)];
        if let Some(reference) = elements.endpoint_reference() {
            let id = PartyId { call, reference: reference.value };
            let stand = self.stand(id).map_or(0, Stand::number);
            answer.push(Self::reference_element(id));
            answer.push(Element::PartyState(PartyState(stand)));
        }
        self.send_dispensable(call.reference(), MessageType::STATUS, &answer);
    }

    pub(super) fn on_party_message(&mut self, call: CallId, kind: MessageType, elements: ElementList, now: Time) {
        let Some(reference) = elements.endpoint_reference() else { return };
        let id = PartyId { call, reference: reference.value };
        let cause = elements.cause().unwrap_or_else(|| self.cause(CauseValue::NORMAL_UNSPECIFIED));
        let stand = self.stand(id);
        let t = self.config.timers;
        match (kind, stand) {
            (MessageType::ADD_PARTY, None) => {
                if self.party_count(call) >= self.config.max_parties {
                    return self.refuse_party(call, Some(reference), CauseValue::TOO_MANY_PARTIES, &[]);
                }
                self.set_party(id, Some(Stand::AddReceived), None);
                self.events.push_back(Event::AddParty { party: id, elements });
            }
            (MessageType::DROP_PARTY, None) => {
                let cause = self.cause_element(CauseValue::INVALID_ENDPOINT_REFERENCE);
                self.send_party(id, MessageType::DROP_PARTY_ACKNOWLEDGE, &[cause]);
            }
            (MessageType::ADD_PARTY_ACKNOWLEDGE | MessageType::PARTY_ALERTING, None) => {
                let cause = self.cause_element(CauseValue::INVALID_ENDPOINT_REFERENCE);
                self.send_party(id, MessageType::DROP_PARTY_ACKNOWLEDGE, &[cause]);
            }
            (MessageType::PARTY_ALERTING, Some(Stand::AddInitiated)) => {
                self.set_party(id, Some(Stand::AlertingDelivered), Some(now + t.t397));
                self.events.push_back(Event::PartyAlerting(id));
            }
            (MessageType::ADD_PARTY_ACKNOWLEDGE, Some(Stand::AddInitiated | Stand::AlertingDelivered)) => {
                self.set_party(id, Some(Stand::Active), None);
                self.events.push_back(Event::PartyAdded { party: id, elements });
            }
            (
                MessageType::ADD_PARTY_REJECT | MessageType::DROP_PARTY_ACKNOWLEDGE | MessageType::DROP_PARTY,
                Some(stand),
            ) => {
                if kind == MessageType::DROP_PARTY && stand != Stand::DropInitiated {
                    self.send_party(id, MessageType::DROP_PARTY_ACKNOWLEDGE, &[]);
                }
                self.party_gone(id, (stand != Stand::DropInitiated).then_some(cause), now);
            }
            _ => self.counts.ignored += 1,
        }
    }

    /// A party is gone; without any, its call is too.
    fn party_gone(&mut self, id: PartyId, cause: Option<Cause>, now: Time) {
        self.set_party(id, None, None);
        if let Some(cause) = cause {
            self.events.push_back(Event::PartyDropped { party: id, cause });
        }
        if self.parties(id.call).is_some_and(|parties| parties.parties.is_empty()) {
            let cause = cause.unwrap_or_else(|| self.cause(CauseValue::NORMAL));
            self.clear(id.call, cause, now);
        }
    }

    pub(super) fn party_expired(&mut self, call: CallId, reference: u16, now: Time) {
        let id = PartyId { call, reference };
        let timed_out = |calls: &Calls, name: &[u8]| Cause::with(calls.config.location, CauseValue::TIMER, name);
        let Some(party) = self.parties(call).and_then(|parties| parties.parties.get_mut(&reference)) else { return };
        party.timer = None;
        match party.stand {
            Stand::AddInitiated | Stand::AlertingDelivered => {
                let name: &[u8] = if party.stand == Stand::AddInitiated { b"399" } else { b"397" };
                let cause = timed_out(self, name);
                self.events.push_back(Event::PartyDropped { party: id, cause: self.cause(CauseValue::NO_RESPONSE) });
                self.set_party(id, Some(Stand::DropInitiated), Some(now + self.config.timers.t398));
                self.send_party(id, MessageType::DROP_PARTY, &[Element::Cause(cause)]);
            }
            Stand::DropInitiated => {
                let cause = timed_out(self, b"398");
                self.send_party(id, MessageType::DROP_PARTY_ACKNOWLEDGE, &[Element::Cause(cause)]);
                self.party_gone(id, None, now);
            }
            _ => {}
        }
    }
}
