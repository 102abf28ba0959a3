//! Control cells of a desk-area network: they read and write registers of an APIC that is elsewhere on the desk.
//!
//! The papers say that there are such cells and not what they look like; this format is Cellway's own. Which circuits
//! carry them, and what each of those may do, is in the chip's table, never in the cell.
//!
//! | payload octets | what |
//! |---|---|
//! | 0 | `A6` |
//! | 1 | 1: read, 2: write; an answer has bit 7 set, and bit 6 if the chip refused |
//! | 2..4 | number of the request, which the answer repeats |
//! | 4..8 | register |
//! | 8..12 | value: written, or read; zero in a request to read |
//! | 12..46 | 6A |
//! | 46..48 | six bits zero, CRC-10 over the payload |

use wire::Error;
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::remainder10;
use wire::oam::UNUSED;

const MARK: u8 = 0xa6;
const ANSWER: u8 = 0x80;
const REFUSED: u8 = 0x40;
const WHAT: &str = "control cell";

/// What a control cell asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The value of a register.
    Read,
    /// Another value for a register.
    Write,
}

/// Whether a control cell asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// To a chip.
    Request,
    /// From a chip that has done it.
    Done,
    /// From a chip that has not.
    Refused,
}

/// A control cell's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Control {
    /// See there.
    pub operation: Operation,
    /// See there.
    pub way: Way,
    /// The request's number.
    pub number: u16,
    /// The register.
    pub register: u32,
    /// Its value.
    pub value: u32,
}

impl Control {
    /// A control cell's payload.
    ///
    /// # Errors
    /// It is not one, or is damaged.
    pub fn parse(payload: &[u8; PAYLOAD_OCTETS]) -> Result<Self, Error> {
        let got = u32::from(u16::from_be_bytes([payload[46], payload[47]]));
        let mut without = *payload;
        (without[46], without[47]) = (0, 0);
        let want = u32::from(remainder10(&without));
        if got != want {
            return Err(Error::Checksum { what: WHAT, got, want });
        }
        let field = |field, value: u8| Error::Field { what: WHAT, field, value: value.into() };
        let [mark, code, n1, n0, r3, r2, r1, r0, v3, v2, v1, v0, ..] = *payload;
        if mark != MARK {
            return Err(field("mark", mark));
        }
        let operation = match code & 0x3f {
            1 => Operation::Read,
            2 => Operation::Write,
            _ => return Err(field("operation", code)),
        };
        let way = match code & (ANSWER | REFUSED) {
            0 => Way::Request,
            ANSWER => Way::Done,
            REFUSED => return Err(field("operation", code)),
            _ => Way::Refused,
        };
        if let Some(octet) = payload[12..46].iter().find(|octet| **octet != UNUSED) {
            return Err(field("unused octet", *octet));
        }
        Ok(Control {
            operation,
            way,
            number: u16::from_be_bytes([n1, n0]),
            register: u32::from_be_bytes([r3, r2, r1, r0]),
            value: u32::from_be_bytes([v3, v2, v1, v0]),
        })
    }

    /// Its octets.
    pub fn emit(&self) -> [u8; PAYLOAD_OCTETS] {
        let operation = match self.operation {
            Operation::Read => 1,
            Operation::Write => 2,
        };
        let way = match self.way {
            Way::Request => 0,
            Way::Done => ANSWER,
            Way::Refused => ANSWER | REFUSED,
        };
        let mut payload = [UNUSED; PAYLOAD_OCTETS];
        (payload[0], payload[1]) = (MARK, operation | way);
        payload[2..4].copy_from_slice(&self.number.to_be_bytes());
        payload[4..8].copy_from_slice(&self.register.to_be_bytes());
        payload[8..12].copy_from_slice(&self.value.to_be_bytes());
        (payload[46], payload[47]) = (0, 0);
        let crc = remainder10(&payload);
        payload[46..].copy_from_slice(&crc.to_be_bytes());
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_control_cell_is_what_its_octets_say_and_a_wrong_bit_is_seen(
            write: bool, way in 0u8..3, number: u16, register: u32, value: u32, bit in 0usize..384,
        ) {
            let operation = if write { Operation::Write } else { Operation::Read };
            let way = [Way::Request, Way::Done, Way::Refused][usize::from(way)];
            let control = Control { operation, way, number, register, value };
            let mut octets = control.emit();
            prop_assert_eq!(Control::parse(&octets), Ok(control));
            octets[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Control::parse(&octets).is_err());
        }
    }
}
