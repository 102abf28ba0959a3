//! How a client comes into its LAN: configuration, join, BUS (af-lane-0021 sections 5.2 to 5.6). Every step has ten
//! seconds; what fails begins anew after 1 s, 2 s, ..., 64 s.

use super::super::{Action, BROADCAST, Link, Service};
use super::paths::Path;
use super::{ASK, CONTROL, Client};
use wire::lane::{Control, Destination, Operation};
use wire::{DropReason, Time};

/// A step's end, and when its question is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    until: Time,
    ask: Time,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The call to the LECS, and its answer.
    Configuring(Step),
    /// The call to the LES, and its answer.
    Joining(Step),
    /// The BUS's address, and the calls to and from it.
    Finding(Step),
    /// It is in the LAN.
    Up,
}

impl Stage {
    fn step(&mut self) -> Option<&mut Step> {
        match self {
            Stage::Configuring(step) | Stage::Joining(step) | Stage::Finding(step) => Some(step),
            Stage::Idle | Stage::Up => None,
        }
    }
}

fn step(now: Time) -> Step {
    Step { until: now + CONTROL, ask: now + CONTROL }
}

impl Client {
    fn begin(&mut self, now: Time) {
        if let Some(les) = self.les {
            self.control = Some(self.out.call(les, Service::Control, false));
            self.stage = Stage::Joining(step(now));
        } else {
            self.control = Some(self.out.call(self.config.configuration, Service::Control, false));
            self.stage = Stage::Configuring(step(now));
        }
    }

    /// Begins anew later; `lost` has gone by itself.
    pub(super) fn restart(&mut self, lost: Option<Link>, now: Time) {
        let servers = [self.control.take(), self.distribute.take(), self.send.take(), self.forward.take()];
        let direct = std::mem::take(&mut self.direct).into_keys();
        for link in servers.into_iter().flatten().chain(direct).filter(|link| Some(*link) != lost) {
            self.out.forget(link);
            self.out.act(Action::Release(link));
        }
        let held = std::mem::take(&mut self.paths).values().map(Path::held).sum();
        self.out.counters.drop_n(DropReason::UnknownCircuit, held);
        (self.stage, self.lecid, self.les, self.bus) = (Stage::Idle, 0, self.config.server, None);
        (self.is_sending, self.is_forwarded, self.is_changing) = (false, false, false);
        self.retry.fail(now);
    }

    /// A call to a server, or from one, is up.
    pub(super) fn joined_by(&mut self, link: Link, now: Time) {
        if self.control == Some(link) {
            self.ask(now);
        }
        self.is_sending |= self.send == Some(link);
        self.is_forwarded |= self.forward == Some(link);
        // With calls to and from the BUS it is in the LAN.
        if matches!(self.stage, Stage::Finding(_)) && self.is_sending && self.is_forwarded {
            self.stage = Stage::Up;
            self.retry = Default::default();
        }
    }

    /// Sends the question of the present step.
    fn ask(&mut self, now: Time) {
        let Some(control) = self.control else { return };
        if let Some(step) = self.stage.step() {
            step.ask = now + ASK;
        }
        let (mac, name) = (Destination::Mac(self.config.mac), self.config.name);
        let question = match self.stage {
            Stage::Configuring(_) => self.request(Operation::CONFIGURE),
            Stage::Joining(_) => self.request(Operation::JOIN),
            Stage::Finding(_) if self.bus.is_none() => {
                let target = Destination::Mac(BROADCAST);
                Control { target, ..self.request(Operation::ARP) }
            }
            _ => return,
        };
        let question = match question.operation {
            Operation::ARP => Control { source: mac, ..question },
            _ => Control { source: mac, name, lan_type: 1, max_frame: 1, ..question },
        };
        self.out.control(control, &question);
    }

    /// The answer to a question of this stage, on a call to a server or from it; false if it is another's.
    pub(super) fn handle_server(&mut self, link: Link, answer: &Control, now: Time) -> bool {
        let is_ours = answer.source_atm == self.config.own;
        if !is_ours || answer.transaction != self.transaction && answer.operation != Operation::JOIN.response() {
            return false;
        }
        let of = |operation: Operation| answer.operation == operation.response();
        match self.stage {
            Stage::Configuring(_) if of(Operation::CONFIGURE) => {
                if answer.status != 0 {
                    self.restart(None, now);
                    return true;
                }
                self.out.forget(link);
                self.out.act(Action::Release(link));
                self.les = Some(answer.target_atm);
                self.begin(now);
            }
            Stage::Joining(_) if of(Operation::JOIN) => {
                if answer.status != 0 || !(1..0xff00).contains(&answer.lecid) {
                    self.restart(None, now);
                    return true;
                }
                self.lecid = answer.lecid;
                self.stage = Stage::Finding(step(now));
                self.ask(now);
            }
            Stage::Finding(_) if of(Operation::ARP) && answer.target == Destination::Mac(BROADCAST) => {
                if self.bus.is_none() && answer.status == 0 {
                    self.bus = Some(answer.target_atm);
                    self.send = Some(self.out.call(answer.target_atm, Service::Multicast, false));
                    self.stage = Stage::Finding(step(now));
                }
            }
            _ => return false,
        }
        true
    }

    pub(super) fn join_timeout(&mut self, now: Time) {
        match self.stage {
            Stage::Idle if self.retry.is_due(now) => self.begin(now),
            Stage::Configuring(step) | Stage::Joining(step) | Stage::Finding(step) => {
                if step.until <= now {
                    self.restart(None, now);
                } else if step.ask <= now {
                    self.ask(now);
                }
            }
            Stage::Idle | Stage::Up => {}
        }
    }

    pub(super) fn join_deadline(&self) -> Option<Time> {
        match self.stage {
            Stage::Idle => Some(self.retry.due()),
            Stage::Configuring(step) | Stage::Joining(step) | Stage::Finding(step) => Some(step.until.min(step.ask)),
            Stage::Up => None,
        }
    }
}
