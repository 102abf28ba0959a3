//! The end of a ring in pieces: the engine's thread takes up and drops a bounded number of descriptors in one round.

use crate::HostInterface;
use crate::attached::Unloading;
use crate::channels::EndpointId;
use crate::engine::EngineHandle;
use net::NodeId;

/// Before an endpoint ends: takes its ring up in pieces, so that no round is long because the ring is. The first piece decides
/// how many there are.
pub(super) fn unload(engine: &EngineHandle, node: NodeId, id: EndpointId, what: Unloading) {
    let piece = move |host: &mut HostInterface| host.unload(id, what);
    while engine.with(move |core| core.network.node_mut(node).is_some_and(piece)).unwrap_or(false) {}
}
