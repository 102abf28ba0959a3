//! Steady state of a simulation, by a stated rule: how much of its beginning does not count, and how far its mean may be off.
//!
//! In: means of batches of equal length, in order. Out: the mean of what counts, with its confidence interval. The warm-up is cut
//! where the marginal standard error of the rest is least (MSER: White 1997, Simulation 69(6)), in the first half of the run. What is
//! left is ten groups of batches; their spread gives the interval of 95 % by Student's t (batch means: Law and Kelton, chapter 9).

/// Groups whose spread gives the interval.
const GROUPS: usize = 10;
/// Student's t for nine degrees of freedom, 97.5 %.
const STUDENT: f64 = 2.262;

/// When a run has been long enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Batches at least; 20 or more.
    pub least: usize,
    /// Batches at most.
    pub most: usize,
    /// Half of the interval, relative to the mean, at most.
    pub relative: f64,
}

/// What is known of a mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Steady {
    /// Of the batches that count.
    pub mean: f64,
    /// Half of the interval of 95 %.
    pub half_width: f64,
    /// Batches of warm-up, and all batches.
    pub batches: [usize; 2],
    /// Whether the rule is met.
    pub met: bool,
}

impl Steady {
    /// Both ends of the interval.
    pub fn interval(&self) -> [f64; 2] {
        [self.mean - self.half_width, self.mean + self.half_width]
    }

    /// Whether the intervals do not overlap, and this one is the lower.
    pub fn below(&self, other: &Steady) -> bool {
        self.interval()[1] < other.interval()[0]
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The sum of squared deviations from the mean.
fn spread(of: &[f64]) -> f64 {
    let middle = mean(of);
    of.iter().map(|x| (x - middle).powi(2)).sum()
}

/// Batches of warm-up: where the squared standard error of the rest is least.
fn warm_up(batches: &[f64]) -> usize {
    let error = |cut: usize| spread(&batches[cut..]) / ((batches.len() - cut) as f64).powi(2);
    (0..=batches.len() / 2).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0)
}

impl Rule {
    /// What these batches say.
    pub fn judge(&self, batches: &[f64]) -> Steady {
        let cut = warm_up(batches);
        let each = (batches.len() - cut) / GROUPS;
        if each == 0 {
            return Steady { batches: [cut, batches.len()], half_width: f64::INFINITY, ..Steady::default() };
        }
        let counted = &batches[batches.len() - each * GROUPS..];
        let groups: Vec<f64> = counted.chunks(each).map(mean).collect();
        let half_width = STUDENT * (spread(&groups) / ((GROUPS - 1) * GROUPS) as f64).sqrt();
        let mean = mean(counted);
        // A warm-up of half the run may be longer than that.
        let met = batches.len() >= self.least && cut < batches.len() / 2 && half_width <= self.relative * mean;
        Steady { mean, half_width, batches: [cut, batches.len()], met }
    }

    /// Asks for one batch after another until the rule is met or there are too many; `None` if one gives nothing.
    pub fn run(&self, mut batch: impl FnMut() -> Option<f64>) -> Option<Steady> {
        let mut batches = Vec::new();
        loop {
            batches.push(batch()?);
            if batches.len() < self.least {
                continue;
            }
            let steady = self.judge(&batches);
            if steady.met || batches.len() >= self.most {
                return Some(steady);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    const RULE: Rule = Rule { least: 60, most: 200, relative: 0.05 };

    #[test]
    fn a_beginning_that_is_faster_than_all_the_rest_does_not_count() {
        let (mut random, mut n) = (Random::new(3), 0);
        let steady = RULE.run(|| {
            n += 1;
            Some(if n <= 20 { 55.0 } else { 32.0 + 2.0 * random.uniform() })
        });
        let steady = steady.unwrap();
        assert!(steady.met && steady.batches[0] >= 20, "{steady:?}");
        assert!(steady.interval()[0] < 33.0 && 33.0 < steady.interval()[1], "{steady:?}");
        assert!(steady.half_width < 1.0, "{steady:?}");
    }

    #[test]
    fn what_goes_on_falling_meets_no_rule_and_its_interval_says_so() {
        let mut rate = 100.0;
        let falls = RULE.run(|| {
            rate *= 0.97;
            Some(rate)
        });
        let falls = falls.unwrap();
        assert!(!falls.met && falls.batches[1] == RULE.most, "{falls:?}");
        assert!(falls.half_width > RULE.relative * falls.mean, "{falls:?}");
        assert_eq!(RULE.run(|| None), None);
    }

    #[test]
    fn nineteen_intervals_of_twenty_have_the_mean_and_two_rates_are_apart_when_intervals_are() {
        let mut random = Random::new(1);
        let held = (0..200).filter(|_| {
            let batches: Vec<f64> = (0..40).map(|_| random.uniform()).collect();
            let [from, to] = RULE.judge(&batches).interval();
            from < 0.5 && 0.5 < to
        });
        let held = held.count();
        assert!((170..200).contains(&held), "{held} of 200");
        let at = |mean| Steady { mean, half_width: 1.0, ..Steady::default() };
        assert!(at(10.0).below(&at(12.5)) && !at(10.0).below(&at(11.5)) && !at(12.5).below(&at(10.0)));
    }
}
