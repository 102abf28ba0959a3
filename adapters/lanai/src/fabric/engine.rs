//! What happens at a port when a run of symbols begins or ends, a mark is passed, a control symbol comes, or time runs
//! out.
//!
//! Each port has an input with its slack buffer and an output. A host is a switch of two ports: its cable's, and an
//! inner one, whose input holds what is to be sent and whose output takes what has come. An input's first packet asks
//! for an output, holds it until its GAP has left, and lends it the buffer's symbols while the receiver has not said
//! STOP.

use super::config::{Config, Switching};
use super::slack::{Segment, Slack};
use super::wheel::{Tick, Wheel};
use crate::packet::advance;
use std::collections::VecDeque;
use wire::{Counters, DropReason};

pub(super) const NONE: u32 = u32::MAX;

/// What happens at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The first symbol of a packet comes.
    Start(u32),
    /// More symbols come.
    Resume,
    /// No symbol comes for now.
    Pause,
    /// The packet's GAP has come.
    End,
    /// The far receiver says STOP.
    Stop,
    /// The far receiver says GO.
    Go,
    /// The first packet's route octet is decoded.
    Routed,
    /// A mark, or the buffer's last symbol.
    Buffer,
    /// The first packet may have stood for too long.
    Timeout,
}

/// An event: the number says for which cable, or for which forecast, it is still true.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) port: u32,
    pub(super) number: u32,
    pub(super) what: What,
}

/// Where an input's first packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// No packet.
    Idle,
    /// Its route octet is being decoded.
    Routing,
    /// It has asked for this output since then.
    Waiting(u32),
    /// It has this output.
    Through(u32),
    /// It is thrown away as it comes.
    Discarding,
}

/// A port: an input and an output, and the cable at it.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) node: u32,
    pub(super) local: u8,
    pub(super) slack: Slack,
    pub(super) head: Head,
    /// When the head last moved.
    moved: Tick,
    timing: bool,
    forecast: u32,
    /// The output: what the far receiver said, who has it, who waits for it (a bit for each local port), whose turn it
    /// was.
    pub(super) stopped: bool,
    pub(super) holder: u32,
    pub(super) waiting: u32,
    turn: u8,
    begun: bool,
    /// The far end of the cable and its symbol times; how often the cable has changed.
    pub(super) peer: u32,
    pub(super) delay: u32,
    pub(super) cable: u32,
    pub(super) counters: PortCounters,
}

/// What a port has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Packets whose GAP left by the output.
    pub packets: u64,
    /// STOP symbols that the input sent.
    pub stops: u64,
    /// Symbols that found no room in the slack buffer.
    pub overflowed: u64,
    /// Packets that the time-out ended here; not those of mapping.
    pub timeouts: u64,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Switch,
}

/// A node's ports are numbered one after another from the first.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) first: u32,
    pub(super) ports: u8,
}

/// A packet, as long as a buffer or a cable has a part of it.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) octets: Vec<u8>,
    /// Route octets that were stripped.
    pub(super) at: u32,
    /// Octets that were lost on the way.
    pub(super) cut: u32,
    pub(super) references: u32,
    pub(super) lost: Option<DropReason>,
    pub(super) delivered: bool,
    /// It is of a mapper, or for one.
    pub(super) maps: bool,
    pub(super) number: u64,
}

/// What happened at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketOutcome {
    /// The last symbol of a packet has left the host; its number is the sender's own.
    Sent(u64),
    /// The time-out ended a packet before its last symbol had left the host; the number as above.
    GivenUp(u64),
    /// A packet has come whole, its route stripped; whether its CRC is right is for the host to see.
    Arrived(Vec<u8>),
}

/// The machine under [`super::Fabric`].
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) config: Config,
    pub(super) wheel: Wheel<Event>,
    pub(super) nodes: Vec<Node>,
    pub(super) ports: Vec<Port>,
    pub(super) packets: Vec<Packet>,
    free: Vec<u32>,
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) outcomes: VecDeque<(Tick, u32, PacketOutcome)>,
    /// Packets that hosts have queued.
    pub(super) accepted: u64,
    pub(super) counters: Counters,
    /// Mapping packets, of which most are for ports that are not there.
    pub(super) mapping: Counters,
    /// Cables that were plugged or pulled.
    pub(super) changes: u64,
    pub(super) faults: super::fault::Faults,
}

impl Port {
    pub(super) fn new(node: u32, local: u8) -> Self {
        Port {
            node,
            local,
            slack: Slack { size: u32::MAX, stop: u32::MAX, ..Slack::default() },
            head: Head::Idle,
            moved: 0,
            timing: false,
            forecast: 0,
            stopped: false,
            holder: NONE,
            waiting: 0,
            turn: 0,
            begun: false,
            peer: NONE,
            delay: 0,
            cable: 0,
            counters: PortCounters::default(),
        }
    }
}

impl Engine {
    pub(super) fn new(config: Config) -> Self {
        Engine {
            config,
            wheel: Wheel::new(),
            nodes: Vec::new(),
            ports: Vec::new(),
            packets: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            outcomes: VecDeque::new(),
            accepted: 0,
            counters: Counters::default(),
            mapping: Counters::default(),
            changes: 0,
            faults: super::fault::Faults::new(config.errors, config.seed),
        }
    }

    /// A place for a packet with nothing in it, which one buffer is about to hold.
    pub(super) fn packet(&mut self, number: u64) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() as u32 - 1
        });
        let octets = self.spare.pop().unwrap_or_default();
        self.packets[index as usize] = Packet { octets, references: 1, number, ..Packet::default() };
        index
    }

    fn release(&mut self, index: u32) {
        let packet = &mut self.packets[index as usize];
        packet.references -= 1;
        if packet.references > 0 {
            return;
        }
        if !packet.delivered {
            let counters = if packet.maps { &mut self.mapping } else { &mut self.counters };
            counters.drop_one(packet.lost.unwrap_or(DropReason::LinkDown));
        }
        let mut octets = core::mem::take(&mut packet.octets);
        octets.clear();
        if octets.capacity() > 0 {
            self.spare.push(octets);
        }
        self.free.push(index);
    }

    fn put(&mut self, at: Tick, port: u32, number: u32, what: What) {
        self.wheel.put(at, Event { port, number, what });
    }

    /// Tells the far end of a port's cable; false if there is none.
    fn tell(&mut self, port: u32, what: What, now: Tick) -> bool {
        let Port { peer, delay, .. } = self.ports[port as usize];
        let Some(cable) = self.ports.get(peer as usize).map(|far| far.cable) else { return false };
        self.put(now + u64::from(delay), peer, cable, what);
        true
    }

    /// The next event's work, if it is due.
    pub(super) fn step(&mut self, until: Tick) -> bool {
        let Some((now, Event { port, number, what })) = self.wheel.take(until) else { return false };
        let at = &mut self.ports[port as usize];
        let current = match what {
            What::Buffer => number == at.forecast,
            What::Routed | What::Timeout => true,
            _ => number == at.cable,
        };
        if !current {
            if let What::Start(packet) = what {
                self.packets[packet as usize].lost.get_or_insert(DropReason::LinkDown);
                self.release(packet);
            }
            return true;
        }
        match what {
            What::Start(packet) => self.start(port, packet, now),
            What::Resume => {
                self.catch_up(port, now);
                // A cable that was plugged in the midst of a packet brings the rest of what has no beginning here.
                let slack = &mut self.ports[port as usize].slack;
                slack.incoming = slack.segments.back().is_some_and(|last| !last.complete);
                self.service(port, now);
            }
            What::Pause => {
                self.catch_up(port, now);
                self.ports[port as usize].slack.incoming = false;
                self.service(port, now);
            }
            What::End => self.end(port, now),
            What::Stop | What::Go => {
                at.stopped = what == What::Stop;
                let holder = at.holder;
                if holder != NONE {
                    self.service(holder, now);
                }
            }
            What::Routed => self.route(port, now),
            What::Buffer => self.service(port, now),
            What::Timeout => self.time_out(port, now),
        }
        true
    }

    /// Does all that is due by a tick.
    pub(super) fn catch_up_to(&mut self, tick: Tick) {
        while self.step(tick) {}
        self.wheel.skip_to(tick);
    }

    /// Sets whether an inner output takes symbols.
    pub(super) fn set_stopped(&mut self, output: u32, stopped: bool) {
        let (now, out) = (self.wheel.now(), &mut self.ports[output as usize]);
        out.stopped = stopped;
        let holder = out.holder;
        if holder != NONE {
            self.service(holder, now);
        }
    }

    /// Counts the symbols since the last event; those that found no room are lost to their packet.
    fn catch_up(&mut self, port: u32, now: Tick) {
        let at = &mut self.ports[port as usize];
        if let Some((packet, lost)) = at.slack.advance(now) {
            at.counters.overflowed += u64::from(lost);
            let packet = &mut self.packets[packet as usize];
            packet.cut += lost;
        }
    }

    fn start(&mut self, port: u32, packet: u32, now: Tick) {
        self.catch_up(port, now);
        let Packet { octets, at, .. } = &self.packets[packet as usize];
        let expected = octets.len() as u32 - *at + 1;
        let at = &mut self.ports[port as usize];
        let segment = Segment { packet, count: 0, arrived: 0, expected, complete: false, discarded: false };
        at.slack.segments.push_back(segment);
        at.slack.incoming = true;
        self.service(port, now);
    }

    /// Puts a whole packet into an inner port's queue.
    pub(super) fn queue(&mut self, port: u32, packet: u32, now: Tick) {
        self.catch_up(port, now);
        let count = self.packets[packet as usize].octets.len() as u32 + 1;
        let segment = Segment { packet, count, arrived: count, expected: count, complete: true, discarded: false };
        let slack = &mut self.ports[port as usize].slack;
        slack.segments.push_back(segment);
        slack.content += count;
        self.service(port, now);
    }

    pub(super) fn end(&mut self, port: u32, now: Tick) {
        self.catch_up(port, now);
        let slack = &mut self.ports[port as usize].slack;
        slack.incoming = false;
        if let Some(last) = slack.segments.back_mut().filter(|last| !last.complete) {
            last.complete = true;
            let missing = last.expected.saturating_sub(last.arrived);
            if missing > 0 {
                self.packets[last.packet as usize].cut += missing;
            }
        }
        self.service(port, now);
    }

    /// Lets an input do what it can at this tick, and forecasts when it will do the next thing.
    pub(super) fn service(&mut self, port: u32, now: Tick) {
        self.catch_up(port, now);
        loop {
            let at = &self.ports[port as usize];
            let Some(first) = at.slack.segments.front() else { break };
            let over = first.complete && first.count == 0;
            match at.head {
                Head::Idle if self.nodes[at.node as usize].kind == Kind::Host => {
                    if !self.demand(port, at.local ^ 1, now) {
                        break;
                    }
                }
                Head::Idle => {
                    if self.config.switching == Switching::CutThrough || first.complete {
                        self.ports[port as usize].head = Head::Routing;
                        self.put(now + u64::from(self.config.routing.max(1)), port, 0, What::Routed);
                    }
                    break;
                }
                Head::Through(output) if over => self.finish(port, output, now),
                Head::Discarding if over => self.drop_first(port, now),
                Head::Through(output) => {
                    self.flow(port, output, now);
                    break;
                }
                Head::Routing | Head::Waiting(_) | Head::Discarding => break,
            }
        }
        self.mark(port, now);
        let at = &mut self.ports[port as usize];
        at.forecast = at.forecast.wrapping_add(1);
        if let Some(next) = at.slack.next() {
            let forecast = at.forecast;
            self.put(next, port, forecast, What::Buffer);
        }
        self.watch(port, now);
    }

    /// Starts or stops the first packet's symbols.
    fn flow(&mut self, port: u32, output: u32, now: Tick) {
        let out = &self.ports[output as usize];
        let (begun, free) = (out.begun, !out.stopped);
        let at = &mut self.ports[port as usize];
        let flows = free && at.slack.has_symbols();
        if flows == at.slack.outgoing {
            return;
        }
        at.slack.outgoing = flows;
        at.moved = now;
        match (flows, begun) {
            (true, false) => {
                let packet = at.slack.segments.front().map_or(NONE, |first| first.packet);
                self.ports[output as usize].begun = true;
                if self.ports[output as usize].peer != NONE {
                    let Packet { octets, at, references, .. } = &mut self.packets[packet as usize];
                    self.faults.damage(&mut octets[*at as usize..]);
                    *references += 1;
                    self.tell(output, What::Start(packet), now);
                }
            }
            (true, true) => drop(self.tell(output, What::Resume, now)),
            (false, _) => drop(self.tell(output, What::Pause, now)),
        }
    }

    /// The first packet's GAP has left: the output is free, and the next packet comes first.
    fn finish(&mut self, port: u32, output: u32, now: Tick) {
        let at = &mut self.ports[port as usize];
        at.slack.outgoing = false;
        at.head = Head::Idle;
        let (node, sender) = (at.node, at.local == 1);
        let Some(first) = at.slack.segments.pop_front() else { return };
        let inner = self.nodes[node as usize].kind == Kind::Host;
        if inner && !sender {
            self.deliver(node, first.packet, now);
        } else {
            let out = &mut self.ports[output as usize];
            out.counters.packets += 1;
            if !out.begun {
                // Nothing was left of it when its route octet was stripped.
                self.packets[first.packet as usize].lost.get_or_insert(DropReason::Malformed);
            } else if !self.tell(output, What::End, now) {
                self.packets[first.packet as usize].lost.get_or_insert(DropReason::LinkDown);
            }
            if inner {
                let number = self.packets[first.packet as usize].number;
                self.outcomes.push_back((now, node, PacketOutcome::Sent(number)));
            }
        }
        self.release(first.packet);
        self.free_output(output, now);
    }

    fn deliver(&mut self, node: u32, packet: u32, now: Tick) {
        let spare = self.spare.pop().unwrap_or_default();
        let packet = &mut self.packets[packet as usize];
        packet.delivered = true;
        let mut octets = core::mem::replace(&mut packet.octets, spare);
        // What was lost on the way is missing; where exactly does not matter to a CRC.
        let left = octets.len().saturating_sub(packet.cut as usize);
        octets.truncate(left);
        octets.drain(..(packet.at as usize).min(left));
        let counters = if packet.maps { &mut self.mapping } else { &mut self.counters };
        counters.pdus = counters.pdus.wrapping_add(1);
        counters.octets = counters.octets.wrapping_add(octets.len() as u64);
        self.outcomes.push_back((now, node, PacketOutcome::Arrived(octets)));
    }

    /// The first packet was thrown away, and its last symbol has come.
    fn drop_first(&mut self, port: u32, now: Tick) {
        let at = &mut self.ports[port as usize];
        at.head = Head::Idle;
        let (node, sender) = (at.node, at.local == 1);
        if let Some(first) = at.slack.segments.pop_front() {
            if sender && self.nodes[node as usize].kind == Kind::Host {
                let number = self.packets[first.packet as usize].number;
                self.outcomes.push_back((now, node, PacketOutcome::GivenUp(number)));
            }
            self.release(first.packet);
        }
    }

    fn discard(&mut self, port: u32, reason: DropReason) {
        let at = &mut self.ports[port as usize];
        at.head = Head::Discarding;
        at.slack.outgoing = false;
        if let Some(first) = at.slack.segments.front() {
            self.packets[first.packet as usize].lost.get_or_insert(reason);
        }
        at.slack.discard_first();
    }

    /// The route octet of the first packet is decoded: it asks for an output.
    fn route(&mut self, port: u32, now: Tick) {
        self.catch_up(port, now);
        let at = &self.ports[port as usize];
        let Some(first) = at.slack.segments.front().copied().filter(|_| at.head == Head::Routing) else { return };
        if first.count == 0 && !first.complete {
            // STOP has overtaken the first symbol.
            if at.slack.incoming {
                self.put(now + 1, port, 0, What::Routed);
            } else {
                self.ports[port as usize].head = Head::Idle;
            }
            return;
        }
        let ports = self.nodes[at.node as usize].ports;
        let packet = &mut self.packets[first.packet as usize];
        let turn = advance(packet.octets.get_mut(packet.at as usize..).unwrap_or_default());
        let output = turn.ok().and_then(|turn| turn.output(at.local.into(), ports.into()));
        match output {
            Some(output) if first.count > 0 => {
                packet.at += 1;
                let at = &mut self.ports[port as usize];
                at.slack.content -= 1;
                if let Some(first) = at.slack.segments.front_mut() {
                    first.count -= 1;
                }
                self.demand(port, output as u8, now);
            }
            _ => self.discard(port, DropReason::Malformed),
        }
        self.service(port, now);
    }

    /// Asks for an output of the same node; true if the packet has it now.
    fn demand(&mut self, port: u32, local: u8, now: Tick) -> bool {
        let at = &mut self.ports[port as usize];
        let output = self.nodes[at.node as usize].first + u32::from(local);
        at.head = Head::Waiting(output);
        at.moved = now;
        let bit = 1 << at.local;
        self.ports[output as usize].waiting |= bit;
        self.grant(output) == Some(port)
    }

    /// Gives a free output to the next input in turn.
    fn grant(&mut self, output: u32) -> Option<u32> {
        let out = &mut self.ports[output as usize];
        if out.holder != NONE || out.waiting == 0 {
            return None;
        }
        // The first that waits after the one whose turn it was.
        let after = out.waiting & (u32::MAX << out.turn << 1);
        let local = if after != 0 { after.trailing_zeros() } else { out.waiting.trailing_zeros() };
        out.turn = local as u8;
        out.waiting &= !(1 << local);
        out.begun = false;
        let input = self.nodes[out.node as usize].first + local;
        out.holder = input;
        self.ports[input as usize].head = Head::Through(output);
        Some(input)
    }

    fn free_output(&mut self, output: u32, now: Tick) {
        self.ports[output as usize].holder = NONE;
        if let Some(input) = self.grant(output) {
            // Not by recursion: the input may have a packet of no length, and so may its successors.
            self.ports[input as usize].moved = now;
            let forecast = &mut self.ports[input as usize].forecast;
            *forecast = forecast.wrapping_add(1);
            let forecast = *forecast;
            self.put(now, input, forecast, What::Buffer);
        }
    }

    /// Sends STOP or GO if a mark is passed.
    fn mark(&mut self, port: u32, now: Tick) {
        if let Some(stop) = self.ports[port as usize].slack.signal() {
            self.ports[port as usize].counters.stops += u64::from(stop);
            self.tell(port, if stop { What::Stop } else { What::Go }, now);
        }
    }

    /// Whether an input's first packet is of mapping, and how long it may stand.
    fn patience(&self, port: u32) -> (bool, Option<Tick>) {
        let at = &self.ports[port as usize];
        let maps = at.slack.segments.front().is_some_and(|first| self.packets[first.packet as usize].maps);
        // One that has an output is ahead of this input, where it waits or moves.
        let waits = maps && matches!(at.head, Head::Waiting(_));
        (maps, if waits { Some(self.config.mapping_patience()) } else { self.config.patience() })
    }

    /// Sees to it that a packet that stands is looked at when its time is over, or that of one of mapping after it.
    fn watch(&mut self, port: u32, now: Tick) {
        let (_, Some(patience)) = self.patience(port) else { return };
        let at = &mut self.ports[port as usize];
        if at.stands() && !at.timing {
            at.timing = true;
            self.put(now + patience.min(self.config.mapping_patience()), port, 0, What::Timeout);
        }
    }

    fn time_out(&mut self, port: u32, now: Tick) {
        let (maps, patience) = self.patience(port);
        let at = &mut self.ports[port as usize];
        at.timing = false;
        let (true, Some(patience)) = (at.stands(), patience) else { return };
        if now < at.moved + patience {
            at.timing = true;
            let again = (at.moved + patience).min(now + self.config.mapping_patience());
            return self.put(again, port, 0, What::Timeout);
        }
        at.counters.timeouts += u64::from(!maps);
        self.catch_up(port, now);
        match self.ports[port as usize].head {
            Head::Waiting(output) => {
                let local = self.ports[port as usize].local;
                self.ports[output as usize].waiting &= !(1 << local);
                self.discard(port, DropReason::Timeout);
            }
            // The forward reset: what is on the way ends here and now, without the rest.
            Head::Through(output) => {
                let begun = self.ports[output as usize].begun;
                self.discard(port, DropReason::Timeout);
                if begun {
                    self.tell(output, What::End, now);
                }
                self.free_output(output, now);
            }
            Head::Idle | Head::Routing | Head::Discarding => {}
        }
        self.service(port, now);
    }

    /// Another cable, or none: what is on the old one is gone, and what has come of a packet is all that comes.
    pub(super) fn recable(&mut self, port: u32, peer: u32, delay: u32, now: Tick) {
        let at = &mut self.ports[port as usize];
        at.cable = at.cable.wrapping_add(1);
        (at.peer, at.delay) = (peer, delay);
        at.stopped = false;
        at.slack.stopping = false;
        let holder = at.holder;
        self.end(port, now);
        if holder != NONE {
            self.service(holder, now);
        }
    }
}

impl Port {
    /// Whether the first packet stands: it waits for an output, or has one that is stopped.
    fn stands(&self) -> bool {
        match self.head {
            Head::Waiting(_) => true,
            Head::Through(_) => !self.slack.outgoing,
            Head::Idle | Head::Routing | Head::Discarding => false,
        }
    }
}
