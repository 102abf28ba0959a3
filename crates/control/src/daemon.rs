//! A running network: its engine, its service, and the description that was applied last. Another description is applied as a
//! difference.

use crate::adapters::Adapters;
use crate::config::{Config, Shell};
use crate::manage::Manager;
use crate::names::{circuit_name, written};
use crate::peers::PeerCircuits;
use crate::shells::attach;
use anyhow::{Context as _, Result, anyhow};
use host::HostInterface;
use host::engine::{self, Core, EngineHandle};
use host::service::{Handler, Service};
use net::topology::{Applied, CircuitDescription, Description, LinkDescription, Station};
use net::{FramePool, LinkId, Network};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Buffers of frames in one network, 64 KiB each: 16 MiB.
pub const FRAMES: usize = 256;
const MAX_CONNECTIONS: usize = 1024;

/// A running network.
pub struct Daemon {
    /// What runs it.
    pub engine: EngineHandle,
    service: Option<Service>,
    config: Arc<Mutex<Config>>,
    peers: Arc<PeerCircuits>,
    adapters: Arc<Adapters>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

impl Daemon {
    /// Starts a network and its service.
    pub fn start(config: Config, socket: &Path) -> Result<Self> {
        let engine = engine::start(Network::new(FramePool::new(FRAMES, 65_536))).context("starting the engine")?;
        let peers = Arc::new(PeerCircuits::default());
        let adapters = Arc::new(Adapters::default());
        apply(&engine, &peers, &adapters, &Config::default(), &config)?;
        let config = Arc::new(Mutex::new(config));
        let manager = Manager::new(engine.clone(), config.clone(), peers.clone(), adapters.clone());
        let handler: Arc<dyn Handler> = Arc::new(manager);
        prepare_folder(socket)?;
        let service = Service::start(socket, engine.clone(), handler, MAX_CONNECTIONS);
        let service = service.inspect_err(|_| engine.stop())?;
        let daemon = Daemon { engine, service: Some(service), config, peers, adapters };
        daemon.open_door(socket)?;
        Ok(daemon)
    }

    /// Makes `wanted` so. What was added since the last description was read, by commands and by peers, stays as far as it fits.
    pub fn reload(&self, wanted: Config) -> Result<Applied> {
        wanted.rehearse()?;
        let mut config = self.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (before, file) = (config.description.clone(), wanted.clone());
        let (with_additions, gone) = self.engine.with(move |core| keep_additions(core, &before, file))?;
        for name in gone {
            tracing::warn!("removed, for it does not fit the description any more: {name}");
        }
        let applied = apply(&self.engine, &self.peers, &self.adapters, &config, &with_additions)?;
        *config = wanted;
        drop(config);
        if let Some(service) = &self.service {
            self.open_door(service.path())?;
        }
        Ok(applied)
    }

    /// Does what peers of links with `real` have asked for since the last time.
    pub fn serve_peers(&self) {
        self.peers.serve(&self.engine);
    }

    /// Whoever a rule may name must reach the socket; the policy decides who gets in. Without rules, only its owner does.
    fn open_door(&self, socket: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let config = self.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mode = if config.rules.is_empty() { 0o600 } else { 0o666 };
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(mode))
            .with_context(|| format!("the rights of {}", socket.display()))
    }
}

/// The socket's folder, for its user alone if it is made here. One that belongs to somebody else could be exchanged under
/// our feet.
fn prepare_folder(socket: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let Some(folder) = socket.parent().filter(|f| !f.as_os_str().is_empty()) else { return Ok(()) };
    if let Ok(found) = std::fs::symlink_metadata(folder) {
        if found.uid() != rustix::process::geteuid().as_raw() && found.uid() != 0 {
            return Err(anyhow!(
                "{} belongs to user {}: choose another place with --socket",
                folder.display(),
                found.uid()
            ));
        }
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("making {} for the socket", folder.display()))
}

/// `wanted`, and with it what the network has beyond `before`, the description that was read last; and the names of what of that
/// does not fit.
fn keep_additions(core: &Core, before: &Description, wanted: Config) -> (Config, Vec<String>) {
    let described = wanted.description.links.clone();
    // Something outside has one link: the description's, if it has one.
    let taken = |end: &net::topology::Attachment| {
        core.fabric.stations().any(|(name, station)| name == end.station && station == Station::Outside)
            && described.iter().any(|link| link.ends.iter().any(|other| other.station == end.station))
    };
    let links: Vec<LinkDescription> = core
        .fabric
        .links()
        .map(|(_, link, _)| link.clone())
        .filter(|link| !before.links.contains(link) && !described.contains(link))
        .collect();
    let (links, mut gone): (Vec<_>, Vec<_>) = links.into_iter().partition(|link| !link.ends.iter().any(taken));
    let circuits: Vec<_> = core
        .fabric
        .circuits()
        .filter(|circuit| !before.circuits.contains(circuit) && !wanted.description.circuits.contains(circuit))
        .cloned()
        .collect();
    let outside: Vec<String> = core
        .fabric
        .stations()
        .filter(|(name, station)| *station == Station::Outside && !before.stations.contains_key(*name))
        .map(|(name, _)| name.to_owned())
        .collect();
    let with = |config: &Config, links: &[LinkDescription], circuits: &[CircuitDescription]| {
        let mut config = config.clone();
        let d = &mut config.description;
        for name in &outside {
            if links.iter().any(|link| link.ends.iter().any(|end| end.station == *name)) {
                d.stations.entry(name.clone()).or_insert(Station::Outside);
            }
        }
        d.links.extend_from_slice(links);
        d.circuits.extend_from_slice(circuits);
        config.rehearse().is_ok().then_some(config)
    };
    if gone.is_empty()
        && let Some(all) = with(&wanted, &links, &circuits)
    {
        return (all, Vec::new());
    }
    let mut config = wanted;
    for link in links {
        match with(&config, std::slice::from_ref(&link), &[]) {
            Some(with_it) => config = with_it,
            None => gone.push(link),
        }
    }
    let mut gone: Vec<String> = gone.iter().map(written).collect();
    for circuit in circuits {
        match with(&config, &[], std::slice::from_ref(&circuit)) {
            Some(with_it) => config = with_it,
            None => gone.push(circuit_name(&circuit)),
        }
    }
    (config, gone)
}

fn apply(
    engine: &EngineHandle,
    peers: &PeerCircuits,
    adapters: &Arc<Adapters>,
    before: &Config,
    wanted: &Config,
) -> Result<Applied> {
    // All or nothing: what cannot be is refused while everything that exists still stands; and here, for the engine has
    // circuits to serve meanwhile.
    wanted.rehearse()?;
    if before.file.engine != wanted.file.engine {
        wanted.file.engine.place(engine)?;
    }
    let old_shells = before.shells.clone();
    let (wanted, adapters) = (wanted.clone(), adapters.clone());
    let (applied, of_links) = engine.with(move |core| apply_here(core, &adapters, &old_shells, &wanted))??;
    for (link, outside, host) in of_links {
        peers.set(link, &outside, host.as_deref());
    }
    Ok(applied)
}

/// What was done, and for each ATM-over-TCP link: what is outside there, and the host for the peer's circuits.
type Done = (Applied, Vec<(LinkId, String, Option<String>)>);

fn apply_here(
    core: &mut Core,
    adapters: &Adapters,
    old_shells: &[(LinkDescription, Shell)],
    wanted: &Config,
) -> Result<Done> {
    let mut peers = Vec::new();
    let hosts = &wanted.file.host;
    let Core { network, fabric, .. } = core;
    for (name, switch) in &wanted.file.switch {
        if fabric.node(name).is_none() {
            fabric.add_switch(network, name, switch.config())?;
        }
    }
    // An adapter whose link goes stays, with its guest, until it is known whether it has another.
    adapters.keep(network, |served| wanted.served().any(|other| other.name == served.name));
    let kept = &wanted.description.links;
    let gone: Vec<LinkId> = fabric.links().filter(|(_, d, _)| !kept.contains(d)).map(|(id, ..)| id).collect();
    gone.into_iter().for_each(|link| adapters.unplug(network, link));
    let applied = fabric.apply(network, &wanted.description, |name| {
        HostInterface::new(hosts.get(name).map_or(256, |h| h.max_endpoints))
    })?;
    for (description, shell) in &wanted.shells {
        let unchanged = old_shells.iter().any(|(d, s)| d == description && s == shell);
        let id = core.fabric.links().find(|(_, d, _)| *d == description).map(|(id, ..)| id);
        let Some(id) = id else { continue };
        // One whose device was deleted is made again.
        if !unchanged || !core.network.externals().any(|(link, shell)| link == id && !shell.has_ended()) {
            attach(core, adapters, id, shell).with_context(|| format!("link {}", written(description)))?;
        }
        if let Shell::AtmTcp { real, .. } = shell {
            let outside = description
                .ends
                .iter()
                .find(|e| wanted.description.stations.get(&e.station) == Some(&Station::Outside));
            peers.push((id, outside.map(|e| e.station.clone()).unwrap_or_default(), real.clone()));
        }
    }
    let all: Vec<(LinkId, LinkDescription)> = core.fabric.links().map(|(id, d, _)| (id, d.clone())).collect();
    for (id, description) in &all {
        let other = wanted.follows.iter().find(|(link, _)| link == description).map(|(_, other)| other);
        let other = other.and_then(|other| all.iter().find(|(_, d)| d == other));
        core.network.follow(*id, other.map(|(id, _)| *id));
    }
    // Shells were attached after their links' circuits were made.
    core.fabric.tell_all(&mut core.network);
    Ok((applied, peers))
}
