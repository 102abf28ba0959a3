//! How long the hardware's stages take per cell (checklist B-14, B-18, B-20, B-21), for models of it.

use core::time::Duration;

/// Bits of a cell on the line.
const CELL_BITS: f64 = 424.0;

/// The time of each stage, in the worst case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Cell Manager: clocked by the line, exactly one cell time.
    pub cell_manager: Duration,
    /// CAM Lookup Controller.
    pub lookup: Duration,
    /// Linked List Manager, each operation.
    pub lists: Duration,
    /// Reassembly buffer: a body in from the FIFO; clocked by the line as well.
    pub store: Duration,
    /// Reassembly buffer: a body out to the bus.
    pub fetch: Duration,
}

impl Stages {
    /// The published hardware on OC-3c.
    pub const PUBLISHED: Stages = Stages {
        cell_manager: Duration::from_nanos(2_700),
        lookup: Duration::from_nanos(11 * 50),
        lists: Duration::from_nanos(13 * 50),
        store: Duration::from_nanos(2_400),
        fetch: Duration::from_nanos(1_200),
    };

    /// What the stages that are not clocked by the line let through, in bit/s of whole cells, while the host reads
    /// `reads_per_cell` cells for each that arrives (B-37): the list manager serves both.
    pub fn limit_bits_per_s(&self, reads_per_cell: f64) -> f64 {
        let lists = self.lists.as_secs_f64() * (1.0 + reads_per_cell);
        CELL_BITS / lists.max(self.lookup.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_manager_bounds_the_pipeline_at_the_published_650_mbit_s_and_at_half_with_host_drains() {
        let limit = Stages::PUBLISHED.limit_bits_per_s(0.0);
        assert!((limit / 1e6 - 652.3).abs() < 0.1, "{limit}");
        assert!((Stages::PUBLISHED.limit_bits_per_s(1.0) * 2.0 - limit).abs() < 1.0);
    }
}
