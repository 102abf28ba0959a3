//! Random steps of processes that share a window while SDUs leave from it and come to it, held against a plain model: what leaves is what
//! was there at the send, what arrives is what was sent, and all processes see the same.
//!
//! A parent and up to seven children of a window, one after the other: the parent writes, sends, reads into what it has sent, and is given
//! received pages; children write, and end or are killed. Meanwhile a thread of each child writes the ends of pages, which the model
//! leaves out. Four thousand steps, a million where the environment has `CELLWAY_LONG=1`. `SHARING_SEED` repeats a failure, as far as
//! the system's order of threads lets it.

use crate::family::{
    Board, END_OCTETS, OCTETS, PAGES, PATIENCE, alone, endpoint, endpoint_to_windows, seen, share, wait,
};
use crate::lan::{Held, Lan};
use endpoint::window::PAGE;
use endpoint::{ChannelId, Endpoint, Overlap, Window};
use std::collections::VecDeque;

/// Steps of a window.
const STEPS: usize = 2000;
/// Children that there are, and that a window has had, at most.
const CHILDREN: usize = 2;
/// See there.
const MOST_CHILDREN: usize = 7;
/// SDUs on their way, at most; and while the engine stands still.
const LEAVING: usize = 6;
/// See there.
const LEAVING_HELD: usize = 3;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A place: whole pages, part of one, or anything.
    fn place(&mut self) -> (usize, usize) {
        let (first, last) = (self.below(PAGES), self.below(PAGES));
        let (first, last) = (first.min(last), first.max(last));
        let (at, end) = match self.below(4) {
            0 => (first * PAGE, (last + 1) * PAGE),
            1 => (first * PAGE, first * PAGE + 1 + self.below(PAGE)),
            2 => (first * PAGE + self.below(PAGE), first * PAGE + PAGE),
            _ => (first * PAGE + self.below(PAGE), (last + 1) * PAGE + 1 - self.below(PAGE)),
        };
        let (at, end) = (at.min(end - 1), at.max(end).min(OCTETS));
        (at, (end - at).clamp(1, 65_535))
    }

    fn octets(&mut self, octets: usize) -> Vec<u8> {
        let words = (0..octets.div_ceil(8)).flat_map(|_| self.next().to_ne_bytes());
        words.take(octets).collect()
    }
}

#[derive(Debug, Default)]
struct Done {
    sent: u64,
    delivered: u64,
    replaced: u64,
    copied: u64,
    mapped: u64,
    children: u64,
    killed: u64,
}

struct World<'a> {
    random: &'a mut Random,
    lan: &'a Lan,
    ends: [(Endpoint, ChannelId); 2],
    window: Window,
    children: Vec<(Board, libc::pid_t)>,
    free: &'a mut Vec<Board>,
    made: usize,
    plain: Vec<u8>,
    leaving: VecDeque<(usize, Vec<u8>)>,
    held: Option<Held>,
    done: &'a mut Done,
}

/// Octets of a window from `at` on that writers leave alone are the same.
fn same(at: usize, got: &[u8], wanted: &[u8]) -> bool {
    let is_end = |n: usize| (at + n) % PAGE >= PAGE - END_OCTETS;
    got.len() == wanted.len() && got.iter().zip(wanted).enumerate().all(|(n, (a, b))| a == b || is_end(n))
}

impl World<'_> {
    fn make_child(&mut self) -> bool {
        let board = self.free.pop().unwrap_or_else(Board::new);
        board.clear();
        let Some(process) = share(&self.window, board) else { return false };
        // Pages that writers have copied are not replaced any more: every other child has none that write.
        if self.made.is_multiple_of(2) {
            board.write_ends();
        }
        self.children.push((board, process));
        self.made += 1;
        self.done.children += 1;
        true
    }

    fn lose_child(&mut self) {
        let (board, process) = self.children.swap_remove(self.random.below(self.children.len()));
        if self.random.below(2) == 0 {
            self.done.killed += 1;
            // SAFETY: a child of this process's.
            assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
            assert_eq!(wait(process), libc::SIGKILL);
        } else {
            board.end();
            assert_eq!(wait(process), 0);
        }
        self.free.push(board);
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            assert!(held.release(), "somebody has waited for what was held");
        }
    }

    /// The oldest SDU arrives.
    fn receive(&mut self) {
        self.release();
        let Some((at, sdu)) = self.leaving.pop_front() else { return };
        let got = self.ends[1].0.receive(PATIENCE).unwrap().expect("an SDU");
        assert!(same(at, &got, &sdu), "{} octets from {at} on changed on their way", sdu.len());
        self.done.sent += 1;
    }

    fn send(&mut self, at: usize, octets: usize) {
        let most = if self.held.is_some() { LEAVING_HELD } else { LEAVING };
        while self.leaving.len() >= most {
            self.receive();
        }
        if self.held.is_none() && self.leaving.len() < LEAVING_HELD && self.random.below(2) == 0 {
            self.held = Some(Held::new(&self.lan.engine));
        }
        let (a, to_b) = &mut self.ends[0];
        a.send_window(*to_b, &self.window, at, octets).unwrap();
        self.leaving.push_back((at, self.plain[at..at + octets].to_vec()));
    }

    fn overwrite(&mut self, at: usize, octets: usize) {
        let data = self.random.octets(octets);
        let done = self.window.overwrite(at, &data);
        self.plain[at..at + done].copy_from_slice(&data[..done]);
    }

    /// An SDU comes to the window.
    fn deliver(&mut self, octets: usize) {
        self.release();
        let at = self.random.below((OCTETS - octets) / PAGE + 1) * PAGE;
        let [(a, _), (b, to_a)] = &mut self.ends;
        // No frames in a row: another time.
        if octets <= endpoint::layout::INLINE_OCTETS || a.post_window(&self.window, octets, 0).is_err() {
            return;
        }
        let sdu = self.random.octets(octets);
        b.send_blocking(*to_a, &sdu).unwrap();
        let given = a.receive(PATIENCE).unwrap().expect("an SDU").into_window(&self.window, 0, at).unwrap();
        self.plain[at..at + given.octets].copy_from_slice(&sdu[..given.octets]);
        self.done.delivered += 1;
    }

    fn look(&mut self) {
        let at = self.random.below(PAGES) * PAGE;
        let wanted = &self.plain[at..at + PAGE];
        let mut here = vec![0; PAGE];
        self.window.read(at, &mut here);
        assert!(same(at, &here, wanted), "the parent sees something else at {at}");
        for (board, process) in &self.children {
            assert!(same(at, &board.part(at, PAGE), wanted), "child {process} sees something else at {at}");
        }
    }

    fn step(&mut self) {
        let (at, octets) = self.random.place();
        match self.random.below(100) {
            0..22 => {
                let value = self.random.next() as u8;
                let child = self.random.below(self.children.len());
                self.children[child].0.write(at, value);
                self.plain[at] = value;
            }
            22..36 => {
                let data = self.random.octets(octets);
                self.window.write(at, &data);
                self.plain[at..at + octets].copy_from_slice(&data);
            }
            36..52 => self.overwrite(at, octets),
            52..66 => {
                self.send(at, octets);
                // A read after a send, into the same buffer.
                if self.random.below(2) == 0 {
                    self.overwrite(at, octets);
                }
            }
            66..84 => self.receive(),
            84..89 => self.deliver(octets),
            89..99 => self.look(),
            _ => {
                if self.made < MOST_CHILDREN && self.random.below(4) == 0 {
                    self.lose_child();
                    assert!(self.make_child());
                }
            }
        }
    }

    fn end(mut self) {
        while !self.leaving.is_empty() {
            self.receive();
        }
        self.release();
        assert!(same(0, &seen(&self.window), &self.plain), "the parent sees something else");
        assert!(self.ends[0].0.wait_sent(PATIENCE).unwrap());
        assert_eq!((self.window.failures(), self.window.leaving()), (0, 0));
        while !self.children.is_empty() {
            self.lose_child();
        }
        let counts = self.window.counts();
        self.done.replaced += counts.replaced;
        self.done.copied += counts.copied;
        self.done.mapped += counts.mapped;
        drop((self.window, self.ends));
        self.lan.until_free("alpha", 100);
        self.lan.until_free("beta", 100);
    }
}

#[test]
fn processes_that_share_a_window_see_the_same_and_change_nothing_that_is_leaving_in_the_long_run() {
    let _alone = alone();
    let steps = if std::env::var_os("CELLWAY_LONG").is_some() { 1_000_000 } else { 4000 };
    let seed = std::env::var("SHARING_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x00c0_ffee_u64);
    println!("SHARING_SEED={seed}");
    let lan = Lan::new();
    let (mut random, mut free, mut done) = (Random(seed), Vec::new(), Done::default());
    for _ in 0..steps / STEPS {
        let mut ends = [endpoint_to_windows(&lan, "alpha"), endpoint(&lan, "beta")];
        let window = ends[0].0.window(OCTETS, 8 * OCTETS).unwrap();
        if window.overlap() == Overlap::Block {
            return println!("not tested: {}", window.why_not().unwrap());
        }
        let mut world = World {
            random: &mut random,
            lan: &lan,
            ends,
            window,
            children: Vec::new(),
            free: &mut free,
            made: 0,
            plain: vec![0; OCTETS],
            leaving: VecDeque::new(),
            held: None,
            done: &mut done,
        };
        (0..CHILDREN).for_each(|_| assert!(world.make_child()));
        (0..STEPS).for_each(|_| world.step());
        world.end();
    }
    println!("{steps} steps: {done:?}");
    let windows = (steps / STEPS) as u64;
    assert!(done.sent > 100 * windows && done.delivered > 20 * windows && done.children > 2 * windows, "{done:?}");
    assert!(done.replaced > 20 * windows && done.copied > 20 * windows && done.mapped > 20 * windows, "{done:?}");
    assert!(done.killed > 0, "{done:?}");
}
