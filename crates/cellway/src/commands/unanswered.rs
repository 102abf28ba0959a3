//! What `ping` and `trace` say where nothing answers: the last point of the circuit that does, or the link that OAM cells
//! cannot pass. In: cells that came, and what the service tells of the circuit. Out: cells to send, and sentences.

use crate::client::{self, Size, ask_for};
use crate::context::Context;
use anyhow::Result;
use control::protocol::Request;
use control::status::{CircuitStatus, EndStatus, LinkStatus};
use endpoint::Aal;
use stack::oam::{TraceConfig, Tracer};
use std::time::{Duration, Instant};
use wire::{Cell, CircuitId, Time};

/// Without any answer for so long, the points of the circuit are asked.
const AFTER: Duration = Duration::from_secs(1);
/// How long they may take: with [`AFTER`], less than three seconds.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a PDU may take to leave the host.
const PDU_PATIENCE: Duration = Duration::from_secs(2);
/// Octets of that PDU.
const PDU_OCTETS: usize = 40;

/// Looks for the last point that answers.
#[derive(Debug)]
pub(crate) struct Locator {
    tracer: Tracer,
    begins: Time,
    told: bool,
}

impl Locator {
    /// For a circuit whose pings wait so long; the tags are others than those of the pings.
    pub(crate) fn new(circuit: CircuitId, waits: Duration, first_tag: u32) -> Self {
        let config = TraceConfig { circuit, probes: 1, timeout: PATIENCE.min(waits / 2), first_tag };
        Locator { tracer: Tracer::new(config), begins: Time::ZERO + AFTER.min(waits / 4), told: false }
    }

    /// A cell that is due.
    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<Cell> {
        (!self.told && now >= self.begins).then(|| self.tracer.poll_transmit(now)).flatten()
    }

    /// A cell that came.
    pub(crate) fn handle_cell(&mut self, cell: &Cell, now: Time) {
        self.tracer.handle_cell(cell, now);
    }

    /// The last point that answered, once it is known, and once only; `host` if none did.
    pub(crate) fn poll_point(&mut self, host: &str, now: Time) -> Option<String> {
        self.tracer.handle_timeout(now);
        if self.told || !self.tracer.is_done() {
            return None;
        }
        self.told = true;
        Some(last_point(&self.tracer, host))
    }
}

/// The last point that answered a tracer; `host` if none did.
pub(crate) fn last_point(tracer: &Tracer, host: &str) -> String {
    tracer.hops().last().map_or_else(|| host.to_owned(), |hop| hop.location.to_string())
}

/// A link of a circuit's to outside that carries frames: ATM over TCP, which OAM cells cannot pass.
#[derive(Debug)]
pub(crate) struct FrameLink {
    name: String,
    up: bool,
    outside: String,
}

/// The first such link on the circuit's way, if the service knows the circuit.
pub(crate) fn frame_link(context: &Context, host: &str, circuit: CircuitId) -> Result<Option<FrameLink>> {
    let circuits: Vec<CircuitStatus> = ask_for(context, &Request::Circuits)?;
    let Some(found) = circuits.iter().find(|one| end_of(one, host, circuit).is_some()) else { return Ok(None) };
    let links: Vec<LinkStatus> = ask_for(context, &Request::Links)?;
    let on_the_way = |link: &LinkStatus| found.way.iter().any(|hop| hop.starts_with(&format!("{} ", link.name)));
    let link = links.into_iter().find(|link| link.carries == "frames" && link.outside.is_some() && on_the_way(link));
    Ok(link.map(|link| FrameLink { name: link.name, up: link.up, outside: link.outside.unwrap_or_default() }))
}

/// The end of a circuit at a host.
fn end_of<'a>(of: &'a CircuitStatus, host: &str, circuit: CircuitId) -> Option<&'a EndStatus> {
    of.ends.iter().find(|end| {
        let (station, label) = end.end.split_once(' ').unwrap_or_default();
        station.split(':').next() == Some(host) && label.parse() == Ok(circuit)
    })
}

impl FrameLink {
    /// Says that OAM cells cannot pass, and what became of a PDU.
    pub(crate) fn tested(&self, context: &Context, host: &str, circuit: CircuitId) -> String {
        let name = &self.name;
        let what = format!("OAM cells cannot pass {name}, which carries frames (ATM over TCP)");
        if !self.up {
            return format!("{what}; it is down: {}", self.outside);
        }
        match send_pdu(context, host, circuit) {
            Ok(Sent::Left) => format!("{what}; a PDU of {PDU_OCTETS} octets has left {host} for it, and {name} is up"),
            Ok(Sent::Dropped(why)) => format!("{what}; a PDU of {PDU_OCTETS} octets was dropped at {host}: {why}"),
            Ok(Sent::Waits) => format!("{what}; a PDU of {PDU_OCTETS} octets waits at {host}"),
            Err(e) => format!("{what}; no PDU was sent instead: {e:#}"),
        }
    }
}

/// What became of a PDU at its host.
enum Sent {
    Left,
    Dropped(String),
    Waits,
}

/// Sends one PDU over a circuit that nobody else has open.
fn send_pdu(context: &Context, host: &str, circuit: CircuitId) -> Result<Sent> {
    let counts = || -> Result<_> {
        let circuits: Vec<CircuitStatus> = ask_for(context, &Request::Circuits)?;
        let end = circuits.iter().find_map(|one| end_of(one, host, circuit));
        Ok(end.and_then(|end| end.sent.clone()).unwrap_or_default())
    };
    let (mut endpoint, channel) = client::open(context, host, circuit, Aal::Aal5, Size::Small)?;
    let before = counts()?;
    endpoint.send_copy(channel, &[0; PDU_OCTETS])?;
    let begun = Instant::now();
    loop {
        let now = counts()?;
        let more = |reason: &&String| now.dropped[*reason] > before.dropped.get(*reason).copied().unwrap_or(0);
        if let Some(reason) = now.dropped.keys().find(more) {
            return Ok(Sent::Dropped(reason.clone()));
        }
        if now.pdus > before.pdus {
            return Ok(Sent::Left);
        }
        if begun.elapsed() > PDU_PATIENCE {
            return Ok(Sent::Waits);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::oam::{Function, Location};

    #[test]
    fn the_last_point_is_told_within_three_seconds_and_once() {
        let circuit = "0.100".parse().unwrap();
        let mut locator = Locator::new(circuit, Duration::from_secs(5), 77);
        assert_eq!(locator.poll_transmit(Time::from_millis(999)), None);
        let every = locator.poll_transmit(Time::from_millis(1000)).unwrap();
        locator.poll_transmit(Time::from_millis(1000)).unwrap();
        let Ok(Function::Loopback(request)) = Function::parse(&every.payload) else { panic!("no loopback") };
        let answer = Function::Loopback(request.returned(Location::named("s2"))).emit();
        locator.handle_cell(&Cell::new(every.header(), answer), Time::from_millis(1001));
        assert_eq!(locator.poll_point("alpha", Time::from_millis(2499)), None);
        assert_eq!(locator.poll_point("alpha", Time::from_millis(2500)).as_deref(), Some("s2"));
        assert_eq!(locator.poll_point("alpha", Time::from_millis(2600)), None);
        assert_eq!(locator.poll_transmit(Time::from_millis(2600)), None);
    }

    #[test]
    fn without_any_answer_the_host_is_the_last_point() {
        let mut locator = Locator::new("0.100".parse().unwrap(), Duration::from_secs(5), 1);
        while locator.poll_transmit(Time::from_millis(1000)).is_some() {}
        assert_eq!(locator.poll_point("alpha", Time::from_millis(3000)).as_deref(), Some("alpha"));
    }
}
