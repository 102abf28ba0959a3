//! `cellway ip`: IP over ATM on a circuit, by a TUN device or by a TCP/IP stack in this process.

use crate::client::{self, Size, goes_on, interrupted};
use crate::ping::{statistics_json, statistics_text};
use crate::transfer::hex;
use crate::{Context, output};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use endpoint::Aal;
use serde_json::json;
use sha2::{Digest, Sha256};
use stack::device::inprocess::Host;
use stack::device::tun::Tun;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Where the interface is and what its address is.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// The host
    host: String,
    /// The circuit there, vpi.vci
    circuit: CircuitId,
    /// Address and prefix; without, the description's `ip` of the host
    #[arg(long)]
    address: Option<String>,
    /// Octets of the longest packet (RFC 1626)
    #[arg(long, default_value_t = stack::ip::MTU, value_parser = parse_mtu)]
    mtu: usize,
}

fn parse_mtu(s: &str) -> Result<usize, String> {
    s.parse().ok().filter(|m| (576..=65_000).contains(m)).ok_or_else(|| "an MTU is 576 to 65000".into())
}

/// IP over ATM.
#[derive(Debug, Subcommand)]
pub(crate) enum IpCommand {
    /// Join a TUN device to the circuit, until Ctrl-C (needs CAP_NET_ADMIN)
    Tun {
        #[command(flatten)]
        at: Where,
        /// The device's name
        #[arg(long, default_value = "atm0")]
        name: String,
    },
    /// Answer pings on the in-process stack, until Ctrl-C (needs no rights)
    Serve {
        #[command(flatten)]
        at: Where,
    },
    /// Ping over the circuit from the in-process stack
    Ping {
        #[command(flatten)]
        at: Where,
        /// Whom
        to: Ipv4Addr,
        /// How many
        #[arg(short = 'c', long, default_value_t = 4)]
        count: u32,
        /// Octets of data
        #[arg(short = 's', long, default_value_t = 56)]
        size: usize,
        /// Milliseconds from one to the next
        #[arg(short = 'i', long, default_value_t = 200)]
        interval_ms: u64,
    },
    /// Send a file by TCP from the in-process stack
    Send {
        #[command(flatten)]
        at: Where,
        /// To whom
        to: Ipv4Addr,
        /// The file
        file: PathBuf,
        /// TCP port
        #[arg(long, default_value_t = 5001)]
        port: u16,
    },
    /// Receive a file by TCP on the in-process stack
    Receive {
        #[command(flatten)]
        at: Where,
        /// The file
        file: PathBuf,
        /// TCP port
        #[arg(long, default_value_t = 5001)]
        port: u16,
    },
}

/// `10.0.0.1/24`
pub(crate) fn parse_address(text: &str) -> Result<(Ipv4Addr, u8)> {
    let form = || anyhow!("\"{text}\" is no address with a prefix: write such as 10.0.0.1/24");
    let (address, prefix) = text.split_once('/').ok_or_else(form)?;
    let prefix = prefix.parse().ok().filter(|p| *p <= 32).ok_or_else(form)?;
    Ok((address.parse().map_err(|_| form())?, prefix))
}

fn address(context: &Context, at: &Where) -> Result<(Ipv4Addr, u8)> {
    if let Some(text) = &at.address {
        return parse_address(text);
    }
    let status = crate::manage::ask(context, &crate::manage::Request::Status)?;
    let ip = status["hosts"][&at.host]["ip"].as_str();
    parse_address(ip.ok_or_else(|| anyhow!("host {} has no `ip` in the description: give --address", at.host))?)
}

fn in_process(context: &Context, at: &Where) -> Result<Host> {
    let (ip, prefix) = address(context, at)?;
    let (endpoint, channel) = client::open(context, &at.host, at.circuit, Aal::Aal5, Size::Large)?;
    Ok(Host::new(endpoint, ip, prefix, at.mtu, &[channel.0]))
}

/// `cellway ip`
pub(crate) fn run(context: &Context, command: &IpCommand) -> Result<()> {
    let stop = interrupted()?;
    match command {
        IpCommand::Tun { at, name } => {
            let (ip, prefix) = address(context, at)?;
            let (endpoint, channel) = client::open(context, &at.host, at.circuit, Aal::Aal5, Size::Large)?;
            let mut tun = Tun::new(name, endpoint, ip, prefix, at.mtu, &[channel.0])?;
            eprintln!("{name}: {ip}/{prefix}, MTU {}, on {} {}", at.mtu, at.host, at.circuit);
            tun.run(|| !goes_on(&stop))?;
            Ok(())
        }
        IpCommand::Serve { at } => {
            in_process(context, at)?.serve_until(|| !goes_on(&stop))?;
            Ok(())
        }
        IpCommand::Ping { at, to, count, size, interval_ms } => {
            let mut host = in_process(context, at)?;
            let s = host.ping(*to, *count, *size, Duration::from_millis(*interval_ms))?;
            output::print(context, &statistics_json(&s), || statistics_text(&s))?;
            if s.received == 0 {
                bail!("{to} does not answer");
            }
            Ok(())
        }
        IpCommand::Send { at, to, file, port } => {
            let mut input = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
            let mut host = in_process(context, at)?;
            let mut hash = Sha256::new();
            let begin = Instant::now();
            let octets = host.tcp_send(*to, *port, |room| {
                if !goes_on(&stop) {
                    return Err(std::io::Error::other("interrupted by the user"));
                }
                let n = input.read(room)?;
                hash.update(&room[..n]);
                Ok(n)
            })?;
            report(context, octets, hash, begin.elapsed())
        }
        IpCommand::Receive { at, file, port } => {
            let mut out = std::fs::File::create(file).with_context(|| format!("{}", file.display()))?;
            let mut host = in_process(context, at)?;
            let mut hash = Sha256::new();
            let mut begin = None;
            let mut failed = None;
            let octets = host.tcp_receive(*port, Duration::from_secs(60), |octets| {
                begin.get_or_insert_with(Instant::now);
                hash.update(octets);
                if let Err(e) = out.write_all(octets) {
                    failed.get_or_insert(e);
                }
            })?;
            if let Some(e) = failed {
                return Err(e).with_context(|| format!("{}", file.display()));
            }
            report(context, octets, hash, begin.map_or(Duration::ZERO, |b| b.elapsed()))
        }
    }
}

fn report(context: &Context, octets: u64, hash: Sha256, took: Duration) -> Result<()> {
    let mbit_s = octets as f64 * 8.0 / 1e6 / took.as_secs_f64().max(1e-9);
    let sha256 = hex(hash);
    let json = json!({ "octets": octets, "seconds": took.as_secs_f64(), "mbit_per_s": mbit_s, "sha256": sha256 });
    output::print(context, &json, || format!("{octets} octets by TCP, {mbit_s:.1} Mbit/s, SHA-256 {sha256}"))
}
