//! Look-up and rewriting alone, without queues: what a tap, a trace or a port that only relabels needs, and the part of
//! the switch that a copy of the same cells bounds from above.

use crate::Switch;
use crate::circuit::{Circuit, flag};
use crate::index::{EntryPlace, Outgoing, Paths};
use crate::police::{Ticks, Verdict, ticks};
use crate::profile::Profiles;
use crate::table::Table;
use wire::{Cell, Time};

/// Where a cell goes that has no circuit, is no user data, or belongs to more than one branch.
pub const NOWHERE: u16 = u16::MAX;

/// Cells that are looked up together, and looked through for rare ones.
const PART: usize = 16;
/// Parts between the fetch of an entry and its use.
const AHEAD: usize = 2;
/// Parts under way.
const PARTS: usize = 4;
/// Rare parts that are not many, beside a fourth of all.
const FEW: usize = 4;
/// Calls by circuits' lines after one with many rare parts.
const BY_LINES: u8 = 32;
const _: () = assert!(PARTS.is_power_of_two() && PARTS > AHEAD);

impl Switch {
    /// Copies cells of `port` to `out` under the labels that they leave with, and says in `ports` which port each
    /// leaves by. Cells that go [`NOWHERE`] are copied as they are. Nothing is queued, dropped or counted. Returns how
    /// many cells there were room for.
    pub fn translate(&mut self, port: u16, cells: &[Cell], out: &mut [Cell], ports: &mut [u16]) -> usize {
        let n = cells.len().min(out.len()).min(ports.len());
        if port >= self.config.ports {
            return 0;
        }
        let (port, cells) = (usize::from(port), &cells[..n]);
        let part = |at: usize| at.min(n)..(at + PART).min(n);
        let mut places = [[EntryPlace::default(); PART]; PARTS];
        (0..AHEAD).for_each(|i| self.ask(port, &cells[part(i * PART)], &mut places[i]));
        let mut rare = 0;
        for (i, at) in (0..n).step_by(PART).enumerate() {
            if self.by_lines > 0 || rare > FEW + i / 4 {
                self.by_lines = if rare > 0 { BY_LINES } else { self.by_lines - 1 };
                self.translate_by_lines(port, &cells[at..], &mut out[at..n], &mut ports[at..n]);
                break;
            }
            self.ask(port, &cells[part(at + AHEAD * PART)], &mut places[(i + AHEAD) % PARTS]);
            let (cells, out, ports) = (&cells[part(at)], &mut out[part(at)], &mut ports[part(at)]);
            if rewrite(self.index.outgoing(), cells, &places[i % PARTS], out, ports) {
                rare += 1;
                self.translate_by_lines(port, cells, out, ports);
            }
        }
        n
    }

    /// The same by circuits' lines, for what the label table alone does not tell: cells of paths, cells that go
    /// [`NOWHERE`], and labels or ports that an [`Outgoing`] entry does not hold.
    #[inline(never)]
    fn translate_by_lines(&mut self, port: usize, cells: &[Cell], out: &mut [Cell], ports: &mut [u16]) {
        self.by_windows(port, cells, false, |switch, at, words, found| {
            rewrite_by_lines(&switch.plane.circuits, &cells[at..], (words, found), &mut out[at..], &mut ports[at..]);
        });
    }

    /// Finds where the entries of cells are, and asks for those that say where the cells leave. A function of its own,
    /// so that its loop has all registers.
    #[inline(never)]
    fn ask(&self, port: usize, cells: &[Cell], places: &mut [EntryPlace; PART]) {
        let all = cells.iter().fold(0, |all, cell| all | cell.header_word());
        match self.index.paths(port).filter(|_| Paths::hold(all)) {
            Some(paths) => {
                for (cell, place) in cells.iter().zip(places) {
                    *place = paths.place_of(cell.header_word());
                    self.index.prefetch_outgoing(*place);
                }
            }
            None => {
                for (cell, place) in cells.iter().zip(places) {
                    *place = self.index.place_of(port, cell.header_word());
                    self.index.prefetch_outgoing(*place);
                }
            }
        }
    }

    /// As [`Switch::translate`], with policing: cells are counted as received and as beyond their contract, and one
    /// that is discarded goes [`NOWHERE`].
    pub fn translate_policed(
        &mut self,
        port: u16,
        cells: &[Cell],
        now: Time,
        out: &mut [Cell],
        ports: &mut [u16],
    ) -> usize {
        let n = cells.len().min(out.len()).min(ports.len());
        if port >= self.config.ports {
            return 0;
        }
        let now = ticks(now);
        self.by_windows(port.into(), &cells[..n], false, |switch, at, words, found| {
            let (circuits, profiles) = (&mut switch.plane.circuits, &switch.plane.profiles);
            police(circuits, profiles, &cells[at..], now, (words, found), &mut out[at..], &mut ports[at..]);
        });
        n
    }
}

/// Copies cells under the labels that the entries at their places say, and says by which ports they leave. Whether
/// there are others, of which these entries do not tell, or which are no user data.
#[inline(never)]
fn rewrite(outgoing: &[Outgoing], cells: &[Cell], places: &[EntryPlace], out: &mut [Cell], ports: &mut [u16]) -> bool {
    let (mut all, mut rare) = (0, false);
    for (((cell, place), out), to) in cells.iter().zip(places).zip(out).zip(ports) {
        let (word, leaves) = (cell.header_word(), outgoing[place.entry()]);
        let (leaves_as, port) = leaves.translate(word);
        out.copy_as(cell, leaves_as);
        *to = port;
        all |= word;
        rare |= leaves.is_none();
    }
    rare | (all & 8 != 0)
}

/// Copies the cells of a window under the labels of their circuits, and says by which ports they leave.
#[inline(never)]
fn rewrite_by_lines(
    circuits: &Table<Circuit>,
    cells: &[Cell],
    (words, found): (&[u32], &[u32]),
    out: &mut [Cell],
    ports: &mut [u16],
) {
    for ((((cell, word), id), out), port) in cells.iter().zip(words).zip(found).zip(out).zip(ports) {
        let (word, to) = match circuits.get(*id as usize) {
            Some(circuit) if circuit.has_one_branch() => (circuit.translate(*word), circuit.port),
            _ => (*word, NOWHERE),
        };
        out.copy_as(cell, word);
        *port = to;
    }
}

/// As [`rewrite_by_lines`], with policing and counters.
#[inline(never)]
fn police(
    circuits: &mut Table<Circuit>,
    profiles: &Profiles,
    cells: &[Cell],
    now: Ticks,
    (words, found): (&[u32], &[u32]),
    out: &mut [Cell],
    ports: &mut [u16],
) {
    const ASKED: u8 = flag::LIVE | flag::ROOT | flag::POLICED;
    for ((((cell, word), id), out), port) in cells.iter().zip(words).zip(found).zip(out).zip(ports) {
        let (word, to) = match circuits.get_mut(*id as usize) {
            // A cell below its peak rate, of a circuit that has no other: most are, and this is all that they take.
            Some(circuit) if circuit.flags & ASKED == flag::LIVE | flag::POLICED => {
                circuit.received += 1;
                let (passes, theoretical) = profiles.gate(circuit.profile).test(circuit.times[0], now);
                if passes {
                    circuit.times[0] = theoretical;
                    (circuit.translate(*word), circuit.port)
                } else {
                    judge(circuit, profiles, *word, now)
                }
            }
            Some(circuit) if circuit.has_one_branch() => {
                circuit.received += 1;
                (circuit.translate(*word), circuit.port)
            }
            _ => (*word, NOWHERE),
        };
        out.copy_as(cell, word);
        *port = to;
    }
}

/// A cell that the short test has not let pass.
#[inline(never)]
fn judge(circuit: &mut Circuit, profiles: &Profiles, word: u32, now: Ticks) -> (u32, u16) {
    let verdict = profiles.police(circuit.profile, &mut circuit.times, word & 1 != 0, now);
    circuit.excess += u32::from(verdict != Verdict::Conforms);
    match verdict {
        Verdict::Conforms => (circuit.translate(word), circuit.port),
        Verdict::Tagged => (circuit.translate(word) | 1, circuit.port),
        Verdict::Discarded => (circuit.translate(word), NOWHERE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, SwitchConfig, Transaction};
    use wire::{CellHeader, CircuitId, Label};

    #[test]
    fn calls_with_many_rare_cells_are_followed_by_some_that_begin_with_lines() {
        let config = SwitchConfig { ports: 1, ..SwitchConfig::default() };
        let (mut switch, mut change) = (Switch::new(config), Transaction::new());
        let circuit = |vpi| CircuitId::new(vpi, 32).unwrap();
        // Labels with VPIs from 256 on are rare.
        for (from, to) in [(0, 255), (1, 256)] {
            change.add((0, Label::Vc(circuit(from))), (0, Label::Vc(circuit(to))), &Profile::default());
        }
        switch.apply(change).unwrap();
        let mut translate = |rare_parts: usize| {
            let cell = |vpi| Cell::new(CellHeader { circuit: circuit(vpi), ..CellHeader::default() }, [0; 48]);
            let part = |at: usize| [cell(u16::from(at < rare_parts)); PART];
            let cells: Vec<Cell> = (0..20).flat_map(part).collect();
            let (mut out, mut ports) = (cells.clone(), vec![NOWHERE; cells.len()]);
            assert_eq!(switch.translate(0, &cells, &mut out, &mut ports), cells.len());
            let as_were =
                out.iter().zip(&cells).all(|(out, cell)| out.circuit().vpi.get() == cell.circuit().vpi.get() + 255);
            assert!(as_were && ports.iter().all(|port| *port == 0));
            switch.by_lines
        };
        assert_eq!([translate(0), translate(4)], [0, 0]);
        assert_eq!(translate(7), BY_LINES);
        for left in (0..BY_LINES).rev() {
            assert_eq!(translate(20), left);
        }
        assert_eq!(translate(20), BY_LINES);
    }
}
