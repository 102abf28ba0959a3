//! What AIS and RDI cells say of a defect (I.610 section 10.2.1.1).
//!
//! | octets behind the function | what |
//! |---|---|
//! | 0 | defect type |
//! | 1..17 | defect location |
//! | 17..45 | unused |

use super::{Body, Location, UNUSED};

/// What kind of defect. I.610 leaves the codes to who runs the network, 6A apart: not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DefectType(pub u8);

impl DefectType {
    /// Not said.
    pub const UNSPECIFIED: DefectType = DefectType(UNUSED);
    /// A link is down, or has no signal. A code of Cellway's own, as are the next ones.
    pub const LINK: DefectType = DefectType(1);
    /// The path that carries the channel has an alarm that did not say more.
    pub const PATH: DefectType = DefectType(2);
    /// Neither user cells nor continuity check cells come.
    pub const CONTINUITY: DefectType = DefectType(3);

    /// In a word; `None` for codes of others.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::UNSPECIFIED => Some("unspecified"),
            Self::LINK => Some("link"),
            Self::PATH => Some("path"),
            Self::CONTINUITY => Some("continuity"),
            _ => None,
        }
    }
}

impl core::fmt::Display for DefectType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:02x}", self.0),
        }
    }
}

/// A defect: of which type, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Defect {
    /// Of which type.
    pub kind: DefectType,
    /// Where: the name of the point that found it.
    pub location: Location,
}

impl Defect {
    /// Nothing is said of it.
    pub const UNSPECIFIED: Defect = Defect { kind: DefectType::UNSPECIFIED, location: Location::UNUSED };

    /// A defect that a point found; one without a name does not say where.
    pub fn found(kind: DefectType, by: Option<Location>) -> Self {
        Defect { kind, location: by.unwrap_or(Location::UNUSED) }
    }

    pub(super) fn parse(body: &Body) -> Self {
        Defect { kind: DefectType(body[0]), location: Location(core::array::from_fn(|i| body[1 + i])) }
    }

    pub(super) fn emit(self, function: u8, body: &mut Body) -> u8 {
        body[0] = self.kind.0;
        body[1..17].copy_from_slice(&self.location.0);
        function
    }
}

impl Default for Defect {
    fn default() -> Self {
        Defect::UNSPECIFIED
    }
}
