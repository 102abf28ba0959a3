//! Cells that are lost, doubled, out of order and late on purpose: a state machine of cells, whose choices a seed
//! repeats. Time is counted in cells that pass.

use super::cells::Octets53;
use clap::Args;
use net::random::Random;
use std::collections::VecDeque;

/// How often each happens, for each cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub(crate) struct Probabilities {
    /// Leave a cell out, with this probability
    #[arg(long, value_name = "P", default_value_t, value_parser = probability)]
    lose: f64,
    /// Send a cell twice, with this probability
    #[arg(long, value_name = "P", default_value_t, value_parser = probability)]
    double: f64,
    /// Send a cell after the next one, with this probability
    #[arg(long, value_name = "P", default_value_t, value_parser = probability)]
    reorder: f64,
    /// Hold a cell back until --delay-cells others have passed, with this probability
    #[arg(long, value_name = "P", default_value_t, value_parser = probability)]
    delay: f64,
    /// See --delay
    #[arg(long, value_name = "CELLS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    delay_cells: u64,
}

fn probability(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    found.ok_or_else(|| format!("\"{text}\" is no probability: expected a number from 0 to 1"))
}

/// What has been done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) reordered: u64,
    pub(super) delayed: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Disturbance {
    probabilities: Probabilities,
    random: Random,
    out: VecDeque<Octets53>,
    /// One that the next cell overtakes.
    overtaken: Option<Octets53>,
    /// Those held back, and the number of the cell after which each is sent. Each is held equally long.
    held: VecDeque<(u64, Octets53)>,
    taken: u64,
    done: Done,
}

impl Disturbance {
    pub(super) fn new(probabilities: Probabilities, seed: u64) -> Self {
        Disturbance {
            probabilities,
            random: Random::new(seed),
            out: VecDeque::new(),
            overtaken: None,
            held: VecDeque::new(),
            taken: 0,
            done: Done::default(),
        }
    }

    /// The next cell as it should be.
    pub(super) fn take(&mut self, cell: Octets53) {
        self.taken += 1;
        self.pass(cell);
        while self.held.front().is_some_and(|(due, _)| *due <= self.taken) {
            self.out.extend(self.held.pop_front().map(|(_, cell)| cell));
        }
    }

    fn pass(&mut self, cell: Octets53) {
        let Probabilities { lose, double, reorder, delay, delay_cells } = self.probabilities;
        if self.random.happens(lose) {
            self.done.lost += 1;
            return;
        }
        if self.random.happens(delay) {
            self.done.delayed += 1;
            self.held.push_back((self.taken + delay_cells, cell));
            return;
        }
        let doubles = self.random.happens(double);
        if self.overtaken.is_none() && self.random.happens(reorder) {
            self.done.reordered += 1;
            self.overtaken = Some(cell);
        } else {
            self.out.push_back(cell);
            self.out.extend(self.overtaken.take());
        }
        if doubles {
            self.done.doubled += 1;
            self.out.push_back(cell);
        }
    }

    /// No more cells: what is held is sent.
    pub(super) fn finish(&mut self) {
        self.out.extend(self.overtaken.take());
        self.out.extend(self.held.drain(..).map(|(_, cell)| cell));
    }

    /// A cell to send now.
    pub(super) fn poll(&mut self) -> Option<Octets53> {
        self.out.pop_front()
    }

    pub(super) fn done(&self) -> Done {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(n: u64) -> Octets53 {
        let mut cell = [0; 53];
        cell[..8].copy_from_slice(&n.to_be_bytes());
        cell
    }

    fn run(probabilities: Probabilities, seed: u64, cells: u64) -> (Vec<u64>, Done) {
        let mut disturbance = Disturbance::new(probabilities, seed);
        let mut out = Vec::new();
        let mut take_all = |d: &mut Disturbance| {
            while let Some(cell) = d.poll() {
                out.push(u64::from_be_bytes(*cell.first_chunk().unwrap()));
            }
        };
        for n in 0..cells {
            disturbance.take(numbered(n));
            take_all(&mut disturbance);
        }
        disturbance.finish();
        take_all(&mut disturbance);
        (out, disturbance.done())
    }

    #[test]
    fn with_no_probability_all_cells_pass_in_order() {
        assert_eq!(run(Probabilities::default(), 1, 100), ((0..100).collect(), Done::default()));
    }

    #[test]
    fn each_disturbance_does_what_it_says() {
        let of = |change: fn(&mut Probabilities)| {
            let mut probabilities = Probabilities { delay_cells: 3, ..Probabilities::default() };
            change(&mut probabilities);
            run(probabilities, 1, 4).0
        };
        assert!(of(|p| p.lose = 1.0).is_empty());
        assert_eq!(of(|p| p.double = 1.0), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(of(|p| p.reorder = 1.0), [1, 0, 3, 2]);
        assert_eq!(of(|p| p.delay = 1.0), [0, 1, 2, 3]);
        let (some, done) = run(Probabilities { delay: 0.1, delay_cells: 5, ..Probabilities::default() }, 7, 1000);
        let late = some.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!(late > 50 && late <= done.delayed, "{late} of {}", done.delayed);
    }

    proptest! {
        #[test]
        fn no_cell_is_lost_or_made_that_is_not_counted_and_a_seed_repeats_it(
            lose in 0.0..0.5f64, double in 0.0..0.5f64, reorder in 0.0..1f64, delay in 0.0..0.5f64, delay_cells in 1u64..20, seed: u64
        ) {
            let probabilities = Probabilities { lose, double, reorder, delay, delay_cells };
            let (out, done) = run(probabilities, seed, 300);
            prop_assert_eq!(out.len() as u64, 300 - done.lost + done.doubled);
            let mut once = out.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len() as u64, 300 - done.lost);
            prop_assert_eq!(run(probabilities, seed, 300), (out, done));
        }
    }
}
