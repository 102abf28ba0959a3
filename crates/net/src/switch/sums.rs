//! Whether each cell and frame of a switch is accounted for: at the cell switch as a whole, and at each port beside the
//! counters of its link.

use super::{PortState, Switch};
use crate::line::{Carries, LineCounters};
use switch::PortCounters;
use wire::Counters;

/// What became of the frames of one port since its link has been there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PortSums {
    /// What had been counted when the link came.
    before: PortCounters,
    dropped_before: u64,
    /// Frames that came.
    pub(super) came: u64,
    /// Of those: passed on as they were, made into cells, and too long for any PDU.
    pub(super) whole: u64,
    cut: u64,
    pub(super) oversize: u64,
    /// The cells that they were made into.
    cells: u64,
    /// Frames, and cells in the place of frames, for this port: given to its link or dropped.
    pub(super) left: u64,
}

impl PortSums {
    pub(super) fn new(before: PortCounters, dropped_before: u64) -> Self {
        PortSums { before, dropped_before, ..PortSums::default() }
    }

    /// A frame was made into so many cells.
    pub(super) fn count_cut(&mut self, cells: usize) {
        self.cut += 1;
        self.cells += cells as u64;
    }

    /// What a gateway did with cells.
    pub(super) fn count_left(&mut self, sent: &Counters) {
        self.left += sent.pdus + sent.cells + sent.dropped_total();
    }
}

impl Switch {
    /// What is wrong if a cell is not accounted for: those that came, were copied or made have left, wait, or were dropped for
    /// a reason.
    pub fn mismatch(&self) -> Option<String> {
        let sums = self.cells.sums();
        (!sums.add_up()).then(|| format!("{sums:?}"))
    }

    /// What is wrong if what came in at a port is not what its link has delivered: its counters in this direction.
    pub fn intake_mismatch(&self, port: u16, carries: Carries, line: &LineCounters) -> Option<String> {
        let state = self.ports.get(usize::from(port))?;
        let (sums, came) = (&state.sums, line.taken(carries));
        let cells = self.cells.port_counters(port).received.cells.wrapping_sub(sums.before.received.cells);
        let dropped = state.dropped.dropped_total().wrapping_sub(sums.dropped_before);
        let right = match carries {
            Carries::Cells => came == cells,
            Carries::Frames => {
                came == sums.came && sums.came == sums.whole + sums.cut + sums.oversize + dropped && sums.cells == cells
            }
        };
        (!right).then(|| format!("port {port}: {came} came, {cells} cells were switched, {dropped} dropped: {sums:?}"))
    }

    /// What is wrong if what left by a port, or was dropped there, is not what its link was given or told: its counters in this
    /// direction.
    pub fn output_mismatch(&self, port: u16, carries: Carries, line: &LineCounters) -> Option<String> {
        let PortState { sums, told, .. } = self.ports.get(usize::from(port))?;
        let sent = self.cells.port_counters(port).sent;
        // Those since its last run are told in the next one.
        let dropped = told.dropped_total().wrapping_sub(sums.before.sent.dropped_total());
        let left = match carries {
            Carries::Cells => sent.cells.wrapping_sub(sums.before.sent.cells),
            Carries::Frames => sums.left,
        };
        let given = line.given(carries);
        (given != left.wrapping_add(dropped))
            .then(|| format!("port {port}: the link has {given}, {left} left and {dropped} were dropped: {line:?}"))
    }
}
