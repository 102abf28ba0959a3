//! U-Net on an ATM cluster: interfaces whose processor serves endpoints' queues, and one switch (Kazantzidis 1997,
//! section 2).
//!
//! In: PDUs in an endpoint's segment. Out: PDUs in buffers of the free queue of the far one. Cells, links at a rate and
//! the switch are [`net`]'s, segmentation and reassembly [`sar`]'s; the interface's processor takes a time for each PDU
//! and for each cell, one after another, and looks at what has come first.

use super::{Copies, Happened, Interconnect, Tally, To, drops, is_over};
use core::time::Duration;
use net::{
    End, FramePool, Label, LinkConfig, Network, Node, NodeId, NodeIo, RouteOptions, SwitchElement, SwitchElementConfig,
};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use traffic::{Category, Contract};
use wire::{Cell, CellRate, CircuitId, Counters, DropReason, Time};

/// PDUs that the interface has taken off send queues and not sent.
const SEND_QUEUE: usize = 16;
/// Cells of the FIFOs at both ends of a link: what is in them has no order of urgency any more.
const FIFO_CELLS: usize = 16;

/// What an interface and a switch take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnetCosts {
    /// The interface's processor, for a PDU that leaves or comes.
    pub pdu: Duration,
    /// The same for a cell.
    pub cell: Duration,
    /// From the switch's input to its output.
    pub switch: Duration,
    /// Bits a second of a link, 53 octets a cell.
    pub link_bits_per_s: f64,
}

/// A circuit that comes.
struct Incoming {
    reassembler: Reassembler,
    buffer: Vec<u8>,
}

/// What the interface's processor does.
enum Work {
    Begin,
    Send,
    Receive,
    Tell(Vec<u8>),
}

struct Interface {
    costs: UnetCosts,
    /// The send queues of two endpoints, served in turns.
    queues: [VecDeque<(CircuitId, Vec<u8>)>; 2],
    turn: usize,
    current: Option<(Segmentation, Vec<u8>)>,
    incoming: BTreeMap<CircuitId, Incoming>,
    doing: Option<(Time, Work)>,
    /// PDUs for which a receive descriptor is to be written.
    whole: VecDeque<Vec<u8>>,
    free: usize,
    left: usize,
    received: VecDeque<Vec<u8>>,
    tally: Tally,
    counters: Counters,
}

impl Interface {
    fn new(costs: UnetCosts, buffers: usize) -> Self {
        Interface {
            costs,
            queues: Default::default(),
            turn: 0,
            current: None,
            incoming: BTreeMap::new(),
            doing: None,
            whole: VecDeque::new(),
            free: buffers,
            left: 0,
            received: VecDeque::new(),
            tally: Tally::default(),
            counters: Counters::default(),
        }
    }

    fn next(&self, io: &NodeIo<'_>) -> Option<(Duration, Work)> {
        let UnetCosts { pdu, cell, .. } = self.costs;
        if !io.cells_in(0).is_empty() {
            return Some((cell, Work::Receive));
        }
        if self.current.is_some() {
            return (io.room(0) > 0).then_some((cell, Work::Send));
        }
        self.queues.iter().any(|queue| !queue.is_empty()).then_some((pdu, Work::Begin))
    }

    fn moves(&mut self, octets: usize) {
        self.tally.moved += octets as u64;
        self.tally.transfers += 1;
    }

    /// What the processor has been at is done.
    fn finish(&mut self, work: Work, io: &mut NodeIo<'_>, now: Time) {
        match work {
            Work::Begin => {
                self.turn = 1 - self.turn;
                let [own, other] = [self.turn, 1 - self.turn];
                let next = self.queues[own].pop_front().or_else(|| self.queues[other].pop_front());
                self.current = next.and_then(|(circuit, pdu)| {
                    Some((Segmentation::new(circuit, pdu.len(), SduMeta::default()).ok()?, pdu))
                });
            }
            Work::Send => {
                let Some((segmentation, pdu)) = &mut self.current else { return };
                let sent = segmentation.fill(pdu, &mut io.cells_out(0)[..1]);
                let (done, octets) = (segmentation.is_done(), pdu.len());
                io.commit(0, sent);
                if done {
                    self.current = None;
                    self.left += 1;
                    self.moves(octets);
                }
            }
            Work::Receive => {
                let Some(cell) = io.cells_in(0).first().copied() else { return };
                io.consume(0, 1);
                self.receive(&cell, now);
            }
            Work::Tell(pdu) => self.received.push_back(pdu),
        }
    }

    fn receive(&mut self, cell: &Cell, now: Time) {
        let Some(incoming) = self.incoming.get_mut(&cell.circuit()) else {
            return self.counters.drop_one(DropReason::UnknownCircuit);
        };
        let step = incoming.reassembler.push(core::slice::from_ref(cell), &mut incoming.buffer, now);
        match step.event {
            Event::NeedMore => {}
            Event::Failed(reason) => self.counters.drop_one(reason),
            Event::Complete { sdu_octets, .. } => {
                if self.free == 0 {
                    return self.counters.drop_one(DropReason::NoBuffer);
                }
                let pdu = incoming.buffer[..sdu_octets].to_vec();
                self.moves(sdu_octets);
                self.free -= 1;
                self.whole.push_back(pdu);
            }
        }
    }
}

impl Node for Interface {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        loop {
            if let Some((_, work)) = self.doing.take_if(|(at, _)| *at <= now) {
                self.finish(work, io, now);
                any = true;
            }
            if self.doing.is_some() {
                return any;
            }
            let tell = self.whole.pop_front().map(|pdu| (self.costs.pdu, Work::Tell(pdu)));
            let Some((takes, work)) = tell.or_else(|| self.next(io)) else { return any };
            self.doing = Some((now + takes, work));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.doing.as_ref().map(|(at, _)| *at)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// See the module's head.
pub struct Unet {
    network: Network,
    switch: NodeId,
    interfaces: Vec<NodeId>,
    /// Circuits that exist: sender, receivers, whether of low latency.
    circuits: BTreeSet<(usize, To, bool)>,
    happened: VecDeque<Happened>,
    now: Time,
}

/// The VCI of a circuit at its sender, and at its receivers.
fn circuit(from: usize, to: To, urgent: bool) -> Option<CircuitId> {
    let to = match to {
        To::Host(host) => host,
        To::Group(last) => 32 + last,
    };
    CircuitId::new(0, u16::try_from(100 + (from * 64 + to) * 2 + usize::from(urgent)).ok()?)
}

impl Unet {
    /// A cluster of so many hosts at one switch, with so many buffers in each free queue.
    pub fn new(hosts: usize, costs: UnetCosts, buffers: usize) -> Option<Self> {
        let mut network = Network::new(FramePool::new(4, 256));
        let switch = network.add_node("switch", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let mut interfaces = Vec::new();
        for number in 0..hosts {
            let interface = network.add_node(&format!("host{number}"), Box::new(Interface::new(costs, buffers)));
            let link = LinkConfig {
                rate: CellRate::from_line_bits_per_s(costs.link_bits_per_s),
                delay: costs.switch / 2,
                queue_cells: FIFO_CELLS,
                ..LinkConfig::default()
            };
            network.connect(End::Port(interface, 0), End::Port(switch, u16::try_from(number).ok()?), link).ok()?;
            interfaces.push(interface);
        }
        let (circuits, happened) = (BTreeSet::new(), VecDeque::new());
        Some(Unet { network, switch, interfaces, circuits, happened, now: Time::ZERO })
    }

    /// What the service does when an application registers a tag: routes, and a place to put cells together.
    fn open(&mut self, from: usize, to: To, urgent: bool) -> Option<()> {
        let id = circuit(from, to, urgent)?;
        if !self.circuits.insert((from, to, urgent)) {
            return Some(());
        }
        let contract = if urgent {
            let (pcr, cdvt) = (CellRate::from_line_bits_per_s(1e9), Duration::from_millis(1));
            Contract { category: Category::Cbr, pcr, cdvt, low_latency: true, ..Contract::default() }
        } else {
            Contract::default()
        };
        let options = RouteOptions { contract, ..RouteOptions::default() };
        let receivers = match to {
            To::Host(host) => host..host + 1,
            To::Group(last) => 1..last + 1,
        };
        for host in receivers {
            let label = Label::Vc(id);
            let switch: &mut SwitchElement = self.network.node_mut(self.switch)?;
            switch.add_route((from as u16, label), (host as u16, label), options).ok()?;
            let interface: &mut Interface = self.network.node_mut(self.interfaces[host])?;
            let reassembler = Reassembler::new(ReassemblyConfig::default());
            let buffer = vec![0; wire::aal5::MAX_SDU_OCTETS + 48];
            interface.incoming.insert(id, Incoming { reassembler, buffer });
        }
        Some(())
    }

    fn collect(&mut self) {
        for (host, id) in self.interfaces.iter().enumerate() {
            let Some(interface) = self.network.peek_node::<Interface>(*id) else { continue };
            self.happened.extend((0..core::mem::take(&mut interface.left)).map(|_| Happened::Left(host)));
            let received = interface.received.drain(..);
            self.happened.extend(received.map(|pdu| Happened::Received { host, pdu, buffer: 0 }));
        }
    }
}

impl Interconnect for Unet {
    fn send(&mut self, from: usize, to: To, pdu: &[u8], urgent: bool, _: Time) -> bool {
        if self.open(from, to, urgent).is_none() {
            return false;
        }
        let Some(id) = circuit(from, to, urgent) else { return false };
        let Some(interface) = self.network.node_mut::<Interface>(self.interfaces[from]) else { return false };
        let queue = &mut interface.queues[usize::from(!urgent)];
        if queue.len() >= SEND_QUEUE {
            return false;
        }
        queue.push_back((id, pdu.to_vec()));
        true
    }

    fn release(&mut self, host: usize, _: u64, _: Time) {
        if let Some(interface) = self.network.peek_node::<Interface>(self.interfaces[host]) {
            interface.free += 1;
        }
    }

    fn run(&mut self, until: Time) -> Time {
        loop {
            while self.network.run(self.now) {}
            self.collect();
            if is_over(&self.network, &self.happened, &mut self.now, until) {
                return self.now;
            }
        }
    }

    fn poll(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// The application's memory is not the segment: one copy on either side.
    fn copies(&self, _: usize) -> Copies {
        Copies { out: 1, into: 1 }
    }

    fn tally(&mut self, host: usize) -> Tally {
        let interface = self.network.peek_node::<Interface>(self.interfaces[host]);
        interface.map(|interface| interface.tally).unwrap_or_default()
    }

    fn dropped(&mut self) -> Vec<(DropReason, u64)> {
        let mut all: Vec<Counters> = Vec::new();
        for id in &self.interfaces {
            all.extend(self.network.peek_node::<Interface>(*id).map(|interface| interface.counters));
        }
        if let Some(switch) = self.network.peek_node::<SwitchElement>(self.switch) {
            all.extend((0..self.interfaces.len()).map(|port| switch.port_drops(port as u16)));
        }
        drops(all.iter())
    }
}
