//! Room for management cells (OAM, I.610): they are not lost to data, nor data to them.
//!
//! They wait in their circuit's queue, in the order in which they came: a monitoring cell must stay behind the user
//! cells that it counts, and an AIS cell ahead of user cells would begin an alarm that these end. Their room at a port
//! is apart from that of data. Half of it is for the first cell of each circuit only. `docs/switch.md` publishes the
//! rules.

use crate::circuit::Circuit;
use crate::{CellPlane, Outputs};
use wire::{Cell, DropReason};

/// Further cells of a circuit may have this part of what is free of a port's room for such, so that some is always left
/// for others (dynamic thresholds, Choudhury and Hahne 1998).
const PART: u32 = 16;

/// What management cells take of a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    waiting: u32,
    /// Of those that wait: all beyond the first of each circuit.
    further: u32,
    limit: u32,
}

impl Room {
    pub(crate) const fn new(limit: u32) -> Self {
        Room { waiting: 0, further: 0, limit }
    }

    /// Cells that wait.
    pub(crate) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether there is room for another one of a circuit.
    pub(crate) const fn has_room(&self, circuit: &Circuit) -> bool {
        let share = (self.limit / 2 - self.further) / PART;
        let further = circuit.management < u8::MAX && (circuit.management as u32) < share;
        self.waiting < self.limit && (circuit.management == 0 || further) && circuit.queued < u16::MAX
    }

    /// One of a circuit is queued.
    pub(crate) const fn queue(&mut self, circuit: &mut Circuit) {
        self.waiting += 1;
        self.further += (circuit.management > 0) as u32;
        circuit.management += 1;
    }

    /// One of a circuit leaves.
    pub(crate) const fn leave(&mut self, circuit: &mut Circuit) {
        self.waiting -= 1;
        circuit.management -= 1;
        self.further -= (circuit.management > 0) as u32;
    }

    /// Those of a circuit are dropped.
    pub(crate) const fn forget(&mut self, circuit: &Circuit) {
        self.waiting -= circuit.management as u32;
        self.further -= circuit.management.saturating_sub(1) as u32;
    }
}

impl CellPlane {
    /// Accepts or drops a management cell of a circuit without credits.
    #[inline(never)]
    pub(crate) fn admit_management(&mut self, id: u32, cell: &Cell, tag: u32, outputs: &mut impl Outputs) {
        let circuit = &mut self.circuits[id as usize];
        let port = &mut self.ports[usize::from(circuit.port)];
        let reason = match port.up {
            true if port.management.has_room(circuit) => {
                self.place(id, std::slice::from_ref(cell), tag, outputs);
                return;
            }
            true => DropReason::ManagementFull,
            false => DropReason::LinkDown,
        };
        circuit.dropped = circuit.dropped.wrapping_add(1);
        port.counters.sent.drop_one(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues cells of a circuit while there is room; gives how many.
    fn fill(room: &mut Room, circuit: &mut Circuit) -> u32 {
        let mut n = 0;
        while room.has_room(circuit) {
            room.queue(circuit);
            circuit.queued += 1;
            n += 1;
        }
        n
    }

    #[test]
    fn first_cells_of_circuits_fill_the_room_and_nothing_goes_beyond_it() {
        let mut room = Room::new(5);
        let mut circuits = [(); 6].map(|()| Circuit::default());
        assert_eq!(circuits.each_mut().map(|circuit| fill(&mut room, circuit)), [1, 1, 1, 1, 1, 0]);
        assert_eq!((room.waiting(), room.further), (5, 0));
    }

    #[test]
    fn further_cells_of_a_circuit_have_a_part_of_what_is_free_of_half_the_room() {
        // 160 for further cells: the first circuit has 8 of them, since (160 - 8) / 16 is no more above the 9 that it
        // has.
        let mut room = Room::new(320);
        let mut circuits = [(); 3].map(|()| Circuit::default());
        assert_eq!(circuits.each_mut().map(|circuit| fill(&mut room, circuit)), [9, 9, 8]);
        assert_eq!((room.waiting(), room.further), (26, 23));
        // A circuit whose first cell waits may have no other one while what others have leaves it no part.
        room.further = 160;
        let mut late = Circuit::default();
        assert_eq!(fill(&mut room, &mut late), 1);
    }

    #[test]
    fn what_leaves_or_is_dropped_leaves_the_room_as_it_was() {
        let mut room = Room::new(320);
        let mut circuits = [(); 2].map(|()| Circuit::default());
        let n = circuits.each_mut().map(|circuit| fill(&mut room, circuit));
        (0..n[0]).for_each(|_| room.leave(&mut circuits[0]));
        assert_eq!((room.waiting(), room.further, circuits[0].management), (n[1], n[1] - 1, 0));
        room.forget(&circuits[1]);
        assert_eq!((room.waiting(), room.further), (0, 0));
        room.forget(&Circuit::default());
        assert_eq!((room.waiting(), room.further), (0, 0));
    }

    #[test]
    fn a_circuits_counts_of_cells_do_not_overflow() {
        let mut room = Room::new(1 << 20);
        assert_eq!(fill(&mut room, &mut Circuit::default()), u32::from(u8::MAX));
        let mut full = Circuit { queued: u16::MAX, ..Circuit::default() };
        assert_eq!(fill(&mut room, &mut full), 0);
        full.management = 1;
        assert!(!full.has_room(1, u16::MAX), "its bound for data has room, and its queue has none");
    }
}
