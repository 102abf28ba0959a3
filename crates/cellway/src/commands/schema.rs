//! `cellway schema`: the management protocol, the description, and what each command prints with `--json`, as JSON
//! schemas made of the types that the service and the commands use.

use crate::kinds::kinds;
use crate::output;
use anyhow::{Context as _, Result};
use clap::Args;
use control::calls::report::CallsStatus;
use control::config::{File, Whole};
use control::import::Imported;
use control::protocol::{Applied, Checked, Done, Exported, LinkAdded, LinkRemoved, LinkSet, TrialEnded, Up, Upgraded};
use control::reference;
use control::results::demo::Demo;
use control::results::doctor::Doctor;
use control::results::drops::{Dropped, ExplainedReason};
use control::results::graph::Topology;
use control::results::relay::Relayed;
use control::results::top::TopSample;
use control::results::{
    CaptureBegun, Captured, Failed, Guest, HostAddresses, InjectionDone, LaneJoined, LaneServing, Listening, Pinged,
    Ready, ReceivedPdu, Replayed, Serving, Traced, Transferred, Ttcp,
};
use control::status::oam::{OamAlarms, OamStatus};
use control::status::{CircuitStatus, LinkStatus, Status};
use endpoint::calls::Event;
use lanai::kind::{MyrinetMap, MyrinetRoutes, MyrinetRun, MyrinetStatus};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Makes a list of types with the commands that print them: a function `results` with their schemas; and the types such
/// that can be printed.
#[macro_export]
macro_rules! printed {
    ($($type:ty: $($command:literal),+;)*) => {
        $(impl $crate::output::Printed for $type {})*

        /// The schema of what each command prints.
        fn results() -> serde_json::Map<String, serde_json::Value> {
            let mut all = serde_json::Map::new();
            $($(all.insert($command.to_owned(), schemars::schema_for!($type).into());)+)*
            all
        }
    };
}

printed! {
    Status: "status";
    Vec<CircuitStatus>: "circuit list";
    Vec<LinkStatus>: "link list";
    Done: "circuit add", "circuit remove", "rename";
    LinkAdded: "link add";
    LinkSet: "link up", "link down";
    LinkRemoved: "link remove";
    Applied: "apply", "reset";
    TrialEnded: "confirm";
    Exported: "export";
    Imported: "import";
    Up: "up";
    Checked: "config check";
    Upgraded: "config upgrade";
    Whole: "config show";
    Option<MyrinetMap>: "myrinet map";
    MyrinetRoutes: "myrinet routes";
    MyrinetRun: "myrinet send";
    MyrinetStatus: "myrinet monitor";
    OamAlarms: "oam status";
    OamStatus: "oam continuity", "oam monitor", "(oam status of one circuit)";
    CallsStatus: "call list";
    Event: "call", "listen";
    Vec<HostAddresses>: "address";
    Transferred: "send", "receive", "ip send", "ip receive";
    Ttcp: "ttcp";
    Pinged: "ping", "ip ping";
    Traced: "trace";
    Serving: "ip serve";
    LaneServing: "lane serve";
    LaneJoined: "lane tap";
    Relayed: "relay";
    Guest: "vm";
    Captured: "capture";
    Vec<Replayed>: "replay";
    InjectionDone: "inject";
    ReceivedPdu: "(receive --format jsonl, a line for each PDU)";
    Doctor: "doctor";
    Vec<ExplainedReason>: "explain";
    Vec<Dropped>: "drops";
    TopSample: "top";
    Topology: "graph";
    Dropped: "(drops --follow, one for each)";
    Demo: "demo";
    Listening: "(ip receive begins, on standard error)";
    Ready: "(receive, listen or ttcp -r is ready, on standard error)";
    CaptureBegun: "(capture begins, on standard error)";
    Failed: "(a command fails, on standard error)";
}

/// The schema of what each command prints, with what kinds of station add to it.
fn complete_results() -> serde_json::Map<String, Value> {
    let mut results = results();
    results.values_mut().for_each(|schema| kinds().complete(schema));
    results
}

/// All schemas.
fn schema() -> Value {
    let kinds = kinds();
    let mut schema = control::protocol::schema(&kinds);
    schema["description"] = kinds.schema_for::<File>();
    schema["commands"] = complete_results().into();
    schema
}

/// What to show.
#[derive(Debug, Args)]
pub struct Schema {
    /// Write reference pages into this folder instead
    #[arg(long, value_name = "FOLDER")]
    markdown: Option<PathBuf>,
}

/// The pages, by name.
fn pages() -> [(&'static str, String); 4] {
    [
        ("configuration.md", reference::configuration(&kinds().schema_for::<File>())),
        ("drops.md", reference::drops()),
        ("protocol.md", reference::protocol(&control::protocol::schema(&kinds()))),
        ("results.md", reference::results("cellway", &complete_results())),
    ]
}

/// `cellway schema`
pub(crate) fn run(options: &Schema) -> Result<()> {
    if let Some(folder) = &options.markdown {
        for (name, page) in pages() {
            let path = folder.join(name);
            std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
        }
        return Ok(());
    }
    let mut out = output::stdout();
    serde_json::to_writer_pretty(&mut out, &schema())?;
    writeln!(out)?;
    Ok(())
}

/// Each command of a program that does something by itself, with the words before it.
pub fn leaves(program: &clap::Command) -> Vec<String> {
    fn below(command: &clap::Command, path: &str, all: &mut Vec<String>) {
        let (mut any, name) = (false, |child: &clap::Command| format!("{path} {}", child.get_name()).trim().to_owned());
        for child in command.get_subcommands() {
            any = true;
            below(child, &name(child), all);
        }
        if !any || !command.is_subcommand_required_set() && !path.is_empty() {
            all.push(path.to_owned());
        }
    }
    let mut all = Vec::new();
    below(program, "", &mut all);
    all
}

/// Commands that print nothing, print what is no result, or become another program.
#[cfg(test)]
const WITHOUT: [&str; 8] = ["ip tun", "ip ppp", "run", "bench", "lab", "completions", "man", "schema"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_schema_of_what_it_prints() {
        let commands = leaves(&crate::command());
        assert!(commands.len() > 30, "{commands:?}");
        let results = results();
        for command in &commands {
            let has = results.contains_key(command);
            assert!(has != WITHOUT.contains(&command.as_str()), "{command}: give it a type in commands/schema.rs");
        }
        let known = |name: &String| commands.contains(name) || name.starts_with('(');
        assert!(
            results.keys().all(known),
            "{:?} are no commands",
            results.keys().filter(|k| !known(k)).collect::<Vec<_>>()
        );
    }
}
