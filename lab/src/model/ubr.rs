//! TCP over UBR: connections of the real TCP through one congested port of the real switch ([`switch::Switch`]), by
//! what the switch discards (Romanow and Floyd, "Dynamics of TCP Traffic over ATM Networks", 1995).
//!
//! In: a scenario and a seed. Out: what the receivers got, and what the bottleneck carried in vain. Time goes by cell
//! times of one line rate: in each of them every sender may put a cell into its own port of the switch, and one cell
//! leaves for all receivers. Segmentation and reassembly, with the CRC-32, are those of [`sar`]. Acknowledgements
//! come back by a path without congestion.
//!
//! The least retransmission time-out of the TCP in process is a second (RFC 6298). Its clock runs [`Scenario::clock`]
//! times as fast as the line's. Ten times makes a tenth of a second of it: the simulated TCPs of 1995 had clocks of
//! about that grain.

use super::Random;
pub use super::bottleneck::Policy;
use super::bottleneck::{Bottleneck, FIRST_KEY, circuit};
use super::bulk::{End, HEADER_OCTETS, LLC_OCTETS, stream};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::collections::VecDeque;
use std::time::Duration;
use wire::{Cell, CellRate, Time, aal5};

/// Connections begin within so many cell times.
const BEGIN: u64 = 3532;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// What happens where the queue is full.
    pub policy: Policy,
    /// Connections, each with its own sender, circuit and receiver.
    pub connections: usize,
    /// Octets of an IP packet.
    pub packet: usize,
    /// Cells of the bottleneck's queue.
    pub queue: u32,
    /// Octets of a window at most.
    pub window: usize,
    /// From the switch to a receiver, and from there back to the sender.
    pub delay: Duration,
    /// How much faster TCP's clock runs than the line's.
    pub clock: u32,
    /// How long it is watched, after a fifth of it that is not.
    pub length: Duration,
}

impl Scenario {
    /// Ten connections on OC-3c with windows of 64 KB, watched for `length`.
    pub fn new(policy: Policy, packet: usize, queue: u32, length: Duration) -> Self {
        let delay = Duration::from_micros(50);
        Scenario { policy, connections: 10, packet, queue, window: 65_535, delay, clock: 10, length }
    }

    /// Cells of a full packet in its PDU.
    pub const fn cells(&self) -> usize {
        aal5::cells(self.packet + LLC_OCTETS)
    }
}

/// What came of it while it was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct UbrOutcome {
    /// Octets that each receiver has read, in order and once each.
    pub octets: Vec<u64>,
    /// All of them, against what the line could carry in packets of that size.
    pub effective: f64,
    /// Cells of PDUs that never became whole, against what the line could carry.
    pub dead: f64,
    /// Cell times in which the line was idle.
    pub idle: f64,
    /// PDUs that left with some of their cells only, from the beginning on.
    pub parts: u64,
    /// Cells that the switch dropped, from the beginning on.
    pub dropped: u64,
    /// Whether every octet was as it was sent.
    pub intact: bool,
    /// Cells that left, from the beginning on.
    pub cells: u64,
    /// All of this as one number.
    pub hash: u64,
}

impl UbrOutcome {
    /// Jain's index of the receivers' shares: 1 if all got the same, 1/n if one got all.
    pub fn fairness(&self) -> f64 {
        let (mut sum, mut squares) = (0.0, 0.0);
        for octets in self.octets.iter().map(|octets| *octets as f64) {
            sum += octets;
            squares += octets * octets;
        }
        if squares == 0.0 { 1.0 } else { sum * sum / (squares * self.octets.len() as f64) }
    }
}

/// A sender at its own line.
struct Sender {
    end: End,
    /// Cells of the PDU that is being sent, and how many have been.
    cells: Vec<Cell>,
    sent: usize,
    pdu: Vec<u8>,
    octets: usize,
    /// Cell times until it looks for another PDU.
    pause: u64,
    /// It has none until something comes or is due.
    idle: bool,
    wake: u64,
}

/// A receiver.
struct Receiver {
    end: End,
    reassembler: Reassembler,
    buffer: Vec<u8>,
    reply: Vec<u8>,
    /// Cells of the PDU that is coming.
    cells: u64,
    wake: u64,
}

/// PDUs under way for as long as all others.
#[derive(Default)]
struct Flight(VecDeque<(u64, usize, Vec<u8>)>);

impl Flight {
    fn due(&mut self, slot: u64) -> Option<(usize, Vec<u8>)> {
        self.0
            .front()
            .is_some_and(|(at, ..)| *at <= slot)
            .then(|| self.0.pop_front())
            .flatten()
            .map(|(_, n, pdu)| (n, pdu))
    }
}

struct World {
    stream: Vec<u8>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    bottleneck: Bottleneck,
    data: Flight,
    acknowledgements: Flight,
    random: Random,
    slot: u64,
    /// When the first end wakes, at the earliest.
    due: u64,
    delay: u64,
    /// Of a cell time.
    nanos: f64,
    now: Time,
    /// The moment by TCP's clock, and how much faster that runs.
    clock: Time,
    rate: f64,
    out: u64,
    dead: u64,
    parts: u64,
}

/// The cell time in which something of TCP's is due; `nanos`: of a cell time, by TCP's clock.
fn wake(slot: u64, nanos: f64, due: Option<Time>) -> u64 {
    let at = |due: Time| (due.as_nanos() as f64 / nanos).ceil() as u64;
    due.map_or(u64::MAX, |due| at(due).max(slot + 1))
}

/// Runs a scenario; `None` if the switch has no place for so many connections.
pub fn run(scenario: &Scenario, mut random: Random) -> Option<UbrOutcome> {
    let nanos = 1e9 / CellRate::OC3C.cells_per_s();
    let slots = |time: Duration| (time.as_nanos() as f64 / nanos) as u64;
    let room = scenario.packet + LLC_OCTETS;
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..scenario.connections {
        let mut end = |sends| End::new(sends, scenario.packet, scenario.window, random.bits());
        let (sends, takes) = (end(true)?, end(false)?);
        let pause = random.below(BEGIN);
        let (cells, pdu) = (Vec::with_capacity(scenario.cells()), vec![0; room]);
        senders.push(Sender { end: sends, cells, sent: 0, pdu, octets: 0, pause, idle: false, wake: pause });
        let config = ReassemblyConfig { max_sdu_octets: room, ..ReassemblyConfig::default() };
        let (reassembler, buffer, reply) = (Reassembler::new(config), vec![0; room], vec![0; room]);
        receivers.push(Receiver { end: takes, reassembler, buffer, reply, cells: 0, wake: 0 });
    }
    let mut world = World {
        stream: stream(),
        senders,
        receivers,
        bottleneck: Bottleneck::new(scenario.policy, scenario.connections, scenario.queue, scenario.cells())?,
        data: Flight::default(),
        acknowledgements: Flight::default(),
        random,
        slot: 0,
        due: 0,
        delay: slots(scenario.delay).max(1),
        nanos,
        now: Time::ZERO,
        clock: Time::ZERO,
        rate: f64::from(scenario.clock),
        out: 0,
        dead: 0,
        parts: 0,
    };
    let length = slots(scenario.length);
    world.pass(length / 5);
    let (out, dead) = (world.out, world.dead);
    let before: Vec<u64> = world.receivers.iter().map(|receiver| receiver.end.octets).collect();
    world.pass(length);
    let octets: Vec<u64> =
        world.receivers.iter().zip(before).map(|(receiver, before)| receiver.end.octets - before).collect();
    let (out, dead) = ((world.out - out) as f64, (world.dead - dead) as f64);
    let most = length as f64 * (scenario.packet - HEADER_OCTETS) as f64 / scenario.cells() as f64;
    let dropped = world.bottleneck.dropped(u16::try_from(scenario.connections).ok()?);
    let mut trace = crate::Trace::default();
    for n in octets.iter().chain([&world.out, &world.dead, &world.parts, &dropped]) {
        trace.add(&n.to_be_bytes());
    }
    Some(UbrOutcome {
        effective: octets.iter().sum::<u64>() as f64 / most,
        dead: dead / length as f64,
        idle: 1.0 - out / length as f64,
        octets,
        parts: world.parts,
        dropped,
        intact: world.receivers.iter().all(|receiver| receiver.end.intact),
        cells: world.out,
        hash: trace.hash(),
    })
}

impl World {
    /// Lets so many cell times pass.
    fn pass(&mut self, slots: u64) {
        for _ in 0..slots {
            self.slot += 1;
            let nanos = self.slot as f64 * self.nanos;
            self.now = Time::from_nanos(nanos as u64);
            self.clock = Time::from_nanos((nanos * self.rate) as u64);
            self.deliver();
            // Who is first in a cell time is drawn: lines are not in step.
            let first = self.random.below(self.senders.len() as u64) as usize;
            for n in (first..self.senders.len()).chain(0..first) {
                self.send(n);
            }
            self.leave();
        }
    }

    /// PDUs that have come, and timers that are due.
    fn deliver(&mut self) {
        let (slot, nanos, now) = (self.slot, self.nanos * self.rate, self.clock);
        while let Some((n, pdu)) = self.acknowledgements.due(slot) {
            let sender = &mut self.senders[n];
            sender.end.handle_pdu(&pdu, &self.stream, now);
            sender.wake = wake(slot, nanos, sender.end.poll_timeout(now));
            sender.idle = false;
            self.due = self.due.min(sender.wake);
        }
        while let Some((n, pdu)) = self.data.due(slot) {
            self.receivers[n].end.handle_pdu(&pdu, &self.stream, now);
            self.acknowledge(n);
        }
        if self.due > slot {
            return;
        }
        for n in 0..self.senders.len() {
            let sender = &mut self.senders[n];
            if sender.wake <= slot {
                sender.end.run(&self.stream, now);
                sender.wake = wake(slot, nanos, sender.end.poll_timeout(now));
                sender.idle = false;
            }
            if self.receivers[n].wake <= slot {
                self.receivers[n].end.run(&self.stream, now);
                self.acknowledge(n);
            }
        }
        let wakes = self.senders.iter().map(|sender| sender.wake);
        self.due = wakes.chain(self.receivers.iter().map(|receiver| receiver.wake)).min().unwrap_or(u64::MAX);
    }

    /// What a receiver has to say leaves at once.
    fn acknowledge(&mut self, n: usize) {
        let receiver = &mut self.receivers[n];
        while let Some(octets) = receiver.end.poll_pdu(&mut receiver.reply, self.clock) {
            let reply = receiver.reply[..octets].to_vec();
            self.acknowledgements.0.push_back((self.slot + self.delay, n, reply));
        }
        receiver.wake = wake(self.slot, self.nanos * self.rate, receiver.end.poll_timeout(self.clock));
        self.due = self.due.min(receiver.wake);
    }

    /// A sender's cell of this cell time.
    fn send(&mut self, n: usize) {
        let sender = &mut self.senders[n];
        if sender.pause > 0 {
            sender.pause -= 1;
            return;
        }
        if sender.sent == sender.cells.len() {
            if sender.idle {
                return;
            }
            let Some(octets) = sender.end.poll_pdu(&mut sender.pdu, self.clock) else {
                sender.idle = true;
                return;
            };
            sender.wake = wake(self.slot, self.nanos * self.rate, sender.end.poll_timeout(self.clock));
            self.due = self.due.min(sender.wake);
            let Ok(mut segmentation) = Segmentation::new(circuit(n), octets, SduMeta::default()) else { return };
            sender.cells.resize(aal5::cells(octets), Cell::default());
            segmentation.fill(&sender.pdu[..octets], &mut sender.cells);
            (sender.sent, sender.octets) = (0, octets);
        }
        let cell = &sender.cells[sender.sent];
        sender.sent += 1;
        let last = sender.sent == sender.cells.len();
        match &mut self.bottleneck {
            Bottleneck::Cells(switch) => {
                switch.handle_cells(n as u16, std::slice::from_ref(cell), self.now, &mut ());
            }
            Bottleneck::Packets(queue) if last => queue.offer(n, &sender.pdu[..sender.octets], sender.cells.len()),
            Bottleneck::Packets(_) => {}
        }
        if last {
            // A host's work between two packets, drawn: Floyd and Jacobson (1992) advise it against effects of phase.
            sender.pause = self.random.below(sender.cells.len() as u64 / 8 + 1);
        }
    }

    /// The bottleneck's cell of this cell time.
    fn leave(&mut self) {
        match &mut self.bottleneck {
            Bottleneck::Cells(switch) => {
                let port = self.senders.len() as u16;
                if !switch.has_output(port) {
                    return;
                }
                let mut out = [Cell::default()];
                if switch.poll_transmit(port, &mut out, self.now) == 0 {
                    return;
                }
                self.out += 1;
                let n = (out[0].circuit().key() - FIRST_KEY) as usize;
                let receiver = &mut self.receivers[n];
                receiver.cells += 1;
                match receiver.reassembler.push(&out, &mut receiver.buffer, self.now).event {
                    Event::Complete { sdu_octets, .. } => {
                        receiver.cells = 0;
                        self.data.0.push_back((self.slot + self.delay, n, receiver.buffer[..sdu_octets].to_vec()));
                    }
                    Event::Failed(_) => {
                        self.parts += 1;
                        self.dead += std::mem::take(&mut receiver.cells);
                    }
                    Event::NeedMore => {}
                }
            }
            Bottleneck::Packets(queue) => {
                let (sent, whole) = queue.serve();
                self.out += u64::from(sent);
                if let Some((n, pdu)) = whole {
                    self.data.0.push_back((self.slot + self.delay, n, pdu));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(policy: Policy, packet: usize, queue: u32) -> UbrOutcome {
        run(&Scenario::new(policy, packet, queue, Duration::from_millis(150)), Random::new(3)).unwrap()
    }

    #[test]
    fn every_octet_arrives_once_and_in_order_whatever_is_dropped() {
        for policy in Policy::ALL {
            let outcome = of(policy, 1500, 500);
            assert!(outcome.intact && outcome.dropped > 0, "{policy:?}: {outcome:?}");
            assert!(outcome.octets.iter().sum::<u64>() > 0 && outcome.effective < 1.02, "{policy:?}: {outcome:?}");
        }
    }

    #[test]
    fn only_switches_that_drop_cells_by_themselves_pass_parts_of_pdus() {
        for policy in Policy::ALL {
            let outcome = of(policy, 9180, 1000);
            let parts = matches!(policy, Policy::Plain | Policy::Partial);
            assert_eq!(outcome.parts > 0, parts, "{policy:?}: {outcome:?}");
            assert_eq!(outcome.dead > 0.0, parts, "{policy:?}: {outcome:?}");
        }
    }

    #[test]
    fn the_same_numbers_give_the_same_run_and_others_another() {
        let scenario = Scenario::new(Policy::Plain, 1500, 500, Duration::from_millis(50));
        let of = |seed| run(&scenario, Random::new(seed)).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).hash, of(2).hash);
    }

    #[test]
    fn jain_s_index_is_one_for_equal_shares_and_the_reciprocal_of_their_number_for_one() {
        let outcome = |octets: &[u64]| UbrOutcome {
            octets: octets.to_vec(),
            effective: 0.0,
            dead: 0.0,
            idle: 0.0,
            parts: 0,
            dropped: 0,
            intact: true,
            cells: 0,
            hash: 0,
        };
        assert!((outcome(&[7; 4]).fairness() - 1.0).abs() < 1e-9);
        assert!((outcome(&[7, 0, 0, 0]).fairness() - 0.25).abs() < 1e-9);
    }
}
