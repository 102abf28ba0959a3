//! An end point of an OAM flow: of a connection, or of a segment of it.

use super::activation::{Asked, Request, RequestError, RequestOutcome};
use super::alarm::{Alarm, Alarms, PERIOD};
use super::monitoring::{Results, Sink, Source};
use std::collections::VecDeque;
use wire::oam::{Activation, BlockCode, Defect, Function, Location, Message, Subject};
use wire::{Cell, Time};

/// Answers to activation requests that wait at most; a peer asks again.
const MAX_ANSWERS: usize = 2;
/// Changes of alarms that nobody has fetched are kept at most; what is, [`EndPoint::alarms`] says.
const MAX_EVENTS: usize = 8;
/// Changes of alarms that an end point tells in a second, at most: AIS and user cells in turn would else fill its
/// owner's log.
const TOLD: u8 = 4;

/// What an end point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PointConfig {
    /// Its name, which a defect that it finds has as its location.
    pub name: Option<Location>,
    /// Whether it can send: not at a leaf of a point-to-multipoint connection.
    pub sends: bool,
    /// Whether it sees its user cells one by one both ways, which performance monitoring needs.
    pub sees_cells: bool,
}

/// An alarm began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Which.
    pub alarm: Alarm,
    /// Whether it began.
    pub began: bool,
    /// When.
    pub at: Time,
}

/// A continuity check cell is due at `next`; each user cell puts it off, unless cells go each second whatever is sent.
#[derive(Debug, Clone, Copy)]
struct Check {
    next: Time,
    always: bool,
}

/// What the description or a command began at this end, which the other end cannot stop.
#[derive(Debug, Clone, Copy, Default)]
struct Managed {
    continuity: bool,
    monitoring: bool,
}

/// See the module's head.
#[derive(Debug)]
pub struct EndPoint {
    config: PointConfig,
    alarms: Alarms,
    /// While the other end is to be told of a defect: when next.
    rdi: Option<Time>,
    check: Option<Check>,
    source: Option<Box<Source>>,
    sink: Option<Box<Sink>>,
    managed: Managed,
    asked: Option<Asked>,
    next_tag: u8,
    answers: VecDeque<Activation>,
    events: VecDeque<Event>,
    /// The second in which changes were told last, and how many; changes that were not.
    told: (Time, u8),
    untold: u64,
    refused: u64,
    /// For the owner: the earliest entry in its [`super::Timers`], and whether it waits to be asked for cells.
    pub armed: Option<Time>,
    /// See `armed`.
    pub awake: bool,
}

impl EndPoint {
    /// An end point at rest.
    pub fn new(config: PointConfig) -> Self {
        EndPoint {
            config,
            alarms: Alarms::default(),
            rdi: None,
            check: None,
            source: None,
            sink: None,
            managed: Managed::default(),
            asked: None,
            next_tag: 0,
            answers: VecDeque::new(),
            events: VecDeque::new(),
            told: (Time::ZERO, 0),
            untold: 0,
            refused: 0,
            armed: None,
            awake: false,
        }
    }

    /// What it is.
    pub fn config(&self) -> PointConfig {
        self.config
    }

    /// The states that it is in.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> {
        self.alarms.states().into_iter().flatten()
    }

    /// The defect of the direction that ends here, if there is one: AIS or loss of continuity.
    pub fn incoming_defect(&self) -> Option<Defect> {
        self.alarms.incoming_defect()
    }

    /// Whether nothing would be lost with it.
    pub fn is_at_rest(&self) -> bool {
        self.alarms().next().is_none()
            && !self.alarms.checks_continuity()
            && self.check.is_none()
            && self.source.is_none()
            && self.sink.is_none()
            && self.asked.is_none()
            && self.answers.is_empty()
            && self.events.is_empty()
    }

    /// Continuity check in the direction away from here, and towards here.
    pub fn continuity(&self) -> [bool; 2] {
        [self.check.is_some(), self.alarms.checks_continuity()]
    }

    /// Performance monitoring: cells of a block and the other end's reports of what is sent here; what was found of
    /// what comes.
    pub fn monitoring(&self) -> (Option<(u16, Results)>, Option<Results>) {
        let far = self.source.as_ref().map(|source| (source.block(), source.results()));
        (far, self.sink.as_ref().map(|sink| sink.results()))
    }

    /// The last request made here, and what came of it.
    pub fn last_request(&self) -> Option<(Request, RequestOutcome)> {
        self.asked.map(|asked| (asked.request, asked.outcome))
    }

    /// Requests of the other end that were denied.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The oldest change of an alarm that has not been fetched.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Changes that [`EndPoint::poll_event`] leaves out, four having come in that second; since it was asked last.
    pub fn take_untold(&mut self) -> u64 {
        std::mem::take(&mut self.untold)
    }

    /// Begins or ends continuity check both ways, as the description or a command has it at both ends; with `always` a
    /// cell goes each second whatever else is sent.
    pub fn manage_continuity(&mut self, on: bool, always: bool, now: Time) {
        self.managed.continuity = on;
        self.check = (on && self.config.sends).then_some(Check { next: now + PERIOD, always });
        self.change_alarms(now, |alarms| alarms.set_continuity(on, now));
    }

    /// Begins or ends performance monitoring both ways, as the description has it at both ends.
    ///
    /// # Errors
    /// Cells are not seen here one by one, or blocks have no such size.
    pub fn manage_monitoring(&mut self, block: Option<u16>) -> Result<(), RequestError> {
        if let Some(cells) = block {
            BlockCode::of_cells(cells).ok_or(RequestError::NoBlock)?;
            if !self.config.sees_cells {
                return Err(RequestError::NoCells);
            }
        }
        self.managed.monitoring = block.is_some();
        self.source = block.map(|cells| Box::new(Source::new(cells)));
        self.sink = block.map(|_| Box::new(Sink::new(true)));
        Ok(())
    }

    /// Asks the other end to begin or end something; it begins or ends here when that confirms.
    ///
    /// # Errors
    /// Another request is under way, or this end cannot do it.
    pub fn request(&mut self, request: Request, now: Time) -> Result<(), RequestError> {
        let monitors = request.subject != Subject::ContinuityCheck;
        if self.asked.is_some_and(|asked| asked.is_open()) {
            return Err(RequestError::Busy);
        }
        if if monitors { self.managed.monitoring } else { self.managed.continuity } {
            return Err(RequestError::Managed);
        }
        if !self.config.sends || monitors && !self.config.sees_cells {
            return Err(RequestError::NoCells);
        }
        if monitors && request.activate && request.block.cells().is_none() {
            return Err(RequestError::NoBlock);
        }
        self.next_tag = self.next_tag.wrapping_add(1);
        self.asked = Some(Asked::new(request, self.next_tag, now));
        Ok(())
    }

    /// What an OAM cell of this flow says. False: it is not for an end point, or nothing here waits for it.
    pub fn handle_cell(&mut self, function: &Function, now: Time) -> bool {
        match *function {
            Function::Ais(defect) => self.change_alarms(now, |alarms| alarms.handle_ais(defect, now)),
            Function::Rdi(defect) => self.change_alarms(now, |alarms| alarms.handle_rdi(defect, now)),
            Function::ContinuityCheck => self.change_alarms(now, |alarms| alarms.handle_traffic(now)),
            Function::Monitoring(sent) => match &mut self.sink {
                Some(sink) => sink.handle_monitoring(sent),
                None => return false,
            },
            Function::Report(report) => match &mut self.source {
                Some(source) => source.handle_report(&report),
                None => return false,
            },
            Function::Activation(activation) if activation.message.is_request() => self.answer(activation, now),
            Function::Activation(activation) => {
                let Some(asked) = &mut self.asked else { return false };
                if activation.tag != asked.tag() || !asked.is_open() {
                    return false;
                }
                if asked.handle_answer(&activation) {
                    let Request { activate, subject, directions, block } = asked.request;
                    self.set(subject, (directions.from_a(), directions.from_b()), activate.then_some(block), now);
                }
            }
            Function::Loopback(_) | Function::Other(_) => return false,
        }
        true
    }

    /// User cells came, before any cell that [`EndPoint::handle_cell`] is given next.
    #[inline]
    pub fn handle_user_cells(&mut self, cells: &[Cell], now: Time) {
        if let Some(sink) = &mut self.sink {
            sink.received(cells);
        }
        self.handle_traffic(now);
    }

    /// User data came in another form than cells.
    #[inline]
    pub fn handle_traffic(&mut self, now: Time) {
        if self.alarms.incoming_defect().is_some() {
            self.change_alarms(now, |alarms| alarms.handle_traffic(now));
        } else {
            self.alarms.handle_traffic(now);
        }
    }

    /// How many user cells may be sent before [`EndPoint::take_monitoring`] has a cell; `None`: any number.
    #[inline]
    pub fn cells_to_monitoring(&self) -> Option<usize> {
        self.source.as_ref().map(|source| source.left())
    }

    /// User cells were sent.
    #[inline]
    pub fn handle_sent(&mut self, cells: &[Cell], now: Time) {
        if let Some(source) = &mut self.source {
            source.sent(cells);
        }
        self.handle_sent_frame(now);
    }

    /// User data was sent in another form than cells.
    #[inline]
    pub fn handle_sent_frame(&mut self, now: Time) {
        if let Some(check) = self.check.as_mut().filter(|check| !check.always) {
            check.next = now + PERIOD;
        }
    }

    /// The monitoring cell that goes behind the user cells that were sent, if one is due.
    #[inline]
    pub fn take_monitoring(&mut self) -> Option<Function> {
        self.source.as_mut()?.poll_transmit()
    }

    /// Whether [`EndPoint::poll_transmit`] has a cell.
    pub fn has_output(&self, now: Time) -> bool {
        !self.answers.is_empty()
            || self.sink.as_ref().is_some_and(|sink| sink.has_output())
            || self.source.as_ref().is_some_and(|source| source.is_due())
            || self.next_send().is_some_and(|next| next <= now)
    }

    fn next_send(&self) -> Option<Time> {
        let asked = self.asked.filter(|asked| asked.can_send()).and_then(|asked| asked.poll_timeout());
        [self.rdi, self.check.map(|check| check.next), asked].into_iter().flatten().min()
    }

    /// A cell of the flow that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Function> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(Function::Activation(answer));
        }
        if let Some(request) = self.asked.as_mut().and_then(|asked| asked.poll_transmit(now)) {
            return Some(Function::Activation(request));
        }
        if let (Some(next), Some(defect)) = (self.rdi, self.alarms.incoming_defect())
            && next <= now
        {
            self.rdi = Some(now + PERIOD);
            return Some(Function::Rdi(defect));
        }
        if let Some(monitoring) = self.take_monitoring() {
            return Some(monitoring);
        }
        if let Some(report) = self.sink.as_mut().and_then(|sink| sink.poll_transmit()) {
            return Some(report);
        }
        let check = self.check.as_mut().filter(|check| check.next <= now)?;
        check.next = now + PERIOD;
        Some(Function::ContinuityCheck)
    }

    /// When [`EndPoint::handle_timeout`] wants to be called, or has something to send.
    pub fn poll_timeout(&self) -> Option<Time> {
        let asked = self.asked.and_then(|asked| asked.poll_timeout());
        [self.alarms.poll_timeout(), self.next_send(), asked].into_iter().flatten().min()
    }

    /// Lets states end, and begin, whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        let name = self.config.name;
        self.change_alarms(now, |alarms| alarms.handle_timeout(name, now));
        if let Some(asked) = &mut self.asked {
            asked.handle_timeout(now);
        }
    }

    /// Changes alarms, notes which began and ended, and begins or ends to tell the other end.
    fn change_alarms(&mut self, now: Time, change: impl FnOnce(&mut Alarms)) {
        let before = self.alarms.states();
        change(&mut self.alarms);
        for (before, after) in before.into_iter().zip(self.alarms.states()) {
            let alarm = match (before, after) {
                (None, Some(alarm)) | (Some(alarm), None) => alarm,
                _ => continue,
            };
            if now >= self.told.0 + PERIOD {
                self.told = (now, 0);
            }
            if self.told.1 == TOLD {
                self.untold += 1;
                continue;
            }
            self.told.1 += 1;
            if self.events.len() == MAX_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(Event { alarm, began: after.is_some(), at: now });
        }
        self.rdi = match (self.alarms.incoming_defect(), self.rdi) {
            (Some(_), None) if self.config.sends => Some(now),
            (Some(_), rdi) => rdi,
            (None, _) => None,
        };
    }

    /// Answers a request of the other end, which is A.
    fn answer(&mut self, request: Activation, now: Time) {
        let activates = request.message == Message::Activate;
        let ways = (request.directions.from_b(), request.directions.from_a());
        let [from_a, from_b] = request.blocks;
        let monitors = request.subject != Subject::ContinuityCheck;
        let managed = if monitors { self.managed.monitoring } else { self.managed.continuity };
        let has_blocks = |code: BlockCode, wanted: bool| !wanted || code.cells().is_some();
        let can = match (activates, monitors) {
            // What the description has goes on: to begin is no change, and to end is not for the other end to say.
            (activates, _) if managed => activates,
            (true, true) => self.config.sees_cells && has_blocks(from_a, ways.1) && has_blocks(from_b, ways.0),
            _ => true,
        } && self.config.sends;
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back(request.answered(can));
        }
        self.refused += u64::from(!can);
        if can && !managed {
            self.set(request.subject, ways, activates.then_some(from_b), now);
        }
    }

    /// Begins (in blocks of this size) or ends something at this end, in the directions away from here and towards
    /// here. What goes on already in the same way goes on: a repeated request changes nothing.
    fn set(&mut self, subject: Subject, (away, here): (bool, bool), begin: Option<BlockCode>, now: Time) {
        if subject == Subject::ContinuityCheck {
            if here {
                self.change_alarms(now, |alarms| alarms.set_continuity(begin.is_some(), now));
            }
            if away {
                let check = Check { next: now + PERIOD, always: false };
                self.check = begin.and(self.check.or(Some(check)));
            }
            return;
        }
        let reports = subject == Subject::Monitoring;
        if here && self.sink.as_ref().map(|sink| sink.does_report()) != begin.map(|_| reports) {
            self.sink = begin.map(|_| Box::new(Sink::new(reports)));
        }
        if away {
            let block = begin.and_then(BlockCode::cells);
            if self.source.as_ref().map(|source| source.block()) != block {
                self.source = block.map(|cells| Box::new(Source::new(cells)));
            }
        }
    }
}
