//! `cellway ping`: OAM loopback (I.610).

use crate::client::{self, Size, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::target::{self, Purpose, Role, Target};
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
    /// The circuit there, vpi.vci, or the address to call
    circuit: Target,
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
    let (mut endpoint, channel, held) = target::open(context, &ping.host, ping.circuit, purpose)?;
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
    while !pinger.is_done() && goes_on(&stop) {
        while let Some(cell) = pinger.poll_transmit(now()) {
            match endpoint.send_copy(channel, &sar::aal0::to_message(&cell)) {
                // A request that does not fit is as good as lost.
                Ok(()) | Err(SendError::Full) => {}
                Err(e) => bail!(e),
            }
        }
        let wait = pinger.poll_timeout().map_or(Duration::ZERO, |t| t.since(now())).min(Duration::from_millis(200));
        if let Some(message) = endpoint.receive(Some(wait))?
            && let Some(cell) = sar::aal0::to_cell(&message, held.circuit)
        {
            pinger.handle_cell(&cell, now());
        }
        pinger.handle_timeout(now());
        while let Some(outcome) = pinger.poll_outcome() {
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
    output::print(context, &Pinged::from(&s), || statistics_text(&s))?;
    if s.received == 0 {
        bail!("no answer (is there a circuit {} all the way, and somebody at its far end?)", ping.circuit);
    }
    Ok(())
}

/// For people.
pub(crate) fn statistics_text(s: &Statistics) -> String {
    format!(
        "{} sent, {} received, {:.0}% lost; round trip min/mean/p99/max {:.1}/{:.1}/{:.1}/{:.1} us",
        s.sent,
        s.received,
        100.0 * f64::from(s.sent - s.received) / f64::from(s.sent.max(1)),
        s.min_us,
        s.mean_us,
        s.p99_us,
        s.max_us
    )
}
