//! What a grid consists of: axes, seeds, and the number of each point. The plan lies in the grid's folder, so that parts
//! of another grid are not mixed with it.

use super::super::sweep::Range;
use super::GridOptions;
use ::lab::model::Profile;
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Points of a grid at most.
const POINTS: usize = 1_000_000;
/// Values of an axis that does not say how many.
const VALUES: u32 = 5;

/// A constant and its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(super) range: Range,
    pub(super) points: u32,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (range, points) = text.split_once('/').map_or((text, None), |(range, points)| (range, Some(points)));
        let points =
            points.map_or(Ok(VALUES), str::parse).map_err(|_| format!("invalid number of points in \"{text}\""))?;
        if !(2..=10_000).contains(&points) {
            return Err(format!("invalid number of points in \"{text}\": expected 2 to 10000"));
        }
        Ok(Axis { range: range.parse()?, points })
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { machine, constant, from, to } = &self.range;
        write!(f, "{machine}.{constant}={from}..{to}/{}", self.points)
    }
}

impl Axis {
    fn value(&self, at: usize) -> f64 {
        self.range.from + (self.range.to - self.range.from) * at as f64 / f64::from(self.points - 1)
    }

    fn constant(&self) -> String {
        format!("{}.{}", self.range.machine, self.range.constant)
    }
}

/// Seeds, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Seeds { first, last }),
            _ => Err(format!("invalid seeds \"{text}\": expected FIRST..LAST, like 1..5")),
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// See the module's head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) experiment: String,
    /// Names of the constants and their values.
    pub(super) axes: Vec<(String, Vec<f64>)>,
    pub(super) seeds: [u64; 2],
    pub(super) quick: bool,
    /// The machines with the constants that are varied, as they are without.
    machines: Vec<Profile>,
}

impl Plan {
    pub(super) fn new(options: &GridOptions, given: &[Profile]) -> Result<Self> {
        let axis = |axis: &Axis| (axis.constant(), (0..axis.points as usize).map(|at| axis.value(at)).collect());
        let axes: Vec<(String, Vec<f64>)> = options.axes.iter().map(axis).collect();
        let names: BTreeSet<&String> = axes.iter().map(|(name, _)| name).collect();
        if names.len() < axes.len() {
            bail!("a constant is given twice: give each constant once");
        }
        let mut machines: Vec<Profile> = given.to_vec();
        for axis in &options.axes {
            if !machines.iter().any(|machine| machine.name == axis.range.machine) {
                machines.push(super::super::machine_named(given, &axis.range.machine)?);
            }
        }
        let Seeds { first, last } = options.seeds;
        let quick = options.quick;
        let plan = Plan { experiment: options.experiment.clone(), axes, seeds: [first, last], quick, machines };
        let combined = |sum: Option<usize>, n: usize| sum?.checked_mul(n);
        let seeds = usize::try_from(last - first).ok().and_then(|n| n.checked_add(1));
        match plan.axes.iter().map(|(_, values)| values.len()).fold(seeds, combined) {
            Some(1..=POINTS) => Ok(plan),
            _ => bail!("a grid has {POINTS} points at most: give fewer values or seeds"),
        }
    }

    fn seeds(&self) -> usize {
        (self.seeds[1] - self.seeds[0] + 1) as usize
    }

    pub(super) fn points(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product::<usize>() * self.seeds()
    }

    /// The values and the seed of a point: seeds change first, then the first axis.
    pub(super) fn point(&self, point: usize) -> (Vec<f64>, u64) {
        let (mut rest, seed) = (point / self.seeds(), self.seeds[0] + (point % self.seeds()) as u64);
        let mut values = Vec::new();
        for (_, all) in &self.axes {
            values.push(all[rest % all.len()]);
            rest /= all.len();
        }
        (values, seed)
    }

    /// Machines with these values.
    pub(super) fn machines(&self, given: &[Profile], values: &[f64]) -> Result<Vec<Profile>> {
        let mut machines = self.machines.clone();
        machines.extend(given.iter().filter(|g| !self.machines.iter().any(|m| m.name == g.name)).cloned());
        for ((name, _), value) in self.axes.iter().zip(values) {
            let (machine, constant) = name.split_once('.').context("a constant without a machine")?;
            let machine = machines.iter_mut().find(|m| m.name == machine).context("no such machine")?;
            machine.set(constant, *value)?;
        }
        Ok(machines)
    }

    /// A constant that a run has not read.
    pub(super) fn unread(&self, read: &BTreeSet<String>) -> Option<&str> {
        self.axes.iter().map(|(name, _)| name.as_str()).find(|name| !read.contains(*name))
    }

    /// Makes the folder this grid's, or finds that it is.
    pub(super) fn settle(&self, folder: &Path) -> Result<()> {
        let path = folder.join("plan.json");
        fs::create_dir_all(folder.join("points")).with_context(|| format!("making {}", folder.display()))?;
        if path.exists() {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let there: Option<Plan> = serde_json::from_str(&text).ok();
            if there.as_ref() != Some(self) {
                bail!(
                    "{} holds another grid: repeat the command that made it, or give another folder",
                    folder.display()
                );
            }
            return Ok(());
        }
        super::write_whole(&path, &serde_json::to_string_pretty(self)?)
    }

    /// Points whose rows are there.
    pub(super) fn present(&self, folder: &Path) -> usize {
        (0..self.points()).filter(|point| super::file_of(folder, *point).exists()).count()
    }
}
