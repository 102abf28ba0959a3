//! Circuits and endpoints of a host that have ended, with their last counters, until somebody takes them. Bounded: of
//! more than [`MOST`] between two looks only the number is kept.

use crate::channels::EndpointId;
use std::collections::VecDeque;
use wire::{CircuitId, Counters};

/// Objects that are kept between two looks.
const MOST: usize = 256;

/// What has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedObject {
    /// A circuit at the host: a call's, or one that was removed.
    Circuit(CircuitId),
    /// An endpoint.
    Endpoint(EndpointId),
}

/// Something that has ended, with its last counters.
#[derive(Debug, Clone, Copy)]
pub struct EndedCounts {
    /// What it was.
    pub object: EndedObject,
    /// From its application.
    pub sent: Counters,
    /// To its application.
    pub received: Counters,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    kept: VecDeque<EndedCounts>,
    missed: u64,
    /// What all endpoints have counted, sent and received, and all circuits.
    endpoints: [Counters; 2],
    circuits: [Counters; 2],
    /// The first endpoint whose counters did not add up at its end.
    broken: Option<String>,
}

impl Ended {
    /// A circuit has ended.
    pub(crate) fn note_circuit(&mut self, id: CircuitId, sent: Counters, received: Counters) {
        self.circuits.iter_mut().zip([&sent, &received]).for_each(|(sum, counters)| sum.add(counters));
        self.note(EndedObject::Circuit(id), sent, received);
    }

    /// An endpoint has ended. `mismatch`: what does not add up at it.
    pub(crate) fn note_endpoint(
        &mut self,
        id: EndpointId,
        [sent, received]: [Counters; 2],
        mismatch: impl FnOnce() -> Option<String>,
    ) {
        if self.broken.is_none() {
            self.broken = mismatch().map(|what| format!("{id:?}, which is gone: {what}"));
        }
        self.endpoints.iter_mut().zip([&sent, &received]).for_each(|(sum, counters)| sum.add(counters));
        self.note(EndedObject::Endpoint(id), sent, received);
    }

    /// What all endpoints that have ended had sent and received, and all circuits.
    pub(crate) fn sums(&self) -> [&[Counters; 2]; 2] {
        [&self.endpoints, &self.circuits]
    }

    /// What did not add up at the first endpoint of which that is so.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Keeps what has counted anything.
    fn note(&mut self, object: EndedObject, sent: Counters, received: Counters) {
        if sent == Counters::default() && received == Counters::default() {
            return;
        }
        if self.kept.len() < MOST {
            self.kept.push_back(EndedCounts { object, sent, received });
        } else {
            self.missed = self.missed.wrapping_add(1);
        }
    }

    /// The oldest of them, `most` at most.
    pub(crate) fn take(&mut self, most: usize) -> Vec<EndedCounts> {
        let n = most.min(self.kept.len());
        self.kept.drain(..n).collect()
    }

    /// Objects for which there was no room since this was asked last.
    pub(crate) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_counted_is_kept_within_a_bound_and_the_rest_is_a_number() {
        let mut ended = Ended::default();
        let none = Counters::default();
        ended.note(EndedObject::Endpoint(EndpointId(1)), none, none);
        assert!(ended.take(10).is_empty(), "nothing was counted");
        let mut some = none;
        some.pass([0, 1, 0]);
        (0..MOST as u64 + 3).for_each(|n| ended.note(EndedObject::Endpoint(EndpointId(n)), some, none));
        assert_eq!(ended.take(1)[0].object, EndedObject::Endpoint(EndpointId(0)), "the oldest first");
        assert_eq!((ended.take(usize::MAX).len(), ended.take_missed(), ended.take_missed()), (MOST - 1, 3, 0));
    }
}
