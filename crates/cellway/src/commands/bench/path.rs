//! One-way throughput: an application floods, another counts; between them endpoint, host interface, link, switch, link,
//! host interface, endpoint. With credits nothing is lost; best effort loses what the receiver has no buffer for, and its
//! figure is what arrived. Beside it, in the same run, the limits: memcpy, and a relay of UNIX datagrams.

use super::median;
use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result, bail};
use control::config;
use control::daemon::Daemon;
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use serde_json::{Value, json};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::os::unix::net::UnixDatagram;
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

/// Best effort on 0.100, with credits on 0.101 where the links carry them.
fn network(frames: bool) -> String {
    let carries = if frames { "frames" } else { "cells" };
    let mut text = format!(
        "[host.alpha]\n[host.beta]\n[switch.s1]\n[[link]]\nends=[\"alpha\",\"s1:0\"]\ncarries=\"{carries}\"\n[[link]]\nends=[\"beta\",\"s1:1\"]\ncarries=\"{carries}\"\n[[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n"
    );
    if !frames {
        text += "[[circuit]]\nends=[\"alpha 0.101\",\"beta 0.101\"]\nflow=\"credit\"\n";
    }
    text
}

/// Octets of SDUs on their way in each direction, about: what fits the caches.
const IN_FLIGHT: usize = 1 << 20;

fn endpoint(socket: &Path, host: &str, vci: u16, pdu_octets: usize) -> Result<(Endpoint, endpoint::ChannelId)> {
    let slots = (IN_FLIGHT / pdu_octets).clamp(32, 2048).next_power_of_two() as u32;
    let buffer_octets = pdu_octets.next_multiple_of(64) as u32;
    let geometry =
        Geometry { send_ring: slots, receive_ring: slots, free_ring: slots, buffers: slots * 2, buffer_octets };
    let config = EndpointConfig { host: host.into(), geometry, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let circuit = CircuitId::new(0, vci).context("a VCI")?;
    let channel = endpoint.open(circuit, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// The sum of all octets, eight at a time: reads each of them.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, octet| sum.wrapping_add(u64::from(*octet)))
}

/// Floods the best-effort circuit 0.100 for `length`; gives PDUs sent, PDUs arrived, and seconds.
pub(crate) fn run_case(socket: &Path, pdu_octets: usize, length: Duration) -> Result<(u64, u64, f64)> {
    flood(socket, 100, pdu_octets, length)
}

/// Floods a circuit for `length`: each octet is written before and read after. Gives PDUs sent, PDUs arrived, and seconds.
fn flood(socket: &Path, vci: u16, pdu_octets: usize, length: Duration) -> Result<(u64, u64, f64)> {
    let (mut sender, to_beta) = endpoint(socket, "alpha", vci, pdu_octets)?;
    let (mut receiver, _) = endpoint(socket, "beta", vci, pdu_octets)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| -> Result<(u64, f64)> {
            let (mut pdus, mut total) = (0u64, 0u64);
            let mut first: Option<Instant> = None;
            let mut last = Instant::now();
            let mut wrong = None;
            loop {
                let more = receiver.receive_each(Some(Duration::from_millis(20)), |_, sdu| {
                    if sdu.len() != pdu_octets {
                        wrong = Some(sdu.len());
                    }
                    total = total.wrapping_add(sum(sdu));
                    first.get_or_insert_with(Instant::now);
                    pdus += 1;
                    // Now and then out of here, to look at the clock.
                    if pdus.is_multiple_of(64) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                if let Some(octets) = wrong {
                    bail!("an SDU of {octets} octets arrived where {pdu_octets} were sent");
                }
                if more > 0 {
                    last = Instant::now();
                } else if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            black_box(total);
            let seconds = first.map_or(0.0, |f| last.saturating_duration_since(f).as_secs_f64());
            Ok((pdus, seconds))
        });
        let begin = Instant::now();
        let mut sent = 0u64;
        let sending = (|| -> Result<()> {
            while begin.elapsed() < length {
                for _ in 0..64 {
                    let Some(mut loan) = sender.loan() else {
                        sender.wait_send(Some(Duration::from_millis(100)))?;
                        continue;
                    };
                    loan[..pdu_octets].fill(sent as u8);
                    match sender.send(to_beta, loan, pdu_octets) {
                        Ok(()) => sent += 1,
                        Err((SendError::Full, loan)) => {
                            drop(loan);
                            sender.wait_send(Some(Duration::from_millis(100)))?;
                        }
                        Err((e, _)) => bail!(e),
                    }
                }
            }
            sender.wait_sent(Some(Duration::from_secs(1)))?;
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let counted = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"));
        sending?;
        let (pdus, seconds) = counted?;
        Ok((sent, pdus, seconds))
    })
}

/// The plainest relay there is, as the limit of whatever takes a system call for each message: UNIX datagrams from one
/// thread by a second to a third. PDUs a second.
fn relay(pdu_octets: usize, length: Duration) -> Result<f64> {
    let (mut from_sender, mut to_relay) = UnixDatagram::pair()?;
    let (mut from_relay, mut to_receiver) = UnixDatagram::pair()?;
    for socket in [&mut from_sender, &mut to_relay, &mut from_relay, &mut to_receiver] {
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    }
    let pdus = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sdu = vec![0; pdu_octets];
            while to_relay.recv(&mut sdu).is_ok_and(|n| n == pdu_octets) && from_relay.send(&sdu).is_ok() {}
            let _ = from_relay.send(&[0]);
        });
        let counting = scope.spawn(|| {
            let (mut sdu, mut pdus, mut total) = (vec![0; pdu_octets], 0u64, 0u64);
            while to_receiver.recv(&mut sdu).is_ok_and(|n| n == pdu_octets) {
                total = total.wrapping_add(sum(&sdu));
                pdus += 1;
            }
            black_box(total);
            pdus
        });
        let (begin, mut sdu) = (Instant::now(), vec![0; pdu_octets]);
        let mut sent = 0u64;
        while begin.elapsed() < length {
            sdu.fill(sent as u8);
            from_sender.send(&sdu)?;
            sent += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let _ = from_sender.send(&[0]);
        let pdus = counting.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        anyhow::Ok(pdus as f64 / seconds)
    })?;
    Ok(pdus)
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
        let head = ["link", "flow", "PDU octets", "PDUs/s", "Gbit/s", "lost", "of relay", "of memcpy"];
        output::table(&head, &rows)
    })
}

fn row_text(row: &Value) -> Vec<String> {
    let f = |key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
    vec![
        row["link"].as_str().unwrap_or_default().into(),
        row["flow"].as_str().unwrap_or_default().into(),
        row["pdu_octets"].to_string(),
        f("pdus_per_s", 0),
        f("gbit_s", 2),
        format!("{:.1}%", 100.0 * row["lost_share"].as_f64().unwrap_or_default()),
        f("vs_relay", 2),
        f("vs_memcpy", 3),
    ]
}

/// What is measured: link, flow control, and the circuit.
const CASES: [(&str, &str, u16); 3] =
    [("cells", "credit", 101), ("cells", "best-effort", 100), ("frames", "best-effort", 100)];

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    lost: Vec<f64>,
}

fn measure(folder: &Path, runs: usize, length: Duration) -> Result<Vec<Value>> {
    let mut daemons = Vec::new();
    for frames in [false, true] {
        let socket = folder.join(if frames { "frames.sock" } else { "cells.sock" });
        let config = config::parse(&network(frames), "the benchmark's network")?;
        daemons.push((Daemon::start(config, &socket)?, socket));
    }
    let bar = output::progress(Some((runs * SIZES.len() * CASES.len()) as u64));
    let mut samples: Vec<Samples> = (0..SIZES.len() * CASES.len()).map(|_| Samples::default()).collect();
    let mut limits = vec![(Vec::new(), Vec::new()); SIZES.len()];
    for _ in 0..runs {
        for (j, &pdu_octets) in SIZES.iter().enumerate() {
            // The limits in the same run, so that they meet the same machine.
            limits[j].0.push(memcpy_gbit_s(pdu_octets, length / 10));
            limits[j].1.push(relay(pdu_octets, length)?);
            for (i, (link, _, vci)) in CASES.iter().enumerate() {
                let (_, socket) = &daemons[usize::from(*link == "frames")];
                let (sent, arrived, seconds) = flood(socket, *vci, pdu_octets, length)?;
                let Samples { rate, lost } = &mut samples[i * SIZES.len() + j];
                rate.push(arrived as f64 / seconds.max(1e-9));
                lost.push(1.0 - arrived as f64 / (sent.max(1)) as f64);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let limits: Vec<(f64, f64)> = limits.iter_mut().map(|(memcpy, relay)| (median(memcpy), median(relay))).collect();
    let mut rows = Vec::new();
    for (i, Samples { rate, lost }) in samples.iter_mut().enumerate() {
        let ((link, flow, _), pdu_octets) = (CASES[i / SIZES.len()], SIZES[i % SIZES.len()]);
        let (memcpy, relay) = limits[i % SIZES.len()];
        let pdus_per_s = median(rate);
        let gbit_s = pdus_per_s * pdu_octets as f64 * 8.0 / 1e9;
        rows.push(json!({
            "link": link, "flow": flow, "pdu_octets": pdu_octets, "pdus_per_s": pdus_per_s, "gbit_s": gbit_s,
            "lost_share": median(lost).max(0.0), "relay_pdus_per_s": relay, "vs_relay": pdus_per_s / relay,
            "memcpy_gbit_s": memcpy, "vs_memcpy": gbit_s / memcpy,
        }));
    }
    Ok(rows)
}
