//! What ttcp sends, and what it expects of what comes.

use super::{PORT, Ttcp};
use remap::layers::udp_pdu;
use std::borrow::Cow;

/// Octets of an SDU's number at its beginning, where SDUs are checked.
const NUMBER_OCTETS: usize = 8;
/// Octets of the options that a datagram has where it has some.
const OPTION_OCTETS: usize = 8;
/// Printable characters, which the pattern goes through.
const CHARACTERS: usize = 95;

/// What all PDUs hold, from a character on that is the `turn`th.
fn turned(length: usize, turn: usize) -> Vec<u8> {
    (0..length).map(|i| b' ' + ((i + turn) % CHARACTERS) as u8).collect()
}

/// What all PDUs hold that are not checked.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    turned(length, 0)
}

/// An SDU by its number: no two that follow each other have an octet in common but some of the number.
fn numbered(length: usize, number: u64) -> Vec<u8> {
    let mut sdu = turned(length, (number % CHARACTERS as u64) as usize);
    sdu[..NUMBER_OCTETS].copy_from_slice(&number.to_be_bytes());
    sdu
}

/// Whether an SDU is as it was sent, by the number that it begins with.
pub(super) fn is_whole(sdu: &[u8], length: usize) -> bool {
    let number = sdu.first_chunk::<NUMBER_OCTETS>().map(|octets| u64::from_be_bytes(*octets));
    sdu.len() == length && number.is_some_and(|number| sdu == numbered(length, number))
}

/// What is sent, one after the other.
#[derive(Debug)]
pub(super) struct Sdus<'a> {
    ttcp: &'a Ttcp,
    plain: Vec<u8>,
    number: u64,
    framed: Option<Vec<u8>>,
}

impl<'a> Sdus<'a> {
    pub(super) fn new(ttcp: &'a Ttcp) -> Self {
        Sdus { ttcp, plain: pattern(ttcp.length as usize), number: 0, framed: None }
    }

    /// A PDU with these data, as the receiver wants it.
    pub(super) fn frame<'d>(&self, data: &'d [u8], options: usize) -> Cow<'d, [u8]> {
        if !self.ttcp.udp {
            return Cow::Borrowed(data);
        }
        let mut pdu = udp_pdu(PORT, options, data);
        pdu.resize(pdu.len() + self.ttcp.padding as usize, 0);
        Cow::Owned(pdu)
    }

    /// The data of the next SDU.
    pub(super) fn data(&self) -> Cow<'_, [u8]> {
        match self.ttcp.check {
            true => Cow::Owned(numbered(self.ttcp.length as usize, self.number)),
            false => Cow::Borrowed(&self.plain),
        }
    }

    /// The next PDU.
    pub(super) fn pdu(&mut self) -> &[u8] {
        if !self.ttcp.udp && !self.ttcp.check {
            return &self.plain;
        }
        let pdu = self.framed.take().unwrap_or_else(|| {
            let number = self.number + 1;
            let has_options = self.ttcp.ip_options.is_some_and(|one_of| number.is_multiple_of(one_of));
            self.frame(&self.data(), if has_options { OPTION_OCTETS } else { 0 }).into_owned()
        });
        self.framed.insert(pdu)
    }

    /// The PDU was taken.
    pub(super) fn taken(&mut self) {
        self.number += 1;
        self.framed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_octet_that_is_not_the_senders_own_is_seen() {
        let sdu = numbered(100, 7);
        assert!(is_whole(&sdu, 100) && !is_whole(&sdu[..99], 100) && !is_whole(&[], 100));
        for at in 0..sdu.len() {
            let mut changed = sdu.clone();
            changed[at] = changed[at].wrapping_add(1);
            assert!(!is_whole(&changed, 100), "octet {at}");
        }
        // A part of the SDU before.
        let mut stale = sdu.clone();
        stale[50..].copy_from_slice(&numbered(100, 6)[50..]);
        assert!(!is_whole(&stale, 100));
    }
}
