//! Sending: a PDU's descriptor into a channel's ring, entries of the DMA queue for where its octets lie, and what is told when they
//! have been copied to the adapter and when the last cell has left.

use super::{Aal, Bus, DriverError, Eni, GAP, Running, register};
use crate::registers::{self as r, dma_type};
use bus::memory::HostMemory;

/// A channel that has room for a PDU.
struct Room {
    vci: u32,
    number: usize,
    aal: Aal,
    cells: u32,
    rate: super::Rate,
}

impl Eni {
    /// Sends an SDU: 1 to 65535 octets of AAL5, or 52 of AAL0, by way of a buffer of the host's memory. Whoever finds no room
    /// waits for [`Eni::poll_writable`].
    ///
    /// # Errors
    /// A length that is none; no circuit; no room at present.
    pub fn send(
        &mut self,
        bus: &mut impl Bus,
        memory: &mut impl HostMemory,
        vci: u32,
        sdu: &[u8],
    ) -> Result<(), DriverError> {
        let sent = self.send_copy(bus, memory, vci, sdu);
        self.note_wait(sent, vci)
    }

    /// Sends an SDU of AAL5 from where it lies: pieces of the host's memory, each its bus address and octets. All begin at a multiple
    /// of four, and all but the last have whole words. They stay as they are until [`Eni::poll_copied`] gives `number`.
    ///
    /// # Errors
    /// As [`Eni::send`]; and pieces that the adapter cannot fetch: copy the SDU then.
    pub fn send_gather(
        &mut self,
        bus: &mut impl Bus,
        vci: u32,
        pieces: &[(u32, u32)],
        number: u64,
    ) -> Result<(), DriverError> {
        let octets = pieces.iter().map(|(_, octets)| *octets as usize).sum::<usize>();
        let last = pieces.len().saturating_sub(1);
        let words = pieces.iter().enumerate().all(|(n, (at, octets))| at % 4 == 0 && (n == last || octets % 4 == 0));
        if !words {
            return Err(DriverError::Misaligned);
        }
        let sent = self.room(bus, vci, octets, pieces.len()).and_then(|room| match room.aal {
            Aal::Aal0 => Err(DriverError::Circuit(vci)),
            Aal::Aal5 => {
                self.enqueue(bus, &room, [0; 4], pieces, Running { number: Some(number), ..Running::default() });
                Ok(())
            }
        });
        self.note_wait(sent, vci)
    }

    /// An SDU of [`Eni::send_gather`] that is in the adapter: its memory is its owner's again.
    pub fn poll_copied(&mut self) -> Option<u64> {
        self.copied.pop_front()
    }

    fn note_wait(&mut self, sent: Result<(), DriverError>, vci: u32) -> Result<(), DriverError> {
        if sent == Err(DriverError::Busy) && !self.waiting.contains(&vci) {
            self.waiting.push(vci);
        }
        sent
    }

    fn send_copy(
        &mut self,
        bus: &mut impl Bus,
        memory: &mut impl HostMemory,
        vci: u32,
        sdu: &[u8],
    ) -> Result<(), DriverError> {
        let room = self.room(bus, vci, sdu.len(), 1)?;
        let Some(buffer) = self.send_buffers.pop() else { return Err(DriverError::Busy) };
        let (header, data) = match room.aal {
            Aal::Aal0 => sdu.split_at(4),
            Aal::Aal5 => (&[0; 4][..], sdu),
        };
        if memory.copy_to(buffer, data).is_err() {
            self.send_buffers.push(buffer);
            return Err(DriverError::Busy);
        }
        let header = [header[0], header[1], header[2], header[3]];
        let running = Running { buffer, ..Running::default() };
        self.enqueue(bus, &room, header, &[(buffer as u32, data.len() as u32)], running);
        Ok(())
    }

    /// A channel with room for an SDU in so many pieces.
    fn room(&self, bus: &mut impl Bus, vci: u32, octets: usize, pieces: usize) -> Result<Room, DriverError> {
        let circuit = self.circuits.get(&vci).ok_or(DriverError::Circuit(vci))?;
        let (number, rate, aal) = (circuit.channel, circuit.rate, circuit.aal);
        let channel = self.channels[number];
        let fits = match aal {
            Aal::Aal0 => octets == 52,
            Aal::Aal5 => (1..=65535).contains(&octets),
        };
        if !fits {
            return Err(DriverError::Length(octets));
        }
        let cells = if aal == Aal::Aal5 { (octets as u32 + 8).div_ceil(48) } else { 1 };
        let base = r::REGISTERS_AT + 4 * (r::TX_PLACE + 4 * number as u32);
        let read = bus.read(base + 4 * r::TX_RDPTR);
        let free = read.wrapping_sub(channel.position + 1) & (channel.words - 1);
        let entries = r::DMA_ENTRIES - 1 - (self.tx_write.wrapping_sub(self.tx_read(bus)) & (r::DMA_ENTRIES - 1));
        // Two jumps; of each piece bursts, words and octets.
        if free < 2 + 12 * cells + GAP || entries < 2 + 3 * pieces as u32 {
            return Err(DriverError::Busy);
        }
        Ok(Room { vci, number, aal, cells, rate })
    }

    fn enqueue(&mut self, bus: &mut impl Bus, room: &Room, header: [u8; 4], pieces: &[(u32, u32)], running: Running) {
        let Room { vci, number, aal, cells, rate } = *room;
        let (channel, octets) = (self.channels[number], pieces.iter().map(|(_, octets)| *octets).sum::<u32>());
        let size = 2 + 12 * cells;
        let ring = |word: u32| r::RAM_AT + channel.at + 4 * (word & (channel.words - 1));
        let position = channel.position;
        let aal5 = if aal == Aal::Aal5 { r::TX_AAL5 } else { 0 };
        let low_bits = u32::from(header[3]) & 0xf;
        bus.write(ring(position), r::TX_IDENT | aal5 | rate.prescaler << 25 | rate.rate << 19 | cells);
        bus.write(ring(position + 1), vci << 4 | low_bits);
        if aal == Aal::Aal5 {
            // The ring has gone round: what another circuit sent from here must not leave as padding. The last word of the
            // SDU is cleared too, before its octets come by DMA.
            for word in 2 + octets / 4..size - 2 {
                bus.write(ring(position + word), 0);
            }
            bus.write(ring(position + size - 2), octets);
        }
        let of = |kind: u32, count: u32| count << 16 | (number as u32) << 6 | kind;
        let end = (position + size) & (channel.words - 1);
        self.entry_tx(bus, of(dma_type::JUMP, (position + 2) & (channel.words - 1)), 0);
        for (mut at, mut left) in pieces.iter().copied() {
            for (kind, unit) in [(5, 32), (dma_type::WORD, 4), (dma_type::BYTE, 1)] {
                if left >= unit {
                    self.entry_tx(bus, of(kind, left / unit), at);
                    (at, left) = (at + left / unit * unit, left % unit);
                }
            }
        }
        self.entry_tx(bus, of(dma_type::JUMP, end) | r::DMA_END, 0);
        register(bus, r::DMA_WR_TX, self.tx_write);
        let octets = octets as usize;
        self.sending.push_back(Running { whose: number as u32, position, entry: self.tx_write, octets, ..running });
        self.channels[number].position = end;
        self.leaving.push_back((number as u32, end));
    }

    fn tx_read(&self, bus: &mut impl Bus) -> u32 {
        bus.read(r::REGISTERS_AT + 4 * r::DMA_RD_TX)
    }

    fn entry_tx(&mut self, bus: &mut impl Bus, word0: u32, address: u32) {
        let at = r::RAM_AT + r::TX_QUEUE + 8 * self.tx_write;
        bus.write(at, word0);
        bus.write(at + 4, address);
        self.tx_write = (self.tx_write + 1) % r::DMA_ENTRIES;
    }

    pub(super) fn finish_sending(&mut self, bus: &mut impl Bus) {
        while let Some(pdu) = self.sending.front().copied() {
            let start = bus.read(r::REGISTERS_AT + 4 * (r::TX_PLACE + 4 * pdu.whose + r::TX_DESCRSTART));
            if start == pdu.position {
                break;
            }
            self.sending.pop_front();
            match pdu.number {
                Some(number) => self.copied.push_back(number),
                None => self.send_buffers.push(pdu.buffer),
            }
            self.statistics.copied += 1;
        }
    }

    /// PDUs whose last cell has left. Each channel sends in order.
    pub(super) fn finish_leaving(&mut self, bus: &mut impl Bus) {
        for number in 0..r::CHANNELS {
            let channel = self.channels[number];
            if !self.leaving.iter().any(|(whose, _)| *whose == number as u32) {
                continue;
            }
            let read = bus.read(r::REGISTERS_AT + 4 * (r::TX_PLACE + 4 * number as u32 + r::TX_RDPTR));
            let left = |word: u32| channel.position.wrapping_sub(word) & channel.words.wrapping_sub(1);
            let before = self.leaving.len();
            self.leaving.retain(|(whose, end)| *whose != number as u32 || left(*end) < left(read));
            self.statistics.sent += (before - self.leaving.len()) as u64;
        }
    }

    /// A circuit whose writer found no room before, and may find some now.
    pub fn poll_writable(&mut self) -> Option<u32> {
        self.writable.pop()
    }
}
