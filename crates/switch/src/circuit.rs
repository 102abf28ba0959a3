//! A circuit's line: all that a cell of it needs, in the 64 octets of one cache line, for one direction.

use crate::police::Ticks;
use wire::{DropReason, Label};

/// No cell, no side entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Bits of [`Circuit::flags`].
pub(crate) mod flag {
    /// The line is in use.
    pub(crate) const LIVE: u8 = 1;
    /// It switches a path: the VCI stays.
    pub(crate) const PATH: u8 = 2;
    /// Its number is in a queue of its port's scheduler.
    pub(crate) const LISTED: u8 = 4;
    /// Cells are those of AAL5 PDUs, dropped whole.
    pub(crate) const PDUS: u8 = 8;
    /// It is policed.
    pub(crate) const POLICED: u8 = 16;
    /// It has credits; `side` is its entry of the credit table.
    pub(crate) const CREDIT: u8 = 32;
    /// It is the root of a point-to-multipoint circuit; `side` is its list of leaves.
    pub(crate) const ROOT: u8 = 64;
    /// It has a contract or a policy of discard; `side`, if any, is its entry of the table of contracts.
    pub(crate) const MANAGED: u8 = 128;
}

/// What becomes of the PDU whose cells are coming in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Frame {
    /// None is; the next cell begins one.
    #[default]
    Between,
    /// It is accepted.
    Accepted,
    /// All of it is dropped (EPD).
    Dropped,
    /// It lost a cell: the rest is dropped but for the last cell, which tells its end (PPD).
    Cut,
    /// It began before this leaf was added and is not for it.
    NotYet,
}

/// See the module's head.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Circuit {
    /// Header word of outgoing cells, without what is kept of the incoming one.
    pub(crate) label: u32,
    /// Port that it leaves by.
    pub(crate) port: u16,
    /// Management cells in its queue; none are counted for a circuit with credits.
    pub(crate) management: u8,
    pub(crate) flags: u8,
    /// Theoretical arrival times of peak and sustainable rate; of a circuit that is not policed, what EPD and PPD
    /// dropped.
    pub(crate) times: [Ticks; 2],
    /// First and last queued cell. Of a line that is not in use, `head` is the next such line.
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) queued: u16,
    pub(crate) profile: u16,
    pub(crate) frame: Frame,
    /// The last cell that left was within a PDU. Of a root, which sends nothing itself: two of its leaves share a port.
    pub(crate) sent_part: bool,
    /// When the port last held room for the PDU that is coming in.
    pub(crate) epoch: u16,
    pub(crate) side: u32,
    /// Cells beyond the contract, tagged or dropped.
    pub(crate) excess: u32,
    pub(crate) received: u64,
    pub(crate) dropped: u64,
}

const _: () = assert!(size_of::<Circuit>() == 64 && align_of::<Circuit>() == 64);

impl Default for Circuit {
    fn default() -> Self {
        Circuit {
            label: 0,
            port: 0,
            management: 0,
            flags: 0,
            times: [0; 2],
            head: NONE,
            tail: NONE,
            queued: 0,
            profile: 0,
            frame: Frame::Between,
            sent_part: false,
            epoch: 0,
            side: NONE,
            excess: 0,
            received: 0,
            dropped: 0,
        }
    }
}

impl Circuit {
    #[inline(always)]
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is in use and sends under one label.
    #[inline(always)]
    pub(crate) const fn has_one_branch(&self) -> bool {
        self.flags & (flag::LIVE | flag::ROOT) == flag::LIVE
    }

    /// The header word that a cell leaves with.
    #[inline(always)]
    pub(crate) const fn translate(&self, word: u32) -> u32 {
        self.label | word & self.kept_bits()
    }

    /// The bits of a header that a cell keeps.
    #[inline(always)]
    pub(crate) const fn kept_bits(&self) -> u32 {
        // Without a branch: VP and VC circuits mix in a window.
        let path = (self.flags & flag::PATH) as u32 / flag::PATH as u32;
        0xf | 0x000f_fff0 & path.wrapping_neg()
    }

    /// Whether a header is of a management cell: OAM of a channel (payload types 4 and 5), of a path (VCIs 3 and 4).
    #[inline(always)]
    pub(crate) const fn is_management(&self, word: u32) -> bool {
        word & 0b1100 == 0b1000 || self.is(flag::PATH) && is_special(word) && word & 8 == 0
    }

    /// Cells queued, without those of management.
    #[inline]
    pub(crate) const fn data_queued(&self) -> u16 {
        self.queued - self.management as u16
    }

    /// Whether so many more data cells are within the circuit's bound.
    #[inline]
    pub(crate) const fn has_room(&self, cells: u32, bound: u16) -> bool {
        self.data_queued() as u32 + cells <= bound as u32 && self.queued as u32 + cells <= u16::MAX as u32
    }

    /// Counts what EPD and PPD drop of a circuit without a contract, where others have a theoretical arrival time.
    pub(crate) fn count_early(&mut self, reason: DropReason) {
        if matches!(reason, DropReason::EarlyDiscard | DropReason::PartialDiscard) && !self.is(flag::POLICED) {
            self.times[0] = self.times[0].wrapping_add(1);
        }
    }

    /// The label that it leaves under.
    pub(crate) fn out_label(&self) -> Label {
        let circuit = wire::CircuitId::from_key(self.label >> 4);
        if self.is(flag::PATH) { Label::Vp(circuit.vpi) } else { Label::Vc(circuit) }
    }
}

/// The header word of a label, with zero where a cell's own bits are kept.
pub(crate) fn label_word(label: Label) -> u32 {
    match label {
        Label::Vc(circuit) => circuit.key() << 4,
        Label::Vp(vpi) => u32::from(vpi.get()) << 20,
    }
}

/// Whether a header is of the last cell of an AAL5 PDU.
#[inline(always)]
pub(crate) const fn ends_pdu(word: u32) -> bool {
    word & 0b1010 == 0b0010
}

/// Whether a header is of a cell that is no user data of its circuit: payload type 4 to 7, or an F4 flow's VCI.
#[inline(always)]
pub(crate) const fn is_special(word: u32) -> bool {
    let vci = (word >> 4) & 0xffff;
    // VCIs 3 and 4: F4 flows.
    word & 0b1000 != 0 || vci.wrapping_sub(3) < 2
}
