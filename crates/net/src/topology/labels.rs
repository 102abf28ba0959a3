//! The labels in use on one link: a bitmap of 65 536 channels for each path that has any, and the paths that are taken
//! whole.

use crate::switch::Label;
use std::collections::{BTreeMap, BTreeSet};
use wire::{CircuitId, Vci, Vpi};

const WORDS: usize = 1024;

/// The channels of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    words: Box<[u64; WORDS]>,
    used: u32,
    /// No word before this one has a free channel for users.
    first: usize,
}

impl Page {
    /// A page whose `reserved` channels are taken for good, uncounted.
    fn new(reserved: Option<[u16; 2]>) -> Self {
        let mut words = Box::new([0; WORDS]);
        for vci in reserved.into_iter().flat_map(|[first, last]| first..=last) {
            words[usize::from(vci >> 6)] |= 1 << (vci & 63);
        }
        Page { words, used: 0, first: 0 }
    }

    fn has(&self, vci: u16) -> bool {
        self.words[usize::from(vci >> 6)] & 1 << (vci & 63) != 0
    }

    fn set(&mut self, vci: u16, taken: bool) {
        let (word, bit) = (usize::from(vci >> 6), 1 << (vci & 63));
        if taken && !self.has(vci) {
            self.words[word] |= bit;
            self.used += 1;
        } else if !taken && self.has(vci) {
            self.words[word] &= !bit;
            self.used -= 1;
            self.first = self.first.min(word);
        }
    }

    /// The lowest channel for users that is free.
    fn first_free(&mut self) -> Option<u16> {
        const RESERVED: u64 = (1 << Vci::FIRST_USER.get()) - 1;
        while let Some(word) = self.words.get(self.first) {
            let taken = if self.first == 0 { word | RESERVED } else { *word };
            if taken != u64::MAX {
                return Some((self.first * 64) as u16 + taken.trailing_ones() as u16);
            }
            self.first += 1;
        }
        None
    }
}

/// What circuits have taken of a link's labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels {
    pages: BTreeMap<u16, Page>,
    paths: BTreeSet<u16>,
    /// The channels of calls: a path and its first and last channel.
    reserved: Option<(u16, [u16; 2])>,
}

impl Labels {
    /// Labels of which calls have these.
    pub(super) fn reserving(reserved: Option<(u16, [u16; 2])>) -> Self {
        Labels { reserved, ..Labels::default() }
    }

    fn reserved_of(&self, vpi: u16) -> Option<[u16; 2]> {
        self.reserved.filter(|(of, _)| *of == vpi).map(|(_, vcis)| vcis)
    }

    /// Whether a circuit of its own may take the label.
    pub(super) fn is_free(&self, label: Label) -> bool {
        match label {
            Label::Vc(id) => !self.paths.contains(&id.vpi.get()) && self.is_free_inside(id),
            Label::Vp(vpi) => {
                let whole = !self.pages.contains_key(&vpi.get()) && self.reserved_of(vpi.get()).is_none();
                whole && !self.paths.contains(&vpi.get())
            }
        }
    }

    /// Whether a channel is free, whether its path is taken whole or not.
    pub(super) fn is_free_inside(&self, id: CircuitId) -> bool {
        let vci = id.vci.get();
        // VPI 0, VCI 5 and 16 are those of signalling and of ILMI.
        let signals = self.reserved.is_some() && id.vpi.get() == 0 && matches!(vci, 5 | 16);
        let of_calls =
            signals || self.reserved_of(id.vpi.get()).is_some_and(|[first, last]| (first..=last).contains(&vci));
        !of_calls && self.pages.get(&id.vpi.get()).is_none_or(|page| !page.has(vci))
    }

    pub(super) fn take(&mut self, label: Label) {
        match label {
            Label::Vc(id) => {
                let reserved = self.reserved_of(id.vpi.get());
                self.pages.entry(id.vpi.get()).or_insert_with(|| Page::new(reserved)).set(id.vci.get(), true);
            }
            Label::Vp(vpi) => drop(self.paths.insert(vpi.get())),
        }
    }

    pub(super) fn give_back(&mut self, label: Label) {
        match label {
            Label::Vc(id) => {
                let Some(page) = self.pages.get_mut(&id.vpi.get()) else { return };
                page.set(id.vci.get(), false);
                if page.used == 0 {
                    self.pages.remove(&id.vpi.get());
                }
            }
            Label::Vp(vpi) => drop(self.paths.remove(&vpi.get())),
        }
    }

    /// `wanted` if it is free, else the lowest free one of its kind, of those that a UNI can write.
    pub(super) fn first_free(&mut self, wanted: Label) -> Option<Label> {
        if self.is_free(wanted) {
            return Some(wanted);
        }
        let vpis = 0..=Vpi::MAX_UNI.get();
        match wanted {
            Label::Vc(_) => {
                vpis.into_iter().filter(|vpi| !self.paths.contains(vpi)).collect::<Vec<_>>().iter().find_map(|vpi| {
                    let reserved = self.reserved_of(*vpi);
                    let vci = match self.pages.get_mut(vpi) {
                        Some(page) => page.first_free(),
                        None if reserved.is_some() => Page::new(reserved).first_free(),
                        None => Some(Vci::FIRST_USER.get()),
                    }?;
                    CircuitId::new(*vpi, vci).map(Label::Vc)
                })
            }
            Label::Vp(_) => vpis.into_iter().filter_map(Vpi::new).map(Label::Vp).find(|path| self.is_free(*path)),
        }
    }

    /// How many labels are taken.
    pub(super) fn len(&self) -> usize {
        self.paths.len() + self.pages.values().map(|page| page.used as usize).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vc(vpi: u16, vci: u16) -> Label {
        Label::Vc(CircuitId::new(vpi, vci).unwrap())
    }

    #[test]
    fn a_taken_label_leads_to_the_lowest_free_one_of_its_kind() {
        let mut labels = Labels::default();
        assert_eq!(labels.first_free(vc(3, 7)), Some(vc(3, 7)));
        labels.take(vc(3, 7));
        assert_eq!(labels.first_free(vc(3, 7)), Some(vc(0, 32)));
        for vci in 32..=u16::MAX {
            labels.take(vc(0, vci));
        }
        assert_eq!(labels.first_free(vc(0, 40)), Some(vc(1, 32)));
        labels.give_back(vc(0, 5000));
        assert_eq!(labels.first_free(vc(0, 40)), Some(vc(0, 5000)));
        let path = |vpi| Label::Vp(Vpi::new(vpi).unwrap());
        assert_eq!(labels.first_free(path(3)), Some(path(1)), "3 has a channel, and 0 too");
        labels.take(path(1));
        assert!(!labels.is_free(vc(1, 40)) && labels.is_free_inside(CircuitId::new(1, 40).unwrap()));
    }

    #[test]
    fn the_labels_of_calls_are_not_given_to_circuits() {
        let mut labels = Labels::reserving(Some((0, [32, 99])));
        assert!(!labels.is_free(vc(0, 32)) && !labels.is_free(vc(0, 99)) && labels.is_free(vc(0, 100)));
        assert!(!labels.is_free(vc(0, 5)) && !labels.is_free(vc(0, 16)) && labels.is_free(vc(1, 5)));
        assert!(!labels.is_free(Label::Vp(Vpi::new(0).unwrap())), "calls are inside it");
        assert_eq!(labels.first_free(vc(0, 40)), Some(vc(0, 100)));
        labels.take(vc(0, 100));
        assert_eq!((labels.first_free(vc(0, 40)), labels.len()), (Some(vc(0, 101)), 1));
        labels.give_back(vc(0, 100));
        assert_eq!(labels, Labels::reserving(Some((0, [32, 99]))));
    }

    proptest! {
        #[test]
        fn labels_are_a_set(steps in proptest::collection::vec((any::<bool>(), 0u16..3, 30u16..100), 0..300)) {
            let (mut labels, mut model) = (Labels::default(), BTreeSet::new());
            for (takes, vpi, vci) in steps {
                if takes { labels.take(vc(vpi, vci)); model.insert((vpi, vci)); }
                else { labels.give_back(vc(vpi, vci)); model.remove(&(vpi, vci)); }
                prop_assert_eq!(labels.len(), model.len());
                let free = (0..=255u16).flat_map(|p| (32..=99).map(move |c| (p, c))).find(|l| !model.contains(l)).unwrap();
                if model.contains(&(vpi, vci)) {
                    prop_assert_eq!(labels.first_free(vc(vpi, vci)), Some(vc(free.0, free.1)));
                }
            }
            for (vpi, vci) in std::mem::take(&mut model) { labels.give_back(vc(vpi, vci)); }
            prop_assert_eq!(labels, Labels::default());
        }
    }
}
