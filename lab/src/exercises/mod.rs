//! Exercises with drawn numbers: the same seed gives the same numbers, and each student has others.
//!
//! In: the number of an exercise, a seed, a student's name. Out: an [`Exercise`]: the question, what is asked, and the
//! right answers, which the laboratory's models compute from the drawn numbers. `tests/exercises.rs` solves each by hand
//! for many seeds.

mod adapters;
mod class;
mod events;
mod hosts;

pub use class::{Class, ClassError, Given};

use crate::model::{ProfileError, Random};
use schemars::JsonSchema;
use serde::Serialize;

/// Something that is asked: a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What.
    pub what: &'static str,
    /// Its unit; empty for a number without one.
    pub unit: &'static str,
    /// The right number.
    pub answer: f64,
    /// The relative deviation that still counts as right.
    pub tolerance: f64,
}

/// An exercise.
#[derive(Debug, Clone, PartialEq)]
pub struct Exercise {
    /// Its number, from 1.
    pub number: u32,
    /// Its title.
    pub title: &'static str,
    /// The question, with its numbers.
    pub question: String,
    /// The drawn numbers, by name.
    pub drawn: Vec<(&'static str, f64)>,
    /// See there.
    pub asked: Vec<Asked>,
    /// How to find the answers.
    pub way: String,
}

/// The marks of an exercise.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Mark {
    /// The exercise's number.
    pub exercise: u32,
    /// Right answers.
    pub right: usize,
    /// Answers that were asked for.
    pub of: usize,
    /// Each answer: right or not. A missing answer is not.
    pub answers: Vec<bool>,
}

type Poses = fn(&mut Random) -> Result<Exercise, ProfileError>;

/// All of them, from number 1.
const ALL: [Poses; 9] = [
    adapters::line,
    hosts::copy_or_lock,
    hosts::start_of_the_clock,
    adapters::which_stage,
    adapters::faster_call,
    hosts::limit_of_the_loopback,
    adapters::another_bus,
    hosts::fit_what_you_like,
    events::livelock,
];

/// How many exercises there are.
pub const COUNT: u32 = ALL.len() as u32;

/// An exercise of a seed, for a student if one is named; `None` if there is none of this number.
///
/// # Errors
/// A machine lacks a constant.
pub fn draw(number: u32, seed: u64, student: Option<&str>) -> Result<Option<Exercise>, ProfileError> {
    let Some(poses) = (number as usize).checked_sub(1).and_then(|at| ALL.get(at)) else { return Ok(None) };
    let name = format!("exercise {number} {}", student.unwrap_or_default());
    poses(&mut Random::named(seed, &name)).map(Some)
}

impl Exercise {
    /// A drawn number.
    pub fn drawn(&self, name: &str) -> f64 {
        self.drawn.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, number)| *number)
    }

    /// The marks of answers, in the order in which they are asked.
    pub fn mark(&self, answers: &[f64]) -> Mark {
        let right = |(n, asked): (usize, &Asked)| answers.get(n).is_some_and(|answer| asked.is_right(*answer));
        let answers: Vec<bool> = self.asked.iter().enumerate().map(right).collect();
        let right = answers.iter().filter(|right| **right).count();
        Mark { exercise: self.number, right, of: answers.len(), answers }
    }
}

impl Asked {
    /// Whether an answer is right.
    pub fn is_right(&self, answer: f64) -> bool {
        (answer - self.answer).abs() <= self.tolerance * self.answer.abs().max(1e-9)
    }
}

/// A number from `from` to `to` in whole steps.
fn pick(random: &mut Random, from: f64, to: f64, step: f64) -> f64 {
    let steps = ((to - from) / step).round() as u64 + 1;
    from + random.below(steps) as f64 * step
}
