//! What a switch looks at before it takes a call, and what the call then holds at a port.

use super::{Node, contracts};
use crate::call::{ElementList, Version};
use traffic::Contract;
use wire::aesa::Aesa;
use wire::q2931::{CauseValue, Element, ElementId, Party, TransitDelay};

impl Node {
    /// Whether the switch can take the call at all; makes the elements what the next hop is to see.
    pub(super) fn check(
        &mut self,
        port: usize,
        called: Option<Aesa>,
        elements: &mut ElementList,
    ) -> Result<(Aesa, [Contract; 2]), CauseValue> {
        let bearer = elements.bearer();
        let called = called.ok_or(CauseValue::INVALID_NUMBER)?;
        let traffic = elements.traffic().ok_or(CauseValue::TRAFFIC_COMBINATION)?;
        // Leaves have no way back to the root (UNI 3.1, section 5.6).
        if bearer.is_some_and(|bearer| bearer.multipoint) && traffic.backward.pcr.is_some_and(|cells| cells > 0) {
            return Err(CauseValue::TRAFFIC_COMBINATION);
        }
        let contracts = contracts(&traffic, bearer)?;
        self.check_hop(port, elements)?;
        elements.remove(ElementId::CONNECTION_ID);
        Ok((called, contracts))
    }

    /// The calling number and the transit delay of SETUP or ADD PARTY.
    pub(super) fn check_hop(&self, port: usize, elements: &mut ElementList) -> Result<(), CauseValue> {
        let config = &self.ports[port].config;
        if let Some(default) = config.addresses.first() {
            let named = elements.calling().and_then(|party| party.number.as_aesa());
            let is_own = |a: Aesa| config.addresses.iter().any(|own| own.without_selector() == a.without_selector());
            let party = match named {
                // The user's number, checked and right; otherwise the network's.
                Some(address) if is_own(address) => Party { indicators: Some((0, 1)), ..Party::aesa(address) },
                _ => Party { indicators: Some((0, 3)), ..Party::aesa(*default) },
            };
            elements.set(Element::Calling(party));
        } else if config.call.version != Version::Iisp {
            elements.remove(ElementId::CALLING_NUMBER);
        } else if !config.is_inner {
            let leads_back = |address: Aesa| self.routes.leads(&address, port);
            match elements.calling().filter(|party| party.number.as_aesa().is_some_and(leads_back)) {
                Some(party) => {
                    let presentation = party.indicators.map_or(0, |(presentation, _)| presentation);
                    elements.set(Element::Calling(Party { indicators: Some((presentation, 0)), ..party }));
                }
                None => elements.remove(ElementId::CALLING_NUMBER),
            }
        }
        let delay = elements.0.iter().find_map(|e| if let Element::TransitDelay(d) = e { Some(*d) } else { None });
        if let Some(TransitDelay { cumulative: Some(so_far), maximum, network }) = delay {
            let cumulative = so_far.saturating_add(config.delay_ms);
            if maximum.is_some_and(|most| most != u16::MAX && cumulative > most) {
                return Err(CauseValue::QOS_UNAVAILABLE);
            }
            elements.set(Element::TransitDelay(TransitDelay { cumulative: Some(cumulative), maximum, network }));
        }
        Ok(())
    }

    /// Promises bandwidth at a port: forward into the switch and backward out of it where the call comes in, and the
    /// other way round where it goes out.
    pub(super) fn reserve(&mut self, port: usize, [forward, backward]: [Contract; 2], is_incoming: bool) -> bool {
        let [into, out] = &mut self.ports[port].bandwidth;
        let (first, second) = if is_incoming { (into, out) } else { (out, into) };
        if first.admit(&forward).is_err() {
            return false;
        }
        let admitted = second.admit(&backward).is_ok();
        if !admitted {
            first.release(&forward);
        }
        admitted
    }

    pub(super) fn give_back(&mut self, port: usize, [forward, backward]: [Contract; 2], is_incoming: bool) {
        let [into, out] = &mut self.ports[port].bandwidth;
        let (first, second) = if is_incoming { (into, out) } else { (out, into) };
        first.release(&forward);
        second.release(&backward);
    }
}
