//! The log: lines for people, and not more of a kind than people can read.
//!
//! A line's kind is where in the code it comes from and whom it is about (its field `source`). Of a kind, [`BURST`]
//! lines come at once, then one every [`EVERY`]; where many sources are told of from one place in the code,
//! [`ALL_BURST`] and one each [`ALL_EVERY`]. A line that comes after others were left out says how many, and what still
//! is to be said comes with the next line of any kind. So nobody who can cause a line can fill a disk, or bury other
//! lines. Where standard error is systemd's journal, each line has its priority ([`journal`]).

mod journal;

use control::lines::Lines;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines of one kind at once, and how often one more.
const BURST: u32 = 8;
const EVERY: Duration = Duration::from_secs(10);
/// The same for all lines from one place in the code.
const ALL_BURST: u32 = 64;
const ALL_EVERY: Duration = Duration::from_secs(1);
/// Kinds that are remembered; what there are more, and was last heard of longest ago, is forgotten.
const KINDS: usize = 1024;

/// Whom a line is about: the fields that say it.
const SOURCES: [&str; 2] = ["source", "socket"];

/// How long the end of this process waits for whoever reads its last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Lets the last lines out when it is dropped.
#[must_use]
pub(crate) struct Log(Lines);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

/// Starts the log of this process, to standard error by way of [`control::lines`]. `filter` is as `RUST_LOG` has it.
///
/// # Errors
/// The system has no thread for it.
pub(crate) fn start(filter: &str) -> std::io::Result<Log> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = Lines::start(std::io::stderr())?;
    let writer = lines.clone();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(move || writer.clone())
        .with_ansi(is_terminal);
    let format = Format::default().with_target(false);
    let to_journal = journal::is_standard_error();
    if to_journal {
        let format = Limited::new(format.without_time().with_level(false));
        builder.event_format(journal::Prefixed(format)).init();
    } else {
        builder.event_format(Limited::new(format)).init();
    }
    tell_of_panics(lines.clone(), to_journal);
    Ok(Log(lines))
}

/// A panic's message takes the same way as all lines: the thread that ends must not wait for a reader who never reads.
/// Then the process ends, whichever thread it is, unless somebody catches the panic and answers for it.
fn tell_of_panics(lines: Lines, to_journal: bool) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("unnamed"));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            text += &format!("{trace}\n");
        }
        if to_journal {
            text = journal::prefixed(journal::CRITICAL, &text);
        }
        lines.push(text.as_bytes());
        lines.flush(LAST_LINES);
        if !host::panics::is_caught() {
            host::panics::end_process();
        }
    }));
}

/// A format that leaves lines out where too many come.
struct Limited<F> {
    format: F,
    limits: Mutex<Limits>,
}

impl<F> Limited<F> {
    fn new(format: F) -> Self {
        Limited { format, limits: Mutex::new(Limits::default()) }
    }
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let place = event.metadata();
        let mut about = About(DefaultHasher::new());
        event.record(&mut about);
        let name = place.name();
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = limits.admit(name, about.0.finish(), Instant::now());
        drop(limits);
        let Some(left_out) = verdict else { return Ok(()) };
        for (what, lines) in left_out {
            writeln!(
                writer,
                "{lines} more lines like the last from {} were left out",
                what.trim_start_matches("event ")
            )?;
        }
        self.format.format_event(context, writer, event)
    }
}

struct About(DefaultHasher);

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if SOURCES.contains(&field.name()) {
            format!("{value:?}").hash(&mut self.0);
        }
    }
}

/// A stock of lines that grows by one each so often.
#[derive(Debug, Clone, Copy)]
struct Stock {
    lines: u32,
    grown: Instant,
}

impl Stock {
    fn grow(&mut self, most: u32, every: Duration, now: Instant) {
        let grown = (now.duration_since(self.grown).as_nanos() / every.as_nanos()).min(most.into()) as u32;
        if grown > 0 {
            self.lines = (self.lines + grown).min(most);
            self.grown = now;
        }
    }
}

#[derive(Debug)]
struct Kind {
    stock: Stock,
    left_out: u64,
    last: Instant,
}

/// What has been said and left out. Kinds are by the name of the place in the code, and a number for whom it is about.
#[derive(Debug, Default)]
struct Limits {
    kinds: HashMap<(&'static str, u64), Kind>,
    places: HashMap<&'static str, Stock>,
    /// Lines left out by kinds that have been forgotten.
    forgotten: HashMap<&'static str, u64>,
    any_left_out: bool,
}

impl Limits {
    /// Whether a line may come; if so, what has been left out before it, by place.
    fn admit(&mut self, place: &'static str, about: u64, now: Instant) -> Option<Vec<(&'static str, u64)>> {
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&(place, about)) {
            self.forget();
        }
        let fresh = |lines| Stock { lines, grown: now };
        let kind = self.kinds.entry((place, about)).or_insert(Kind { stock: fresh(BURST), left_out: 0, last: now });
        let all = self.places.entry(place).or_insert(fresh(ALL_BURST));
        kind.stock.grow(BURST, EVERY, now);
        all.grow(ALL_BURST, ALL_EVERY, now);
        kind.last = now;
        if kind.stock.lines == 0 || all.lines == 0 {
            kind.left_out += 1;
            self.any_left_out = true;
            return None;
        }
        kind.stock.lines -= 1;
        all.lines -= 1;
        Some(self.take_left_out())
    }

    fn take_left_out(&mut self) -> Vec<(&'static str, u64)> {
        if !std::mem::take(&mut self.any_left_out) {
            return Vec::new();
        }
        let mut sums = std::mem::take(&mut self.forgotten);
        for ((place, _), kind) in &mut self.kinds {
            if kind.left_out > 0 {
                *sums.entry(place).or_default() += std::mem::take(&mut kind.left_out);
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable();
        sums
    }

    /// Makes room for a kind.
    fn forget(&mut self) {
        let oldest = self.kinds.iter().min_by_key(|(_, kind)| kind.last).map(|(key, _)| *key);
        if let Some(key) = oldest
            && let Some(kind) = self.kinds.remove(&key)
            && kind.left_out > 0
        {
            *self.forgotten.entry(key.0).or_default() += kind.left_out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Says to this program that it is to panic, twice.
    const PANICS: &str = "CELLWAY_TEST_PANICS";

    #[test]
    fn a_panic_of_any_thread_ends_the_program_after_its_message_but_one_that_is_caught() {
        if std::env::var_os(PANICS).is_some() {
            let _log = start("info").unwrap();
            assert_eq!(host::panics::caught(|| -> u8 { panic!("of one request") }), None);
            let _ = std::thread::Builder::new().name("calls".into()).spawn(|| panic!("of a thread that many need"));
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
        let name = "log::tests::a_panic_of_any_thread_ends_the_program_after_its_message_but_one_that_is_caught";
        let mut program = Command::new(std::env::current_exe().unwrap());
        let ended = program.args(["--exact", name, "--nocapture"]).env(PANICS, "").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(101), "{said}");
        let (first, second) = (said.find("of one request"), said.find("thread 'calls'"));
        assert!(first.is_some() && first < second && said.contains("of a thread that many need"), "{said}");
    }

    #[test]
    fn a_flood_of_one_kind_leaves_a_few_lines_and_its_count_and_hides_no_other() {
        let (mut limits, begin) = (Limits::default(), Instant::now());
        let said = (0..100_000).filter(|_| limits.admit("a", 1, begin).is_some()).count();
        assert_eq!(said, BURST as usize);
        assert_eq!(limits.admit("b", 1, begin), Some(vec![("a", 100_000 - u64::from(BURST))]));
        assert_eq!(limits.admit("b", 1, begin), Some(Vec::new()));
        assert_eq!(limits.admit("a", 1, begin + EVERY), Some(Vec::new()));
        assert_eq!(limits.admit("a", 1, begin + EVERY), None);
    }

    #[test]
    fn a_flood_about_ever_new_sources_is_bounded_too_and_every_line_of_it_is_counted() {
        let (mut limits, begin) = (Limits::default(), Instant::now());
        let (mut said, mut told) = (0, 0);
        for n in 0..50_000u64 {
            // Ten seconds in all.
            let now = begin + Duration::from_micros(200 * n);
            if let Some(left_out) = limits.admit("a", n, now) {
                said += 1;
                told += left_out.iter().map(|(_, n)| n).sum::<u64>();
            }
        }
        assert!((64..=75).contains(&said), "{said}");
        assert!(limits.kinds.len() <= KINDS);
        let rest = limits.admit("b", 0, begin).map(|left_out| left_out.iter().map(|(_, n)| n).sum::<u64>());
        assert_eq!(Some(50_000 - said - told), rest);
    }
}
