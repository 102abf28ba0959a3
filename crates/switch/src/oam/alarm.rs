//! The alarm states of an end point: AIS, loss of continuity, RDI; and when each ends.

use std::time::Duration;
use wire::Time;
use wire::oam::{Defect, DefectType, Location};

/// From one AIS, RDI or continuity check cell to the next (I.610: nominally one a second).
pub const PERIOD: Duration = Duration::from_secs(1);
/// Without AIS (or RDI) cells for so long, the state is left (I.610: 2.5 s, give or take 0.5 s).
pub const RELEASE: Duration = Duration::from_millis(2500);
/// Without user cells and continuity check cells for so long, continuity is lost (I.610: 3.5 s, give or take 0.5 s).
pub const LOSS_OF_CONTINUITY: Duration = Duration::from_millis(3500);

/// Which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    /// Something is broken on the way here.
    Ais,
    /// Neither user cells nor continuity check cells come.
    LossOfContinuity,
    /// The other end has one of the two.
    Rdi,
}

impl AlarmKind {
    /// As `status`, metrics and the log write it.
    pub const fn name(self) -> &'static str {
        match self {
            AlarmKind::Ais => "ais",
            AlarmKind::LossOfContinuity => "loc",
            AlarmKind::Rdi => "rdi",
        }
    }
}

/// A state that an end point is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// Which.
    pub kind: AlarmKind,
    /// The defect, as the last cell told it.
    pub defect: Defect,
    /// Since when.
    pub since: Time,
}

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Alarms {
    ais: Option<(Alarm, Time)>,
    rdi: Option<(Alarm, Time)>,
    loss: Option<Alarm>,
    /// While continuity is checked: when a user cell, a continuity check cell or an AIS cell came last.
    heard: Option<Time>,
}

fn enter(state: &mut Option<(Alarm, Time)>, kind: AlarmKind, defect: Defect, now: Time) {
    let since = state.map_or(now, |(alarm, _)| alarm.since);
    *state = Some((Alarm { kind, defect, since }, now + RELEASE));
}

impl Alarms {
    pub(super) fn handle_ais(&mut self, defect: Defect, now: Time) {
        enter(&mut self.ais, AlarmKind::Ais, defect, now);
        // The nearer cause is known: continuity is lost anew if no user cell follows once AIS has ended.
        self.loss = None;
        self.heard = self.heard.map(|_| now);
    }

    pub(super) fn handle_rdi(&mut self, defect: Defect, now: Time) {
        enter(&mut self.rdi, AlarmKind::Rdi, defect, now);
    }

    /// A user cell or a continuity check cell came.
    #[inline]
    pub(super) fn handle_traffic(&mut self, now: Time) {
        self.ais = None;
        self.loss = None;
        if let Some(heard) = &mut self.heard {
            *heard = now;
        }
    }

    pub(super) fn set_continuity(&mut self, checked: bool, now: Time) {
        match (checked, self.heard) {
            (true, None) => self.heard = Some(now),
            (false, Some(_)) => (self.heard, self.loss) = (None, None),
            _ => {}
        }
    }

    pub(super) const fn checks_continuity(&self) -> bool {
        self.heard.is_some()
    }

    pub(super) fn handle_timeout(&mut self, name: Option<Location>, now: Time) {
        self.ais.take_if(|(_, until)| *until <= now);
        self.rdi.take_if(|(_, until)| *until <= now);
        let lost = |heard: &Time| *heard + LOSS_OF_CONTINUITY <= now;
        if self.ais.is_none() && self.loss.is_none() && self.heard.as_ref().is_some_and(lost) {
            let defect = Defect::found(DefectType::CONTINUITY, name);
            self.loss = Some(Alarm { kind: AlarmKind::LossOfContinuity, defect, since: now });
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let loss = self.heard.filter(|_| self.ais.is_none() && self.loss.is_none());
        let ends = [self.ais, self.rdi].into_iter().flatten().map(|(_, until)| until);
        ends.chain(loss.map(|heard| heard + LOSS_OF_CONTINUITY)).min()
    }

    /// What the other end is to be told.
    pub(super) fn incoming_defect(&self) -> Option<Defect> {
        self.ais.map(|(alarm, _)| alarm).or(self.loss).map(|alarm| alarm.defect)
    }

    /// The states, AIS before loss of continuity before RDI.
    pub(super) fn states(&self) -> [Option<Alarm>; 3] {
        [self.ais.map(|(alarm, _)| alarm), self.loss, self.rdi.map(|(alarm, _)| alarm)]
    }
}
