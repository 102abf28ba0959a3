//! The shells at a network's external link ends.

use super::{End, LinkConfig, LinkId, Network};
use crate::external::{CircuitNotice, External, PeerCircuit};
use crate::node::NodeIo;
use wire::{CircuitId, Time};

impl Network {
    /// Lets a shell serve the external end of a link; it goes with the link. False if there is no such end.
    pub fn attach(&mut self, id: LinkId, external: Box<dyn External>) -> bool {
        let fits = self.link(id).is_some_and(|l| l.ends.contains(&End::External));
        if fits {
            self.externals.retain(|(link, _)| *link != id);
            self.externals.push((id, external));
            self.let_shell(id, false);
        }
        fits
    }

    /// Keeps a link down until a shell is attached to its external end: nobody is there yet, and whatever passed on it before
    /// would be lost. Nothing happens at a link without such an end.
    pub fn await_shell(&mut self, id: LinkId) {
        if !self.externals.iter().any(|(link, _)| *link == id) {
            self.let_shell(id, true);
        }
    }

    fn let_shell(&mut self, id: LinkId, awaited: bool) {
        if let Some(link) = self.link_mut(id).filter(|link| link.ends.contains(&End::External)) {
            link.awaits_shell = awaited;
            self.refresh(id);
        }
    }

    /// Takes the shell off the external end of a link, and the link down. `None` if there was none.
    pub fn detach(&mut self, id: LinkId) -> Option<Box<dyn External>> {
        let place = self.externals.iter().position(|(link, _)| *link == id)?;
        let (_, external) = self.externals.remove(place);
        self.let_shell(id, true);
        Some(external)
    }

    /// Lets a shell live on without a link to anywhere: on a link of its own whose far end is loose, and which brings no
    /// signal. [`Network::detach`] and [`Network::remove_link`] end that.
    pub fn hang(&mut self, external: Box<dyn External>) -> LinkId {
        let id = self.join(End::External, End::Nowhere, LinkConfig { queue_cells: 16, ..LinkConfig::default() });
        self.externals.push((id, external));
        self.refresh(id);
        id
    }

    /// Tells a link's shell about a circuit ([`External::set_circuit`]). Nothing happens without a shell.
    pub fn set_circuit(&mut self, id: LinkId, circuit: CircuitId, what: Option<CircuitNotice>) {
        if let Some((_, external)) = self.externals.iter_mut().find(|(link, _)| *link == id) {
            external.set_circuit(circuit, what);
        }
    }

    /// What a link's peer says about its circuits ([`External::poll_peer`]).
    pub fn poll_peer(&mut self, id: LinkId) -> Option<PeerCircuit> {
        self.externals.iter_mut().find(|(link, _)| *link == id)?.1.poll_peer()
    }

    /// The attached shells: what to wait for.
    pub fn externals(&self) -> impl Iterator<Item = (LinkId, &dyn External)> {
        self.externals.iter().map(|(id, e)| (*id, e.as_ref()))
    }

    /// A link's shell can be read, can be written, or both. The next [`Network::run`] goes on from there.
    pub fn handle_ready(&mut self, id: LinkId, readable: bool, writable: bool, now: Time) {
        self.with_external(id, now, |external, io| {
            if readable {
                external.handle_readable(io, now);
            }
            if writable {
                external.handle_writable(io, now);
            }
        });
    }

    pub(crate) fn with_external<R>(
        &mut self,
        id: LinkId,
        now: Time,
        f: impl FnOnce(&mut dyn External, &mut NodeIo<'_>) -> R,
    ) -> Option<R> {
        // The shell moves out while it works on the network that holds it.
        let place = self.externals.iter().position(|(link, _)| *link == id)?;
        let (_, mut external) = self.externals.swap_remove(place);
        let result = self.external(id, now, |io| f(external.as_mut(), io));
        self.externals.push((id, external));
        let last = self.externals.len() - 1;
        self.externals.swap(place, last);
        self.refresh(id);
        result
    }
}
