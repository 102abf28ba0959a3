//! When each chip's next slot is: chips in the order of their slots, those of one moment by their numbers.
//!
//! Slots of chips that work are one length apart, so what is put in nearly always goes to the end.

use std::collections::VecDeque;
use wire::Time;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: Vec<Option<Time>>,
    /// Entries that are not as `due` has them are old.
    order: VecDeque<(Time, usize)>,
}

impl Agenda {
    /// Of so many chips, which have nothing to do.
    pub(super) fn new(chips: usize) -> Self {
        Agenda { due: vec![None; chips], order: VecDeque::with_capacity(4 * chips) }
    }

    /// Sets when a chip's next slot is.
    pub(super) fn set(&mut self, chip: usize, due: Option<Time>) {
        if self.due[chip] == due {
            return;
        }
        self.due[chip] = due;
        let Some(at) = due else { return };
        let entry = (at, chip);
        if self.order.back().is_none_or(|last| *last <= entry) {
            self.order.push_back(entry);
        } else {
            let place = self.order.partition_point(|other| *other <= entry);
            self.order.insert(place, entry);
        }
    }

    /// The chip whose slot is next.
    pub(super) fn next(&mut self) -> Option<(Time, usize)> {
        while let Some((at, chip)) = self.order.front().copied() {
            if self.due[chip] == Some(at) {
                return Some((at, chip));
            }
            self.order.pop_front();
        }
        None
    }

    /// Takes that chip out. It has no slot until one is set.
    pub(super) fn take(&mut self) -> Option<(Time, usize)> {
        let (at, chip) = self.next()?;
        self.order.pop_front();
        self.due[chip] = None;
        Some((at, chip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chips_come_in_the_order_of_their_slots_whatever_was_set_before(
            steps in proptest::collection::vec((0usize..6, proptest::option::of(0u64..40), any::<bool>()), 1..200),
        ) {
            let (mut agenda, mut model) = (Agenda::new(6), vec![None; 6]);
            for (chip, due, takes) in steps {
                let due = due.map(Time::from_nanos);
                agenda.set(chip, due);
                model[chip] = due;
                let first = model.iter().zip(0..).filter_map(|(due, chip)| Some(((*due)?, chip))).min();
                prop_assert_eq!(agenda.next(), first);
                if takes {
                    prop_assert_eq!(agenda.take(), first);
                    first.into_iter().for_each(|(_, chip)| model[chip] = None);
                }
            }
        }
    }
}
