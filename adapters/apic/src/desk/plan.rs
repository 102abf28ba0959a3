//! The topology of a desk-area network: chips of two links each, in a chain, a ring or a perfect shuffle
//! (Kazantzidis 1997, section 3).
//!
//! In: a shape and a number of chips. Out: where each link leads, and the links by which a cell gets from one chip to
//! another. What the chips are is the business of whoever makes them.
//!
//! A link has two directions, and they may lead to different chips: so chips with two links each can be a perfect
//! shuffle, in which no two of n chips are further apart than log2 n links.

/// Links of a chip.
pub const LINKS: usize = 2;
/// Chips at most.
pub const MAX_CHIPS: usize = 256;

/// How chips are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// Link 1 of each leads to the next one, link 0 to the one before. The ends lead out.
    #[default]
    Chain,
    /// A chain whose ends are joined.
    Ring,
    /// What leaves chip i by link b goes to chip 2i + b, modulo their number.
    Shuffle,
}

/// An end of a link at a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChipPort {
    /// The chip.
    pub chip: usize,
    /// Its link, below [`LINKS`].
    pub link: usize,
}

/// Why there is no such topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// None, too few, or too many.
    #[error("{got} chips: write {least} to {MAX_CHIPS}")]
    Chips {
        /// How many were asked for.
        got: usize,
        /// How many there must be.
        least: usize,
    },
    /// A shuffle of another number.
    #[error("{0} chips: a perfect shuffle has 2, 4, 8, 16, 32, 64, 128 or 256")]
    PowerOfTwo(usize),
}

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    shape: Shape,
    chips: usize,
}

impl Plan {
    /// A shape of so many chips.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(shape: Shape, chips: usize) -> Result<Self, PlanError> {
        let least = if shape == Shape::Chain { 1 } else { 2 };
        if !(least..=MAX_CHIPS).contains(&chips) {
            return Err(PlanError::Chips { got: chips, least });
        }
        if shape == Shape::Shuffle && !chips.is_power_of_two() {
            return Err(PlanError::PowerOfTwo(chips));
        }
        Ok(Plan { shape, chips })
    }

    /// How many chips.
    pub fn chips(&self) -> usize {
        self.chips
    }

    /// How they are joined.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The ends that lead out, where other networks are joined: of a chain its two, of others none.
    pub fn open_ends(&self) -> &'static [usize] {
        if self.shape == Shape::Chain { &[0, 1] } else { &[] }
    }

    /// The chip at an open end.
    pub fn at_end(&self, end: usize) -> ChipPort {
        ChipPort { chip: if end == 0 { 0 } else { self.chips - 1 }, link: end }
    }

    /// Where what a chip sends by a link arrives; `None` at an open end.
    pub fn next(&self, from: ChipPort) -> Option<ChipPort> {
        let ChipPort { chip, link } = from;
        let n = self.chips;
        Some(match (self.shape, link) {
            (Shape::Chain, 0) => ChipPort { chip: chip.checked_sub(1)?, link: 1 },
            (Shape::Chain, _) => ChipPort { chip: Some(chip + 1).filter(|next| *next < n)?, link: 0 },
            (Shape::Ring, 0) => ChipPort { chip: (chip + n - 1) % n, link: 1 },
            (Shape::Ring, _) => ChipPort { chip: (chip + 1) % n, link: 0 },
            // Two chips lead to each: one of the lower half, one of the upper.
            (Shape::Shuffle, _) => ChipPort { chip: (2 * chip + link) % n, link: usize::from(chip >= n / 2) },
        })
    }

    /// The last link of a shortest way from a chip to another, by which a cell leaves the chip before; `None` from a
    /// chip to itself. The ways from one chip to all others are a tree: the way to the chip before is the rest of it.
    pub fn last(&self, from: usize, to: usize) -> Option<ChipPort> {
        let n = self.chips;
        let (chip, link) = match self.shape {
            _ if from == to => return None,
            Shape::Chain if to > from => (to - 1, 1),
            Shape::Chain => (to + 1, 0),
            Shape::Ring if (to + n - from) % n <= (from + n - to) % n => ((to + n - 1) % n, 1),
            Shape::Ring => ((to + 1) % n, 0),
            Shape::Shuffle => {
                let bits = n.trailing_zeros();
                // The fewest bits of `to` that, appended to those of `from`, give `to`: all of them do.
                let length = (1..bits).find(|length| (from << length) % n == to >> length << length);
                let before = length.unwrap_or(bits) - 1;
                (((from << before) + (to >> 1) % (1 << before)) % n, to & 1)
            }
        };
        Some(ChipPort { chip, link })
    }

    /// The most links between two chips.
    pub fn diameter(&self) -> usize {
        match self.shape {
            Shape::Chain => self.chips - 1,
            Shape::Ring => self.chips / 2,
            Shape::Shuffle => self.chips.trailing_zeros() as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    fn plans() -> Vec<Plan> {
        let sizes = |shape, sizes: &[usize]| sizes.iter().map(|n| Plan::new(shape, *n).unwrap()).collect::<Vec<_>>();
        let mut all = sizes(Shape::Chain, &[1, 2, 5, 16]);
        all.extend(sizes(Shape::Ring, &[2, 3, 8, 17]));
        all.extend(sizes(Shape::Shuffle, &[2, 4, 16, 64, 256]));
        all
    }

    #[test]
    fn each_link_that_leads_somewhere_is_the_only_one_there() {
        for plan in plans() {
            let places = || (0..plan.chips()).flat_map(|chip| (0..LINKS).map(move |link| ChipPort { chip, link }));
            let led: Vec<_> = places().filter_map(|place| plan.next(place)).collect();
            assert_eq!(led.iter().collect::<BTreeSet<_>>().len(), led.len(), "{plan:?}");
            let open = plan.open_ends().iter().map(|end| plan.at_end(*end)).filter(|end| plan.next(*end).is_none());
            assert_eq!(led.len() + open.count(), LINKS * plan.chips(), "{plan:?}");
        }
    }

    #[test]
    fn paths_are_as_short_as_a_search_finds_them_and_from_one_chip_they_are_a_tree() {
        for plan in plans() {
            for from in 0..plan.chips() {
                let mut distance = BTreeMap::from([(from, 0)]);
                let mut queue = VecDeque::from([from]);
                while let Some(chip) = queue.pop_front() {
                    for next in (0..LINKS).filter_map(|link| plan.next(ChipPort { chip, link })) {
                        if !distance.contains_key(&next.chip) {
                            distance.insert(next.chip, distance[&chip] + 1);
                            queue.push_back(next.chip);
                        }
                    }
                }
                for to in 0..plan.chips() {
                    assert!(distance[&to] <= plan.diameter());
                    let Some(last) = plan.last(from, to) else {
                        assert_eq!(from, to, "{plan:?}");
                        continue;
                    };
                    // So each way comes back to where it began, in no more links than there are.
                    assert_eq!(plan.next(last).map(|next| next.chip), Some(to), "{plan:?} {from} to {to}");
                    assert_eq!(distance[&last.chip] + 1, distance[&to], "{plan:?} {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn a_shuffle_of_64_has_six_links_between_any_two_and_a_ring_32() {
        assert_eq!(Plan::new(Shape::Shuffle, 64).unwrap().diameter(), 6);
        assert_eq!(Plan::new(Shape::Ring, 64).unwrap().diameter(), 32);
        assert_eq!(Plan::new(Shape::Shuffle, 48), Err(PlanError::PowerOfTwo(48)));
        assert_eq!(Plan::new(Shape::Ring, 1), Err(PlanError::Chips { got: 1, least: 2 }));
        assert_eq!(Plan::new(Shape::Chain, 257), Err(PlanError::Chips { got: 257, least: 1 }));
    }
}
