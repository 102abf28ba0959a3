//! The driver of Traw and Smith for their two cards, in the shape of a character device: open,
//! write, read, control, close; a clock instead of interrupts.
//!
//! In: calls of processes, ticks of a timer, the time. Out: register accesses, SDUs. Nothing blocks: what a process would
//! sleep for is an answer ([`Written::Wait`], [`None`]), and [`Penn::poll_timeout`] says when to come again.
//!
//! Received data are drained by the clock: the VC table has an entry per circuit with its poll rate, the POLL list orders
//! them by their next poll, and a tick serves those that are due; connectionless PDUs that are whole go to the DG queue of
//! their circuit. Where a reader has mapped a buffer to its circuit, cells are fetched straight into it, as
//! far as it is free. Sending copies into one of two kernel buffers and returns, or streams from the process's own pages,
//! pinned and translated meanwhile, under one of three policies against its overwriting them (Traw and Smith, 1993).

pub mod device;
pub mod overlay;
mod tables;

use crate::reassembler::{CONFIGURING, Card, ENTRY_PDU, ENTRY_USED, FETCH_ABORTED, FETCH_ENDED, register as rr};
use crate::reassembly::Config;
use crate::reassembly::units::ram::image;
use crate::segmenter::{Segmenter, register as sr};
use crate::{FAILED, IDLE};
use bus::memory::{CrossMemory, Descriptor, Reach, Unmapped};
use core::time::Duration;
use std::collections::VecDeque;
use tables::{DgTable, Vc};
use wire::Time;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The circuit.
    Vci(u16),
    /// The multiplexing identification of what is sent, on a connectionless circuit.
    Mid(u16),
    /// How often what is received is drained.
    PollRate(Duration),
    /// Where what is sent lies.
    Variant(Variant),
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

/// A transfer that waits for the Segmenter, or runs.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    ticket: u64,
    address: u32,
    octets: u32,
    vci: u16,
    mid: u16,
    /// The kernel buffer to give back; none, if it is the process's pages.
    buffer: Option<usize>,
    /// What makes these the card's meanwhile, and where they are in the process.
    x: Option<(Descriptor, u32)>,
}

/// What the Reassembler fetches at present.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    vc: usize,
    vci: u16,
    list: u16,
    pdu: bool,
    /// The reader's buffer that it goes to, if not the kernel's.
    mapped: Option<Descriptor>,
}

/// What the driver has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Ticks served.
    pub ticks: u64,
    /// Fetches started.
    pub fetches: u64,
    /// Connectionless PDUs that no file was open for, that were given up by their sender, or that found the table full.
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
    transfers: VecDeque<Transfer>,
    running: bool,
    ticket: u64,
    done: u64,
    tick: Duration,
    next_tick: Time,
    dgs: DgTable,
    /// Descriptors that no circuit has any more: detached once no fetch uses them.
    detached: Vec<Descriptor>,
    /// What has been counted.
    pub statistics: Statistics,
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
            transfers: VecDeque::new(),
            running: false,
            ticket: 0,
            done: 0,
            tick,
            next_tick: now + tick,
            dgs: DgTable::new(),
            detached: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Gives back all memory, the process's and the kernel's, and leaves the cards reset: the driver is unloaded.
    pub fn unload<M: CrossMemory>(self, cards: &mut Cards<'_, M>) {
        cards.segmenter.read(sr::RESET);
        cards.reassembler.read(rr::RESET);
        let sent = self.transfers.iter().filter_map(|transfer| Some(transfer.x?.0));
        let mapped = self.vcs.iter().flatten().filter_map(|vc| vc.x);
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
            self.detached.extend(vc.x);
        }
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
        let vc = self.vcs[number].as_mut().filter(|vc| vc.vci & 0x8000 == 0).ok_or(PennError::File)?;
        if octets > 0 && (octets < 48 || octets as usize > BUFFER_OCTETS) {
            return Err(PennError::Length(octets as usize));
        }
        let reach = Reach { device_writes: true, tagged: false };
        let x = if octets > 0 { Some(cards.memory.attach(address, octets, reach)?) } else { None };
        self.detached.extend(core::mem::replace(&mut vc.x, x));
        (vc.buf, vc.len, vc.filled) = if x.is_some() { (address, octets, 0) } else { (0, 0, 0) };
        vc.set(VC_MAPPED, x.is_some());
        vc.set(VC_FULL, false);
        self.give_back(cards);
        Ok(())
    }

    /// Detaches what no circuit has any more, unless a fetch still writes there.
    fn give_back<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>) {
        if self.fetch.is_none() {
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
        Ok(VcView { status: vc.status, buf: vc.buf, len: vc.len, dgs: self.dgs.len(vc.dgs) })
    }

    /// Puts a VC into the POLL list: linear time (Traw and Smith, 1993).
    fn insert_poll(&mut self, number: usize) {
        let time = |vcs: &[Option<Vc>], n: usize| vcs[n].as_ref().map_or(Time::MAX, |vc| vc.poll_time);
        let own = time(&self.vcs, number);
        let (mut previous, mut at) = (None, self.poll_head);
        while let Some(n) = at.filter(|n| time(&self.vcs, *n) <= own) {
            previous = Some(n);
            at = self.vcs[n].as_ref().and_then(|vc| vc.next);
        }
        if let Some(vc) = &mut self.vcs[number] {
            (vc.previous, vc.next) = (previous, at);
        }
        if let Some(next) = at.and_then(|n| self.vcs[n].as_mut()) {
            next.previous = Some(number);
        }
        match previous.and_then(|n| self.vcs[n].as_mut()) {
            Some(previous) => previous.next = Some(number),
            None => self.poll_head = Some(number),
        }
    }

    /// Takes a VC out of the POLL list: constant time.
    fn unlink_poll(&mut self, number: usize) {
        let Some((previous, next)) = self.vcs[number].as_mut().map(|vc| (vc.previous.take(), vc.next.take())) else {
            return;
        };
        match previous.and_then(|n| self.vcs[n].as_mut()) {
            Some(previous) => previous.next = next,
            None => self.poll_head = next,
        }
        if let Some(next) = next.and_then(|n| self.vcs[n].as_mut()) {
            next.previous = previous;
        }
    }

    /// The order in which circuits will be polled.
    pub fn poll_order(&self) -> Vec<u16> {
        let mut order = Vec::new();
        let mut at = self.poll_head;
        while let Some(vc) = at.and_then(|n| self.vcs[n].as_ref()) {
            order.push(vc.vci);
            at = vc.next;
        }
        order
    }

    /// Writes an SDU that lies at `address` of the process.
    ///
    /// # Errors
    /// No circuit, a length that is none, no memory there.
    pub fn write<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        address: u32,
        octets: usize,
        now: Time,
    ) -> Result<Written, PennError> {
        let File { vc, mid, variant } = *self.file(file)?;
        let vci = vc.and_then(|n| self.vcs[n].as_ref()).ok_or(PennError::File)?.vci;
        if octets == 0 || octets > BUFFER_OCTETS {
            return Err(PennError::Length(octets));
        }
        self.poll_segmenter(cards, now);
        let (address, buffer, x) = match variant {
            Variant::Kernel | Variant::KernelIdle => {
                let Some(free) = self.busy.iter().position(|busy| !busy) else { return Ok(Written::Wait) };
                let mut data = vec![0; octets];
                cards.memory.copy_in(address, &mut data)?;
                cards.memory.copy_to(self.buffers[free].into(), &data)?;
                self.busy[free] = true;
                (self.buffers[free], Some(free), None)
            }
            Variant::User(_) if !self.transfers.is_empty() => return Ok(Written::Wait),
            Variant::User(policy) => {
                let reach = Reach { device_writes: false, tagged: policy == Overlap::Fault };
                let x = cards.memory.attach(address, octets as u32, reach)?;
                (x.bus, None, Some((x, address)))
            }
        };
        self.ticket += 1;
        let octets = octets as u32;
        self.transfers.push_back(Transfer { ticket: self.ticket, address, octets, vci, mid, buffer, x });
        self.poll_segmenter(cards, now);
        match variant {
            Variant::KernelIdle | Variant::User(Overlap::Block) => Ok(Written::Until(Ticket(self.ticket))),
            _ => Ok(Written::Done),
        }
    }

    /// Whether a write to `file` would find no kernel buffer, or the card in use, and take nothing.
    ///
    /// # Errors
    /// No such file.
    pub fn would_wait(&mut self, file: usize) -> Result<bool, PennError> {
        Ok(match self.file(file)?.variant {
            Variant::Kernel | Variant::KernelIdle => self.busy.iter().all(|busy| *busy),
            Variant::User(_) => !self.transfers.is_empty(),
        })
    }

    /// Whether a transfer is over.
    pub fn is_written(&self, ticket: Ticket) -> bool {
        self.done >= ticket.0
    }

    /// Whether a process that writes to `address` of its own has to wait: with [`Overlap::Fault`] its kernel asks this
    /// when a tagged page is written to.
    pub fn must_wait(&self, address: u32) -> bool {
        self.transfers.iter().any(|transfer| {
            let page = |address: u32| address / 4096;
            transfer.x.is_some_and(|(x, first)| {
                (page(first)..=page(first.saturating_add(x.octets - 1))).contains(&page(address))
            })
        })
    }

    /// Looks at the Segmenter's idle flag (Traw and Smith, 1993): a transfer that is over gives its buffer back, and the next one starts.
    fn poll_segmenter<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let status = cards.segmenter.read(sr::STATUS);
        if status & IDLE == 0 {
            return;
        }
        if core::mem::take(&mut self.running)
            && let Some(over) = self.transfers.pop_front()
        {
            self.done = over.ticket;
            if let Some(buffer) = over.buffer {
                self.busy[buffer] = false;
            }
            if let Some((x, _)) = over.x {
                cards.memory.detach(x);
            }
            self.statistics.failed += u64::from(status & FAILED != 0);
        }
        if let Some(next) = self.transfers.front() {
            cards.segmenter.write(sr::SOURCE, next.address, now);
            cards.segmenter.write(sr::LENGTH, next.octets, now);
            cards.segmenter.write(sr::HEADER, u32::from(next.vci) << 4, now);
            cards.segmenter.write(sr::MID, next.mid.into(), now);
            cards.segmenter.write(sr::START, 1, now);
            self.running = true;
        }
    }

    /// Reads what has been drained: octets of a circuit, or one connectionless PDU. `None`: nothing is there, the process
    /// sleeps. A PDU longer than `buffer` loses its end, as with datagrams. Where the reader has mapped a buffer, its first
    /// octets are what came, `buffer` is left alone, and the next cells come from its beginning on: use them before the
    /// next tick.
    ///
    /// # Errors
    /// No such file, no circuit.
    pub fn read(&mut self, file: usize, buffer: &mut [u8]) -> Result<Option<usize>, PennError> {
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        let vc = self.vcs[number].as_mut().ok_or(PennError::File)?;
        if vc.vci & 0x8000 != 0 {
            let Some(dg) = self.dgs.pop(&mut vc.dgs) else { return Ok(None) };
            let n = dg.len().min(buffer.len());
            buffer[..n].copy_from_slice(&dg[..n]);
            return Ok(Some(n));
        }
        if vc.x.is_some() {
            // The octets are in the reader's buffer already; the whole of it is free again.
            vc.set(VC_FULL, false);
            let n = core::mem::take(&mut vc.filled) as usize;
            return Ok((n > 0).then_some(n));
        }
        let n = vc.data.len().min(buffer.len());
        for (place, octet) in buffer.iter_mut().zip(vc.data.drain(..n)) {
            *place = octet;
        }
        Ok((n > 0).then_some(n))
    }

    /// The next tick, or the next look at a card that works.
    pub fn poll_timeout<M>(&self, cards: &Cards<'_, M>) -> Time {
        let fetch = self.fetch.and(cards.reassembler.poll_timeout());
        let started = self.fetch.is_some() || self.look.is_some();
        let transfer = if self.running { cards.segmenter.poll_timeout() } else { None };
        let soon = started.then_some(Time::ZERO).filter(|_| fetch.is_none());
        [fetch, transfer, soon].into_iter().flatten().min().unwrap_or(Time::MAX).min(self.next_tick)
    }

    /// Serves the timer: looks at cards and tables as far as it can without waiting.
    pub fn handle_timeout<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        self.poll_segmenter(cards, now);
        self.give_back(cards);
        if now >= self.next_tick {
            self.statistics.ticks += 1;
            // Ticks that came and went while the processor did something else are not made up for.
            self.next_tick = now + self.tick;
            self.look.get_or_insert(0);
        }
        if self.fetch.is_some() && cards.reassembler.read(rr::STATUS) & IDLE == 0 {
            return;
        }
        self.finish_fetch(cards, now);
        self.examine(cards, now);
    }

    fn finish_fetch<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let Some(fetch) = self.fetch.take() else { return };
        let length = cards.reassembler.read(rr::LENGTH);
        let failed = cards.reassembler.read(rr::STATUS) & FAILED != 0;
        let octets = (length & 0xf_ffff).min(BUFFER_OCTETS as u32) as usize;
        self.give_back(cards);
        let mut data = vec![0; if fetch.mapped.is_some() { 0 } else { octets }];
        let read = cards.memory.copy_from(self.buffers[2].into(), &mut data);
        let vc = self.vcs[fetch.vc].as_mut().filter(|vc| vc.vci == fetch.vci);
        let Some(vc) = vc else { return };
        vc.set(VC_FETCHING, false);
        if failed || read.is_err() {
            self.statistics.failed += 1;
            return;
        }
        if fetch.mapped.is_some() {
            // A buffer that was mapped meanwhile has nothing of this yet.
            if vc.x == fetch.mapped {
                vc.filled += octets as u32;
                vc.set(VC_FULL, vc.len - vc.filled < 48);
            }
        } else if !fetch.pdu {
            vc.data.extend(data);
        } else if length & FETCH_ENDED == 0 || length & FETCH_ABORTED != 0 || self.dgs.push(&mut vc.dgs, data).is_err()
        {
            self.statistics.lost_pdus += 1;
        }
        if fetch.pdu {
            cards.reassembler.write(rr::INDEX, fetch.list.into(), now);
            // The next PDU of the same MID may have begun; if not, the entry is for others.
            if cards.reassembler.read(rr::CELLS) == 0 {
                cards.reassembler.write(rr::DELETE, fetch.list.into(), now);
            }
        }
    }

    /// Looks at CAM entries and status blocks from where it stopped, until a fetch is under way or all have been seen.
    fn examine<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        while self.fetch.is_none()
            && let Some(list) = self.look
        {
            if list >= self.lists {
                (self.look, self.served) = (None, None);
                return self.reschedule(now);
            }
            cards.reassembler.write(rr::INDEX, list, now);
            let entry = cards.reassembler.read(rr::ENTRY);
            if entry & ENTRY_USED == 0 {
                self.look = Some(list + 1);
                continue;
            }
            let pdu = entry & ENTRY_PDU != 0;
            let vci = if pdu { entry >> 10 } else { entry } as u16;
            let Some(number) = self.vcs.iter().position(|vc| vc.as_ref().is_some_and(|vc| vc.vci == vci)) else {
                // Nobody reads it: its slots are for others.
                self.statistics.strangers += 1;
                cards.reassembler.write(rr::DELETE, list, now);
                self.look = Some(list + 1);
                continue;
            };
            let cells = cards.reassembler.read(rr::CELLS);
            let ends = cards.reassembler.read(rr::ENDS);
            let unit = if pdu { 44 } else { 48 };
            let mut fits = BUFFER_OCTETS as u32 / unit;
            let Some(vc) = self.vcs[number].as_mut() else { continue };
            if !pdu {
                vc.list = u16::try_from(list).ok();
            }
            vc.set(VC_ACTIVE, true);
            // A circuit is served once in a look, and again only as long as more than a buffer waits.
            let again = self.served != Some(list) || cells >= fits;
            let room = vc.room(VC_OCTETS) as u32;
            if vc.x.is_some() {
                fits = room / unit;
            }
            let due = pdu && ends > 0 || !pdu && cells > 0 && vc.poll_time <= now && room.min(fits) > 0 && again;
            if !due {
                self.look = Some(list + 1);
                continue;
            }
            let mapped = vc.x;
            let destination = mapped.map_or(self.buffers[2], |x| x.bus + vc.filled);
            vc.set(VC_FETCHING, true);
            cards.reassembler.write(rr::DESTINATION, destination, now);
            cards.reassembler.write(rr::LIST, list, now);
            cards.reassembler.write(rr::FETCH, cells.min(fits), now);
            self.fetch = Some(Fetch { vc: number, vci, list: list as u16, pdu, mapped });
            self.statistics.fetches += 1;
            (self.look, self.served) = (Some(list), Some(list));
        }
    }

    /// The circuits at the head of the POLL list that were due are due again later.
    fn reschedule(&mut self, now: Time) {
        while let Some(number) = self.poll_head {
            let Some(vc) = self.vcs[number].as_mut().filter(|vc| vc.poll_time <= now) else { break };
            // Kept in step with the ticks; polls that were missed are not made up for.
            let next = vc.poll_time + vc.poll_rate;
            vc.poll_time = if next > now { next } else { now + vc.poll_rate };
            self.unlink_poll(number);
            self.insert_poll(number);
        }
    }
}
