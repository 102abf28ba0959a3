//! What `send`, `receive`, `ttcp` and `ping` work on: a circuit that exists, or a call to an address, or from one.

use crate::client::{self, Size};
use crate::context::Context;
use anyhow::{Result, anyhow, bail};
use endpoint::calls::{CallError, Circuit, Session, Traffic};
use endpoint::{Aal, ChannelId, Endpoint};
use std::str::FromStr;
use std::time::Duration;
use wire::CircuitId;
use wire::aesa::Aesa;

/// How long the called user may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A circuit, or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
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
pub(crate) enum Role {
    /// This side calls the address.
    Calls,
    /// This side waits to be called under it.
    Listens,
}

/// A call while it is used, if there is one: it is released with this.
#[derive(Debug)]
pub(crate) struct Held {
    session: Option<(Session, u64)>,
    /// The circuit at the host.
    pub(crate) circuit: CircuitId,
}

impl Held {
    /// Whether there was a call that has been released.
    pub(crate) fn is_over(&mut self) -> Result<bool> {
        let Some((session, call)) = &mut self.session else { return Ok(false) };
        Ok(session.is_released(*call)?.is_some())
    }
}

/// An endpoint on `host` with the target's circuit open.
pub(crate) fn open(
    context: &Context,
    host: &str,
    target: Target,
    role: Role,
    aal: Aal,
    size: Size,
) -> Result<(Endpoint, ChannelId, Held)> {
    let (session, circuit) = match target {
        Target::Circuit(circuit) => (None, circuit),
        Target::Address(address) => {
            if aal == Aal::Aal34 {
                bail!("a call's circuit carries AAL5: give --aal aal5, or a circuit of the description");
            }
            let (session, call) = establish(context, host, address, role)?;
            (Some((session, call.call)), call.circuit)
        }
    };
    let (endpoint, channel) = client::open(context, host, circuit, aal, size)?;
    Ok((endpoint, channel, Held { session, circuit }))
}

fn establish(context: &Context, host: &str, address: Aesa, role: Role) -> Result<(Session, Circuit)> {
    let mut session = Session::open(&context.socket, host)?;
    if role == Role::Calls {
        let circuit = session.call(address, Default::default(), &Traffic::default(), PATIENCE)?;
        return Ok((session, circuit));
    }
    let (_, own) = session.listen(Some(address.selector()), Default::default())?;
    let named =
        |own: &String| own.parse::<Aesa>().is_ok_and(|own| own.without_selector() == address.without_selector());
    if !own.iter().any(named) {
        bail!(
            "host {host} has not the address {address}, but {}",
            if own.is_empty() { "none".into() } else { own.join(", ") }
        );
    }
    loop {
        match session.accept(None) {
            Ok(Some(circuit)) => return Ok((session, circuit)),
            // The caller gave up while it was answered.
            Ok(None) | Err(CallError::Released(_) | CallError::NoAnswer(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
