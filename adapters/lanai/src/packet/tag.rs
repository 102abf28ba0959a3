//! What goes before the SDU of a circuit in a message between Myrinet interfaces: the tag that the receiver's side goes
//! by, as its VPI and VCI are on an ATM link. Cellway's own, version 1.
//!
//! | octets | what |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | adaptation layer: 0 (a cell without its HEC), 3 (AAL3/4) or 5 |
//! | 2, 3 | AAL5's user-to-user indication and common part indicator |
//! | 4 | bit 0: cell loss priority; bit 1: congestion experienced |
//! | 5 | 0 |
//! | 6..8, 8..10 | VPI and VCI by which the sender's side knows the circuit |
//! | 10..12 | the number of the route by which the sender's side knows it: one that is made anew has another |
//! | 12.. | the SDU |

use wire::{CircuitId, Error, Vci, Vpi};

const WHAT: &str = "tag of a circuit on Myrinet";
const VERSION: u8 = 1;
const CLP: u8 = 1;
const CONGESTION: u8 = 2;
/// Octets of a tag.
pub const TAG_OCTETS: usize = 12;

/// The adaptation layer of an SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// A cell: header without HEC, and payload.
    Aal0,
    /// AAL3/4.
    Aal34,
    /// AAL5.
    #[default]
    Aal5,
}

/// A tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// The adaptation layer.
    pub layer: Layer,
    /// AAL5 user-to-user indication.
    pub uu: u8,
    /// AAL5 common part indicator.
    pub cpi: u8,
    /// Cell loss priority.
    pub clp: bool,
    /// Congestion experienced.
    pub congestion: bool,
    /// The circuit as the sender's side knows it.
    pub circuit: CircuitId,
    /// Which of the routes that this circuit has had there.
    pub route: u16,
}

impl Tag {
    /// Reads a tag, and gives the SDU after it.
    ///
    /// # Errors
    /// Fewer octets than a tag has, or a field that this version does not have.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Error> {
        let Some((tag, sdu)) = octets.split_first_chunk::<TAG_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: TAG_OCTETS, got: octets.len() });
        };
        let field = |field, value: u16| Err(Error::Field { what: WHAT, field, value: value.into() });
        let [version, layer, uu, cpi, flags, zero, vpi_high, vpi_low, vci_high, vci_low, route_high, route_low] = *tag;
        if version != VERSION {
            return field("version", version.into());
        }
        let layer = match layer {
            0 => Layer::Aal0,
            3 => Layer::Aal34,
            5 => Layer::Aal5,
            _ => return field("adaptation layer", layer.into()),
        };
        if flags & !(CLP | CONGESTION) != 0 || zero != 0 {
            return field("flags", flags.into());
        }
        let vpi = u16::from_be_bytes([vpi_high, vpi_low]);
        let Some(vpi) = Vpi::new(vpi) else { return field("VPI", vpi) };
        let circuit = CircuitId { vpi, vci: Vci(u16::from_be_bytes([vci_high, vci_low])) };
        let (clp, congestion) = (flags & CLP != 0, flags & CONGESTION != 0);
        let route = u16::from_be_bytes([route_high, route_low]);
        Ok((Tag { layer, uu, cpi, clp, congestion, circuit, route }, sdu))
    }

    /// As it stands before an SDU.
    pub fn emit(&self) -> [u8; TAG_OCTETS] {
        let layer = match self.layer {
            Layer::Aal0 => 0,
            Layer::Aal34 => 3,
            Layer::Aal5 => 5,
        };
        let flags = if self.clp { CLP } else { 0 } | if self.congestion { CONGESTION } else { 0 };
        let [vpi, vci, route] = [self.circuit.vpi.get(), self.circuit.vci.get(), self.route].map(u16::to_be_bytes);
        [VERSION, layer, self.uu, self.cpi, flags, 0, vpi[0], vpi[1], vci[0], vci[1], route[0], route[1]]
    }
}
