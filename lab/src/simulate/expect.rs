//! SDUs as they were sent and arrived, summed for a table or held against an expectation.

use super::outcome::{Delay, ExpectationOutcome};
use super::scenario::Expect;
use wire::Time;

/// An SDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sdu {
    pub(super) sent: Time,
    pub(super) octets: u32,
    pub(super) cells: u32,
    /// Ends at which it has not arrived.
    pub(super) missing: u32,
    /// Its last arrival.
    pub(super) arrived: Time,
}

/// The SDUs of a source.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) source: String,
    pub(super) category: String,
    pub(super) all: Vec<Sdu>,
}

/// What some SDUs come to.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) lost_cells: u64,
    pub(super) octets: u64,
    /// Nanoseconds, in order.
    delays: Vec<u64>,
}

impl Sum {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Sdu>) -> Self {
        let mut sum = Sum::default();
        for sdu in all {
            sum.sent += 1;
            if sdu.missing > 0 {
                sum.lost_cells += u64::from(sdu.cells);
            } else {
                sum.received += 1;
                sum.octets += u64::from(sdu.octets);
                sum.delays.push(sdu.arrived.since(sdu.sent).as_nanos() as u64);
            }
        }
        sum.delays.sort_unstable();
        sum
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent - self.received
    }

    pub(super) fn delay(&self) -> Option<Delay> {
        let seconds = |nanos: u64| nanos as f64 * 1e-9;
        let (first, last, n) = (*self.delays.first()?, *self.delays.last()?, self.delays.len());
        let sum: u128 = self.delays.iter().map(|delay| u128::from(*delay)).sum();
        // The nearest rank.
        let p99 = self.delays[(n * 99).div_ceil(100).saturating_sub(1)];
        Some(Delay { min: seconds(first), mean: sum as f64 / n as f64 * 1e-9, p99: seconds(p99), max: seconds(last) })
    }
}

/// Holds what was sent against an expectation.
pub(super) fn judge(expect: &Expect, all: &[Sent]) -> ExpectationOutcome {
    let meant = all.iter().filter(|sent| {
        expect.source.as_ref().is_none_or(|name| *name == sent.source)
            && expect.category.as_ref().is_none_or(|name| *name == sent.category)
    });
    let from = expect.from.map_or(Time::ZERO, |from| Time::ZERO + from.0);
    let until = expect.until.map(|until| Time::ZERO + until.0);
    let within = |sdu: &&Sdu| sdu.sent >= from && until.is_none_or(|until| sdu.sent < until);
    let sum = Sum::of(meant.flat_map(|sent| &sent.all).filter(within));
    let loss = if sum.sent == 0 { 0.0 } else { sum.lost() as f64 / sum.sent as f64 };
    let longest = sum.delay().map_or(0.0, |delay| delay.max);
    let checks = [
        expect.lost_cells.is_none_or(|most| sum.lost_cells <= most),
        expect.loss.is_none_or(|most| loss <= most),
        expect.delay.is_none_or(|most| longest <= most.0.as_secs_f64()),
        expect.received.is_none_or(|least| sum.received >= least),
        // Nothing was sent: what is said of it would hold whatever the network does.
        sum.sent > 0,
    ];
    let found = format!(
        "{} SDUs sent, {} received, {} cells lost, loss {loss:.6}, longest delay {:.1} us",
        sum.sent,
        sum.received,
        sum.lost_cells,
        longest * 1e6
    );
    ExpectationOutcome { says: expect.says.clone(), met: checks.iter().all(|check| *check), found }
}
