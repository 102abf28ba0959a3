//! Devices of a desk-area network that are no computers: a camera, a display, a store. Each is what is outside at a
//! link of cells ([`net::External`]): at a chip's third port, or at any switch's.
//!
//! In: cells, the circuits of the link, the time. Out: cells, counters. A device sends on each of its circuits, and
//! takes what comes on any. Its state machine has no clock, no thread and no file: images and files are read before
//! it begins, and files are written by a thread of their own (`writer`), which the network's thread never waits
//! for.

pub mod camera;
pub mod display;
mod file;
mod incoming;
mod outgoing;
pub mod store;
mod writer;

pub use camera::{Camera, CameraSettings};
pub use display::{Display, DisplaySettings, Seen};
pub use store::{Store, StoreSettings};
pub use writer::{MAX_RECORDED_OCTETS, Writer};

use net::{CircuitNotice, External, NodeIo};
use std::path::{Path, PathBuf};
use traffic::Contract;
use wire::{Cell, CircuitId, Counters, Time};

/// Cells that a device takes in one round at most.
const CELLS_A_RUN: usize = 1024;
/// Octets of a file that a device plays at most.
pub const MAX_FILE_OCTETS: u64 = 64 << 20;

/// A device as it is described.
#[derive(Debug, Clone, PartialEq)]
pub enum Settings {
    /// See there.
    Camera(CameraSettings),
    /// See there.
    Display(DisplaySettings),
    /// See there.
    Store(StoreSettings),
}

impl Settings {
    /// The file that it writes.
    pub fn written_file(&self) -> Option<&Path> {
        match self {
            Settings::Camera(_) => None,
            Settings::Display(display) => display.file.as_deref(),
            Settings::Store(store) => store.record.as_deref(),
        }
    }
}

/// Why a device cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Its file cannot be read or written.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Its file is longer than a device holds.
    #[error("{0}: longer than {MAX_FILE_OCTETS} octets: give a shorter one")]
    TooLong(PathBuf),
    /// Its file has no whole frame.
    #[error("{0}: shorter than a frame of this width and height")]
    NoFrame(PathBuf),
}

/// A state machine between the cells of a link and what a device is for.
pub trait Device: Send {
    /// What it is.
    fn kind(&self) -> &'static str;

    /// A circuit of its link exists from now on, or exists no more.
    fn set_circuit(&mut self, circuit: CircuitId, exists: bool);

    /// What its cells on a circuit that exists are to keep to.
    fn set_contract(&mut self, _: CircuitId, _: &Contract) {}

    /// Cells have come.
    fn handle_cells(&mut self, cells: &[Cell], now: Time);

    /// Writes cells that are due; gives how many.
    fn poll_cells(&mut self, out: &mut [Cell], now: Time) -> usize;

    /// When it has something to send next.
    fn poll_timeout(&self) -> Option<Time>;

    /// One line for people.
    fn status(&self) -> String;

    /// What it has counted, by name.
    fn counters(&self) -> Vec<(&'static str, Counters)>;
}

/// Makes a device; its files are opened and read here.
///
/// # Errors
/// [`DeviceError`].
pub fn make(settings: &Settings) -> Result<Box<dyn External>, DeviceError> {
    Ok(match settings {
        Settings::Camera(settings) => Box::new(Shell::new(Camera::open(settings)?)),
        Settings::Display(settings) => Box::new(Shell::new(Display::open(settings)?)),
        Settings::Store(settings) => Box::new(Shell::new(Store::open(settings)?)),
    })
}

/// A device at the outside end of a link.
#[derive(Debug)]
pub struct Shell<D> {
    device: D,
}

impl<D: Device> Shell<D> {
    /// A device.
    pub fn new(device: D) -> Self {
        Shell { device }
    }
}

impl<D: Device> External for Shell<D> {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let cells = io.cells_in(0);
        let came = cells.len().min(CELLS_A_RUN);
        self.device.handle_cells(&cells[..came], now);
        io.consume(0, came);
        let sent = self.device.poll_cells(io.cells_out(0), now);
        if sent > 0 {
            io.commit(0, sent);
        }
        came + sent > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.device.poll_timeout()
    }

    fn is_up(&self) -> bool {
        true
    }

    fn status(&self) -> String {
        format!("{}: {}", self.device.kind(), self.device.status())
    }

    fn set_circuit(&mut self, circuit: CircuitId, what: Option<CircuitNotice>) {
        self.device.set_circuit(circuit, what.is_some());
        if let Some(CircuitNotice { contract, .. }) = what {
            self.device.set_contract(circuit, &contract);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        self.device.counters()
    }
}

fn counted(cells: u64, pdus: u64, octets: u64) -> Counters {
    let mut counters = Counters::default();
    (counters.cells, counters.pdus, counters.octets) = (cells, pdus, octets);
    counters
}
