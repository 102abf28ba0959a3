//! A host that receives on one circuit, as a whole: an adapter, its driver that maps pages, the host's memory, and an application
//! that has a buffer posted whenever something comes (Almesberger 1995, sections 3.3 to 3.5).
//!
//! In: cells, the time. Out: SDUs as the application reads them from its own pages, and what it took. The time is the caller's: a clock
//! where cells come from a network, a virtual one in tests.

use bus::crossings::Crossings;
use bus::iocc::PAGE;
use bus::paged::{Delivered, Paged};
use bus::sockets::Whose;
use core::time::Duration;
use eni155p::driver::single_copy::{self, SingleCopy};
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, Eni};
use eni155p::{Config, Eni155p, Pace, RamSize, registers};
use jit::driver::JitHost;
use jit::{Config as JitConfig, Jit};
use remap::layers::Sizes;
use remap::look::Length;
use remap::spaces::{Overlap, Process};
use std::collections::VecDeque;
use wire::{Cell, CircuitId, Time};

/// Where the memory begins on the bus.
const BASE: u64 = 0x1000_0000;
/// Frames of the memory.
const FRAMES: u32 = 1024;
/// Buffers of the ENI155P's driver, each way, which pages stand in for.
const BUFFERS: u64 = 1;
/// Octets before each PDU that the host keeps control information in.
const CONTROL: usize = 32;
/// Pages that the ENI155P's driver receives into.
const PAGES: u32 = 128;
/// Free lists of the just-in-time adapter, and buffers in a row of its driver's.
const LISTS: usize = 8;
/// See there.
const ROW: u32 = 17;
/// Cells that an adapter is given at once: the just-in-time adapter holds no more.
const CELLS: usize = 32;
const USER: Process = Process(1);
/// The application's buffer.
const TO: u64 = 0x10_0000;
/// Room for the longest SDU, wherever it begins in its first page.
const ROOM: usize = 17 * PAGE;

/// Which adapter, with its way to guess where data are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The ENI155P: it keeps PDUs until the interrupt handler has looked at their headers.
    Eni155p,
    /// The just-in-time adapter: a circuit's last PDUs choose the buffers of the next one.
    Jit,
}

/// Why there is no such host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The adapter has no such circuit.
    #[error("the ENI155P has no circuit {0}: take one of VPI 0 and a VCI from 1 to 1023, or the adapter jit")]
    Circuit(CircuitId),
    /// The memory is too small for what the driver needs.
    #[error("the host's memory of {FRAMES} pages is too small for its driver")]
    Memory,
}

/// What it took. PDUs that say begin and end count as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// SDUs that the application has.
    pub sdus: u64,
    /// SDUs whose data came to lie as the driver had guessed that they are wanted.
    pub predicted: u64,
    /// SDUs that went the slow path (ENI155P), or that lay elsewhere (just-in-time adapter).
    pub mispredicted: u64,
    /// PDUs for nobody.
    pub unclaimed: u64,
    /// PDUs that came damaged, or found no memory.
    pub lost: u64,
    /// Trailers on two pages that are no neighbours, which were copied to two new ones.
    pub repaired: u64,
    /// How often the circuit got another kind of buffers, since its trailers were on two pages too often, or no longer.
    pub strategies: u64,
    /// Pages that became the application's.
    pub pages_mapped: u64,
    /// Octets of SDUs that were copied to the application's pages.
    pub octets_copied: u64,
    /// What crossed the memory's bus.
    pub crossings: Crossings,
}

#[derive(Debug)]
struct EniHost {
    adapter: Eni155p,
    driver: Eni,
    host: SingleCopy,
}

#[derive(Debug)]
struct JustInTimeHost {
    adapter: Jit,
    host: JitHost,
}

#[derive(Debug)]
enum Host {
    Eni(Box<EniHost>),
    Jit(Box<JustInTimeHost>),
}

/// The host.
#[derive(Debug)]
pub struct Receiver {
    host: Host,
    whose: Whose,
    /// What the application has read and the caller has not taken.
    read: VecDeque<Vec<u8>>,
    counts: Counts,
}

impl EniHost {
    fn new(circuit: CircuitId, whose: Whose) -> Result<Self, SetupError> {
        let vci = u32::from(circuit.vci.get());
        if circuit.vpi.get() != 0 || vci >= registers::CIRCUITS {
            return Err(SetupError::Circuit(circuit));
        }
        let config = Config { pace: Pace::Unpaced, ram: RamSize::Mb2, ..Config::default() };
        let mut adapter = Eni155p::new(config);
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut memory = Paged::new(BASE, FRAMES, Overlap::Copy);
        let frames = (2 * BUFFERS * BUFFER_OCTETS) as u32 / PAGE as u32;
        let (_, own) = memory.hold(frames).ok_or(SetupError::Memory)?;
        let mut driver = Eni::probe(&mut bus, own, BUFFERS).map_err(|_| SetupError::Memory)?;
        driver.open(&mut bus, vci, Aal::Aal5, 128 << 10, None).map_err(|_| SetupError::Memory)?;
        memory.grow(USER, TO, ROOM).map_err(|_| SetupError::Memory)?;
        let mut host = SingleCopy::new(&mut driver, memory, PAGES, CONTROL).ok_or(SetupError::Memory)?;
        let mechanisms = single_copy::Mechanisms { length: Length::Udp, ..Default::default() };
        host.use_only(&mut driver, mechanisms);
        host.bind(&mut driver, whose, USER, Sizes::default());
        Ok(EniHost { adapter, driver, host })
    }

    /// The adapter has cells: DMA and interrupts until nothing is left to do.
    fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        self.adapter.handle_cells(cells);
        loop {
            while self.adapter.run_dma(&mut self.host.memory, 1 << 16) {}
            if !self.adapter.interrupt(now) {
                return;
            }
            self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now });
        }
    }
}

impl JustInTimeHost {
    fn new(circuit: CircuitId, whose: Whose) -> Result<Self, SetupError> {
        // The bus is this machine's memory: it is never late.
        let config = JitConfig { cells: CELLS, lists: LISTS, bus_delay: Duration::ZERO, ..JitConfig::default() };
        let mut adapter = Jit::new(config);
        let mut host = JitHost::new(Paged::new(BASE, FRAMES, Overlap::Copy), LISTS, ROW);
        host.memory.grow(USER, TO, ROOM).map_err(|_| SetupError::Memory)?;
        if !host.open(&mut adapter, circuit) {
            return Err(SetupError::Memory);
        }
        host.bind(whose, USER, Sizes::default());
        Ok(JustInTimeHost { adapter, host })
    }
}

impl Host {
    fn memory(&mut self) -> &mut Paged {
        match self {
            Host::Eni(eni) => &mut eni.host.memory,
            Host::Jit(jit) => &mut jit.host.memory,
        }
    }

    fn post(&mut self, whose: Whose) -> Option<Delivered> {
        match self {
            Host::Eni(eni) => eni.host.post(&mut eni.driver, whose, TO, ROOM).map(|completed| completed.delivered),
            Host::Jit(jit) => jit.host.post(&mut jit.adapter, whose, TO, ROOM).map(|completed| completed.delivered),
        }
    }

    fn poll_completed(&mut self) -> Option<Delivered> {
        match self {
            Host::Eni(eni) => eni.host.poll_completed(&mut eni.driver).map(|completed| completed.delivered),
            Host::Jit(jit) => jit.host.poll_completed(&mut jit.adapter).map(|completed| completed.delivered),
        }
    }
}

impl Receiver {
    /// A host whose application gets what comes on `circuit` for `whose`.
    ///
    /// # Errors
    /// The adapter has no such circuit.
    pub fn new(kind: Kind, circuit: CircuitId, whose: Whose) -> Result<Self, SetupError> {
        let host = match kind {
            Kind::Eni155p => Host::Eni(Box::new(EniHost::new(circuit, whose)?)),
            Kind::Jit => Host::Jit(Box::new(JustInTimeHost::new(circuit, whose)?)),
        };
        let mut receiver = Receiver { host, whose, read: VecDeque::new(), counts: Counts::default() };
        receiver.post();
        Ok(receiver)
    }

    /// Cells come. Each SDU that is whole is read by its application before the next cells come.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        for cells in cells.chunks(CELLS) {
            match &mut self.host {
                Host::Eni(eni) => eni.handle_cells(cells, now),
                Host::Jit(jit) => {
                    jit.adapter.handle_cells(cells, now);
                    jit.adapter.run(&mut jit.host.memory, now);
                }
            }
            while let Some(delivered) = self.host.poll_completed() {
                self.read(delivered);
                self.post();
            }
        }
    }

    /// The next SDU that the application has read.
    pub fn poll_read(&mut self) -> Option<Vec<u8>> {
        self.read.pop_front()
    }

    /// What it took so far.
    pub fn counts(&mut self) -> Counts {
        let crossings = self.host.memory().crossings();
        match &self.host {
            Host::Eni(eni) => {
                let (driver, host) = (eni.driver.statistics, eni.host.statistics());
                Counts {
                    predicted: self.counts.sdus.saturating_sub(host.slow),
                    mispredicted: host.slow,
                    unclaimed: host.unclaimed,
                    lost: driver.bad + driver.trashed + driver.no_buffer,
                    crossings,
                    ..self.counts
                }
            }
            Host::Jit(jit) => {
                let host = jit.host.statistics();
                Counts {
                    predicted: host.hits,
                    mispredicted: host.misses,
                    unclaimed: host.unclaimed,
                    lost: host.lost,
                    repaired: host.repaired,
                    strategies: host.strategies,
                    crossings,
                    ..self.counts
                }
            }
        }
    }

    /// Posts the application's buffer; what waits for it is read at once.
    fn post(&mut self) {
        while let Some(delivered) = self.host.post(self.whose) {
            self.read(delivered);
        }
    }

    fn read(&mut self, delivered: Delivered) {
        self.counts.sdus += 1;
        self.counts.pages_mapped += delivered.pages as u64;
        self.counts.octets_copied += delivered.copied as u64;
        // The process has the page of each octet that it was given.
        self.read.push_back(self.host.memory().load(USER, TO, delivered.octets).unwrap_or_default());
    }
}
