//! The circuits that are open here, and which of them the peer is to be told next.
//!
//! A new connection is told all of them, in the order of their labels, and a change to those that it has been told. It
//! costs the same to begin anew with one circuit as with all that a label can name: only the place in the order is
//! kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use wire::CircuitId;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Told {
    /// With their quality of service as `qos2text` prints it.
    open: BTreeMap<CircuitId, String>,
    /// Where those begin that the connection has not been told; `None`: it has been told all.
    from: Option<Bound<CircuitId>>,
    /// Circuits before that which have changed since.
    changed: BTreeSet<CircuitId>,
}

impl Told {
    pub(super) fn new() -> Self {
        Told { open: BTreeMap::new(), from: Some(Bound::Unbounded), changed: BTreeSet::new() }
    }

    pub(super) fn open(&mut self, circuit: CircuitId, qos: &str) {
        if self.open.get(&circuit).is_none_or(|told| told != qos) {
            self.open.insert(circuit, qos.to_owned());
            self.note(circuit);
        }
    }

    pub(super) fn close(&mut self, circuit: CircuitId) {
        if self.open.remove(&circuit).is_some() {
            self.note(circuit);
        }
    }

    fn note(&mut self, circuit: CircuitId) {
        let comes_anyway = match self.from {
            None => false,
            Some(Bound::Excluded(last)) => circuit > last,
            Some(_) => true,
        };
        if !comes_anyway {
            self.changed.insert(circuit);
        }
    }

    /// Another connection, which has been told nothing.
    pub(super) fn begin(&mut self) {
        self.changed.clear();
        self.from = Some(Bound::Unbounded);
    }

    /// What to tell next: a circuit, with its quality of service if it is open.
    pub(super) fn next(&mut self) -> Option<(CircuitId, Option<&str>)> {
        if let Some(circuit) = self.changed.pop_first() {
            return Some((circuit, self.open.get(&circuit).map(String::as_str)));
        }
        let next = self.open.range((self.from?, Bound::Unbounded)).next();
        self.from = next.map(|(circuit, _)| Bound::Excluded(*circuit));
        next.map(|(circuit, qos)| (*circuit, Some(qos.as_str())))
    }
}
