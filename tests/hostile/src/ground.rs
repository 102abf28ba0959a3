//! A network in this process: named stations, an engine's thread and a service at a socket of its own.

use crate::field::{Field, circuit};
use host::HostInterface;
use host::engine::{self, Core, EngineHandle};
use host::service::{Everybody, Handler, Service};
use net::topology::{CircuitDescription, LinkDescription};
use net::{Carries, LinkConfig, Network, SwitchElementConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, Counters};

/// Buffers of frames, as many as the program has.
const FRAMES: usize = 256;
/// Connections to the service.
const CONNECTIONS: usize = 1024;

/// A constant bit rate contract, in cells each second.
pub fn cbr(cells_per_s: f64) -> Contract {
    Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(cells_per_s), ..Contract::default() }
}

/// A cell link of a rate in cells each second.
pub fn rated(cells_per_s: f64) -> LinkConfig {
    LinkConfig { rate: CellRate::from_cells_per_s(cells_per_s), ..LinkConfig::default() }
}

/// An unlimited frame link.
pub fn frames() -> LinkConfig {
    LinkConfig { carries: Carries::Frames, ..LinkConfig::default() }
}

/// A circuit between two ends, such as `alpha 0.100`.
///
/// # Panics
/// If one is none.
pub fn between(a: &str, b: &str, contract: Contract) -> CircuitDescription {
    let ends = [a, b].map(|end| end.parse().expect("an end of a circuit"));
    CircuitDescription { ends: ends.to_vec(), contract, ..CircuitDescription::default() }
}

type Step = Box<dyn FnOnce(&mut Core) + Send>;

/// What a [`Ground`] is to have.
pub struct Builder {
    shards: usize,
    steps: Vec<Step>,
    handler: Arc<dyn Handler>,
}

/// A running network. It ends when this is dropped.
#[derive(Debug)]
pub struct Ground {
    engine: EngineHandle,
    service: Option<Service>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { shards: 1, steps: Vec::new(), handler: Arc::new(Everybody) }
    }
}

impl Builder {
    fn step(mut self, step: impl FnOnce(&mut Core) + Send + 'static) -> Self {
        self.steps.push(Box::new(step));
        self
    }

    /// Whom the service asks; everybody may do everything otherwise.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// So many shards, with a thread each; one otherwise.
    #[must_use]
    pub fn shards(self, shards: usize) -> Self {
        Builder { shards, ..self }
    }

    /// A host with 256 endpoints at most.
    #[must_use]
    pub fn host(self, name: &str) -> Self {
        self.host_at(name, 0)
    }

    /// The same in a shard.
    #[must_use]
    pub fn host_at(self, name: &str, shard: usize) -> Self {
        let name = name.to_owned();
        self.step(move |core| {
            let host = core.fabric.add_host(&mut core.network, &name, HostInterface::new(256));
            assert!(core.network.move_node(host.expect("a name of its own"), shard));
        })
    }

    /// A switch with 64 ports.
    #[must_use]
    pub fn switch(self, name: &str) -> Self {
        let name = name.to_owned();
        self.step(move |core| {
            core.fabric
                .add_switch(&mut core.network, &name, SwitchElementConfig::default())
                .expect("a name of its own");
        })
    }

    /// A link between two ends, such as `alpha` or `s1:0`.
    #[must_use]
    pub fn link(self, a: &str, b: &str, config: LinkConfig) -> Self {
        let ends = [a, b].map(|end| end.parse().expect("an end of a link"));
        self.step(move |core| {
            core.fabric.add_link(&mut core.network, &LinkDescription { ends, config }).expect("two free ends");
        })
    }

    /// A circuit between two ends, such as `alpha 0.100`.
    #[must_use]
    pub fn circuit(self, a: &str, b: &str, contract: Contract) -> Self {
        let described = between(a, b, contract);
        self.step(move |core| {
            core.fabric.add_circuit(&mut core.network, &described).expect("a path for the circuit");
        })
    }

    /// Brings it up.
    ///
    /// # Panics
    /// If it cannot be: the test is wrong, or the machine has no room.
    pub fn up(self) -> Ground {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("cellway.sock");
        let engine = engine::start(Network::sharded(self.shards, FRAMES, 65_536)).expect("an engine");
        let steps = self.steps;
        engine.with(move |core| steps.into_iter().for_each(|step| step(core))).expect("a running engine");
        let service = Service::start(&socket, engine.clone(), self.handler, CONNECTIONS).expect("a service");
        Ground { engine, service: Some(service), socket, _folder: folder }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

impl Ground {
    /// Nothing yet.
    pub fn build() -> Builder {
        Builder::default()
    }

    /// Two hosts with a link, an innocent circuit 0.100 and the attacker's, 0.200.
    pub fn two_circuits() -> Ground {
        Ground::build()
            .host("alpha")
            .host("beta")
            .link("alpha", "beta", net::LinkConfig::default())
            .circuit("alpha 0.100", "beta 0.100", traffic::Contract::default())
            .circuit("alpha 0.200", "beta 0.200", traffic::Contract::default())
            .up()
    }

    /// The engine.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// What a host has received on a circuit.
    ///
    /// # Panics
    /// If there is no such host or circuit.
    pub fn received(&self, host: &'static str, vci: u16) -> Counters {
        let find = move |core: &mut Core| {
            let circuits = core.host(host).expect("a host of this name").1.circuits();
            circuits.into_iter().find(|c| c.circuit == circuit(vci)).expect("a circuit of the host").received
        };
        self.engine.with(find).expect("a running engine")
    }

    /// How long the engine's thread computes for a command and for the rounds up to the next command, in its own processor
    /// time: other programs do not count.
    ///
    /// # Panics
    /// If the engine has stopped.
    pub fn engine_time(&self, command: impl FnOnce(&mut Core) + Send + 'static) -> Duration {
        let clock = || {
            let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
        };
        let begin = self.engine.with(move |core| {
            let begin = clock();
            command(core);
            begin
        });
        let end = self.engine.with(move |_| clock());
        end.expect("a running engine").saturating_sub(begin.expect("a running engine"))
    }
}

impl Field for Ground {
    fn socket(&self) -> &Path {
        &self.socket
    }
}

/// What was sent was delivered or dropped for a reason, at each link, host, endpoint and switch.
///
/// # Panics
/// If that is not so, unless the thread panics already.
pub fn assert_all_is_accounted_for(engine: &EngineHandle) {
    assert_none(&engine.with(|core| lab::sums::mismatches(&mut core.network)).unwrap_or_default());
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty() || std::thread::panicking(), "not all is accounted for:\n{}", wrong.join("\n"));
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.service.take();
        let wrong = self.engine.with(|core| lab::sums::mismatches(&mut core.network)).unwrap_or_default();
        self.engine.stop();
        assert_none(&wrong);
    }
}
