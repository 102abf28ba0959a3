//! A virtual adapter as the daemon makes it, and identifiers of stations.

use crate::kinds::Card;
use anyhow::{Result, anyhow};
use std::path::PathBuf;

/// A virtual adapter as the daemon makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Its name in the description.
    pub name: String,
    /// The guest's name in the network.
    pub host: String,
    /// Where a virtual machine attaches.
    pub socket: PathBuf,
    /// The card.
    pub card: Card,
}

/// Six octets of an end system identifier or a MAC address: `02:20:ea:00:00:01`.
///
/// # Errors
/// It is written otherwise.
pub fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let octet = |pair: &str| {
        let digits = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(pair, 16).ok().filter(|_| digits)
    };
    let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
    octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(|| anyhow!("\"{text}\": write six octets in hexadecimal, such as 02:20:ea:00:00:01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_six_octets_in_hexadecimal() {
        assert_eq!(parse_mac("02:20:ea:00:0F:01").unwrap(), [2, 0x20, 0xea, 0, 15, 1]);
        for bad in ["", "02:20:ea:00:00", "02:20:ea:00:00:01:02", "2:20:ea:00:00:01", "02:20:ea:00:00:+1"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }
}
