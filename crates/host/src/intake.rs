//! What came in at a host's ports. Each cell or frame that a link has delivered is counted here once: as taken, by an
//! endpoint or by the host itself (management, credit cells), or as dropped before that, for a reason.
//!
//! From there on endpoints and circuits count PDUs.

use wire::{Counters, DropReason};

/// The counts by port.
#[derive(Debug, Default)]
pub(crate) struct Intake(Vec<Counters>);

impl Intake {
    /// Another link is at a port, or none: its counters begin at zero, and so do these.
    pub(crate) fn begin(&mut self, port: usize) {
        self.0.resize(self.0.len().max(port + 1), Counters::default());
        self.0[port] = Counters::default();
    }

    /// Cells came, and were taken or dropped.
    #[inline]
    pub(crate) fn note_cells(&mut self, port: u16, n: usize, outcome: Result<(), DropReason>) {
        let Some(counters) = self.0.get_mut(usize::from(port)) else { return };
        match outcome {
            Ok(()) => counters.cells = counters.cells.wrapping_add(n as u64),
            Err(reason) => counters.drop_n(reason, n as u64),
        }
    }

    /// What came in at a port.
    pub(crate) fn at(&self, port: u16) -> Counters {
        self.0.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// A frame with a PDU came, of so many octets.
    pub(crate) fn note_frame(&mut self, port: u16, octets: usize, outcome: Result<(), DropReason>) {
        let Some(counters) = self.0.get_mut(usize::from(port)) else { return };
        match outcome {
            Ok(()) => {
                counters.pdus = counters.pdus.wrapping_add(1);
                counters.octets = counters.octets.wrapping_add(octets as u64);
            }
            Err(reason) => counters.drop_one(reason),
        }
    }
}
