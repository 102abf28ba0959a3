//! Management: what can be asked of a running network ([`Request`]), and who answers it ([`Manager`]).

use crate::adapters::Adapters;
use crate::capture::{self, pump};
use crate::config::{Circuit, Config, Link, Shell};
use crate::names::{circuit_name, written};
use crate::peers::PeerCircuits;
use crate::shells::attach;
use crate::{policy, status};
use anyhow::{Result, anyhow};
use endpoint::seqpacket::Peer;
use host::engine::EngineHandle;
use host::quota::Limits;
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
pub enum Request {
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
pub struct Manager {
    engine: EngineHandle,
    config: Arc<Mutex<Config>>,
    owner: u32,
    peers: Arc<PeerCircuits>,
    adapters: Arc<Adapters>,
}

impl Manager {
    /// Answers for the network of `engine`.
    pub fn new(
        engine: EngineHandle,
        config: Arc<Mutex<Config>>,
        peers: Arc<PeerCircuits>,
        adapters: Arc<Adapters>,
    ) -> Self {
        let owner = rustix::process::getuid().as_raw();
        Manager { engine, config, owner, peers, adapters }
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
                self.peers.set(id, &outside.unwrap_or_default(), link.real.as_deref());
                Ok(json!({ "link": name }))
            }
            Request::RemoveLink { name } => self.engine.with(move |core| {
                let id = find_link(core, &name)?;
                adapters.unplug(&mut core.network, id);
                let gone = core.fabric.remove_link(&mut core.network, id)?;
                let circuits: Vec<_> = gone.iter().map(circuit_name).collect();
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

    fn may_attach(&self, peer: Peer, host: &str) -> Result<(), String> {
        policy::may_attach(&self.config().rules, &peer, self.owner, host)
    }

    fn limits(&self, peer: Peer) -> Limits {
        policy::limits(&self.config().rules, &peer, self.owner)
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
