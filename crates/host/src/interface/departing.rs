//! Endpoints whose applications have gone: what is in their send rings still leaves.
//!
//! An application may end, or be killed, right after it has sent; what it has sent does not end with it. The
//! descriptors that its ring holds at that moment are served as before, by the circuit's contract, for [`GRACE`] at
//! most. The circuit itself is free at once: whoever opens it next may push, and is served when the one before has
//! left. What did not leave in time is counted as `closed`; a PDU that is cut off is ended by a cell that its receiver
//! understands.

use super::HostInterface;
use crate::channels::EndpointId;
use crate::circuit::Leaver;
use crate::host_endpoint::Unloading;
use std::time::Duration;
use wire::{CircuitId, DropReason, Time};

/// How long what is left may take to leave.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// How long the cell that ends a PDU in its middle may take after that.
const LAST_CELL: Duration = Duration::from_millis(100);
/// Descriptors that are taken up or dropped in one round because something ends.
pub(super) const PIECE: usize = 1024;

/// How long an endpoint departs at most.
pub(crate) const LONGEST: Duration = GRACE.saturating_add(LAST_CELL);

/// An endpoint that departs.
#[derive(Debug)]
pub(crate) struct Departing {
    pub(crate) id: EndpointId,
    /// Until when, once a round has seen it.
    pub(crate) until: Option<Time>,
    /// Its time is over, and the end of a PDU is on its way.
    ends: bool,
    /// The circuits that it had open or had not left when its application went, sorted: it gets no others.
    keys: Vec<u32>,
}

impl Departing {
    /// Whether it may have something to send on a circuit.
    pub(super) fn may_send_on(&self, circuit: CircuitId) -> bool {
        self.keys.binary_search(&circuit.key()).is_ok()
    }
}

impl HostInterface {
    /// An endpoint's application has gone. Receives nothing from now on; ends when what is in its send ring has left,
    /// or half a second later. Its circuits can be opened at once.
    pub fn depart(&mut self, id: EndpointId) -> bool {
        if !self.endpoints.depart(id) {
            return self.detach(id);
        }
        self.end_receivers(id);
        let mut keys = self.keys_of(id);
        keys.sort_unstable();
        for key in keys.iter().copied() {
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            if circuit.sender.take_if(|u| u.endpoint == id).is_some() {
                circuit.departing.push(Leaver { endpoint: id, place: None });
            }
        }
        self.departing.push(Departing { id, until: None, ends: false, keys });
        true
    }

    /// An endpoint's application gives it up: none of its SDUs is read any more. What waits is dropped and counted. A
    /// PDU that is cut off is ended by a cell that its receiver understands, or the next opener's first PDU would be
    /// lost.
    pub fn release_endpoint(&mut self, id: EndpointId) -> bool {
        if !self.depart(id) {
            return false;
        }
        let Some(endpoint) = self.endpoints.find(id) else { return true };
        if !endpoint.end() {
            return self.detach(id);
        }
        if let Some(departing) = self.departing.iter_mut().find(|departing| departing.id == id) {
            departing.ends = true;
        }
        true
    }

    /// Whether an endpoint whose application has gone is still here.
    pub fn departs(&self, id: EndpointId) -> bool {
        self.departing.iter().any(|departing| departing.id == id)
    }

    /// The circuits that an endpoint has open, or has not left yet: no others know it.
    pub(crate) fn keys_of(&mut self, id: EndpointId) -> Vec<u32> {
        let Some(endpoint) = self.endpoints.find(id) else { return Vec::new() };
        let open = endpoint.channels.iter().map(|channel| channel.circuit.key());
        open.chain(endpoint.lingering.iter().copied()).collect()
    }

    /// An endpoint receives nothing any more; PDUs that were arriving are counted, and what it has borrowed goes back.
    pub(crate) fn end_receivers(&mut self, id: EndpointId) {
        for key in self.keys_of(id) {
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            if circuit.receiver.is_some_and(|u| u.endpoint == id) {
                circuit.close_receiver(self.endpoints.find(id));
            }
            circuit.oam.take_if(|u| u.endpoint == id);
        }
        self.endpoints.end_borrowing(id);
    }

    /// Drops what an endpoint has to send, counted at it and at its circuits; `most` descriptors at most. True if there
    /// are more.
    pub(crate) fn drop_unsent(&mut self, id: EndpointId, most: usize) -> bool {
        let Some(endpoint) = self.endpoints.find(id) else { return false };
        endpoint.drop_unsent(most, |circuit| {
            if let Some(circuit) = circuit.and_then(|id| self.circuits.get_mut(id.key())) {
                circuit.sent.drop_one(DropReason::Closed);
            }
        })
    }

    /// Drops a piece of what waited for circuits or channels that are no more. True if there was any.
    pub(crate) fn drop_given_up(&mut self) -> bool {
        let (any, mut left) = (!self.given_up.is_empty(), PIECE);
        while let Some(id) = self.given_up.first().copied() {
            if let Some(endpoint) = self.endpoints.find(id) {
                left -= endpoint.drop_given_up(left);
                if endpoint.has_given_up() {
                    break;
                }
            }
            self.given_up.pop_first();
        }
        any
    }

    /// Before an endpoint ends: takes up a piece of its ring, and drops as much of what will not leave.
    /// True if there may be more. A ring may be so long that all of it at once would hold up others.
    pub(crate) fn unload(&mut self, id: EndpointId, what: Unloading) -> bool {
        let Some(endpoint) = self.endpoints.find(id) else { return false };
        endpoint.unload(what, PIECE, |circuit, dropped| {
            if let Some(circuit) = self.circuits.get_mut(circuit.key()) {
                circuit.sent.drop_n(DropReason::Closed, dropped);
            }
        })
    }

    /// Ends the endpoints that have left or whose time is over. True if there was one: others may wait for it.
    pub(crate) fn handle_departing(&mut self, now: Time) -> bool {
        if self.departing.is_empty() {
            return false;
        }
        let mut departing = std::mem::take(&mut self.departing);
        let before = departing.len();
        departing.retain_mut(|d| {
            let stays = self.still_departs(d, now);
            if !stays {
                self.detach(d.id);
            }
            stays
        });
        let any = departing.len() < before;
        self.departing = departing;
        any
    }

    fn still_departs(&mut self, departing: &mut Departing, now: Time) -> bool {
        if self.has_time(departing, now) {
            return true;
        }
        // What has not left is dropped, a piece in a round.
        let stays = self.drop_unsent(departing.id, PIECE);
        if stays {
            (departing.ends, departing.until) = (true, Some(now));
        }
        stays
    }

    fn has_time(&mut self, departing: &mut Departing, now: Time) -> bool {
        let Some(endpoint) = self.endpoints.find(departing.id) else { return false };
        let grace = if departing.ends { LAST_CELL } else { GRACE };
        let until = *departing.until.get_or_insert(now + grace);
        if endpoint.has_left() {
            return false;
        }
        if departing.ends {
            if endpoint.is_ending() && now < until {
                return true;
            }
        } else if now < until {
            return true;
        } else if endpoint.end() {
            departing.ends = true;
            departing.until = Some(now + LAST_CELL);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CircuitConfig, HostEndpoint};
    use endpoint::layout::{Descriptor, Geometry, Head};
    use endpoint::ring::{Producer, Which};
    use endpoint::segment::Segment;
    use endpoint::{Aal, DataPath, Events};
    use std::sync::Arc;

    #[test]
    fn what_an_endpoints_end_costs_depends_on_its_own_circuits_only() {
        let visited = |circuits: u16| {
            let mut host = HostInterface::new(4);
            let circuit = |n| CircuitId::new(0, 100 + n).unwrap();
            (0..circuits).for_each(|n| _ = host.add_circuit(circuit(n), CircuitConfig::default()));
            let segment = Arc::new(Segment::anonymous(Geometry::default()).unwrap());
            let id = host.attach(HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, None)).unwrap();
            for n in 0..3 {
                host.open(id, circuit(n), Aal::Aal5).unwrap();
            }
            let claimed = host
                .claim(circuit(5), Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap()));
            let before = host.circuits.visited();
            host.depart(id);
            host.release(claimed.unwrap());
            for n in [0, 1, 2, 5] {
                let now = host.circuit(circuit(n)).unwrap();
                assert_eq!((now.open, now.endpoint), (None, None));
            }
            host.circuits.visited() - before
        };
        assert_eq!(visited(20_000), visited(10));
    }

    #[test]
    fn a_contract_that_changes_visits_of_those_that_depart_who_had_its_circuit_only() {
        let visited = |others: u16| {
            let mut host = HostInterface::new(64);
            let circuit = |n| CircuitId::new(0, 100 + n).unwrap();
            for n in 0..=others {
                host.add_circuit(circuit(n), CircuitConfig::default());
                let segment = Arc::new(Segment::anonymous(Geometry::default()).unwrap());
                let mut ring = Producer::new(&segment, Which::Send);
                let id = host.attach(HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, None)).unwrap();
                let channel = host.open(id, circuit(n), Aal::Aal5).unwrap();
                assert!(ring.push(Head { channel: channel.0, octets: 40, ..Head::of_buffer(Descriptor::INLINE) }));
                assert!(host.depart(id) && host.departs(id));
            }
            let mut visits = 0;
            host.for_each_sender(circuit(0), |_| visits += 1);
            visits
        };
        assert!(visited(0) > 0);
        assert_eq!(visited(20), visited(0));
    }
}
