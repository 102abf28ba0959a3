//! `cellway-lab schema`: what each command prints with `--json`, as JSON schemas made of the types that the commands use.

use crate::results::am::BenchAm;
use crate::results::bench::{
    BenchAdapter, BenchCalls, BenchContract, BenchEndpoint, BenchEvents, BenchIp, BenchLab, BenchPath, BenchPaths,
    BenchPreload, BenchSar, BenchSwitch,
};
use crate::results::shards::BenchShards;
use crate::results::simulate::Simulated;
use crate::results::study::{LabExercise, LabExplorer, LabGrid, LabTrace};
use crate::results::ttcp::Ttcp;
use crate::results::{
    Calibrated, LabAudit, LabList, LabPredictions, LabReport, LabRun, LabSensitivity, LabSweep, LabVerify,
};
use anyhow::{Context as _, Result};
use clap::Args;
use control::reference;
use std::io::Write;
use std::path::PathBuf;

cellway::printed! {
    LabList: "list";
    LabRun: "run";
    LabReport: "report";
    LabSweep: "sweep";
    LabGrid: "grid";
    LabExplorer: "explorer";
    LabSensitivity: "sensitivity";
    LabVerify: "verify";
    LabAudit: "audit";
    LabPredictions: "predictions";
    LabTrace: "trace";
    LabExercise: "exercise";
    Calibrated: "calibrate";
    Ttcp: "ttcp";
    Simulated: "simulate";
    BenchContract: "bench contract";
    BenchPath: "bench path";
    BenchSar: "bench sar";
    BenchShards: "bench shards";
    BenchSwitch: "bench switch";
    BenchAdapter: "bench adapter";
    BenchCalls: "bench calls";
    BenchEvents: "bench events";
    BenchPaths: "bench paths";
    BenchPreload: "bench preload";
    BenchEndpoint: "bench endpoint";
    BenchAm: "bench am";
    BenchLab: "bench lab";
    BenchIp: "bench ip";
}

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Write a reference page into this folder instead
    #[arg(long, value_name = "FOLDER")]
    markdown: Option<PathBuf>,
}

/// `cellway-lab schema`
pub(crate) fn run(options: &Schema) -> Result<()> {
    if let Some(folder) = &options.markdown {
        let path = folder.join("lab-results.md");
        return std::fs::write(&path, reference::results("cellway-lab", &results()))
            .with_context(|| format!("writing {}", path.display()));
    }
    let mut out = cellway::output::stdout();
    serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "commands": results() }))?;
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_schema_of_what_it_prints() {
        let mut commands = cellway::schema::leaves(&crate::Arguments::command());
        commands.retain(|command| !["completions", "man", "schema"].contains(&command.as_str()));
        commands.sort();
        assert_eq!(results().keys().collect::<Vec<_>>(), commands.iter().collect::<Vec<_>>());
    }
}
