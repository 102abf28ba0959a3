//! The Reassembler's units in time under a steady line: what they let through, what they lose, what each has done.
//!
//! In: how the card is built, cells and their distance, whether a host drains. Out: rates and counts that
//! [`penn::reassembly::units`] arrives at; no number of the paper enters but those that the card is built with.

use penn::reassembly::units::{Build, Pipeline, Works};
use penn::reassembly::{ConfigError, Key, ListId};
use wire::octets::{Format, emit53};
use wire::{Cell, CellHeader, CircuitId, PayloadType, Time};

/// Bits of a cell on the line.
const CELL_BITS: f64 = 424.0;
/// Circuits that the cells are of, in turn.
const CIRCUITS: u64 = 8;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PipelineOutcome {
    /// Cells stored, in 10^6 bit/s of whole cells over the time that the line was busy.
    pub mbit_s: f64,
    /// Cells that came.
    pub cells: u64,
    /// Cells that were dropped.
    pub lost: u64,
    /// Cells that the host has read, each as it came.
    pub read: u64,
    /// Cells that it read otherwise.
    pub damaged: u64,
    /// What each unit has done.
    pub works: Works,
}

impl PipelineOutcome {
    /// The share of the cells that were dropped.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.cells.max(1) as f64
    }
}

/// `cells` cells, each the end of a PDU so that every operation takes its longest, come `apart` nanoseconds after each
/// other; a host that `drains` reads whatever is there, one cell a command.
///
/// # Errors
/// Capacities that the card cannot have.
pub fn run(build: Build, cells: u64, apart: u64, drains: bool) -> Result<PipelineOutcome, ConfigError> {
    let mut pipeline = Pipeline::configured(build)?;
    let header = |n: u64| {
        let circuit = CircuitId::new(0, 32 + (n % CIRCUITS) as u16).unwrap_or_default();
        CellHeader { circuit, payload_type: PayloadType::User { congestion: false, end: true }, clp: false }
    };
    let line: Vec<_> =
        (0..CIRCUITS).map(|n| emit53(&Cell::new(header(n), [0x5a ^ (32 + n) as u8; 48]), Format::Uni)).collect();
    let (mut read, mut damaged, mut look) = (0, 0, 0);
    let mut host = |pipeline: &mut Pipeline| {
        if let Some(fetched) = pipeline.poll_fetched() {
            read += 1;
            let vci = match pipeline.key(fetched.list) {
                Some(Key::Circuit { vci }) => vci,
                _ => 0,
            };
            damaged += u64::from(fetched.body != [0x5a ^ vci as u8; 48]);
        }
        // Where no slot is taken there is no list to look for.
        if drains && !pipeline.is_asked() && pipeline.free_slots() < build.config.slots {
            // Status blocks are looked at in turn: the lists of circuits have the first numbers.
            let waiting = (0..CIRCUITS as u16)
                .map(|n| ListId::from_number((look + n) % CIRCUITS as u16))
                .find(|list| pipeline.status(*list).is_some_and(|block| block.cells > 0));
            if let Some(list) = waiting {
                look = list.number() + 1;
                pipeline.read(list, 1);
            }
        }
    };
    for n in 0..cells {
        let at = Time::from_nanos(n * apart);
        while let Some(next) = pipeline.poll_timeout().filter(|next| *next < at) {
            pipeline.run(next);
            host(&mut pipeline);
        }
        pipeline.handle_octets(&line[(n % CIRCUITS) as usize], at);
    }
    let stored = pipeline.counters().cells;
    let mbit_s = stored as f64 * CELL_BITS / (cells * apart).max(1) as f64 * 1e3;
    while let Some(next) = pipeline.poll_timeout() {
        pipeline.run(next);
        host(&mut pipeline);
    }
    let lost = pipeline.counters().dropped_total();
    Ok(PipelineOutcome { mbit_s, cells, lost, read, damaged, works: pipeline.works() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_is_drained_whole_and_at_the_list_managers_limit_half_of_the_cells_are_lost() {
        let line = Build::published().line.as_nanos() as u64;
        let oc3c = run(Build::published(), 20_000, line, true).unwrap();
        assert_eq!((oc3c.lost, oc3c.read, oc3c.damaged), (0, 20_000, 0));
        let alone = run(Build::wide(), 8_000, 650, false).unwrap();
        assert_eq!((alone.lost, alone.read), (0, 0));
        let drained = run(Build::wide(), 8_000, 650, true).unwrap();
        assert!((drained.loss() - 0.5).abs() < 0.025 && drained.damaged == 0, "{drained:?}");
        assert_eq!(drained.read + drained.lost, 8_000);
    }
}
