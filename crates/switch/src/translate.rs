//! Look-up and rewriting alone, without queues: what a tap, a trace or a port that only relabels needs, and the part of the
//! switch that a copy of the same cells bounds from above.

use crate::Switch;
use crate::circuit::{Circuit, flag};
use crate::police::{Ticks, Verdict, ticks};
use crate::profile::Profiles;
use wire::{Cell, Time};

/// Where a cell goes that has no circuit, is no user data, or belongs to more than one branch.
pub const NOWHERE: u16 = u16::MAX;

impl Switch {
    /// Copies cells of `port` to `out` under the labels that they leave with, and says in `ports` which port each leaves
    /// by. Cells that go [`NOWHERE`] are copied as they are. Nothing is queued, dropped or counted. Returns how many cells
    /// there were room for.
    pub fn translate(&mut self, port: u16, cells: &[Cell], out: &mut [Cell], ports: &mut [u16]) -> usize {
        let n = cells.len().min(out.len()).min(ports.len());
        if port >= self.config.ports {
            return 0;
        }
        self.by_windows(port.into(), &cells[..n], false, |switch, at, words, found| {
            rewrite(&switch.plane.circuits, &cells[at..], (words, found), &mut out[at..], &mut ports[at..]);
        });
        n
    }

    /// As [`Switch::translate`], with policing: cells are counted as received and as beyond their contract, and one that is
    /// discarded goes [`NOWHERE`].
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

/// Copies the cells of a window under the labels of their circuits, and says by which ports they leave.
#[inline(never)]
fn rewrite(
    circuits: &[Circuit],
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

/// As [`rewrite`], with policing and counters.
#[inline(never)]
fn police(
    circuits: &mut [Circuit],
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
