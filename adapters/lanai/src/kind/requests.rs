//! Requests about Myrinets, and what the command `cellway myrinet` shows of the answers.

use super::status::{self, MyrinetStatus};
use crate::myrinet::{Job, Myrinet, Pace};
use anyhow::{Result, anyhow};
use control::kinds::{RequestWords, Running};
use control::policy::Role;
use control::protocol::Done;
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};

/// What can be asked.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MyrinetRequest {
    /// All Myrinets, with their routes.
    Myrinets,
    /// Send messages over a Myrinet; what comes of it is in `myrinets`.
    MyrinetSend(MyrinetSend),
}

/// Messages that the traffic generator is to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MyrinetSend {
    /// The Myrinet.
    pub net: String,
    /// The host that sends.
    pub from: String,
    /// Those that receive; several are a group.
    pub to: Vec<String>,
    /// Octets of a message.
    pub octets: u32,
    /// How many messages.
    pub count: u32,
    /// Whether each is acknowledged before the next one.
    pub acknowledged: bool,
    /// Whether the host writes messages into the interface.
    pub immediate: bool,
}

/// The requests, in the order of their type.
pub(super) const WORDS: &[RequestWords] = &[
    RequestWords { name: "myrinets", needs: Role::Watch, answer: || schema_for!(Vec<MyrinetStatus>) },
    RequestWords { name: "myrinet_send", needs: Role::Manage, answer: || schema_for!(Done) },
];

/// Carries a request out; gives the answer as JSON text.
pub(super) fn serve(request: MyrinetRequest, running: &Running<'_>) -> Result<String> {
    Ok(match request {
        MyrinetRequest::Myrinets => {
            let all = running.stations.iter().filter_map(|name| status::of(running, name, true).transpose());
            serde_json::to_string(&all.collect::<Result<Vec<_>>>()?)?
        }
        MyrinetRequest::MyrinetSend(wanted) => {
            send(running, wanted)?;
            serde_json::to_string(&Done { done: true, not_kept: None })?
        }
    })
}

/// Begins to generate traffic.
fn send(running: &Running<'_>, send: MyrinetSend) -> Result<()> {
    running.engine.with(move |core| {
        let MyrinetSend { net, from, to, octets, count, acknowledged, immediate } = send;
        let node = core.fabric.node(&net).and_then(|id| core.network.node_mut::<Myrinet>(id));
        let net = node.ok_or_else(|| anyhow!("no Myrinet is called `{net}`"))?;
        let place = |host: &String| {
            let place = net.layout().hosts.iter().position(|own| own == host);
            place.ok_or_else(|| anyhow!("`{host}` is none of its hosts: {}", net.layout().hosts.join(", ")))
        };
        let (from, to) = (place(&from)?, to.iter().map(place).collect::<Result<_>>()?);
        let pace = if acknowledged { Pace::Acknowledged } else { Pace::Stream };
        Ok(net.generate(Job { from, to, octets, count, pace, immediate })?)
    })?
}
