//! Mapping, as control programs of interfaces do it among themselves: a state machine for each, without a clock.
//!
//! In: mapping messages that came, the time. Out: messages to send and their routes, the host's own routes. Every
//! interface answers scouts. The one with the highest address maps; one that hears of no mapper for a while becomes
//! one, and stops when it hears of a higher address. All begin when they are switched on. A run of the mapper:
//!
//! 1. It sends a scout to each port of each switch it knows, as if a host were there. An answer is a host.
//! 2. Where nothing answered, it sends a loop through the supposed switch and back. What comes back is a switch.
//! 3. Switches have no names. So it sends loops in by the new cable and out by the ports that lead back from each known
//!    switch: one that comes back says that the two are the same, and at which port the cable ends. The way back from a
//!    known switch is the same turns reversed, so a loop comes back by no other way.
//! 4. It computes up*/down* routes and tells each host its own, which the host acknowledges.
//!
//! A scout that is lost or late is sent anew, [`Settings::tries`] times in all. In a busy network answers are late, so
//! what the map in force has is asked for longer ([`Settings::known_tries`]), and another map is in force when
//! [`Settings::alike`] runs in a row have drawn it. These follow one another at once. Else the next run begins after
//! [`Settings::period`], or when a cable has changed.

use super::probe::{Path, Probe, Question};
use super::routes::{Map, MapPort, Routes};
use crate::packet::mapping::{Address, Body, Message};
use crate::packet::{MAX_HOPS, Turn, turns};
use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use wire::Time;

pub use super::probe::Transmit;

/// Farthest port of the largest switch from any other.
const FARTHEST: i32 = 15;

/// Times of mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// From the end of a run to the next.
    pub period: Duration,
    /// How long an answer may take.
    pub patience: Duration,
    /// How often a message is sent that is not answered.
    pub tries: u32,
    /// The same of one that was answered when the map in force was drawn; each beyond `tries` has twice the time of the
    /// one before.
    pub known_tries: u32,
    /// Runs in a row that draw another map than the one in force before theirs is in force.
    pub alike: u32,
    /// How long a mapper is silent, beyond a period, before another interface becomes one; each higher address that it
    /// knows makes it a quarter more.
    pub silence: Duration,
    /// Switches and hosts of a map at most.
    pub limit: usize,
}

impl Settings {
    /// Those of a description without its own.
    pub const DEFAULT: Settings = Settings {
        period: Duration::from_millis(100),
        patience: Duration::from_millis(1),
        tries: 3,
        known_tries: 7,
        alike: 3,
        silence: Duration::from_millis(400),
        limit: 256,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Settings::DEFAULT
    }
}

/// What a batch of messages is to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Whether a host or a switch is at the other end of the own cable.
    Beginning,
    /// Which ports of a switch have hosts.
    Hosts(usize),
    /// Which of the others have switches.
    Switches(usize),
    /// Which known switch is behind a port.
    Compare(MapPort),
    /// Whether each host has its routes.
    Tell,
}

#[derive(Debug)]
struct Run {
    stage: Stage,
    probes: Vec<Probe>,
    /// The first probe's number.
    base: u64,
    sent: usize,
    round: u32,
    deadline: Option<Time>,
    /// Scouts and loops that were answered.
    answered: HashSet<Question>,
    map: Map,
    /// Each switch's route from the mapper, and its ports that are known.
    found: Vec<(Path, Vec<i32>)>,
    /// Ports behind which a switch is.
    behind: VecDeque<MapPort>,
    next: usize,
    routes: Routes,
}

/// The mapping part of an interface's control program.
#[derive(Debug)]
pub struct Mapping {
    address: Address,
    settings: Settings,
    /// The mapper, as far as is known.
    mapper: Address,
    routes: Vec<(Address, Vec<Turn>)>,
    version: u64,
    number: u64,
    outbox: VecDeque<Transmit>,
    run: Option<Run>,
    /// The map in force.
    map: Option<Map>,
    /// What was answered when it was drawn, and in the last run if that has drawn another one.
    known: [HashSet<Question>; 2],
    /// What the last run has drawn, and how many in a row have.
    drawn: Option<Map>,
    alike: u32,
    /// When the next run begins, or when the mapper has been silent for too long.
    due: Time,
    maps: u64,
}

impl Mapping {
    /// An interface that was switched on at `now`.
    pub fn new(address: Address, settings: Settings, now: Time) -> Self {
        Mapping {
            address,
            settings,
            mapper: 0,
            routes: Vec::new(),
            version: 0,
            number: 1,
            outbox: VecDeque::new(),
            run: None,
            map: None,
            known: Default::default(),
            drawn: None,
            alike: 0,
            due: now,
            maps: 0,
        }
    }

    /// The interface's address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The mapper's address, as far as is known.
    pub fn mapper(&self) -> Address {
        self.mapper
    }

    /// Number of the last table of routes, and the routes.
    pub fn routes(&self) -> (u64, &[(Address, Vec<Turn>)]) {
        (self.version, &self.routes)
    }

    /// The route to an address.
    pub fn route(&self, to: Address) -> Option<&[Turn]> {
        self.routes.iter().find(|(address, _)| *address == to).map(|(_, route)| &route[..])
    }

    /// The map in force, at the mapper.
    pub fn map(&self) -> Option<&Map> {
        self.map.as_ref()
    }

    /// Runs that have ended with a map.
    pub fn maps(&self) -> u64 {
        self.maps
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if let Some(transmit) = self.outbox.pop_front() {
            return Some(transmit);
        }
        let run = self.run.as_mut()?;
        while let Some(probe) = run.probes.get(run.sent) {
            let number = run.base + run.sent as u64;
            run.sent += 1;
            if run.sent == run.probes.len() {
                let doubled = (run.round + 1).saturating_sub(self.settings.tries).min(16);
                run.deadline = Some(now + self.settings.patience.saturating_mul(1 << doubled));
            }
            if probe.answer.is_none()
                && (probe.known || run.round < self.settings.tries)
                && let Some(transmit) = probe.transmit(self.address, number, &run.routes)
            {
                return Some(transmit);
            }
        }
        None
    }

    /// When [`Mapping::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.run {
            Some(run) => run.deadline,
            None => Some(self.due),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        match &mut self.run {
            None if now >= self.due => self.begin(),
            Some(run) if run.deadline.is_some_and(|at| now >= at) => {
                run.round += 1;
                let is_known = run.probes.iter().any(|probe| probe.known && probe.answer.is_none());
                if run.round >= if is_known { self.settings.known_tries } else { self.settings.tries } {
                    self.stage_over(now);
                } else {
                    run.sent = 0;
                    run.deadline = None;
                }
            }
            _ => {}
        }
    }

    /// A cable has been plugged or pulled: the mapper maps at once, and others wait no period for it.
    pub fn handle_change(&mut self, now: Time) {
        // What a run under way draws is of both sides of the change.
        self.alike = 0;
        let wait = if self.mapper == self.address { Duration::ZERO } else { self.silence() };
        self.due = self.due.min(now + wait);
    }

    /// A mapping message has come.
    pub fn handle_message(&mut self, payload: &[u8], now: Time) {
        let Ok(message) = Message::parse(payload) else { return };
        let Message { from, number, body } = message;
        match body {
            Body::Scout { back } if from != self.address => {
                self.answer(back, number, Body::Answer);
                self.heard(from, now);
            }
            Body::Routes { back, entries } if from != self.address => {
                self.heard(from, now);
                if from > self.address {
                    let limit = self.settings.limit;
                    let all = entries.iter().take(limit).filter_map(|(to, route)| Some((to, turns(route)?.collect())));
                    self.routes = all.collect();
                    self.version = number;
                    self.map = None;
                }
                self.answer(back, number, Body::Acknowledged);
            }
            Body::Loop if from == self.address => self.answered(number, from, now),
            Body::Answer | Body::Acknowledged if from != self.address => {
                // A higher address will map: it has had our scout.
                if from > self.address && self.run.as_ref().is_some_and(|run| run.stage != Stage::Tell) {
                    return self.heard(from, now);
                }
                self.answered(number, from, now);
            }
            _ => {}
        }
    }

    /// A host with this address maps, or could.
    fn heard(&mut self, from: Address, now: Time) {
        if from > self.address {
            self.run = None;
            self.mapper = from;
            self.due = now + self.settings.period + self.silence();
        } else if self.run.is_none() && self.mapper != self.address {
            // A lower one maps because it knows nothing of this one.
            self.due = now;
        }
    }

    /// How long a mapper's next run is waited for: those that could map do so one after another.
    fn silence(&self) -> Duration {
        let between = |address: Address| address > self.address && address != self.mapper;
        let higher = self.routes.iter().filter(|(address, _)| between(*address)).count();
        let ranks = u32::try_from(higher).unwrap_or(u32::MAX);
        self.settings.silence + (self.settings.silence / 4).saturating_mul(ranks)
    }

    fn answer(&mut self, back: &[u8], number: u64, body: Body<'_>) {
        let Some(route) = turns(back).filter(|_| self.outbox.len() < self.settings.limit) else { return };
        let message = Message { from: self.address, number, body };
        self.outbox.push_back(Transmit::new(route.collect(), &message));
    }

    fn answered(&mut self, number: u64, from: Address, now: Time) {
        let Some(run) = &mut self.run else { return };
        let index = number.checked_sub(run.base).and_then(|n| usize::try_from(n).ok());
        let Some(probe) = index.and_then(|n| run.probes.get_mut(n)) else { return };
        probe.answer = Some(from);
        let first_is_enough = matches!(run.stage, Stage::Compare(_));
        if first_is_enough || run.probes.iter().all(|probe| probe.answer.is_some()) {
            self.stage_over(now);
        }
    }

    /// A run begins.
    fn begin(&mut self) {
        self.mapper = self.address;
        self.run = Some(Run {
            stage: Stage::Beginning,
            probes: Vec::new(),
            base: 0,
            sent: 0,
            round: 0,
            deadline: None,
            answered: HashSet::new(),
            map: Map::default(),
            found: Vec::new(),
            behind: VecDeque::new(),
            next: 0,
            routes: Routes::default(),
        });
        let there_and_back = Path::default().and(&[Turn::default()]).map(Question::Loop);
        let loops = there_and_back.map(|question| Probe::new(question, (0, 1)));
        let probes = [Probe::new(Question::Scout(Path::default()), (0, 0))].into_iter().chain(loops).collect();
        self.ask(Stage::Beginning, probes);
    }

    /// Sends a batch.
    fn ask(&mut self, stage: Stage, mut probes: Vec<Probe>) {
        for probe in &mut probes {
            probe.known = stage == Stage::Tell || self.known.iter().any(|known| known.contains(&probe.question));
        }
        let base = self.number;
        // Tables of routes have a number each, if there are none too.
        self.number += probes.len().max(usize::from(stage == Stage::Tell)) as u64;
        if let Some(run) = &mut self.run {
            (run.stage, run.probes, run.base) = (stage, probes, base);
            (run.sent, run.round, run.deadline) = (0, 0, None);
        }
    }

    /// A batch has been answered as far as it will be: what follows from it.
    fn stage_over(&mut self, now: Time) {
        let (address, limit) = (self.address, self.settings.limit);
        let Some(run) = &mut self.run else { return };
        let probes = core::mem::take(&mut run.probes);
        run.answered.extend(probes.iter().filter(|probe| probe.answer.is_some()).map(|probe| probe.question));
        let answers = || probes.iter().filter_map(|probe| Some((probe.port, probe.answer?)));
        match run.stage {
            Stage::Beginning => {
                let host = answers().find(|(port, _)| *port == (0, 0)).map(|(_, from)| from);
                let switch = answers().any(|(port, _)| port == (0, 1));
                run.map.hosts.push((address, switch.then_some((0, 0))));
                if switch {
                    run.map.switches = 1;
                    run.found.push((Path::default(), vec![0]));
                } else if let Some(host) = host {
                    run.map.hosts.push((host, None));
                }
            }
            Stage::Hosts(switch) => {
                for (port, from) in answers() {
                    if run.map.hosts.len() < limit {
                        run.map.hosts.push((from, Some(port)));
                    }
                    run.found[switch].1.push(port.1);
                }
                let asked = run.unknown(switch).filter_map(|port| {
                    let there = run.route_to((switch, port))?;
                    Some(Probe::new(join(there, Turn::default(), &there.back())?, (switch, port)))
                });
                let asked = asked.collect();
                return self.ask_or_go_on(Stage::Switches(switch), asked, now);
            }
            Stage::Switches(_) => run.behind.extend(answers().map(|(port, _)| port)),
            Stage::Compare(port) => {
                let same = answers().next().map(|(port, _)| port);
                let far = same.or_else(|| {
                    let route = run.route_to(port).filter(|_| run.found.len() < limit)?;
                    run.found.push((route, Vec::new()));
                    run.map.switches = run.found.len();
                    Some((run.found.len() - 1, 0))
                });
                run.behind.retain(|other| Some(*other) != same);
                if let Some(far) = far {
                    run.map.cables.push([port, far]);
                    run.found[far.0].1.push(far.1);
                }
                run.found[port.0].1.push(port.1);
            }
            Stage::Tell => {
                let (map, routes) = (core::mem::take(&mut run.map), core::mem::take(&mut run.routes));
                self.routes = routes.of(address).map(|(to, route)| (to, route.to_vec())).collect();
                self.version = run.base;
                self.known = [core::mem::take(&mut run.answered), HashSet::new()];
                self.map = Some(map);
                self.maps += 1;
                return self.run_over(now);
            }
        }
        self.go_on(now);
    }

    /// The next port behind which a switch is, the next switch, or the routes.
    fn go_on(&mut self, now: Time) {
        let Some(run) = &mut self.run else { return };
        while let Some(port) = run.behind.pop_front() {
            // The other end of a cable that was found from there.
            if run.found[port.0].1.contains(&port.1) {
                continue;
            }
            let Some(there) = run.route_to(port) else { continue };
            let mut asked = Vec::new();
            for (switch, (route, _)) in run.found.iter().enumerate() {
                let back = route.back();
                for at in run.unknown(switch).filter(|at| (switch, *at) != port) {
                    // In by port `at` of the known switch, out by its port 0.
                    let way = turn(-at).and_then(|out| join(there, out, &back));
                    asked.extend(way.map(|way| Probe::new(way, (switch, at))));
                }
            }
            return self.ask_or_go_on(Stage::Compare(port), asked, now);
        }
        if run.next < run.found.len() {
            let switch = run.next;
            run.next += 1;
            let asked = run.unknown(switch).filter_map(|port| {
                let there = run.route_to((switch, port))?;
                Some(Probe::new(Question::Scout(there), (switch, port)))
            });
            let asked = asked.collect();
            return self.ask_or_go_on(Stage::Hosts(switch), asked, now);
        }
        run.map.hosts.sort_unstable();
        run.map.hosts.dedup_by_key(|(address, _)| *address);
        // In this form the same map has the same routes, however it was found.
        let map = run.map.canonical();
        self.alike = if self.drawn.as_ref() == Some(&map) { self.alike + 1 } else { 1 };
        self.drawn = Some(map.clone());
        let replaces_one = self.map.as_ref().map_or(!self.routes.is_empty(), |in_force| *in_force != map);
        if replaces_one && self.alike < self.settings.alike {
            self.known[1] = core::mem::take(&mut run.answered);
            return self.run_over(now);
        }
        (run.routes, run.map) = (map.routes(), map);
        let asked = run.routes.of(self.address).map(|(to, _)| Probe::new(Question::Routes(to), (0, 0)));
        let asked = asked.collect();
        self.ask_or_go_on(Stage::Tell, asked, now);
    }

    /// The next run follows at once until enough in a row have drawn the same.
    fn run_over(&mut self, now: Time) {
        self.run = None;
        self.due = if self.alike < self.settings.alike { now } else { now + self.settings.period };
    }

    fn ask_or_go_on(&mut self, stage: Stage, asked: Vec<Probe>, now: Time) {
        let none = asked.is_empty();
        self.ask(stage, asked);
        if none {
            self.stage_over(now);
        }
    }
}

impl Run {
    /// The route to what is behind a port; `None` if it is too long for a loop there and back.
    fn route_to(&self, (switch, port): MapPort) -> Option<Path> {
        let route = self.found.get(switch)?.0.and(&[turn(port)?])?;
        (2 * route.len() < MAX_HOPS).then_some(route)
    }

    /// Ports that a switch may have, of which nothing is known yet.
    fn unknown(&self, switch: usize) -> impl Iterator<Item = i32> + '_ {
        let known = self.found.get(switch).map_or(&[][..], |(_, known)| known);
        let (least, most) = (known.iter().min().copied().unwrap_or(0), known.iter().max().copied().unwrap_or(0));
        (most - FARTHEST..=least + FARTHEST).filter(|port| !known.contains(port))
    }
}

fn turn(ports: i32) -> Option<Turn> {
    Turn::new(i8::try_from(ports).ok()?)
}

/// The loop by `there`, a turn, and `back`; `None` if it is too long.
fn join(there: Path, turn: Turn, back: &[Turn]) -> Option<Question> {
    there.and(&[turn])?.and(back).map(Question::Loop)
}
