//! A microscope: one PDU of an experiment's own run, event by event over all units.
//!
//! In: an experiment's scene (one run with the experiment's constants and sizes) and the number of a PDU. Out: a
//! [`View`]: who worked on it or held it, from when to when, and what the units did for others meanwhile. The run is the
//! model's real one with a [`Recorder`](crate::model::recorder::Recorder); `tests/microscope.rs` compares its results
//! with those that the experiment prints.

mod drawing;
mod scenes;
mod view;

pub use drawing::svg;
pub use scenes::{SCENES, Scene, scene, scenes_of};
pub use view::{Event, UnitTotal, View, ViewError};
