//! `cellway ttcp`: the classic, over a circuit. As over UDP, small PDUs say begin and end, so that it measures against
//! other ttcps for ATM too.

use crate::client::{Size, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::target::{self, Role, Target};
use anyhow::{Result, bail};
use clap::Args;
use endpoint::{Aal, Endpoint, SendError};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A PDU no longer than this says begin or end.
pub(crate) const MARK_OCTETS: usize = 16;

/// Measures throughput: run `cellway ttcp -r beta 0.100` first, then `cellway ttcp -t alpha 0.100`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("role").required(true))]
pub(crate) struct Ttcp {
    /// Transmit
    #[arg(short = 't', group = "role")]
    transmit: bool,
    /// Receive
    #[arg(short = 'r', group = "role")]
    receive: bool,
    /// The host
    host: String,
    /// The circuit there, vpi.vci; or an address, which -t calls and -r is called under
    circuit: Target,
    /// Octets in each PDU
    #[arg(short = 'l', long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(17..=65535))]
    length: u32,
    /// How many PDUs
    #[arg(short = 'n', long, default_value_t = 2048)]
    count: u64,
    /// The adaptation layer: both sides the same
    #[arg(long, value_enum, default_value_t = Layer::Aal5)]
    aal: Layer,
}

/// Adaptation layers with SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layer {
    Aal5,
    Aal34,
}

fn figures(role: &str, octets: u64, pdus: u64, took: Duration) -> Value {
    let bits = octets as f64 * 8.0;
    let seconds = took.as_secs_f64().max(1e-9);
    json!({
        "role": role, "octets": octets, "pdus": pdus, "seconds": took.as_secs_f64(),
        "mbit_per_s": bits / 1e6 / seconds, "mbit_2_20_per_s": bits / f64::from(1 << 20) / seconds,
        "pdus_per_s": pdus as f64 / seconds,
    })
}

/// Sends so many PDUs between begin and end; gives the time until the last was taken.
pub(crate) fn transmit(
    endpoint: &mut Endpoint,
    channel: endpoint::ChannelId,
    length: usize,
    count: u64,
    stop: &AtomicBool,
) -> Result<Duration> {
    let push = |endpoint: &mut Endpoint, sdu: &[u8]| -> Result<()> {
        while let Err(e) = endpoint.send_copy(channel, sdu) {
            if e != SendError::Full {
                bail!(e);
            }
            endpoint.wait_send(Some(Duration::from_millis(200)))?;
            if !goes_on(stop) {
                bail!("interrupted");
            }
        }
        Ok(())
    };
    let sdu: Vec<u8> = (0..length).map(|i| b' ' + (i % 95) as u8).collect();
    push(endpoint, b"ttcp")?;
    let begin = Instant::now();
    for _ in 0..count {
        push(endpoint, &sdu)?;
    }
    while !endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(stop) {}
    let took = begin.elapsed();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(20));
        push(endpoint, b"done")?;
    }
    endpoint.wait_sent(Some(Duration::from_secs(1)))?;
    Ok(took)
}

/// `cellway ttcp`
pub(crate) fn run(context: &Context, ttcp: &Ttcp) -> Result<()> {
    let stop = interrupted()?;
    let aal = match ttcp.aal {
        Layer::Aal5 => Aal::Aal5,
        Layer::Aal34 => Aal::Aal34,
    };
    let role = if ttcp.transmit { Role::Calls } else { Role::Listens };
    let (mut endpoint, channel, _held) = target::open(context, &ttcp.host, ttcp.circuit, role, aal, Size::Large)?;
    let result = if ttcp.transmit {
        let took = transmit(&mut endpoint, channel, ttcp.length as usize, ttcp.count, &stop)?;
        figures("transmit", ttcp.count * u64::from(ttcp.length), ttcp.count, took)
    } else {
        let (mut octets, mut pdus) = (0u64, 0u64);
        let mut begin: Option<Instant> = None;
        let mut last = Instant::now();
        while goes_on(&stop) {
            let Some(sdu) = endpoint.receive(Some(Duration::from_millis(100)))? else {
                if begin.is_some() && last.elapsed() > Duration::from_secs(5) {
                    break;
                }
                continue;
            };
            if sdu.len() <= MARK_OCTETS {
                if pdus > 0 {
                    break;
                }
                begin.get_or_insert_with(Instant::now);
                last = Instant::now();
                continue;
            }
            begin.get_or_insert_with(Instant::now);
            octets += sdu.len() as u64;
            pdus += 1;
            last = Instant::now();
        }
        let took = begin.map_or(Duration::ZERO, |b| last.saturating_duration_since(b));
        let mut figures = figures("receive", octets, pdus, took);
        figures["pdus_expected"] = ttcp.count.into();
        figures["pdus_lost"] = ttcp.count.saturating_sub(pdus).into();
        figures
    };
    output::print(context, &result, || text(&result))
}

fn text(v: &Value) -> String {
    let lost = v["pdus_lost"].as_u64().map(|n| format!(", {n} of {} lost", v["pdus_expected"])).unwrap_or_default();
    format!(
        "ttcp {}: {} octets in {} PDUs, {:.3} s: {:.2} Mbit/s of 10^6, {:.2} Mbit/s of 2^20, {:.0} PDUs/s{lost}",
        v["role"].as_str().unwrap_or_default(),
        v["octets"],
        v["pdus"],
        v["seconds"].as_f64().unwrap_or_default(),
        v["mbit_per_s"].as_f64().unwrap_or_default(),
        v["mbit_2_20_per_s"].as_f64().unwrap_or_default(),
        v["pdus_per_s"].as_f64().unwrap_or_default(),
    )
}
