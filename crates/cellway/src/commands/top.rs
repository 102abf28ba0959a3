//! `cellway top`: what passes, waits and is dropped now, on a terminal. The shell around a model of rates ([`rates`]), a
//! view that keys change ([`view`]) and a drawing of both ([`draw`]).

mod counters;
mod draw;
mod path;
pub(crate) mod picture;
mod rates;
mod screen;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use crate::client::{ask_for, goes_on, interrupted};
use crate::context::Context;
use crate::outfile::{OutFile, Overwriting};
use crate::users::Users;
use crate::{exit_status, output, units, usage};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use control::protocol::Request;
use control::results::top::TopSample;
pub(crate) use counters::host_of;
use draw::{Frame, Palette, to_text};
use path::circuit_named;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
pub(crate) use rates::{Told, sample};
use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use table::brief;
use view::{Tab, View};

/// The size of a frame where no terminal says another.
const SIZE: Size = Size { columns: 80, lines: 24 };

/// Shows rates, queues, drops and alarms each second, until q or Ctrl-C.
///
/// `?` shows the keys: sort, filter, and follow one circuit through its hops. It reads counters that the network keeps
/// anyway. In a network of more than 1000 circuits it shows those that are open or have counted something, 1000 at most.
/// NO_COLOR in the environment turns colours off.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Begin with this view
    #[arg(long, value_enum, default_value_t = Tab::Links)]
    view: Tab,
    /// Follow this circuit hop by hop: its name, or one of its ends
    #[arg(long, value_name = "CIRCUIT")]
    circuit: Option<String>,
    /// Show only rows with these letters
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Seconds between two looks at the counters
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one frame, of two looks at the counters, and end; --json prints one sample with all views
    #[arg(long)]
    once: bool,
    /// Draw one frame as SVG into a file, and end
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    picture: Option<PathBuf>,
    /// Columns and lines of the one frame; without, --once prints all rows
    #[arg(long, value_name = "80x24")]
    size: Option<Size>,
    #[command(flatten)]
    overwriting: Overwriting,
}

/// Columns and lines of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    columns: u16,
    lines: u16,
}

impl std::str::FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let size = text
            .split_once('x')
            .and_then(|(columns, lines)| Some(Size { columns: columns.parse().ok()?, lines: lines.parse().ok()? }));
        size.filter(|size| (24..=500).contains(&size.columns) && (6..=2000).contains(&size.lines))
            .ok_or_else(|| "expected columns (24 to 500) and lines (6 to 2000): 80x24".to_owned())
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = units::seconds(text)?;
    let ends = [Duration::from_millis(10), Duration::from_secs(3600)];
    if (ends[0]..=ends[1]).contains(&interval) { Ok(interval) } else { Err("expected 10ms to 60min".to_owned()) }
}

impl Top {
    /// Whether it runs until it is told to end.
    pub(crate) fn is_endless(&self, context: &Context) -> bool {
        !self.once && self.picture.is_none() && !context.json
    }
}

/// What the service tells now.
pub(crate) fn ask(context: &Context) -> Result<Told> {
    Ok(Told {
        status: ask_for(context, &Request::Overview)?,
        calls: ask_for(context, &Request::Calls(endpoint::calls::Request::List))?,
    })
}

/// What the service tells at two moments so far apart; `None` if the command was interrupted between them.
pub(crate) fn ask_twice(context: &Context, apart: Duration) -> Result<Option<[Told; 2]>> {
    const STEP: Duration = Duration::from_millis(50);
    let stop = interrupted()?;
    let first = ask(context)?;
    let mut left = apart;
    while !left.is_zero() {
        std::thread::sleep(left.min(STEP));
        left = left.saturating_sub(STEP);
        if !goes_on(&stop) {
            return Ok(None);
        }
    }
    Ok(Some([first, ask(context)?]))
}

/// `cellway top`
pub(crate) fn run(context: &Context, top: &Top) -> Result<()> {
    let palette = Palette::of(std::env::var_os("NO_COLOR").as_deref());
    let view = View::new(top.view, top.circuit.clone()).filtered(&top.filter);
    if top.is_endless(context) {
        if !std::io::stdout().is_terminal() {
            usage!("standard output is no terminal: print one frame with --once, or one sample with --json");
        }
        let first = ask(context)?;
        check_circuit(&first, top)?;
        return screen::run(context, top.interval, view, palette, first);
    }
    let Some([before, now]) = ask_twice(context, top.interval)? else { return Ok(()) };
    check_circuit(&now, top)?;
    let sample = sample(Some(&before), &now, top.circuit.as_deref());
    if let Some(file) = &top.picture {
        let frame = buffer(&sample, &view, Palette::Colours, Some(top.size.unwrap_or(SIZE)));
        let mut out = OutFile::open(file, top.overwriting)?;
        let drawn = out.write_all(picture::svg(&frame, "cellway top").as_bytes()).and_then(|()| out.flush());
        drawn.with_context(|| file.display().to_string())?;
        return if context.json { output::say(&sample) } else { Ok(()) };
    }
    output::print(context, &sample, || to_text(&buffer(&sample, &view, palette, top.size)))
}

/// Refuses to follow a circuit that there is not.
fn check_circuit(told: &Told, top: &Top) -> Result<()> {
    match &top.circuit {
        Some(name) if circuit_named(&told.status, name).is_none() => {
            bail!("{name} is no circuit that is shown: `cellway circuit list` shows their names")
        }
        _ => Ok(()),
    }
}

/// One frame without keys. Without a size it has the terminal's width, or 80 columns, and as many lines as it needs.
fn buffer(sample: &TopSample, view: &View, palette: Palette, size: Option<Size>) -> Buffer {
    let users = RefCell::new(Users::default());
    let names = |uid| users.borrow_mut().name(uid);
    let frame = Frame { sample, view, names: &names, palette, trouble: None, has_keys: false };
    let size = size.unwrap_or_else(|| Size { columns: width(), lines: frame.lines().max(draw::HEAD + 2) });
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.columns, size.lines));
    frame.draw(&mut buffer);
    buffer
}

/// Columns of standard output.
fn width() -> u16 {
    let terminal = std::io::stdout().is_terminal().then(ratatui::crossterm::terminal::size).and_then(Result::ok);
    terminal.map_or(SIZE.columns, |(columns, _)| columns.clamp(SIZE.columns, 500))
}

/// Whether an error is that there is no service, or that it does not answer.
fn is_no_service(e: &anyhow::Error) -> bool {
    output::exit_status_of(e) == exit_status::NO_SERVICE
}
