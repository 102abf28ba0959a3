//! One-way throughput: an application floods, another counts; between them endpoint, host interface, link, switch, link,
//! host interface, endpoint. What the receiver has no buffer for is lost, as on any circuit without flow control: the
//! figure is what arrived.

use super::median;
use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result, bail};
use control::config;
use control::daemon::Daemon;
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

const SIZES: [usize; 4] = [64, 1500, 9188, 65_535];
/// What memcpy runs over: fits the second-level cache of the machines of this decade.
const WORKING_SET: usize = 256 * 1024;

/// Copying SDUs of this size one after another over a working set, on one core.
pub(crate) fn memcpy_gbit_s(octets: usize, length: Duration) -> f64 {
    let n = (WORKING_SET / 2 / octets).max(1);
    let from = vec![0x5au8; n * octets];
    // Source and destination at the same place of their pages slow some processors' string moves down tenfold.
    const APART: usize = 2112;
    let mut to = vec![0u8; n * octets + APART];
    let begin = Instant::now();
    let mut copied = 0u64;
    while begin.elapsed() < length {
        for _ in 0..16 {
            for (a, b) in from.chunks_exact(octets).zip(to[APART..].chunks_exact_mut(octets)) {
                b.copy_from_slice(black_box(a));
                black_box(&mut *b);
            }
            copied += (n * octets) as u64;
        }
    }
    copied as f64 * 8.0 / 1e9 / begin.elapsed().as_secs_f64()
}

fn network(frames: bool) -> String {
    let carries = if frames { "frames" } else { "cells" };
    format!(
        "[host.alpha]\n[host.beta]\n[switch.s1]\n[[link]]\nends=[\"alpha\",\"s1:0\"]\ncarries=\"{carries}\"\n[[link]]\nends=[\"beta\",\"s1:1\"]\ncarries=\"{carries}\"\n[[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n"
    )
}

fn endpoint(socket: &Path, host: &str) -> Result<(Endpoint, endpoint::ChannelId)> {
    let geometry = Geometry { send_ring: 256, receive_ring: 512, free_ring: 512, buffers: 96, buffer_octets: 65_536 };
    let config = EndpointConfig { host: host.into(), geometry, send_buffers: Some(32), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let circuit = CircuitId::new(0, 100).context("0.100")?;
    let channel = endpoint.open(circuit, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// Floods for `length`; gives PDUs sent, PDUs arrived, and seconds.
pub(crate) fn run_case(socket: &Path, pdu_octets: usize, length: Duration) -> Result<(u64, u64, f64)> {
    let (mut sender, to_beta) = endpoint(socket, "alpha")?;
    let (mut receiver, _) = endpoint(socket, "beta")?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| -> Result<(u64, f64)> {
            let (mut pdus, mut sum) = (0u64, 0u64);
            let mut first: Option<Instant> = None;
            let mut last = Instant::now();
            loop {
                match receiver.receive(Some(Duration::from_millis(20)))? {
                    Some(sdu) => {
                        if sdu.len() != pdu_octets {
                            bail!("an SDU of {} octets arrived where {} were sent", sdu.len(), pdu_octets);
                        }
                        sum = sum.wrapping_add(u64::from(sdu[0]));
                        first.get_or_insert_with(Instant::now);
                        pdus += 1;
                        last = Instant::now();
                    }
                    None if done.load(Ordering::Relaxed) => break,
                    None => {}
                }
            }
            black_box(sum);
            let seconds = first.map_or(0.0, |f| last.saturating_duration_since(f).as_secs_f64());
            Ok((pdus, seconds))
        });
        let sdu = vec![0x42u8; pdu_octets];
        let begin = Instant::now();
        let mut sent = 0u64;
        let sending = (|| -> Result<()> {
            while begin.elapsed() < length {
                for _ in 0..64 {
                    match sender.send_copy(to_beta, &sdu) {
                        Ok(()) => sent += 1,
                        Err(SendError::Full) => {
                            sender.wait_send(Some(Duration::from_millis(100)))?;
                        }
                        Err(e) => bail!(e),
                    }
                }
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let counted = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"));
        sending?;
        let (pdus, seconds) = counted?;
        Ok((sent, pdus, seconds))
    })
}

/// `cellway bench path`
pub(crate) fn run(context: &Context, runs: usize, millis: u64) -> Result<()> {
    let length = Duration::from_millis(millis.clamp(20, 60_000));
    let folder = std::env::temp_dir().join(format!("cellway-bench-{}", std::process::id()));
    let result = measure(&folder, runs.max(1), length);
    let _ = std::fs::remove_dir_all(&folder);
    let rows = result?;
    let json = json!({ "bench": "path", "runs": runs, "run_seconds": length.as_secs_f64(), "rows": rows });
    output::print(context, &json, || {
        let rows: Vec<Vec<String>> = rows.iter().map(row_text).collect();
        output::table(&["link", "PDU octets", "Gbit/s", "memcpy Gbit/s", "of memcpy", "PDUs/s", "lost"], &rows)
    })
}

fn row_text(row: &Value) -> Vec<String> {
    let f = |key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
    vec![
        row["link"].as_str().unwrap_or_default().into(),
        row["pdu_octets"].to_string(),
        f("gbit_s", 2),
        f("memcpy_gbit_s", 0),
        f("vs_memcpy", 3),
        f("pdus_per_s", 0),
        format!("{:.1}%", 100.0 * row["lost_share"].as_f64().unwrap_or_default()),
    ]
}

fn measure(folder: &Path, runs: usize, length: Duration) -> Result<Vec<Value>> {
    let mut daemons = Vec::new();
    for frames in [false, true] {
        let socket = folder.join(if frames { "frames.sock" } else { "cells.sock" });
        let config = config::parse(&network(frames), "the benchmark's network")?;
        daemons.push((frames, Daemon::start(config, &socket)?, socket));
    }
    let bar = output::progress(Some((runs * SIZES.len() * 2) as u64));
    let mut samples = vec![(Vec::new(), Vec::new(), Vec::new()); SIZES.len() * 2];
    for _ in 0..runs {
        for (i, (_, _, socket)) in daemons.iter().enumerate() {
            for (j, &pdu_octets) in SIZES.iter().enumerate() {
                let memcpy = memcpy_gbit_s(pdu_octets, length / 10);
                let (sent, arrived, seconds) = run_case(socket, pdu_octets, length)?;
                let (rate, limit, lost) = &mut samples[i * SIZES.len() + j];
                rate.push(arrived as f64 / seconds.max(1e-9));
                limit.push(memcpy);
                lost.push(1.0 - arrived as f64 / (sent.max(1)) as f64);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for (i, (rate, limit, lost)) in samples.iter_mut().enumerate() {
        let pdu_octets = SIZES[i % SIZES.len()];
        let (pdus_per_s, memcpy) = (median(rate), median(limit));
        let gbit_s = pdus_per_s * pdu_octets as f64 * 8.0 / 1e9;
        rows.push(json!({
            "link": if daemons[i / SIZES.len()].0 { "frames" } else { "cells" },
            "pdu_octets": pdu_octets, "gbit_s": gbit_s, "memcpy_gbit_s": memcpy, "vs_memcpy": gbit_s / memcpy,
            "pdus_per_s": pdus_per_s, "lost_share": median(lost).max(0.0),
        }));
    }
    Ok(rows)
}
