//! Numbers and subaddresses of parties (Q.2931 sections 4.5.11 to 4.5.14, UNI 4.0 annex 3).

use super::reader::{Octets, Reader, Writer};
use crate::Error;
use crate::aesa::Aesa;

/// Type of number: 0 unknown, 1 international ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeOfNumber(pub u8);

/// Numbering plan: 1 E.164, 2 ATM end system address ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan(pub u8);

impl Plan {
    /// E.164, as IA5 digits.
    pub const E164: Plan = Plan(1);
    /// ATM end system address, 20 octets.
    pub const AESA: Plan = Plan(2);
}

/// A number of at most 20 octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    /// Type of number.
    pub kind: TypeOfNumber,
    /// Numbering plan.
    pub plan: Plan,
    /// The address's octets, or digits in IA5.
    pub octets: Octets<20>,
}

impl Number {
    /// An ATM end system address.
    pub fn aesa(address: Aesa) -> Self {
        let octets = Octets::new(&address.0).unwrap_or_default();
        Number { kind: TypeOfNumber(0), plan: Plan::AESA, octets }
    }

    /// An international E.164 number of 1 to 15 digits.
    pub fn e164(digits: &str) -> Option<Self> {
        let good = (1..=15).contains(&digits.len()) && digits.bytes().all(|d| d.is_ascii_digit());
        let octets = Octets::new(digits.as_bytes()).filter(|_| good)?;
        Some(Number { kind: TypeOfNumber(1), plan: Plan::E164, octets })
    }

    /// The ATM end system address, if it is one; of a native number, that in which it is embedded.
    pub fn as_aesa(&self) -> Option<Aesa> {
        match self.plan {
            Plan::AESA => self.octets.get().try_into().ok().map(Aesa),
            Plan::E164 => core::str::from_utf8(self.octets.get()).ok().and_then(Aesa::from_e164),
            _ => None,
        }
    }

    fn of(r: &mut Reader<'_>, head: u8) -> Result<Self, Error> {
        let rest = r.rest();
        let octets = Octets::new(rest).ok_or_else(|| r.bad("number length", rest.len() as u64))?;
        let number = Number { kind: TypeOfNumber(head >> 4 & 7), plan: Plan(head & 0xf), octets };
        let good = match number.plan {
            Plan::AESA => rest.len() == 20,
            Plan::E164 => rest.iter().all(u8::is_ascii_digit),
            _ => true,
        };
        if good { Ok(number) } else { Err(r.bad("number", rest.len() as u64)) }
    }

    const fn head(&self) -> u8 {
        (self.kind.0 & 7) << 4 | self.plan.0 & 0xf
    }

    /// Called party number.
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("called party number", octets);
        let head = r.u8()?;
        if head & 0x80 == 0 {
            return Err(r.bad("type of number", head));
        }
        let number = Self::of(&mut r, head)?;
        if number.octets.get().is_empty() { Err(r.bad("number length", 0u8)) } else { Ok(number) }
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.u8(0x80 | self.head());
        w.put(self.octets.get());
    }
}

/// A calling or connected party number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Party {
    /// The number; without octets where it may not be shown.
    pub number: Number,
    /// Presentation (0 allowed, 1 restricted, 2 not available) and screening (0 user's, 1 verified and passed, 2
    /// verified and failed, 3 the network's).
    pub indicators: Option<(u8, u8)>,
}

impl Party {
    /// An address that may be shown, as the user gives it.
    pub fn aesa(address: Aesa) -> Self {
        Party { number: Number::aesa(address), indicators: None }
    }

    /// Whether a network has checked the number, or given it.
    pub const fn is_checked(&self) -> bool {
        matches!(self.indicators, Some((_, 1 | 3)))
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("calling or connected party number", octets);
        let head = r.u8()?;
        let indicators = if head & 0x80 != 0 {
            None
        } else {
            let octet = r.u8()?;
            if octet & 0x80 == 0 {
                return Err(r.bad("presentation indicator", octet));
            }
            Some((octet >> 5 & 3, octet & 3))
        };
        // Without a number, where it is withheld, the plan promises nothing.
        let number = if r.is_empty() {
            Number { kind: TypeOfNumber(head >> 4 & 7), plan: Plan(head & 0xf), octets: Octets::default() }
        } else {
            Number::of(&mut r, head)?
        };
        Ok(Party { number, indicators })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        match self.indicators {
            None => w.u8(0x80 | self.number.head()),
            Some((presentation, screening)) => {
                w.put(&[self.number.head(), 0x80 | (presentation & 3) << 5 | screening & 3]);
            }
        }
        w.put(self.number.octets.get());
    }
}

/// A called, calling or connected party subaddress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subaddress {
    /// Type: 0 NSAP, 1 ATM end system address, 2 the user's.
    pub kind: u8,
    /// An odd number of digits.
    pub odd: bool,
    /// The subaddress.
    pub octets: Octets<20>,
}

impl Subaddress {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("party subaddress", octets);
        let head = r.u8()?;
        if head & 0x80 == 0 {
            return Err(r.bad("type of subaddress", head));
        }
        let rest = r.rest();
        let octets = Octets::new(rest).ok_or_else(|| r.bad("length", rest.len() as u64))?;
        Ok(Subaddress { kind: head >> 4 & 7, odd: head & 8 != 0, octets })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.u8(0x80 | (self.kind & 7) << 4 | u8::from(self.odd) << 3);
        w.put(self.octets.get());
    }
}
