//! Where a report is from: the program, its commit, the machines' constants as they were used.

use super::{Common, machines};
use ::lab::Trace;
use ::lab::findings::constants_hash;
use ::lab::model::Profile;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// What is needed to make a report again, and to see whether a program is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Provenance {
    /// The program's version.
    pub(super) version: String,
    /// The commit that the program was built from; none if that is not known.
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

/// The commit that the program was built from: the one that its build named (`CELLWAY_COMMIT`), or that of the work tree in which the
/// program's file lies, unless the commit is younger than the file.
fn commit() -> Option<String> {
    option_env!("CELLWAY_COMMIT").map(str::to_owned).or_else(|| commit_around(&std::env::current_exe().ok()?))
}

/// The commit of the work tree that a file lies in; none if the file is older.
fn commit_around(file: &Path) -> Option<String> {
    let built = file.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let mut git = std::process::Command::new("git");
    let output = git.arg("-C").arg(file.parent()?).args(["log", "-1", "--format=%H %ct"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (commit, seconds) = text.trim().split_once(' ')?;
    (output.status.success() && seconds.parse::<u64>().ok()? <= built.as_secs()).then(|| commit.to_owned())
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
    fn a_program_older_than_the_commit_or_outside_a_work_tree_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        let program = std::fs::File::create(&file).unwrap();
        assert_eq!(commit_around(&file), None, "no work tree");
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.arg("-C").arg(folder.path()).args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "init.defaultBranch=m",
            ]);
            assert!(git.args(words).output().unwrap().status.success(), "{words:?}");
        };
        git(&["init"]);
        git(&["commit", "--allow-empty", "-m", "first"]);
        let hour = std::time::Duration::from_secs(3600);
        program.set_modified(std::time::SystemTime::now() + hour).unwrap();
        assert_eq!(commit_around(&file).map(|commit| commit.len()), Some(40));
        program.set_modified(std::time::SystemTime::now() - hour).unwrap();
        assert_eq!(commit_around(&file), None, "built before the commit");
    }

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
