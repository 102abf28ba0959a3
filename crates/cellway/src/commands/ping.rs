//! `cellway ping`: OAM loopback (I.610).

use crate::client::{self, Size, goes_on, interrupted};
use crate::commands::unanswered::{Locator, frame_link};
use crate::context::Context;
use crate::names::Destination;
use crate::output;
use crate::target::{self, Purpose, Role};
use crate::units;
use anyhow::{Result, bail};
use clap::Args;
use control::results::Pinged;
use endpoint::{Aal, SendError};
use stack::oam::{PingConfig, PingOutcome, Pinger, Statistics};
use std::time::{Duration, Instant};
use wire::Time;
use wire::oam::Flow;

/// Sends OAM loopback cells and measures their round-trip times. The circuit may be in use: OAM cells do not disturb
/// its data.
#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci, or who is called: a host's name, a name of /etc/hosts.atm, or an address
    circuit: Destination,
    /// Number of cells
    #[arg(short = 'c', long, default_value_t = 4)]
    count: u32,
    /// Milliseconds between cells
    #[arg(short = 'i', long = "interval-ms", value_name = "MS", default_value = "200", value_parser = units::millis)]
    interval: Duration,
    /// Milliseconds to wait for an answer
    #[arg(short = 'W', long = "timeout-ms", value_name = "MS", default_value = "5000", value_parser = units::millis)]
    timeout: Duration,
    /// Ping the next segment end point (the first switch) instead of the far end
    #[arg(long)]
    segment: bool,
}

/// `cellway ping`
pub(crate) fn run(context: &Context, ping: &Ping) -> Result<()> {
    let stop = interrupted()?;
    client::within(ping.timeout);
    let purpose = Purpose { aal: Aal::Oam, size: Size::Small, ..Purpose::new(Role::Calls) };
    let (mut endpoint, channel, held) = target::open(context, &ping.host, ping.circuit.resolve(context)?, purpose)?;
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    let config = PingConfig {
        circuit: held.circuit,
        flow: if ping.segment { Flow::F5Segment } else { Flow::F5EndToEnd },
        count: ping.count,
        interval: ping.interval,
        timeout: ping.timeout,
        first_tag: std::process::id() << 12,
    };
    let mut pinger = Pinger::new(config, now());
    // The tags of pings have another first bit.
    let mut locator = Locator::new(held.circuit, config.timeout, config.first_tag ^ (1 << 31));
    let (mut answered, mut last_point) = (false, None);
    while !pinger.is_done() && goes_on(&stop) {
        while let Some(cell) = pinger.poll_transmit(now()) {
            match endpoint.send_copy(channel, &sar::aal0::to_message(&cell)) {
                // A request that does not fit is as good as lost.
                Ok(()) | Err(SendError::Full) => {}
                Err(e) => bail!(e),
            }
        }
        while !answered
            && !ping.segment
            && let Some(cell) = locator.poll_transmit(now())
        {
            let _ = endpoint.send_copy(channel, &sar::aal0::to_message(&cell));
        }
        let wait = pinger.poll_timeout().map_or(Duration::ZERO, |t| t.since(now())).min(Duration::from_millis(200));
        if let Some(message) = endpoint.receive(Some(wait))?
            && let Some(cell) = sar::aal0::to_cell(&message, held.circuit)
        {
            pinger.handle_cell(&cell, now());
            locator.handle_cell(&cell, now());
        }
        if !answered && let Some(point) = locator.poll_point(&ping.host, now()) {
            if !context.json {
                output::print_lines(&format!("no answer yet; the last point that answers is {point}"))?;
            }
            last_point = Some(point);
        }
        pinger.handle_timeout(now());
        while let Some(outcome) = pinger.poll_outcome() {
            answered |= matches!(outcome, PingOutcome::Answer { .. });
            if !context.json {
                match outcome {
                    PingOutcome::Answer { sequence, rtt } => {
                        let us = rtt.as_nanos() as f64 / 1e3;
                        output::print_lines(&format!("{} {}: seq {sequence}, {us:.1} us", ping.host, ping.circuit))?;
                    }
                    PingOutcome::Lost { sequence } => {
                        output::print_lines(&format!("{} {}: seq {sequence} lost", ping.host, ping.circuit))?;
                    }
                }
            }
        }
    }
    let s = pinger.statistics();
    let mut pinged = Pinged { last_point, ..Pinged::from(&s) };
    if s.received == 0 && !ping.segment {
        drop(endpoint);
        let frames = frame_link(context, &ping.host, held.circuit)?;
        pinged.pdu_test = frames.map(|link| link.tested(context, &ping.host, held.circuit));
    }
    output::print(context, &pinged, || statistics_text(&s))?;
    match (&pinged.pdu_test, &pinged.last_point) {
        _ if s.received > 0 => Ok(()),
        (Some(says), _) => bail!("no answer: {says}"),
        (None, Some(point)) => {
            bail!("no answer: the circuit {} is broken beyond {point}, or nobody is there", ping.circuit)
        }
        (None, None) => {
            bail!("no answer (is there a circuit {} all the way, and somebody at its far end?)", ping.circuit)
        }
    }
}

/// For people.
pub(crate) fn statistics_text(s: &Statistics) -> String {
    let lost = 100.0 * f64::from(s.sent - s.received) / f64::from(s.sent.max(1));
    let counts = format!("{} sent, {} received, {lost:.0}% lost", s.sent, s.received);
    if s.received == 0 {
        return counts;
    }
    let [min, mean, p99, max] = [s.min_us, s.mean_us, s.p99_us, s.max_us];
    format!("{counts}; round trip min/mean/p99/max {min:.1}/{mean:.1}/{p99:.1}/{max:.1} us")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_answer_no_round_trip_is_told() {
        let none = statistics_text(&Statistics::of(4, 4, &[]));
        assert_eq!(none, "4 sent, 0 received, 100% lost");
        let some = statistics_text(&Statistics::of(2, 1, &[Duration::from_micros(7)]));
        assert_eq!(some, "2 sent, 1 received, 50% lost; round trip min/mean/p99/max 7.0/7.0/7.0/7.0 us");
    }
}
