//! Polling the Reassembler of seed 001: the real card and the real driver's clock, on a modelled processor.
//!
//! In: when cells come, how often the clock ticks, what a tick costs. Out: cells lost, how long the others waited until
//! the application could read them, what the ticks left of the processor. Every cell carries its number, and what the
//! application reads has to be the cells that the card kept, in their order, to the octet.

use super::cards::Host;
use super::machine::{Level, Machine, Work};
use core::time::Duration;
use penn::Streaming;
use penn::driver::{BUFFER_OCTETS, BUFFERS, Control};
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use std::collections::VecDeque;
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CellHeader, CircuitId, Time};

const VCI: u16 = 100;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PollOutcome {
    /// Cells that came.
    pub cells: u64,
    /// Cells that the card had no room for.
    pub lost: u64,
    /// When the first of them came.
    pub first_lost: Option<Time>,
    /// Cells that the application has read.
    pub read: u64,
    /// Cells that it read otherwise than they had come, or out of order.
    pub damaged: u64,
    /// The longest from a cell's coming to its being read.
    pub worst: Duration,
    /// The mean of that.
    pub mean: Duration,
    /// Ticks that the driver has served.
    pub ticks: u64,
    /// The share of the processor that they left to processes.
    pub left: f64,
}

fn body(number: u64) -> [u8; PAYLOAD_OCTETS] {
    let mut body = [number as u8 ^ 0x5a; PAYLOAD_OCTETS];
    body[..8].copy_from_slice(&number.to_be_bytes());
    body
}

/// A host whose driver ticks, and an application that reads whatever there is at once.
struct Poller {
    host: Host,
    machine: Machine<()>,
    /// Cells that the card has kept: number, and when it came.
    kept: VecDeque<(u64, Time)>,
    waited: Duration,
    buffer: Vec<u8>,
    outcome: PollOutcome,
}

impl Poller {
    fn new(tick: Duration) -> Option<Self> {
        let segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut host = Host::new(segmenter, Config::default(), BUFFERS * BUFFER_OCTETS, tick)?;
        host.driver.control(host.file, Control::Vci(VCI), Time::ZERO).ok()?;
        let mut machine = Machine::default();
        // An application that takes all it is given.
        machine.submit(Level::Process, Work::cached(1e9), ());
        let (kept, buffer) = (VecDeque::new(), vec![0; BUFFER_OCTETS / PAYLOAD_OCTETS * PAYLOAD_OCTETS]);
        Some(Poller { host, machine, kept, waited: Duration::ZERO, buffer, outcome: PollOutcome::default() })
    }

    /// When the driver's clock or the card is due.
    fn poll_timeout(&mut self) -> Time {
        self.host.with(|driver, cards, _| driver.poll_timeout(cards))
    }

    fn handle_cell(&mut self, circuit: CircuitId, now: Time) {
        let number = self.outcome.cells;
        let before = self.host.reassembler.counters().cells;
        let cell = Cell::new(CellHeader { circuit, ..CellHeader::default() }, body(number));
        self.host.reassembler.handle_cells(&[cell], now);
        self.outcome.cells += 1;
        if self.host.reassembler.counters().cells > before {
            self.kept.push_back((number, now));
        } else {
            self.outcome.lost += 1;
            self.outcome.first_lost.get_or_insert(now);
        }
    }

    /// The card, the driver's clock and the application, as far as they are due.
    fn handle_timeout(&mut self, tick_cost: f64, now: Time) {
        self.host.reassembler.run(&mut self.host.memory, 64, now);
        if self.poll_timeout() > now {
            return;
        }
        self.host.with(|driver, cards, _| driver.handle_timeout(cards, now));
        let ticks = self.host.driver.statistics.ticks;
        if ticks > self.outcome.ticks {
            self.outcome.ticks = ticks;
            self.machine.submit(Level::Interrupt, Work::cached(tick_cost), ());
        }
        while let Ok(Some(n)) = self.host.driver.read(self.host.file, &mut self.buffer) {
            for octets in self.buffer[..n].chunks(PAYLOAD_OCTETS) {
                let cell = self.kept.pop_front();
                self.outcome.read += 1;
                self.outcome.damaged += u64::from(cell.is_none_or(|(number, _)| body(number) != octets));
                let waited = cell.map_or(Duration::ZERO, |(_, came)| now.since(came));
                self.waited += waited;
                self.outcome.worst = self.outcome.worst.max(waited);
            }
        }
    }
}

/// Cells come when `arrivals` say, in order, until `end`; the driver's clock ticks each `tick`, which costs the processor
/// `tick_cost` seconds.
pub fn run(arrivals: impl IntoIterator<Item = Time>, tick: Duration, tick_cost: f64, end: Time) -> PollOutcome {
    let (Some(mut host), Some(circuit)) = (Poller::new(tick), CircuitId::new(0, VCI)) else {
        return PollOutcome::default();
    };
    let mut arrivals = arrivals.into_iter().peekable();
    let mut now = Time::ZERO;
    while now < end {
        let due = host.poll_timeout();
        let next = arrivals.peek().copied().into_iter().chain(host.machine.poll_timeout()).chain([due]).min();
        now = next.unwrap_or(end).max(now).min(end);
        host.machine.advance(now, |()| {});
        while arrivals.next_if(|at| *at <= now).is_some() {
            host.handle_cell(circuit, now);
        }
        host.handle_timeout(tick_cost, now);
    }
    let mut outcome = host.outcome;
    outcome.mean = host.waited.checked_div(u32::try_from(outcome.read).unwrap_or(u32::MAX)).unwrap_or_default();
    outcome.left = host.machine.busy()[1] / end.as_secs_f64().max(1e-12);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(micros: u64, count: u64) -> impl Iterator<Item = Time> {
        (1..=count).map(move |n| Time::from_micros(n * micros))
    }

    #[test]
    fn the_application_reads_what_came_and_waits_for_a_tick_at_most() {
        let tick = Duration::from_millis(16);
        let outcome = run(every(100, 5000), tick, 1e-3, Time::from_millis(600));
        assert_eq!((outcome.cells, outcome.read, outcome.lost, outcome.damaged), (5000, 5000, 0, 0));
        // 160 cells a tick, 1.2 us each.
        assert!(outcome.worst < tick + Duration::from_micros(200) && outcome.worst > Duration::from_millis(15));
        assert_eq!(outcome.ticks, 37);
        assert!((outcome.left - (1.0 - 37.0 / 600.0)).abs() < 0.01, "{outcome:?}");
    }

    #[test]
    fn a_card_that_is_not_polled_overflows_and_what_it_kept_comes_in_order() {
        let outcome = run(every(2, 10_000), Duration::from_millis(50), 0.0, Time::from_millis(110));
        assert_eq!((outcome.lost, outcome.first_lost), (10_000 - 8192, Some(Time::from_micros(8193 * 2))));
        assert_eq!((outcome.read, outcome.damaged), (8192, 0));
    }
}
