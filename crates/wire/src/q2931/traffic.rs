//! Traffic descriptors (Q.2931 section 4.5.6, Q.2961, UNI 4.0 section 9): what the circuit may carry, in cells a
//! second.

use super::reader::{Reader, Writer};
use crate::Error;

/// The parameters of one direction. Cell rates count all cells, OAM cells too. Burst sizes are in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Direction {
    /// Peak cell rate of cells with CLP 0.
    pub pcr_clp0: Option<u32>,
    /// Peak cell rate of all cells.
    pub pcr: Option<u32>,
    /// Sustainable cell rate, CLP 0.
    pub scr_clp0: Option<u32>,
    /// Sustainable cell rate of all cells.
    pub scr: Option<u32>,
    /// Maximum burst size, CLP 0.
    pub mbs_clp0: Option<u32>,
    /// Maximum burst size of all cells.
    pub mbs: Option<u32>,
    /// Minimum cell rate (ABR).
    pub mcr: Option<u32>,
    /// Whether cells beyond the contract are tagged, not dropped.
    pub tagging: bool,
    /// Whether the network may drop whole frames (UNI 4.0).
    pub frame_discard: bool,
}

/// An ATM traffic descriptor, or one of its alternatives (minimum acceptable, alternative).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Traffic {
    /// Towards the called party.
    pub forward: Direction,
    /// Towards the calling party.
    pub backward: Direction,
    /// Best effort: the peak cell rates are no more than a hint.
    pub best_effort: bool,
}

impl Traffic {
    /// Best effort at up to `forward` and `backward` cells a second.
    pub fn best_effort(forward: u32, backward: u32) -> Self {
        let pcr = |rate| Direction { pcr: Some(rate), ..Direction::default() };
        Traffic { forward: pcr(forward), backward: pcr(backward), best_effort: true }
    }

    pub(super) fn parse(what: &'static str, octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(what, octets);
        let mut t = Traffic::default();
        let mut options = None;
        while !r.is_empty() {
            let id = r.u8()?;
            match id {
                0xbe if t.best_effort => return Err(r.bad("subfield", id)),
                0xbe => t.best_effort = true,
                0xbf => {
                    let value = r.u8()?;
                    r.once(&mut options, "traffic management options", value)?;
                }
                _ => {
                    // The even identifier of a pair is forward, the odd one backward.
                    let side = if id & 1 == 0 { &mut t.forward } else { &mut t.backward };
                    let slot = match id & !1 {
                        0x82 => &mut side.pcr_clp0,
                        0x84 => &mut side.pcr,
                        0x88 => &mut side.scr_clp0,
                        0x90 => &mut side.scr,
                        0x92 => &mut side.mcr,
                        0xa0 => &mut side.mbs_clp0,
                        0xb0 => &mut side.mbs,
                        _ => return Err(r.bad("subfield", id)),
                    };
                    let value = r.u24()?;
                    r.once(slot, "subfield", value)?;
                }
            }
        }
        let options = options.unwrap_or(0);
        t.forward.tagging = options & 1 != 0;
        t.backward.tagging = options & 2 != 0;
        t.forward.frame_discard = options & 0x80 != 0;
        t.backward.frame_discard = options & 0x40 != 0;
        Ok(t)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        let (f, b) = (&self.forward, &self.backward);
        for (id, forward, backward) in [
            (0x82, f.pcr_clp0, b.pcr_clp0),
            (0x84, f.pcr, b.pcr),
            (0x88, f.scr_clp0, b.scr_clp0),
            (0x90, f.scr, b.scr),
            (0x92, f.mcr, b.mcr),
            (0xa0, f.mbs_clp0, b.mbs_clp0),
            (0xb0, f.mbs, b.mbs),
        ] {
            for (id, value) in [(id, forward), (id | 1, backward)] {
                if let Some(value) = value {
                    w.u8(id);
                    w.u24(value);
                }
            }
        }
        if self.best_effort {
            w.u8(0xbe);
        }
        let options = u8::from(f.tagging)
            | u8::from(b.tagging) << 1
            | u8::from(b.frame_discard) << 6
            | u8::from(f.frame_discard) << 7;
        if options != 0 {
            w.put(&[0xbf, options]);
        }
    }
}

/// ABR setup parameters (UNI 4.0 section 10): initial values of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AbrSetup {
    /// Initial cell rate, forward and backward.
    pub icr: [Option<u32>; 2],
    /// Transient buffer exposure, forward and backward, in cells.
    pub tbe: [Option<u32>; 2],
    /// Fixed round-trip time so far, in microseconds.
    pub frtt: Option<u32>,
    /// Rate increase factor as an exponent, forward and backward.
    pub rif: [Option<u8>; 2],
    /// Rate decrease factor as an exponent, forward and backward.
    pub rdf: [Option<u8>; 2],
}

impl AbrSetup {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("ABR setup parameters", octets);
        let mut a = AbrSetup::default();
        while !r.is_empty() {
            let id = r.u8()?;
            let side = usize::from(id & 1);
            match id {
                0xc2 | 0xc3 => {
                    let value = r.u24()?;
                    r.once(&mut a.icr[side], "ICR", value)?;
                }
                0xc4 | 0xc5 => {
                    let value = r.u24()?;
                    r.once(&mut a.tbe[side], "TBE", value)?;
                }
                0xc6 => {
                    let value = r.u24()?;
                    r.once(&mut a.frtt, "FRTT", value)?;
                }
                0xc8 | 0xc9 => {
                    let value = r.u8()?;
                    r.once(&mut a.rif[side], "RIF", value)?;
                }
                0xca | 0xcb => {
                    let value = r.u8()?;
                    r.once(&mut a.rdf[side], "RDF", value)?;
                }
                other => return Err(r.bad("subfield", other)),
            }
        }
        Ok(a)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        let long = |w: &mut Writer<'_>, id: u8, value: Option<u32>| {
            if let Some(value) = value {
                w.u8(id);
                w.u24(value);
            }
        };
        long(w, 0xc2, self.icr[0]);
        long(w, 0xc3, self.icr[1]);
        long(w, 0xc4, self.tbe[0]);
        long(w, 0xc5, self.tbe[1]);
        long(w, 0xc6, self.frtt);
        for (id, value) in [(0xc8, self.rif[0]), (0xc9, self.rif[1]), (0xca, self.rdf[0]), (0xcb, self.rdf[1])] {
            if let Some(value) = value {
                w.put(&[id, value]);
            }
        }
    }
}

/// ABR additional parameters: a record of Nrm, Trm, CDF and ADTF for each direction, as the standard packs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AbrAdditional {
    /// Forward.
    pub forward: Option<u32>,
    /// Backward.
    pub backward: Option<u32>,
}

impl AbrAdditional {
    /// The record of the four parameters; each `None` keeps the default. Nrm, Trm and CDF have three bits, ADTF ten.
    pub fn record(nrm: Option<u8>, trm: Option<u8>, cdf: Option<u8>, adtf: Option<u16>) -> u32 {
        let field = |present: u32, shift: u32, mask: u32, value: Option<u32>| {
            value.map_or(0, |v| 1 << present | (v & mask) << shift)
        };
        field(31, 25, 7, nrm.map(u32::from))
            | field(30, 22, 7, trm.map(u32::from))
            | field(29, 19, 7, cdf.map(u32::from))
            | field(28, 9, 0x3ff, adtf.map(u32::from))
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("ABR additional parameters", octets);
        let mut a = AbrAdditional::default();
        while !r.is_empty() {
            let id = r.u8()?;
            let slot = match id {
                0xc2 => &mut a.forward,
                0xc3 => &mut a.backward,
                other => return Err(r.bad("subfield", other)),
            };
            let value = r.u32()?;
            r.once(slot, "record", value)?;
        }
        Ok(a)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        for (id, value) in [(0xc2, self.forward), (0xc3, self.backward)] {
            if let Some(value) = value {
                w.u8(id);
                w.u32(value);
            }
        }
    }
}
