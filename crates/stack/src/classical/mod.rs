//! Classical IP over calls (RFC 2225, RFC 1755): which calls an [`IpInterface`] needs, and which it does not need any
//! more.
//!
//! In: what becomes of calls, the stations that the interface wants to reach, `now`. Out: calls to be made, answered
//! and released, and deadlines. A client calls its ATMARP server and registers there; the server's table gives the
//! address of a next hop, and that is called. A circuit without packets is released after a time, but never the one
//! to a server.

use crate::ip::IpInterface;
use crate::places::who_yields;
use crate::retry::Retry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wire::aesa::Aesa;
use wire::atmarp::AtmAddress;
use wire::q2931::CauseValue;
use wire::{Counters, DropReason, Time};

/// How long a circuit may carry nothing (RFC 1755 section 4.2).
pub const IDLE: Duration = Duration::from_secs(20 * 60);
/// Calls of an interface at a time, as many as a user has by default.
pub const MAX_CALLS: usize = 64;
/// Looks at each circuit in its idle time.
const LOOKS: u32 = 8;

/// What an interface is to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The ATMARP server; `None`: the interface is the server itself.
    pub server: Option<Aesa>,
    /// A circuit without packets is released after this time, or an eighth of it later.
    pub idle: Duration,
    /// Calls at a time; more are refused by cause 47, and not made. Where all places are taken, the station that has
    /// called most often yields one to a station that has called less often, or that is to be called.
    pub max_calls: usize,
}

impl Config {
    /// A client of this server, or a server.
    pub const fn new(server: Option<Aesa>) -> Self {
        Config { server, idle: IDLE, max_calls: MAX_CALLS }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Call: then [`Calls::handle_begun`], or [`Calls::handle_refused`].
    Call(Aesa),
    /// Answer this call: then [`Calls::handle_open`].
    Answer(u64),
    /// Refuse or release it.
    Release(u64, CauseValue),
}

#[derive(Debug, Clone, Copy)]
struct Call {
    peer: Option<Aesa>,
    outgoing: bool,
    /// The interface's number of its circuit, once it is open, and when a packet was last seen there.
    circuit: Option<(u32, Time)>,
    /// It is to be released, for its place.
    yields: bool,
}

/// The calls of one interface.
#[derive(Debug)]
pub struct Calls {
    config: Config,
    calls: BTreeMap<u64, Call>,
    /// Calls that [`Action::Call`] has asked for, without a number yet.
    begun: Vec<Aesa>,
    retries: BTreeMap<Aesa, Retry>,
    out: VecDeque<Action>,
    look: Time,
    /// Calls that were up, and those that were not made or answered.
    pub counters: Counters,
}

fn number(address: Aesa) -> AtmAddress {
    AtmAddress::new(&address.0, false).unwrap_or(AtmAddress::NONE)
}

/// The address of an ATM number; `None` for E.164.
fn address(number: &AtmAddress) -> Option<Aesa> {
    number.octets().try_into().ok().filter(|_| !number.is_e164()).map(Aesa)
}

impl Calls {
    /// No calls yet; `ip`, whose number is its own address, has circuits by calls from now on.
    pub fn new(config: Config, ip: &mut IpInterface, now: Time) -> Self {
        ip.set_switched(config.server.is_some(), now);
        Calls {
            config,
            calls: BTreeMap::new(),
            begun: Vec::new(),
            retries: BTreeMap::new(),
            out: VecDeque::new(),
            look: now + config.idle / LOOKS,
            counters: Counters::default(),
        }
    }

    /// Calls that are up or being set up.
    pub fn len(&self) -> usize {
        self.calls.values().filter(|call| !call.yields).count() + self.begun.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a call has its circuit.
    pub fn is_open(&self, call: u64) -> bool {
        self.calls.get(&call).is_some_and(|call| call.circuit.is_some())
    }

    /// Whether a call is being set up: then somebody waits for what comes next.
    pub fn is_setting_up(&self) -> bool {
        !self.begun.is_empty() || self.calls.values().any(|call| call.circuit.is_none())
    }

    fn leads_to(&self, peer: Aesa) -> bool {
        self.begun.contains(&peer) || self.calls.values().any(|call| call.peer == Some(peer))
    }

    fn call(&mut self, to: Aesa, now: Time) {
        if self.retries.get(&to).is_some_and(|retry| !retry.is_due(now)) {
            return;
        }
        if self.len() >= self.config.max_calls && !self.makes_room(Some(to)) {
            return self.counters.drop_one(DropReason::TableFull);
        }
        self.begun.push(to);
        self.out.push_back(Action::Call(to));
    }

    /// A call that was asked for has a number.
    pub fn handle_begun(&mut self, to: Aesa, call: u64) {
        self.begun.retain(|peer| *peer != to);
        self.calls.insert(call, Call { peer: Some(to), outgoing: true, circuit: None, yields: false });
    }

    /// A call that was asked for could not even be begun.
    pub fn handle_refused(&mut self, to: Aesa, now: Time) {
        self.begun.retain(|peer| *peer != to);
        self.fail(to, now);
    }

    fn fail(&mut self, to: Aesa, now: Time) {
        self.counters.drop_one(DropReason::UnknownCircuit);
        self.retries.entry(to).or_default().fail(now);
    }

    /// Ends a call that came, for one with another station. False if none does.
    fn makes_room(&mut self, with: Option<Aesa>) -> bool {
        let came = self.calls.iter().filter(|(_, call)| !call.outgoing && !call.yields);
        let came = came.map(|(number, call)| (*number, call.peer, call.circuit.is_some()));
        let Some(number) = who_yields(came, with) else { return false };
        if let Some(call) = self.calls.get_mut(&number) {
            call.yields = true;
        }
        self.counters.drop_one(DropReason::TableFull);
        self.out.push_back(Action::Release(number, CauseValue::RESOURCES));
        true
    }

    /// Somebody calls.
    pub fn handle_incoming(&mut self, call: u64, from: Option<Aesa>) {
        if self.len() >= self.config.max_calls && !self.makes_room(from) {
            self.counters.drop_one(DropReason::TableFull);
            return self.out.push_back(Action::Release(call, CauseValue::RESOURCES));
        }
        self.calls.insert(call, Call { peer: from, outgoing: false, circuit: None, yields: false });
        self.out.push_back(Action::Answer(call));
    }

    /// The circuit of a call is open; `ip` has it from now on, as `circuit`. False if the call is gone.
    pub fn handle_open(&mut self, call: u64, circuit: u32, ip: &mut IpInterface, now: Time) -> bool {
        let Some(state) = self.calls.get_mut(&call) else { return false };
        if state.circuit.is_some() {
            return true;
        }
        state.circuit = Some((circuit, now));
        self.counters.pdus += 1;
        ip.add_circuit(circuit, None, now);
        if let Some(peer) = state.peer {
            ip.set_number(circuit, number(peer));
            if state.outgoing {
                self.retries.remove(&peer);
            }
            if state.outgoing && Some(peer) == self.config.server {
                ip.set_server_circuit(Some(circuit), now);
            }
        }
        true
    }

    /// A call is gone, or was not to be; gives its circuit, which the interface has no more.
    pub fn handle_released(&mut self, call: u64, ip: &mut IpInterface, now: Time) -> Option<u32> {
        let Call { peer, outgoing, circuit, .. } = self.calls.remove(&call)?;
        if let (Some(peer), true) = (peer, outgoing)
            && (circuit.is_none() || Some(peer) == self.config.server)
        {
            self.fail(peer, now);
        }
        let (circuit, _) = circuit?;
        if outgoing && peer.is_some() && peer == self.config.server {
            ip.set_server_circuit(None, now);
        }
        ip.remove_circuit(circuit);
        Some(circuit)
    }

    /// Calls whom packets want to reach, and the server; releases circuits that carry nothing.
    pub fn handle_timeout(&mut self, ip: &mut IpInterface, now: Time) {
        while let Some(end) = ip.poll_wanted() {
            if let Some(to) = address(&end.number).filter(|to| !self.leads_to(*to)) {
                self.call(to, now);
            }
        }
        if let Some(server) = self.config.server
            && !self.has_own_call(server)
        {
            self.call(server, now);
        }
        if self.look > now {
            return;
        }
        self.look = now + self.config.idle / LOOKS;
        self.retries.retain(|_, retry| !retry.is_forgotten(now));
        let (config, out) = (self.config, &mut self.out);
        for (number, call) in &mut self.calls {
            let to_server = call.outgoing && call.peer.is_some() && call.peer == config.server;
            let Some((circuit, used)) = &mut call.circuit else { continue };
            if ip.take_used(*circuit) || to_server || config.server.is_none() && !call.outgoing {
                *used = now;
            } else if *used + config.idle <= now {
                out.push_back(Action::Release(*number, CauseValue::NORMAL));
            }
        }
    }

    /// Whether this side has called `server`, or is about to.
    fn has_own_call(&self, server: Aesa) -> bool {
        let own = |call: &Call| call.outgoing && call.peer == Some(server);
        self.begun.contains(&server) || self.calls.values().any(own)
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.out.pop_front()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let server = self.config.server.filter(|server| !self.has_own_call(*server));
        let server = server.map(|server| self.retries.get(&server).map_or(Time::ZERO, Retry::due));
        let look = (!self.calls.is_empty() || !self.retries.is_empty()).then_some(self.look);
        server.into_iter().chain(look).min()
    }
}

#[cfg(test)]
mod tests;
