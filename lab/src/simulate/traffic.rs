//! When sources send, and how much: state machines that draw from a seed.

use super::scenario::{Kind, OCTETS, Source};
use net::random::Random;
use std::path::Path;
use std::time::Duration;
use wire::Time;

/// Octets of a cell's payload, and of the trailer of AAL5 (I.363.5).
const PAYLOAD: usize = 48;
const TRAILER: usize = 8;
/// Of a file of times and sizes.
const MAX_FILE_OCTETS: u64 = 64 << 20;

/// Cells of an SDU.
pub(super) fn cells(octets: usize) -> u64 {
    (octets + TRAILER).div_ceil(PAYLOAD) as u64
}

/// Times and sizes of SDUs, one after the other.
#[derive(Debug)]
pub(super) struct Generator {
    kind: Kind,
    random: Random,
    /// Between two SDUs, in seconds.
    gap: f64,
    octets: usize,
    /// Mean times of sending and of not sending, in seconds.
    on_off: [f64; 2],
    /// The next moment, in seconds: what is rounded does not add up.
    next: f64,
    /// When it stops to send for a while.
    on_until: f64,
    stop: f64,
    /// Of a file, the last first.
    list: Vec<(f64, usize)>,
}

impl Generator {
    /// A source of a scenario that is read from `folder`; it draws from `seed`.
    pub(super) fn new(source: &Source, seed: u64, folder: &Path, end: Duration) -> Result<Self, String> {
        let start = source.start.map_or(0.0, |start| start.0.as_secs_f64());
        let stop = source.stop.map_or(end, |stop| stop.0.min(end)).as_secs_f64();
        let octets = source.octets.unwrap_or(0);
        let gap = match &source.rate {
            Some(rate) => {
                let rate = net::topology::parse_circuit_rate(rate).map_err(|e| e.to_string())?.cells_per_s();
                cells(octets) as f64 / rate
            }
            None => 0.0,
        };
        let list = source.file.as_ref().map(|file| read(&folder.join(file), start)).transpose()?.unwrap_or_default();
        let seconds = |time: Option<super::scenario::Time>| time.map_or(0.0, |time| time.0.as_secs_f64());
        let mut generator = Generator {
            kind: source.kind,
            random: Random::new(seed),
            gap,
            octets,
            on_off: [seconds(source.on), seconds(source.off)],
            next: start,
            on_until: f64::INFINITY,
            stop,
            list,
        };
        match source.kind {
            Kind::OnOff => generator.on_until = start + generator.exponential(generator.on_off[0]),
            Kind::Poisson => generator.next += generator.exponential(gap),
            Kind::Cbr | Kind::File => {}
        }
        Ok(generator)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        // 0 inclusive to 1 exclusive: the logarithm is finite.
        -mean * (1.0 - self.random.share()).ln()
    }

    /// When the next SDU is sent, and its octets; `None`: no more.
    pub(super) fn peek(&self) -> Option<(Time, usize)> {
        let (at, octets) = match self.kind {
            Kind::File => *self.list.last()?,
            _ => (self.next, self.octets),
        };
        (at < self.stop).then(|| (Time::ZERO + Duration::from_secs_f64(at.max(0.0)), octets))
    }

    /// That one has been sent.
    pub(super) fn advance(&mut self) {
        match self.kind {
            Kind::File => drop(self.list.pop()),
            Kind::Cbr => self.next += self.gap,
            Kind::Poisson => self.next += self.exponential(self.gap),
            Kind::OnOff => {
                self.next += self.gap;
                while self.next >= self.on_until {
                    self.next = self.on_until + self.exponential(self.on_off[1]);
                    self.on_until = self.next + self.exponential(self.on_off[0]);
                }
            }
        }
    }
}

/// Reads a file of times and sizes; its times count from `start`.
fn read(file: &Path, start: f64) -> Result<Vec<(f64, usize)>, String> {
    let wrong = |says: String| format!("{}: {says}", file.display());
    let octets = std::fs::metadata(file).map_err(|e| wrong(e.to_string()))?.len();
    if octets > MAX_FILE_OCTETS {
        return Err(wrong(format!("{octets} octets: expected {MAX_FILE_OCTETS} at most")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
    let mut list: Vec<(f64, usize)> = Vec::new();
    for (line, nth) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let row = (|| Some((words.next()?.parse::<f64>().ok()?, words.next()?.parse::<usize>().ok()?)))();
        let fits = |(at, octets): &(f64, usize)| at.is_finite() && *at >= 0.0 && OCTETS.contains(octets);
        let Some((at, octets)) = row.filter(fits) else {
            let (least, most) = (OCTETS.start(), OCTETS.end());
            return Err(wrong(format!("line {nth}: expected seconds and octets ({least} to {most}): 0.25 1000")));
        };
        if list.last().is_some_and(|(before, _)| *before > start + at) {
            return Err(wrong(format!("line {nth}: before the line above it")));
        }
        list.push((start + at, octets));
    }
    list.reverse();
    Ok(list)
}
