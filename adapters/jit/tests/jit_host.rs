//! The just-in-time adapter's driver: guesses, misses, trailers, strategies, and SDUs that leave from their process's pages.

use bus::iocc::PAGE;
use bus::paged::Paged;
use bus::sockets::{Completed, Whose};
use jit::driver::{JitHost, Mechanisms};
use jit::{Config, Jit};
use remap::layers::{Flow, Sizes, UDP};
use remap::spaces::{Overlap, Process};
use sar::{SduMeta, Segmentation};
use wire::{Cell, CircuitId, Time};

const P: Process = Process(1);
const AT: u64 = 0x10_0000;

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

struct World {
    adapter: Jit,
    host: JitHost,
    now: Time,
    completed: Vec<Completed<()>>,
}

impl World {
    fn new(row: u32) -> Self {
        Self::with(row, Mechanisms::default())
    }

    fn with(row: u32, mechanisms: Mechanisms) -> Self {
        let adapter = Jit::new(Config { cells: 64, ..Config::default() });
        let mut host = JitHost::new(Paged::new(0x1000_0000, 1024, Overlap::Copy), 8, row);
        host.use_only(mechanisms);
        let mut world = World { adapter, host, now: Time::ZERO, completed: Vec::new() };
        for vci in [40, 41] {
            assert!(world.host.open(&mut world.adapter, circuit(vci)));
        }
        world.host.memory.grow(P, AT, 64 * PAGE).unwrap();
        world
    }

    fn post(&mut self, whose: Whose, address: u64) {
        self.completed.extend(self.host.post(&mut self.adapter, whose, address, 16 * PAGE));
    }

    /// Cells of PDUs, of each one in turn.
    fn receive(&mut self, pdus: &[(u16, Vec<u8>)]) {
        let cells = |(vci, pdu): &(u16, Vec<u8>)| {
            let mut cells = vec![Cell::default(); wire::aal5::cells(pdu.len())];
            Segmentation::new(circuit(*vci), pdu.len(), SduMeta::default()).unwrap().fill(pdu, &mut cells);
            cells
        };
        let each: Vec<Vec<Cell>> = pdus.iter().map(cells).collect();
        for n in 0..each.iter().map(Vec::len).max().unwrap_or(0) {
            for cell in each.iter().filter_map(|cells| cells.get(n)) {
                self.adapter.handle_cells(&[*cell], self.now);
                while let Some(next) = self.adapter.poll_timeout() {
                    self.now = self.now.max(next);
                    self.adapter.run(&mut self.host.memory, self.now);
                }
            }
        }
        while let Some(completed) = self.host.poll_completed(&mut self.adapter) {
            self.completed.push(completed);
        }
        self.host.memory.spaces().audit().unwrap();
    }

    fn load(&mut self, address: u64, octets: usize) -> Vec<u8> {
        self.host.memory.load(P, address, octets).unwrap()
    }
}

fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// A UDP packet over LLC/SNAP.
fn packet(port: u16, options: usize, data: &[u8]) -> Vec<u8> {
    let ip = 20 + options;
    let mut pdu = vec![0; 8 + ip + 8];
    pdu[..8].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    pdu[8] = 0x40 | (ip / 4) as u8;
    pdu[10..12].copy_from_slice(&((ip + 8 + data.len()) as u16).to_be_bytes());
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

fn flow(port: u16) -> Whose {
    Whose::Flow(Flow { protocol: UDP, port })
}

/// Sections 3.3 and 3.5: the last PDUs' application and sizes choose the next one's buffers.
#[test]
fn data_are_mapped_once_their_circuits_last_pdus_have_told_the_alignment_and_copied_after_a_wrong_guess() {
    let mut world = World::new(8);
    world.host.bind(flow(5001), P, Sizes::default());
    world.host.bind(flow(5002), P, Sizes { header: 20, trailer: 0 });
    let mut seed = 0;
    let mut give = |port: u16, options: usize| {
        seed += 1;
        let (data, own) = (pattern(3 * PAGE, seed), if port == 5002 { 20 } else { 0 });
        world.post(flow(port), AT);
        world.receive(&[(40, packet(port, options, &[&vec![7; own][..], &data].concat()))]);
        let completed = world.completed.pop().unwrap();
        assert_eq!(completed.delivered.octets, 3 * PAGE);
        assert_eq!(world.load(AT, 3 * PAGE), data);
        let mapped = completed.delivered.pages;
        assert_eq!(completed.delivered.copied, (3 - mapped) * PAGE);
        mapped
    };
    // Nothing is known before the first one.
    assert_eq!([5001; 4].map(|port| give(port, 0)), [0, 3, 3, 3]);
    // Another application: the guess is the more frequent one for two PDUs.
    assert_eq!([5002; 4].map(|port| give(port, 0)), [0, 0, 3, 3]);
    // Options make the header longer: the layers above are found anew.
    assert_eq!([4, 4, 4, 0, 0].map(|options| give(5002, options)), [0, 3, 3, 0, 3]);
    let statistics = world.host.statistics();
    assert_eq!((statistics.hits, statistics.misses), (8, 5));
}

/// Section 3.5: sizes that nobody knows in advance come layer by layer, or are assumed.
#[test]
fn options_and_octets_behind_a_datagram_are_found_layer_by_layer_or_cost_a_copy_and_a_trailer_on_two_pages() {
    let found = [true, false].map(|learns_sizes| {
        let mechanisms = Mechanisms { learns_sizes, changes_strategy: false, ..Mechanisms::default() };
        let mut world = World::with(8, mechanisms);
        world.host.bind(flow(5001), P, Sizes { header: 12, trailer: 8 });
        world.host.bind(Whose::Circuit(41), P, Sizes { header: 36 + 12, trailer: 0 });
        let mut give = |n: u8, options, octets, behind| {
            let data = pattern(octets, n);
            let pdu = packet(5001, options, &[&[7; 12][..], &data, &[8; 8]].concat());
            world.post(flow(5001), AT);
            world.post(Whose::Circuit(41), AT + 32 * PAGE as u64);
            // The other circuit takes every second buffer of the same list, where there are no options.
            world.receive(&[(40, [pdu, vec![0; behind]].concat()), (41, pattern(4 * PAGE, n))]);
            assert_eq!(world.load(AT, octets), data);
            world.completed.clear();
            let statistics = world.host.statistics();
            (statistics.hits, statistics.repaired, statistics.apart)
        };
        let before = give(0, 4, 8000, 0);
        let options = (1..5).map(|n| give(n, 4, 8000, 0)).last().unwrap();
        let plain = (5..9).map(|n| give(n, 0, 8000, 0)).last().unwrap();
        // The application's trailer ends one page, and what is behind it begins the next one.
        let behind = give(9, 0, 2 * PAGE - 36 - 12 - 4, 8);
        [options.0 - before.0, plain.0 - options.0, behind.1 - plain.1, behind.2 - plain.2]
    });
    // The other circuit's data always lie right: one hit each time. After options the first guess is wrong.
    assert_eq!(found, [[4 + 4, 4 + 3, 1, 0], [4, 4 + 4, 0, 1]]);
}

/// Section 3.5: the whole trailer on one page, or on two that follow each other.
#[test]
fn a_trailer_on_two_pages_is_repaired_and_a_circuit_where_that_is_systematic_gets_another_strategy() {
    let mut world = World::new(8);
    for vci in [40, 41] {
        world.host.bind(Whose::Circuit(vci), P, Sizes { header: 0, trailer: 8 });
    }
    let mut history = Vec::new();
    for round in 0..14 {
        // 8188 octets of data: the trailer begins on the second page and ends on the third.
        let pdus = [40, 41].map(|vci| (vci, [pattern(8188, vci as u8 ^ round), vec![vci as u8; 8]].concat()));
        world.post(Whose::Circuit(40), AT);
        world.post(Whose::Circuit(41), AT + 32 * PAGE as u64);
        let before = world.host.statistics();
        world.receive(&pdus);
        let [first, second] = [0, 1].map(|n| world.completed[n].clone());
        world.completed.clear();
        for (completed, (vci, pdu)) in [&first, &second].into_iter().zip(&pdus) {
            assert_eq!(completed.whose, Whose::Circuit((*vci).into()));
            assert_eq!((completed.delivered.octets, completed.delivered.pages), (8188, 1), "the first page is mapped");
            assert_eq!(world.load(completed.address, 8188), pdu[..8188]);
        }
        let now = world.host.statistics();
        history.push((now.repaired - before.repaired, now.strategies - before.strategies));
    }
    let changed = history.iter().position(|(_, strategies)| *strategies == 2).unwrap();
    assert!(history[..=changed].iter().all(|(repaired, _)| *repaired == 2), "{history:?}");
    assert!(history[changed + 1..].iter().all(|other| *other == (0, 0)), "{history:?}");
    assert!((5..10).contains(&changed), "{history:?}");
    // PDUs whose trailers lie on one page: after a while single pages do again.
    for round in 0..20 {
        world.post(Whose::Circuit(40), AT);
        world.receive(&[(40, pattern(5000, round))]);
        assert_eq!(world.load(AT, 4992), pattern(5000, round)[..4992]);
    }
    assert_eq!(world.host.statistics().strategies, 3);
}

/// Of sizes, alignments and interleaving that are anything: what arrives is what was sent.
#[test]
fn whatever_comes_in_whatever_order_is_delivered_as_it_was_sent_and_no_page_is_lost() {
    let mut world = World::new(3);
    world.host.bind(flow(5001), P, Sizes { header: 3, trailer: 9 });
    world.host.bind(flow(5002), P, Sizes::default());
    world.host.bind(Whose::Circuit(41), P, Sizes { header: 0, trailer: 4 });
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 20) as usize % n
    };
    let mut free = Vec::new();
    for round in 0..400usize {
        let port = [5001, 5002][below(2)];
        let data = [pattern(13 + below(20_000), round as u8), pattern(4 + below(20_000), !round as u8)];
        let address = [AT, AT + 32 * PAGE as u64].map(|at| at + if below(2) == 0 { 0 } else { below(9000) as u64 });
        let whose = [flow(port), Whose::Circuit(41)];
        let late = below(4) == 0;
        if !late {
            (0..2).for_each(|n| world.post(whose[n], address[n]));
        }
        world.receive(&[(40, packet(port, 4 * below(3), &data[0])), (41, data[1].clone())]);
        if late {
            (0..2).for_each(|n| world.post(whose[n], address[n]));
        }
        assert_eq!(world.completed.len(), 2);
        for completed in std::mem::take(&mut world.completed) {
            let (n, cut) = match completed.whose {
                Whose::Circuit(_) => (1, 0..data[1].len() - 4),
                _ if port == 5001 => (0, 3..data[0].len() - 9),
                _ => (0, 0..data[0].len()),
            };
            assert_eq!(completed.delivered.octets, cut.len());
            assert_eq!(world.load(completed.address, cut.len()), data[n][cut], "round {round}");
        }
        free.push(world.host.memory.spaces().free_frames());
    }
    let (early, late) = (free[..100].iter().min(), free[300..].iter().min());
    assert!(late.unwrap() + 120 > *early.unwrap(), "{early:?} frames were free, then {late:?}");
    let statistics = world.host.statistics();
    assert!(statistics.hits > 50 && statistics.misses > 50 && statistics.lost == 0, "{statistics:?}");
}

/// Section 3.2: unlocked when the last cell has left.
#[test]
fn an_sdu_that_is_fetched_cell_by_cell_leaves_as_it_was_at_the_send() {
    let mut world = World::new(8);
    let sdu = pattern(5 * PAGE, 4);
    world.host.memory.store(P, AT + 10, &sdu).unwrap();
    assert_eq!(world.host.send(&mut world.adapter, (0, circuit(40)), (P, AT + 10, sdu.len())), Ok(true));
    let mut cells = Vec::new();
    let mut at = 0;
    while world.host.memory.spaces().leaving() > 0 {
        let mut cell = [Cell::default()];
        world.now = world.now.max(world.adapter.poll_timeout().unwrap());
        let n = world.adapter.fill(&mut cell, &mut world.host.memory, world.now);
        cells.extend_from_slice(&cell[..n]);
        at = (at + 777) % (5 * PAGE as u64);
        world.host.memory.store(P, AT + 10 + at, &[0xee]).unwrap();
        if cells.len() == 100 {
            world.host.memory.unmap(P, AT + PAGE as u64, PAGE);
            world.host.memory.grow(P, AT + PAGE as u64, PAGE).unwrap();
        }
        while world.host.poll_completed(&mut world.adapter).is_some() {}
    }
    let mut whole = vec![Cell::default(); wire::aal5::cells(sdu.len())];
    Segmentation::new(circuit(40), sdu.len(), SduMeta::default()).unwrap().fill(&sdu, &mut whole);
    assert!(cells == whole);
    assert_eq!(world.host.memory.counts().copied, 6, "the page that went was not copied again");
    assert_eq!(world.host.send(&mut world.adapter, (9, circuit(40)), (P, AT, PAGE)), Ok(false));
    assert_eq!(world.host.memory.spaces().leaving(), 0, "nothing stays locked");
}
