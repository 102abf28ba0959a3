//! The end of a ring in pieces: the engine's thread takes up and drops a bounded number of descriptors in one round.

use crate::HostInterface;
use crate::attached::Unloading;
use crate::channels::EndpointId;
use crate::engine::EngineHandle;
use net::NodeId;

/// Pieces in which an endpoint's ring is taken up before it ends, at most: those of the longest one, twice.
const PIECES: usize = 128;

/// Before an endpoint ends, or a channel of it: takes its ring up in pieces, so that no round is long because the ring is.
pub(super) fn unload(engine: &EngineHandle, node: NodeId, id: EndpointId, what: Unloading) {
    // An application that goes on pushing does not keep it from ending.
    for _ in 0..PIECES {
        let more =
            engine.with(move |core| core.network.node_mut::<HostInterface>(node).is_some_and(|h| h.unload(id, what)));
        if !matches!(more, Ok(true)) {
            return;
        }
    }
}
