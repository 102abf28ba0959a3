//! How a host learns of events: an interrupt for each, a clock that looks (clocked interrupts), a process that polls, or
//! interrupts that hand over to polling with a quota (seed 004, section 3).
//!
//! Costs are the paper's: C for an interrupt or a tick, alpha for each event. Everything runs on [`Machine`].

use super::machine::{Level, Machine, Work};
use wire::Time;

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strategy {
    /// An interrupt for each event.
    Interrupt,
    /// A look at the device so many times each second.
    Clocked(f64),
    /// A process that looks without rest.
    Polling,
}

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9).round() as u64)
}

/// Events served each second of `offered`, which may be more than can be served: each costs `alpha` seconds, each
/// interrupt or tick `c`. The device keeps what waits; of a clocked host, until a tick has seen it.
pub fn capacity(strategy: Strategy, c: f64, alpha: f64, offered: f64, seconds: f64) -> f64 {
    let mut machine = Machine::default();
    let (mut waiting, mut seen, mut arrived, mut served, mut ticks) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut serving = false;
    let end = at(seconds);
    loop {
        let arrival = at(arrived as f64 / offered);
        let tick = match strategy {
            Strategy::Clocked(rate) => Some(at((ticks + 1) as f64 / rate)),
            _ => None,
        };
        let next = [Some(arrival), tick, machine.poll_timeout()].into_iter().flatten().min().unwrap_or(end);
        if next >= end {
            return served as f64 / seconds;
        }
        machine.advance(next, |events: u64| {
            served += events;
            serving = serving && events == 0;
        });
        if arrival <= next {
            (arrived, waiting) = (arrived + 1, waiting + 1);
        }
        if tick.is_some_and(|tick| tick <= next) {
            // The clock interrupts whatever it finds; what waits is served one by one behind it.
            ticks += 1;
            seen += core::mem::take(&mut waiting);
            machine.submit(Level::Interrupt, Work::cached(c), 0);
        }
        let ready = if tick.is_some() { &mut seen } else { &mut waiting };
        if *ready > 0 && !serving {
            serving = true;
            *ready -= 1;
            match strategy {
                Strategy::Interrupt => machine.submit(Level::Interrupt, Work::cached(c + alpha), 1),
                Strategy::Clocked(_) | Strategy::Polling => machine.submit(Level::Process, Work::cached(alpha), 1),
            }
        }
    }
}

/// How a receiver keeps from being overrun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Guard {
    /// Not at all: interrupts put packets on a queue, a process takes them off.
    None,
    /// An interrupt turns itself off; a poll takes up to so many packets all the way, then looks again (Mogul).
    Quota(u64),
    /// No interrupt but the clock's, so many each second; a tick moves what the queue has room for.
    Clocked(f64),
}

/// Packets delivered to the application each second: an interrupt costs `interrupt`, everything above it `process`
/// seconds a packet; a queue of `queue` packets between.
pub fn delivered(guard: Guard, interrupt: f64, process: f64, queue: u64, offered: f64, seconds: f64) -> f64 {
    let mut machine = Machine::default();
    let (mut device, mut queued, mut arrived, mut delivered, mut ticks) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let (mut interrupted, mut processing, mut armed, mut quota) = (false, false, true, 0u64);
    let end = at(seconds);
    loop {
        let arrival = at(arrived as f64 / offered);
        let tick = match guard {
            Guard::Clocked(rate) => Some(at((ticks + 1) as f64 / rate)),
            _ => None,
        };
        let next = [Some(arrival), tick, machine.poll_timeout()].into_iter().flatten().min().unwrap_or(end);
        if next >= end {
            return delivered as f64 / seconds;
        }
        let (mut interrupt_done, mut process_done) = (false, false);
        machine.advance(next, |token: bool| {
            interrupt_done |= token;
            process_done |= !token;
        });
        if process_done {
            (processing, delivered) = (false, delivered + 1);
        }
        if interrupt_done {
            interrupted = false;
            match guard {
                // Where the queue is full, the work that the interrupt has done is thrown away: that is the livelock.
                Guard::None => queued = (queued + 1).min(queue),
                Guard::Clocked(_) => {
                    let moved = device.min(queue - queued);
                    (device, queued) = (device - moved, queued + moved);
                }
                Guard::Quota(most) => (armed, quota) = (false, most),
            }
        }
        if arrival <= next {
            arrived += 1;
            // The adapter's own ring is as long as the queue; beyond it, packets cost the host nothing.
            device = (device + 1).min(queue);
        }
        if tick.is_some_and(|tick| tick <= next) {
            ticks += 1;
            if !interrupted {
                interrupted = true;
                machine.submit(Level::Interrupt, Work::cached(interrupt), true);
            }
        }
        match guard {
            Guard::None if device > 0 && !interrupted => {
                device -= 1;
                interrupted = true;
                machine.submit(Level::Interrupt, Work::cached(interrupt), true);
            }
            Guard::Quota(_) if device > 0 && armed && !interrupted => {
                interrupted = true;
                machine.submit(Level::Interrupt, Work::cached(interrupt), true);
            }
            _ => {}
        }
        if !processing {
            let takes = match guard {
                Guard::Quota(most) if !armed => {
                    if device == 0 {
                        armed = true;
                    } else if quota == 0 {
                        quota = most;
                    }
                    let takes = device > 0;
                    device -= u64::from(takes);
                    quota -= u64::from(takes && quota > 0);
                    takes
                }
                Guard::Quota(_) => false,
                _ => {
                    let takes = queued > 0;
                    queued -= u64::from(takes);
                    takes
                }
            };
            if takes {
                processing = true;
                machine.submit(Level::Process, Work::cached(process), false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clocked_host_serves_nothing_before_the_tick_that_sees_it() {
        // Ten a second; the only tick is after a second, and 1.5 s are watched: arrivals of the last half second wait.
        let served = |strategy| capacity(strategy, 1e-6, 1e-3, 10.0, 1.5) * 1.5;
        assert!((served(Strategy::Clocked(1.0)) - 11.0).abs() < 1e-9);
        assert!((served(Strategy::Interrupt) - 15.0).abs() < 1e-9);
        assert_eq!(capacity(Strategy::Clocked(1.0), 1e-6, 1e-3, 10.0, 0.9), 0.0);
    }
}
