//! Alarms at a switch (I.610): AIS on every circuit that comes in by a link that is down, and at the ends of paths
//! whose channels are switched one by one: their AIS becomes AIS of each channel, and RDI goes back.
//!
//! In: whether a port has a signal, OAM cells of paths that end here, `now`. Out: AIS cells at the outputs, RDI cells
//! at the port, what `status` shows. `docs/oam.md` publishes the rules.

use crate::circuit::flag;
use crate::indication::{Due, Indications, Key};
use crate::oam::{AlarmKind, EndPoint, Event, PointConfig, Timers};
use crate::{CellPlane, Switch};
use std::collections::{BTreeMap, VecDeque};
use wire::oam::{Defect, DefectType, Flow, Function};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, Time, Vci, Vpi};

/// Path ends with a state at one port, at most: 256 of some 300 octets each.
const MAX_PATH_ENDS: usize = 256;
/// Changes that nobody has fetched are kept at most.
const MAX_EVENTS: usize = 256;

/// The end of a path's flow: port, VPI, and whether it is the segment flow.
type PathKey = (u16, Vpi, bool);

/// What a switch tells the circuits behind a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indication {
    /// The port at which its cause is.
    pub port: u16,
    /// The path that has an alarm; `None`: the link is down.
    pub path: Option<Vpi>,
    /// What the AIS cells say.
    pub defect: Defect,
    /// Since when.
    pub since: Time,
    /// Circuits that are told, each leaf of a point-to-multipoint circuit for itself.
    pub circuits: u32,
}

/// A link went down or up, or an alarm of a path's end began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchEvent {
    /// The port.
    pub port: u16,
    /// The path; `None`: the link.
    pub path: Option<Vpi>,
    /// Which alarm; AIS for a link that is down.
    pub kind: AlarmKind,
    /// Of which type, and where.
    pub defect: Defect,
    /// Whether it began.
    pub began: bool,
    /// When.
    pub at: Time,
}

/// What a switch knows of defects.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    pub(crate) indications: Indications,
    paths: BTreeMap<PathKey, EndPoint>,
    timers: Timers<PathKey>,
    events: VecDeque<SwitchEvent>,
}

impl Alarms {
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.indications.poll_timeout().into_iter().chain(self.timers.poll_timeout()).min()
    }

    /// Forgets ports from this one on.
    pub(crate) fn end_ports(&mut self, first: u16) {
        self.indications.forget_ports(first);
        while self.paths.last_key_value().is_some_and(|((port, ..), _)| *port >= first) {
            self.paths.pop_last();
        }
    }

    fn note(&mut self, event: SwitchEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl Switch {
    /// Says whether a port's link passes anything. While it does not, each circuit that comes in there is sent AIS, at
    /// once and once a second, by the port that it leaves by.
    pub fn set_signal(&mut self, port: u16, signal: bool, now: Time) {
        if usize::from(port) >= self.plane.ports.len() {
            return;
        }
        let key = (port, None);
        let defect = Defect::found(DefectType::LINK, self.location);
        if self.alarms.indications.is_active(key) != signal {
            return;
        }
        if signal {
            self.alarms.indications.end(key);
        } else {
            // The alarms of its paths are part of it.
            let paths: Vec<PathKey> = self.alarms.paths.keys().filter(|(at, ..)| *at == port).copied().collect();
            for path in paths {
                self.alarms.paths.remove(&path);
                self.alarms.indications.end((port, Some(path.1)));
            }
            self.alarms.indications.begin(key, defect, now);
        }
        let kind = AlarmKind::Ais;
        self.alarms.note(SwitchEvent { port, path: None, kind, defect, began: !signal, at: now });
    }

    /// No link is at a port any more: nothing is told of it.
    pub fn forget_signal(&mut self, port: u16) {
        self.alarms.indications.end((port, None));
    }

    /// What circuits are told at present: by port, links before paths.
    pub fn indications(&self) -> impl Iterator<Item = Indication> + '_ {
        self.alarms.indications.iter().map(|((port, path), since, cause)| Indication {
            port,
            path,
            defect: cause.defect,
            since,
            circuits: cause.circuits(),
        })
    }

    /// The oldest change of an alarm that has not been fetched.
    pub fn poll_event(&mut self) -> Option<SwitchEvent> {
        self.alarms.events.pop_front()
    }

    /// Lets alarms of paths end whose time has come, and lists the next slice of circuits.
    pub(crate) fn handle_alarm_timers(&mut self, now: Time) {
        while let Some((at, key)) = self.alarms.timers.pop_due(now) {
            let Some(point) = self.alarms.paths.get_mut(&key) else { continue };
            if Timers::<PathKey>::fired(&mut point.armed, at) {
                point.handle_timeout(now);
                self.pump_path(key, now);
            }
        }
        self.list_indications(now);
    }

    /// Lists the next circuits that are to be sent AIS, a bounded number. False if there are none now.
    pub fn list_indications(&mut self, now: Time) -> bool {
        let Some(key) = self.alarms.indications.poll_slice(now) else { return false };
        self.list_slice(key, now);
        true
    }

    /// Forgets what is listed at a port that has no link any more.
    pub(crate) fn drop_indications(&mut self, port: u16) {
        for due in std::mem::take(&mut self.plane.ports[usize::from(port)].indications) {
            if let Some(cause) = self.alarms.indications.get_mut(due.key) {
                cause.unlist(port);
            }
        }
    }

    /// Lists the next circuits of a cause at their outputs.
    fn list_slice(&mut self, key: Key, now: Time) {
        let (port, path) = key;
        let CellPlane { ports, circuits, roots, .. } = &mut self.plane;
        let Some(cause) = self.alarms.indications.get_mut(key) else { return };
        let (after, most) = cause.begin_slice();
        let after = after.or(path.map(Label::Vp));
        let (mut listed, mut last) = (0, None);
        for (label, id) in self.index.labels_after(port.into(), after) {
            let is_of_it = path.is_none_or(|path| matches!(label, Label::Vc(circuit) if circuit.vpi == path));
            if !is_of_it || listed >= most {
                last = last.filter(|_| is_of_it);
                break;
            }
            let circuit = &circuits[id as usize];
            let one = [id];
            let leaves = if circuit.is(flag::ROOT) { &roots[circuit.side as usize][..] } else { &one };
            for (leaf, id) in leaves.iter().enumerate() {
                let output = circuits[*id as usize].port;
                let state = &mut ports[usize::from(output)];
                if state.up && cause.list(output) {
                    state.indications.push_back(Due { key, label, leaf: leaf as u32 });
                }
                listed += 1;
            }
            last = Some(label);
        }
        // The slice that ends with the last label begins another one, which finds nothing.
        let last = last.filter(|_| listed >= most);
        self.alarms.indications.end_slice(key, last, now);
    }

    /// Writes AIS cells for the circuits that are listed at a port; returns how many.
    pub(crate) fn send_indications(&mut self, port: u16, out: &mut [Cell], now: Time) -> usize {
        let mut n = 0;
        while n < out.len() {
            let Some(due) = self.plane.ports[usize::from(port)].indications.pop_front() else { break };
            let Some(cause) = self.alarms.indications.get_mut(due.key) else { continue };
            cause.unlist(port);
            if cause.since.is_none() {
                continue;
            }
            let id = self.index.get(due.key.0.into(), due.label);
            let Some(id) = self.plane.leaf(id, due.leaf).filter(|id| self.plane.circuits[*id as usize].port == port)
            else {
                continue;
            };
            let circuit = &self.plane.circuits[id as usize];
            let header = match circuit.out_label() {
                Label::Vc(circuit) => Flow::F5EndToEnd.header(CellHeader { circuit, ..CellHeader::default() }),
                Label::Vp(vpi) => {
                    let circuit = CircuitId { vpi, vci: Vci::F4_END_TO_END };
                    CellHeader { circuit, ..CellHeader::default() }
                }
            };
            let waits_for_credit = circuit.is(flag::CREDIT);
            self.plane.ports[usize::from(port)].count_made(1);
            if waits_for_credit && !self.plane.spend_credit(id, now) {
                self.plane.ports[usize::from(port)].counters.sent.drop_one(DropReason::QueueFull);
                continue;
            }
            out[n] = Cell::new(header, cause.payload);
            n += 1;
        }
        n
    }

    /// An OAM cell of a path whose channels are switched one by one: its flows end here.
    ///
    /// # Errors
    /// Nobody here waits for it, or there is no room for its path.
    pub(crate) fn handle_path_cell(
        &mut self,
        port: u16,
        cell: &Cell,
        function: &Function,
        now: Time,
    ) -> Result<(), DropReason> {
        let header = cell.header();
        let (vpi, segment) = (header.circuit.vpi, Flow::of(header).is_some_and(Flow::is_segment));
        let key = (port, vpi, segment);
        match function {
            Function::Ais(_) | Function::Rdi(_) if !self.alarms.paths.contains_key(&key) => {
                let of_port = self.alarms.paths.range((port, Vpi::truncated(0), false)..=(port, Vpi::MAX, true));
                if of_port.count() >= MAX_PATH_ENDS {
                    return Err(DropReason::TableFull);
                }
                let config = PointConfig { name: self.location, sends: true, sees_cells: false };
                self.alarms.paths.insert(key, EndPoint::new(config));
            }
            Function::Ais(_) | Function::Rdi(_) | Function::ContinuityCheck => {}
            // Performance monitoring and continuity check need every user cell, and the channels' cells pass one by
            // one.
            Function::Activation(activation) if activation.message.is_request() => {
                let denied = Cell::new(header, Function::Activation(activation.answered(false)).emit());
                self.reply(port, denied, now);
                return Ok(());
            }
            _ => return Err(DropReason::NotOpen),
        }
        let point = self.alarms.paths.get_mut(&key).ok_or(DropReason::NotOpen)?;
        let waited_for = point.handle_cell(function, now);
        self.pump_path(key, now);
        if waited_for { Ok(()) } else { Err(DropReason::NotOpen) }
    }

    /// Sends a cell of the switch's own back, or counts it. The far end counts it among the cells of its circuit, so it
    /// needs a credit of a circuit with credits.
    pub(crate) fn reply(&mut self, port: u16, cell: Cell, now: Time) {
        let (input, word) = (usize::from(port), cell.header_word());
        let id = match cell.circuit().vci {
            Vci::F4_SEGMENT | Vci::F4_END_TO_END => self.leaving.path(input, word >> 20),
            _ => self.leaving.find(input, word),
        };
        let with_credit = Some(id).filter(|id| self.plane.circuits[*id as usize].is(flag::CREDIT));
        let able = with_credit.is_none_or(|id| self.plane.has_credit(id));
        let state = &mut self.plane.ports[input];
        state.count_made(1);
        if !able || !state.push_reply(cell) {
            state.counters.sent.drop_one(DropReason::ManagementFull);
        } else if let Some(id) = with_credit {
            self.plane.spend_credit(id, now);
        }
    }

    /// Sends what a path's end has to say, tells its channels of its alarm or of the end of it, and forgets an end at
    /// rest.
    fn pump_path(&mut self, key: PathKey, now: Time) {
        let (port, vpi, segment) = key;
        let Some(point) = self.alarms.paths.get_mut(&key) else { return };
        let flow = if segment { Flow::F4Segment } else { Flow::F4EndToEnd };
        let header = CellHeader { circuit: CircuitId { vpi, vci: Vci(0) }, ..CellHeader::default() };
        let replies: Vec<Function> = std::iter::from_fn(|| point.poll_transmit(now)).collect();
        let mut events = Vec::new();
        while let Some(Event { alarm, began, at }) = point.poll_event() {
            let (path, kind, defect) = (Some(vpi), alarm.kind, alarm.defect);
            events.push(SwitchEvent { port, path, kind, defect, began, at });
        }
        let due = point.poll_timeout();
        self.alarms.timers.arm(key, &mut point.armed, due);
        // One that has an entry among the timers stays until that fires: no two entries for one place, however often it
        // comes and goes.
        if point.is_at_rest() && point.armed.is_none() {
            self.alarms.paths.remove(&key);
        }
        for function in replies {
            self.reply(port, Cell::new(flow.header(header), function.emit()), now);
        }
        events.into_iter().for_each(|event| self.alarms.note(event));
        let of_flow = |segment| self.alarms.paths.get(&(port, vpi, segment)).and_then(EndPoint::incoming_defect);
        match of_flow(false).or(of_flow(true)) {
            Some(mut defect) => {
                if defect.kind == DefectType::UNSPECIFIED {
                    defect.kind = DefectType::PATH;
                }
                self.alarms.indications.begin((port, Some(vpi)), defect, now);
            }
            None => self.alarms.indications.end((port, Some(vpi))),
        }
    }
}

impl CellPlane {
    /// A leaf of a circuit by its place, or the circuit itself, which is the only one.
    fn leaf(&self, id: u32, leaf: u32) -> Option<u32> {
        let circuit = self.circuits.get(id as usize).filter(|circuit| circuit.is(flag::LIVE))?;
        if circuit.is(flag::ROOT) {
            return self.roots[circuit.side as usize].get(leaf as usize).copied();
        }
        (leaf == 0).then_some(id)
    }
}
