//! A traffic generator, as `ht` was: one sender, one receiver or several, messages of one size.
//!
//! In: a [`Job`], events of its user interface, the time. Out: what has come of it so far. It uses the interfaces as any program does: it
//! queues messages, and posts each buffer again when a message has come.

use super::layout::{GENERATOR, Layout, Region, place};
use crate::network::{Network, Station};
use crate::{Destination, Event};
use bus::memory::HostMemory;
use core::time::Duration;
use wire::Time;

/// Messages that a stream has queued at most.
const WINDOW: u32 = 8;
/// Where nothing comes for so long, what is missing is lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// The group that the generator uses.
const GROUP: u16 = u16::MAX;
/// The longest message.
pub(super) const MAX_OCTETS: u32 = 65_536;
/// Messages of one job at most.
const MAX_COUNT: u32 = 10_000_000;

/// How a sender goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// It queues messages as long as there is room.
    #[default]
    Stream,
    /// It sends the next message when all receivers have acknowledged the last one.
    Acknowledged,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// The sender, by its place among the hosts.
    pub from: usize,
    /// The receivers. Several are a group.
    pub to: Vec<usize>,
    /// Octets of a message.
    pub octets: u32,
    /// How many messages.
    pub count: u32,
    /// See there.
    pub pace: Pace,
    /// The host writes messages into the SRAM.
    pub immediate: bool,
}

/// Why a job is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another one is not done.
    #[error("another run is under way: try again when it has ended")]
    Busy,
    /// No such host, or the sender is its own receiver, or there is no receiver.
    #[error("a run needs a sender, and other hosts as receivers")]
    Hosts,
    /// Too short or too long.
    #[error("messages of {0} octets: write 1 to {1}")]
    Octets(u32, u32),
    /// None, or too many.
    #[error("{0} messages: write 1 to {MAX_COUNT}")]
    Count(u32),
    /// The map has no route.
    #[error("no route leads to a receiver: is its cable plugged in?")]
    NoRoute,
    /// The switch is off.
    #[error("sending immediately is switched off in the description")]
    Immediate,
}

/// What has come of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Generated {
    /// It.
    pub job: Job,
    /// Messages that left.
    pub sent: u32,
    /// Messages that came, at all receivers together.
    pub received: u32,
    /// Of those, with other octets than were sent.
    pub damaged: u32,
    /// From the first message's queueing to the last one's arrival.
    pub took: Duration,
    /// With acknowledgements: the shortest, the sum and the longest of the round trips, and how many there were.
    pub round_trips: [Duration; 3],
    /// See there.
    pub round_trip_count: u32,
    /// All has come, or nothing more will.
    pub done: bool,
}

#[derive(Debug, Default)]
struct Running {
    begun: Time,
    last: Time,
    /// When the message that is to be acknowledged was queued.
    queued_at: Time,
    queued: u32,
    acknowledged: usize,
    /// It is to be queued as soon as the sender's queue has room.
    waiting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Generator {
    generated: Option<Generated>,
    running: Option<Running>,
}

impl Generator {
    pub(super) fn generated(&self) -> Option<&Generated> {
        self.generated.as_ref()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// The interfaces are others.
    pub(super) fn abandon(&mut self) {
        self.running = None;
        if let Some(generated) = &mut self.generated {
            generated.done = true;
        }
    }

    pub(super) fn begin(&mut self, job: Job, network: &mut Network, hosts: usize) -> Result<(), Refused> {
        if self.running.is_some() {
            return Err(Refused::Busy);
        }
        let station = network.stations().get(job.from).ok_or(Refused::Hosts)?;
        if job.to.is_empty() || job.to.iter().any(|to| *to >= hosts || *to == job.from) {
            return Err(Refused::Hosts);
        }
        let most = if job.immediate { station.lanai.config().immediate as u32 } else { MAX_OCTETS };
        if !(1..=most).contains(&job.octets) {
            return Err(Refused::Octets(job.octets, most));
        }
        if !(1..=MAX_COUNT).contains(&job.count) {
            return Err(Refused::Count(job.count));
        }
        if job.immediate && !station.lanai.takes_immediately(1) {
            return Err(Refused::Immediate);
        }
        if job.to.iter().any(|to| station.lanai.mapping().route(Layout::address(*to)).is_none()) {
            return Err(Refused::NoRoute);
        }
        let members = [job.from].into_iter().chain(job.to.iter().copied()).map(Layout::address);
        network.set_group(GROUP, if job.to.len() > 1 { members.collect() } else { Vec::new() });
        let now = network.now();
        self.generated = Some(Generated { job, ..Generated::default() });
        self.running = Some(Running { begun: now, last: now, waiting: true, ..Running::default() });
        self.handle_timeout(network);
        Ok(())
    }

    /// Something has happened at the generator's interface of a host.
    pub(super) fn handle(&mut self, number: usize, event: Event, station: &mut Station, now: Time) {
        if let Event::Received { from, buffer, octets, .. } = event {
            self.received(number, from, station.memory.slice(buffer.address, octets as usize), now);
            // It was posted before, so there is room for it.
            let _ = station.lanai.post(GENERATOR, buffer);
            let acknowledges = self.generated.as_ref().is_some_and(|all| {
                all.job.pace == Pace::Acknowledged
                    && all.job.to.contains(&number)
                    && from == Layout::address(all.job.from)
            });
            if acknowledges {
                let to = Destination::Host(from, GENERATOR as u8);
                let sent = station.lanai.send_immediate(GENERATOR, to, &[0]);
                // A full queue, or the mechanism is off; what is lost is told as lost.
                let _ = sent.or_else(|_| station.lanai.send(GENERATOR, to, place(Region::GeneratorSend, 1), 1));
            }
        }
        let Some(generated) = self.generated.as_mut().filter(|all| all.job.from == number) else { return };
        if matches!(event, Event::Sent { whole: true, .. }) {
            generated.sent += 1;
        }
        self.go_on(station, now);
    }

    fn received(&mut self, number: usize, from: u64, message: Option<&[u8]>, now: Time) {
        let (Some(all), Some(running)) = (&mut self.generated, &mut self.running) else { return };
        running.last = now;
        if all.job.to.contains(&number) && from == Layout::address(all.job.from) {
            all.received += 1;
            let whole = message.is_some_and(|m| m.len() == all.job.octets as usize && m.iter().enumerate().all(is_own));
            all.damaged += u32::from(!whole);
            all.took = now.since(running.begun);
            let wanted = u64::from(all.job.count) * all.job.to.len() as u64;
            if u64::from(all.received) >= wanted && all.job.pace == Pace::Stream {
                all.done = true;
            }
        } else if number == all.job.from {
            running.acknowledged += 1;
            if running.acknowledged < all.job.to.len() {
                return;
            }
            let took = now.since(running.queued_at);
            let [least, sum, most] = &mut all.round_trips;
            *least = if all.round_trip_count == 0 { took } else { took.min(*least) };
            (*sum, *most) = (*sum + took, took.max(*most));
            all.round_trip_count += 1;
            (running.acknowledged, running.waiting) = (0, true);
            all.done = running.queued == all.job.count;
        }
    }

    /// Queues what may be queued.
    fn go_on(&mut self, station: &mut Station, now: Time) {
        let (Some(all), Some(running)) = (&mut self.generated, &mut self.running) else { return };
        if all.done {
            self.running = None;
            return;
        }
        let job = &all.job;
        let to = match job.to[..] {
            [one] => Destination::Host(Layout::address(one), GENERATOR as u8),
            _ => Destination::Group(GROUP),
        };
        loop {
            let may = match job.pace {
                Pace::Stream => running.queued.saturating_sub(all.sent) < WINDOW,
                Pace::Acknowledged => running.waiting,
            };
            if !may || running.queued == job.count {
                return;
            }
            let queued = if job.immediate {
                let message: Vec<u8> = (0..job.octets as usize).map(octet).collect();
                station.lanai.send_immediate(GENERATOR, to, &message)
            } else {
                if running.queued == 0 {
                    let message: Vec<u8> = (0..job.octets as usize).map(octet).collect();
                    // The place is as long as the longest message.
                    let _ = station.memory.write(place(Region::GeneratorSend, 0), &message);
                }
                station.lanai.send(GENERATOR, to, place(Region::GeneratorSend, 0), job.octets)
            };
            if queued.is_err() {
                return;
            }
            running.queued += 1;
            (running.waiting, running.queued_at) = (false, now);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.running.as_ref().map(|running| running.last + PATIENCE)
    }

    /// Begins, or gives up what does not come. True if something was queued.
    pub(super) fn handle_timeout(&mut self, network: &mut Network) -> bool {
        let (Some(all), Some(running)) = (&mut self.generated, &mut self.running) else { return false };
        let now = network.now();
        if now.since(running.last) >= PATIENCE || all.done {
            all.done = true;
            self.running = None;
            return false;
        }
        let queued = running.queued;
        let Some(station) = network.station(all.job.from) else { return false };
        if queued == 0 {
            self.go_on(station, now);
        }
        self.running.as_ref().is_some_and(|running| running.queued > queued)
    }
}

fn octet(n: usize) -> u8 {
    (n * 31 + 7) as u8
}

fn is_own((n, is): (usize, &u8)) -> bool {
    *is == octet(n)
}
