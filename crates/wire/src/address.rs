//! Names of circuits: VPI, VCI, their pair, and the `itf.vpi.vci` of Linux's PVC addresses.

use core::fmt;
use core::str::FromStr;

/// Why a text is not a circuit's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not `vpi.vci` (or `itf.vpi.vci` where an interface is allowed) in decimal digits.
    #[error("expected {0}, in decimal")]
    Form(&'static str),
    /// A virtual path identifier has 12 bits at most.
    #[error("VPI {0} is beyond 4095")]
    Vpi(u32),
    /// A virtual channel identifier has 16 bits.
    #[error("VCI {0} is beyond 65535")]
    Vci(u32),
}

/// A virtual path identifier: 12 bits at the NNI, 8 at the UNI (I.361).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vpi(u16);

impl Vpi {
    /// The largest value at the UNI.
    pub const MAX_UNI: Vpi = Vpi(255);
    /// The largest value at the NNI.
    pub const MAX: Vpi = Vpi(4095);

    /// `value` as a VPI, if it has no more than 12 bits.
    pub const fn new(value: u16) -> Option<Self> {
        if value <= 4095 { Some(Vpi(value)) } else { None }
    }

    /// The low 12 bits of `value`.
    pub const fn truncated(value: u32) -> Self {
        Vpi((value & 0xfff) as u16)
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Vpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A virtual channel identifier (I.361). 0 to 31 are reserved by the ITU-T and the ATM Forum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vci(pub u16);

impl Vci {
    /// Segment F4 OAM flow of the virtual path.
    pub const F4_SEGMENT: Vci = Vci(3);
    /// End-to-end F4 OAM flow of the virtual path.
    pub const F4_END_TO_END: Vci = Vci(4);
    /// Point-to-point signalling.
    pub const SIGNALLING: Vci = Vci(5);
    /// Integrated local management interface.
    pub const ILMI: Vci = Vci(16);
    /// Credit cells between neighbours ([`crate::credit`]), on VPI 0 and never beyond one link.
    pub const CREDIT: Vci = Vci(31);
    /// The first that is free for users.
    pub const FIRST_USER: Vci = Vci(32);

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Vci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What names a virtual circuit on one link: its VPI and VCI. Written `vpi.vci`; read too as `vpi/vci`, and with
/// interface 0 before it as Linux writes it, `0.vpi.vci`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CircuitId {
    /// Virtual path identifier.
    pub vpi: Vpi,
    /// Virtual channel identifier.
    pub vci: Vci,
}

impl CircuitId {
    /// `vpi.vci`, if `vpi` has no more than 12 bits.
    pub const fn new(vpi: u16, vci: u16) -> Option<Self> {
        match Vpi::new(vpi) {
            Some(vpi) => Some(CircuitId { vpi, vci: Vci(vci) }),
            None => None,
        }
    }

    /// VPI and VCI as one 28-bit number, VPI first: a table's key.
    pub const fn key(self) -> u32 {
        (self.vpi.0 as u32) << 16 | self.vci.0 as u32
    }

    /// The circuit of a 28-bit key; higher bits are ignored.
    pub const fn from_key(key: u32) -> Self {
        CircuitId { vpi: Vpi::truncated(key >> 16), vci: Vci(key as u16) }
    }
}

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.vpi, self.vci)
    }
}

impl FromStr for CircuitId {
    type Err = AddressError;
    fn from_str(s: &str) -> Result<Self, AddressError> {
        let at_interface = s.strip_prefix("0.").filter(|rest| rest.contains('.'));
        pair(at_interface.unwrap_or(s))
    }
}

/// What a switch goes by on one link: a channel, or a path with all its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// A virtual channel: VPI and VCI are translated.
    Vc(CircuitId),
    /// A virtual path: the VPI is translated, VCIs stay.
    Vp(Vpi),
}

impl Label {
    /// Whether it is a path.
    pub const fn is_path(self) -> bool {
        matches!(self, Label::Vp(_))
    }

    /// Whether it is a circuit's, or that of its path.
    pub fn holds(self, circuit: CircuitId) -> bool {
        match self {
            Label::Vc(id) => id == circuit,
            Label::Vp(vpi) => vpi == circuit.vpi,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Vc(circuit) => circuit.fmt(f),
            Label::Vp(vpi) => write!(f, "{vpi}.*"),
        }
    }
}

/// A permanent virtual circuit as Linux names it: interface, VPI, VCI. Written `itf.vpi.vci`; without `itf`,
/// interface 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PvcAddress {
    /// Interface number.
    pub itf: u16,
    /// The circuit on it.
    pub circuit: CircuitId,
}

impl fmt::Display for PvcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.itf, self.circuit)
    }
}

impl FromStr for PvcAddress {
    type Err = AddressError;
    fn from_str(s: &str) -> Result<Self, AddressError> {
        const FORM: AddressError = AddressError::Form("[itf.]vpi.vci");
        let Some((itf, rest)) = s.split_once('.').filter(|(_, rest)| rest.contains(['.', '/'])) else {
            return Ok(PvcAddress { itf: 0, circuit: pair(s).map_err(|e| if e == PAIR { FORM } else { e })? });
        };
        let itf = number(itf).and_then(|n| u16::try_from(n).ok()).ok_or(FORM)?;
        Ok(PvcAddress { itf, circuit: pair(rest)? })
    }
}

const PAIR: AddressError = AddressError::Form("vpi.vci or vpi/vci, such as 8.35");

/// VPI and VCI with a dot or a slash between them.
fn pair(s: &str) -> Result<CircuitId, AddressError> {
    let (vpi, vci) = s.split_once(['.', '/']).ok_or(PAIR)?;
    circuit(number(vpi).ok_or(PAIR)?, number(vci).ok_or(PAIR)?)
}

fn circuit(vpi: u32, vci: u32) -> Result<CircuitId, AddressError> {
    let v = u16::try_from(vpi).ok().and_then(Vpi::new).ok_or(AddressError::Vpi(vpi))?;
    let c = u16::try_from(vci).map_err(|_| AddressError::Vci(vci))?;
    Ok(CircuitId { vpi: v, vci: Vci(c) })
}

/// Decimal digits only: no sign, no blank, no leading zero, as `text2atm` has it.
fn number(s: &str) -> Option<u32> {
    let plain = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()) && (s.len() == 1 || !s.starts_with('0'));
    if plain { s.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn names_are_read_as_linux_reads_them() {
        assert_eq!("0.100".parse(), Ok(CircuitId::new(0, 100).unwrap()));
        assert_eq!("3.0.5".parse(), Ok(PvcAddress { itf: 3, circuit: CircuitId::new(0, 5).unwrap() }));
        assert_eq!("0.5".parse(), Ok(PvcAddress { itf: 0, circuit: CircuitId::new(0, 5).unwrap() }));
        assert_eq!("4096.1".parse::<CircuitId>(), Err(AddressError::Vpi(4096)));
        assert_eq!("1.65536".parse::<CircuitId>(), Err(AddressError::Vci(65536)));
        for bad in
            ["", ".", "1", "1.", ".1", "01.1", "+1.1", "1. 1", "1.1.1.1", "a.b", "0.0.1.1", "1/1/1", "1/1.1", "/1"]
        {
            assert!(bad.parse::<PvcAddress>().is_err(), "{bad}");
            assert!(bad.parse::<CircuitId>().is_err(), "{bad}");
        }
        assert!("1.8.35".parse::<CircuitId>().is_err(), "one interface has a name");
    }

    #[test]
    fn each_notation_of_a_label_is_the_same_label() {
        let label = CircuitId::new(8, 35).unwrap();
        for text in ["8.35", "8/35", "0.8.35"] {
            assert_eq!(text.parse(), Ok(label), "{text}");
            assert_eq!(text.parse(), Ok(PvcAddress { itf: 0, circuit: label }), "{text}");
        }
        assert_eq!("2.8/35".parse(), Ok(PvcAddress { itf: 2, circuit: label }));
    }

    proptest! {
        #[test]
        fn a_name_printed_is_the_name_read(vpi in 0u16..4096, vci: u16, itf: u16) {
            let circuit = CircuitId::new(vpi, vci).unwrap();
            prop_assert_eq!(circuit.to_string().parse(), Ok(circuit));
            prop_assert_eq!(CircuitId::from_key(circuit.key()), circuit);
            let pvc = PvcAddress { itf, circuit };
            prop_assert_eq!(pvc.to_string().parse(), Ok(pvc));
        }
    }
}
