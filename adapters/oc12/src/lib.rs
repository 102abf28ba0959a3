//! The second generation of the host interface (Smith 2002, section 3.2): segmentation and reassembly on one board at
//! OC-12c, with what it took over from HP's Afterburner (Dalton et al. 1993): buffer memory in blocks whose numbers pass
//! between host and board by lists, and the Internet checksum of what crosses the bus.
//!
//! In: register accesses, octets that the host's processor moves, the host's memory, cells, the time. Out: cells, the
//! host's memory, an interrupt line with a mask. A whole PDU is in a block before it leaves or is told of; so its checksum
//! can be put into its header, and its data stay on the board until somebody has a place for them.
//!
//! | list of blocks | who adds | who takes |
//! |---|---|---|
//! | free to send from | the board, once the last cell has left | the host, [`registers::TX_FREE`] |
//! | to be sent | the host, [`registers::TX_READY`] | the board |
//! | free to receive into | the host, [`registers::RX_FREE`] | the board |
//! | received | the board, after the last cell | the host, [`registers::RX_READY`] |
//!
//! A circuit's header is as long as the host has said ([`registers::SPLIT`]). It ends where a block's data begin, at
//! [`DATA_AT`], and is not in the data's sum: header and data are apart, and the data aligned. Papers name features, not
//! registers: these are ours. The host may write anything: a block that it does not hold is refused and counted.

#![forbid(unsafe_code)]

mod blocks;
pub mod driver;
pub mod registers;

use blocks::{BLOCK_TABLE, Blocks, Holder};
use bus::crossings::InternetSum;
use bus::memory::HostMemory;
use core::time::Duration;
use penn::Streaming;
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::collections::{BTreeMap, VecDeque};
use traffic::Pacer;
use wire::{Cell, CellRate, CircuitId, Counters, DropReason, Time};

pub use blocks::{BLOCK_OCTETS, DATA_AT};

/// What the board answers when it is asked what it is.
pub const IDENTIFIER: u32 = 0x0c12;
/// Status and enable: a received PDU waits.
pub const RECEIVED: u32 = 1;
/// Status and enable: a block that was sent is free again; cleared when [`registers::STATUS`] is read.
pub const SENT: u32 = 2;
/// Status and enable: a transfer has ended; cleared when [`registers::STATUS`] is read.
pub const MOVED: u32 = 4;
/// Status: a transfer is under way.
pub const MOVING: u32 = 8;
/// Status: the last transfer met memory that is not there.
pub const FAILED: u32 = 16;
/// What a list gives that is empty.
pub const NONE: u32 = u32::MAX;

/// How the board is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Blocks of its memory, a quarter of them to send from.
    pub blocks: u16,
    /// The line's rate.
    pub line: CellRate,
    /// The bus of the host.
    pub bus: Streaming,
    /// How much the line catches up, where whoever has it looks less often than each cell time.
    pub catch_up: Duration,
}

impl Default for Config {
    /// One megabyte, as Afterburner has, on OC-12c. The papers give no time of the bus; a word each 50 ns is 640 Mbit/s, enough for the line.
    fn default() -> Self {
        let bus = Streaming { setup: Duration::from_nanos(200), word: Duration::from_nanos(50) };
        Config { blocks: 64, line: CellRate::OC12C, bus, catch_up: Duration::ZERO }
    }
}

/// A circuit that is open.
#[derive(Debug)]
struct Circuit {
    split: usize,
    reassembler: Reassembler,
    /// Where its PDU gathers.
    block: Option<u16>,
    /// Its PDU has lost cells for want of a block.
    starved: bool,
}

/// A received PDU.
#[derive(Debug, Clone, Copy)]
struct Received {
    block: u16,
    vci: u16,
    octets: u16,
    split: u16,
    sum: u16,
}

/// A transfer over the bus.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    to_host: bool,
    address: u32,
    block: u16,
    offset: usize,
    octets: usize,
    ends: Time,
}

/// The board.
#[derive(Debug)]
pub struct Oc12 {
    config: Config,
    blocks: Blocks,
    circuits: BTreeMap<u16, Circuit>,
    receive_free: VecDeque<u16>,
    received: VecDeque<Received>,
    send_free: VecDeque<u16>,
    to_send: VecDeque<(u16, u16, usize)>,
    sending: Option<(Segmentation, u16)>,
    line: Pacer,
    transfer: Option<Transfer>,
    registers: [u32; registers::COUNT],
    /// [`SENT`], [`MOVED`], [`FAILED`], as far as they have not been read.
    flags: u32,
    enabled: u32,
    sum: InternetSum,
    shown: Option<Received>,
    counters: [Counters; 2],
}

impl Oc12 {
    /// As after power is switched on.
    pub fn new(config: Config) -> Self {
        let config = Config { blocks: config.blocks.clamp(4, BLOCK_TABLE), ..config };
        let to_send_from = config.blocks / 4;
        Oc12 {
            config,
            blocks: Blocks::new(config.blocks, to_send_from),
            circuits: BTreeMap::new(),
            receive_free: (to_send_from..config.blocks).collect(),
            received: VecDeque::new(),
            send_free: (0..to_send_from).collect(),
            to_send: VecDeque::new(),
            sending: None,
            line: Pacer::new(config.line, config.catch_up),
            transfer: None,
            registers: [0; registers::COUNT],
            flags: 0,
            enabled: 0,
            sum: InternetSum::default(),
            shown: None,
            counters: Default::default(),
        }
    }

    fn status(&self) -> u32 {
        let received = if self.received.is_empty() { 0 } else { RECEIVED };
        let moving = if self.transfer.is_some() { MOVING } else { 0 };
        self.flags | received | moving
    }

    /// Whether the interrupt is asserted.
    pub fn interrupt(&self) -> bool {
        self.status() & self.enabled != 0
    }

    /// Reads a register; one that is not there reads as ones.
    pub fn read(&mut self, number: u32) -> u32 {
        let shown = |of: fn(Received) -> u16| self.shown.map_or(NONE, |received| of(received).into());
        match number {
            registers::IDENTIFIER => IDENTIFIER,
            registers::STATUS => {
                let status = self.status();
                self.flags = 0;
                status
            }
            registers::ENABLE => self.enabled,
            registers::TX_FREE => {
                let Some(block) = self.send_free.pop_front() else { return NONE };
                self.blocks.set(block, Holder::Sender);
                block.into()
            }
            registers::RX_READY => {
                self.shown = self.received.pop_front();
                let Some(received) = self.shown else { return NONE };
                self.blocks.set(received.block, Holder::Receiver);
                received.block.into()
            }
            registers::RX_VCI => shown(|received| received.vci),
            registers::RX_OCTETS => shown(|received| received.octets),
            registers::RX_SPLIT => shown(|received| received.split),
            registers::RX_SUM => shown(|received| received.sum),
            registers::SUM => self.sum.value().into(),
            _ => self.registers.get(number as usize).copied().unwrap_or(u32::MAX),
        }
    }

    /// Writes a register. What makes no sense is counted and does nothing.
    pub fn write(&mut self, number: u32, value: u32, now: Time) {
        let done = match number {
            registers::ENABLE => {
                self.enabled = value & (RECEIVED | SENT | MOVED);
                Some(())
            }
            registers::SPLIT => self.open(value),
            registers::CLOSE => self.close(value),
            registers::SUM => {
                self.sum = InternetSum::from_value(value as u16);
                Some(())
            }
            registers::INSERT => self.insert(value as usize),
            registers::TX_READY => self.queue(value),
            registers::RX_FREE => self.give_back(value),
            registers::TO_BOARD | registers::TO_HOST => self.begin_transfer(number == registers::TO_HOST, value, now),
            registers::VCI | registers::BLOCK | registers::OFFSET | registers::ADDRESS | registers::OCTETS => {
                self.registers[number as usize] = value;
                Some(())
            }
            _ => None,
        };
        if done.is_none() {
            self.counters[0].drop_one(DropReason::BadDescriptor);
        }
    }

    /// Opens the circuit of [`registers::VCI`], whose headers are `split` octets, or changes that.
    fn open(&mut self, split: u32) -> Option<()> {
        let vci = u16::try_from(self.registers[registers::VCI as usize]).ok()?;
        let split = usize::try_from(split).ok().filter(|split| *split <= DATA_AT)?;
        let max_sdu_octets = BLOCK_OCTETS - DATA_AT;
        let new = || {
            let config = ReassemblyConfig { max_sdu_octets, ..ReassemblyConfig::default() };
            Circuit { split, reassembler: Reassembler::new(config), block: None, starved: false }
        };
        // What has begun to gather began where the header's old length says.
        let circuit = self.circuits.entry(vci).or_insert_with(new);
        if circuit.block.is_none() {
            circuit.split = split;
        }
        Some(())
    }

    fn close(&mut self, vci: u32) -> Option<()> {
        let circuit = self.circuits.remove(&u16::try_from(vci).ok()?)?;
        self.receive_free.extend(circuit.block);
        Some(())
    }

    /// Puts the checksum of what crossed since [`registers::SUM`] was written into [`registers::BLOCK`].
    fn insert(&mut self, offset: usize) -> Option<()> {
        let sum = self.sum.checksum().to_be_bytes();
        self.blocks.held(self.registers[registers::BLOCK as usize], Holder::Sender, offset, 2)?.copy_from_slice(&sum);
        Some(())
    }

    fn queue(&mut self, block: u32) -> Option<()> {
        let [vci, octets] = [registers::VCI, registers::OCTETS].map(|n| self.registers[n as usize]);
        let (vci, octets) = (u16::try_from(vci).ok()?, usize::try_from(octets).ok().filter(|n| *n > 0)?);
        self.blocks.held(block, Holder::Sender, 0, octets)?;
        let block = block as u16;
        self.blocks.set(block, Holder::Board);
        self.to_send.push_back((block, vci, octets));
        Some(())
    }

    /// The host does not want the block any more: one that it was to send from is free to send from.
    fn give_back(&mut self, block: u32) -> Option<()> {
        let number = u16::try_from(block).ok()?;
        match self.blocks.holder(number)? {
            Holder::Receiver => self.receive_free.push_back(number),
            Holder::Sender => self.send_free.push_back(number),
            Holder::Board => return None,
        }
        self.blocks.set(number, Holder::Board);
        Some(())
    }

    fn begin_transfer(&mut self, to_host: bool, octets: u32, now: Time) -> Option<()> {
        let [block, offset, address] =
            [registers::BLOCK, registers::OFFSET, registers::ADDRESS].map(|n| self.registers[n as usize]);
        let (offset, octets) = (offset as usize, octets as usize);
        let holder = if to_host { Holder::Receiver } else { Holder::Sender };
        // The bus is of words.
        if self.transfer.is_some() || octets == 0 || !address.is_multiple_of(4) {
            return None;
        }
        self.blocks.held(block, holder, offset, octets)?;
        let ends = now + self.config.bus.setup + self.config.bus.of(octets as u32);
        self.transfer = Some(Transfer { to_host, address, block: block as u16, offset, octets, ends });
        Some(())
    }

    /// The host's processor writes into a block that it is to send from; what passes is summed.
    pub fn put(&mut self, block: u32, offset: usize, octets: &[u8]) -> bool {
        let Some(place) = self.blocks.held(block, Holder::Sender, offset, octets.len()) else {
            self.counters[0].drop_one(DropReason::BadDescriptor);
            return false;
        };
        place.copy_from_slice(octets);
        self.sum.add(octets);
        true
    }

    /// The host's processor reads from a block that it has received.
    pub fn get(&mut self, block: u32, offset: usize, octets: &mut [u8]) -> bool {
        let Some(place) = self.blocks.held(block, Holder::Receiver, offset, octets.len()) else {
            self.counters[0].drop_one(DropReason::BadDescriptor);
            return false;
        };
        octets.copy_from_slice(place);
        true
    }

    /// Ends the transfer under way, if its time is over.
    pub fn run(&mut self, memory: &mut impl HostMemory, now: Time) {
        let Some(transfer) = self.transfer.take_if(|transfer| transfer.ends <= now) else { return };
        let Transfer { to_host, address, block, offset, octets, .. } = transfer;
        let holder = if to_host { Holder::Receiver } else { Holder::Sender };
        self.flags |= MOVED;
        // A block that was given away meanwhile is another's.
        let Some(place) = self.blocks.held(block.into(), holder, offset, octets) else {
            self.flags |= FAILED;
            return;
        };
        let moved = if to_host { memory.write(address.into(), place) } else { memory.read(address.into(), place) };
        if moved.is_err() {
            self.flags |= FAILED;
            return self.counters[usize::from(to_host)].drop_one(DropReason::BadDescriptor);
        }
        if !to_host {
            self.sum.add(place);
        }
    }

    /// Cells that leave by `now`, to the front of `out`; gives how many.
    pub fn fill(&mut self, out: &mut [Cell], now: Time) -> usize {
        let mut filled = 0;
        while filled < out.len() && self.line.allowed(now, 1) > 0 {
            if self.sending.is_none() && !self.begin_pdu() {
                break;
            }
            let Some((segmentation, block)) = &mut self.sending else { break };
            let octets = segmentation.sdu_octets();
            let made = segmentation.fill(self.blocks.octets(*block, 0, octets), &mut out[filled..=filled]);
            if made == 0 {
                let block = *block;
                self.sending = None;
                self.send_free.push_back(block);
                self.flags |= SENT;
                self.counters[0].pdus = self.counters[0].pdus.wrapping_add(1);
                continue;
            }
            filled += made;
            self.counters[0].cells = self.counters[0].cells.wrapping_add(made as u64);
            self.line.sent(made, now);
        }
        filled
    }

    fn begin_pdu(&mut self) -> bool {
        while let Some((block, vci, octets)) = self.to_send.pop_front() {
            let begun = CircuitId::new(0, vci).map(|id| Segmentation::new(id, octets, SduMeta::default()));
            if let Some(Ok(segmentation)) = begun {
                self.counters[0].octets = self.counters[0].octets.wrapping_add(octets as u64);
                self.sending = Some((segmentation, block));
                return true;
            }
            self.send_free.push_back(block);
            self.flags |= SENT;
            self.counters[0].drop_one(DropReason::BadDescriptor);
        }
        false
    }

    /// Cells come from the line.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        for cell in cells {
            let id = cell.circuit();
            let Some(circuit) = self.circuits.get_mut(&id.vci.get()).filter(|_| id.vpi.get() == 0) else {
                self.counters[1].drop_one(DropReason::UnknownCircuit);
                continue;
            };
            self.counters[1].cells = self.counters[1].cells.wrapping_add(1);
            if circuit.block.is_none() && !circuit.starved {
                circuit.block = self.receive_free.pop_front();
                circuit.starved = circuit.block.is_none();
            }
            let begins = DATA_AT - circuit.split;
            let step = match circuit.block {
                Some(block) => circuit.reassembler.push(
                    &[*cell],
                    self.blocks.octets_mut(block, begins, BLOCK_OCTETS - begins),
                    now,
                ),
                None => circuit.reassembler.skip(&[*cell], now),
            };
            match step.event {
                Event::NeedMore => {}
                Event::Failed(reason) => {
                    let reason = if circuit.starved { DropReason::NoBuffer } else { reason };
                    circuit.starved = false;
                    self.counters[1].drop_one(reason);
                }
                Event::Complete { sdu_octets, .. } => {
                    let Some(block) = circuit.block.take() else { continue };
                    // A PDU shorter than its header is all header, and ends where data would begin.
                    let split = circuit.split.min(sdu_octets);
                    if split < circuit.split {
                        self.blocks.octets_mut(block, 0, DATA_AT).copy_within(begins..begins + split, DATA_AT - split);
                    }
                    let mut sum = InternetSum::default();
                    sum.add(self.blocks.octets(block, DATA_AT, sdu_octets - split));
                    let [octets, split] = [sdu_octets as u16, split as u16];
                    let vci = id.vci.get();
                    self.received.push_back(Received { block, vci, octets, split, sum: sum.value() });
                    self.counters[1].pdus = self.counters[1].pdus.wrapping_add(1);
                    self.counters[1].octets = self.counters[1].octets.wrapping_add(u64::from(octets));
                }
            }
        }
    }

    /// When a transfer ends or a cell leaves.
    pub fn poll_timeout(&self) -> Option<Time> {
        let cell = self.sending.is_some() || !self.to_send.is_empty();
        let line = cell.then(|| self.line.next_time());
        line.into_iter().chain(self.transfer.map(|transfer| transfer.ends)).min()
    }

    /// Sent: cells, PDUs, and what the host asked for that made no sense.
    pub const fn sent(&self) -> &Counters {
        &self.counters[0]
    }

    /// Received: cells, PDUs, and what was dropped.
    pub const fn received(&self) -> &Counters {
        &self.counters[1]
    }

    /// Blocks free to send from, and to receive into.
    pub fn free(&self) -> [usize; 2] {
        [self.send_free.len(), self.receive_free.len()]
    }
}
