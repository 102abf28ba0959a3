//! Recording files of Linux's `atmtcp` (its `write` and `read`; linux-atm 2.5): records one after the other, no head.
//!
//! | octets | what |
//! |---|---|
//! | 0..4 | number of the stream: of the link from which it came |
//! | 4..6, 6..8 | VPI and VCI |
//! | 8..12 | octets that follow, or `FF FF FF FF` |
//! | 12.. | one SDU as on the wire ([`crate::atmtcp`]), or 112 octets of a structure of the kernel's |
//!
//! All but that structure is in network order. It says that a circuit was opened or closed, in the order and layout of
//! the machine that recorded (64-bit; both orders are read, little-endian is written).

use crate::Error;
use crate::address::{CircuitId, Vci, Vpi};
use crate::atmtcp::MAX_OCTETS;

/// Octets of a record before its SDU.
pub const HEAD_OCTETS: usize = 12;
/// Octets of a record that says what happened to a circuit.
pub const EVENT_OCTETS: usize = HEAD_OCTETS + 112;

/// In the structure after the head: the kind, the address's VPI and VCI, the traffic class of both directions, their
/// longest SDUs, and the AAL.
const TYPE: usize = 0;
const ADDRESS: usize = 12;
const QOS: usize = 24;
const OTHER_WAY: usize = 40;
const MAX_SDU: usize = 20;
const AAL: usize = QOS + 2 * OTHER_WAY;
/// `AF_ATMPVC`.
const FAMILY: u16 = 8;
/// `ATM_UBR`.
const UBR: u8 = 1;
/// `ATM_AAL0`: 0 would mean none.
const AAL0: u8 = 13;
const AAL5: u8 = 5;

/// What a record says of its circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// An SDU passed.
    Sdu(&'a [u8]),
    /// It was opened, for cells as they are rather than AAL5.
    Open {
        /// AAL0.
        aal0: bool,
    },
    /// It was closed.
    Close,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The link from which it came.
    pub stream: u32,
    /// The circuit.
    pub circuit: CircuitId,
    /// What passed, or happened.
    pub what: What<'a>,
}

fn bad(field: &'static str, value: u64) -> Error {
    Error::Field { what: "atmtcp recording", field, value }
}

impl<'a> Record<'a> {
    /// The first record of `octets`, and what follows it; `None` at the end.
    ///
    /// # Errors
    /// The record is cut off, or none that `atmtcp` writes.
    pub fn parse(octets: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, Error> {
        if octets.is_empty() {
            return Ok(None);
        }
        let (head, rest) =
            octets.split_first_chunk::<HEAD_OCTETS>().ok_or(bad("octets left for a head", octets.len() as u64))?;
        let [s3, s2, s1, s0, v1, v0, c1, c0, n3, n2, n1, n0] = *head;
        let vpi = u16::from_be_bytes([v1, v0]);
        let vpi = Vpi::new(vpi).ok_or(bad("VPI", vpi.into()))?;
        let circuit = CircuitId { vpi, vci: Vci(u16::from_be_bytes([c1, c0])) };
        let stream = u32::from_be_bytes([s3, s2, s1, s0]);
        let length = u32::from_be_bytes([n3, n2, n1, n0]);
        let cut_off = bad("octets left for a record", rest.len() as u64);
        if length == u32::MAX {
            let (event, rest) = rest.split_first_chunk::<{ EVENT_OCTETS - HEAD_OCTETS }>().ok_or(cut_off)?;
            let kind = [event[TYPE], event[TYPE + 1], event[TYPE + 2], event[TYPE + 3]];
            let what = match u32::from_le_bytes(kind).min(u32::from_be_bytes(kind)) {
                1 => What::Open { aal0: event[AAL] == AAL0 },
                2 => What::Close,
                other => return Err(bad("type", other.into())),
            };
            return Ok(Some((Record { stream, circuit, what }, rest)));
        }
        if length as usize > MAX_OCTETS {
            return Err(bad("length", length.into()));
        }
        let (sdu, rest) = rest.split_at_checked(length as usize).ok_or(cut_off)?;
        Ok(Some((Record { stream, circuit, what: What::Sdu(sdu) }, rest)))
    }

    /// The octets before an SDU's own, or the whole record of another kind; how many of them count.
    pub fn emit(&self) -> ([u8; EVENT_OCTETS], usize) {
        let mut out = [0; EVENT_OCTETS];
        out[..4].copy_from_slice(&self.stream.to_be_bytes());
        out[4..6].copy_from_slice(&self.circuit.vpi.get().to_be_bytes());
        out[6..8].copy_from_slice(&self.circuit.vci.get().to_be_bytes());
        let (head, event) = out.split_at_mut(HEAD_OCTETS);
        let length = |n: u32| n.to_be_bytes();
        let (kind, aal0) = match self.what {
            What::Sdu(sdu) => {
                head[8..].copy_from_slice(&length(sdu.len() as u32));
                return (out, HEAD_OCTETS);
            }
            What::Open { aal0 } => (1, aal0),
            What::Close => (2, false),
        };
        head[8..].copy_from_slice(&length(u32::MAX));
        event[TYPE] = kind;
        event[ADDRESS..ADDRESS + 2].copy_from_slice(&FAMILY.to_le_bytes());
        event[ADDRESS + 6..ADDRESS + 8].copy_from_slice(&self.circuit.vpi.get().to_le_bytes());
        event[ADDRESS + 8..ADDRESS + 10].copy_from_slice(&self.circuit.vci.get().to_le_bytes());
        if kind == 1 {
            let max_sdu: u16 = if aal0 { 52 } else { 65_535 };
            for way in [QOS, QOS + OTHER_WAY] {
                event[way] = UBR;
                event[way + MAX_SDU..way + MAX_SDU + 2].copy_from_slice(&max_sdu.to_le_bytes());
            }
            event[AAL] = if aal0 { AAL0 } else { AAL5 };
        }
        (out, EVENT_OCTETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn all(mut octets: &[u8]) -> Vec<Record<'_>> {
        let mut records = Vec::new();
        while let Some((record, rest)) = Record::parse(octets).unwrap() {
            records.push(record);
            octets = rest;
        }
        records
    }

    #[test]
    fn what_the_stock_program_recorded() {
        // `atmtcp listen listen write`: link 1 opened 0.101 one way for SDUs of 5 octets, sent one, and closed.
        let mut octets = Vec::new();
        let mut event = [0; EVENT_OCTETS];
        event[..12].copy_from_slice(b"\0\0\0\x01\0\0\0\x65\xff\xff\xff\xff");
        event[12] = 1;
        event[24] = 8;
        event[32] = 0x65;
        event[36] = 1;
        event[56] = 5;
        event[116] = 5;
        octets.extend_from_slice(&event);
        octets.extend_from_slice(b"\0\0\0\x01\0\0\0\x65\0\0\0\x05from1");
        event[12] = 2;
        octets.extend_from_slice(&event);
        let circuit = "0.101".parse().unwrap();
        let record = |what| Record { stream: 1, circuit, what };
        assert_eq!(
            all(&octets),
            [record(What::Open { aal0: false }), record(What::Sdu(b"from1")), record(What::Close)]
        );
        for cut in [1, 11, 12, 50, 123, 125, 137, 140] {
            let mut rest = &octets[..cut];
            let result = loop {
                match Record::parse(rest) {
                    Ok(Some((_, left))) => rest = left,
                    other => break other,
                }
            };
            assert!(result.is_err(), "cut after {cut}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(stream: u32, vpi in 0u16..4096, vci: u16, kind in 0..4, sdu: Vec<u8>) {
            let circuit = CircuitId { vpi: Vpi::new(vpi).unwrap(), vci: Vci(vci) };
            let what = match kind {
                0 => What::Open { aal0: false },
                1 => What::Open { aal0: true },
                2 => What::Close,
                _ => What::Sdu(&sdu),
            };
            let record = Record { stream, circuit, what };
            let (head, n) = record.emit();
            let mut octets = head[..n].to_vec();
            if kind == 3 {
                octets.extend_from_slice(&sdu);
            }
            prop_assert_eq!(all(&octets), [record]);
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let mut rest = octets.as_slice();
            while let Ok(Some((_, left))) = Record::parse(rest) {
                rest = left;
            }
        }
    }
}
