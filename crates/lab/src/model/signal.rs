//! How a host learns of events: an interrupt for each, a clock that looks (clocked interrupts), a process that polls, or
//! interrupts that hand over to polling with a quota (seed 004, section 3).
//!
//! Costs are the paper's: C for an interrupt or a tick, alpha for each event. Everything runs on [`Machine`].

use super::machine::{Level, Machine, Work};
use std::collections::BTreeMap;
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
/// interrupt or tick `c`. The device keeps what waits.
pub fn capacity(strategy: Strategy, c: f64, alpha: f64, offered: f64, seconds: f64) -> f64 {
    let mut machine = Machine::default();
    let (mut waiting, mut arrived, mut served, mut ticks) = (0u64, 0u64, 0u64, 0u64);
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
            machine.submit(Level::Interrupt, Work::cached(c), 0);
        }
        if waiting > 0 && !serving {
            serving = true;
            waiting -= 1;
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

/// A window's worth of segments between two hosts, both of which learn of events by the same strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// See there.
    pub strategy: Strategy,
    /// Socket buffer, octets.
    pub window: f64,
    /// Longest segment, octets.
    pub segment: f64,
    /// Seconds of an interrupt or tick; of a look at the device.
    pub costs: [f64; 2],
    /// Octets that a receiver works through each second.
    pub rate: f64,
    /// What a polling process gets of the processor: all of it, or slices of so many seconds in turn with another.
    pub slice: Option<f64>,
}

/// Seconds between two hosts back to back.
const WIRE: f64 = 20e-6;
/// Octets each second of OC-12c's cell payload.
const LINE: f64 = 599.04e6 / 8.0 * 48.0 / 53.0;

impl Window {
    /// Throughput in 10^6 bit/s.
    pub fn throughput(&self, seconds: f64) -> f64 {
        let segment = self.segment.min(self.window);
        let segments = (self.window / segment).floor().max(1.0) as u64;
        // The sender works half as long on a segment as the receiver: it neither waits nor copies twice.
        let alpha = [segment / self.rate / 2.0, segment / self.rate];
        let mut hosts = [Machine::default(), Machine::default()];
        let mut device = [segments, 0];
        let mut serving = [false; 2];
        let mut ticks = [0u64; 2];
        let mut line_free = 0.0f64;
        let mut on_wire: BTreeMap<(Time, u64), usize> = BTreeMap::new();
        let (mut number, mut octets) = (0u64, 0.0);
        let end = at(seconds);
        let mut now = Time::ZERO;
        while now < end {
            let mut done = [0u64; 2];
            for (host, machine) in hosts.iter_mut().enumerate() {
                machine.advance(now, |events: u64| {
                    serving[host] = false;
                    done[host] += events;
                });
            }
            for (host, events) in done.into_iter().enumerate() {
                for _ in 0..events {
                    let ready = now.as_secs_f64();
                    number += 1;
                    let there = if host == 0 {
                        line_free = line_free.max(ready) + segment / LINE;
                        line_free + WIRE
                    } else {
                        octets += segment;
                        ready + WIRE
                    };
                    on_wire.insert((at(there), number), 1 - host);
                }
            }
            while let Some(entry) = on_wire.first_entry().filter(|e| e.key().0 <= now) {
                device[entry.remove()] += 1;
            }
            let mut wake: Vec<Time> = Vec::new();
            for host in 0..2 {
                // The second host's clock runs half a tick apart from the first's.
                let phase = host as f64 / 2.0;
                let looks = match self.strategy {
                    Strategy::Interrupt => device[host] > 0,
                    Strategy::Clocked(rate) => {
                        let due = at((ticks[host] as f64 + phase) / rate) <= now;
                        ticks[host] += u64::from(due);
                        wake.push(at((ticks[host] as f64 + phase) / rate));
                        due
                    }
                    Strategy::Polling => match self.slice {
                        None => device[host] > 0,
                        Some(slice) => {
                            let slices = now.as_secs_f64() / slice + phase;
                            wake.push(at((slices.floor() + 1.0 - phase) * slice + 1e-9));
                            device[host] > 0 && (slices as u64).is_multiple_of(2)
                        }
                    },
                };
                if looks && !serving[host] {
                    serving[host] = true;
                    let events = std::mem::take(&mut device[host]);
                    // A polling process is half a look late on the average.
                    let look = match self.strategy {
                        Strategy::Polling => 1.5 * self.costs[1],
                        _ => self.costs[0],
                    };
                    let work = Work::cached(look + events as f64 * alpha[host]);
                    hosts[host].submit(Level::Interrupt, work, events);
                }
            }
            wake.extend(hosts.iter().filter_map(Machine::poll_timeout));
            wake.extend(on_wire.first_key_value().map(|((t, _), _)| *t));
            let Some(next) = wake.into_iter().filter(|t| *t > now).min() else { break };
            now = next;
        }
        octets * 8.0 / seconds / 1e6
    }
}
