//! The OC-12c board with its driver: two hosts back to back, on memories that count what crosses their buses.

use bus::crossings::{Crosser, InternetSum};
use bus::iocc::{Memory, PAGE, Place, Process};
use oc12::driver::scan::{Channel, Scanner};
use oc12::driver::{Arrival, Done, Driver, Header, Io, KERNEL_OCTETS, Oc12Error, ReceivePath, Sdu, SendPath, Ticket};
use oc12::{BLOCK_OCTETS, Config, DATA_AT, Oc12, RECEIVED, registers as r};
use proptest::prelude::*;
use std::time::Duration;
use wire::{Cell, DropReason, Time};

const USER: Process = Process(7);
const AT: u32 = 0x0010_0000;
/// LLC/SNAP, IP and TCP.
const SPLIT: usize = 8 + 20 + 20;
/// TCP's checksum covers its own header, in which its place is octet 16.
const COVERS: usize = 28;
const FIELD: usize = COVERS + 16;
const VCI: u16 = 100;

struct Host {
    board: Oc12,
    driver: Driver,
    memory: Memory,
}

impl Host {
    fn new() -> Self {
        let mut memory = Memory::new(64, 32);
        memory.grow(Process(0), 0, KERNEL_OCTETS).unwrap();
        memory.grow(USER, AT, 5 * PAGE).unwrap();
        let mut board = Oc12::new(Config::default());
        let mut driver = Driver::probe(&mut board, 0).unwrap();
        driver.open(&mut board, VCI, SPLIT, Time::ZERO).unwrap();
        Host { board, driver, memory }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Driver, &mut Io<'_>) -> R) -> R {
        let Host { board, driver, memory } = self;
        f(driver, &mut Io { board, memory })
    }
}

struct World {
    hosts: [Host; 2],
    now: Time,
}

impl World {
    fn new() -> Self {
        World { hosts: [Host::new(), Host::new()], now: Time::ZERO }
    }

    /// Runs until nothing is under way.
    fn settle(&mut self) {
        let mut cells = [Cell::default(); 4];
        while let Some(next) = self.hosts.iter().filter_map(|host| host.board.poll_timeout()).min() {
            self.now = self.now.max(next);
            let now = self.now;
            for at in 0..2 {
                let n = self.hosts[at].board.fill(&mut cells, now);
                self.hosts[1 - at].board.handle_cells(&cells[..n], now);
            }
            for host in &mut self.hosts {
                host.board.run(&mut host.memory, now);
                host.with(|driver, io| driver.look(io, 16, now));
            }
        }
        for host in &mut self.hosts {
            let now = self.now;
            host.with(|driver, io| driver.look(io, 16, now));
        }
    }

    fn send(&mut self, header: &[u8], from: Place, octets: usize, path: SendPath) -> Result<Ticket, Oc12Error> {
        let now = self.now;
        let header = Header { octets: header, covers: COVERS, field: Some(FIELD) };
        self.hosts[0].with(|driver, io| driver.write(io, Sdu { vci: VCI, from, octets, path }, header, now))
    }

    fn done(&mut self, at: usize) -> Done {
        self.hosts[at].driver.poll_done().unwrap()
    }
}

fn pattern(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8).collect()
}

/// A header whose checksum begins with a pseudo header's sum.
fn header() -> [u8; SPLIT] {
    let mut header = core::array::from_fn(|i| i as u8 ^ 0x55);
    header[FIELD..FIELD + 2].copy_from_slice(&0x1234u16.to_be_bytes());
    header
}

/// The sum of what the checksum covers in what has come: `0xffff`, once the pseudo header is added.
fn total(arrival: &Arrival, data: u16) -> u16 {
    let mut sum = InternetSum::from_value(data);
    sum.add(&arrival.header()[COVERS..]);
    sum.add(&0x1234u16.to_be_bytes());
    sum.value()
}

const SENDING: [(SendPath, f64); 5] = [
    (SendPath::Baseline, 6.0),
    (SendPath::CopyAndSum, 4.0),
    (SendPath::Programmed, 2.0),
    (SendPath::Direct, 2.0),
    (SendPath::Direct, 2.0),
];
const RECEIVING: [(ReceivePath, f64); 5] = [
    (ReceivePath::Baseline, 6.0),
    (ReceivePath::CopyAndSum, 4.0),
    (ReceivePath::Mapped, 2.0),
    (ReceivePath::Direct, 2.0),
    (ReceivePath::Programmed, 2.0),
];

/// C-2, C-3: six crossings of the baseline each way, four where the sum is part of the copy, two where the board sums.
#[test]
fn each_octet_crosses_the_memory_bus_as_often_as_the_papers_say() {
    const OCTETS: usize = 2 * PAGE;
    let data = pattern(OCTETS);
    let place = Place { process: USER, address: AT };
    for ((sending, sent), (receiving, received)) in SENDING.into_iter().zip(RECEIVING) {
        let mut world = World::new();
        world.hosts[0].memory.store(USER, AT, &data).unwrap();
        let ticket = world.send(&header(), place, OCTETS, sending).unwrap();
        world.settle();
        assert_eq!((world.done(0).ticket, world.hosts[0].driver.poll_done()), (ticket, None));
        let arrival = world.hosts[1].driver.poll_arrival().unwrap();
        assert_eq!((arrival.vci, arrival.octets), (VCI, OCTETS));
        let now = world.now;
        world.hosts[1].with(|driver, io| driver.read(io, &arrival, place, OCTETS, receiving, now)).unwrap();
        world.settle();
        let done = world.done(1);
        assert!(!done.failed && total(&arrival, done.sum) == 0xffff, "{sending:?}, {receiving:?}: {done:?}");
        let mut got = vec![0; OCTETS];
        world.hosts[1].memory.load(USER, AT, &mut got).unwrap();
        assert!(got == data, "{sending:?}, {receiving:?}");
        let crossed = [0, 1].map(|at: usize| world.hosts[at].memory.crossings().per_octet(OCTETS as u64));
        assert_eq!(crossed, [sent, received], "{sending:?}, {receiving:?}");
        assert!(world.hosts.iter().all(|host| host.memory.mapped() == 0 && host.board.free() == [16, 48]));
    }
}

/// C-2: who crosses in the baseline: the application, the copy, the checksum that writes back, the adapter.
#[test]
fn the_six_crossings_of_a_send_are_one_store_a_copy_a_checksum_that_writes_back_and_one_transfer() {
    let mut world = World::new();
    world.hosts[0].memory.store(USER, AT, &pattern(PAGE)).unwrap();
    world.send(&header(), Place { process: USER, address: AT }, PAGE, SendPath::Baseline).unwrap();
    world.settle();
    let crossings = world.hosts[0].memory.crossings();
    let pages = Crosser::ALL.map(|by| (crossings.read(by) / PAGE as u64, crossings.written(by) / PAGE as u64));
    assert_eq!(pages, [(0, 1), (1, 1), (1, 1), (1, 0)]);
}

/// C-5: a receive at a page's address takes no copy, another one does; what is beyond the PDU's end stays the process's.
#[test]
fn where_a_page_begins_it_is_mapped_where_a_word_begins_it_is_written_and_elsewhere_copied() {
    const OCTETS: usize = 9000;
    let tail = OCTETS - 2 * PAGE;
    let data = pattern(OCTETS);
    let from = Place { process: USER, address: AT };
    for (path, shift, copied, mapped) in [
        (ReceivePath::Mapped, 0, tail, 2),
        (ReceivePath::Mapped, 4, OCTETS, 0),
        (ReceivePath::Direct, 4, 0, 0),
        (ReceivePath::Direct, 2, OCTETS, 0),
    ] {
        let mut world = World::new();
        world.hosts[0].memory.store(USER, AT, &data).unwrap();
        let to = from.after(shift);
        world.hosts[1].memory.store(USER, AT, &[0xee; 5 * PAGE]).unwrap();
        world.send(&header(), from, OCTETS, SendPath::Direct).unwrap();
        world.settle();
        let arrival = world.hosts[1].driver.poll_arrival().unwrap();
        let (now, before) = (world.now, world.hosts[1].memory.crossings());
        world.hosts[1].with(|driver, io| driver.read(io, &arrival, to, OCTETS, path, now)).unwrap();
        world.settle();
        assert!(!world.done(1).failed);
        let crossed = world.hosts[1].memory.crossings() - before;
        let copies = (crossed.read(Crosser::Copy), crossed.written(Crosser::Copy));
        assert_eq!(copies, (copied as u64, copied as u64), "{path:?} at {shift}");
        assert_eq!((crossed.written(Crosser::Dma), world.hosts[1].driver.statistics.mapped), (OCTETS as u64, mapped));
        let mut got = vec![0; 5 * PAGE - shift as usize];
        world.hosts[1].memory.load(USER, to.address, &mut got).unwrap();
        assert!(got[..OCTETS] == data && got[OCTETS..].iter().all(|octet| *octet == 0xee), "{path:?} at {shift}");
    }
}

/// A page that another transfer reaches is not mapped away, and a process without memory has its failure told.
#[test]
fn pages_in_use_are_not_exchanged_and_missing_ones_fail() {
    let mut world = World::new();
    let place = Place { process: USER, address: AT };
    world.hosts[0].memory.store(USER, AT, &pattern(PAGE)).unwrap();
    for _ in 0..2 {
        world.send(&header(), place, PAGE, SendPath::Direct).unwrap();
    }
    world.settle();
    let now = world.now;
    let first = world.hosts[1].driver.poll_arrival().unwrap();
    let nowhere = Place { process: Process(9), address: AT };
    let missing = world.hosts[1].with(|driver, io| driver.read(io, &first, nowhere, PAGE, ReceivePath::Direct, now));
    assert!(matches!(missing, Err(Oc12Error::Memory(_))));
    // Mapped: the kernel's buffer takes it, and the process has no page to exchange.
    world.hosts[1].with(|driver, io| driver.read(io, &first, nowhere, PAGE, ReceivePath::Mapped, now)).unwrap();
    world.settle();
    assert!(world.done(1).failed);
    let second = world.hosts[1].driver.poll_arrival().unwrap();
    let reach = bus::memory::Reach { device_writes: false, tagged: false };
    world.hosts[1].memory.enter(USER);
    let x = bus::memory::CrossMemory::attach(&mut world.hosts[1].memory, AT, 100, reach).unwrap();
    world.hosts[1].with(|driver, io| driver.read(io, &second, place, PAGE, ReceivePath::Mapped, now)).unwrap();
    world.settle();
    assert!(world.done(1).failed, "a device reads that page");
    bus::memory::CrossMemory::detach(&mut world.hosts[1].memory, x);
    assert_eq!(world.hosts[1].board.free(), [16, 48]);
}

/// A board without blocks counts what it loses, and what nobody has open.
#[test]
fn a_pdu_without_a_free_block_is_counted_and_the_next_ones_come_once_there_are_blocks() {
    let mut world = World::new();
    let place = Place { process: USER, address: AT };
    world.hosts[0].memory.store(USER, AT, &pattern(PAGE)).unwrap();
    let mut sent = 0;
    while sent < 60 {
        match world.send(&header(), place, 500, SendPath::Programmed) {
            Ok(_) => sent += 1,
            Err(Oc12Error::Busy) => {
                let (mut cells, now) = ([Cell::default(); 64], world.now + Duration::from_millis(1));
                world.now = now;
                for _ in 0..64 {
                    let next = world.hosts[0].board.poll_timeout().unwrap_or(now);
                    world.now = world.now.max(next);
                    let n = world.hosts[0].board.fill(&mut cells, world.now);
                    world.hosts[1].board.handle_cells(&cells[..n], world.now);
                }
            }
            Err(other) => panic!("{other}"),
        }
        while world.hosts[0].driver.poll_done().is_some() {}
    }
    world.settle();
    let lost = world.hosts[1].board.received().dropped(DropReason::NoBuffer);
    let mut came = 0;
    loop {
        let mut any = false;
        while let Some(arrival) = world.hosts[1].driver.poll_arrival() {
            let now = world.now;
            world.hosts[1].with(|driver, io| driver.release(io.board, &arrival, now));
            (came, any) = (came + 1, true);
        }
        let now = world.now;
        world.hosts[1].with(|driver, io| driver.look(io, 16, now));
        if !any {
            break;
        }
    }
    assert_eq!((came, lost), (48, 12), "as many as there are blocks");
    world.send(&header(), place, 500, SendPath::Programmed).unwrap();
    world.settle();
    assert_eq!(world.hosts[1].driver.poll_arrival().map(|arrival| arrival.octets), Some(500));
}

/// E-12: four boards that have something at once.
#[test]
fn an_interrupt_that_scans_other_boards_spares_theirs_and_looks_at_no_more_than_it_may() {
    let run = |others: usize| {
        let mut memory = Memory::new(64, 64);
        memory.grow(Process(0), 0, KERNEL_OCTETS).unwrap();
        let mut channels: Vec<Channel> = (0..4)
            .map(|_| {
                let mut board = Oc12::new(Config::default());
                let mut driver = Driver::probe(&mut board, 0).unwrap();
                driver.open(&mut board, VCI, SPLIT, Time::ZERO).unwrap();
                driver.set_interrupts(&mut board, RECEIVED, Time::ZERO);
                Channel { board, driver }
            })
            .collect();
        let mut scanner = Scanner::new(others, 16);
        let circuit = wire::CircuitId::new(0, VCI).unwrap();
        let (mut came, mut looks) = (0, 0);
        for round in 0..50u8 {
            let sdu = [round; 100];
            for channel in &mut channels {
                let mut cells = [Cell::default(); 3];
                let mut out = sar::Segmentation::new(circuit, sdu.len(), sar::SduMeta::default()).unwrap();
                assert_eq!(out.fill(&sdu, &mut cells), 3);
                channel.board.handle_cells(&cells, Time::ZERO);
            }
            for which in 0..channels.len() {
                let before: u64 = channels.iter().map(|channel| channel.driver.statistics.looks).sum();
                scanner.handle_interrupt(&mut channels, which, &mut memory, Time::ZERO);
                let after: u64 = channels.iter().map(|channel| channel.driver.statistics.looks).sum();
                looks = looks.max(after - before);
            }
            for channel in &mut channels {
                assert!(!channel.board.interrupt());
                while let Some(arrival) = channel.driver.poll_arrival() {
                    assert_eq!((arrival.octets, arrival.header()), (100 - SPLIT, &[round; SPLIT][..]));
                    channel.driver.release(&mut channel.board, &arrival, Time::ZERO);
                    came += 1;
                }
            }
        }
        (came, scanner.interrupts, scanner.prompted, looks)
    };
    assert_eq!(run(0), (200, 200, 0, 1), "each board for itself");
    assert_eq!(run(3), (200, 50, 150, 4), "one interrupt for all");
    let (came, interrupts, prompted, looks) = run(1);
    assert!(came == 200 && looks == 2 && interrupts + prompted == 200 && interrupts <= 150, "{interrupts} interrupts");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// C-6: any header and data, any length that a circuit's header may have: apart, whole, and summed.
    #[test]
    fn header_and_data_come_apart_and_summed(
        split in 0usize..=64, octets in 1usize..9200, path in 0usize..5, shift in 0u32..8, seed: u8,
    ) {
        let mut world = World::new();
        let now = world.now;
        let host = &mut world.hosts[1];
        host.driver.open(&mut host.board, VCI, split, now).unwrap();
        let data: Vec<u8> = pattern(octets).iter().map(|octet| octet ^ seed).collect();
        let from = Place { process: USER, address: AT + shift };
        world.hosts[0].memory.store(USER, from.address, &data).unwrap();
        world.send(&header(), from, octets, SENDING[path].0).unwrap();
        world.settle();
        prop_assert!(!world.done(0).failed);
        let arrival = world.hosts[1].driver.poll_arrival().unwrap();
        let whole = SPLIT + octets;
        prop_assert_eq!((arrival.split, arrival.octets), (split.min(whole), whole - split.min(whole)));
        let mut pdu = arrival.header().to_vec();
        if arrival.octets > 0 {
            let now = world.now;
            let to = Place { process: USER, address: AT };
            world.hosts[1].with(|driver, io| driver.read(io, &arrival, to, 20_000, RECEIVING[path].0, now)).unwrap();
            world.settle();
            let done = world.done(1);
            let mut rest = vec![0; arrival.octets];
            world.hosts[1].memory.load(USER, AT, &mut rest).unwrap();
            let mut sum = InternetSum::default();
            sum.add(&rest);
            prop_assert_eq!((done.sum, arrival.sum), (sum.value(), sum.value()));
            pdu.extend(rest);
        }
        prop_assert!(pdu[SPLIT..] == data[..] && pdu[..FIELD] == header()[..FIELD]);
        let mut sum = InternetSum::from_value(0x1234);
        sum.add(&pdu[COVERS..]);
        prop_assert_eq!(sum.value(), 0xffff, "the checksum that left is right");
    }

    /// Whatever a host writes is survived, and no block is in two places.
    #[test]
    fn any_register_writes_are_survived(
        writes in proptest::collection::vec((0u32..24, prop_oneof![0u32..70, any::<u32>()], any::<bool>()), 0..200),
    ) {
        let mut host = Host::new();
        let mut cells = [Cell::default(); 8];
        let mut now = Time::ZERO;
        for (register, value, read) in writes {
            if read {
                host.board.read(register);
            } else {
                host.board.write(register, value, now);
            }
            host.board.put(value, value as usize % BLOCK_OCTETS, &[1, 2, 3]);
            host.board.get(value, DATA_AT, &mut [0; 9]);
            now += Duration::from_micros(3);
            host.board.run(&mut host.memory, now);
            let n = host.board.fill(&mut cells, now);
            host.board.handle_cells(&cells[..n], now);
            let _ = host.board.interrupt();
        }
        // Blocks come back as they are taken: each number once.
        let mut seen = std::collections::BTreeSet::new();
        for register in [r::TX_FREE, r::RX_READY] {
            loop {
                let block = host.board.read(register);
                if block == u32::MAX {
                    break;
                }
                prop_assert!(seen.insert(block), "block {block} twice");
            }
        }
    }
}
