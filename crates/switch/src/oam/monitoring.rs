//! Performance monitoring: what a source counts and tells, what a sink compares, and what both have found.
//!
//! Counters run on modulo 65536 and are never set back, so that the block behind a lost monitoring cell is judged
//! together with the one before. Parities are of one block, and say nothing where cells or a monitoring cell are
//! missing.

use std::collections::VecDeque;
use wire::Cell;
use wire::oam::{Function, Monitoring, Report, bip16};

/// Reports that wait to be sent at most.
const MAX_REPORTS: usize = 4;

/// User cells since monitoring began, modulo 65536, and parities since the last monitoring cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// All of them.
    pub cells: u16,
    /// Those of CLP 0.
    pub cells_clp0: u16,
    /// Even parities of the payloads.
    pub parities: u16,
}

impl Totals {
    #[inline]
    fn count(&mut self, cells: &[Cell]) {
        self.cells = self.cells.wrapping_add(cells.len() as u16);
        for cell in cells {
            self.cells_clp0 = self.cells_clp0.wrapping_add((cell.header_word() & 1 == 0) as u16);
            self.parities = bip16(self.parities, &cell.payload);
        }
    }
}

/// What monitoring has found in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Results {
    /// Blocks that were judged.
    pub blocks: u64,
    /// User cells that were sent in them.
    pub cells: u64,
    /// Cells that did not arrive.
    pub lost: u64,
    /// Of these, cells of CLP 0.
    pub lost_clp0: u64,
    /// Cells that arrived and were not sent.
    pub misinserted: u64,
    /// Blocks with errored parities.
    pub errored_blocks: u64,
    /// Parities that differ, 16 of each block at most.
    pub errored_parities: u64,
    /// Monitoring cells (or reports) that did not arrive.
    pub monitoring_lost: u64,
}

/// What one end says of the other's cells: sent so far, received so far.
#[derive(Debug, Clone, Copy)]
struct Reading {
    sent: Monitoring,
    received: (u16, u16),
    /// What the receiver found itself.
    errored: Option<u8>,
}

/// Compares each reading with the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Judge {
    last: Option<Reading>,
    results: Results,
}

impl Judge {
    /// Whether parities may be compared: all that was sent since the last reading arrived, and no monitoring cell is
    /// missing.
    fn is_whole(&self, sent: &Monitoring, received: u16) -> bool {
        self.last.is_some_and(|last| {
            sent.sequence == last.sent.sequence.wrapping_add(1)
                && sent.cells.wrapping_sub(last.sent.cells) == received.wrapping_sub(last.received.0)
        })
    }

    fn handle(&mut self, now: Reading) {
        let Some(last) = self.last.replace(now) else { return };
        let steps = now.sent.sequence.wrapping_sub(last.sent.sequence);
        let sent = now.sent.cells.wrapping_sub(last.sent.cells);
        let surplus = |sent: u16, received: u16| i64::from(sent.wrapping_sub(received) as i16);
        let missing = surplus(sent, now.received.0.wrapping_sub(last.received.0));
        let missing_clp0 = surplus(
            now.sent.cells_clp0.wrapping_sub(last.sent.cells_clp0),
            now.received.1.wrapping_sub(last.received.1),
        );
        let r = &mut self.results;
        r.blocks += 1;
        r.cells += u64::from(sent);
        r.lost += missing.max(0).unsigned_abs();
        r.misinserted += missing.min(0).unsigned_abs();
        r.lost_clp0 += missing_clp0.max(0).unsigned_abs();
        r.monitoring_lost += u64::from(steps.saturating_sub(1));
        let errored = now.errored.unwrap_or(0).min(16);
        r.errored_blocks += u64::from(errored > 0);
        r.errored_parities += u64::from(errored);
    }
}

/// The end that sends.
#[derive(Debug)]
pub(super) struct Source {
    block: u16,
    totals: Totals,
    in_block: u32,
    sequence: u8,
    /// Nothing was told yet: the sink needs a reading to begin with.
    begins: bool,
    /// What the far end reports.
    far: Judge,
}

impl Source {
    pub(super) fn new(block: u16) -> Self {
        Source { block, totals: Totals::default(), in_block: 0, sequence: 0, begins: true, far: Judge::default() }
    }

    pub(super) const fn block(&self) -> u16 {
        self.block
    }

    pub(super) const fn results(&self) -> Results {
        self.far.results
    }

    /// User cells that may be sent before the next monitoring cell.
    pub(super) fn left(&self) -> usize {
        (u32::from(self.block).saturating_sub(self.in_block)) as usize
    }

    #[inline]
    pub(super) fn sent(&mut self, cells: &[Cell]) {
        self.totals.count(cells);
        self.in_block = self.in_block.saturating_add(cells.len() as u32);
    }

    pub(super) fn is_due(&self) -> bool {
        self.begins || self.left() == 0
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Function> {
        if !self.is_due() {
            return None;
        }
        (self.begins, self.in_block) = (false, 0);
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let Totals { cells, cells_clp0, parities } = self.totals;
        self.totals.parities = 0;
        Some(Function::Monitoring(Monitoring { sequence, cells, parities, cells_clp0, stamp: None }))
    }

    pub(super) fn handle_report(&mut self, report: &Report) {
        let received = (report.cells, report.cells_clp0);
        self.far.handle(Reading { sent: report.sent, received, errored: report.errored_parities });
    }
}

/// The end that receives.
#[derive(Debug)]
pub(super) struct Sink {
    totals: Totals,
    sequence: u8,
    near: Judge,
    /// `None`: forward monitoring alone.
    reports: Option<VecDeque<Report>>,
}

impl Sink {
    pub(super) fn new(reports: bool) -> Self {
        let reports = reports.then(|| VecDeque::with_capacity(MAX_REPORTS));
        Sink { totals: Totals::default(), sequence: 0, near: Judge::default(), reports }
    }

    pub(super) const fn results(&self) -> Results {
        self.near.results
    }

    pub(super) const fn does_report(&self) -> bool {
        self.reports.is_some()
    }

    #[inline]
    pub(super) fn received(&mut self, cells: &[Cell]) {
        self.totals.count(cells);
    }

    pub(super) fn handle_monitoring(&mut self, sent: Monitoring) {
        let Totals { cells, cells_clp0, parities } = self.totals;
        let whole = self.near.is_whole(&sent, cells);
        let errored = whole.then(|| (parities ^ sent.parities).count_ones() as u8);
        self.near.handle(Reading { sent, received: (cells, cells_clp0), errored });
        self.totals.parities = 0;
        let Some(reports) = &mut self.reports else { return };
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        if reports.len() < MAX_REPORTS {
            // The far end sees by the sequence number that one is missing.
            reports.push_back(Report {
                sent: Monitoring { sequence, ..sent },
                cells,
                cells_clp0,
                errored_parities: errored,
            });
        }
    }

    pub(super) fn has_output(&self) -> bool {
        self.reports.as_ref().is_some_and(|reports| !reports.is_empty())
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Function> {
        self.reports.as_mut()?.pop_front().map(Function::Report)
    }
}
