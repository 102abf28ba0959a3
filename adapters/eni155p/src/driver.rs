//! A driver for the ENI155P, in the shape of Linux's: probe, open a circuit, send, serve interrupts, close.
//!
//! In: SDUs and interrupts. Out: register accesses, DMA queue entries, SDUs received. The host's memory that it uses is
//! one range: a row of buffers of 64 KB for what goes out, one for what comes in. Nothing is allocated per PDU but the
//! entry of a queue.

mod pages;
mod probe;
pub mod single_copy;
mod transmit;

use crate::Eni155p;
use crate::registers::{self as r, dma_type};
use crate::suni;
use pages::{Placing, Row};
use probe::{esi_from_eeprom, esi_from_rom, size_ram};
use std::collections::{BTreeMap, VecDeque};
use wire::{Error, Time};

/// Octets of each buffer in the host's memory.
pub const BUFFER_OCTETS: u64 = 1 << 16;
/// Words kept free between the end of the queue of PDUs and the adapter's read pointer.
const GAP: u32 = 8;
/// Where the driver maps the window: nowhere in particular.
const BAR: u32 = 0xf000_0000;

/// How the driver reaches its adapter.
pub trait Bus {
    /// Reads configuration space.
    fn config_read(&mut self, offset: usize, data: &mut [u8]);

    /// Writes configuration space.
    fn config_write(&mut self, offset: usize, data: &[u8]);

    /// Reads a word of the memory window.
    fn read(&mut self, offset: u32) -> u32;

    /// Writes a word of the memory window.
    fn write(&mut self, offset: u32, value: u32);

    /// Zeroes `octets` of the memory window from `offset` on, both multiples of four.
    fn clear(&mut self, offset: u32, octets: u32) {
        for at in (0..octets).step_by(4) {
            self.write(offset + at, 0);
        }
    }
}

/// An adapter beside the driver, without a bus between.
#[derive(Debug)]
pub struct Direct<'a> {
    /// The adapter.
    pub adapter: &'a mut Eni155p,
    /// The time of the accesses.
    pub now: Time,
}

impl Bus for Direct<'_> {
    fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        self.adapter.config_read(offset, data);
    }

    fn config_write(&mut self, offset: usize, data: &[u8]) {
        self.adapter.config_write(offset, data);
    }

    fn read(&mut self, offset: u32) -> u32 {
        let mut word = [0; 4];
        self.adapter.bar_read(offset, &mut word, self.now);
        u32::from_le_bytes(word)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.adapter.bar_write(offset, &value.to_le_bytes(), self.now);
    }

    fn clear(&mut self, offset: u32, octets: u32) {
        const BURST: usize = 4096;
        for at in (0..octets).step_by(BURST) {
            let burst = BURST.min((octets - at) as usize);
            self.adapter.bar_write(offset + at, &[0; BURST][..burst], self.now);
        }
    }
}

/// Adaptation layers that the adapter knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aal {
    /// Bare cells: SDUs of 52 octets, header and payload.
    Aal0,
    /// AAL5.
    Aal5,
}

/// The rate that a channel's PDUs leave at: the clock divided by a prescaler and by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Which divisor: 4, 16, 128, 2048.
    pub prescaler: u32,
    /// One less than the number, 0 to 63.
    pub rate: u32,
}

/// Why nothing was sent or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// No circuit of this VCI is open; or one is already.
    #[error("VCI {0} is not to be used so")]
    Circuit(u32),
    /// No channel, no room in the adapter's RAM, in a ring, in a queue, or no buffer: try again later.
    #[error("no room for that now")]
    Busy,
    /// Not a length that the adaptation layer has.
    #[error("no SDU has {0} octets here")]
    Length(usize),
    /// Pages that the adapter cannot fetch from in place: an extent that does not begin and end with a word. Copy the SDU.
    #[error("an SDU in pieces that are not whole words")]
    Misaligned,
}

#[derive(Debug)]
struct Circuit {
    aal: Aal,
    channel: usize,
    rate: Rate,
    /// The receive ring.
    at: u32,
    words: u32,
    /// Where the next descriptor will be.
    position: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    at: u32,
    words: u32,
    /// Where the next PDU goes.
    position: u32,
    circuits: u32,
}

/// A PDU whose DMA runs.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    whose: u32,
    position: u32,
    /// Where its DMA queue entries end.
    entry: u32,
    /// Where the octets lie, in a buffer of the driver's.
    buffer: u64,
    octets: usize,
    /// The pages that were taken for them, instead of a buffer.
    row: Option<Row>,
    /// The number of an SDU that is sent from its owner's pages.
    number: Option<u64>,
}

/// What came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Whose.
    pub vci: u32,
    /// Where in the host's memory; hand it back with [`Eni::release`].
    pub address: u64,
    /// How long.
    pub octets: usize,
    /// The pages that it has, where PDUs come to pages.
    row: Option<Row>,
}

/// What the driver has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// PDUs with a wrong CRC, that their sender has given up, or with a length that contradicts their cells.
    pub bad: u64,
    /// PDUs that the adapter had no room for.
    pub trashed: u64,
    /// PDUs that found no buffer in the host's memory.
    pub no_buffer: u64,
    /// Cells that the adapter lost for want of room.
    pub lost_cells: u64,
    /// Descriptors without their mark: the adapter and the driver disagree.
    pub confused: u64,
    /// DMA that failed.
    pub dma_errors: u64,
    /// PDUs that have been copied to the adapter.
    pub copied: u64,
    /// PDUs whose last cell has left.
    pub sent: u64,
}

/// The driver.
#[derive(Debug)]
pub struct Eni {
    /// The end system identifier.
    pub esi: [u8; 6],
    /// Octets of RAM found.
    pub ram_octets: u32,
    /// What went wrong so far.
    pub statistics: Statistics,
    /// Whether the line has a signal.
    pub signal: bool,
    circuits: BTreeMap<u32, Circuit>,
    channels: [Channel; r::CHANNELS],
    free: Vec<(u32, u32)>,
    service_read: u32,
    rx_write: u32,
    tx_write: u32,
    sending: VecDeque<Running>,
    /// PDUs in the adapter that have not left: the channel, and where each ends.
    leaving: VecDeque<(u32, u32)>,
    /// Circuits whose writers were told to wait.
    waiting: Vec<u32>,
    /// Those of them that there may be room for now.
    writable: Vec<u32>,
    receiving: VecDeque<Running>,
    send_buffers: Vec<u64>,
    receive_buffers: Vec<u64>,
    received: VecDeque<Received>,
    placing: Option<Placing>,
    /// SDUs sent from their owners' pages that have been copied to the adapter.
    copied: VecDeque<u64>,
}

impl Eni {
    /// Finds the adapter out: identity, RAM, identifier; starts it with channel 0 ready. The host's memory from `memory`
    /// on, `buffers` times two buffers, is the driver's.
    ///
    /// # Errors
    /// What is there is no ENI155P, and why not.
    pub fn probe(bus: &mut impl Bus, memory: u64, buffers: u64) -> Result<Self, Error> {
        const WHAT: &str = "ENI155P";
        let mut id = [0; 4];
        bus.config_read(0, &mut id);
        let id = u32::from_le_bytes(id);
        let asic = match id {
            0x0002_111a => true,
            0x0000_111a => false,
            other => return Err(Error::Field { what: WHAT, field: "vendor and device", value: other.into() }),
        };
        bus.config_write(0x10, &BAR.to_le_bytes());
        bus.config_write(4, &6u16.to_le_bytes());
        bus.config_write(0x60, &[0x80]);
        let esi = if asic { esi_from_eeprom(bus)? } else { esi_from_rom(bus)? };
        bus.config_write(0x60, &[0x80]);
        let mcon = bus.read(r::REGISTERS_AT);
        if (mcon & r::ID_ASIC != 0) != asic {
            return Err(Error::Field { what: WHAT, field: "Midway identity", value: mcon.into() });
        }
        let ram_octets = size_ram(bus);
        bus.clear(r::RAM_AT, ram_octets);
        let mut driver = Eni {
            esi,
            ram_octets,
            statistics: Statistics::default(),
            signal: true,
            circuits: BTreeMap::new(),
            channels: Default::default(),
            free: Vec::new(),
            service_read: 0,
            rx_write: 0,
            tx_write: 0,
            sending: VecDeque::new(),
            leaving: VecDeque::new(),
            waiting: Vec::new(),
            writable: Vec::new(),
            receiving: VecDeque::new(),
            send_buffers: (0..buffers).map(|n| memory + n * BUFFER_OCTETS).collect(),
            receive_buffers: (buffers..2 * buffers).map(|n| memory + n * BUFFER_OCTETS).collect(),
            received: VecDeque::new(),
            placing: None,
            copied: VecDeque::new(),
        };
        driver.free_range(r::BUFFERS, ram_octets);
        let phy = |register: u8| r::PHY_AT + 4 * u32::from(register);
        bus.write(phy(suni::RSOP_CIE), 4);
        driver.signal = bus.read(phy(suni::RSOP_SIS)) & 4 == 0;
        register(bus, r::DMA_WR_RX, 0);
        register(bus, r::DMA_WR_TX, 0);
        register(bus, r::IE, u32::MAX);
        register(bus, r::MC_S, 0x40 | r::TX_LOCK_MODE | r::DMA_ENABLE | r::TX_ENABLE | r::RX_ENABLE);
        bus.read(r::REGISTERS_AT + 4 * r::ISA);
        driver.open_channel(bus, 0, 128 << 10).map_err(|_| Error::Field {
            what: WHAT,
            field: "RAM octets",
            value: ram_octets.into(),
        })?;
        Ok(driver)
    }

    /// Cuts `from..to` into free blocks, each a power of two and on a multiple of its size.
    fn free_range(&mut self, mut from: u32, to: u32) {
        while from < to {
            let mut size = 128 << 10;
            while !from.is_multiple_of(size) || from + size > to {
                size /= 2;
            }
            self.free.push((size, from));
            from += size;
        }
    }

    fn allocate(&mut self, octets: u32) -> Option<(u32, u32)> {
        let want = octets.next_power_of_two().clamp(1 << 10, 128 << 10);
        let best = (0..self.free.len()).filter(|i| self.free[*i].0 >= want).min_by_key(|i| self.free[*i].0)?;
        let (mut size, at) = self.free.swap_remove(best);
        while size > want {
            size /= 2;
            self.free.push((size, at + size));
        }
        Some((size, at))
    }

    fn give_back(&mut self, mut size: u32, mut at: u32) {
        // Joins a block with its other half as long as that is free too.
        while size < 128 << 10
            && let Some(buddy) = self.free.iter().position(|free| *free == (size, at ^ size))
        {
            self.free.swap_remove(buddy);
            (at, size) = (at & !size, size * 2);
        }
        self.free.push((size, at));
    }

    fn open_channel(&mut self, bus: &mut impl Bus, number: usize, octets: u32) -> Result<(), DriverError> {
        let (size, at) = self.allocate(octets).ok_or(DriverError::Busy)?;
        let base = r::TX_PLACE + 4 * number as u32;
        register(bus, base, at >> 10 | order(size) << 11);
        let position = bus.read(r::REGISTERS_AT + 4 * (base + r::TX_DESCRSTART));
        self.channels[number] = Channel { at, words: size / 4, position, circuits: 0 };
        Ok(())
    }

    /// Opens a circuit: a receive ring of `ring_octets`, and a channel of its own if it has a rate.
    ///
    /// # Errors
    /// No such circuit, no RAM, or no channel left.
    pub fn open(
        &mut self,
        bus: &mut impl Bus,
        vci: u32,
        aal: Aal,
        ring_octets: u32,
        rate: Option<Rate>,
    ) -> Result<(), DriverError> {
        if vci >= r::CIRCUITS || self.circuits.contains_key(&vci) {
            return Err(DriverError::Circuit(vci));
        }
        let channel = match rate {
            None => 0,
            Some(_) => {
                let free = (1..r::CHANNELS).find(|n| self.channels[*n].words == 0).ok_or(DriverError::Busy)?;
                self.open_channel(bus, free, 16 << 10)?;
                free
            }
        };
        let Some((size, at)) = self.allocate(ring_octets) else {
            self.close_channel(channel);
            return Err(DriverError::Busy);
        };
        self.channels[channel].circuits += 1;
        let entry = r::RAM_AT + r::VCI_TABLE + 16 * vci;
        let mode = if aal == Aal::Aal5 { 2 } else { 1 };
        bus.write(entry + 4, 0);
        bus.write(entry + 8, 0);
        bus.write(entry, mode << 30 | (at >> 10) << 18 | order(size) << 15);
        let rate = rate.unwrap_or_default();
        self.circuits.insert(vci, Circuit { aal, channel, rate, at, words: size / 4, position: 0 });
        Ok(())
    }

    fn close_channel(&mut self, number: usize) {
        if number > 0 && self.channels[number].circuits == 0 && self.channels[number].words > 0 {
            let channel = core::mem::take(&mut self.channels[number]);
            self.give_back(4 * channel.words, channel.at);
        }
    }

    /// Closes a circuit. What is still on its way there is lost.
    ///
    /// # Errors
    /// It is not open, or has PDUs in DMA, or its channel has cells to send: serve interrupts, and try again.
    pub fn close(&mut self, bus: &mut impl Bus, vci: u32) -> Result<(), DriverError> {
        let circuit = self.circuits.get(&vci).ok_or(DriverError::Circuit(vci))?;
        let entry = r::RAM_AT + r::VCI_TABLE + 16 * vci;
        let word0 = bus.read(entry);
        bus.write(entry, word0 & !(3 << 30));
        if self.receiving.iter().any(|pdu| pdu.whose == vci) {
            return Err(DriverError::Busy);
        }
        let channel = circuit.channel;
        if channel > 0 {
            let [read, start] = [r::TX_RDPTR, r::TX_DESCRSTART]
                .map(|n| bus.read(r::REGISTERS_AT + 4 * (r::TX_PLACE + 4 * channel as u32 + n)));
            if read != start || self.sending.iter().any(|pdu| pdu.whose == channel as u32) {
                return Err(DriverError::Busy);
            }
        }
        bus.write(entry, 0);
        if let Some(circuit) = self.circuits.remove(&vci) {
            self.give_back(4 * circuit.words, circuit.at);
            self.channels[channel].circuits -= 1;
            self.close_channel(channel);
        }
        Ok(())
    }

    fn entry_rx(&mut self, bus: &mut impl Bus, word0: u32, address: u32) {
        let at = r::RAM_AT + r::RX_QUEUE + 8 * self.rx_write;
        bus.write(at, word0);
        bus.write(at + 4, address);
        self.rx_write = (self.rx_write + 1) % r::DMA_ENTRIES;
    }

    /// Serves an interrupt.
    pub fn handle_interrupt(&mut self, bus: &mut impl Bus) {
        let reason = bus.read(r::REGISTERS_AT + 4 * r::ISA);
        if reason & r::SUNI_INT != 0 {
            self.signal = bus.read(r::PHY_AT + 4 * u32::from(suni::RSOP_SIS)) & 4 == 0;
        }
        if reason & r::STAT_OVFL != 0 {
            self.read_statistics(bus);
        }
        if reason & r::DMA_ERR != 0 {
            self.statistics.dma_errors += 1;
        }
        if reason & r::TX_IDENT_MISM != 0 {
            self.statistics.confused += 1;
        }
        if reason & r::RX_DMA_COMPLETE != 0 {
            self.finish_receiving(bus);
        }
        if reason & r::SERVICE != 0 {
            self.serve(bus);
        }
        if reason & r::TX_DMA_COMPLETE != 0 {
            self.finish_sending(bus);
        }
        if reason >> r::TX_COMPLETE_0.trailing_zeros() & ((1 << r::CHANNELS) - 1) != 0 {
            self.finish_leaving(bus);
        }
        // The first of the two tells of buffers of the host and room in the DMA queue, the second of room in a ring.
        if reason & r::TX_DMA_COMPLETE != 0 || reason >= r::TX_COMPLETE_0 {
            self.writable.append(&mut self.waiting);
        }
    }

    /// Reads and clears the adapter's own statistics.
    pub fn read_statistics(&mut self, bus: &mut impl Bus) {
        let stat = bus.read(r::REGISTERS_AT + 4 * r::STAT);
        self.statistics.lost_cells += u64::from(stat & 0xffff);
    }

    fn serve(&mut self, bus: &mut impl Bus) {
        while self.service_read != bus.read(r::REGISTERS_AT + 4 * r::SERV_WRITE) {
            let vci = bus.read(r::RAM_AT + r::SERVICE_LIST + 4 * self.service_read);
            self.service_read = (self.service_read + 1) % r::CIRCUITS;
            let entry = r::RAM_AT + r::VCI_TABLE + 16 * (vci % r::CIRCUITS);
            // First the flag, then the look: what comes between is served again.
            let word0 = bus.read(entry);
            bus.write(entry, word0 & !1);
            while self.receive_one(bus, vci) {}
            register(bus, r::DMA_WR_RX, self.rx_write);
        }
    }

    /// Starts DMA of a circuit's next PDU; false if there is none.
    fn receive_one(&mut self, bus: &mut impl Bus, vci: u32) -> bool {
        let Some(circuit) = self.circuits.get(&vci) else { return false };
        let entry = r::RAM_AT + r::VCI_TABLE + 16 * vci;
        let mask = circuit.words - 1;
        let position = circuit.position;
        if bus.read(entry + 4) >> 16 & mask == position {
            return false;
        }
        let ring = |word: u32| r::RAM_AT + circuit.at + 4 * (word & mask);
        let descriptor = bus.read(ring(position));
        if descriptor >> 25 != r::RX_IDENT >> 25 {
            self.statistics.confused += 1;
            return false;
        }
        let cells = if descriptor & r::RX_T != 0 { 0 } else { descriptor & r::CELLS };
        let (words, octets) = match circuit.aal {
            Aal::Aal0 => (13, 52),
            Aal::Aal5 if cells == 0 => (0, 0),
            Aal::Aal5 => (12 * cells, bus.read(ring(position + 12 * cells - 1)) & 0xffff),
        };
        // Length 0 is a PDU that its sender has given up.
        let fits = octets > 0 && octets + 8 <= 4 * words;
        let bad = descriptor & r::RX_CRC_ERR != 0 || circuit.aal == Aal::Aal5 && !fits;
        let octets = if bad { 0 } else { octets };
        match (bad, words) {
            (_, 0) => self.statistics.trashed += 1,
            (true, _) => self.statistics.bad += 1,
            _ => {}
        }
        let (buffer, row) = if octets == 0 {
            (None, None)
        } else if let Some(placing) = self.placing.as_mut().filter(|_| circuit.aal == Aal::Aal5) {
            let row = placing.place(vci, octets as usize, |word| bus.read(ring(position + 1 + word as u32)));
            (row.map(|row| row.address()), row)
        } else {
            (self.receive_buffers.pop(), None)
        };
        if octets > 0 && buffer.is_none() {
            self.statistics.no_buffer += 1;
        }
        // Fewer, if a header has told where the data end.
        let octets = row.map_or(octets, |row| row.octets());
        let end = (position + 1 + words) & mask;
        let of = |kind: u32, count: u32| count << 16 | vci << 6 | kind;
        self.entry_rx(bus, of(dma_type::JUMP, (position + 1) & mask), 0);
        if let Some(buffer) = buffer {
            let (whole, at) = (octets.div_ceil(4), buffer as u32);
            if whole >= 4 {
                self.entry_rx(bus, of(4, whole / 4), at);
            }
            if !whole.is_multiple_of(4) {
                self.entry_rx(bus, of(dma_type::WORD, whole % 4), at + whole / 4 * 16);
            }
        }
        self.entry_rx(bus, of(dma_type::JUMP, end) | r::DMA_END, 0);
        let buffer = buffer.unwrap_or(u64::MAX);
        self.receiving.push_back(Running {
            whose: vci,
            position: end,
            entry: self.rx_write,
            buffer,
            octets: octets as usize,
            row,
            number: None,
        });
        if let Some(circuit) = self.circuits.get_mut(&vci) {
            circuit.position = end;
        }
        // The queue has room for four entries each of so many PDUs; more wait in the adapter.
        if self.receiving.len() < 120 {
            true
        } else {
            register(bus, r::DMA_WR_RX, self.rx_write);
            false
        }
    }

    fn finish_receiving(&mut self, bus: &mut impl Bus) {
        let was_full = self.receiving.len() >= 120;
        let done = bus.read(r::REGISTERS_AT + 4 * r::DMA_RD_RX);
        while let Some(pdu) = self.receiving.front().copied() {
            let behind = |entry: u32| self.rx_write.wrapping_sub(entry) & (r::DMA_ENTRIES - 1);
            if behind(pdu.entry) < behind(done) {
                break;
            }
            self.receiving.pop_front();
            if pdu.buffer != u64::MAX {
                let (vci, address, octets, row) = (pdu.whose, pdu.buffer, pdu.octets, pdu.row);
                self.received.push_back(Received { vci, address, octets, row });
            }
        }
        if was_full {
            let circuits: Vec<u32> = self.circuits.keys().copied().collect();
            for vci in circuits {
                while self.receiving.len() < 120 && self.receive_one(bus, vci) {}
            }
            register(bus, r::DMA_WR_RX, self.rx_write);
        }
    }

    /// PDUs whose DMA has not been seen to end: to the adapter, and from it.
    pub fn in_flight(&self) -> [usize; 2] {
        [self.sending.len(), self.receiving.len()]
    }

    /// The next SDU that has come.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// The SDU has been read.
    pub fn release(&mut self, received: Received) {
        match received.row {
            None => self.receive_buffers.push(received.address),
            Some(_) => self.release_pages(received, |_| true),
        }
    }
}

fn register(bus: &mut impl Bus, number: u32, value: u32) {
    bus.write(r::REGISTERS_AT + 4 * number, value);
}

/// The size order of a buffer: 1 kB is 0.
const fn order(octets: u32) -> u32 {
    (octets >> 10).trailing_zeros()
}
