//! Cost with scale: what each of many endpoints and circuits costs in memory, and what one active among them notices.

use super::super::median;
use anyhow::{Context as _, Result, anyhow};
use control::config;
use control::daemon::Daemon;
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions};
use host::CircuitConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::CircuitId;

const ENDPOINTS: [usize; 4] = [1, 10, 100, 1000];
const CIRCUITS: [usize; 3] = [1, 1000, 100_000];
/// How many there are at most, and how often what is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    most: usize,
    round_trips: usize,
    repeats: usize,
}

pub(super) const WHOLE: Effort = Effort { most: usize::MAX, round_trips: 1000, repeats: 9 };
pub(super) const SHORT: Effort = Effort { most: 1000, round_trips: 20, repeats: 1 };

/// Files of an endpoint, both sides in this process.
const FILES: usize = 10;

/// Two hosts on a link, with circuit 0.100.
const NETWORK: &str = "[host.alpha]\nmax_endpoints = 1100\n[host.beta]\nmax_endpoints = 1100\n\
    [[link]]\nends=[\"alpha\",\"beta\"]\n[[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n";

/// The same, with a limit of what a host uses on SDUs that are turned away.
pub(super) fn limited(cycle_limit_percent: u8) -> String {
    format!("[engine]\ncycle_limit_percent = {cycle_limit_percent}\n{NETWORK}")
}

/// Octets of this process's memory that are in use.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS in /proc/self/status")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}

fn small() -> Geometry {
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 16, buffer_octets: 2048 }
}

fn endpoint(socket: &Path, host: &str) -> Result<Endpoint> {
    let config = EndpointConfig { host: host.into(), geometry: small(), ..EndpointConfig::default() };
    Ok(Endpoint::create(socket, &config)?)
}

/// The least of several medians: three threads share the processors in one of several ways, each with other wake-ups.
fn round_trip(socket: &Path, effort: Effort) -> Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..effort.repeats {
        least = least.min(median_round_trip(socket, effort.round_trips)?);
    }
    Ok(least)
}

/// Median round trip of 64 octets between two endpoints of circuit 0.100, in microseconds.
fn median_round_trip(socket: &Path, round_trips: usize) -> Result<f64> {
    let patience = Some(Duration::from_secs(5));
    let circuit = CircuitId::new(0, 100).context("0.100")?;
    let (mut a, mut b) = (endpoint(socket, "alpha")?, endpoint(socket, "beta")?);
    let to_b = a.open(circuit, OpenOptions::default())?;
    let to_a = b.open(circuit, OpenOptions::default())?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Result<()> {
            for _ in 0..round_trips {
                let sdu = b.receive(patience)?.context("nothing came within 5 s")?.to_vec();
                b.send_copy(to_a, &sdu)?;
            }
            b.wait_sent(patience)?;
            // Not before the other side has what is still on its way.
            b.receive(Some(Duration::from_millis(50)))?;
            Ok(())
        });
        let mut times = Vec::with_capacity(round_trips);
        for _ in 0..round_trips {
            let begin = Instant::now();
            a.send_copy(to_b, &[7; 64])?;
            a.receive(patience)?.context("nothing came back within 5 s")?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        echo.join().map_err(|_| anyhow!("the echo panicked"))??;
        Ok(median(&mut times))
    })
}

pub(super) fn measure(folder: &Path, effort: Effort) -> Result<Vec<Value>> {
    let mut rows = endpoints(folder, effort)?;
    rows.extend(circuits(folder, effort)?);
    Ok(rows)
}

fn endpoints(folder: &Path, effort: Effort) -> Result<Vec<Value>> {
    let socket = folder.join("scale.sock");
    let daemon = Daemon::start(config::parse(NETWORK, "the benchmark's network")?, &socket)?;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most.min(1 << 16)), maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(1024) as usize;
    let mut rows = Vec::new();
    let mut idle = Vec::new();
    let before = resident()?;
    for n in ENDPOINTS.into_iter().filter(|n| *n <= effort.most) {
        // The two that are measured are two of them.
        if (n + 4) * FILES > files {
            rows.push(json!({ "what": "endpoints", "n": n, "skipped": format!("{files} open files are allowed (ulimit -n)") }));
            continue;
        }
        while idle.len() + 2 < n {
            idle.push(endpoint(&socket, "alpha")?);
        }
        let each = (resident()? - before) / idle.len().max(1) as f64;
        let each = if idle.is_empty() { 0.0 } else { each };
        rows.push(json!({
            "what": "endpoints", "n": n, "octets_each": each, "segment_octets": small().octets(), "rtt_us": round_trip(&socket, effort)?,
        }));
    }
    drop(idle);
    drop(daemon);
    Ok(rows)
}

fn circuits(folder: &Path, effort: Effort) -> Result<Vec<Value>> {
    let socket = folder.join("circuits.sock");
    let daemon = Daemon::start(config::parse(NETWORK, "the benchmark's network")?, &socket)?;
    let mut rows = Vec::new();
    let before = resident()?;
    let mut there = 1;
    for n in CIRCUITS.into_iter().filter(|n| *n <= effort.most) {
        let from = there;
        daemon.engine.with(move |core| {
            for name in ["alpha", "beta"] {
                let Some((_, host)) = core.host(name) else { continue };
                for i in from..n {
                    if let Some(circuit) = CircuitId::new(1 + (i / 60_000) as u16, 100 + (i % 60_000) as u16) {
                        host.add_circuit(circuit, CircuitConfig::default());
                    }
                }
            }
        })?;
        there = n;
        // At each of the two hosts.
        let each = if n > 1 { (resident()? - before) / (2 * (n - 1)) as f64 } else { 0.0 };
        rows.push(json!({ "what": "circuits", "n": n, "octets_each": each, "rtt_us": round_trip(&socket, effort)? }));
    }
    Ok(rows)
}
