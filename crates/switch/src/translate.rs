//! Look-up and rewriting alone, without queues: what a tap, a trace or a port that only relabels needs, and the part of the
//! switch that a copy of the same cells bounds from above.

use crate::circuit::flag;
use crate::forward::{FAR, NEAR, RING, SPECIAL};
use crate::police::{Verdict, ticks};
use crate::{Switch, prefetch};
use wire::{Cell, Time};

/// Where a cell goes that has no circuit, is no user data, or belongs to more than one branch.
pub const NOWHERE: u16 = u16::MAX;

impl Switch {
    /// Copies cells of `port` to `out` under the labels that they leave with, and says in `ports` which port each leaves
    /// by. Cells that go [`NOWHERE`] are copied as they are. Nothing is queued, dropped or counted. Returns how many cells
    /// there were room for.
    pub fn translate(&self, port: u16, cells: &[Cell], out: &mut [Cell], ports: &mut [u16]) -> usize {
        let n = cells.len().min(out.len()).min(ports.len());
        if port >= self.config.ports {
            return 0;
        }
        self.look_up_ahead(port, &cells[..n], |i, id| {
            let circuit = &self.plane.circuits[if id == SPECIAL { 0 } else { id as usize }];
            let one = circuit.flags & (flag::LIVE | flag::ROOT) == flag::LIVE;
            let word = cells[i].header_word();
            out[i].copy_as(&cells[i], if one { circuit.translate(word) } else { word });
            ports[i] = if one { circuit.port } else { NOWHERE };
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
        let mut ahead = [0; RING];
        let mut places = [Default::default(); RING];
        let input = usize::from(port);
        for i in 0..n + FAR {
            if let Some(cell) = cells[..n].get(i) {
                places[i % RING] = self.index.prepare(input, cell.header_word());
            }
            if i + NEAR >= FAR
                && let Some(cell) = cells[..n].get(i + NEAR - FAR)
            {
                let id = self.number(input, cell.header_word(), places[(i + NEAR - FAR) % RING]);
                prefetch::line(&self.plane.circuits, id as usize);
                ahead[(i + NEAR - FAR) % RING] = id;
            }
            let Some(i) = i.checked_sub(FAR) else { continue };
            let id = ahead[i % RING];
            let circuit = &mut self.plane.circuits[if id == SPECIAL { 0 } else { id as usize }];
            let one = circuit.flags & (flag::LIVE | flag::ROOT) == flag::LIVE;
            let word = cells[i].header_word();
            let mut verdict = Verdict::Conforms;
            if circuit.is(flag::POLICED)
                && let Some(police) = &self.plane.profiles.get(circuit.profile).police
            {
                verdict = police.arrive(&mut circuit.times, word & 1 != 0, now);
            }
            circuit.received += 1;
            circuit.excess += u32::from(verdict != Verdict::Conforms);
            let tag = u32::from(verdict == Verdict::Tagged);
            out[i].copy_as(&cells[i], if one { circuit.translate(word) | tag } else { word });
            ports[i] = if one && verdict != Verdict::Discarded { circuit.port } else { NOWHERE };
        }
        n
    }
}
