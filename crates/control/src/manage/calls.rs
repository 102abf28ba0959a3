//! What is asked of calls: by a session, which is a connection.

use super::{Manager, answer};
use crate::calls::applications::User;
use crate::calls::service::Service;
use crate::calls::setup::Wanted;
use crate::calls::steps;
use crate::config::Config;
use crate::policy::{self, Role};
use anyhow::{Context as _, Result, anyhow};
use endpoint::calls::{self, MAX_STEPS};
use endpoint::seqpacket::Peer;
use host::quota::{Amounts, Kind};
use host::service::Handler;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

fn sap(text: Option<&str>) -> Result<calls::Sap> {
    Ok(text.map_or(Ok(calls::Sap::ANY), str::parse)?)
}

fn address(text: &str) -> Result<Aesa> {
    text.parse::<Aesa>().with_context(|| format!("address \"{text}\""))
}

fn cause(number: u8) -> CauseValue {
    CauseValue(number & 0x7f)
}

impl Manager {
    /// Whose calls they are, and what these may have beside what the user has already.
    pub(super) fn user(&self, peer: &Peer, has: &Amounts) -> User {
        let limits = self.limits(*peer);
        let max_reserved = limits.get(Kind::Bandwidth).saturating_sub(has.get(Kind::Bandwidth));
        User { uid: peer.uid, max_calls: limits.get(Kind::Calls), max_reserved }
    }

    /// What a session asks about calls. `None`: it has to wait.
    pub(super) fn call(
        &self,
        peer: &Peer,
        session: u64,
        request: calls::Request,
        has: &Amounts,
    ) -> Result<Option<String>> {
        let service = self.controller.calls();
        let may = |host: &str, to: Option<&Aesa>| {
            let may = |config: &Config| policy::may_call(&config.rules, peer, self.owner, host, to);
            self.controller.with_config(may).map_err(|e| anyhow!(e))
        };
        let manages = || {
            let may = |config: &Config| policy::may_act(&config.rules, peer, self.owner, Role::Manage);
            self.controller.with_config(may).map_err(|e| anyhow!(e))
        };
        let user = self.user(peer, has);
        let answered = match request {
            calls::Request::Listen { host, selector, sap: text } => {
                may(&host, None)?;
                let sap = sap(text.as_deref())?;
                match service.with(|exchange, _| exchange.listen(session, user, &host, selector, sap))? {
                    Some(listening) => listening,
                    None => return Ok(None),
                }
            }
            calls::Request::Call { host, to, sap: text, traffic, backward, multipoint } => {
                let to = address(&to)?;
                may(&host, Some(&to))?;
                let backward = backward.as_ref().unwrap_or(&traffic);
                let wanted = Wanted { sap: sap(text.as_deref())?, forward: &traffic, backward, multipoint };
                service.with(|exchange, now| exchange.call(session, user, &host, to, wanted, now))?
            }
            calls::Request::Take { call } => service.with(|exchange, _| exchange.take(session, user, call))?,
            calls::Request::Tie { call } => service.with(|exchange, _| exchange.tie(session, call))?,
            calls::Request::AddParty { call, to } => {
                let to = address(&to)?;
                let host = service.with(|exchange, _| exchange.host_of(session, call))?;
                may(&host, Some(&to))?;
                service.with(|exchange, now| exchange.add_party(session, user, call, to, now))?
            }
            calls::Request::DropParty { call, party, cause: number } => {
                let cause = cause(number);
                service.with(|exchange, now| exchange.drop_party(session, call, party, cause, now))?
            }
            calls::Request::Accept { call } => {
                service.with(|exchange, now| exchange.accept(session, user, call, now))?
            }
            calls::Request::Release { call, cause: number } => {
                service.with(|exchange, now| exchange.release(session, call, cause(number), now))?
            }
            wait @ (calls::Request::Wait | calls::Request::Next) => {
                let most = if wait == calls::Request::Next { 1 } else { usize::MAX };
                match service.with(|exchange, _| exchange.wait(session, most)) {
                    Some(events) => events,
                    None => return Ok(None),
                }
            }
            calls::Request::Steps { host, steps, wait } => {
                return self.steps(peer, (session, user), &host, steps, wait);
            }
            calls::Request::Serve { host } => {
                manages()?;
                service.with(|exchange, _| exchange.serve(session, user, &host))?
            }
            calls::Request::Report { host, report } => {
                service.with(|exchange, now| exchange.report_of_program(user, &host, *report, now))?
            }
            calls::Request::SetAddress { host, address: text, present } => {
                manages()?;
                let address = address(&text)?;
                service.with(|exchange, _| exchange.set_address(&host, address, present))?
            }
            calls::Request::ResetAddresses { host } => {
                manages()?;
                service.with(|exchange, _| exchange.reset_addresses(&host))?
            }
            calls::Request::List => return Err(anyhow!("the list of calls belongs to no session")),
        };
        answer(&answered).map(Some)
    }

    /// All calls for who may watch; others see their own, and the hosts where they can be called.
    pub(super) fn calls(&self, peer: &Peer) -> Result<String> {
        let service = self.controller.calls();
        // Before the lock of calls: whoever changes the network takes them in this order.
        let rules = self.controller.with_config(|config| config.rules.clone());
        if policy::may_act(&rules, peer, self.owner, Role::Watch).is_ok() {
            return answer(&service.report());
        }
        let may = |host: &str| policy::may_call(&rules, peer, self.owner, host, None).is_ok();
        let told = service.look(|exchange| exchange.report_of(peer.uid, may, service.now()));
        answer(&told)
    }

    /// Many steps of a session. `None`: it has to wait.
    fn steps(
        &self,
        peer: &Peer,
        (session, user): (u64, User),
        host: &str,
        steps: Vec<calls::Step>,
        wait: bool,
    ) -> Result<Option<String>> {
        if steps.len() > MAX_STEPS {
            return Err(anyhow!(
                "{} steps in one request: send {MAX_STEPS} at most, and others with the next",
                steps.len()
            ));
        }
        let service: &Service = self.controller.calls();
        // Once for all of them: reasons of single steps do not repeat the name of a host that is not there.
        service.look(|exchange| exchange.addresses(host).map(drop))?;
        // Before the lock of calls: whoever changes the network takes them in this order.
        let steps = self.controller.with_config(|config| {
            let may = |to: &Aesa| policy::may_call(&config.rules, peer, self.owner, host, Some(to));
            steps.into_iter().map(|step| read(step, may)).collect()
        });
        let answered = service.with(|exchange, now| exchange.steps(session, user, host, steps, wait, now));
        answered.map(|answered| answer(&answered)).transpose()
    }
}

/// A step, if the user may take it.
fn read(step: calls::Step, may: impl Fn(&Aesa) -> Result<(), String>) -> Result<steps::Step, String> {
    Ok(match step {
        calls::Step::Call { to, sap: text, traffic, backward } => {
            let said = |e: anyhow::Error| format!("{e:#}");
            let (to, sap) = (address(&to).map_err(said)?, sap(text.as_deref()).map_err(said)?);
            may(&to)?;
            let forward = traffic.unwrap_or_default();
            let backward = backward.unwrap_or_else(|| forward.clone());
            steps::Step::Call { to, sap, ways: Box::new([forward, backward]) }
        }
        calls::Step::Accept { call } => steps::Step::Accept(call),
        calls::Step::Release { call, cause: number } => steps::Step::Release(call, cause(number)),
    })
}
