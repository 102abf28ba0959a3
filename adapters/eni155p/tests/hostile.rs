//! A guest that writes whatever it likes to the ENI155P: nothing panics, work is bounded, memory outside its own is never
//! touched, and after a reset the adapter is as good as new.

use bus::memory::Flat;
use bus::{HostMemory, Unmapped};
use eni155p::driver::{Aal, Bus, Direct, Eni, Rate};
use eni155p::tonga::Board;
use eni155p::{Config, Eni155p, Pace, RamSize, registers as r};
use proptest::prelude::*;
use wire::{Cell, CellHeader, Time};

/// A small generator (xorshift): the same operations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Where [`Holes`] begins and ends its two ranges.
const LOW: std::ops::Range<u64> = 0..1 << 16;
const HIGH: std::ops::Range<u64> = 0xffff_0000..1 << 32;

/// Mapped in two places with a hole between, full of what comes; counts what it moves.
struct Holes {
    low: Flat,
    high: Flat,
    octets: u64,
}

impl Holes {
    fn new(random: &mut Random) -> Self {
        let mut range = |of: std::ops::Range<u64>| {
            let octets = (of.end - of.start) as usize;
            let mut flat = Flat::new(of.start, octets);
            let words = flat.slice_mut(of.start, octets).unwrap().chunks_exact_mut(8);
            words.for_each(|place| place.copy_from_slice(&random.next().to_le_bytes()));
            flat
        };
        Holes { low: range(LOW), high: range(HIGH), octets: 0 }
    }
}

impl HostMemory for Holes {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.octets += data.len() as u64;
        self.low.read(address, data).or_else(|_| self.high.read(address, data))
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.octets += data.len() as u64;
        self.low.write(address, data).or_else(|_| self.high.write(address, data))
    }
}

/// A word that means something somewhere, or one that does not.
fn word(random: &mut Random) -> u32 {
    let any = random.next() as u32;
    match random.below(8) {
        0 => any,
        1 => random.pick(&[0, 1, u32::MAX, 0x8000_0000, 0x7fff_ffff]),
        // A VCI table entry.
        2 => (1 + any % 2) << 30 | any & 0x3fff_8000 & !(0x700 << 18),
        // A segmentation descriptor, of few or of many cells.
        3 => r::TX_IDENT | (any & 0x0ff8_0000) | (any % 40),
        4 => r::TX_IDENT | any & 0x0fff_ffff,
        // A DMA queue entry: short, or as it comes.
        5 => (any & 0xff) << 16 | any >> 8 & 0xffff,
        6 => any & 0xffff,
        _ => any & 0xffff_fffc,
    }
}

fn offset(random: &mut Random) -> u32 {
    let any = random.next() as u32;
    match random.below(12) {
        0..=3 => r::REGISTERS_AT + 4 * (any % r::REGISTERS),
        4 => r::RAM_AT + r::VCI_TABLE + any % 0x400,
        5 => r::RAM_AT + r::RX_QUEUE + any % 0x1000,
        6 => r::RAM_AT + r::TX_QUEUE + any % 0x1000,
        7 => r::RAM_AT + r::BUFFERS + any % 0x2000,
        8 => r::RAM_AT + any % 0x8_0000,
        9 => r::PHY_AT + any % 0x400,
        10 => any % (5 << 20),
        _ => any,
    }
}

/// Gives what happened: cells sent, cells received, octets of DMA, descriptors and entries refused.
fn hostile(operations: u64, seed: u64) -> [u64; 4] {
    let board = if seed.is_multiple_of(2) { Board::Asic } else { Board::Fpga };
    let pace = if seed.is_multiple_of(3) { Pace::Unpaced } else { Config::default().pace };
    let mut adapter = Eni155p::new(Config { board, pace, ..Config::default() });
    // Seen only if something fails.
    println!("seed {seed}, {operations} operations");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut memory = Holes::new(&mut random);
    let mut now = Time::ZERO;
    let mut cells = [Cell::default(); 32];
    let register = |adapter: &mut Eni155p, n: u32, value: u32| {
        adapter.bar_write(r::REGISTERS_AT + 4 * n, &value.to_le_bytes(), Time::ZERO);
    };
    for operation in 0..operations {
        let say = || format!("seed {seed}, operation {operation}");
        match random.below(16) {
            0..=7 => {
                let (at, value) = (offset(&mut random), word(&mut random));
                let data = value.to_le_bytes();
                let n = random.pick(&[4, 4, 4, 4, 4, 4, 1, 2, 3]);
                adapter.bar_write(at, &data[..n], now);
            }
            8..=9 => {
                let mut data = [0; 8];
                let n = random.pick(&[4, 4, 1, 2, 8]);
                adapter.bar_read(offset(&mut random), &mut data[..n], now);
            }
            10 => {
                let value = (random.next() as u32).to_le_bytes();
                adapter.config_write(random.below(300) as usize, &value[..random.pick(&[1, 2, 4])]);
                adapter.config_read(random.below(300) as usize, &mut [0; 4]);
            }
            11 => {
                let header = CellHeader::from_word((random.next() as u32) & random.pick(&[0x3ff7, 0x0fff_ffff, 0x1f3]));
                let cell = Cell::new(header, [random.next() as u8; 48]);
                for _ in 0..random.below(40) {
                    adapter.handle_cell(&cell);
                }
            }
            12 => {
                let mut mct = [0];
                adapter.bar_read(r::PHY_AT + 4 * u32::from(eni155p::suni::MCT), &mut mct, now);
                let n = adapter.fill(&mut cells, now);
                assert!(n <= cells.len());
                // What the line brought and loops back may be of any circuit; what the adapter makes may not.
                for cell in cells[..n].iter().filter(|_| mct[0] & 4 == 0) {
                    assert!(cell.header_word() >> 20 == 0, "{}: {:08x}", say(), cell.header_word());
                }
            }
            13 => {
                let before = memory.octets;
                adapter.run_dma(&mut memory, 10_000);
                // The budget, and at most a portion of each direction beyond it.
                assert!(memory.octets - before <= 10_000 + 2 * 4096, "{}", say());
            }
            14 => {
                // As a driver would have it: enabled, a circuit, a channel, a descriptor of few cells, a queue.
                adapter.config_write(4, &[6, 0]);
                register(&mut adapter, r::MC_S, 0x40 | r::DMA_ENABLE | r::TX_ENABLE | r::RX_ENABLE);
                let (channel, place) = (random.below(8) as u32, random.pick(&[0x1c, 0x81c, 0x200, 0x3810, 0x3fff]));
                register(&mut adapter, r::TX_PLACE + 4 * channel, place);
                let mut ram = |at: u32, value: u32| adapter.bar_write(r::RAM_AT + at, &value.to_le_bytes(), now);
                let (vci, words) = (random.below(1024) as u32, random.next() as u32);
                ram(r::VCI_TABLE + 16 * vci, (2 << 30) | (0x40 << 18) | (words & 0x3_8000));
                let cells = 1 + words % 20;
                ram((place & 0x7ff) << 10, r::TX_IDENT | r::TX_AAL5 | (words & 0x01f8_0000) | cells);
                let mut read = [0; 4];
                adapter.bar_read(r::REGISTERS_AT + 4 * r::DMA_RD_TX, &mut read, now);
                let read = u32::from_le_bytes(read);
                let jump = ((2 + 12 * cells) << 16) | (channel << 6) | r::DMA_END | 3;
                adapter.bar_write(r::RAM_AT + r::TX_QUEUE + 8 * read, &jump.to_le_bytes(), now);
                register(&mut adapter, r::DMA_WR_TX, read + 1);
                if random.below(4) == 0 {
                    register(&mut adapter, random.pick(&[r::DMA_WR_RX, r::DMA_WR_TX]), words);
                }
            }
            _ => {
                now += std::time::Duration::from_nanos(random.below(100_000));
                adapter.handle_timeout(now);
                let _ = (adapter.interrupt(now), adapter.poll_timeout());
                if random.below(200) == 0 {
                    adapter.set_signal(random.below(2) == 0);
                }
                if random.below(2000) == 0 {
                    adapter.reset();
                }
            }
        }
        if operation % 64 == 0 {
            let mut value = [0; 4];
            for (n, bits) in [
                (r::SERV_WRITE, 10),
                (r::DMA_RD_RX, 9),
                (r::DMA_RD_TX, 9),
                (r::TX_PLACE + 1, 15),
                (r::TX_PLACE + 2, 15),
            ] {
                adapter.bar_read(r::REGISTERS_AT + 4 * n, &mut value, now);
                assert!(u32::from_le_bytes(value) >> bits == 0, "{}: register {n:#x}", say());
            }
        }
    }
    assert!(adapter.refused() > 0 || operations < 100);
    let refused = adapter.dma_errors().dropped_total() + adapter.sent().dropped_total();
    let happened = [adapter.sent().cells, adapter.received().cells, memory.octets, refused];
    as_good_as_new(&mut adapter, now);
    happened
}

fn as_good_as_new(adapter: &mut Eni155p, mut now: Time) {
    adapter.reset();
    adapter.set_signal(true);
    // The ends of PDUs that the reset cut: one for each channel at most.
    let mut ends = 0;
    while adapter.ends_pdus() {
        now = adapter.next_transmit().unwrap().max(now);
        ends += adapter.fill(&mut [Cell::default(); 8], now);
    }
    assert!(ends <= r::CHANNELS);
    let mut memory = Flat::new(0, 1 << 20);
    let mut driver = Eni::probe(&mut Direct { adapter, now }, 0, 4).unwrap();
    driver.open(&mut Direct { adapter, now }, 40, Aal::Aal5, 16 << 10, None).unwrap();
    driver.send(&mut Direct { adapter, now }, &mut memory, 40, b"as good as new").unwrap();
    while adapter.run_dma(&mut memory, 1 << 16) {}
    let mut cell = [Cell::default()];
    let next = adapter.next_transmit().unwrap().max(now);
    assert_eq!(adapter.fill(&mut cell, next), 1);
    adapter.handle_cells(&cell);
    while adapter.interrupt(next) {
        driver.handle_interrupt(&mut Direct { adapter, now: next });
        while adapter.run_dma(&mut memory, 1 << 16) {}
    }
    let got = driver.poll_received().expect("the SDU comes back");
    assert_eq!(memory.slice(got.address, got.octets).unwrap(), b"as good as new");
}

/// One access, or what goes on between accesses.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write(u32, u32),
    Read(u32),
    ConfigWrite(usize, [u8; 4], usize),
    /// DMA, then cells out and back in, then time.
    Settle,
}

/// A bus that remembers what a driver does.
struct Recorder<'a> {
    direct: Direct<'a>,
    steps: &'a mut Vec<Step>,
}

impl Bus for Recorder<'_> {
    fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        self.direct.config_read(offset, data);
    }

    fn config_write(&mut self, offset: usize, data: &[u8]) {
        let mut octets = [0; 4];
        let n = data.len().min(4);
        octets[..n].copy_from_slice(&data[..n]);
        self.steps.push(Step::ConfigWrite(offset, octets, n));
        self.direct.config_write(offset, data);
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.steps.push(Step::Read(offset));
        self.direct.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.steps.push(Step::Write(offset, value));
        self.direct.write(offset, value);
    }
}

/// Cells out and, in a loop outside, back in.
fn settle(adapter: &mut Eni155p, memory: &mut impl HostMemory, now: Time) -> u64 {
    let mut cells = [Cell::default(); 32];
    adapter.run_dma(memory, 20_000);
    let n = adapter.fill(&mut cells, now);
    adapter.handle_cells(&cells[..n]);
    adapter.run_dma(memory, 20_000);
    n as u64
}

/// What our driver does to send and receive SDUs of many sizes on circuits of both kinds, paced and not, and to close them:
/// the grammar of a guest, without the test of the RAM, which would be most of it.
fn session() -> Vec<Step> {
    const NOW: Time = Time::ZERO;
    let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
    let mut memory = Flat::new(0, 1 << 20);
    let mut steps = Vec::new();
    let direct = Direct { adapter: &mut adapter, now: NOW };
    let mut driver = Eni::probe(&mut Recorder { direct, steps: &mut steps }, 0, 6).unwrap();
    steps.retain(|step| !matches!(step, Step::Write(r::RAM_AT.., _) | Step::Read(r::RAM_AT..)));
    let circuits =
        [(40, Aal::Aal5, None), (41, Aal::Aal0, None), (42, Aal::Aal5, Some(Rate { prescaler: 0, rate: 20 }))];
    for (vci, aal, rate) in circuits {
        let direct = Direct { adapter: &mut adapter, now: NOW };
        driver.open(&mut Recorder { direct, steps: &mut steps }, vci, aal, 4 << 10, rate).unwrap();
    }
    for octets in [1usize, 40, 41, 52, 100, 1000, 1500, 3000] {
        for (vci, aal, _) in circuits {
            let octets = if aal == Aal::Aal0 { 52 } else { octets };
            let direct = Direct { adapter: &mut adapter, now: NOW };
            let sent =
                driver.send(&mut Recorder { direct, steps: &mut steps }, &mut memory, vci, &vec![octets as u8; octets]);
            sent.unwrap();
            // A paced circuit's cells leave in their time.
            for step in 0..200 {
                let now = NOW + std::time::Duration::from_micros(step * 10);
                steps.push(Step::Settle);
                let sent = settle(&mut adapter, &mut memory, now);
                if adapter.interrupt(now) {
                    let direct = Direct { adapter: &mut adapter, now };
                    driver.handle_interrupt(&mut Recorder { direct, steps: &mut steps });
                } else if sent == 0 && adapter.next_transmit().is_none() && !adapter.dma_waits() {
                    break;
                }
            }
            while let Some(got) = driver.poll_received() {
                driver.release(got);
            }
        }
    }
    for (vci, ..) in circuits {
        let direct = Direct { adapter: &mut adapter, now: NOW };
        driver.close(&mut Recorder { direct, steps: &mut steps }, vci).unwrap();
    }
    steps
}

/// Plays sessions of a driver with steps changed, left out, done twice, exchanged, or taken from elsewhere. Gives what
/// [`hostile`] gives.
fn mutated(session: &[Step], operations: u64, seed: u64) -> [u64; 4] {
    println!("mutated sessions of seed {seed}, {operations} operations");
    let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
    let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
    let mut memory = Holes::new(&mut random);
    let (mut now, mut at) = (Time::ZERO, 0);
    // From sessions nearly as they are to sessions hardly to be known again.
    let one_in = random.pick(&[64, 256, 1024, 4096, 16_384]);
    for _ in 0..operations {
        let mut step = session[at % session.len()];
        at += 1;
        if at.is_multiple_of(session.len()) {
            adapter.reset();
        }
        if random.below(one_in) == 0 {
            let any = random.next() as u32;
            match (random.below(8), &mut step) {
                (0, Step::Write(_, value)) => *value ^= 1 << (any % 32),
                (1, Step::Write(_, value)) => *value = word(&mut random),
                (2, Step::Write(offset, _) | Step::Read(offset)) => *offset ^= 4 << (any % 20),
                (3, Step::ConfigWrite(_, octets, _)) => octets[0] ^= 1 << (any % 8),
                // Left out; again; from elsewhere.
                (4, _) => continue,
                (5, _) => at -= 1,
                (6, _) => at = any as usize % session.len(),
                _ => step = Step::Write(offset(&mut random), word(&mut random)),
            }
        }
        match step {
            Step::Write(at, value) => adapter.bar_write(at, &value.to_le_bytes(), now),
            Step::Read(at) => adapter.bar_read(at, &mut [0; 4], now),
            Step::ConfigWrite(at, octets, n) => adapter.config_write(at, &octets[..n]),
            Step::Settle => {
                let before = memory.octets;
                settle(&mut adapter, &mut memory, now);
                assert!(memory.octets - before <= 2 * (20_000 + 2 * 4096), "seed {seed}");
                now += std::time::Duration::from_micros(10);
                adapter.handle_timeout(now);
            }
        }
    }
    let refused = adapter.dma_errors().dropped_total() + adapter.sent().dropped_total();
    let happened = [adapter.sent().cells, adapter.received().cells, memory.octets, refused];
    as_good_as_new(&mut adapter, now);
    happened
}

/// Two million operations in all, ten with `CELLWAY_LONG`; `ADAPTER_OPERATIONS` asks for more. Half of them are a driver's, changed; half
/// come as they come.
#[test]
fn whatever_a_guest_writes_is_survived_in_the_long_run() {
    let operations = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000_000 } else { 2_000_000 };
    let operations: u64 = std::env::var("ADAPTER_OPERATIONS").map_or(operations, |n| n.parse().unwrap());
    let session = session();
    println!("a session of {} steps", session.len());
    let mut of_sessions = [0; 4];
    for seed in 1..=20 {
        for (sum, n) in of_sessions.iter_mut().zip(mutated(&session, operations / 40, seed)) {
            *sum += n;
        }
    }
    assert!(of_sessions.iter().all(|n| *n > operations / 2000), "{of_sessions:?}");
    let mut happened = [0; 4];
    for seed in 1..=20 {
        for (sum, n) in happened.iter_mut().zip(hostile(operations / 40, seed)) {
            *sum += n;
        }
    }
    // The operations reach every part, or this test shows nothing.
    assert!(happened.iter().all(|n| *n > operations / 2000), "{happened:?}");
    println!("{operations} operations: {happened:?}, {of_sessions:?} cells sent, received, octets of DMA, refused");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_seed_of_them(seed: u64) {
        hostile(2000, seed);
    }

    #[test]
    fn any_descriptor_in_any_place_is_sent_or_stops_the_channel(word0: u32, word1: u32, place in 0u32..0x4000, end: u16) {
        let mut adapter = Eni155p::new(Config { ram: RamSize::Mb2, pace: Pace::Unpaced, ..Config::default() });
        let mut write = |at: u32, value: u32| adapter.bar_write(at, &value.to_le_bytes(), Time::ZERO);
        let register = |n: u32| r::REGISTERS_AT + 4 * n;
        let base = r::RAM_AT + ((place & 0x7ff) << 10);
        write(base, word0);
        write(base + 4, word1);
        write(r::RAM_AT + r::TX_QUEUE, u32::from(end) << 16 | r::DMA_END | 3);
        // The queue may lie in the ring's own place: then its entry is the descriptor.
        write(register(r::MC_S), r::DMA_ENABLE | r::TX_ENABLE);
        write(register(r::TX_PLACE), place);
        write(register(r::DMA_WR_TX), 1);
        adapter.config_write(4, &[6, 0]);
        let mut memory = Holes::new(&mut Random(u64::from(word0) | 1));
        while adapter.run_dma(&mut memory, 100) {}
        let mut cells = [Cell::default(); 64];
        let mut sent = 0;
        while adapter.next_transmit().is_some() {
            sent += adapter.fill(&mut cells, Time::from_millis(1_000_000));
            if sent as u64 > 32 * 2048 || adapter.next_transmit().is_some_and(|next| next > Time::from_millis(1_000_000)) {
                break;
            }
        }
        prop_assert!(sent < 2048 + 64, "{sent} cells of one descriptor");
    }
}
