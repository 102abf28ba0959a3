//! Management: what the daemon answers (`Manager`), and the commands that ask (`circuit`, `link`).

mod link;

pub(crate) use link::{LinkCommand, run as run_link};

use crate::adapters::Adapters;
use crate::capture::{self, pump};
use crate::config::{Circuit, Config, Link, Shell};
use crate::daemon::{attach, written};
use crate::real::Reals;
use crate::{Context, client, output, policy, status};
use anyhow::{Result, anyhow};
use clap::Subcommand;
use endpoint::seqpacket::Peer;
use host::engine::EngineHandle;
use host::service::Handler;
use net::{Carries, TapConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::CircuitId;

/// What can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Everything that `status` shows.
    Status,
    /// Add a circuit.
    AddCircuit(Circuit),
    /// Remove the circuit of these ends.
    RemoveCircuit {
        /// As they were given.
        ends: Vec<String>,
    },
    /// Add a link.
    AddLink(Box<Link>),
    /// Remove a link by its name.
    RemoveLink {
        /// `alpha:0 - s1:0`.
        name: String,
    },
    /// Take a link down, or up again.
    SetLink {
        /// Its name.
        name: String,
        /// Whether it may pass anything.
        up: bool,
    },
    /// Record a link, to a socket that comes along, until that is closed.
    CaptureStart {
        /// Its name.
        link: String,
        /// Only these circuits; empty: all.
        circuits: Vec<String>,
        /// MiB of what is kept until the socket takes it.
        buffer_mib: u32,
    },
}

/// The program's part of the service.
pub(crate) struct Manager {
    engine: EngineHandle,
    config: Arc<Mutex<Config>>,
    owner: u32,
    reals: Arc<Reals>,
    adapters: Arc<Adapters>,
}

impl Manager {
    pub(crate) fn new(
        engine: EngineHandle,
        config: Arc<Mutex<Config>>,
        reals: Arc<Reals>,
        adapters: Arc<Adapters>,
    ) -> Self {
        let owner = rustix::process::getuid().as_raw();
        Manager { engine, config, owner, reals, adapters }
    }

    fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, request: Request, fds: Vec<OwnedFd>) -> Result<Value> {
        let config = self.config().clone();
        let done = json!({ "done": true });
        let adapters = self.adapters.clone();
        match request {
            Request::Status => {
                self.engine.with(move |core| status::collect(core, &adapters, &config)).map_err(Into::into)
            }
            Request::AddCircuit(circuit) => {
                let description = circuit.describe()?;
                self.engine.with(move |core| core.fabric.add_circuit(&mut core.network, &description))??;
                Ok(done)
            }
            Request::RemoveCircuit { ends } => {
                let ends = ends.iter().map(|e| e.parse()).collect::<Result<Vec<_>, _>>()?;
                self.engine.with(move |core| {
                    let circuit = core.fabric.circuits().find(|c| c.ends == ends).cloned();
                    let circuit = circuit
                        .ok_or_else(|| anyhow!("no circuit has these ends (`cellway circuit list` shows them)"))?;
                    anyhow::Ok(core.fabric.remove_circuit(&mut core.network, &circuit)?)
                })??;
                Ok(done)
            }
            Request::AddLink(link) => {
                let (description, mut shell) = link.describe(Path::new(""))?;
                let at = |host: &str| description.ends.iter().any(|end| end.station == host);
                let guests = config.served().find(|served| at(&served.host)).cloned();
                if guests.is_some() && (shell.is_some() || description.config.carries != Carries::Cells) {
                    return Err(anyhow!("a link to an adapter carries cells, and neither atmtcp nor udp"));
                }
                shell = shell.or(guests.map(Shell::Adapter));
                let (id, outside, name) = self.engine.with(move |core| {
                    let mut outside = None;
                    for end in &description.ends {
                        let known = core.fabric.stations().any(|(name, _)| name == end.station);
                        if !known && shell.is_some() {
                            core.fabric.add_outside(&end.station)?;
                            outside = Some(end.station.clone());
                        }
                    }
                    let id = core.fabric.add_link(&mut core.network, &description)?;
                    if let Some(shell) = &shell
                        && let Err(e) = attach(core, &adapters, id, shell)
                    {
                        core.fabric.remove_link(&mut core.network, id)?;
                        return Err(e);
                    }
                    anyhow::Ok((id, outside, core.fabric.link_name(id)))
                })??;
                self.reals.set(id, &outside.unwrap_or_default(), link.real.as_deref());
                Ok(json!({ "link": name }))
            }
            Request::RemoveLink { name } => self.engine.with(move |core| {
                let id = find_link(core, &name)?;
                adapters.unplug(&mut core.network, id);
                let gone = core.fabric.remove_link(&mut core.network, id)?;
                let circuits: Vec<_> = gone.iter().map(status::circuit_name).collect();
                anyhow::Ok(json!({ "removed_circuits": circuits }))
            })?,
            Request::SetLink { name, up } => self.engine.with(move |core| {
                let id = find_link(core, &name)?;
                core.network.set_link_up(id, up);
                anyhow::Ok(json!({ "link": core.fabric.link_name(id), "enabled": up }))
            })?,
            Request::CaptureStart { link, circuits, buffer_mib } => {
                let circuits = circuits.iter().map(|c| c.parse()).collect::<Result<Vec<CircuitId>, _>>()?;
                let to = pump::accept(fds)?;
                let tap = TapConfig::of_mib(buffer_mib.min(capture::MAX_BUFFER_MIB) as usize, circuits);
                let config = tap.clone();
                let (id, name) = self.engine.with(move |core| {
                    let id = find_link(core, &link)?;
                    if core.network.has_tap(id) {
                        return Err(anyhow!("another capture of this link is under way"));
                    }
                    let name = core.fabric.link_name(id).ok_or_else(|| anyhow!("the link is gone"))?;
                    core.network.set_tap(id, Some(tap));
                    Ok((id, name))
                })??;
                let epoch = self.epoch_unix_nanos()?;
                if let Err(e) = pump::start(self.engine.clone(), id, &config, to) {
                    self.engine.with(move |core| core.network.set_tap(id, None))?;
                    return Err(e.into());
                }
                Ok(json!({ "link": name, "epoch_unix_nanos": epoch }))
            }
        }
    }

    /// When the network's time was zero.
    fn epoch_unix_nanos(&self) -> Result<u64> {
        let now = self.engine.with(|core| core.now())?;
        let unix = std::time::SystemTime::UNIX_EPOCH.elapsed()?;
        Ok((unix.as_nanos() as u64).saturating_sub(now.as_nanos()))
    }
}

fn find_link(core: &host::engine::Core, name: &str) -> Result<net::LinkId> {
    let plain = |s: &str| s.split_whitespace().collect::<String>();
    let all: Vec<_> = core.fabric.links().map(|(id, d, _)| (id, core.fabric.link_name(id), written(d))).collect();
    let found = all.iter().find(|(_, full, short)| {
        full.as_deref().is_some_and(|f| plain(f) == plain(name)) || plain(short) == plain(name)
    });
    found.map(|(id, ..)| *id).ok_or_else(|| anyhow!("no link `{name}` (`cellway link list` shows them)"))
}

impl Handler for Manager {
    fn admit(&self, peer: Peer) -> Result<(), String> {
        policy::admit(&self.config().rules, &peer, self.owner)
    }

    fn may_open(&self, peer: Peer, host: &str, circuit: CircuitId) -> Result<(), String> {
        policy::may_open(&self.config().rules, &peer, self.owner, host, circuit)
    }

    fn manage(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> Result<Value, String> {
        if !policy::owns(&peer, self.owner) {
            return Err(format!(
                "user {} may open circuits, but not manage the network of user {}",
                peer.uid, self.owner
            ));
        }
        let request = serde_json::from_value(request).map_err(|e| format!("request not understood: {e}"))?;
        self.serve(request, fds).map_err(|e| format!("{e:#}"))
    }
}

/// Asks the daemon.
pub(crate) fn ask(context: &Context, request: &Request) -> Result<Value> {
    client::manage(context, serde_json::to_value(request)?)
}

/// Circuits.
#[derive(Debug, Subcommand)]
pub(crate) enum CircuitCommand {
    /// All circuits with their counters
    List,
    /// Add a circuit: `cellway circuit add "alpha 0.300" "beta 0.300" --category cbr --pcr "20 Mbit/s"`
    Add {
        /// Its ends, each a host and vpi.vci in quotes; more than two: from the first to all others
        #[arg(required = true, num_args = 2..)]
        ends: Vec<String>,
        /// cbr, rt-vbr, nrt-vbr, abr or ubr
        #[arg(long, default_value = "ubr")]
        category: String,
        /// Peak cell rate, such as "20 Mbit/s" or "5000 cell/s"
        #[arg(long)]
        pcr: Option<String>,
        /// Sustainable cell rate (VBR)
        #[arg(long)]
        scr: Option<String>,
        /// Maximum burst size in cells (VBR)
        #[arg(long)]
        mbs: Option<u32>,
        /// aal5, aal0 or aal34
        #[arg(long, default_value = "aal5")]
        aal: String,
    },
    /// Remove a circuit by its ends
    Remove {
        /// Its ends, as `circuit list` shows them
        #[arg(required = true, num_args = 2..)]
        ends: Vec<String>,
    },
}

/// `cellway circuit`
pub(crate) fn run_circuit(context: &Context, command: &CircuitCommand) -> Result<()> {
    match command {
        CircuitCommand::List => {
            let status = ask(context, &Request::Status)?;
            output::print(context, &status["circuits"], || status::circuits_text(&status))
        }
        CircuitCommand::Add { ends, category, pcr, scr, mbs, aal } => {
            let circuit = Circuit {
                ends: ends.clone(),
                category: category.clone(),
                pcr: pcr.clone(),
                scr: scr.clone(),
                mbs: *mbs,
                cdvt_us: 1000,
                aal: aal.clone(),
            };
            circuit.describe()?;
            let done = ask(context, &Request::AddCircuit(circuit))?;
            output::print(context, &done, || format!("added {}", ends.join(" - ")))
        }
        CircuitCommand::Remove { ends } => {
            let done = ask(context, &Request::RemoveCircuit { ends: ends.clone() })?;
            output::print(context, &done, || format!("removed {}", ends.join(" - ")))
        }
    }
}
