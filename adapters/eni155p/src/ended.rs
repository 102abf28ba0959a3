//! PDUs that a reset, or a new place, takes from a channel: they are counted, and the receiver of one that has begun learns
//! that it ends.
//!
//! That takes a cell: the last one of the PDU, with length 0 (I.363.5) and the CRC of what was sent. It leaves ahead of all
//! others, and whether or not transmission runs; so no channel has two that wait.

use super::Eni155p;
use super::registers as r;
use super::transmit::{CELL_WORDS, Channel, DESCRIPTOR_WORDS, END_BIT};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CellHeader, DropReason};

impl Eni155p {
    /// A channel sends nothing more of what it has.
    pub(super) fn end_pdus(&mut self, number: usize) {
        let Some(ring) = self.channel_ring(number) else { return };
        let channel = &mut self.channels[number];
        let (mut at, mut lost) = (channel.read, 0);
        if let Some(pdu) = channel.pdu.take() {
            (at, lost) = (at + DESCRIPTOR_WORDS + CELL_WORDS * pdu.cells, 1);
            // A receiver that is this adapter itself is reset too, or told nothing else either.
            if pdu.aal5 && pdu.outside && self.aborts.len() < r::CHANNELS {
                let mut cell = Cell::new(CellHeader::from_word(pdu.header_word | END_BIT), [0; PAYLOAD_OCTETS]);
                let (data, checksum) = cell.payload.split_at_mut(PAYLOAD_OCTETS - 4);
                checksum.copy_from_slice(&(self.checksum)(pdu.crc, data).finish().to_be_bytes());
                self.aborts.push_back(cell);
                channel.count_cell();
            }
        }
        // Those that wait, as far as their descriptors lead.
        loop {
            let left = ring.distance(at, channel.start);
            let word = ring.word(&self.ram, at);
            let words = DESCRIPTOR_WORDS + CELL_WORDS * (word & r::CELLS);
            if word & 0xf << 28 != r::TX_IDENT || word & r::CELLS == 0 || words > left {
                break;
            }
            (at, lost) = (at + words, lost + 1);
        }
        self.sent.drop_n(DropReason::Closed, lost);
    }

    /// All channels are as after power is switched on.
    pub(super) fn end_channels(&mut self) {
        for number in 0..r::CHANNELS {
            self.end_pdus(number);
            self.channels[number] = Channel::new();
        }
        self.ready = 0;
    }

    /// Whether the end of a PDU that was taken from its channel has not left yet.
    pub fn ends_pdus(&self) -> bool {
        !self.aborts.is_empty()
    }
}
