//! OAM loopback (I.610 section 9.2.1.1.3): sends requests, knows its own cells again, measures round trips.

mod trace;

pub use trace::{Hop, TraceConfig, Tracer};

use std::collections::VecDeque;
use std::time::Duration;
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, Time};

/// How long an answer may take (I.610).
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingConfig {
    /// The circuit.
    pub circuit: CircuitId,
    /// Segment or end to end, F4 or F5.
    pub flow: Flow,
    /// How many.
    pub count: u32,
    /// From one to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// First correlation tag; others count up from it.
    pub first_tag: u32,
}

/// What came of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingOutcome {
    /// Answered.
    Answer {
        /// Which, from 0.
        sequence: u32,
        /// Round trip.
        rtt: Duration,
    },
    /// Not answered in time.
    Lost {
        /// Which, from 0.
        sequence: u32,
    },
}

/// The pinger.
#[derive(Debug)]
pub struct Pinger {
    config: PingConfig,
    sent: u32,
    next: Time,
    waiting: VecDeque<(u32, Time)>,
    outcomes: VecDeque<PingOutcome>,
    rtts: Vec<Duration>,
    lost: u32,
}

impl Pinger {
    /// Begins at `now`.
    pub fn new(config: PingConfig, now: Time) -> Self {
        Pinger {
            config,
            sent: 0,
            next: now,
            waiting: VecDeque::new(),
            outcomes: VecDeque::new(),
            rtts: Vec::with_capacity(config.count as usize),
            lost: 0,
        }
    }

    /// A request that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Cell> {
        if self.sent >= self.config.count || now < self.next {
            return None;
        }
        let tag = self.config.first_tag.wrapping_add(self.sent);
        self.waiting.push_back((self.sent, now));
        self.sent += 1;
        self.next = now + self.config.interval;
        let header = CellHeader { circuit: self.config.circuit, ..CellHeader::default() };
        Some(Cell::new(self.config.flow.header(header), Function::Loopback(Loopback::request(tag)).emit()))
    }

    /// A cell that came; others than answers to our requests are ignored.
    pub fn handle_cell(&mut self, cell: &Cell, now: Time) {
        let Ok(Function::Loopback(l)) = Function::parse(&cell.payload) else { return };
        let sequence = l.correlation.wrapping_sub(self.config.first_tag);
        if l.request || Flow::of(cell.header()) != Some(self.config.flow) {
            return;
        }
        if let Some(at) = self.waiting.iter().position(|(s, _)| *s == sequence) {
            let (_, sent) = self.waiting.remove(at).unwrap_or((sequence, now));
            let rtt = now.since(sent);
            self.rtts.push(rtt);
            self.outcomes.push_back(PingOutcome::Answer { sequence, rtt });
        }
    }

    /// Gives up what is overdue.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((sequence, sent)) = self.waiting.front().copied()
            && sent + self.config.timeout <= now
        {
            self.waiting.pop_front();
            self.lost += 1;
            self.outcomes.push_back(PingOutcome::Lost { sequence });
        }
    }

    /// When to call again if nothing comes.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = (self.sent < self.config.count).then_some(self.next);
        next.into_iter().chain(self.waiting.front().map(|(_, sent)| *sent + self.config.timeout)).min()
    }

    /// What has come of requests since the last call, oldest first.
    pub fn poll_outcome(&mut self) -> Option<PingOutcome> {
        self.outcomes.pop_front()
    }

    /// Whether all requests are answered or lost.
    pub fn is_done(&self) -> bool {
        self.sent == self.config.count && self.waiting.is_empty()
    }

    /// Counts and round trips so far.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.sent, self.lost, &self.rtts)
    }
}

/// What a run of requests gave.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Statistics {
    /// Requests sent.
    pub sent: u32,
    /// Answers.
    pub received: u32,
    /// Not answered in time.
    pub lost: u32,
    /// Shortest round trip, microseconds.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub median_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
    /// Standard deviation.
    pub deviation_us: f64,
}

impl Statistics {
    /// Of round trips in any order.
    pub fn of(sent: u32, lost: u32, rtts: &[Duration]) -> Self {
        let mut us: Vec<f64> = rtts.iter().map(|d| d.as_nanos() as f64 / 1e3).collect();
        us.sort_by(f64::total_cmp);
        let Some((&min_us, &max_us)) = us.first().zip(us.last()) else {
            return Statistics { sent, lost, ..Statistics::default() };
        };
        let n = us.len() as f64;
        let mean_us = us.iter().sum::<f64>() / n;
        let deviation_us = (us.iter().map(|x| (x - mean_us).powi(2)).sum::<f64>() / n).sqrt();
        let rank = |p: f64| us[((n * p).ceil() as usize).clamp(1, us.len()) - 1];
        let received = us.len() as u32;
        Statistics {
            sent,
            received,
            lost,
            min_us,
            mean_us,
            median_us: rank(0.5),
            p99_us: rank(0.99),
            max_us,
            deviation_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_known_again_and_the_missing_are_lost_after_their_time() {
        let config = PingConfig {
            circuit: "0.100".parse().unwrap(),
            flow: Flow::F5EndToEnd,
            count: 3,
            interval: Duration::from_millis(10),
            timeout: TIMEOUT,
            first_tag: u32::MAX,
        };
        let mut p = Pinger::new(config, Time::ZERO);
        let answer = |cell: &Cell| {
            let Ok(Function::Loopback(mut l)) = Function::parse(&cell.payload) else { panic!("no loopback") };
            assert!(l.request);
            l.request = false;
            Cell::new(cell.header(), Function::Loopback(l).emit())
        };
        let first = p.poll_transmit(Time::ZERO).unwrap();
        assert_eq!(p.poll_transmit(Time::ZERO), None);
        assert_eq!(p.poll_timeout(), Some(Time::from_millis(10)));
        p.handle_cell(&first, Time::from_micros(1));
        p.handle_cell(&answer(&first), Time::from_micros(7));
        p.handle_cell(&answer(&first), Time::from_micros(9));
        assert_eq!(p.poll_outcome(), Some(PingOutcome::Answer { sequence: 0, rtt: Duration::from_micros(7) }));
        let second = p.poll_transmit(Time::from_millis(10)).unwrap();
        let third = p.poll_transmit(Time::from_millis(20)).unwrap();
        p.handle_cell(&answer(&third), Time::from_millis(21));
        assert!(!p.is_done());
        p.handle_timeout(Time::from_millis(5010));
        assert_eq!(p.poll_outcome(), Some(PingOutcome::Answer { sequence: 2, rtt: Duration::from_millis(1) }));
        assert_eq!(p.poll_outcome(), Some(PingOutcome::Lost { sequence: 1 }));
        p.handle_cell(&answer(&second), Time::from_millis(5011));
        assert!(p.is_done());
        let s = p.statistics();
        assert_eq!((s.sent, s.received, s.lost), (3, 2, 1));
        assert_eq!((s.min_us, s.max_us, s.mean_us), (7.0, 1000.0, 503.5));
    }
}
