//! What is wrong with a part of an object, before anybody knows in which line it is written.

use std::fmt;

/// A step from an object to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The value of a key.
    Key(String),
    /// An element of a list.
    Index(usize),
}

impl From<&str> for Part {
    fn from(key: &str) -> Self {
        Part::Key(key.to_owned())
    }
}

impl From<&&str> for Part {
    fn from(key: &&str) -> Self {
        Part::Key((*key).to_owned())
    }
}

impl From<&String> for Part {
    fn from(key: &String) -> Self {
        Part::Key(key.clone())
    }
}

impl From<usize> for Part {
    fn from(index: usize) -> Self {
        Part::Index(index)
    }
}

/// The way from an object to a part of it; empty: the object itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartPath(pub Vec<Part>);

impl From<&str> for PartPath {
    fn from(key: &str) -> Self {
        PartPath(vec![key.into()])
    }
}

impl<A: Into<Part>, B: Into<Part>> From<(A, B)> for PartPath {
    fn from((a, b): (A, B)) -> Self {
        PartPath(vec![a.into(), b.into()])
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// With which part.
    pub at: PartPath,
    /// What, and what to do.
    pub says: String,
}

/// All that is wrong with an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// One more.
    pub fn add(&mut self, at: impl Into<PartPath>, says: impl fmt::Display) {
        self.0.push(Fault { at: at.into(), says: says.to_string() });
    }

    /// What a result has; its error is one fault more.
    pub fn take<T, E: Into<anyhow::Error>>(&mut self, at: impl Into<PartPath>, result: Result<T, E>) -> Option<T> {
        result.map_err(|e| self.add(at, format!("{:#}", e.into()))).ok()
    }

    /// `value`, unless something is wrong.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn or<T>(self, value: Option<T>) -> Result<T, Faults> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = self.0.iter().map(|fault| fault.says.as_str()).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for Faults {}

/// The meaning of a word under `key`; without one, the fault says which there are.
pub fn word<T: Copy>(faults: &mut Faults, key: &str, text: &str, meanings: &[(&str, T)]) -> Option<T> {
    let found = meanings.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let words: Vec<&str> = meanings.iter().map(|(word, _)| *word).collect();
        let words = match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.join(""),
        };
        faults.add(key, format!("{key} = \"{text}\": write {words}"));
    }
    found
}
