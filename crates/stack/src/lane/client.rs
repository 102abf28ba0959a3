//! A LAN emulation client (LEC): Ethernet frames in and out, calls and control frames to the LAN's servers and to
//! other clients.
//!
//! It asks the LECS for its LES, joins there, finds the BUS and calls it (`joining`). A frame goes to the BUS until
//! its destination's ATM address is known and a call leads there; before the path changes, a flush shows that the old
//! one is empty (`paths`).

mod direct;
mod joining;
mod paths;

use super::{Action, Link, Outbox, Service, flag, outputs, response_to};
use crate::retry::Retry;
use direct::Direct;
use joining::Stage;
use paths::Path;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::aesa::Aesa;
use wire::lane::{Control, Data, Destination, Operation, emit_ready, is_control, parse_ready};
use wire::q2931::Octets;
use wire::{DropReason, Time};

/// Octets of the longest frame: 1516 of LAN type 1 and frame size 1, less the LEC identifier.
pub const MAX_FRAME_OCTETS: usize = 1514;
/// How long an answer may take until the question is sent again.
const ASK: Duration = Duration::from_secs(2);
/// How long a step of joining may take (C7).
const CONTROL: Duration = Duration::from_secs(10);

/// What a client is, and which LAN it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Its ATM address.
    pub own: Aesa,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The LAN's name; empty for the servers' default.
    pub name: Octets<32>,
    /// The LECS, where no LES is given.
    pub configuration: Aesa,
    /// The LES; then no LECS is asked.
    pub server: Option<Aesa>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    config: Config,
    stage: Stage,
    lecid: u16,
    transaction: u32,
    /// The calls to LES and BUS, and those from them.
    control: Option<Link>,
    distribute: Option<Link>,
    send: Option<Link>,
    forward: Option<Link>,
    is_sending: bool,
    is_forwarded: bool,
    /// The addresses of the servers that are joined.
    les: Option<Aesa>,
    bus: Option<Aesa>,
    retry: Retry,
    paths: BTreeMap<[u8; 6], Path>,
    direct: BTreeMap<Link, Direct>,
    /// Bridges change their topology: what is known of addresses behind them ages fast.
    is_changing: bool,
    out: Outbox,
}

outputs!(Client);

impl Client {
    /// A client that joins at once.
    pub fn new(config: Config) -> Self {
        Client {
            config,
            stage: Stage::default(),
            lecid: 0,
            transaction: 0,
            control: None,
            distribute: None,
            send: None,
            forward: None,
            is_sending: false,
            is_forwarded: false,
            les: config.server,
            bus: None,
            retry: Retry::default(),
            paths: BTreeMap::new(),
            direct: BTreeMap::new(),
            is_changing: false,
            out: Outbox::default(),
        }
    }

    /// Whether it is in the LAN: frames can be sent.
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Its identifier in the LAN, once it has joined.
    pub fn lecid(&self) -> Option<u16> {
        Some(self.lecid).filter(|id| *id != 0)
    }

    /// Destinations to which frames go on a direct call.
    pub fn direct(&self) -> impl Iterator<Item = [u8; 6]> + '_ {
        self.paths.iter().filter(|(_, path)| path.is_direct()).map(|(mac, _)| *mac)
    }

    /// A request of this client's, with a transaction of its own.
    fn request(&mut self, operation: Operation) -> Control {
        self.transaction = self.transaction.wrapping_add(1);
        Control {
            operation,
            transaction: self.transaction,
            lecid: self.lecid,
            source_atm: self.config.own,
            ..Control::default()
        }
    }

    /// Somebody calls. Servers' calls are point-to-multipoint; `from` is whom the network names.
    pub fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        let is = |server: Option<Aesa>| {
            let plain = |address: Aesa| address.without_selector();
            // A network that names nobody is believed.
            from.is_none() || server.is_some() && server.map(plain) == from.map(plain)
        };
        let taken = match service {
            Service::Control if self.distribute.is_none() && self.control.is_some() && is(self.les) => {
                self.distribute = Some(link);
                true
            }
            Service::Multicast if self.forward.is_none() && self.send.is_some() && is(self.bus) => {
                self.forward = Some(link);
                true
            }
            Service::Direct if self.is_up() && self.has_room(from, now) => {
                self.direct.insert(link, Direct::called(from, now));
                true
            }
            _ => false,
        };
        if taken {
            self.out.act(Action::Answer(link));
        } else {
            self.out.counters.drop_one(DropReason::NotPermitted);
            self.out.act(Action::Release(link));
        }
    }

    /// A call is up.
    pub fn handle_up(&mut self, link: Link, now: Time) {
        if let Some(direct) = self.direct.get_mut(&link) {
            direct.handle_up(now);
            if matches!(link, Link::Made(_)) {
                self.out.frame(link, &emit_ready(Operation::READY_INDICATION));
                self.change_paths(link, now);
            }
        } else {
            self.joined_by(link, now);
        }
    }

    /// A call is gone, or was refused. Without one of the servers' calls the client joins anew.
    pub fn handle_released(&mut self, link: Link, now: Time) {
        self.out.forget(link);
        if let Some(direct) = self.direct.remove(&link) {
            self.leave_paths(link, direct, now);
        } else if [self.control, self.distribute, self.send, self.forward].contains(&Some(link)) {
            self.restart(Some(link), now);
        }
    }

    /// A frame has come on a call; gives the Ethernet frame in it, if it is for this station.
    pub fn handle_frame<'a>(&mut self, link: Link, frame: &'a [u8], now: Time) -> Option<&'a [u8]> {
        if let Some(operation) = parse_ready(frame).filter(|_| frame.len() < wire::lane::CONTROL_OCTETS) {
            self.handle_ready(link, operation, now);
            return None;
        }
        if is_control(frame) {
            match Control::parse(frame) {
                Ok(control) => self.handle_control(link, &control, now),
                Err(_) => self.out.counters.drop_one(DropReason::Malformed),
            }
            return None;
        }
        let Ok(data) = Data::parse(frame) else {
            self.out.counters.drop_one(DropReason::Malformed);
            return None;
        };
        let is_direct = self.handle_direct_data(link, now);
        if !is_direct && self.forward != Some(link) || !self.is_up() {
            self.out.counters.drop_one(DropReason::NotPermitted);
            return None;
        }
        // The BUS sends all frames back to their sender, too.
        let is_own = !is_direct && data.lecid == self.lecid;
        let is_ours = data.frame[0] & 1 != 0 || data.frame[..6] == self.config.mac;
        (is_ours && !is_own).then_some(data.frame)
    }

    fn handle_control(&mut self, link: Link, control: &Control, now: Time) {
        let from_server = [self.control, self.distribute].contains(&Some(link));
        let own = self.config.own;
        match control.operation {
            operation if operation.is_response() => {
                if !from_server || !self.handle_server(link, control, now) && !self.handle_path(control, now) {
                    self.out.counters.drop_one(DropReason::NotPermitted);
                }
            }
            Operation::ARP if from_server && control.target == Destination::Mac(self.config.mac) => {
                let known = Control { target_atm: own, ..response_to(control, 0) };
                if let Some(link) = self.control {
                    self.out.control(link, &known);
                }
            }
            Operation::ARP if from_server => {}
            // The old path is empty once this has come through it.
            Operation::FLUSH if control.target_atm == own => {
                if let Some(link) = self.control {
                    self.out.control(link, &response_to(control, 0));
                }
            }
            Operation::FLUSH => {}
            Operation::NARP if from_server => {
                if let Destination::Mac(mac) = control.target {
                    self.handle_change(mac);
                }
            }
            Operation::TOPOLOGY if from_server => self.handle_topology(control.flags & flag::TOPOLOGY != 0, now),
            _ => self.out.counters.drop_one(DropReason::NotPermitted),
        }
    }

    /// Joins, asks again, forgets.
    pub fn handle_timeout(&mut self, now: Time) {
        self.join_timeout(now);
        self.path_timeout(now);
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.join_deadline().into_iter().chain(self.path_deadline()).min()
    }
}
