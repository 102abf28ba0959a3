//! Whether each cell of a desk is accounted for: at each chip, on the links between them, and at the desk as a whole.

use super::{Desk, Joined};
use crate::{Port, Sums};

/// What became of all cells of a desk, chips that are no more included. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeskSums {
    /// What all chips have counted.
    pub chips: Sums,
    /// Cells that came in at the desk's ports.
    pub entered: u64,
    /// Cells that left by them.
    pub left: u64,
}

impl DeskSums {
    /// Whether each cell that came in, or was made inside, has left, waits, ended here or was dropped for a reason.
    pub fn add_up(&self) -> bool {
        let DeskSums { chips, entered, left } = self;
        // What one chip sends another is the rest on both sides.
        chips.add_up() && chips.received.cells.wrapping_sub(*entered) == chips.sent.cells.wrapping_sub(*left)
    }
}

impl Desk {
    /// What became of all cells.
    pub fn sums(&self) -> DeskSums {
        let mut sums = DeskSums { chips: self.former, entered: self.entered, left: self.left };
        self.chips.iter().for_each(|chip| sums.chips.add(&chip.sums()));
        sums
    }

    /// What is wrong if a cell is not accounted for: at a chip, between two, or at the desk.
    pub fn mismatch(&self) -> Option<String> {
        let of_chip = self.chips.iter().enumerate().find_map(|(n, chip)| {
            let sums = chip.sums();
            (!sums.add_up()).then(|| format!("chip {n}: {sums:?}"))
        });
        let sums = self.sums();
        of_chip.or_else(|| self.link_mismatch()).or_else(|| (!sums.add_up()).then(|| format!("{sums:?}")))
    }

    /// What is wrong if a chip has not received what another has sent it.
    fn link_mismatch(&self) -> Option<String> {
        self.joined.iter().enumerate().find_map(|(n, joined)| {
            Port::ALL.into_iter().zip(joined).find_map(|(port, to)| {
                let Joined::Chip(next, into) = *to else { return None };
                let (sent, came) = (self.chips[n].sent(port).cells, self.chips[next].received(into).cells);
                (sent != came).then(|| format!("chip {n} sent {sent} cells by {port:?}, chip {next} received {came}"))
            })
        })
    }
}
