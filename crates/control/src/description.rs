//! Whether a network can be made of a description: all that is wrong with it, found at once, each at its line and
//! column.
//!
//! What is written is read ([`crate::config`]); what is understood is tried on a model, which knows ports, labels,
//! rates and ways. Where something could not be understood, only those of the model's problems are told that cannot
//! follow from that.

use crate::config::{Config, Section, understand};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::fault::PartPath;
use crate::kinds::Kinds;
use crate::objects::{ObjectId, Objects, difference};
use crate::plan::{Impossible, Plan, Problem};
use crate::sources::file;
use crate::step::{Model, StepError};
use net::topology::{Attachment, CircuitEnd, TopologyError};
use std::collections::HashMap;
use std::path::Path;

/// Reads a description that may have stations of these kinds, and tries it on a model.
///
/// # Errors
/// All that is wrong with it.
pub fn read(kinds: &Kinds, text: &str, name: &str, folder: &Path) -> Result<Config, Diagnostics> {
    let (config, mut wrong) = understand(kinds, text, name, folder);
    if wrong.is_empty() {
        return Ok(config);
    }
    if let Err(Impossible(mut problems)) = rehearse(&config) {
        problems.retain(|problem| stands_alone(&problem.cause));
        wrong.extend(located(&config, &problems));
    }
    Err(Diagnostics::new(config.source, wrong))
}

/// The same of a file.
///
/// # Errors
/// It cannot be read, or [`Diagnostics`].
pub fn load(kinds: &Kinds, path: &Path) -> anyhow::Result<Config> {
    let (text, folder) = crate::config::read(path)?;
    Ok(read(kinds, &text, &path.display().to_string(), &folder)?)
}

/// Whether a network can be made of a description; nothing is touched.
///
/// # Errors
/// All that cannot be.
pub fn rehearse(config: &Config) -> Result<(), Impossible> {
    let (nothing, mut model) = (Objects::new(), Model::default());
    let mut plan = Plan::new(&nothing, &difference(&nothing, &file::objects(config)), &model);
    plan.check(&mut model).map(drop).map_err(Impossible)
}

/// An error of applying a description, with the places of what is wrong with it where it is about the description.
pub fn explained(config: &Config, e: anyhow::Error) -> anyhow::Error {
    match e.downcast_ref::<Impossible>() {
        Some(Impossible(problems)) => Diagnostics::new(config.source.clone(), located(config, problems)).into(),
        None => e,
    }
}

/// Whether a problem is one even if other objects could not be understood.
fn stands_alone(cause: &StepError) -> bool {
    use TopologyError as E;
    let StepError::Topology(e) = cause else { return true };
    !matches!(
        e,
        E::NoStation(_)
            | E::NoLinkAt { .. }
            | E::NoWay { .. }
            | E::NoTranslation { .. }
            | E::NoLink(_)
            | E::NoCircuit(_)
            | E::StationExists(_)
    )
}

/// Problems of a plan at the lines of the description that it was made of.
fn located(config: &Config, problems: &[Problem]) -> Vec<Diagnostic> {
    let ids = file::link_ids(&config.description.links);
    let circuits = config.description.circuits.iter().map(ObjectId::circuit);
    let links = ids.into_iter().zip((0..).map(Section::Link));
    let sections: HashMap<ObjectId, Section> = links.chain(circuits.zip((0..).map(Section::Circuit))).collect();
    let section = |id: &ObjectId| match id {
        ObjectId::Station(name) => Some(Section::Station(name.clone())),
        other => sections.get(other).cloned(),
    };
    let all = problems.iter().map(|problem| match section(&problem.subject) {
        Some(section) => {
            let part = part_of(config, &section, &problem.cause);
            (section, part, problem.cause.to_string())
        }
        // What commands and peers have added is in no line.
        None => (Section::Station(String::new()), PartPath::default(), problem.to_string()),
    });
    config.wrong(all)
}

/// The part of an object that a problem is about; empty for all of it.
fn part_of(config: &Config, section: &Section, cause: &StepError) -> PartPath {
    use TopologyError as E;
    let StepError::Topology(e) = cause else { return PartPath::default() };
    let via_or = |is: &dyn Fn(&CircuitEnd) -> bool, otherwise: PartPath| {
        let Section::Circuit(n) = section else { return otherwise };
        let via = config.description.circuits.get(*n).and_then(|circuit| circuit.via.iter().position(is));
        via.map_or(otherwise, |n| ("via", n).into())
    };
    let end_where = |is: &dyn Fn(&CircuitEnd) -> bool| {
        let Section::Circuit(n) = section else { return PartPath::default() };
        let ends = config.description.circuits.get(*n).map(|circuit| circuit.ends.iter());
        ends.and_then(|mut ends| ends.position(is)).map_or_else(|| "ends".into(), |n| ("ends", n).into())
    };
    match (section, e) {
        (Section::Station(_), E::BelowUse { what, .. }) => (*what).into(),
        (Section::Link(n), E::PortTaken { station, port } | E::NoPort { switch: station, port, .. }) => {
            let here = |end: &Attachment| end.station == *station && end.port.is_none_or(|own| own == *port);
            let at = config.description.links.get(*n).and_then(|link| link.ends.iter().position(here));
            at.map_or_else(|| "ends".into(), |n| ("ends", n).into())
        }
        (Section::Link(_), E::Admission { .. }) => "rate".into(),
        (Section::Link(_), E::BothOutside(_) | E::Loop(_) | E::NoStation(_)) => "ends".into(),
        (Section::Circuit(_), E::LabelInUse { label, .. } | E::VpiTooLarge { label, .. }) => {
            via_or(&|via| via.label() == *label, end_where(&|end| end.label() == *label))
        }
        (Section::Circuit(_), E::CircuitExists(name)) => end_where(&|end| end.to_string() == *name),
        (Section::Circuit(_), E::NoWay { to: station, .. } | E::EndsAtSwitch(station) | E::NoStation(station)) => {
            end_where(&|end| end.station == *station)
        }
        (Section::Circuit(_), E::ViaManyEnds) => "via".into(),
        (Section::Circuit(_), E::TwoLabels { at, .. }) => via_or(&|via| via.to_string() == *at, "ends".into()),
        (Section::Circuit(_), E::NoLinkAt { station, port }) => {
            let is = |end: &CircuitEnd| end.station == *station && end.port == Some(*port);
            via_or(&is, end_where(&is))
        }
        (Section::Circuit(_), E::Admission { .. }) => "pcr".into(),
        (Section::Circuit(_), _) => "ends".into(),
        _ => PartPath::default(),
    }
}
