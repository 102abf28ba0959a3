//! Which runs of which experiments can be looked at. A new one: a line in [`SCENES`].

use crate::model::pair::{self, Scenario, Transport};
use crate::model::recorder::Timeline;
use crate::model::write::{self, Driver};
use crate::model::{Profile, ProfileError};

/// A run, and what it gave, by the names of the experiment's results.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    /// What each unit did.
    pub timeline: Timeline,
    /// Results of the run, which the experiment prints or draws too: name, unit, number.
    pub results: Vec<(&'static str, &'static str, f64)>,
}

/// How a scene is run: machines in place of those that come with the program, and whether bursts are short.
type Runs = fn(&[Profile], bool) -> Result<Looked, ProfileError>;

/// A run of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// The experiment.
    pub experiment: &'static str,
    /// What the scene is called.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    run: Runs,
}

/// All of them. The first of an experiment is its default.
pub const SCENES: [Scene; 9] = [
    Scene {
        experiment: "seed000-one-way",
        name: "copying",
        title: "raw AAL5 of 8192 octets from one PC to another, by copying",
        run: |machines, quick| one_way(machines, quick, false),
    },
    Scene {
        experiment: "seed000-one-way",
        name: "single-copy",
        title: "raw AAL5 of 8192 octets from one PC to another, pages locked and mapped",
        run: |machines, quick| one_way(machines, quick, true),
    },
    Scene {
        experiment: "seed000-loopback",
        name: "copying",
        title: "raw AAL5 of 8192 octets, sender and receiver on one PC, by copying",
        run: |machines, quick| looped(machines, quick, false),
    },
    Scene {
        experiment: "seed000-loopback",
        name: "single-copy",
        title: "raw AAL5 of 8192 octets, sender and receiver on one PC, pages locked and mapped",
        run: |machines, quick| looped(machines, quick, true),
    },
    Scene {
        experiment: "seed003-tables",
        name: "udp-checksum",
        title: "UDP with checksum, 8192 octets, which overruns its receiver",
        run: |machines, quick| tables(machines, quick, Transport::Udp { checksum: true }),
    },
    Scene {
        experiment: "seed003-tables",
        name: "udp",
        title: "UDP without checksum, 8192 octets",
        run: |machines, quick| tables(machines, quick, Transport::Udp { checksum: false }),
    },
    Scene {
        experiment: "seed003-tables",
        name: "raw",
        title: "raw AAL5 of 8192 octets",
        run: |machines, quick| tables(machines, quick, Transport::Raw),
    },
    Scene {
        experiment: "seed001-writes",
        name: "user-buffer",
        title: "writes of 8192 octets from the user's memory to the Segmenter",
        run: |machines, quick| writes(machines, quick, Driver::UserBuffer),
    },
    Scene {
        experiment: "seed001-writes",
        name: "kernel-buffer",
        title: "writes of 8192 octets through a kernel buffer to the Segmenter",
        run: |machines, quick| writes(machines, quick, Driver::KernelBuffer),
    },
];

const OCTETS: usize = 8192;

/// The scenes of an experiment.
pub fn scenes_of(experiment: &str) -> impl Iterator<Item = &'static Scene> {
    SCENES.iter().filter(move |scene| scene.experiment == experiment)
}

/// A scene by name; an experiment's first, if none is named.
pub fn scene(experiment: &str, name: Option<&str>) -> Option<&'static Scene> {
    scenes_of(experiment).find(|scene| name.is_none_or(|name| scene.name == name))
}

impl Scene {
    /// Runs it.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn run(&self, machines: &[Profile], quick: bool) -> Result<Looked, ProfileError> {
        (self.run)(machines, quick)
    }
}

fn machine(machines: &[Profile], name: &str) -> Result<Profile, ProfileError> {
    machines.iter().find(|machine| machine.name == name).map_or_else(|| Profile::named(name), |m| Ok(m.clone()))
}

fn look(scenario: &Scenario<'_>) -> Result<Looked, ProfileError> {
    let recorded = pair::run_recorded(scenario)?;
    let outcome = recorded.outcome;
    let results = vec![
        ("sent", "Mbit/s", outcome.sent_mbit_s),
        ("received", "Mbit/s", outcome.received_mbit_s),
        ("carried", "Mbit/s", outcome.carried_mbit_s),
        ("lost", "%", outcome.lost * 100.0),
        ("cells", "", outcome.cells as f64),
    ];
    Ok(Looked { timeline: recorded.timeline, results })
}

fn one_way(machines: &[Profile], quick: bool, single_copy: bool) -> Result<Looked, ProfileError> {
    let machine = machine(machines, "pentium90-neptune")?;
    let pdus = if quick { 300 } else { 2048 };
    look(&Scenario { octets: OCTETS, single_copy, ..Scenario::new(&machine, &machine, Transport::Raw, pdus) })
}

fn looped(machines: &[Profile], quick: bool, single_copy: bool) -> Result<Looked, ProfileError> {
    let machine = machine(machines, "pentium90-neptune")?;
    let pdus = if quick { 300 } else { 2048 };
    let plain = Scenario::new(&machine, &machine, Transport::Raw, pdus);
    look(&Scenario { octets: OCTETS, single_copy, loopback: true, quanta: [0.75, 1.25], ..plain })
}

fn tables(machines: &[Profile], quick: bool, transport: Transport) -> Result<Looked, ProfileError> {
    let machine = machine(machines, "pentium90-neptune")?;
    look(&Scenario { octets: OCTETS, ..Scenario::new(&machine, &machine, transport, if quick { 500 } else { 2048 }) })
}

fn writes(machines: &[Profile], quick: bool, driver: Driver) -> Result<Looked, ProfileError> {
    let machine = machine(machines, "rs6000-320")?;
    let writes = if quick { 1 << 20 } else { 8 << 20 } / OCTETS;
    let (outcome, timeline) = write::run_recorded(&machine, driver, OCTETS, writes as u64)?;
    let results = vec![
        ("rate", "Mbit/s", outcome.mbit_s),
        ("processor busy", "%", outcome.processor * 100.0),
        ("cells", "", outcome.cells as f64),
    ];
    Ok(Looked { timeline, results })
}
