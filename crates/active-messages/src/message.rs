//! The octets of a message.
//!
//! | octets | what |
//! |---|---|
//! | 1 | kind in the high four bits, number of words in the low four |
//! | 1 | handler |
//! | 2 | sequence number; of a message without one, the next to be sent |
//! | 2 | the next sequence number that is expected: all before it have come |
//! | 2 | how many requests the receiver of this message may have sent, ever |
//! | 4 each | words |
//! | | payload |
//!
//! Numbers are big-endian and wrap. With four words a message has 24 octets, which one cell of AAL5 carries, and an
//! endpoint's descriptor.

/// Octets before the words.
pub const HEADER_OCTETS: usize = 8;
/// Words of a message at most: as many as the first implementations passed in registers.
pub const MAX_WORDS: usize = 4;
/// Octets before the payload at most.
pub const MAX_HEAD_OCTETS: usize = HEADER_OCTETS + 4 * MAX_WORDS;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Runs a handler, which may reply.
    Request = 1,
    /// Runs a handler, which may not.
    Reply = 2,
    /// Acknowledges and grants; has no number of its own.
    Acknowledge = 3,
    /// The same, and says that something is missing: send from there again.
    Missing = 4,
    /// The same, and asks for an [`Kind::Acknowledge`]: the sender waits for a grant.
    Probe = 5,
    /// A piece of a bulk put: area, offset, transfer, and where the transfer began or `u32::MAX`. A request.
    Put = 6,
    /// All of a put has been stored: transfer. A reply.
    Stored = 7,
    /// Asks for a piece: area, offset, octets, transfer. A request.
    Get = 8,
    /// The piece: transfer. A reply, in the order of the requests.
    Piece = 9,
    /// The area does not allow it: transfer. A reply.
    Refused = 10,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Request,
        Kind::Reply,
        Kind::Acknowledge,
        Kind::Missing,
        Kind::Probe,
        Kind::Put,
        Kind::Stored,
        Kind::Get,
        Kind::Piece,
        Kind::Refused,
    ];

    /// Whether it needs a grant.
    pub const fn is_request(self) -> bool {
        matches!(self, Kind::Request | Kind::Put | Kind::Get)
    }

    /// Whether it has no sequence number of its own.
    pub const fn is_control(self) -> bool {
        matches!(self, Kind::Acknowledge | Kind::Missing | Kind::Probe)
    }

    fn from_bits(bits: u8) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == bits)
    }
}

/// A message that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub handler: u8,
    /// Its number.
    pub sequence: u16,
    /// What its sender expects next.
    pub acknowledged: u16,
    /// Requests that its sender grants.
    pub granted: u16,
    words: [u32; MAX_WORDS],
    count: u8,
    /// Octets behind the words.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads one; `None`, if it is none.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let (&[first, handler, s1, s0, a1, a0, g1, g0], rest) = octets.split_first_chunk::<HEADER_OCTETS>()?;
        let (kind, count) = (Kind::from_bits(first >> 4)?, first & 15);
        if usize::from(count) > MAX_WORDS || rest.len() < 4 * usize::from(count) {
            return None;
        }
        let (head, payload) = rest.split_at(4 * usize::from(count));
        let mut words = [0; MAX_WORDS];
        for (word, octets) in words.iter_mut().zip(head.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*octets);
        }
        let number = |high, low| u16::from_be_bytes([high, low]);
        let (sequence, acknowledged, granted) = (number(s1, s0), number(a1, a0), number(g1, g0));
        Some(Message { kind, handler, sequence, acknowledged, granted, words, count, payload })
    }

    /// Its words.
    pub fn words(&self) -> &[u32] {
        &self.words[..usize::from(self.count)]
    }

    /// Word `n`; zero, if it has not so many.
    pub fn word(&self, n: usize) -> u32 {
        self.words().get(n).copied().unwrap_or(0)
    }
}

/// Puts a message without its three numbers to the end of `out`. Not more than [`MAX_WORDS`] words are taken.
#[inline]
pub(crate) fn emit(out: &mut Vec<u8>, kind: Kind, handler: u8, words: &[u32], payload: [&[u8]; 2]) {
    let words = &words[..words.len().min(MAX_WORDS)];
    out.extend_from_slice(&[(kind as u8) << 4 | words.len() as u8, handler, 0, 0, 0, 0, 0, 0]);
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    payload.iter().for_each(|part| out.extend_from_slice(part));
}

/// Puts the numbers into a message that has been made.
#[inline]
pub(crate) fn put_numbers(octets: &mut [u8], sequence: u16, acknowledged: u16, granted: u16) {
    if let Some(place) = octets.get_mut(2..HEADER_OCTETS) {
        let [s, a, g] = [sequence, acknowledged, granted].map(u16::to_be_bytes);
        place.copy_from_slice(&[s[0], s[1], a[0], a[1], g[0], g[1]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_of_four_words_fits_a_cell_and_an_endpoints_descriptor() {
        const { assert!(MAX_HEAD_OCTETS + wire::aal5::TRAILER_OCTETS <= wire::cell::PAYLOAD_OCTETS) };
        const { assert!(MAX_HEAD_OCTETS <= endpoint::layout::INLINE_OCTETS) };
    }

    proptest! {
        #[test]
        fn what_is_put_is_read(
            kind in 0usize..10, handler: u8, numbers: [u16; 3],
            words in proptest::collection::vec(any::<u32>(), 0..=MAX_WORDS),
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut octets = Vec::new();
            emit(&mut octets, Kind::ALL[kind], handler, &words, [&payload, &[]]);
            put_numbers(&mut octets, numbers[0], numbers[1], numbers[2]);
            let message = Message::parse(&octets).unwrap();
            prop_assert_eq!((message.kind, message.handler), (Kind::ALL[kind], handler));
            prop_assert_eq!([message.sequence, message.acknowledged, message.granted], numbers);
            prop_assert_eq!((message.words(), message.payload), (&words[..], &payload[..]));
            for short in 0..HEADER_OCTETS + 4 * words.len() {
                prop_assert_eq!(Message::parse(&octets[..short]), None);
            }
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(message) = Message::parse(&octets) {
                prop_assert!(message.words().len() <= MAX_WORDS);
            }
        }
    }
}
