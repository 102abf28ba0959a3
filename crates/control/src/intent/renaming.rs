//! Another name of a host or switch that stays: the description, what commands have added and what is there all have
//! the new name, and nothing else changes.

use super::{Intent, Next, Prepared};
use crate::config::Config;
use crate::objects::{ObjectId, Objects, difference};
use crate::plan::{Line, Plan, Verb};
use crate::sources::commands::Commands;
use crate::sources::{self, file};
use crate::step::{Step, Target as _};
use crate::trial::TrialState;
use anyhow::{Result, bail};

impl Intent {
    /// Another name of a station.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn prepare_renamed(&mut self, from: &str, to: &str) -> Result<Prepared> {
        let config = self.config.renamed(from, to)?;
        if self.applied.contains_key(&ObjectId::Station(to.to_owned())) {
            bail!("another station is called `{to}`: choose another name");
        }
        let kind = if self.config.file.host.contains_key(from) { "host" } else { "switch" };
        let objects = file::objects(&config);
        let commands = self.commands.renamed(from, to);
        let applied: Objects =
            self.applied.iter().map(|(id, object)| (id.renamed(from, to), object.renamed(from, to))).collect();
        let wanted = sources::wanted(&objects, &commands, &self.peers.renamed(from, to));
        if let Some(other) = difference(&applied, &wanted).first() {
            bail!("{} is not as it should be: apply the description first, then rename", other.id);
        }
        let step = Step::RenameStation { from: from.to_owned(), to: to.to_owned() };
        let undo = vec![self.model.perform(&step, None)?];
        let what = format!("renamed to {to}");
        let line = Line { verb: Verb::Change, kind: kind.into(), name: from.into(), what, interrupts: false };
        let subjects = vec![ObjectId::Station(from.to_owned())];
        let plan = Plan { steps: vec![step], subjects, lines: vec![line], interrupted: Vec::new() };
        Ok(Prepared {
            verb: "rename",
            changes: Vec::new(),
            plan,
            undo,
            unchanged_circuits: self.model.router.circuit_count(),
            dropped: Vec::new(),
            next: Next::Renamed {
                config: Box::new(config),
                file: objects,
                commands,
                applied,
                names: [from.to_owned(), to.to_owned()],
            },
            trial: TrialState::None,
        })
    }

    /// A description that is read anew, with the names that commands have given. Where it has a new name itself, the
    /// command has had its time.
    pub(super) fn with_names(wanted: Config, commands: &mut Commands) -> Config {
        let mut wanted = wanted;
        for (from, to) in commands.names() {
            let [has, has_new] = [&from, &to].map(|name| wanted.description.stations.contains_key(name.as_str()));
            let renamed = if has && !has_new { wanted.renamed(&from, &to).map(Some) } else { Ok(None) };
            match renamed {
                Ok(Some(renamed)) => wanted = renamed,
                Ok(None) => commands.forget_name(&from),
                Err(e) => {
                    tracing::warn!("`{from}` is not `{to}` any more: {e:#}");
                    commands.forget_name(&from);
                }
            }
        }
        wanted
    }
}
