//! What an experiment is: something with a name that runs and gives rows (a number each, published, modelled, measured)
//! and figures (curves of the same three).
//!
//! In: a seed, a size, and whoever can measure on this machine. Out: an [`ExperimentOutcome`] that serialises. The model never sees
//! a published number: it is given to a row beside what the model has computed.
//!
//! ```
//! use lab::experiment::{Experiment, Run, Verdict, run};
//! use lab::model::{ProfileError, tandem};
//!
//! #[derive(Debug)]
//! struct Delay;
//!
//! impl Experiment for Delay {
//!     fn name(&self) -> &'static str {
//!         "delay"
//!     }
//!     fn title(&self) -> &'static str {
//!         "A PDU of 64 kB by way of adapters that keep it whole"
//!     }
//!     fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
//!         let mib = 1_048_576.0;
//!         let stages = [65_536.0 / (50.0 * mib), 65_536.0 / (16.0 * mib), 65_536.0 / (50.0 * mib)];
//!         let milliseconds = tandem::seconds(1, &stages) * 1e3;
//!         // Checklist id, what, unit, the paper's number, its decimals, the model's.
//!         run.arithmetic("A-10", "64 kB, copied at both sides", "ms", 6.4, 1, milliseconds);
//!         Ok(())
//!     }
//! }
//!
//! let outcome = run(&Delay, 1, true, None)?;
//! assert_eq!(outcome.rows[0].verdict, Verdict::Arithmetic);
//! # Ok::<(), ProfileError>(())
//! ```

mod workload;

use crate::Trace;
use crate::findings::Findings;
pub use crate::mechanism::Mechanism;
use crate::model::memo::Memo;
use crate::model::networks::Kind;
use crate::model::pair::{self, Scenario};
use crate::model::{Profile, ProfileError, Random, Reads};
use crate::row::Bound;
pub use crate::row::{Claim, MEBIBIT, Measured, Published, Row, Test, Verdict};
pub use crate::sys::waiting::Waiting;
use endpoint::{DataPath, Events};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
pub use workload::{Told, Workload};

/// An experiment; a new one is a type in a file of [`crate::experiments`] and a line in its registry.
pub trait Experiment: Sync {
    /// What it is called: `seed000-copying`.
    fn name(&self) -> &'static str;
    /// What it asks, in a line.
    fn title(&self) -> &'static str;
    /// Runs it.
    ///
    /// # Errors
    /// A machine lacks a constant that it needs.
    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError>;
    /// Puts the question to the machine at hand, by [`Run::measure`]; called after [`Experiment::run`] where something can
    /// measure. Nothing, where the question has no meaning today.
    fn today(&self, _: &mut Run<'_>) {}
}

/// Where a curve is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The paper.
    Published,
    /// The model.
    Modelled,
    /// This machine.
    Measured,
}

/// A curve: x, y, and how far y was seen to go below and above.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// See there.
    pub origin: Origin,
    /// The points.
    pub points: Vec<[f64; 4]>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name in files.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What is on the axes.
    pub axes: [String; 2],
    /// Which axes are logarithmic.
    pub logarithmic: [bool; 2],
    /// The curves.
    pub series: Vec<Series>,
    /// What the paper says of it that is no point.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Figure {
    /// An empty figure.
    pub fn new(name: &str, title: &str, axes: [&str; 2], logarithmic: [bool; 2]) -> Self {
        Figure {
            name: name.into(),
            title: title.into(),
            axes: axes.map(String::from),
            logarithmic,
            series: Vec::new(),
            note: String::new(),
        }
    }

    /// Says what the paper says of it that is no point.
    pub fn note(&mut self, text: &str) -> &mut Self {
        self.note = text.into();
        self
    }

    /// Adds a curve.
    pub fn add(&mut self, label: &str, origin: Origin, points: impl IntoIterator<Item = (f64, f64)>) -> &mut Self {
        let points = points.into_iter().map(|(x, y)| [x, y, y, y]).collect();
        self.series.push(Series { label: label.into(), origin, points });
        self
    }

    /// Adds a modelled curve with the extremes of several runs: x, and mean, least and greatest of y.
    pub fn add_bars(&mut self, label: &str, points: impl IntoIterator<Item = [f64; 4]>) -> &mut Self {
        let points = points.into_iter().collect();
        self.series.push(Series { label: label.into(), origin: Origin::Modelled, points });
        self
    }

    /// Adds a measured curve with its extremes; nothing if nothing was measured.
    pub fn add_measured(
        &mut self,
        label: &str,
        points: impl IntoIterator<Item = (f64, Option<Measured>)>,
    ) -> &mut Self {
        let of = |(x, m): (f64, Option<Measured>)| m.map(|m| [x, m.median, m.least, m.greatest]);
        let points: Vec<_> = points.into_iter().filter_map(of).collect();
        if !points.is_empty() {
            self.series.push(Series { label: label.into(), origin: Origin::Measured, points });
        }
        self
    }
}

/// What an experiment gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentOutcome {
    /// The experiment's name.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// Checked numbers.
    pub rows: Vec<Row>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// The hash over what happened in virtual time, and over what came of it: the same from the same seed.
    pub trace: u64,
    /// Cells that were carried in virtual time.
    pub cells: u64,
    /// Constants of machines that were read, as `machine.constant`.
    #[serde(default)]
    pub constants: BTreeSet<String>,
}

/// What can be measured on the machine at hand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Probe {
    /// Mbit/s from application to application over a cell link.
    Path {
        /// Octets of a PDU.
        octets: usize,
        /// By this data path.
        path: DataPath,
    },
    /// Mbit/s from application to application over a cell link, by windows or by a copy to and from shared memory on each side.
    Windows {
        /// Octets of a PDU.
        octets: usize,
        /// The sender has a window: SDUs leave from its pages.
        sends: bool,
        /// The receiver has one: pages are mapped.
        receives: bool,
    },
    /// Mbit/s of segmentation and reassembly on one core, PDUs of so many octets.
    Layer {
        /// Octets of a PDU.
        octets: usize,
    },
    /// Octets/us (10^6 octets/s) of copying in memory, pieces of so many octets.
    Copy {
        /// Octets of a piece.
        octets: usize,
    },
    /// Octets/us of the Internet checksum (RFC 1071) over pieces of so many octets.
    Checksum {
        /// Octets of a piece.
        octets: usize,
        /// Copied in the same pass.
        copied: bool,
    },
    /// What PDUs cost by a data path, in microseconds on a processor each: sent in bursts, received in bursts, none lost.
    Cost {
        /// Octets of a PDU.
        octets: usize,
        /// By this data path.
        path: DataPath,
        /// By this event strategy.
        events: Events,
        /// PDUs of a burst.
        burst: usize,
        /// Whose time.
        whose: Whose,
    },
    /// Microseconds on a processor of a timer's tick: going to sleep, and being woken.
    Tick,
    /// Microseconds of a `write` of so many octets to a device that takes all and does nothing.
    Write {
        /// Octets of a write.
        octets: usize,
    },
    /// Lookups per second in a full CAM of 256 entries.
    Lookup,
    /// Microseconds of making octets of one memory appear in another place: by mapping pages there, or by copying.
    Move {
        /// Octets; whole pages are moved.
        octets: usize,
        /// By mapping.
        mapped: bool,
    },
    /// Sixty round trips of 4 kB, in microseconds: mean, least and greatest.
    Echo {
        /// By this event strategy.
        events: Events,
        /// While a flood with a window of 256 kB is under way on another circuit.
        loaded: bool,
    },
    /// Overload: host and application share a processor, the sender has another.
    Load {
        /// By this event strategy.
        events: Events,
        /// How much is offered, in parts of the saturating load: one of [`LOADS`].
        load: f64,
        /// What is asked.
        what: Load,
    },
    /// Microseconds of a round trip between two applications.
    RoundTrip {
        /// Octets of a PDU, each way.
        octets: usize,
        /// By this event strategy.
        events: Events,
    },
    /// Microseconds of a round trip of datagrams over the kernel's loopback.
    Datagrams {
        /// Octets, each way.
        octets: usize,
        /// How they are waited for.
        waiting: Waiting,
    },
    /// The work of applications over one of the three networks of seed 002.
    Carry {
        /// The network.
        over: Kind,
        /// What applications do.
        work: Workload,
        /// What is asked: as [`Workload`] says, not everything comes of each.
        what: Told,
    },
    /// Microseconds of a system call.
    SystemCall,
    /// Cells per second through the list reassembler of seed 001.
    Lists,
}

/// Loads that are offered, in parts of the saturating one.
pub const LOADS: [f64; 6] = [0.1, 0.4, 0.8, 1.2, 3.0, 10.0];

/// Whose time on a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's: sender, host interface and network, receiver.
    All,
    /// The sender's, until its last call has returned.
    Sender,
    /// The host interface's and the network's.
    Host,
}

/// What is asked of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// SDUs offered per second.
    Offered,
    /// SDUs that the application has dealt with, per second.
    Done,
    /// Microseconds from offer to done, median.
    Latency,
}

/// Who can measure.
pub trait Live {
    /// This machine's profile, as `cellway-lab calibrate` writes it.
    fn profile(&mut self) -> Option<Profile> {
        None
    }

    /// The result; `None` if this machine cannot.
    fn measure(&mut self, probe: Probe) -> Option<Measured>;

    /// Why this machine has no such way to wait, if it has none.
    fn lacks(&mut self, _: Waiting) -> Option<String> {
        None
    }

    /// What AF_XDP is on this machine, in words.
    fn xdp(&mut self) -> String {
        "nobody has asked this machine for it".into()
    }
}

/// A run of an experiment.
pub struct Run<'a> {
    seed: u64,
    quick: bool,
    live: Option<&'a mut dyn Live>,
    name: &'static str,
    machines: Vec<Profile>,
    memo: Option<&'a Memo>,
    off: Option<Mechanism>,
    failed: Vec<String>,
    reads: Reads,
    outcome: ExperimentOutcome,
    trace: Trace,
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("name", &self.name).field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Runs one experiment. The outcome depends on the experiment, the seed and `quick`, and, in its measurements only, on
/// the machine.
///
/// # Errors
/// A machine lacks a constant.
pub fn run(
    experiment: &dyn Experiment,
    seed: u64,
    quick: bool,
    live: Option<&mut dyn Live>,
) -> Result<ExperimentOutcome, ProfileError> {
    run_on(&[], experiment, seed, quick, live)
}

/// The same with other machines than the ones that come with the program, each in place of the one of its name.
///
/// # Errors
/// A machine lacks a constant.
pub fn run_on(
    machines: &[Profile],
    experiment: &dyn Experiment,
    seed: u64,
    quick: bool,
    live: Option<&mut dyn Live>,
) -> Result<ExperimentOutcome, ProfileError> {
    run_whole(machines, (None, None), experiment, (seed, quick), live)
}

/// The same without measurements; pairs of PCs that have run before are taken from `memo`.
///
/// # Errors
/// A machine lacks a constant.
pub fn run_again(
    machines: &[Profile],
    memo: &Memo,
    experiment: &dyn Experiment,
    seed: u64,
    quick: bool,
) -> Result<ExperimentOutcome, ProfileError> {
    run_whole(machines, (Some(memo), None), experiment, (seed, quick), None)
}

/// The same without one mechanism.
///
/// # Errors
/// As [`run`].
pub fn run_without(
    off: Mechanism,
    memo: &Memo,
    experiment: &dyn Experiment,
    seed: u64,
    quick: bool,
) -> Result<ExperimentOutcome, ProfileError> {
    run_whole(&[], (Some(memo), Some(off)), experiment, (seed, quick), None)
}

fn run_whole<'a>(
    machines: &[Profile],
    (memo, off): (Option<&'a Memo>, Option<Mechanism>),
    experiment: &dyn Experiment,
    (seed, quick): (u64, bool),
    live: Option<&'a mut (dyn Live + 'a)>,
) -> Result<ExperimentOutcome, ProfileError> {
    let name = experiment.name();
    let outcome = ExperimentOutcome {
        experiment: name.into(),
        title: experiment.title().into(),
        rows: Vec::new(),
        figures: Vec::new(),
        trace: 0,
        cells: 0,
        constants: BTreeSet::new(),
    };
    let (machines, reads, trace) = (machines.to_vec(), Reads::default(), Trace::default());
    let failed = Vec::new();
    let mut run = Run { seed, quick, live, name, machines, memo, off, failed, reads, outcome, trace };
    experiment.run(&mut run)?;
    run.failed.dedup();
    if !run.failed.is_empty() {
        return Err(ProfileError::Failed(run.failed.join("; ")));
    }
    crate::verdict::settle_all(name, &mut run.outcome.rows, Findings::built_in());
    if run.live.is_some() {
        experiment.today(&mut run);
    }
    run.outcome.trace = run.trace.hash();
    run.outcome.constants = run.reads.take();
    Ok(run.outcome)
}

impl ExperimentOutcome {
    /// The trace in words: its hash, or that no cell was carried.
    pub fn happened(&self) -> String {
        if self.cells == 0 { "no cells".into() } else { format!("trace {:016x}, {} cells", self.trace, self.cells) }
    }
}

impl Run<'_> {
    /// Random numbers of this experiment.
    pub fn random(&self) -> Random {
        Random::named(self.seed, self.name)
    }

    /// The size of a burst: `full`, or a smaller number that shows the same.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// A machine's profile.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn machine(&mut self, name: &str) -> Result<Profile, ProfileError> {
        let machine = match self.machines.iter().find(|machine| machine.name == name) {
            Some(machine) => machine.clone(),
            None => Profile::named(name)?,
        };
        let mut machine = machine;
        for (name, value) in self.off.map_or(&[][..], Mechanism::neutral) {
            if machine.constants.contains_key(*name) {
                machine.set(name, *value)?;
            }
        }
        Ok(machine.watched(&self.reads))
    }

    /// Whether a mechanism is on: an experiment that builds a model without [`Run::pair`] asks.
    pub fn on(&self, mechanism: Mechanism) -> bool {
        self.off != Some(mechanism)
    }

    /// The result of a part of the model. A part that gave none makes the whole experiment an error: what did not run is not
    /// zero.
    pub fn ran<T: Default>(&mut self, result: Option<T>, what: &str) -> T {
        result.unwrap_or_else(|| {
            self.failed.push(format!("{what} gave no result"));
            T::default()
        })
    }

    /// Measures, if measuring is wanted and possible.
    pub fn measure(&mut self, probe: Probe) -> Option<Measured> {
        self.live.as_mut()?.measure(probe)
    }

    /// Why this machine has no such way to wait, if it has none.
    pub fn lacks(&mut self, waiting: Waiting) -> Option<String> {
        self.live.as_mut()?.lacks(waiting)
    }

    /// What AF_XDP is on this machine, in words, if measuring is wanted.
    pub fn xdp(&mut self) -> Option<String> {
        Some(self.live.as_mut()?.xdp())
    }

    /// The profile of the machine at hand, if measuring is wanted and possible.
    pub fn host(&mut self) -> Option<Profile> {
        self.live.as_mut()?.profile()
    }

    /// The figure of this name, to add what was measured to what was published and modelled.
    pub fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
        self.outcome.figures.iter_mut().find(|figure| figure.name == name)
    }

    /// A measurement to which no published number belongs; `modelled`, if there is one, is with this machine's constants, and
    /// its deviation is from the measurement.
    pub fn today(
        &mut self,
        id: &str,
        what: &str,
        unit: &str,
        modelled: Option<f64>,
        measured: Option<Measured>,
    ) -> &mut Row {
        let row = self.row(id, what, unit, Published::Words(String::new()));
        row.verdict = Verdict::Today;
        row.modelled = modelled;
        row.measured = measured;
        row.deviation = modelled.zip(measured).map(|(modelled, m)| modelled / m.median - 1.0);
        row
    }

    /// Runs a pair of PCs, and adds what happened to them.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn pair(&mut self, scenario: &Scenario<'_>) -> Result<pair::PairOutcome, ProfileError> {
        let single_copy = match self.off {
            Some(Mechanism::PageMapping) => false,
            Some(Mechanism::Copying) => true,
            _ => scenario.single_copy,
        };
        let scenario = Scenario { single_copy, ..scenario.clone() };
        let outcome = match self.memo {
            Some(memo) => memo.run(&scenario)?,
            None => pair::run(&scenario)?,
        };
        self.happened(outcome.trace.hash() ^ outcome.damaged, outcome.cells);
        Ok(outcome)
    }

    /// Adds what happened in virtual time.
    pub fn happened(&mut self, what: u64, cells: u64) {
        self.trace.add(&what.to_be_bytes());
        self.outcome.cells += cells;
    }

    /// Adds a figure.
    pub fn figure(&mut self, figure: Figure) {
        self.outcome.figures.push(figure);
    }

    fn row(&mut self, id: &str, what: &str, unit: &str, published: Published) -> &mut Row {
        let at = self.outcome.rows.len();
        self.outcome.rows.push(Row::new(id, what, unit, published));
        &mut self.outcome.rows[at]
    }

    fn judged(
        &mut self,
        claim: Claim,
        [id, what, unit]: [&str; 3],
        published: Published,
        bound: Bound,
        modelled: f64,
    ) -> &mut Row {
        self.trace.add(&modelled.to_bits().to_be_bytes());
        if !modelled.is_finite() {
            self.failed.push(format!("{id}, {what}: {modelled} is no result"));
        }
        self.row(id, what, unit, published).judge(claim, bound, modelled)
    }

    /// A formula of the paper or of a standard, evaluated: the same to `digits` decimals.
    pub fn arithmetic(
        &mut self,
        id: &str,
        what: &str,
        unit: &str,
        published: f64,
        digits: i32,
        modelled: f64,
    ) -> &mut Row {
        self.judged(Claim::Formula, [id, what, unit], published.into(), Bound::Decimals(digits), modelled)
    }

    /// What follows from another row or from a configured constant, whatever the model does: the same to `digits` decimals.
    pub fn identity(
        &mut self,
        id: &str,
        what: &str,
        unit: &str,
        published: f64,
        digits: i32,
        modelled: f64,
    ) -> &mut Row {
        self.judged(Claim::Identity, [id, what, unit], published.into(), Bound::Decimals(digits), modelled)
    }

    /// A number that a constant was calibrated on.
    pub fn anchor(
        &mut self,
        id: &str,
        what: &str,
        unit: &str,
        published: impl Into<Published>,
        modelled: f64,
    ) -> &mut Row {
        self.judged(Claim::Fitted, [id, what, unit], published.into(), Bound::Relative(0.05), modelled).both_units()
    }

    /// A published number, or a range; `bound` is the accuracy that the source claims, relative. The rules of
    /// [`crate::verdict`] say what it is.
    pub fn number(
        &mut self,
        id: &str,
        what: &str,
        unit: &str,
        published: impl Into<Published>,
        bound: f64,
        modelled: f64,
    ) -> &mut Row {
        self.judged(Claim::Number, [id, what, unit], published.into(), Bound::Relative(bound), modelled).both_units()
    }

    /// A phrase of the paper, the test that decides it, and the evidence. The rules of [`crate::verdict`] say what it is.
    pub fn words(&mut self, id: &str, quote: &str, test: Test, evidence: impl AsRef<str>) -> &mut Row {
        self.trace.add(&[u8::from(test.holds)]);
        self.row(id, "in words", "", Published::Words(quote.into())).decide(test).note(evidence)
    }

    /// Something that cannot be had, and why.
    pub fn absent(&mut self, id: &str, what: &str, published: &str, reason: &str) -> &mut Row {
        self.row(id, what, "", Published::Words(published.into())).note(reason)
    }
}
