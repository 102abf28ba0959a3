//! Look-ups ahead of the work: while one window of cells is worked on, the lines of later windows' circuits are on
//! their way from memory, and, where the label table is large, the entries of windows behind those.
//!
//! A window's steps are loops of their own over arrays of its length, with no branch that depends on a cell, so that
//! the processor overlaps the look-ups of many cells. Whatever is rare is found out for the window as a whole.

use crate::Switch;
use crate::circuit::{flag, is_special};
use crate::index::{EntryPlace, Paths, Rare};
use wire::Cell;

/// Cells of a window, where caches hold the label table; also the longest run.
pub(crate) const WINDOW: usize = 40;
/// Cells of a window where they do not: shorter, so that fetches and work take turns more often, and the one goes on
/// while the processor is at the other.
const FAR_WINDOW: usize = 20;
/// Windows under way.
const WINDOWS: usize = 16;
/// Windows between the fetch of a circuit's line into the second-level cache and its use. It comes into the first-level cache a window
/// ahead.
const LINES_AHEAD: usize = 6;
/// Windows between the fetch of an entry of the label table and its use.
const ENTRIES_AHEAD: usize = 6;
const _: () = assert!(WINDOWS.is_power_of_two() && WINDOWS > LINES_AHEAD + ENTRIES_AHEAD && FAR_WINDOW <= WINDOW);
/// Octets of a label table that second-level caches hold beside the cells.
const NEAR_OCTETS: usize = 256 << 10;

/// Instead of a circuit's number: the cell is no user data.
pub(crate) const SPECIAL: u32 = u32::MAX;

/// One window's cells on their way through the look-up.
#[derive(Debug, Clone, Copy)]
struct Window {
    words: [u32; WINDOW],
    places: [EntryPlace; WINDOW],
    found: [u32; WINDOW],
}

/// The windows under way.
#[derive(Debug)]
pub(crate) struct LookupPipeline {
    windows: [Window; WINDOWS],
}

impl LookupPipeline {
    pub(crate) fn new() -> Box<Self> {
        let window = Window { words: [0; WINDOW], places: [EntryPlace::default(); WINDOW], found: [0; WINDOW] };
        Box::new(LookupPipeline { windows: [window; WINDOWS] })
    }
}

/// Window number `at` of `cells`, empty beyond the last.
#[inline(always)]
fn window_of<const N: usize>(cells: &[Cell], at: usize) -> &[Cell] {
    let begin = cells.len().min(at * N);
    &cells[begin..cells.len().min(begin + N)]
}

impl Switch {
    /// Calls `work` with each window of the cells of `port` in their order: where it begins, the header words, and the
    /// numbers of the circuits, whose lines were fetched ahead. `contracts`: what circuits have beside their lines as
    /// well.
    #[inline(always)]
    pub(crate) fn by_windows(
        &mut self,
        port: usize,
        cells: &[Cell],
        contracts: bool,
        work: impl FnMut(&mut Self, usize, &[u32], &[u32]),
    ) {
        let Some(mut ahead) = self.ahead.take() else { return };
        if self.index.octets() > NEAR_OCTETS {
            self.by_windows_of::<FAR_WINDOW, true>(port, cells, contracts, &mut ahead, work);
        } else {
            self.by_windows_of::<WINDOW, false>(port, cells, contracts, &mut ahead, work);
        }
        self.ahead = Some(ahead);
    }

    /// The same by windows of `N` cells; `FAR`: no cache holds the label table.
    #[inline(always)]
    fn by_windows_of<const N: usize, const FAR: bool>(
        &mut self,
        port: usize,
        cells: &[Cell],
        contracts: bool,
        ahead: &mut LookupPipeline,
        mut work: impl FnMut(&mut Self, usize, &[u32], &[u32]),
    ) {
        let windows = cells.len().div_ceil(N);
        if FAR {
            (0..windows.min(LINES_AHEAD + ENTRIES_AHEAD)).for_each(|at| self.prepare(port, cells, at, ahead));
            (0..windows.min(LINES_AHEAD)).for_each(|at| self.find(port, cells, at, ahead));
        } else {
            self.find_near(port, cells, 0, ahead);
        }
        for at in 0..windows {
            if FAR {
                self.prepare(port, cells, at + LINES_AHEAD + ENTRIES_AHEAD, ahead);
                self.find(port, cells, at + LINES_AHEAD, ahead);
            } else {
                self.find_near(port, cells, at + 1, ahead);
            }
            let n = window_of::<N>(cells, at + 1).len();
            let next = &ahead.windows[(at + 1) % WINDOWS].found[..n];
            if FAR {
                next.iter().for_each(|id| self.plane.circuits.prefetch(*id as usize));
            }
            if contracts {
                self.fetch_contracts(next);
            }
            let n = window_of::<N>(cells, at).len();
            let Window { words, found, .. } = &ahead.windows[at % WINDOWS];
            work(self, at * N, &words[..n], &found[..n]);
        }
    }

    /// Finds where the entries of window `at` are, and asks for them. A function of its own, as the other steps are, so
    /// that its loop has all registers.
    #[inline(never)]
    fn prepare(&self, port: usize, cells: &[Cell], at: usize, ahead: &mut LookupPipeline) {
        let cells = window_of::<FAR_WINDOW>(cells, at);
        let Window { words, places, .. } = &mut ahead.windows[at % WINDOWS];
        let mut all = 0;
        for (cell, word) in cells.iter().zip(words.iter_mut()) {
            *word = cell.header_word();
            all |= *word;
        }
        match self.index.paths(port).filter(|_| Paths::hold(all)) {
            Some(paths) => {
                for (word, place) in words[..cells.len()].iter().zip(places) {
                    *place = paths.place_of(*word);
                    self.index.prefetch(*place);
                }
            }
            None => {
                for (word, place) in words[..cells.len()].iter().zip(places) {
                    *place = self.index.place_of(port, *word);
                    self.index.prefetch(*place);
                }
            }
        }
    }

    /// Reads those entries, and asks for the circuits' lines.
    #[inline(never)]
    fn find(&self, port: usize, cells: &[Cell], at: usize, ahead: &mut LookupPipeline) {
        let n = window_of::<FAR_WINDOW>(cells, at).len();
        let Window { words, places, found } = &mut ahead.windows[at % WINDOWS];
        let (mut all, mut rare) = (0, Rare::default());
        for ((word, place), found) in words[..n].iter().zip(places).zip(found.iter_mut()) {
            *found = self.index.channel(*place);
            rare.note(*found);
            all |= *word;
            self.plane.circuits.prefetch_early(*found as usize);
        }
        if rare.any() | (all & 8 != 0) {
            self.find_each(port, &words[..n], &mut found[..n]);
        }
    }

    /// Both steps in one, for a label table that caches hold.
    #[inline(never)]
    fn find_near(&self, port: usize, cells: &[Cell], at: usize, ahead: &mut LookupPipeline) {
        let cells = window_of::<WINDOW>(cells, at);
        let Window { words, found, .. } = &mut ahead.windows[at % WINDOWS];
        let mut all = 0;
        for (cell, word) in cells.iter().zip(words.iter_mut()) {
            *word = cell.header_word();
            all |= *word;
        }
        let (words, found) = (&words[..cells.len()], &mut found[..cells.len()]);
        let mut rare = Rare::default();
        if let Some(paths) = self.index.paths(port).filter(|_| Paths::hold(all)) {
            for (word, found) in words.iter().zip(found.iter_mut()) {
                *found = self.index.channel(paths.place_of(*word));
                rare.note(*found);
                self.plane.circuits.prefetch(*found as usize);
            }
        } else {
            for (word, found) in words.iter().zip(found.iter_mut()) {
                *found = self.index.channel(self.index.place_of(port, *word));
                rare.note(*found);
                self.plane.circuits.prefetch(*found as usize);
            }
        }
        if rare.any() | (all & 8 != 0) {
            self.find_each(port, words, found);
        }
    }

    /// Asks for the contracts of circuits whose lines have come.
    #[inline(never)]
    fn fetch_contracts(&self, found: &[u32]) {
        for id in found {
            if let Some(circuit) = self.plane.circuits.get(*id as usize).filter(|circuit| circuit.is(flag::MANAGED)) {
                self.plane.contracts.prefetch(circuit.side);
            }
        }
    }

    /// Finishes what has no channel of its own, or is no user data.
    #[cold]
    fn find_each(&self, port: usize, words: &[u32], found: &mut [u32]) {
        for (word, found) in words.iter().zip(found) {
            if is_special(*word) {
                *found = SPECIAL;
            } else if *found == 0 {
                *found = self.index.path(port, word >> 20);
                self.plane.circuits.prefetch(*found as usize);
            }
        }
    }
}
