//! What came of scenarios that have run before: an analysis that changes one constant after another meets most of them again.
//!
//! In: a [`Scenario`]. Out: its [`PairOutcome`], computed once for everything that it depends on: costs, sizes and seeds, not names.

use super::pair::{self, PairOutcome, Scenario};
use super::profile::ProfileError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// More than the analysis of all constants needs; from then on nothing more is kept.
const MOST: usize = 1 << 16;

/// Outcomes by what they depend on.
#[derive(Debug, Default)]
pub struct Memo(Mutex<BTreeMap<String, PairOutcome>>);

impl Memo {
    /// The outcome of a scenario.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn run(&self, scenario: &Scenario<'_>) -> Result<PairOutcome, ProfileError> {
        let key = pair::depends_on(scenario)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(outcome) = known {
            return Ok(outcome);
        }
        let outcome = pair::run(scenario)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST {
            all.insert(key, outcome);
        }
        Ok(outcome)
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Profile;
    use crate::model::pair::Transport;

    #[test]
    fn a_scenario_runs_again_if_and_only_if_a_constant_that_enters_it_has_changed() {
        let machine = Profile::named("pentium90-neptune").unwrap();
        let memo = Memo::default();
        let run = |machine: &Profile, transport, single_copy, beside| {
            let plain = Scenario::new(machine, machine, transport, 20);
            let scenario = Scenario { single_copy, beside, ..plain };
            assert_eq!(memo.run(&scenario).unwrap(), pair::run(&scenario).unwrap());
            memo.len()
        };
        let udp = Transport::Udp { checksum: false };
        let ways = [
            (Transport::Raw, false, None),
            (Transport::Raw, true, None),
            (udp, false, None),
            (Transport::Raw, false, Some(1)),
        ];
        let all: Vec<usize> = ways.into_iter().map(|(t, s, b)| run(&machine, t, s, b)).collect();
        assert_eq!(all, [1, 2, 3, 4]);
        // Which of the four run again.
        for (constant, again) in [
            ("checksum_mb_s", [false; 4]),
            ("ip_send_us", [false, false, true, false]),
            ("allocate_us", [true, false, true, true]),
            ("lock_us", [false, true, false, false]),
            ("receive_us", [true; 4]),
            ("system_ms", [false, false, false, true]),
        ] {
            let mut changed = machine.clone();
            changed.set(constant, machine.get(constant).unwrap() * 1.2).unwrap();
            for ((transport, single_copy, beside), again) in ways.into_iter().zip(again) {
                let before = memo.len();
                assert_eq!(run(&changed, transport, single_copy, beside) - before, usize::from(again), "{constant}");
            }
        }
    }
}
