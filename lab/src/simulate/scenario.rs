//! A scenario as it is written: TOML, with units as in descriptions. What does not fit is named with its part.

use super::SimulationError;
use serde::Deserialize;
use std::time::Duration;

/// The longest scenario: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Octets of an SDU: at least those that say when it was sent, at most those of a buffer.
pub(super) const OCTETS: std::ops::RangeInclusive<usize> = super::ends::STAMP..=65_535;

/// A scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How long sources send; what is on its way then still arrives.
    duration: Time,
    /// Traffic.
    #[serde(default)]
    pub(super) source: Vec<Source>,
    /// Faults and changes.
    #[serde(default)]
    pub(super) change: Vec<Change>,
    /// What is expected.
    #[serde(default)]
    pub(super) expect: Vec<Expect>,
}

/// A time with its unit: `500 ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

impl TryFrom<String> for Time {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(format!("{text:?} has no unit: 1.5s, 250 ms, 10 us"));
        }
        cellway::units::seconds(&text).map(Time)
    }
}

/// How a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// At equal intervals.
    Cbr,
    /// At intervals that are exponentially distributed.
    Poisson,
    /// At equal intervals for a time, then not for a time; both exponentially distributed.
    OnOff,
    /// At the times and of the sizes in a file: a line for each SDU, `seconds octets`.
    File,
}

/// `[[source]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// What it is called.
    pub(super) name: Option<String>,
    /// The end of a circuit that it sends from: `alpha 0.100`.
    pub(super) from: String,
    /// How it sends.
    pub(super) kind: Kind,
    /// While it sends, as in descriptions: `20 Mbit/s` of payload of cells, `5000 cell/s`.
    pub(super) rate: Option<String>,
    /// Octets of an SDU.
    pub(super) octets: Option<usize>,
    /// When it begins.
    pub(super) start: Option<Time>,
    /// When it ends.
    pub(super) stop: Option<Time>,
    /// The mean time that it sends.
    pub(super) on: Option<Time>,
    /// The mean time that it does not.
    pub(super) off: Option<Time>,
    /// A file of times and sizes, relative to the scenario's folder.
    pub(super) file: Option<std::path::PathBuf>,
}

/// `[[change]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// When.
    pub(super) at: Time,
    /// A link by its name: `alpha:0 - s1:0`.
    pub(super) link: Option<String>,
    /// All links of a station: a switch that fails.
    pub(super) station: Option<String>,
    /// Whether they are up from then on.
    pub(super) up: Option<bool>,
    /// Another description that the network is to be, relative to the scenario's folder.
    pub(super) description: Option<std::path::PathBuf>,
}

/// `[[expect]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// What is expected, in words.
    pub(super) says: String,
    /// Of this source only.
    pub(super) source: Option<String>,
    /// Of circuits of this category only.
    pub(super) category: Option<String>,
    /// Of SDUs that were sent from this moment on.
    pub(super) from: Option<Time>,
    /// Of SDUs that were sent before this moment.
    pub(super) until: Option<Time>,
    /// Cells of SDUs that did not arrive, at most.
    pub(super) lost_cells: Option<u64>,
    /// Share of SDUs that did not arrive, at most.
    pub(super) loss: Option<f64>,
    /// The longest delay, at most.
    pub(super) delay: Option<Time>,
    /// SDUs that arrived, at least.
    pub(super) received: Option<u64>,
}

impl Source {
    /// What it is called, being the `nth`.
    pub(super) fn called(&self, nth: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("source {}", nth + 1))
    }
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    /// It is no TOML, has other keys, or parts that do not fit each other.
    pub fn parse(text: &str) -> Result<Self, SimulationError> {
        let scenario: Scenario = toml::from_str(text).map_err(|e| SimulationError::Scenario(e.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// How long sources send.
    pub fn duration(&self) -> Duration {
        self.duration.0
    }

    fn check(&self) -> Result<(), SimulationError> {
        if self.duration.0.is_zero() || self.duration.0 > LONGEST {
            return Err(SimulationError::part("duration", "expected more than 0 and 24 h at most"));
        }
        for (nth, source) in self.source.iter().enumerate() {
            let part = format!("source {}", source.called(nth));
            source.check().map_err(|says| SimulationError::part(&part, says))?;
            let same = self.source[..nth].iter().enumerate().any(|(n, other)| other.called(n) == source.called(nth));
            if same {
                return Err(SimulationError::part(part, "another source has this name"));
            }
        }
        for (change, nth) in self.change.iter().zip(1..) {
            let up = change.up.is_some();
            let is_one = match (&change.link, &change.station, &change.description) {
                (Some(_), None, None) | (None, Some(_), None) => up,
                (None, None, Some(_)) => !up,
                _ => false,
            };
            if !is_one {
                let says = "expected `link` or `station` with `up`, or `description`";
                return Err(SimulationError::part(format!("change {nth}"), says));
            }
        }
        self.expect.iter().try_for_each(|expect| self.check_expect(expect))
    }

    fn check_expect(&self, expect: &Expect) -> Result<(), SimulationError> {
        let wrong = |says: String| Err(SimulationError::part(format!("expect {:?}", expect.says), says));
        let known = |name: &String| (self.source.iter().enumerate()).any(|(n, source)| source.called(n) == *name);
        if let Some(name) = expect.source.as_ref().filter(|name| !known(name)) {
            return wrong(format!("there is no source {name}"));
        }
        if let Some(category) = expect.category.as_ref().filter(|name| name.parse::<traffic::Category>().is_err()) {
            return wrong(format!("{category:?} is no service category"));
        }
        let has =
            [expect.lost_cells.is_some(), expect.loss.is_some(), expect.delay.is_some(), expect.received.is_some()];
        if !has.contains(&true) {
            return wrong("expected `lost_cells`, `loss`, `delay` or `received`".to_owned());
        }
        Ok(())
    }
}

impl Source {
    fn check(&self) -> Result<(), String> {
        let needs = |what: &str, has: bool, wanted: bool| match (has, wanted) {
            (false, true) => Err(format!("a source of this kind needs `{what}`")),
            (true, false) => Err(format!("a source of this kind has no `{what}`")),
            _ => Ok(()),
        };
        let from_file = self.kind == Kind::File;
        needs("file", self.file.is_some(), from_file)?;
        needs("rate", self.rate.is_some(), !from_file)?;
        needs("octets", self.octets.is_some(), !from_file)?;
        needs("on", self.on.is_some(), self.kind == Kind::OnOff)?;
        needs("off", self.off.is_some(), self.kind == Kind::OnOff)?;
        if self.on.is_some_and(|on| on.0.is_zero()) {
            return Err("`on` is 0: it never sends".to_owned());
        }
        match self.octets {
            Some(octets) if !OCTETS.contains(&octets) => {
                Err(format!("{octets} octets: expected {} to {}", OCTETS.start(), OCTETS.end()))
            }
            _ => Ok(()),
        }
    }
}
