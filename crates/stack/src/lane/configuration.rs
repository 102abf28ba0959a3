//! The LAN emulation configuration server (af-lane-0021 section 5.3): which server a client is to join.

use super::{Action, Link, Outbox, Service, outputs, response_to};
use crate::places::who_yields;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::aesa::Aesa;
use wire::lane::{Control, Operation};
use wire::q2931::Octets;
use wire::{DropReason, Time};

/// Calls at a time; more are refused, but for those of stations that have fewer than others.
const MAX_CALLS: usize = 64;
/// How long a client may keep its call: C7's greatest value is 300 s.
const PATIENCE: Duration = Duration::from_secs(300);
/// No configuration for this client.
const NO_CONFIGURATION: u16 = 20;

/// An emulated LAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lan {
    /// Its name.
    pub name: Octets<32>,
    /// Its LES.
    pub server: Aesa,
}

/// A configuration server.
#[derive(Debug)]
pub struct Configuration {
    lans: Vec<Lan>,
    /// Until when each may stay, and whose it is.
    calls: BTreeMap<Link, (Time, Option<Aesa>)>,
    out: Outbox,
}

outputs!(Configuration);

impl Configuration {
    /// A server of these LANs; who names none joins the first.
    pub fn new(lans: Vec<Lan>) -> Self {
        Configuration { lans, calls: BTreeMap::new(), out: Outbox::default() }
    }

    /// Somebody calls.
    pub fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        let reason = match service {
            Service::Control if self.calls.len() < MAX_CALLS || self.makes_room(from) => None,
            Service::Control => Some(DropReason::TableFull),
            _ => Some(DropReason::NotPermitted),
        };
        if let Some(reason) = reason {
            self.out.counters.drop_one(reason);
            return self.out.act(Action::Release(link));
        }
        self.calls.insert(link, (now + PATIENCE, from));
        self.out.act(Action::Answer(link));
    }

    fn makes_room(&mut self, from: Option<Aesa>) -> bool {
        let calls = self.calls.iter().map(|(link, (_, from))| (*link, *from, false));
        let Some(link) = who_yields(calls, from) else { return false };
        self.out.counters.drop_one(DropReason::TableFull);
        self.out.act(Action::Release(link));
        self.handle_released(link);
        true
    }

    /// A call is gone.
    pub fn handle_released(&mut self, link: Link) {
        self.calls.remove(&link);
        self.out.forget(link);
    }

    /// A frame has come on a call.
    pub fn handle_frame(&mut self, link: Link, frame: &[u8]) {
        let Ok(request) = Control::parse(frame) else { return self.out.counters.drop_one(DropReason::Malformed) };
        let call = self.calls.get(&link).filter(|_| request.operation == Operation::CONFIGURE);
        let Some((_, from)) = call else { return self.out.counters.drop_one(DropReason::NotPermitted) };
        self.out.act_for(*from);
        // Ethernet, or whatever there is; the frames of 802.3 have 1516 octets here.
        let fits = request.lan_type <= 1 && request.max_frame <= 1;
        let named = |lan: &&Lan| request.name.get().is_empty() || lan.name == request.name;
        let mut response = response_to(&request, 0);
        match self.lans.iter().find(named).filter(|_| fits) {
            Some(lan) => {
                (response.target_atm, response.name) = (lan.server, lan.name);
                (response.lan_type, response.max_frame) = (1, 1);
            }
            None => response.status = NO_CONFIGURATION,
        }
        self.out.control(link, &response);
    }

    /// Releases calls that clients keep.
    pub fn handle_timeout(&mut self, now: Time) {
        let out = &mut self.out;
        self.calls.retain(|link, (until, _)| {
            let stays = *until > now;
            if !stays {
                out.forget(*link);
                out.act(Action::Release(*link));
            }
            stays
        });
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.calls.values().map(|(until, _)| *until).min()
    }
}
