//! One thread's share of a network: elements, the links at them, a ready list, deadlines and a pool of frames.
//!
//! Elements and links have the numbers that the network gave them; a link between two shards is in both of them, by
//! halves ([`crate::crossing`]).

mod externals;
mod label_changes;
mod rounds;

use crate::bell::Bell;
use crate::crossing::{Crossing, Mailboxes};
use crate::external::External;
use crate::frame::FramePool;
use crate::line::{Carries, Lane, LineCounters, Side};
use crate::link::{End, LinkConfig, LinkId, NodeId};
use crate::node::{Line, Lines, LinkProperties, NONE, Node, NodeIo, Port};
use crate::parcel::Spare;
use crate::ready::{Deadlines, ReadySet};
use crate::tap::{Tap, TapConfig, TapId, Taps};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{CellRate, Counters, Time};

#[derive(Debug)]
pub(crate) struct Link {
    generation: u32,
    pub(crate) ends: [End; 2],
    pub(crate) config: LinkConfig,
    /// As [`crate::Network::set_link_up`] has it.
    pub(crate) enabled: bool,
    /// The link without which this one is down, and whether that is up.
    follows: Option<(LinkId, Arc<AtomicBool>)>,
    /// Down until a shell comes to its external end ([`crate::Network::await_shell`]).
    awaits_shell: bool,
    /// The end that is in this shard, if the other one is in another.
    half: Option<Side>,
    mailboxes: Option<Mailboxes>,
    /// Whether it is up, for those that follow it.
    pub(crate) up: Arc<AtomicBool>,
}

pub(crate) struct NodeSlot {
    generation: u32,
    pub(crate) name: String,
    node: Box<dyn Node>,
    ports: Vec<Port>,
}

/// What a link is to a shard.
pub(crate) struct NewLink {
    pub(crate) id: LinkId,
    pub(crate) ends: [End; 2],
    pub(crate) config: LinkConfig,
    pub(crate) properties: LinkProperties,
    /// For a half of a link between two shards: the end that is here, and what stands for the other one.
    pub(crate) half: Option<(Side, NodeId, Crossing)>,
}

/// What a link was made of ([`crate::Network::take_link`]). Dropping it takes long if much was on the link.
#[derive(Default)]
pub struct RemovedLink {
    parts: Vec<Box<dyn Send>>,
}

impl std::fmt::Debug for RemovedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemovedLink").field("parts", &self.parts.len()).finish()
    }
}

/// A part of a network that one thread runs. [`crate::Network::lend`] gives it away.
pub struct Shard {
    number: usize,
    nodes: Vec<Option<NodeSlot>>,
    links: Vec<Option<Link>>,
    pub(crate) lines: Lines,
    externals: Vec<(LinkId, Box<dyn External>)>,
    /// How often a shell has done something.
    outside_work: u64,
    /// When nodes that are not to be visited before want to be; and lines.
    node_deadlines: Deadlines,
    line_deadlines: Deadlines,
    /// Links that follow others.
    followers: Vec<LinkId>,
    /// The node at which the next round begins: the one before had enough work with those ahead of it.
    next: u32,
    visits: u64,
    /// The bells of all shards.
    bells: Arc<[Arc<Bell>]>,
    /// The numbers of crossings to each other shard.
    crossings: Vec<Vec<u32>>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.nodes.iter().flatten().map(|n| &n.name).collect();
        f.debug_struct("Shard").field("number", &self.number).field("nodes", &names).finish_non_exhaustive()
    }
}

impl Shard {
    pub(crate) fn new(number: usize, pool: FramePool, bells: Arc<[Arc<Bell>]>) -> Self {
        let lines = Lines {
            lines: Vec::new(),
            taps: Vec::new(),
            pool,
            readers: Vec::new(),
            parcels: Vec::new(),
            spare: Spare::default(),
            ready: ReadySet::default(),
            moved: ReadySet::default(),
            stale_filters: ReadySet::default(),
            work: 0,
        };
        Shard {
            number,
            nodes: Vec::new(),
            links: Vec::new(),
            lines,
            externals: Vec::new(),
            outside_work: 0,
            node_deadlines: Deadlines::default(),
            line_deadlines: Deadlines::default(),
            followers: Vec::new(),
            next: 0,
            visits: 0,
            crossings: vec![Vec::new(); bells.len()],
            bells,
        }
    }

    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// By which other threads call the one that runs it.
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bells[self.number]
    }

    /// Nodes and lines that rounds have visited, ever.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// The pool that its frames take their buffers from.
    pub fn pool(&self) -> &FramePool {
        &self.lines.pool
    }

    /// The next round visits a node.
    fn wake(&mut self, index: u32) {
        self.node_deadlines.set(index, None);
        self.lines.ready.insert(index);
    }

    pub(crate) fn slot(&self, id: NodeId) -> Option<&NodeSlot> {
        self.nodes.get(id.index as usize)?.as_ref().filter(|s| s.generation == id.generation)
    }

    fn slot_mut(&mut self, id: NodeId) -> Option<&mut NodeSlot> {
        self.nodes.get_mut(id.index as usize)?.as_mut().filter(|s| s.generation == id.generation)
    }

    pub(crate) fn put_node(&mut self, id: NodeId, name: String, node: Box<dyn Node>) {
        self.nodes.resize_with(self.nodes.len().max(id.index as usize + 1), || None);
        self.nodes[id.index as usize] = Some(NodeSlot { generation: id.generation, name, node, ports: Vec::new() });
        self.wake(id.index);
    }

    /// Takes out a node that has no links.
    pub(crate) fn take_node(&mut self, id: NodeId) -> Option<(String, Box<dyn Node>)> {
        self.slot(id)?;
        self.lines.ready.remove(id.index);
        self.node_deadlines.set(id.index, None);
        self.nodes[id.index as usize].take().map(|s| (s.name, s.node))
    }

    /// Whether a link is at a port; `None` without the node.
    pub(crate) fn is_connected(&self, id: NodeId, port: u16) -> Option<bool> {
        Some(self.slot(id)?.ports.get(port as usize).is_some_and(|p| p.input != NONE))
    }

    /// Whether any link is at a node.
    pub(crate) fn has_links(&self, id: NodeId) -> bool {
        self.slot(id).is_some_and(|slot| slot.ports.iter().any(|p| p.input != NONE))
    }

    /// [`crate::Network::rename_node`].
    pub(crate) fn rename_node(&mut self, id: NodeId, name: &str) {
        if let Some(slot) = self.slot_mut(id) {
            name.clone_into(&mut slot.name);
        }
    }

    /// [`crate::Network::node_name`].
    pub fn node_name(&self, id: NodeId) -> Option<&str> {
        self.slot(id).map(|s| s.name.as_str())
    }

    /// Whether a link leads from here to another shard.
    pub fn crosses(&self) -> bool {
        self.crossings.iter().any(|peer| !peer.is_empty())
    }

    /// How often the shell of an external link has done something.
    pub fn outside_work(&self) -> u64 {
        self.outside_work
    }

    /// [`crate::Network::nodes`] of this shard.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes.iter().enumerate().filter_map(|(i, s)| {
            let slot = s.as_ref()?;
            Some((NodeId { index: i as u32, generation: slot.generation }, slot.name.as_str()))
        })
    }

    /// [`crate::Network::node_mut`].
    pub fn node_mut<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        if self.slot(id).is_some() {
            self.wake(id.index);
        }
        self.peek_node(id)
    }

    /// [`crate::Network::peek_node`].
    pub fn peek_node<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        self.slot_mut(id)?.node.as_any_mut().downcast_mut()
    }

    pub(crate) fn any_node_mut(&mut self, id: NodeId) -> Option<&mut dyn Any> {
        if self.slot(id).is_some() {
            self.wake(id.index);
        }
        Some(self.slot_mut(id)?.node.as_any_mut())
    }

    pub(crate) fn with_node<T: Node + 'static, R>(
        &mut self,
        id: NodeId,
        now: Time,
        f: impl FnOnce(&mut T, &mut NodeIo<'_>) -> R,
    ) -> Option<R> {
        self.slot(id)?;
        self.wake(id.index);
        let slot = self.nodes.get_mut(id.index as usize)?.as_mut()?;
        if !self.lines.stale_filters.is_empty() {
            self.lines.purge_stale(&slot.ports, usize::MAX);
        }
        let node = slot.node.as_any_mut().downcast_mut()?;
        Some(f(node, &mut NodeIo { ports: &slot.ports, lines: &mut self.lines, now }))
    }

    /// Makes a link, or the half of one, between ends that are free.
    pub(crate) fn put_link(&mut self, new: NewLink) {
        let NewLink { id, ends, config, properties, half } = new;
        // No line holds more than half of the frames; its share shrinks as others hold some.
        let frames = config.queue_cells.min(self.pool().buffers().div_ceil(2).max(4));
        let side = half.as_ref().map(|(side, ..)| *side);
        let line = |direction: Side| {
            // What comes from another shard has had rate, delay and faults there.
            let (rate, delay, faults) = match side {
                Some(side) if side != direction => (None, Duration::ZERO, None),
                _ => (config.rate, config.delay, config.faults.as_ref()),
            };
            let number = direction as u64;
            match config.carries {
                Carries::Cells => Line::Cells(Lane::new(config.queue_cells, rate, delay, faults, number)),
                Carries::Frames => Line::Frames(Lane::new(frames, rate, delay, faults, number)),
            }
        };
        let index = id.index as usize;
        let lines = &mut self.lines;
        lines.lines.resize_with(lines.lines.len().max(index * 2 + 2), || None);
        lines.taps.resize_with(lines.taps.len().max(index + 1), || None);
        lines.lines[index * 2] = Some(line(Side::A));
        lines.lines[index * 2 + 1] = Some(line(Side::B));
        lines.taps[index] = None;
        lines.readers.resize(lines.lines.len(), NONE);
        lines.parcels.resize(lines.lines.len(), false);
        let beyond = half.as_ref().map(|(side, node, _)| (1 - *side as usize, node.index));
        for (end, what) in ends.iter().enumerate() {
            let nodes = &self.nodes;
            let takes = |node: u32| {
                nodes.get(node as usize).is_some_and(|n| n.as_ref().is_some_and(|n| n.node.takes_parcels()))
            };
            // Between shards cells are handed over, no parcels.
            let (reader, parcels) = match (beyond, what) {
                (Some((away, crossing)), _) if away == end => (crossing, false),
                (_, End::Port(node, _)) => (node.index, takes(node.index)),
                _ => (NONE, false),
            };
            lines.readers[index * 2 + 1 - end] = reader;
            lines.parcels[index * 2 + 1 - end] = parcels;
        }
        self.links.resize_with(self.links.len().max(index + 1), || None);
        self.links[index] = Some(Link {
            generation: id.generation,
            ends,
            config,
            enabled: true,
            follows: None,
            awaits_shell: false,
            half: side,
            mailboxes: half.as_ref().map(|(.., crossing)| crossing.mailboxes.clone()),
            up: Arc::new(AtomicBool::new(true)),
        });
        for (end, what) in ends.into_iter().enumerate() {
            if beyond.is_none_or(|(away, _)| away != end) {
                self.plug(what, port_at(id, end), Some(properties));
            }
        }
        if let Some((side, node, crossing)) = half {
            let peer = crossing.peer();
            self.put_node(node, String::new(), Box::new(crossing));
            self.plug(End::Port(node, 0), port_at(id, 1 - side as usize), None);
            self.crossings[peer].push(node.index);
        }
    }

    fn plug(&mut self, end: End, lines: Port, properties: Option<LinkProperties>) {
        let End::Port(node, port) = end else { return };
        let Some(slot) = self.slot_mut(node) else { return };
        slot.node.handle_link(port, properties);
        let port = port as usize;
        slot.ports.resize(slot.ports.len().max(port + 1), Port::UNCONNECTED);
        slot.ports[port] = lines;
        self.wake(node.index);
    }

    /// Removes a link; what is on it is lost. What stood for its other end goes with it. All of that is added to
    /// `removed`.
    pub(crate) fn drop_link(&mut self, id: LinkId, crossing: Option<NodeId>, removed: &mut RemovedLink) {
        let Some(link) =
            self.links.get_mut(id.index as usize).and_then(|l| l.take_if(|l| l.generation == id.generation))
        else {
            return;
        };
        link.up.store(false, Ordering::Relaxed);
        let parts = &mut removed.parts;
        for line in &mut self.lines.lines[id.index as usize * 2..][..2] {
            let Some(mut line) = line.take() else { continue };
            match &mut line {
                Line::Cells(lane) => lane.drop_parcels(),
                // Its frames have buffers of this shard's.
                Line::Frames(lane) => drop(lane.clear(&mut self.lines.pool)),
            }
            parts.push(Box::new(line));
        }
        if let Some(tap) = self.lines.taps[id.index as usize].take() {
            parts.push(tap);
        }
        for line in [id.index * 2, id.index * 2 + 1] {
            self.lines.readers[line as usize] = NONE;
            self.lines.moved.remove(line);
            self.lines.stale_filters.remove(line);
            self.line_deadlines.set(line, None);
        }
        self.followers.retain(|link| *link != id);
        if let Some(place) = self.externals.iter().position(|(link, _)| *link == id) {
            parts.push(Box::new(self.externals.remove(place).1));
        }
        let away = link.half.map(|side| 1 - side as usize);
        for (_, what) in link.ends.into_iter().enumerate().filter(|(end, _)| away != Some(*end)) {
            self.plug(what, Port::UNCONNECTED, None);
        }
        parts.push(Box::new(link));
        if let Some(node) = crossing {
            self.crossings.iter_mut().for_each(|peer| peer.retain(|index| *index != node.index));
            parts.extend(self.take_node(node).map(|(_, node)| Box::new(node) as Box<dyn Send>));
        }
    }

    pub(crate) fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.index as usize)?.as_ref().filter(|l| l.generation == id.generation)
    }

    fn link_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(id.index as usize)?.as_mut().filter(|l| l.generation == id.generation)
    }

    /// A line of a link, by its sender.
    fn line(&self, id: LinkId, from: Side) -> Option<&Line> {
        self.link(id)?;
        self.lines.lines.get(id.index as usize * 2 + from as usize)?.as_ref()
    }

    pub(crate) fn line_counters(&self, id: LinkId, from: Side) -> LineCounters {
        match self.line(id, from) {
            Some(Line::Cells(lane)) => lane.counters(),
            Some(Line::Frames(lane)) => lane.counters(),
            None => LineCounters::default(),
        }
    }

    /// [`Lane::unread_drops`] of a line from another shard.
    pub(crate) fn unread_drops(&self, id: LinkId, from: Side) -> (Counters, u64) {
        self.line(id, from).map(Line::unread_drops).unwrap_or_default()
    }

    /// Cells or frames that were handed over to another shard and that it has not taken, while neither runs.
    pub(crate) fn handed_over(&self, id: LinkId, from: Side) -> u64 {
        let mailboxes = self.link(id).and_then(|link| link.mailboxes.as_ref());
        mailboxes.map_or(0, |mailboxes| mailboxes.waiting(from as usize))
    }

    /// The lines of a link whose senders are here.
    fn own_lines(&self, id: LinkId) -> impl Iterator<Item = u32> + use<> {
        let half = self.link(id).map(|link| link.half);
        [Side::A, Side::B].into_iter().filter_map(move |side| {
            let own = half?.is_none_or(|half| half == side);
            own.then_some(id.index * 2 + side as u32)
        })
    }

    pub(crate) fn set_link_rate(&mut self, id: LinkId, rate: Option<CellRate>, delay: Duration, now: Time) {
        let Some(link) = self.link_mut(id) else { return };
        (link.config.rate, link.config.delay) = (rate, delay);
        let queue = link.config.queue_cells;
        if let Some((_, shell)) = self.externals.iter_mut().find(|(link, _)| *link == id) {
            shell.set_rate(rate);
        }
        for line in self.own_lines(id) {
            self.lines.moved.insert(line);
            match self.lines.lines.get_mut(line as usize) {
                Some(Some(Line::Cells(lane))) => lane.set_rate(queue, rate, delay, now),
                Some(Some(Line::Frames(lane))) => lane.set_rate(queue, rate, delay, now),
                _ => {}
            }
        }
    }

    pub(crate) fn set_link_window(&mut self, id: LinkId, side: Side, cells: Option<usize>) {
        if self.link(id).is_none() {
            return;
        }
        match self.lines.lines.get_mut(id.index as usize * 2 + side as usize) {
            Some(Some(Line::Cells(lane))) => lane.set_window(cells),
            Some(Some(Line::Frames(lane))) => lane.set_window(cells),
            _ => {}
        }
    }

    pub(crate) fn set_link_up(&mut self, id: LinkId, up: bool) {
        if let Some(link) = self.link_mut(id) {
            link.enabled = up;
            self.refresh(id);
        }
    }

    /// `other`: the link that is followed, and what says whether it is up.
    pub(crate) fn follow(&mut self, id: LinkId, other: Option<(LinkId, Arc<AtomicBool>)>) {
        let Some(link) = self.link_mut(id) else { return };
        link.follows = other;
        let follows = link.follows.is_some();
        self.followers.retain(|link| *link != id);
        if follows {
            self.followers.push(id);
            self.followers.sort_unstable();
        }
        self.refresh(id);
    }

    pub(crate) fn is_up(&self, id: LinkId) -> bool {
        let line = self.own_lines(id).next().and_then(|line| self.lines.lines.get(line as usize)?.as_ref());
        line.is_some_and(|line| match line {
            Line::Cells(lane) => lane.is_up(),
            Line::Frames(lane) => lane.is_up(),
        })
    }

    pub(crate) fn has_signal(&self, id: LinkId) -> bool {
        self.link(id).is_some_and(|link| {
            let follows = link.follows.as_ref().is_none_or(|(_, up)| up.load(Ordering::Relaxed));
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

    fn set_lines_up(&mut self, id: LinkId, up: bool) {
        for line in self.own_lines(id) {
            self.lines.moved.insert(line);
            self.lines.note_arrived(line);
            match self.lines.lines.get_mut(line as usize) {
                Some(Some(Line::Cells(lane))) => lane.set_up(up, &mut self.lines.pool),
                Some(Some(Line::Frames(lane))) => lane.set_up(up, &mut self.lines.pool),
                _ => {}
            }
        }
        if let Some((half, queue)) = self.link(id).and_then(|link| Some((link.half?, link.config.queue_cells)))
            && !up
        {
            // What the other shard may hand over before it sees that, and what it has handed over.
            self.shorten_sieve(id.index * 2 + 1 - half as u32, 2 * queue as u64);
        }
        let Some(link) = self.link(id) else { return };
        link.up.store(up, Ordering::Relaxed);
        // Links of other shards may follow this one.
        let others = self.bells.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.for_each(|(_, bell)| bell.call(self.number));
    }

    pub(crate) fn external<R>(&mut self, id: LinkId, now: Time, f: impl FnOnce(&mut NodeIo<'_>) -> R) -> Option<R> {
        let ends = self.link(id)?.ends;
        let end = ends.iter().position(|end| *end == End::External)?;
        let ports = [port_at(id, end)];
        if !self.lines.stale_filters.is_empty() {
            self.lines.purge_stale(&ports, usize::MAX);
        }
        Some(f(&mut NodeIo { ports: &ports, lines: &mut self.lines, now }))
    }

    /// False if there is no room for another tap.
    pub(crate) fn set_tap(&mut self, id: LinkId, tap: TapId, config: Option<TapConfig>) -> bool {
        if self.link(id).is_none() {
            return true;
        }
        let slot = &mut self.lines.taps[id.index as usize];
        let done = match config {
            Some(config) => slot.get_or_insert_default().set(tap, config),
            None => {
                slot.iter_mut().for_each(|taps| taps.remove(tap));
                true
            }
        };
        slot.take_if(|taps: &mut Box<Taps>| taps.is_empty());
        done
    }

    pub(crate) fn tap(&mut self, id: LinkId, tap: TapId) -> Option<&mut Tap> {
        self.link(id)?;
        self.lines.taps[id.index as usize].as_deref_mut()?.get_mut(tap)
    }

    pub(crate) fn has_tap(&self, id: LinkId, tap: TapId) -> bool {
        self.link(id).is_some() && self.lines.taps[id.index as usize].as_ref().is_some_and(|taps| taps.has(tap))
    }

    /// Whether the link has a tap of anybody's: one that has none has no list of them.
    pub(crate) fn has_any_tap(&self, id: LinkId) -> bool {
        self.link(id).is_some() && self.lines.taps[id.index as usize].is_some()
    }

    /// One end of a link as port 0, beside the node that is there.
    pub(crate) fn at_end<R>(
        &mut self,
        id: LinkId,
        end: usize,
        now: Time,
        f: impl FnOnce(&mut NodeIo<'_>) -> R,
    ) -> Option<R> {
        self.link(id)?;
        let ports = [port_at(id, end)];
        Some(f(&mut NodeIo { ports: &ports, lines: &mut self.lines, now }))
    }
}

/// The lines of a link as the port at one of its ends has them.
fn port_at(id: LinkId, end: usize) -> Port {
    let (from_here, to_here) = (id.index * 2 + end as u32, id.index * 2 + 1 - end as u32);
    Port { output: from_here, input: to_here }
}
