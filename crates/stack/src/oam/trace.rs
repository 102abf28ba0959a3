//! The points of a circuit, by loopback cells that ask each of them (I.610 section 9.2.1.1.3).
//!
//! A probe is two cells: one for every point, and one behind it for the end point. A circuit keeps the order of its
//! cells, so the answer to the second says that no more answers to the first will come.

use std::collections::HashSet;
use std::time::Duration;
use wire::oam::{Flow, Function, Location, Loopback};
use wire::{Cell, CellHeader, CircuitId, Time};

/// How many points are listed; a circuit has no more, and a hostile one could have any number of names.
const MAX_HOPS: usize = 256;

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceConfig {
    /// The circuit.
    pub circuit: CircuitId,
    /// How many probes, one after the answers to the other.
    pub probes: u32,
    /// How long a probe waits for the end point.
    pub timeout: Duration,
    /// First correlation tag; probes count up from it by two.
    pub first_tag: u32,
}

/// A point that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Its name.
    pub location: Location,
    /// Round trips, one for each probe that it answered.
    pub rtts: Vec<Duration>,
}

/// Sends probes, and lists who answers.
#[derive(Debug)]
pub struct Tracer {
    config: TraceConfig,
    sent: u32,
    /// When the probe under way was sent, until it is over.
    under_way: Option<Time>,
    unsent: Option<Cell>,
    hops: Vec<Hop>,
    /// Hops that have answered the probe under way.
    heard: HashSet<Location>,
    end: Vec<Duration>,
}

impl Tracer {
    /// Nothing is sent yet.
    pub fn new(config: TraceConfig) -> Self {
        Tracer {
            config,
            sent: 0,
            under_way: None,
            unsent: None,
            hops: Vec::new(),
            heard: HashSet::new(),
            end: Vec::new(),
        }
    }

    fn tag(&self) -> u32 {
        self.config.first_tag.wrapping_add(2 * self.sent.saturating_sub(1))
    }

    fn cell(&self, correlation: u32, location: Location) -> Cell {
        let header = CellHeader { circuit: self.config.circuit, ..CellHeader::default() };
        let loopback = Loopback { location, ..Loopback::request(correlation) };
        Cell::new(Flow::F5EndToEnd.header(header), Function::Loopback(loopback).emit())
    }

    /// A cell that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Cell> {
        if let Some(cell) = self.unsent.take() {
            return Some(cell);
        }
        if self.under_way.is_some() || self.sent >= self.config.probes {
            return None;
        }
        self.sent += 1;
        self.under_way = Some(now);
        self.heard.clear();
        self.unsent = Some(self.cell(self.tag().wrapping_add(1), Location::END_POINT));
        Some(self.cell(self.tag(), Location::EVERY_POINT))
    }

    /// A cell that came; others than answers to the probe under way are ignored.
    pub fn handle_cell(&mut self, cell: &Cell, now: Time) {
        let Ok(Function::Loopback(answer)) = Function::parse(&cell.payload) else { return };
        let Some(sent) = self.under_way.filter(|_| !answer.request) else { return };
        if Flow::of(cell.header()) != Some(Flow::F5EndToEnd) {
            return;
        }
        let rtt = now.since(sent);
        if answer.correlation == self.tag().wrapping_add(1) {
            self.end.push(rtt);
            self.under_way = None;
        } else if answer.correlation == self.tag() && self.heard.insert(answer.location) {
            match self.hops.iter().position(|hop| hop.location == answer.location) {
                Some(at) => self.hops[at].rtts.push(rtt),
                None if self.hops.len() < MAX_HOPS => {
                    self.hops.push(Hop { location: answer.location, rtts: vec![rtt] });
                }
                None => {}
            }
        }
    }

    /// Gives a probe up that is overdue.
    pub fn handle_timeout(&mut self, now: Time) {
        self.under_way.take_if(|sent| *sent + self.config.timeout <= now);
    }

    /// When to call again if nothing comes.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.under_way.map(|sent| sent + self.config.timeout)
    }

    /// Whether all probes are over.
    pub fn is_done(&self) -> bool {
        self.sent >= self.config.probes && self.under_way.is_none() && self.unsent.is_none()
    }

    /// The points that answered, in the order of the circuit. The end point is among them if it told its name.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Round trips to the end point.
    pub fn end(&self) -> &[Duration] {
        &self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(probes: u32) -> Tracer {
        let timeout = Duration::from_secs(5);
        Tracer::new(TraceConfig { circuit: "0.100".parse().unwrap(), probes, timeout, first_tag: u32::MAX })
    }

    fn answer(cell: &Cell, name: &str) -> Cell {
        let Ok(Function::Loopback(request)) = Function::parse(&cell.payload) else { panic!("no loopback") };
        assert!(request.request);
        Cell::new(cell.header(), Function::Loopback(request.returned(Location::named(name))).emit())
    }

    #[test]
    fn points_are_listed_in_the_order_of_their_answers_and_the_end_closes_a_probe() {
        let mut t = tracer(2);
        for probe in 0..2u64 {
            let base = Time::from_millis(10 * probe);
            let every = t.poll_transmit(base).unwrap();
            let last = t.poll_transmit(base).unwrap();
            assert_eq!(t.poll_transmit(base), None);
            let at = |us| base + Duration::from_micros(us);
            t.handle_cell(&every, at(1));
            t.handle_cell(&answer(&every, "s1"), at(5));
            t.handle_cell(&answer(&every, "s1"), at(6));
            t.handle_cell(&answer(&every, "s2"), at(7));
            assert!(!t.is_done());
            t.handle_cell(&answer(&last, "beta"), at(9));
            // The probe is over.
            t.handle_cell(&answer(&every, "late"), at(10));
        }
        assert!(t.is_done());
        let us = |n| Duration::from_micros(n);
        let hops: Vec<_> = t.hops().iter().map(|hop| (hop.location.to_string(), hop.rtts.clone())).collect();
        assert_eq!(hops, [("s1".into(), vec![us(5); 2]), ("s2".into(), vec![us(7); 2])]);
        assert_eq!(t.end(), [us(9); 2]);
    }

    #[test]
    fn an_end_that_is_silent_is_waited_for_and_no_longer() {
        let mut t = tracer(1);
        let every = t.poll_transmit(Time::ZERO).unwrap();
        t.poll_transmit(Time::ZERO).unwrap();
        t.handle_cell(&answer(&every, "s1"), Time::from_millis(1));
        t.handle_timeout(Time::from_millis(4999));
        assert_eq!((t.is_done(), t.poll_timeout()), (false, Some(Time::from_millis(5000))));
        t.handle_timeout(Time::from_millis(5000));
        assert!(t.is_done() && t.end().is_empty());
        assert_eq!(t.hops().len(), 1);
    }

    #[test]
    fn names_without_end_are_not_listed_without_end() {
        let mut t = tracer(1);
        let every = t.poll_transmit(Time::ZERO).unwrap();
        for n in 0..2 * MAX_HOPS {
            t.handle_cell(&answer(&every, &format!("n{n}")), Time::from_millis(1));
        }
        assert_eq!(t.hops().len(), MAX_HOPS);
    }
}
