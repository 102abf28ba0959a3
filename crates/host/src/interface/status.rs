//! What a host says of its circuits and endpoints, and whether their counters agree.

use super::HostInterface;
use crate::channels::EndpointId;
use crate::circuit::{Circuit, CircuitCounts, CircuitStatus};
use crate::ended::EndedCounts;
use crate::events::EventCounts;
use crate::host_endpoint::HostEndpoint;
use std::collections::HashMap;
use wire::{CircuitId, Counters};

/// What `status` shows of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointStatus {
    /// Its number.
    pub id: EndpointId,
    /// Event strategy.
    pub events: endpoint::Events,
    /// What it has done so far.
    pub event_counts: EventCounts,
    /// Data path.
    pub path: endpoint::DataPath,
    /// What its SDUs have crossed.
    pub crossings: crate::path::Crossings,
    /// Octets of its segment.
    pub segment_octets: usize,
    /// Channels open.
    pub channels: usize,
    /// SDUs that its application has sent and that have not left its host.
    pub waiting: usize,
    /// What its application sent.
    pub sent: Counters,
    /// What it was given.
    pub received: Counters,
}

impl HostInterface {
    /// One circuit.
    pub fn circuit(&self, id: CircuitId) -> Option<CircuitStatus> {
        self.circuits.get(id.key()).map(Circuit::status)
    }

    /// What was counted at one circuit, and who has it open.
    pub fn circuit_counts(&self, id: CircuitId) -> Option<CircuitCounts> {
        self.circuits.get(id.key()).map(Circuit::counts)
    }

    /// All circuits, in order.
    pub fn circuits(&self) -> Vec<CircuitStatus> {
        self.circuits.values().map(Circuit::status).collect()
    }

    /// All endpoints.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.endpoints.iter().map(endpoint_status).collect()
    }

    /// Endpoints by their numbers, those after one of them, `most` at most.
    pub fn endpoints_after(&self, after: Option<EndpointId>, most: usize) -> Vec<EndpointStatus> {
        self.endpoints.after(after).iter().take(most).map(endpoint_status).collect()
    }

    /// Circuits and endpoints that have ended, with their last counters: the oldest, `most` at most. They are forgotten
    /// here.
    pub fn take_ended(&mut self, most: usize) -> Vec<EndedCounts> {
        self.ended.take(most)
    }

    /// How many more have ended, for which there was no room, since this was asked last.
    pub fn take_missed_ended(&mut self) -> u64 {
        self.ended.take_missed()
    }

    /// What came for circuits that are not here.
    pub fn stray(&self) -> &Counters {
        &self.stray
    }

    /// What does not add up: all endpoints, those that are gone included, have sent and received as many PDUs as all
    /// circuits, and each endpoint's rings agree with its counters.
    pub fn mismatch(&self) -> Option<String> {
        let mut held: HashMap<EndpointId, u64> = HashMap::new();
        for circuit in self.circuits.values() {
            if let Some(user) = circuit.receiver {
                *held.entry(user.endpoint).or_default() += circuit.buffers_held();
            }
        }
        let held = |id| held.get(&id).copied().unwrap_or_default();
        let of_rings = self
            .endpoints
            .iter()
            .find_map(|(id, endpoint)| endpoint.mismatch(held(*id)).map(|what| format!("{id:?}: {what}")));
        self.ended.broken().map(str::to_owned).or(of_rings).or_else(|| self.mismatch_with_circuits())
    }

    fn mismatch_with_circuits(&self) -> Option<String> {
        let sum = |gone: &Counters, each: &mut dyn Iterator<Item = [u64; 2]>| {
            each.fold([gone.pdus, gone.octets], |[pdus, octets], [more_pdus, more_octets]| {
                [pdus.wrapping_add(more_pdus), octets.wrapping_add(more_octets)]
            })
        };
        let [[sent, received], [circuits_sent, circuits_received]] = self.ended.sums();
        let endpoints = [
            sum(sent, &mut self.endpoints.iter().map(|(_, e)| [e.sent.pdus, e.sent.octets])),
            sum(received, &mut self.endpoints.iter().map(|(_, e)| [e.received.pdus, e.received.octets])),
        ];
        let circuits = [
            sum(circuits_sent, &mut self.circuits.values().map(|c| [c.sent.pdus, c.sent.octets])),
            sum(circuits_received, &mut self.circuits.values().map(|c| [c.received.pdus, c.received.octets])),
        ];
        (endpoints != circuits)
            .then(|| format!("PDUs and octets, sent and received: endpoints {endpoints:?}, circuits {circuits:?}"))
    }
}

fn endpoint_status((id, e): &(EndpointId, HostEndpoint)) -> EndpointStatus {
    EndpointStatus {
        id: *id,
        events: e.strategy.kind(),
        event_counts: e.strategy.counts,
        path: e.path.kind(),
        crossings: e.path.crossings,
        segment_octets: e.geometry().octets(),
        channels: e.channels.iter().count(),
        waiting: e.outbound.taken() as usize,
        sent: e.sent,
        received: e.received,
    }
}
