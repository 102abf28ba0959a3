//! Requests about Myrinets.

use crate::protocol::MyrinetSend;
use anyhow::{Result, anyhow};
use host::engine::EngineHandle;
use lanai::myrinet::{Job, Myrinet, Pace};

/// Begins to generate traffic.
pub(super) fn send(engine: &EngineHandle, send: MyrinetSend) -> Result<()> {
    engine.with(move |core| {
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
