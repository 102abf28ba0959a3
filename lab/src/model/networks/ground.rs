//! The hosts' processors beside an interconnect: what giving a PDU to an interface costs, and taking one from it.

use super::{Happened, Interconnect, Tally, To};
use crate::model::{Level, Machine, Work};
use std::collections::VecDeque;
use wire::Time;

/// What a host's processor takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostCosts {
    /// To write a descriptor and hand it to the interface.
    pub send: f64,
    /// To find a PDU that has come, and to give its buffer back.
    pub receive: f64,
    /// To copy an octet in memory.
    pub copy: f64,
}

/// What an application at a host learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The interface has taken a PDU, and the processor is free for the next.
    Taken {
        /// The host.
        host: usize,
        /// As [`Ground::send`] was told.
        tag: u64,
    },
    /// The application has a PDU.
    Delivered {
        /// The host.
        host: usize,
        /// Its octets.
        pdu: Vec<u8>,
    },
}

#[derive(Debug)]
struct Giving {
    to: To,
    pdu: Vec<u8>,
    urgent: bool,
    tag: u64,
}

#[derive(Debug)]
enum Job {
    Give(Giving),
    Take { pdu: Vec<u8>, buffer: u64 },
}

#[derive(Default)]
struct Host {
    processor: Machine<Job>,
    /// What the interface had no room for.
    refused: VecDeque<Giving>,
    /// Buffers that hold what has come, now and at most.
    held: usize,
    most_held: usize,
    /// Octets that the processor has copied.
    copied: u64,
    /// PDUs that have left its memory.
    left: u64,
}

/// See the module's head.
pub struct Ground<'a> {
    net: &'a mut dyn Interconnect,
    costs: HostCosts,
    /// What an application does with a PDU that it has, in seconds.
    consumes: f64,
    hosts: Vec<Host>,
    events: VecDeque<Event>,
    now: Time,
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("hosts", &self.hosts.len()).field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> Ground<'a> {
    /// So many hosts of one kind.
    pub fn new(net: &'a mut dyn Interconnect, hosts: usize, costs: HostCosts) -> Self {
        // A Myrinet draws its map before it carries anything.
        let now = net.run(Time::ZERO);
        let hosts: Vec<Host> = (0..hosts).map(|_| Host::default()).collect();
        let mut ground = Ground { net, costs, consumes: 0.0, hosts, events: VecDeque::new(), now };
        ground.pass();
        ground
    }

    /// The same with applications that take so many seconds for each PDU that they have got.
    #[must_use]
    pub fn consuming(self, seconds: f64) -> Self {
        Ground { consumes: seconds, ..self }
    }

    /// The moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// An application gives a PDU, which costs its processor so many seconds beside copies and the descriptor.
    pub fn send(&mut self, host: usize, to: To, pdu: Vec<u8>, urgent: bool, tag: u64, seconds: f64) {
        let copied = u64::from(self.net.copies(pdu.len()).out) * pdu.len() as u64;
        let work = self.work(self.costs.send + seconds, copied);
        let host = &mut self.hosts[host];
        host.copied += copied;
        host.processor.submit(Level::Process, work, Job::Give(Giving { to, pdu, urgent, tag }));
    }

    fn work(&self, seconds: f64, copied: u64) -> Work {
        Work::cached(seconds).and(Work { seconds: self.costs.copy * copied as f64, memory: 1.0 })
    }

    /// What happens next, no later than `until`; `extra` says what taking a PDU of so many octets costs beside the
    /// rest, in seconds.
    pub fn next(&mut self, until: Time, extra: impl Fn(usize) -> f64) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let due = self.hosts.iter().filter_map(|host| host.processor.poll_timeout()).min();
            let due = due.map_or(until, |at| at.min(until)).max(self.now);
            if due > self.now {
                self.now = self.net.run(due);
            }
            self.pass();
            self.collect(&extra);
            if self.now >= until && self.events.is_empty() {
                return None;
            }
        }
    }

    /// The processors come to the moment.
    fn pass(&mut self) {
        for number in 0..self.hosts.len() {
            let mut done = None;
            self.hosts[number].processor.advance(self.now, |job| done = Some(job));
            match done {
                Some(Job::Give(giving)) => {
                    self.hosts[number].refused.push_back(giving);
                    self.give(number);
                }
                Some(Job::Take { pdu, buffer }) => {
                    self.net.release(number, buffer, self.now);
                    self.hosts[number].held -= 1;
                    self.events.push_back(Event::Delivered { host: number, pdu });
                }
                None => {}
            }
        }
    }

    fn give(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        while let Some(first) = host.refused.front()
            && self.net.send(number, first.to, &first.pdu, first.urgent, self.now)
        {
            let tag = first.tag;
            host.refused.pop_front();
            self.events.push_back(Event::Taken { host: number, tag });
        }
    }

    fn collect(&mut self, extra: &impl Fn(usize) -> f64) {
        while let Some(happened) = self.net.poll() {
            match happened {
                Happened::Left(host) => {
                    self.hosts[host].left += 1;
                    self.give(host);
                }
                Happened::Received { host: number, pdu, buffer } => {
                    let copied = u64::from(self.net.copies(pdu.len()).into) * pdu.len() as u64;
                    let work = self.work(self.costs.receive + self.consumes + extra(pdu.len()), copied);
                    let host = &mut self.hosts[number];
                    host.copied += copied;
                    host.held += 1;
                    host.most_held = host.most_held.max(host.held);
                    host.processor.submit(Level::Process, work, Job::Take { pdu, buffer });
                }
            }
        }
    }

    /// Seconds that a host's processor has worked.
    pub fn worked(&self, host: usize) -> f64 {
        self.hosts[host].processor.busy()[1]
    }

    /// Octets that a host's processor has read and written to copy, and what its interface has moved.
    pub fn touched(&mut self, host: usize) -> (u64, Tally) {
        (2 * self.hosts[host].copied, self.net.tally(host))
    }

    /// PDUs that have left a host's memory.
    pub fn left(&self, host: usize) -> u64 {
        self.hosts[host].left
    }

    /// Buffers of a host that held what the application had not taken yet, at most.
    pub fn most_held(&self, host: usize) -> usize {
        self.hosts[host].most_held
    }

    /// Drops by reason.
    pub fn dropped(&mut self) -> Vec<(wire::DropReason, u64)> {
        self.net.dropped()
    }
}
