//! The log as systemd's journal reads it: each line begins with its priority (sd-daemon(3)), and has no time and no name of
//! a level, which the journal keeps itself.

use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// syslog(3): LOG_CRIT, for a panic.
pub(super) const CRITICAL: u8 = 2;

/// Whether standard error is the journal: systemd names the stream's device and inode in `JOURNAL_STREAM`.
pub(super) fn is_standard_error() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|is| is_stream(&stream, is.st_dev, is.st_ino))
}

fn is_stream(named: &str, device: u64, inode: u64) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    named.split_once(':').is_some_and(|(d, i)| number(d) == Some(device) && number(i) == Some(inode))
}

/// The priority of syslog(3) for a level.
fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// A text with the priority before each of its lines.
pub(super) fn prefixed(priority: u8, text: &str) -> String {
    text.lines().map(|line| format!("<{priority}>{line}\n")).collect()
}

/// A format with the priority before each line of an event.
pub(super) struct Prefixed<F>(pub F);

impl<S, N, F> FormatEvent<S, N> for Prefixed<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        self.0.format_event(context, Writer::new(&mut text), event)?;
        writer.write_str(&prefixed(priority(event.metadata().level()), &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_its_device_and_inode() {
        assert!(is_stream("9:1234", 9, 1234));
        for other in ["9:1235", "8:1234", "9", "", "9:", "9:1234:1"] {
            assert!(!is_stream(other, 9, 1234), "{other}");
        }
    }

    #[test]
    fn each_line_of_a_text_has_the_priority() {
        assert_eq!(prefixed(3, "not applied\n  at 1\n"), "<3>not applied\n<3>  at 1\n");
        assert_eq!(prefixed(6, ""), "");
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(|level| priority(&level)), [3, 4, 6, 7, 7]);
    }
}
