//! The shells at a network's external link ends.

use super::{End, LinkConfig, LinkId, Network};
use crate::external::{CircuitNotice, External, PeerCircuit};
use crate::line::Side;
use crate::shard::Shard;
use wire::{CircuitId, Time};

impl Network {
    /// Lets a shell serve the external end of a link; it goes with the link. False if there is no such end.
    pub fn attach(&mut self, id: LinkId, external: Box<dyn External>) -> bool {
        self.of_link_mut(id, Side::A).is_some_and(|shard| shard.attach(id, external))
    }

    /// Keeps a link down until a shell is attached to its external end: nobody is there yet, and whatever passed on it
    /// before would be lost. Nothing happens at a link without such an end.
    pub fn await_shell(&mut self, id: LinkId) {
        if let Some(shard) = self.of_link_mut(id, Side::A) {
            shard.await_shell(id);
        }
    }

    /// Takes the shell off the external end of a link, and the link down. `None` if there was none.
    pub fn detach(&mut self, id: LinkId) -> Option<Box<dyn External>> {
        self.of_link_mut(id, Side::A)?.detach(id)
    }

    /// Lets a shell live on without a link to anywhere: on a link of its own whose far end is loose, and which brings
    /// no signal. [`Network::detach`] and [`Network::remove_link`] end that. It is in this shard.
    pub fn hang(&mut self, external: Box<dyn External>, shard: usize) -> LinkId {
        let config = LinkConfig { queue_cells: 16, ..LinkConfig::default() };
        let id = self.join(End::External, End::Nowhere, config, shard);
        if let Some(shard) = self.of_link_mut(id, Side::A) {
            shard.hang(id, external);
        }
        id
    }

    /// Tells a link's shell about a circuit ([`External::set_circuit`]). Nothing happens without a shell.
    pub fn set_circuit(&mut self, id: LinkId, circuit: CircuitId, what: Option<CircuitNotice>) {
        if let Some(shard) = self.of_link_mut(id, Side::A) {
            shard.set_circuit(id, circuit, what);
        }
    }

    /// What a link's peer says about its circuits ([`External::poll_peer`]).
    pub fn poll_peer(&mut self, id: LinkId) -> Option<PeerCircuit> {
        self.of_link_mut(id, Side::A)?.poll_peer(id)
    }

    /// The attached shells: what to wait for.
    pub fn externals(&self) -> impl Iterator<Item = (LinkId, &dyn External)> {
        self.here().flat_map(Shard::externals)
    }

    /// A link's shell can be read, can be written, or both. The next [`Network::run`] goes on from there.
    pub fn handle_ready(&mut self, id: LinkId, readable: bool, writable: bool, now: Time) {
        self.note_label_changes();
        if let Some(shard) = self.of_link_mut(id, Side::A) {
            shard.handle_ready(id, readable, writable, now);
        }
    }
}
