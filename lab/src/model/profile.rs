//! Machine profiles: data files of constants, each with its source or the anchor that it was calibrated on.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// One constant of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it stands: a checklist id, a datasheet, a command that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The published number that it was calibrated on, which is then no evidence for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Neither known nor calibrated: chosen, and why that much. It counts as a degree of freedom like a calibrated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// Why it is as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called in experiments.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Its constants.
    pub constants: BTreeMap<String, Constant>,
    #[serde(skip)]
    reads: Reads,
}

/// Which constants of which machines have been read: `machine.constant`.
#[derive(Debug, Clone, Default)]
pub struct Reads(Arc<Mutex<BTreeSet<String>>>);

impl PartialEq for Reads {
    /// Who watches a machine makes it no other machine.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Reads {
    fn add(&self, machine: &str, constant: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{machine}.{constant}"));
    }

    /// All that were read.
    pub fn take(&self) -> BTreeSet<String> {
        core::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is wrong with a profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// It is not TOML, or not of this shape.
    #[error("no machine profile: {0}")]
    Shape(String),
    /// A constant that says neither where it is from nor what it was calibrated on, or is no positive number.
    #[error("{machine}: constant {constant} needs a value that is not negative, and one of source, anchor and assumed")]
    Origin {
        /// Which machine.
        machine: String,
        /// Which constant.
        constant: String,
    },
    /// An experiment asks for a constant that is not there.
    #[error("machine {machine} has no constant {constant}")]
    Constant {
        /// Which machine.
        machine: String,
        /// Which constant.
        constant: String,
    },
    /// A part of a model gave no result.
    #[error("the model failed: {0}")]
    Failed(String),
    /// An experiment asks for a machine that is not there.
    #[error("no machine {0}")]
    Machine(String),
}

const BUILT_IN: [&str; 12] = [
    include_str!("../../machines/pentium90-neptune.toml"),
    include_str!("../../machines/pentium90-triton.toml"),
    include_str!("../../machines/rs6000-320.toml"),
    include_str!("../../machines/rs6000-530.toml"),
    include_str!("../../machines/rs6000-580.toml"),
    include_str!("../../machines/hp9000-755.toml"),
    include_str!("../../machines/ucla-myrinet.toml"),
    include_str!("../../machines/myrinet-lanai.toml"),
    include_str!("../../machines/sparcstation20.toml"),
    include_str!("../../machines/sparcstation2.toml"),
    include_str!("../../machines/unet-sba200.toml"),
    include_str!("../../machines/apic.toml"),
];

impl Profile {
    /// A machine of these constants.
    pub fn new(name: &str, title: &str, constants: BTreeMap<String, Constant>) -> Self {
        Profile { name: name.into(), title: title.into(), constants, reads: Reads::default() }
    }

    /// The same machine, whose constants are noted in `reads` when they are read.
    #[must_use]
    pub fn watched(mut self, reads: &Reads) -> Self {
        self.reads = reads.clone();
        self
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// It is none, or a constant has no origin.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|e| ProfileError::Shape(e.to_string()))?;
        let bad = |c: &Constant| {
            !c.value.is_finite()
                || c.value < 0.0
                || c.unit.is_empty()
                || [&c.source, &c.anchor, &c.assumed].into_iter().flatten().count() != 1
        };
        match profile.constants.iter().find(|(_, c)| bad(c)) {
            None => Ok(profile),
            Some((constant, _)) => {
                Err(ProfileError::Origin { machine: profile.name.clone(), constant: constant.clone() })
            }
        }
    }

    /// The profiles that come with the program.
    ///
    /// # Errors
    /// One of them is broken; a test says that none is.
    pub fn built_in() -> Result<Vec<Self>, ProfileError> {
        BUILT_IN.iter().map(|text| Self::parse(text)).collect()
    }

    /// One of them by name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let found = Self::built_in()?.into_iter().find(|p| p.name == name);
        found.ok_or_else(|| ProfileError::Machine(name.to_owned()))
    }

    /// A constant's value.
    ///
    /// # Errors
    /// It is not there.
    pub fn get(&self, constant: &str) -> Result<f64, ProfileError> {
        let missing = || ProfileError::Constant { machine: self.name.clone(), constant: constant.to_owned() };
        self.reads.add(&self.name, constant);
        self.constants.get(constant).map(|c| c.value).ok_or_else(missing)
    }

    /// Sets a constant to another value, for a sweep.
    ///
    /// # Errors
    /// It is not there.
    pub fn set(&mut self, constant: &str, value: f64) -> Result<(), ProfileError> {
        let missing = ProfileError::Constant { machine: self.name.clone(), constant: constant.to_owned() };
        self.constants.get_mut(constant).map(|c| c.value = value).ok_or(missing)
    }

    /// Constants that the paper does not give: calibrated or assumed, with the number or the reason.
    pub fn free(&self) -> impl Iterator<Item = (&str, &Constant)> {
        self.constants.iter().filter(|(_, c)| c.source.is_none()).map(|(name, c)| (name.as_str(), c))
    }

    /// Constants that were calibrated, with their anchors.
    pub fn anchors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.constants.iter().filter_map(|(name, c)| Some((name.as_str(), c.anchor.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_says_where_each_constant_is_from() {
        let all = Profile::built_in().unwrap();
        assert_eq!(all.len(), 12);
        assert!(all.iter().all(|p| !p.constants.is_empty()));
        assert!(Profile::named("pentium90-neptune").unwrap().anchors().count() >= 4);
    }

    #[test]
    fn a_watched_machine_tells_which_constants_were_read_and_no_others() {
        let reads = Reads::default();
        let machine = Profile::named("hp9000-755").unwrap();
        let watched = machine.clone().watched(&reads);
        assert_eq!(watched, machine);
        assert!(watched.get("echo_ms").is_ok() && machine.get("interrupt_us").is_ok());
        assert_eq!(reads.take().into_iter().collect::<Vec<_>>(), ["hp9000-755.echo_ms"]);
        assert!(reads.take().is_empty());
    }

    #[test]
    fn a_constant_without_an_origin_or_with_two_is_refused() {
        let of = |rest: &str| format!("name='x'\ntitle='X'\n[constants]\nc = {{ value = 1.0, unit = 's' {rest} }}");
        assert!(Profile::parse(&of(", source='A-1'")).is_ok());
        for rest in ["", ", source='A-1', anchor='A-2'", ", sorce='A-1'"] {
            assert!(Profile::parse(&of(rest)).is_err(), "{rest}");
        }
        assert_eq!(Profile::named("cray"), Err(ProfileError::Machine("cray".into())));
    }
}
