//! `cellway trace`: the points of a circuit, by OAM loopback (I.610).

use crate::client::{self, Size, goes_on, interrupted};
use crate::commands::unanswered::last_point;
use crate::context::Context;
use crate::output;
use crate::units;
use anyhow::{Result, bail};
use clap::Args;
use control::results::Traced;
use endpoint::{Aal, SendError};
use stack::oam::{TraceConfig, Tracer};
use std::time::{Duration, Instant};
use wire::{CircuitId, Time};

/// Names each point of a circuit, with its round-trip time: the switches that forward the channel, and the far end.
///
/// A switch answers with its name, of which a cell holds 16 octets. Switches that forward the whole path do not answer,
/// nor do foreign switches without loopback for every point. The circuit may be in use: OAM cells do not disturb its
/// data.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci
    circuit: CircuitId,
    /// Number of probes
    #[arg(short = 'c', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Milliseconds to wait for the far end
    #[arg(short = 'W', long = "timeout-ms", value_name = "MS", default_value = "2500", value_parser = units::millis)]
    timeout: Duration,
}

/// `cellway trace`
pub(crate) fn run(context: &Context, trace: &Trace) -> Result<()> {
    let stop = interrupted()?;
    client::within(trace.timeout);
    let (mut endpoint, channel) = client::open(context, &trace.host, trace.circuit, Aal::Oam, Size::Small)?;
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    let mut tracer = Tracer::new(TraceConfig {
        circuit: trace.circuit,
        probes: trace.count,
        timeout: trace.timeout,
        first_tag: std::process::id() << 12,
    });
    while !tracer.is_done() && goes_on(&stop) {
        while let Some(cell) = tracer.poll_transmit(now()) {
            match endpoint.send_copy(channel, &sar::aal0::to_message(&cell)) {
                // A request that does not fit is as good as lost.
                Ok(()) | Err(SendError::Full) => {}
                Err(e) => bail!(e),
            }
        }
        let wait = tracer.poll_timeout().map_or(Duration::ZERO, |t| t.since(now())).min(Duration::from_millis(200));
        if let Some(message) = endpoint.receive(Some(wait))?
            && let Some(cell) = sar::aal0::to_cell(&message, trace.circuit)
        {
            tracer.handle_cell(&cell, now());
        }
        tracer.handle_timeout(now());
        // A far end that does not answer the first probe is not asked again: what answered is known by now.
        if tracer.end().is_empty() && now() >= Time::ZERO + trace.timeout {
            break;
        }
    }
    let traced = Traced::new(&trace.host, trace.circuit, trace.count, &tracer);
    output::print(context, &traced, || to_text(&traced))?;
    if tracer.end().is_empty() {
        let after = last_point(&tracer, &trace.host);
        bail!(
            "no answer from the far end of {}: the circuit is broken beyond {after}, or nobody is there",
            trace.circuit
        );
    }
    Ok(())
}

fn to_text(traced: &Traced) -> String {
    let line = |name: &str, rtts: &[f64]| {
        let rtts: Vec<_> = rtts.iter().map(|us| format!("{us:9.1} us")).collect();
        format!("{name:<18}{}", rtts.join(""))
    };
    let hops = traced.hops.iter().enumerate();
    let mut lines: Vec<_> =
        hops.map(|(i, hop)| format!("{:>3}  {}", i + 1, line(&hop.location, &hop.rtt_us))).collect();
    if !traced.end_rtt_us.is_empty() {
        lines.push(format!("     {}", line("far end", &traced.end_rtt_us)));
    }
    lines.join("\n")
}
