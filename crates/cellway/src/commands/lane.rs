//! `cellway lane`: LAN emulation, the servers of a LAN and stations with a TAP device.

use crate::client::{self, Size, goes_on, interrupted};
use crate::context::Context;
use crate::exit_status::{OrUsage, Usage};
use crate::names::Destination;
use crate::output;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use control::config::parse_address;
use control::results::{LaneJoined, LaneServing};
use stack::device::lane::{Servers, Station};
use stack::device::tun::{Device, DeviceSettings};
use wire::q2931::Octets;

/// Octets of the longest packet in an Ethernet frame.
const MTU: usize = 1500;

/// LAN emulation (af-lane-0021): an Ethernet over calls.
#[derive(Debug, Subcommand)]
pub(crate) enum LaneCommand {
    /// Run the servers of a LAN: LECS, LES and BUS under selectors 1, 2 and 3 of the host's address
    Serve(Serve),
    /// Join a LAN with a TAP device, until Ctrl-C
    Tap(Tap),
}

/// The servers of a LAN.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The host whose address the servers use
    host: String,
    /// The LAN's name, at most 32 octets
    #[arg(long = "lan", default_value = "")]
    lan: String,
    /// Stations at a time; more are refused
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
}

/// A station.
#[derive(Debug, Args)]
pub(crate) struct Tap {
    /// The host
    host: String,
    /// The address or name of the LECS, or of the LES with --les
    server: Destination,
    /// The address is that of the LES; do not ask a LECS
    #[arg(long)]
    les: bool,
    /// The LAN's name [default: the server's choice]
    #[arg(long = "lan", default_value = "")]
    lan: String,
    /// The device's name
    #[arg(long, default_value = "lec0")]
    name: String,
    /// The device's IPv4 address with prefix length, such as 10.0.0.1/24
    #[arg(long)]
    address: String,
}

fn lan_name(name: &str) -> Result<Octets<32>> {
    Octets::new(name.as_bytes())
        .ok_or_else(|| Usage::error(format!("--lan: a LAN's name has 32 octets at most, not {}", name.len())))
}

/// `cellway lane`
pub(crate) fn run(context: &Context, command: &LaneCommand) -> Result<()> {
    match command {
        LaneCommand::Serve(serve) => run_serve(context, serve),
        LaneCommand::Tap(tap) => run_tap(context, tap),
    }
}

fn run_serve(context: &Context, serve: &Serve) -> Result<()> {
    let stop = interrupted()?;
    let Serve { host, lan, clients } = serve;
    let name = lan_name(lan)?;
    let endpoints = [
        client::endpoint(context, host, Size::Small)?,
        client::endpoint(context, host, Size::Small)?,
        client::endpoint(context, host, Size::Large)?,
    ];
    let mut servers = Servers::new(&context.socket, host, name, usize::from(*clients), endpoints)?;
    let [lecs, les, bus] = servers.addresses().map(|address| address.to_string());
    let serving = LaneServing { lan: lan.clone(), host: host.clone(), lecs, les, bus };
    // From here on calls are taken: who has started this process waits for it.
    if context.json {
        output::say(&serving)?;
    } else {
        output::print_lines(&format!("LECS {}\nLES  {}\nBUS  {}", serving.lecs, serving.les, serving.bus))?;
    }
    Ok(servers.run(|_| !goes_on(&stop))?)
}

fn run_tap(context: &Context, tap: &Tap) -> Result<()> {
    let stop = interrupted()?;
    let (address, prefix) = parse_address(&tap.address).context("--address").or_usage()?;
    let lan = lan_name(&tap.lan)?;
    let endpoint = client::endpoint(context, &tap.host, Size::Large)?;
    let mut station = Station::new(&context.socket, &tap.host, endpoint, tap.server.address(context)?, tap.les, lan)?;
    let device = Device::new(&DeviceSettings {
        name: tap.name.clone(),
        address: Some((address, prefix)),
        ipv6: None,
        mac: None,
        mtu: MTU,
        ethernet: true,
        offload: false,
        takes_long: false,
        namespace: None,
    })?;
    device.set_mac(station.mac())?;
    let mut said = None;
    let json = context.json;
    let mut failed = None;
    station.run(&device, |station| {
        let lecid = station.client().lecid().filter(|_| station.client().is_up());
        if std::mem::replace(&mut said, lecid) != lecid {
            let joined = LaneJoined {
                device: tap.name.clone(),
                address: station.own().to_string(),
                mac: station.mac().map(|octet| format!("{octet:02x}")).join(":"),
                lecid,
            };
            failed = say(json, &joined).err();
        }
        failed.is_some() || !goes_on(&stop)
    })?;
    failed.map_or(Ok(()), Err)
}

/// Whether the station is in the LAN, each time that changes.
fn say(json: bool, joined: &LaneJoined) -> Result<()> {
    if json {
        return output::say(joined);
    }
    let LaneJoined { device, mac, lecid, .. } = joined;
    output::print_lines(&match lecid {
        Some(lecid) => format!("{device}: {mac} is in the LAN, LEC {lecid}"),
        None => format!("{device}: {mac} is not in the LAN any more"),
    })
}
