//! What the commands for those who teach and study print with `--json`.

use ::lab::exercises::Mark;
use ::lab::microscope::{SCENES, View};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// One PDU of an experiment, or the scenes that can be traced: `trace`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum LabTrace {
    /// A PDU.
    Pdu(TracedPdu),
    /// Without an experiment: the scenes that there are.
    Scenes {
        /// In the order of the experiments.
        scenes: Vec<TraceScene>,
    },
}

/// A run that can be traced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TraceScene {
    /// The experiment.
    pub(crate) experiment: String,
    /// The scene.
    pub(crate) scene: String,
    /// What it shows.
    pub(crate) title: String,
}

/// A PDU under the microscope.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TracedPdu {
    /// The experiment.
    pub(crate) experiment: String,
    /// The scene.
    pub(crate) scene: String,
    /// The PDU's number.
    pub(crate) pdu: u64,
    /// How many PDUs the run has.
    pub(crate) pdus: u64,
    /// Microseconds from its first event to its last.
    pub(crate) lasts_us: f64,
    /// Its events, by their beginnings.
    pub(crate) events: Vec<TraceEvent>,
    /// What each unit did for it.
    pub(crate) units: Vec<TraceUnit>,
    /// The file with the picture or the trace; `null` where none was asked for.
    pub(crate) file: Option<PathBuf>,
}

/// A unit worked on a PDU or held it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TraceEvent {
    /// The unit.
    pub(crate) unit: String,
    /// What happened.
    pub(crate) what: String,
    /// Microseconds of virtual time: its beginning.
    pub(crate) from_us: f64,
    /// Its end.
    pub(crate) to_us: f64,
}

/// What a unit did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TraceUnit {
    /// The unit.
    pub(crate) unit: String,
    /// Microseconds of work on the PDU.
    pub(crate) pdu_us: f64,
    /// Microseconds of work over the whole run.
    pub(crate) run_us: f64,
}

impl LabTrace {
    pub(crate) fn new(view: &View, file: Option<PathBuf>) -> Self {
        let event = |e: &::lab::microscope::Event| TraceEvent {
            unit: e.unit.clone(),
            what: e.what.to_owned(),
            from_us: e.from_us,
            to_us: e.to_us,
        };
        let unit =
            |t: &::lab::microscope::UnitTotal| TraceUnit { unit: t.unit.clone(), pdu_us: t.pdu_us, run_us: t.run_us };
        LabTrace::Pdu(TracedPdu {
            experiment: view.experiment.to_owned(),
            scene: view.scene.to_owned(),
            pdu: view.pdu,
            pdus: view.pdus,
            lasts_us: view.lasts_us,
            events: view.events.iter().map(event).collect(),
            units: view.totals.iter().map(unit).collect(),
            file,
        })
    }

    pub(crate) fn scenes() -> Self {
        let scenes = SCENES.iter().map(|scene| TraceScene {
            experiment: scene.experiment.to_owned(),
            scene: scene.name.to_owned(),
            title: scene.title.to_owned(),
        });
        LabTrace::Scenes { scenes: scenes.collect() }
    }
}

/// An exercise, or the marks of a class: `exercise`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum LabExercise {
    /// One exercise.
    One(Posed),
    /// The marks of a class.
    Class {
        /// The seed of the class.
        seed: u64,
        /// By student, in the order of the file.
        students: Vec<Student>,
    },
}

/// An exercise with drawn numbers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Posed {
    /// Its number.
    pub(crate) exercise: u32,
    /// Its title.
    pub(crate) title: String,
    /// The seed of its numbers.
    pub(crate) seed: u64,
    /// The student whose numbers these are, if one was named.
    pub(crate) student: Option<String>,
    /// The question.
    pub(crate) question: String,
    /// What is asked, in the order of the answers: name and unit.
    pub(crate) asked: Vec<String>,
    /// The right answers, with `--solve`.
    pub(crate) solution: Option<Solution>,
    /// The marks, where answers were given.
    pub(crate) marks: Option<Mark>,
}

/// What `--solve` reveals.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Solution {
    /// The right numbers.
    pub(crate) answers: Vec<f64>,
    /// How to find them.
    pub(crate) way: String,
}

/// A student's marks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Student {
    /// The name.
    pub(crate) name: String,
    /// Right answers.
    pub(crate) right: usize,
    /// Answers that were asked for.
    pub(crate) of: usize,
    /// By exercise.
    pub(crate) exercises: Vec<Mark>,
}

/// A grid of points: `grid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabGrid {
    /// `grid`.
    pub(crate) lab: String,
    /// Where it is.
    pub(crate) folder: PathBuf,
    /// Points that the grid has.
    pub(crate) points: usize,
    /// Points that are there now.
    pub(crate) present: usize,
    /// Points that had been there before.
    pub(crate) before: usize,
    /// Tables and figures; none before all points are there.
    pub(crate) files: Vec<String>,
}

/// The explorer's page was written: `explorer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabExplorer {
    /// `explorer`.
    pub(crate) lab: String,
    /// The page.
    pub(crate) file: PathBuf,
    /// Its octets.
    pub(crate) octets: usize,
}
