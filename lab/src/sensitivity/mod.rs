//! Which constant decides which row: every constant that the papers do not give is changed, and all rows that move are named.
//!
//! In: a seed and a factor. Out: for each constant the rows that moved, with their elasticity, the per cent that a row changes for a
//! per cent of the constant. From these follow the interval that an anchor's printed digits leave to every row (a tornado
//! chart), and what an anchor would be if its constant were fitted on something else.

mod page;

pub use page::page;

use crate::experiment::{ExperimentOutcome, Row, Verdict, run_again};
use crate::experiments::ALL;
use crate::model::memo::Memo;
use crate::model::{Profile, ProfileError};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A row that moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Move {
    /// Which experiment.
    pub experiment: String,
    /// Its row.
    pub row: Row,
    /// Of the modelled number; none for phrases.
    pub elasticity: Option<f64>,
    /// Whether the verdict changed.
    pub flipped: bool,
}

/// A constant, and what depends on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Which machine.
    pub machine: String,
    /// Which constant.
    pub constant: String,
    /// The number it was fitted to, or why it was assumed.
    pub origin: String,
    /// Whether it was calibrated.
    pub calibrated: bool,
    /// What moved.
    pub moves: Vec<Move>,
}

impl Sensitivity {
    /// The anchor's own row, if the constant has one that moves.
    pub fn anchor(&self) -> Option<&Move> {
        let id = self.origin.split(':').next().filter(|_| self.calibrated)?;
        let of = |m: &&Move| {
            m.row.id == id && m.row.verdict == Verdict::Anchor && m.elasticity.is_some_and(|e| e.abs() > 0.02)
        };
        self.moves
            .iter()
            .filter(of)
            .max_by(|a, b| a.elasticity.unwrap_or(0.0).abs().total_cmp(&b.elasticity.unwrap_or(0.0).abs()))
    }

    /// How far the constant may be off, relative, so that its anchor still prints the same digits.
    pub fn interval(&self) -> Option<f64> {
        let anchor = self.anchor()?;
        Some((anchor.row.half_a_digit()? / anchor.row.modelled? / anchor.elasticity?).abs())
    }
}

fn moves(before: &ExperimentOutcome, after: &ExperimentOutcome, factor: f64) -> Vec<Move> {
    let pairs = before.rows.iter().zip(&after.rows);
    let moved = pairs.filter(|(a, b)| a != b && a.verdict != Verdict::Absent);
    moved
        .map(|(a, b)| Move {
            experiment: before.experiment.clone(),
            row: a.clone(),
            elasticity: a
                .modelled
                .zip(b.modelled)
                .filter(|(a, _)| *a != 0.0)
                .map(|(a, b)| (b / a - 1.0) / (factor - 1.0)),
            flipped: a.verdict != b.verdict,
        })
        .collect()
}

/// What an experiment gave that did not run: every row that compares something is contradicted.
pub(crate) fn failed(before: &ExperimentOutcome, why: &str) -> ExperimentOutcome {
    let mut after = before.clone();
    for row in after.rows.iter_mut().filter(|row| row.verdict != Verdict::Absent) {
        row.fail(why);
    }
    after
}

/// What one constant decides.
fn one(
    profile: &Profile,
    name: &str,
    (baseline, memo): (&[ExperimentOutcome], &Memo),
    (seed, quick, factor): (u64, bool, f64),
) -> Result<Sensitivity, ProfileError> {
    let constant = &profile.constants[name];
    let mut machines = vec![profile.clone()];
    // Machines that have it from this one follow.
    let copied = |other: &Profile| {
        other.constants.get(name).is_some_and(|c| {
            c.value.to_bits() == constant.value.to_bits() && c.source.as_ref().is_some_and(|s| s.starts_with("as on"))
        })
    };
    machines.extend(Profile::built_in()?.into_iter().filter(copied));
    machines.iter_mut().try_for_each(|machine| machine.set(name, constant.value * factor))?;
    let mut all = Vec::new();
    let reads = |machine: &Profile, outcome: &ExperimentOutcome| {
        outcome.constants.contains(&format!("{}.{name}", machine.name))
    };
    // An experiment that compares nothing has no row that could move.
    let uses = |outcome: &ExperimentOutcome| {
        outcome.rows.iter().any(|row| row.verdict != Verdict::Absent)
            && machines.iter().any(|machine| reads(machine, outcome))
    };
    for (i, before) in baseline.iter().enumerate().filter(|(_, outcome)| uses(outcome)) {
        let after = match run_again(&machines, memo, ALL[i], seed, quick) {
            // A model that does not run with this constant meets nothing.
            Err(ProfileError::Failed(why)) => failed(before, &why),
            other => other?,
        };
        all.extend(moves(before, &after, factor));
    }
    Ok(Sensitivity {
        machine: profile.name.clone(),
        constant: name.to_owned(),
        origin: constant.anchor.clone().or_else(|| constant.assumed.clone()).unwrap_or_default(),
        calibrated: constant.anchor.is_some(),
        moves: all,
    })
}

/// Multiplies every constant that no paper gives by `factor`, one after another, also where another machine has it "as on" this
/// one, and runs what reads it, on as many threads as this machine has processors.
///
/// # Errors
/// A machine lacks a constant.
pub fn all(seed: u64, quick: bool, factor: f64) -> Result<Vec<Sensitivity>, ProfileError> {
    some(seed, quick, factor, |_| true)
}

/// The same for some of these constants, by their places among them.
///
/// # Errors
/// As [`all`].
pub fn some(
    seed: u64,
    quick: bool,
    factor: f64,
    chosen: impl Fn(usize) -> bool,
) -> Result<Vec<Sensitivity>, ProfileError> {
    let memo = Memo::default();
    let run = |experiment: &&dyn crate::experiment::Experiment| run_again(&[], &memo, *experiment, seed, quick);
    let baseline = in_parallel(ALL, run).into_iter().collect::<Result<Vec<ExperimentOutcome>, _>>()?;
    let profiles = Profile::built_in()?;
    let free = profiles.iter().flat_map(|profile| profile.free().map(move |(name, _)| (profile, name)));
    let free: Vec<(&Profile, &str)> = free.enumerate().filter(|(at, _)| chosen(*at)).map(|(_, one)| one).collect();
    let found = in_parallel(&free, |(profile, name)| one(profile, name, (&baseline, &memo), (seed, quick, factor)));
    found.into_iter().collect()
}

/// The constants that no paper gives, as `machine.constant`, in the order of [`some`]'s places.
///
/// # Errors
/// A profile that comes with the program is broken.
pub fn names() -> Result<Vec<String>, ProfileError> {
    let profiles = Profile::built_in()?;
    let of = |profile: &Profile| profile.free().map(|(name, _)| format!("{}.{name}", profile.name)).collect::<Vec<_>>();
    Ok(profiles.iter().flat_map(of).collect())
}

/// The results in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut own = Vec::new();
            while let Some((i, item)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
            {
                own.push((i, work(item)));
            }
            own
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        // A thread that panicked has said why, and its results are missing: whoever asked sees fewer.
        threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What the printed digits of the anchors leave open in a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Open {
    /// The row.
    pub row: Row,
    /// Relative, by each constant that has an anchor with an interval, widest first.
    pub by: Vec<(String, f64)>,
}

impl Open {
    /// The sum: as if every anchor were off as far as its digits allow, all in the direction that counts.
    pub fn half(&self) -> f64 {
        self.by.iter().map(|(_, half)| half).sum()
    }
}

/// Intervals of the anchors carried through to the rows that are numbers, by row, widest first.
pub fn open(all: &[Sensitivity]) -> Vec<Open> {
    let mut rows: Vec<Open> = Vec::new();
    for s in all {
        let Some(interval) = s.interval() else { continue };
        for m in &s.moves {
            let Some(half) = m.elasticity.map(|e| (e * interval).abs()).filter(|half| *half > 0.0) else { continue };
            let by = (format!("{}.{}", s.machine, s.constant), half);
            match rows.iter_mut().find(|open| open.row.id == m.row.id && open.row.what == m.row.what) {
                Some(open) => open.by.push(by),
                None => rows.push(Open { row: m.row.clone(), by: vec![by] }),
            }
        }
    }
    rows.iter_mut().for_each(|open| open.by.sort_by(|a, b| b.1.total_cmp(&a.1)));
    rows.sort_by(|a, b| b.half().total_cmp(&a.half()));
    rows
}

/// What an anchor would be, had its constant been fitted on another row: the one of the predictions that depends on it most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// The machine and the constant.
    pub constant: String,
    /// The anchor that is left out.
    pub anchor: Row,
    /// The row that the constant is fitted on instead.
    pub instead: Row,
    /// What the anchor is then, to first order.
    pub becomes: f64,
}

/// Leaves out one anchor after another.
pub fn left_out(all: &[Sensitivity]) -> Vec<LeftOut> {
    let one = |s: &Sensitivity| {
        let anchor = s.anchor()?;
        let usable = |m: &&Move| m.row.verdict == Verdict::Prediction && m.row.target().is_some();
        let elasticity = |m: &Move| m.elasticity.unwrap_or(0.0).abs();
        let instead = s.moves.iter().filter(usable).max_by(|a, b| elasticity(a).total_cmp(&elasticity(b)))?;
        let wanted = instead.row.target()? / instead.row.modelled? - 1.0;
        // A row that hardly depends on the constant does not fix it, and first order goes only so far.
        let shift = wanted / instead.elasticity.filter(|e| e.abs() >= 0.1)?;
        if shift.abs() > 0.25 {
            return None;
        }
        let becomes = anchor.row.modelled? * (1.0 + anchor.elasticity? * shift);
        let constant = format!("{}.{}", s.machine, s.constant);
        Some(LeftOut { constant, anchor: anchor.row.clone(), instead: instead.row.clone(), becomes })
    };
    all.iter().filter_map(one).collect()
}
