//! A frame of `top`, drawn onto a buffer of characters. In: a sample, a view, the colours to use. Out: the buffer; and
//! the same as lines of text. No terminal is touched here.

use super::table::{Cell, HOPS, Names, Row, Tone, columns, duration, hops, rows};
use super::view::{Tab, View};
use control::results::top::TopSample;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Blank columns between two columns.
const GAP: u16 = 2;
/// A column with figures is at least so wide: it does not change with each sample.
const FIGURES: u16 = 7;
/// A column with words, other than the first, is so wide at most.
const WORDS: u16 = 26;
/// The last column with words is shown if there is so much room.
const SHORT_WORDS: u16 = 10;
/// The first column has so much before other columns are left out.
const FIRST: u16 = 30;
/// A frame has so many columns at least.
const LEAST: u16 = 24;
/// Lines above the rows: title, views, order, heads of columns.
pub(crate) const HEAD: u16 = 4;

/// What the keys do, for the bottom line and the page of help.
const KEYS: &[(&str, &str)] = &[
    ("1-7 Tab", "choose a view"),
    ("up down PgUp PgDn Home End", "choose a row"),
    ("Enter", "follow the circuit that is chosen, hop by hop"),
    ("Esc", "back; clear the filter"),
    ("s S", "sort by the next column, by the one before"),
    ("r", "turn the order round"),
    ("/", "show only rows with these letters"),
    ("p", "pause, and go on"),
    ("?", "show this, and go back"),
    ("q Ctrl-C", "quit"),
];
const SHORT: &str = "1-7 views  Enter follow  / filter  s sort  r reverse  p pause  ? help  q quit";

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Palette {
    /// The sixteen colours that every terminal has.
    Colours,
    /// None: bold and reverse only.
    Plain,
}

impl Palette {
    /// Of an environment in which `NO_COLOR` is this (<https://no-color.org>).
    pub(crate) fn of(no_color: Option<&std::ffi::OsStr>) -> Self {
        if no_color.is_some_and(|value| !value.is_empty()) { Palette::Plain } else { Palette::Colours }
    }

    fn colour(self, colour: Color) -> Style {
        match self {
            Palette::Colours => Style::new().fg(colour),
            Palette::Plain => Style::new(),
        }
    }

    fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Active => self.colour(Color::Green),
            Tone::Warning => self.colour(Color::Yellow),
            Tone::Bad => self.colour(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}

/// Everything that a frame shows.
pub(crate) struct Frame<'a> {
    /// What is shown.
    pub(crate) sample: &'a TopSample,
    /// How.
    pub(crate) view: &'a View,
    /// Users by number.
    pub(crate) names: Names<'a>,
    /// With these colours.
    pub(crate) palette: Palette,
    /// What is wrong, such as that the service does not answer.
    pub(crate) trouble: Option<&'a str>,
    /// Whether there are keys: a row is chosen, and the bottom line tells the keys.
    pub(crate) has_keys: bool,
}

impl Frame<'_> {
    /// The heads of the columns, and the rows.
    pub(crate) fn table(&self) -> (&'static [&'static str], Vec<Row>) {
        match (self.view.follows(), &self.sample.path) {
            (Some(_), Some(path)) => (HOPS, hops(path)),
            (Some(_), None) => (HOPS, Vec::new()),
            (None, _) => {
                let view = self.view;
                (columns(view.tab()), rows(view.tab(), self.sample, self.names, view.filter(), view.sort()))
            }
        }
    }

    /// Lines that the frame has with all its rows.
    pub(crate) fn lines(&self) -> u16 {
        let rows = self.table().1.len().max(1).min(usize::from(u16::MAX - HEAD - 1));
        HEAD + rows as u16 + u16::from(self.has_keys)
    }

    /// Draws it onto all of a buffer.
    pub(crate) fn draw(&self, buffer: &mut Buffer) {
        let area = buffer.area;
        if area.height < HEAD + 2 || area.width < LEAST {
            put(buffer, area, 0, "too small: 24 columns and 6 lines at least", Style::new());
            return;
        }
        self.title(buffer, area);
        self.tabs(buffer, area);
        self.order(buffer, area);
        let below = Rect { y: area.y + HEAD - 1, height: area.height - HEAD + 1, ..area };
        let body = Rect { height: below.height - u16::from(self.has_keys), ..below };
        if self.view.shows_help() {
            help(buffer, body);
        } else {
            self.body(buffer, body);
        }
        if self.has_keys {
            put(buffer, area, area.height - 1, SHORT, Style::new().add_modifier(Modifier::DIM));
        }
    }

    fn title(&self, buffer: &mut Buffer, area: Rect) {
        let sample = self.sample;
        let figures = format!(
            "cellway top  up {}  busy {:.0}%  revision {}  links {}  circuits {}  endpoints {}{}",
            duration(sample.uptime_s),
            sample.busy_share * 100.0,
            sample.revision,
            sample.links.len(),
            sample.circuit_count,
            sample.endpoints.len(),
            if self.view.is_paused() { "  paused" } else { "" },
        );
        put(buffer, area, 0, &figures, Style::new().add_modifier(Modifier::BOLD));
    }

    fn tabs(&self, buffer: &mut Buffer, area: Rect) {
        let mut x = area.x;
        for (tab, digit) in Tab::ALL.into_iter().zip(1..) {
            let name = format!("{digit} {}", tab.name());
            let is_here = tab == self.view.tab();
            let style = if is_here { self.palette.heading().add_modifier(Modifier::REVERSED) } else { Style::new() };
            if x < area.right() {
                x = buffer.set_stringn(x, area.y + 1, &name, (area.right() - x).into(), style).0 + GAP;
            }
        }
    }

    /// The line above the table: what is wrong, or how the table came about.
    fn order(&self, buffer: &mut Buffer, area: Rect) {
        if let Some(trouble) = self.trouble {
            return put(buffer, area, 2, trouble, self.palette.tone(Tone::Bad));
        }
        let view = self.view;
        let line = if let Some(circuit) = view.follows() {
            format!("{circuit}; links count all of their circuits")
        } else {
            let heads = columns(view.tab());
            let sort = view.sort();
            let by = heads.get(sort.column).copied().unwrap_or_default();
            let order = if sort.descending { "largest first" } else { "smallest first" };
            let cursor = if view.is_editing() { "_" } else { "" };
            let filter = match view.filter() {
                "" if !view.is_editing() => String::new(),
                filter => format!("   with \"{filter}{cursor}\""),
            };
            format!("by {by}, {order}{filter}")
        };
        put(buffer, area, 2, &line, Style::new().add_modifier(Modifier::DIM));
    }

    fn body(&self, buffer: &mut Buffer, area: Rect) {
        let (heads, rows) = self.table();
        let layout = layout(heads, &rows, area.width);
        line(buffer, area, area.y, &layout, |column| heads[column].to_owned(), self.palette.heading());
        if rows.is_empty() {
            put(buffer, area, 1, self.nothing(), Style::new());
            return;
        }
        let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
        let chosen = if self.has_keys && self.view.follows().is_none() { Some(self.view.place(&keys)) } else { None };
        let room = usize::from(area.height - 1);
        // The chosen row is in sight.
        let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(room));
        for ((nth, row), y) in rows.iter().enumerate().skip(first).take(room).zip(area.y + 1..) {
            let mut style = self.palette.tone(row.tone);
            if Some(nth) == chosen {
                style = style.add_modifier(Modifier::REVERSED);
                buffer.set_style(Rect { y, height: 1, ..area }, style);
            }
            line(buffer, area, y, &layout, |column| row.cells[column].text(), style);
        }
    }

    fn nothing(&self) -> &'static str {
        if self.view.follows().is_some() {
            return "this circuit is not there any more";
        }
        if !self.view.filter().is_empty() {
            return "nothing has these letters";
        }
        match self.view.tab() {
            Tab::Links => "no links",
            Tab::Circuits => "no circuits",
            Tab::Calls => "no calls",
            Tab::Endpoints => "no application has an endpoint",
            Tab::Queues => "nothing waits",
            Tab::Drops => "nothing was dropped",
            Tab::Alarms => "no alarms",
        }
    }
}

/// The page of keys.
fn help(buffer: &mut Buffer, area: Rect) {
    let wide = KEYS.iter().map(|(keys, _)| keys.len()).max().unwrap_or_default();
    for ((keys, does), nth) in KEYS.iter().zip(0..) {
        put(buffer, area, nth, &format!("  {keys:wide$}  {does}"), Style::new());
    }
}

/// Writes a line of an area, as far as there is room.
fn put(buffer: &mut Buffer, area: Rect, nth: u16, text: &str, style: Style) {
    if nth < area.height {
        buffer.set_stringn(area.x, area.y + nth, text, area.width.into(), style);
    }
}

/// A column that is shown.
struct Column {
    nth: usize,
    width: u16,
    is_right: bool,
}

/// The columns that fit into a width. The first one gets the room that is left.
fn layout(heads: &[&str], rows: &[Row], width: u16) -> Vec<Column> {
    let count = |text: &str| text.chars().count().min(usize::from(u16::MAX)) as u16;
    let mut all: Vec<Column> = (heads.iter().enumerate())
        .map(|(nth, head)| {
            let cells = || rows.iter().filter_map(|row| row.cells.get(nth));
            let is_right = cells().any(|cell| !matches!(cell, Cell::Text(_)));
            let widest = cells().map(|cell| count(&cell.text())).max().unwrap_or(0).max(count(head));
            let width = match (nth, is_right) {
                (0, _) => widest,
                (_, true) => widest.max(FIGURES),
                (_, false) => widest.min(WORDS),
            };
            Column { nth, width, is_right }
        })
        .collect();
    let others = |all: &[Column]| all.iter().skip(1).map(|column| column.width + GAP).sum::<u16>();
    let wanted = all.first().map_or(0, |first| first.width.min(FIRST));
    while all.len() > 2 && others(&all) + wanted > width {
        let beyond = others(&all) + wanted - width;
        match all.last_mut() {
            Some(last) if !last.is_right && last.width >= beyond + SHORT_WORDS => last.width -= beyond,
            _ => drop(all.pop()),
        }
    }
    let rest = width.saturating_sub(others(&all));
    if let Some(first) = all.first_mut() {
        first.width = rest;
    }
    all
}

/// Writes the cells of a line into its columns.
fn line(buffer: &mut Buffer, area: Rect, y: u16, layout: &[Column], text: impl Fn(usize) -> String, style: Style) {
    let mut x = area.x;
    for column in layout {
        let text = cut(&text(column.nth), column.width.into());
        let blanks = if column.is_right { column.width.saturating_sub(text.chars().count() as u16) } else { 0 };
        let room = area.right().saturating_sub(x + blanks);
        buffer.set_stringn(x + blanks, y, &text, room.into(), style);
        x = (x + column.width + GAP).min(area.right());
    }
}

/// The beginning of a text, with a mark where something is left out.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}\u{2026}")
}

/// A buffer as lines of text.
pub(crate) fn to_text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let line: String = (buffer.area.left()..buffer.area.right()).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
