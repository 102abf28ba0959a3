//! Two SSCOP machines over a link that loses, repeats, delays and damages PDUs: in the end they agree.
//!
//! `CELLWAY_LONG` asks for a hundred times as many random steps, `UNI_SEED` for one seed alone; a failure prints its seed.

use std::collections::VecDeque;
use std::time::Duration;
use uni::saal::{Event, Saal, State};
use uni::sscop::{Config, Fault};
use wire::Time;

/// A small generator (splitmix64): the same stream on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True `percent` times in a hundred.
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the link does, in percent of PDUs.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    lost: u64,
    repeated: u64,
    damaged: u64,
}

const DELAY: Duration = Duration::from_millis(5);
/// Messages that a sender lets wait.
const AHEAD: usize = 200;

/// Two ends, a wire each way, a clock.
struct Pair {
    now: Time,
    ends: [Saal; 2],
    wires: [VecDeque<(Time, Vec<u8>)>; 2],
    faults: Faults,
    random: Random,
    events: [Vec<Event>; 2],
}

impl Pair {
    fn new(seed: u64, faults: Faults) -> Self {
        let ends = [Saal::new(Config::default()), Saal::new(Config::default())];
        let wires = [VecDeque::new(), VecDeque::new()];
        Pair { now: Time::ZERO, ends, wires, faults, random: Random(seed), events: [Vec::new(), Vec::new()] }
    }

    fn collect(&mut self) {
        for side in 0..2 {
            while let Some(mut pdu) = self.ends[side].poll_transmit() {
                if self.random.percent(self.faults.lost) {
                    continue;
                }
                if self.random.percent(self.faults.damaged) {
                    let at = self.random.below(pdu.len() as u64) as usize;
                    pdu[at] ^= 1 << self.random.below(8);
                }
                let at = self.now + DELAY;
                if self.random.percent(self.faults.repeated) {
                    self.wires[side].push_back((at, pdu.clone()));
                }
                self.wires[side].push_back((at, pdu));
            }
            while let Some(event) = self.ends[side].poll() {
                self.events[side].push(event);
            }
        }
    }

    /// The next moment at which something happens; false if there is none.
    fn step(&mut self) -> bool {
        self.collect();
        let arrivals = self.wires.iter().filter_map(|wire| wire.front().map(|(at, _)| *at));
        let timers = self.ends.iter().filter_map(Saal::poll_timeout);
        let Some(now) = arrivals.chain(timers).min() else { return false };
        self.now = self.now.max(now);
        for side in 0..2 {
            while self.wires[side].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, pdu) = self.wires[side].pop_front().unwrap();
                self.ends[1 - side].handle_pdu(&pdu, self.now);
            }
            if self.ends[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[side].handle_timeout(self.now);
            }
        }
        self.collect();
        true
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end && self.step() {}
        self.now = self.now.max(end);
    }

    fn is_up(&self) -> bool {
        self.ends.iter().all(Saal::is_established)
    }

    /// Messages that `side` received, as numbers.
    fn take_data(&mut self, side: usize) -> Vec<u64> {
        let events = std::mem::take(&mut self.events[side]);
        let numbers = events.into_iter().filter_map(|event| match event {
            Event::Data(octets) => Some(u64::from_be_bytes(octets[..8].try_into().unwrap_or_default())),
            _ => None,
        });
        numbers.collect()
    }
}

/// A link that only loses: everything arrives, once and in order, and the connection is never given up.
fn loses(percent: u64) {
    let mut pair = Pair::new(7 + percent, Faults { lost: percent, ..Faults::default() });
    pair.ends[0].establish(Time::ZERO);
    while !pair.is_up() {
        pair.step();
        if pair.ends[0].state() == State::Released {
            pair.ends[0].establish(pair.now);
        }
    }
    pair.events = [Vec::new(), Vec::new()];
    let (mut given, mut got) = ([0u64; 2], [0u64; 2]);
    const MESSAGES: u64 = 3000;
    while got != [MESSAGES; 2] {
        for (end, given) in pair.ends.iter_mut().zip(&mut given) {
            while *given < MESSAGES && end.sscop().backlog() < AHEAD {
                end.send(given.to_be_bytes().to_vec(), pair.now).unwrap();
                *given += 1;
            }
        }
        assert!(pair.step());
        for (side, got) in got.iter_mut().enumerate() {
            for number in pair.take_data(side) {
                assert_eq!(number, *got, "in order, none twice, none missing");
                *got += 1;
            }
            assert!(pair.ends[side].sscop().held() <= AHEAD + 2 * 128 + 1100);
        }
        assert!(pair.is_up(), "at {} with {got:?}", pair.now);
        assert!(pair.now < Time::from_millis(3_600_000), "within the hour: {got:?}");
    }
    let again = pair.ends[0].sscop().faults(Fault::Retransmission) + pair.ends[1].sscop().faults(Fault::Retransmission);
    assert!(again >= MESSAGES * percent / 100);
}

#[test]
fn everything_arrives_in_order_with_1_pdu_in_100_lost() {
    loses(1);
}

#[test]
fn everything_arrives_in_order_with_5_pdus_in_100_lost() {
    loses(5);
}

#[test]
fn everything_arrives_in_order_with_20_pdus_in_100_lost() {
    loses(20);
}

#[test]
fn two_ends_agree_after_whatever_a_link_did_to_them_in_the_long_run() {
    let steps: u64 = if std::env::var_os("CELLWAY_LONG").is_some() { 20_000_000 } else { 200_000 };
    let one = std::env::var("UNI_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut done = 0;
    for seed in one.unwrap_or(1).. {
        match std::panic::catch_unwind(|| episode(seed)) {
            Ok(n) => done += n,
            Err(_) => {
                panic!("seed {seed}: UNI_SEED={seed} cargo test -p cellway-uni --test assured_link in_the_long_run")
            }
        }
        if done >= steps || one.is_some() {
            break;
        }
    }
}

/// Random requests over a bad link; then the link is good, and within a minute a message passes each way.
fn episode(seed: u64) -> u64 {
    let mut random = Random(seed ^ 0x5eed);
    let faults = Faults { lost: random.below(30), repeated: random.below(10), damaged: random.below(10) };
    let mut pair = Pair::new(seed, faults);
    let steps = 500 + random.below(1000);
    for step in 0..steps {
        let side = random.below(2) as usize;
        match random.below(100) {
            0..=2 => pair.ends[side].establish(pair.now),
            3 => pair.ends[side].release(pair.now),
            4..=40 => {
                let _ = pair.ends[side].send(step.to_be_bytes().to_vec(), pair.now);
            }
            _ => {
                pair.step();
            }
        }
        for end in &pair.ends {
            assert!(end.sscop().held() <= 1024 + 1024 + 1024 + 1024 + 256, "bounded: {}", end.sscop().held());
        }
    }
    pair.faults = Faults::default();
    // Both want the link, as call control does: whoever finds it down asks for it.
    for _ in 0..120 {
        pair.run_for(Duration::from_millis(500));
        for end in &mut pair.ends {
            if end.state() == State::Released {
                end.establish(pair.now);
            }
        }
    }
    assert!(pair.is_up(), "seed {seed}: {:?} {:?}", pair.ends[0], pair.ends[1]);
    pair.events = [Vec::new(), Vec::new()];
    for (side, end) in pair.ends.iter_mut().enumerate() {
        end.send((side as u64).to_be_bytes().to_vec(), pair.now).unwrap();
    }
    pair.run_for(Duration::from_secs(10));
    assert_eq!((pair.take_data(0), pair.take_data(1)), (vec![1], vec![0]), "seed {seed}");
    steps
}
