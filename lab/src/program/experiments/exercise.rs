//! `cellway-lab exercise`: an exercise with numbers of its own, its solution, and the marks of a class.

use crate::results::study::{LabExercise, Posed, Solution, Student};
use ::lab::exercises::{COUNT, Class, Exercise, draw};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// Options of an exercise.
#[derive(Debug, Args)]
pub(crate) struct ExerciseOptions {
    /// The number of the exercise; without one, the exercises are listed
    #[arg(conflicts_with = "class")]
    number: Option<u32>,
    /// The seed of the numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The student whose numbers these are: the same seed, but other numbers for each name
    #[arg(long, value_name = "NAME", requires = "number")]
    student: Option<String>,
    /// Show the answers and how to find them
    #[arg(long, requires = "number")]
    solve: bool,
    /// Your answer, once for each number that is asked, in their order: it is marked
    #[arg(long = "answer", value_name = "NUMBER", requires = "number", allow_negative_numbers = true)]
    answers: Vec<f64>,
    /// Mark a class: a TOML file with seed, exercises, students and their answers; prints the marks as JSON
    #[arg(long, value_name = "FILE")]
    class: Option<PathBuf>,
    /// With --class: write each student's questions into this folder instead
    #[arg(long, value_name = "FOLDER", requires = "class")]
    sheets: Option<PathBuf>,
}

fn asked(exercise: &Exercise) -> Vec<String> {
    exercise.asked.iter().map(|asked| format!("{} ({})", asked.what, asked.unit)).collect()
}

/// The question as text, at most so many characters a line.
fn sheet(exercise: &Exercise) -> String {
    let mut text = format!("{}. {}\n{}\n", exercise.number, exercise.title, folded(&exercise.question));
    for (n, what) in asked(exercise).iter().enumerate() {
        text.push_str(&format!("  answer {}: {what}\n", n + 1));
    }
    text
}

fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= 100) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn solved(exercise: &Exercise) -> String {
    let mut text = String::new();
    for asked in &exercise.asked {
        let answer = super::digits(asked.answer);
        let within = format!("counts within {} %", super::digits(asked.tolerance * 100.0));
        text.push_str(&format!("  {}: {answer} ({}; {within})\n", asked.what, asked.unit));
    }
    text + &folded(&exercise.way) + "\n"
}

fn one(context: &Context, options: &ExerciseOptions, number: u32) -> Result<()> {
    let student = options.student.as_deref();
    let Some(exercise) = draw(number, options.seed, student)? else {
        bail!("no exercise {number}: there are exercises 1 to {COUNT}");
    };
    let marks = (!options.answers.is_empty()).then(|| exercise.mark(&options.answers));
    let answers = || exercise.asked.iter().map(|asked| asked.answer).collect();
    let json = LabExercise::One(Posed {
        exercise: number,
        title: exercise.title.to_owned(),
        seed: options.seed,
        student: options.student.clone(),
        question: exercise.question.clone(),
        asked: asked(&exercise),
        solution: options.solve.then(|| Solution { answers: answers(), way: exercise.way.clone() }),
        marks: marks.clone(),
    });
    output::print(context, &json, || {
        let mut text = sheet(&exercise);
        if let Some(marks) = &marks {
            let each =
                |(n, right): (usize, &bool)| format!("answer {}: {}", n + 1, if *right { "right" } else { "wrong" });
            let each: Vec<String> = marks.answers.iter().enumerate().map(each).collect();
            text.push_str(&format!("\n{}: {} of {}\n", each.join(", "), marks.right, marks.of));
        }
        if options.solve {
            text.push_str(&format!("\nSolution\n{}", solved(&exercise)));
        }
        text
    })
}

/// A name as that of a file.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn write_sheets(class: &Class, folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (number, student) in class.students.iter().enumerate() {
        let exercises = class.exercises_of(student)?;
        let text = exercises.iter().map(sheet).collect::<Vec<_>>().join("\n");
        let name = format!("{:03}-{}.txt", number + 1, file_name(&student.name));
        super::report::write(folder, &name, &format!("{}\n\n{text}", student.name))?;
    }
    Ok(class.students.len())
}

fn class(options: &ExerciseOptions, path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let class = Class::parse(&text).with_context(|| path.display().to_string())?;
    if let Some(folder) = &options.sheets {
        let sheets = write_sheets(&class, folder)?;
        return output::print_lines(&format!("{sheets} sheets in {}", folder.display()));
    }
    let student = |given: &::lab::exercises::Given| -> Result<Student> {
        let exercises = class.marks_of(given)?;
        let sum = |of: fn(&::lab::exercises::Mark) -> usize| exercises.iter().map(of).sum();
        Ok(Student { name: given.name.clone(), right: sum(|m| m.right), of: sum(|m| m.of), exercises })
    };
    let students = class.students.iter().map(student).collect::<Result<Vec<_>>>()?;
    output::say(&LabExercise::Class { seed: class.seed, students })
}

fn list(seed: u64) -> Result<String> {
    let mut text = String::new();
    for number in 1..=COUNT {
        if let Some(exercise) = draw(number, seed, None)? {
            text.push_str(&format!("{number}. {}\n", exercise.title));
        }
    }
    Ok(text)
}

/// `cellway-lab exercise`
pub(super) fn run(context: &Context, options: &ExerciseOptions) -> Result<()> {
    match (&options.class, options.number) {
        (Some(path), _) => class(options, path),
        (None, Some(number)) => one(context, options, number),
        (None, None) => output::print_lines(&list(options.seed)?),
    }
}
