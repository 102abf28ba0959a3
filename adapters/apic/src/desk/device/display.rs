//! A display: frames are put together from their parts, shown, and compared with their deadlines.
//!
//! In: cells of AAL5 SDUs, each a part of a frame ([`crate::desk::video`]), the time. Out: counters; with a file, frames as
//! YUV4MPEG2 with grey values alone, which common players show.
//!
//! A frame is late if its last part comes later than the deadline after it was taken, by the camera's clock: camera and
//! display have one clock where they are in one process.

use super::incoming::Incoming;
use super::{Device, DeviceError, MAX_RECORDED_OCTETS, Writer, counted};
use crate::desk::video::{Part, is_pattern};
use core::time::Duration;
use std::path::PathBuf;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// Circuits that a display shows at most.
pub const MAX_CIRCUITS: usize = 16;

/// A display as it is described.
#[derive(Debug, Clone, PartialEq)]
pub struct DisplaySettings {
    /// From when a frame was taken to when it must have come.
    pub deadline: Duration,
    /// Where frames are stored: those of the first circuit that has a whole one.
    pub file: Option<PathBuf>,
    /// Octets of that file at most.
    pub max_octets: u64,
}

impl Default for DisplaySettings {
    /// The time of a frame, at 25 a second.
    fn default() -> Self {
        DisplaySettings { deadline: Duration::from_millis(40), file: None, max_octets: MAX_RECORDED_OCTETS }
    }
}

/// What became of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Frames that came whole and in time.
    pub shown: u64,
    /// Whole, after the deadline.
    pub late: u64,
    /// Frames of which a part was lost.
    pub broken: u64,
    /// Frames of which nothing came, as their numbers say.
    pub missing: u64,
    /// Whole frames that are not the pattern that they are said to be.
    pub damaged: u64,
    /// SDUs that were no parts, or came on more circuits than a display has.
    pub refused: u64,
    /// The shortest and the longest time from when a frame was taken to when it had come.
    pub least: Duration,
    /// See there.
    pub most: Duration,
    /// The sum of those times.
    pub sum: Duration,
}

/// What a frame begins with in a file.
const FRAME: &[u8] = b"FRAME\n";

/// A circuit's frame.
#[derive(Debug)]
struct Screen {
    /// What of the frame has come, as the file has it; of frames that no file gets, nothing.
    image: Vec<u8>,
    /// All of it is the pattern that it is said to be.
    is_own: bool,
    /// The part that came last, and how many octets of its frame there are.
    last: Option<Part>,
    octets: usize,
    /// It was whole.
    whole: bool,
}

/// See the module's head.
#[derive(Debug)]
pub struct Display {
    screens: Incoming<Screen>,
    shown: Shown,
}

/// What becomes of frames that are whole.
#[derive(Debug)]
struct Shown {
    settings: DisplaySettings,
    writer: Option<Writer>,
    /// The circuit whose frames are stored, and their size.
    stored: Option<(CircuitId, [u16; 2])>,
    seen: Seen,
    lost: Counters,
}

impl Display {
    /// A display whose file is made.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(settings: &DisplaySettings) -> Result<Self, DeviceError> {
        let writer = settings.file.as_deref().map(Writer::create).transpose()?;
        let mut display = Display::new(settings.clone());
        display.shown.writer = writer.map(|writer| writer.at_most(settings.max_octets));
        Ok(display)
    }

    /// A display without a file.
    pub fn new(settings: DisplaySettings) -> Self {
        let (seen, lost) = (Seen::default(), Counters::default());
        Display {
            screens: Incoming::new(MAX_CIRCUITS),
            shown: Shown { settings, writer: None, stored: None, seen, lost },
        }
    }

    /// What it has seen.
    pub fn seen(&self) -> &Seen {
        &self.shown.seen
    }
}

impl Shown {
    /// Whether frames of a circuit may be stored.
    fn keeps(&self, circuit: CircuitId) -> bool {
        self.writer.is_some() && self.stored.is_none_or(|(own, _)| own == circuit)
    }

    /// A frame is whole, with its last part.
    fn show(&mut self, circuit: CircuitId, screen: &mut Screen, part: Part, now: Time) {
        if !screen.is_own {
            self.seen.damaged += 1;
            return;
        }
        let took = now.since(Time::from_nanos(part.taken_nanos));
        let seen = &mut self.seen;
        seen.least = if seen.shown + seen.late == 0 { took } else { seen.least.min(took) };
        seen.most = seen.most.max(took);
        seen.sum = seen.sum.saturating_add(took);
        *(if took <= self.settings.deadline { &mut seen.shown } else { &mut seen.late }) += 1;
        let Some(writer) = &mut self.writer else { return };
        let size = part.size;
        if self.stored.is_none() {
            let [width, height] = size;
            let head = format!("YUV4MPEG2 W{width} H{height} F{}:100 Ip A1:1 Cmono\n", part.rate_centi.max(1));
            self.stored = writer.write(&[head.as_bytes()]).then_some((circuit, size));
        }
        if self.stored == Some((circuit, size)) && !writer.exchange(&mut screen.image) {
            self.lost.drop_one(DropReason::NoBuffer);
        }
    }
}

impl Screen {
    fn new() -> Self {
        Screen { image: Vec::new(), is_own: true, last: None, octets: 0, whole: true }
    }

    /// A part has come: the frame's last one, if all are there. What that costs is in proportion to the part, whatever it
    /// says of its frame.
    fn handle_part(&mut self, sdu: &[u8], keeps: bool, seen: &mut Seen) -> Option<Part> {
        let Ok((part, image)) = Part::parse(sdu) else {
            seen.refused += 1;
            return None;
        };
        let follows = self.last.filter(|last| last.frame == part.frame);
        if follows.is_none() {
            if let Some(last) = &self.last {
                seen.broken += u64::from(!self.whole);
                let between = part.frame.wrapping_sub(last.frame).wrapping_sub(1);
                // A camera that begins anew counts from 0.
                seen.missing += u64::from(between).min(if between > 1 << 16 { 0 } else { u64::MAX });
            }
            (self.octets, self.whole, self.is_own) = (0, false, true);
            self.image.clear();
            self.image.extend_from_slice(FRAME);
        }
        let before = follows.map_or(0, |last| last.part + 1);
        let fits = part.part == before && part.offset as usize == self.octets;
        let same = follows.is_none_or(|last| Part { part: part.part, offset: part.offset, ..last } == part);
        if follows.is_none() {
            self.last = Some(part);
        }
        if !fits || !same {
            // The rest of the frame does not follow on either, and it counts once, when the next one begins.
            self.octets = usize::MAX;
            return None;
        }
        // Parts come in their order, within their frame.
        if keeps {
            self.image.extend_from_slice(image);
        }
        self.is_own &= !part.is_pattern || is_pattern(&part, image);
        (self.octets, self.last) = (self.octets + image.len(), Some(part));
        self.whole = part.part + 1 == part.parts && self.octets == part.frame_octets();
        self.whole.then_some(part)
    }
}

impl Device for Display {
    fn kind(&self) -> &'static str {
        "display"
    }

    fn set_circuit(&mut self, circuit: CircuitId, exists: bool) {
        self.screens.set_circuit(circuit, exists, Screen::new);
    }

    fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        let Display { screens, shown } = self;
        let unknown = screens.handle_cells(cells, now, |circuit, screen, sdu| match sdu {
            Err(reason) => shown.lost.drop_one(reason),
            Ok(sdu) => {
                if let Some(part) = screen.handle_part(sdu, shown.keeps(circuit), &mut shown.seen) {
                    shown.show(circuit, screen, part, now);
                }
            }
        });
        shown.lost.drop_n(DropReason::UnknownCircuit, unknown);
    }

    /// A display says nothing.
    fn poll_cells(&mut self, _: &mut [Cell], _: Time) -> usize {
        0
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn status(&self) -> String {
        let Seen { shown, late, broken, missing, damaged, least, most, sum, .. } = self.shown.seen;
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let whole = shown + late;
        let mean = us(sum) / whole.max(1) as f64;
        let mut text = format!(
            "{shown} frames in time, {late} late, {broken} broken, {missing} missing, {damaged} damaged; \
             {:.0} to {:.0} us, {mean:.0} in the mean",
            us(least),
            us(most)
        );
        if let Some(writer) = &self.shown.writer {
            text += &format!("; {} not stored", writer.lost + writer.failures());
        }
        text
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let Seen { shown, late, broken, missing, damaged, refused, .. } = self.shown.seen;
        let frames = |pdus| counted(0, pdus, 0);
        let mut on_time = frames(shown);
        on_time.add(&self.shown.lost);
        vec![
            ("shown", on_time),
            ("late", frames(late)),
            ("broken", frames(broken)),
            ("missing", frames(missing)),
            ("damaged", frames(damaged)),
            ("refused", frames(refused)),
        ]
    }
}
