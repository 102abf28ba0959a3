//! OAM at a host (I.610): the end points of its circuits and of the paths that end here, when each has something to do,
//! and what `status` shows of them.
//!
//! A circuit has end points only while they have something to keep: an alarm, a check, monitoring, a request. OAM cells
//! leave before data, within the circuit's contract. A link without signal is an alarm of each of its circuits without
//! any cell or state.

use crate::alarms::{NEW_POINT, OAM_WORK, PathEnd, PathKey, PointKey, ROUND_OAM};
use crate::circuit::{Circuit, Credits, Points};
use crate::circuits::Circuits;
use crate::interface::HostInterface;
use crate::outward::send_cell;
use net::{Carries, NodeIo};
use switch::oam::{
    Alarm, AlarmKind, EndPoint, Event, PERIOD, PointConfig, Request, RequestError, RequestOutcome, Results, Timers,
};
use wire::oam::{Defect, DefectType, Flow, Function, Location};
use wire::{Cell, CellHeader, CircuitId, DropReason, Time};

/// Circuits with end points at a host, at most, some 700 octets each.
pub const MAX_POINTS: usize = 65_536;
/// Paths with a state at a host, at most.
const MAX_PATHS: usize = 256;

/// What OAM knows of a circuit at a host.
#[derive(Debug, Clone, PartialEq)]
pub struct OamStatus {
    /// States of alarm, the most important first.
    pub alarms: Vec<Alarm>,
    /// Whether continuity is checked away from here, and towards here.
    pub continuity: [bool; 2],
    /// Cells of a block, and what the other end reports of what is sent here.
    pub sent: Option<(u16, Results)>,
    /// What was found of what comes.
    pub received: Option<Results>,
    /// The last request that was made here, and what came of it.
    pub request: Option<(Request, RequestOutcome)>,
    /// Requests of the other end that were denied.
    pub refused: u64,
}

/// Why OAM of a circuit cannot be asked for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OamError {
    /// The circuit is not here.
    #[error("no circuit {0} ends at this host")]
    NoCircuit(CircuitId),
    /// The end point cannot do it.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// What a circuit's end point is, by the link that it is on.
fn point_config(circuit: &Circuit, name: Option<Location>, cells: bool) -> PointConfig {
    let both = circuit.config.sends && circuit.config.receives;
    PointConfig { name, sends: circuit.config.sends, sees_cells: cells && both && circuit.credit.is_none() }
}

impl Circuits {
    /// Has a circuit's end point looked at in this round.
    pub(crate) fn wake_point(&mut self, key: u32) {
        let (map, oam) = self.parts();
        if let Some(points) = map.get_mut(&key).and_then(|circuit| circuit.points.as_deref_mut()) {
            oam.wake((key, false), &mut points.end);
            if let Some(segment) = &mut points.segment {
                oam.wake((key, true), segment);
            }
        }
    }

    /// User cells came on a circuit that has end points. True if that has ended an alarm.
    #[cold]
    pub(crate) fn note_user_cells(&mut self, key: u32, cells: &[Cell], now: Time) -> bool {
        let (map, _) = self.parts();
        let points = map.get_mut(&key).and_then(|circuit| circuit.points.as_deref_mut());
        let ended = match points {
            Some(points) if cells.is_empty() => points.handle_frame(now),
            Some(points) => points.handle_user_cells(cells, now),
            None => false,
        };
        if ended {
            self.wake_point(key);
        }
        ended
    }

    /// The end point of a circuit's flow, made if there are not too many.
    fn make_point(&mut self, key: u32, segment: bool, name: Option<Location>, cells: bool) -> Option<&mut EndPoint> {
        let (map, oam) = self.parts();
        let circuit = map.get_mut(&key)?;
        if circuit.points.is_none() {
            if oam.points >= MAX_POINTS {
                return None;
            }
            oam.points += 1;
            oam.left = oam.left.saturating_sub(NEW_POINT - 1);
            circuit.points = Some(Points::new(point_config(circuit, name, cells)));
        }
        Some(circuit.points.as_deref_mut()?.make(segment))
    }
}

impl HostInterface {
    fn carries_cells(&self, port: u16) -> bool {
        self.links.get(usize::from(port)).copied().flatten().is_some_and(|link| link.carries == Carries::Cells)
    }

    /// Has what a circuit's description says begin with the next round, which knows the time.
    pub(crate) fn begin_oam(&mut self, id: CircuitId) -> Result<(), RequestError> {
        let Some(circuit) = self.circuits.get(id.key()) else { return Ok(()) };
        let (oam, port) = (circuit.config.oam, circuit.config.port);
        if !oam.continuity && oam.monitoring.is_none() {
            return Ok(());
        }
        let config = point_config(circuit, self.location, self.carries_cells(port));
        // Refused now, if it cannot be.
        EndPoint::new(config).manage_monitoring(oam.monitoring)?;
        if self.circuits.oam().points >= MAX_POINTS {
            return Err(RequestError::Full);
        }
        self.circuits.oam_mut().begins.push(id.key());
        Ok(())
    }

    fn begin_described(&mut self, now: Time) {
        for key in std::mem::take(&mut self.circuits.oam_mut().begins) {
            let Some(circuit) = self.circuits.get(key) else { continue };
            let (oam, port, name) = (circuit.config.oam, circuit.config.port, self.location);
            let cells = self.carries_cells(port);
            let Some(point) = self.circuits.make_point(key, false, name, cells) else { continue };
            if point.manage_monitoring(oam.monitoring).is_ok() && oam.continuity {
                point.manage_continuity(true, false, now);
            }
            self.circuits.wake_point(key);
        }
    }

    /// What OAM knows of a circuit.
    pub fn oam(&self, id: CircuitId) -> Option<OamStatus> {
        let circuit = self.circuits.get(id.key())?;
        let end = circuit.points.as_deref().map(|points| &points.end);
        let (sent, received) = end.map_or((None, None), EndPoint::monitoring);
        Some(OamStatus {
            alarms: self.alarms(id),
            continuity: end.map_or([false; 2], EndPoint::continuity),
            sent,
            received,
            request: end.and_then(EndPoint::last_request),
            refused: end.map_or(0, EndPoint::refused),
        })
    }

    /// The alarms of a circuit. While its link brings no signal that is one.
    pub fn alarms(&self, id: CircuitId) -> Vec<Alarm> {
        let Some(circuit) = self.circuits.get(id.key()) else { return Vec::new() };
        let dark = self.circuits.oam().dark.get(usize::from(circuit.config.port)).copied().flatten();
        let defect = Defect::found(DefectType::LINK, self.location);
        let own = dark.map(|since| Alarm { kind: AlarmKind::Ais, defect, since });
        let points = circuit.points.as_deref();
        own.into_iter().chain(points.into_iter().flat_map(|points| points.alarms())).collect()
    }

    /// Circuits that have end points at present.
    pub fn oam_points(&self) -> usize {
        self.circuits.oam().points
    }

    /// Asks the other end of a circuit to begin or end something.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn request_oam(&mut self, id: CircuitId, request: Request) -> Result<(), OamError> {
        let (now, name) = (self.now, self.location);
        let port = self.circuits.get(id.key()).ok_or(OamError::NoCircuit(id))?.config.port;
        let cells = self.carries_cells(port);
        let point = self.circuits.make_point(id.key(), false, name, cells).ok_or(RequestError::Full)?;
        let asked = point.request(request, now);
        self.circuits.wake_point(id.key());
        Ok(asked?)
    }

    /// The oldest change of an alarm that has not been fetched.
    pub fn poll_alarm(&mut self) -> Option<(CircuitId, Event)> {
        self.circuits.oam_mut().events.pop_front()
    }

    /// Changes of alarms that came when too many waited to be fetched; since it was asked last.
    pub fn take_missed_alarms(&mut self) -> u64 {
        std::mem::take(&mut self.circuits.oam_mut().missed)
    }

    /// Looks whether links bring a signal.
    pub(crate) fn watch_signals(&mut self, io: &NodeIo<'_>, now: Time) {
        let ports = io.ports();
        let HostInterface { circuits, links, .. } = self;
        let dark = &mut circuits.oam_mut().dark;
        dark.resize(dark.len().max(ports), None);
        for (port, dark) in dark.iter_mut().enumerate() {
            let is_dark = links.get(port).copied().flatten().is_some() && !io.is_up(port);
            if is_dark != dark.is_some() {
                *dark = is_dark.then_some(now);
            }
        }
    }

    /// An OAM cell that is no loopback, on a flow that ends here. False: nobody here waits for it.
    ///
    /// # Errors
    /// There are as many end points as there may be.
    pub(crate) fn handle_oam(
        &mut self,
        id: CircuitId,
        segment: bool,
        function: &Function,
        now: Time,
    ) -> Result<bool, DropReason> {
        let name = self.location;
        let begins = matches!(function, Function::Ais(_) | Function::Rdi(_))
            || matches!(function, Function::Activation(activation) if activation.message.is_request());
        let Some(circuit) = self.circuits.get(id.key()) else { return Ok(false) };
        let port = circuit.config.port;
        if begins {
            let cells = self.carries_cells(port);
            if self.circuits.make_point(id.key(), segment, name, cells).is_none() {
                return Err(DropReason::TableFull);
            }
        }
        let points = self.circuits.get_mut(id.key()).and_then(|circuit| circuit.points.as_deref_mut());
        let Some(point) = points.and_then(|points| points.get_mut(segment)) else { return Ok(false) };
        let waited_for = point.handle_cell(function, now);
        self.circuits.wake_point(id.key());
        Ok(waited_for)
    }

    /// An OAM cell of a path of which circuits end here, that is no loopback.
    ///
    /// # Errors
    /// Why it is dropped.
    pub(crate) fn handle_path_oam(
        &mut self,
        port: u16,
        cell: &Cell,
        function: &Function,
        now: Time,
    ) -> Result<(), DropReason> {
        let header = cell.header();
        let key = (port, header.circuit.vpi, Flow::of(header).is_some_and(Flow::is_segment));
        let name = self.location;
        let oam = self.circuits.oam_mut();
        match function {
            Function::Ais(_) | Function::Rdi(_) if !oam.paths.contains_key(&key) => {
                if oam.paths.len() >= MAX_PATHS {
                    return Err(DropReason::TableFull);
                }
                let config = PointConfig { name, sends: true, sees_cells: false };
                oam.paths.insert(key, PathEnd { point: EndPoint::new(config), at: None, next: now });
            }
            // A path's end does not see its channels' cells one by one.
            Function::Activation(activation) if activation.message.is_request() => {
                let denied = Function::Activation(activation.answered(false));
                return self.answers.push(port, Cell::new(header, denied.emit()));
            }
            _ => {}
        }
        let path = oam.paths.get_mut(&key).ok_or(DropReason::NotOpen)?;
        let waited_for = path.point.handle_cell(function, now);
        self.pump_path(key, now);
        if waited_for { Ok(()) } else { Err(DropReason::NotOpen) }
    }

    /// A user cell of a circuit came: the path that it is in passes cells.
    pub(crate) fn end_path_alarms(&mut self, port: u16, id: CircuitId, now: Time) {
        for segment in [false, true] {
            let key = (port, id.vpi, segment);
            if let Some(path) = self.circuits.oam_mut().paths.get_mut(&key) {
                path.point.handle_traffic(now);
                self.pump_path(key, now);
            }
        }
    }

    fn pump_path(&mut self, key: PathKey, now: Time) {
        let (port, vpi, segment) = key;
        let flow = if segment { Flow::F4Segment } else { Flow::F4EndToEnd };
        let id = CircuitId { vpi, vci: wire::Vci(0) };
        let header = flow.header(CellHeader { circuit: id, ..CellHeader::default() });
        let oam = self.circuits.oam_mut();
        let Some(path) = oam.paths.get_mut(&key) else { return };
        let mut said = Vec::new();
        while let Some(function) = path.point.poll_transmit(now) {
            said.push(Cell::new(header, function.emit()));
        }
        let events: Vec<Event> = std::iter::from_fn(|| path.point.poll_event()).collect();
        oam.missed = oam.missed.wrapping_add(path.point.take_untold());
        let due = path.point.poll_timeout();
        oam.path_timers.arm(key, &mut path.point.armed, due);
        if path.point.is_at_rest() && path.point.armed.is_none() {
            oam.paths.remove(&key);
        }
        events.into_iter().for_each(|event| oam.note(header.circuit, event));
        for cell in said {
            if let Err(reason) = self.answers.push(port, cell) {
                self.stray.drop_one(reason);
            }
        }
    }

    /// Tells some circuits of paths with an alarm of it. True if there are more.
    fn tell_paths(&mut self, now: Time) -> bool {
        let mut left = ROUND_OAM;
        let due = |path: &PathEnd| path.point.incoming_defect().is_some() && (path.at.is_some() || path.next <= now);
        let keys: Vec<PathKey> =
            self.circuits.oam().paths.iter().filter(|(_, path)| due(path)).map(|(key, _)| *key).collect();
        for key in keys {
            let (port, vpi, _) = key;
            let Some(path) = self.circuits.oam_mut().paths.get_mut(&key) else { continue };
            let Some(mut defect) = path.point.incoming_defect() else { continue };
            if defect.kind == DefectType::UNSPECIFIED {
                defect.kind = DefectType::PATH;
            }
            if path.at.is_none() {
                path.next = (path.next + PERIOD).max(now);
            }
            let end = CircuitId { vpi, vci: wire::Vci(u16::MAX) }.key();
            let mut at = path.at.or(Some(CircuitId { vpi, vci: wire::Vci(0) }.key()));
            while let Some(from) = at.filter(|_| left > 0) {
                let Some(found) = self.circuits.key_from(from).filter(|key| *key <= end) else {
                    at = None;
                    break;
                };
                left -= 1;
                if self.circuits.get(found).is_some_and(|circuit| circuit.config.port == port) {
                    let told = self.handle_oam(CircuitId::from_key(found), false, &Function::Ais(defect), now);
                    if let (Err(reason), Some(circuit)) = (told, self.circuits.get_mut(found)) {
                        circuit.received.drop_one(reason);
                    }
                }
                at = (found < end).then_some(found + 1);
            }
            if let Some(path) = self.circuits.oam_mut().paths.get_mut(&key) {
                path.at = at;
            }
        }
        left == 0
    }

    /// Lets timers fire, and end points send what is due, some of them in one round. True if anything was done.
    pub(crate) fn run_oam(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        if !self.circuits.oam().begins.is_empty() {
            self.begin_described(now);
        }
        let mut fired = 0;
        while fired < ROUND_OAM
            && let Some((at, key)) = self.circuits.oam_mut().timers.pop_due(now)
        {
            fired += 1;
            let (map, oam) = self.circuits.parts();
            let points = map.get_mut(&key.0).and_then(|circuit| circuit.points.as_deref_mut());
            let Some(point) = points.and_then(|points| points.get_mut(key.1)) else { continue };
            if Timers::<PointKey>::fired(&mut point.armed, at) {
                point.handle_timeout(now);
                oam.wake(key, point);
            }
        }
        while let Some((at, key)) = self.circuits.oam_mut().path_timers.pop_due(now) {
            let Some(path) = self.circuits.oam_mut().paths.get_mut(&key) else { continue };
            if Timers::<PathKey>::fired(&mut path.point.armed, at) {
                path.point.handle_timeout(now);
                self.pump_path(key, now);
            }
        }
        let mut any = !self.circuits.oam().paths.is_empty() && self.tell_paths(now);
        any |= fired == ROUND_OAM;
        let points = self.circuits.oam().awake.len().min(ROUND_OAM);
        for _ in 0..points {
            let Some(key) = self.circuits.oam_mut().awake.pop_front() else { break };
            any |= self.pump_point(key, io, now);
        }
        io.count_work((fired + points) * OAM_WORK / 2);
        any
    }

    /// Sends what an end point has to say. True if it said something, or has more to say than there was room for.
    fn pump_point(&mut self, key: PointKey, io: &mut NodeIo<'_>, now: Time) -> bool {
        let (map, oam) = self.circuits.parts();
        let Some(circuit) = map.get_mut(&key.0) else { return false };
        let Circuit { points, pacer, credit, sent, config, id, .. } = circuit;
        let Some(all) = points else { return false };
        let Some(point) = all.get_mut(key.1) else { return false };
        point.awake = false;
        while let Some(event) = point.poll_event() {
            oam.note(*id, event);
        }
        oam.missed = oam.missed.wrapping_add(point.take_untold());
        let flow = if key.1 { Flow::F5Segment } else { Flow::F5EndToEnd };
        let header = flow.header(CellHeader { circuit: *id, ..CellHeader::default() });
        let port = usize::from(config.port);
        let (mut any, mut full, mut paced) = (false, false, None);
        while point.has_output(now) {
            full = credit.as_ref().is_some_and(|credit| credit.sender.room() == 0)
                || io.carries(port).is_some() && io.room(port) == 0;
            paced = pacer.as_ref().filter(|pacer| pacer.allowed(now, 1) == 0).map(|pacer| pacer.next_time());
            if full || paced.is_some() {
                break;
            }
            let Some(function) = point.poll_transmit(now) else { break };
            any = true;
            if !send_cell(io, port, &Cell::new(header, function.emit())) {
                sent.drop_one(DropReason::NoBuffer);
                continue;
            }
            sent.cells = sent.cells.wrapping_add(1);
            if let Some(pacer) = pacer {
                pacer.sent(1, now);
            }
            if let Some(credit) = credit {
                Credits::sent(&mut self.credits, id.key(), credit, 1, now);
            }
        }
        if full {
            oam.wake(key, point);
        } else {
            let due = paced.or_else(|| point.poll_timeout());
            oam.timers.arm(key, &mut point.armed, due);
        }
        if all.is_at_rest() {
            *points = None;
            oam.points -= 1;
        }
        any
    }
}
