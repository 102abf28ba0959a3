//! The circuits that a link's peer has opened, and what of them has not been fetched.
//!
//! In: openings and closings, as the peer says them. Out: the same in their order, one of each kind for a circuit at
//! most. A closing is never dropped: at most [`MAX_CIRCUITS`] circuits are open, at most as many are known as open to
//! who fetches, and no other is kept.

use net::external::PeerCircuit;
use std::collections::BTreeMap;
use wire::CircuitId;

/// Circuits that a peer can have open.
pub(super) const MAX_CIRCUITS: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Circuit {
    /// Whether the peer has it open, with its AAL where the text named one.
    open: Option<Option<u8>>,
    /// Its opening has been fetched, and its closing has not.
    fetched: bool,
    /// Its place in the queue: it waits with its closing if it was fetched, and with its opening otherwise.
    place: Option<u64>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct PeerCircuits {
    circuits: BTreeMap<CircuitId, Circuit>,
    queue: BTreeMap<u64, CircuitId>,
    open: usize,
    next: u64,
}

impl PeerCircuits {
    /// The peer opens a circuit, or names another AAL for it. False if it has too many.
    pub(super) fn open(&mut self, id: CircuitId, aal: Option<u8>) -> bool {
        let before = self.circuits.get(&id).copied();
        let was_open = before.and_then(|circuit| circuit.open);
        if was_open == Some(aal) {
            return true;
        }
        if was_open.is_none() && self.open >= MAX_CIRCUITS {
            return false;
        }
        self.open += usize::from(was_open.is_none());
        let mut circuit = before.unwrap_or(Circuit { open: None, fetched: false, place: None });
        circuit.open = Some(aal);
        self.enqueue(id, circuit);
        true
    }

    pub(super) fn close(&mut self, id: CircuitId) {
        let Some(circuit) = self.circuits.get(&id).copied().filter(|circuit| circuit.open.is_some()) else { return };
        self.open -= 1;
        if circuit.fetched {
            self.enqueue(id, Circuit { open: None, ..circuit });
        } else {
            circuit.place.map(|place| self.queue.remove(&place));
            self.circuits.remove(&id);
        }
    }

    /// The peer is gone.
    pub(super) fn close_all(&mut self) {
        let open: Vec<CircuitId> = self.iter().map(|(id, _)| id).collect();
        open.into_iter().for_each(|id| self.close(id));
    }

    /// At the end of the queue, unless it waits already.
    fn enqueue(&mut self, id: CircuitId, mut circuit: Circuit) {
        if circuit.place.is_none() {
            self.queue.insert(self.next, id);
            circuit.place = Some(self.next);
            self.next += 1;
        }
        self.circuits.insert(id, circuit);
    }

    /// The oldest opening or closing that has not been fetched. A circuit that was closed and opened again gives both.
    pub(super) fn poll(&mut self) -> Option<PeerCircuit> {
        let (_, id) = self.queue.pop_first()?;
        let circuit = self.circuits.get_mut(&id)?;
        circuit.place = None;
        circuit.fetched = !circuit.fetched;
        let (circuit, opened) = (*circuit, circuit.open.filter(|_| circuit.fetched));
        if !circuit.fetched {
            if circuit.open.is_some() {
                self.enqueue(id, circuit);
            } else {
                self.circuits.remove(&id);
            }
        }
        Some(PeerCircuit { circuit: id, opened })
    }

    /// Those that are open.
    pub(super) fn iter(&self) -> impl Iterator<Item = (CircuitId, Option<u8>)> + '_ {
        self.circuits.iter().filter_map(|(id, circuit)| Some((*id, circuit.open?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(vci: u16) -> CircuitId {
        CircuitId::new(1, vci).unwrap()
    }

    fn polled(circuits: &mut PeerCircuits) -> Vec<(u16, Option<Option<u8>>)> {
        std::iter::from_fn(|| circuits.poll()).map(|event| (event.circuit.vci.0, event.opened)).collect()
    }

    #[test]
    fn a_circuit_that_is_closed_and_opened_again_is_both_and_one_that_nobody_fetched_is_neither() {
        let mut circuits = PeerCircuits::default();
        assert!(circuits.open(id(1), Some(5)) && circuits.open(id(2), None));
        assert_eq!(polled(&mut circuits), [(1, Some(Some(5))), (2, Some(None))]);
        circuits.close(id(1));
        assert!(circuits.open(id(3), None) && circuits.open(id(1), Some(0)) && circuits.open(id(2), None));
        assert!(circuits.open(id(4), None));
        circuits.close(id(4));
        assert_eq!(polled(&mut circuits), [(1, None), (3, Some(None)), (1, Some(Some(0)))]);
        circuits.close_all();
        assert_eq!(polled(&mut circuits), [(1, None), (2, None), (3, None)]);
        assert!(circuits.circuits.is_empty());
    }

    #[test]
    fn no_closing_is_lost_however_many_wait_and_the_next_peer_has_room() {
        let mut circuits = PeerCircuits::default();
        for vci in 0..MAX_CIRCUITS as u16 {
            assert!(circuits.open(id(vci), None));
        }
        assert!(!circuits.open(id(u16::MAX), None));
        assert_eq!(polled(&mut circuits).len(), MAX_CIRCUITS);
        circuits.close_all();
        for vci in 0..MAX_CIRCUITS as u16 {
            assert!(circuits.open(id(20_000 + vci), None));
        }
        let events = polled(&mut circuits);
        assert_eq!(events.iter().filter(|(_, opened)| opened.is_none()).count(), MAX_CIRCUITS);
        assert!(events[..MAX_CIRCUITS].iter().all(|(_, opened)| opened.is_none()), "closings first");
        assert_eq!(events.len(), 2 * MAX_CIRCUITS);
    }

    proptest! {
        /// Openings and closings of a circuit take turns for who fetches, and end with the peer's state.
        #[test]
        fn who_fetches_knows_what_is_open(steps in proptest::collection::vec((0u8..8, 0u16..6), 0..200)) {
            let (mut circuits, mut known) = (PeerCircuits::default(), BTreeMap::new());
            let mut open = BTreeMap::new();
            let fetch = |circuits: &mut PeerCircuits, known: &mut BTreeMap<CircuitId, Option<u8>>| {
                let Some(event) = circuits.poll() else { return false };
                match event.opened {
                    Some(aal) => assert_eq!(known.insert(event.circuit, aal), None),
                    None => assert!(known.remove(&event.circuit).is_some()),
                }
                true
            };
            for (what, vci) in steps {
                match what {
                    0..3 => {
                        circuits.open(id(vci), Some(what));
                        open.insert(id(vci), Some(what));
                    }
                    3..5 => {
                        circuits.close(id(vci));
                        open.remove(&id(vci));
                    }
                    5 if vci == 0 => {
                        circuits.close_all();
                        open.clear();
                    }
                    _ => drop(fetch(&mut circuits, &mut known)),
                }
                prop_assert_eq!(circuits.open, open.len());
                prop_assert!(circuits.circuits.len() <= open.len() + known.len());
                prop_assert!(circuits.queue.len() <= circuits.circuits.len());
            }
            while fetch(&mut circuits, &mut known) {}
            prop_assert_eq!(&known, &open);
        }
    }
}
