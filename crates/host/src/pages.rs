//! Where a host's circuits lie, by VPI and VCI: pages of 256 neighbouring channels.
//!
//! A page is allocated by its first circuit and given back with its last, so adding one circuit to many costs what
//! adding the first one did: nothing that exists is ever moved.

use crate::circuit::Circuit;

const ENTRIES: usize = 256;

/// Channels of which the upper bits are the same. Boxed, since the table is of pointers.
type Page = [Option<Box<Circuit>>; ENTRIES];

/// The channels of one VPI.
struct Path {
    pages: [Option<Box<Page>>; ENTRIES],
    /// Circuits in each page, ...
    used: [u16; ENTRIES],
    /// ... and in all of them.
    len: usize,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Pages {
    paths: Vec<Option<Box<Path>>>,
    len: usize,
    /// Circuits that were looked at, to be changed perhaps.
    #[cfg(test)]
    pub(crate) visited: usize,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("len", &self.len).finish_non_exhaustive()
    }
}

const fn split(key: u32) -> (usize, usize, usize) {
    ((key >> 16) as usize, (key >> 8) as usize % ENTRIES, key as usize % ENTRIES)
}

impl Pages {
    #[inline]
    pub(crate) fn get(&self, key: &u32) -> Option<&Circuit> {
        let (path, page, entry) = split(*key);
        self.paths.get(path)?.as_ref()?.pages[page].as_ref()?[entry].as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &u32) -> Option<&mut Circuit> {
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let (path, page, entry) = split(*key);
        self.paths.get_mut(path)?.as_mut()?.pages[page].as_mut()?[entry].as_deref_mut()
    }

    /// Takes a circuit in; gives the one that was there.
    pub(crate) fn insert(&mut self, key: u32, circuit: Circuit) -> Option<Circuit> {
        let old = self.remove(&key);
        let (path, page, entry) = split(key);
        self.paths.resize_with(self.paths.len().max(path + 1), || None);
        let path = self.paths[path]
            .get_or_insert_with(|| Box::new(Path { pages: [const { None }; ENTRIES], used: [0; ENTRIES], len: 0 }));
        path.len += 1;
        let entries = path.pages[page].get_or_insert_with(|| Box::new([const { None }; ENTRIES]));
        entries[entry] = Some(Box::new(circuit));
        path.used[page] += 1;
        self.len += 1;
        old
    }

    pub(crate) fn remove(&mut self, key: &u32) -> Option<Circuit> {
        let (at, page, entry) = split(*key);
        let path = self.paths.get_mut(at)?.as_mut()?;
        let circuit = path.pages[page].as_mut()?[entry].take()?;
        self.len -= 1;
        path.used[page] -= 1;
        if path.used[page] == 0 {
            path.pages[page] = None;
        }
        path.len -= 1;
        if path.len == 0 {
            self.paths[at] = None;
        }
        Some(*circuit)
    }

    /// The first key from `key` on under which a circuit is.
    pub(crate) fn key_from(&self, key: u32) -> Option<u32> {
        let (first, first_page, first_entry) = split(key);
        self.paths.iter().enumerate().skip(first).find_map(|(path, pages)| {
            let from_page = if path == first { first_page } else { 0 };
            pages.as_ref()?.pages.iter().enumerate().skip(from_page).find_map(|(page, entries)| {
                let from = if (path, page) == (first, first_page) { first_entry } else { 0 };
                let entry = entries.as_ref()?.iter().skip(from).position(Option::is_some)? + from;
                Some((path << 16 | page << 8 | entry) as u32)
            })
        })
    }

    /// All of them, by rising key.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Circuit> {
        let pages = self.paths.iter().flatten().flat_map(|path| path.pages.iter().flatten());
        pages.flat_map(|page| page.iter().flatten()).map(|circuit| &**circuit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CircuitConfig;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use wire::CircuitId;

    fn circuit(key: u32, port: u16) -> Circuit {
        Circuit::new(CircuitId::from_key(key), CircuitConfig { port, ..CircuitConfig::default() }, None)
    }

    proptest! {
        #[test]
        fn circuits_are_a_map(steps in proptest::collection::vec((any::<bool>(), 0u32..3, 0u32..40, 0u16..3), 0..300)) {
            let (mut circuits, mut model) = (Pages::default(), BTreeMap::new());
            for (adds, vpi, vci, port) in steps {
                // Neighbours in a page, and pages apart.
                let key = vpi << 16 | (vci % 8) << 8 | vci;
                if adds {
                    let old = circuits.insert(key, circuit(key, port)).map(|c| c.config.port);
                    prop_assert_eq!(old, model.insert(key, port));
                } else {
                    prop_assert_eq!(circuits.remove(&key).map(|c| c.config.port), model.remove(&key));
                }
                prop_assert_eq!(circuits.len, model.len());
                prop_assert_eq!(circuits.get(&key).map(|c| c.config.port), model.get(&key).copied());
                prop_assert!(circuits.values().map(|c| (c.id.key(), c.config.port)).eq(model.iter().map(|(k, p)| (*k, *p))));
            }
            for key in std::mem::take(&mut model).into_keys() {
                circuits.remove(&key);
            }
            prop_assert!(circuits.paths.iter().all(Option::is_none));
        }
    }
}
