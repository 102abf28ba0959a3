//! The sizes of bursts by which the driver has data moved (Almesberger 1995, section 4: a work-around for a bridge that
//! lost octets of longer ones).

use crate::eni::{Pair, sdu, unpaced};
use eni155p::driver::{Aal, Bus as _, Direct};
use eni155p::registers::{self as r, dma_type};
use wire::Time;

/// Words of each burst that a queue of entries has asked for.
fn bursts(pair: &mut Pair, side: usize, queue: u32) -> Vec<u32> {
    let mut bus = Direct { adapter: &mut pair.sides[side].adapter, now: Time::ZERO };
    let entries = (0..r::DMA_ENTRIES).map(|n| bus.read(r::RAM_AT + queue + 8 * n));
    let kind = |word: u32| word & 0xf;
    let burst = |word| dma_type::BURSTS.iter().find(|(burst, _)| *burst == kind(word)).map(|(_, words)| *words);
    entries.filter(|word| word >> 16 > 0).filter_map(burst).collect()
}

#[test]
fn data_that_come_are_moved_by_shorter_bursts_than_data_that_leave() {
    let mut pair = Pair::new(unpaced());
    for side in &mut pair.sides {
        side.open(100, Aal::Aal5, 16384, None).unwrap();
    }
    for octets in [64, 1500, 9188] {
        pair.sides[0].send(100, &sdu(octets, 1), Time::ZERO).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((100, sdu(octets, 1))));
    }
    let [sent, received] = [bursts(&mut pair, 0, r::TX_QUEUE), bursts(&mut pair, 1, r::RX_QUEUE)];
    assert!(sent.len() >= 3 && received.len() >= 3, "{sent:?}, {received:?}");
    assert!(received.iter().max() < sent.iter().min(), "sent by {sent:?} words, received by {received:?}");
}
