//! What happened on all links, as one number: same seed, same trace, to the octet.

/// Odd, with about as many ones as zeros: the golden ratio's and the square root of two's first 64 bits.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xb504_f333_f9de_6485];

/// Both halves of the product, so that every bit of `a` and `b` reaches all of the result.
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A running hash (of 64 bits, sixteen octets a step) over moments, links and octets. It is to tell apart what differs by
/// accident, not what somebody has made alike on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    pub(crate) events: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { hash: FACTORS[1], events: 0 }
    }
}

impl Trace {
    pub(crate) fn mix(&mut self, word: u64) {
        self.hash = fold(self.hash ^ word, FACTORS[0]);
    }

    /// Adds octets.
    pub fn add(&mut self, octets: &[u8]) {
        let (sixteens, rest) = octets.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let mut sum = octets.len() as u64;
        // The products do not wait for each other; their order is in the rotation.
        for sixteen in sixteens.iter().chain((!rest.is_empty()).then_some(&last)) {
            let both = u128::from_be_bytes(*sixteen);
            sum = sum.rotate_left(5).wrapping_add(fold(both as u64 ^ FACTORS[0], (both >> 64) as u64 ^ FACTORS[1]));
        }
        self.mix(sum);
    }

    /// The number.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Cells and frames in it.
    pub fn events(&self) -> u64 {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_bit_an_exchange_or_another_length_gives_another_trace() {
        let of = |octets: &[u8]| {
            let mut trace = Trace::default();
            trace.add(octets);
            trace.hash()
        };
        let octets: Vec<u8> = (0..75).map(|i| i * 3).collect();
        let mut all = vec![of(&octets), of(&octets[..74]), of(&[]), of(&[0]), of(&[0, 0])];
        for bit in 0..8 * octets.len() {
            let mut changed = octets.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            all.push(of(&changed));
        }
        for at in 0..59 {
            let mut changed = octets.clone();
            changed.swap(at, at + 16);
            all.push(of(&changed));
        }
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
    }
}
