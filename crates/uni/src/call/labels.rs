//! The labels of a port: which VCIs of one virtual path are in use, and by which calls.

use super::CallId;

/// A call in four octets: its reference, and in the highest bit whether this side chose it.
#[derive(Debug, Clone, Copy)]
struct Owner(u32);

impl Owner {
    const OURS: u32 = 1 << 31;

    const fn of(call: CallId) -> Self {
        Owner(if call.ours { call.value | Self::OURS } else { call.value })
    }

    const fn call(self) -> CallId {
        CallId { value: self.0 & !Self::OURS, ours: self.0 & Self::OURS != 0 }
    }
}

/// A range of VCIs on one virtual path, a bit for each.
#[derive(Debug)]
pub struct Labels {
    vpci: u16,
    first: u16,
    last: u16,
    used: Vec<u64>,
    /// Whose each label is, or was last, a page for each word of `used`.
    owners: Vec<Option<Box<[Owner; 64]>>>,
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
        let owners = vec![None; used.len()];
        Labels { vpci, first, last, used, owners, next: 0, in_use: 0 }
    }

    /// The path.
    pub const fn vpci(&self) -> u16 {
        self.vpci
    }

    /// How many are in use.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// The next free VCI for a call, from where the last was found: one that was just released rests for as long as
    /// possible.
    pub fn take_any(&mut self, call: CallId) -> Option<u16> {
        let words = self.used.len();
        for i in 0..=words {
            let word = (self.next + i) % words;
            let free = !self.used[word];
            if free != 0 {
                let bit = free.trailing_zeros();
                self.used[word] |= 1 << bit;
                self.next = word;
                self.in_use += 1;
                self.note_owner(word, bit as usize, call);
                return Some(self.first + (word * 64) as u16 + bit as u16);
            }
        }
        None
    }

    fn note_owner(&mut self, word: usize, bit: usize, call: CallId) {
        self.owners[word].get_or_insert_with(|| Box::new([Owner::of(call); 64]))[bit] = Owner::of(call);
    }

    /// The call that has this VCI.
    pub fn owner(&self, vpci: u16, vci: u16) -> Option<CallId> {
        if vpci != self.vpci || !(self.first..=self.last).contains(&vci) {
            return None;
        }
        let at = usize::from(vci - self.first);
        let in_use = self.used[at / 64] & 1 << (at % 64) != 0;
        self.owners[at / 64].as_ref().filter(|_| in_use).map(|page| page[at % 64].call())
    }

    /// Takes this VCI for a call; false if it is in use or not of this range.
    pub fn take(&mut self, vpci: u16, vci: u16, call: CallId) -> bool {
        if vpci != self.vpci || !(self.first..=self.last).contains(&vci) {
            return false;
        }
        let at = usize::from(vci - self.first);
        let (word, bit) = (at / 64, 1 << (at % 64));
        let free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        self.in_use += usize::from(free);
        if free {
            self.note_owner(word, at % 64, call);
        }
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

    const CALL: CallId = CallId { value: 7, ours: true };

    #[test]
    fn every_label_is_given_once_and_again_when_it_is_back() {
        for last in [32, 40, 95, 96, 200] {
            let mut labels = Labels::new(0, 32, last);
            let all: BTreeSet<u16> = std::iter::from_fn(|| labels.take_any(CALL)).collect();
            assert_eq!(all, (32..=last).collect());
            assert_eq!(labels.in_use(), all.len());
            labels.release(32);
            labels.release(32);
            assert_eq!((labels.take_any(CALL), labels.take_any(CALL)), (Some(32), None));
        }
    }

    #[test]
    fn a_label_that_is_asked_for_must_be_free_and_of_the_range() {
        let mut labels = Labels::new(1, 32, 63);
        assert!(labels.take(1, 40, CALL));
        assert!(
            !labels.take(1, 40, CALL)
                && !labels.take(0, 41, CALL)
                && !labels.take(1, 31, CALL)
                && !labels.take(1, 64, CALL)
        );
    }

    #[test]
    fn a_label_in_use_names_its_call() {
        let mut labels = Labels::new(1, 32, 199);
        let other = CallId { value: 8, ours: false };
        assert!(labels.take(1, 150, other));
        assert_eq!((labels.take_any(CALL), labels.owner(1, 32)), (Some(32), Some(CALL)));
        assert!(!labels.take(1, 150, CALL));
        assert_eq!(labels.owner(1, 150), Some(other));
        assert_eq!([(1, 151), (0, 150), (1, 31), (1, 200)].map(|(vpci, vci)| labels.owner(vpci, vci)), [None; 4]);
        labels.release(150);
        assert_eq!(labels.owner(1, 150), None);
    }
}
