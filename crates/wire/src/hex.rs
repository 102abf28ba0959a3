//! Vectors in tests: octets written as hexadecimal digits, with blanks where they help.

use std::vec::Vec;

/// The octets that `text` writes.
pub(crate) fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let (pairs, []) = digits.as_chunks::<2>() else { panic!("{text}: a digit too many") };
    pairs.iter().map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
