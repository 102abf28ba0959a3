//! Nodes, links and the round over them: the whole of a network, which is one shard or several.

mod externals;
mod label_changes;

use crate::bell::{Bell, MAX_SHARDS};
use crate::crossing::{Crossing, Mailboxes};
use crate::frame::FramePool;
use crate::line::{Carries, LineCounters, Side};
pub use crate::link::{CallShare, ConnectError, End, LinkConfig, LinkId, LinkInfo, NodeId};
use crate::node::{LinkProperties, Node, NodeIo};
use crate::ready::ReadySet;
pub use crate::shard::RemovedLink;
use crate::shard::{NewLink, Shard};
use crate::tap::{TapBuffer, TapConfig, TapId};
use std::any::Any;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use wire::{CellRate, Time};

/// Where a link is.
#[derive(Debug, Clone, Copy)]
struct LinkPlace {
    /// The shards of its ends, A's first.
    shards: [u32; 2],
    /// What stands for the other end in either shard, if they are two.
    crossing: Option<NodeId>,
}

/// Where a node is.
#[derive(Debug, Clone, Copy)]
enum NodePlace {
    Shard(u32),
    /// Not an element: the halves of a link between two shards.
    Crossing,
}

struct Slot<T> {
    generation: u32,
    content: Option<T>,
}

/// Nodes and links. See the crate's head.
///
/// A network is a [`Shard`] or several: each has a part of the nodes. Whoever has the whole runs them one after the
/// other by [`Network::run`]. A thread can have one for itself ([`Network::lend`]); what is asked of a shard that is
/// not here has no answer.
pub struct Network {
    nodes: Vec<Slot<NodePlace>>,
    links: Vec<Slot<LinkPlace>>,
    shards: Vec<Option<Box<Shard>>>,
    bells: Arc<[Arc<Bell>]>,
    /// Nodes that somebody has called since they were last asked what they have set up.
    called: ReadySet,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.nodes().map(|(_, name)| name).collect();
        f.debug_struct("Network").field("nodes", &names).field("links", &self.links().count()).finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network of one shard whose frames take their buffers from `pool`.
    pub fn new(pool: FramePool) -> Self {
        Network::of_pools(vec![pool])
    }

    /// An empty network of so many shards (1 to [`MAX_SHARDS`]), each with `buffers` frames of `buffer_octets`.
    pub fn sharded(shards: usize, buffers: usize, buffer_octets: usize) -> Self {
        let pools = (0..shards.clamp(1, MAX_SHARDS)).map(|_| FramePool::new(buffers, buffer_octets));
        Network::of_pools(pools.collect())
    }

    fn of_pools(pools: Vec<FramePool>) -> Self {
        let bells: Arc<[Arc<Bell>]> = pools.iter().map(|_| Arc::default()).collect();
        let shard = |(number, pool)| Some(Box::new(Shard::new(number, pool, bells.clone())));
        let shards = pools.into_iter().enumerate().map(shard).collect();
        Network { nodes: Vec::new(), links: Vec::new(), shards, bells, called: ReadySet::default() }
    }

    /// How many shards it has.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// A shard, if it is here.
    pub fn shard(&self, number: usize) -> Option<&Shard> {
        self.shards.get(number)?.as_deref()
    }

    /// The same, to run it alone.
    #[inline]
    pub fn shard_mut(&mut self, number: usize) -> Option<&mut Shard> {
        self.note_label_changes();
        self.here_mut(number)
    }

    #[inline]
    fn here_mut(&mut self, number: usize) -> Option<&mut Shard> {
        self.shards.get_mut(number)?.as_deref_mut()
    }

    /// Gives a shard to another thread. `None` if it is away already; and of the first, which stays.
    pub fn lend(&mut self, number: usize) -> Option<Box<Shard>> {
        self.note_label_changes();
        self.shards.get_mut(number).filter(|_| number > 0)?.take()
    }

    /// A shard that was lent is here again.
    pub fn take_back(&mut self, shard: Box<Shard>) {
        let number = shard.number();
        if let Some(place) = self.shards.get_mut(number) {
            *place = Some(shard);
        }
    }

    /// The bells of its shards, by which their threads call each other.
    pub fn bells(&self) -> &[Arc<Bell>] {
        &self.bells
    }

    fn here(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().flatten().map(|shard| &**shard)
    }

    /// Nodes and lines that rounds have visited, ever.
    pub fn visits(&self) -> u64 {
        self.here().map(Shard::visits).sum()
    }

    /// Adds a node, in the first shard. Names are for people; nothing requires that they differ.
    pub fn add_node(&mut self, name: &str, node: Box<dyn Node>) -> NodeId {
        let (index, generation) = insert(&mut self.nodes, NodePlace::Shard(0));
        let id = NodeId { index, generation };
        if let Some(shard) = self.here_mut(0) {
            shard.put_node(id, name.to_owned(), node);
        }
        id
    }

    /// Gives a node another name.
    pub fn rename_node(&mut self, id: NodeId, name: &str) {
        let shard = self.shard_of(id);
        if let Some(shard) = shard.and_then(|shard| self.here_mut(shard)) {
            shard.rename_node(id, name);
        }
    }

    /// Moves a node to another shard. False, and nothing has changed, if there is no such node or shard, or the node
    /// has links.
    pub fn move_node(&mut self, id: NodeId, shard: usize) -> bool {
        let Some(from) = self.shard_of(id) else { return false };
        if from == shard {
            return true;
        }
        let has_links = self.shard(from).is_none_or(|from| from.has_links(id));
        if has_links || self.shard(shard).is_none() {
            return false;
        }
        let Some((name, node)) = self.here_mut(from).and_then(|from| from.take_node(id)) else { return false };
        if let Some(to) = self.here_mut(shard) {
            to.put_node(id, name, node);
        }
        self.nodes[id.index as usize].content = Some(NodePlace::Shard(shard as u32));
        true
    }

    /// The shard that a node is in.
    pub fn shard_of(&self, id: NodeId) -> Option<usize> {
        match self.nodes.get(id.index as usize).filter(|s| s.generation == id.generation)?.content? {
            NodePlace::Shard(shard) => Some(shard as usize),
            NodePlace::Crossing => None,
        }
    }

    fn of_node(&self, id: NodeId) -> Option<&Shard> {
        self.shard(self.shard_of(id)?)
    }

    fn of_node_mut(&mut self, id: NodeId) -> Option<&mut Shard> {
        self.here_mut(self.shard_of(id)?)
    }

    /// Removes a node and all links at it. The node comes back to the caller.
    pub fn remove_node(&mut self, id: NodeId) -> Option<Box<dyn Node>> {
        self.of_node(id)?.slot(id)?;
        let at_it = |end: &End| matches!(end, End::Port(node, _) if *node == id);
        let links: Vec<_> = self.links().filter(|l| l.ends.iter().any(at_it)).map(|l| l.id).collect();
        for link in links {
            self.remove_link(link);
        }
        let (_, node) = self.of_node_mut(id)?.take_node(id)?;
        self.free_node(id);
        Some(node)
    }

    fn free_node(&mut self, id: NodeId) {
        if let Some(slot) = self.nodes.get_mut(id.index as usize) {
            slot.generation = slot.generation.wrapping_add(1);
            slot.content = None;
        }
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> Option<&str> {
        self.of_node(id)?.node_name(id)
    }

    /// The node of this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes().find(|(_, n)| *n == name).map(|(id, _)| id)
    }

    /// All nodes and their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes.iter().enumerate().filter_map(|(i, s)| {
            let id = NodeId { index: i as u32, generation: s.generation };
            Some((id, self.node_name(id)?))
        })
    }

    /// A node as its own type, between two rounds; the next round visits it. `None` if it is gone or of another type.
    pub fn node_mut<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        self.called.insert(id.index);
        self.of_node_mut(id)?.node_mut(id)
    }

    /// [`Network::node_mut`] for a look, or for a change that gives the node nothing to do: it rests on.
    pub fn peek_node<T: Node + 'static>(&mut self, id: NodeId) -> Option<&mut T> {
        self.called.insert(id.index);
        self.of_node_mut(id)?.peek_node(id)
    }

    /// A node of whatever type, between two rounds; the next round visits it.
    pub(crate) fn any_node_mut(&mut self, id: NodeId) -> Option<&mut dyn Any> {
        self.called.insert(id.index);
        self.of_node_mut(id)?.any_node_mut(id)
    }

    /// A node together with its ports: for changes that give frames back or send something at once.
    pub fn with_node<T: Node + 'static, R>(
        &mut self,
        id: NodeId,
        now: Time,
        f: impl FnOnce(&mut T, &mut NodeIo<'_>) -> R,
    ) -> Option<R> {
        self.note_label_changes();
        self.called.insert(id.index);
        self.of_node_mut(id)?.with_node(id, now, f)
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
                let taken = self.of_node(node).and_then(|shard| shard.is_connected(node, port));
                if taken.ok_or(ConnectError::NoNode)? || a == b {
                    return Err(ConnectError::PortInUse(port));
                }
            }
        }
        Ok(self.join(a, b, config, 0))
    }

    /// Makes a link between two ends that are free; in `shard` if neither is a node's.
    fn join(&mut self, a: End, b: End, config: LinkConfig, shard: usize) -> LinkId {
        let inside = [a, b].iter().all(|end| matches!(end, End::Port(..)));
        let understood = inside || config.peer_takes_credits;
        let in_order = config.faults.as_ref().is_none_or(|f| f.reordering == 0.0 && f.duplication == 0.0);
        let credit = understood && in_order && config.carries == Carries::Cells;
        let properties = LinkProperties { carries: config.carries, credit, outside: !inside && config.rate.is_none() };
        // An end outside is where the other one is.
        let of = |end| if let End::Port(node, _) = end { self.shard_of(node) } else { None };
        let (at_a, at_b) = (of(a), of(b));
        let shards = [at_a.or(at_b), at_b.or(at_a)].map(|at| at.unwrap_or(shard));
        let crosses = shards[0] != shards[1];
        let crossing = crosses.then(|| insert(&mut self.nodes, NodePlace::Crossing));
        let crossing = crossing.map(|(index, generation)| NodeId { index, generation });
        let place = LinkPlace { shards: shards.map(|shard| shard as u32), crossing };
        let (index, generation) = insert(&mut self.links, place);
        let id = LinkId { index, generation };
        let new = |half| NewLink { id, ends: [a, b], config: config.clone(), properties, half };
        match crossing {
            None => {
                if let Some(shard) = self.here_mut(shards[0]) {
                    shard.put_link(new(None));
                }
            }
            Some(node) => {
                let mailboxes = match config.carries {
                    Carries::Cells => Mailboxes::of_cells(config.queue_cells),
                    Carries::Frames => Mailboxes::of_frames(),
                };
                for (side, end) in [(Side::A, 0), (Side::B, 1)] {
                    let peer = (shards[1 - end], self.bells[shards[1 - end]].clone());
                    let half = Crossing::new(mailboxes.clone(), end, peer, shards[end]);
                    if let Some(shard) = self.here_mut(shards[end]) {
                        shard.put_link(new(Some((side, node, half))));
                    }
                }
            }
        }
        id
    }

    /// Removes a link; what is on it is lost. False if it is gone already.
    pub fn remove_link(&mut self, id: LinkId) -> bool {
        self.take_link(id).is_some()
    }

    /// [`Network::remove_link`] for who drops what it was made of elsewhere: that takes long if much was on it.
    pub fn take_link(&mut self, id: LinkId) -> Option<RemovedLink> {
        let place = self.place(id)?;
        let mut removed = RemovedLink::default();
        self.halves(id, |shard| shard.drop_link(id, place.crossing, &mut removed));
        if let Some(node) = place.crossing {
            self.free_node(node);
        }
        let slot = &mut self.links[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.content = None;
        Some(removed)
    }

    fn place(&self, id: LinkId) -> Option<LinkPlace> {
        self.links.get(id.index as usize).filter(|s| s.generation == id.generation)?.content
    }

    /// The shards of a link's ends, A's first.
    pub fn shards_of(&self, id: LinkId) -> Option<[usize; 2]> {
        Some(self.place(id)?.shards.map(|shard| shard as usize))
    }

    /// The shard that has the sender of one direction of a link.
    fn of_link(&self, id: LinkId, side: Side) -> Option<&Shard> {
        self.shard(self.shards_of(id)?[side as usize])
    }

    fn of_link_mut(&mut self, id: LinkId, side: Side) -> Option<&mut Shard> {
        self.here_mut(self.shards_of(id)?[side as usize])
    }

    /// Does something in each shard that a link is in. False if the link is gone.
    fn halves(&mut self, id: LinkId, mut f: impl FnMut(&mut Shard)) -> bool {
        let Some([a, b]) = self.shards_of(id) else { return false };
        self.here_mut(a).map(&mut f);
        if a != b {
            self.here_mut(b).map(f);
        }
        true
    }

    /// All links with their counters.
    pub fn links(&self) -> impl Iterator<Item = LinkInfo<'_>> {
        let ids = self.links.iter().enumerate().filter(|(_, s)| s.content.is_some());
        ids.filter_map(|(i, s)| self.link_info(LinkId { index: i as u32, generation: s.generation }))
    }

    /// One link with its counters.
    pub fn link_info(&self, id: LinkId) -> Option<LinkInfo<'_>> {
        let at_a = self.of_link(id, Side::A)?;
        let link = at_a.link(id)?;
        let (from_a, from_b) = (self.line_counters(id, Side::A), self.line_counters(id, Side::B));
        let (ends, config, enabled) = (link.ends, &link.config, link.enabled);
        Some(LinkInfo { id, ends, config, up: at_a.is_up(id), enabled, from_a, from_b })
    }

    /// What a direction's sender has counted, with what waits beyond the border of its shard and what was counted
    /// there.
    fn line_counters(&self, id: LinkId, side: Side) -> LineCounters {
        let Some(place) = self.place(id) else { return LineCounters::default() };
        let [here, there] = [place.shards[side as usize], place.shards[1 - side as usize]];
        let [here, there] = [here, there].map(|shard| self.shard(shard as usize));
        let mut counters = here.map_or_else(LineCounters::default, |shard| shard.line_counters(id, side));
        if let (Some(_), Some(here), Some(there)) = (place.crossing, here, there) {
            let beyond = there.line_counters(id, side);
            beyond.sent.drops().for_each(|(reason, n)| counters.sent.drop_n(reason, n));
            counters.unread += here.handed_over(id, side) + beyond.unread;
            let (dropped, lost) = there.unread_drops(id, side);
            let delivered = &mut counters.delivered;
            delivered.cells = delivered.cells.wrapping_sub(dropped.cells);
            delivered.pdus = delivered.pdus.wrapping_sub(dropped.pdus);
            delivered.octets = delivered.octets.wrapping_sub(dropped.octets);
            counters.lost += lost;
        }
        counters
    }

    /// Gives a link another rate and delay while it passes cells or frames: what waits leaves at the new rate. False if
    /// the link is gone.
    pub fn set_link_rate(&mut self, id: LinkId, rate: Option<CellRate>, delay: Duration, now: Time) -> bool {
        self.halves(id, |shard| shard.set_link_rate(id, rate, delay, now))
    }

    /// Lets at most so many cells wait in the queue of a link's sender, or frames of so many and one more: those that
    /// go next should be chosen late. `None`: as many as the queue has room for. It matters for links with a rate.
    /// False if the link is gone.
    pub fn set_link_window(&mut self, id: LinkId, side: Side, cells: Option<usize>) -> bool {
        self.of_link_mut(id, side).map(|shard| shard.set_link_window(id, side, cells)).is_some()
    }

    /// Takes a link down, losing what is on it, or lets it be up: it is then, unless a shell at its end is not, or the
    /// link that it follows. A link that is down takes all it is given and counts it `link_down`, so that senders do
    /// not wait for it; a shell at its end has no signal ([`crate::External::set_signal`]). False if the link is gone.
    pub fn set_link_up(&mut self, id: LinkId, up: bool) -> bool {
        self.note_label_changes();
        let there = self.halves(id, |shard| shard.set_link_up(id, up));
        if !up {
            self.shorten_sieves(id);
        }
        there
    }

    /// Lets a link be up only while another is, too: who is at its end learns of a fault farther on, as a media
    /// converter passes a loss of signal through. `None`: it depends on no other. False if the link is gone.
    pub fn follow(&mut self, id: LinkId, other: Option<LinkId>) -> bool {
        let other = other.filter(|other| *other != id).map(|other| {
            let up = self.of_link(other, Side::A).and_then(|shard| Some(shard.link(other)?.up.clone()));
            // A link that is gone is down.
            (other, up.unwrap_or_default())
        });
        self.halves(id, |shard| shard.follow(id, other.clone()))
    }

    /// Whether a link may be up, as far as it is for the network to say: a shell at its end may still be down itself.
    pub fn has_signal(&self, id: LinkId) -> bool {
        self.of_link(id, Side::A).is_some_and(|shard| shard.has_signal(id))
    }

    /// The external end of a link as port 0: inputs are what the network sent to the outside, outputs go into the
    /// network. `None` if the link is gone or has no external end.
    pub fn external<R>(&mut self, id: LinkId, now: Time, f: impl FnOnce(&mut NodeIo<'_>) -> R) -> Option<R> {
        self.note_label_changes();
        self.of_link_mut(id, Side::A)?.external(id, now, f)
    }

    /// What stands at one end of a link, as port 0, beside the node that is there: what is put out goes on the link as
    /// if that node had sent it. `None` if the link is gone.
    pub fn at_end<R>(&mut self, id: LinkId, end: Side, now: Time, f: impl FnOnce(&mut NodeIo<'_>) -> R) -> Option<R> {
        self.note_label_changes();
        self.of_link_mut(id, end)?.at_end(id, end as usize, now, f)
    }

    /// Copies what the link is given from now on, in both directions; replaces an earlier tap. False if the link is
    /// gone.
    pub fn set_tap(&mut self, id: LinkId, config: Option<TapConfig>) -> bool {
        self.set_tap_of(id, TapId::default(), config)
    }

    /// The same for one of several readers. False too if the link has [`MAX_TAPS`](crate::tap::MAX_TAPS) already.
    pub fn set_tap_of(&mut self, id: LinkId, tap: TapId, config: Option<TapConfig>) -> bool {
        let mut done = true;
        self.halves(id, |shard| done &= shard.set_tap(id, tap, config.clone())) && done
    }

    /// Whether somebody copies what the link is given.
    pub fn has_tap(&self, id: LinkId) -> bool {
        self.of_link(id, Side::A).is_some_and(|shard| shard.has_any_tap(id))
    }

    /// Whether this reader does.
    pub fn has_tap_of(&self, id: LinkId, tap: TapId) -> bool {
        self.of_link(id, Side::A).is_some_and(|shard| shard.has_tap(id, tap))
    }

    /// Wakes `reader` when the tap has seen something after a drain (or now, if it has), once until the next drain, and
    /// when the tap is gone. False if there is none.
    pub fn set_tap_reader(&mut self, id: LinkId, reader: Waker) -> bool {
        self.set_tap_reader_of(id, TapId::default(), reader)
    }

    /// The same for one of several readers.
    pub fn set_tap_reader_of(&mut self, id: LinkId, tap: TapId, reader: Waker) -> bool {
        let mut found = false;
        self.halves(id, |shard| {
            if let Some(tap) = shard.tap(id, tap) {
                tap.set_reader(reader.clone());
                found = true;
            }
        });
        found
    }

    /// Swaps what the tap has seen with `buffer`, which is emptied first. False if there is no tap.
    ///
    /// Of a link between two shards this puts together what either has seen, which takes long where that is much;
    /// whoever has others wait for the network takes [`Network::drain_taps`].
    pub fn drain_tap(&mut self, id: LinkId, buffer: &mut TapBuffer) -> bool {
        let mut both = [std::mem::take(buffer), TapBuffer::default()];
        let there = self.drain_taps(id, &mut both);
        let [mut first, mut second] = both;
        if there {
            first.merge(&mut second);
        }
        *buffer = first;
        there
    }

    /// Swaps what the tap has seen with `buffers`, which are emptied first: of a link between two shards what was seen
    /// at its first end, and at its second; of others all in the first. [`tap::merged`] brings them in order. False if
    /// there is no tap.
    ///
    /// [`tap::merged`]: crate::tap::merged
    pub fn drain_taps(&mut self, id: LinkId, buffers: &mut [TapBuffer; 2]) -> bool {
        self.drain_taps_of(id, TapId::default(), buffers)
    }

    /// The same for one of several readers.
    pub fn drain_taps_of(&mut self, id: LinkId, tap: TapId, buffers: &mut [TapBuffer; 2]) -> bool {
        let Some([a, b]) = self.shards_of(id) else { return false };
        let [first, second] = buffers;
        let Some(seen) = self.here_mut(a).and_then(|shard| shard.tap(id, tap)) else { return false };
        seen.swap(first);
        match self.here_mut(b).filter(|_| a != b).and_then(|shard| shard.tap(id, tap)) {
            Some(seen) => seen.swap(second),
            None => second.clear(),
        }
        true
    }

    /// The pool that frames of the first shard take their buffers from.
    pub fn pool(&self) -> &FramePool {
        self.pools().next().expect("the first shard is here")
    }

    /// The pools of all shards.
    pub fn pools(&self) -> impl Iterator<Item = &FramePool> {
        self.here().map(Shard::pool)
    }

    /// One round of each shard, one after the other ([`Shard::run`]). True if anything happened: run again before
    /// sleeping.
    pub fn run(&mut self, now: Time) -> bool {
        self.note_label_changes();
        let mut busy = false;
        for shard in self.shards.iter_mut().flatten() {
            busy |= shard.run(now);
        }
        busy
    }

    /// When to run next even if nothing comes from outside; `None`: never.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.here().filter_map(Shard::poll_timeout).min()
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
