//! What steps need: the sockets and devices that are outside at links, switches, and stations of registered kinds, made.
//! Making one may take long, so this is no work for the network's thread.

use crate::adapters::Adapters;
use crate::config::{self, Shell};
use crate::step::{Need, PreparedResource};
use anyhow::{Context as _, Result, anyhow};
use net::external::External;
use net::{Room, SwitchElement};
use stack::device::tun::Line;

/// Stations that an ATMARP server knows at most.
pub const MAX_STATIONS: usize = 4096;

/// Makes what a step needs.
///
/// # Errors
/// The system refuses a socket or a device, or a certificate cannot be used.
pub fn make(need: &Need, adapters: &Adapters) -> Result<PreparedResource> {
    Ok(match need {
        Need::Shell(shell) | Need::Anew(shell) => match &**shell {
            Shell::Adapter(served) => PreparedResource::Adapter(adapters.make(served, matches!(need, Need::Anew(_)))?),
            shell => PreparedResource::Shell(outside(shell)?),
        },
        Need::Switch { name, config } => {
            let mut switch = Box::new(SwitchElement::new(*config).named(name));
            switch.touch();
            PreparedResource::Switch(switch)
        }
        Need::Room { had, wanted } => PreparedResource::Room(Box::new(Room::new(*had, *wanted)?)),
        Need::Station(layout) => PreparedResource::Station(layout.make()?),
    })
}

/// Makes what is to be outside at a link; an adapter is made by [`crate::adapters`].
fn outside(shell: &Shell) -> Result<Box<dyn External>> {
    Ok(match shell {
        Shell::Adapter(served) => return Err(anyhow!("adapter {} is not made here", served.name)),
        Shell::Interface(device) => Box::new(interface(device).with_context(|| format!("interface {}", device.name))?),
        Shell::Own(end) => end.make()?,
        Shell::AtmTcp { role, tls, .. } => {
            let tls = tls.as_ref().map(links::tcp::Tls::new).transpose().context("tls")?;
            Box::new(links::tcp::Shell::with_tls(*role, tls).with_context(|| format!("{role:?}"))?)
        }
        Shell::Tcp { role, tls } => {
            let tls = tls.as_ref().map(links::tcp::Tls::new).transpose().context("tls")?;
            Box::new(links::tcp::Shell::of_cells(*role, tls).with_context(|| format!("{role:?}"))?)
        }
        Shell::Pseudowire(wire) => {
            let config = wire.config()?;
            let shell = links::udp::pseudowire::PseudowireShell::new(wire.local, wire.peer, config);
            Box::new(shell.with_context(|| format!("UDP {}", wire.local))?)
        }
        Shell::Udp(udp) => {
            let form = udp.form()?;
            Box::new(links::udp::Shell::new(udp.local, udp.peer, form).with_context(|| format!("UDP {}", udp.local))?)
        }
    })
}

fn interface(device: &config::Device) -> Result<Line> {
    let mut line = Line::new(&device.settings, device.peers.clone(), device.atmarp_server)?;
    for (mac, circuit) in &device.stations {
        line.ip().set_station(*mac, Some(circuit.key()));
    }
    for route in &device.routes {
        route.add_to(line.ip());
    }
    if device.serve_atmarp {
        line.ip().serve(MAX_STATIONS, wire::Time::ZERO);
    }
    Ok(line)
}
