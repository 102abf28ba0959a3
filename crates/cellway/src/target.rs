//! What `send`, `receive`, `ttcp` and `ping` work on: a circuit that exists, or a call to an address, or from one.

use crate::client::{self, Size};
use crate::context::Context;
use crate::far_end::PathWatch;
use crate::ready::Ready;
use crate::usage;
use anyhow::{Result, anyhow, bail};
use endpoint::calls::{CallError, Circuit, Event, Sap, Session, Traffic};
use endpoint::{Aal, ChannelId, Endpoint, OpenOptions};
use std::str::FromStr;
use std::time::Duration;
use wire::CircuitId;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// How long the called user may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A circuit, or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// VPI and VCI.
    Circuit(CircuitId),
    /// Who is called, or under which address to be called.
    Address(Aesa),
}

impl FromStr for Target {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Self> {
        if let Ok(circuit) = text.parse() {
            return Ok(Target::Circuit(circuit));
        }
        let address = text.parse().map(Target::Address);
        address.map_err(|_| anyhow!("write vpi.vci, such as 0.100, or an address of 40 hexadecimal digits"))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Circuit(circuit) => circuit.fmt(f),
            Target::Address(address) => address.fmt(f),
        }
    }
}

/// Who begins where the target is an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This side calls the address.
    Calls,
    /// This side waits to be called under it.
    Listens,
}

/// Whether a command speaks reliable transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reliable {
    /// It sends and takes single PDUs.
    Never,
    /// It does where the far end does. A call offers it by its broadband high layer information, unless its service
    /// access point has one.
    Negotiated,
    /// It does, whatever is known of the far end, and waits for that.
    Always,
}

/// What a target is opened for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose {
    /// Who calls.
    pub role: Role,
    /// The adaptation layer.
    pub aal: Aal,
    /// The endpoint's room.
    pub size: Size,
    /// What both ends of a call compare.
    pub sap: Sap,
    /// The longest SDU in octets that a call asks for, in either direction. A stock `atmsigd` gives a call only to who
    /// listens for SDUs at least as long there and at most as long back: it wants the listener's own length.
    pub sdu_octets: u16,
    /// Whether this side speaks reliable transfer.
    pub reliable: Reliable,
    /// Whether this side sends: it is looked for what keeps everything from arriving then ([`Held::missing`]).
    pub sends: bool,
    /// Where it is told that this side is ready, if it listens.
    pub ready: Option<Ready>,
}

impl Purpose {
    /// AAL5 and whatever a call's default is.
    pub fn new(role: Role) -> Self {
        let sdu_octets = Traffic::default().sdu_octets;
        let (aal, size, sap) = (Aal::Aal5, Size::Large, Sap::ANY);
        Purpose { role, aal, size, sap, sdu_octets, reliable: Reliable::Never, sends: false, ready: None }
    }
}

/// A call while it is used, if there is one: it is released with this.
#[derive(Debug)]
pub struct Held {
    session: Option<(Session, u64)>,
    /// The circuit at the host.
    pub circuit: CircuitId,
    /// What was known of the circuit's path before it was opened here.
    pub path: PathWatch,
    /// Whether reliable transfer was offered by the call: by this side, or to it.
    pub offered: bool,
    /// Why nothing that is sent arrives, as far as that is known: a link is down, or nobody receives.
    pub missing: Option<anyhow::Error>,
}

impl Held {
    /// Whether this side is told when the far end has gone: by the call's release, or because it is in this network.
    pub fn hears_of_the_end(&self) -> bool {
        self.session.is_some() || self.path.knows_far_end()
    }

    /// Whether there was a call that has been released.
    pub fn is_over(&mut self) -> Result<bool> {
        let Some((session, call)) = &mut self.session else { return Ok(false) };
        Ok(session.is_released(*call)?.is_some())
    }
}

/// An endpoint on `host` with the target's circuit open.
pub fn open(context: &Context, host: &str, target: Target, purpose: Purpose) -> Result<(Endpoint, ChannelId, Held)> {
    let Purpose { role, aal, .. } = purpose;
    let (session, circuit, offered) = match target {
        Target::Circuit(circuit) => (None, circuit, false),
        Target::Address(address) => {
            if aal == Aal::Aal34 {
                usage!("a call's circuit carries AAL5: give --aal aal5, or a circuit of the description");
            }
            let mut session = Session::open(&context.socket, host)?;
            if role == Role::Listens {
                return answer(context, session, host, address, purpose);
            }
            let (call, offered) = call(&mut session, address, purpose)?;
            (Some((session, call.call)), call.circuit, offered)
        }
    };
    let looks = purpose.sends || purpose.reliable != Reliable::Never || role == Role::Listens;
    let path = if looks { PathWatch::begin(context, host, circuit)? } else { PathWatch::idle(context, host, circuit) };
    // A sender says what it speaks only where it speaks it.
    let reliable = match purpose.reliable {
        Reliable::Never => false,
        Reliable::Negotiated => role == Role::Listens || path.takes_streams(),
        Reliable::Always => true,
    };
    let (endpoint, channel) = open_circuit(context, host, circuit, purpose, reliable)?;
    let missing = if purpose.sends { path.check().err() } else { None };
    if let Some(ready) = purpose.ready {
        ready.say(context, &format!("{host} {circuit}"))?;
    }
    Ok((endpoint, channel, Held { session, circuit, path, offered, missing }))
}

fn open_circuit(
    context: &Context,
    host: &str,
    circuit: CircuitId,
    Purpose { aal, size, .. }: Purpose,
    reliable: bool,
) -> Result<(Endpoint, ChannelId)> {
    let mut endpoint = client::endpoint(context, host, size)?;
    let channel = endpoint.open(circuit, OpenOptions { aal, reliable, ..OpenOptions::default() })?;
    Ok((endpoint, channel))
}

/// Calls an address, with reliable transfer offered if that is wanted. What is incompatible with the offer is called
/// without it (Q.2931 Annex B: cause 88). True with the call where the offer stands.
fn call(session: &mut Session, address: Aesa, purpose: Purpose) -> Result<(Circuit, bool), CallError> {
    let Purpose { sap, sdu_octets, .. } = purpose;
    let traffic = Traffic { sdu_octets, ..Traffic::default() };
    if purpose.reliable == Reliable::Negotiated && sap.high.is_none() {
        let offering = Sap { high: Sap::reliable_transfer().high, ..sap };
        match session.call(address, offering, &traffic, PATIENCE) {
            Err(CallError::Released(CauseValue::INCOMPATIBLE)) => {}
            called => return called.map(|call| (call, true)),
        }
    }
    session.call(address, sap, &traffic, PATIENCE).map(|call| (call, false))
}

/// Waits for a call and answers it. The circuit is open before the caller hears of that: nothing that comes at once is
/// lost.
fn answer(
    context: &Context,
    mut session: Session,
    host: &str,
    address: Aesa,
    purpose: Purpose,
) -> Result<(Endpoint, ChannelId, Held)> {
    let stop = client::ends_in_order()?;
    let (_, own) = session.listen(Some(address.selector()), purpose.sap)?;
    let named =
        |own: &String| own.parse::<Aesa>().is_ok_and(|own| own.without_selector() == address.without_selector());
    if !own.iter().any(named) {
        bail!(
            "host {host} has not the address {address}, but {}",
            if own.is_empty() { "none".into() } else { own.join(", ") }
        );
    }
    if let Some(ready) = purpose.ready {
        ready.say(context, &format!("{host} {address}"))?;
    }
    loop {
        let Some(Event::Incoming { call, sap, .. }) = session.next_event(None)? else {
            if !client::goes_on(&stop) {
                bail!("interrupted");
            }
            continue;
        };
        // The caller may give up at any moment until the call is up.
        let Ok(Circuit { circuit, .. }) = session.take(call) else { continue };
        let path = PathWatch::begin(context, host, circuit)?;
        let (endpoint, channel) =
            match open_circuit(context, host, circuit, purpose, purpose.reliable != Reliable::Never) {
                Ok(opened) => opened,
                Err(_) if session.is_released(call)?.is_some() => continue,
                Err(e) => return Err(e),
            };
        match session.answer_call(call) {
            Ok(_) => {
                let offered = sap.parse::<Sap>().is_ok_and(|sap| sap.high == Sap::reliable_transfer().high);
                return Ok((
                    endpoint,
                    channel,
                    Held { session: Some((session, call)), circuit, path, offered, missing: None },
                ));
            }
            Err(CallError::Released(_) | CallError::NoAnswer(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
