//! ATM end system addresses (ATM Forum UNI 4.0 section 3): 20 octets in NSAP form, and prefixes of them.
//!
//! An address is a prefix of 13 octets that the network gives, an end system identifier (ESI) of 6 that the user gives,
//! and a selector of 1 that the network ignores.

use core::fmt;
use core::str::FromStr;

/// Octets of an address.
pub const OCTETS: usize = 20;
/// Octets that the network gives.
pub const PREFIX_OCTETS: usize = 13;
/// Octets that the user gives.
pub const ESI_OCTETS: usize = 6;

/// Authority and format of E.164 numbers.
const AFI_E164: u8 = 0x45;

/// Why a text is not an address or a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AesaError {
    /// Something other than hexadecimal digits, dots and colons.
    #[error("expected hexadecimal digits, with dots or colons between octets")]
    Digit,
    /// An address has 40 digits.
    #[error("{0} hexadecimal digits, expected 40")]
    Length(usize),
    /// A prefix has whole octets, or `/bits` after it.
    #[error("expected up to 40 hexadecimal digits, and `/bits` with up to four times as many bits")]
    Prefix,
}

/// An ATM end system address. Written as 40 hexadecimal digits with dots:
/// `47.000580ffde00000000000001.020000000001.00`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Aesa(pub [u8; OCTETS]);

impl Aesa {
    /// The address of a prefix, an end system identifier and a selector.
    pub fn new(prefix: [u8; PREFIX_OCTETS], esi: [u8; ESI_OCTETS], selector: u8) -> Self {
        let mut octets = [0; OCTETS];
        octets[..PREFIX_OCTETS].copy_from_slice(&prefix);
        octets[PREFIX_OCTETS..OCTETS - 1].copy_from_slice(&esi);
        octets[OCTETS - 1] = selector;
        Aesa(octets)
    }

    /// The address of a native E.164 number of 1 to 15 digits (ATM Forum, UNI 4.0 section 3): AFI 45, the digits with
    /// zeros before them to fifteen and F behind, and zeros.
    pub fn from_e164(digits: &str) -> Option<Self> {
        let good = (1..=15).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        let mut octets = [0; OCTETS];
        octets[0] = AFI_E164;
        octets[8] = 0x0f;
        let first = 15usize.checked_sub(digits.len()).filter(|_| good)?;
        for (nth, digit) in digits.bytes().enumerate() {
            let (at, value) = (first + nth, digit - b'0');
            octets[1 + at / 2] |= if at % 2 == 0 { value << 4 } else { value };
        }
        Some(Aesa(octets))
    }

    /// The network's part.
    pub fn prefix(&self) -> [u8; PREFIX_OCTETS] {
        core::array::from_fn(|i| self.0[i])
    }

    /// The user's part.
    pub fn esi(&self) -> [u8; ESI_OCTETS] {
        core::array::from_fn(|i| self.0[PREFIX_OCTETS + i])
    }

    /// The last octet.
    pub const fn selector(&self) -> u8 {
        self.0[OCTETS - 1]
    }

    /// The address without regard to the selector: what a network routes by.
    #[must_use]
    pub const fn without_selector(mut self) -> Self {
        self.0[OCTETS - 1] = 0;
        self
    }

    /// Whether it names a group: the AFIs of groups have bit 8 set where those of end systems do not.
    pub const fn is_group(&self) -> bool {
        matches!(self.0[0], 0xbd | 0xc5 | 0xc3 | 0xc7)
    }
}

impl fmt::Display for Aesa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, octet) in self.0.iter().enumerate() {
            if matches!(i, 1 | PREFIX_OCTETS | 19) {
                f.write_str(".")?;
            }
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Aesa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hexadecimal digits of `s` into `octets`; how many digits there were. Dots and colons are passed over.
fn digits(s: &str, octets: &mut [u8; OCTETS]) -> Result<usize, AesaError> {
    let mut n = 0;
    for c in s.chars().filter(|c| !matches!(c, '.' | ':')) {
        let digit = c.to_digit(16).ok_or(AesaError::Digit)? as u8;
        if let Some(octet) = octets.get_mut(n / 2) {
            *octet |= if n % 2 == 0 { digit << 4 } else { digit };
        }
        n += 1;
    }
    Ok(n)
}

impl FromStr for Aesa {
    type Err = AesaError;
    fn from_str(s: &str) -> Result<Self, AesaError> {
        let mut octets = [0; OCTETS];
        match digits(s, &mut octets)? {
            40 => Ok(Aesa(octets)),
            n => Err(AesaError::Length(n)),
        }
    }
}

/// The first bits of addresses: what a route or a rule is for. Written as digits, with `/bits` where bits are not all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Prefix {
    octets: [u8; OCTETS],
    bits: u8,
}

impl Prefix {
    /// The prefix of all addresses.
    pub const ALL: Prefix = Prefix { octets: [0; OCTETS], bits: 0 };

    /// The first `bits` bits of `address`; at most 160.
    pub fn new(address: Aesa, bits: u8) -> Self {
        let bits = bits.min(160);
        let mut octets = address.0;
        for (i, octet) in octets.iter_mut().enumerate() {
            let kept = usize::from(bits).saturating_sub(i * 8).min(8);
            *octet &= !(0xffu16 >> kept) as u8;
        }
        Prefix { octets, bits }
    }

    /// How many bits it has: the longest match wins.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether `address` begins with it.
    pub fn matches(&self, address: &Aesa) -> bool {
        Prefix::new(*address, self.bits).octets == self.octets
    }

    /// Its octets, zero beyond its bits.
    pub const fn octets(&self) -> &[u8; OCTETS] {
        &self.octets
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for octet in &self.octets[..usize::from(self.bits).div_ceil(8)] {
            write!(f, "{octet:02x}")?;
        }
        if self.bits.is_multiple_of(8) && self.bits > 0 { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = AesaError;
    fn from_str(s: &str) -> Result<Self, AesaError> {
        let (text, bits) = match s.split_once('/') {
            Some((text, bits)) => (text, Some(bits.parse::<u8>().map_err(|_| AesaError::Prefix)?)),
            None => (s, None),
        };
        let mut octets = [0; OCTETS];
        let n = digits(text, &mut octets)?;
        let most = 4 * n;
        let bits = bits.map_or(most, usize::from);
        if n > 40 || n % 2 == 1 || bits > most {
            return Err(AesaError::Prefix);
        }
        Ok(Prefix::new(Aesa(octets), bits as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    #[test]
    fn addresses_are_read_with_and_without_dots() {
        let a: Aesa = "47000580ffde0000000000000102000000000100".parse().unwrap();
        assert_eq!(a, "47.0005.80ff.de00.0000.0000.0001:020000000001:00".parse().unwrap());
        assert_eq!(a.to_string(), "47.000580ffde00000000000001.020000000001.00");
        assert_eq!((a.esi(), a.selector()), ([2, 0, 0, 0, 0, 1], 0));
        assert_eq!("47".parse::<Aesa>(), Err(AesaError::Length(2)));
        assert_eq!("4g".parse::<Aesa>(), Err(AesaError::Digit));
    }

    #[test]
    fn a_native_number_has_an_address() {
        let address = |digits: &str| Aesa::from_e164(digits).map(|address| address.to_string());
        assert_eq!(address("15551234567").as_deref(), Some("45.000015551234567f00000000.000000000000.00"));
        assert_eq!(address("999999999999999").as_deref(), Some("45.999999999999999f00000000.000000000000.00"));
        assert_eq!((address(""), address("1234567890123456"), address("12a")), (None, None, None));
    }

    #[test]
    fn a_prefix_holds_bits_not_only_octets() {
        let p: Prefix = "47.0005.80f0/36".parse().unwrap();
        assert_eq!((p.bits(), p.to_string()), (36, "47000580f0/36".to_string()));
        let address =
            |text: &str| Aesa::new(text.parse::<Prefix>().unwrap().octets()[..13].try_into().unwrap(), [0; 6], 0);
        assert!(p.matches(&address("47000580ff")));
        assert!(!p.matches(&address("47000580ef")));
        assert!("4700058".parse::<Prefix>().is_err(), "half an octet is no prefix");
        assert!("47000580/33".parse::<Prefix>().is_err());
        assert!(Prefix::ALL.matches(&Aesa::default()));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(octets: [u8; 20], bits in 0u8..=160) {
            let a = Aesa(octets);
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            let p = Prefix::new(a, bits);
            prop_assert!(p.matches(&a));
            prop_assert_eq!(p.to_string().parse(), Ok(p));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Aesa>();
            let _ = text.parse::<Prefix>();
        }
    }
}
