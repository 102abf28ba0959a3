//! A plain cell switch after `docs/switch.md`: lists and sums where the real one has tables, lines and counters. It shares
//! no code with it. Circuits with credits are not in it.

use std::collections::{BTreeMap, VecDeque};
use switch::{Excess, Profile};
use wire::oam::{Function, Location, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time};

pub type Point = (u16, Label);

/// What a policed profile tests, in whole nanoseconds: increment and limit of peak and sustainable rate.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    pub peak: (u64, u64),
    pub sustainable: Option<(u64, u64)>,
    pub high_priority_only: bool,
    pub excess: Excess,
}

#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub profile: Profile,
    pub contract: Option<Contract>,
}

/// A leaky bucket: content, and when it was last filled.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket(i128, i128);

impl Bucket {
    fn content(&self, now: i128) -> i128 {
        (self.0 - (now - self.1)).max(0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pdu {
    None,
    Accepted,
    Dropped,
    Cut,
    Foreign,
}

#[derive(Debug)]
pub struct Leaf {
    uid: u64,
    pub to: Point,
    kind: Kind,
    queue: VecDeque<Cell>,
    pdu: Pdu,
    asked: u64,
    sent_part: bool,
    pub received: u64,
    pub dropped: u64,
}

#[derive(Debug)]
pub struct Route {
    kind: Kind,
    pub leaves: Vec<Leaf>,
    pub many: bool,
    inside: bool,
    buckets: [Bucket; 2],
    pub received: u64,
    pub excess: u32,
    /// What a policer dropped before there were many leaves counts for the first of them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub struct Port {
    pub down: bool,
    waiting: [VecDeque<u64>; 4],
    left: [Option<usize>; 4],
    control: VecDeque<Cell>,
    pub in_drops: BTreeMap<DropReason, u64>,
    pub out_drops: BTreeMap<DropReason, u64>,
    pub sent: u64,
    /// What the link has room for, and what it was given at once.
    pub room: usize,
    pub link: Vec<Cell>,
}

#[derive(Debug)]
pub struct Model {
    pub routes: BTreeMap<Point, Route>,
    pub ports: Vec<Port>,
    queue_cells: usize,
    control_cells: usize,
    epoch: u64,
    next_uid: u64,
}

fn user(cell: &Cell) -> Option<bool> {
    match cell.header().payload_type {
        PayloadType::User { end, .. } => Some(end),
        _ => None,
    }
}

impl Model {
    pub fn new(ports: usize, queue_cells: usize, control_cells: usize) -> Self {
        let ports = (0..ports).map(|_| Port::default()).collect();
        Model { routes: BTreeMap::new(), ports, queue_cells, control_cells, epoch: 0, next_uid: 0 }
    }

    fn leaf(&mut self, uid: u64) -> &mut Leaf {
        self.routes.values_mut().flat_map(|route| &mut route.leaves).find(|leaf| leaf.uid == uid).unwrap()
    }

    pub fn queued(&self, port: u16) -> usize {
        self.leaves_at(port).map(|leaf| leaf.queue.len()).sum()
    }

    fn leaves_at(&self, port: u16) -> impl Iterator<Item = &Leaf> {
        self.routes.values().flat_map(|route| &route.leaves).filter(move |leaf| leaf.to.0 == port)
    }

    fn headroom(&self, port: u16) -> usize {
        let kept = self.leaves_at(port).filter(|leaf| leaf.pdu == Pdu::Accepted && self.epoch - leaf.asked < 2);
        kept.map(|leaf| usize::from(leaf.kind.profile.pdu_cells.unwrap())).sum()
    }

    pub fn leaf_queued(leaf: &Leaf) -> usize {
        leaf.queue.len()
    }

    // The table.

    pub fn add(&mut self, from: Point, to: Point, kind: Kind) -> bool {
        let exists = self.routes.get(&from).is_some_and(|route| route.leaves.iter().any(|leaf| leaf.to == to));
        if exists || from.1.is_path() != to.1.is_path() {
            return false;
        }
        self.next_uid += 1;
        let pdu = Pdu::None;
        let queue = VecDeque::new();
        let mut leaf =
            Leaf { uid: self.next_uid, to, kind, queue, pdu, asked: 0, sent_part: false, received: 0, dropped: 0 };
        match self.routes.get_mut(&from) {
            None => {
                let buckets = Default::default();
                let leaves = vec![leaf];
                let route =
                    Route { kind, leaves, many: false, inside: false, buckets, received: 0, excess: 0, dropped: 0 };
                self.routes.insert(from, route);
            }
            Some(route) => {
                if !route.many {
                    route.many = true;
                    route.inside = route.leaves[0].pdu != Pdu::None;
                    route.leaves[0].received = route.received;
                    route.leaves[0].dropped = route.dropped;
                    route.dropped = 0;
                }
                if route.inside && pdus(&kind.profile, to.1).is_some() {
                    leaf.pdu = Pdu::Foreign;
                }
                route.leaves.push(leaf);
            }
        }
        true
    }

    fn end(&mut self, leaf: Leaf) {
        let port = &mut self.ports[usize::from(leaf.to.0)];
        *port.out_drops.entry(DropReason::Closed).or_default() += leaf.queue.len() as u64;
        let class = leaf.kind.profile.class as usize;
        if port.waiting[class].front() == Some(&leaf.uid) {
            port.left[class] = None;
        }
        port.waiting[class].retain(|uid| *uid != leaf.uid);
        if let (true, Label::Vc(circuit)) = (leaf.sent_part && leaf.kind.profile.pdu_cells.is_some(), leaf.to.1) {
            let payload_type = PayloadType::User { congestion: false, end: true };
            let abort = Cell::new(CellHeader { circuit, payload_type, clp: false }, [0; 48]);
            self.push_control(leaf.to.0, abort);
        }
    }

    fn push_control(&mut self, port: u16, cell: Cell) {
        let port = &mut self.ports[usize::from(port)];
        match port.control.len() < self.control_cells {
            true => port.control.push_back(cell),
            false => *port.out_drops.entry(DropReason::QueueFull).or_default() += 1,
        }
    }

    pub fn remove(&mut self, from: Point) -> bool {
        let Some(route) = self.routes.remove(&from) else { return false };
        for leaf in route.leaves {
            self.end(leaf);
        }
        true
    }

    pub fn remove_leaf(&mut self, from: Point, to: Point) -> bool {
        let Some(route) = self.routes.get_mut(&from) else { return false };
        let Some(at) = route.leaves.iter().position(|leaf| leaf.to == to) else { return false };
        let leaf = route.leaves.remove(at);
        if route.leaves.is_empty() {
            self.routes.remove(&from);
        }
        self.end(leaf);
        true
    }

    // Cells in.

    pub fn handle_cell(&mut self, port: u16, cell: &Cell, now: Time) {
        self.epoch = now.as_nanos() >> 28;
        let Some(from) = self.look_up(port, cell) else { return };
        let route = self.routes.get_mut(&from).unwrap();
        route.received += 1;
        let mut cell = *cell;
        match route.police(&mut cell, now) {
            Some(true) | None => {}
            Some(false) => {
                self.lose(from, &cell);
                return;
            }
        }
        let route = self.routes.get_mut(&from).unwrap();
        if let (true, Some(end)) = (route.many, user(&cell)) {
            route.inside = !end;
        }
        let leaves: Vec<u64> = route.leaves.iter().map(|leaf| leaf.uid).collect();
        let many = route.many;
        for uid in leaves {
            self.admit(from, uid, many, cell);
        }
    }

    /// The route of a cell, if it has one and the cell does not end here.
    fn look_up(&mut self, port: u16, cell: &Cell) -> Option<Point> {
        let header = cell.header();
        let (vc, vp) = ((port, Label::Vc(header.circuit)), (port, Label::Vp(header.circuit.vpi)));
        let of_path = header.circuit.vci.get() == 3 || header.circuit.vci.get() == 4;
        let known = |point: &Point| self.routes.contains_key(point);
        let from = [vc, vp].into_iter().filter(|point| point.1.is_path() || !of_path).find(known);
        let ends_path = of_path
            && from.is_none()
            && self
                .routes
                .keys()
                .any(|(at, label)| matches!(label, Label::Vc(other) if *at == port && other.vpi == header.circuit.vpi));
        let drop = |model: &mut Self, reason| {
            *model.ports[usize::from(port)].in_drops.entry(reason).or_default() += 1;
            None
        };
        if from.is_none() && !ends_path {
            return drop(self, DropReason::UnknownCircuit);
        }
        let is_path = from.is_some_and(|from| from.1.is_path());
        let segment = match of_path {
            true => header.circuit.vci.get() == 3 || ends_path,
            false => header.payload_type == PayloadType::OamSegment && !is_path,
        };
        if !segment {
            return from;
        }
        match Function::parse(&cell.payload) {
            Ok(Function::Loopback(loopback))
                if loopback.request && [Location::END_POINT, Location::EVERY_POINT].contains(&loopback.location) =>
            {
                let payload = Function::Loopback(Loopback { request: false, ..loopback }).emit();
                self.push_control(port, Cell::new(header, payload));
                None
            }
            Ok(_) => drop(self, DropReason::NotOpen),
            Err(wire::Error::Checksum { .. }) => drop(self, DropReason::Crc),
            Err(_) => drop(self, DropReason::Malformed),
        }
    }

    /// A cell that is not conforming.
    fn lose(&mut self, from: Point, cell: &Cell) {
        let route = self.routes.get_mut(&from).unwrap();
        route.dropped += 1;
        if let (true, Some(end)) = (route.many, user(cell)) {
            route.inside = !end;
        }
        for leaf in &mut route.leaves {
            *self.ports[usize::from(leaf.to.0)].out_drops.entry(DropReason::NonConforming).or_default() += 1;
            let (Some(_), Some(end)) = (pdus(&leaf.kind.profile, leaf.to.1), user(cell)) else { continue };
            leaf.pdu = match (leaf.pdu, end) {
                (Pdu::Accepted | Pdu::Cut, _) => Pdu::Cut,
                (_, true) => Pdu::None,
                (Pdu::Foreign, false) => Pdu::Foreign,
                (_, false) => Pdu::Dropped,
            };
        }
    }

    fn admit(&mut self, from: Point, uid: u64, many: bool, cell: Cell) {
        let epoch = self.epoch;
        let at = self.leaf(uid).to.0;
        let (used, headroom) = (self.queued(at), self.headroom(at));
        let (q, up) = (self.queue_cells, !self.ports[usize::from(at)].down);
        let leaf = self.leaf(uid);
        let profile = leaf.kind.profile;
        let (queued, most) = (leaf.queue.len(), usize::from(profile.queue_cells));
        let fits = |n: usize| up && used + headroom + n <= q && queued + n <= most;
        let space = up && used < q && queued < most;
        let full = if up { DropReason::QueueFull } else { DropReason::LinkDown };
        let mut foreign = false;
        let dropped = match (pdus(&profile, leaf.to.1), user(&cell)) {
            (Some(m), Some(end)) => match leaf.pdu {
                Pdu::None if fits(if end { 1 } else { m }) => {
                    leaf.pdu = if end { Pdu::None } else { Pdu::Accepted };
                    leaf.asked = epoch;
                    None
                }
                Pdu::None => {
                    leaf.pdu = if end { Pdu::None } else { Pdu::Dropped };
                    Some(if up { DropReason::EarlyDiscard } else { full })
                }
                Pdu::Accepted if space => {
                    leaf.pdu = if end { Pdu::None } else { Pdu::Accepted };
                    leaf.asked = epoch;
                    None
                }
                Pdu::Accepted => {
                    leaf.pdu = Pdu::Cut;
                    Some(full)
                }
                Pdu::Cut if end && space => {
                    leaf.pdu = Pdu::None;
                    None
                }
                Pdu::Cut => Some(DropReason::PartialDiscard),
                Pdu::Dropped => {
                    leaf.pdu = if end { Pdu::None } else { Pdu::Dropped };
                    Some(DropReason::EarlyDiscard)
                }
                Pdu::Foreign => {
                    leaf.pdu = if end { Pdu::None } else { Pdu::Foreign };
                    foreign = true;
                    None
                }
            },
            _ => (!fits(1)).then_some(full),
        };
        leaf.received += u64::from(!foreign);
        if let Some(reason) = dropped {
            leaf.dropped += 1;
            *self.ports[usize::from(at)].out_drops.entry(reason).or_default() += 1;
            if !many {
                self.routes.get_mut(&from).unwrap().dropped += 1;
            }
        } else if !foreign {
            self.place(uid, cell);
        }
    }

    fn place(&mut self, uid: u64, mut cell: Cell) {
        let leaf = self.leaf(uid);
        let header = cell.header();
        let circuit = match leaf.to.1 {
            Label::Vc(circuit) => circuit,
            Label::Vp(vpi) => CircuitId { vpi, vci: header.circuit.vci },
        };
        cell.set_header(CellHeader { circuit, ..header });
        let (at, class, queued) = (usize::from(leaf.to.0), leaf.kind.profile.class as usize, leaf.queue.len());
        let port = &mut self.ports[at];
        let idle = port.waiting.iter().all(VecDeque::is_empty) && port.control.is_empty();
        if !port.down && idle && queued == 0 && port.room > 0 {
            port.room -= 1;
            port.sent += 1;
            port.link.push(cell);
            if let Some(end) = user(&cell) {
                self.leaf(uid).sent_part = !end;
            }
            return;
        }
        if queued == 0 {
            port.waiting[class].push_back(uid);
        }
        self.leaf(uid).queue.push_back(cell);
    }

    // Cells out.

    pub fn poll_transmit(&mut self, at: u16, mut room: usize) -> Vec<Cell> {
        let mut out = Vec::new();
        if self.ports[usize::from(at)].down {
            return out;
        }
        while room > 0 {
            let Some(cell) = self.ports[usize::from(at)].control.pop_front() else { break };
            out.push(cell);
            room -= 1;
        }
        for class in 0..4 {
            while room > 0 {
                let port = &mut self.ports[usize::from(at)];
                let Some(uid) = port.waiting[class].front().copied() else { break };
                let alone = port.waiting[class].len() == 1;
                let left = port.left[class].take();
                let leaf = self.leaf(uid);
                let turn = match left {
                    _ if alone => usize::MAX,
                    Some(left) => left,
                    None => leaf.kind.profile.weight.max(1).into(),
                };
                let n = turn.min(room).min(leaf.queue.len());
                for _ in 0..n {
                    let cell = leaf.queue.pop_front().unwrap();
                    if let Some(end) = user(&cell) {
                        leaf.sent_part = !end;
                    }
                    out.push(cell);
                }
                room -= n;
                let empty = leaf.queue.is_empty();
                let port = &mut self.ports[usize::from(at)];
                if empty {
                    port.waiting[class].pop_front();
                } else if n == turn {
                    port.waiting[class].rotate_left(1);
                } else if !alone {
                    port.left[class] = Some(turn - n);
                }
            }
        }
        self.ports[usize::from(at)].sent += out.len() as u64;
        out
    }
}

fn pdus(profile: &Profile, label: Label) -> Option<usize> {
    profile.pdu_cells.filter(|_| !label.is_path()).map(usize::from)
}

impl Route {
    /// Tests a cell; false if it is discarded.
    fn police(&mut self, cell: &mut Cell, now: Time) -> Option<bool> {
        let contract = self.kind.contract?;
        let now = i128::from(now.as_nanos());
        let header = cell.header();
        let test = |bucket: &Bucket, limit: u64| bucket.content(now) <= i128::from(limit);
        if !test(&self.buckets[0], contract.peak.1) {
            self.excess += 1;
            return Some(false);
        }
        if let Some((increment, limit)) = contract.sustainable.filter(|_| !(contract.high_priority_only && header.clp))
        {
            if test(&self.buckets[1], limit) {
                self.buckets[1] = Bucket(self.buckets[1].content(now) + i128::from(increment), now);
            } else {
                self.excess += 1;
                if contract.excess == Excess::Discard {
                    return Some(false);
                }
                cell.set_header(CellHeader { clp: true, ..header });
            }
        }
        self.buckets[0] = Bucket(self.buckets[0].content(now) + i128::from(contract.peak.0), now);
        Some(true)
    }
}
