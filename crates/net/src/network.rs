//! Nodes, links and the round over them.

mod externals;

use crate::external::External;
use crate::fault::FaultConfig;
use crate::frame::FramePool;
use crate::line::{Carries, Lane, LineCounters, Side};
use crate::node::{Line, Lines, LinkNature, NONE, Node, NodeIo, Port};
use crate::parcel::Spare;
use crate::ready::{Bits, Deadlines};
use crate::tap::{Tap, TapBuffer, TapConfig};
use std::any::Any;
use std::task::Waker;
use std::time::Duration;
use wire::{CellRate, Time, Vpi};

/// A node of a network. Not reused after the node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    index: u32,
    generation: u32,
}

/// A link of a network. Not reused after the link is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    index: u32,
    generation: u32,
}

/// What is at an end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A port of a node.
    Port(NodeId, u16),
    /// A shell that moves cells or frames in and out through [`Network::external`].
    External,
    /// Nothing: the far end of a loose cable ([`Network::hang`]).
    Nowhere,
}

/// A link's properties, the same in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Cells or frames.
    pub carries: Carries,
    /// Cells each second, or as fast as memory is.
    pub rate: Option<CellRate>,
    /// From one end to the other, beyond the time that sending takes.
    pub delay: Duration,
    /// Cells (or frames) that wait at the sender at most, and as many at the receiver.
    pub queue_cells: usize,
    /// Faults on purpose.
    pub faults: Option<FaultConfig>,
    /// Whether the far end outside the process understands credit cells ([`wire::credit`]) and the way there keeps the order of cells.
    pub peer_takes_credits: bool,
    /// The largest VPI that its cell headers hold: 255 where they are the UNI's (I.361).
    pub max_vpi: Vpi,
    /// The part of the link that calls have; circuits of a description take none of it.
    pub calls: Option<CallShare>,
}

/// The part of a link that belongs to calls: labels, and cells each second in either direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallShare {
    /// The virtual path of their labels.
    pub vpi: Vpi,
    /// The first and the last VCI.
    pub vcis: [u16; 2],
    /// What they may be promised; `None`: all that the link can have, which then has no rate.
    pub rate: Option<CellRate>,
}

impl LinkConfig {
    /// What of the rate is left for circuits of a description.
    pub fn rate_for_circuits(&self) -> Option<CellRate> {
        let calls = self.calls.and_then(|calls| calls.rate).map_or(0.0, |rate| rate.cells_per_s());
        // A rate is never zero: a share of all leaves one cell in a long time, which is less than any circuit asks for.
        self.rate.map(|rate| CellRate::from_cells_per_s((rate.cells_per_s() - calls).max(1e-3)).unwrap_or(rate))
    }
}

impl Default for LinkConfig {
    /// An unlimited cell link with a queue of 4096 cells.
    fn default() -> Self {
        LinkConfig {
            carries: Carries::Cells,
            rate: None,
            delay: Duration::ZERO,
            queue_cells: 4096,
            faults: None,
            peer_takes_credits: false,
            max_vpi: Vpi::MAX,
            calls: None,
        }
    }
}

/// Why two ends cannot be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The node is not there.
    #[error("no such node")]
    NoNode,
    /// A port has one link at most.
    #[error("port {0} has a link already")]
    PortInUse(u16),
    /// Both ends are outside.
    #[error("a link needs a node at one end at least")]
    NoNodeAtAll,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) ends: [End; 2],
    config: LinkConfig,
    /// As [`Network::set_link_up`] has it.
    enabled: bool,
    /// The link without which this one is down.
    follows: Option<LinkId>,
    /// Down until a shell comes to its external end ([`Network::await_shell`]).
    awaits_shell: bool,
}

struct NodeSlot {
    name: String,
    node: Box<dyn Node>,
    ports: Vec<Port>,
}

struct Slot<T> {
    generation: u32,
    content: Option<T>,
}

/// What [`Network::links`] tells of a link.
#[derive(Debug)]
pub struct LinkInfo<'a> {
    /// Its name in calls.
    pub id: LinkId,
    /// What it joins, A first.
    pub ends: [End; 2],
    /// As it was connected.
    pub config: &'a LinkConfig,
    /// Whether it passes anything.
    pub up: bool,
    /// Whether it may: as [`Network::set_link_up`] has it.
    pub enabled: bool,
    /// Counters of the direction from A to B.
    pub from_a: LineCounters,
    /// Counters of the direction from B to A.
    pub from_b: LineCounters,
}

/// Nodes and links, run by one thread. See the crate's head.
pub struct Network {
    nodes: Vec<Slot<NodeSlot>>,
    links: Vec<Slot<Link>>,
    lines: Lines,
    pub(crate) externals: Vec<(LinkId, Box<dyn External>)>,
    /// When nodes that are not to be visited before want to be; and lines.
    node_deadlines: Deadlines,
    line_deadlines: Deadlines,
    /// Links that follow others.
    followers: Vec<LinkId>,
    /// The node at which the next round begins: the one before had enough work with those ahead of it.
    next: u32,
    visits: u64,
}

/// Work after which a round ends, in cells put on lines: a tenth of a millisecond and more.
const ROUND_WORK: usize = 16_384;

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.nodes.iter().filter_map(|n| n.content.as_ref().map(|n| &n.name)).collect();
        f.debug_struct("Network").field("nodes", &names).field("links", &self.links().count()).finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network whose frames take their buffers from `pool`.
    pub fn new(pool: FramePool) -> Self {
        let lines = Lines {
            lines: Vec::new(),
            taps: Vec::new(),
            pool,
            readers: Vec::new(),
            parcels: Vec::new(),
            spare: Spare::default(),
            ready: Bits::default(),
            moved: Bits::default(),
            work: 0,
        };
        Network {
            nodes: Vec::new(),
            links: Vec::new(),
            lines,
            externals: Vec::new(),
            node_deadlines: Deadlines::default(),
            line_deadlines: Deadlines::default(),
            followers: Vec::new(),
            next: 0,
            visits: 0,
        }
    }

    /// The next round visits a node.
    fn wake(&mut self, index: u32) {
        self.node_deadlines.set(index, None);
        self.lines.ready.insert(index);
    }

    /// Nodes and lines that rounds have visited, ever.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// Adds a node. Names are for people; nothing requires that they differ.
    pub fn add_node(&mut self, name: &str, node: Box<dyn Node>) -> NodeId {
        let content = NodeSlot { name: name.to_owned(), node, ports: Vec::new() };
        let (index, generation) = insert(&mut self.nodes, content);
        self.wake(index);
        NodeId { index, generation }
    }

    fn slot(&self, id: NodeId) -> Option<&NodeSlot> {
        self.nodes.get(id.index as usize).filter(|s| s.generation == id.generation)?.content.as_ref()
    }

    fn slot_mut(&mut self, id: NodeId) -> Option<&mut NodeSlot> {
        self.nodes.get_mut(id.index as usize).filter(|s| s.generation == id.generation)?.content.as_mut()
    }

    /// Removes a node and all links at it. The node comes back to the caller.
    pub fn remove_node(&mut self, id: NodeId) -> Option<Box<dyn Node>> {
        self.slot(id)?;
        let at_it = |end: &End| matches!(end, End::Port(node, _) if *node == id);
        let links: Vec<_> = self.links().filter(|l| l.ends.iter().any(at_it)).map(|l| l.id).collect();
        for link in links {
            self.remove_link(link);
        }
        let slot = self.nodes.get_mut(id.index as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        self.lines.ready.remove(id.index);
        self.node_deadlines.set(id.index, None);
        slot.content.take().map(|s| s.node)
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> Option<&str> {
        self.slot(id).map(|s| s.name.as_str())
    }

    /// The node of this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes().find(|(_, n)| *n == name).map(|(id, _)| id)
    }

    /// All nodes and their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes.iter().enumerate().filter_map(|(i, s)| {
            let id = NodeId { index: i as u32, generation: s.generation };
            s.content.as_ref().map(|c| (id, c.name.as_str()))
        })
    }

    /// A node as its own type, between two rounds; the next round visits it. `None` if it is gone or of another type.
    pub fn node_mut<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        if self.slot(id).is_some() {
            self.wake(id.index);
        }
        self.peek_node(id)
    }

    /// [`Network::node_mut`] for a look, or for a change that gives the node nothing to do: it rests on.
    pub fn peek_node<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        self.slot_mut(id)?.node.as_any_mut().downcast_mut()
    }

    /// A node of whatever type, between two rounds; the next round visits it.
    pub(crate) fn any_node_mut(&mut self, id: NodeId) -> Option<&mut dyn Any> {
        if self.slot(id).is_some() {
            self.wake(id.index);
        }
        Some(self.slot_mut(id)?.node.as_any_mut())
    }

    /// A node together with its ports: for changes that give frames back or send something at once.
    pub fn with_node<T: Node + 'static, R>(
        &mut self,
        id: NodeId,
        now: Time,
        f: impl FnOnce(&mut T, &mut NodeIo<'_>) -> R,
    ) -> Option<R> {
        if self.slot(id).is_some() {
            self.wake(id.index);
        }
        let slot = self.nodes.get_mut(id.index as usize).filter(|s| s.generation == id.generation)?.content.as_mut()?;
        let node = slot.node.as_any_mut().downcast_mut()?;
        Some(f(node, &mut NodeIo { ports: &slot.ports, lines: &mut self.lines, now }))
    }

    /// Connects two ends by a new link.
    ///
    /// # Errors
    /// [`ConnectError`], and nothing has changed.
    pub fn connect(&mut self, a: End, b: End, config: LinkConfig) -> Result<LinkId, ConnectError> {
        if ![a, b].iter().any(|end| matches!(end, End::Port(..))) || [a, b].contains(&End::Nowhere) {
            return Err(ConnectError::NoNodeAtAll);
        }
        for end in [a, b] {
            if let End::Port(node, port) = end {
                let slot = self.slot(node).ok_or(ConnectError::NoNode)?;
                if slot.ports.get(port as usize).is_some_and(|p| p.input != NONE) || (a == b) {
                    return Err(ConnectError::PortInUse(port));
                }
            }
        }
        Ok(self.join(a, b, config))
    }

    /// Makes a link between two ends that are free.
    pub(crate) fn join(&mut self, a: End, b: End, config: LinkConfig) -> LinkId {
        // No line holds more than half of the frames; its share shrinks as others hold some.
        let frames = config.queue_cells.min(self.pool().buffers().div_ceil(2).max(4));
        let inside = [a, b].iter().all(|end| matches!(end, End::Port(..)));
        let understood = inside || config.peer_takes_credits;
        let in_order = config.faults.as_ref().is_none_or(|f| f.reordering == 0.0 && f.duplication == 0.0);
        let credit = understood && in_order && config.carries == Carries::Cells;
        let takes =
            |end| matches!(end, End::Port(node, _) if self.slot(node).is_some_and(|slot| slot.node.takes_parcels()));
        let parcels = [takes(b), takes(a)];
        let nature = LinkNature { carries: config.carries, credit, outside: !inside && config.rate.is_none() };
        let line = |direction| match config.carries {
            Carries::Cells => {
                Line::Cells(Lane::new(config.queue_cells, config.rate, config.delay, config.faults.as_ref(), direction))
            }
            Carries::Frames => {
                Line::Frames(Lane::new(frames, config.rate, config.delay, config.faults.as_ref(), direction))
            }
        };
        let (from_a, from_b) = (line(0), line(1));
        let link = Link { ends: [a, b], config, enabled: true, follows: None, awaits_shell: false };
        let (index, generation) = insert(&mut self.links, link);
        let lines = &mut self.lines;
        lines.lines.resize_with(lines.lines.len().max(index as usize * 2 + 2), || None);
        lines.taps.resize_with(lines.taps.len().max(index as usize + 1), || None);
        lines.lines[index as usize * 2] = Some(from_a);
        lines.lines[index as usize * 2 + 1] = Some(from_b);
        lines.taps[index as usize] = None;
        lines.readers.resize(lines.lines.len(), NONE);
        let reader = |end| if let End::Port(node, _) = end { node.index } else { NONE };
        (lines.readers[index as usize * 2], lines.readers[index as usize * 2 + 1]) = (reader(b), reader(a));
        lines.parcels.resize(lines.lines.len(), false);
        lines.parcels[index as usize * 2..][..2].copy_from_slice(&parcels);
        self.plug(a, Port { output: index * 2, input: index * 2 + 1 }, Some(nature));
        self.plug(b, Port { output: index * 2 + 1, input: index * 2 }, Some(nature));
        LinkId { index, generation }
    }

    fn plug(&mut self, end: End, lines: Port, nature: Option<LinkNature>) {
        let End::Port(node, port) = end else { return };
        let Some(slot) = self.slot_mut(node) else { return };
        slot.node.handle_link(port, nature);
        let port = port as usize;
        slot.ports.resize(slot.ports.len().max(port + 1), Port::UNCONNECTED);
        slot.ports[port] = lines;
        self.wake(node.index);
    }

    /// Removes a link; what is on it is lost. False if it is gone already.
    pub fn remove_link(&mut self, id: LinkId) -> bool {
        let Some(slot) = self.links.get_mut(id.index as usize).filter(|s| s.generation == id.generation) else {
            return false;
        };
        let Some(link) = slot.content.take() else { return false };
        slot.generation = slot.generation.wrapping_add(1);
        for line in &mut self.lines.lines[id.index as usize * 2..][..2] {
            match line.take() {
                Some(Line::Cells(mut lane)) => lane.clear(&mut self.lines.pool),
                Some(Line::Frames(mut lane)) => lane.clear(&mut self.lines.pool),
                None => 0,
            };
        }
        self.lines.taps[id.index as usize] = None;
        for line in [id.index * 2, id.index * 2 + 1] {
            self.lines.readers[line as usize] = NONE;
            self.lines.moved.remove(line);
            self.line_deadlines.set(line, None);
        }
        self.followers.retain(|link| *link != id);
        self.externals.retain(|(link, _)| *link != id);
        for end in link.ends {
            self.plug(end, Port::UNCONNECTED, None);
        }
        true
    }

    pub(crate) fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.index as usize).filter(|s| s.generation == id.generation)?.content.as_ref()
    }

    /// All links with their counters.
    pub fn links(&self) -> impl Iterator<Item = LinkInfo<'_>> {
        let ids = self.links.iter().enumerate().filter(|(_, s)| s.content.is_some());
        ids.filter_map(|(i, s)| self.link_info(LinkId { index: i as u32, generation: s.generation }))
    }

    /// One link with its counters.
    pub fn link_info(&self, id: LinkId) -> Option<LinkInfo<'_>> {
        let link = self.link(id)?;
        let of = |line: usize| match self.lines.lines.get(id.index as usize * 2 + line) {
            Some(Some(Line::Cells(lane))) => (lane.counters(), lane.is_up()),
            Some(Some(Line::Frames(lane))) => (lane.counters(), lane.is_up()),
            _ => (LineCounters::default(), false),
        };
        let ((from_a, up), (from_b, _)) = (of(0), of(1));
        Some(LinkInfo { id, ends: link.ends, config: &link.config, up, enabled: link.enabled, from_a, from_b })
    }

    /// Gives a link another rate and delay while it passes cells or frames: what waits leaves at the new rate. False if the link is
    /// gone.
    pub fn set_link_rate(&mut self, id: LinkId, rate: Option<CellRate>, delay: Duration, now: Time) -> bool {
        let Some(link) = self.link_mut(id) else { return false };
        (link.config.rate, link.config.delay) = (rate, delay);
        let queue = link.config.queue_cells;
        self.lines.moved.insert(id.index * 2);
        self.lines.moved.insert(id.index * 2 + 1);
        for line in self.lines.lines.iter_mut().skip(id.index as usize * 2).take(2) {
            match line {
                Some(Line::Cells(lane)) => lane.set_rate(queue, rate, delay, now),
                Some(Line::Frames(lane)) => lane.set_rate(queue, rate, delay, now),
                None => {}
            }
        }
        true
    }

    /// Lets at most so many cells wait in the queue of a link's sender, or frames of so many and one more: those that go next
    /// should be chosen late. `None`: as many as the queue has room for. It matters for links with a rate. False if the link is gone.
    pub fn set_link_window(&mut self, id: LinkId, side: Side, cells: Option<usize>) -> bool {
        if self.link(id).is_none() {
            return false;
        }
        match self.lines.lines.get_mut(id.index as usize * 2 + side as usize) {
            Some(Some(Line::Cells(lane))) => lane.set_window(cells),
            Some(Some(Line::Frames(lane))) => lane.set_window(cells),
            _ => {}
        }
        true
    }

    /// Takes a link down, losing what is on it, or lets it be up: it is then, unless a shell at its end is not, or the link
    /// that it follows. A link that is down takes all it is given and counts it `link_down`, so that senders do not wait for
    /// it; a shell at its end has no signal ([`External::set_signal`]). False if the link is gone.
    pub fn set_link_up(&mut self, id: LinkId, up: bool) -> bool {
        let Some(link) = self.link_mut(id) else { return false };
        link.enabled = up;
        self.refresh(id);
        true
    }

    /// Lets a link be up only while another is, too: who is at its end learns of a fault farther on, as a media converter
    /// passes a loss of signal through. `None`: it depends on no other. False if the link is gone.
    pub fn follow(&mut self, id: LinkId, other: Option<LinkId>) -> bool {
        let Some(link) = self.link_mut(id) else { return false };
        link.follows = other.filter(|other| *other != id);
        let follows = link.follows.is_some();
        self.followers.retain(|link| *link != id);
        if follows {
            self.followers.push(id);
            self.followers.sort_unstable();
        }
        self.refresh(id);
        true
    }

    fn link_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(id.index as usize).filter(|s| s.generation == id.generation)?.content.as_mut()
    }

    fn is_up(&self, id: LinkId) -> bool {
        let line = self.link(id).and_then(|_| self.lines.lines.get(id.index as usize * 2)?.as_ref());
        line.is_some_and(|line| match line {
            Line::Cells(lane) => lane.is_up(),
            Line::Frames(lane) => lane.is_up(),
        })
    }

    /// Whether a link may be up, as far as it is for the network to say: a shell at its end may still be down itself.
    pub fn has_signal(&self, id: LinkId) -> bool {
        self.link(id).is_some_and(|link| {
            let follows = link.follows.is_none_or(|other| self.is_up(other));
            link.enabled && follows && !link.ends.contains(&End::Nowhere)
        })
    }

    /// Puts a link where it belongs, up or down, and tells its shell of the signal. True if it was elsewhere.
    pub(crate) fn refresh(&mut self, id: LinkId) -> bool {
        let signal = self.has_signal(id);
        let awaits_shell = self.link(id).is_some_and(|link| link.awaits_shell);
        let shell = self.externals.iter_mut().find(|(link, _)| *link == id);
        let up = signal
            & !awaits_shell
            & shell.is_none_or(|(_, shell)| {
                shell.set_signal(signal);
                shell.is_up()
            });
        let changes = self.link(id).is_some() && self.is_up(id) != up;
        if changes {
            self.set_lines_up(id, up);
        }
        changes
    }

    pub(crate) fn set_lines_up(&mut self, id: LinkId, up: bool) {
        for line in [id.index * 2, id.index * 2 + 1] {
            self.lines.moved.insert(line);
            self.lines.note_arrived(line);
        }
        for line in self.lines.lines.iter_mut().skip(id.index as usize * 2).take(2) {
            match line {
                Some(Line::Cells(lane)) => lane.set_up(up, &mut self.lines.pool),
                Some(Line::Frames(lane)) => lane.set_up(up, &mut self.lines.pool),
                None => {}
            }
        }
    }

    /// The external end of a link as port 0: inputs are what the network sent to the outside, outputs go into the network.
    /// `None` if the link is gone or has no external end.
    pub fn external<R>(&mut self, id: LinkId, now: Time, f: impl FnOnce(&mut NodeIo<'_>) -> R) -> Option<R> {
        let link = self.link(id)?;
        let port = match link.ends {
            [End::External, _] => Port { output: id.index * 2, input: id.index * 2 + 1 },
            [_, End::External] => Port { output: id.index * 2 + 1, input: id.index * 2 },
            _ => return None,
        };
        Some(f(&mut NodeIo { ports: &[port], lines: &mut self.lines, now }))
    }

    /// Copies what the link is given from now on, in both directions; replaces an earlier tap. False if the link is gone.
    pub fn set_tap(&mut self, id: LinkId, config: Option<TapConfig>) -> bool {
        if self.link(id).is_none() {
            return false;
        }
        self.lines.taps[id.index as usize] = config.map(|c| Box::new(Tap::new(c)));
        true
    }

    /// Whether somebody copies what the link is given.
    pub fn has_tap(&self, id: LinkId) -> bool {
        self.link(id).is_some() && self.lines.taps[id.index as usize].is_some()
    }

    /// Wakes `reader` when the tap has seen something after a drain (or now, if it has), once until the next drain, and when the
    /// tap is gone. False if there is none.
    pub fn set_tap_reader(&mut self, id: LinkId, reader: Waker) -> bool {
        if self.link(id).is_none() {
            return false;
        }
        let Some(tap) = &mut self.lines.taps[id.index as usize] else { return false };
        tap.set_reader(reader);
        true
    }

    /// Swaps what the tap has seen with `buffer`, which is emptied first. False if there is no tap.
    pub fn drain_tap(&mut self, id: LinkId, buffer: &mut TapBuffer) -> bool {
        if self.link(id).is_none() {
            return false;
        }
        let Some(tap) = &mut self.lines.taps[id.index as usize] else { return false };
        tap.swap(buffer);
        true
    }

    /// The pool that frames take their buffers from.
    pub fn pool(&self) -> &FramePool {
        &self.lines.pool
    }

    /// One round over the links and nodes that have something to do. True if anything happened: run again before sleeping.
    ///
    /// Links come first, then nodes in the order in which they were added, then shells. A round that has had enough work ends
    /// early, and the next one goes on behind it.
    pub fn run(&mut self, now: Time) -> bool {
        let mut busy = self.run_lines(now);
        busy |= self.run_nodes(now);
        for i in 0..self.externals.len() {
            let id = self.externals[i].0;
            busy |= self.with_external(id, now, |external, io| external.run(io, now)).unwrap_or_default();
        }
        for i in 0..self.followers.len() {
            busy |= self.refresh(self.followers[i]);
        }
        busy
    }

    fn run_lines(&mut self, now: Time) -> bool {
        while let Some(line) = self.line_deadlines.pop_due(now) {
            self.lines.moved.insert(line);
        }
        let (mut busy, mut from) = (false, 0);
        while let Some(index) = self.lines.moved.next(from) {
            from = index + 1;
            self.lines.moved.remove(index);
            let Some(Some(line)) = self.lines.lines.get_mut(index as usize) else { continue };
            self.visits += 1;
            let moved = line.run(now, &mut self.lines.pool);
            // A time that has come already waits for the far end to read.
            let next = line.poll_timeout();
            self.line_deadlines.set(index, next);
            if moved {
                busy = true;
                self.lines.note_arrived(index);
            }
        }
        busy
    }

    fn run_nodes(&mut self, now: Time) -> bool {
        while let Some(node) = self.node_deadlines.pop_due(now) {
            self.lines.ready.insert(node);
        }
        self.lines.work = 0;
        let mut busy = false;
        let (mut from, begin) = (self.next, self.next);
        let mut wrapped = begin == 0;
        self.next = 0;
        loop {
            let index = match self.lines.ready.next(from) {
                Some(index) if !wrapped || begin == 0 || index < begin => index,
                None if !wrapped => {
                    (from, wrapped) = (0, true);
                    continue;
                }
                _ => return busy,
            };
            from = index + 1;
            self.lines.ready.remove(index);
            let Some(slot) = self.nodes.get_mut(index as usize).and_then(|slot| slot.content.as_mut()) else {
                continue;
            };
            self.visits += 1;
            let worked = slot.node.run(&mut NodeIo { ports: &slot.ports, lines: &mut self.lines, now }, now);
            busy |= worked;
            if worked || !slot.node.rests() {
                self.lines.ready.insert(index);
            } else {
                self.node_deadlines.set(index, slot.node.poll_timeout());
            }
            if self.lines.work >= ROUND_WORK {
                self.next = from;
                return true;
            }
        }
    }

    /// When to run next even if nothing comes from outside; `None`: never.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lines =
            self.lines.moved.iter().filter_map(|line| self.lines.lines.get(line as usize)?.as_ref()?.poll_timeout());
        let awake = |node: u32| self.nodes.get(node as usize)?.content.as_ref()?.node.poll_timeout();
        let nodes = self.lines.ready.iter().filter_map(awake);
        let resting = [self.node_deadlines.first(), self.line_deadlines.first()].into_iter().flatten();
        lines.chain(nodes).chain(resting).chain(self.externals.iter().filter_map(|(_, e)| e.poll_timeout())).min()
    }
}

/// Puts `content` into the first free slot or a new one.
fn insert<T>(slots: &mut Vec<Slot<T>>, content: T) -> (u32, u32) {
    let index = slots.iter().position(|s| s.content.is_none()).unwrap_or_else(|| {
        slots.push(Slot { generation: 0, content: None });
        slots.len() - 1
    });
    slots[index].content = Some(content);
    (index as u32, slots[index].generation)
}
