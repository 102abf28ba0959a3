//! The element's ports during one run: what was taken and put there gets to the links when the run is over, at once.

use net::NodeIo;
use wire::Cell;

/// Cells of a run at a port that its links do not know of yet.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    taken: usize,
    put: usize,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Ports {
    moved: Vec<Moved>,
}

impl Ports {
    /// So many ports.
    pub(super) fn new(ports: usize) -> Self {
        Ports { moved: vec![Moved::default(); ports] }
    }

    /// Has `take` see the cells that wait at a port, `most` at most; how many there were.
    pub(super) fn take(&mut self, port: usize, most: usize, io: &mut NodeIo<'_>, mut take: impl FnMut(&Cell)) -> usize {
        let moved = &mut self.moved[port];
        let mut seen = 0;
        loop {
            let cells = io.cells_in(port);
            let side = cells.len();
            let wait = &cells[moved.taken.min(side)..];
            let n = wait.len().min(most - seen);
            wait[..n].iter().for_each(&mut take);
            seen += n;
            moved.taken += n;
            if seen == most || moved.taken == 0 || moved.taken < side {
                return seen;
            }
            // All that lie side by side are taken: others may lie at the ring's beginning.
            io.consume(port, core::mem::take(&mut moved.taken));
        }
    }

    /// Puts a cell on the link at a port; false if there is no room, or no link.
    pub(super) fn put(&mut self, port: usize, cell: &Cell, io: &mut NodeIo<'_>) -> bool {
        let moved = &mut self.moved[port];
        if let Some(slot) = io.cells_out(port).get_mut(moved.put) {
            *slot = *cell;
            moved.put += 1;
            return true;
        }
        if moved.put == 0 {
            return false;
        }
        // No room side by side: there may be some at the ring's beginning.
        io.commit(port, core::mem::take(&mut moved.put));
        io.put_cell(port, cell)
    }

    /// The run is over.
    pub(super) fn finish(&mut self, io: &mut NodeIo<'_>) {
        for (port, moved) in self.moved.iter_mut().enumerate() {
            let Moved { taken, put } = core::mem::take(moved);
            if taken > 0 {
                io.consume(port, taken);
            }
            if put > 0 {
                io.commit(port, put);
            }
        }
    }
}
