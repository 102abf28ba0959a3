//! Whether each cell and frame of a switch is accounted for: at the cell switch as a whole, and at each port beside the
//! counters of its link.

use super::{PortState, SwitchElement};
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

/// Cells and PDUs that passed or were dropped.
pub(super) fn over(counters: &Counters) -> u64 {
    counters.cells.wrapping_add(counters.pdus).wrapping_add(counters.dropped_total())
}

impl SwitchElement {
    /// What is wrong if a cell is not accounted for: those that came, were copied or made have left, wait, or were
    /// dropped for a reason, at the switch and at each branch of a route; so have frames, and PDUs that a gateway makes
    /// of cells.
    pub fn mismatch(&self) -> Option<String> {
        let sums = self.cells.sums();
        let of_cells = (!sums.add_up()).then(|| format!("{sums:?}"));
        of_cells.or_else(|| self.route_mismatch()).or_else(|| self.frames_mismatch())
    }

    /// What is wrong if cells that the cell switch took for a route have not gone to each branch that was there, do not
    /// wait there, and were not dropped there.
    fn route_mismatch(&self) -> Option<String> {
        self.routes.iter().flatten().find_map(|route| {
            let known = self.cells.route((route.port, route.label))?;
            let (came, branch) = (known.counters.received, known.mismatch()?);
            Some(format!("{came} cells of port {} {:?}: {branch:?}", route.port, route.label))
        })
    }

    /// What is wrong if frames of a route that passed whole, or PDUs that its cells became at the gateway of a frame
    /// port, have neither left nor been dropped, and have ended.
    fn frames_mismatch(&self) -> Option<String> {
        self.routes.iter().zip(0..).find_map(|(route, index)| {
            let route = route.as_ref()?;
            let (mut came, mut went) = (route.units, route.received.all().dropped_total());
            for branch in &route.branches {
                let (begun, open) = self.leaving_of(index, branch);
                came = came.wrapping_add(begun);
                went = went.wrapping_add(open).wrapping_add(over(&branch.sent.all()));
            }
            (came != went).then(|| format!("{came} frames and PDUs, {went} left, open or dropped: {route:?}"))
        })
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

    /// What is wrong if what left by a port, or was dropped there, is not what its link was given or told: its counters
    /// in this direction.
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
