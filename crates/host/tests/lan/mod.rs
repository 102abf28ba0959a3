//! A network with its service: two hosts on a link, or what a test makes of it; and direct circuits between its hosts.
#![allow(dead_code)] // Each test program uses a part.

use endpoint::control::Refusal;
use endpoint::direct::{Direct, DirectConfig};
use endpoint::seqpacket::Peer;
use endpoint::{ChannelId, Endpoint, EndpointConfig, Error, Events, OpenOptions};
use host::HostInterface;
use host::engine::{self, EngineHandle};
use host::service::{Handler, Service};
use net::topology::{Attachment, CircuitDescription, CircuitEnd, LinkDescription};
use net::{Carries, End, FramePool, LinkConfig, Network};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sockopt};
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId, Counters};

const SECONDS_10: Option<Duration> = Some(Duration::from_secs(10));

struct Policy;

impl Handler for Policy {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, circuit: CircuitId) -> Result<(), String> {
        if circuit.vci.get() == 666 { Err("circuit 0.666 is not for you".into()) } else { Ok(()) }
    }
    fn manage(&self, _: Peer, request: serde_json::Value, _: Vec<OwnedFd>) -> Result<String, String> {
        Ok(request.to_string())
    }
}

/// A network with its engine and its service. [`Lan::new`]: two hosts on one link, with best-effort circuits 0.100 to 0.103 and
/// 0.666, and 0.200 with a contract.
pub struct Lan {
    pub engine: EngineHandle,
    pub service: Option<Service>,
    pub socket: PathBuf,
    _dir: tempfile::TempDir,
}

pub fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

pub fn described(vci: u16) -> CircuitDescription {
    let ends = ["alpha", "beta"].map(|host| CircuitEnd::new(host, circuit(vci)));
    let cbr = Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() };
    let contract = if vci == 200 { cbr } else { Contract::default() };
    CircuitDescription { ends: ends.to_vec(), contract, ..Default::default() }
}

impl Lan {
    pub fn new() -> Self {
        Self::carrying(Carries::Cells)
    }

    /// What has come to a host on a circuit.
    pub fn received(&self, host: &'static str, vci: u16) -> Counters {
        let find = move |core: &mut engine::Core| {
            let circuits = core.host(host).unwrap().1.circuits();
            circuits.into_iter().find(|c| c.circuit == circuit(vci)).unwrap().received
        };
        self.engine.with(find).unwrap()
    }

    /// A network that `connect` fills, and its service.
    pub fn of(
        network: Network,
        handler: impl Handler + 'static,
        connect: impl FnOnce(&mut engine::Core) + Send + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cellway.sock");
        let engine = engine::start(network).unwrap();
        engine.with(connect).unwrap();
        let service = Service::start(&socket, engine.clone(), Arc::new(handler), 256).unwrap();
        Lan { engine, service: Some(service), socket, _dir: dir }
    }

    /// Hosts alpha and beta on a link, each with `circuits`.
    pub fn two_hosts(
        carries: Carries,
        handler: impl Handler + 'static,
        circuits: impl Fn(&mut HostInterface) + Send + 'static,
    ) -> Self {
        Lan::of(Network::new(FramePool::new(64, 65_536)), handler, move |core| {
            let nodes = ["alpha", "beta"].map(|name| {
                let mut host = HostInterface::new(64);
                circuits(&mut host);
                core.network.add_node(name, Box::new(host))
            });
            let config = LinkConfig { carries, ..LinkConfig::default() };
            core.network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
        })
    }

    /// With a link that carries cells or frames.
    pub fn carrying(carries: Carries) -> Self {
        Lan::of(Network::new(FramePool::new(64, 65_536)), Policy, move |core| {
            for name in ["alpha", "beta"] {
                core.fabric.add_host(&mut core.network, name, HostInterface::new(16)).unwrap();
            }
            let ends = ["alpha", "beta"].map(|name| Attachment { station: name.into(), port: None });
            let link = LinkDescription { ends, config: LinkConfig { carries, ..LinkConfig::default() } };
            core.fabric.add_link(&mut core.network, &link).unwrap();
            for vci in [100, 101, 102, 103, 666, 200] {
                core.fabric.add_circuit(&mut core.network, &described(vci)).unwrap();
            }
        })
    }

    pub fn open(&self, host: &str, vci: u16, config: DirectConfig) -> Result<Direct, Error> {
        Direct::open(&self.socket, host, circuit(vci), &config)
    }

    pub fn both(&self, vci: u16) -> (Direct, Direct) {
        std::thread::scope(|scope| {
            let a = scope.spawn(|| self.open("alpha", vci, patient()).unwrap());
            let b = self.open("beta", vci, patient()).unwrap();
            (a.join().unwrap(), b)
        })
    }

    /// An endpoint on a circuit.
    pub fn endpoint(&self, host: &str, events: Events, vci: u16) -> (Endpoint, ChannelId) {
        let config = EndpointConfig { host: host.into(), events, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(&self.socket, &config).unwrap();
        let channel = endpoint.open(circuit(vci), OpenOptions::default()).unwrap();
        (endpoint, channel)
    }

    /// Waits until an end has no opener.
    pub fn until_free(&self, host: &'static str, vci: u16) {
        until("the end is free", || {
            let open = move |core: &mut engine::Core| {
                let circuits = core.host(host).unwrap().1.circuits();
                circuits.iter().any(|c| c.circuit == circuit(vci) && c.endpoint.is_some())
            };
            !self.engine.with(open).unwrap()
        });
    }

    pub fn refused(&self, host: &str, vci: u16) -> Option<Refusal> {
        self.open(host, vci, patient()).unwrap_err().refusal()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

pub fn patient() -> DirectConfig {
    DirectConfig { patience: SECONDS_10, ..DirectConfig::default() }
}

/// The engine's thread, which does nothing meanwhile: what was sent stays where it is.
pub struct Held {
    release: Sender<()>,
    engine: JoinHandle<bool>,
}

impl Held {
    /// Holds an engine; for half a minute at most, or who waits for it by mistake would wait for ever.
    pub fn new(engine: &EngineHandle) -> Self {
        let (release, released) = channel();
        let (begin, begun) = channel();
        let engine = engine.clone();
        let wait = move || {
            begin.send(()).unwrap();
            released.recv_timeout(Duration::from_secs(30)) != Err(RecvTimeoutError::Timeout)
        };
        let engine = std::thread::spawn(move || engine.with(move |_| wait()).unwrap());
        begun.recv().unwrap();
        Held { release, engine }
    }

    /// Lets it go on. False if that was too late.
    pub fn release(self) -> bool {
        drop(self.release);
        self.engine.join().unwrap()
    }
}

/// A socket whose last close takes half a minute.
pub fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 65_536]).is_ok() {}
    let socket = OwnedFd::from(socket);
    sockopt::set_socket_linger(&socket, Some(Duration::from_secs(30))).unwrap();
    (socket, far)
}

/// Passes a descriptor along with octets.
pub fn pass(socket: &OwnedFd, octets: &[u8], passed: OwnedFd) {
    pass_by(socket, octets, passed, SendFlags::empty());
}

/// The same, by a flag.
pub fn pass_by(socket: &OwnedFd, octets: &[u8], passed: OwnedFd, by: SendFlags) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut rights, fds) = (SendAncillaryBuffer::new(&mut space), [passed.as_fd()]);
    assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
    let flags = by | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(octets)], &mut rights, flags).unwrap();
}

pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < deadline, "not within thirty seconds: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
