//! ATM over TCP as Linux's `atmtcp` speaks it between daemons (atmtcp(8); linux-atm 2.5). No greeting, no version.
//!
//! | octets | what |
//! |---|---|
//! | 0..2 | VPI |
//! | 2..4 | VCI |
//! | 4..8 | octets that follow, at most 65535 |
//!
//! A frame on 0.0 carries a control text; any other carries one whole SDU: AAL5 without padding and trailer, AAL0 as 52
//! octets whose header word stands in its sender's byte order (little-endian on the machines that exist).

use crate::Error;
use crate::address::{CircuitId, PvcAddress, Vci, Vpi};
use core::fmt;

/// Octets of a frame's head.
pub const HEAD_OCTETS: usize = 8;
/// Most octets after the head.
pub const MAX_OCTETS: usize = 65_535;
/// The port that IANA assigned.
pub const PORT: u16 = 2812;
/// Longest control text that Cellway reads; `O` with the longest QoS that `qos2text` prints is below 200.
pub const MAX_TEXT_OCTETS: usize = 256;
/// Longest QoS text: what `O 4095.65535 0.4095.65535 ` leaves of [`MAX_TEXT_OCTETS`], so that what was read can be
/// written.
pub const MAX_QOS_OCTETS: usize = MAX_TEXT_OCTETS - 26;

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The circuit; 0.0 for control.
    pub circuit: CircuitId,
    /// Octets that follow.
    pub octets: usize,
}

impl Head {
    /// Reads a head.
    pub fn parse(octets: &[u8; HEAD_OCTETS]) -> Result<Self, Error> {
        let field = |field, value| Error::Field { what: "atmtcp frame", field, value };
        let [v1, v0, c1, c0, n3, n2, n1, n0] = *octets;
        let vpi = u16::from_be_bytes([v1, v0]);
        let vpi = Vpi::new(vpi).ok_or(field("VPI", vpi.into()))?;
        let length = u32::from_be_bytes([n3, n2, n1, n0]);
        if length as usize > MAX_OCTETS {
            return Err(field("length", length.into()));
        }
        let circuit = CircuitId { vpi, vci: Vci(u16::from_be_bytes([c1, c0])) };
        Ok(Head { circuit, octets: length as usize })
    }

    /// The eight octets.
    pub const fn to_octets(self) -> [u8; HEAD_OCTETS] {
        let [v1, v0] = self.circuit.vpi.get().to_be_bytes();
        let [c1, c0] = self.circuit.vci.get().to_be_bytes();
        let [n3, n2, n1, n0] = (self.octets as u32).to_be_bytes();
        [v1, v0, c1, c0, n3, n2, n1, n0]
    }

    /// Whether a control text follows.
    pub const fn is_control(self) -> bool {
        self.circuit.key() == 0
    }
}

/// A control text: what happened to a circuit at the sender's side. Nothing answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control<'a> {
    /// `O vpi.vci itf.vpi.vci qos`: opened. The quality of service is handed on as text.
    Open {
        /// The circuit.
        circuit: CircuitId,
        /// As `qos2text` prints it, e.g. `ubr,aal5:tx:max_sdu=5,rx:none`.
        qos: &'a str,
    },
    /// `C vpi.vci`: closed.
    Close {
        /// The circuit.
        circuit: CircuitId,
    },
}

impl<'a> Control<'a> {
    /// Reads a control text.
    pub fn parse(text: &'a [u8]) -> Result<Self, Error> {
        let bad = |field| Error::Field { what: "atmtcp control", field, value: text.len() as u64 };
        if text.len() > MAX_TEXT_OCTETS {
            return Err(bad("length"));
        }
        let text = core::str::from_utf8(text).map_err(|_| bad("text"))?;
        let mut words = text.trim_end_matches('\0').split_ascii_whitespace();
        let verb = words.next();
        let circuit = words.next().and_then(|w| w.parse().ok()).ok_or(bad("circuit"))?;
        match verb {
            Some("O") => {
                let (Some(pvc), Some(qos), None) = (words.next(), words.next(), words.next()) else {
                    return Err(bad("open"));
                };
                pvc.parse::<PvcAddress>().map_err(|_| bad("address"))?;
                // Printable only: the text goes into logs and out to other peers.
                if qos.len() > MAX_QOS_OCTETS || !qos.bytes().all(|b| b.is_ascii_graphic()) {
                    return Err(bad("QoS"));
                }
                Ok(Control::Open { circuit, qos })
            }
            Some("C") => Ok(Control::Close { circuit }),
            _ => Err(bad("verb")),
        }
    }
}

impl fmt::Display for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Control::Open { circuit, qos } => write!(f, "O {circuit} 0.{circuit} {qos}"),
            Control::Close { circuit } => write!(f, "C {circuit}"),
        }
    }
}

/// The adaptation layer that a QoS text names: `Some(5)`, `Some(0)`, `Some(3)` for AAL3/4 (a word that the stock
/// programs do not have), or none.
pub fn qos_aal(qos: &str) -> Option<u8> {
    let class = qos.split(':').next()?;
    class.split(',').find_map(|word| {
        [("aal5", 5), ("aal0", 0), ("aal34", 3)]
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name))
            .map(|(_, aal)| *aal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn texts_that_the_stock_program_sends() {
        let text = b"O 0.100 0.0.100 ubr,aal5:tx:none,rx:max_sdu=1024";
        let Ok(Control::Open { circuit, qos }) = Control::parse(text) else { panic!("not read") };
        assert_eq!((circuit.to_string().as_str(), qos), ("0.100", "ubr,aal5:tx:none,rx:max_sdu=1024"));
        assert_eq!(Control::Open { circuit, qos }.to_string().as_bytes(), text);
        assert_eq!(qos_aal(qos), Some(5));
        assert_eq!(qos_aal("CBR,AAL0:PCR=3"), Some(0));
        assert_eq!(Control::parse(b"C 1.42"), Ok(Control::Close { circuit: "1.42".parse().unwrap() }));
        let head = Head::parse(&[0, 1, 0, 0x2a, 0, 0, 0, 5]).unwrap();
        assert_eq!((head.circuit.to_string().as_str(), head.octets), ("1.42", 5));
        for bad in [&b"X 1.42"[..], b"", b"O 1.42", b"O 1.42 0.1.42 a b", b"\xff", &[b'O'; 300]] {
            assert!(Control::parse(bad).is_err());
        }
        assert!(Head::parse(&[0, 0, 0, 0, 0, 1, 0, 0]).is_err());
    }

    #[test]
    fn a_qos_that_could_not_be_sent_on_is_refused() {
        let circuit = "4095.65535".parse().unwrap();
        let open = |octets| Control::Open { circuit, qos: &"q".repeat(octets) }.to_string();
        assert_eq!(open(MAX_QOS_OCTETS).len(), MAX_TEXT_OCTETS);
        assert!(Control::parse(open(MAX_QOS_OCTETS).as_bytes()).is_ok());
        let too_long = std::format!("O 1.42 0.1.42 {}", "q".repeat(MAX_QOS_OCTETS + 1));
        for bad in [too_long.as_bytes(), b"O 1.42 0.1.42 q\0 ", b"O 1.42 0.1.42 \x1b[2J", b"O 1.42 x ubr,aal5"] {
            assert!(Control::parse(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn heads_round_trip_and_no_octets_panic(octets: [u8; 8], text: Vec<u8>) {
            if let Ok(head) = Head::parse(&octets) {
                prop_assert_eq!(head.to_octets(), octets);
            }
            let _ = Control::parse(&text);
        }
    }
}
