//! A plain cell switch after `docs/switch.md`: lists and sums where the real one has tables, lines and counters. It shares
//! no code with it. Circuits with credits and alarms are not in it.

mod contract;

pub use contract::{Contract, Frames, Schedule};

use contract::{Known, Moment, Output, Waits, arrivals};
use std::collections::{BTreeMap, VecDeque};
use switch::{Arrival, Class, Discard, Flow, Profile};
use wire::oam::{Function, Location, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time};

pub type Point = (u16, Label);

#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub profile: Profile,
    pub contract: Option<Contract>,
    pub frames: Option<Frames>,
    pub schedule: Option<Schedule>,
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
    /// Management cells in it.
    management: usize,
    pdu: Pdu,
    asked: u64,
    sent_part: bool,
    output: Output,
    pub received: u64,
    pub dropped: u64,
}

#[derive(Debug)]
pub struct Route {
    kind: Kind,
    pub leaves: Vec<Leaf>,
    pub many: bool,
    inside: bool,
    known: Known,
    pub received: u64,
    pub excess: u32,
    /// What a policer dropped before there were many leaves counts for the first of them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub struct Port {
    pub down: bool,
    pub arrival: Arrival,
    last: Time,
    /// Circuits whose next cell is due, by class, and those that take turns.
    due: [VecDeque<u64>; 5],
    waiting: [VecDeque<u64>; 5],
    left: [Option<usize>; 5],
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
    management_cells: usize,
    epoch: u64,
    next_uid: u64,
    now: Time,
    order: u64,
}

fn is_promised(profile: &Profile) -> bool {
    let best_effort = profile.class == Class::BestEffort && profile.shape.is_none();
    !best_effort && profile.flow == Flow::BestEffort
}

/// Eighths of the queue.
fn left_to_others(profile: &Profile) -> usize {
    match (profile.class, profile.shape.is_some()) {
        (Class::BestEffort, false) => 2,
        (Class::BestEffort, true) | (Class::Guaranteed, _) => 1,
        _ => 0,
    }
}

fn user(cell: &Cell) -> Option<bool> {
    match cell.header().payload_type {
        PayloadType::User { end, .. } => Some(end),
        _ => None,
    }
}

/// OAM of a channel, or of a path.
fn is_management(cell: &Cell, label: Label) -> bool {
    let oam = matches!(cell.header().payload_type, PayloadType::OamSegment | PayloadType::OamEndToEnd);
    let of_path = cell.header_word() & 8 == 0 && matches!(cell.circuit().vci.get(), 3 | 4);
    oam || label.is_path() && of_path
}

impl Leaf {
    fn take(&mut self) -> Option<Cell> {
        let cell = self.queue.pop_front()?;
        self.management -= usize::from(is_management(&cell, self.to.1));
        Some(cell)
    }
}

impl Model {
    pub fn new(ports: usize, queue_cells: usize, control_cells: usize, management_cells: usize) -> Self {
        let ports = (0..ports).map(|_| Port::default()).collect();
        Model {
            routes: BTreeMap::new(),
            ports,
            queue_cells,
            control_cells,
            management_cells,
            epoch: 0,
            next_uid: 0,
            now: Time::ZERO,
            order: 0,
        }
    }

    fn leaf(&mut self, uid: u64) -> &mut Leaf {
        self.routes.values_mut().flat_map(|route| &mut route.leaves).find(|leaf| leaf.uid == uid).unwrap()
    }

    pub fn queued(&self, port: u16) -> usize {
        self.leaves_at(port).map(|leaf| leaf.queue.len()).sum()
    }

    /// Of those, cells of data.
    fn used(&self, port: u16) -> usize {
        self.leaves_at(port).map(|leaf| leaf.queue.len() - leaf.management).sum()
    }

    fn leaves_at(&self, port: u16) -> impl Iterator<Item = &Leaf> {
        self.routes.values().flat_map(|route| &route.leaves).filter(move |leaf| leaf.to.0 == port)
    }

    fn headroom(&self, port: u16) -> usize {
        let kept = self.leaves_at(port).filter(|leaf| leaf.pdu == Pdu::Accepted && self.epoch - leaf.asked < 2);
        let kept = kept.filter(|leaf| leaf.kind.profile.discard != Discard::Partial);
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
        let output = Output::default();
        let uid = self.next_uid;
        let mut leaf = Leaf {
            uid,
            to,
            kind,
            queue,
            management: 0,
            pdu,
            asked: 0,
            sent_part: false,
            output,
            received: 0,
            dropped: 0,
        };
        match self.routes.get_mut(&from) {
            None => {
                let known = Known::default();
                let leaves = vec![leaf];
                let route =
                    Route { kind, leaves, many: false, inside: false, known, received: 0, excess: 0, dropped: 0 };
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
        port.due.iter_mut().for_each(|due| due.retain(|uid| *uid != leaf.uid));
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

    fn push_reply(&mut self, port: u16, cell: Cell) {
        let state = &mut self.ports[usize::from(port)];
        let same = state.control.iter().filter(|other| other.circuit() == cell.circuit()).count();
        if same < 8 && state.control.len() < self.control_cells - self.control_cells / 8 {
            state.control.push_back(cell);
        } else {
            *state.out_drops.entry(DropReason::ManagementFull).or_default() += 1;
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

    /// Lets circuits go to the lists of those that are due.
    pub fn release_due(&mut self, now: Time) {
        self.now = now;
        let leaves = self.routes.values_mut().flat_map(|route| &mut route.leaves);
        let mut due: Vec<_> = leaves
            .filter_map(|leaf| match leaf.output.waits {
                Waits::Until { boundary, order } if boundary <= now.as_nanos() / 64 => Some((boundary, order, leaf)),
                _ => None,
            })
            .collect();
        due.sort_by_key(|(boundary, order, _)| (*boundary, *order));
        for (_, _, leaf) in due {
            leaf.output.waits = Waits::Due;
            let class = due_class(&leaf.kind);
            self.ports[usize::from(leaf.to.0)].due[class].push_back(leaf.uid);
        }
    }

    /// The next cell of a circuit begins to wait until it is due.
    fn schedule(&mut self, uid: u64, catch_up: bool) {
        let (now, mut order) = (self.now, self.order);
        let leaf = self.leaf(uid);
        let Some(schedule) = leaf.kind.schedule else { return };
        leaf.output.schedule(&schedule, now, catch_up, &mut order);
        let (at, class, waits) = (usize::from(leaf.to.0), due_class(&leaf.kind), leaf.output.waits);
        if waits == Waits::Due {
            self.ports[at].due[class].push_back(uid);
        }
        self.order = order;
    }

    pub fn handle_cells(&mut self, port: u16, cells: &[Cell], now: Time) {
        self.release_due(now);
        let state = &mut self.ports[usize::from(port)];
        let times = arrivals(state.arrival, cells, std::mem::replace(&mut state.last, now), now);
        for (cell, at) in cells.iter().zip(times) {
            self.handle_cell(port, cell, now, at);
        }
    }

    fn handle_cell(&mut self, port: u16, cell: &Cell, now: Time, at: Moment) {
        self.epoch = now.as_nanos() >> 28;
        let Some(from) = self.look_up(port, cell) else { return };
        let route = self.routes.get_mut(&from).unwrap();
        route.received += 1;
        let mut cell = *cell;
        // The link that it leaves by stamps it anew.
        cell.set_at(Time::ZERO);
        let of_pdus = pdus(&route.kind.profile, from.1).is_some();
        let (discarded, beyond) = route.known.police(&route.kind, user(&cell), of_pdus, &mut cell, at);
        route.excess += u32::from(beyond);
        if discarded {
            self.lose(from, &cell);
            return;
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
                self.push_reply(port, Cell::new(header, payload));
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
        let state = &self.ports[usize::from(at)];
        let waiting: usize = state.due.iter().chain(&state.waiting).map(VecDeque::len).sum();
        let (used, headroom) = (self.used(at), self.headroom(at));
        let (q, up) = (self.queue_cells, !self.ports[usize::from(at)].down);
        let promised = self.leaves_at(at).any(|leaf| is_promised(&leaf.kind.profile));
        let further: usize = self.leaves_at(at).map(|leaf| leaf.management.saturating_sub(1)).sum();
        let share = (self.management_cells / 2 - further) / 16;
        let open_to_management = self.queued(at) - used < self.management_cells;
        let leaf = self.leaf(uid);
        let profile = leaf.kind.profile;
        let open = if promised { q - q / 8 * left_to_others(&profile) } else { q };
        let (queued, most) = (leaf.queue.len() - leaf.management, usize::from(profile.queue_cells));
        let fits = |n: usize| up && used + headroom + n <= open && queued + n <= most;
        let space = up && used < q && queued < most;
        let full = if up { DropReason::QueueFull } else { DropReason::LinkDown };
        let low = cell.header().clp && profile.low_priority_cells.is_some_and(|most| used >= most as usize);
        let refused = low || beyond_share(profile.discard, queued, waiting, used, q);
        let partial = profile.discard == Discard::Partial;
        let mut foreign = false;
        let dropped = match (pdus(&profile, leaf.to.1), user(&cell)) {
            (Some(_), Some(end)) if up && leaf.pdu == Pdu::None && refused => {
                leaf.pdu = if end { Pdu::None } else { Pdu::Dropped };
                Some(DropReason::EarlyDiscard)
            }
            (Some(_), Some(end)) if partial && matches!(leaf.pdu, Pdu::None | Pdu::Accepted | Pdu::Dropped) => {
                let next = if end { Pdu::None } else { leaf.pdu };
                match leaf.pdu {
                    Pdu::Dropped => {
                        leaf.pdu = next;
                        Some(DropReason::PartialDiscard)
                    }
                    _ if fits(1) => {
                        leaf.pdu = if end { Pdu::None } else { Pdu::Accepted };
                        None
                    }
                    Pdu::Accepted => {
                        leaf.pdu = Pdu::Cut;
                        Some(full)
                    }
                    _ => {
                        leaf.pdu = if end { Pdu::None } else { Pdu::Dropped };
                        Some(full)
                    }
                }
            }
            (Some(_), Some(true)) if partial && leaf.pdu == Pdu::Cut && !fits(1) => Some(DropReason::PartialDiscard),
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
            _ if is_management(&cell, leaf.to.1) => {
                let room = open_to_management && (leaf.management == 0 || leaf.management < share.min(255));
                let full = if up { DropReason::ManagementFull } else { full };
                (!up || !room).then_some(full)
            }
            (_, Some(_)) if up && low => Some(DropReason::QueueFull),
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
            let mut cell = cell;
            let congested = profile.congestion_cells.is_some_and(|most| used >= most as usize);
            if let (Some(end), true, false) = (user(&cell), congested, is_management(&cell, self.leaf(uid).to.1)) {
                let payload_type = PayloadType::User { congestion: true, end };
                cell.set_header(CellHeader { payload_type, ..cell.header() });
            }
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
        let paced = leaf.kind.schedule.is_some_and(|schedule| schedule.paced);
        let port = &mut self.ports[at];
        let idle = port.waiting.iter().chain(&port.due).all(VecDeque::is_empty) && port.control.is_empty();
        if !port.down && idle && queued == 0 && port.room > 0 && !paced {
            port.room -= 1;
            port.sent += 1;
            port.link.push(cell);
            if let Some(end) = user(&cell) {
                self.leaf(uid).sent_part = !end;
            }
            return;
        }
        if !paced && !port.waiting[class].contains(&uid) {
            port.waiting[class].push_back(uid);
        }
        let leaf = self.leaf(uid);
        leaf.management += usize::from(is_management(&cell, leaf.to.1));
        leaf.queue.push_back(cell);
        if self.leaf(uid).output.waits == Waits::Nowhere {
            self.schedule(uid, false);
        }
    }

    // Cells out.

    pub fn poll_transmit(&mut self, at: u16, mut room: usize, now: Time) -> Vec<Cell> {
        self.release_due(now);
        let mut out = Vec::new();
        if self.ports[usize::from(at)].down {
            return out;
        }
        while room > 0 {
            let Some(cell) = self.ports[usize::from(at)].control.pop_front() else { break };
            out.push(cell);
            room -= 1;
        }
        for class in 0..5 {
            while room > 0 {
                let Some(uid) = self.ports[usize::from(at)].due[class].pop_front() else { break };
                let leaf = self.leaf(uid);
                leaf.output.waits = Waits::Nowhere;
                let Some(cell) = leaf.take() else { continue };
                if let Some(end) = user(&cell) {
                    leaf.sent_part = !end;
                }
                out.push(cell);
                room -= 1;
                if let Some(schedule) = leaf.kind.schedule {
                    leaf.output.book(&schedule);
                }
                if !leaf.queue.is_empty() {
                    self.schedule(uid, true);
                }
            }
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
                    let cell = leaf.take().unwrap();
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

/// The class in which cells of a circuit are due.
fn due_class(kind: &Kind) -> usize {
    let share = kind.schedule.is_some_and(|schedule| !schedule.paced);
    if share { switch::Class::Guaranteed as usize } else { kind.profile.class as usize }
}

/// Whether a circuit with `xi` of `x` queued cells has more than its share among `n`, at a port that holds `k`.
fn beyond_share(discard: Discard, xi: usize, n: usize, x: usize, k: usize) -> bool {
    let (xi, n, x, k) = (xi as u64, n as u64, x as u64, k as u64);
    match discard {
        Discard::Whole | Discard::Partial => false,
        Discard::Selective { threshold, percent } => x > threshold.into() && xi * n * 100 > u64::from(percent) * x,
        Discard::Fair { threshold, percent } => {
            let r = u64::from(threshold);
            x > r && xi * n * 100 * (x - r) > u64::from(percent) * x * k.saturating_sub(r)
        }
    }
}

fn pdus(profile: &Profile, label: Label) -> Option<usize> {
    profile.pdu_cells.filter(|_| !label.is_path()).map(usize::from)
}
