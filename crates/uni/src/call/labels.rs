//! The labels of a port: which VCIs of one virtual path are in use.

/// A range of VCIs on one virtual path, a bit for each.
#[derive(Debug)]
pub struct Labels {
    vpci: u16,
    first: u16,
    last: u16,
    used: Vec<u64>,
    next: usize,
    in_use: usize,
}

impl Labels {
    /// VCIs `first` to `last`, both included, of `vpci`.
    pub fn new(vpci: u16, first: u16, last: u16) -> Self {
        let last = last.max(first);
        let count = usize::from(last - first) + 1;
        let mut used = vec![0u64; count.div_ceil(64)];
        // The bits beyond the range are taken for good.
        if let Some(end) = used.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *end = !0 << (count % 64);
        }
        Labels { vpci, first, last, used, next: 0, in_use: 0 }
    }

    /// The path.
    pub const fn vpci(&self) -> u16 {
        self.vpci
    }

    /// How many are in use.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// The next free VCI, from where the last was found: one that was just released rests for as long as possible.
    pub fn take_any(&mut self) -> Option<u16> {
        let words = self.used.len();
        for i in 0..=words {
            let word = (self.next + i) % words;
            let free = !self.used[word];
            if free != 0 {
                let bit = free.trailing_zeros();
                self.used[word] |= 1 << bit;
                self.next = word;
                self.in_use += 1;
                return Some(self.first + (word * 64) as u16 + bit as u16);
            }
        }
        None
    }

    /// Takes this VCI; false if it is in use or not of this range.
    pub fn take(&mut self, vpci: u16, vci: u16) -> bool {
        if vpci != self.vpci || !(self.first..=self.last).contains(&vci) {
            return false;
        }
        let at = usize::from(vci - self.first);
        let (word, bit) = (at / 64, 1 << (at % 64));
        let free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        self.in_use += usize::from(free);
        free
    }

    /// Gives a VCI back.
    pub fn release(&mut self, vci: u16) {
        if (self.first..=self.last).contains(&vci) {
            let at = usize::from(vci - self.first);
            let (word, bit) = (at / 64, 1 << (at % 64));
            self.in_use -= usize::from(self.used[word] & bit != 0);
            self.used[word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_label_is_given_once_and_again_when_it_is_back() {
        for last in [32, 40, 95, 96, 200] {
            let mut labels = Labels::new(0, 32, last);
            let all: BTreeSet<u16> = std::iter::from_fn(|| labels.take_any()).collect();
            assert_eq!(all, (32..=last).collect());
            assert_eq!(labels.in_use(), all.len());
            labels.release(32);
            labels.release(32);
            assert_eq!((labels.take_any(), labels.take_any()), (Some(32), None));
        }
    }

    #[test]
    fn a_label_that_is_asked_for_must_be_free_and_of_the_range() {
        let mut labels = Labels::new(1, 32, 63);
        assert!(labels.take(1, 40));
        assert!(!labels.take(1, 40) && !labels.take(0, 41) && !labels.take(1, 31) && !labels.take(1, 64));
    }
}
