//! The sending side (I.363.2 section 10.1): packets into cells, and a timer for the cell that is not full.

use super::Packet;
use core::time::Duration;
use wire::aal2::{
    CID_PADDING, CPS_PAYLOAD_OCTETS, DEFAULT_PAYLOAD_OCTETS, HEADER_OCTETS, LONG_PAYLOAD_OCTETS, PacketHeader,
    StartField,
};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CellHeader, CircuitId, Counters, Time};

/// What a circuit's packets are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// How long a packet's octets may wait in a cell for others to fill it (Timer_CU, "combined use"). The standard
    /// leaves the value open; 1 ms by default.
    pub timer_cu: Duration,
    /// Packets of up to 64 octets of payload rather than 45.
    pub long_packets: bool,
    /// Cell loss priority of every cell.
    pub clp: bool,
}

impl Default for SenderConfig {
    fn default() -> Self {
        SenderConfig { timer_cu: Duration::from_millis(1), long_packets: false, clp: false }
    }
}

/// Why a packet was not taken; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// No octets, or more than the circuit's packets have.
    #[error("a packet of {got} octets: 1 to {max} are allowed")]
    Length {
        /// Octets of the packet.
        got: usize,
        /// Most octets allowed.
        max: u8,
    },
    /// Channel 0 means padding.
    #[error("channel 0: AAL2 takes that for padding")]
    Channel,
    /// The indication has five bits.
    #[error("user-to-user indication {0}: 31 is the largest")]
    Uui(u8),
    /// The packet fills more cells than there is room for.
    #[error("the packet completes {need} cells, and there is room for {room}")]
    NoRoom {
        /// Cells that it completes: two at most.
        need: usize,
        /// Cells given.
        room: usize,
    },
}

/// One circuit's sender.
#[derive(Debug, Clone)]
pub struct Sender {
    header: CellHeader,
    config: SenderConfig,
    /// The cell being filled; its first octet is written when it goes.
    cell: [u8; PAYLOAD_OCTETS],
    /// Octets behind the first that are filled.
    filled: usize,
    /// Where in them the first packet starts.
    first_start: Option<usize>,
    sequence: bool,
    deadline: Option<Time>,
    counters: Counters,
}

impl Sender {
    /// Before the first packet.
    pub fn new(circuit: CircuitId, config: SenderConfig) -> Self {
        Sender {
            header: CellHeader { circuit, clp: config.clp, ..CellHeader::default() },
            config,
            cell: [0; PAYLOAD_OCTETS],
            filled: 0,
            first_start: None,
            sequence: false,
            deadline: None,
            counters: Counters::default(),
        }
    }

    /// Takes a packet and writes the cells that it completes, two at most, to `out`; gives how many.
    ///
    /// # Errors
    /// A packet that AAL2 has not, or too little room.
    pub fn push(&mut self, packet: Packet<'_>, out: &mut [Cell], now: Time) -> Result<usize, PacketError> {
        let max = if self.config.long_packets { LONG_PAYLOAD_OCTETS } else { DEFAULT_PAYLOAD_OCTETS };
        let payload_octets = match u8::try_from(packet.payload.len()) {
            Ok(octets) if (1..=max).contains(&octets) => octets,
            _ => return Err(PacketError::Length { got: packet.payload.len(), max }),
        };
        if packet.cid == CID_PADDING {
            return Err(PacketError::Channel);
        }
        if packet.uui > 31 {
            return Err(PacketError::Uui(packet.uui));
        }
        let need = (self.filled + HEADER_OCTETS + packet.payload.len()) / CPS_PAYLOAD_OCTETS;
        if out.len() < need {
            return Err(PacketError::NoRoom { need, room: out.len() });
        }
        let header = PacketHeader { cid: packet.cid, payload_octets, uui: packet.uui };
        self.first_start.get_or_insert(self.filled);
        let mut cells = 0;
        for mut part in [&header.to_octets()[..], packet.payload] {
            while !part.is_empty() {
                if self.filled == 0 {
                    self.deadline = Some(now + self.config.timer_cu);
                }
                let (here, rest) = part.split_at(part.len().min(CPS_PAYLOAD_OCTETS - self.filled));
                self.cell[1 + self.filled..][..here.len()].copy_from_slice(here);
                self.filled += here.len();
                part = rest;
                if self.filled == CPS_PAYLOAD_OCTETS {
                    self.write(&mut out[cells]);
                    cells += 1;
                }
            }
        }
        self.counters.pdus = self.counters.pdus.wrapping_add(1);
        self.counters.octets = self.counters.octets.wrapping_add(packet.payload.len() as u64);
        Ok(cells)
    }

    /// When the half-filled cell must go.
    pub const fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Pads and writes the half-filled cell if its time has come; says whether it did.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Cell) -> bool {
        self.deadline.is_some_and(|due| due <= now) && self.flush(out)
    }

    /// Pads and writes the half-filled cell, if there is one, without waiting; says whether there was.
    pub fn flush(&mut self, out: &mut Cell) -> bool {
        let any = self.filled > 0;
        if any {
            self.write(out);
        }
        any
    }

    fn write(&mut self, out: &mut Cell) {
        // Without a start here, the offset is that of the padding, or 47 if there is none.
        let offset = self.first_start.unwrap_or(self.filled) as u8;
        self.cell[0] = StartField { offset, sequence: self.sequence }.to_octet();
        self.cell[1 + self.filled..].fill(0);
        out.clear(self.header);
        out.payload = self.cell;
        self.sequence = !self.sequence;
        (self.filled, self.first_start, self.deadline) = (0, None, None);
        self.counters.cells = self.counters.cells.wrapping_add(1);
    }

    /// Cells written, packets taken and their octets.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
