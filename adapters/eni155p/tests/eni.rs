//! Two ENI155P back to back, each with its driver, in virtual time.

use bus::memory::{Flat, HostMemory};
use eni155p::driver::{Aal, BUFFER_OCTETS, Bus, Direct, DriverError, Eni, Rate, Statistics};
use eni155p::suni;
use eni155p::tonga::Board;
use eni155p::{Config, Eni155p, Pace, RamSize, registers as r};
use std::time::Duration;
use wire::{Cell, DropReason, Time};

pub(super) const MEMORY: u64 = 0x1000_0000;
pub(super) const BUFFERS: u64 = 16;

pub(super) struct Side {
    pub(super) adapter: Eni155p,
    memory: Flat,
    pub(super) driver: Eni,
}

impl Side {
    pub(super) fn new(config: Config) -> Self {
        let mut adapter = Eni155p::new(config);
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let driver = Eni::probe(&mut bus, MEMORY, BUFFERS).unwrap();
        Side { adapter, memory: Flat::new(MEMORY, (2 * BUFFERS * BUFFER_OCTETS) as usize), driver }
    }

    pub(super) fn with<R>(&mut self, now: Time, f: impl FnOnce(&mut Eni, &mut Direct<'_>, &mut Flat) -> R) -> R {
        let result = f(&mut self.driver, &mut Direct { adapter: &mut self.adapter, now }, &mut self.memory);
        self.settle(now);
        result
    }

    pub(super) fn open(&mut self, vci: u32, aal: Aal, ring: u32, rate: Option<Rate>) -> Result<(), DriverError> {
        self.with(Time::ZERO, |driver, bus, _| driver.open(bus, vci, aal, ring, rate))
    }

    pub(super) fn send(&mut self, vci: u32, sdu: &[u8], now: Time) -> Result<(), DriverError> {
        self.with(now, |driver, bus, memory| driver.send(bus, memory, vci, sdu))
    }

    /// DMA and interrupts until both rest.
    fn settle(&mut self, now: Time) {
        loop {
            while self.adapter.run_dma(&mut self.memory, 1 << 16) {}
            if !self.adapter.interrupt(now) {
                return;
            }
            self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now });
        }
    }

    pub(super) fn received(&mut self) -> Option<(u32, Vec<u8>)> {
        let got = self.driver.poll_received()?;
        let sdu = self.memory.slice(got.address, got.octets).unwrap().to_vec();
        self.driver.release(got);
        Some((got.vci, sdu))
    }
}

pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    now: Time,
    /// Cells that passed from the first side to the second, and when.
    log: Vec<(Time, Cell)>,
}

impl Pair {
    pub(super) fn new(config: Config) -> Self {
        Pair { sides: [Side::new(config), Side::new(config)], now: Time::ZERO, log: Vec::new() }
    }

    /// Carries cells until nobody has any.
    pub(super) fn run(&mut self) {
        let mut cells = [Cell::default(); 16];
        while let Some(next) = self.sides.iter().filter_map(|side| side.adapter.next_transmit()).min() {
            self.now = self.now.max(next);
            for from in [0, 1] {
                let n = self.sides[from].adapter.fill(&mut cells, self.now);
                if from == 0 {
                    self.log.extend(cells[..n].iter().map(|cell| (self.now, *cell)));
                }
                self.sides[1 - from].adapter.handle_cells(&cells[..n]);
                self.sides[from].settle(self.now);
                self.sides[1 - from].settle(self.now);
            }
        }
    }
}

pub(super) fn sdu(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// What a driver has counted, but for what it has sent.
fn troubles(driver: &Eni) -> Statistics {
    Statistics { copied: 0, sent: 0, ..driver.statistics }
}

pub(super) fn unpaced() -> Config {
    Config { pace: Pace::Unpaced, ..Config::default() }
}

#[test]
fn the_driver_finds_identity_ram_and_esi_of_every_board() {
    for (board, ram) in [
        (Board::Asic, RamSize::Kb512),
        (Board::Asic, RamSize::Mb2),
        (Board::Fpga, RamSize::Kb512),
        (Board::Fpga, RamSize::Mb2),
    ] {
        let esi = [0x02, 0x13, 0x57, 0x9b, 0xdf, 0x80];
        let side = Side::new(Config { board, ram, esi, ..Config::default() });
        assert_eq!(side.driver.esi, esi, "{board:?}");
        assert_eq!(side.driver.ram_octets as usize, ram.octets());
        assert!(side.driver.signal);
        assert_eq!(side.adapter.refused(), 0);
    }
}

#[test]
fn pdus_of_all_sizes_cross_in_both_directions_octet_for_octet() {
    for board in [Board::Asic, Board::Fpga] {
        let mut pair = Pair::new(Config { board, ram: RamSize::Mb2, ..unpaced() });
        for side in &mut pair.sides {
            side.open(100, Aal::Aal5, 128 << 10, None).unwrap();
            side.open(101, Aal::Aal0, 16 << 10, None).unwrap();
        }
        for (i, octets) in [1, 3, 39, 40, 41, 48, 1500, 9188, 65535].into_iter().enumerate() {
            for from in [0, 1] {
                let sent = sdu(octets, i as u8 + from as u8);
                let now = pair.now;
                pair.sides[from].send(100, &sent, now).unwrap();
                pair.run();
                assert_eq!(pair.sides[1 - from].received(), Some((100, sent)), "{octets} octets");
            }
        }
        let mut cell = sdu(52, 7);
        // Header: VCI 101, payload type 1, loss priority.
        cell[..4].copy_from_slice(&(101 << 4 | 3u32).to_be_bytes());
        let now = pair.now;
        pair.sides[0].send(101, &cell, now).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((101, cell)));
        for side in &mut pair.sides {
            assert_eq!(troubles(&side.driver), Statistics::default());
            assert_eq!(side.adapter.dma_errors().dropped_total(), 0);
            assert_eq!(side.adapter.received().dropped_total(), 0);
        }
    }
}

#[test]
fn two_hundred_circuits_and_two_thousand_datagrams_pass_without_loss() {
    let mut pair = Pair::new(Config { ram: RamSize::Mb2, ..unpaced() });
    for vci in 32..232 {
        for side in &mut pair.sides {
            side.open(vci, Aal::Aal5, 4 << 10, None).unwrap();
        }
    }
    for vci in 32..232 {
        let now = pair.now;
        pair.sides[0].send(vci, &sdu(200, vci as u8), now).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((vci, sdu(200, vci as u8))));
    }
    // The DMA queues of 512 entries go round many times, several PDUs in flight.
    pair.sides[1].open(300, Aal::Aal5, 128 << 10, None).unwrap();
    pair.sides[0].open(300, Aal::Aal5, 1 << 10, None).unwrap();
    let (mut sent, mut got) = (0u32, 0u32);
    while got < 2048 {
        while sent < 2048 {
            let mut data = sdu(8192, sent as u8);
            data[..4].copy_from_slice(&sent.to_be_bytes());
            let now = pair.now;
            match pair.sides[0].send(300, &data, now) {
                Ok(()) => sent += 1,
                Err(DriverError::Busy) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.run();
        while let Some((vci, data)) = pair.sides[1].received() {
            assert_eq!((vci, &data[..4], data.len()), (300, &got.to_be_bytes()[..], 8192));
            got += 1;
        }
    }
    assert_eq!(troubles(&pair.sides[1].driver), Statistics::default());
}

#[test]
fn a_circuit_with_a_rate_leaves_at_it_to_the_cell_and_others_use_what_is_left() {
    let mut pair = Pair::new(Config::default());
    // 25 MHz / 16 / 32 = 48 828.125 cells/s: one each 20.48 us.
    let rate = Rate { prescaler: 1, rate: 31 };
    for side in &mut pair.sides {
        side.open(50, Aal::Aal5, 16 << 10, Some(rate)).unwrap();
        side.open(51, Aal::Aal5, 16 << 10, None).unwrap();
    }
    let now = pair.now;
    pair.sides[0].send(50, &sdu(9188, 1), now).unwrap();
    pair.sides[0].send(51, &sdu(9188, 2), now).unwrap();
    pair.run();
    let times = |vci: u16| -> Vec<u64> {
        pair.log.iter().filter(|(_, cell)| cell.circuit().vci.get() == vci).map(|(at, _)| at.as_nanos()).collect()
    };
    let (shaped, best_effort) = (times(50), times(51));
    assert_eq!((shaped.len(), best_effort.len()), (192, 192));
    for (n, at) in shaped.iter().enumerate() {
        let due = n as u64 * 20_480;
        assert!((due..due + 2 * 2_832).contains(at), "cell {n} left at {at} ns, due at {due} ns");
    }
    // Both together never beat the line.
    let all: Vec<u64> = pair.log.iter().map(|(at, _)| at.as_nanos()).collect();
    let fastest = all.windows(2).map(|two| two[1] - two[0]).min().unwrap();
    assert!((2_831..=2_832).contains(&fastest), "{fastest} ns between cells");
    let last_best_effort = *best_effort.last().unwrap();
    assert!(last_best_effort < 192 * 2_832 * 4 / 3, "best effort ended at {last_best_effort} ns");
}

#[test]
fn a_line_of_oc3c_carries_135_6_mbit_s_of_cell_payload() {
    let mut pair = Pair::new(Config::default());
    for side in &mut pair.sides {
        side.open(40, Aal::Aal5, 128 << 10, None).unwrap();
    }
    for n in 0..8 {
        let now = pair.now;
        pair.sides[0].send(40, &sdu(9188, n), now).unwrap();
    }
    pair.run();
    assert_eq!(pair.log.len(), 8 * 192);
    let seconds = pair.log.last().unwrap().0.as_secs_f64();
    let mbit_s = (8.0 * 192.0 - 1.0) * 384.0 / seconds / 1e6;
    assert!((mbit_s - 135.63).abs() < 0.1, "{mbit_s}");
}

#[test]
fn a_damaged_pdu_is_marked_and_the_next_one_is_whole() {
    let mut pair = Pair::new(unpaced());
    pair.sides[0].open(40, Aal::Aal5, 16 << 10, None).unwrap();
    pair.sides[1].open(40, Aal::Aal5, 16 << 10, None).unwrap();
    pair.sides[0].send(40, &sdu(1000, 1), Time::ZERO).unwrap();
    let mut cells = [Cell::default(); 64];
    let n = pair.sides[0].adapter.fill(&mut cells, Time::ZERO);
    assert_eq!(n, 21);
    cells[4].payload[9] ^= 1;
    pair.sides[1].adapter.handle_cells(&cells[..n]);
    pair.sides[1].settle(Time::ZERO);
    assert_eq!(pair.sides[1].received(), None);
    assert_eq!(
        (pair.sides[1].driver.statistics.bad, pair.sides[1].adapter.received().dropped(DropReason::Crc)),
        (1, 1)
    );
    pair.sides[0].settle(Time::ZERO);
    pair.sides[0].send(40, &sdu(1000, 2), Time::ZERO).unwrap();
    pair.run();
    assert_eq!(pair.sides[1].received(), Some((40, sdu(1000, 2))));
}

#[test]
fn a_pdu_longer_than_its_ring_is_trashed_with_its_cells_counted_and_the_next_one_is_whole() {
    let mut pair = Pair::new(unpaced());
    pair.sides[0].open(40, Aal::Aal5, 16 << 10, None).unwrap();
    pair.sides[1].open(40, Aal::Aal5, 1 << 10, None).unwrap();
    pair.sides[0].send(40, &sdu(2000, 1), Time::ZERO).unwrap();
    pair.run();
    assert_eq!((pair.sides[1].received(), pair.sides[1].driver.statistics.trashed), (None, 1));
    // A ring of 256 words holds a descriptor and 21 cells of twelve words, not a word more.
    let lost = pair.sides[1].adapter.received().dropped(DropReason::NoBuffer);
    assert_eq!(lost, 42 - 21);
    pair.sides[1].with(Time::ZERO, |driver, bus, _| driver.read_statistics(bus));
    assert_eq!(pair.sides[1].driver.statistics.lost_cells, lost);
    pair.sides[0].send(40, &sdu(900, 2), Time::ZERO).unwrap();
    pair.run();
    assert_eq!(pair.sides[1].received(), Some((40, sdu(900, 2))));
}

/// A bus that keeps the reasons which its driver reads.
struct Watched<'a> {
    bus: Direct<'a>,
    reasons: &'a mut u32,
}

impl Bus for Watched<'_> {
    fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        self.bus.config_read(offset, data);
    }
    fn config_write(&mut self, offset: usize, data: &[u8]) {
        self.bus.config_write(offset, data);
    }
    fn read(&mut self, offset: u32) -> u32 {
        let word = self.bus.read(offset);
        *self.reasons |= if offset == r::REGISTERS_AT + 4 * r::ISA { word } else { 0 };
        word
    }
    fn write(&mut self, offset: u32, value: u32) {
        self.bus.write(offset, value);
    }
}

impl Side {
    /// Serves an interrupt, if there is one, and gives its reasons.
    fn served(&mut self) -> u32 {
        let mut reasons = 0;
        if self.adapter.interrupt(Time::ZERO) {
            let bus = Direct { adapter: &mut self.adapter, now: Time::ZERO };
            self.driver.handle_interrupt(&mut Watched { bus, reasons: &mut reasons });
        }
        reasons
    }
}

/// Almesberger 1995, section 2.1: sending, the PDU has been copied to the adapter, and its last cell has left; receiving, a PDU has come, and
/// it is in the host's memory.
#[test]
fn the_four_interrupts_of_a_buffering_adapter_are_served_in_their_order() {
    let [mut near, mut far] = [Side::new(unpaced()), Side::new(unpaced())];
    near.open(40, Aal::Aal5, 16 << 10, None).unwrap();
    far.open(40, Aal::Aal5, 16 << 10, None).unwrap();
    let octets = sdu(1000, 1);
    let mut bus = Direct { adapter: &mut near.adapter, now: Time::ZERO };
    near.driver.send(&mut bus, &mut near.memory, 40, &octets).unwrap();
    assert_eq!(near.served(), 0, "nothing has happened yet");
    while near.adapter.run_dma(&mut near.memory, 1 << 16) {}
    assert_eq!(near.served(), r::TX_DMA_COMPLETE);
    assert_eq!((near.driver.statistics.copied, near.driver.statistics.sent), (1, 0));
    let mut cells = [Cell::default(); 32];
    assert_eq!(near.adapter.fill(&mut cells, Time::ZERO), 21);
    assert_eq!(near.served(), r::TX_COMPLETE_0);
    assert_eq!((near.driver.statistics.copied, near.driver.statistics.sent), (1, 1));
    far.adapter.handle_cells(&cells[..21]);
    assert_eq!((far.served(), far.driver.poll_received()), (r::SERVICE, None));
    while far.adapter.run_dma(&mut far.memory, 1 << 16) {}
    assert_eq!(far.served(), r::RX_DMA_COMPLETE);
    assert_eq!(far.received(), Some((40, octets)));
    assert_eq!((near.served(), far.served()), (0, 0));
}

#[test]
fn writers_that_found_no_room_are_woken_when_there_is_some_and_everything_leaves() {
    let mut pair = Pair::new(unpaced());
    for vci in [40, 41] {
        pair.sides[0].open(vci, Aal::Aal5, 16 << 10, None).unwrap();
        pair.sides[1].open(vci, Aal::Aal5, 64 << 10, None).unwrap();
    }
    let (mut sent, mut woken, mut came) = (0, 0, Vec::new());
    while sent < 200 {
        let vci = 40 + sent as u32 % 2;
        match pair.sides[0].send(vci, &sdu(9000, sent as u8), pair.now) {
            Ok(()) => sent += 1,
            Err(e) => {
                assert_eq!(
                    (e, pair.sides[0].driver.poll_writable()),
                    (DriverError::Busy, None),
                    "nobody is woken too early"
                );
                pair.run();
                let who: Vec<u32> = std::iter::from_fn(|| pair.sides[0].driver.poll_writable()).collect();
                assert_eq!(who, [vci]);
                woken += 1;
                came.extend(std::iter::from_fn(|| pair.sides[1].received()));
            }
        }
    }
    pair.run();
    came.extend(std::iter::from_fn(|| pair.sides[1].received()));
    assert!(woken >= 10, "{woken}");
    assert_eq!(came.len(), 200);
    assert_eq!((pair.sides[0].driver.statistics.copied, pair.sides[0].driver.statistics.sent), (200, 200));
}

/// "Adapter may deadlock if buffer full of loss indications" (ATM on Linux 0.4): each PDU that finds no room leaves a descriptor that says so,
/// until there is no room for these either.
#[test]
fn a_ring_full_of_loss_indications_keeps_count_and_goes_on_when_it_is_read() {
    let mut pair = Pair::new(unpaced());
    pair.sides[0].open(40, Aal::Aal5, 16 << 10, None).unwrap();
    pair.sides[1].open(40, Aal::Aal5, 1 << 10, None).unwrap();
    let cell = |end: u32| {
        let mut cell = Cell::default();
        cell.clear(wire::CellHeader::from_word(40 << 4 | end << 1));
        cell
    };
    // Longer than the ring of 256 words: 22 cells of twelve. Nobody serves an interrupt meanwhile.
    let mut long = vec![cell(0); 21];
    long.push(cell(1));
    const SENT: u64 = 300;
    (0..SENT).for_each(|_| pair.sides[1].adapter.handle_cells(&long));
    pair.sides[1].adapter.handle_cells(&long[..1]);
    let state = {
        let mut bus = Direct { adapter: &mut pair.sides[1].adapter, now: Time::ZERO };
        bus.read(r::RAM_AT + r::VCI_TABLE + 16 * 40 + 8) >> 14 & 3
    };
    assert_eq!(state, 3, "a PDU for whose indication there is no room");
    pair.sides[1].adapter.handle_cells(&long[1..]);
    // The first PDU's first 21 cells have room; each of 255 indications takes a word, and one word stays free.
    let lost = pair.sides[1].adapter.received().dropped(DropReason::NoBuffer);
    let stored = pair.sides[1].adapter.received().cells;
    assert_eq!(lost + stored, 22 * (SENT + 1));
    assert!(pair.sides[1].adapter.interrupt(Time::ZERO));
    pair.sides[1].settle(Time::ZERO);
    assert_eq!((pair.sides[1].received(), pair.sides[1].driver.statistics.trashed), (None, 255));
    pair.sides[1].with(Time::ZERO, |driver, bus, _| driver.read_statistics(bus));
    assert_eq!(pair.sides[1].driver.statistics.lost_cells, lost);
    for n in 0..3 {
        pair.sides[0].send(40, &sdu(900, n), pair.now).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((40, sdu(900, n))));
    }
}

/// In the mode that keeps them, management cells leave a host that expects nothing but PDUs in its place.
#[test]
fn a_management_cell_between_two_pdus_is_kept_as_a_pdu_of_a_wrong_crc_and_the_next_one_is_whole() {
    let mut pair = Pair::new(unpaced());
    let pti_mode = 1 << 29;
    for side in &mut pair.sides {
        side.open(7, Aal::Aal5, 16 << 10, None).unwrap();
        let entry = r::RAM_AT + r::VCI_TABLE + 16 * 7;
        side.with(Time::ZERO, |_, bus, _| {
            let word = bus.read(entry);
            bus.write(entry, word | pti_mode);
        });
    }
    let mut loopback = Cell::default();
    // VCI 7, PTI 5: an end-to-end OAM cell.
    loopback.clear(wire::CellHeader::from_word(7 << 4 | 5 << 1));
    loopback.payload.fill(0x6a);
    for n in 0..3 {
        pair.sides[0].send(7, &sdu(300, n), pair.now).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((7, sdu(300, n))));
        pair.sides[1].adapter.handle_cell(&loopback);
        pair.sides[1].settle(Time::ZERO);
        assert_eq!(pair.sides[1].received(), None);
    }
    let received = pair.sides[1].adapter.received();
    assert_eq!([received.dropped(DropReason::Crc), received.pdus], [3, 3]);
}

#[test]
fn cells_of_no_circuit_are_trashed_and_half_a_counter_of_them_interrupts_until_it_is_read() {
    let mut side = Side::new(Config::default());
    let cell =
        Cell::new(wire::CellHeader { circuit: wire::CircuitId::new(0, 999).unwrap(), ..Default::default() }, [0; 48]);
    for _ in 0..0x7fff {
        side.adapter.handle_cell(&cell);
    }
    assert!(!side.adapter.interrupt(Time::ZERO));
    side.adapter.handle_cell(&cell);
    let mut bus = Direct { adapter: &mut side.adapter, now: Time::ZERO };
    let isa = r::REGISTERS_AT + 4 * r::ISA;
    assert_eq!((bus.read(isa), bus.read(isa)), (r::STAT_OVFL, r::STAT_OVFL));
    assert_eq!(bus.read(r::REGISTERS_AT + 4 * r::STAT), 0x8000_0000);
    assert_eq!((bus.read(isa), bus.read(r::REGISTERS_AT + 4 * r::STAT)), (0, 0));
    for circuit in [wire::CircuitId::new(1, 40), wire::CircuitId::new(0, 1024)] {
        let header = wire::CellHeader { circuit: circuit.unwrap(), ..Default::default() };
        side.adapter.handle_cell(&Cell::new(header, [0; 48]));
    }
    assert_eq!(side.adapter.received().dropped(DropReason::UnknownCircuit), 0x8002);
}

#[test]
fn words_written_together_are_those_written_one_by_one_at_the_ends_of_the_ram_too() {
    let ends = [0, 4, (512 << 10) - 8, r::RAM_WINDOW - 8, r::RAM_WINDOW - 4];
    for (at, words) in ends.into_iter().flat_map(|at| (0..5).map(move |words| (r::RAM_AT + at, words))) {
        let data: Vec<u8> = (0..4 * words).map(|i| i as u8 ^ 0x5a).collect();
        let (mut together, mut apart) = (Eni155p::new(unpaced()), Eni155p::new(unpaced()));
        together.bar_write(at, &data, Time::ZERO);
        for (n, word) in (0..).zip(data.chunks(4)) {
            apart.bar_write(at + 4 * n, word, Time::ZERO);
        }
        assert_eq!(together.refused(), apart.refused(), "{words} words at {at:#x}");
        let read = |adapter: &mut Eni155p, at| Direct { adapter, now: Time::ZERO }.read(at);
        for at in (r::RAM_AT..r::RAM_AT + 64).chain(at - 16..at + 32).step_by(4) {
            assert_eq!(read(&mut together, at), read(&mut apart, at), "{words} words, at {at:#x}");
        }
    }
}

#[test]
fn memory_is_cleared_as_far_as_it_says() {
    let mut adapter = Eni155p::new(unpaced());
    let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
    let at = |word: u32| r::RAM_AT + 4 * word;
    (0..4000).for_each(|word| bus.write(at(word), u32::MAX));
    bus.clear(at(1), 4 * 2100);
    let cleared: Vec<u32> = (0..4000).filter(|word| bus.read(at(*word)) == 0).collect();
    assert_eq!(cleared, (1..2101).collect::<Vec<_>>());
}

#[test]
fn the_hold_off_keeps_the_pin_low_for_its_time() {
    let mut side = Side::new(unpaced());
    let mc_s = r::REGISTERS_AT + 4 * r::MC_S;
    let phy_loss = |side: &mut Side, signal| side.adapter.set_signal(signal);
    let start = Time::from_millis(5);
    side.adapter.bar_write(mc_s, &(0x40 | r::WAIT_500US).to_le_bytes(), start);
    phy_loss(&mut side, false);
    assert!(!side.adapter.interrupt(start));
    let end = start + Duration::from_micros(500);
    assert_eq!(side.adapter.poll_timeout(), Some(end));
    side.adapter.handle_timeout(end);
    assert!(side.adapter.interrupt(end));
    side.settle(end);
    assert!(!side.driver.signal && !side.adapter.interrupt(end));
    assert_eq!(side.adapter.poll_timeout(), None);
    phy_loss(&mut side, true);
    side.settle(end);
    assert!(side.driver.signal);
}

#[test]
fn loop_backs_bring_cells_back() {
    let mut side = Side::new(unpaced());
    side.open(40, Aal::Aal5, 16 << 10, None).unwrap();
    let mct = r::PHY_AT + 4 * u32::from(suni::MCT);
    side.with(Time::ZERO, |_, bus, _| bus.write(mct, 2));
    side.send(40, &sdu(500, 1), Time::ZERO).unwrap();
    let mut cells = [Cell::default(); 32];
    assert_eq!(side.adapter.fill(&mut cells, Time::ZERO), 0, "nothing leaves");
    side.settle(Time::ZERO);
    assert_eq!(side.received(), Some((40, sdu(500, 1))));

    side.with(Time::ZERO, |_, bus, _| bus.write(mct, 4));
    side.adapter.handle_cells(&cells[..3]);
    let mut back = [Cell::default(); 8];
    assert_eq!(side.adapter.fill(&mut back, Time::ZERO), 3);
    assert_eq!(back[..3], cells[..3]);
}

#[test]
fn circuits_close_and_their_ram_is_used_again() {
    let mut pair = Pair::new(unpaced());
    for round in 0..50 {
        let rate = (round % 2 == 0).then_some(Rate { prescaler: 0, rate: 5 });
        for side in &mut pair.sides {
            side.open(40, Aal::Aal5, 128 << 10, rate).unwrap();
            side.open(41, Aal::Aal5, 64 << 10, rate).unwrap();
        }
        let now = pair.now;
        pair.sides[0].send(40, &sdu(9188, round), now).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), Some((40, sdu(9188, round))));
        for side in &mut pair.sides {
            for vci in [41, 40] {
                side.with(now, |driver, bus, _| driver.close(bus, vci)).unwrap();
            }
        }
    }
    assert_eq!(pair.sides[1].open(1024, Aal::Aal5, 1024, None), Err(DriverError::Circuit(1024)));
}

#[test]
fn dma_that_leads_nowhere_is_shown_and_passed_over() {
    let mut pair = Pair::new(unpaced());
    for side in &mut pair.sides {
        side.open(40, Aal::Aal5, 16 << 10, None).unwrap();
    }
    // A memory that is elsewhere for the time of one PDU.
    struct Nowhere;
    impl HostMemory for Nowhere {
        fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), bus::Unmapped> {
            Err(bus::Unmapped { address })
        }
        fn write(&mut self, address: u64, _: &[u8]) -> Result<(), bus::Unmapped> {
            Err(bus::Unmapped { address })
        }
    }
    let side = &mut pair.sides[0];
    let mut bus = Direct { adapter: &mut side.adapter, now: Time::ZERO };
    side.driver.send(&mut bus, &mut side.memory, 40, &sdu(1000, 1)).unwrap();
    while side.adapter.run_dma(&mut Nowhere, 1000) {}
    assert!(side.adapter.dma_errors().dropped(DropReason::BadDescriptor) > 0);
    side.settle(Time::ZERO);
    assert_eq!(side.driver.statistics.dma_errors, 1);
    pair.run();
    assert_eq!(pair.sides[1].received().unwrap().1.len(), 1000, "what was in the ring, with a right CRC");
    pair.sides[0].send(40, &sdu(1000, 2), Time::ZERO).unwrap();
    pair.run();
    assert_eq!(pair.sides[1].received(), Some((40, sdu(1000, 2))));
}

#[test]
fn cells_agree_with_the_segmentation_of_the_sar_crate() {
    let mut side = Side::new(unpaced());
    side.open(77, Aal::Aal5, 16 << 10, None).unwrap();
    for octets in [40, 41, 1000, 9188] {
        let data = sdu(octets, 3);
        side.send(77, &data, Time::ZERO).unwrap();
        let mut cells = vec![Cell::default(); 200];
        let n = side.adapter.fill(&mut cells, Time::ZERO);
        side.settle(Time::ZERO);
        let mut buffer = vec![0; octets];
        let mut reassembler = sar::Reassembler::new(sar::ReassemblyConfig::default());
        let step = reassembler.push(&cells[..n], &mut buffer, Time::ZERO);
        assert!(matches!(step.event, sar::Event::Complete { sdu_octets, .. } if sdu_octets == octets), "{step:?}");
        assert_eq!(buffer, data);
        assert!(cells[..n].iter().all(|cell| cell.circuit().to_string() == "0.77"));
    }
}

#[test]
fn padding_holds_nothing_that_another_circuit_has_sent_from_the_same_place() {
    const SECRET: u8 = 0xc5;
    let mut side = Side::new(unpaced());
    for vci in [77, 78] {
        side.open(vci, Aal::Aal5, 16 << 10, None).unwrap();
    }
    let mut cells = vec![Cell::default(); 200];
    // Circuits without a rate share a ring of the adapter's memory: once round it.
    for _ in 0..40 {
        side.send(77, &[SECRET; 9180], Time::ZERO).unwrap();
        assert!(side.adapter.fill(&mut cells, Time::ZERO) > 0);
        side.settle(Time::ZERO);
    }
    for octets in 1..200 {
        side.send(78, &vec![1; octets], Time::ZERO).unwrap();
        let n = side.adapter.fill(&mut cells, Time::ZERO);
        side.settle(Time::ZERO);
        let payload: Vec<u8> = cells[..n].iter().flat_map(|cell| cell.payload).collect();
        let padding = &payload[octets..payload.len() - 8];
        assert!(padding.iter().all(|octet| *octet == 0), "{octets} octets: {padding:x?}");
    }
}

#[test]
fn a_channel_that_is_placed_anew_or_reset_has_nothing_left_to_send() {
    for register in [r::TX_PLACE, r::RES_ID_MCON] {
        let mut side = Side::new(unpaced());
        side.open(100, Aal::Aal5, 64 * 1024, None).unwrap();
        side.send(100, &sdu(1000, 1), Time::ZERO).unwrap();
        assert!(side.adapter.next_transmit().is_some());
        side.with(Time::ZERO, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * register, 0));
        side.with(Time::ZERO, |_, bus, _| bus.write(r::REGISTERS_AT + 4 * r::MC_S, r::TX_ENABLE));
        assert_eq!(side.adapter.next_transmit(), None);
        assert_eq!(side.adapter.fill(&mut [Cell::default(); 16], Time::ZERO), 0);
        assert_eq!(side.adapter.sent().dropped(DropReason::BadDescriptor), 0);
        assert_eq!(side.adapter.sent().dropped(DropReason::Closed), 1, "the PDU that waited");
    }
}

#[test]
fn channels_that_are_both_due_take_turns_by_the_cell_until_one_is_alone() {
    let mut side = Side::new(unpaced());
    side.open(50, Aal::Aal5, 16 << 10, Some(Rate { prescaler: 1, rate: 31 })).unwrap();
    side.open(51, Aal::Aal5, 16 << 10, None).unwrap();
    side.send(50, &sdu(1000, 1), Time::ZERO).unwrap();
    side.send(51, &sdu(1000, 2), Time::ZERO).unwrap();
    let mut cells = [Cell::default(); 64];
    let filled = side.adapter.fill(&mut cells, Time::ZERO);
    let of = |cells: &[Cell], vci| cells.iter().filter(|cell| cell.circuit().vci.get() == vci).count();
    assert_eq!([of(&cells[..2], 50), of(&cells[..2], 51)], [1, 1]);
    // The one with a rate is due again later; the other PDU has 21 cells.
    assert_eq!([of(&cells[..filled], 50), of(&cells[..filled], 51)], [1, 21]);
}
