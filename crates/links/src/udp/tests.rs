//! What a codec counts, seen from its link.

use super::*;
use net::{Carries, End, FramePool, LinkConfig, Network};
use wire::{Cell, CellHeader};

#[test]
fn datagrams_that_wait_when_the_peer_begins_anew_are_counted() {
    let mut network = Network::new(FramePool::new(1, 64));
    let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    let mut codec = Codec::new(Form::Batch);
    // The second is missing; then two batches of a peer that has begun anew, by the first of which that is not certain.
    let anew = 1 << 20;
    for (sequence, cells) in [(7, 1), (9, 2), (10, 4), (anew, 8), (anew + 1, 16)] {
        let mut datagram = [0; MAX_OCTETS];
        let octets = emit(sequence, &vec![Cell::new(CellHeader::default(), [0; 48]); cells], &mut datagram);
        network.external(link, Time::ZERO, |io| codec.receive(&datagram[..octets], io)).unwrap();
    }
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.cells, counters.dropped(DropReason::Sequence)), (1 + 16, 2 + 4 + 8));
}
