//! Policing at the input: each cell of a policed circuit is tested at the time at which it came in.

use crate::arrival::{Arrival, Batch, FrameSoFar};
use crate::circuit::ends_pdu;
use crate::frames::FrameCell;
use crate::police::{Ticks, Train, Verdict};
use crate::profile::Profile;
use crate::{CellPlane, Outputs, Switch};
use wire::cell::run_length;
use wire::{Cell, DropReason, Time};

impl Switch {
    /// Says how the cells of a port are timed for policing; unless told, all cells of a batch come together.
    pub fn set_arrival(&mut self, port: u16, arrival: Arrival) {
        if let Some(port) = self.plane.ports.get_mut(usize::from(port)) {
            port.arrival = arrival;
        }
    }

    /// As [`Switch::handle_cells`] for the cells of one frame, which came at once on a link that carries frames.
    /// Policing tests the first; the others move the schedules without being tested.
    pub fn handle_frame(&mut self, port: u16, cells: &[Cell], now: Time, outputs: &mut impl Outputs) {
        self.framed = true;
        self.handle_cells(port, cells, now, outputs);
        self.framed = false;
        self.plane.batch.frame = None;
    }
}

impl CellPlane {
    /// Takes note of when the cells of a batch came in, and lets go what is due by now.
    #[inline]
    pub(crate) fn begin_batch(&mut self, port: usize, cells: &[Cell], now: Time) {
        self.release_due(now);
        let port = &mut self.ports[port];
        self.batch = Batch::new(port.arrival, cells, std::mem::replace(&mut port.last_batch, now), now);
    }

    /// Tests each cell, and hands on what conforms in runs.
    pub(crate) fn police(&mut self, id: u32, cells: &[Cell], now: Time, outputs: &mut impl Outputs) {
        let mut rest = cells;
        while let Some(first) = rest.first() {
            let together = self.test_together(id, rest);
            if together > 0 {
                let (run, later) = rest.split_at(together);
                self.branch(id, run, 0, now, outputs);
                rest = later;
                continue;
            }
            let verdict = self.test(id, first);
            let mut n = 1;
            while let Some(cell) = rest.get(n) {
                // A test that has another result is made again for the run that it begins.
                let before = self.circuits[id as usize].times;
                if self.test(id, cell) != verdict {
                    self.circuits[id as usize].times = before;
                    break;
                }
                n += 1;
            }
            let (run, later) = rest.split_at(n);
            rest = later;
            let circuit = &mut self.circuits[id as usize];
            match verdict {
                Verdict::Conforms => self.branch(id, run, 0, now, outputs),
                Verdict::Tagged => {
                    circuit.excess = circuit.excess.wrapping_add(n as u32);
                    self.branch(id, run, 1, now, outputs);
                }
                Verdict::Discarded => {
                    circuit.excess = circuit.excess.wrapping_add(n as u32);
                    if let Some(side) = self.contract_of(id) {
                        let policed = &mut self.contracts.tally_mut(side).policed;
                        *policed = policed.wrapping_add(n as u64);
                    }
                    self.lose(id, run, DropReason::NonConforming);
                }
            }
        }
    }

    /// Tests cells at the beginning of a run together; how many have passed as conforming. None: they are tested one by
    /// one.
    fn test_together(&mut self, id: u32, cells: &[Cell]) -> usize {
        if cells.len() == 1 {
            return 0;
        }
        let circuit = &mut self.circuits[id as usize];
        // Of a frame only the first cell is tested.
        let police = self.profiles.get(circuit.profile).police.as_ref();
        let Some(police) = police.filter(|_| self.batch.frame.is_none()) else { return 0 };
        let word = cells[0].header_word();
        // Of one priority, so far as that matters.
        let (cells, clp) = (&cells[..run_length(cells, word, 0b110)], word & 1 != 0);
        let batch = &self.batch;
        match batch.step_of(cells) {
            Some(step) => {
                let train = Train { first: batch.time_of(&cells[0]), step, cells: cells.len() };
                police.arrive_together(&mut circuit.times, clp, train)
            }
            None => {
                let times = cells.iter().map(|cell| batch.time_of(cell));
                police.arrive_one_by_one(&mut circuit.times, clp, times)
            }
        }
    }

    #[inline]
    fn test(&mut self, id: u32, cell: &Cell) -> Verdict {
        let circuit = &mut self.circuits[id as usize];
        let profile = self.profiles.get(circuit.profile);
        let (word, now): (u32, Ticks) = (cell.header_word(), self.batch.time_of(cell));
        if let Some(frame) = self.batch.frame {
            let verdict = match frame.first {
                Some(Verdict::Discarded) => return Verdict::Discarded,
                Some(_) => profile.follow(&mut circuit.times, word, now),
                None => profile.test(&mut circuit.times, word, now),
            };
            let first = frame.first.or(Some(verdict));
            self.batch.frame = Some(FrameSoFar { first });
            return verdict;
        }
        profile.test(&mut circuit.times, word, now)
    }
}

impl Profile {
    /// Tests a cell of header `word` that came at `now`.
    #[inline(always)]
    fn test(&self, times: &mut [Ticks; 2], word: u32, now: Ticks) -> Verdict {
        let clp = word & 1 != 0;
        match (&self.police, &self.frames) {
            (Some(police), _) => police.arrive(times, clp, now),
            (None, Some(frames)) => {
                let end = (word & 8 == 0).then(|| ends_pdu(word));
                frames.arrive(times, FrameCell { clp, end }, now)
            }
            (None, None) => Verdict::Conforms,
        }
    }

    /// A cell behind the first of a frame, which conformed: it counts as having come when it conforms, so that the
    /// frame after this one waits for all of it.
    fn follow(&self, times: &mut [Ticks; 2], word: u32, now: Ticks) -> Verdict {
        let both = self.police.is_some_and(|police| police.sustainable.is_some());
        let ahead = |theoretical: Ticks| (theoretical.wrapping_sub(now) as i64).max(0);
        let ahead = ahead(times[0]).max(if both { ahead(times[1]) } else { 0 });
        self.test(times, word, now.wrapping_add_signed(ahead))
    }
}
