//! What `send`, `receive`, `ttcp` and `ping` work on: a circuit that exists, or a call to an address, or from one.

use crate::client::{self, Size};
use crate::context::Context;
use crate::usage;
use anyhow::{Result, anyhow, bail};
use endpoint::calls::{CallError, Circuit, Event, Sap, Session, Traffic};
use endpoint::{Aal, ChannelId, Endpoint};
use std::str::FromStr;
use std::time::Duration;
use wire::CircuitId;
use wire::aesa::Aesa;

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
}

impl Purpose {
    /// AAL5 and whatever a call's default is.
    pub fn new(role: Role) -> Self {
        let sdu_octets = Traffic::default().sdu_octets;
        Purpose { role, aal: Aal::Aal5, size: Size::Large, sap: Sap::ANY, sdu_octets }
    }
}

/// A call while it is used, if there is one: it is released with this.
#[derive(Debug)]
pub struct Held {
    session: Option<(Session, u64)>,
    /// The circuit at the host.
    pub circuit: CircuitId,
}

impl Held {
    /// Whether there was a call that has been released.
    pub fn is_over(&mut self) -> Result<bool> {
        let Some((session, call)) = &mut self.session else { return Ok(false) };
        Ok(session.is_released(*call)?.is_some())
    }
}

/// An endpoint on `host` with the target's circuit open.
pub fn open(context: &Context, host: &str, target: Target, purpose: Purpose) -> Result<(Endpoint, ChannelId, Held)> {
    let Purpose { role, aal, size, sap, sdu_octets } = purpose;
    let (session, circuit) = match target {
        Target::Circuit(circuit) => (None, circuit),
        Target::Address(address) => {
            if aal == Aal::Aal34 {
                usage!("a call's circuit carries AAL5: give --aal aal5, or a circuit of the description");
            }
            let mut session = Session::open(&context.socket, host)?;
            if role == Role::Listens {
                return answer(context, session, host, address, purpose);
            }
            let traffic = Traffic { sdu_octets, ..Traffic::default() };
            let call = session.call(address, sap, &traffic, PATIENCE)?;
            (Some((session, call.call)), call.circuit)
        }
    };
    let (endpoint, channel) = client::open(context, host, circuit, aal, size)?;
    Ok((endpoint, channel, Held { session, circuit }))
}

/// Waits for a call and answers it. The circuit is open before the caller hears of that: nothing that comes at once is
/// lost.
fn answer(
    context: &Context,
    mut session: Session,
    host: &str,
    address: Aesa,
    Purpose { aal, size, sap, .. }: Purpose,
) -> Result<(Endpoint, ChannelId, Held)> {
    let stop = client::ends_in_order()?;
    let (_, own) = session.listen(Some(address.selector()), sap)?;
    let named =
        |own: &String| own.parse::<Aesa>().is_ok_and(|own| own.without_selector() == address.without_selector());
    if !own.iter().any(named) {
        bail!(
            "host {host} has not the address {address}, but {}",
            if own.is_empty() { "none".into() } else { own.join(", ") }
        );
    }
    loop {
        let Some(Event::Incoming { call, .. }) = session.next_event(None)? else {
            if !client::goes_on(&stop) {
                bail!("interrupted");
            }
            continue;
        };
        // The caller may give up at any moment until the call is up.
        let Ok(Circuit { circuit, .. }) = session.take(call) else { continue };
        let (endpoint, channel) = match client::open(context, host, circuit, aal, size) {
            Ok(opened) => opened,
            Err(_) if session.is_released(call)?.is_some() => continue,
            Err(e) => return Err(e),
        };
        match session.answer_call(call) {
            Ok(_) => return Ok((endpoint, channel, Held { session: Some((session, call)), circuit })),
            Err(CallError::Released(_) | CallError::NoAnswer(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
