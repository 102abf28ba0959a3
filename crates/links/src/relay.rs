//! The relay of Linux's `atmtcp` (atmtcp(8), "COMMANDS"): links of frames joined as by one cable, with further links
//! beside it.
//!
//! In: frames at each port, control texts among them as frames of circuit 0.0 ([`crate::atmtcp::Machine::relaying`]).
//! Out: the same frames at other ports, as [`sends_to`] has it; nothing is translated, and no circuit needs to be
//! known. The stock program ends with its first connection; here links come and go, so the relay remembers what each
//! has opened: who comes later is told, and what a link had opened is closed with it.
//!
//! A frame for one link that is full waits, and with it the sender, whom nobody else waits for; with a patience
//! ([`Relay::set_patience`]) no longer than that. A frame for several goes to those that have room; at the others it is
//! dropped and counted `queue_full`, so that a slow link holds up nobody.

use net::frame::{Frame, FrameAal};
use net::node::{Node, NodeIo};
use sar::SduMeta;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::atmtcp::{Control, MAX_TEXT_OCTETS};
use wire::{CircuitId, DropReason, Time};

/// Frames of one port in one round, so that a fast link leaves time to others.
const BURST: usize = 32;
/// Circuits of one link that are remembered at most.
pub const MAX_CIRCUITS: usize = 4096;

/// Whether what comes from link `from` goes to link `to`: links 0 and 1 send to all others, further ones to all but
/// link 0 and themselves. So link 0 hears link 1 alone.
pub const fn sends_to(from: usize, to: usize) -> bool {
    from != to && (to != 0 || from == 1)
}

#[derive(Debug, Default)]
struct Link {
    up: bool,
    /// Waits for room at every link that it sends to.
    patient: bool,
    /// What it has opened, with the text that said so.
    opened: BTreeMap<CircuitId, Vec<u8>>,
    /// A frame for it waits since then, in which it has taken none.
    full_since: Option<Time>,
    /// What it knows to be open: whose, and which circuit.
    known: BTreeSet<(usize, CircuitId)>,
    /// What of that has been closed. It is told of this first: it then knows no more than is open when it is told of
    /// more, so that neither set ever has more than what all others may have open.
    closed: BTreeSet<(usize, CircuitId)>,
    /// What is open and it is to be told of.
    untold: BTreeSet<(usize, CircuitId)>,
}

/// The node. Port `n` is link `n`; a port without a link takes nothing.
#[derive(Debug, Default)]
pub struct Relay {
    links: Vec<Link>,
    patience: Option<Duration>,
    /// When somebody has been waited for long enough.
    due: Option<Time>,
}

/// What became of a frame.
enum Fate {
    Gone,
    /// It stays where it is until there is room.
    Held,
}

impl Relay {
    /// A relay of so many links.
    pub fn new(links: usize) -> Self {
        Relay { links: std::iter::repeat_with(Link::default).take(links).collect(), patience: None, due: None }
    }

    /// What comes from this link waits for room wherever it goes: a file that is played, which nobody else waits for.
    pub fn set_patient(&mut self, link: usize) {
        if let Some(link) = self.links.get_mut(link) {
            link.patient = true;
        }
    }

    /// A link that takes nothing for so long loses what comes for it, until it takes again; zero: it holds up nobody at
    /// all. Without, who sends to it alone waits until its connection ends.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// When a link has been waited for long enough, if anybody waits for it.
    fn due_of(&self, link: usize) -> Option<Time> {
        Some(self.links[link].full_since? + self.patience?)
    }

    fn is_given_up(&self, link: usize, now: Time) -> bool {
        self.due_of(link).is_some_and(|due| due <= now)
    }

    /// Circuits that a link has opened and not closed.
    pub fn opened(&self, link: usize) -> usize {
        self.links.get(link).map_or(0, |link| link.opened.len())
    }

    /// Circuits that a link is to be told of when there is room.
    pub fn untold(&self, link: usize) -> usize {
        self.links.get(link).map_or(0, |link| link.closed.len() + link.untold.len())
    }

    /// Looks which links have come and gone.
    fn look(&mut self, io: &NodeIo<'_>) -> bool {
        let mut any = false;
        for at in 0..self.links.len() {
            let up = io.is_up(at);
            if up == self.links[at].up {
                continue;
            }
            any = true;
            let link = &mut self.links[at];
            link.up = up;
            [&mut link.known, &mut link.closed, &mut link.untold].into_iter().for_each(BTreeSet::clear);
            if up {
                let of_others = (0..self.links.len()).filter(|from| sends_to(*from, at));
                let all =
                    of_others.flat_map(|from| self.links[from].opened.keys().map(move |circuit| (from, *circuit)));
                self.links[at].untold = all.collect();
            } else {
                for circuit in std::mem::take(&mut self.links[at].opened).into_keys() {
                    self.announce(at, circuit);
                }
            }
        }
        any
    }

    /// The state of a link's circuit is to be told wherever that link sends to: nothing of one that closes before it
    /// was told to be open.
    fn announce(&mut self, from: usize, circuit: CircuitId) {
        let (key, open) = ((from, circuit), self.links[from].opened.contains_key(&circuit));
        for (to, link) in self.links.iter_mut().enumerate() {
            if link.up && sends_to(from, to) {
                link.closed.remove(&key);
                link.untold.remove(&key);
                if open {
                    link.untold.insert(key);
                } else if link.known.contains(&key) {
                    link.closed.insert(key);
                }
            }
        }
    }

    /// Writes what link `to` has not been told, as far as there is room. True if nothing is left.
    fn tell(&mut self, to: usize, io: &mut NodeIo<'_>) -> bool {
        while let Some(&(from, circuit)) = self.links[to].closed.first().or(self.links[to].untold.first()) {
            if io.room(to) == 0 {
                return false;
            }
            let closed;
            let text = match self.links[from].opened.get(&circuit) {
                Some(text) => text.as_slice(),
                None => {
                    closed = Control::Close { circuit }.to_string();
                    closed.as_bytes()
                }
            };
            let Some(frame) = io.pool_mut().copy_in(CircuitId::default(), FrameAal::Aal5, SduMeta::default(), text)
            else {
                return false;
            };
            if let Err(frame) = io.put_frame(to, frame) {
                io.pool_mut().release(frame);
                return false;
            }
            let (key, link) = ((from, circuit), &mut self.links[to]);
            if link.closed.remove(&key) {
                link.known.remove(&key);
            } else {
                link.untold.remove(&key);
                link.known.insert(key);
            }
        }
        true
    }

    /// The oldest frame of link `from` is a control text.
    fn control(&mut self, from: usize, io: &mut NodeIo<'_>) {
        let mut text = [0; MAX_TEXT_OCTETS];
        let octets = io.frame_in(from).map_or(&[][..], |(_, octets)| octets);
        let n = octets.len().min(MAX_TEXT_OCTETS);
        text[..n].copy_from_slice(&octets[..n]);
        io.release_frame(from);
        let text = text[..n].trim_ascii_end();
        let text = text.iter().position(|octet| *octet == 0).map_or(text, |end| &text[..end]);
        let link = &mut self.links[from];
        match Control::parse(text) {
            Ok(Control::Open { circuit, .. }) => {
                if link.opened.len() >= MAX_CIRCUITS && !link.opened.contains_key(&circuit) {
                    return io.count_lost(from, DropReason::TableFull, 1);
                }
                link.opened.insert(circuit, text.to_vec());
                self.announce(from, circuit);
            }
            Ok(Control::Close { circuit }) => {
                if link.opened.remove(&circuit).is_some() {
                    self.announce(from, circuit);
                }
            }
            Err(_) => return io.count_lost(from, DropReason::Malformed, 1),
        }
        for to in 0..self.links.len() {
            self.tell(to, io);
        }
    }

    /// The oldest frame of link `from`, which carries data.
    fn data(&mut self, from: usize, io: &mut NodeIo<'_>, now: Time) -> Fate {
        let hears = |to: usize| sends_to(from, to) && io.carries(to).is_some();
        let up = (0..self.links.len()).filter(|to| hears(*to) && self.links[*to].up).count();
        if up == 1 || self.links[from].patient {
            let mut held = false;
            for to in 0..self.links.len() {
                if hears(to) && self.links[to].up && io.room(to) == 0 {
                    self.links[to].full_since.get_or_insert(now);
                    held |= !self.is_given_up(to, now);
                }
            }
            if held {
                return Fate::Held;
            }
        }
        let Some(frame) = io.take_frame(from) else { return Fate::Gone };
        for to in 0..self.links.len() {
            if !sends_to(from, to) || io.carries(to).is_none() {
                continue;
            }
            // What is told of a circuit comes before its data.
            let told = self.tell(to, io);
            let copy: Frame = io.pool_mut().share(&frame);
            let put = if told { io.put_frame(to, copy) } else { Err(copy) };
            if let Err(copy) = put {
                io.pool_mut().release(copy);
                io.count_drops(to, DropReason::QueueFull, 1);
            }
        }
        io.pool_mut().release(frame);
        Fate::Gone
    }
}

impl Node for Relay {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut busy = self.look(io);
        for to in 0..self.links.len() {
            if !self.links[to].up || io.room(to) > 0 {
                self.links[to].full_since = None;
            }
            let before = self.untold(to);
            self.tell(to, io);
            busy |= self.untold(to) != before;
        }
        for from in 0..self.links.len() {
            for _ in 0..BURST {
                let Some((frame, _)) = io.frame_in(from) else { break };
                if frame.circuit.key() == 0 {
                    self.control(from, io);
                } else if let Fate::Held = self.data(from, io, now) {
                    break;
                }
                busy = true;
            }
        }
        self.due =
            (0..self.links.len()).filter(|to| !self.is_given_up(*to, now)).filter_map(|to| self.due_of(to)).min();
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
