//! Performance monitoring cells (I.610 section 10.3): what a source sent, and what of it a sink received.
//!
//! | octets behind the function | forward monitoring | backward report |
//! |---|---|---|
//! | 0 | MCSN: number of the monitoring cell, modulo 256 | of the report |
//! | 1..3 | TUC0+1: user cells sent, modulo 65536 | as it came |
//! | 3..5 | BEDC0+1: BIP-16 over the payloads of the block's user cells | as it came |
//! | 5..7 | TUC0: user cells of CLP 0 sent, modulo 65536 | as it came |
//! | 7..11 | TSTP: time stamp, all ones if unused | as it came |
//! | 11..40 | unused | unused |
//! | 40..42 | unused | TRCC0: user cells of CLP 0 received, modulo 65536 |
//! | 42 | unused | BLER0+1: errored parities of the block, FF if cells were lost or inserted |
//! | 43..45 | unused | TRCC0+1: user cells received, modulo 65536 |

use super::Body;
use crate::cell::PAYLOAD_OCTETS;

/// Forward monitoring: what was sent up to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Monitoring {
    /// MCSN.
    pub sequence: u8,
    /// TUC0+1: user cells since monitoring began.
    pub cells: u16,
    /// BEDC0+1: their even parities since the last monitoring cell.
    pub parities: u16,
    /// TUC0: those of CLP 0.
    pub cells_clp0: u16,
    /// TSTP.
    pub stamp: Option<u32>,
}

impl Monitoring {
    pub(super) fn parse(body: &Body) -> Self {
        let half = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let stamp = u32::from_be_bytes([body[7], body[8], body[9], body[10]]);
        Monitoring {
            sequence: body[0],
            cells: half(1),
            parities: half(3),
            cells_clp0: half(5),
            stamp: Some(stamp).filter(|stamp| *stamp != u32::MAX),
        }
    }

    fn write(self, body: &mut Body) {
        body[0] = self.sequence;
        body[1..3].copy_from_slice(&self.cells.to_be_bytes());
        body[3..5].copy_from_slice(&self.parities.to_be_bytes());
        body[5..7].copy_from_slice(&self.cells_clp0.to_be_bytes());
        body[7..11].copy_from_slice(&self.stamp.unwrap_or(u32::MAX).to_be_bytes());
    }

    pub(super) fn emit(self, body: &mut Body) -> u8 {
        self.write(body);
        0x20
    }
}

/// Backward report: what of a block arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Report {
    /// What the monitoring cell said; its sequence number is the report's own.
    pub sent: Monitoring,
    /// TRCC0+1: user cells received since monitoring began.
    pub cells: u16,
    /// TRCC0: those of CLP 0.
    pub cells_clp0: u16,
    /// BLER0+1: parities of the block that differ; `None` where cells were lost or inserted, so that they mean nothing.
    pub errored_parities: Option<u8>,
}

impl Report {
    pub(super) fn parse(body: &Body) -> Self {
        Report {
            sent: Monitoring::parse(body),
            cells_clp0: u16::from_be_bytes([body[40], body[41]]),
            errored_parities: Some(body[42]).filter(|parities| *parities != u8::MAX),
            cells: u16::from_be_bytes([body[43], body[44]]),
        }
    }

    pub(super) fn emit(self, body: &mut Body) -> u8 {
        self.sent.write(body);
        body[40..42].copy_from_slice(&self.cells_clp0.to_be_bytes());
        body[42] = self.errored_parities.unwrap_or(u8::MAX);
        body[43..45].copy_from_slice(&self.cells.to_be_bytes());
        0x21
    }
}

/// The even parities (BIP-16) of `before` with one more payload: bit n is that of all n-th bits of its half-words.
pub fn bip16(before: u16, payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    let (words, _) = payload.as_chunks::<8>();
    let folded = words.iter().fold(0, |sum, word| sum ^ u64::from_be_bytes(*word));
    let folded = folded ^ folded >> 32;
    before ^ (folded ^ folded >> 16) as u16
}
