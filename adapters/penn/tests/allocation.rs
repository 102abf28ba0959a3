//! In their steady state the two cards allocate nothing: counted by the allocator itself.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use bus::memory::Flat;
use penn::Streaming;
use penn::reassembler::{Card, register as rr};
use penn::segmenter::{Segmenter, register as sr};
use wire::{Cell, Time};

/// Allocations of `rounds` calls after as many to warm up.
fn allocations(mut round: impl FnMut(u64)) -> u64 {
    const ROUNDS: u64 = 200;
    (0..ROUNDS).for_each(&mut round);
    let before = counting_allocator::allocations();
    (ROUNDS..2 * ROUNDS).for_each(&mut round);
    counting_allocator::allocations() - before
}

/// The only test here: another that ran beside it would be counted too.
#[test]
fn the_cards_allocate_nothing_per_pdu_or_cell() {
    let mut memory = Flat::new(0, 1 << 16);
    let mut cells = [Cell::default(); 64];
    let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
    let mut card = Card::new(penn::reassembly::Config::default()).unwrap();
    let mut fetched = 0;
    let penn = allocations(|n| {
        let now = Time::from_millis(n);
        for (register, value) in
            [(sr::SOURCE, 0), (sr::LENGTH, 4800), (sr::HEADER, (100 + n as u32) << 4), (sr::START, 1)]
        {
            segmenter.write(register, value, now);
        }
        let mut at = now;
        while let Some(next) = segmenter.poll_timeout() {
            at = at.max(next);
            let n = segmenter.fill(&mut cells, &mut memory, at);
            card.handle_cells(&cells[..n], at);
        }
        for (register, value) in [(rr::DESTINATION, 8192), (rr::LIST, 0), (rr::FETCH, 100)] {
            card.write(register, value, at);
        }
        while let Some(next) = card.poll_timeout() {
            card.run(&mut memory, 16, next);
        }
        fetched += card.read(rr::LENGTH);
        // A circuit's list is opened and deleted each time.
        card.write(rr::DELETE, 0, at);
    });
    assert_eq!((penn, fetched), (0, 400 * 4800));
}
