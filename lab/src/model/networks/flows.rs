//! Workloads of messages: streams, messages at an interval, and questions with answers, several at once.

use super::{Event, Ground, To};
use core::time::Duration;
use wire::Time;

/// How a flow goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As ttcp: the next message when the interface has taken the last.
    Stream,
    /// A message at each interval.
    Every(Duration),
    /// The next message when the answer, of the same size, has come.
    Answered,
}

/// Messages of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Its host.
    pub from: usize,
    /// For whom.
    pub to: To,
    /// Octets of a message: 14 at least.
    pub octets: usize,
    /// See there.
    pub pace: Pace,
    /// It asks for low latency, where the network has such circuits.
    pub urgent: bool,
}

impl Flow {
    /// A stream from one host to another.
    pub fn stream(from: usize, to: To, octets: usize) -> Self {
        Flow { from, to, octets, pace: Pace::Stream, urgent: false }
    }
}

/// What became of a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Carried {
    /// Messages that its interface took.
    pub taken: u64,
    /// Messages that each receiver's application has had.
    pub came: Vec<u64>,
    /// Messages that are not as they were sent, or came out of order.
    pub damaged: u64,
    /// Of the receiver with the least, after the first quarter of the time: Mbit/s.
    pub mbit_s: f64,
    /// From when the application gave a message to when the receiver had it, or its answer: seconds.
    pub latencies: Vec<f64>,
}

impl Carried {
    /// The mean latency in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len().max(1) as f64 * 1e6
    }

    /// The longest latency in microseconds.
    pub fn most_us(&self) -> f64 {
        self.latencies.iter().copied().fold(0.0, f64::max) * 1e6
    }
}

/// Octets that a message begins with: its flow, whether it is an answer, its number, when it was given.
pub const HEAD_OCTETS: usize = 14;

fn message(flow: usize, answer: bool, number: u32, given: Time, octets: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(octets);
    message.extend([flow as u8, u8::from(answer)]);
    message.extend(number.to_be_bytes());
    message.extend(given.as_nanos().to_be_bytes());
    message.extend((HEAD_OCTETS..octets).map(|at| (at as u32).wrapping_mul(31).wrapping_add(number) as u8));
    message
}

/// Flow, whether it is an answer, number, and when it was given; `None` if it is not as it was made.
fn parse(octets: &[u8]) -> Option<(usize, bool, u32, Time)> {
    let (head, _) = octets.split_first_chunk::<HEAD_OCTETS>()?;
    let number = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
    let nanos = head[6..].iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet));
    let (flow, answer, given) = (usize::from(head[0]), head[1] == 1, Time::from_nanos(nanos));
    (message(flow, answer, number, given, octets.len()) == octets).then_some((flow, answer, number, given))
}

/// One flow under way.
struct Running {
    flow: Flow,
    next: u32,
    /// When the next message is given, of one at an interval.
    due: Option<Time>,
    expected: Vec<u32>,
    /// For each receiver: when the first message after the beginning came, when the last one, and how many since.
    window: Vec<Option<(Time, Time, u64)>>,
    carried: Carried,
}

impl Running {
    fn receivers(flow: &Flow) -> std::ops::Range<usize> {
        match flow.to {
            To::Host(host) => host..host + 1,
            To::Group(last) => 1..last + 1,
        }
    }

    fn give(&mut self, number: usize, ground: &mut Ground<'_>) {
        let Flow { from, to, octets, urgent, .. } = self.flow;
        let pdu = message(number, false, self.next, ground.now(), octets);
        self.next += 1;
        ground.send(from, to, pdu, urgent, number as u64, 0.0);
    }

    fn came(&mut self, receiver: usize, number: u32, (since, end): (Time, Time), now: Time) {
        let carried = &mut self.carried;
        carried.came[receiver] += 1;
        // Lost messages leave gaps; nothing comes twice or before its predecessor.
        carried.damaged += u64::from(number < self.expected[receiver]);
        self.expected[receiver] = number + 1;
        if now < since || now > end {
            return;
        }
        let window = self.window[receiver].get_or_insert((now, now, 0));
        window.1 = now;
        window.2 += u64::from(window.0 != now);
    }

    fn finish(mut self) -> Carried {
        let octets = self.flow.octets as f64;
        let rate = |window: &Option<(Time, Time, u64)>| match window {
            Some((first, last, since)) if last > first => {
                octets * 8.0 * *since as f64 / last.since(*first).as_secs_f64() / 1e6
            }
            _ => 0.0,
        };
        self.carried.mbit_s = self.window.iter().map(rate).fold(f64::MAX, f64::min);
        self.carried
    }
}

/// The tag of an answer, of which no flow waits to be taken.
const ANSWER: u64 = u64::MAX;

/// Runs flows for a time; what became of each.
pub fn run(ground: &mut Ground<'_>, flows: &[Flow], length: Duration) -> Vec<Carried> {
    run_and_drain(ground, flows, length, Duration::ZERO)
}

/// The same, and waits for so long for what is under way at the end: it counts as having come, not in a rate.
pub fn run_and_drain(ground: &mut Ground<'_>, flows: &[Flow], length: Duration, drain: Duration) -> Vec<Carried> {
    let begin = ground.now();
    let (since, end, last) = (begin + length / 4, begin + length, begin + length + drain);
    let mut running: Vec<Running> = Vec::with_capacity(flows.len());
    for flow in flows {
        let receivers = Running::receivers(flow).len();
        let due = if let Pace::Every(_) = flow.pace { Some(begin) } else { None };
        let carried = Carried { came: vec![0; receivers], ..Carried::default() };
        let (expected, window) = (vec![0; receivers], vec![None; receivers]);
        running.push(Running { flow: *flow, next: 0, due, expected, window, carried });
    }
    let mut damaged = 0;
    for (number, flow) in running.iter_mut().enumerate() {
        if flow.due.is_none() {
            flow.give(number, ground);
        }
    }
    loop {
        for (number, flow) in running.iter_mut().enumerate() {
            while let (Some(due), Pace::Every(interval)) =
                (flow.due.filter(|due| *due <= ground.now() && *due < end), flow.flow.pace)
            {
                flow.give(number, ground);
                flow.due = Some(due + interval);
            }
        }
        let timer = running.iter().filter_map(|flow| flow.due).filter(|due| *due < end).min().unwrap_or(last);
        match ground.next(timer, |_| 0.0) {
            None if ground.now() >= last => break,
            None => {}
            Some(Event::Taken { tag: ANSWER, .. }) => {}
            Some(Event::Taken { tag, .. }) => {
                let flow = &mut running[tag as usize];
                flow.carried.taken += 1;
                if flow.flow.pace == Pace::Stream && ground.now() < end {
                    flow.give(tag as usize, ground);
                }
            }
            Some(Event::Delivered { host, pdu }) => {
                // What was cut is a message of fewer octets: its flow knows how many it has.
                let whole = |n: usize| running.get(n).is_some_and(|flow| flow.flow.octets == pdu.len());
                let Some((number, answer, count, given)) = parse(&pdu).filter(|(n, ..)| whole(*n)) else {
                    damaged += 1;
                    continue;
                };
                let (flow, now) = (&mut running[number], ground.now());
                let Flow { from, to: _, octets, pace, urgent } = flow.flow;
                if pace == Pace::Answered && !answer {
                    let back = message(number, true, count, given, octets);
                    ground.send(host, To::Host(from), back, urgent, ANSWER, 0.0);
                    continue;
                }
                let receiver = if answer { 0 } else { host - Running::receivers(&flow.flow).start };
                flow.came(receiver, count, (since, end), now);
                flow.carried.latencies.push(now.since(given).as_secs_f64());
                if answer && now < end {
                    flow.give(number, ground);
                }
            }
        }
        if ground.now() >= last {
            break;
        }
    }
    let mut all: Vec<Carried> = running.into_iter().map(Running::finish).collect();
    if let Some(first) = all.first_mut() {
        first.damaged += damaged;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_made_and_no_octet_of_it_may_differ() {
        let given = Time::from_nanos(123_456_789_012);
        for octets in [HEAD_OCTETS, HEAD_OCTETS + 1, 1024] {
            for (flow, answer, number) in [(0, false, 0), (7, true, 70_000)] {
                let whole = message(flow, answer, number, given, octets);
                assert_eq!(whole.len(), octets);
                assert_eq!(parse(&whole), Some((flow, answer, number, given)));
                for at in HEAD_OCTETS..octets {
                    let mut damaged = whole.clone();
                    damaged[at] ^= 0x10;
                    assert_eq!(parse(&damaged), None, "octet {at}");
                }
                // A head that is another's makes it another message: what follows it does not fit.
                let mut other = whole.clone();
                other[5] ^= 1;
                assert_eq!(parse(&other).is_none(), octets > HEAD_OCTETS);
            }
        }
    }

    #[test]
    fn what_is_too_short_for_a_head_and_what_was_cut_or_grew_is_no_message() {
        let whole = message(1, false, 9, Time::from_micros(3), 200);
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&whole[..HEAD_OCTETS - 1]), None);
        // The pattern goes on at any length: a message that was cut is found by its flow's number of octets.
        assert!(parse(&whole[..100]).is_some());
        let mut spliced = whole[..100].to_vec();
        spliced.extend_from_slice(&whole[101..]);
        assert_eq!(parse(&spliced), None);
        let answer = 2;
        let mut neither = whole;
        neither[1] = answer;
        assert_eq!(parse(&neither), None);
    }

    #[test]
    fn the_mean_and_the_longest_of_no_message_are_nothing() {
        let none = Carried::default();
        assert_eq!((none.mean_us(), none.most_us()), (0.0, 0.0));
        let some = Carried { latencies: vec![1e-6, 3e-6], ..Carried::default() };
        assert!((some.mean_us() - 2.0).abs() < 1e-9 && (some.most_us() - 3.0).abs() < 1e-9);
    }
}
