//! Messages over a signalling link that loses PDUs, in virtual time: what `cellway bench calls` shows of SSCOP.

use crate::saal::{Event, Saal, State};
use crate::sscop::{Config, Fault};
use std::collections::VecDeque;
use std::time::Duration;
use wire::Time;

/// The wire's delay each way.
pub const DELAY: Duration = Duration::from_millis(5);
/// Octets of a message, as a SETUP has them.
pub const MESSAGE_OCTETS: usize = 100;
/// Messages that the sender lets wait.
const AHEAD: usize = 256;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Messages delivered in order each second.
    pub messages_per_s: f64,
    /// Messages that were sent again.
    pub again: u64,
    /// The most messages that both ends kept at a time.
    pub held: usize,
}

/// What did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A message came out of order, twice or not at all.
    #[error("message {0} is not the next one")]
    Order(u64),
    /// The connection was given up.
    #[error("the connection was released")]
    Released,
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn percent(&mut self, percent: u64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % 100 < percent
    }
}

struct Line {
    now: Time,
    ends: [Saal; 2],
    wires: [VecDeque<(Time, Vec<u8>)>; 2],
    random: Random,
    lost_percent: u64,
}

impl Line {
    fn collect(&mut self) {
        for (end, wire) in self.ends.iter_mut().zip(&mut self.wires) {
            while let Some(pdu) = end.poll_transmit() {
                if !self.random.percent(self.lost_percent) {
                    wire.push_back((self.now + DELAY, pdu));
                }
            }
        }
    }

    fn step(&mut self) {
        self.collect();
        let arrivals = self.wires.iter().filter_map(|wire| wire.front().map(|(at, _)| *at));
        let timers = self.ends.iter().filter_map(Saal::poll_timeout);
        self.now = arrivals.chain(timers).min().map_or(self.now, |at| self.now.max(at));
        for side in 0..2 {
            while self.wires[side].front().is_some_and(|(at, _)| *at <= self.now) {
                let Some((_, pdu)) = self.wires[side].pop_front() else { break };
                self.ends[1 - side].handle_pdu(&pdu, self.now);
            }
            if self.ends[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[side].handle_timeout(self.now);
            }
        }
        self.collect();
    }
}

/// Sends messages one way for so long, over a wire that loses so many PDUs of a hundred in each direction.
///
/// # Errors
/// [`Broken`]: what SSCOP promises does not hold.
pub fn run(lost_percent: u64, time: Duration, seed: u64) -> Result<Figure, Broken> {
    let ends = [Saal::new(Config::default()), Saal::new(Config::default())];
    let wires = [VecDeque::new(), VecDeque::new()];
    let mut line = Line { now: Time::ZERO, ends, wires, random: Random(seed), lost_percent };
    while !line.ends.iter().all(Saal::is_established) {
        if line.ends[0].state() == State::Released {
            line.ends[0].establish(line.now);
        }
        line.step();
        line.ends.iter_mut().for_each(|end| while end.poll().is_some() {});
    }
    let begin = line.now;
    let (mut given, mut got, mut held) = (0u64, 0u64, 0);
    while line.now.since(begin) < time {
        while line.ends[0].sscop().backlog() < AHEAD {
            let mut message = vec![0; MESSAGE_OCTETS];
            message[..8].copy_from_slice(&given.to_be_bytes());
            if line.ends[0].send(message, line.now).is_err() {
                break;
            }
            given += 1;
        }
        line.step();
        while let Some(event) = line.ends[1].poll() {
            let Event::Data(octets) = event else { return Err(Broken::Released) };
            if octets.get(..8) != Some(&got.to_be_bytes()) {
                return Err(Broken::Order(got));
            }
            got += 1;
        }
        held = held.max(line.ends.iter().map(|end| end.sscop().held()).sum());
        if !line.ends.iter().all(Saal::is_established) {
            return Err(Broken::Released);
        }
    }
    let messages_per_s = got as f64 / line.now.since(begin).as_secs_f64();
    Ok(Figure { messages_per_s, again: line.ends[0].sscop().faults(Fault::Retransmission), held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_costs_throughput_and_neither_order_nor_memory() {
        let figures = [0, 1, 5, 20].map(|percent| run(percent, Duration::from_secs(120), 4).unwrap());
        for pair in figures.windows(2) {
            assert!(pair[0].messages_per_s > pair[1].messages_per_s && pair[1].messages_per_s > 1.0, "{figures:?}");
            assert!(pair[0].again < pair[1].again || pair[1].again > 0, "{figures:?}");
        }
        assert!(figures.iter().all(|figure| figure.held <= 2 * (AHEAD + 128) + 1100), "{figures:?}");
        assert_eq!(figures[0].again, 0);
    }
}
