//! A client that writes at random over everything it shares with the host. Nobody else may notice. `HOSTILE_SECONDS` (60 to
//! be thorough, 4 by default) says for how long.

use endpoint::control::{Request, Response};
use endpoint::segment::Segment;
use endpoint::seqpacket::Packets;
use endpoint::{DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use host::engine::{self, EngineHandle};
use host::service::{Everybody, Service};
use host::{CircuitConfig, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, Network};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// A PDU of the others that takes longer than this has been disturbed.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(5));
/// How long the cunning client is given to come through on a busy machine.
const LONGEST: Duration = Duration::from_secs(600);
const SEED: u64 = 0x5EED;

fn scribbling() -> Duration {
    let seconds = std::env::var("HOSTILE_SECONDS").ok().and_then(|n| n.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// Hosts alpha and beta on a link, with the circuits 0.100 (the others') and 0.101 (the hostile client's).
fn lan(carries: Carries, socket: &Path) -> (EngineHandle, Service) {
    let engine = engine::start(Network::new(FramePool::new(64, 65_536))).unwrap();
    let connect = move |core: &mut engine::Core| {
        let nodes = ["alpha", "beta"].map(|name| {
            let mut host = HostInterface::new(16);
            for vci in [100, 101] {
                host.add_circuit(circuit(vci), CircuitConfig::default());
            }
            core.network.add_node(name, Box::new(host))
        });
        let config = LinkConfig { carries, ..LinkConfig::default() };
        core.network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
    };
    engine.with(connect).unwrap();
    let service = Service::start(socket, engine.clone(), Arc::new(Everybody), 16).unwrap();
    (engine, service)
}

/// The hostile client: it speaks the protocol only as far as it must to get memory to write into.
struct Hostile {
    _packets: Packets,
    memory: Segment,
    wake_host: File,
    geometry: Geometry,
    channel: u32,
    cunning: bool,
    random: StdRng,
}

impl Hostile {
    fn new(socket: &Path, path: DataPath, cunning: bool, seed: u64) -> Self {
        let packets = Packets::connect(socket).unwrap();
        let ask = |request: &Request| {
            packets.send(request, &[]).unwrap();
            packets.receive::<Response>().unwrap().expect("an answer")
        };
        ask(&Request::hello());
        let geometry = Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 16_384 };
        let create = Request::CreateEndpoint { host: "alpha".into(), geometry, events: Events::Polling, path };
        let (_, fds) = ask(&create);
        let [memory, wake_host, _] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        let memory = Segment::open(&memory, geometry).unwrap();
        let Response::Opened { channel } = ask(&Request::open(circuit(101), OpenOptions::default())).0 else {
            panic!("the circuit does not open");
        };
        Hostile {
            _packets: packets,
            memory,
            wake_host: wake_host.into(),
            geometry,
            channel: channel.0,
            cunning,
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// The cunning one leaves the host's own index of the send ring alone: it says which descriptor is looked at next.
    fn write(&self, at: usize, octets: &[u8]) {
        let index = self.geometry.send_at();
        if self.cunning && at < index + 64 && index < at + octets.len() {
            return;
        }
        self.memory.copy_in(at, octets);
    }

    /// The index up to which the other side has taken descriptors: the one that it looks at next.
    fn consumed(&self, ring: usize) -> u32 {
        let mut index = [0; 4];
        self.memory.copy_out(ring, &mut index);
        u32::from_ne_bytes(index)
    }

    fn scribble(&mut self) {
        let g = self.geometry;
        let rings = [g.send_at(), g.receive_at(), g.free_at()];
        let ring = rings[self.random.random_range(0..3)];
        let index_at = ring + 64 * self.random.random_range(0..2);
        let any: u32 = self.random.random();
        match self.random.random_range(0..6) {
            // Anywhere, magic and geometry included.
            0 => {
                let mut octets = [0; 64];
                self.random.fill(&mut octets[..]);
                let at = self.random.random_range(0..g.octets() - octets.len());
                self.write(at, &octets);
            }
            // An index of a ring, near or anywhere.
            1 => {
                let near = self.consumed(ring).wrapping_add(any % 80);
                let index = if self.random.random() { near } else { any };
                self.write(index_at, &index.to_ne_bytes());
            }
            // A whole ring.
            2 => {
                let mut octets = vec![0; 64 + 64 * 64];
                self.random.fill(&mut octets[..]);
                self.write(ring + 64, &octets);
            }
            // Somebody sleeps, or not.
            3 => self.write(
                [endpoint::layout::HOST_SLEEPS, endpoint::layout::CLIENT_SLEEPS][any as usize % 2],
                &any.to_ne_bytes(),
            ),
            // Descriptors that are nearly right, and an index that offers them.
            4 => {
                for slot in 0..64 {
                    let buffer = [self.random.random_range(0..40), u32::MAX, self.random.random()][slot % 3];
                    let octets = [self.random.random_range(0..20_000), self.random.random_range(0..50)][slot % 2];
                    let words = [self.channel + u32::from(slot % 7 == 0), octets, buffer, self.random.random()];
                    self.write(ring + 128 + 64 * slot, &words.map(u32::to_ne_bytes).concat());
                }
                self.write(ring + 64, &self.consumed(ring).wrapping_add(1 + any % 64).to_ne_bytes());
            }
            _ => {
                let _ = self.wake_host.write(&1u64.to_ne_bytes());
            }
        }
    }
}

fn pattern(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 131 + seed * 17 + (i >> 8)) as u8).collect()
}

fn others_keep_their_data(carries: Carries, path: DataPath, cunning: bool, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cellway.sock");
    let (engine, service) = lan(carries, &socket);
    let endpoint = |host: &str| {
        let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
        Endpoint::create(&socket, &config).unwrap()
    };
    let (mut alpha, mut beta, mut victim) = (endpoint("alpha"), endpoint("beta"), endpoint("beta"));
    let there = alpha.open(circuit(100), OpenOptions::default()).unwrap();
    let back = beta.open(circuit(100), OpenOptions::default()).unwrap();
    let to_hostile = victim.open(circuit(101), OpenOptions::default()).unwrap();

    let ended = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ended);
    let mut hostile = Hostile::new(&socket, path, cunning, seed);
    let scribbler = std::thread::spawn(move || {
        let mut n = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            hostile.scribble();
            n += 1;
        }
        n
    });

    let begin = Instant::now();
    let (mut exchanged, mut from_hostile) = (0, 0);
    // On a busy machine longer, until the cunning one has come through.
    let enough = |exchanged, from_hostile| exchanged > 100 && (from_hostile > 10 || !cunning);
    while begin.elapsed() < scribbling() / 8 || !enough(exchanged, from_hostile) && begin.elapsed() < LONGEST {
        let sdu = pattern([1, 40, 1500, 9180][exchanged % 4], exchanged);
        alpha.send_copy(there, &sdu).unwrap();
        let got = beta.receive(PATIENCE).unwrap().expect("the others' PDU");
        assert!(got[..] == sdu, "PDU {exchanged} came changed (seed {seed})");
        drop(got);
        beta.send_copy(back, &sdu).unwrap();
        let got = alpha.receive(PATIENCE).unwrap().expect("the others' PDU back");
        assert!(got[..] == sdu, "PDU {exchanged} came back changed (seed {seed})");
        drop(got);
        // Data for the hostile client too: its free and receive rings are used while it writes over them.
        match victim.send_copy(to_hostile, &sdu) {
            Ok(()) | Err(SendError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        // Whatever comes from it is a PDU within bounds, or nothing.
        while let Some(got) = victim.try_receive() {
            assert!(!got.is_empty() && got.len() <= 65_535);
            from_hostile += 1;
        }
        exchanged += 1;
    }
    ended.store(true, Ordering::Relaxed);
    let scribbles = scribbler.join().unwrap();
    // Otherwise nothing has been tried. The one that is not cunning soon makes its ring look empty for good.
    let tried = enough(exchanged, from_hostile) && scribbles > 100;
    assert!(tried, "{exchanged} PDUs exchanged, {scribbles} scribbles, {from_hostile} PDUs of the hostile client");

    // Its connection has ended with it: its endpoint goes, its circuit is free.
    let deadline = Instant::now() + Duration::from_secs(10);
    let endpoints = || engine.with(|core| core.host("alpha").unwrap().1.endpoints().len()).unwrap();
    while endpoints() > 1 {
        assert!(Instant::now() < deadline, "the hostile client's endpoint is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut next = endpoint("alpha");
    next.open(circuit(101), OpenOptions::default()).unwrap();
    drop(service);
    engine.stop();
}

/// `HOSTILE_SECONDS` in all: cells and frames, each data path.
#[test]
fn a_client_that_scribbles_over_its_segment_harms_nobody_else() {
    let mut seed = SEED;
    for carries in [Carries::Cells, Carries::Frames] {
        for path in [DataPath::Shared, DataPath::Copying] {
            for cunning in [false, true] {
                others_keep_their_data(carries, path, cunning, seed);
                seed += 1;
            }
        }
    }
}
