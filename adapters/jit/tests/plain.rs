//! Adapters for contrast: one that leaves everything to the host's processor, and one that leaves nothing to it.

use bus::memory::Flat;
use jit::plain::Plain;
use jit::plain::driver::{Driver, Work};
use jit::{Buffer, Config, Descriptor, Event, Jit, Lists};
use std::time::Duration;
use wire::{Cell, CircuitId, DropReason, Time};

fn circuit() -> CircuitId {
    CircuitId::new(0, 40).unwrap()
}

fn pattern(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(13) ^ (i >> 8) as u8).collect()
}

/// Almesberger 1995, section 2.1: "AAL processing had to be performed in software".
#[test]
fn without_an_adaptation_layer_the_processor_moves_and_checks_every_cell() {
    for octets in [1, 40, 41, 1500, 9188, 65_535] {
        let (mut near, mut far) = (Plain::new(16), Plain::new(16));
        let (mut sender, mut receiver) = (Driver::new(circuit()), Driver::new(circuit()));
        let (mut now, mut cells, mut got) = (Time::ZERO, [Cell::default(); 4], Vec::new());
        sender.send(pattern(octets)).unwrap();
        assert!(sender.send(vec![1]).is_err(), "one at a time");
        while !sender.run(&mut near) || near.poll_timeout().is_some() {
            now = now.max(near.poll_timeout().unwrap());
            let n = near.fill(&mut cells, now);
            far.handle_cells(&cells[..n]);
            receiver.handle_interrupt(&mut far, now, |sdu| got.push(sdu.to_vec()));
        }
        assert_eq!(got, [pattern(octets)]);
        let all = wire::aal5::cells(octets) as u64;
        assert_eq!(sender.work, Work { interrupts: 0, words: 13 * all, checked: 48 * all });
        // At the line's pace each cell comes alone, and is an interrupt.
        assert_eq!(receiver.work, Work { interrupts: all, words: 13 * all, checked: 48 * all });
    }
}

#[test]
fn cells_that_nobody_takes_are_counted_and_the_pdu_is_lost_and_the_next_one_is_whole() {
    let (mut near, mut far) = (Plain::new(64), Plain::new(8));
    let (mut sender, mut receiver) = (Driver::new(circuit()), Driver::new(circuit()));
    let (mut cells, mut got) = ([Cell::default(); 64], Vec::new());
    // Ten cells, the last of which finds no room; nobody looks meanwhile. Then one that does.
    for (octets, looked) in [(472, false), (100, true), (200, true)] {
        sender.send(pattern(octets)).unwrap();
        assert!(sender.run(&mut near));
        let mut now = Time::ZERO;
        while let Some(next) = near.poll_timeout() {
            now = now.max(next);
            let n = near.fill(&mut cells, now);
            far.handle_cells(&cells[..n]);
            if looked {
                receiver.handle_interrupt(&mut far, now, |sdu| got.push(sdu.len()));
            }
        }
    }
    assert_eq!(far.received().dropped(DropReason::QueueFull), 3);
    // The lost PDU's end took the next one with it, as AAL5 does.
    assert_eq!((got, receiver.lost), (vec![200], 1));
}

/// The opposite extreme: "the processing capabilities of the adapter itself may become the new bottleneck".
#[test]
fn an_adapter_whose_own_processor_takes_longer_than_a_cell_is_the_bottleneck_and_both_directions_share_it() {
    let config = Config { processor: Duration::from_micros(4), ..Config::default() };
    let host = |config| {
        let mut adapter = Jit::new(config);
        adapter.open(circuit(), Lists { first: 0, rest: 0 });
        (0..4).for_each(|n| assert!(adapter.replenish(0, Buffer { address: 0x2_0000 + 0x4000 * n, octets: 0x4000 })));
        adapter.send(0, Descriptor { circuit: circuit(), address: 0, octets: 9592, cookie: 1 });
        (adapter, Flat::new(0, 1 << 18))
    };
    // Microseconds for 200 cells, whether what was sent comes back.
    let time = |config, looped| {
        let (mut adapter, mut memory) = host(config);
        let (mut now, mut cells, mut count) = (Time::ZERO, [Cell::default(); 1], 0);
        while let Some(next) = adapter.poll_timeout() {
            now = now.max(next);
            adapter.run(&mut memory, now);
            let n = adapter.fill(&mut cells, &mut memory, now);
            count += n;
            if looped {
                adapter.handle_cells(&cells[..n], now);
            }
        }
        let whole =
            std::iter::from_fn(|| adapter.poll_event()).any(|e| matches!(e, Event::Received { octets: 9592, .. }));
        assert_eq!((count, whole), (200, looped));
        now.as_nanos() / 1000
    };
    let hardware = Config::default();
    // OC-3c: 2.83 us for a cell, whichever way.
    assert!((560..570).contains(&time(hardware, false)) && (560..570).contains(&time(hardware, true)));
    assert!((795..805).contains(&time(config, false)), "{}", time(config, false));
    assert!((1590..1610).contains(&time(config, true)), "{}", time(config, true));
    // Cells that come faster than it works are lost.
    let (mut adapter, mut memory) = host(config);
    for n in 0..200u64 {
        let now = Time::from_nanos(2_831 * n);
        adapter.run(&mut memory, now);
        adapter.handle_cells(&[Cell::default()], now);
    }
    let lost = adapter.received().dropped(DropReason::QueueFull);
    assert!((40..70).contains(&lost), "a third, less what waits: {lost}");
}
