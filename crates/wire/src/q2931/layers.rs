//! What runs on the circuit: broadband high and low layer information (Q.2931 sections 4.5.8 and 4.5.9). The ends
//! compare it; the network carries it.

use super::reader::{Octets, Reader, Writer};
use crate::Error;

/// Broadband high layer information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HighLayer {
    /// ISO.
    Iso(Octets<8>),
    /// The user's own.
    User(Octets<8>),
    /// A high layer profile (UNI 3.0).
    Profile([u8; 4]),
    /// A vendor's application: OUI and identifier.
    Vendor {
        /// Organizationally unique identifier.
        oui: [u8; 3],
        /// The vendor's identifier.
        application: [u8; 4],
    },
}

impl HighLayer {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("high layer information", octets);
        let short = |octets: &[u8]| Octets::new(octets);
        let kind = r.u8()?;
        let value = match kind {
            0x80 => HighLayer::Iso(short(r.rest()).ok_or_else(|| r.bad("length", octets.len() as u64))?),
            0x81 => HighLayer::User(short(r.rest()).ok_or_else(|| r.bad("length", octets.len() as u64))?),
            0x82 => HighLayer::Profile(r.array()?),
            0x83 => HighLayer::Vendor { oui: r.array()?, application: r.array()? },
            other => return Err(r.bad("type", other)),
        };
        r.end()?;
        Ok(value)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        match self {
            HighLayer::Iso(octets) => {
                w.u8(0x80);
                w.put(octets.get());
            }
            HighLayer::User(octets) => {
                w.u8(0x81);
                w.put(octets.get());
            }
            HighLayer::Profile(octets) => {
                w.u8(0x82);
                w.put(octets);
            }
            HighLayer::Vendor { oui, application } => {
                w.u8(0x83);
                w.put(oui);
                w.put(application);
            }
        }
    }
}

/// Layer 2 of low layer information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layer2 {
    /// Protocol: 06 X.25 link, 08 LAPB, 0C LLC (ISO 8802-2), 10 the user's ...
    pub protocol: u8,
    /// Mode (1 normal, 2 extended) and Q.933 use, for protocols that have them.
    pub mode: Option<(u8, u8)>,
    /// Window size; only with a mode.
    pub window: Option<u8>,
    /// The user's protocol; only with protocol 10.
    pub user: Option<u8>,
}

impl Layer2 {
    /// LLC (ISO 8802-2), as Classical IP uses it.
    pub const LLC: Layer2 = Layer2 { protocol: 0x0c, mode: None, window: None, user: None };
    const USER: u8 = 0x10;

    const fn has_mode(protocol: u8) -> bool {
        matches!(protocol, 0x06 | 0x07 | 0x09 | 0x0a | 0x0b | 0x0e | 0x11)
    }
}

/// Layer 3 of low layer information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer3 {
    /// A protocol without parameters, by its code of five bits.
    Plain(u8),
    /// X.25, ISO 8208 or X.223 (06, 07, 08).
    Packet {
        /// The protocol's code.
        protocol: u8,
        /// Mode: 1 normal, 2 extended.
        mode: u8,
        /// Default packet size as a power of two, and window size.
        size: Option<(u8, Option<u8>)>,
    },
    /// ISO TR 9577 with an initial protocol identifier.
    Initial(u8),
    /// ISO TR 9577 with SNAP: OUI and protocol.
    Snap([u8; 3], [u8; 2]),
    /// H.310: terminal type, and multiplexing capabilities forward and backward.
    H310(u8, Option<(u8, u8)>),
    /// The user's protocol.
    User(u8),
}

/// Broadband low layer information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LowLayer {
    /// Layer 1's protocol of five bits.
    pub layer1: Option<u8>,
    /// Layer 2.
    pub layer2: Option<Layer2>,
    /// Layer 3.
    pub layer3: Option<Layer3>,
}

impl LowLayer {
    /// RFC 2684 by LLC: any protocol behind an LLC header.
    pub const LLC: LowLayer = LowLayer { layer1: None, layer2: Some(Layer2::LLC), layer3: None };

    /// Protocol `pid` of organisation `oui`, without an LLC header on the circuit (LAN emulation has 00A03E).
    pub const fn snap(oui: [u8; 3], pid: u16) -> Self {
        LowLayer { layer1: None, layer2: None, layer3: Some(Layer3::Snap(oui, pid.to_be_bytes())) }
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("low layer information", octets);
        let mut value = LowLayer::default();
        let mut highest = 0;
        while !r.is_empty() {
            let octet = r.u8()?;
            let (layer, protocol, last) = (octet >> 5 & 3, octet & 0x1f, octet & 0x80 != 0);
            if layer <= highest {
                return Err(r.bad("layer", layer));
            }
            highest = layer;
            match (layer, last) {
                (1, true) => value.layer1 = Some(protocol),
                (2, _) => value.layer2 = Some(layer2(&mut r, protocol, last)?),
                (3, _) => value.layer3 = Some(layer3(&mut r, protocol, last)?),
                _ => return Err(r.bad("layer", octet)),
            }
        }
        if highest == 0 { Err(r.bad("length", 0u8)) } else { Ok(value) }
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        if let Some(protocol) = self.layer1 {
            w.u8(0xa0 | protocol & 0x1f);
        }
        if let Some(l) = &self.layer2 {
            let more = l.mode.is_some() || l.user.is_some();
            w.u8(0x40 | l.protocol & 0x1f | if more { 0 } else { 0x80 });
            if let Some((mode, q933)) = l.mode {
                w.u8((mode & 3) << 5 | q933 & 3 | if l.window.is_some() { 0 } else { 0x80 });
                if let Some(window) = l.window {
                    w.u8(0x80 | window);
                }
            } else if let Some(user) = l.user {
                w.u8(0x80 | user);
            }
        }
        match &self.layer3 {
            None => {}
            Some(Layer3::Plain(protocol)) => w.u8(0xe0 | protocol & 0x1f),
            Some(Layer3::Packet { protocol, mode, size }) => {
                w.u8(0x60 | protocol & 0x1f);
                w.u8((mode & 3) << 5 | if size.is_some() { 0 } else { 0x80 });
                if let Some((size, window)) = size {
                    w.u8(size & 0xf | if window.is_some() { 0 } else { 0x80 });
                    if let Some(window) = window {
                        w.u8(0x80 | window);
                    }
                }
            }
            Some(Layer3::Initial(ipi)) => initial(w, *ipi),
            Some(Layer3::Snap(oui, pid)) => {
                initial(w, IPI_SNAP);
                w.u8(0x80);
                w.put(oui);
                w.put(pid);
            }
            Some(Layer3::H310(terminal, multiplex)) => {
                w.u8(0x6c);
                w.u8(terminal & 0xf | if multiplex.is_some() { 0 } else { 0x80 });
                if let Some((forward, backward)) = multiplex {
                    w.u8(0x80 | (forward & 7) << 3 | backward & 7);
                }
            }
            Some(Layer3::User(user)) => w.put(&[0x70, 0x80 | user]),
        }
    }
}

/// The initial protocol identifier of SNAP.
const IPI_SNAP: u8 = 0x80;

/// ISO TR 9577's octet, whose identifier is split over two.
fn initial(w: &mut Writer<'_>, ipi: u8) {
    w.put(&[0x6b, ipi >> 1, 0x80 | (ipi & 1) << 6]);
}

/// An octet that must be the last of its group: its seven bits.
fn last(r: &mut Reader<'_>, field: &'static str) -> Result<u8, Error> {
    let octet = r.u8()?;
    if octet & 0x80 == 0 { Err(r.bad(field, octet)) } else { Ok(octet & 0x7f) }
}

fn layer2(r: &mut Reader<'_>, protocol: u8, is_last: bool) -> Result<Layer2, Error> {
    let mut l = Layer2 { protocol, mode: None, window: None, user: None };
    if is_last {
        return Ok(l);
    }
    if protocol == Layer2::USER {
        l.user = Some(last(r, "user layer 2")?);
    } else if Layer2::has_mode(protocol) {
        let octet = r.u8()?;
        l.mode = Some((octet >> 5 & 3, octet & 3));
        if octet & 0x80 == 0 {
            l.window = Some(last(r, "window size")?);
        }
    } else {
        return Err(r.bad("layer 2 protocol", protocol));
    }
    Ok(l)
}

fn layer3(r: &mut Reader<'_>, protocol: u8, is_last: bool) -> Result<Layer3, Error> {
    if is_last {
        return Ok(Layer3::Plain(protocol));
    }
    Ok(match protocol {
        0x06..=0x08 => {
            let octet = r.u8()?;
            let mode = octet >> 5 & 3;
            let size = if octet & 0x80 != 0 {
                None
            } else {
                let octet = r.u8()?;
                let window = if octet & 0x80 != 0 { None } else { Some(last(r, "window size")?) };
                Some((octet & 0xf, window))
            };
            Layer3::Packet { protocol, mode, size }
        }
        0x0b => {
            let high = r.u8()?;
            let low = last(r, "initial protocol identifier")?;
            if high & 0x80 != 0 {
                return Err(r.bad("initial protocol identifier", high));
            }
            let ipi = high << 1 | low >> 6;
            if ipi == IPI_SNAP && !r.is_empty() {
                last(r, "SNAP identifier")?;
                Layer3::Snap(r.array()?, r.array()?)
            } else {
                Layer3::Initial(ipi)
            }
        }
        0x0c => {
            let octet = r.u8()?;
            let multiplex = if octet & 0x80 != 0 { None } else { Some(last(r, "multiplexing")?) };
            Layer3::H310(octet & 0xf, multiplex.map(|m| (m >> 3 & 7, m & 7)))
        }
        0x10 => Layer3::User(last(r, "user layer 3")?),
        other => return Err(r.bad("layer 3 protocol", other)),
    })
}
