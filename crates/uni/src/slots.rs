//! Things by small numbers, in pages: one more moves none of those that are there, and what is spare is a page.

const PAGE: usize = 64;

/// See the module's head. A number that is free is given again first, the last one before others, so that what comes
/// and goes stays in the cache however many are there.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    pages: Vec<Box<[Option<T>; PAGE]>>,
    /// Numbers that were given so far, those that are free included.
    given: u32,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { pages: Vec::new(), given: 0, free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.given as usize - self.free.len()
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.pages.get(at as usize / PAGE)?[at as usize % PAGE].as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.pages.get_mut(at as usize / PAGE)?[at as usize % PAGE].as_mut()
    }

    /// Takes one in; gives its number.
    pub(crate) fn insert(&mut self, content: T) -> u32 {
        let at = self.free.pop().unwrap_or(self.given);
        self.given = self.given.max(at + 1);
        let page = at as usize / PAGE;
        if page == self.pages.len() {
            self.pages.push(Box::new([const { None }; PAGE]));
        }
        self.pages[page][at as usize % PAGE] = Some(content);
        at
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let content = self.pages.get_mut(at as usize / PAGE)?[at as usize % PAGE].take()?;
        self.free.push(at);
        Some(content)
    }

    /// All of them, by rising number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.pages.iter().flat_map(|page| page.iter());
        (0..).zip(slots).filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn slots_are_a_map_that_chooses_its_keys(steps in prop::collection::vec((any::<bool>(), 0u32..200), 0..600)) {
            let (mut slots, mut map) = (Slots::default(), BTreeMap::new());
            for (adds, n) in steps {
                if adds {
                    let at = slots.insert(n);
                    prop_assert_eq!(map.insert(at, n), None, "{} is in use", at);
                    prop_assert!((at as usize) < slots.given as usize && slots.pages.len() * PAGE < slots.given as usize + PAGE);
                } else {
                    prop_assert_eq!(slots.remove(n), map.remove(&n));
                }
                prop_assert_eq!(slots.len(), map.len());
                prop_assert_eq!(slots.get(n), map.get(&n));
                prop_assert_eq!(slots.get_mut(n), map.get_mut(&n));
                prop_assert!(slots.iter().eq(map.iter().map(|(at, n)| (*at, n))));
            }
        }
    }
}
