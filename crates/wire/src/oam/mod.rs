//! OAM cells (I.610): their common frame, the flows, and what cells are for.
//!
//! | payload octets | what |
//! |---|---|
//! | 0 | OAM type (upper four bits), function (lower four) |
//! | 1..46 | for the function; unused octets are 6A |
//! | 46..48 | six bits reserved, CRC-10 over the payload |
//!
//! | type, function | cell | layout |
//! |---|---|---|
//! | 10, 11 | AIS, RDI | [`Defect`] |
//! | 14 | continuity check | nothing |
//! | 18 | loopback | [`Loopback`] |
//! | 20, 21 | forward monitoring, backward report | [`Monitoring`], [`Report`] |
//! | 80, 81, 82 | activation of monitoring both ways, of continuity check, of forward monitoring | [`Activation`] |
//!
//! Which flow a cell belongs to stands in its header: F5 by payload type, F4 by VCI 3 or 4.

mod activation;
mod defect;
mod loopback;
mod performance;
#[cfg(test)]
mod tests;

pub use activation::{Activation, BlockCode, Directions, Message, Subject};
pub use defect::{Defect, DefectType};
pub use loopback::{Location, Loopback};
pub use performance::{Monitoring, Report, bip16};

use crate::Error;
use crate::address::Vci;
use crate::cell::{CellHeader, PAYLOAD_OCTETS, PayloadType};
use crate::crc::remainder10;

/// What unused octets hold.
pub const UNUSED: u8 = 0x6a;

/// The flow of an OAM cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Virtual path, segment.
    F4Segment,
    /// Virtual path, end to end.
    F4EndToEnd,
    /// Virtual channel, segment.
    F5Segment,
    /// Virtual channel, end to end.
    F5EndToEnd,
}

impl Flow {
    /// The flow that a header names, if it is an OAM cell's.
    pub fn of(header: CellHeader) -> Option<Flow> {
        match (header.circuit.vci, header.payload_type) {
            (Vci::F4_SEGMENT, _) => Some(Flow::F4Segment),
            (Vci::F4_END_TO_END, _) => Some(Flow::F4EndToEnd),
            (_, PayloadType::OamSegment) => Some(Flow::F5Segment),
            (_, PayloadType::OamEndToEnd) => Some(Flow::F5EndToEnd),
            _ => None,
        }
    }

    /// Whether the flow ends at the next segment end point rather than at the circuit's.
    pub const fn is_segment(self) -> bool {
        matches!(self, Flow::F4Segment | Flow::F5Segment)
    }

    /// The header of this flow's cells on the circuit of `header`.
    pub fn header(self, mut header: CellHeader) -> CellHeader {
        match self {
            Flow::F4Segment => header.circuit.vci = Vci::F4_SEGMENT,
            Flow::F4EndToEnd => header.circuit.vci = Vci::F4_END_TO_END,
            Flow::F5Segment => header.payload_type = PayloadType::OamSegment,
            Flow::F5EndToEnd => header.payload_type = PayloadType::OamEndToEnd,
        }
        header
    }
}

/// What an OAM cell is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Alarm indication signal: something is broken on the way here.
    Ais(Defect),
    /// Remote defect indication: the other end receives nothing, or an alarm.
    Rdi(Defect),
    /// Continuity check: nothing else was sent, and the way is there.
    ContinuityCheck,
    /// Loopback.
    Loopback(Loopback),
    /// Forward performance monitoring: what was sent up to here.
    Monitoring(Monitoring),
    /// Backward report: what of it arrived.
    Report(Report),
    /// Activation of performance monitoring or continuity check, and what is answered.
    Activation(Activation),
    /// Another, by type and function.
    Other(u8),
}

/// The 45 octets between the function and the CRC-10.
type Body = [u8; BODY_OCTETS];
const BODY_OCTETS: usize = 45;

impl Function {
    /// Reads an OAM cell's payload.
    ///
    /// # Errors
    /// The CRC-10 is wrong. A function or message that is not known is [`Function::Other`].
    pub fn parse(payload: &[u8; PAYLOAD_OCTETS]) -> Result<Self, Error> {
        let [function, .., high, low] = *payload;
        let got = u32::from(u16::from_be_bytes([high & 3, low]));
        let mut without = *payload;
        without[46] &= 0xfc;
        without[47] = 0;
        let want = u32::from(checksum(&without));
        if got != want {
            return Err(Error::Checksum { what: "OAM cell", got, want });
        }
        let mut body: Body = [0; BODY_OCTETS];
        body.copy_from_slice(&payload[1..46]);
        Ok(match function {
            0x10 => Function::Ais(Defect::parse(&body)),
            0x11 => Function::Rdi(Defect::parse(&body)),
            0x14 => Function::ContinuityCheck,
            0x18 => Function::Loopback(Loopback::parse(&body)),
            0x20 => Function::Monitoring(Monitoring::parse(&body)),
            0x21 => Function::Report(Report::parse(&body)),
            0x80..=0x82 => Activation::parse(function, &body).map_or(Function::Other(function), Function::Activation),
            other => Function::Other(other),
        })
    }

    /// The payload of an OAM cell.
    pub fn emit(self) -> [u8; PAYLOAD_OCTETS] {
        let mut body: Body = [UNUSED; BODY_OCTETS];
        let function = match self {
            Function::Ais(defect) => defect.emit(0x10, &mut body),
            Function::Rdi(defect) => defect.emit(0x11, &mut body),
            Function::ContinuityCheck => 0x14,
            Function::Loopback(loopback) => loopback.emit(&mut body),
            Function::Monitoring(monitoring) => monitoring.emit(&mut body),
            Function::Report(report) => report.emit(&mut body),
            Function::Activation(activation) => activation.emit(&mut body),
            Function::Other(other) => other,
        };
        let mut p = [0; PAYLOAD_OCTETS];
        p[0] = function;
        p[1..46].copy_from_slice(&body);
        [p[46], p[47]] = checksum(&p).to_be_bytes();
        p
    }
}

/// The CRC-10 of a payload whose last ten bits, where the CRC will stand, are zero.
fn checksum(payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    remainder10(payload)
}
