//! Ends in pieces: how much of a ring and of a queue one piece takes, and that all is counted.

use super::*;
use crate::channels::Channel;
use endpoint::layout::{Descriptor, Head};
use endpoint::ring::{Producer, Which};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Direction, Events, Geometry};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SLOTS: u32 = 64;
const PIECE: usize = 8;

/// An endpoint with a channel and a full send ring.
fn full() -> (HostEndpoint, ChannelId, Producer) {
    let geometry = Geometry { send_ring: SLOTS, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };
    let segment = Arc::new(Segment::anonymous(geometry).unwrap());
    let mut producer = Producer::new(&segment, Which::Send);
    let mut endpoint = HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, None);
    let channel = Channel::new(CircuitId::new(0, 100).unwrap(), Aal::Aal5, Direction::Both);
    let id = endpoint.channels.open(channel).unwrap();
    let message = Head { channel: id.0, octets: 40, ..Head::of_buffer(Descriptor::INLINE) };
    (0..SLOTS).for_each(|_| assert!(producer.push(message)));
    (endpoint, id, producer)
}

fn dropped(endpoint: &HostEndpoint) -> u64 {
    assert_eq!(endpoint.mismatch(0), None);
    assert_eq!(endpoint.sent.dropped(DropReason::Closed), endpoint.sent.dropped_total());
    endpoint.sent.dropped_total()
}

/// Moves the producer's index on as far as the consumer's allows.
fn push_on(endpoint: &HostEndpoint) {
    let at = endpoint.geometry().send_at();
    let head = endpoint.segment.word32(at).load(Ordering::Acquire);
    endpoint.segment.word32(at + 64).store(head.wrapping_add(SLOTS), Ordering::Release);
}

#[test]
fn an_application_that_goes_on_pushing_does_not_prolong_its_end() {
    for what in [Unloading::Send, Unloading::Drop] {
        let (mut endpoint, id, ..) = full();
        endpoint.channels.close(id, false);
        let mut pieces = 1;
        while endpoint.unload(what, PIECE, |_, _| ()) {
            push_on(&endpoint);
            pieces += 1;
            assert!(pieces <= SLOTS as usize / PIECE + 1, "{what:?}");
        }
        push_on(&endpoint);
        assert!(!endpoint.depart(), "all has been taken up and dropped");
        assert_eq!((endpoint.passed.taken, dropped(&endpoint)), (u64::from(SLOTS), u64::from(SLOTS)));
    }
}

#[test]
fn what_is_pushed_after_the_first_piece_never_leaves() {
    let (mut endpoint, ..) = full();
    assert!(endpoint.unload(Unloading::Send, PIECE, |_, _| ()));
    let channel = endpoint.outbound.busy().next().unwrap();
    (0..PIECE).for_each(|_| endpoint.done(channel));
    endpoint.sent.drop_n(DropReason::Closed, PIECE as u64);
    endpoint.show();
    push_on(&endpoint);
    while endpoint.unload(Unloading::Send, PIECE, |_, _| ()) {}
    assert!(endpoint.depart());
    assert_eq!(endpoint.passed.taken, u64::from(SLOTS));
    while endpoint.drop_unsent(PIECE, |_| ()) {}
    assert_eq!(dropped(&endpoint), u64::from(SLOTS));
}

#[test]
fn a_channel_with_a_long_queue_closes_at_once_and_its_queue_is_dropped_in_pieces() {
    let (mut endpoint, id, mut producer) = full();
    endpoint.take_up(SLOTS as usize);
    assert_eq!(endpoint.close(id, PIECE), (u64::from(SLOTS), false));
    for n in 1..SLOTS as usize / PIECE {
        assert_eq!(dropped(&endpoint), (n * PIECE) as u64);
        assert!(endpoint.has_given_up());
        assert_eq!(endpoint.drop_given_up(PIECE), PIECE);
    }
    assert!(!endpoint.has_given_up());
    assert_eq!((producer.consumed(), dropped(&endpoint)), (SLOTS, u64::from(SLOTS)));
}

#[test]
fn a_channel_that_closes_takes_up_one_piece_and_the_others_find_no_channel() {
    let (mut endpoint, id, mut producer) = full();
    assert_eq!(endpoint.close(id, PIECE), (PIECE as u64, false));
    assert_eq!((endpoint.passed.taken, dropped(&endpoint)), (PIECE as u64, PIECE as u64));
    endpoint.take_up(SLOTS as usize);
    assert_eq!((producer.consumed(), dropped(&endpoint)), (SLOTS, u64::from(SLOTS)));
}
