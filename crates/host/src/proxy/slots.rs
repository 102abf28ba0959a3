//! Which places of a user's connections are taken, as the acceptor knows it.

use super::bell_table::SLOTS;

/// Octets of a map of all places, a bit for each.
pub(super) const MAP_OCTETS: usize = SLOTS as usize / 8;

/// A bit for each place: set where it is taken.
pub(super) type Map = [u8; MAP_OCTETS];

/// The places of one user.
#[derive(Debug)]
pub(super) struct Slots {
    taken: Map,
    /// `None` until the user's proxy has told which are taken.
    free: Option<u32>,
}

impl Slots {
    /// Of a proxy that begins.
    pub(super) fn all_free() -> Self {
        Slots { taken: [0; MAP_OCTETS], free: Some(SLOTS) }
    }

    /// Of a proxy that another acceptor has begun.
    pub(super) fn unknown() -> Self {
        Slots { taken: [0; MAP_OCTETS], free: None }
    }

    /// Whether it is known which are taken.
    pub(super) fn is_known(&self) -> bool {
        self.free.is_some()
    }

    /// Whether one is known to be free.
    pub(super) fn has_free(&self) -> bool {
        self.free.is_some_and(|free| free > 0)
    }

    /// Whether all are known to be free.
    pub(super) fn is_unused(&self) -> bool {
        self.free == Some(SLOTS)
    }

    /// Takes the first that is free.
    pub(super) fn take(&mut self) -> Option<u32> {
        let free = self.free.as_mut().filter(|free| **free > 0)?;
        let at = self.taken.iter().position(|octet| *octet != u8::MAX)?;
        let bit = self.taken[at].trailing_ones();
        mark(&mut self.taken, at as u32 * 8 + bit, true);
        *free -= 1;
        Some(at as u32 * 8 + bit)
    }

    /// One is free again. A number that is none, or free, changes nothing: a user's proxy may say anything.
    pub(super) fn give_back(&mut self, slot: u32) {
        if let Some(free) = &mut self.free
            && mark(&mut self.taken, slot, false)
        {
            *free += 1;
        }
    }

    /// What the user's proxy says is taken, if that was not known.
    pub(super) fn count(&mut self, taken: &Map) {
        if self.free.is_none() {
            self.taken = *taken;
            self.free = Some(SLOTS - taken.iter().map(|octet| octet.count_ones()).sum::<u32>());
        }
    }
}

/// Marks a place. False if it was marked so, or is none.
pub(super) fn mark(map: &mut Map, slot: u32, taken: bool) -> bool {
    let bit = 1 << (slot % 8);
    let Some(octet) = map.get_mut(slot as usize / 8).filter(|octet| (**octet & bit != 0) != taken) else {
        return false;
    };
    *octet ^= bit;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_taken_once_until_it_is_given_back() {
        let mut slots = Slots::all_free();
        let taken: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (0..SLOTS).collect::<Vec<_>>());
        assert!(!slots.has_free());
        [7, 7, 7, SLOTS, u32::MAX].into_iter().for_each(|slot| slots.give_back(slot));
        assert_eq!((slots.take(), slots.take()), (Some(7), None), "given back three times, and free once");
    }

    #[test]
    fn places_of_a_proxy_of_another_acceptor_are_free_once_it_has_told_which() {
        let mut slots = Slots::unknown();
        slots.give_back(3);
        assert!(!slots.is_known() && slots.take().is_none());
        let mut map = [0; MAP_OCTETS];
        assert!(mark(&mut map, 0, true) && mark(&mut map, 9, true) && !mark(&mut map, 9, true));
        slots.count(&map);
        assert!(slots.is_known() && !slots.is_unused());
        assert_eq!(slots.take(), Some(1));
        slots.count(&[0; MAP_OCTETS]);
        assert_eq!(slots.take(), Some(2), "it is told once");
        [0, 1, 2, 9].into_iter().for_each(|slot| slots.give_back(slot));
        assert!(slots.is_unused());
    }
}
