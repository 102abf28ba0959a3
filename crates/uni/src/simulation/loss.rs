//! Messages over a signalling link that loses PDUs, in virtual time: what `cellway-lab bench calls` shows of SSCOP.

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
    /// Messages delivered in order each second, set-ups of the connection included.
    pub messages_per_s: f64,
    /// Messages that were sent again.
    pub again: u64,
    /// The most messages that both ends kept at a time.
    pub held: usize,
    /// Connections that an end gave up, having had no answer for 7 s (Timer_NO-RESPONSE), and that were established
    /// anew.
    pub released: u64,
}

/// A message came out of order or twice, or is missing within a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {0} is not the next one")]
pub struct OutOfOrder(u64);

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
/// SSCOP releases a connection whose peer seems to be gone. The sender then establishes the next one, as the port of a
/// signalling link does; what was on its way may be lost.
///
/// # Errors
/// [`OutOfOrder`]: what SSCOP promises does not hold.
pub fn run(lost_percent: u64, time: Duration, seed: u64) -> Result<Figure, OutOfOrder> {
    let ends = [Saal::new(Config::default()), Saal::new(Config::default())];
    let wires = [VecDeque::new(), VecDeque::new()];
    let mut line = Line { now: Time::ZERO, ends, wires, random: Random(seed), lost_percent };
    let (mut begin, mut connections, mut held) = (None, 0, 0);
    let (mut given, mut got, mut next) = (0u64, 0u64, 0u64);
    while begin.is_none_or(|begin| line.now.since(begin) < time) {
        if line.ends[0].state() == State::Released {
            line.ends[0].establish(line.now);
        }
        while line.ends[0].is_established() && line.ends[0].sscop().backlog() < AHEAD {
            let mut message = vec![0; MESSAGE_OCTETS];
            message[..8].copy_from_slice(&given.to_be_bytes());
            if line.ends[0].send(message, line.now).is_err() {
                break;
            }
            given += 1;
        }
        line.step();
        while let Some(event) = line.ends[0].poll() {
            if let Event::Established(_) = event {
                begin = begin.or(Some(line.now));
                connections += 1;
            }
        }
        while let Some(event) = line.ends[1].poll() {
            match event {
                Event::Data(octets) if octets.get(..8) == Some(&next.to_be_bytes()) => {
                    (next, got) = (next + 1, got + 1);
                }
                Event::Data(_) => return Err(OutOfOrder(next)),
                // The sender waits for the receiver: it has given nothing to this connection yet.
                Event::Established(_) => next = given,
                Event::Released(_) | Event::UnitData(_) => {}
            }
        }
        held = held.max(line.ends.iter().map(|end| end.sscop().held()).sum());
    }
    let messages_per_s = got as f64 / time.as_secs_f64();
    let again = line.ends[0].sscop().faults(Fault::Retransmission);
    Ok(Figure { messages_per_s, again, held, released: connections - 1 })
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
        assert_eq!((figures[0].again, figures[0].released), (0, 0));
    }

    #[test]
    fn a_connection_that_sscop_gives_up_is_counted_and_the_next_one_carries_on() {
        let figures: Vec<Figure> = (0..20).map(|seed| run(20, Duration::from_secs(600), seed).unwrap()).collect();
        assert!(figures.iter().any(|figure| figure.released > 0), "{figures:?}");
        assert!(figures.iter().all(|figure| figure.messages_per_s > 1.0 && figure.released < 20), "{figures:?}");
    }
}
