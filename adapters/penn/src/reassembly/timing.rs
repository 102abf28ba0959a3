//! How long the hardware's stages take per cell, as the paper
//! states them. [`super::units`] arrives at the same by doing what each stage does.

use core::time::Duration;

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
}
