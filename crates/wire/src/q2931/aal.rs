//! AAL parameters (Q.2931 section 4.5.5): the adaptation layer that the ends will use. The network carries them.

use super::reader::{Reader, Writer};
use crate::Error;

/// AAL1. `None`: not said. Names and codes are the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Aal1 {
    /// Subtype: 0 null, 1 voice, 2 circuit transport, 4 audio, 5 video.
    pub subtype: Option<u8>,
    /// CBR rate: 01 64 kbit/s, 04 DS1, 10 E1, 12 E3, 40 n x 64 kbit/s, 41 n x 8 kbit/s ...
    pub rate: Option<u8>,
    /// The n of rates 40 and 41.
    pub multiplier: Option<u16>,
    /// Recovery of the source clock: 0 null, 1 SRTS, 2 adaptive.
    pub clock: Option<u8>,
    /// Error correction: 0 null, 1 for loss, 2 for delay.
    pub correction: Option<u8>,
    /// Block size of structured data transfer.
    pub block: Option<u16>,
    /// Octets filled in a partially filled cell.
    pub fill: Option<u8>,
}

/// AAL3/4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Aal34 {
    /// Largest CPCS-SDU, forward.
    pub forward_sdu: Option<u16>,
    /// Largest CPCS-SDU, backward.
    pub backward_sdu: Option<u16>,
    /// Lowest and highest MID.
    pub mids: Option<(u16, u16)>,
    /// Service-specific part: 0 null.
    pub sscs: Option<u8>,
}

/// AAL5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Aal5 {
    /// Largest CPCS-SDU, forward.
    pub forward_sdu: Option<u16>,
    /// Largest CPCS-SDU, backward.
    pub backward_sdu: Option<u16>,
    /// Mode (UNI 3.0 only): 1 message, 2 streaming.
    pub mode: Option<u8>,
    /// Service-specific part: 0 null, 1 SSCOP assured, 2 SSCOP unassured, 4 frame relay.
    pub sscs: Option<u8>,
}

/// AAL parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AalParameters {
    /// AAL for voice.
    Voice,
    /// AAL1.
    Aal1(Aal1),
    /// AAL2, which has no parameters here.
    Aal2,
    /// AAL3/4.
    Aal34(Aal34),
    /// AAL5.
    Aal5(Aal5),
    /// The user's own, four octets.
    User([u8; 4]),
}

const WHAT: &str = "AAL parameters";

impl AalParameters {
    /// AAL5 with null SSCS and the same largest SDU both ways.
    pub const fn aal5(sdu: u16) -> Self {
        AalParameters::Aal5(Aal5 { forward_sdu: Some(sdu), backward_sdu: Some(sdu), mode: None, sscs: Some(0) })
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(WHAT, octets);
        let aal = match r.u8()? {
            0 => AalParameters::Voice,
            1 => AalParameters::Aal1(aal1(&mut r)?),
            2 => AalParameters::Aal2,
            3 => AalParameters::Aal34(aal34(&mut r)?),
            5 => AalParameters::Aal5(aal5(&mut r)?),
            0x10 => {
                // One to four octets; what is absent counts as zero.
                let given = r.rest();
                if given.len() > 4 {
                    return Err(r.bad("length", octets.len() as u64));
                }
                AalParameters::User(core::array::from_fn(|i| given.get(i).copied().unwrap_or(0)))
            }
            other => return Err(r.bad("AAL type", other)),
        };
        r.end()?;
        Ok(aal)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        let byte = |w: &mut Writer<'_>, id: u8, value: Option<u8>| value.map(|v| w.put(&[id, v]));
        let word = |w: &mut Writer<'_>, id: u8, value: Option<u16>| {
            value.map(|v| {
                w.u8(id);
                w.u16(v);
            })
        };
        match self {
            AalParameters::Voice => w.u8(0),
            AalParameters::Aal2 => w.u8(2),
            AalParameters::Aal1(a) => {
                w.u8(1);
                byte(w, 0x85, a.subtype);
                byte(w, 0x86, a.rate);
                word(w, 0x87, a.multiplier);
                byte(w, 0x88, a.clock);
                byte(w, 0x89, a.correction);
                word(w, 0x8a, a.block);
                byte(w, 0x8b, a.fill);
            }
            AalParameters::Aal34(a) => {
                w.u8(3);
                word(w, 0x8c, a.forward_sdu);
                word(w, 0x81, a.backward_sdu);
                if let Some((low, high)) = a.mids {
                    w.u8(0x82);
                    w.u16(low);
                    w.u16(high);
                }
                byte(w, 0x84, a.sscs);
            }
            AalParameters::Aal5(a) => {
                w.u8(5);
                word(w, 0x8c, a.forward_sdu);
                word(w, 0x81, a.backward_sdu);
                byte(w, 0x83, a.mode);
                byte(w, 0x84, a.sscs);
            }
            AalParameters::User(octets) => {
                w.u8(0x10);
                w.put(octets);
            }
        }
    }
}

fn aal1(r: &mut Reader<'_>) -> Result<Aal1, Error> {
    let mut a = Aal1::default();
    while !r.is_empty() {
        match r.u8()? {
            0x85 => set8(r, &mut a.subtype, "subtype")?,
            0x86 => set8(r, &mut a.rate, "CBR rate")?,
            0x87 => set16(r, &mut a.multiplier, "multiplier")?,
            0x88 => set8(r, &mut a.clock, "source clock recovery")?,
            0x89 => set8(r, &mut a.correction, "error correction")?,
            0x8a => set16(r, &mut a.block, "SDT block size")?,
            0x8b => set8(r, &mut a.fill, "partially filled cells")?,
            other => return Err(r.bad("subfield", other)),
        }
    }
    Ok(a)
}

fn aal34(r: &mut Reader<'_>) -> Result<Aal34, Error> {
    let mut a = Aal34::default();
    while !r.is_empty() {
        match r.u8()? {
            0x8c => set16(r, &mut a.forward_sdu, "forward maximum SDU")?,
            0x81 => set16(r, &mut a.backward_sdu, "backward maximum SDU")?,
            0x82 => {
                let mids = (r.u16()?, r.u16()?);
                r.once(&mut a.mids, "MID range", mids)?;
            }
            0x84 => set8(r, &mut a.sscs, "SSCS type")?,
            other => return Err(r.bad("subfield", other)),
        }
    }
    Ok(a)
}

fn aal5(r: &mut Reader<'_>) -> Result<Aal5, Error> {
    let mut a = Aal5::default();
    while !r.is_empty() {
        match r.u8()? {
            0x8c => set16(r, &mut a.forward_sdu, "forward maximum SDU")?,
            0x81 => set16(r, &mut a.backward_sdu, "backward maximum SDU")?,
            0x83 => set8(r, &mut a.mode, "mode")?,
            0x84 => set8(r, &mut a.sscs, "SSCS type")?,
            other => return Err(r.bad("subfield", other)),
        }
    }
    Ok(a)
}

fn set8(r: &mut Reader<'_>, slot: &mut Option<u8>, name: &'static str) -> Result<(), Error> {
    let value = r.u8()?;
    r.once(slot, name, value)
}

fn set16(r: &mut Reader<'_>, slot: &mut Option<u16>, name: &'static str) -> Result<(), Error> {
    let value = r.u16()?;
    r.once(slot, name, value)
}
