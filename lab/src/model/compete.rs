//! netperf beside a process that computes (seed 004, section 3.2; checklist E-15 to E-17): what an interrupt for each packet
//! costs, and what a clock costs, when processes compete for the processor.
//!
//! In: what things cost, a way to learn of packets, a window, whether a process computes. Out: a rate, wake-ups, round trips of echoes.
//! Two hosts back to back. Protocol work on a packet is done at interrupt level; copying, and netperf itself, at process level, under a
//! scheduler. A process that slept while another one ran pays a switch and a cache refill as it wakes up: for each packet if
//! each packet wakes it, for a batch if batches do. While it still has work no wake-up is needed, so a process that is behind pays less.

use super::machine::{Level, Machine, Scheduler, Work};
use super::random::Random;
use std::collections::{BTreeMap, VecDeque};
use wire::Time;

/// Octets each second of OC-12c's cell payload.
const LINE: f64 = 599.04e6 / 8.0 * 48.0 / 53.0;
/// From an answer to the next echo: so many seconds, and up to as many again, so that echoes and windows are not in step.
const PAUSE: f64 = 20e-3;
/// Looks that a polling process which shares its processor takes in one piece while nothing comes.
const LOOKS: f64 = 4.0;

const NETPERF: Level = Level::Task(0);
const COMPUTE: Level = Level::Task(1);
const PING: Level = Level::Task(2);
const POLLER: Level = Level::Task(3);

/// How a host learns of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice {
    /// An interrupt for each; what has come while one was in hand is served by the next, together.
    Interrupt,
    /// A clock that looks so many times each second.
    Clocked(f64),
    /// netperf looks itself, without rest.
    Polling,
    /// An interrupt when so many packets wait, or so many seconds after the first of them (interrupt coalescing).
    Coalesced(usize, f64),
    /// An interrupt, masked while packets are polled: so many at interrupt level, then by a process until none waits (Linux's NAPI).
    Napi(usize),
}

/// What things cost, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// An interrupt, or a clock's tick.
    pub interrupt: f64,
    /// A look at the device.
    pub look: f64,
    /// All work on a segment: at the sender, at the receiver.
    pub segment: [f64; 2],
    /// The share of it that is done at process level, 0 to 1.
    pub process: f64,
    /// An echo's way out of a host, and its way in.
    pub echo: f64,
    /// A wake-up after which another process's data is in the caches.
    pub switch: f64,
    /// The way between the hosts.
    pub wire: f64,
    /// Who runs.
    pub scheduler: Scheduler,
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// See there.
    pub notice: Notice,
    /// See there.
    pub costs: Costs,
    /// Segments of a window; none: no netperf.
    pub window: u64,
    /// Octets of a segment.
    pub segment: f64,
    /// Whether a process computes at both hosts.
    pub computes: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompetitionOutcome {
    /// Of netperf's octets, 10^6 bit/s.
    pub mbit_s: f64,
    /// Wake-ups of netperf at the receiver after another process, for each segment.
    pub wakes: f64,
    /// Interrupts and ticks at the receiver, for each second.
    pub interrupts: f64,
    /// Round trips of echoes, in seconds.
    pub trips: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Packet {
    Segment,
    /// A read made room for a segment more.
    Acknowledgement,
    Echo,
    Answer,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival(usize, Packet),
    Tick(usize),
    /// The first packet of a batch has waited long enough.
    Due(usize),
    Ping,
}

#[derive(Debug, Clone, Copy)]
enum Token {
    /// The handler has been entered.
    Entered,
    /// Protocol work on a packet is done.
    Packet(Packet),
    /// netperf has copied a segment.
    Copied,
    /// A polling netperf has looked.
    Looked,
    Computed,
    PingSent,
    PingSeen,
}

#[derive(Debug)]
struct Host {
    machine: Machine<Token>,
    /// In the adapter.
    device: VecDeque<Packet>,
    /// Packets of the handler in hand; whether there is one.
    in_hand: usize,
    serving: bool,
    /// Whether a batch's time-out runs.
    due: bool,
    /// Segments that netperf may copy; whether it does, or sleeps.
    ready: u64,
    copying: bool,
    asleep: bool,
    /// What a polling netperf has taken from the device.
    taken: Vec<Packet>,
    line_free: f64,
    wakes: u64,
    interrupts: u64,
}

struct Run<'a> {
    load: &'a Load,
    hosts: [Host; 2],
    events: BTreeMap<(Time, u64), Event>,
    number: u64,
    pinged: Time,
    pings: bool,
    copied: u64,
    trips: Vec<f64>,
}

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9).round() as u64)
}

impl Run<'_> {
    fn schedule(&mut self, when: f64, event: Event) {
        self.number += 1;
        self.events.insert((at(when), self.number), event);
    }

    fn transmit(&mut self, now: Time, from: usize, packet: Packet) {
        let octets = match packet {
            Packet::Segment => self.load.segment,
            Packet::Acknowledgement => 48.0,
            Packet::Echo | Packet::Answer => 4096.0,
        };
        let host = &mut self.hosts[from];
        host.line_free = host.line_free.max(now.as_secs_f64()) + octets / LINE;
        let there = host.line_free + self.load.costs.wire;
        self.schedule(there, Event::Arrival(1 - from, packet));
    }

    /// Protocol work on a packet.
    fn protocol(&self, number: usize, packet: Packet) -> f64 {
        let costs = &self.load.costs;
        match packet {
            Packet::Segment | Packet::Acknowledgement => costs.segment[number] * (1.0 - costs.process),
            // In, and out again.
            Packet::Echo => 2.0 * costs.echo,
            Packet::Answer => costs.echo,
        }
    }

    fn raise(&mut self, number: usize) {
        let interrupt = self.load.costs.interrupt;
        let host = &mut self.hosts[number];
        if !host.serving {
            host.serving = true;
            host.interrupts += 1;
            host.machine.submit(Level::Interrupt, Work::cached(interrupt), Token::Entered);
        }
    }

    /// The handler takes what is in the device.
    fn take(&mut self, number: usize, level: Level, most: usize) {
        let packets: Vec<Packet> = {
            let host = &mut self.hosts[number];
            let n = host.device.len().min(most);
            host.device.drain(..n).collect()
        };
        let works: Vec<f64> = packets.iter().map(|packet| self.protocol(number, *packet)).collect();
        let host = &mut self.hosts[number];
        host.in_hand = packets.len();
        host.serving = !packets.is_empty();
        for (packet, work) in packets.into_iter().zip(works) {
            host.machine.submit(level, Work::cached(work), Token::Packet(packet));
        }
    }

    /// The handler has done what it took.
    fn served(&mut self, number: usize, now: Time) {
        if let Notice::Napi(budget) = self.load.notice {
            return self.take(number, POLLER, budget);
        }
        self.hosts[number].serving = false;
        self.noticed(number, now);
    }

    /// Packets wait in the device: whether that is an interrupt.
    fn noticed(&mut self, number: usize, now: Time) {
        let host = &mut self.hosts[number];
        let waiting = host.device.len();
        match self.load.notice {
            _ if waiting == 0 || host.serving => {}
            Notice::Interrupt | Notice::Napi(_) => self.raise(number),
            Notice::Coalesced(packets, _) if waiting >= packets => self.raise(number),
            Notice::Coalesced(_, seconds) if !host.due => {
                host.due = true;
                self.schedule(now.as_secs_f64() + seconds, Event::Due(number));
            }
            _ => {}
        }
    }

    fn handle_event(&mut self, event: Event, now: Time) {
        match event {
            Event::Arrival(number, packet) => {
                self.hosts[number].device.push_back(packet);
                self.noticed(number, now);
            }
            Event::Tick(number) => {
                self.raise(number);
                if let Notice::Clocked(hertz) = self.load.notice {
                    self.schedule(now.as_secs_f64() + 1.0 / hertz, Event::Tick(number));
                }
            }
            Event::Due(number) => {
                self.hosts[number].due = false;
                if !self.hosts[number].device.is_empty() {
                    self.raise(number);
                }
            }
            Event::Ping => {
                self.pinged = now;
                let work = Work::cached(self.woken() + self.load.costs.echo);
                self.hosts[0].machine.submit(PING, work, Token::PingSent);
            }
        }
    }

    /// What waking up costs a process that slept.
    fn woken(&self) -> f64 {
        if self.load.computes || self.load.window > 0 { self.load.costs.switch } else { 0.0 }
    }

    /// netperf goes on, if it has something to do.
    fn process(&mut self, number: usize) {
        let costs = &self.load.costs;
        if self.load.notice == Notice::Polling {
            return self.poll(number);
        }
        let host = &mut self.hosts[number];
        if host.copying {
            return;
        }
        if host.ready == 0 {
            host.asleep = true;
            return;
        }
        let switch = host.asleep && self.load.computes;
        let seconds = costs.segment[number] * costs.process + if switch { costs.switch } else { 0.0 };
        host.wakes += u64::from(switch);
        host.ready -= 1;
        (host.copying, host.asleep) = (true, false);
        host.machine.submit(NETPERF, Work::cached(seconds), Token::Copied);
    }

    /// A polling netperf looks, and does all the work on what it finds.
    fn poll(&mut self, number: usize) {
        let host = &self.hosts[number];
        if host.copying || host.device.is_empty() && host.ready == 0 && !self.load.computes {
            return;
        }
        let packets: Vec<Packet> = self.hosts[number].device.drain(..).collect();
        let protocol: f64 = packets.iter().map(|packet| self.protocol(number, *packet)).sum();
        let costs = &self.load.costs;
        let host = &mut self.hosts[number];
        let data = packets.iter().filter(|p| matches!(p, Packet::Segment | Packet::Acknowledgement)).count() as u64;
        let ready = std::mem::take(&mut host.ready) + data;
        // Alone it finds a packet half a look late on the average; else it looks again and again.
        let looks = match (ready == 0 && packets.is_empty(), self.load.computes) {
            (true, _) => LOOKS,
            (false, true) => 1.0,
            (false, false) => 1.5,
        };
        let copies = ready as f64 * costs.segment[number] * costs.process;
        host.taken = packets;
        host.taken.extend((data..ready).map(|_| Packet::Acknowledgement));
        host.copying = true;
        host.machine.submit(NETPERF, Work::cached(looks * costs.look + protocol + copies), Token::Looked);
    }

    fn copied(&mut self, number: usize, now: Time) {
        if number == 0 {
            self.transmit(now, 0, Packet::Segment);
        } else {
            self.copied += 1;
            self.transmit(now, 1, Packet::Acknowledgement);
        }
    }

    fn done(&mut self, number: usize, token: Token, now: Time, random: &mut Random) {
        match token {
            Token::Entered => {
                let most = if let Notice::Napi(budget) = self.load.notice { budget } else { usize::MAX };
                self.take(number, Level::Interrupt, most);
            }
            Token::Packet(packet) => {
                self.packet(number, packet, now);
                let host = &mut self.hosts[number];
                host.in_hand -= 1;
                if host.in_hand == 0 {
                    self.served(number, now);
                }
            }
            Token::Copied => {
                self.hosts[number].copying = false;
                self.copied(number, now);
            }
            Token::Looked => {
                self.hosts[number].copying = false;
                for packet in std::mem::take(&mut self.hosts[number].taken) {
                    match packet {
                        Packet::Segment | Packet::Acknowledgement => self.copied(number, now),
                        Packet::Echo | Packet::Answer => self.packet(number, packet, now),
                    }
                }
            }
            Token::Computed => self.hosts[number].machine.submit(COMPUTE, Work::cached(1.0), Token::Computed),
            Token::PingSent => self.transmit(now, 0, Packet::Echo),
            Token::PingSeen => {
                self.trips.push(now.since(self.pinged).as_secs_f64());
                if self.pings {
                    let pause = PAUSE * (1.0 + random.uniform());
                    self.schedule(now.as_secs_f64() + pause, Event::Ping);
                }
            }
        }
    }

    /// What a packet does once the protocol has seen it.
    fn packet(&mut self, number: usize, packet: Packet, now: Time) {
        match packet {
            Packet::Segment | Packet::Acknowledgement => self.hosts[number].ready += 1,
            Packet::Echo => self.transmit(now, number, Packet::Answer),
            Packet::Answer => {
                let work = Work::cached(self.woken());
                self.hosts[number].machine.submit(PING, work, Token::PingSeen);
            }
        }
    }
}

/// Runs for so many seconds of virtual time, with echoes if `pings`.
pub fn run(load: &Load, seconds: f64, pings: bool, random: &mut Random) -> CompetitionOutcome {
    let host = || Host {
        machine: Machine::scheduled(load.costs.scheduler, &[1.0; 4]),
        device: VecDeque::new(),
        in_hand: 0,
        serving: false,
        due: false,
        ready: 0,
        copying: false,
        asleep: false,
        taken: Vec::new(),
        line_free: 0.0,
        wakes: 0,
        interrupts: 0,
    };
    let (hosts, events) = ([host(), host()], BTreeMap::new());
    let mut run = Run { load, hosts, events, number: 0, pinged: Time::ZERO, pings, copied: 0, trips: Vec::new() };
    run.hosts[0].ready = load.window;
    for number in 0..2 {
        if load.computes {
            run.hosts[number].machine.submit(COMPUTE, Work::cached(1.0), Token::Computed);
        }
        if let Notice::Clocked(hertz) = load.notice {
            // The second host's clock runs half a tick apart from the first's.
            run.schedule(number as f64 / 2.0 / hertz, Event::Tick(number));
        }
    }
    if pings {
        run.schedule(PAUSE * (1.0 + random.uniform()), Event::Ping);
    }
    let (end, mut done) = (at(seconds), Vec::new());
    loop {
        (0..2).for_each(|number| run.process(number));
        let timeouts = run.hosts.iter().filter_map(|host| host.machine.poll_timeout());
        let event = run.events.first_key_value().map(|((when, _), _)| *when);
        let Some(now) = timeouts.chain(event).min().filter(|now| *now < end) else { break };
        for number in 0..2 {
            run.hosts[number].machine.advance(now, |token| done.push((number, token)));
        }
        for (number, token) in done.drain(..) {
            run.done(number, token, now, random);
        }
        while let Some(entry) = run.events.first_entry().filter(|entry| entry.key().0 <= now) {
            let event = entry.remove();
            run.handle_event(event, now);
        }
    }
    let receiver = &run.hosts[1];
    CompetitionOutcome {
        mbit_s: run.copied as f64 * load.segment * 8.0 / seconds / 1e6,
        wakes: receiver.wakes as f64 / run.copied.max(1) as f64,
        interrupts: receiver.interrupts as f64 / seconds,
        trips: run.trips,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        interrupt: 50e-6,
        look: 10e-6,
        segment: [250e-6, 500e-6],
        process: 0.5,
        echo: 800e-6,
        switch: 200e-6,
        wire: 20e-6,
        scheduler: Scheduler { quantum: 0.01, slack: 0.0 },
    };

    fn load(notice: Notice, window: u64, computes: bool) -> Load {
        Load { notice, costs: COSTS, window, segment: 9180.0, computes }
    }

    fn rate(load: &Load) -> CompetitionOutcome {
        run(load, 1.0, false, &mut Random::new(1))
    }

    #[test]
    fn a_receiver_without_competitors_is_bound_by_its_work_on_a_segment_and_never_pays_for_a_switch() {
        let outcome = rate(&load(Notice::Interrupt, 28, false));
        // A little less for the beginning, when the receiver waits.
        let bounds = [0.98 * 9180.0 * 8.0 / 550.0, 9180.0 * 8.0 / 500.0];
        assert!((bounds[0]..=bounds[1]).contains(&outcome.mbit_s), "{outcome:?} {bounds:?}");
        assert_eq!(outcome.wakes, 0.0);
        // One segment at a time: both hosts' work, two interrupts, and the way.
        let one = rate(&load(Notice::Interrupt, 1, false)).mbit_s;
        let turn = 750.0 + 100.0 + 40.0 + (9180.0 + 48.0) / LINE * 1e6;
        assert!((one / (9180.0 * 8.0 / turn) - 1.0).abs() < 0.01, "{one}");
    }

    #[test]
    fn beside_a_process_that_computes_each_wake_up_is_paid_for_and_a_clock_wakes_for_batches() {
        let interrupts = rate(&load(Notice::Interrupt, 1, true));
        assert!((interrupts.wakes - 1.0).abs() < 0.01, "one segment at a time wakes for each: {interrupts:?}");
        let batches = rate(&load(Notice::Clocked(100.0), 28, true));
        assert!(batches.wakes < 0.2, "{batches:?}");
        let free = Load { costs: Costs { switch: 0.0, ..COSTS }, ..load(Notice::Interrupt, 1, true) };
        assert!(rate(&free).mbit_s > interrupts.mbit_s);
    }

    #[test]
    fn coalescing_takes_fewer_interrupts_and_napi_none_while_packets_come() {
        let plain = rate(&load(Notice::Interrupt, 28, false));
        for notice in [Notice::Coalesced(8, 1e-3), Notice::Napi(64)] {
            let outcome = rate(&load(notice, 28, false));
            assert!(outcome.interrupts < 0.8 * plain.interrupts, "{notice:?}: {outcome:?} {plain:?}");
            assert!(outcome.mbit_s > 0.5 * plain.mbit_s, "{notice:?}: {outcome:?}");
        }
    }

    #[test]
    fn an_echo_alone_takes_its_four_ways_and_two_interrupts() {
        let trips = run(&load(Notice::Interrupt, 0, false), 3.0, true, &mut Random::new(1)).trips;
        let ways = 4.0 * 800e-6 + 2.0 * 50e-6 + 2.0 * (20e-6 + 4096.0 / LINE);
        assert!(trips.len() > 50 && trips.iter().all(|trip| (trip - ways).abs() < 1e-6), "{trips:?} {ways}");
    }
}
