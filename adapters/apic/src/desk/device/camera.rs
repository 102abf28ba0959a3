//! A camera: frames at a constant rate, their cells spread evenly over the time of a frame.
//!
//! In: the time. Out: cells of AAL5 SDUs, each a part of a frame ([`crate::desk::video`]). The image is a pattern that
//! moves, or that of a file of frames without heads, one behind the other, which begins anew at its end.

use super::outgoing::Outgoing;
use super::{Device, DeviceError, counted, file};
use crate::desk::video::{HEAD_OCTETS, Part, pattern};
use core::time::Duration;
use std::path::PathBuf;
use traffic::Contract;
use wire::{Cell, CellRate, CircuitId, Counters, Time, aal5};

/// A camera as it is described.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraSettings {
    /// Width and height of a frame, an octet for each point.
    pub size: [u16; 2],
    /// Frames a second.
    pub frames_per_s: f64,
    /// Octets of the image in one SDU.
    pub part_octets: usize,
    /// A file of frames; without, the pattern.
    pub file: Option<PathBuf>,
}

impl Default for CameraSettings {
    /// A quarter of a television picture, 25 times a second: 3.8 Mbit/s of image.
    fn default() -> Self {
        CameraSettings { size: [160, 120], frames_per_s: 25.0, part_octets: 4800, file: None }
    }
}

/// Of a frame's time, what its cells take: the rest makes good what a busy machine delays.
const SPREAD: f64 = 0.8;

impl CameraSettings {
    fn frame_octets(&self) -> usize {
        usize::from(self.size[0]) * usize::from(self.size[1])
    }

    fn parts(&self) -> usize {
        self.frame_octets().div_ceil(self.part_octets.max(1))
    }

    /// Cells of a frame on one circuit.
    pub fn frame_cells(&self) -> usize {
        let octets = self.frame_octets();
        let part = |n: usize| self.part_octets.min(octets - n * self.part_octets);
        (0..self.parts()).map(|n| aal5::cells(HEAD_OCTETS + part(n))).sum()
    }

    /// From one frame to the next.
    pub fn frame_time(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.frames_per_s)
    }

    /// The rate of its cells on each circuit: what a contract has to allow.
    pub fn cell_rate(&self) -> Option<CellRate> {
        CellRate::from_cells_per_s(self.frame_cells() as f64 * self.frames_per_s / SPREAD)
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Camera {
    settings: CameraSettings,
    /// Frames of the file.
    film: Vec<u8>,
    outgoing: Outgoing,
    interval: Duration,
    /// The frame that is sent, and when it was taken.
    frame: u32,
    taken: Option<Time>,
    /// The part that is next.
    part: usize,
    frames: u64,
    /// Frames that were not taken, because the one before was not sent yet.
    skipped: u64,
}

impl Camera {
    /// A camera whose file is read.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(settings: &CameraSettings) -> Result<Self, DeviceError> {
        let film = settings.file.as_ref().map_or_else(|| Ok(Vec::new()), |path| file::read(path))?;
        match &settings.file {
            Some(path) if film.len() < settings.frame_octets() => Err(DeviceError::NoFrame(path.clone())),
            _ => Ok(Camera::new(settings.clone(), film)),
        }
    }

    /// A camera with frames of a film, or with none for the pattern.
    pub fn new(settings: CameraSettings, film: Vec<u8>) -> Self {
        let cells = settings.frame_cells().max(1) as f64;
        let interval = settings.frame_time().mul_f64(SPREAD / cells);
        Camera {
            settings,
            film,
            outgoing: Outgoing::default(),
            interval,
            frame: 0,
            taken: None,
            part: 0,
            frames: 0,
            skipped: 0,
        }
    }

    /// When the next frame is taken.
    fn next_frame(&self) -> Time {
        self.taken.map_or(Time::ZERO, |taken| taken + self.settings.frame_time())
    }

    fn is_between_frames(&self) -> bool {
        self.taken.is_none() || self.part == self.settings.parts()
    }

    fn take_frame(&mut self, now: Time) {
        let time = self.settings.frame_time();
        let mut at = if self.taken.is_some() { self.next_frame() } else { now };
        if self.taken.is_some() {
            self.frame = self.frame.wrapping_add(1);
        }
        // Of a camera that was held up, the last frame that is due is the next one.
        let late = u32::try_from(now.since(at).as_nanos() / time.as_nanos().max(1)).unwrap_or(0);
        at += time * late;
        self.frame = self.frame.wrapping_add(late);
        self.skipped += u64::from(late);
        (self.taken, self.part) = (Some(at), 0);
    }

    fn begin_part(&mut self, taken: Time) {
        let Camera { settings, film, outgoing, frame, part, .. } = self;
        let (octets, parts) = (settings.frame_octets(), settings.parts());
        let begin = *part * settings.part_octets;
        let end = octets.min(begin + settings.part_octets);
        let head = Part {
            is_pattern: film.is_empty(),
            rate_centi: (settings.frames_per_s * 100.0).round() as u16,
            frame: *frame,
            size: settings.size,
            part: *part as u16,
            parts: parts as u16,
            offset: begin as u32,
            taken_nanos: taken.as_nanos(),
        };
        outgoing.begin(taken, |sdu| {
            sdu.extend_from_slice(&head.emit());
            if film.is_empty() {
                let width = usize::from(settings.size[0]);
                sdu.extend((begin..end).map(|at| pattern(*frame, at % width, at / width)));
            } else {
                let of_film = *frame as usize % (film.len() / octets);
                sdu.extend_from_slice(&film[of_film * octets + begin..of_film * octets + end]);
            }
        });
        self.part += 1;
        if self.part == parts {
            self.frames += 1;
        }
    }
}

impl Device for Camera {
    fn kind(&self) -> &'static str {
        "camera"
    }

    fn set_circuit(&mut self, circuit: CircuitId, exists: bool) {
        self.outgoing.set_circuit(circuit, exists);
        if self.outgoing.circuits() == 0 && self.taken.take().is_some() {
            // Nobody looks: no frames are taken until somebody does.
            (self.frame, self.part) = (self.frame.wrapping_add(1), 0);
        }
    }

    fn set_contract(&mut self, circuit: CircuitId, contract: &Contract) {
        self.outgoing.set_contract(circuit, contract);
    }

    /// A camera listens to nobody.
    fn handle_cells(&mut self, _: &[Cell], _: Time) {}

    fn poll_cells(&mut self, out: &mut [Cell], now: Time) -> usize {
        let mut n = 0;
        while self.outgoing.circuits() > 0 {
            n += self.outgoing.poll_cells(&mut out[n..], self.interval, now);
            if !self.outgoing.is_idle() {
                break;
            }
            if self.is_between_frames() {
                if self.next_frame() > now {
                    break;
                }
                self.take_frame(now);
            }
            if let Some(taken) = self.taken {
                self.begin_part(taken);
            }
        }
        n
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.outgoing.circuits() == 0 {
            return None;
        }
        let due = self.outgoing.poll_timeout();
        Some(due.unwrap_or_else(|| if self.is_between_frames() { self.next_frame() } else { Time::ZERO }))
    }

    fn status(&self) -> String {
        let [width, height] = self.settings.size;
        let rate = self.settings.cell_rate().map_or(0.0, CellRate::cells_per_s);
        let Camera { frames, skipped, .. } = self;
        format!(
            "{width}x{height}, {} frames/s, {rate:.0} cell/s: {frames} frames sent, {skipped} skipped",
            self.settings.frames_per_s
        )
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        vec![("frames", counted(self.outgoing.cells, self.frames, 0))]
    }
}
