//! A store: a file at either end of circuits. What comes is appended to one file; another is sent, once for each time
//! that the device begins to have a circuit.
//!
//! In: cells of AAL5 SDUs, the time. Out: cells of AAL5 SDUs at a constant rate, octets for a file.

use super::incoming::Incoming;
use super::outgoing::{MAX_CIRCUITS, Outgoing};
use super::{Device, DeviceError, Writer, counted, file};
use core::time::Duration;
use std::path::PathBuf;
use traffic::Contract;
use wire::{Cell, CellRate, CircuitId, Counters, DropReason, Time};

/// Octets of an SDU of a file.
const BLOCK_OCTETS: usize = 8192;

/// A store as it is described.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreSettings {
    /// What is sent.
    pub play: Option<PathBuf>,
    /// Where what comes is written.
    pub record: Option<PathBuf>,
    /// Octets of that at most.
    pub max_octets: u64,
    /// Cells a second on each circuit.
    pub rate: CellRate,
}

/// See the module's head.
#[derive(Debug)]
pub struct Store {
    film: Vec<u8>,
    sent: usize,
    outgoing: Outgoing,
    interval: Duration,
    started: Option<Time>,
    incoming: Incoming<()>,
    writer: Option<Writer>,
    received: Counters,
}

impl Store {
    /// A store whose files are read and made.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(settings: &StoreSettings) -> Result<Self, DeviceError> {
        let film = settings.play.as_ref().map_or_else(|| Ok(Vec::new()), |path| file::read(path))?;
        let writer = settings.record.as_deref().map(Writer::create).transpose()?;
        Ok(Store::new(settings.rate, film, writer.map(|writer| writer.at_most(settings.max_octets))))
    }

    /// A store that sends some octets, and writes what comes.
    pub fn new(rate: CellRate, film: Vec<u8>, writer: Option<Writer>) -> Self {
        Store {
            film,
            sent: 0,
            outgoing: Outgoing::default(),
            interval: Duration::from_nanos(rate.interval_nanos() as u64),
            started: None,
            incoming: Incoming::new(MAX_CIRCUITS),
            writer,
            received: Counters::default(),
        }
    }

    fn plays(&self) -> bool {
        self.outgoing.circuits() > 0 && self.sent < self.film.len()
    }
}

impl Device for Store {
    fn kind(&self) -> &'static str {
        "store"
    }

    fn set_circuit(&mut self, circuit: CircuitId, exists: bool) {
        let before = self.outgoing.circuits();
        self.outgoing.set_circuit(circuit, exists);
        if before == 0 {
            self.sent = 0;
        }
        self.incoming.set_circuit(circuit, exists, || ());
    }

    fn set_contract(&mut self, circuit: CircuitId, contract: &Contract) {
        self.outgoing.set_contract(circuit, contract);
    }

    fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        let Store { incoming, writer, received, .. } = self;
        let unknown = incoming.handle_cells(cells, now, |_, (), sdu| match sdu {
            Err(reason) => received.drop_one(reason),
            Ok(sdu) if writer.as_mut().is_some_and(|writer| !writer.write(&[sdu])) => {
                received.drop_one(DropReason::NoBuffer);
            }
            Ok(sdu) => {
                received.pdus += 1;
                received.octets += sdu.len() as u64;
            }
        });
        received.drop_n(DropReason::UnknownCircuit, unknown);
    }

    fn poll_cells(&mut self, out: &mut [Cell], now: Time) -> usize {
        let mut n = 0;
        loop {
            n += self.outgoing.poll_cells(&mut out[n..], self.interval, now);
            if !self.outgoing.is_idle() || !self.plays() {
                return n;
            }
            let begin = *self.started.get_or_insert(now);
            let from = self.sent;
            self.sent = self.film.len().min(from + BLOCK_OCTETS);
            let block = &self.film[from..self.sent];
            self.outgoing.begin(begin, |sdu| sdu.extend_from_slice(block));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let begins = || (self.plays() && self.outgoing.is_idle()).then_some(Time::ZERO);
        self.outgoing.poll_timeout().or_else(begins)
    }

    fn status(&self) -> String {
        let Store { film, sent, received, .. } = self;
        let failures = self.writer.as_ref().map_or(0, Writer::failures);
        format!("{sent} of {} octets sent; {} octets stored, {failures} writes failed", film.len(), received.octets)
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let sent = counted(self.outgoing.cells, 0, self.sent as u64);
        vec![("sent", sent), ("stored", self.received)]
    }
}
