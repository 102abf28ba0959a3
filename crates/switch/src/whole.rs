//! Whole PDUs that pass without becoming cells: decided about as their cells would be, all at once.

use crate::arrival::Arrival;
use crate::circuit::{Frame, flag};
use crate::forward::count_cells;
use crate::police::Train;
use crate::{CellPlane, Switch};
use wire::Time;

/// PDUs of one circuit, whose cells came one right after another: user data without CLP and EFCI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// The header of their cells but for the last of each.
    pub header_word: u32,
    /// Cells that they are.
    pub cells: usize,
    /// PDUs.
    pub pdus: usize,
}

impl Switch {
    /// Passes PDUs that came in at `port` if each of their cells would be sent at once: gives the port by which they
    /// leave, and the header of their cells there. All is counted then. `room` says how many cells the link of a port
    /// takes. `None`: nothing has changed, and the cells are to be given to [`Switch::handle_cells`].
    pub fn pass_whole(
        &mut self,
        port: u16,
        whole: Whole,
        now: Time,
        room: impl FnOnce(u16) -> usize,
    ) -> Option<(u16, u32)> {
        let input = usize::from(port);
        self.plane.ports.get(input)?;
        let id = self.index.find(input, whole.header_word);
        if id == 0 {
            return None;
        }
        self.plane.turn_epoch(now);
        self.plane.begin_whole(input, now);
        let (out, word) = self.plane.pass_whole(id, whole, now, room)?;
        let received = &mut self.plane.ports[input].counters.received;
        received.cells = received.cells.wrapping_add(whole.cells as u64);
        Some((out, word))
    }
}

impl CellPlane {
    fn pass_whole(&mut self, id: u32, whole: Whole, now: Time, room: impl FnOnce(u16) -> usize) -> Option<(u16, u32)> {
        let Whole { header_word, cells, pdus } = whole;
        let circuit = &self.circuits[id as usize];
        let at = usize::from(circuit.port);
        let free = circuit.queued == 0 && self.ports[at].is_idle() && circuit.frame == Frame::Between;
        if !free || circuit.sent_part || circuit.is(flag::ROOT) || room(circuit.port) < cells {
            return None;
        }
        match circuit.is(flag::CREDIT) {
            true if (self.credits.get(circuit.side).sender.room() as usize) < cells => return None,
            true => {}
            false if !self.would_admit(id, cells) => return None,
            false => {}
        }
        if self.circuits[id as usize].is(flag::POLICED) && !self.conform(id, cells) {
            return None;
        }
        let circuit = &mut self.circuits[id as usize];
        let passed = (circuit.port, circuit.translate(header_word));
        circuit.received = circuit.received.wrapping_add(cells as u64);
        if circuit.is(flag::CREDIT) {
            let side = circuit.side;
            self.credits.get(side).receiver.received(cells as u32);
            self.count_forwarded(id, cells as u32, now);
        }
        count_cells(&mut self.ports[at].counters.sent, cells as u64, pdus as u64);
        Some(passed)
    }

    /// Whether cells of a circuit without credits would be accepted and sent at once, policing apart.
    fn would_admit(&self, id: u32, cells: usize) -> bool {
        let circuit = &self.circuits[id as usize];
        let profile = self.profiles.get(circuit.profile);
        if self.contract_of(id).is_some() && profile.shape.is_some_and(|shape| shape.is_paced()) {
            return false;
        }
        let port = &self.ports[usize::from(circuit.port)];
        let calm = || profile.calm_cells().is_some_and(|most| port.used + cells as u32 <= most);
        if circuit.is(flag::MANAGED) && profile.has_policy() && !calm() {
            return false;
        }
        let more = cells as u32 + u32::from(profile.pdu_cells.filter(|_| circuit.is(flag::PDUS)).unwrap_or_default());
        port.committed() + more <= port.limit_of(profile) && more <= u32::from(profile.queue_cells)
    }

    /// Tests cells that came together, if all of them conform; else nothing has changed.
    fn conform(&mut self, id: u32, cells: usize) -> bool {
        let circuit = &mut self.circuits[id as usize];
        let Some(police) = &self.profiles.get(circuit.profile).police else { return false };
        let before = circuit.times;
        let train = Train { first: self.batch.now(), step: 0, cells };
        let conform = police.arrive_together(&mut circuit.times, false, train) == cells;
        if !conform {
            circuit.times = before;
        }
        conform
    }

    /// PDUs come together, at a port whose cells are not spaced.
    fn begin_whole(&mut self, port: usize, now: Time) {
        self.release_due(now);
        let port = &mut self.ports[port];
        port.last_batch = now;
        self.batch = crate::arrival::Batch::new(Arrival::Together, &[], now, now);
    }
}
