//! The audit: what decides each row. Every experiment runs again with other constants, without the mechanisms that its rows
//! name, with other seeds, and in full; what changes sides is written down in [`Findings`].
//!
//! In: how many seeds, and whether the full run counts. Out: findings, the same each time.

use crate::experiment::{Claim, Experiment, ExperimentOutcome, Row, run_again, run_without};
use crate::experiments::ALL;
use crate::findings::{Finding, Findings, constants_hash, key};
use crate::mechanism::Mechanism;
use crate::model::memo::Memo;
use crate::model::{Profile, ProfileError};
use crate::sensitivity::{failed, in_parallel};
use std::collections::{BTreeMap, BTreeSet};

/// The range of an anchored constant: as far as an anchor's row may be off, either way.
pub const RANGE: [f64; 2] = [0.95, 1.05];
/// By so much an assumed constant is changed to see which rows it moves.
const ASSUMED: f64 = 1.2;
/// A number has moved if it has changed by more than this, relative.
const MOVED: f64 = 1e-3;

/// What is changed in one run of the experiments.
#[derive(Debug, Clone)]
enum Change {
    /// A calibrated constant, and the copies of it that other machines have.
    Anchored(String, String, f64),
    /// The copies only.
    Copied(String, String, f64),
    /// An assumed constant.
    Assumed(String, String, f64),
    /// A mechanism is off.
    Off(Mechanism),
    /// Another seed.
    Seed(u64),
    /// Not `--quick`.
    Full,
}

/// Constants that other machines have "as on" this one.
fn copies(profiles: &[Profile], name: &str, value: f64) -> Vec<Profile> {
    let copied = |other: &&Profile| {
        other.constants.get(name).is_some_and(|c| {
            c.value.to_bits() == value.to_bits() && c.source.as_ref().is_some_and(|s| s.starts_with("as on"))
        })
    };
    profiles.iter().filter(copied).cloned().collect()
}

fn changes(profiles: &[Profile], seeds: u64, full: bool) -> Vec<Change> {
    let mut all: Vec<Change> = (2..=seeds).map(Change::Seed).collect();
    all.extend(Mechanism::ALL.map(Change::Off));
    for profile in profiles {
        for (name, constant) in profile.free() {
            let (machine, name_of) = (profile.name.clone(), name.to_owned());
            if constant.anchor.is_none() {
                all.push(Change::Assumed(machine, name_of, ASSUMED));
                continue;
            }
            for factor in RANGE {
                all.push(Change::Anchored(machine.clone(), name_of.clone(), factor));
            }
            if !copies(profiles, name, constant.value).is_empty() {
                all.push(Change::Copied(machine, name_of, RANGE[1]));
            }
        }
    }
    all.extend(full.then_some(Change::Full));
    all
}

/// The machines of a change, and what they are called where it is noted.
fn machines(profiles: &[Profile], change: &Change) -> Result<Vec<Profile>, ProfileError> {
    let (Change::Anchored(machine, name, factor)
    | Change::Copied(machine, name, factor)
    | Change::Assumed(machine, name, factor)) = change
    else {
        return Ok(Vec::new());
    };
    let own = profiles.iter().find(|profile| profile.name == *machine);
    let own = own.ok_or_else(|| ProfileError::Machine(machine.clone()))?;
    let value = own.constants.get(name).map_or(0.0, |constant| constant.value);
    let mut all = copies(profiles, name, value);
    if !matches!(change, Change::Copied(..)) {
        all.push(own.clone());
    }
    all.iter_mut().try_for_each(|machine| machine.set(name, value * factor))?;
    Ok(all)
}

/// An experiment's outcome under a change; none, where the change has nothing to do with it.
fn changed(
    (at, before): (usize, &ExperimentOutcome),
    (profiles, memo): (&[Profile], &Memo),
    change: &Change,
) -> Result<Option<ExperimentOutcome>, ProfileError> {
    let experiment: &dyn Experiment = ALL[at];
    if !before.rows.iter().any(|row| matches!(row.claim, Claim::Number | Claim::Phrase)) {
        return Ok(None);
    }
    let result = match change {
        Change::Seed(seed) => run_again(&[], memo, experiment, *seed, true),
        Change::Full => run_again(&[], memo, experiment, 1, false),
        Change::Off(mechanism) => {
            if !before.rows.iter().any(|row| row.mechanism == Some(*mechanism)) {
                return Ok(None);
            }
            run_without(*mechanism, memo, experiment, 1, true)
        }
        Change::Anchored(_, name, _) | Change::Copied(_, name, _) | Change::Assumed(_, name, _) => {
            let machines = machines(profiles, change)?;
            let read = |machine: &Profile| before.constants.contains(&format!("{}.{name}", machine.name));
            if !machines.iter().any(read) {
                return Ok(None);
            }
            run_again(&machines, memo, experiment, 1, true)
        }
    };
    match result {
        Err(ProfileError::Failed(why)) => Ok(Some(failed(before, &why))),
        other => other.map(Some),
    }
}

fn moved(before: &Row, after: &Row) -> bool {
    match (before.modelled, after.modelled) {
        (Some(a), Some(b)) if a != 0.0 => (b / a - 1.0).abs() > MOVED,
        (a, b) => a != b || before.note != after.note,
    }
}

/// Notes what a change did to a row.
fn note(finding: &mut Finding, change: &Change, (before, after): (&Row, &Row)) {
    let flipped = before.holds() && !after.holds();
    let push = |list: &mut Vec<String>, machine: &str, name: &str| {
        let name = format!("{machine}.{name}");
        if !list.contains(&name) {
            list.push(name);
        }
    };
    match change {
        Change::Seed(_) => {
            finding.seeds[0] += u32::from(after.holds());
            finding.seeds[1] += 1;
        }
        Change::Full => finding.full = Some(after.holds()),
        Change::Off(mechanism) => {
            if before.mechanism == Some(*mechanism) {
                finding.off = Some(flipped);
            }
        }
        Change::Anchored(machine, name, _) => {
            if flipped {
                push(&mut finding.anchored, machine, name);
            }
            if moved(before, after) {
                push(&mut finding.moved, machine, name);
            }
        }
        Change::Copied(machine, name, _) => {
            if moved(before, after) {
                push(&mut finding.copied, machine, name);
            }
        }
        Change::Assumed(machine, name, _) => {
            if moved(before, after) {
                push(&mut finding.moved, machine, name);
            }
        }
    }
}

/// Which experiments are audited.
fn chosen(only: Option<&BTreeSet<String>>) -> Vec<usize> {
    let is = |experiment: &dyn Experiment| only.is_none_or(|only| only.contains(experiment.name()));
    (0..ALL.len()).filter(|at| is(ALL[*at])).collect()
}

/// Runs the audit over `seeds` seeds, and over the full run as well if `full`; of all experiments, or of some by name.
///
/// # Errors
/// A machine lacks a constant, or an experiment fails as it stands.
pub fn audit(seeds: u64, full: bool, only: Option<&BTreeSet<String>>) -> Result<Findings, ProfileError> {
    let (profiles, memo) = (Profile::built_in()?, Memo::default());
    let chosen = chosen(only);
    let run = |at: &usize| run_again(&[], &memo, ALL[*at], 1, true);
    let baseline = in_parallel(&chosen, run).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut rows: BTreeMap<String, Finding> = BTreeMap::new();
    let compared = |row: &&Row| matches!(row.claim, Claim::Number | Claim::Phrase);
    for outcome in &baseline {
        for row in outcome.rows.iter().filter(compared) {
            let finding = rows.entry(key(&outcome.experiment, row)).or_default();
            finding.seeds[0] += u32::from(row.holds());
            finding.seeds[1] += 1;
        }
    }
    let all = changes(&profiles, seeds, full);
    let each = || 0..baseline.len();
    let jobs: Vec<(&Change, usize)> = all.iter().flat_map(|change| each().map(move |n| (change, n))).collect();
    let done = in_parallel(&jobs, |(change, n)| changed((chosen[*n], &baseline[*n]), (&profiles, &memo), change));
    for ((change, n), after) in jobs.iter().zip(done) {
        let Some(after) = after? else { continue };
        let pairs = baseline[*n].rows.iter().zip(&after.rows);
        for (before, after) in pairs.filter(|(before, _)| compared(before)) {
            if let Some(finding) = rows.get_mut(&key(&baseline[*n].experiment, before)) {
                note(finding, change, (before, after));
            }
        }
    }
    Ok(Findings { constants: constants_hash(&profiles), rows })
}
