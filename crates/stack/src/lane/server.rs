//! The LAN emulation server (af-lane-0021 sections 5.4, 6 and 7): who is in the LAN, and where each MAC address is.

use super::tree::Tree;
use super::{Action, BROADCAST, Link, Outbox, Service, flag, outputs, response_to};
use crate::places::who_yields;
use crate::reservations::Reservations;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::aesa::Aesa;
use wire::lane::{Control, Destination, Operation};
use wire::q2931::Octets;
use wire::{DropReason, Time};

/// MAC addresses of a client.
const MAX_ADDRESSES: usize = 64;
/// MAC addresses that are kept for clients that have left.
const MAX_KEPT: usize = 4096;
/// How long a call may be there without a client that has joined (C7's default).
const PATIENCE: Duration = Duration::from_secs(120);

mod status {
    pub(super) const REQUEST: u16 = 2;
    pub(super) const DUPLICATE_DESTINATION: u16 = 4;
    pub(super) const DUPLICATE_ATM: u16 = 5;
    pub(super) const RESOURCES: u16 = 6;
    pub(super) const LECID: u16 = 8;
    pub(super) const DESTINATION: u16 = 9;
    pub(super) const ATM: u16 = 10;
}

#[derive(Debug)]
struct Client {
    from: Option<Aesa>,
    /// Zero before it joins.
    lecid: u16,
    atm: Aesa,
    addresses: BTreeSet<[u8; 6]>,
    is_proxy: bool,
    /// Its request, until it is on the distribute call.
    joining: Option<Control>,
    until: Time,
}

impl Client {
    /// Whose addresses it has: the caller's, or the station that it says it is where the network names nobody.
    fn station(&self, says: Aesa) -> Aesa {
        self.from.unwrap_or(says).without_selector()
    }

    /// Its station and addresses.
    fn leaves(&self) -> (Aesa, BTreeSet<[u8; 6]>) {
        (self.station(self.atm), self.addresses.clone())
    }

    /// Whether an address is its own already, or may be.
    fn has_room(&self, address: &[u8; 6]) -> bool {
        self.addresses.contains(address) || self.addresses.len() < MAX_ADDRESSES
    }
}

/// A LES.
#[derive(Debug)]
pub struct Server {
    name: Octets<32>,
    bus: Aesa,
    max_clients: usize,
    clients: BTreeMap<Link, Client>,
    /// Addresses of clients that have left: each waits for its station.
    kept: Reservations<[u8; 6], Aesa>,
    /// The last time that was told.
    now: Time,
    /// Goes up with each change of who has which address.
    revision: u64,
    distribute: Tree,
    out: Outbox,
    /// Claims to an address that another station has.
    pub duplicates: u64,
}

outputs!(Server);

impl Server {
    /// The server of a LAN whose BUS has this address, for at most so many clients.
    pub fn new(name: Octets<32>, bus: Aesa, max_clients: usize) -> Self {
        let distribute = Tree::new(Service::Control);
        Server {
            name,
            bus,
            max_clients,
            clients: BTreeMap::new(),
            kept: Reservations::new(MAX_ADDRESSES, MAX_KEPT),
            now: Time::ZERO,
            revision: 0,
            distribute,
            out: Outbox::default(),
            duplicates: 0,
        }
    }

    /// The time at which what comes next comes.
    pub fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Another number after each change of [`Server::registrations`].
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Each MAC address with its station: of clients, and of those that have left in the last 20 minutes.
    pub fn registrations(&self) -> impl Iterator<Item = ([u8; 6], Aesa)> + '_ {
        let of_client = |client: &Client| {
            let station = client.station(client.atm);
            client.addresses.iter().map(move |address| (*address, station)).collect::<Vec<_>>()
        };
        self.clients.values().flat_map(of_client).chain(self.kept.iter(self.now))
    }

    /// Clients that have joined: identifier and ATM address.
    pub fn clients(&self) -> impl Iterator<Item = (u16, Aesa)> + '_ {
        self.clients.values().filter(|c| c.lecid != 0 && c.joining.is_none()).map(|c| (c.lecid, c.atm))
    }

    /// Somebody calls.
    pub fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        self.set_time(now);
        let reason = match service {
            Service::Control if self.clients.len() < self.max_clients || self.makes_room(from) => None,
            Service::Control => Some(DropReason::TableFull),
            _ => Some(DropReason::NotPermitted),
        };
        if let Some(reason) = reason {
            self.out.counters.drop_one(reason);
            return self.out.act(Action::Release(link));
        }
        let client = Client {
            from,
            lecid: 0,
            atm: Aesa::default(),
            addresses: BTreeSet::new(),
            is_proxy: false,
            joining: None,
            until: now + PATIENCE,
        };
        self.clients.insert(link, client);
        self.out.act(Action::Answer(link));
    }

    fn makes_room(&mut self, from: Option<Aesa>) -> bool {
        let clients = self.clients.iter().map(|(link, client)| (*link, client.from, client.lecid != 0));
        let Some(link) = who_yields(clients, from) else { return false };
        self.out.counters.drop_one(DropReason::TableFull);
        self.out.act(Action::Release(link));
        self.handle_released(link);
        true
    }

    /// A call is up.
    pub fn handle_up(&mut self, link: Link) {
        if self.distribute.is(link)
            && let Some(first) = self.distribute.handle_up(&mut self.out)
        {
            self.admit(first);
        }
    }

    /// A party of the distribute call has joined; or is gone or was refused, and with it its client.
    pub fn handle_party(&mut self, link: Link, party: Aesa, joined: bool) {
        if !self.distribute.is(link) {
            return;
        }
        if joined && self.distribute.handle_joined(party) {
            return self.admit(party);
        }
        self.distribute.handle_dropped(party, &mut self.out);
        self.expel(&[party]);
    }

    /// A client is on the distribute call: it has joined.
    fn admit(&mut self, atm: Aesa) {
        let found = self.clients.iter_mut().find(|(_, client)| client.lecid != 0 && client.atm == atm);
        if let Some((link, client)) = found
            && let Some(request) = client.joining.take()
        {
            let joined = Control { lecid: client.lecid, ..response_to(&request, 0) };
            self.out.act_for(client.from);
            self.out.control(*link, &Control { name: self.name, lan_type: 1, max_frame: 1, ..joined });
        }
    }

    /// Who is not on the distribute call is not in the LAN.
    fn expel(&mut self, lost: &[Aesa]) {
        let is_lost = |client: &Client| client.lecid != 0 && lost.contains(&client.atm);
        let left: Vec<_> = self.clients.values().filter(|client| is_lost(client)).map(Client::leaves).collect();
        left.into_iter().for_each(|left| self.keep(left));
        self.out.release_where(&mut self.clients, is_lost);
    }

    /// A client leaves its addresses; nobody else may have them for a while.
    fn keep(&mut self, (station, addresses): (Aesa, BTreeSet<[u8; 6]>)) {
        addresses.into_iter().for_each(|address| self.kept.reserve(address, station, self.now));
        self.revision += 1;
    }

    /// A call is gone.
    pub fn handle_released(&mut self, link: Link) {
        self.out.forget(link);
        if self.distribute.is(link) {
            let lost = self.distribute.handle_released(&mut self.out);
            self.expel(&lost);
        } else if let Some(client) = self.clients.remove(&link)
            && client.lecid != 0
        {
            self.distribute.remove(client.atm, &mut self.out);
            self.keep(client.leaves());
        }
    }

    /// A frame has come from a client.
    pub fn handle_frame(&mut self, link: Link, frame: &[u8]) {
        let Ok(control) = Control::parse(frame) else { return self.out.counters.drop_one(DropReason::Malformed) };
        let Some(client) = self.clients.get(&link) else {
            return self.out.counters.drop_one(DropReason::UnknownCircuit);
        };
        self.out.act_for(client.from);
        let joined = client.lecid != 0 && client.joining.is_none();
        match control.operation {
            Operation::JOIN => self.join(link, &control),
            _ if !joined => self.out.counters.drop_one(DropReason::NotPermitted),
            // Answers go to whom they are for. About addresses of others only a proxy knows anything.
            operation if operation.is_response() => {
                let is_heard = operation == Operation::FLUSH.response()
                    || operation == Operation::ARP.response() && self.may_speak_for(link, control.target);
                let asked = self.clients.iter().find(|(_, client)| client.lecid == control.lecid);
                match asked.filter(|(_, asked)| is_heard && asked.lecid != 0) {
                    Some((to, _)) => self.out.frame(*to, frame),
                    None => self.out.counters.drop_one(DropReason::NotPermitted),
                }
            }
            _ if control.lecid != client.lecid => {
                self.out.control(link, &response_to(&control, status::LECID));
            }
            Operation::ARP => self.resolve(link, &control, frame),
            Operation::REGISTER | Operation::UNREGISTER => self.register(link, &control),
            Operation::NARP if self.may_speak_for(link, control.target) => self.distribute(frame),
            Operation::TOPOLOGY => self.distribute(frame),
            _ => self.out.counters.drop_one(DropReason::NotPermitted),
        }
    }

    /// Whether another client has registered an address, or a station that has left not long ago. `says`: the station
    /// that this one says it is.
    fn is_of_another(&self, link: Link, says: Aesa, address: &[u8; 6]) -> bool {
        let Some(client) = self.clients.get(&link) else { return true };
        self.clients.iter().any(|(other, client)| *other != link && client.addresses.contains(address))
            || self.kept.is_of_another(*address, client.station(says), self.now)
    }

    /// Whether a client may say where a destination is, or is no more: a proxy may, of all that nobody else has
    /// registered.
    fn may_speak_for(&self, link: Link, destination: Destination) -> bool {
        let Some(client) = self.clients.get(&link) else { return false };
        let is_foreign =
            matches!(destination, Destination::Mac(address) if self.is_of_another(link, client.atm, &address));
        client.is_proxy && !is_foreign
    }

    fn distribute(&mut self, frame: &[u8]) {
        if let Some(distribute) = self.distribute.up() {
            self.out.frame(distribute, frame);
        }
    }

    fn join(&mut self, link: Link, request: &Control) {
        let Some(client) = self.clients.get(&link) else { return };
        let address = match request.source {
            Destination::Mac(address) => Some(address),
            Destination::None => None,
            Destination::Route(_) => {
                return self.out.control(link, &response_to(request, status::DESTINATION));
            }
        };
        let twin = self.clients.iter().any(|(other, c)| *other != link && c.lecid != 0 && c.atm == request.source_atm);
        let others = client.from.is_some_and(|from| from.without_selector() != request.source_atm.without_selector());
        let refusal = match address {
            _ if others => Some(status::ATM),
            _ if twin => Some(status::DUPLICATE_ATM),
            Some(address) if address[0] & 1 != 0 => Some(status::DESTINATION),
            Some(address) if self.is_of_another(link, request.source_atm, &address) => {
                Some(status::DUPLICATE_DESTINATION)
            }
            _ if request.lan_type > 1 || request.max_frame > 1 => Some(status::REQUEST),
            _ if !request.name.get().is_empty() && request.name != self.name => Some(status::REQUEST),
            _ if client.lecid != 0 && client.atm != request.source_atm => Some(status::ATM),
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.duplicates += u64::from([status::DUPLICATE_ATM, status::DUPLICATE_DESTINATION].contains(&refusal));
            return self.out.control(link, &response_to(request, refusal));
        }
        let is_new = client.lecid == 0;
        let lecid = if is_new { self.free_lecid() } else { Some(client.lecid) };
        let has_room = address.is_none_or(|address| client.has_room(&address));
        let (Some(lecid), true) = (lecid, has_room) else {
            return self.out.control(link, &response_to(request, status::RESOURCES));
        };
        let Some(client) = self.clients.get_mut(&link) else { return };
        client.addresses.extend(address);
        if let Some(address) = address {
            self.kept.take(address);
        }
        self.revision += 1;
        (client.lecid, client.atm) = (lecid, request.source_atm);
        client.is_proxy = request.flags & flag::PROXY != 0;
        // A request that is repeated after the answer was lost is answered again.
        let waits = is_new || client.joining.is_some();
        client.joining = Some(*request);
        let atm = client.atm;
        if waits {
            self.distribute.add(atm, &mut self.out);
        } else {
            self.admit(atm);
        }
    }

    fn free_lecid(&self) -> Option<u16> {
        let taken: BTreeSet<u16> = self.clients.values().map(|client| client.lecid).collect();
        (1..0xff00).find(|id| !taken.contains(id))
    }

    fn resolve(&mut self, link: Link, request: &Control, frame: &[u8]) {
        let Destination::Mac(wanted) = request.target else {
            return self.out.control(link, &response_to(request, status::DESTINATION));
        };
        let known = self.clients.values().find(|client| client.addresses.contains(&wanted)).map(|client| client.atm);
        let known = if wanted == BROADCAST { Some(self.bus) } else { known };
        match known {
            Some(target_atm) => {
                let response = Control { target_atm, ..response_to(request, 0) };
                self.out.control(link, &response);
            }
            // A proxy may know it; else nobody answers, and frames go by the BUS.
            None if self.clients.values().any(|client| client.is_proxy) => self.distribute(frame),
            None => {}
        }
    }

    fn register(&mut self, link: Link, request: &Control) {
        let says = match (request.source, request.operation) {
            (Destination::Mac(address), Operation::UNREGISTER) => {
                let client = self.clients.get_mut(&link);
                let had = client.is_some_and(|client| client.addresses.remove(&address));
                self.revision += 1;
                if had { 0 } else { status::DESTINATION }
            }
            (Destination::Mac(address), _) if address[0] & 1 == 0 => {
                let is_taken = self.is_of_another(link, request.source_atm, &address);
                self.duplicates += u64::from(is_taken);
                match self.clients.get_mut(&link) {
                    _ if is_taken => status::DUPLICATE_DESTINATION,
                    Some(client) if client.atm != request.source_atm => status::ATM,
                    Some(client) if client.has_room(&address) => {
                        client.addresses.insert(address);
                        self.kept.take(address);
                        self.revision += 1;
                        0
                    }
                    _ => status::RESOURCES,
                }
            }
            _ => status::DESTINATION,
        };
        self.out.control(link, &response_to(request, says));
    }

    /// Releases calls on which nobody has joined, or whose client does not answer the distribute call.
    pub fn handle_timeout(&mut self, now: Time) {
        self.set_time(now);
        self.kept.expire(now);
        let late = |client: &Client| client.until <= now && (client.lecid == 0 || client.joining.is_some());
        let late: Vec<Link> = self.clients.iter().filter(|(_, client)| late(client)).map(|(link, _)| *link).collect();
        for link in late {
            self.out.act(Action::Release(link));
            self.handle_released(link);
        }
        let silent = self.distribute.handle_timeout(now, &mut self.out);
        self.expel(&silent);
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let late = self.clients.values().filter(|c| c.lecid == 0 || c.joining.is_some()).map(|c| c.until);
        late.chain(self.distribute.poll_timeout()).min()
    }
}
