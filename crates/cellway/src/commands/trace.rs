//! `cellway trace`: the points of a circuit, by OAM loopback (I.610).

use crate::client::{self, Size, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use anyhow::{Result, bail};
use clap::Args;
use endpoint::{Aal, SendError};
use serde_json::{Value, json};
use stack::oam::{TraceConfig, Tracer};
use std::time::{Duration, Instant};
use wire::{CircuitId, Time};

/// Names each point of a circuit, with its round trip: the switches that forward it channel by channel, and the far end.
///
/// A switch answers with its name, of which a cell holds 16 octets. Switches that forward the whole path, and switches of
/// others that know no loopback for every point, are not seen. The circuit may be in use: its OAM flow is beside its data.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci
    circuit: CircuitId,
    /// How many probes
    #[arg(short = 'c', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Milliseconds that the far end may take
    #[arg(short = 'W', long, default_value_t = 5000)]
    timeout_ms: u64,
}

/// `cellway trace`
pub(crate) fn run(context: &Context, trace: &Trace) -> Result<()> {
    let stop = interrupted()?;
    let (mut endpoint, channel) = client::open(context, &trace.host, trace.circuit, Aal::Oam, Size::Small)?;
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    let mut tracer = Tracer::new(TraceConfig {
        circuit: trace.circuit,
        probes: trace.count,
        timeout: Duration::from_millis(trace.timeout_ms),
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
    }
    output::print(context, &to_json(trace, &tracer), || to_text(&tracer))?;
    if tracer.end().is_empty() {
        let after = tracer.hops().last().map_or_else(|| trace.host.clone(), |hop| hop.location.to_string());
        bail!(
            "no answer from the far end of {}: the circuit is broken beyond {after}, or nobody is there",
            trace.circuit
        );
    }
    Ok(())
}

fn us(rtts: &[Duration]) -> Vec<f64> {
    rtts.iter().map(|rtt| rtt.as_nanos() as f64 / 1e3).collect()
}

fn to_json(trace: &Trace, tracer: &Tracer) -> Value {
    let hop = |hop: &stack::oam::Hop| json!({ "location": hop.location.to_string(), "rtt_us": us(&hop.rtts) });
    json!({
        "host": trace.host, "circuit": trace.circuit.to_string(), "probes": trace.count,
        "hops": tracer.hops().iter().map(hop).collect::<Vec<_>>(),
        "end_rtt_us": us(tracer.end()),
    })
}

fn to_text(tracer: &Tracer) -> String {
    let line = |name: &str, rtts: &[Duration]| {
        let rtts: Vec<_> = us(rtts).iter().map(|us| format!("{us:9.1} us")).collect();
        format!("{name:<18}{}", rtts.join(""))
    };
    let mut lines: Vec<_> = tracer
        .hops()
        .iter()
        .enumerate()
        .map(|(i, hop)| format!("{:>3}  {}", i + 1, line(&hop.location.to_string(), &hop.rtts)))
        .collect();
    if !tracer.end().is_empty() {
        lines.push(format!("     {}", line("far end", tracer.end())));
    }
    lines.join("\n")
}
