//! `cellway ttcp`: the classic, over a circuit. As over UDP, small PDUs say begin and end, so that it measures against
//! other ttcps for ATM too.
//!
//! PDUs leave and come by a [`Transport`]: here the endpoint's buffers; the laboratory's program has others.

mod sdus;

pub use sdus::{Sdus, pattern};

use crate::client::{Size, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::target::{self, Purpose, Role, Target};
use anyhow::{Result, bail};
use clap::Args;
use control::results::Ttcp as Figures;
use endpoint::calls::Sap;
use endpoint::{Aal, ChannelId, Endpoint, SendError};
use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// A PDU no longer than this says begin or end.
const MARK_OCTETS: usize = 16;

/// Octets of the longest SDU of AAL5.
pub const MOST_OCTETS: u32 = wire::aal5::MAX_SDU_OCTETS as u32;

/// Measures throughput: run `cellway ttcp -r beta 0.100` first, then `cellway ttcp -t alpha 0.100`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("role").required(true))]
pub struct Ttcp {
    /// Transmit
    #[arg(short = 't', group = "role")]
    pub transmit: bool,
    /// Receive
    #[arg(short = 'r', group = "role")]
    pub receive: bool,
    /// The host
    host: String,
    /// The circuit there, vpi.vci; or an address, which -t calls and -r is called under, as stock ttcp_atm does: give
    /// both sides the same -l
    circuit: Target,
    /// Octets in each PDU
    #[arg(short = 'l', long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(17..=MOST_OCTETS as i64))]
    pub length: u32,
    /// How many PDUs
    #[arg(short = 'n', long, default_value_t = 2048)]
    count: u64,
    /// The adaptation layer: both sides the same
    #[arg(long, value_enum, default_value_t = Layer::Aal5)]
    pub aal: Layer,
    /// Number the PDUs and compare what comes with what was sent; both sides the same
    #[arg(long)]
    pub check: bool,
}

/// Adaptation layers with SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Layer {
    /// I.363.5
    Aal5,
    /// I.363.3
    Aal34,
}

impl From<Layer> for Aal {
    fn from(layer: Layer) -> Self {
        match layer {
            Layer::Aal5 => Aal::Aal5,
            Layer::Aal34 => Aal::Aal34,
        }
    }
}

/// An SDU that came: its octets, and what they are if somebody wants to know.
pub type Received = (usize, Option<Vec<u8>>);

/// How PDUs leave and come. What is not given is as for the endpoint's own buffers.
pub trait Transport {
    /// What the endpoint carries, and its room.
    fn endpoint(&self, aal: Aal) -> (Aal, Size) {
        (aal, Size::Large)
    }

    /// The endpoint is there, and its circuit is open.
    fn begin(&mut self, _: &mut Endpoint, _: CircuitId) -> Result<()> {
        Ok(())
    }

    /// The PDU with these data: that of an SDU's number, or one that says begin or end.
    fn frame<'d>(&self, data: &'d [u8], _number: Option<u64>) -> Cow<'d, [u8]> {
        Cow::Borrowed(data)
    }

    /// Sends the next SDU.
    fn send(&mut self, endpoint: &mut Endpoint, channel: ChannelId, sdus: &mut Sdus) -> Result<(), SendError> {
        endpoint.send_copy(channel, sdus.pdu(self))
    }

    /// The next SDU, with its octets if they are `wanted`; `None`, if none comes within `patience`.
    fn receive(&mut self, endpoint: &mut Endpoint, patience: Duration, wanted: bool) -> Result<Option<Received>> {
        Ok(endpoint.receive(Some(patience))?.map(|sdu| (sdu.len(), wanted.then(|| sdu.to_vec()))))
    }
}

/// By the endpoint's buffers.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Transport for Plain {}

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
    let figures = measure(context, ttcp, &mut Plain)?;
    output::print(context, &figures, || text(&figures))
}

/// Transmits or receives, from begin to end.
pub fn measure(context: &Context, ttcp: &Ttcp, transport: &mut impl Transport) -> Result<Figures> {
    let stop = interrupted()?;
    let role = if ttcp.transmit { Role::Calls } else { Role::Listens };
    let (aal, size) = transport.endpoint(ttcp.aal.into());
    let purpose = Purpose { aal, size, sap: Sap::TTCP, sdu_octets: u16::try_from(ttcp.length)?, ..Purpose::new(role) };
    let (mut endpoint, channel, held) = target::open(context, &ttcp.host, ttcp.circuit, purpose)?;
    transport.begin(&mut endpoint, held.circuit)?;
    if ttcp.receive {
        return receive(&mut endpoint, transport, ttcp, &stop);
    }
    let mut sdus = Sdus::new(ttcp.length as usize, ttcp.check);
    let marks = [b"ttcp", b"done"].map(|mark| transport.frame(mark, None).into_owned());
    let send = |endpoint: &mut Endpoint| {
        transport.send(endpoint, channel, &mut sdus)?;
        sdus.taken();
        Ok(())
    };
    let took = transmit(&mut endpoint, channel, ttcp.count, &stop, [&marks[0], &marks[1]], send)?;
    Ok(Figures::new("transmit", ttcp.count * u64::from(ttcp.length), ttcp.count, took))
}

/// Receives from begin to end.
fn receive(endpoint: &mut Endpoint, transport: &mut impl Transport, ttcp: &Ttcp, stop: &AtomicBool) -> Result<Figures> {
    let (mut octets, mut pdus, mut changed) = (0u64, 0u64, 0u64);
    let mut begin: Option<Instant> = None;
    let mut last = Instant::now();
    while goes_on(stop) {
        let Some((came, sdu)) = transport.receive(endpoint, Duration::from_millis(100), ttcp.check)? else {
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

/// What was measured, in a line.
pub fn text(f: &Figures) -> String {
    let expected = f.pdus_expected.unwrap_or_default();
    let lost = f.pdus_lost.map(|n| format!(", {n} of {expected} lost")).unwrap_or_default();
    let changed = f.pdus_changed.map(|n| format!(", {n} changed")).unwrap_or_default();
    format!(
        "ttcp {}: {} octets in {} PDUs, {:.3} s: {:.2} Mbit/s of 10^6, {:.2} Mbit/s of 2^20, {:.0} PDUs/s{lost}{changed}",
        f.role, f.octets, f.pdus, f.seconds, f.mbit_per_s, f.mbit_2_20_per_s, f.pdus_per_s,
    )
}
