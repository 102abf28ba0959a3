//! The cards of Traw and Smith behind an I/O channel controller: processes with pages of their own, strewn over the memory,
//! send from them and receive into them.

use bus::iocc::{Fault, Memory, PAGE, Process};
use penn::Streaming;
use penn::driver::device::{CallError, PINNED_OCTETS, Place, Switch};
use penn::driver::{
    BUFFER_OCTETS, BUFFERS, Cards, Control, Overlap, Penn, PennError, VC_ACTIVE, VC_FULL, VC_MAPPED, Variant, Written,
};
use penn::reassembler::Card;
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use std::time::Duration;
use wire::{Cell, Time};

const CONFIG: Config = Config { circuits: 16, pdus: 16, slots: 8192, longest_list: 8192, open_at_begin_only: false };
const TICK: Duration = Duration::from_micros(16_667);
const USER: Process = Process(7);
const OTHER: Process = Process(8);
/// In the middle of a page.
const AT: u32 = 0x0001_0804;
const KERNEL_FRAMES: usize = BUFFERS * BUFFER_OCTETS / PAGE;

struct Host {
    segmenter: Segmenter,
    reassembler: Card,
    memory: Memory,
    driver: Penn,
}

impl Host {
    fn new() -> Self {
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut reassembler = Card::new(CONFIG).unwrap();
        let mut memory = Memory::new(128, 96);
        memory.grow(Process::default(), 0, BUFFERS * BUFFER_OCTETS).unwrap();
        for process in [USER, OTHER] {
            memory.grow(process, AT, 4 * PAGE).unwrap();
        }
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let driver = Penn::probe(&mut cards, 0, 32, TICK, Time::ZERO);
        memory.enter(USER);
        Host { segmenter, reassembler, memory, driver }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Penn, &mut Cards<'_, Memory>) -> R) -> R {
        let Host { segmenter, reassembler, memory, driver } = self;
        f(driver, &mut Cards { segmenter, reassembler, memory })
    }

    fn open(&mut self) -> usize {
        let file = self.driver.open();
        self.driver.control(file, Control::Vci(100), Time::ZERO).unwrap();
        file
    }
}

/// Cells of the first host come to the second.
fn run(hosts: &mut [Host; 2], from: Time, until: Time) {
    let mut cells = [Cell::default(); 8];
    let mut now = from;
    loop {
        let cell = hosts[0].segmenter.poll_timeout();
        let drivers = hosts.iter_mut().map(|host| host.with(|driver, cards| driver.poll_timeout(cards)));
        now = drivers.chain(cell).min().unwrap_or(until).max(now);
        if now >= until {
            return;
        }
        let [sender, receiver] = hosts;
        let n = sender.segmenter.fill(&mut cells, &mut sender.memory, now);
        receiver.reassembler.handle_cells(&cells[..n], now);
        for host in hosts.iter_mut() {
            host.reassembler.run(&mut host.memory, 64, now);
            host.with(|driver, cards| driver.handle_timeout(cards, now));
        }
    }
}

fn pattern(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8).collect()
}

/// B-26, E-4: a write from the process's pages, which stay where they are until the card has them.
#[test]
fn a_process_sends_from_strewn_pages_that_are_pinned_and_tagged_until_the_card_has_them() {
    let mut hosts = [Host::new(), Host::new()];
    let data = pattern(9000);
    let (writer, reader) = (hosts[0].open(), hosts[1].open());
    assert_eq!((hosts[0].memory.pinned(), hosts[0].memory.mapped()), (KERNEL_FRAMES, KERNEL_FRAMES));
    let policy = Control::Variant(Variant::User(Overlap::Fault));
    hosts[0].driver.control(writer, policy, Time::ZERO).unwrap();
    hosts[0].memory.store(USER, AT, &data).unwrap();
    let frames: Vec<usize> = hosts[0].memory.frames_of(USER, AT, 9000).into_iter().map(Option::unwrap).collect();
    assert!(frames.windows(2).all(|pair| pair[0] + 1 != pair[1]), "{frames:?}");
    let written = hosts[0].with(|driver, cards| driver.write(cards, writer, AT, data.len(), Time::ZERO));
    assert_eq!(written, Ok(Written::Done));
    run(&mut hosts, Time::ZERO, Time::from_micros(100));
    // Streaming is under way. Page replacement finds the other process's pages, and one of this one's that is not sent.
    let memory = &mut hosts[0].memory;
    assert_eq!(memory.pinned(), KERNEL_FRAMES + frames.len());
    let replaced: Vec<_> = std::iter::from_fn(|| memory.replace()).collect();
    assert!(replaced.iter().all(|(process, page)| *process == OTHER || *page > (AT + 9000) / PAGE as u32));
    assert!(matches!(memory.store(USER, AT + 8000, &[0xee]), Err(Fault::Busy { .. })));
    assert!(hosts[0].driver.must_wait(AT + 8000));
    run(&mut hosts, Time::from_micros(100), Time::from_millis(40));
    let memory = &mut hosts[0].memory;
    assert_eq!((memory.pinned(), memory.mapped()), (KERNEL_FRAMES, KERNEL_FRAMES));
    assert_eq!(memory.store(USER, AT + 8000, &[0xee]), Ok(()));
    let mut got = vec![0; 10_000];
    assert_eq!(hosts[1].driver.read(reader, &mut got), Ok(Some(9000usize.next_multiple_of(48))));
    assert_eq!(got[..9000], data);
    // Another process has not these pages, nor does one that ends in the middle of its range.
    hosts[0].memory.enter(OTHER);
    let refused = hosts[0].with(|driver, cards| driver.write(cards, writer, AT, 9000, Time::from_millis(40)));
    assert!(matches!(refused, Err(PennError::Memory(_))), "{refused:?}");
    assert_eq!(hosts[0].memory.mapped(), KERNEL_FRAMES, "a refused write leaves nothing mapped");
}

/// B-30: status, descriptor, buffer and length of an entry; cells go straight to the reader, and never over what it has
/// not read.
#[test]
fn cells_are_fetched_into_the_readers_mapped_buffer_and_no_further_than_it_is_long() {
    let mut hosts = [Host::new(), Host::new()];
    let data = pattern(9000);
    let (writer, reader) = (hosts[0].open(), hosts[1].open());
    assert_eq!(hosts[1].driver.vc(reader).unwrap().status, 0);
    let short = hosts[1].with(|driver, cards| driver.map(cards, reader, AT, 47));
    assert_eq!(short, Err(PennError::Length(47)));
    hosts[1].with(|driver, cards| driver.map(cards, reader, AT, 6000)).unwrap();
    let view = hosts[1].driver.vc(reader).unwrap();
    assert_eq!((view.status, view.buf, view.len), (VC_MAPPED, AT, 6000));
    assert_eq!(hosts[1].memory.pinned(), KERNEL_FRAMES + 2);
    hosts[0].memory.store(USER, AT, &data).unwrap();
    hosts[0].with(|driver, cards| driver.write(cards, writer, AT, data.len(), Time::ZERO)).unwrap();
    // A PDU of 188 cells: 125 of them fit.
    run(&mut hosts, Time::ZERO, Time::from_millis(60));
    assert_eq!(hosts[1].driver.vc(reader).unwrap().status, VC_ACTIVE | VC_MAPPED | VC_FULL);
    assert_eq!(hosts[1].reassembler.free_slots(), 8192 - 63);
    let mut got = vec![0; 6048];
    hosts[1].memory.load(USER, AT, &mut got).unwrap();
    assert_eq!(got[..6000], data[..6000]);
    assert_eq!(got[6000..], [0; 48], "nothing behind the buffer");
    assert_eq!(hosts[1].driver.read(reader, &mut []), Ok(Some(6000)));
    run(&mut hosts, Time::from_millis(60), Time::from_millis(100));
    assert_eq!(hosts[1].driver.read(reader, &mut []), Ok(Some(63 * 48)));
    hosts[1].memory.load(USER, AT, &mut got).unwrap();
    assert_eq!(got[..3000], data[6000..]);
    assert_eq!(hosts[1].driver.read(reader, &mut []), Ok(None));
    // Closing unpins and unmaps.
    hosts[1].driver.close(reader).unwrap();
    run(&mut hosts, Time::from_millis(100), Time::from_millis(140));
    assert_eq!((hosts[1].memory.pinned(), hosts[1].memory.mapped()), (KERNEL_FRAMES, KERNEL_FRAMES));
    assert_eq!(hosts[1].driver.statistics.failed, 0);
}

/// B-30, and what a device must never do: after the mapping is gone, nothing is written there.
#[test]
fn a_buffer_that_is_mapped_no_longer_is_written_no_longer() {
    let mut hosts = [Host::new(), Host::new()];
    let (writer, reader) = (hosts[0].open(), hosts[1].open());
    hosts[1].with(|driver, cards| driver.map(cards, reader, AT, 6000)).unwrap();
    hosts[1].with(|driver, cards| driver.map(cards, reader, 0, 0)).unwrap();
    assert_eq!((hosts[1].memory.pinned(), hosts[1].driver.vc(reader).unwrap().status), (KERNEL_FRAMES, 0));
    hosts[0].memory.store(USER, AT, &pattern(480)).unwrap();
    hosts[0].with(|driver, cards| driver.write(cards, writer, AT, 480, Time::ZERO)).unwrap();
    run(&mut hosts, Time::ZERO, Time::from_millis(60));
    let mut got = vec![1; 6000];
    hosts[1].memory.load(USER, AT, &mut got).unwrap();
    assert!(got.iter().all(|octet| *octet == 0));
    assert_eq!(hosts[1].driver.read(reader, &mut got), Ok(Some(480)));
    assert_eq!(got[..480], pattern(480));
}

/// B-24: found by its identifier, configured, loaded by the first open of its special file, and called through it.
#[test]
fn a_process_opens_the_device_file_writes_reads_and_closes_and_the_driver_is_loaded_meanwhile() {
    let hosts = [0, 1].map(|_| {
        let mut memory = Memory::new(128, 96);
        memory.grow(Process::default(), 0, PINNED_OCTETS).unwrap();
        memory.grow(USER, AT, 4 * PAGE).unwrap();
        (Segmenter::new(Streaming::MICRO_CHANNEL), Card::new(CONFIG).unwrap(), memory, Switch::default())
    });
    let [mut sender, mut receiver] = hosts;
    let place = Place { buffers: 0, lists: 32, tick: TICK };
    let with = |host: &mut (Segmenter, Card, Memory, Switch),
                f: &mut dyn FnMut(&mut Switch, &mut Cards<'_, Memory>)| {
        let (segmenter, reassembler, memory, switch) = host;
        f(switch, &mut Cards { segmenter, reassembler, memory });
    };
    let now = Time::ZERO;
    let mut fds = Vec::new();
    for host in [&mut sender, &mut receiver] {
        with(host, &mut |switch, cards| {
            assert_eq!(switch.open("/dev/host0", cards, now), Err(CallError::NoDevice));
            assert_eq!(switch.configure(cards, place), Ok("/dev/host0".into()));
            assert_eq!(cards.memory.pinned(), 0, "inactive until it is opened");
            assert_eq!(switch.open("/dev/tty0", cards, now), Err(CallError::NoFile));
            assert_eq!(switch.open("/dev/host1", cards, now), Err(CallError::NoDevice));
            cards.memory.enter(Process::default());
            let fd = switch.open("/dev/host0", cards, now).unwrap();
            cards.memory.enter(USER);
            assert_eq!(cards.memory.pinned(), KERNEL_FRAMES);
            switch.ioctl(fd, Control::Vci(100), now).unwrap();
            assert_eq!(switch.unload(0, cards), Err(CallError::Busy));
            fds.push(fd);
        });
    }
    let data = pattern(9000);
    sender.2.store(USER, AT, &data).unwrap();
    with(&mut sender, &mut |switch, cards| {
        assert_eq!(switch.write(fds[0], cards, AT, data.len(), now), Ok(Written::Done));
    });
    for micros in (0..60_000).step_by(2) {
        let now = Time::from_micros(micros);
        let mut cells = [Cell::default(); 8];
        let n = sender.0.fill(&mut cells, &mut sender.2, now);
        receiver.1.handle_cells(&cells[..n], now);
        receiver.1.run(&mut receiver.2, 64, now);
        for host in [&mut sender, &mut receiver] {
            with(host, &mut |switch, cards| {
                if switch.poll_timeout(0, cards).is_some_and(|due| due <= now) {
                    switch.handle_timeout(0, cards, now);
                }
            });
        }
    }
    let mut got = vec![0; 10_000];
    assert_eq!(receiver.3.read(fds[1], &mut got), Ok(Some(9024)));
    assert_eq!(got[..9000], data);
    for (host, fd) in [(&mut sender, fds[0]), (&mut receiver, fds[1])] {
        with(host, &mut |switch, cards| {
            assert_eq!((switch.close(fd), switch.close(fd)), (Ok(()), Err(CallError::Descriptor)));
            assert_eq!(cards.memory.pinned(), KERNEL_FRAMES, "loaded until it is unloaded");
            assert_eq!(switch.unload(0, cards), Ok(()));
            assert_eq!((cards.memory.pinned(), cards.memory.mapped()), (0, 0));
            cards.memory.enter(Process::default());
            assert!(switch.open("/dev/host0", cards, now).is_ok(), "loaded again");
        });
    }
}
