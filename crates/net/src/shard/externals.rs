//! The shells at a shard's external link ends.

use super::Shard;
use crate::external::{CircuitNotice, External, PeerCircuit};
use crate::link::{End, LinkId};
use crate::node::NodeIo;
use wire::{CircuitId, Time};

impl Shard {
    pub(crate) fn attach(&mut self, id: LinkId, mut external: Box<dyn External>) -> bool {
        let fits = self.link(id).is_some_and(|l| l.ends.contains(&End::External));
        if fits {
            external.set_rate(self.link(id).and_then(|link| link.config.rate));
            self.externals.retain(|(link, _)| *link != id);
            self.externals.push((id, external));
            self.let_shell(id, false);
        }
        fits
    }

    pub(crate) fn await_shell(&mut self, id: LinkId) {
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

    pub(crate) fn detach(&mut self, id: LinkId) -> Option<Box<dyn External>> {
        let place = self.externals.iter().position(|(link, _)| *link == id)?;
        let (_, external) = self.externals.remove(place);
        self.let_shell(id, true);
        Some(external)
    }

    /// A shell on a link whose far end is loose.
    pub(crate) fn hang(&mut self, id: LinkId, external: Box<dyn External>) {
        self.externals.push((id, external));
        self.refresh(id);
    }

    pub(crate) fn set_circuit(&mut self, id: LinkId, circuit: CircuitId, what: Option<CircuitNotice>) {
        if let Some((_, external)) = self.externals.iter_mut().find(|(link, _)| *link == id) {
            external.set_circuit(circuit, what);
        }
    }

    pub(crate) fn poll_peer(&mut self, id: LinkId) -> Option<PeerCircuit> {
        self.externals.iter_mut().find(|(link, _)| *link == id)?.1.poll_peer()
    }

    /// [`crate::Network::externals`] of this shard.
    pub fn externals(&self) -> impl Iterator<Item = (LinkId, &dyn External)> {
        self.externals.iter().map(|(id, e)| (*id, e.as_ref()))
    }

    /// [`crate::Network::handle_ready`].
    pub fn handle_ready(&mut self, id: LinkId, readable: bool, writable: bool, now: Time) {
        self.outside_work += 1;
        self.with_external(id, now, |external, io| {
            if readable {
                external.handle_readable(io, now);
            }
            if writable {
                external.handle_writable(io, now);
            }
        });
    }

    pub(super) fn with_external<R>(
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
