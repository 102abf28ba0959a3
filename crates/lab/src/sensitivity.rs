//! Which constant decides which row: every constant that the papers do not give is changed, and all rows that move are named.
//!
//! In: a seed and a factor. Out: for each constant the rows that moved, with their elasticity, the per cent that a row changes for a
//! per cent of the constant. From these follow the interval that an anchor's printed digits leave to every row (a tornado
//! chart), and what an anchor would be if its constant were fitted on something else.

use crate::experiment::{Outcome, Row, Verdict, run_on};
use crate::experiments::ALL;
use crate::model::{Profile, ProfileError};
use serde::Serialize;

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

fn moves(before: &Outcome, after: &Outcome, factor: f64) -> Vec<Move> {
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

/// Multiplies every constant that no paper gives by `factor`, one after another, and runs what uses its machine.
///
/// # Errors
/// A machine lacks a constant.
pub fn all(seed: u64, quick: bool, factor: f64) -> Result<Vec<Sensitivity>, ProfileError> {
    let outcome = |machines: &[Profile], i: usize| run_on(machines, ALL[i], seed, quick, None);
    let baseline: Vec<Outcome> = (0..ALL.len()).map(|i| outcome(&[], i)).collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for profile in Profile::built_in()? {
        for (name, constant) in profile.free() {
            let mut changed = profile.clone();
            changed.set(name, constant.value * factor)?;
            let machines = [changed];
            let mut all = Vec::new();
            for (i, before) in baseline.iter().enumerate().filter(|(_, o)| o.machines.contains(&profile.name)) {
                all.extend(moves(before, &outcome(&machines, i)?, factor));
            }
            found.push(Sensitivity {
                machine: profile.name.clone(),
                constant: name.to_owned(),
                origin: constant.anchor.clone().or_else(|| constant.assumed.clone()).unwrap_or_default(),
                calibrated: constant.anchor.is_some(),
                moves: all,
            });
        }
    }
    Ok(found)
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
