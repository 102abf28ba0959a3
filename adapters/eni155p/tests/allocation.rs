//! In their steady state the ENI155P and its driver allocate nothing: counted by the allocator itself.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use bus::memory::Flat;
use eni155p::driver::{Aal, BUFFER_OCTETS, Bus, Direct, Eni};
use eni155p::{Config, Eni155p, Pace, registers as r, suni};
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
fn the_adapter_and_its_driver_allocate_nothing_per_pdu_or_cell() {
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
}
