//! The loopback cell (I.610 section 9.2.1.1.3), and the names of points.

use super::{Body, UNUSED};

/// A loopback cell: sent with `request` true, returned with it false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback {
    /// The indication bit: this cell is on its way out.
    pub request: bool,
    /// Chosen by the sender to know its own cells again.
    pub correlation: u32,
    /// Where to turn round. In an answer to a request for every point: who answers.
    pub location: Location,
    /// Who sent it; all ones if not said.
    pub source: Location,
}

impl Loopback {
    /// A request to the flow's end point from a sender that gives no name.
    pub const fn request(correlation: u32) -> Self {
        Loopback { request: true, correlation, location: Location::END_POINT, source: Location::END_POINT }
    }

    pub(super) fn parse(body: &Body) -> Self {
        let location = |from: usize| Location(core::array::from_fn(|i| body[from + i]));
        Loopback {
            request: body[0] & 1 != 0,
            correlation: u32::from_be_bytes([body[1], body[2], body[3], body[4]]),
            location: location(5),
            source: location(21),
        }
    }

    pub(super) fn emit(self, body: &mut Body) -> u8 {
        body[0] = u8::from(self.request);
        body[1..5].copy_from_slice(&self.correlation.to_be_bytes());
        body[5..21].copy_from_slice(&self.location.0);
        body[21..37].copy_from_slice(&self.source.0);
        0x18
    }

    /// The cell that goes back from a point of this name; one that was meant for every point says who answers.
    pub fn returned(self, name: Option<Location>) -> Self {
        let location = name.filter(|_| self.location == Location::EVERY_POINT).unwrap_or(self.location);
        Loopback { request: false, location, ..self }
    }
}

/// A loopback location identifier, and where a defect is (I.610 sections 9.2.1.1.3, 10.2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location(pub [u8; 16]);

impl Location {
    /// The end point of the flow.
    pub const END_POINT: Location = Location([0xff; 16]);
    /// Every connecting point, and the end point.
    pub const EVERY_POINT: Location = Location([0; 16]);
    /// Nowhere in particular: what unused octets hold.
    pub const UNUSED: Location = Location([UNUSED; 16]);

    /// The identifier of a point with this name: its first 16 octets, filled with zeroes. What identifiers hold is left
    /// to who runs the network.
    pub fn named(name: &str) -> Option<Location> {
        let mut octets = [0; 16];
        let n = name.len().min(octets.len());
        octets[..n].copy_from_slice(&name.as_bytes()[..n]);
        Some(Location(octets)).filter(|location| !matches!(*location, Self::END_POINT | Self::EVERY_POINT))
    }

    /// The name, if it is printable ASCII.
    pub fn name(&self) -> Option<&str> {
        let end = self.0.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        let name = str::from_utf8(&self.0[..end]).ok()?;
        Some(name).filter(|name| !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_graphic()))
    }
}

impl core::fmt::Display for Location {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}")),
        }
    }
}
