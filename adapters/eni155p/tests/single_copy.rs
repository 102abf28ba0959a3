//! Single copy by pages through two adapters back to back, with the driver of each: SDUs leave from pages of a process, and become pages
//! of another.

use bus::iocc::PAGE;
use bus::paged::Paged;
use bus::sockets::{Completed, Whose};
use eni155p::driver::single_copy::{Mechanisms, SingleCopy};
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, DriverError, Eni};
use eni155p::{Config, Eni155p, Pace, RamSize};
use remap::layers::{Flow, Mismatch, Sizes, UDP};
use remap::look::Length;
use remap::spaces::{Overlap, Process};
use wire::{Cell, Time};

const BASE: u64 = 0x1000_0000;
const BUFFERS: u64 = 4;
/// Octets before each PDU that the host keeps control information in.
const CONTROL: usize = 32;
const A: Process = Process(1);
const B: Process = Process(2);
const VCI: u32 = 100;
const RAW: Whose = Whose::Circuit(VCI);

struct Side {
    adapter: Eni155p,
    driver: Eni,
    host: SingleCopy,
    completed: Vec<Completed<eni155p::driver::Received>>,
}

impl Side {
    fn new(overlap: Overlap) -> Self {
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ram: RamSize::Mb2, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut memory = Paged::new(BASE, 512, overlap);
        let (_, own) = memory.hold((2 * BUFFERS * BUFFER_OCTETS) as u32 / PAGE as u32).unwrap();
        let mut driver = Eni::probe(&mut bus, own, BUFFERS).unwrap();
        driver.open(&mut bus, VCI, Aal::Aal5, 128 << 10, None).unwrap();
        let mut host = SingleCopy::new(&mut driver, memory, 128, CONTROL).unwrap();
        for (process, fill) in [(A, 0xa0), (B, 0xb0)] {
            host.memory.grow(process, 0x10_0000, 32 * PAGE).unwrap();
            host.memory.store(process, 0x10_0000, &vec![fill; 32 * PAGE]).unwrap();
        }
        Side { adapter, driver, host, completed: Vec::new() }
    }

    fn send(&mut self, process: Process, address: u64, octets: usize) {
        let bus = &mut Direct { adapter: &mut self.adapter, now: Time::ZERO };
        self.host.send(&mut self.driver, bus, VCI, (process, address, octets)).unwrap();
    }

    /// An SDU that was made in process A's memory.
    fn send_octets(&mut self, sdu: &[u8]) {
        self.host.memory.store(A, 0x10_0000, sdu).unwrap();
        self.send(A, 0x10_0000, sdu.len());
    }

    fn post(&mut self, whose: Whose, address: u64, octets: usize) {
        self.completed.extend(self.host.post(&mut self.driver, whose, address, octets));
    }

    /// DMA in portions of so many octets, and interrupts; `between` runs after each portion.
    fn settle(&mut self, portion: usize, mut between: impl FnMut(&mut SingleCopy)) {
        loop {
            while self.adapter.run_dma(&mut self.host.memory, portion) {
                between(&mut self.host);
            }
            if !self.adapter.interrupt(Time::ZERO) {
                break;
            }
            self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now: Time::ZERO });
            self.host.finish_sent(&mut self.driver);
        }
        while let Some(completed) = self.host.poll_completed(&mut self.driver) {
            self.completed.push(completed);
        }
    }

    fn load(&mut self, process: Process, address: u64, octets: usize) -> Vec<u8> {
        self.host.memory.load(process, address, octets).unwrap()
    }
}

struct Pair([Side; 2]);

impl Pair {
    fn new() -> Self {
        Pair([Side::new(Overlap::Copy), Side::new(Overlap::Copy)])
    }

    fn run(&mut self) {
        let mut cells = [Cell::default(); 16];
        let [a, b] = &mut self.0;
        a.settle(1 << 16, |_| {});
        while a.adapter.next_transmit().is_some() {
            let n = a.adapter.fill(&mut cells, Time::ZERO);
            b.adapter.handle_cells(&cells[..n]);
            a.settle(1 << 16, |_| {});
            b.settle(1 << 16, |_| {});
        }
        [a, b].into_iter().for_each(|side| side.host.memory.spaces().audit().unwrap());
    }
}

fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// A UDP packet over LLC/SNAP, with octets of IP options, a fragment field, and a header and a trailer of the application's in its data.
fn packet(port: u16, options: usize, fragment: u16, data: &[u8]) -> Vec<u8> {
    let ip = 20 + options;
    let mut pdu = vec![0; 8 + ip + 8];
    pdu[..8].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    pdu[8] = 0x40 | (ip / 4) as u8;
    pdu[10..12].copy_from_slice(&((ip + 8 + data.len()) as u16).to_be_bytes());
    pdu[14..16].copy_from_slice(&fragment.to_be_bytes());
    pdu[16..18].copy_from_slice(&[64, UDP]);
    pdu[28..8 + ip].fill(1);
    pdu[8 + ip + 2..][..2].copy_from_slice(&port.to_be_bytes());
    pdu[8 + ip + 4..][..2].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
    let sum = pdu[8..8 + ip].chunks(2).fold(0u32, |sum, w| sum + u32::from(w[0]) * 256 + u32::from(w[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let check = !((sum & 0xffff) as u16 + (sum >> 16) as u16);
    pdu[18..20].copy_from_slice(&check.to_be_bytes());
    pdu.extend_from_slice(data);
    pdu
}

/// Section 3.2: locked, translated, recorded, set up, unlocked when the SDU is in the adapter.
#[test]
fn an_sdu_leaves_from_strewn_pages_as_it_was_at_the_send_though_its_writer_goes_on() {
    let mut pair = Pair::new();
    pair.0[1].host.bind(&mut pair.0[1].driver, RAW, B, Sizes::default());
    pair.0[1].post(RAW, 0x10_0000, 10 * PAGE);
    // Every second page on another frame: the list has pieces.
    for page in 0..5 {
        pair.0[0].send(A, 0x10_0000 + 2 * page * PAGE as u64, 4);
        pair.0[0].host.memory.store(A, 0x10_0000 + 2 * page * PAGE as u64, &[1]).unwrap();
    }
    pair.0[0].settle(1 << 16, |_| {});
    let mut cells = [Cell::default(); 16];
    while pair.0[0].adapter.next_transmit().is_some() {
        pair.0[0].adapter.fill(&mut cells, Time::ZERO);
    }
    let sdu = pattern(9 * PAGE + 100, 3);
    pair.0[0].host.memory.store(A, 0x10_0004, &sdu).unwrap();
    let before = pair.0[0].host.memory.counts();
    pair.0[0].send(A, 0x10_0004, sdu.len());
    // Writes into each page while it is fetched; another process that appears and writes; pages that go.
    let mut steps = 0;
    pair.0[0].settle(1, |host| {
        steps += 1;
        for page in 0..10 {
            let at = 0x10_0000 + page * PAGE as u64 + 517 * steps % PAGE as u64;
            if steps < 12 || !(6..9).contains(&page) {
                host.memory.store(A, at, &[0xee]).unwrap();
            }
            if steps >= 6 {
                host.memory.store(Process(7), at, &[0xdd]).unwrap();
            }
        }
        match steps {
            5 => host.memory.fork(A, Process(7)),
            11 => host.memory.unmap(A, 0x10_0000 + 6 * PAGE as u64, 3 * PAGE),
            _ => {}
        }
    });
    assert!(steps > 12, "{steps} portions");
    pair.run();
    assert_eq!(pair.0[1].load(B, 0x10_0000, sdu.len()), sdu);
    let counts = pair.0[0].host.memory.counts();
    assert!(counts.copied - before.copied >= 10, "{counts:?}");
    assert_eq!(pair.0[0].host.memory.spaces().leaving(), 0);
    assert_eq!(pair.0[0].host.statistics().sent_in_place, 6);
}

#[test]
fn an_sdu_that_does_not_begin_with_a_word_is_copied_and_one_for_which_there_is_no_room_locks_nothing() {
    let mut pair = Pair::new();
    pair.0[1].host.bind(&mut pair.0[1].driver, RAW, B, Sizes::default());
    pair.0[1].post(RAW, 0x10_0000, PAGE);
    let sdu = pattern(700, 9);
    pair.0[0].host.memory.store(A, 0x10_0003, &sdu).unwrap();
    pair.0[0].send(A, 0x10_0003, sdu.len());
    assert_eq!(pair.0[0].host.memory.spaces().leaving(), 0);
    pair.run();
    assert_eq!(pair.0[1].load(B, 0x10_0000, sdu.len()), sdu);
    assert_eq!(pair.0[0].host.statistics().sent_by_copy, 1);
    let side = &mut pair.0[0];
    let busy = (0..40).find_map(|_| {
        let bus = &mut Direct { adapter: &mut side.adapter, now: Time::ZERO };
        side.host.send(&mut side.driver, bus, VCI, (A, 0x10_0000, 8 * PAGE)).err()
    });
    assert_eq!(busy, Some(DriverError::Busy.into()));
    let leaving = side.host.memory.spaces().leaving();
    assert!((1..5).contains(&leaving), "{leaving} fit into the adapter");
}

/// Section 3.2, figure 5: what a read will overwrite wholly is unmapped, in every process that shares it.
#[test]
fn a_read_after_a_send_copies_no_page_that_it_overwrites_and_both_who_share_it_see_what_was_read() {
    let mut pair = Pair::new();
    pair.0[1].host.bind(&mut pair.0[1].driver, RAW, B, Sizes::default());
    pair.0[1].post(RAW, 0x10_0000, 8 * PAGE);
    let side = &mut pair.0[0];
    side.host.memory.share((A, 0x10_0000), 8 * PAGE, (B, 0x80_0000)).unwrap();
    let (sdu, news) = (pattern(8 * PAGE, 1), pattern(8 * PAGE, 2));
    side.host.memory.store(A, 0x10_0000, &sdu).unwrap();
    let before = side.host.memory.counts();
    side.send(A, 0x10_0000, sdu.len());
    assert_eq!(side.host.memory.overwrite(A, 0x10_0000, &news), Ok(8 * PAGE));
    let counts = side.host.memory.counts();
    assert_eq!((counts.replaced - before.replaced, counts.copied - before.copied), (8, 0));
    assert_eq!(side.load(B, 0x80_0000, 8 * PAGE), news);
    pair.run();
    assert_eq!(pair.0[1].load(B, 0x10_0000, sdu.len()), sdu);
    assert_eq!(pair.0[0].load(A, 0x10_0000, sdu.len()), news);
}

/// Section 3.3: whole pages are mapped where the alignment is the same, and the API says which that is.
#[test]
fn pages_are_mapped_where_the_application_follows_what_it_was_told_and_wherever_it_posts_ahead() {
    let sizes = [100, PAGE - 1, PAGE, 9188, 65_535];
    for posted_ahead in [true, false] {
        // Any multiple of a word can be served, if it is known before the data come.
        for displaced in [0, 4, 1024, 4092, 2] {
            let mut pair = Pair::new();
            let side = &mut pair.0[1];
            side.host.bind(&mut side.driver, RAW, B, Sizes::default());
            let address = 0x10_0000 + displaced as u64;
            for (n, octets) in sizes.into_iter().enumerate() {
                let sdu = pattern(octets, n as u8);
                if posted_ahead {
                    pair.0[1].post(RAW, address, 65_535);
                }
                pair.0[0].send_octets(&sdu);
                pair.run();
                if !posted_ahead {
                    pair.0[1].post(RAW, address, 65_535);
                }
                let completed = pair.0[1].completed.pop().unwrap();
                let aligned = if posted_ahead { displaced % 4 == 0 } else { displaced == 0 };
                let before = (PAGE - displaced) % PAGE;
                let pages = if aligned { octets.saturating_sub(before) / PAGE } else { 0 };
                assert_eq!(completed.delivered.octets, octets);
                assert_eq!(completed.delivered.pages, pages, "{octets} octets at {displaced}, {posted_ahead}");
                assert_eq!(pair.0[1].load(B, address, octets), sdu);
                if !posted_ahead {
                    let told = pair.0[1].host.alignment();
                    assert_eq!(told.whole(address, octets), pages * PAGE);
                }
            }
            assert_eq!(pair.0[1].driver.pages(), 128, "the driver has as many pages as before");
            assert!(pair.0[1].load(B, 0x10_0000 + 20 * PAGE as u64, PAGE).iter().all(|octet| *octet == 0xb0));
        }
    }
}

/// Section 3.4: three fields of the header are looked at in the interrupt, all others afterwards.
#[test]
fn the_interrupt_handler_puts_a_datagram_where_its_application_wants_it_and_what_it_got_wrong_is_copied() {
    let mut pair = Pair::new();
    let flows = [5001, 5002].map(|port| Whose::Flow(Flow { protocol: UDP, port }));
    let own = Sizes { header: 12, trailer: 5 };
    let side = &mut pair.0[1];
    side.host.bind(&mut side.driver, flows[0], B, Sizes::default());
    side.host.bind(&mut side.driver, flows[1], A, own);
    let mut give = |port: u16, options: usize, fragment: u16, octets: usize, padding: usize| {
        let own = if port == 5002 { own } else { Sizes::default() };
        let data = pattern(octets, port as u8);
        let whole = [&vec![0xcc; own.header][..], &data, &vec![0xcc; own.trailer]].concat();
        let mut pdu = packet(port, options, fragment, &whole);
        pdu.extend(vec![0; padding]);
        pair.0[1].post(flows[usize::from(port == 5002)], 0x11_0000, 4 * PAGE);
        pair.0[0].send_octets(&pdu);
        pair.run();
        let process = if port == 5002 { A } else { B };
        let completed = pair.0[1].completed.pop();
        if completed.is_some() {
            assert_eq!(pair.0[1].load(process, 0x11_0000, octets), data);
        }
        let statistics = pair.0[1].host.statistics();
        (completed.map(|completed| completed.delivered), statistics)
    };
    let (delivered, statistics) = give(5001, 0, 0, 8192, 0);
    assert_eq!((delivered.unwrap().pages, statistics.as_predicted, statistics.slow), (2, 1, 0));
    // The other application on the same circuit, with control information of its own.
    let (delivered, statistics) = give(5002, 0, 0, 9000, 0);
    assert_eq!((delivered.unwrap().pages, statistics.as_predicted), (2, 2));
    // UDP's length, not AAL5's.
    let (delivered, statistics) = give(5001, 0, 0, 4096, 30);
    assert_eq!((delivered.unwrap().octets, delivered.unwrap().pages, statistics.as_predicted), (4096, 1, 3));
    // Options: the words where the port would be are the options'.
    let (delivered, statistics) = give(5001, 4, 0, 8192, 0);
    assert_eq!((delivered.unwrap().pages, delivered.unwrap().octets, statistics.slow), (0, 8192, 1));
    let (delivered, statistics) = give(5001, 0, 0x2000, 1000, 0);
    assert_eq!((delivered, statistics.mismatch, statistics.unclaimed), (None, Some(Mismatch::Fragment), 1));
    let (delivered, statistics) = give(5001, 0, 99, 1000, 0);
    assert_eq!((delivered, statistics.unclaimed), (None, 2));
    assert_eq!(pair.0[1].driver.pages(), 128);
}

/// Section 3.4: the length of UDP, or of AAL5, says how much memory to allocate.
#[test]
fn pages_are_taken_by_the_length_that_is_known_and_a_datagram_that_ends_before_its_pdu_leaves_the_rest_in_the_adapter()
{
    let whose = Whose::Flow(Flow { protocol: UDP, port: 5001 });
    for (length, taken) in [(Length::Longest, 17), (Length::Aal5, 3), (Length::Udp, 2)] {
        let mut pair = Pair::new();
        let side = &mut pair.0[1];
        side.host.use_only(&mut side.driver, Mechanisms { length, ..Mechanisms::default() });
        side.host.bind(&mut side.driver, whose, B, Sizes::default());
        let data = pattern(PAGE, 8);
        // Behind the data, which end with their page.
        let padded = |options| [packet(5001, options, 0, &data), vec![0x55; 40]].concat();
        pair.0[0].send_octets(&padded(0));
        pair.run();
        assert_eq!(128 - pair.0[1].driver.pages(), taken, "{length:?}");
        pair.0[1].post(whose, 0x10_0000, 4 * PAGE);
        // The octets of options where UDP is looked for say that the datagram is short: it is not cut.
        let mut options = padded(4);
        options[28..36].copy_from_slice(&[1, 1, 0x13, 0x89, 0, 9, 0x13, 0x89]);
        options[18..20].fill(0);
        let sum = options[8..32].chunks(2).fold(0u32, |sum, w| sum + u32::from(w[0]) * 256 + u32::from(w[1]));
        let check = !((sum & 0xffff) as u16 + (sum >> 16) as u16);
        options[18..20].copy_from_slice(&check.to_be_bytes());
        pair.0[0].send_octets(&options);
        pair.run();
        pair.0[1].post(whose, 0x11_0000, 4 * PAGE);
        let side = &mut pair.0[1];
        for (completed, address, pages) in [(0, 0x10_0000, 1), (1, 0x11_0000, 0)] {
            let delivered = side.completed[completed].delivered;
            assert_eq!((delivered.octets, delivered.pages), (PAGE, pages), "{length:?}");
            assert_eq!(side.load(B, address, PAGE), data, "{length:?}");
            assert!(side.load(B, address + PAGE as u64, 40).iter().all(|octet| *octet == 0xb0));
        }
        let statistics = side.host.statistics();
        assert_eq!((statistics.as_predicted, statistics.slow, side.driver.pages()), (1, 1, 128), "{length:?}");
    }
}
