//! A table from numbers to numbers: the look-up of each frame in a switch.
//!
//! Values lie in pages of 256 neighbouring keys, which a small hash table with linear probing finds. So a table that
//! grows moves its pages' numbers, one for 256 neighbours, and never its values.

/// Marks a free place; no page's number has all bits set, and no value.
const FREE: u32 = u32::MAX;
/// Keys of a page.
const ENTRIES: usize = 256;

/// Keys below 2^28 to values below [`FREE`]. It grows when a key is inserted and never otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyTable {
    /// Where the page of a key's upper bits is.
    top: Places,
    pages: Vec<Page>,
    /// Pages that have no key.
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Page {
    values: Box<[u32; ENTRIES]>,
    used: u16,
}

impl KeyTable {
    /// The value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        let page = self.top.get(key >> 8)?;
        Some(self.pages[page as usize].values[key as usize % ENTRIES]).filter(|value| *value != FREE)
    }

    /// Whether there is memory to be given back when it is dropped.
    pub(crate) fn owns_memory(&self) -> bool {
        self.pages.capacity() > 0
    }

    /// Whether it has no key.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the value of `key`.
    pub(crate) fn insert(&mut self, key: u32, value: u32) {
        debug_assert!(value != FREE);
        let at = self.top.get(key >> 8).unwrap_or_else(|| {
            let at = self.free.pop().unwrap_or_else(|| {
                self.pages.push(Page { values: Box::new([FREE; ENTRIES]), used: 0 });
                self.pages.len() as u32 - 1
            });
            self.top.insert(key >> 8, at);
            at
        });
        let page = &mut self.pages[at as usize];
        let old = std::mem::replace(&mut page.values[key as usize % ENTRIES], value);
        if old == FREE {
            page.used += 1;
            self.len += 1;
        }
    }

    /// Forgets `key`.
    pub(crate) fn remove(&mut self, key: u32) {
        let Some(at) = self.top.get(key >> 8) else { return };
        let page = &mut self.pages[at as usize];
        if std::mem::replace(&mut page.values[key as usize % ENTRIES], FREE) == FREE {
            return;
        }
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            self.top.remove(key >> 8);
            self.free.push(at);
        }
    }

    /// All keys, in no order.
    #[cfg(test)]
    fn keys(&self) -> impl Iterator<Item = u32> {
        let pages = self.top.places.iter().filter(|(k, _)| *k != FREE);
        pages.flat_map(|(high, page)| {
            let used = self.pages[*page as usize].values.iter().zip(0u32..).filter(|(value, _)| **value != FREE);
            used.map(move |(_, low)| high << 8 | low)
        })
    }
}

/// Open addressing with linear probing.
#[derive(Debug, Clone, Default)]
struct Places {
    places: Vec<(u32, u32)>,
    len: usize,
}

impl Places {
    fn home(&self, key: u32) -> usize {
        // Fibonacci hashing: VCIs in use are mostly neighbours, and the multiplication spreads them evenly.
        let shift = 32 - self.places.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9) >> shift) as usize
    }

    /// The value of `key`.
    #[inline]
    fn get(&self, key: u32) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut i = self.home(key);
        loop {
            match self.places[i & mask] {
                (k, value) if k == key => return Some(value),
                (FREE, _) => return None,
                _ => i += 1,
            }
        }
    }

    /// Sets the value of `key`.
    fn insert(&mut self, key: u32, value: u32) {
        debug_assert!(key != FREE);
        // At most half full: probes stay short and always meet a free place.
        if (self.len + 1) * 2 > self.places.len() {
            let larger = vec![(FREE, 0); (self.places.len() * 2).max(16)];
            let old = std::mem::replace(&mut self.places, larger);
            self.len = 0;
            for (key, value) in old.into_iter().filter(|(k, _)| *k != FREE) {
                self.insert(key, value);
            }
        }
        let mask = self.places.len() - 1;
        let mut i = self.home(key) & mask;
        while self.places[i].0 != FREE && self.places[i].0 != key {
            i = (i + 1) & mask;
        }
        self.len += usize::from(self.places[i].0 == FREE);
        self.places[i] = (key, value);
    }

    /// Forgets `key`.
    fn remove(&mut self, key: u32) {
        if self.get(key).is_none() {
            return;
        }
        let mask = self.places.len() - 1;
        let mut hole = self.home(key) & mask;
        while self.places[hole].0 != key {
            hole = (hole + 1) & mask;
        }
        self.places[hole].0 = FREE;
        self.len -= 1;
        // Moves back what was pushed beyond the hole, so that no probe ends early.
        let mut i = (hole + 1) & mask;
        while self.places[i].0 != FREE {
            let home = self.home(self.places[i].0) & mask;
            if (i.wrapping_sub(home) & mask) >= (i.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[i];
                self.places[i].0 = FREE;
                hole = i;
            }
            i = (i + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in proptest::collection::vec((0u8..3, 0u32..60, any::<u32>()), 0..400)) {
            let (mut table, mut model) = (KeyTable::default(), BTreeMap::new());
            for (what, key, value) in steps {
                // Few keys that collide, spread over the whole range.
                let key = key.wrapping_mul(0x0100_0010) & 0x0fff_ffff | (key % 3);
                let value = value >> 1;
                match what {
                    0 => { table.insert(key, value); model.insert(key, value); }
                    1 => { table.remove(key); model.remove(&key); }
                    _ => prop_assert_eq!(table.get(key), model.get(&key).copied()),
                }
                prop_assert_eq!(table.len, model.len());
            }
            let mut keys: Vec<_> = table.keys().collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, model.keys().copied().collect::<Vec<_>>());
            for key in model.into_keys() {
                table.remove(key);
            }
            prop_assert!(table.is_empty() && table.free.len() == table.pages.len() && table.top.len == 0);
        }
    }
}
