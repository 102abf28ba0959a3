//! `cellway-lab bench ip`: TCP and ping between two network namespaces, joined by IP over ATM, by a plain forwarder between two
//! TUN devices, and by a veth pair, all in the same run and interleaved.
//!
//! In: nothing but the machine (root, iperf3, ping). Out: for each way, MTU and with or without offload, iperf3's TCP rate
//! and ping's round trip, and their ratios to the forwarder's and to veth's of the same run.

mod arrival;
mod forwarder;
mod namespace;
mod programs;
mod ways;

use super::figure::{Panel, draw, series};
use super::{median, number};
use crate::results::bench::BenchIp;
use anyhow::{Context as _, Result, anyhow, bail};
use arrival::{PROBE, arrived, waited_for_a_processor};
use cellway::client::{goes_on, interrupted};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use control::processors::Processors;
use namespace::Namespace;
use programs::{Length, Programs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use ways::{CASES, Case, Way};

/// Options of `bench ip`.
#[derive(Debug, Args)]
#[command(
    after_help = "Needs root (two network namespaces, TUN devices), iperf3 and ping. It removes the namespaces and devices \
    afterwards.\n\n\
    The ways between the two namespaces:\n  \
    veth       a pair of the kernel's own devices: out of reach of any user-space network\n  \
    forwarder  two threads that read one TUN device and write the other: the least possible work\n  \
    cellway    IP over ATM: two interfaces of `cellway up`, a circuit through a switch\n  \
    endpoint   IP over ATM: two `cellway ip tun`, each with an endpoint, and the network between them\n\n\
    The forwarding thread, also that of the forwarder, is bound to one processor. With --processor any the system often \
    puts it beside both ends of a transfer and leaves another processor idle, for some ways and not for others. With \
    --congestion bbr, the default of some systems, TCP sends by timers on the processor that it last sent from: that of the \
    forwarding thread or another. The rate then depends on chance.\n\n\
    vs_forwarder and vs_veth are medians of the ratios inside each run. With offload, TCP leaves segmentation and \
    checksums to the devices; with veth it always does."
)]
pub(crate) struct IpOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Seconds of TCP in each direction, in each run
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Echo requests in each run
    #[arg(long, default_value_t = 200)]
    pings: usize,
    /// Only these MTUs
    #[arg(long, value_delimiter = ',', default_values_t = [1500, 9180])]
    mtu: Vec<usize>,
    /// Only these ways
    #[arg(long, value_delimiter = ',', value_name = "WAY")]
    only: Vec<String>,
    /// The processor to which the forwarding thread is bound (engine or forwarder), or `any` [default: the last that it
    /// may use]
    #[arg(long, value_name = "N|any")]
    processor: Option<String>,
    /// TCP's congestion control, of those in net.ipv4.tcp_available_congestion_control
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Only with offload, or only without
    #[arg(long, value_name = "true|false")]
    offload: Option<bool>,
    #[arg(skip)]
    quick: bool,
    /// Draw the figure into this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// What was measured of a case, run by run.
#[derive(Debug, Default)]
struct Samples {
    /// From the first namespace to the second, and back, in Gbit/s.
    tcp: [Vec<f64>; 2],
    ping_us: Vec<f64>,
    /// Microseconds of processor that this process, which carries the packets, had for a megaoctet of TCP.
    cpu_us_per_mb: Vec<f64>,
    octets: u64,
}

impl super::QuickOptions for IpOptions {
    fn quick(self) -> Self {
        IpOptions { quick: true, ..self }
    }
}

/// `cellway-lab bench ip`
pub(crate) fn run(context: &Context, options: &IpOptions) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("network namespaces and TUN devices need root: sudo cellway-lab bench ip");
    }
    let carriers = carriers(options.processor.as_deref(), &Processors::allowed()?)?;
    let programs = Programs::find(&options.congestion)?;
    let stop = interrupted()?;
    let folder = std::env::temp_dir().join(format!("cellway-bench-{}", std::process::id()));
    let result = measure(options, carriers, &programs, &folder, &stop);
    let _ = std::fs::remove_dir_all(&folder);
    let rows = result?;
    if let Some(path) = &options.figure {
        std::fs::write(path, figure(&rows)?).with_context(|| path.display().to_string())?;
    }
    let (runs, length) = effort(options);
    let json = json!({
        "bench": "ip", "runs": runs, "tcp_in_each_run": length.to_string(), "carrier_processor": carriers,
        "tcp_congestion_control": options.congestion,
        "processor": super::processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()), "rows": rows,
    });
    output::print_as::<BenchIp>(context, &json, || text(&rows))
}

fn effort(options: &IpOptions) -> (usize, Length) {
    if options.quick {
        (1, Length::Megaoctets(16))
    } else {
        (options.runs.max(1), Length::Seconds(options.seconds.clamp(1, 60)))
    }
}

fn measure(
    options: &IpOptions,
    carriers: Option<usize>,
    programs: &Programs,
    folder: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Value>> {
    let (runs, length) = effort(options);
    let pings = if options.quick { 10 } else { options.pings.max(1) };
    let wanted = |case: &Case| {
        options.mtu.contains(&case.mtu)
            && (options.only.is_empty() || options.only.iter().any(|o| o == case.way.name()))
            && options.offload.is_none_or(|o| case.offload == o || case.way == Way::Veth)
    };
    let cases: Vec<Case> = CASES.iter().copied().filter(wanted).collect();
    if cases.is_empty() {
        bail!("no case is left: the MTUs are 1500 and 9180, the ways veth, forwarder, cellway and endpoint");
    }
    let namespaces = [Namespace::new()?, Namespace::new()?];
    // All ways exist side by side, each in a subnet of its own; those that are not measured sleep.
    let ways = ways::make(&cases, &namespaces, folder, carriers)?;
    let mut samples: Vec<Samples> = cases.iter().map(|_| Samples::default()).collect();
    let bar = output::progress(Some((runs * cases.len()) as u64));
    for _ in 0..runs {
        for (i, (case, samples)) in cases.iter().zip(&mut samples).enumerate() {
            if !goes_on(stop) {
                bail!("interrupted by the user");
            }
            one(programs, &namespaces, i, case, length, pings, samples)
                .with_context(|| format!("{} at MTU {}", case.way.name(), case.mtu))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    drop(ways);
    Ok(rows(&cases, &mut samples))
}

/// Where what carries packets is to stay, out of all that it may use: where the user says, else on the last. One alone is no
/// choice.
fn carriers(wanted: Option<&str>, all: &Processors) -> Result<Option<usize>> {
    let Some(wanted) = wanted else {
        let mut numbers = all.numbers();
        return Ok(numbers.next_back().filter(|_| numbers.next().is_some()));
    };
    if wanted == "any" {
        return Ok(None);
    }
    let at = || format!("--processor {wanted}");
    let number = wanted.parse().map_err(|_| anyhow!("a number, or any")).with_context(at)?;
    all.only(number).with_context(at)?;
    Ok(Some(number))
}

/// One run of one case.
fn one(
    programs: &Programs,
    namespaces: &[Namespace; 2],
    number: usize,
    case: &Case,
    length: Length,
    pings: usize,
    samples: &mut Samples,
) -> Result<()> {
    let far = ways::address(number, 1);
    // The first packets ask for addresses and open caches.
    programs.wait_for(&namespaces[0], far)?;
    samples.ping_us.push(programs.ping(&namespaces[0], far, pings)?);
    let before = process_seconds();
    let mut octets = 0;
    for (direction, rates) in samples.tcp.iter_mut().enumerate() {
        let measure = |length| {
            // A new one each time: one that has just served a client may refuse the next.
            let _server = programs.serve(&namespaces[1], far)?;
            programs.tcp(&namespaces[0], far, length, direction == 1)
        };
        let (begin, waited) = (Instant::now(), waited_for_a_processor());
        let transfer = measure(length)?;
        let waited = waited_for_a_processor().saturating_sub(waited);
        let transfer = arrived(transfer, waited * 2 >= begin.elapsed(), || measure(PROBE))?;
        rates.push(transfer.gbit_s);
        octets += transfer.octets;
    }
    samples.octets += octets;
    if case.way != Way::Veth {
        samples.cpu_us_per_mb.push((process_seconds() - before) * 1e6 / (octets as f64 / 1e6));
    }
    Ok(())
}

/// What this process has had of processors, without its children.
fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn rows(cases: &[Case], samples: &mut [Samples]) -> Vec<Value> {
    // Both directions of a run count alike.
    let tcp: Vec<Vec<f64>> =
        samples.iter().map(|s| s.tcp[0].iter().zip(&s.tcp[1]).map(|(a, b)| f64::midpoint(*a, *b)).collect()).collect();
    let ping: Vec<Vec<f64>> = samples.iter().map(|s| s.ping_us.clone()).collect();
    let ratio = |all: &[Vec<f64>], i: usize, to: Option<usize>| {
        let mut ratios: Vec<f64> = all[i].iter().zip(&all[to?]).map(|(a, b)| a / b).collect();
        Some(median(&mut ratios))
    };
    let mut rows = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        let other = |way, offload| {
            cases.iter().position(|c| c.way == way && c.mtu == case.mtu && c.offload == offload).filter(|o| *o != i)
        };
        let forwarder = other(Way::Forwarder, case.offload).filter(|_| case.way != Way::Veth);
        let veth = other(Way::Veth, true);
        let s = &mut samples[i];
        rows.push(json!({
            "case": case.way.name(), "mtu": case.mtu, "offload": case.offload,
            "tcp_gbit_s": median(&mut tcp[i].clone()),
            "tcp_there_gbit_s": median(&mut s.tcp[0]), "tcp_back_gbit_s": median(&mut s.tcp[1]),
            "ping_us": median(&mut s.ping_us),
            "vs_forwarder": ratio(&tcp, i, forwarder), "vs_veth": ratio(&tcp, i, veth),
            "ping_vs_forwarder": ratio(&ping, i, forwarder),
            "cpu_us_per_mb": (!s.cpu_us_per_mb.is_empty()).then(|| median(&mut s.cpu_us_per_mb)),
            "octets": s.octets,
        }));
    }
    rows
}

fn text(rows: &[Value]) -> String {
    let f = |row: &Value, key: &str, digits: usize| number(row[key].as_f64(), digits);
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row["case"].as_str().unwrap_or_default().into(),
                row["mtu"].to_string(),
                if row["offload"] == true { "yes" } else { "no" }.into(),
                f(row, "tcp_gbit_s", 2),
                f(row, "vs_forwarder", 2),
                f(row, "vs_veth", 2),
                f(row, "ping_us", 1),
                f(row, "ping_vs_forwarder", 2),
                f(row, "cpu_us_per_mb", 0),
            ]
        })
        .collect();
    let head = [
        "way",
        "MTU",
        "offload",
        "TCP Gbit/s",
        "of forwarder's",
        "of veth's",
        "ping us",
        "of forwarder's",
        "CPU us/MB",
    ];
    output::table(&head, &table)
}

fn figure(rows: &[Value]) -> Result<String> {
    let panel = |title, offload: bool, key: &str, y| {
        let rows = rows.iter().filter(|r| r["offload"] == offload);
        Panel { title, x: "MTU in octets", y, log_y: false, series: series(rows, "case", "mtu", key) }
    };
    draw(&[
        panel("TCP without offload", false, "tcp_gbit_s", "Gbit/s"),
        panel("TCP with offload", true, "tcp_gbit_s", "Gbit/s"),
        panel("Ping without offload", false, "ping_us", "microseconds"),
        panel("Ping with offload", true, "ping_us", "microseconds"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_stay_where_the_user_says_and_by_default_on_the_last_processor_that_is_ours() {
        let all: Processors = [2, 3].into_iter().collect();
        assert_eq!(carriers(None, &all).unwrap(), Some(3));
        assert_eq!(carriers(None, &[2].into_iter().collect()).unwrap(), None, "it stays there anyway");
        assert_eq!(carriers(Some("any"), &all).unwrap(), None);
        assert_eq!(carriers(Some("2"), &all).unwrap(), Some(2));
        let refused = |wanted| format!("{:#}", carriers(Some(wanted), &all).unwrap_err());
        assert!(refused("1").starts_with("--processor 1: ") && refused("1").ends_with("2, 3"), "{}", refused("1"));
        assert!(refused("last").ends_with("a number, or any"), "{}", refused("last"));
    }

    #[test]
    fn ratios_are_taken_inside_each_run() {
        let case = |way, offload| Case { way, mtu: 1500, offload };
        let cases = [case(Way::Veth, true), case(Way::Forwarder, true), case(Way::Cellway, true)];
        let sample = |tcp: [f64; 3], ping| Samples {
            tcp: [tcp.to_vec(), tcp.to_vec()],
            ping_us: vec![ping; 3],
            cpu_us_per_mb: vec![],
            octets: 1,
        };
        // The machine was half as fast in the second run, for all alike.
        let mut samples =
            [sample([20.0, 10.0, 20.0], 10.0), sample([10.0, 5.0, 10.0], 40.0), sample([15.0, 7.5, 15.0], 30.0)];
        let rows = rows(&cases, &mut samples);
        assert_eq!((rows[2]["vs_forwarder"].as_f64(), rows[2]["vs_veth"].as_f64()), (Some(1.5), Some(0.75)));
        assert_eq!(rows[2]["ping_vs_forwarder"].as_f64(), Some(0.75));
        assert_eq!((&rows[0]["vs_forwarder"], &rows[0]["vs_veth"]), (&Value::Null, &Value::Null));
        assert!(text(&rows).contains("cellway"));
    }
}
