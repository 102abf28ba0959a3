//! In their steady state the adapters allocate nothing: counted by the allocator itself.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use adapter::driver::Bus;
use adapter::driver::eni::{Aal, BUFFER_OCTETS, Direct, Eni};
use adapter::memory::Flat;
use adapter::midway::{Config, Eni155p, Pace, registers as r};
use adapter::penn::Streaming;
use adapter::penn::reassembler::{Card, register as rr};
use adapter::penn::segmenter::{Segmenter, register as sr};
use adapter::suni;
use wire::{Cell, Time};

/// Allocations of `rounds` calls after as many to warm up.
fn allocations(mut round: impl FnMut(u64)) -> u64 {
    const ROUNDS: u64 = 200;
    (0..ROUNDS).for_each(&mut round);
    let before = counting_allocator::allocations();
    (ROUNDS..2 * ROUNDS).for_each(&mut round);
    counting_allocator::allocations() - before
}

/// One test for all: another that ran beside it would be counted too.
#[test]
fn adapters_and_their_drivers_allocate_nothing_per_pdu_or_cell() {
    let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
    let mut memory = Flat::new(0, 16 * BUFFER_OCTETS as usize);
    let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
    let mut driver = Eni::probe(&mut bus, 0, 8).unwrap();
    driver.open(&mut bus, 40, Aal::Aal5, 64 << 10, None).unwrap();
    bus.write(r::PHY_AT + 4 * u32::from(suni::MCT), 2);
    let mut cells = [Cell::default(); 64];
    let sdu = vec![5; 9188];
    let mut received = 0;
    let eni = allocations(|_| {
        let now = Time::ZERO;
        driver.send(&mut Direct { adapter: &mut adapter, now }, &mut memory, 40, &sdu).unwrap();
        loop {
            while adapter.run_dma(&mut memory, 1 << 16) {}
            if adapter.next_transmit().is_some() {
                adapter.fill(&mut cells, now);
            } else if adapter.interrupt(now) {
                driver.handle_interrupt(&mut Direct { adapter: &mut adapter, now });
            } else {
                break;
            }
        }
        while let Some(got) = driver.poll_received() {
            received += got.octets;
            driver.release(got);
        }
    });
    assert_eq!((eni, received), (0, 400 * 9188));

    let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
    let mut card = Card::new(sar::penn::Config::default()).unwrap();
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
