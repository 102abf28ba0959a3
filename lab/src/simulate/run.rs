//! Runs a scenario: sources, changes and the network, each moment in this order, until all has come to rest.

use super::SimulationError;
use super::ends::{End, circuit_of, parse, same};
use super::expect::{Sdu, Sent, Sum, judge};
use super::network::Simulated;
use super::outcome::{DroppedAt, Outcome, SourceOutcome};
use super::scenario::{Change, Scenario};
use super::traffic::{Generator, cells};
use control::config::Config;
use control::kinds::Kinds;
use net::topology::CircuitEnd;
use std::path::Path;
use std::time::Duration;
use wire::Time;

/// What is on its way when sources end has so much time to arrive.
const REST: Duration = Duration::from_secs(10);
/// SDUs of all sources: what is kept of each takes 32 octets.
const MAX_SDUS: usize = 8 << 20;

/// A source, and where its SDUs go.
struct Running {
    generator: Generator,
    from: usize,
    receivers: u32,
    refused: u64,
}

struct Simulation<'a> {
    simulated: Simulated,
    ends: Vec<End>,
    sources: Vec<Running>,
    sent: Vec<Sent>,
    /// By time, the last first.
    changes: Vec<&'a Change>,
    folder: &'a Path,
    kinds: &'a Kinds,
    total: usize,
}

/// Runs a scenario, whose files are in `folder`, on the network of a description.
///
/// # Errors
/// The description or the scenario cannot be simulated.
pub fn run(
    kinds: &Kinds,
    config: &Config,
    scenario: &Scenario,
    folder: &Path,
    seed: u64,
) -> Result<Outcome, SimulationError> {
    let mut changes: Vec<&Change> = scenario.change.iter().collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.at));
    let simulated = Simulated::new(config.clone(), seed)?;
    let (ends, sources, sent) = (Vec::new(), Vec::new(), Vec::new());
    let mut simulation = Simulation { simulated, ends, sources, sent, changes, folder, kinds, total: 0 };
    simulation.open(config, scenario, seed)?;
    simulation.pass(Time::ZERO + scenario.duration())?;
    Ok(simulation.outcome(scenario, seed))
}

impl Simulation<'_> {
    fn open(&mut self, config: &Config, scenario: &Scenario, seed: u64) -> Result<(), SimulationError> {
        for (nth, source) in scenario.source.iter().enumerate() {
            let wrong = |says: String| SimulationError::part(format!("source {}", source.called(nth)), says);
            let from = parse(&source.from).map_err(wrong)?;
            let found = circuit_of(config, &from);
            let (category, others, sends) = found.ok_or_else(|| wrong(format!("there is no circuit at {from}")))?;
            if !sends {
                return Err(wrong(format!("nothing of AAL5 is sent from {from}: the circuit leads the other way")));
            }
            let drawn = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(nth as u64);
            let generator = Generator::new(source, drawn, self.folder, scenario.duration()).map_err(wrong)?;
            let octets = source.octets.unwrap_or(*super::scenario::OCTETS.end());
            let sender = self.end(&from, octets).map_err(wrong)?;
            for other in &others {
                self.end(other, octets).map_err(wrong)?;
            }
            self.sources.push(Running { generator, from: sender, receivers: others.len() as u32, refused: 0 });
            self.sent.push(Sent { source: source.called(nth), category, all: Vec::new() });
        }
        Ok(())
    }

    /// The place of an end that is open, or is opened now.
    fn end(&mut self, end: &CircuitEnd, octets: usize) -> Result<usize, String> {
        if let Some(place) = self.ends.iter().position(|open| same(&open.end, &end.station, end.circuit)) {
            if self.ends[place].takes(octets) {
                return Ok(place);
            }
            return Err(format!("{end}: another source has shorter SDUs there: list the one with the longest first"));
        }
        let host = self.simulated.host(&end.station).ok_or_else(|| format!("{} is no host", end.station))?;
        self.ends.push(End::open(host, end, octets)?);
        Ok(self.ends.len() - 1)
    }

    fn now(&self) -> Time {
        self.simulated.world.now()
    }

    /// Lets time pass until `end`, and then until all has come to rest.
    fn pass(&mut self, end: Time) -> Result<(), SimulationError> {
        while self.now() < end {
            self.change()?;
            self.send()?;
            let sources = self.sources.iter().filter_map(|source| source.generator.peek()).map(|(at, _)| at);
            let change = self.changes.last().map(|change| Time::ZERO + change.at.0);
            let until = sources.chain(change).min().unwrap_or(end).min(end);
            self.carry(until);
        }
        self.carry(end + REST);
        Ok(())
    }

    /// Lets the network carry what it has until a moment. What arrives is taken at the moment when it does.
    fn carry(&mut self, until: Time) {
        loop {
            self.simulated.world.run_moment();
            self.receive();
            if !self.simulated.world.move_on(until) {
                return;
            }
        }
    }

    /// Makes the changes that are due.
    fn change(&mut self) -> Result<(), SimulationError> {
        let now = self.now();
        while let Some(change) = self.changes.pop_if(|change| Time::ZERO + change.at.0 <= now) {
            let wrong = |says: String| SimulationError::part(format!("change at {:?}", change.at.0), says);
            if let Some(up) = change.up {
                if !self.simulated.set_up(change.link.as_deref(), change.station.as_deref(), up) {
                    let name = change.link.as_ref().or(change.station.as_ref()).cloned().unwrap_or_default();
                    return Err(wrong(format!("{name} is no link, and no station with links")));
                }
            } else if let Some(file) = &change.description {
                let config = control::description::load(self.kinds, &self.folder.join(file));
                self.simulated.apply(config.map_err(|e| wrong(format!("{e:#}")))?)?;
                for end in &mut self.ends {
                    if let Some(host) = self.simulated.host(&end.end.station) {
                        end.reopen(host);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends what is due.
    fn send(&mut self) -> Result<(), SimulationError> {
        let now = self.now();
        for (nth, source) in self.sources.iter_mut().enumerate() {
            while let Some((_, octets)) = source.generator.peek().filter(|(at, _)| *at <= now) {
                source.generator.advance();
                let all = &mut self.sent[nth].all;
                if !self.ends[source.from].send(nth as u64, all.len() as u64, octets) {
                    source.refused += 1;
                    continue;
                }
                self.total += 1;
                if self.total > MAX_SDUS {
                    let says = format!("more than {MAX_SDUS} SDUs: make it shorter, or send longer SDUs");
                    return Err(SimulationError::part("duration", says));
                }
                let cells = cells(octets) as u32;
                all.push(Sdu { sent: now, octets: octets as u32, cells, missing: source.receivers, arrived: now });
            }
        }
        Ok(())
    }

    /// Takes what has arrived.
    fn receive(&mut self) {
        let now = self.now();
        for end in &mut self.ends {
            while let Some((source, number)) = end.receive() {
                let sdu = self.sent.get_mut(source as usize).and_then(|sent| sent.all.get_mut(number as usize));
                // A link that duplicates brings one more than were sent.
                if let Some(sdu) = sdu.filter(|sdu| sdu.missing > 0) {
                    (sdu.missing, sdu.arrived) = (sdu.missing - 1, now);
                }
            }
        }
    }

    fn outcome(mut self, scenario: &Scenario, seed: u64) -> Outcome {
        let seconds = scenario.duration().as_secs_f64();
        let of_source = |((source, sent), running): ((&super::scenario::Source, &Sent), &Running)| {
            let sum = Sum::of(sent.all.iter());
            SourceOutcome {
                source: sent.source.clone(),
                from: source.from.clone(),
                category: sent.category.clone(),
                sent: sum.sent,
                refused: running.refused,
                received: sum.received,
                lost: sum.lost(),
                lost_cells: sum.lost_cells,
                bits_per_s: sum.octets as f64 * 8.0 / seconds,
                delay_s: sum.delay(),
            }
        };
        let sources = scenario.source.iter().zip(&self.sent).zip(&self.sources).map(of_source).collect();
        let dropped = self.simulated.drops().into_iter().map(|(place, direction, reason, count)| DroppedAt {
            place,
            direction: direction.to_owned(),
            reason: reason.to_owned(),
            count,
        });
        let dropped = dropped.collect();
        let trace = self.simulated.world.trace();
        Outcome {
            seed,
            seconds: self.now().since(Time::ZERO).as_secs_f64(),
            trace: format!("{:016x}", trace.hash()),
            carried: trace.events(),
            sources,
            dropped,
            expectations: scenario.expect.iter().map(|expect| judge(expect, &self.sent)).collect(),
        }
    }
}
