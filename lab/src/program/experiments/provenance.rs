//! Where a report is from: the program, its commit, the machines' constants as they were used.

use super::{Common, machines};
use ::lab::Trace;
use ::lab::findings::constants_hash;
use ::lab::model::Profile;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What is needed to make a report again, and to see whether a program is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Provenance {
    /// The program's version.
    pub(super) version: String,
    /// The commit that the program's folder has; none outside a work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
    /// The hash of the program's file.
    pub(super) binary: String,
    /// The hash of all constants as they were used.
    pub(super) constants: String,
    /// The machines as they were used: the program's, and the files of `--machine` in place of those of their names.
    pub(super) profiles: Vec<Profile>,
}

/// The hash of the program that runs.
pub(super) fn binary() -> Result<String> {
    let mut trace = Trace::default();
    trace.add(&std::fs::read(std::env::current_exe()?)?);
    Ok(format!("{:016x}", trace.hash()))
}

/// The commit of the folder that the program runs in.
fn commit() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && text.len() >= 40).then(|| text.to_owned())
}

/// The program's machines, each replaced by the one of its name that was given.
pub(super) fn profiles(given: &[Profile]) -> Result<Vec<Profile>> {
    let replace = |own: Profile| given.iter().find(|machine| machine.name == own.name).cloned().unwrap_or(own);
    Ok(Profile::built_in()?.into_iter().map(replace).collect())
}

/// Of a run with these options.
pub(super) fn of(common: &Common) -> Result<Provenance> {
    let profiles = profiles(&machines(common)?)?;
    Ok(Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        binary: binary()?,
        constants: constants_hash(&profiles),
        profiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_was_given_takes_the_place_of_its_name_and_changes_the_hash() {
        let mut given = Profile::named("rs6000-320").unwrap();
        given.set("write_us", 200.0).unwrap();
        let used = profiles(std::slice::from_ref(&given)).unwrap();
        let before = Profile::built_in().unwrap();
        assert_eq!(used.len(), before.len());
        assert!(used.contains(&given));
        assert_ne!(constants_hash(&used), constants_hash(&before));
    }
}
