//! Echoes behind netperf, segment by segment: what the longest echo of seed 004 depends on that the text does not say.
//!
//! In: what a segment and an echo cost, how many segments are acknowledged at once. Out: round trips. Two hosts back to
//! back; each takes what its adapter has, by interrupts or on its clock's tick, and works through it in order. netperf keeps a
//! window under way; an echo waits behind the segments before it, and its answer behind the acknowledgements.

use super::machine::{Level, Machine, Work};
use super::random::Random;
use super::signal::Strategy;
use std::collections::{BTreeMap, VecDeque};
use wire::Time;

/// Octets each second of OC-12c's cell payload.
const LINE: f64 = 599.04e6 / 8.0 * 48.0 / 53.0;
/// From an answer to the next echo: so much, and up to as much again, so that echoes and windows are not in step.
const PAUSE: f64 = 50e-3;

/// The load and the echoes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Netperf {
    /// Segments of a window; none: no load.
    pub window: u64,
    /// Segments that are acknowledged at once, 1 to `window`.
    pub acknowledged: u64,
    /// Octets of a segment, and of an echo.
    pub octets: [f64; 2],
    /// Seconds of work on a segment: at the sender, at the receiver.
    pub segment: [f64; 2],
    /// Seconds of work on an echo on its way out, and on its way in, at either host.
    pub echo: f64,
    /// Seconds of an interrupt or a tick.
    pub interrupt: f64,
    /// Seconds between the hosts.
    pub wire: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Packet {
    Segment,
    /// Of the window, for one segment more.
    Acknowledgement,
    Echo,
    Answer,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival(usize, Packet),
    Tick(usize),
    Ping,
}

#[derive(Debug, Default)]
struct Host {
    /// In the adapter, until a tick.
    adapter: Vec<Packet>,
    queue: VecDeque<Packet>,
    machine: Machine<Packet>,
    line_free: f64,
}

struct Run<'a> {
    netperf: &'a Netperf,
    strategy: Strategy,
    hosts: [Host; 2],
    events: BTreeMap<(Time, u64), Event>,
    number: u64,
    unacknowledged: u64,
    sent: Time,
    trips: Vec<f64>,
}

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9).round() as u64)
}

impl Run<'_> {
    fn schedule(&mut self, when: Time, event: Event) {
        self.number += 1;
        self.events.insert((when, self.number), event);
    }

    fn transmit(&mut self, now: Time, from: usize, packet: Packet, octets: f64) {
        let host = &mut self.hosts[from];
        host.line_free = host.line_free.max(now.as_secs_f64()) + octets / LINE;
        let there = at(host.line_free + self.netperf.wire);
        self.schedule(there, Event::Arrival(1 - from, packet));
    }

    fn handle_event(&mut self, event: Event, now: Time) {
        match (event, self.strategy) {
            (Event::Arrival(host, packet), Strategy::Clocked(_)) => self.hosts[host].adapter.push(packet),
            (Event::Arrival(host, packet), _) => self.hosts[host].queue.push_back(packet),
            (Event::Tick(number), strategy) => {
                let host = &mut self.hosts[number];
                host.queue.extend(host.adapter.drain(..));
                if let Strategy::Clocked(hertz) = strategy {
                    self.schedule(at(now.as_secs_f64() + 1.0 / hertz), Event::Tick(number));
                }
            }
            (Event::Ping, _) => {
                self.sent = now;
                self.hosts[0].queue.push_back(Packet::Echo);
            }
        }
    }

    /// The host's processor takes the next packet; an interrupt, if it rested.
    fn start(&mut self, number: usize, rested: bool) {
        let netperf = self.netperf;
        let host = &mut self.hosts[number];
        let Some(packet) = host.queue.pop_front() else { return };
        let seconds = match packet {
            Packet::Acknowledgement => netperf.segment[0],
            Packet::Segment => netperf.segment[1],
            // In and out again where it is answered.
            Packet::Echo if number == 1 => 2.0 * netperf.echo,
            Packet::Echo | Packet::Answer => netperf.echo,
        };
        let interrupt = if rested { netperf.interrupt } else { 0.0 };
        host.machine.submit(Level::Interrupt, Work::cached(seconds + interrupt), packet);
    }

    fn done(&mut self, number: usize, packet: Packet, now: Time, random: &mut Random) {
        let [segment, echo] = self.netperf.octets;
        match packet {
            Packet::Acknowledgement => self.transmit(now, 0, Packet::Segment, segment),
            Packet::Segment => {
                self.unacknowledged += 1;
                if self.unacknowledged >= self.netperf.acknowledged {
                    for _ in 0..std::mem::take(&mut self.unacknowledged) {
                        self.transmit(now, 1, Packet::Acknowledgement, 0.0);
                    }
                }
            }
            Packet::Echo if number == 0 => self.transmit(now, 0, Packet::Echo, echo),
            Packet::Echo => self.transmit(now, 1, Packet::Answer, echo),
            Packet::Answer => {
                self.trips.push(now.since(self.sent).as_secs_f64());
                let pause = PAUSE * (1.0 + random.uniform());
                self.schedule(at(now.as_secs_f64() + pause), Event::Ping);
            }
        }
    }
}

/// Round trips of `count` echoes, in seconds.
pub fn echoes(netperf: &Netperf, strategy: Strategy, count: usize, random: &mut Random) -> Vec<f64> {
    let (hosts, events) = ([Host::default(), Host::default()], BTreeMap::new());
    let mut run =
        Run { netperf, strategy, hosts, events, number: 0, unacknowledged: 0, sent: Time::ZERO, trips: Vec::new() };
    run.hosts[0].queue.extend((0..netperf.window).map(|_| Packet::Acknowledgement));
    run.schedule(at(PAUSE * (1.0 + random.uniform())), Event::Ping);
    if let Strategy::Clocked(hertz) = strategy {
        for (host, phase) in [0.0, random.uniform()].into_iter().enumerate() {
            run.schedule(at(phase / hertz), Event::Tick(host));
        }
    }
    let mut resting = [true; 2];
    while run.trips.len() < count {
        for (number, rested) in resting.iter_mut().enumerate() {
            if run.hosts[number].machine.waiting(Level::Interrupt) == 0 {
                run.start(number, *rested);
                *rested = run.hosts[number].machine.waiting(Level::Interrupt) == 0;
            }
        }
        let timeouts = run.hosts.iter().filter_map(|host| host.machine.poll_timeout());
        let event = run.events.first_key_value().map(|((when, _), _)| *when);
        let Some(now) = timeouts.chain(event).min() else { break };
        for number in 0..2 {
            let mut finished = None;
            run.hosts[number].machine.advance(now, |packet| finished = Some(packet));
            if let Some(packet) = finished {
                run.done(number, packet, now, random);
            }
        }
        while let Some(entry) = run.events.first_entry().filter(|entry| entry.key().0 <= now) {
            let event = entry.remove();
            run.handle_event(event, now);
        }
    }
    run.trips
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Netperf = Netperf {
        window: 28,
        acknowledged: 1,
        octets: [9180.0, 4096.0],
        segment: [255e-6, 510e-6],
        echo: 800e-6,
        interrupt: 0.0,
        wire: WIRE,
    };
    const WIRE: f64 = 20e-6;

    fn extremes(netperf: &Netperf, strategy: Strategy) -> (f64, f64) {
        let trips = echoes(netperf, strategy, 200, &mut Random::new(3));
        assert_eq!(trips.len(), 200);
        (trips.iter().copied().fold(f64::MAX, f64::min), trips.iter().copied().fold(0.0, f64::max))
    }

    #[test]
    fn an_echo_that_meets_nobody_takes_its_four_ways_and_a_clock_adds_two_ticks_at_most() {
        let alone = Netperf { window: 0, ..LOAD };
        let (least, most) = extremes(&alone, Strategy::Interrupt);
        let ways = 4.0 * 800e-6 + 2.0 * (WIRE + 4096.0 / LINE);
        assert!((least - ways).abs() < 1e-6 && (most - ways).abs() < 1e-6, "{least} {most} {ways}");
        let (least, most) = extremes(&alone, Strategy::Clocked(500.0));
        assert!(least > ways && most < ways + 4e-3, "{least} {most}");
    }

    #[test]
    fn a_window_that_is_acknowledged_bit_by_bit_stands_before_every_echo_and_one_acknowledged_at_once_before_some() {
        let (least, most) = extremes(&LOAD, Strategy::Interrupt);
        assert!(least > 14e-3 && most - least < 2e-3, "{least} {most}");
        let (least, most) = extremes(&Netperf { acknowledged: 28, ..LOAD }, Strategy::Interrupt);
        assert!(least < 12e-3 && most > 18e-3, "{least} {most}");
    }
}
