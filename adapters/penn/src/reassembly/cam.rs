//! The CAM Lookup Controller's memory: which list a cell belongs to, by what it names.
//!
//! In: a key. Out: the number of the entry that holds it. The hardware compares all entries at once; here an index of
//! open addressing, at most half full, finds the entry in a few steps, and in `capacity` steps whatever keys a peer
//! chooses. Nothing is allocated after [`Cam::new`].

/// An empty place of the index.
const EMPTY: u16 = u16::MAX;
/// Largest capacity: entry numbers are 16 bits, one value means "empty".
pub const MAX_ENTRIES: usize = 1 << 15;

/// A content-addressable memory of fixed capacity.
#[derive(Debug, Clone)]
pub struct Cam {
    /// The key of each entry, where `used`.
    keys: Box<[u32]>,
    used: Box<[bool]>,
    /// Unused entries; the last is given out next.
    free: Vec<u16>,
    /// Entry numbers by hash, probed linearly.
    index: Box<[u16]>,
}

impl Cam {
    /// An empty memory of `capacity` entries, at most [`MAX_ENTRIES`].
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MAX_ENTRIES);
        Cam {
            keys: vec![0; capacity].into(),
            used: vec![false; capacity].into(),
            free: (0..capacity as u16).rev().collect(),
            index: vec![EMPTY; (capacity * 2).next_power_of_two()].into(),
        }
    }

    /// How many entries there are.
    pub fn capacity(&self) -> usize {
        self.keys.len()
    }

    /// How many entries hold a key.
    pub fn in_use(&self) -> usize {
        self.keys.len() - self.free.len()
    }

    /// Where the search for `key` begins.
    fn home(&self, key: u32) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        (key.wrapping_mul(0x9e37_79b9) >> 16) as usize & (self.index.len() - 1)
    }

    /// The place in the index that holds `key`, or the empty one where the search for it ends.
    fn place(&self, key: u32) -> usize {
        let mut at = self.home(key);
        while self.index[at] != EMPTY && self.keys[usize::from(self.index[at])] != key {
            at = (at + 1) & (self.index.len() - 1);
        }
        at
    }

    /// The entry that holds `key`.
    pub fn find(&self, key: u32) -> Option<usize> {
        let entry = self.index[self.place(key)];
        (entry != EMPTY).then_some(usize::from(entry))
    }

    /// The entry that holds `key`, taking a free one if none does; and whether it was taken. `None` if all are in use.
    pub fn find_or_insert(&mut self, key: u32) -> Option<(usize, bool)> {
        let place = self.place(key);
        if self.index[place] != EMPTY {
            return Some((usize::from(self.index[place]), false));
        }
        let entry = self.free.pop()?;
        self.index[place] = entry;
        let entry = usize::from(entry);
        self.keys[entry] = key;
        self.used[entry] = true;
        Some((entry, true))
    }

    /// What an entry holds.
    pub fn key(&self, entry: usize) -> Option<u32> {
        (*self.used.get(entry)?).then(|| self.keys[entry])
    }

    /// Empties an entry; gives the key it held.
    pub fn remove(&mut self, entry: usize) -> Option<u32> {
        let key = self.key(entry)?;
        let mask = self.index.len() - 1;
        let mut hole = self.place(key);
        self.index[hole] = EMPTY;
        // Whatever was pushed past the hole comes back into it, so that no search ends too early.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.index[at] == EMPTY {
                break;
            }
            let home = self.home(self.keys[usize::from(self.index[at])]);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = core::mem::replace(&mut self.index[at], EMPTY);
                hole = at;
            }
        }
        self.used[entry] = false;
        self.free.push(entry as u16);
        Some(key)
    }

    /// All entries that hold a key, with it.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (0..self.keys.len()).filter_map(|entry| Some((entry, self.key(entry)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_finds_what_a_map_would_find(
            capacity in 1usize..20,
            operations in proptest::collection::vec((any::<bool>(), 0u32..40), 0..300),
        ) {
            let mut cam = Cam::new(capacity);
            let mut model: BTreeMap<u32, usize> = BTreeMap::new();
            for (insert, key) in operations {
                // Keys that share their hash's low bits as well as small ones.
                let key = if key & 1 == 0 { key } else { key << 20 };
                if insert {
                    match cam.find_or_insert(key) {
                        Some((entry, new)) => {
                            prop_assert_eq!(new, model.insert(key, entry).is_none_or(|was| was != entry));
                        }
                        None => prop_assert!(model.len() == capacity && !model.contains_key(&key)),
                    }
                } else {
                    let entry = model.remove(&key);
                    prop_assert_eq!(cam.find(key), entry);
                    if let Some(entry) = entry {
                        prop_assert_eq!(cam.remove(entry), Some(key));
                        prop_assert_eq!(cam.remove(entry), None);
                    }
                }
                prop_assert_eq!(cam.in_use(), model.len());
                for (key, entry) in &model {
                    prop_assert_eq!(cam.find(*key), Some(*entry));
                    prop_assert_eq!(cam.key(*entry), Some(*key));
                }
                prop_assert_eq!(cam.entries().count(), model.len());
            }
        }
    }
}
