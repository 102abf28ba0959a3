//! The Efficient Networks ENI155P as its driver and its line see it: "Midway" segmentation and reassembly, with RAM of
//! its own between two DMA queues and the line.
//!
//! In: accesses to configuration space and to the memory window, DMA from and to [`HostMemory`], cells, the signal, the
//! time. Out: register values, cells ([`Eni155p::fill`]), the interrupt pin. The owner calls:
//!
//! 1. [`Eni155p::bar_write`] and the like as the host accesses it, and after that [`Eni155p::run_dma`] until nothing waits;
//! 2. [`Eni155p::handle_cells`] as cells come, [`Eni155p::handle_timeout`] and [`Eni155p::fill`] when
//!    [`Eni155p::poll_timeout`] says so;
//! 3. [`Eni155p::interrupt`] after each, to drive the pin.
//!
//! Facts are from public register definitions; what those do not say is marked "inferred" where it is decided:
//! the statistics interrupt comes at half of a counter; an access that fails is passed over and shown; a channel that is
//! placed anew starts from zero; management cells are kept on raw circuits always, on AAL5 circuits as PDUs of a wrong CRC, only between PDUs
//! and in the mode that asks for them. The bridge's slave swap bits (0x20, 0x40) are storage.
//!
//! | file | what |
//! |---|---|
//! | `registers.rs`, `ram.rs`, `dma.rs` | the Midway's registers, its RAM, the DMA queues |
//! | `transmit.rs`, `receive.rs`, `ended.rs` | cells out, cells in, a PDU that is cut and is ended |
//! | [`tonga`] | the PCI bridge: configuration space, serial EEPROM |
//! | [`suni`] | the line framer |
//! | [`driver`] | a driver of our own: what tests, benchmarks and experiments use |
//! | [`vfio`] | the adapter as a PCI device of a virtual machine |
//!
//! ```
//! use eni155p::{Config, Eni155p};
//! use wire::Time;
//!
//! let mut adapter = Eni155p::new(Config::default());
//! let mut id = [0; 4];
//! adapter.config_read(0, &mut id);
//! assert_eq!(u32::from_le_bytes(id), 0x0002_111a);
//! // The Midway's identity register: bit 9 says "ASIC".
//! adapter.bar_read(0x40000, &mut id, Time::ZERO);
//! assert_ne!(u32::from_le_bytes(id) & 0x200, 0);
//! ```
#![forbid(unsafe_code)]

mod dma;
pub mod driver;
mod ended;
pub mod kind;
mod ram;
mod receive;
pub mod registers;
pub mod suni;
pub mod tonga;
mod transmit;
pub mod vfio;

use core::time::Duration;
use dma::Queue;
use ram::Ram;
use registers as r;
use std::collections::VecDeque;
use suni::{Loop, Suni};
use tonga::{Board, Tonga};
use traffic::Pacer;
use transmit::Channel;
use wire::{Cell, CellRate, Counters, DropReason, Time};

#[cfg(doc)]
use bus::HostMemory;

/// Cells that a line loop-back holds; more are dropped.
const LINE_LOOP_CELLS: usize = 64;
/// The ROM's mark.
const EPROM_MAGIC: u32 = 0xa54b_872d;

/// How much RAM a board has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RamSize {
    /// 512 kB: the client's board (-C).
    #[default]
    Kb512,
    /// 2 MB: the server's board (-S).
    Mb2,
}

impl RamSize {
    /// In octets.
    pub const fn octets(self) -> usize {
        match self {
            RamSize::Kb512 => 512 << 10,
            RamSize::Mb2 => 2 << 20,
        }
    }
}

/// How fast cells leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At the payload rate of OC-3c, 353 207.5 cells each second. Whoever asks for cells late may catch up this much.
    Line {
        /// Lateness that costs no rate.
        tolerance: Duration,
    },
    /// As fast as they are asked for; a PDU's own rate still holds.
    Unpaced,
}

/// What a board is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// ASIC or FPGA bridge.
    pub board: Board,
    /// RAM.
    pub ram: RamSize,
    /// The end system identifier: six octets of its own for each adapter.
    pub esi: [u8; 6],
    /// The line's pace.
    pub pace: Pace,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            board: Board::Asic,
            ram: RamSize::Kb512,
            // A locally administered address.
            esi: [0x02, 0x20, 0xea, 0x00, 0x00, 0x01],
            pace: Pace::Line { tolerance: Duration::ZERO },
        }
    }
}

/// Why a cell was trashed, as the statistics register tells it.
#[derive(Debug, Clone, Copy)]
enum Trash {
    Mode,
    Overflow,
}

/// The adapter.
#[derive(Debug, Clone)]
pub struct Eni155p {
    config: Config,
    bridge: Tonga,
    phy: Suni,
    ram: Ram,
    /// MC_S, without the hold-off bits.
    control: u32,
    enable: u32,
    /// Interrupt causes that a read of ISA clears; the others are computed.
    status: u32,
    hold_off: Option<Time>,
    trashed_by_mode: u16,
    trashed_by_overflow: u16,
    service_write: u32,
    dma_address: u32,
    rx_queue: Queue,
    tx_queue: Queue,
    channels: [Channel; r::CHANNELS],
    /// A bit for each channel that is ready to send.
    ready: u8,
    turn: usize,
    tolerance: Duration,
    /// AAL5's CRC-32, as this machine computes it best.
    checksum: sar::Checksum,
    line: Option<Pacer>,
    line_loop: VecDeque<Cell>,
    /// Ends of PDUs that were taken from their channels.
    aborts: VecDeque<Cell>,
    received: Counters,
    sent: Counters,
    dma_errors: Counters,
    refused: u64,
}

impl Eni155p {
    /// As after power is switched on, with a signal on the line.
    pub fn new(config: Config) -> Self {
        let (line, tolerance) = match config.pace {
            Pace::Line { tolerance } => (Some(Pacer::new(CellRate::OC3C, tolerance)), tolerance),
            Pace::Unpaced => (None, Duration::ZERO),
        };
        Eni155p {
            config,
            bridge: Tonga::new(config.board, config.esi),
            phy: Suni::new(true),
            ram: Ram::new(config.ram.octets()),
            control: 0,
            enable: 0,
            status: 0,
            hold_off: None,
            trashed_by_mode: 0,
            trashed_by_overflow: 0,
            service_write: 0,
            dma_address: 0,
            rx_queue: Queue::default(),
            tx_queue: Queue::default(),
            channels: [const { Channel::new() }; r::CHANNELS],
            ready: 0,
            turn: 0,
            tolerance,
            checksum: sar::Kernel::chosen().checksum(),
            line,
            line_loop: VecDeque::with_capacity(LINE_LOOP_CELLS),
            aborts: VecDeque::with_capacity(r::CHANNELS),
            received: Counters::default(),
            sent: Counters::default(),
            dma_errors: Counters::default(),
            refused: 0,
        }
    }

    /// A reset of the bus: all as after power is switched on, but for signal and counters. A PDU that has begun to leave
    /// is ended.
    pub fn reset(&mut self) {
        self.end_channels();
        self.bridge.reset();
        self.ram.clear();
        self.phy.reset();
        self.reset_midway();
    }

    /// The Midway's own reset: registers, not RAM.
    fn reset_midway(&mut self) {
        (self.control, self.enable, self.status, self.hold_off) = (0, 0, 0, None);
        (self.trashed_by_mode, self.trashed_by_overflow, self.service_write, self.dma_address) = (0, 0, 0, 0);
        (self.rx_queue, self.tx_queue) = (Queue::default(), Queue::default());
        self.end_channels();
        self.line_loop.clear();
    }

    /// Reads configuration space.
    pub fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        self.bridge.read(offset, data);
    }

    /// Writes configuration space.
    pub fn config_write(&mut self, offset: usize, data: &[u8]) {
        self.bridge.write(offset, data);
    }

    /// Reads octets of the memory window. A word is read once, however many of its octets are asked for.
    pub fn bar_read(&mut self, offset: u32, data: &mut [u8], now: Time) {
        // A word, as drivers read.
        if let (0, Ok(word)) = (offset % 4, <&mut [u8; 4]>::try_from(&mut *data)) {
            *word = self.read_word(offset, now).to_le_bytes();
            return;
        }
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let skip = (at % 4) as usize;
            let n = rest.len().min(4 - skip);
            let (part, after) = rest.split_at_mut(n);
            part.copy_from_slice(&self.read_word(at - skip as u32, now).to_le_bytes()[skip..skip + n]);
            (at, rest) = (at.wrapping_add(n as u32), after);
        }
    }

    /// Writes octets of the memory window. Parts of words are merged in the RAM; a register takes whole words, and the
    /// framer's the octet at a word's start.
    pub fn bar_write(&mut self, offset: u32, data: &[u8], now: Time) {
        if let (0, Ok(word)) = (offset % 4, <[u8; 4]>::try_from(data)) {
            return self.write_word(offset, u32::from_le_bytes(word), now);
        }
        let ram = offset.wrapping_sub(r::RAM_AT);
        if offset.is_multiple_of(4)
            && data.len().is_multiple_of(4)
            && u64::from(ram) + data.len() as u64 <= r::RAM_WINDOW.into()
        {
            return self.ram.set_words(ram, data);
        }
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let skip = (at % 4) as usize;
            let (part, after) = rest.split_at(rest.len().min(4 - skip));
            let base = at - skip as u32;
            let in_ram = base.checked_sub(r::RAM_AT).is_some_and(|ram| ram < r::RAM_WINDOW);
            let in_phy = (r::PHY_AT..r::PHY_AT + 0x400).contains(&base);
            if part.len() == 4 || in_ram || in_phy && skip == 0 {
                let mut word = if in_ram { self.ram.word(base - r::RAM_AT) } else { 0 }.to_le_bytes();
                word[skip..skip + part.len()].copy_from_slice(part);
                self.write_word(base, u32::from_le_bytes(word), now);
            } else {
                self.refused = self.refused.wrapping_add(1);
            }
            (at, rest) = (at.wrapping_add(part.len() as u32), after);
        }
    }

    fn read_word(&mut self, at: u32, now: Time) -> u32 {
        match at {
            r::RAM_AT.. => match at - r::RAM_AT {
                ram if ram < r::RAM_WINDOW => self.ram.word(ram),
                _ => self.refuse(),
            },
            r::REGISTERS_AT.. => match (at - r::REGISTERS_AT) / 4 {
                register if register < r::REGISTERS => self.read_register(register, now),
                _ => self.refuse(),
            },
            r::PHY_AT.. if at < r::PHY_AT + 0x400 => self.phy.read(((at - r::PHY_AT) / 4) as u8).into(),
            _ if at < r::EPROM_OCTETS && self.config.board == Board::Fpga => eprom(self.config.esi, at),
            _ => self.refuse(),
        }
    }

    fn write_word(&mut self, at: u32, word: u32, now: Time) {
        match at {
            r::RAM_AT.. if at - r::RAM_AT < r::RAM_WINDOW => self.ram.set_word(at - r::RAM_AT, word),
            r::REGISTERS_AT..r::RAM_AT if (at - r::REGISTERS_AT) / 4 < r::REGISTERS => {
                self.write_register((at - r::REGISTERS_AT) / 4, word, now);
            }
            r::PHY_AT.. if at < r::PHY_AT + 0x400 => self.phy.write(((at - r::PHY_AT) / 4) as u8, word as u8),
            _ => {
                self.refuse();
            }
        }
    }

    /// An access to where nothing is: counted, and read as ones.
    fn refuse(&mut self) -> u32 {
        self.refused = self.refused.wrapping_add(1);
        u32::MAX
    }

    fn read_register(&mut self, register: u32, now: Time) -> u32 {
        match register {
            r::RES_ID_MCON => {
                let asic = if self.config.board == Board::Asic { r::ID_ASIC } else { 0 };
                asic | r::ID_SUNI | r::ID_UTP
            }
            r::ISA => {
                let status = self.interrupts();
                self.status = 0;
                status
            }
            r::IS => self.interrupts(),
            r::IE => self.enable,
            r::MC_S => self.control | if self.holds_off(now) { r::WAIT_1MS } else { 0 },
            r::STAT => {
                let mode = core::mem::take(&mut self.trashed_by_mode);
                let overflow = core::mem::take(&mut self.trashed_by_overflow);
                u32::from(mode) << 16 | u32::from(overflow)
            }
            r::SERV_WRITE => self.service_write,
            r::DMA_ADDR => self.dma_address,
            r::DMA_WR_RX => self.rx_queue.write,
            r::DMA_RD_RX => self.rx_queue.read,
            r::DMA_WR_TX => self.tx_queue.write,
            r::DMA_RD_TX => self.tx_queue.read,
            r::TX_PLACE.. => {
                let number = ((register - r::TX_PLACE) / 4) as usize % r::CHANNELS;
                let channel = &self.channels[number];
                let wrap = |position| self.channel_ring(number).map_or(0, |ring| ring.wrap(position));
                match (register - r::TX_PLACE) % 4 {
                    0 => channel.place,
                    r::TX_RDPTR => wrap(channel.next_word()),
                    r::TX_DESCRSTART => channel.start,
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    fn write_register(&mut self, register: u32, value: u32, now: Time) {
        const ENABLES: u32 = r::DMA_ENABLE | r::TX_ENABLE | r::RX_ENABLE;
        match register {
            r::RES_ID_MCON => self.reset_midway(),
            r::IE => self.enable = value,
            r::MC_S => {
                let kept = self.control & ENABLES;
                self.control = kept | value & (ENABLES | r::INT_LEVEL | r::TX_LOCK_MODE);
                if value & r::WAIT_1MS != 0 {
                    self.hold_off = Some(now + Duration::from_micros(1000));
                } else if value & r::WAIT_500US != 0 {
                    self.hold_off = Some(now + Duration::from_micros(500));
                }
            }
            r::DMA_WR_RX => self.rx_queue.write = value % r::DMA_ENTRIES,
            r::DMA_WR_TX => self.tx_queue.write = value % r::DMA_ENTRIES,
            r::TX_PLACE.. if (register - r::TX_PLACE).is_multiple_of(4) => {
                self.place(((register - r::TX_PLACE) / 4) as usize % r::CHANNELS, value);
            }
            // The rest is for reading: the adapter's own pointers and statistics.
            _ => self.refused = self.refused.wrapping_add(1),
        }
    }

    /// All interrupt causes: those that were latched, and those that last until their reason is read.
    fn interrupts(&self) -> u32 {
        let half = (self.trashed_by_mode | self.trashed_by_overflow) & 0x8000 != 0;
        self.status | if self.phy.interrupt() { r::SUNI_INT } else { 0 } | if half { r::STAT_OVFL } else { 0 }
    }

    /// Whether the interrupt pin is asserted.
    pub fn interrupt(&self, now: Time) -> bool {
        self.wants_interrupt() && !self.holds_off(now)
    }

    fn holds_off(&self, now: Time) -> bool {
        self.hold_off.is_some_and(|end| now < end)
    }

    fn wants_interrupt(&self) -> bool {
        self.interrupts() & self.enable != 0 && self.control & r::INT_LEVEL != 0 && !self.bridge.interrupt_disabled()
    }

    /// When to call [`Eni155p::fill`], or look at [`Eni155p::interrupt`], next, even if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_transmit().into_iter().chain(self.hold_off_end()).min()
    }

    /// When an interrupt that is held off now will come.
    pub fn hold_off_end(&self) -> Option<Time> {
        self.hold_off.filter(|_| self.wants_interrupt())
    }

    /// Time has passed: a hold-off may have ended. Look at [`Eni155p::interrupt`] then.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.holds_off(now) {
            self.hold_off = None;
        }
    }

    /// Cells come from the line.
    pub fn handle_cells(&mut self, cells: &[Cell]) {
        let mut rest = cells;
        while let Some((first, after)) = rest.split_first() {
            let run = if self.phy.loop_back() == Loop::Off { self.receive_run(rest) } else { 0 };
            rest = match run {
                0 => {
                    self.handle_cell(first);
                    after
                }
                n => &rest[n..],
            };
        }
    }

    /// A cell comes from the line.
    pub fn handle_cell(&mut self, cell: &Cell) {
        if !self.phy.has_signal() {
            return self.received.drop_one(DropReason::LinkDown);
        }
        self.phy.count_received(1);
        match self.phy.loop_back() {
            // The receiver is fed by the transmitter: what the line brings goes nowhere.
            Loop::Diagnostic => self.received.drop_one(DropReason::LinkDown),
            Loop::Line => {
                if self.line_loop.len() < LINE_LOOP_CELLS {
                    self.line_loop.push_back(*cell);
                } else {
                    self.sent.drop_one(DropReason::QueueFull);
                }
                self.receive(cell);
            }
            Loop::Off => self.receive(cell),
        }
    }

    /// Cells have come for which nobody is there.
    pub fn drop_cells(&mut self, n: usize) {
        self.received.drop_n(DropReason::LinkDown, n as u64);
    }

    /// A cell comes from a wire, with its HEC.
    pub fn handle_octets(&mut self, octets: &[u8; wire::cell::CELL_OCTETS]) {
        match self.phy.receive(octets) {
            Some(cell) => self.handle_cell(&cell),
            None => self.received.drop_one(DropReason::HeaderError),
        }
    }

    /// The line has a signal now, or has lost it.
    pub fn set_signal(&mut self, signal: bool) {
        self.phy.set_signal(signal);
    }

    /// The line's framer, to look at.
    pub const fn phy(&self) -> &Suni {
        &self.phy
    }

    /// What came from the line: cells kept, PDUs whole and their cells' octets; cells dropped, and PDUs of a wrong CRC or of
    /// length 0, which their sender gave up.
    pub const fn received(&self) -> &Counters {
        &self.received
    }

    /// What went to the line (or round a loop-back): cells, PDUs, their cells' octets; bad descriptors, and PDUs that a reset
    /// or a new place took from their channel.
    pub const fn sent(&self) -> &Counters {
        &self.sent
    }

    /// DMA entries that failed.
    pub const fn dma_errors(&self) -> &Counters {
        &self.dma_errors
    }

    /// Accesses to where nothing is, or that nothing there understands.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// What the adapter is.
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

/// A word of the FPGA board's ROM: its last 64 octets hold the identifier, its complement, a serial number and a mark.
fn eprom(esi: [u8; 6], at: u32) -> u32 {
    const LAST: u32 = r::EPROM_OCTETS - 64;
    let Some(offset) = at.checked_sub(LAST) else { return u32::MAX };
    let serial = u32::from_be_bytes([esi[2], esi[3], esi[4], esi[5]]);
    match offset {
        48 => serial,
        52 => !serial,
        56 => EPROM_MAGIC,
        60 => !EPROM_MAGIC,
        // Octet i of the block is at i xor 3: first octet highest in a word.
        _ => u32::from_be_bytes([0, 1, 2, 3].map(|i| match offset as usize + i {
            i @ 0..6 => esi[i],
            i @ 6..12 => !esi[i - 6],
            _ => 0,
        })),
    }
}
