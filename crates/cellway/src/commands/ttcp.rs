//! `cellway ttcp`: the classic, over a circuit. As over UDP, small PDUs say begin and end, so that it measures against
//! other ttcps for ATM too.

mod windows;

use crate::client::{Size, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::target::{self, Purpose, Role, Target};
use anyhow::{Result, bail};
use clap::Args;
use control::results::Ttcp as Figures;
use endpoint::calls::Sap;
use endpoint::{Aal, Endpoint, SendError};
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
    /// The circuit there, vpi.vci; or an address, which -t calls and -r is called under, as stock ttcp_atm does: give both sides
    /// the same -l
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
    /// Send from the pages of a window, or map received pages into one, instead of copying; each side for itself
    #[arg(long)]
    windows: bool,
}

/// Adaptation layers with SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layer {
    Aal5,
    Aal34,
}

/// Tries to send until there is room.
fn push(
    endpoint: &mut Endpoint,
    stop: &AtomicBool,
    mut send: impl FnMut(&mut Endpoint) -> Result<(), SendError>,
) -> Result<()> {
    while let Err(e) = send(endpoint) {
        if e != SendError::Full {
            bail!(e);
        }
        endpoint.wait_send(Some(Duration::from_millis(200)))?;
        if !goes_on(stop) {
            bail!("interrupted");
        }
    }
    Ok(())
}

/// What all PDUs hold.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| b' ' + (i % 95) as u8).collect()
}

/// Sends so many PDUs, by `send`, between begin and end; gives the time until the last was taken.
fn transmit(
    endpoint: &mut Endpoint,
    channel: endpoint::ChannelId,
    count: u64,
    stop: &AtomicBool,
    mut send: impl FnMut(&mut Endpoint) -> Result<(), SendError>,
) -> Result<Duration> {
    push(endpoint, stop, |endpoint| endpoint.send_copy(channel, b"ttcp"))?;
    let begin = Instant::now();
    for _ in 0..count {
        push(endpoint, stop, &mut send)?;
    }
    while !endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(stop) {}
    let took = begin.elapsed();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(20));
        push(endpoint, stop, |endpoint| endpoint.send_copy(channel, b"done"))?;
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
    let sdu_octets = u16::try_from(ttcp.length)?;
    if ttcp.windows && aal == Aal::Aal34 {
        bail!("windows carry AAL5: leave --windows or --aal aal34 away");
    }
    let size = if ttcp.windows { Size::Windows } else { Size::Large };
    let purpose = Purpose { aal, size, sap: Sap::TTCP, sdu_octets, ..Purpose::new(role) };
    let (mut endpoint, channel, _held) = target::open(context, &ttcp.host, ttcp.circuit, purpose)?;
    let length = ttcp.length as usize;
    let mut window = ttcp.windows.then(|| windows::Turns::new(&mut endpoint, length)).transpose()?;
    let mut result = if ttcp.transmit {
        let took = match &mut window {
            Some(window) => {
                let send = |endpoint: &mut Endpoint| window.send(endpoint, channel);
                transmit(&mut endpoint, channel, ttcp.count, &stop, send)?
            }
            None => {
                let sdu = pattern(length);
                let send = |endpoint: &mut Endpoint| endpoint.send_copy(channel, &sdu);
                transmit(&mut endpoint, channel, ttcp.count, &stop, send)?
            }
        };
        Figures::new("transmit", ttcp.count * u64::from(ttcp.length), ttcp.count, took)
    } else {
        receive(&mut endpoint, window.as_mut(), ttcp.count, &stop)?
    };
    result.windows = window.map(|window| window.done());
    output::print(context, &result, || text(&result))
}

/// Receives from begin to end.
fn receive(
    endpoint: &mut Endpoint,
    mut window: Option<&mut windows::Turns>,
    count: u64,
    stop: &AtomicBool,
) -> Result<Figures> {
    let (mut octets, mut pdus) = (0u64, 0u64);
    let mut begin: Option<Instant> = None;
    let mut last = Instant::now();
    while goes_on(stop) {
        let patience = Some(Duration::from_millis(100));
        let came = match &mut window {
            Some(window) => window.receive(endpoint, patience)?,
            None => endpoint.receive(patience)?.map(|sdu| sdu.len()),
        };
        let Some(came) = came else {
            if begin.is_some() && last.elapsed() > Duration::from_secs(5) {
                break;
            }
            continue;
        };
        if came <= MARK_OCTETS && pdus > 0 {
            break;
        }
        begin.get_or_insert_with(Instant::now);
        last = Instant::now();
        if came > MARK_OCTETS {
            octets += came as u64;
            pdus += 1;
        }
    }
    let took = begin.map_or(Duration::ZERO, |b| last.saturating_duration_since(b));
    let mut figures = Figures::new("receive", octets, pdus, took);
    figures.pdus_expected = Some(count);
    figures.pdus_lost = Some(count.saturating_sub(pdus));
    Ok(figures)
}

fn text(f: &Figures) -> String {
    let expected = f.pdus_expected.unwrap_or_default();
    let lost = f.pdus_lost.map(|n| format!(", {n} of {expected} lost")).unwrap_or_default();
    let windows = f.windows.map(|w| {
        format!(
            "\nby windows: {} pages protected, {} of them copied, {} received pages mapped, {} octets copied",
            w.pages_protected, w.pages_copied, w.pages_mapped, w.octets_copied
        )
    });
    let windows = windows.unwrap_or_default();
    format!(
        "ttcp {}: {} octets in {} PDUs, {:.3} s: {:.2} Mbit/s of 10^6, {:.2} Mbit/s of 2^20, {:.0} PDUs/s{lost}{windows}",
        f.role, f.octets, f.pdus, f.seconds, f.mbit_per_s, f.mbit_2_20_per_s, f.pdus_per_s,
    )
}
