//! Reception: cells go to their circuit's ring in the RAM; a finished PDU gets its descriptor and stands in the service
//! list.
//!
//! All of a circuit's state lies in its entry of the VCI table, where the host reads and writes it too; every field is
//! masked when it is used, and a ring that is not all RAM counts as none.

use super::ram::Ring;
use super::registers as r;
use super::{Eni155p, Trash};
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
use wire::{Cell, DropReason, PayloadType};

const CELL_WORDS: u32 = PAYLOAD_OCTETS as u32 / 4;
/// Where a PDU's length stands in its last cell, before the CRC.
const LENGTH_AT: usize = PAYLOAD_OCTETS - 6;
const IN_SERVICE: u32 = 1;
const PTI_MODE: u32 = 1 << 29;
const RAW: u32 = 1;
const AAL5: u32 = 2;

/// Where a PDU stands, in the entry's state field.
mod state {
    /// Between two PDUs.
    pub const IDLE: u32 = 0;
    /// Cells of a PDU are in the ring.
    pub const BEGUN: u32 = 1;
    /// The rest of a PDU is passed over; its descriptor will have the T bit.
    pub const TRASHED: u32 = 2;
    /// The same for a PDU in whose descriptor's place there was no room: it leaves no trace but the statistics.
    pub const LOST: u32 = 3;
}

/// An entry of the VCI table, taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    at: u32,
    word0: u32,
    pub(super) ring: Option<Ring>,
    descriptor: u32,
    pub(super) read: u32,
    write: u32,
    state: u32,
    cells: u32,
}

impl Eni155p {
    pub(super) fn entry(&self, vci: u32) -> Entry {
        let at = r::VCI_TABLE + 16 * (vci % r::CIRCUITS);
        let [word0, word1, word2] = [0, 4, 8].map(|word| self.ram.word(at + word));
        let ring = self.ram.ring(word0 >> 18, word0 >> 15);
        let wrap = |position: u32| ring.map_or(0, |ring| ring.wrap(position & 0x7fff));
        Entry {
            at,
            word0,
            ring,
            descriptor: wrap(word1 >> 16),
            read: wrap(word1),
            write: wrap(word2 >> 16),
            state: word2 >> 14 & 3,
            cells: word2 & r::CELLS,
        }
    }

    /// Moves the host's read pointer: receive DMA and its jumps.
    pub(super) fn set_read(&mut self, entry: &Entry, read: u32) {
        let word1 = self.ram.word(entry.at + 4);
        self.ram.set_word(entry.at + 4, word1 & !0x7fff | read & 0x7fff);
    }

    fn store(&mut self, entry: &Entry) {
        self.ram.set_word(entry.at + 4, entry.descriptor << 16 | entry.read);
        self.ram.set_word(entry.at + 8, entry.write << 16 | entry.state << 14 | entry.cells);
    }

    /// Takes a cell into the adapter proper, whether from the line or from a loop-back.
    pub(super) fn receive(&mut self, cell: &Cell) {
        if self.control & r::RX_ENABLE == 0 {
            return self.received.drop_one(DropReason::NotOpen);
        }
        let header = cell.header();
        let vci = u32::from(header.circuit.vci.get());
        if header.circuit.vpi.get() != 0 || vci >= r::CIRCUITS {
            return self.trash(Trash::Mode, DropReason::UnknownCircuit);
        }
        let entry = self.entry(vci);
        match (entry.word0 >> 30, entry.ring, header.payload_type) {
            (RAW, Some(ring), _) => self.receive_raw(vci, entry, ring, cell),
            (AAL5, Some(ring), PayloadType::User { end, .. }) => self.receive_aal5(vci, entry, ring, cell, end),
            (AAL5, Some(ring), _) if entry.word0 & PTI_MODE != 0 && entry.state == state::IDLE => {
                self.receive_management(vci, entry, ring, cell);
            }
            (AAL5, Some(_), _) => self.trash(Trash::Mode, DropReason::WrongAal),
            _ => self.trash(Trash::Mode, DropReason::UnknownCircuit),
        }
    }

    /// Takes as many cells as go on with an AAL5 PDU that has begun and do not end it, all at once: what they do is what
    /// [`Eni155p::receive`] would do with each. Gives how many; 0 if the first is none of these.
    pub(super) fn receive_run(&mut self, cells: &[Cell]) -> usize {
        let Some(first) = cells.first() else { return 0 };
        let header = first.header();
        let vci = u32::from(header.circuit.vci.get());
        let goes_on = matches!(header.payload_type, PayloadType::User { end: false, .. });
        let enabled = self.phy.has_signal() && self.control & r::RX_ENABLE != 0;
        if !goes_on || !enabled || header.circuit.vpi.get() != 0 || vci >= r::CIRCUITS {
            return 0;
        }
        let mut entry = self.entry(vci);
        let Some(ring) = entry.ring.filter(|_| entry.word0 >> 30 == AAL5 && entry.state == state::BEGUN) else {
            return 0;
        };
        let room = Self::room(&entry, ring, entry.write) / CELL_WORDS;
        let most = room.min(r::CELLS - entry.cells) as usize;
        let word = first.header_word();
        let mut crc = Crc32::from_register(self.ram.word(entry.at + 12));
        let from = 4 * entry.write;
        let mut n = 0;
        for cell in cells.iter().take(most).take_while(|cell| cell.header_word() == word) {
            ring.write_cell(&mut self.ram, 4 * entry.write, &cell.payload);
            entry.write = ring.wrap(entry.write + CELL_WORDS);
            n += 1;
        }
        if n > 0 {
            // They lie in the ring as they came, in a row: one checksum over all is the fastest.
            for part in ring.parts(&self.ram, from, (n * PAYLOAD_OCTETS) as u32) {
                crc = (self.checksum)(crc, part);
            }
            self.ram.set_word(entry.at + 12, crc.register());
            entry.cells += n as u32;
            self.store(&entry);
            self.phy.count_received(n);
            self.received.cells = self.received.cells.wrapping_add(n as u64);
        }
        n
    }

    /// Free words of a ring from `position` on; one always stays free, so that full and empty differ.
    fn room(entry: &Entry, ring: Ring, position: u32) -> u32 {
        ring.distance(position + 1, entry.read)
    }

    fn receive_raw(&mut self, vci: u32, mut entry: Entry, ring: Ring, cell: &Cell) {
        let at = entry.descriptor;
        if Self::room(&entry, ring, at) < 2 + CELL_WORDS {
            return self.trash(Trash::Overflow, DropReason::NoBuffer);
        }
        ring.set_word(&mut self.ram, at + 1, cell.header_word());
        ring.write(&mut self.ram, 4 * (at + 2), &cell.payload);
        entry.descriptor = ring.wrap(at + 2 + CELL_WORDS);
        self.finish(vci, entry, ring, at, descriptor_flags(cell) | 1);
        self.received.cells = self.received.cells.wrapping_add(1);
        self.received.pdus = self.received.pdus.wrapping_add(1);
        self.received.octets = self.received.octets.wrapping_add(PAYLOAD_OCTETS as u64);
    }

    /// Keeps a management cell of an AAL5 circuit, between two PDUs, as a PDU of one cell with a wrong CRC. So the ring has
    /// words as its descriptors say, also for a host that expects PDUs alone: a raw cell's header word would be one more.
    fn receive_management(&mut self, vci: u32, mut entry: Entry, ring: Ring, cell: &Cell) {
        let at = entry.descriptor;
        if Self::room(&entry, ring, at) < 1 + CELL_WORDS {
            return self.trash(Trash::Overflow, DropReason::NoBuffer);
        }
        ring.write_cell(&mut self.ram, 4 * (at + 1), &cell.payload);
        entry.descriptor = ring.wrap(at + 1 + CELL_WORDS);
        self.finish(vci, entry, ring, at, descriptor_flags(cell) | r::RX_CRC_ERR | 1);
        self.received.cells = self.received.cells.wrapping_add(1);
        self.received.drop_one(DropReason::Crc);
    }

    fn receive_aal5(&mut self, vci: u32, mut entry: Entry, ring: Ring, cell: &Cell, end: bool) {
        if entry.state == state::IDLE {
            entry.cells = 0;
            entry.write = ring.wrap(entry.descriptor + 1);
            let room = Self::room(&entry, ring, entry.descriptor);
            entry.state = if room == 0 { state::LOST } else { state::BEGUN };
            self.ram.set_word(entry.at + 12, Crc32::new().register());
        }
        if entry.state == state::BEGUN {
            // The count has eleven bits: a longer PDU has lost its last cell.
            if Self::room(&entry, ring, entry.write) < CELL_WORDS || entry.cells == r::CELLS {
                entry.state = state::TRASHED;
            }
        }
        if entry.state == state::BEGUN {
            let crc = Crc32::from_register(self.ram.word(entry.at + 12));
            let crc = (self.checksum)(crc, &cell.payload);
            self.ram.set_word(entry.at + 12, crc.register());
            ring.write_cell(&mut self.ram, 4 * entry.write, &cell.payload);
            entry.write = ring.wrap(entry.write + CELL_WORDS);
            entry.cells += 1;
            self.received.cells = self.received.cells.wrapping_add(1);
        } else {
            self.trash(Trash::Overflow, DropReason::NoBuffer);
        }
        if !end {
            return self.store(&entry);
        }
        let (at, was) = (entry.descriptor, entry.state);
        entry.state = state::IDLE;
        match was {
            state::BEGUN => {
                let good = Crc32::from_register(self.ram.word(entry.at + 12)).is_good();
                match cell.payload[LENGTH_AT..] {
                    _ if !good => self.received.drop_one(DropReason::Crc),
                    // Its sender gave it up. The host sees the length too.
                    [0, 0, ..] => self.received.drop_one(DropReason::Aborted),
                    _ => {
                        let octets = u64::from(entry.cells) * PAYLOAD_OCTETS as u64;
                        self.received.octets = self.received.octets.wrapping_add(octets);
                        self.received.pdus = self.received.pdus.wrapping_add(1);
                    }
                }
                let flags = descriptor_flags(cell) | if good { 0 } else { r::RX_CRC_ERR };
                entry.descriptor = entry.write;
                let cells = core::mem::take(&mut entry.cells);
                self.finish(vci, entry, ring, at, flags | cells);
            }
            state::TRASHED => {
                entry.descriptor = ring.wrap(at + 1);
                entry.cells = 0;
                self.finish(vci, entry, ring, at, r::RX_T);
            }
            _ => self.store(&entry),
        }
    }

    /// Writes the descriptor at `at` and sees to it that the host learns of it.
    fn finish(&mut self, vci: u32, entry: Entry, ring: Ring, at: u32, descriptor: u32) {
        ring.set_word(&mut self.ram, at, r::RX_IDENT | descriptor);
        self.store(&entry);
        // The entry may have changed under a ring that a host put over the table: read it again.
        let word0 = self.ram.word(entry.at);
        if word0 & IN_SERVICE == 0 {
            self.ram.set_word(entry.at, word0 | IN_SERVICE);
            self.ram.set_word(r::SERVICE_LIST + 4 * self.service_write, vci);
            self.service_write = (self.service_write + 1) % r::CIRCUITS;
            self.status |= r::SERVICE;
        }
    }

    fn trash(&mut self, which: Trash, reason: DropReason) {
        self.received.drop_one(reason);
        let count = match which {
            Trash::Mode => &mut self.trashed_by_mode,
            Trash::Overflow => &mut self.trashed_by_overflow,
        };
        *count = count.saturating_add(1);
    }
}

/// What a descriptor says of a PDU's last cell.
fn descriptor_flags(cell: &Cell) -> u32 {
    let header = cell.header();
    let congestion = matches!(header.payload_type, PayloadType::User { congestion: true, .. });
    (u32::from(header.clp) * r::RX_CLP) | (u32::from(congestion) * r::RX_CE)
}
