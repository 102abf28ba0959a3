//! `cellway capture`: what passes on a link, as pcapng ([`pcapng`]), as pcap of SDUs ([`pcap`]), or as a recording of
//! Linux's `atmtcp` ([`atmtcp`]).
//! In: a stream of the service's ([`control::capture`]).

mod assemble;
mod atmtcp;
pub(crate) mod pcap;
mod pcapng;
mod rotation;

use crate::client::interruption;
use crate::context::Context;
use crate::exit_status::OrUsage;
use crate::outfile::{OutFile, Overwriting};
use crate::output;
use crate::units;
use crate::usage;
use anyhow::{Context as _, Result, bail};
use assemble::{Recorder, Sink};
use atmtcp::Recording;
use clap::{Args, ValueEnum};
use control::capture::stream::{Item, Reader};
use control::capture::{BUFFER_MIB, MAX_BUFFER_MIB};
use control::protocol::{Capturing, Request};
use control::results::{CaptureBegun, Captured};
use net::TapRecord;
use pcap::{Form, Pcap};
use pcapng::Pcapng;
use rotation::{Rotating, Rotation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Between two looks whether the capture is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long the service may be silent at a capture's end.
const LAST_ITEMS: Duration = Duration::from_secs(1);

/// Octets read at once.
const PIECE_OCTETS: usize = 256 * 1024;

/// Records the traffic of a link, for tshark or Wireshark: `cellway capture "alpha:0 - s1:0" - | tshark -r -`
#[derive(Debug, Args)]
#[command(
    after_help = "Standard error has a line once capturing has begun. The result goes to standard output, or to standard error if \
    the records go to standard output."
)]
pub(crate) struct Capture {
    /// The link's name, as `cellway link list` shows it
    link: String,
    /// The file, or - for standard output. It is not changed if the capture is refused
    file: PathBuf,
    /// Only these circuits, as the link names them
    #[arg(long)]
    circuit: Vec<CircuitId>,
    /// Whole AAL5 PDUs (and OAM cells), or every cell
    #[arg(long, value_enum, default_value_t = What::Pdus)]
    what: What,
    /// pcapng, for tshark and Wireshark; pcap of AAL5 SDUs, for tcpdump and old tools; or a recording as `atmtcp write`
    /// makes it: stream 0 has the traffic from the link's first end
    #[arg(long, value_enum, default_value_t = Format::Pcapng)]
    format: Format,
    /// End after so many seconds
    #[arg(long, value_parser = units::seconds)]
    seconds: Option<Duration>,
    /// MiB of cells that the service buffers while this command, or the disk, is too slow: 32 are 0.8 s of a full OC-3c
    /// link
    #[arg(long, value_name = "MIB", default_value_t = BUFFER_MIB, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BUFFER_MIB)))]
    buffer: u32,
    #[command(flatten)]
    rotation: Rotation,
    #[command(flatten)]
    overwriting: Overwriting,
}

impl Capture {
    fn end(&self) -> Result<Option<Instant>> {
        let Some(length) = self.seconds else { return Ok(None) };
        let end = Instant::now().checked_add(length);
        end.map(Some).with_context(|| format!("--seconds: {length:?} is beyond the clock")).or_usage()
    }
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Reassembled AAL5 PDUs with padding and trailer; OAM and unknown cells unchanged. For AAL0 and AAL3/4 on cell
    /// links use `cells`.
    Pdus,
    /// Cells, unchanged.
    Cells,
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// pcapng with ERF records.
    Pcapng,
    /// pcap with SunATM's head: `tcpdump -r FILE 'vpi 8 and vci 35'`. VPIs up to 255; no OAM cells.
    Sunatm,
    /// pcap of AAL5 SDUs that begin with LLC (RFC 1483), whose circuit is not said.
    Rfc1483,
    /// A recording file of linux-atm's `atmtcp`.
    Atmtcp,
}

/// What has been written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Records.
    pub(crate) records: u64,
    /// What passed and this form cannot say.
    pub(crate) beyond: u64,
    /// PDUs left out because their first cells passed before the capture began, or were missed.
    pub(crate) incomplete: u64,
}

/// Where records go.
pub(crate) trait Records {
    /// Takes what passed.
    fn take(&mut self, record: &TapRecord<'_>) -> Result<()>;
    /// Something was missed here.
    fn gap(&mut self);
    fn flush(&mut self) -> Result<()>;
    /// The end; so many cells or frames were missed.
    fn finish(&mut self, missed: u64) -> Result<Written>;
}

/// What a capture came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureOutcome {
    pub(crate) written: Written,
    /// Cells or frames that the service had no room for.
    pub(crate) missed: u64,
}

impl CaptureOutcome {
    pub(crate) fn captured(&self) -> Captured {
        let Written { records, beyond, incomplete } = self.written;
        Captured { records, missed: self.missed + beyond, incomplete }
    }

    fn text(&self) -> String {
        let Written { records, beyond, incomplete } = self.written;
        let mut text = format!("{records} records, {} missed", self.missed + beyond);
        if incomplete > 0 {
            text.push_str(&format!(", {incomplete} PDUs left out for lack of their first cells"));
        }
        if self.missed > 0 {
            text.push_str(" (a larger --buffer, or fewer circuits with --circuit, would help)");
        }
        text
    }
}

/// What is to be captured, and how much the service may keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) link: &'a str,
    pub(crate) circuits: &'a [CircuitId],
    pub(crate) buffer_mib: u32,
}

/// When a capture is to end.
#[derive(Debug)]
pub(crate) struct Until {
    /// Once this can be read, or its other end is closed.
    pub(crate) told: UnixStream,
    /// At this moment.
    pub(crate) moment: Option<Instant>,
}

impl Until {
    /// Waits; false if the stream of records, `from`, ends before.
    fn wait(&self, from: &UnixStream) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.told, PollFlags::IN), PollFd::new(from, PollFlags::empty())];
        loop {
            let left = self.moment.map(|moment| moment.saturating_duration_since(Instant::now()));
            match poll(&mut fds, left.map(Timespec::try_from).and_then(Result::ok).as_ref()) {
                Ok(0) => return Ok(true),
                Ok(_) => return Ok(!fds[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Records a link, in pcapng.
pub(crate) fn record(
    context: &Context,
    wanted: Wanted<'_>,
    what: What,
    out: impl Write,
    until: &Until,
) -> Result<CaptureOutcome> {
    record_to(context, wanted, |name, epoch| Recorder::new(out, name, what, epoch), until)
}

fn record_to<R: Records>(
    context: &Context,
    wanted: Wanted<'_>,
    recorder: impl FnOnce(&str, Duration) -> Result<R>,
    until: &Until,
) -> Result<CaptureOutcome> {
    let circuits = wanted.circuits.iter().map(ToString::to_string).collect();
    let (ours, theirs) = UnixStream::pair()?;
    let start = Request::CaptureStart { link: wanted.link.to_owned(), circuits, buffer_mib: wanted.buffer_mib };
    let connection = endpoint::Connection::open(&context.socket)?;
    let started = connection.manage_text(serde_json::to_value(start)?, &[theirs.as_fd()])?;
    drop((connection, theirs));
    let started: Capturing = serde_json::from_str(&started).context("the service's answer")?;
    let mut recorder = recorder(&started.link, Duration::from_nanos(started.epoch_unix_nanos))?;
    let ending_at = AtomicBool::new(false);
    ours.set_read_timeout(Some(LOOK))?;
    std::thread::scope(|scope| {
        // Says when it is to end, while the other waits for what comes.
        let ending = scope.spawn(|| {
            let wished = until.wait(&ours);
            ending_at.store(true, Ordering::Relaxed);
            // The service writes what there is, and closes. It may have done so.
            let _ = ours.shutdown(Shutdown::Write);
            wished
        });
        let from = Ending { stream: &ours, ends: &ending_at, silent: None, socket: &context.socket };
        let written = take_all(&mut recorder, from);
        let _ = ours.shutdown(Shutdown::Both);
        let wished = ending.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let outcome = written.and_then(|missed| Ok(CaptureOutcome { written: recorder.finish(missed)?, missed }))?;
        if !wished? {
            bail!("{}; the link, or the service, is gone", outcome.text());
        }
        Ok(outcome)
    })
}

/// What the service sends. Once the capture is to end, the service has so long to send the next of what there is.
struct Ending<'a> {
    stream: &'a UnixStream,
    ends: &'a AtomicBool,
    silent: Option<Instant>,
    socket: &'a Path,
}

impl Read for Ending<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(octets) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => {
                    self.silent = None;
                    return read;
                }
            }
            if self.ends.load(Ordering::Relaxed) {
                let waited = self.silent.get_or_insert_with(Instant::now).elapsed();
                if waited > endpoint::client::request_limit().min(LAST_ITEMS) {
                    let path = self.socket.to_path_buf();
                    return Err(io::Error::other(endpoint::Error::NoAnswer { path, waited }));
                }
            }
        }
    }
}

/// Hands all that comes to the recorder; gives how much was missed.
fn take_all(recorder: &mut impl Records, from: impl Read) -> Result<u64> {
    let mut reader = Reader::new(BufReader::with_capacity(PIECE_OCTETS, from));
    let mut missed = 0;
    while let Some(item) = reader.read()? {
        match item {
            Item::Record(record) => recorder.take(&record)?,
            Item::Mark { missed: more } => {
                missed += more;
                if more > 0 {
                    recorder.gap();
                }
                recorder.flush()?;
            }
        }
    }
    Ok(missed)
}

/// `cellway capture`
pub(crate) fn run(context: &Context, capture: &Capture) -> Result<()> {
    capture.check()?;
    let until = Until { told: interruption()?, moment: capture.end()? };
    let outcome = match capture.format {
        Format::Pcapng => capture.record_in_sinks(context, &until, Pcapng::new)?,
        Format::Sunatm => capture.record_in_sinks(context, &until, |out, _| Pcap::new(out, Form::SunAtm))?,
        Format::Rfc1483 => capture.record_in_sinks(context, &until, |out, _| Pcap::new(out, Form::Rfc1483))?,
        Format::Atmtcp => {
            let out = capture.out()?;
            capture.record(context, &until, |_, _| Ok(Recording::new(out, capture.what)))?
        }
    };
    let data_is_there = capture.file.as_os_str() == "-";
    output::print_beside(context, data_is_there, &outcome.captured(), || outcome.text())
}

/// Where one file's octets go, or those of a series of files.
type Out = Box<dyn Write>;

impl Capture {
    /// Refuses options that contradict each other.
    fn check(&self) -> Result<()> {
        if self.what == What::Cells && matches!(self.format, Format::Sunatm | Format::Rfc1483) {
            usage!("sunatm and rfc1483 have room for whole SDUs only: capture cells as pcapng or atmtcp");
        }
        if self.rotation.keep.is_some() && !self.rotation.is_wanted() {
            usage!("--keep is for a series of files: give --rotate-mib or --rotate-seconds");
        }
        if self.rotation.is_wanted() && (self.format == Format::Atmtcp || self.file.as_os_str() == "-") {
            usage!("a series of files needs a name, and a format other than atmtcp, whose circuits are opened once");
        }
        Ok(())
    }

    fn out(&self) -> Result<Out> {
        if self.file.as_os_str() != "-" {
            return Ok(Box::new(io::BufWriter::new(OutFile::open(&self.file, self.overwriting)?)));
        }
        if io::stdout().is_terminal() {
            usage!("a capture is binary and does not go to a terminal: name a file, or pipe it into `tshark -r -`");
        }
        Ok(Box::new(output::stdout()))
    }

    /// Records in one file or a series of them, in the form of `make`.
    fn record_in_sinks<S: Sink>(
        &self,
        context: &Context,
        until: &Until,
        make: impl Fn(Out, &str) -> Result<S>,
    ) -> Result<CaptureOutcome> {
        let what = self.what;
        if self.rotation.is_wanted() {
            return self.record(context, until, |name, epoch| {
                let (name, make) = (name.to_owned(), &make);
                let make = move |out| make(Box::new(out), &name);
                let files = Rotating::new(self.rotation, &self.file, self.overwriting, make)?;
                Ok(Recorder::to(files, what, epoch))
            });
        }
        // Whether the file can be written is known before the service is asked.
        let out = self.out()?;
        self.record(context, until, |name, epoch| Ok(Recorder::to(make(out, name)?, what, epoch)))
    }

    fn record<R: Records>(
        &self,
        context: &Context,
        until: &Until,
        recorder: impl FnOnce(&str, Duration) -> Result<R>,
    ) -> Result<CaptureOutcome> {
        let wanted = Wanted { link: &self.link, circuits: &self.circuit, buffer_mib: self.buffer };
        let begins = |name: &str, epoch| {
            if context.json {
                output::announce(&CaptureBegun { capturing: name.to_owned(), file: self.file.clone() })?;
            } else {
                output::note(format_args!("{name}: capturing, until Ctrl-C"));
            }
            recorder(name, epoch)
        };
        record_to(context, wanted, begins, until)
    }
}

#[cfg(test)]
mod tests;
