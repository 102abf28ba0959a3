//! PDUs that are taken from an ENI155P's channel while they leave, and what DMA makes of a portion.

use super::eni::{BUFFERS, MEMORY, Pair, Side, sdu, unpaced};
use bus::Unmapped;
use bus::memory::{Flat, HostMemory};
use eni155p::driver::{Aal, Bus, Direct, Eni, Rate};
use eni155p::{Config, Eni155p, registers as r};
use std::time::Duration;
use wire::{Cell, DropReason, Time};

/// What takes a PDU from its channel.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Bus,
    Midway,
    Place(u32),
}

#[test]
fn a_pdu_that_is_cut_by_a_reset_or_a_new_place_is_ended_and_the_next_one_arrives_whole() {
    for cut in [Cut::Bus, Cut::Midway, Cut::Place(0)] {
        let mut pair = Pair::new(unpaced());
        for side in &mut pair.sides {
            side.open(100, Aal::Aal5, 64 << 10, None).unwrap();
        }
        // One whose half leaves, and two that wait behind it.
        for seed in 0..3 {
            pair.sides[0].send(100, &sdu(9188, seed), Time::ZERO).unwrap();
        }
        let mut cells = [Cell::default(); 96];
        assert_eq!(pair.sides[0].adapter.fill(&mut cells, Time::ZERO), 96);
        pair.sides[1].adapter.handle_cells(&cells);
        let side = &mut pair.sides[0];
        match cut {
            Cut::Bus => side.adapter.reset(),
            Cut::Midway => side.with(Time::ZERO, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * r::RES_ID_MCON, 0)),
            Cut::Place(at) => {
                side.with(Time::ZERO, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * r::TX_PLACE, at));
            }
        }
        assert_eq!(side.adapter.sent().dropped(DropReason::Closed), 3, "{cut:?}");
        assert!(side.adapter.ends_pdus());
        side.driver = Eni::probe(&mut Direct { adapter: &mut side.adapter, now: Time::ZERO }, MEMORY, BUFFERS).unwrap();
        side.open(100, Aal::Aal5, 64 << 10, None).unwrap();
        pair.sides[0].send(100, &sdu(9188, 7), Time::ZERO).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((100, sdu(9188, 7))), "{cut:?}");
        assert_eq!(pair.sides[1].received(), None);
        // Its CRC holds and its length is none, so that it counts once: as what its sender has closed, and its receiver as given up.
        let adapter = &pair.sides[0].adapter;
        assert_eq!((adapter.sent().dropped_total(), adapter.sent().pdus), (3, 1));
        assert_eq!(adapter.sent().cells, 96 + 1 + 192);
        let receiver = &pair.sides[1];
        let received = receiver.adapter.received();
        assert_eq!((received.dropped_total(), received.dropped(DropReason::Aborted)), (1, 1), "{cut:?}");
        assert_eq!((received.pdus, received.octets), (1, 192 * 48));
        assert_eq!((received.cells, receiver.driver.statistics.bad), (96 + 1 + 192, 1));
    }
}

#[test]
fn a_pdu_is_ended_where_its_cells_went_whatever_loop_back_there_is_when_it_is_cut() {
    const OFF: u32 = 0;
    const DIAGNOSTIC: u32 = 2;
    let mct = r::PHY_AT + 4 * u32::from(eni155p::suni::MCT);
    let turn = |side: &mut Side, to: u32| side.with(Time::ZERO, |_, bus, _| bus.write(mct, to));
    // The loop-back for the first cells and for those after them, and when the PDU is cut.
    for (first, then, at_last) in [
        (OFF, OFF, DIAGNOSTIC),
        (OFF, DIAGNOSTIC, DIAGNOSTIC),
        (DIAGNOSTIC, OFF, DIAGNOSTIC),
        (DIAGNOSTIC, DIAGNOSTIC, OFF),
        (DIAGNOSTIC, DIAGNOSTIC, DIAGNOSTIC),
    ] {
        let mut pair = Pair::new(unpaced());
        for side in &mut pair.sides {
            side.open(100, Aal::Aal5, 64 << 10, None).unwrap();
        }
        pair.sides[0].send(100, &sdu(9188, 1), Time::ZERO).unwrap();
        let mut left = 0;
        for way in [first, then] {
            turn(&mut pair.sides[0], way);
            let mut cells = [Cell::default(); 48];
            let n = pair.sides[0].adapter.fill(&mut cells, Time::ZERO);
            pair.sides[1].adapter.handle_cells(&cells[..n]);
            left += n;
        }
        let what = format!("by {first}, by {then}, at last {at_last}");
        assert_eq!(left, [first, then].iter().filter(|way| **way == OFF).count() * 48, "{what}");
        let side = &mut pair.sides[0];
        turn(side, at_last);
        side.with(Time::ZERO, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * r::RES_ID_MCON, 0));
        assert_eq!(side.adapter.ends_pdus(), left > 0, "{what}");
        turn(side, OFF);
        side.driver = Eni::probe(&mut Direct { adapter: &mut side.adapter, now: Time::ZERO }, MEMORY, BUFFERS).unwrap();
        side.open(100, Aal::Aal5, 64 << 10, None).unwrap();
        side.send(100, &sdu(9188, 7), Time::ZERO).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((100, sdu(9188, 7))), "{what}");
        assert_eq!(pair.sides[1].adapter.received().dropped_total(), u64::from(left > 0), "{what}");
    }
}

#[test]
fn the_end_of_a_cut_pdu_waits_for_the_line_and_takes_its_channels_time() {
    let mut side = Side::new(Config::default());
    // One each 20.48 us.
    side.open(50, Aal::Aal5, 16 << 10, Some(Rate { prescaler: 1, rate: 31 })).unwrap();
    let mut now = Time::ZERO;
    let mut cells = [Cell::default(); 4];
    let mut left = 0;
    while now < Time::from_millis(10) {
        if side.adapter.next_transmit().is_none() {
            side.send(50, &sdu(200, 1), now).unwrap();
        }
        left += side.adapter.fill(&mut cells, now);
        let place = side.with(now, |_, bus, _| bus.read(r::REGISTERS_AT + 4 * r::TX_PLACE));
        side.with(now, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * r::TX_PLACE, place));
        now += Duration::from_micros(1);
    }
    assert!((480..=490).contains(&left), "{left} cells in 10 ms");
}

/// Memory that counts how often it is written.
struct Written(Flat, usize);

impl HostMemory for Written {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.0.read(address, data)
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.1 += 1;
        self.0.write(address, data)
    }
}

#[test]
fn a_portion_is_one_write_whether_or_not_the_bridge_swaps_its_octets() {
    for swap in [0, eni155p::tonga::SWAP_DMA] {
        let mut adapter = Eni155p::new(unpaced());
        adapter.config_write(4, &[6, 0]);
        adapter.config_write(eni155p::tonga::CONTROL, &[swap]);
        let mut write = |at: u32, value: u32| adapter.bar_write(at, &value.to_le_bytes(), Time::ZERO);
        for n in 0..1024 {
            write(r::RAM_AT + (64 << 10) + 4 * n, n);
        }
        // VCI 40 has 8 kB at 64 kB.
        write(r::RAM_AT + r::VCI_TABLE + 16 * 40, 2 << 30 | 64 << 18 | 3 << 15);
        write(r::RAM_AT + r::RX_QUEUE, 1024 << 16 | 40 << 6);
        write(r::RAM_AT + r::RX_QUEUE + 4, MEMORY as u32);
        write(r::REGISTERS_AT + 4 * r::MC_S, r::DMA_ENABLE);
        write(r::REGISTERS_AT + 4 * r::DMA_WR_RX, 1);
        let mut memory = Written(Flat::new(MEMORY, 4096), 0);
        while adapter.run_dma(&mut memory, 1 << 16) {}
        assert_eq!(memory.1, 1);
        let words: Vec<u32> = (0..1024).map(|n| if swap == 0 { n } else { u32::swap_bytes(n) }).collect();
        let octets: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(memory.0.slice(MEMORY, 4096).unwrap(), octets);
    }
}
