//! Regions shared by process and kernel (Smith 2002, figure 3): what is touched is counted.

use bus::crossings::Crosser;
use bus::iocc::{Memory, PAGE, Process};
use penn::Streaming;
use penn::driver::shared::{Accesses, Layout, Pages, ProcessMemory, UserRegion, Way};
use penn::driver::{Aal, BUFFER_OCTETS, BUFFERS, Cards, Control, Penn, PennError, Written};
use penn::reassembler::Card;
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use std::time::Duration;
use wire::{Cell, DropReason, Time};

const USER: Process = Process(7);
const REGION: Layout = Layout { address: 0x0040_0804, slots: 8, octets: 1000 };
/// For writes.
const AT: u32 = 0x0060_0000;
const TICK: Duration = Duration::from_millis(1);

struct Host {
    segmenter: Segmenter,
    reassembler: Card,
    memory: Memory,
    driver: Penn,
    file: usize,
}

impl Host {
    fn new(vci: u16, aal: Aal) -> Self {
        let mut memory = Memory::new(128, 96);
        memory.grow(Process(0), 0, BUFFERS * BUFFER_OCTETS).unwrap();
        memory.grow(USER, REGION.address, REGION.region_octets() as usize).unwrap();
        memory.grow(USER, AT, PAGE).unwrap();
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut reassembler = Card::new(Config::default()).unwrap();
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let mut driver = Penn::probe(&mut cards, 0, 512, TICK, Time::ZERO);
        memory.enter(USER);
        let file = driver.open();
        driver.control(file, Control::Vci(vci), Time::ZERO).unwrap();
        if aal != Aal::Bare {
            driver.control(file, Control::Aal(aal), Time::ZERO).unwrap();
        }
        Host { segmenter, reassembler, memory, driver, file }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Penn, &mut Cards<'_, Memory>, usize) -> R) -> R {
        let Host { segmenter, reassembler, memory, driver, file } = self;
        f(driver, &mut Cards { segmenter, reassembler, memory }, *file)
    }

    fn share(&mut self, way: Way) -> UserRegion {
        self.with(|driver, cards, file| driver.share(cards, file, way, REGION)).unwrap()
    }
}

/// Cells of the first host come to the second.
fn run(hosts: &mut [Host; 2], now: &mut Time, until: Time) {
    let mut cells = [Cell::default(); 8];
    loop {
        let cell = hosts[0].segmenter.poll_timeout();
        let due = hosts.iter_mut().map(|host| host.with(|driver, cards, _| driver.poll_timeout(cards)));
        let next = due.chain(cell).min().unwrap_or(until).max(*now);
        if next >= until {
            *now = until;
            return;
        }
        *now = next;
        let [from, to] = &mut *hosts;
        let n = from.segmenter.fill(&mut cells, &mut from.memory, *now);
        to.reassembler.handle_cells(&cells[..n], *now);
        for host in &mut *hosts {
            host.reassembler.run(&mut host.memory, 64, *now);
            host.with(|driver, cards, _| driver.handle_timeout(cards, *now));
        }
    }
}

fn sdu(n: u32, octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ n as u8).collect()
}

/// Sends `count` SDUs from region to region; gives what was touched on either side.
fn exchange(vci: u16, aal: Aal, octets: usize, count: u32) -> [(Accesses, u64, u64); 2] {
    let mut hosts = [Host::new(vci, aal), Host::new(vci, aal)];
    let (mut out, mut back) = (hosts[0].share(Way::Send), hosts[1].share(Way::Receive));
    let (mut sent, mut got, mut now) = (0, 0, Time::ZERO);
    let mut buffer = [0; 2000];
    while got < count {
        while sent < count && out.submit(&mut Pages(&mut hosts[0].memory, USER), &sdu(sent, octets)).unwrap() {
            sent += 1;
        }
        let until = now + Duration::from_micros(100);
        run(&mut hosts, &mut now, until);
        while let Some(n) = back.take(&mut Pages(&mut hosts[1].memory, USER), &mut buffer).unwrap() {
            assert!(buffer[..n] == sdu(got, octets), "SDU {got}: {n} octets");
            got += 1;
        }
        assert!(now < Time::from_millis(5000), "{got} of {count} SDUs came");
    }
    hosts.map(|host| {
        let crossed = host.memory.crossings();
        let copied = crossed.read(Crosser::Copy) + crossed.written(Crosser::Copy);
        (host.driver.accesses, copied, crossed.read(Crosser::Dma) + crossed.written(Crosser::Dma))
    })
}

#[test]
fn sdus_pass_between_regions_with_no_system_call_and_no_copy() {
    const COUNT: u32 = 100;
    for (vci, octets, framed) in [(0x8005u16, 200usize, 8), (0x8005, 999, 9)] {
        let [(sender, copied, fetched), (receiver, ..)] = exchange(vci, Aal::Bare, octets, COUNT);
        assert_eq!((sender.calls, receiver.calls), (0, 0));
        // Header, padding and trailer are the driver's; no octet of an SDU is.
        let words = sender.shared_read + sender.shared_written;
        assert!(copied <= 4 * (words + 8) && copied < u64::from(COUNT) * 60, "{copied} octets copied, {words} words");
        assert_eq!(fetched, u64::from(COUNT) * (octets as u64 + framed), "{octets} octets by DMA");
    }
}

/// Smith 2002, figure 3, by its accesses: what stands for the constant of the modelled RS/6000, four accesses of the
/// Micro Channel for a transfer without a system call.
#[test]
fn a_transfer_from_a_region_takes_three_register_writes_and_the_idle_flag() {
    const COUNT: u64 = 200;
    let [(shared, ..), _] = exchange(0x8005, Aal::Bare, 36, COUNT as u32);
    // Header and MID once, then source, length, start.
    assert_eq!(shared.registers_written, 2 + 3 * COUNT);
    assert!(shared.registers_read >= COUNT, "the idle flag is seen before each transfer");
    assert_eq!(shared.calls, 0);
    // Owner and length are read; header, padding with trailer, owner are written. An owner word that shows nothing is read
    // again at each look.
    assert_eq!(shared.shared_written, COUNT * 3);
    assert!(shared.shared_read >= 2 * COUNT);
}

#[test]
fn the_same_sdus_by_write_take_a_call_and_two_copies_each() {
    const COUNT: u64 = 50;
    let mut hosts = [Host::new(0x8005, Aal::Bare), Host::new(0x8005, Aal::Bare)];
    let mut now = Time::ZERO;
    for n in 0..COUNT as u32 {
        Pages(&mut hosts[0].memory, USER).store(AT, &sdu(n, 200)).unwrap();
        let written = hosts[0].with(|driver, cards, file| driver.write(cards, file, AT, 200, now));
        assert_eq!(written, Ok(Written::Done));
        let until = now + Duration::from_micros(100);
        run(&mut hosts, &mut now, until);
    }
    assert_eq!(hosts[0].driver.accesses.calls, COUNT);
    let copied = hosts[0].memory.crossings();
    // Out of the process and into the kernel's buffer, with header and trailer.
    assert_eq!((copied.read(Crosser::Copy), copied.written(Crosser::Copy)), (COUNT * 200, COUNT * 208));
}

#[test]
fn aal5_and_bare_cells_pass_between_regions_too() {
    exchange(100, Aal::Aal5, 300, 40);
    // Bare cells have no ends: an SDU of whole cells, one at a time, so that none is joined to the next.
    let mut hosts = [Host::new(100, Aal::Bare), Host::new(100, Aal::Bare)];
    let (mut out, mut back) = (hosts[0].share(Way::Send), hosts[1].share(Way::Receive));
    let (mut now, mut buffer) = (Time::ZERO, [0; 2000]);
    for n in 0..20 {
        assert_eq!(out.submit(&mut Pages(&mut hosts[0].memory, USER), &sdu(n, 480)), Ok(true));
        let until = now + 3 * TICK;
        run(&mut hosts, &mut now, until);
        assert_eq!(back.take(&mut Pages(&mut hosts[1].memory, USER), &mut buffer), Ok(Some(480)));
        assert!(buffer[..480] == sdu(n, 480));
    }
}

#[test]
fn a_slot_is_its_owners_alone_and_a_length_that_is_none_gives_it_back() {
    let mut host = Host::new(0x8005, Aal::Bare);
    let mut region = host.share(Way::Send);
    for _ in 0..REGION.slots {
        assert_eq!(region.submit(&mut Pages(&mut host.memory, USER), &[1; 100]), Ok(true));
    }
    assert_eq!(region.submit(&mut Pages(&mut host.memory, USER), &[1; 100]), Ok(false), "the kernel has all slots");
    // A hostile process writes other lengths over those of slots that it has passed on.
    for (slot, length) in [(0, 0u32), (1, 1001), (2, u32::MAX)] {
        let at = REGION.address + slot * 8 + 4;
        Pages(&mut host.memory, USER).store(at, &length.to_be_bytes()).unwrap();
    }
    let mut cells = [Cell::default(); 8];
    let mut left = 0;
    for micros in (0..20_000).step_by(5) {
        let now = Time::from_micros(micros);
        left += host.segmenter.fill(&mut cells, &mut host.memory, now);
        host.with(|driver, cards, _| driver.handle_timeout(cards, now));
    }
    assert_eq!(host.driver.counters().dropped(DropReason::BadDescriptor), 3);
    // 100 octets between header and trailer are three cells.
    assert_eq!(left, 5 * 3);
    assert_eq!(region.submit(&mut Pages(&mut host.memory, USER), &[1; 100]), Ok(true), "its slots came back");
    let too_long = Layout { octets: BUFFER_OCTETS as u32 + 1, ..REGION };
    let refused = host.with(|driver, cards, file| driver.share(cards, file, Way::Send, too_long));
    assert!(matches!(refused, Err(PennError::Length(_))));
}

#[test]
fn a_region_is_pinned_until_its_file_is_closed_and_no_transfer_reads_it() {
    let mut host = Host::new(0x8005, Aal::Bare);
    let before = host.memory.pinned();
    let mut region = host.share(Way::Send);
    assert!(host.memory.pinned() > before);
    for _ in 0..3 {
        assert_eq!(region.submit(&mut Pages(&mut host.memory, USER), &[1; 900]), Ok(true));
    }
    host.with(|driver, cards, _| driver.kick(cards, Time::ZERO));
    assert_eq!(host.driver.accesses.calls, 1);
    host.driver.close(host.file).unwrap();
    host.with(|driver, cards, _| driver.handle_timeout(cards, Time::from_nanos(1)));
    assert!(host.memory.pinned() > before, "the card still streams from it");
    let mut cells = [Cell::default(); 64];
    let (mut sent, mut now) = (0, Time::ZERO);
    while let Some(due) = host.segmenter.poll_timeout() {
        now = due.max(now);
        sent += host.segmenter.fill(&mut cells, &mut host.memory, now);
        host.with(|driver, cards, _| driver.handle_timeout(cards, now));
    }
    assert_eq!(sent, 908usize.div_ceil(44), "the piece that ran, and no further slot");
    assert_eq!(host.memory.pinned(), before);
}
