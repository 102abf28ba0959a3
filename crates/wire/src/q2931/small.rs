//! Elements of a few octets: bearer capability, connection identifier, quality of service, transit delay, references
//! and states (Q.2931 sections 4.5.7 to 4.5.25, Q.2971 section 8.2, UNI 4.0 section 9).

use super::reader::{Reader, Writer};
use crate::Error;

/// Class of a bearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BearerClass {
    /// BCOB-A: constant rate with end-to-end timing.
    A,
    /// BCOB-C: variable rate without it.
    C,
    /// BCOB-X: cells, whatever they carry.
    X,
    /// Transparent virtual path.
    VirtualPath,
}

/// Broadband bearer capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bearer {
    /// Class.
    pub class: BearerClass,
    /// ATM transfer capability of seven bits (05 CBR, 09 real-time VBR, 0A VBR, 0C ABR); in UNI 3.1 traffic type and
    /// timing.
    pub transfer: Option<u8>,
    /// Whether the user suffers from clipping.
    pub clipping: bool,
    /// Point-to-multipoint.
    pub multipoint: bool,
}

impl Bearer {
    /// BCOB-X, point-to-point.
    pub const X: Bearer = Bearer { class: BearerClass::X, transfer: None, clipping: false, multipoint: false };

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("bearer capability", octets);
        let head = r.u8()?;
        let class = match head & 0x1f {
            0x01 => BearerClass::A,
            0x03 => BearerClass::C,
            0x10 => BearerClass::X,
            0x18 => BearerClass::VirtualPath,
            other => return Err(r.bad("bearer class", other)),
        };
        let transfer = if head & 0x80 == 0 { Some(r.u8()?) } else { None };
        if let Some(octet) = transfer.filter(|octet| octet & 0x80 == 0) {
            return Err(r.bad("ATM transfer capability", octet));
        }
        let octet = r.u8()?;
        let multipoint = match octet & 0x83 {
            0x80 => false,
            0x81 => true,
            _ => return Err(r.bad("user plane connection configuration", octet)),
        };
        r.end()?;
        Ok(Bearer { class, transfer: transfer.map(|t| t & 0x7f), clipping: octet >> 5 & 3 == 1, multipoint })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        let class = match self.class {
            BearerClass::A => 0x01,
            BearerClass::C => 0x03,
            BearerClass::X => 0x10,
            BearerClass::VirtualPath => 0x18,
        };
        match self.transfer {
            None => w.u8(0x80 | class),
            Some(transfer) => w.put(&[class, 0x80 | transfer]),
        }
        w.u8(0x80 | u8::from(self.clipping) << 5 | u8::from(self.multipoint));
    }
}

/// Which VCI a connection identifier means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VciChoice {
    /// This one.
    Exactly(u16),
    /// Any of the path's; the other side chooses.
    Any,
    /// None: the circuit is a virtual path.
    None,
}

/// Connection identifier: virtual path connection identifier and VCI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// Virtual path connection identifier: at the UNI the VPI.
    pub vpci: u16,
    /// VCI.
    pub vci: VciChoice,
}

impl ConnectionId {
    /// VPCI and VCI, both fixed.
    pub const fn exactly(vpci: u16, vci: u16) -> Self {
        ConnectionId { vpci, vci: VciChoice::Exactly(vci) }
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("connection identifier", octets);
        let head = r.u8()?;
        // Explicit indication of the VPCI; VP-associated signalling (00) is not of the UNI.
        if head >> 3 & 3 != 1 || head & 0x80 == 0 {
            return Err(r.bad("VP-associated signalling", head));
        }
        let (vpci, vci) = (r.u16()?, r.u16()?);
        let vci = match head & 7 {
            0 => VciChoice::Exactly(vci),
            1 => VciChoice::Any,
            4 => VciChoice::None,
            other => return Err(r.bad("preferred or exclusive", other)),
        };
        r.end()?;
        Ok(ConnectionId { vpci, vci })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        let (choice, vci) = match self.vci {
            VciChoice::Exactly(vci) => (0, vci),
            VciChoice::Any => (1, 0),
            VciChoice::None => (4, 0),
        };
        w.u8(0x88 | choice);
        w.u16(self.vpci);
        w.u16(vci);
    }
}

/// QoS parameter: classes of both directions. Class 0 is unspecified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Qos {
    /// Class towards the called party, 0 to 4.
    pub forward: u8,
    /// Class towards the calling party.
    pub backward: u8,
}

impl Qos {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("QoS parameter", octets);
        let qos = Qos { forward: r.u8()?, backward: r.u8()? };
        r.end()?;
        Ok(qos)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.put(&[self.forward, self.backward]);
    }
}

/// Extended QoS parameters (UNI 4.0). Pairs are forward and backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExtendedQos {
    /// Who made it: 0 the user, 1 an intermediate network.
    pub origin: u8,
    /// Acceptable peak-to-peak cell delay variation, in microseconds.
    pub acceptable_cdv: [Option<u32>; 2],
    /// The variation so far.
    pub cumulative_cdv: [Option<u32>; 2],
    /// Acceptable cell loss ratio as a negative power of ten; FF any.
    pub acceptable_clr: [Option<u8>; 2],
}

impl ExtendedQos {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("extended QoS parameters", octets);
        let mut q = ExtendedQos { origin: r.u8()?, ..ExtendedQos::default() };
        while !r.is_empty() {
            let id = r.u8()?;
            let side = usize::from(id & 1);
            match id {
                0x94 | 0x95 => {
                    let value = r.u24()?;
                    r.once(&mut q.acceptable_cdv[side], "acceptable CDV", value)?;
                }
                0x96 | 0x97 => {
                    let value = r.u24()?;
                    r.once(&mut q.cumulative_cdv[side], "cumulative CDV", value)?;
                }
                0xa2 | 0xa3 => {
                    let value = r.u8()?;
                    r.once(&mut q.acceptable_clr[side], "acceptable CLR", value)?;
                }
                other => return Err(r.bad("subfield", other)),
            }
        }
        Ok(q)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.u8(self.origin);
        for (first, values) in [(0x94, self.acceptable_cdv), (0x96, self.cumulative_cdv)] {
            for (side, value) in values.into_iter().enumerate() {
                if let Some(value) = value {
                    w.u8(first | side as u8);
                    w.u24(value);
                }
            }
        }
        for (side, value) in self.acceptable_clr.into_iter().enumerate() {
            if let Some(value) = value {
                w.put(&[0xa2 | side as u8, value]);
            }
        }
    }
}

/// End-to-end transit delay, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TransitDelay {
    /// The delay so far.
    pub cumulative: Option<u16>,
    /// The most that the user accepts; FFFF any.
    pub maximum: Option<u16>,
    /// Whether a network made the request (0A).
    pub network: bool,
}

impl TransitDelay {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("end-to-end transit delay", octets);
        let mut d = TransitDelay::default();
        while !r.is_empty() {
            match r.u8()? {
                0x01 => {
                    let value = r.u16()?;
                    r.once(&mut d.cumulative, "cumulative transit delay", value)?;
                }
                0x03 => {
                    let value = r.u16()?;
                    r.once(&mut d.maximum, "maximum transit delay", value)?;
                }
                0x0a => d.network = true,
                other => return Err(r.bad("subfield", other)),
            }
        }
        Ok(d)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        if let Some(value) = self.cumulative {
            w.u8(1);
            w.u16(value);
        }
        if let Some(value) = self.maximum {
            w.u8(3);
            w.u16(value);
        }
        if self.network {
            w.u8(0x0a);
        }
    }
}

/// Endpoint reference: names a party of a point-to-multipoint call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EndpointReference {
    /// 15 bits; 0 is the first party.
    pub value: u16,
    /// Whether the message goes towards the side that chose the value.
    pub to_originator: bool,
}

impl EndpointReference {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("endpoint reference", octets);
        let (kind, value) = (r.u8()?, r.u16()?);
        r.end()?;
        if kind != 0 {
            return Err(r.bad("type", kind));
        }
        Ok(EndpointReference { value: value & 0x7fff, to_originator: value & 0x8000 != 0 })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.u8(0);
        w.u16(self.value & 0x7fff | u16::from(self.to_originator) << 15);
    }
}

/// State of a party (Q.2971): 0 null, 1 add initiated, 4 alerting delivered, 6 add received, 7 alerting received, 0A
/// active, 0B drop initiated, 0C drop received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PartyState(pub u8);

/// What a restart is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RestartClass {
    /// The virtual channel of the connection identifier.
    Channel,
    /// All channels of the virtual path of the connection identifier.
    Path,
    /// Everything that this signalling channel controls.
    All,
}

impl RestartClass {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("restart indicator", octets);
        let octet = r.u8()?;
        r.end()?;
        match octet {
            0x80 => Ok(RestartClass::Channel),
            0x81 => Ok(RestartClass::Path),
            0x82 => Ok(RestartClass::All),
            other => Err(r.bad("class", other)),
        }
    }

    pub(super) fn emit(self, w: &mut Writer<'_>) {
        w.u8(match self {
            RestartClass::Channel => 0x80,
            RestartClass::Path => 0x81,
            RestartClass::All => 0x82,
        });
    }
}
