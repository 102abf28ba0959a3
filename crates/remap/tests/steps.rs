//! Processes write, read, share, fork, unmap and end while SDUs leave from their pages and arrive in them: random steps, held against a
//! plain model in which every page has octets of its own and every send takes a copy.
//!
//! A million steps, 20 million where the environment has `CELLWAY_LONG=1`. `REMAP_SEED` repeats a failure.

use remap::{Frame, FramePlace, Gather, Hold, Overlap, Process, Refusal, Sending, Spaces, Tables};
use sar::{SduMeta, Segmentation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE: usize = 64;
const FRAMES: u32 = 128;
/// Pages of a process's address space.
const SPACE: u64 = 16;
const PROCESSES: u16 = 4;

/// A memory with page tables: a write goes through only where they let it.
#[derive(Default)]
struct Machine {
    octets: Vec<u8>,
    tables: BTreeMap<(Process, u64), (Frame, bool)>,
}

impl Machine {
    fn new() -> Self {
        // No frame is zero before somebody makes it so.
        Machine { octets: vec![0xdb; FRAMES as usize * PAGE], tables: BTreeMap::new() }
    }

    fn at(&self, place: FramePlace, octets: usize) -> std::ops::Range<usize> {
        assert!(place.offset + octets <= PAGE, "{place:?} and {octets} octets");
        let from = place.frame.0 as usize * PAGE + place.offset;
        from..from + octets
    }

    fn gathered(&self, gather: &Gather) -> Vec<u8> {
        let piece =
            |e: remap::Extent| self.octets[self.at(FramePlace { frame: e.frame, offset: e.offset }, e.octets)].to_vec();
        gather.pages().flat_map(piece).collect()
    }

    fn read(&self, process: Process, address: u64, octets: usize) -> Option<Vec<u8>> {
        let octet = |at: u64| {
            let (frame, _) = self.tables.get(&(process, at / PAGE as u64))?;
            Some(self.octets[frame.0 as usize * PAGE + at as usize % PAGE])
        };
        (address..address + octets as u64).map(octet).collect()
    }
}

impl Tables for Machine {
    fn map(&mut self, process: Process, page: u64, frame: Frame, writable: bool) {
        self.tables.insert((process, page), (frame, writable));
    }

    fn unmap(&mut self, process: Process, page: u64) {
        self.tables.remove(&(process, page));
    }

    fn copy(&mut self, from: FramePlace, to: FramePlace, octets: usize) {
        let (from, to) = (self.at(from, octets), self.at(to, octets));
        self.octets.copy_within(from, to.start);
    }

    fn store(&mut self, to: FramePlace, octets: &[u8]) {
        let to = self.at(to, octets.len());
        self.octets[to].copy_from_slice(octets);
    }

    fn zero(&mut self, frame: Frame) {
        let at = self.at(FramePlace { frame, offset: 0 }, PAGE);
        self.octets[at].fill(0);
    }
}

/// What a page holds in the plain model, and whether it is meant to be shared.
type Page = Rc<RefCell<(Vec<u8>, bool)>>;

struct World {
    spaces: Spaces,
    machine: Machine,
    plain: BTreeMap<(Process, u64), Page>,
    leaving: Vec<(Sending, Vec<u8>)>,
    holds: Vec<(Hold, Gather, Vec<u8>)>,
    random: u64,
    /// What happened that is rare: writes that waited, sends checked, pages mapped.
    checked: u64,
}

impl World {
    fn new(overlap: Overlap, seed: u64) -> Self {
        World {
            spaces: Spaces::new(FRAMES, PAGE, overlap),
            machine: Machine::new(),
            plain: BTreeMap::new(),
            leaving: Vec::new(),
            holds: Vec::new(),
            random: seed | 1,
            checked: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % n
    }

    fn process(&mut self) -> Process {
        Process(self.below(PROCESSES.into()) as u16)
    }

    /// A range within the address space: short, long, aligned or not.
    fn range(&mut self) -> (u64, usize) {
        let address = match self.below(3) {
            0 => self.below(SPACE) * PAGE as u64,
            _ => self.below(SPACE * PAGE as u64 - 1),
        };
        let most = (SPACE * PAGE as u64 - address).min(6 * PAGE as u64);
        let octets = match self.below(3) {
            0 => (1 + self.below(6)) * PAGE as u64,
            _ => 1 + self.below(most),
        };
        (address, octets.min(most) as usize)
    }

    fn octets(&mut self, octets: usize) -> Vec<u8> {
        (0..octets).map(|_| self.below(256) as u8).collect()
    }

    fn has_all(&self, process: Process, address: u64, octets: usize) -> bool {
        pages(address, octets).all(|page| self.plain.contains_key(&(process, page)))
    }

    fn write_plain(&mut self, process: Process, address: u64, octets: &[u8]) {
        for (at, octet) in (address..).zip(octets) {
            self.plain[&(process, at / PAGE as u64)].borrow_mut().0[at as usize % PAGE] = *octet;
        }
    }

    /// A process's own store instruction, an octet at a time where pages change: it faults where the page tables say so. False if it
    /// waits.
    fn store(&mut self, process: Process, address: u64, octets: &[u8]) -> bool {
        for (at, octet) in (address..).zip(octets) {
            let page = at / PAGE as u64;
            let Some((_, writable)) = self.machine.tables.get(&(process, page)).copied() else {
                assert!(!self.plain.contains_key(&(process, page)));
                return true;
            };
            if !writable {
                match self.spaces.write_fault(process, at, &mut self.machine) {
                    Ok(()) => {}
                    Err(Refusal::Leaving { .. }) => {
                        assert!(self.spaces.leaving() > 0);
                        return false;
                    }
                    Err(refusal) => {
                        assert_eq!((refusal, self.spaces.free_frames()), (Refusal::NoFrame, 0));
                        return false;
                    }
                }
            }
            let (frame, writable) = self.machine.tables[&(process, page)];
            assert!(writable, "after a fault that was served it may write");
            self.machine.octets[frame.0 as usize * PAGE + at as usize % PAGE] = *octet;
            self.write_plain(process, at, &[*octet]);
        }
        true
    }

    fn step(&mut self) {
        let (process, (address, octets)) = (self.process(), self.range());
        match self.below(16) {
            0..=3 => {
                let data = self.octets(octets.min(100));
                self.store(process, address, &data);
            }
            4..=6 if self.leaving.len() >= 12 => self.complete(),
            4..=6 => match self.spaces.send(process, address, octets, &mut self.machine) {
                Ok(sending) => {
                    let there = self.machine.read(process, address, octets).unwrap();
                    assert_eq!(sending.gather.octets(), octets);
                    self.leaving.push((sending, there));
                }
                Err(_) => assert!(!self.has_all(process, address, octets)),
            },
            7..=8 => self.complete(),
            9 => {
                let data = self.octets(octets);
                match self.spaces.overwrite(process, address, &data, &mut self.machine) {
                    Ok(n) => self.write_plain(process, address, &data[..n]),
                    Err(_) => assert!(!self.has_all(process, address, octets)),
                }
            }
            10..=11 => self.hold(),
            12 => self.deliver(process, address),
            13 => {
                // A gap, if there is one.
                let page = address / PAGE as u64;
                let gap = (page..SPACE).take_while(|page| !self.plain.contains_key(&(process, *page))).count();
                let (address, octets) = if gap > 0 { (page * PAGE as u64, gap * PAGE) } else { (address, octets) };
                let grown = self.spaces.grow(process, address, octets, &mut self.machine);
                if grown.is_ok() {
                    for page in pages(address, octets) {
                        self.plain.insert((process, page), Rc::new(RefCell::new((vec![0; PAGE], false))));
                    }
                }
            }
            14 => {
                let (other, (there, _)) = (self.process(), self.range());
                let shared = self.spaces.share((process, address), octets, (other, there), &mut self.machine);
                if shared.is_ok() {
                    for (n, page) in pages(address, octets).enumerate() {
                        let slot = self.plain[&(process, page)].clone();
                        slot.borrow_mut().1 = true;
                        self.plain.insert((other, there / PAGE as u64 + n as u64), slot);
                    }
                }
            }
            _ => self.begin_or_end(process, address, octets),
        }
    }

    fn begin_or_end(&mut self, process: Process, address: u64, octets: usize) {
        match self.below(8) {
            0 => {
                self.spaces.exit(process, &mut self.machine);
                self.plain.retain(|(whose, _), _| *whose != process);
            }
            1..=3 => {
                let child = self.process();
                if self.plain.keys().any(|(whose, _)| *whose == child) {
                    return;
                }
                self.spaces.fork(process, child, &mut self.machine);
                let copies: Vec<(u64, Page)> = self
                    .plain
                    .iter()
                    .filter(|((whose, _), _)| *whose == process)
                    .map(|((_, page), slot)| {
                        let shared = slot.borrow().1;
                        (*page, if shared { slot.clone() } else { Rc::new(RefCell::new(slot.borrow().clone())) })
                    })
                    .collect();
                self.plain.extend(copies.into_iter().map(|(page, slot)| ((child, page), slot)));
            }
            _ => {
                self.spaces.unmap(process, address, octets, &mut self.machine);
                pages(address, octets).for_each(|page| {
                    self.plain.remove(&(process, page));
                });
            }
        }
    }

    /// An SDU has left: what left is what was there at `send`.
    fn complete(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let which = self.below(self.leaving.len() as u64) as usize;
        let (sending, there) = self.leaving.swap_remove(which);
        assert!(self.machine.gathered(&sending.gather) == there, "an SDU of {} octets changed on its way", there.len());
        self.spaces.complete(sending.number, &mut self.machine);
        self.checked += 1;
    }

    /// A PDU comes into frames that a network interface holds.
    fn hold(&mut self) {
        if self.holds.len() >= 6 {
            let (hold, ..) = self.holds.remove(0);
            return self.spaces.unhold(hold);
        }
        let frames = 1 + self.below(5) as u32;
        let Some(hold) = self.spaces.hold(frames) else { return };
        let offset = if self.below(2) == 0 { 0 } else { self.below(PAGE as u64) as usize };
        let most = frames as usize * PAGE - offset;
        let octets = if self.below(2) == 0 { most } else { 1 + self.below(most as u64) as usize };
        let data = self.octets(octets);
        let mut gather = Gather::new(PAGE);
        gather.push(hold.first, offset, octets);
        let at = hold.first.0 as usize * PAGE + offset;
        self.machine.octets[at..at + octets].copy_from_slice(&data);
        self.holds.push((hold, gather, data));
    }

    fn deliver(&mut self, process: Process, address: u64) {
        let Some((hold, gather, data)) = self.holds.pop() else { return };
        let address = if self.below(2) == 0 { address / PAGE as u64 * PAGE as u64 } else { address };
        match self.spaces.deliver(process, address, &gather, &mut self.machine) {
            Ok(delivered) => {
                assert_eq!(delivered.octets, delivered.copied + delivered.pages * PAGE);
                self.write_plain(process, address, &data[..delivered.octets]);
            }
            Err(_) => assert!(!self.has_all(process, address, data.len())),
        }
        self.spaces.unhold(hold);
        self.spaces.unhold(hold);
    }

    /// Every process sees what the plain model says, and may write only where it harms nobody.
    fn check(&self) {
        self.spaces.audit().unwrap();
        assert_eq!(self.machine.tables.len(), self.plain.len());
        for ((process, page), slot) in &self.plain {
            let (frame, writable) = self.machine.tables[&(*process, *page)];
            let at = frame.0 as usize * PAGE;
            assert!(self.machine.octets[at..at + PAGE] == slot.borrow().0, "page {page} of {process:?}");
            let (known, may) = self.spaces.look(*process, page * PAGE as u64).unwrap();
            assert!(known == frame && (may || !writable));
        }
        for (hold, gather, data) in &self.holds {
            assert!(self.machine.gathered(gather) == *data, "{hold:?} was written by somebody else");
            let held = hold.first.0..hold.first.0 + hold.frames;
            assert!(self.machine.tables.values().all(|(frame, _)| !held.contains(&frame.0)), "{hold:?} is mapped");
        }
        for (sending, there) in &self.leaving {
            assert!(self.machine.gathered(&sending.gather) == *there);
        }
    }

    /// All that was taken is given back.
    fn end(mut self) {
        while !self.leaving.is_empty() {
            self.complete();
        }
        self.holds.drain(..).for_each(|(hold, ..)| self.spaces.unhold(hold));
        (0..PROCESSES).for_each(|n| self.spaces.exit(Process(n), &mut self.machine));
        self.spaces.audit().unwrap();
        assert_eq!(self.spaces.free_frames(), FRAMES);
        assert!(self.machine.tables.is_empty());
    }
}

fn pages(address: u64, octets: usize) -> std::ops::Range<u64> {
    address / PAGE as u64..(address + octets as u64).div_ceil(PAGE as u64)
}

/// Writers, forks, sharing and reception while PDUs leave (Almesberger 1995, section 3.2).
#[test]
fn what_leaves_is_what_was_sent_and_nobody_sees_a_frame_of_anothers_in_the_long_run() {
    let steps = if std::env::var_os("CELLWAY_LONG").is_some() { 20_000_000 } else { 1_000_000 };
    let seed = std::env::var("REMAP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x00c0_ffee_u64);
    println!("REMAP_SEED={seed}");
    for overlap in [Overlap::Copy, Overlap::Block] {
        let mut world = World::new(overlap, seed);
        for step in 0..steps / 2 {
            world.step();
            if step % 16 == 0 {
                world.check();
            }
        }
        let (counts, checked) = (world.spaces.counts(), world.checked);
        assert!(checked > steps / 100, "{checked} SDUs left");
        assert!(
            counts.copied > 100 && counts.replaced > 100 && counts.mapped > 100 && counts.protected > 100,
            "{counts:?}"
        );
        assert!(overlap == Overlap::Copy || counts.blocked > 100, "{counts:?}");
        world.end();
    }
}

fn sender(overlap: Overlap) -> World {
    let mut world = World::new(overlap, 1);
    world.spaces.grow(Process(1), 0, 4 * PAGE, &mut world.machine).unwrap();
    for page in 0..4 {
        world.plain.insert((Process(1), page), Rc::new(RefCell::new((vec![0; PAGE], false))));
    }
    let data: Vec<u8> = (0..4 * PAGE).map(|n| n as u8).collect();
    assert!(world.store(Process(1), 0, &data));
    world
}

#[test]
fn a_write_while_an_sdu_leaves_gets_a_copy_of_its_page_and_no_other_page() {
    let mut world = sender(Overlap::Copy);
    let sending = world.spaces.send(Process(1), 10, 2 * PAGE, &mut world.machine).unwrap();
    assert_eq!(world.spaces.counts().protected, 3);
    let before: Vec<Frame> = (0..4).map(|page| world.machine.tables[&(Process(1), page)].0).collect();
    // Cells, some before the write and some after.
    let sdu: Vec<u8> = (0..4 * PAGE).map(|n| n as u8).skip(10).take(2 * PAGE).collect();
    let circuit = "0.100".parse().unwrap();
    let mut whole = vec![wire::Cell::default(); wire::aal5::cells(sdu.len())];
    Segmentation::new(circuit, sdu.len(), SduMeta::default()).unwrap().fill(&sdu, &mut whole);
    let first = world.machine.gathered(&sending.gather.part(0, 48));
    assert!(world.store(Process(1), 70, &[0xee; 3]));
    let rest = world.machine.gathered(&sending.gather.part(48, usize::MAX));
    let after: Vec<bool> =
        (0..4).map(|page| world.machine.tables[&(Process(1), page)].0 == before[page as usize]).collect();
    assert_eq!(after, [true, false, true, true]);
    let walked: Vec<u8> = first.into_iter().chain(rest).collect();
    let mut cells = vec![wire::Cell::default(); whole.len()];
    Segmentation::new(circuit, walked.len(), SduMeta::default()).unwrap().fill(&walked, &mut cells);
    assert_eq!(cells, whole);
    world.spaces.complete(sending.number, &mut world.machine);
    assert_eq!(world.spaces.counts().copied, 1);
    world.check();
    world.end();
}

#[test]
fn a_writer_that_blocks_goes_on_once_the_sdu_has_left() {
    let mut world = sender(Overlap::Block);
    let sending = world.spaces.send(Process(1), 0, PAGE, &mut world.machine).unwrap();
    assert!(!world.store(Process(1), 3, &[1]));
    assert!(world.store(Process(1), PAGE as u64, &[1]), "of another page");
    world.spaces.complete(sending.number, &mut world.machine);
    assert!(world.store(Process(1), 3, &[1]));
    assert_eq!(world.spaces.counts().copied, 0);
    world.check();
}

#[test]
fn a_read_after_a_send_replaces_whole_pages_in_all_who_share_them_and_copies_none() {
    let mut world = sender(Overlap::Copy);
    world.spaces.share((Process(1), 0), 4 * PAGE, (Process(2), 8 * PAGE as u64), &mut world.machine).unwrap();
    let sending = world.spaces.send(Process(1), 0, 4 * PAGE, &mut world.machine).unwrap();
    let there = world.machine.gathered(&sending.gather);
    // From the middle of the first page to the end of the third.
    let data = vec![0x77; 5 * PAGE / 2];
    let done = world.spaces.overwrite(Process(1), PAGE as u64 / 2, &data, &mut world.machine).unwrap();
    let counts = world.spaces.counts();
    assert_eq!((done, counts.replaced, counts.copied), (data.len(), 2, 1), "the first page is overwritten in part");
    for (process, at) in [(Process(1), 0), (Process(2), 8 * PAGE as u64)] {
        assert_eq!(world.machine.read(process, at + PAGE as u64 / 2, data.len()).unwrap(), data, "{process:?}");
    }
    assert_eq!(world.machine.gathered(&sending.gather), there);
    world.spaces.complete(sending.number, &mut world.machine);
}

#[test]
fn what_is_received_is_mapped_by_whole_pages_where_it_is_aligned_and_copied_where_not() {
    for (offset, address, pages) in [(0, 0, 2), (20, 20, 1), (20, 0, 0)] {
        let mut world = sender(Overlap::Copy);
        let hold = world.spaces.hold(3).unwrap();
        let mut gather = Gather::new(PAGE);
        gather.push(hold.first, offset, 2 * PAGE);
        let at = hold.first.0 as usize * PAGE;
        world.machine.octets[at..at + 3 * PAGE].fill(0x55);
        let delivered = world.spaces.deliver(Process(1), address, &gather, &mut world.machine).unwrap();
        assert_eq!((delivered.octets, delivered.pages, delivered.copied), (2 * PAGE, pages, (2 - pages) * PAGE));
        assert_eq!(world.machine.read(Process(1), address, 2 * PAGE).unwrap(), [0x55; 2 * PAGE]);
        assert_ne!(
            world.machine.read(Process(1), address + 2 * PAGE as u64, 1).unwrap(),
            [0x55],
            "of the hold's rest nothing is seen"
        );
        world.spaces.unhold(hold);
        world.spaces.audit().unwrap();
        world.spaces.exit(Process(1), &mut world.machine);
        assert_eq!(world.spaces.free_frames(), FRAMES);
    }
}
