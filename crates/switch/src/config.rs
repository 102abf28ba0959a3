//! The bounds of a switch. All memory follows from them, and is reserved when the switch is made.

use crate::index::PAGE_OCTETS;
use crate::profile::Class;

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Ports 0 to `ports` - 1.
    pub ports: u16,
    /// Circuits, in one direction each, at most 8 388 607. A point-to-multipoint circuit counts once for its root and
    /// once for each leaf.
    pub circuits: u32,
    /// Pages of the label table, of 768 octets and 1 KiB each. A page holds 256 neighbouring VCIs.
    pub index_pages: u32,
    /// Cells that may be queued at one port, circuits with credits apart.
    pub queue_cells: u32,
    /// Cells that circuits with credits may have queued in all: the sum of their windows.
    pub credit_cells: u32,
    /// Cells of the switch's own that may wait at one port: answers to OAM cells, ends of PDUs of removed circuits.
    pub control_cells: u16,
    /// OAM cells that may be queued at one port: half of them may be others than the first of a circuit. They take no
    /// room from data, nor data from them.
    pub management_cells: u32,
    /// Different profiles of circuits.
    pub profiles: u16,
    /// Where the incarnations of circuits with credits begin to count. A restarted switch begins elsewhere, by chance.
    pub incarnation: u16,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        SwitchConfig {
            ports: 64,
            circuits: 65_536,
            index_pages: 8192,
            queue_cells: 16_384,
            credit_cells: 65_536,
            control_cells: 256,
            management_cells: 8192,
            profiles: 4096,
            incarnation: 0,
        }
    }
}

impl SwitchConfig {
    /// Cells in the store: the sum of the bounds of the ports, and the cells for windows.
    pub const fn store_cells(&self) -> usize {
        let of_port = self.queue_cells as usize + self.management_cells as usize;
        self.ports as usize * of_port + self.credit_cells as usize
    }

    /// Numbers of circuits that may wait in queues.
    pub(crate) fn waiting(&self) -> usize {
        self.store_cells().min(self.circuits as usize) * 2
    }

    /// Queues of them.
    pub(crate) fn queues(&self) -> usize {
        usize::from(self.ports) * Class::COUNT
    }

    /// Octets of memory at most, in the order: circuits (line), label table (pages with their use),
    /// pages beside these that say where cells leave, label table of circuits with credits, cell store (cells, free
    /// places), queues of waiting circuits, cells of the switch's own. A circuit with a contract has at most 256 octets
    /// beside its line, which are not in this sum.
    pub const fn max_octets(&self) -> usize {
        let pages = self.index_pages as usize * (PAGE_OCTETS + 2 + 4);
        let queues = self.ports as usize * Class::COUNT;
        self.circuits as usize * 64
            + pages
            + self.index_pages as usize * 1024
            + pages
            + self.store_cells() * (64 + 4)
            + (self.store_cells() * 2 / 15 + 2 * queues) * 64
            + self.ports as usize * self.control_cells as usize * 64
    }
}
