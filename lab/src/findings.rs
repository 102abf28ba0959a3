//! What the audit found of each row, as `cellway-lab audit` writes it to `lab/predictions/findings.toml`.
//!
//! In: that file. Out: the [`Finding`] of a row. It belongs to the constants whose hash it carries.

use crate::model::Profile;
use crate::row::{Published, Row};
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What was found of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Anchored constants in whose range the row changes sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchored: Vec<String>,
    /// Constants copied "as on" another machine that move the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copied: Vec<String>,
    /// Calibrated and assumed constants that move the row: its degrees of freedom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// Whether its own off switch contradicts it; none, where it names no mechanism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<bool>,
    /// Of so many seeds it holds with so many: `[k, n]`.
    pub seeds: [u32; 2],
    /// Whether it holds in the full run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<bool>,
}

/// All of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// The hash of all machines' constants that the audit ran with.
    pub constants: String,
    /// By [`key`].
    #[serde(default)]
    pub rows: BTreeMap<String, Finding>,
}

/// What a row is called in the file.
pub fn key(experiment: &str, row: &Row) -> String {
    let what = match &row.published {
        Published::Words(words) if row.what == "in words" => words,
        _ => &row.what,
    };
    format!("{experiment} {}: {what}", row.id)
}

/// The hash of the constants of these machines: names and values.
pub fn constants_hash(machines: &[Profile]) -> String {
    let mut trace = Trace::default();
    for machine in machines {
        trace.add(machine.name.as_bytes());
        for (name, constant) in &machine.constants {
            trace.add(name.as_bytes());
            trace.add(&constant.value.to_bits().to_be_bytes());
        }
    }
    format!("{:016x}", trace.hash())
}

impl Findings {
    /// Reads the file's text.
    ///
    /// # Errors
    /// It is not of this shape; the message says where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// The findings that come with the program; a test says that they can be read.
    pub fn built_in() -> &'static Findings {
        static ALL: OnceLock<Findings> = OnceLock::new();
        ALL.get_or_init(|| Self::parse(include_str!("../predictions/findings.toml")).unwrap_or_default())
    }

    /// Of a row of an experiment.
    pub fn of(&self, experiment: &str, row: &Row) -> Option<&Finding> {
        self.rows.get(&key(experiment, row))
    }

    /// As the file has it: a line for each row.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# Made by `cellway-lab audit`; a test of the long run compares the two. A row's verdict follows from its line\n\
             # here by the rules at the head of lab/src/verdict.rs.\nconstants = \"{}\"\n\n[rows]\n",
            self.constants
        );
        for (key, finding) in &self.rows {
            text += &format!("{} = {}\n", quoted(key), finding.line());
        }
        text
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Finding {
    fn line(&self) -> String {
        let names = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        for (name, list) in [("anchored", &self.anchored), ("copied", &self.copied), ("moved", &self.moved)] {
            if !list.is_empty() {
                parts.push(format!("{name} = [{}]", names(list)));
            }
        }
        parts.extend(self.off.map(|off| format!("off = {off}")));
        parts.push(format!("seeds = [{}, {}]", self.seeds[0], self.seeds[1]));
        parts.extend(self.full.map(|full| format!("full = {full}")));
        format!("{{ {} }}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_read_back_as_they_were_written_whatever_a_quotation_has_in_it() {
        let finding = Finding {
            anchored: vec!["a.b".into(), "c.d".into()],
            off: Some(false),
            seeds: [4, 5],
            full: Some(true),
            ..Finding::default()
        };
        let rows = BTreeMap::from([("x A-1: \"barely\" \\ 100".to_owned(), finding)]);
        let all = Findings { constants: "0123".into(), rows };
        assert_eq!(Findings::parse(&all.text()), Ok(all));
    }

    #[test]
    fn the_built_in_findings_are_of_the_built_in_constants() {
        let text = include_str!("../predictions/findings.toml");
        let read = Findings::parse(text).unwrap();
        assert!(read.rows.len() > 20, "{} rows", read.rows.len());
        let now = constants_hash(&Profile::built_in().unwrap());
        assert_eq!(read.constants, now, "a constant has changed since the audit: run cellway-lab audit");
    }
}
