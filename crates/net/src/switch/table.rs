//! A small table from numbers to numbers, open addressing with linear probing: the look-up of each cell in a switch.

/// Marks a free place; no circuit's key has all bits set (a key has 28).
const FREE: u32 = u32::MAX;

/// Keys below 2^28 to values. It grows when a key is inserted and never otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyTable {
    places: Vec<(u32, u32)>,
    len: usize,
}

impl KeyTable {
    fn home(&self, key: u32) -> usize {
        // Fibonacci hashing: VCIs in use are mostly neighbours, and the multiplication spreads them evenly.
        let shift = 32 - self.places.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9) >> shift) as usize
    }

    /// The value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
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
    pub(crate) fn insert(&mut self, key: u32, value: u32) {
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
    pub(crate) fn remove(&mut self, key: u32) {
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

    /// All keys, in no order.
    #[cfg(test)]
    fn keys(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|(k, _)| *k).filter(|k| *k != FREE)
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
                let key = key.wrapping_mul(0x0100_0010) & 0x0fff_ffff;
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
        }
    }
}
