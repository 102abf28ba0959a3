//! What ttcp sends, and what it expects of what comes.

use super::Transport;
use std::borrow::Cow;

/// Octets of an SDU's number at its beginning, where SDUs are checked.
const NUMBER_OCTETS: usize = 8;
/// Printable characters, which the pattern goes through.
const CHARACTERS: usize = 95;

/// What all PDUs hold, from a character on that is the `turn`th.
fn turned(length: usize, turn: usize) -> Vec<u8> {
    (0..length).map(|i| b' ' + ((i + turn) % CHARACTERS) as u8).collect()
}

/// What all PDUs hold that are not checked.
pub fn pattern(length: usize) -> Vec<u8> {
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
pub struct Sdus {
    plain: Vec<u8>,
    check: bool,
    number: u64,
    framed: Option<Vec<u8>>,
}

impl Sdus {
    pub(super) fn new(length: usize, check: bool) -> Self {
        Sdus { plain: pattern(length), check, number: 0, framed: None }
    }

    /// The data of the next SDU, if each has others.
    pub fn numbered(&self) -> Option<Vec<u8>> {
        self.check.then(|| numbered(self.plain.len(), self.number))
    }

    /// The next PDU.
    pub fn pdu(&mut self, transport: &(impl Transport + ?Sized)) -> &[u8] {
        if self.framed.is_none() {
            let data = self.numbered().map_or(Cow::Borrowed(&*self.plain), Cow::Owned);
            match transport.frame(&data, Some(self.number + 1)) {
                Cow::Owned(pdu) => self.framed = Some(pdu),
                Cow::Borrowed(_) if !self.check => return &self.plain,
                Cow::Borrowed(_) => self.framed = Some(data.into_owned()),
            }
        }
        self.framed.as_deref().unwrap_or(&self.plain)
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
