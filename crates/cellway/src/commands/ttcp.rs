//! `cellway ttcp`: the classic, over a circuit. As over UDP, small PDUs say begin and end, so that it measures against
//! other ttcps for ATM too. Those of ours say how many PDUs are between them (`marks`).
//!
//! PDUs leave and come by a [`Transport`]: here the endpoint's buffers; the laboratory's program has others.

mod marks;
mod sdus;

pub use sdus::{Sdus, pattern};

use crate::client::{Size, goes_on, interrupted};
use crate::context::Context;
use crate::far_end::UNATTENDED;
use crate::names::Destination;
use crate::output;
use crate::ready::Ready;
use crate::target::{self, Held, Purpose, Role};
use anyhow::{Result, bail};
use clap::Args;
use control::delivery::Delivery;
use control::results::Ttcp as Figures;
use endpoint::calls::Sap;
use endpoint::{Aal, ChannelId, Endpoint, SendError};
use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// A PDU no longer than this says begin or end.
const MARK_OCTETS: usize = 16;

/// PDUs that are sent unless told otherwise.
const COUNT: u64 = 2048;

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
    /// The circuit there, vpi.vci; or an address or name, which -t calls and at which -r answers, as stock ttcp_atm does: give
    /// both sides the same -l
    circuit: Destination,
    /// Octets in each PDU
    #[arg(short = 'l', long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(17..=MOST_OCTETS as i64))]
    pub length: u32,
    /// Number of PDUs [default: 2048; with -r, what the transmitter says]
    #[arg(short = 'n', long)]
    count: Option<u64>,
    /// The adaptation layer: both sides the same
    #[arg(long, value_enum, default_value_t = Layer::Aal5)]
    pub aal: Layer,
    /// Number the PDUs and compare received with sent data; both sides the same
    #[arg(long)]
    pub check: bool,
    /// Fail if any PDU is not delivered
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    ready: Ready,
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

    /// The next SDU, with its octets if they are `wanted`, or if it is so short that it may be a mark; `None`, if none comes within `patience`.
    fn receive(&mut self, endpoint: &mut Endpoint, patience: Duration, wanted: bool) -> Result<Option<Received>> {
        let received = endpoint.receive(Some(patience))?;
        Ok(received.map(|sdu| (sdu.len(), (wanted || sdu.len() <= MARK_OCTETS).then(|| sdu.to_vec()))))
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
    before_last: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    push(endpoint, stop, |endpoint| endpoint.send_copy(channel, first))?;
    let begin = Instant::now();
    for _ in 0..count {
        push(endpoint, stop, &mut send)?;
    }
    while !endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(stop) {}
    let took = begin.elapsed();
    before_last()?;
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
    output::print(context, &figures, || text(&figures))?;
    failed(ttcp, &figures)
}

/// Fails if PDUs were lost that were not to be.
fn failed(ttcp: &Ttcp, figures: &Figures) -> Result<()> {
    let lost = figures.delivery.as_ref().and_then(Delivery::text);
    match lost {
        Some(lost) if ttcp.strict => bail!(lost),
        _ if ttcp.strict && figures.pdus_lost.is_some_and(|n| n > 0) => bail!("{}", text(figures)),
        _ => Ok(()),
    }
}

/// Transmits or receives, from begin to end.
pub fn measure(context: &Context, ttcp: &Ttcp, transport: &mut impl Transport) -> Result<Figures> {
    let stop = interrupted()?;
    let role = if ttcp.transmit { Role::Calls } else { Role::Listens };
    let (aal, size) = transport.endpoint(ttcp.aal.into());
    let ready = ttcp.receive.then_some(ttcp.ready);
    ttcp.ready.check()?;
    let (sap, sdu_octets, sends) = (Sap::TTCP, u16::try_from(ttcp.length)?, ttcp.transmit);
    let purpose = Purpose { aal, size, sap, sdu_octets, sends, ready, ..Purpose::new(role) };
    let (mut endpoint, channel, held) = target::open(context, &ttcp.host, ttcp.circuit.resolve(context)?, purpose)?;
    transport.begin(&mut endpoint, held.circuit)?;
    if ttcp.receive {
        return receive(&mut endpoint, &held, transport, ttcp, &stop);
    }
    let mut sdus = Sdus::new(ttcp.length as usize, ttcp.check);
    let count = ttcp.count.unwrap_or(COUNT);
    let marks = marks::of(count).map(|mark| transport.frame(&mark, None).into_owned());
    let send = |endpoint: &mut Endpoint| {
        transport.send(endpoint, channel, &mut sdus)?;
        sdus.taken();
        Ok(())
    };
    // Before the last marks: whoever has one of them goes.
    let mut sent = None;
    let look = || held.path.sent(&|| goes_on(&stop)).map(|found| sent = found);
    let sent_pdus = if held.missing.is_some() { count.min(UNATTENDED) } else { count };
    let took = transmit(&mut endpoint, channel, sent_pdus, &stop, [&marks[0], &marks[1]], send, look)?;
    if let Some(missing) = held.missing {
        return Err(missing);
    }
    let mut figures = Figures::new("transmit", count * u64::from(ttcp.length), count, took);
    if let Some(sent) = sent {
        sent.check(false)?;
        figures.delivery = Some(sent.delivery);
    }
    Ok(figures)
}

/// Receives from begin to end.
fn receive(
    endpoint: &mut Endpoint,
    held: &Held,
    transport: &mut impl Transport,
    ttcp: &Ttcp,
    stop: &AtomicBool,
) -> Result<Figures> {
    let (mut octets, mut pdus, mut changed) = (0u64, 0u64, 0u64);
    let mut said = None;
    let mut begin: Option<Instant> = None;
    let mut last = Instant::now();
    while goes_on(stop) {
        let Some((came, sdu)) = transport.receive(endpoint, Duration::from_millis(100), ttcp.check)? else {
            if begin.is_some() && last.elapsed() > Duration::from_secs(5) {
                break;
            }
            continue;
        };
        if came <= MARK_OCTETS {
            said = said.or(sdu.as_deref().and_then(marks::count));
        }
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
    figures.pdus_expected = ttcp.count.or(said);
    figures.pdus_lost = figures.pdus_expected.map(|expected| expected.saturating_sub(pdus));
    figures.pdus_changed = ttcp.check.then_some(changed);
    figures.delivery = held.path.received()?;
    Ok(figures)
}

/// What was measured, in a line.
pub fn text(f: &Figures) -> String {
    let expected = f.pdus_expected.unwrap_or_default();
    let lost = f.pdus_lost.map(|n| format!(", {n} of {expected} lost")).unwrap_or_default();
    let changed = f.pdus_changed.map(|n| format!(", {n} changed")).unwrap_or_default();
    let missing = f.delivery.as_ref().and_then(Delivery::text).map(|text| format!("\n{text}")).unwrap_or_default();
    format!(
        "ttcp {}: {} octets in {} PDUs, {:.3} s: {:.2} Mbit/s of 10^6, {:.2} Mbit/s of 2^20, {:.0} PDUs/s{lost}{changed}{missing}",
        f.role, f.octets, f.pdus, f.seconds, f.mbit_per_s, f.mbit_2_20_per_s, f.pdus_per_s,
    )
}
