//! The adapter's RAM: words in network order, and rings of words in it.
//!
//! A word read by the host is a number; the octets of a PDU lie in it first octet highest. So the RAM is kept as octets,
//! and cells and DMA are copied as they are.

use super::registers::{RAM_WINDOW, words};
use wire::cell::PAYLOAD_OCTETS;

/// The RAM.
#[derive(Debug, Clone)]
pub struct Ram {
    octets: Box<[u8]>,
}

impl Ram {
    /// `octets` of RAM, at most the window.
    pub fn new(octets: usize) -> Self {
        Ram { octets: vec![0; octets.min(RAM_WINDOW as usize)].into() }
    }

    /// Zeroes it.
    pub fn clear(&mut self) {
        self.octets.fill(0);
    }

    /// The word at octet offset `at`; ones where there is no RAM.
    pub fn word(&self, at: u32) -> u32 {
        match self.octets.get(at as usize..).and_then(|rest| rest.first_chunk()) {
            Some(word) => u32::from_be_bytes(*word),
            None => u32::MAX,
        }
    }

    /// Sets the word at octet offset `at`; nothing where there is no RAM.
    pub fn set_word(&mut self, at: u32, word: u32) {
        if let Some(place) = self.octets.get_mut(at as usize..).and_then(|rest| rest.first_chunk_mut()) {
            *place = word.to_be_bytes();
        }
    }

    /// Sets words from octet offset `at` on, each given lowest octet first; nothing where there is no RAM.
    pub fn set_words(&mut self, at: u32, words: &[u8]) {
        let places = self.octets.get_mut(at as usize..).unwrap_or_default();
        for (place, word) in places.as_chunks_mut::<4>().0.iter_mut().zip(words.as_chunks().0) {
            *place = u32::from_le_bytes(*word).to_be_bytes();
        }
    }

    /// The ring of a location (in kB) and a size order; `None` unless all of it is RAM.
    pub fn ring(&self, location: u32, order: u32) -> Option<Ring> {
        let ring = Ring { base: (location & 0x7ff) << 10, words: words(order) };
        (ring.base as usize + ring.octets() as usize <= self.octets.len()).then_some(ring)
    }
}

/// A ring of words, a power of two of them, wholly inside the RAM. Positions are taken modulo its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    base: u32,
    words: u32,
}

impl Ring {
    /// How many octets.
    pub const fn octets(self) -> u32 {
        self.words * 4
    }

    /// A word position on the ring.
    pub const fn wrap(self, position: u32) -> u32 {
        position & (self.words - 1)
    }

    /// Words from `from` forward to `to`.
    pub const fn distance(self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & (self.words - 1)
    }

    /// The word at a position.
    pub fn word(self, ram: &Ram, position: u32) -> u32 {
        ram.word(self.base + 4 * self.wrap(position))
    }

    /// Sets the word at a position.
    pub fn set_word(self, ram: &mut Ram, position: u32, word: u32) {
        ram.set_word(self.base + 4 * self.wrap(position), word);
    }

    /// The octets from octet position `at` on, as many as lie side by side, `most` at most.
    pub fn side_by_side(self, ram: &mut Ram, at: u32, most: u32) -> &mut [u8] {
        let at = at & (self.octets() - 1);
        let from = (self.base + at) as usize;
        &mut ram.octets[from..from + most.min(self.octets() - at) as usize]
    }

    /// So many octets from octet position `at` on, as they lie: those up to the ring's end, and those at its start. Never
    /// more than a ring.
    #[inline]
    pub fn parts(self, ram: &Ram, at: u32, octets: u32) -> [&[u8]; 2] {
        let at = (at & (self.octets() - 1)) as usize;
        let octets = octets.min(self.octets()) as usize;
        let ring = &ram.octets[self.base as usize..(self.base + self.octets()) as usize];
        let first = octets.min(ring.len() - at);
        [&ring[at..at + first], &ring[..octets - first]]
    }

    /// Copies octets out, from octet position `at` on.
    pub fn read(self, ram: &Ram, at: u32, out: &mut [u8]) {
        let at = at & (self.octets() - 1);
        let ring = &ram.octets[self.base as usize..(self.base + self.octets()) as usize];
        let first = out.len().min(ring.len() - at as usize);
        let (head, tail) = out.split_at_mut(first);
        head.copy_from_slice(&ring[at as usize..at as usize + first]);
        // No caller reads more than a ring: the smallest is 1 kB, and a cell 48 octets.
        tail.copy_from_slice(&ring[..tail.len()]);
    }

    /// Copies a cell's payload out; where it lies side by side, which is nearly always, by a copy of fixed length.
    #[inline]
    pub fn read_cell(self, ram: &Ram, at: u32, out: &mut [u8; PAYLOAD_OCTETS]) {
        let at = at & (self.octets() - 1);
        let from = (self.base + at) as usize;
        match ram.octets.get(from..).and_then(|rest| rest.first_chunk()) {
            Some(payload) if at + PAYLOAD_OCTETS as u32 <= self.octets() => *out = *payload,
            _ => self.read(ram, at, out),
        }
    }

    /// Copies a cell's payload in, as [`Ring::read_cell`] copies it out.
    #[inline]
    pub fn write_cell(self, ram: &mut Ram, at: u32, payload: &[u8; PAYLOAD_OCTETS]) {
        let at = at & (self.octets() - 1);
        let from = (self.base + at) as usize;
        match ram.octets.get_mut(from..).and_then(|rest| rest.first_chunk_mut()) {
            Some(place) if at + PAYLOAD_OCTETS as u32 <= self.octets() => *place = *payload,
            _ => self.write(ram, at, payload),
        }
    }

    /// Copies octets in, from octet position `at` on.
    pub fn write(self, ram: &mut Ram, at: u32, octets: &[u8]) {
        let at = at & (self.octets() - 1);
        let ring = &mut ram.octets[self.base as usize..(self.base + self.octets()) as usize];
        let first = octets.len().min(ring.len() - at as usize);
        ring[at as usize..at as usize + first].copy_from_slice(&octets[..first]);
        ring[..octets.len() - first].copy_from_slice(&octets[first..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_round_the_end_of_a_ring_is_read_back(at: u32, octets in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut ram = Ram::new(8192);
            let ring = ram.ring(4, 1).unwrap();
            ring.write(&mut ram, at, &octets);
            let mut back = vec![0; octets.len()];
            ring.read(&ram, at, &mut back);
            prop_assert_eq!(&back, &octets);
            let payload: [u8; PAYLOAD_OCTETS] = core::array::from_fn(|i| i as u8 ^ at as u8);
            let mut copy = [0; PAYLOAD_OCTETS];
            let before = ram.octets.clone();
            ring.write_cell(&mut ram, at, &payload);
            ring.read_cell(&ram, at, &mut copy);
            prop_assert_eq!(copy, payload);
            ring.read(&ram, at, &mut copy);
            prop_assert_eq!(copy, payload);
            ram.octets = before;
            prop_assert_eq!(ring.parts(&ram, at, octets.len() as u32).concat(), octets.clone());
            prop_assert_eq!(ring.parts(&ram, at, u32::MAX).concat().len(), 2048);
            let first = ring.side_by_side(&mut ram, at, octets.len() as u32).to_vec();
            prop_assert!(octets.starts_with(&first));
            prop_assert!(ram.octets[..4096].iter().chain(&ram.octets[6144..]).all(|octet| *octet == 0));
        }
    }

    #[test]
    fn a_ring_that_is_not_all_ram_is_none() {
        let ram = Ram::new(512 << 10);
        assert!(ram.ring(511, 0).is_some());
        for (location, order) in [(511, 1), (512, 0), (2047, 7), (505, 3)] {
            assert_eq!(ram.ring(location, order), None);
        }
        assert_eq!(ram.word(512 << 10), u32::MAX);
    }
}
