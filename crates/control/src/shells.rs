//! What is at the outside of a link: the sockets, devices and adapters of a description, made and attached.

use crate::adapters::Adapters;
use crate::config::{self, Shell};
use anyhow::{Context as _, Result, anyhow};
use host::engine::Core;
use net::LinkId;
use stack::device::tun::Line;

/// Stations that an ATMARP server knows at most.
pub const MAX_STATIONS: usize = 4096;

/// Puts a socket at the outside of a link.
pub fn attach(core: &mut Core, adapters: &Adapters, id: LinkId, shell: &Shell) -> Result<()> {
    // What was there before may listen where the new one will.
    let old = if matches!(shell, Shell::Adapter(_)) { None } else { core.network.detach(id) };
    drop(old);
    let external: Box<dyn net::external::External> = match shell {
        Shell::Adapter(served) => return adapters.plug(core, served, id),
        Shell::Interface(device) => Box::new(interface(device).with_context(|| format!("interface {}", device.name))?),
        Shell::AtmTcp { role, tls, .. } => {
            let tls = tls.as_ref().map(net::atmtcp::Tls::new).transpose().context("tls")?;
            Box::new(net::atmtcp::Shell::with_tls(*role, tls).with_context(|| format!("{role:?}"))?)
        }
        Shell::Udp(udp) => {
            let form = match udp.form.as_str() {
                "cell" => net::udp::Form::Cell(wire::octets::Format::Uni),
                "batch" => net::udp::Form::Batch,
                other => return Err(anyhow!("form = \"{other}\": write cell or batch")),
            };
            Box::new(net::udp::Shell::new(udp.local, udp.peer, form).with_context(|| format!("UDP {}", udp.local))?)
        }
    };
    if !core.network.attach(id, external) {
        return Err(anyhow!("the link has no outside end"));
    }
    Ok(())
}

fn interface(device: &config::Device) -> Result<Line> {
    let mut line = Line::new(&device.settings, device.peers.clone(), device.atmarp_server)?;
    for (network, prefix, via) in &device.routes {
        line.ip().add_route(*network, *prefix, *via);
    }
    if device.serve_atmarp {
        line.ip().serve(MAX_STATIONS, wire::Time::ZERO);
    }
    Ok(line)
}
