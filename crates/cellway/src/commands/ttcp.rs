//! `cellway ttcp`: the classic, over a circuit. As over UDP, small PDUs say begin and end, so that it measures against
//! other ttcps for ATM too.

mod adapter;
mod sdus;
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

/// The port that datagrams are for: the classic program's.
const PORT: u16 = 5001;
/// Octets of LLC/SNAP, IP with the options that a datagram may have, and UDP.
const HEADER_OCTETS: u32 = 44;
/// Octets of the longest SDU of AAL5.
const MOST_OCTETS: u32 = wire::aal5::MAX_SDU_OCTETS as u32;

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
    #[arg(short = 'l', long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(17..=MOST_OCTETS as i64))]
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
    /// Receive by a modelled adapter whose driver guesses where data are wanted and maps pages there; the circuit's cells are its line
    #[arg(long, value_enum, conflicts_with = "windows")]
    adapter: Option<adapter::Model>,
    /// Send datagrams to UDP port 5001 over IP and LLC/SNAP, on a circuit that may have other users; receive them by an adapter
    #[arg(long, conflicts_with = "windows")]
    udp: bool,
    /// Of so many datagrams, send one with IP options
    #[arg(long, requires = "udp", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ip_options: Option<u64>,
    /// Octets to send behind each datagram
    #[arg(long, requires = "udp", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4096))]
    padding: u32,
    /// Number the PDUs and compare what comes with what was sent; both sides the same
    #[arg(long)]
    check: bool,
}

/// Adaptation layers with SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layer {
    Aal5,
    Aal34,
}

impl Ttcp {
    /// Refuses what does not go together.
    fn check_options(&self) -> Result<()> {
        if self.transmit && self.adapter.is_some() {
            bail!("--adapter receives: give it with -r");
        }
        if self.receive && (self.ip_options.is_some() || self.padding > 0) {
            bail!("--ip-options and --padding are the sender's: give them with -t");
        }
        if self.adapter.is_some() && self.aal == Layer::Aal34 {
            bail!("the adapters carry AAL5: leave --adapter or --aal aal34 away");
        }
        if self.udp && self.receive && self.adapter.is_none() {
            bail!("nobody takes datagrams apart here: give --adapter as well, or leave --udp away");
        }
        let room = MOST_OCTETS - HEADER_OCTETS - self.padding;
        if self.udp && self.length > room {
            bail!("a datagram of {} octets is too long with its headers: give -l {room} or less", self.length);
        }
        Ok(())
    }
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

/// Sends so many PDUs, by `send`, between those that say begin and end; gives the time until the last was taken.
fn transmit(
    endpoint: &mut Endpoint,
    channel: endpoint::ChannelId,
    count: u64,
    stop: &AtomicBool,
    [first, last]: [&[u8]; 2],
    mut send: impl FnMut(&mut Endpoint) -> Result<(), SendError>,
) -> Result<Duration> {
    push(endpoint, stop, |endpoint| endpoint.send_copy(channel, first))?;
    let begin = Instant::now();
    for _ in 0..count {
        push(endpoint, stop, &mut send)?;
    }
    while !endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(stop) {}
    let took = begin.elapsed();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(20));
        push(endpoint, stop, |endpoint| endpoint.send_copy(channel, last))?;
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
    ttcp.check_options()?;
    let (aal, size) = match (ttcp.adapter, ttcp.windows) {
        (Some(_), _) => (Aal::Aal0, Size::Cells),
        (None, true) => (aal, Size::Windows),
        (None, false) => (aal, Size::Large),
    };
    let purpose = Purpose { aal, size, sap: Sap::TTCP, sdu_octets, ..Purpose::new(role) };
    let (mut endpoint, channel, held) = target::open(context, &ttcp.host, ttcp.circuit, purpose)?;
    let length = ttcp.length as usize;
    let mut way = match ttcp.adapter {
        Some(model) => Way::Adapter(Box::new(adapter::Attached::new(model, held.circuit, ttcp.udp)?)),
        None if ttcp.windows => Way::Windows(windows::Turns::new(&mut endpoint, length)?),
        None => Way::Plain,
    };
    let mut result = match ttcp.transmit {
        true => Figures::new("transmit", ttcp.count * u64::from(ttcp.length), ttcp.count, {
            let mut sdus = sdus::Sdus::new(ttcp);
            let marks = [b"ttcp", b"done"].map(|mark| sdus.frame(mark, 0).into_owned());
            let send = |endpoint: &mut Endpoint| {
                match &mut way {
                    Way::Windows(window) => window.send(endpoint, channel, ttcp.check.then(|| sdus.data()))?,
                    _ => endpoint.send_copy(channel, sdus.pdu())?,
                }
                sdus.taken();
                Ok(())
            };
            transmit(&mut endpoint, channel, ttcp.count, &stop, [&marks[0], &marks[1]], send)?
        }),
        false => receive(&mut endpoint, &mut way, ttcp, &stop)?,
    };
    match &mut way {
        Way::Plain => {}
        Way::Windows(window) => result.windows = Some(window.done()),
        Way::Adapter(adapter) => result.adapter = Some(adapter.done(result.octets)),
    }
    output::print(context, &result, || text(&result))
}

/// How PDUs leave and come.
#[derive(Debug)]
enum Way {
    /// By the endpoint's buffers.
    Plain,
    Windows(windows::Turns),
    Adapter(Box<adapter::Attached>),
}

impl Way {
    /// The next SDU: its length, and its octets if they are `wanted`.
    fn receive(
        &mut self,
        endpoint: &mut Endpoint,
        patience: Duration,
        wanted: bool,
    ) -> Result<Option<(usize, Option<Vec<u8>>)>> {
        Ok(match self {
            Way::Plain => endpoint.receive(Some(patience))?.map(|sdu| (sdu.len(), wanted.then(|| sdu.to_vec()))),
            Way::Windows(window) => window.receive(endpoint, Some(patience), wanted)?,
            Way::Adapter(adapter) => adapter.receive(endpoint, patience)?.map(|sdu| (sdu.len(), wanted.then_some(sdu))),
        })
    }
}

/// Receives from begin to end.
fn receive(endpoint: &mut Endpoint, way: &mut Way, ttcp: &Ttcp, stop: &AtomicBool) -> Result<Figures> {
    let (mut octets, mut pdus, mut changed) = (0u64, 0u64, 0u64);
    let mut begin: Option<Instant> = None;
    let mut last = Instant::now();
    while goes_on(stop) {
        let Some((came, sdu)) = way.receive(endpoint, Duration::from_millis(100), ttcp.check)? else {
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
            let whole = sdu.is_none_or(|sdu| sdus::is_whole(&sdu, ttcp.length as usize));
            changed += u64::from(!whole);
        }
    }
    let took = begin.map_or(Duration::ZERO, |b| last.saturating_duration_since(b));
    let mut figures = Figures::new("receive", octets, pdus, took);
    figures.pdus_expected = Some(ttcp.count);
    figures.pdus_lost = Some(ttcp.count.saturating_sub(pdus));
    figures.pdus_changed = ttcp.check.then_some(changed);
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
    let changed = f.pdus_changed.map(|n| format!(", {n} changed")).unwrap_or_default();
    let adapter = f.adapter.as_ref().map(|a| {
        format!(
            "\nby {}: {} PDUs as predicted, {} not, {} for nobody, {} dropped; {} trailers repaired, {} changes of buffers; {} pages \
             mapped, {} octets copied; memory crossed {:.2} times",
            a.name,
            a.pdus_predicted,
            a.pdus_mispredicted,
            a.pdus_unclaimed,
            a.pdus_dropped,
            a.trailers_repaired,
            a.strategies_changed,
            a.pages_mapped,
            a.octets_copied,
            a.crossings
        )
    });
    let adapter = adapter.unwrap_or_default();
    format!(
        "ttcp {}: {} octets in {} PDUs, {:.3} s: {:.2} Mbit/s of 10^6, {:.2} Mbit/s of 2^20, {:.0} PDUs/s{lost}{changed}{windows}{adapter}",
        f.role, f.octets, f.pdus, f.seconds, f.mbit_per_s, f.mbit_2_20_per_s, f.pdus_per_s,
    )
}
