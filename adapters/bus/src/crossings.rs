//! What crosses a host's memory bus, counted where it crosses: each octet that the processor or a device reads from main
//! memory or writes there.
//!
//! In: who moved how many octets, and which way. Out: sums, and how often each octet of an SDU crossed. Caches are left
//! out, as network data have little locality (Kazantzidis 1997, section 1): what a program touches crosses.

use core::ops::Sub;

/// Why octets crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crosser {
    /// A process composes what it sends, or uses what it received.
    Application,
    /// The processor copies, in the kernel.
    Copy,
    /// The processor computes a checksum, in a pass of its own.
    Checksum,
    /// A device is the bus master.
    Dma,
}

impl Crosser {
    /// All, in the order of their counters.
    pub const ALL: [Crosser; 4] = [Crosser::Application, Crosser::Copy, Crosser::Checksum, Crosser::Dma];
}

/// Octets that crossed, by who moved them: read from memory, written to it. They wrap after 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crossings {
    read: [u64; 4],
    written: [u64; 4],
}

impl Crossings {
    /// Counts octets read from memory.
    pub fn note_read(&mut self, by: Crosser, octets: usize) {
        let counter = &mut self.read[by as usize];
        *counter = counter.wrapping_add(octets as u64);
    }

    /// Counts octets written to memory.
    pub fn note_written(&mut self, by: Crosser, octets: usize) {
        let counter = &mut self.written[by as usize];
        *counter = counter.wrapping_add(octets as u64);
    }

    /// Octets read from memory.
    pub fn read(&self, by: Crosser) -> u64 {
        self.read[by as usize]
    }

    /// Octets written to memory.
    pub fn written(&self, by: Crosser) -> u64 {
        self.written[by as usize]
    }

    /// All octets, both ways.
    pub fn total(&self) -> u64 {
        self.read.iter().chain(&self.written).fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// How often each octet of `octets` crossed; a fraction, where only part of them did.
    pub fn per_octet(&self, octets: u64) -> f64 {
        self.total() as f64 / octets.max(1) as f64
    }
}

/// What crossed since an earlier moment.
impl Sub for Crossings {
    type Output = Crossings;

    fn sub(self, earlier: Crossings) -> Crossings {
        let since = |now: [u64; 4], then: [u64; 4]| core::array::from_fn(|n| now[n].wrapping_sub(then[n]));
        Crossings { read: since(self.read, earlier.read), written: since(self.written, earlier.written) }
    }
}

/// The Internet checksum (RFC 1071): a ones' complement sum of big-endian words. Pieces but the last have even lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InternetSum(u16);

impl InternetSum {
    /// A sum to go on from, such as a pseudo header's.
    pub const fn from_value(sum: u16) -> Self {
        InternetSum(sum)
    }

    /// Adds octets.
    pub fn add(&mut self, octets: &[u8]) {
        let words = octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
        let mut sum = u64::from(self.0) + words.sum::<u64>();
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        self.0 = sum as u16;
    }

    /// The sum. Of data with a valid checksum and its pseudo header it is `0xffff`.
    pub const fn value(self) -> u16 {
        self.0
    }

    /// The checksum: what makes the sum of all `0xffff`.
    pub const fn checksum(self) -> u16 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_in_one_piece_and_in_several() {
        let octets = [0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7];
        let mut whole = InternetSum::default();
        whole.add(&octets);
        let mut pieces = InternetSum::default();
        octets.chunks(2).for_each(|piece| pieces.add(piece));
        assert_eq!((whole.value(), pieces.value()), (0xddf2, 0xddf2));
        whole.add(&whole.checksum().to_be_bytes());
        assert_eq!(whole.value(), 0xffff);
        let mut odd = InternetSum::from_value(0xff00);
        odd.add(&[1]);
        assert_eq!(odd.value(), 1, "an odd octet is a word's first");
    }

    #[test]
    fn each_crossing_is_counted_for_who_made_it() {
        let mut crossings = Crossings::default();
        crossings.note_read(Crosser::Copy, 100);
        let before = crossings;
        crossings.note_written(Crosser::Copy, 100);
        crossings.note_read(Crosser::Dma, 150);
        let since = crossings - before;
        let counts = |by| (since.read(by), since.written(by));
        assert_eq!(Crosser::ALL.map(counts), [(0, 0), (0, 100), (0, 0), (150, 0)]);
        assert_eq!((since.total(), since.per_octet(100), crossings.total()), (250, 2.5, 350));
    }
}
