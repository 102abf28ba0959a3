//! A Cellway network in the test's own process, live: engine, service, endpoints in shared memory, and a link outside.
//!
//! Host `alpha` — cell link — switch `s1` — ATM over TCP — `outside`, which is the peer. So a PDU of an application is
//! segmented at alpha, switched, put together again at the switch's port and sent as a frame; and back.

use endpoint::{Endpoint, EndpointConfig, Geometry};
use host::HostInterface;
use host::engine::{self, EngineHandle};
use host::service::{Everybody, Service};
use links::tcp::{Role, Shell};
use net::topology::{Attachment, CircuitDescription, LinkDescription};
use net::{Carries, FrameAal, FramePool, LineCounters, LinkConfig, LinkId, Network};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The network; it ends with its owner.
pub struct Lan {
    engine: EngineHandle,
    service: Option<Service>,
    socket: PathBuf,
    outside: Vec<(LinkId, SocketAddr)>,
    _folder: tempfile::TempDir,
}

impl Lan {
    /// Brings it up with the AAL5 circuits `vcis` (VPI 0, the same number at both ends) from alpha to the outside.
    pub fn new(vcis: &[u16]) -> anyhow::Result<Self> {
        Self::with(&[("alpha", "outside", vcis)])
    }

    /// As [`Lan::new`], with a host, a name of the outside and the circuits between them for each outside link.
    pub fn with(outsides: &[(&str, &str, &[u16])]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("cellway.sock");
        let engine = engine::start(Network::new(FramePool::new(256, 65_536)))?;
        let wanted: Vec<(String, String, Vec<u16>)> =
            outsides.iter().map(|(host, name, vcis)| ((*host).into(), (*name).into(), vcis.to_vec())).collect();
        let outside = engine.with(move |core| build(core, &wanted))??;
        let service = Service::start(&socket, engine.clone(), Arc::new(Everybody), 16)?;
        Ok(Lan { engine, service: Some(service), socket, outside, _folder: folder })
    }

    /// Two hosts, `alpha` and `beta`, at one switch, nothing outside; an AAL5 circuit 0.`vci` between them.
    pub fn of_two_hosts(vci: u16) -> anyhow::Result<Self> {
        let lan = Self::with(&[])?;
        lan.engine.with(move |core| -> anyhow::Result<()> {
            let (network, fabric) = (&mut core.network, &mut core.fabric);
            for host in ["alpha", "beta"] {
                fabric.add_host(network, host, HostInterface::new(16))?;
                let end = |station: &str| Attachment { station: station.to_owned(), port: None };
                let link = LinkDescription { ends: [end(host), end("s1")], config: LinkConfig::default() };
                fabric.add_link(network, &link)?;
            }
            let ends = vec![format!("alpha 0.{vci}").parse()?, format!("beta 0.{vci}").parse()?];
            let circuit = CircuitDescription { ends, ..Default::default() };
            Ok(fabric.add_circuit(network, &circuit)?)
        })??;
        Ok(lan)
    }

    /// A circuit more, with the same label at both ends.
    pub fn add_circuit(&self, host: &str, outside: &str, vci: u16, aal: FrameAal) -> anyhow::Result<()> {
        let ends = vec![format!("{host} 0.{vci}").parse()?, format!("{outside} 0.{vci}").parse()?];
        let circuit = CircuitDescription { ends, aal, ..Default::default() };
        Ok(self.engine.with(move |core| core.fabric.add_circuit(&mut core.network, &circuit))??)
    }

    /// The counters of the ATM-over-TCP link of the given number: to the outside, and from there.
    pub fn outside_counters(&self, outside: usize) -> anyhow::Result<[LineCounters; 2]> {
        let link = self.outside[outside].0;
        let counters = self.engine.with(move |core| core.network.link_info(link).map(|l| [l.from_a, l.from_b]))?;
        counters.ok_or_else(|| anyhow::anyhow!("the link is gone"))
    }

    /// Waits until the peer of the ATM-over-TCP link of the given number is connected, as this side sees it.
    pub fn wait_until_up(&self, outside: usize, within: Duration) -> anyhow::Result<()> {
        let (link, deadline) = (self.outside[outside].0, Instant::now() + within);
        while !self.engine.with(move |core| core.network.link_info(link).is_some_and(|l| l.up))? {
            anyhow::ensure!(Instant::now() < deadline, "nobody has connected to link {outside} within {within:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Where the ATM-over-TCP link of the given number listens.
    pub fn port(&self, outside: usize) -> u16 {
        self.outside[outside].1.port()
    }

    /// An endpoint on a host, with room for a few long SDUs.
    pub fn endpoint(&self, host: &str) -> anyhow::Result<Endpoint> {
        let geometry = Geometry { buffers: 128, buffer_octets: 65_536, ..Geometry::default() };
        let config = EndpointConfig { host: host.to_owned(), geometry, ..EndpointConfig::default() };
        Ok(Endpoint::create(&self.socket, &config)?)
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

fn build(core: &mut engine::Core, wanted: &[(String, String, Vec<u16>)]) -> anyhow::Result<Vec<(LinkId, SocketAddr)>> {
    let (network, fabric) = (&mut core.network, &mut core.fabric);
    let end = |station: &str| Attachment { station: station.to_owned(), port: None };
    fabric.add_switch(network, "s1", Default::default())?;
    let mut addresses = Vec::new();
    for (host, outside, vcis) in wanted {
        if fabric.node(host).is_none() {
            fabric.add_host(network, host, HostInterface::new(16))?;
            let cells = LinkDescription { ends: [end(host), end("s1")], config: LinkConfig::default() };
            fabric.add_link(network, &cells)?;
        }
        fabric.add_outside(outside)?;
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = fabric.add_link(network, &LinkDescription { ends: [end("s1"), end(outside)], config })?;
        let shell = Shell::new(Role::Listen(SocketAddr::from(([127, 0, 0, 1], 0))))?;
        addresses.push((link, shell.local_address()?));
        anyhow::ensure!(network.attach(link, Box::new(shell)), "the link has no end outside");
        for vci in vcis {
            let ends = vec![format!("{host} 0.{vci}").parse()?, format!("{outside} 0.{vci}").parse()?];
            let circuit = CircuitDescription { ends, ..Default::default() };
            fabric.add_circuit(network, &circuit)?;
        }
    }
    Ok(addresses)
}
