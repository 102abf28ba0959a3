//! The heartbeat of the batched form of cells in UDP ([`crate::udp`]), version 2 of that format: a datagram by which
//! each end shows that it lives, and learns whether the other does.
//!
//! | octets | what |
//! |---|---|
//! | 0..2 | `CW` |
//! | 2 | version, 2 |
//! | 3 | number of cells, 0 |
//! | 4..8 | number of this run of the sender: another one after a restart |
//! | 8..10 | milliseconds to the next heartbeat, at least 1 |
//! | 10 | bit 0: the link may pass data at the sender; bit 1: the sender hears the receiver; others 0 |
//! | 11 | 0 |
//!
//! Batches of cells stay as version 1 has them. A peer that speaks only version 1 drops heartbeats as malformed and sends
//! none, so that an end that hears none knows the version of its peer. Longer heartbeats of a later version are read as
//! far as this version knows them.

use crate::Error;

/// The version that has heartbeats.
pub const VERSION: u8 = 2;
/// Octets of a heartbeat.
pub const OCTETS: usize = 12;

const WHAT: &str = "heartbeat";
const SIGNAL: u8 = 1;
const HEARS: u8 = 2;

/// A heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Of this run of the sender.
    pub run: u32,
    /// Milliseconds to the next one.
    pub interval_ms: u16,
    /// The link may pass data at the sender: it has not been taken down there.
    pub signal: bool,
    /// The sender hears the receiver.
    pub hears: bool,
}

impl Heartbeat {
    /// Whether a datagram is of this kind, whatever its version: a batch without cells.
    pub fn is_one(datagram: &[u8]) -> bool {
        matches!(datagram, [b'C', b'W', version, 0, ..] if *version >= VERSION)
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// It is none, or its fields contradict the format.
    pub fn parse(datagram: &[u8]) -> Result<Self, Error> {
        let Some((head, _)) = datagram.split_first_chunk::<OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: OCTETS, got: datagram.len() });
        };
        let [c, w, version, cells, r3, r2, r1, r0, i1, i0, flags, _] = *head;
        let field = |field, value| Err(Error::Field { what: WHAT, field, value });
        if [c, w] != *b"CW" {
            return field("mark", u16::from_be_bytes([c, w]).into());
        }
        if version < VERSION {
            return field("version", version.into());
        }
        if cells != 0 {
            return field("number of cells", cells.into());
        }
        let interval_ms = u16::from_be_bytes([i1, i0]);
        if interval_ms == 0 {
            return field("interval", 0);
        }
        let run = u32::from_be_bytes([r3, r2, r1, r0]);
        Ok(Heartbeat { run, interval_ms, signal: flags & SIGNAL != 0, hears: flags & HEARS != 0 })
    }

    /// Writes it.
    pub fn emit(&self) -> [u8; OCTETS] {
        let [r3, r2, r1, r0] = self.run.to_be_bytes();
        let [i1, i0] = self.interval_ms.to_be_bytes();
        let flags = if self.signal { SIGNAL } else { 0 } | if self.hears { HEARS } else { 0 };
        [b'C', b'W', VERSION, 0, r3, r2, r1, r0, i1, i0, flags, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Batch;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn a_heartbeat_sent_is_the_heartbeat_received(run: u32, interval_ms in 1u16.., signal: bool, hears: bool) {
            let sent = Heartbeat { run, interval_ms, signal, hears };
            let octets = sent.emit();
            prop_assert!(Heartbeat::is_one(&octets));
            prop_assert_eq!(Heartbeat::parse(&octets), Ok(sent));
            prop_assert!(Heartbeat::parse(&octets[..OCTETS - 1]).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = Heartbeat::parse(&octets);
            prop_assert!(!(Heartbeat::is_one(&octets) && Batch::new_checked(&octets).is_ok()));
        }
    }

    #[test]
    fn the_version_before_takes_no_heartbeat_for_cells() {
        let octets = Heartbeat { run: 7, interval_ms: 400, signal: true, hears: false }.emit();
        assert!(Batch::new_checked(&octets).is_err());
        assert_eq!(octets, [b'C', b'W', 2, 0, 0, 0, 0, 7, 1, 0x90, 1, 0]);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let mut octets = [0; OCTETS + 4];
        octets[..OCTETS].copy_from_slice(&Heartbeat { run: 1, interval_ms: 1, signal: true, hears: true }.emit());
        octets[2] = 3;
        assert!(Heartbeat::is_one(&octets) && Heartbeat::parse(&octets).is_ok_and(|h| h.signal && h.hears));
        octets[2] = 1;
        assert!(!Heartbeat::is_one(&octets) && Heartbeat::parse(&octets).is_err());
    }
}
