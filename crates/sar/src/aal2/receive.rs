//! The receiving side (I.363.2 section 10.2): packets out of cells, and what to do when they do not fit together.
//!
//! After any fault in a cell's start field or in the overlap of a packet, the packet that was being put together is
//! given up and the cell is read from where its first packet starts. After a fault in a packet's header the rest of the
//! cell is given up, because where its next packet starts is not known.

use super::Packet;
use wire::aal2::{
    CID_PADDING, CPS_PAYLOAD_OCTETS, DEFAULT_PAYLOAD_OCTETS, HEADER_OCTETS, LONG_PAYLOAD_OCTETS, PacketHeader,
    StartField,
};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, Counters, DropReason, Error, PayloadType};

/// A set of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels([u64; 4]);

impl Channels {
    /// None.
    pub const NONE: Channels = Channels([0; 4]);
    /// All that a packet can have: 1 to 255.
    pub const ALL: Channels = Channels([!1, !0, !0, !0]);

    /// Adds a channel. Channel 0 is padding's and stays out.
    pub const fn insert(&mut self, cid: u8) {
        if cid != CID_PADDING {
            self.0[cid as usize / 64] |= 1 << (cid % 64);
        }
    }

    /// Takes a channel away.
    pub const fn remove(&mut self, cid: u8) {
        self.0[cid as usize / 64] &= !(1 << (cid % 64));
    }

    /// Whether a channel is in the set.
    pub const fn contains(&self, cid: u8) -> bool {
        self.0[cid as usize / 64] >> (cid % 64) & 1 != 0
    }
}

/// What a receiver accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Packets of up to 64 octets of payload rather than 45.
    pub long_packets: bool,
    /// Channels that somebody has opened; all by default.
    pub channels: Channels,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        ReceiverConfig { long_packets: false, channels: Channels::ALL }
    }
}

/// What can be wrong, in the order of the standard's list of errors for layer management.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A start field of wrong parity: the cell is dropped.
    StartParity,
    /// A start field with the sequence number of the cell before: the packet that overlaps is dropped.
    StartSequence,
    /// A start field whose offset is not where the overlapping packet ends: that one is dropped.
    Overlap,
    /// An offset beyond the cell: the cell is dropped.
    StartOffset,
    /// A packet header of wrong HEC: the rest of the cell is dropped.
    HeaderHec,
    /// A packet longer than the circuit allows: it is dropped.
    TooLong,
    /// A header across two cells of wrong HEC: it is dropped.
    SplitHeaderHec,
    /// A packet for a channel that nobody has opened: it is dropped.
    UnknownChannel,
}

impl Fault {
    /// All, in the order of their counters.
    pub const ALL: [Fault; 8] = [
        Fault::StartParity,
        Fault::StartSequence,
        Fault::Overlap,
        Fault::StartOffset,
        Fault::HeaderHec,
        Fault::TooLong,
        Fault::SplitHeaderHec,
        Fault::UnknownChannel,
    ];

    /// The reason under which it is counted beside those of other layers.
    pub const fn reason(self) -> DropReason {
        match self {
            Fault::StartParity | Fault::StartOffset => DropReason::Malformed,
            Fault::StartSequence => DropReason::Sequence,
            Fault::Overlap => DropReason::Length,
            Fault::HeaderHec | Fault::SplitHeaderHec => DropReason::Crc,
            Fault::TooLong => DropReason::Oversize,
            Fault::UnknownChannel => DropReason::NotOpen,
        }
    }
}

const LONGEST_PACKET: usize = HEADER_OCTETS + LONG_PAYLOAD_OCTETS as usize;

/// One circuit's receiver. It keeps one packet at most.
#[derive(Debug, Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    /// The sequence number of the next cell, if the last one could be read.
    next_sequence: Option<bool>,
    /// Where the next cell's first packet starts is known: at its front, or behind the packet in `partial`.
    in_step: bool,
    partial: [u8; LONGEST_PACKET],
    partial_octets: usize,
    counters: Counters,
    faults: [u64; Fault::ALL.len()],
}

impl Receiver {
    /// Before the first cell.
    pub fn new(config: ReceiverConfig) -> Self {
        Receiver {
            config,
            next_sequence: None,
            in_step: false,
            partial: [0; LONGEST_PACKET],
            partial_octets: 0,
            counters: Counters::default(),
            faults: [0; Fault::ALL.len()],
        }
    }

    /// The channels that are open, to be changed at any time.
    pub const fn channels(&mut self) -> &mut Channels {
        &mut self.config.channels
    }

    /// Takes cells of this circuit and hands `sink` each packet that is whole. Cells that are not user data are passed
    /// over.
    pub fn push(&mut self, cells: &[Cell], mut sink: impl FnMut(Packet<'_>)) {
        for cell in cells {
            if matches!(cell.header().payload_type, PayloadType::User { .. }) {
                self.counters.cells = self.counters.cells.wrapping_add(1);
                self.take(&cell.payload, &mut sink);
            }
        }
    }

    fn take(&mut self, payload: &[u8; PAYLOAD_OCTETS], sink: &mut impl FnMut(Packet<'_>)) {
        let [start, body @ ..] = payload;
        let start = match StartField::parse(*start) {
            Ok(start) => start,
            Err(error) => {
                let parity = matches!(error, Error::Field { field: "parity", .. });
                self.next_sequence = None;
                return self.fall_out(if parity { Fault::StartParity } else { Fault::StartOffset });
            }
        };
        if self.next_sequence.is_some_and(|next| next != start.sequence) {
            self.fall_out(Fault::StartSequence);
        }
        self.next_sequence = Some(!start.sequence);
        let offset = usize::from(start.offset);
        if self.in_step
            && let Err(fault) = self.continue_partial(body, offset, sink)
        {
            self.fall_out(fault);
        }
        // The packet overlaps the next cell too, or nothing is known of where one starts.
        if self.partial_octets == 0 && (self.in_step || offset < CPS_PAYLOAD_OCTETS) {
            self.take_packets(&body[offset..], sink);
        }
    }

    /// The octets before `offset` belong to the packet that the last cell began.
    fn continue_partial(
        &mut self,
        body: &[u8; CPS_PAYLOAD_OCTETS],
        offset: usize,
        sink: &mut impl FnMut(Packet<'_>),
    ) -> Result<(), Fault> {
        if self.partial_octets == 0 {
            return if offset == 0 { Ok(()) } else { Err(Fault::Overlap) };
        }
        let mut at = 0;
        if self.partial_octets < HEADER_OCTETS {
            at = HEADER_OCTETS - self.partial_octets;
            if offset < at {
                return Err(Fault::Overlap);
            }
            self.keep(&body[..at]);
        }
        let [a, b, c, ..] = self.partial;
        let header = PacketHeader::parse([a, b, c]).map_err(|_| Fault::SplitHeaderHec)?;
        let left = HEADER_OCTETS + usize::from(header.payload_octets) - self.partial_octets;
        if offset != (at + left).min(CPS_PAYLOAD_OCTETS) {
            return Err(Fault::Overlap);
        }
        self.keep(&body[at..offset]);
        if at + left <= CPS_PAYLOAD_OCTETS {
            let packet = self.partial;
            let octets = core::mem::take(&mut self.partial_octets);
            self.deliver(header, &packet[HEADER_OCTETS..octets], sink);
        }
        Ok(())
    }

    fn take_packets(&mut self, mut octets: &[u8], sink: &mut impl FnMut(Packet<'_>)) {
        self.in_step = true;
        while let [cid, ..] = octets
            && *cid != CID_PADDING
        {
            let Some((header, rest)) = octets.split_first_chunk() else {
                return self.keep(octets);
            };
            let Ok(header) = PacketHeader::parse(*header) else {
                return self.fall_out(Fault::HeaderHec);
            };
            let Some((payload, rest)) = rest.split_at_checked(header.payload_octets.into()) else {
                return self.keep(octets);
            };
            self.deliver(header, payload, sink);
            octets = rest;
        }
    }

    fn keep(&mut self, octets: &[u8]) {
        self.partial[self.partial_octets..][..octets.len()].copy_from_slice(octets);
        self.partial_octets += octets.len();
    }

    fn deliver(&mut self, header: PacketHeader, payload: &[u8], sink: &mut impl FnMut(Packet<'_>)) {
        let max = if self.config.long_packets { LONG_PAYLOAD_OCTETS } else { DEFAULT_PAYLOAD_OCTETS };
        if header.payload_octets > max {
            self.count(Fault::TooLong);
        } else if !self.config.channels.contains(header.cid) {
            self.count(Fault::UnknownChannel);
        } else {
            self.counters.pdus = self.counters.pdus.wrapping_add(1);
            self.counters.octets = self.counters.octets.wrapping_add(payload.len() as u64);
            sink(Packet { cid: header.cid, uui: header.uui, payload });
        }
    }

    fn fall_out(&mut self, fault: Fault) {
        self.count(fault);
        self.in_step = false;
        self.partial_octets = 0;
    }

    fn count(&mut self, fault: Fault) {
        let counter = &mut self.faults[fault as usize];
        *counter = counter.wrapping_add(1);
        self.counters.drop_one(fault.reason());
    }

    /// User cells, packets handed on and their octets; faults under their reasons.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How often something was wrong.
    pub const fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
