//! In its steady state a node allocates nothing: counted by the allocator itself.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use active_messages::{Call, Config, Node, PeerId};
use wire::Time;

fn echo(handled: &mut u64, call: &mut Call<'_>) {
    *handled += 1;
    let (word, payload) = (call.word(0), call.payload);
    call.reply(1, &[word], payload).unwrap();
}

fn count(handled: &mut u64, _: &mut Call<'_>) {
    *handled += 1;
}

fn round(nodes: &mut [Node<u64>; 2], handled: &mut u64, wire: &mut Vec<u8>, n: u64) {
    let now = Time::from_micros(n * 10);
    let peer = PeerId(0);
    nodes[0].request(peer, 0, &[n as u32, 1, 2, 3], &[n as u8; 100]).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        while let Some(octets) = nodes[from].poll_transmit(peer, now) {
            wire.clear();
            wire.extend_from_slice(octets);
            nodes[from].sent(peer, now);
            nodes[to].handle(peer, wire, handled, now);
        }
    }
}

/// The only test here: another that ran beside it would be counted too.
#[test]
fn a_request_and_its_reply_allocate_nothing() {
    let mut nodes = [Node::new(1, Config::default()), Node::new(1, Config::default())];
    nodes[1].handle_with(0, echo);
    nodes[0].handle_with(1, count);
    let (mut handled, mut wire) = (0, Vec::with_capacity(4096));
    (0..200).for_each(|n| round(&mut nodes, &mut handled, &mut wire, n));
    let before = counting_allocator::allocations();
    (200..2200).for_each(|n| round(&mut nodes, &mut handled, &mut wire, n));
    assert_eq!(counting_allocator::allocations() - before, 0);
    assert_eq!(handled, 2 * 2200);
}
