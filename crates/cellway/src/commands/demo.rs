//! `cellway demo`: a PDU crosses the system, shown. A service and its clients as separate processes, all of this
//! program.

use crate::commands::capture;
use crate::commands::report;
use crate::context::Context;
use crate::outfile::{self, OutFile, Overwriting};
use crate::output;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use control::config;
use control::daemon::Daemon;
use control::results::demo::{Demo as Shown, DemoCapture, DemoFile, DemoIpPing, DemoOam, DemoThroughput, DemoTransfer};
use control::results::{Pinged, Transferred};
use control::status::Status;
use serde::de::DeserializeOwned;
use stack::flood::{Flood, Handover, flood, memcpy_gbit_s};
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The capture, in the folder of the report.
const CAPTURE: &str = "capture.pcapng";
const NETWORK: &str = include_str!("../../../../examples/two-hosts.toml");

/// Starts two hosts and a switch; two client processes transfer a file from host to host. Then it runs OAM and IP
/// pings, TCP over IP over ATM, and ttcp over PDU sizes. Writes a report, its numbers and a capture. Takes under a
/// minute, and needs no privileges and no network.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The file to transfer [default: this program itself]
    file: Option<PathBuf>,
    /// The folder for the report
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

/// The service's process; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = rustix::process::Pid::from_raw(self.0.id() as i32)
            .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage<'a> {
    program: PathBuf,
    socket: PathBuf,
    out: &'a Path,
    overwriting: Overwriting,
    quiet: bool,
}

impl Stage<'_> {
    fn tell(&self, text: &str) -> Result<()> {
        if self.quiet { Ok(()) } else { output::print_lines(text) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).arg("--json").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, arguments: &[&str]) -> Result<Process> {
        Ok(Process(
            self.command(arguments).spawn().with_context(|| format!("starting cellway {}", arguments.join(" ")))?,
        ))
    }

    /// Starts something that says `word` in a line when it is ready, and waits for that.
    fn start_ready(&self, arguments: &[&str], word: &str) -> Result<Process> {
        let mut process = self.start(arguments)?;
        let mut line = String::new();
        let stdout = process.0.stdout.take().context("a process without output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if line.contains(&format!("\"{word}\"")) {
            return Ok(process);
        }
        let mut why = String::new();
        if let Some(stderr) = process.0.stderr.as_mut() {
            stderr.read_to_string(&mut why)?;
        }
        bail!("cellway {} did not come up: {}", arguments.join(" "), why.trim());
    }

    /// Starts something that says on standard error, in its first line, that it listens, and waits for that.
    fn start_listening(&self, arguments: &[&str]) -> Result<Process> {
        let mut process = self.start(arguments)?;
        let stderr = process.0.stderr.as_mut().context("a process without output")?;
        // Octet by octet: what follows is read when the process has ended.
        let (mut line, mut octet) = (Vec::new(), [0]);
        while stderr.read(&mut octet)? == 1 && octet != *b"\n" {
            line.push(octet[0]);
        }
        let line = String::from_utf8_lossy(&line);
        if !line.contains("\"listening\"") {
            bail!("cellway {} did not come up: {line}", arguments.join(" "));
        }
        Ok(process)
    }

    /// Runs a client to its end; gives the JSON that it printed.
    fn run<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T> {
        let output = self.command(arguments).output()?;
        result(arguments, output.status.success(), &output.stdout, &output.stderr)
    }

    /// Waits for a client that was started.
    fn finish<T: DeserializeOwned>(&self, mut process: Process, arguments: &[&str]) -> Result<T> {
        let end = Instant::now() + Duration::from_secs(45);
        while process.0.try_wait()?.is_none() {
            if Instant::now() > end {
                bail!("cellway {} did not end", arguments.join(" "));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let (Some(o), Some(e)) = (process.0.stdout.as_mut(), process.0.stderr.as_mut()) {
            o.read_to_end(&mut stdout)?;
            e.read_to_end(&mut stderr)?;
        }
        result(arguments, process.0.try_wait()?.is_some_and(|s| s.success()), &stdout, &stderr)
    }
}

fn result<T: DeserializeOwned>(arguments: &[&str], ok: bool, stdout: &[u8], stderr: &[u8]) -> Result<T> {
    if !ok {
        bail!("cellway {}: {}", arguments.join(" "), String::from_utf8_lossy(stderr).trim());
    }
    serde_json::from_slice(stdout).with_context(|| format!("what cellway {} printed", arguments.join(" ")))
}

fn ttcp_sizes(socket: &Path, tell: &dyn Fn(&str) -> Result<()>) -> Result<Vec<DemoThroughput>> {
    let text = NETWORK.replace("rate = \"OC-3c\"\n", "");
    let daemon = Daemon::start(config::parse(&text, "two-hosts.toml")?, socket)?;
    let circuit = "0.100".parse()?;
    let mut rows = Vec::new();
    for pdu_octets in [64, 128, 256, 512, 1024, 2048, 4096, 9188, 16_384, 32_768, 65_535] {
        let memcpy = memcpy_gbit_s(pdu_octets, Duration::from_millis(40));
        let flood = flood(socket, circuit, pdu_octets, Handover::Lent, Duration::from_millis(350))?;
        let gbit_s = flood.arrived as f64 * pdu_octets as f64 * 8.0 / 1e9 / flood.seconds.max(1e-9);
        tell(&format!("  {pdu_octets:>6} octets  {gbit_s:>7.2} Gbit/s  memcpy {memcpy:>5.0}"))?;
        let Flood { sent, arrived, in_place, .. } = flood;
        let vs_memcpy = gbit_s / memcpy;
        rows.push(DemoThroughput { pdu_octets, gbit_s, memcpy_gbit_s: memcpy, vs_memcpy, sent, arrived, in_place });
    }
    drop(daemon);
    Ok(rows)
}

/// `cellway demo`
pub(crate) fn run(context: &Context, demo: &Demo) -> Result<()> {
    let begin = Instant::now();
    let out = &demo.out;
    if !demo.overwriting.force {
        outfile::keep_capture(&out.join(CAPTURE))?;
    }
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let program = std::env::current_exe()?;
    let file = demo.file.clone().unwrap_or_else(|| program.clone());
    let folder = std::env::temp_dir().join(format!("cellway-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (socket, overwriting) = (folder.join("demo.sock"), demo.overwriting);
    let stage = Stage { program, socket, out, overwriting, quiet: context.json };
    let result = play(&stage, &file, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let mut results = result?;
    results.seconds = begin.elapsed().as_secs_f64();
    std::fs::write(out.join("results.json"), serde_json::to_vec_pretty(&results)?)?;
    std::fs::write(out.join("report.html"), report::html(&results))?;
    output::print(context, &results, || summary(&results, out))
}

fn play(stage: &Stage<'_>, file: &Path, folder: &Path) -> Result<Shown> {
    let size = std::fs::metadata(file).with_context(|| format!("{}", file.display()))?.len();
    stage.tell("1/6  two hosts, a switch, an OC-3c link and an unlimited one")?;
    let description = folder.join("two-hosts.toml");
    std::fs::write(&description, NETWORK)?;
    let service = stage.start_ready(&["up", &description.display().to_string()], "up")?;

    let capture_path = stage.out.join(CAPTURE);
    let capture_out = BufWriter::new(OutFile::open(&capture_path, stage.overwriting)?);
    let (stop, told) = UnixStream::pair()?;
    let context = Context { socket: stage.socket.clone(), json: false };
    // IP and OAM, not the file's own circuit: a capture to look at, not a copy of the file.
    let (ip, data) = ("0.101".parse()?, "0.100".parse()?);
    let capturing = std::thread::spawn(move || {
        let buffer_mib = control::capture::BUFFER_MIB;
        let wanted = capture::Wanted { link: "alpha - s1:0", circuits: &[ip], buffer_mib };
        let until = capture::Until { told, moment: None };
        capture::record(&context, wanted, capture::What::Pdus, capture_out, &until)
    });
    let played = scenes(stage, file, size, folder, &data);
    drop(stop);
    let captured = capturing.join().unwrap_or_else(|_| bail!("the capture panicked"));
    let Scenes { file, oam, ip_ping, tcp } = played?;
    let capture = DemoCapture { captured: captured?.captured(), path: capture_path };
    let status: Status = stage.run(&["status"])?;
    drop(service);

    stage.tell("6/6  ttcp over PDU sizes, both links unlimited, with this machine's memcpy beside it")?;
    if let Some(profile) = profile().filter(|profile| profile != "release") {
        stage.tell(&format!("     figures of a build by cargo's profile {profile}; an optimised one: make build"))?;
    }
    let ttcp = ttcp_sizes(&folder.join("ttcp.sock"), &|text| stage.tell(text))?;
    Ok(Shown { file, oam, ip_ping, tcp, capture, status, profile: profile(), ttcp, seconds: 0.0 })
}

/// The folder in cargo's target folder that has this program.
fn profile() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?.file_name()?.to_str()?;
    ["release", "demo", "debug"].contains(&folder).then(|| folder.to_owned())
}

/// What the first five scenes came to.
struct Scenes {
    file: DemoFile,
    oam: DemoOam,
    ip_ping: DemoIpPing,
    tcp: DemoTransfer,
}

fn scenes(stage: &Stage<'_>, file: &Path, size: u64, folder: &Path, data: &wire::CircuitId) -> Result<Scenes> {
    let data = data.to_string();
    stage.tell(&format!("2/6  {} ({size} octets) from alpha to beta, by two client processes", file.display()))?;
    let copy = folder.join("copy").display().to_string();
    let receive = ["receive", "beta", &data, &copy, "--reliable", "--timeout", "20"];
    let receiving = stage.start(&receive)?;
    let name = file.display().to_string();
    let sent: Transferred = stage.run(&["send", "alpha", &data, &name, "--reliable"])?;
    let received: Transferred = stage.finish(receiving, &receive)?;
    if sent.sha256 != received.sha256 {
        bail!("SHA-256 differs: sent {}, received {}", sent.sha256, received.sha256);
    }
    stage.tell(&format!("     SHA-256 {} at both ends", sent.sha256))?;

    stage.tell("3/6  OAM loopback to the first switch and to the far end")?;
    let segment: Pinged = stage.run(&["ping", "alpha", "0.101", "--segment", "-c", "10", "-i", "20"])?;
    let end_to_end: Pinged = stage.run(&["ping", "alpha", "0.101", "-c", "10", "-i", "20"])?;

    stage.tell("4/6  IP over ATM: ping")?;
    // What is sent before the far end of a circuit is open is lost there.
    let serving = stage.start_ready(&["ip", "serve", "beta", "0.101"], "serving")?;
    let octets_56: Pinged = stage.run(&["ip", "ping", "alpha", "0.101", "10.0.0.2", "-c", "10", "-i", "20"])?;
    let octets_9000: Pinged =
        stage.run(&["ip", "ping", "alpha", "0.101", "10.0.0.2", "-c", "5", "-i", "20", "-s", "9000"])?;
    drop(serving);

    stage.tell("5/6  IP over ATM: a TCP transfer")?;
    let sample = folder.join("sample");
    let head: Vec<u8> = std::fs::read(file)?.into_iter().take(4 << 20).collect();
    std::fs::write(&sample, head)?;
    let copy = folder.join("tcp-copy").display().to_string();
    let receive = ["ip", "receive", "beta", "0.101", &copy];
    let receiving = stage.start_listening(&receive)?;
    let sample = sample.display().to_string();
    let tcp_sent: Transferred = stage.run(&["ip", "send", "alpha", "0.101", "10.0.0.2", &sample])?;
    let tcp_received: Transferred = stage.finish(receiving, &receive)?;
    if tcp_sent.sha256 != tcp_received.sha256 {
        bail!("SHA-256 differs after TCP: sent {}, received {}", tcp_sent.sha256, tcp_received.sha256);
    }
    Ok(Scenes {
        file: DemoFile { path: name, octets: size, sent, received },
        oam: DemoOam { segment, end_to_end },
        ip_ping: DemoIpPing { octets_56, octets_9000 },
        tcp: DemoTransfer { sent: tcp_sent, received: tcp_received },
    })
}

fn summary(r: &Shown, out: &Path) -> String {
    let rtt = |p: &Pinged| {
        let median = p.rtt_us.map_or_else(|| "-".to_owned(), |rtt| format!("{:.0} us", rtt.median));
        format!("{median} median, {} of {} answered", p.received, p.sent)
    };
    let best = r.ttcp.iter().max_by(|a, b| a.gbit_s.total_cmp(&b.gbit_s));
    let captured = &r.capture.captured;
    let rows = [
        ("file over an OC-3c link", format!("{:.1} Mbit/s, SHA-256 equal", r.file.sent.mbit_per_s)),
        ("OAM loopback, segment", rtt(&r.oam.segment)),
        ("OAM loopback, end to end", rtt(&r.oam.end_to_end)),
        ("IP ping, 56 octets", rtt(&r.ip_ping.octets_56)),
        ("IP ping, 9000 octets", rtt(&r.ip_ping.octets_9000)),
        ("TCP over IP over ATM", format!("{:.1} Mbit/s, SHA-256 equal", r.tcp.sent.mbit_per_s)),
        (
            "ttcp, unlimited links",
            best.map_or(String::new(), |b| format!("{:.1} Gbit/s with {} octets", b.gbit_s, b.pdu_octets)),
        ),
        ("captured", format!("{} records, {} missed", captured.records, captured.missed)),
    ];
    let mut text = String::from("\n");
    for (what, figure) in rows {
        text.push_str(&format!("  {what:26} {figure}\n"));
    }
    text.push_str(&format!("\n  took {:.1} s\n", r.seconds));
    for name in ["report.html", "results.json", CAPTURE] {
        text.push_str(&format!("  {}\n", out.join(name).display()));
    }
    text
}
