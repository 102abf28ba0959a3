//! Peers as a source: what the peer of an ATM-over-TCP link with `peer_circuits_to` opens becomes a circuit to a host
//! of the network, with the same label at both ends, as a real interface would have it; what it closes goes.

use crate::names::renamed_ends;
use crate::objects::{Change, Object, ObjectId, Objects, Owner, Spec};
use net::topology::{CircuitDescription, CircuitEnd};
use net::{FrameAal, PeerCircuit};
use std::collections::BTreeMap;

/// Circuits that one peer may make.
pub const MAX_CIRCUITS: usize = 1024;
/// After what a description and commands have.
const FIRST_ORDER: u64 = 1 << 48;

/// The role of a link whose peer opens circuits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCircuits {
    /// What is outside at the link.
    pub outside: String,
    /// The host that the circuits lead to.
    pub host: String,
}

/// A peer asks for more than [`MAX_CIRCUITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer has {MAX_CIRCUITS} circuits open already: it has to close one first")]
pub struct TooManyCircuits;

/// What peers have opened.
#[derive(Debug, Default)]
pub struct Peers {
    objects: Objects,
    opened: BTreeMap<String, usize>,
    order: u64,
}

impl Peers {
    /// What they want.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What they want, with another name of a station.
    pub fn renamed(&self, from: &str, to: &str) -> Objects {
        self.objects.iter().map(|(id, object)| (id.renamed(from, to), object.renamed(from, to))).collect()
    }

    /// A station has another name from now on.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.objects = self.renamed(from, to);
        let opened = std::mem::take(&mut self.opened).into_iter();
        self.opened = opened.map(|(link, opened)| (renamed_ends(&link, from, to), opened)).collect();
    }

    /// What a peer asks for, as a change; `None` if that is nothing new.
    ///
    /// # Errors
    /// [`TooManyCircuits`]: it is more than a peer may have.
    pub fn handle(
        &mut self,
        link: &str,
        peer_circuits: &PeerCircuits,
        event: &PeerCircuit,
    ) -> Result<Option<Change>, TooManyCircuits> {
        let ends = [&peer_circuits.outside, &peer_circuits.host]
            .map(|station| CircuitEnd::new(station.clone(), event.circuit));
        let aal = match event.opened.flatten() {
            Some(0) => FrameAal::Aal0,
            Some(3) => FrameAal::Aal34,
            _ => FrameAal::Aal5,
        };
        let circuit = CircuitDescription { ends: ends.to_vec(), aal, ..CircuitDescription::default() };
        let id = ObjectId::circuit(&circuit);
        let owner = Owner::Peer(link.to_owned());
        let opened = self.opened.entry(link.to_owned()).or_default();
        let wanted = match (event.opened, self.objects.get(&id)) {
            (Some(_), None) if *opened >= MAX_CIRCUITS => return Err(TooManyCircuits),
            (Some(_), None) => {
                *opened += 1;
                let order = FIRST_ORDER + self.order;
                self.order += 1;
                let object = Object { spec: Spec::Circuit(circuit), owner, revision: 0, order };
                self.objects.insert(id.clone(), object.clone());
                Some(object)
            }
            (None, Some(object)) if object.owner == owner => {
                self.forget(&id);
                None
            }
            _ => return Ok(None),
        };
        Ok(Some(Change { id, wanted }))
    }

    /// An object is not to be any more.
    pub fn forget(&mut self, id: &ObjectId) {
        if let Some(Object { owner: Owner::Peer(link), .. }) = self.objects.remove(id)
            && let Some(opened) = self.opened.get_mut(&link)
        {
            *opened = opened.saturating_sub(1);
        }
    }

    /// Peers at links that are no more, or have the role no more, want nothing.
    pub fn keep_links(&mut self, stays: impl Fn(&str) -> bool) {
        let gone: Vec<ObjectId> = self
            .objects
            .iter()
            .filter(|(_, object)| matches!(&object.owner, Owner::Peer(link) if !stays(link)))
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.forget(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::CircuitId;

    #[test]
    fn a_circuit_beyond_the_bound_is_refused_until_another_is_closed() {
        let (mut peers, peer_circuits) =
            (Peers::default(), PeerCircuits { outside: "peer".into(), host: "beta".into() });
        let event = |vci: usize, opened| PeerCircuit { circuit: CircuitId::new(1, vci as u16).unwrap(), opened };
        let mut handle =
            |vci, opened| peers.handle("link", &peer_circuits, &event(vci, opened)).map(|change| change.is_some());
        for vci in 0..MAX_CIRCUITS {
            assert_eq!(handle(vci, Some(None)), Ok(true));
        }
        assert_eq!(handle(0, Some(None)), Ok(false), "it is open already");
        assert_eq!(handle(MAX_CIRCUITS, Some(None)), Err(TooManyCircuits));
        assert_eq!(handle(MAX_CIRCUITS, None), Ok(false));
        assert_eq!(handle(0, None), Ok(true));
        assert_eq!(handle(MAX_CIRCUITS, Some(None)), Ok(true));
    }
}
