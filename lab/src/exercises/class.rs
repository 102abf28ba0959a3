//! A class: its students, their answers, and their marks.
//!
//! In: a TOML file with a seed, exercises and students. Each student has numbers of their own, drawn from the seed and the
//! student's name. Out: marks.

use super::{COUNT, Exercise, Mark, draw};
use crate::model::ProfileError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Students of a class at most.
const STUDENTS: usize = 1000;

/// A student and the answers that were handed in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The name.
    pub name: String,
    /// Answers by the number of the exercise.
    #[serde(default)]
    pub answers: BTreeMap<String, Vec<f64>>,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The seed of the numbers.
    pub seed: u64,
    /// The exercises that were set.
    pub exercises: Vec<u32>,
    /// The students.
    #[serde(default, rename = "student")]
    pub students: Vec<Given>,
}

/// What is wrong with the file of a class.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClassError {
    /// It is not TOML, or not of this shape.
    #[error("no class: {0}")]
    Shape(String),
    /// There is no such exercise.
    #[error("no exercise {0}: there are exercises 1 to {COUNT}")]
    Exercise(String),
    /// Two students have one name, so they would have the same numbers.
    #[error("two students are called {0}: give each a name of their own")]
    Name(String),
    /// An answer to an exercise that was not set.
    #[error("{student} answers exercise {exercise}, which is not among `exercises`")]
    NotSet {
        /// The student.
        student: String,
        /// The exercise.
        exercise: String,
    },
    /// More students than can be.
    #[error("{0} students: a class has {STUDENTS} at most")]
    TooMany(usize),
    /// A machine of an exercise is not as it should be.
    #[error(transparent)]
    Machine(#[from] ProfileError),
}

impl Class {
    /// Reads a class.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ClassError> {
        let class: Class = toml::from_str(text).map_err(|e| ClassError::Shape(e.message().to_owned()))?;
        if class.students.len() > STUDENTS {
            return Err(ClassError::TooMany(class.students.len()));
        }
        if let Some(wrong) = class.exercises.iter().find(|n| !(1..=COUNT).contains(n)) {
            return Err(ClassError::Exercise(wrong.to_string()));
        }
        let mut names = BTreeSet::new();
        for student in &class.students {
            if !names.insert(&student.name) {
                return Err(ClassError::Name(student.name.clone()));
            }
            let set = |number: &String| class.exercises.iter().any(|n| n.to_string() == *number);
            if let Some(exercise) = student.answers.keys().find(|number| !set(number)) {
                return Err(ClassError::NotSet { student: student.name.clone(), exercise: exercise.clone() });
            }
        }
        Ok(class)
    }

    /// A student's exercises.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn exercises_of(&self, student: &Given) -> Result<Vec<Exercise>, ClassError> {
        let one = |number: &u32| {
            draw(*number, self.seed, Some(&student.name))?.ok_or_else(|| ClassError::Exercise(number.to_string()))
        };
        self.exercises.iter().map(one).collect()
    }

    /// A student's marks, exercise by exercise.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn marks_of(&self, student: &Given) -> Result<Vec<Mark>, ClassError> {
        let of = |exercise: &Exercise| {
            let answers = student.answers.get(&exercise.number.to_string());
            exercise.mark(answers.map_or(&[], Vec::as_slice))
        };
        Ok(self.exercises_of(student)?.iter().map(of).collect())
    }
}
