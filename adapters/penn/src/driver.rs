//! The driver of Traw and Smith for their two cards, in the shape of a character device: open,
//! write, read, control, close; a clock instead of interrupts.
//!
//! In: calls of processes, ticks of a timer, the time. Out: register accesses, SDUs. Nothing blocks: what a process would
//! sleep for is an answer ([`Written::Wait`], [`None`]), and [`Penn::poll_timeout`] says when to come again.
//!
//! | module | what |
//! |---|---|
//! | `sending` | writes, and the queue before the Segmenter: from kernel buffers, from the process's pages under one of three policies against its overwriting them, from another card |
//! | `pacing` | bandwidth, delay and pacing of what a circuit sends |
//! | `polling` | the clock: POLL list, periodic timer, alarm |
//! | `draining` | what the clock finds on the Reassembler is fetched, checked and kept for its reader |
//! | `cs` | the convergence sublayer: AAL3/4's for connectionless traffic, AAL5 as an option |
//! | [`shared`] | regions that processes and the kernel pass to each other without system calls |
//! | [`device`], [`overlay`] | the character device, and one network device over both cards |

mod cs;
pub mod device;
mod draining;
pub mod overlay;
mod pacing;
mod polling;
mod sending;
pub mod shared;
mod tables;

use crate::reassembler::{CONFIGURING, Card, ENTRY_PDU, ENTRY_USED, FETCH_ABORTED, FETCH_ENDED, register as rr};
use crate::reassembly::Config;
use crate::reassembly::units::ram::image;
use crate::segmenter::{Segmenter, register as sr};
use crate::{FAILED, IDLE};
use bus::memory::{CrossMemory, Descriptor, Reach, Unmapped};
use core::time::Duration;
use draining::{Fetch, Pending};
use sending::{Piece, Transfer};
use shared::{Accesses, Isochronous};
use std::collections::VecDeque;
use tables::{DgTable, Vc};
use wire::{CellRate, Counters, Time};

pub use cs::Aal;
pub use draining::REASSEMBLY_TIME;
pub use pacing::Pacing;
pub use polling::RESOLUTION;

pub use tables::{VC_ACTIVE, VC_FETCHING, VC_FULL, VC_MAPPED, VcView};

/// Octets of each kernel buffer.
pub const BUFFER_OCTETS: usize = 1 << 16;
/// Entries of the VC table, and of the DG table.
pub const TABLE: usize = 256;
/// Octets of a circuit that wait for their process at most; more wait in the reassembly buffer.
pub const VC_OCTETS: usize = 1 << 19;
/// Kernel buffers: two to send from, one to receive into.
pub const BUFFERS: usize = 3;

/// Both cards and the host's memory, as the driver is given them for a call.
#[derive(Debug)]
pub struct Cards<'a, M> {
    /// The Segmenter.
    pub segmenter: &'a mut Segmenter,
    /// The Reassembler.
    pub reassembler: &'a mut Card,
    /// The host's memory.
    pub memory: &'a mut M,
}

/// Where what is sent lies while it is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variant {
    /// In one of two kernel buffers; the process goes on at once.
    #[default]
    Kernel,
    /// In one of them, and the process waits until the card is idle again: copying and streaming do not overlap.
    KernelIdle,
    /// In the process's own pages.
    User(Overlap),
}

/// What keeps a process from overwriting pages that are being streamed (Traw and Smith, 1993).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// It waits until the transfer is complete.
    Block,
    /// Nothing: it is trusted.
    Trust,
    /// The pages are tagged; it waits when it writes to one.
    Fault,
}

/// What a control call sets on an open file (Traw and Smith, 1993).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Control {
    /// The circuit.
    Vci(u16),
    /// The multiplexing identification of what is sent, on a connectionless circuit.
    Mid(u16),
    /// How often what is received is drained.
    PollRate(Duration),
    /// Where what is sent lies.
    Variant(Variant),
    /// The adaptation layer of a circuit that is not connectionless.
    Aal(Aal),
    /// The share of the line that the circuit is allocated, and held to; none: as much as is left.
    Bandwidth(Option<CellRate>),
    /// How a circuit with a bandwidth keeps to it.
    Pacing(Pacing),
    /// How long an SDU may wait until its transfer starts; what waits longer is dropped. None: for ever.
    Delay(Option<Duration>),
    /// The clock takes an SDU from the circuit's shared region each period; none: whenever the Segmenter is idle.
    Isochronous(Option<Duration>),
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The process goes on.
    Done,
    /// The process sleeps, and the transfer runs: [`Penn::is_written`] says when it is over.
    Until(Ticket),
    /// Nothing was taken: both buffers, or the card, are in use. Come again.
    Wait,
}

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PennError {
    /// No such open file, or one without a circuit.
    #[error("no such file, or no circuit set on it")]
    File,
    /// The VC table is full, or the circuit is another file's.
    #[error("no entry for that circuit")]
    Table,
    /// An SDU of no octets, or more than a buffer has.
    #[error("{0} octets cannot be sent at once")]
    Length(usize),
    /// More than is left of the line.
    #[error("{asked} cell/s asked for, {free} cell/s are left of the line")]
    Bandwidth {
        /// Cells a second.
        asked: u64,
        /// Cells a second that no circuit is allocated.
        free: u64,
    },
    /// The memory named is not there.
    #[error(transparent)]
    Memory(#[from] Unmapped),
}

#[derive(Debug, Clone, Copy, Default)]
struct File {
    vc: Option<usize>,
    mid: u16,
    variant: Variant,
}

/// What the driver has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Ticks of the periodic timer served.
    pub ticks: u64,
    /// Alarms for the head of the POLL list that came between two ticks.
    pub alarms: u64,
    /// Periods of isochronous circuits for which their process had no SDU.
    pub underruns: u64,
    /// Fetches started.
    pub fetches: u64,
    /// PDUs that were not delivered; [`Penn::counters`] has the reasons.
    pub lost_pdus: u64,
    /// Lists deleted because nobody has their circuit open.
    pub strangers: u64,
    /// Transfers that met memory that is not there.
    pub failed: u64,
}

/// The driver.
#[derive(Debug)]
pub struct Penn {
    /// Where the cards reach the kernel's pinned buffers; without the kernel's memory, nowhere.
    buffers: [u32; BUFFERS],
    pinned: [Option<Descriptor>; BUFFERS],
    busy: [bool; 2],
    files: Vec<Option<File>>,
    vcs: Vec<Option<Vc>>,
    poll_head: Option<usize>,
    /// The numbers of lists, circuits' and PDUs', and where the tick's look at them has got to.
    lists: u32,
    look: Option<u32>,
    /// The list that was fetched from last in this look.
    served: Option<u32>,
    fetch: Option<Fetch>,
    /// PDUs that wait on lists, by list.
    pending: Box<[Pending]>,
    transfers: VecDeque<Transfer>,
    running: Option<Piece>,
    ticket: u64,
    /// What the Segmenter's header and MID registers have.
    loaded: [Option<u32>; 2],
    line_cells_per_s: u32,
    tick: Duration,
    next_tick: Time,
    dgs: DgTable,
    /// Descriptors that no circuit has any more: detached once no fetch uses them.
    detached: Vec<Descriptor>,
    /// What has been counted.
    pub statistics: Statistics,
    /// What has been touched to move data.
    pub accesses: Accesses,
    counters: Counters,
}

/// Builds the data structures of a Reassembler that is being configured, a word at a time, and lets it run (Traw and Smith, 1993).
fn configure<M>(cards: &mut Cards<'_, M>, now: Time) {
    let card = &mut *cards.reassembler;
    if card.read(rr::STATUS) & CONFIGURING == 0 {
        return;
    }
    let (lists, slots) = (card.read(rr::LISTS), card.read(rr::SLOTS) as usize);
    let (circuits, pdus) = ((lists & 0xffff) as usize, (lists >> 16) as usize);
    for (at, word) in image(&Config { circuits, pdus, slots, ..Config::default() }) {
        card.write(rr::RAM_ADDRESS, at.into(), now);
        card.write(rr::RAM_DATA, word.into(), now);
    }
    card.write(rr::RUN, 1, now);
}

impl Penn {
    /// Probes the cards, which resets them (Traw and Smith, 1993), and pins three buffers of 64 KB from `memory` on. The timer ticks each
    /// `tick`: 60 Hz left a processor nine tenths of its time (Traw and Smith, 1993).
    pub fn probe<M: CrossMemory>(cards: &mut Cards<'_, M>, memory: u32, lists: u32, tick: Duration, now: Time) -> Self {
        cards.segmenter.read(sr::RESET);
        cards.reassembler.read(rr::RESET);
        configure(cards, now);
        let reach = Reach { device_writes: true, tagged: false };
        let octets = BUFFER_OCTETS as u32;
        let pinned = [0, 1, 2].map(|n| cards.memory.attach(memory + n * octets, octets, reach).ok());
        Penn {
            buffers: pinned.map(|x| x.map_or(u32::MAX, |x| x.bus)),
            pinned,
            busy: [false; 2],
            files: Vec::new(),
            vcs: vec![None; TABLE],
            poll_head: None,
            lists,
            look: None,
            served: None,
            fetch: None,
            pending: vec![Pending::default(); lists as usize].into(),
            transfers: VecDeque::new(),
            running: None,
            ticket: 0,
            loaded: [None; 2],
            line_cells_per_s: cards.segmenter.read(sr::LINE),
            tick,
            next_tick: now + tick,
            dgs: DgTable::new(),
            detached: Vec::new(),
            statistics: Statistics::default(),
            accesses: Accesses::default(),
            counters: Counters::default(),
        }
    }

    /// PDUs received whole; PDUs and SDUs dropped, by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Gives back all memory, the process's and the kernel's, and leaves the cards reset: the driver is unloaded.
    pub fn unload<M: CrossMemory>(self, cards: &mut Cards<'_, M>) {
        cards.segmenter.read(sr::RESET);
        cards.reassembler.read(rr::RESET);
        let sent = self.transfers.iter().filter_map(|transfer| Some(transfer.x?.0));
        let mapped = self.vcs.iter().flatten().flat_map(Vc::descriptors);
        let kernel = self.pinned.iter().flatten().copied();
        for x in sent.chain(mapped).chain(self.detached.iter().copied()).chain(kernel) {
            cards.memory.detach(x);
        }
    }

    /// Opens the device; gives a file.
    pub fn open(&mut self) -> usize {
        let free = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        if free == self.files.len() {
            self.files.push(None);
        }
        self.files[free] = Some(File::default());
        free
    }

    fn file(&mut self, file: usize) -> Result<&mut File, PennError> {
        self.files.get_mut(file).and_then(Option::as_mut).ok_or(PennError::File)
    }

    /// Sets something on a file.
    ///
    /// # Errors
    /// No such file, no entry for a circuit.
    pub fn control(&mut self, file: usize, control: Control, now: Time) -> Result<(), PennError> {
        let tick = self.tick;
        let vc = self.file(file)?.vc;
        match control {
            Control::Vci(vci) => {
                if self.vcs.iter().flatten().any(|vc| vc.vci == vci) {
                    return Err(PennError::Table);
                }
                if let Some(old) = vc {
                    self.remove_vc(old);
                }
                let free = self.vcs.iter().position(Option::is_none).ok_or(PennError::Table)?;
                self.vcs[free] = Some(Vc::new(vci, tick, now));
                self.insert_poll(free);
                self.file(file)?.vc = Some(free);
            }
            Control::Mid(mid) => self.file(file)?.mid = mid & 0x3ff,
            Control::Variant(variant) => self.file(file)?.variant = variant,
            Control::PollRate(rate) => {
                let number = vc.ok_or(PennError::File)?;
                self.unlink_poll(number);
                if let Some(vc) = &mut self.vcs[number] {
                    vc.poll_rate = rate.max(Duration::from_micros(1));
                    vc.poll_time = now + vc.poll_rate;
                }
                self.insert_poll(number);
            }
            sender => self.control_sender(vc.ok_or(PennError::File)?, sender, now)?,
        }
        Ok(())
    }

    /// What is set on a circuit for its Segmenter's software.
    fn control_sender(&mut self, number: usize, control: Control, now: Time) -> Result<(), PennError> {
        if let Control::Bandwidth(Some(asked)) = control {
            let others = self.vcs.iter().enumerate().filter(|(n, _)| *n != number);
            let others = others.filter_map(|(_, vc)| vc.as_ref()?.pace.bandwidth);
            pacing::admit(asked, others, self.line_cells_per_s)?;
        }
        let vc = self.vcs[number].as_mut().ok_or(PennError::File)?;
        match control {
            Control::Aal(aal) if vc.vci & 0x8000 == 0 && vc.x.is_none() => vc.aal = aal,
            Control::Aal(_) => return Err(PennError::File),
            Control::Bandwidth(bandwidth) => vc.pace.bandwidth = bandwidth,
            Control::Pacing(pacing) => vc.pace.pacing = pacing,
            Control::Delay(delay) => vc.pace.delay = delay,
            Control::Isochronous(period) => {
                let clocked = |period: Duration| Isochronous { period, next: now + period };
                vc.isochronous = period.map(|period| clocked(period.max(RESOLUTION.min(self.tick))));
            }
            _ => {}
        }
        Ok(())
    }

    /// Closes a file; its circuit's list is deleted at the next tick.
    ///
    /// # Errors
    /// No such file.
    pub fn close(&mut self, file: usize) -> Result<(), PennError> {
        if let Some(vc) = self.file(file)?.vc {
            self.remove_vc(vc);
        }
        self.files[file] = None;
        Ok(())
    }

    fn remove_vc(&mut self, number: usize) {
        self.unlink_poll(number);
        if let Some(mut vc) = self.vcs[number].take() {
            self.dgs.clear(&mut vc.dgs);
            self.detached.extend(vc.descriptors());
        }
        // What lies in a region that is no longer shared is not sent; a piece that runs is.
        let running = self.running.map(Piece::ticket);
        self.transfers
            .retain(|transfer| transfer.vc != number || transfer.slot.is_none() || Some(transfer.ticket) == running);
    }

    /// Maps `octets` octets of the calling process at `address` to its circuit, instead of what was mapped (Traw and Smith, 1993): pinned
    /// and translated, and from then on cells are fetched there. None: what was mapped is given back.
    ///
    /// # Errors
    /// No circuit; a connectionless one, whose PDUs come by the kernel's buffer; no room for a cell; no memory there.
    pub fn map<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        address: u32,
        octets: u32,
    ) -> Result<(), PennError> {
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        self.check_map(number, octets)?;
        let reach = Reach { device_writes: true, tagged: false };
        let x = if octets > 0 { Some(cards.memory.attach(address, octets, reach)?) } else { None };
        self.set_map(cards, number, address, x, false);
        Ok(())
    }

    /// The same with memory of another card on the bus, at the bus's address: cells go from card to card, and the processor
    /// only starts fetches. A buffer that is full begins anew.
    ///
    /// # Errors
    /// As [`Penn::map`].
    pub fn map_card<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        address: u32,
        octets: u32,
    ) -> Result<(), PennError> {
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        self.check_map(number, octets)?;
        let x = (octets > 0).then_some(Descriptor { bus: address, octets, tagged: false });
        self.set_map(cards, number, address, x, true);
        Ok(())
    }

    fn check_map(&self, number: usize, octets: u32) -> Result<(), PennError> {
        if self.layer(number)? != cs::Layer::Bare {
            return Err(PennError::File);
        }
        if octets > 0 && (octets < 48 || octets as usize > BUFFER_OCTETS) {
            return Err(PennError::Length(octets as usize));
        }
        Ok(())
    }

    fn set_map<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        number: usize,
        address: u32,
        x: Option<Descriptor>,
        card: bool,
    ) {
        let Some(vc) = self.vcs[number].as_mut() else { return };
        // Another card's memory was never attached.
        self.detached.extend(vc.x.take().filter(|_| !vc.card));
        let octets = x.map_or(0, |x| x.octets);
        (vc.x, vc.card) = (x, card && x.is_some());
        (vc.buf, vc.len, vc.filled) = if x.is_some() { (address, octets, 0) } else { (0, 0, 0) };
        vc.set(VC_MAPPED, x.is_some());
        vc.set(VC_FULL, false);
        self.give_back(cards);
    }

    /// Detaches what no circuit has any more, unless a fetch still writes there, or a transfer reads.
    fn give_back<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>) {
        let read = |x: &Descriptor| self.transfers.iter().any(|t| t.slot.is_some_and(|(region, _)| region.x == *x));
        if self.fetch.is_none() && !self.detached.iter().any(read) {
            self.detached.drain(..).for_each(|x| cards.memory.detach(x));
        }
    }

    /// What a file's entry of the VC table shows.
    ///
    /// # Errors
    /// No such file, no circuit.
    pub fn vc(&mut self, file: usize) -> Result<VcView, PennError> {
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        let vc = self.vcs[number].as_ref().ok_or(PennError::File)?;
        let (polls, poll_time) = (vc.polls, vc.poll_time);
        Ok(VcView { status: vc.status, buf: vc.buf, len: vc.len, dgs: self.dgs.len(vc.dgs), polls, poll_time })
    }
}
