//! The robust sequence count algorithm (I.363.1 appendix III): a cell out of sequence waits for the next one, which
//! tells whether cells were lost before it, whether it does not belong here, or whether only its number is wrong.
//!
//! | state | next count | then |
//! |---|---|---|
//! | start | invalid | stay |
//! | | valid | hold the cell: out of sync |
//! | out of sync | held + 1 | both are taken: sync |
//! | | invalid | both are dropped: start |
//! | | other | the held one is dropped, this one held |
//! | sync | last + 1 | taken |
//! | | invalid | held: invalid |
//! | | other | held: out of sequence |
//! | invalid | last + 1 | the held one was misinserted: sync |
//! | | last + 2 | the held one is in its place: sync |
//! | | invalid | both are dropped: start |
//! | | other | the held one is dropped, this one held: out of sync |
//! | out of sequence | last + 1 | the held one was misinserted: sync |
//! | | held + 1 | up to six cells were lost before the held one: sync |
//! | | last + 2 | the held one is in its place with a wrong number: sync |
//! | | invalid, other | as in invalid |

/// Where the algorithm stands. Counts are modulo eight; `last` is that of the last cell taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Start,
    OutOfSync {
        held: u8,
    },
    Sync {
        last: u8,
    },
    Invalid {
        last: u8,
    },
    OutOfSequence {
        last: u8,
        held: u8,
    },
}

/// What becomes of the cell that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// There was none.
    None,
    /// Taken, after `lost` cells that never came. `numbered` if its own count was right.
    Take { lost: u8, count: u8, numbered: bool },
    /// It does not belong to this stream.
    Misinserted,
    /// Dropped.
    Drop,
}

/// What becomes of the cell that has just come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Current {
    Take,
    Hold,
    Drop,
}

/// Both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) held: Held,
    pub(super) current: Current,
    /// The place in the stream was known and is no longer.
    pub(super) lost_sync: bool,
}

impl State {
    /// Takes the next cell's count, or `None` if its sequence number is invalid.
    pub(super) fn step(&mut self, count: Option<u8>) -> Decision {
        let after = |n: u8, steps: u8| (n + steps) & 7;
        let decide = |held, current| Decision { held, current, lost_sync: false };
        let sync = |held, count| (State::Sync { last: count }, decide(held, Current::Take));
        let lost_sync = |decision| Decision { lost_sync: true, ..decision };
        let (next, decision) = match (*self, count) {
            (State::Start, None) => (State::Start, decide(Held::None, Current::Drop)),
            (State::Start, Some(count)) => (State::OutOfSync { held: count }, decide(Held::None, Current::Hold)),
            (State::OutOfSync { held }, Some(count)) if count == after(held, 1) => {
                sync(Held::Take { lost: 0, count: held, numbered: true }, count)
            }
            (State::OutOfSync { .. }, Some(count)) => {
                (State::OutOfSync { held: count }, decide(Held::Drop, Current::Hold))
            }
            (State::OutOfSync { .. }, None) => (State::Start, decide(Held::Drop, Current::Drop)),
            (State::Sync { last }, Some(count)) if count == after(last, 1) => sync(Held::None, count),
            (State::Sync { last }, Some(held)) => {
                (State::OutOfSequence { last, held }, decide(Held::None, Current::Hold))
            }
            (State::Sync { last }, None) => (State::Invalid { last }, decide(Held::None, Current::Hold)),
            (State::Invalid { last } | State::OutOfSequence { last, .. }, Some(count)) if count == after(last, 1) => {
                sync(Held::Misinserted, count)
            }
            (State::OutOfSequence { last, held }, Some(count)) if count == after(held, 1) => {
                let lost = held.wrapping_sub(after(last, 1)) & 7;
                sync(Held::Take { lost, count: held, numbered: true }, count)
            }
            (State::Invalid { last } | State::OutOfSequence { last, .. }, Some(count)) if count == after(last, 2) => {
                sync(Held::Take { lost: 0, count: after(last, 1), numbered: false }, count)
            }
            (State::Invalid { .. } | State::OutOfSequence { .. }, Some(count)) => {
                (State::OutOfSync { held: count }, lost_sync(decide(Held::Drop, Current::Hold)))
            }
            (State::Invalid { .. } | State::OutOfSequence { .. }, None) => {
                (State::Start, lost_sync(decide(Held::Drop, Current::Drop)))
            }
        };
        *self = next;
        decision
    }

    /// Whether the place in the stream is known.
    pub(super) const fn is_placed(self) -> bool {
        !matches!(self, State::Start | State::OutOfSync { .. })
    }

    /// Whether a cell waits.
    pub(super) const fn holds(self) -> bool {
        matches!(self, State::OutOfSync { .. } | State::Invalid { .. } | State::OutOfSequence { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_sync(last: u8) -> State {
        let mut state = State::default();
        state.step(Some((last + 7) & 7));
        assert_eq!(state.step(Some(last)).current, Current::Take);
        state
    }

    #[test]
    fn up_to_six_lost_cells_are_counted() {
        for lost in 1..=6 {
            let mut state = in_sync(6);
            assert_eq!(state.step(Some((7 + lost) & 7)).current, Current::Hold);
            let decision = state.step(Some((lost) & 7));
            let count = (7 + lost) & 7;
            assert_eq!(decision.held, Held::Take { lost, count, numbered: true });
        }
    }

    #[test]
    fn seven_lost_cells_look_like_a_cell_that_came_twice() {
        let mut state = in_sync(2);
        state.step(Some(2));
        assert_eq!(state.step(Some(3)).held, Held::Misinserted);
    }

    #[test]
    fn a_wrong_number_in_the_right_place_is_taken() {
        for wrong in [None, Some(0), Some(5), Some(7)] {
            let mut state = in_sync(2);
            assert_eq!(state.step(wrong).current, Current::Hold);
            assert_eq!(state.step(Some(4)).held, Held::Take { lost: 0, count: 3, numbered: false }, "{wrong:?}");
        }
    }

    #[test]
    fn two_invalid_numbers_in_a_row_lose_the_place() {
        let mut state = in_sync(2);
        assert!(!state.step(None).lost_sync);
        assert!(state.step(None).lost_sync);
        assert_eq!(state, State::Start);
    }
}
