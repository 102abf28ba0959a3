//! `cellway-lab bench contract`: whether a circuit of a constant rate keeps it, beside a circuit of best effort of the same endpoint that
//! sends all it can, over two links of OC-3c and a switch, in real time.

use super::{median, number, processor};
use crate::results::bench::BenchContract;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use host::engine::Core;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

const BULK: u16 = 100;
const CONSTANT: u16 = 110;
/// Octets of an SDU of one cell, and of one of best effort.
const CELL_OCTETS: usize = 40;
const BULK_OCTETS: usize = 9180;
/// SDUs of the constant rate that are on their way at most: the host always has some, for as long as this program may have to wait
/// for a processor, and the ring has room for others.
const IN_FLIGHT: u64 = 1024;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct ContractOptions {
    /// Seconds of each case
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The constant rate, as a circuit's
    #[arg(long, default_value = "10 Mbit/s")]
    pcr: String,
    /// Tolerance of the constant rate in microseconds: how far the host catches up after it had to wait for a
    /// processor. On a shared machine it has to be more than a circuit's default of 1000
    #[arg(long, default_value_t = 20_000)]
    cdvt_us: u64,
}

impl super::QuickOptions for ContractOptions {
    fn quick(self) -> Self {
        ContractOptions { seconds: 0.2, ..self }
    }
}

/// `cellway-lab bench contract`
pub(crate) fn run(context: &Context, options: &ContractOptions) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("cellway-contract-{}", std::process::id()));
    let rows = ["cells", "frames"].map(|carries| measure(&folder, carries, options));
    let _ = std::fs::remove_dir_all(&folder);
    let rows = rows.into_iter().collect::<Result<Vec<Value>>>()?;
    let json = json!({ "bench": "contract", "processor": processor(), "seconds": options.seconds, "rows": rows });
    output::print_as::<BenchContract>(context, &json, || {
        let f = |row: &Value, key: &str, digits| number(row[key].as_f64(), digits);
        let table: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row["link"].as_str().unwrap_or_default().into(),
                    f(row, "contract_cells_per_s", 1),
                    f(row, "cells_per_s", 1),
                    f(row, "rate_vs_contract", 5),
                    f(row, "jitter_median_us", 0),
                    f(row, "jitter_p99_us", 0),
                    f(row, "jitter_max_us", 0),
                    f(row, "lost", 0),
                    f(row, "bulk_mbit_s", 1),
                ]
            })
            .collect();
        let head = ["link", "contract", "cell/s", "ratio", "jitter, us", "p99", "max", "lost", "bulk, Mbit/s"];
        output::table(&head, &table)
    })
}

fn network(carries: &str, ContractOptions { pcr, cdvt_us, .. }: &ContractOptions) -> String {
    let link = |host: &str, port| {
        format!("[[link]]\nends = [\"{host}\", \"s1:{port}\"]\nrate = \"OC-3c\"\ncarries = \"{carries}\"\n")
    };
    let circuit = |vci, contract: &str| {
        format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\none_way = true\n{contract}")
    };
    let constant = format!("category = \"cbr\"\npcr = \"{pcr}\"\ncdvt_us = {cdvt_us}\n");
    ["[host.alpha]\n[host.beta]\n[switch.s1]\n", &link("alpha", 0), &link("beta", 1)].concat()
        + &circuit(BULK, "")
        + &circuit(CONSTANT, &constant)
}

fn open(socket: &Path, host: &str) -> Result<(Endpoint, [endpoint::ChannelId; 2])> {
    let buffer_octets = BULK_OCTETS.next_multiple_of(64) as u32;
    let geometry = Geometry { send_ring: 2048, receive_ring: 2048, free_ring: 512, buffers: 1024, buffer_octets };
    let config = EndpointConfig { host: host.into(), geometry, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let mut channel =
        |vci| -> Result<_> { Ok(endpoint.open(CircuitId::new(0, vci).context("a VCI")?, OpenOptions::default())?) };
    let channels = [channel(CONSTANT)?, channel(BULK)?];
    Ok((endpoint, channels))
}

/// What came of the constant rate, and how much of best effort.
#[derive(Default)]
struct Arrived {
    times: Vec<Instant>,
    bulk: u64,
}

fn measure(folder: &Path, carries: &str, options: &ContractOptions) -> Result<Value> {
    let socket = folder.join(format!("{carries}.sock"));
    let config = config::parse(&network(carries, options), "the benchmark's network")?;
    let rate = config.description.circuits.iter().find_map(|circuit| circuit.contract.pcr).context("a rate")?;
    let daemon = Daemon::start(config, &socket)?;
    let (mut alpha, [constant, bulk]) = open(&socket, "alpha")?;
    let (mut beta, [to_beta, _]) = open(&socket, "beta")?;
    let (done, came) = (AtomicBool::new(false), AtomicU64::new(0));
    let length = Duration::from_secs_f64(options.seconds.clamp(0.1, 600.0));
    let arrived = std::thread::scope(|scope| -> Result<_> {
        let receiving = scope.spawn(|| -> Result<Arrived> {
            let mut arrived = Arrived::default();
            let mut quiet = 0;
            while quiet < 5 || !done.load(Ordering::Relaxed) {
                let more = beta.receive_each(Some(Duration::from_millis(20)), |channel, _| {
                    if channel == to_beta {
                        arrived.times.push(Instant::now());
                        came.store(arrived.times.len() as u64, Ordering::Relaxed);
                    } else {
                        arrived.bulk += 1;
                    }
                    ControlFlow::Continue(())
                })?;
                quiet = if more == 0 { quiet + 1 } else { 0 };
            }
            Ok(arrived)
        });
        let sent = send(&mut alpha, [constant, bulk], &came, length);
        done.store(true, Ordering::Relaxed);
        let arrived = receiving.join().unwrap_or_else(|_| bail!("the receiver panicked"))?;
        sent.map(|()| arrived)
    })?;
    let sent = left_host(&daemon)?;
    drop(daemon);
    let (Some(first), Some(last)) = (arrived.times.first(), arrived.times.last()) else { bail!("nothing arrived") };
    let n = arrived.times.len();
    let cells_per_s = (n - 1) as f64 / last.duration_since(*first).as_secs_f64().max(1e-9);
    let interval = rate.interval_nanos() * 1e-3;
    let gap = |pair: &[Instant]| (pair[1].duration_since(pair[0]).as_secs_f64() * 1e6 - interval).abs();
    let mut gaps: Vec<f64> = arrived.times.windows(2).map(gap).collect();
    let middle = median(&mut gaps);
    let at = |share: f64| gaps.get((gaps.len() as f64 * share) as usize).or(gaps.last()).copied();
    Ok(json!({
        "link": carries, "contract_cells_per_s": rate.cells_per_s(), "cdvt_us": options.cdvt_us, "cells_per_s": cells_per_s,
        "rate_vs_contract": cells_per_s / rate.cells_per_s(), "lost": sent.saturating_sub(n as u64),
        "jitter_median_us": middle, "jitter_p99_us": at(0.99), "jitter_max_us": gaps.last(),
        "bulk_mbit_s": (arrived.bulk * 8 * BULK_OCTETS as u64) as f64 / options.seconds * 1e-6,
    }))
}

/// SDUs of the constant rate that have left their host: what its application had sent beside them is not lost.
fn left_host(daemon: &Daemon) -> Result<u64> {
    let circuit = CircuitId::new(0, CONSTANT).context("a VCI")?;
    let sent = move |core: &mut Core| Some(core.host("alpha")?.1.circuit_counts(circuit)?.sent.pdus);
    daemon.engine.with(sent)?.context("the circuit is there")
}

/// Keeps both circuits busy.
fn send(
    alpha: &mut Endpoint,
    [constant, bulk]: [endpoint::ChannelId; 2],
    came: &AtomicU64,
    length: Duration,
) -> Result<()> {
    let (begin, mut sent) = (Instant::now(), 0u64);
    while begin.elapsed() < length {
        while sent.saturating_sub(came.load(Ordering::Relaxed)) < IN_FLIGHT {
            match alpha.send_copy(constant, &[7; CELL_OCTETS]) {
                Ok(()) => sent += 1,
                Err(SendError::Full) => break,
                Err(e) => bail!(e),
            }
        }
        match alpha.send_copy(bulk, &[9; BULK_OCTETS]) {
            Ok(()) => {}
            Err(SendError::Full) => {
                alpha.wait_send(Some(Duration::from_millis(1)))?;
            }
            Err(e) => bail!(e),
        }
    }
    alpha.wait_sent(Some(Duration::from_secs(1)))?;
    Ok(())
}
