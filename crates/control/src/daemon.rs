//! A running network: its engine, its service, and its controller.

use crate::audit::Who;
use crate::config::Config;
use crate::controller::{Applying, Controller};
use crate::description::{self, explained};
use crate::door;
use crate::intent::ChangeOutcome;
use crate::manage::Manager;
use crate::metrics::server::Server;
use crate::service_status::Source;
use crate::sources::waiting::Understood;
use crate::state::StateFolder;
use crate::state::files::Files;
use crate::state::stored::{Described, TrialRecord};
use crate::state_writer::StateWriter;
use anyhow::{Context as _, Result};
use host::engine::{self, EngineHandle};
use host::service::{Handler, Opened, Service};
use net::Network;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffers of frames in one shard of a network, 64 KiB each: 16 MiB.
pub const FRAMES: usize = 256;
const MAX_CONNECTIONS: usize = 1024;

/// What a daemon may have besides its network.
#[derive(Debug, Clone, Default)]
pub struct DaemonOptions {
    /// Where what commands change is kept for a restart, and the log of changes.
    pub state: Option<PathBuf>,
    /// What the state folder has and cannot be used is set aside, and does not keep the daemon from starting.
    pub reset_state: bool,
    /// Where metrics are served.
    pub metrics: Option<Metrics>,
    /// How the files of the state folder are written.
    pub files: Files,
}

/// Metrics, served by HTTP.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// At which address.
    pub address: SocketAddr,
    /// Circuits, and endpoints, that are rows at most.
    pub max_rows: usize,
}

/// A running network.
pub struct Daemon {
    /// What runs it.
    pub engine: EngineHandle,
    service: Option<Service>,
    controller: Arc<Controller>,
    metrics: Option<Server>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.metrics.take();
        self.service.take();
        self.engine.stop();
        // Requests that have not ended may have the controller for a moment longer.
        self.controller.end_keeping();
    }
}

impl Daemon {
    /// Starts a network and its service. What it knows of kinds of station are those that the description was read with.
    ///
    /// # Errors
    /// The description cannot be, or the system refuses a socket, a thread or a folder.
    pub fn start(config: Config, socket: &Path) -> Result<Self> {
        Daemon::start_with(config, socket, &DaemonOptions::default())
    }

    /// The same, with more.
    ///
    /// # Errors
    /// As above.
    pub fn start_with(config: Config, socket: &Path, options: &DaemonOptions) -> Result<Self> {
        let open = |folder| StateFolder::open_with(folder, options.files.clone());
        let state = options.state.as_deref().map(open).transpose()?;
        door::prepare_folder(socket)?;
        // Before there is a network: the proxy processes share the memory that there is now.
        let opened = Opened::at(socket)?;
        let network = Network::sharded(config.file.engine.shards, FRAMES, 65_536);
        let engine = engine::start(network).context("starting the engine")?;
        let started = Daemon::serve(engine.clone(), config, opened, state, socket, options);
        started.inspect_err(|_| engine.stop())
    }

    fn serve(
        engine: EngineHandle,
        config: Config,
        opened: Opened,
        state: Option<StateFolder>,
        socket: &Path,
        options: &DaemonOptions,
    ) -> Result<Self> {
        let state_writer =
            state.map(|state| StateWriter::of(state, options.reset_state)).transpose()?.unwrap_or_default();
        let unconfirmed =
            state_writer.before().and_then(|kept| kept.trial.clone()).filter(|trial| trial.is_of(&config));
        let controller = Arc::new(Controller::new(engine.clone(), state_writer, config.kinds().clone())?);
        let config = match unconfirmed {
            Some(trial) => before_trial(&controller, config, trial)?,
            None => config,
        };
        let source = config.clone();
        // There is nothing yet that an empty description could remove.
        let how = Applying { allow_empty: true, ..Applying::default() };
        let outcome = controller.apply(config, &Who::Operator, &|_| Ok(()), how).map_err(|e| explained(&source, e))?;
        outcome
            .dropped
            .iter()
            .for_each(|name| tracing::warn!("not restored, for it does not fit the description: {name}"));
        let manager = Arc::new(Manager::new(controller.clone()));
        let handler: Arc<dyn Handler> = manager.clone();
        let service = opened.serve(&engine, handler, MAX_CONNECTIONS)?;
        controller.service().set(Source { accepting: service.accepting().clone(), pool: service.pool().clone() });
        tracing::info!("{}", manager.memory_text());
        let (path, rules, reviewer) = (socket.to_path_buf(), Arc::downgrade(&controller), service.reviewer());
        manager.after_apply(move || {
            reviewer.review();
            let Some(controller) = rules.upgrade() else { return };
            if let Err(e) = open_door(&controller, &path) {
                tracing::error!("the description's rules are in force, but {e:#}");
            }
        });
        open_door(&controller, socket)?;
        let address = options.metrics.as_ref();
        let metrics = address.map(|metrics| Server::start(metrics.address, controller.clone(), metrics.max_rows));
        let metrics = metrics.transpose()?;
        Ok(Daemon { engine, service: Some(service), controller, metrics })
    }

    /// Who keeps the network as it should be.
    pub fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// Makes `wanted` so. What was added since the last description was read, by commands and by peers, stays as far as
    /// it fits.
    ///
    /// # Errors
    /// All that cannot be; everything is as it was.
    pub fn reload(&self, wanted: Config) -> Result<ChangeOutcome> {
        let source = wanted.clone();
        self.reloaded(&source, self.controller.apply(wanted, &Who::Operator, &|_| Ok(()), Applying::default()))
    }

    /// The same where it is known what the links of commands mean that wait ([`Controller::waiting_links`]).
    ///
    /// # Errors
    /// As above.
    pub fn reload_with(&self, wanted: Config, links: &Understood) -> Result<ChangeOutcome> {
        let source = wanted.clone();
        self.reloaded(&source, self.controller.apply_with(wanted, links, &Who::Operator))
    }

    fn reloaded(&self, source: &Config, applied: Result<ChangeOutcome>) -> Result<ChangeOutcome> {
        let outcome = applied.map_err(|e| explained(source, e))?;
        for name in &outcome.dropped {
            tracing::warn!("removed, for it does not fit the description any more: {name}");
        }
        if let Some(service) = &self.service {
            // Rights that are gone end whatever has become of the socket.
            service.reviewer().review();
            if let Err(e) = open_door(&self.controller, service.path()) {
                tracing::error!("applied, but {e:#}");
            }
        }
        Ok(outcome)
    }

    /// Undoes a description on trial that nobody has confirmed in time.
    pub fn undo_unconfirmed(&self) {
        if self.controller.trial_left().is_none_or(|left| !left.is_zero()) {
            return;
        }
        let source = self.controller.with_config(Clone::clone);
        match self.reloaded(&source, self.controller.end_trial(true, &Who::Daemon, &|_| Ok(()))) {
            Ok(outcome) => {
                tracing::warn!("nobody has confirmed the description: undone, revision {}", outcome.revision);
            }
            // Somebody has just confirmed it.
            Err(_) if self.controller.trial_left().is_none() => {}
            Err(e) => tracing::error!("nobody has confirmed the description, and it cannot be undone: {e:#}"),
        }
    }

    /// Does what peers of links with `peer_circuits_to` have asked for since the last time.
    pub fn serve_peers(&self) {
        self.controller.serve_peers();
    }

    /// Writes to the log which alarms have begun and ended since the last time: some lines, and the number of the
    /// others.
    pub fn log_alarms(&self) {
        match crate::manage::oam::changes(&self.controller) {
            Ok((lines, more)) => {
                lines.iter().for_each(|line| tracing::warn!("{line}"));
                if more > 0 {
                    tracing::warn!(
                        "{more} more alarms have begun or ended (`cellway oam status` shows those that last)"
                    );
                }
            }
            Err(e) => tracing::error!("alarms: {e:#}"),
        }
    }

    /// Takes the counters of circuits, endpoints and links that have ended since the last time, and writes to the log
    /// what they have dropped.
    pub fn log_ended(&self) {
        crate::gathering::log(&self.controller);
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Server::address)
    }
}

/// The description before one that nobody has confirmed.
fn before_trial(controller: &Controller, config: Config, trial: TrialRecord) -> Result<Config> {
    tracing::warn!(
        "nobody has confirmed {}, which was applied on trial: starting with the description before it; `cellway apply` \
         applies it again",
        config.source.name
    );
    let Described { name, folder, text } = &trial.before;
    let before = description::read(controller.kinds(), text, name, folder)
        .with_context(|| format!("the description before {}, from the state folder", config.source.name))?;
    controller.start_before(trial.into_undone());
    Ok(before)
}

/// Whoever a rule may name must reach the socket; the policy decides who gets in. Without rules, only its owner does.
fn open_door(controller: &Controller, socket: &Path) -> Result<()> {
    let mode = if controller.with_config(|config| config.rules.is_empty()) { 0o600 } else { 0o666 };
    door::set_mode(socket, mode)
}
