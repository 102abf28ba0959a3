//! `cellway-lab bench preload`: what the library of `cellway run` costs a program that has nothing to do with ATM.
//!
//! The same calls of the C library, made by two copies of this program, one with the library preloaded and one without, in
//! turns. The limit is the copy without: the ratio to it should be one. Calls that one thread makes are timed on the clock
//! of that thread, so that what other programs take from the processor does not count: the medians of the runs' medians.
//! Where two threads or processes take turns, time is the wall's, and others do count: the least of all is given.

use super::{median, thread_seconds};
use crate::results::bench::BenchPreload;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::library;
use cellway::output;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Octets of a message.
const OCTETS: usize = 64;
/// Calls between two looks at the clock.
const BATCH: u32 = 256;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct PreloadOptions {
    /// Runs of each case, alternately with and without the library
    #[arg(long, default_value_t = 15)]
    runs: usize,
    /// Milliseconds of each run
    #[arg(long, default_value_t = 100)]
    millis: u64,
    /// Measure one case here, and print nanoseconds
    #[arg(long, hide = true, value_enum)]
    only: Option<Case>,
}

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// `write` and `recv` of 64 octets through a pair of UNIX stream sockets, by one thread.
    Stream,
    /// `sendto` and `recvfrom` of 64 octets by UDP over loopback, by one thread.
    Datagram,
    /// `read` of 64 octets of /dev/zero.
    File,
    /// `open` and `close` of /dev/null.
    Open,
    /// `socketpair`, and `close` of both ends.
    Pair,
    /// A round trip between two threads over a pair of UNIX stream sockets.
    Rounds,
    /// The life of a process that does nothing (/bin/true).
    Process,
}

const CASES: [Case; 7] =
    [Case::Stream, Case::Datagram, Case::File, Case::Open, Case::Pair, Case::Rounds, Case::Process];

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Stream => "stream",
            Case::Datagram => "datagram",
            Case::File => "file",
            Case::Open => "open",
            Case::Pair => "pair",
            Case::Rounds => "rounds",
            Case::Process => "process",
        }
    }

    /// Whether others on the processor count: then only the least says what the calls cost.
    fn is_by_the_wall(self) -> bool {
        matches!(self, Case::Rounds | Case::Process)
    }

    /// Of several times, the one to give.
    fn middle_or_least(self, times: &mut [f64]) -> f64 {
        if self.is_by_the_wall() { times.iter().copied().fold(f64::INFINITY, f64::min) } else { median(times) }
    }

    fn what(self) -> &'static str {
        match self {
            Case::Stream => "write and read, UNIX stream",
            Case::Datagram => "sendto and recvfrom, UDP",
            Case::File => "read, /dev/zero",
            Case::Open => "open and close, /dev/null",
            Case::Pair => "socketpair and two closes",
            Case::Rounds => "round trip of two threads, UNIX stream",
            Case::Process => "a process, /bin/true",
        }
    }
}

/// Nanoseconds of one of `f`, on the clock that `seconds` reads, batch by batch.
fn timed(
    length: Duration,
    batch: u32,
    seconds: impl Fn() -> f64,
    mut f: impl FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    let begin = Instant::now();
    let mut batches = Vec::new();
    while batches.is_empty() || begin.elapsed() < length {
        let from = seconds();
        for _ in 0..batch {
            f()?;
        }
        batches.push((seconds() - from) * 1e9 / f64::from(batch));
    }
    Ok(batches)
}

/// One case, in this process.
fn case(case: Case, length: Duration) -> Result<Vec<f64>> {
    let mut octets = [7; OCTETS];
    let epoch = Instant::now();
    let wall = || epoch.elapsed().as_secs_f64();
    match case {
        Case::Stream => {
            let (mut near, mut far) = UnixStream::pair()?;
            timed(length, BATCH, thread_seconds, || {
                near.write_all(&octets)?;
                Ok(far.read_exact(&mut octets)?)
            })
        }
        Case::Datagram => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let own = socket.local_addr()?;
            timed(length, BATCH, thread_seconds, || {
                socket.send_to(&octets, own)?;
                socket.recv_from(&mut octets)?;
                Ok(())
            })
        }
        Case::File => {
            let mut zero = File::open("/dev/zero")?;
            timed(length, BATCH, thread_seconds, || Ok(zero.read_exact(&mut octets)?))
        }
        Case::Open => timed(length, BATCH, thread_seconds, || {
            drop(File::open("/dev/null")?);
            Ok(())
        }),
        Case::Pair => timed(length, BATCH, thread_seconds, || {
            drop(UnixStream::pair()?);
            Ok(())
        }),
        Case::Rounds => {
            let (mut near, mut far) = UnixStream::pair()?;
            let echo = std::thread::spawn(move || {
                let mut octets = [0; OCTETS];
                while far.read_exact(&mut octets).is_ok() && far.write_all(&octets).is_ok() {}
            });
            let took = timed(length, 16, wall, || {
                near.write_all(&octets)?;
                Ok(near.read_exact(&mut octets)?)
            });
            drop(near);
            let _ = echo.join();
            took
        }
        Case::Process => timed(length, 1, wall, || {
            let status = Command::new("/bin/true").stdin(Stdio::null()).status().context("/bin/true")?;
            if status.success() { Ok(()) } else { bail!("/bin/true: {status}") }
        }),
    }
}

/// One run of a case, in a process of its own.
fn run_apart(case: Case, millis: u64, preload: Option<&std::path::Path>) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "preload", "--only", case.name(), "--millis", &millis.to_string()]);
    match preload {
        Some(library) => command.env("LD_PRELOAD", library),
        None => command.env_remove("LD_PRELOAD"),
    };
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}: {}", case.name(), output.status);
    }
    text.trim().parse().with_context(|| format!("{} gave {text:?}", case.name()))
}

impl super::QuickOptions for PreloadOptions {
    fn quick(self) -> Self {
        PreloadOptions { runs: 1, millis: 5, ..self }
    }
}

/// `cellway-lab bench preload`
pub(crate) fn run(context: &Context, options: &PreloadOptions) -> Result<()> {
    let length = Duration::from_millis(options.millis);
    if let Some(only) = options.only {
        return output::print_lines(&only.middle_or_least(&mut case(only, length)?).to_string());
    }
    let library = library()?;
    let mut took = vec![[Vec::new(), Vec::new()]; CASES.len()];
    for i in 0..options.runs.max(1) {
        for (case, [without, with]) in CASES.iter().zip(&mut took) {
            // Whoever is second finds the caches warm: each in turn.
            for preloaded in [i % 2 == 0, i % 2 != 0] {
                let place = if preloaded { &mut *with } else { &mut *without };
                place.push(run_apart(*case, options.millis, preloaded.then_some(library.as_path()))?);
            }
        }
    }
    let (mut rows, mut cases) = (Vec::new(), Vec::new());
    for (case, [without, with]) in CASES.iter().zip(&mut took) {
        let (without, with) = (case.middle_or_least(without), case.middle_or_least(with));
        let ratio = with / without.max(1e-9);
        rows.push(vec![
            case.what().to_owned(),
            format!("{without:.0}"),
            format!("{with:.0}"),
            format!("{:+.0}", with - without),
            format!("{ratio:.3}"),
        ]);
        cases.push(json!({
            "case": case.name(), "what": case.what(), "limit_ns": without, "preloaded_ns": with, "ratio": ratio,
        }));
    }
    let json: Value = json!({
        "bench": "preload", "runs": options.runs, "octets": OCTETS, "processor": super::processor(), "cases": cases,
    });
    let head = ["calls", "without, ns", "preloaded, ns", "more", "ratio"];
    output::print_as::<BenchPreload>(context, &json, || output::table(&head, &rows))
}
