//! `cellway-lab audit`: what decides each row, as the file that verdicts are derived from.

use crate::results::LabAudit;
use ::lab::audit::audit;
use ::lab::findings::Findings;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Options of the audit.
#[derive(Debug, Args)]
pub(crate) struct AuditOptions {
    /// Only these experiments, by their whole names [default: all]
    names: Vec<String>,
    /// The file for the findings: lab/predictions/findings.toml
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seeds of chance that a row has to hold with
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Leave out the full run
    #[arg(long)]
    quick: bool,
    /// Fail if a finding differs from those that come with the program
    #[arg(long)]
    check: bool,
}

/// Rows whose findings differ from those of the program.
fn changed(found: &Findings) -> Vec<String> {
    let kept = Findings::built_in();
    found
        .rows
        .iter()
        .filter(|(key, finding)| kept.rows.get(*key) != Some(finding))
        .map(|(key, _)| key.clone())
        .collect()
}

/// `cellway-lab audit`
pub(super) fn run(context: &Context, options: &AuditOptions) -> Result<()> {
    super::chosen(&options.names)?;
    let only: BTreeSet<String> = options.names.iter().cloned().collect();
    let found = audit(options.seeds, !options.quick, (!only.is_empty()).then_some(&only))?;
    if let Some(path) = &options.out {
        std::fs::write(path, found.text()).with_context(|| format!("writing {}", path.display()))?;
    }
    let changed = changed(&found);
    if options.check && !changed.is_empty() {
        bail!("{} rows are decided otherwise than findings.toml says: {}", changed.len(), changed.join("; "));
    }
    let json = LabAudit { lab: "audit".to_owned(), file: options.out.clone(), rows: found.rows.len(), changed };
    output::print(context, &json, || match &options.out {
        Some(path) => path.display().to_string(),
        None => format!("{} rows, {} changed\n{}", json.rows, json.changed.len(), json.changed.join("\n")),
    })
}
