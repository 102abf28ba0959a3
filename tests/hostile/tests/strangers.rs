//! Connections of nobody in particular to a link on TCP: they keep the real peer out for no longer than it takes to say
//! something, take no time of the engine's thread, and fill no log.

use hostile::{Attack, Class, Field, Ground, Trial, between, frames};
use links::tcp::{Role, Shell, Tls, TlsTexts};
use net::topology::LinkDescription;
use net::{Carries, End, FrameAal, FramePool, LinkConfig, Network, Node, NodeIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use sar::SduMeta;
use std::any::Any;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::Time;
use wire::atmtcp::Head;

/// How soon the real peer is heard, whoever else has come.
const SOON: Duration = Duration::from_secs(2);

/// A network with an innocent circuit, and a link from gamma to whoever connects.
struct Outside {
    ground: Ground,
    address: SocketAddr,
}

impl Field for Outside {
    fn socket(&self) -> &Path {
        self.ground.socket()
    }
}

fn outside(tls: Option<&TlsTexts>) -> Outside {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .host("gamma")
        .switch("s1")
        .link("alpha", "s1:0", LinkConfig::default())
        .link("beta", "s1:1", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .up();
    let tls = tls.map(|texts| Tls::new(texts).unwrap());
    let shell = Shell::with_tls(Role::Listen("127.0.0.1:0".parse().unwrap()), tls).unwrap();
    let address = shell.local_address().unwrap();
    let attach = move |core: &mut host::engine::Core| {
        core.fabric.add_outside("far").unwrap();
        let ends = ["gamma", "far"].map(|end| end.parse().unwrap());
        let link = LinkDescription { ends, config: frames() };
        let link = core.fabric.add_link(&mut core.network, &link).unwrap();
        assert!(core.network.attach(link, Box::new(shell)));
        let circuit = between("gamma 0.200", "far 0.200", Contract::default());
        core.fabric.add_circuit(&mut core.network, &circuit).unwrap();
    };
    ground.engine().with(attach).unwrap();
    Outside { ground, address }
}

fn frame(sdu: &[u8]) -> Vec<u8> {
    let head = Head { circuit: "0.200".parse().unwrap(), octets: sdu.len() };
    [&head.to_octets()[..], sdu].concat()
}

/// Connections that stay and say nothing, half of something, or no more than what costs nothing to say.
fn strangers(address: SocketAddr, n: usize) -> Vec<TcpStream> {
    let half_a_frame = frame(&[7; 9000])[..200].to_vec();
    // The beginning of a TLS ClientHello, and of a control text.
    let said: [&[u8]; 5] = [b"", &half_a_frame, b"\x16\x03\x01\x02\x00\x01", b"\0\0\0\0\0\0\0\x20O 0.1", b"\0"];
    let connect = |n: usize| {
        let mut socket = TcpStream::connect(address).ok()?;
        // Some are refused before they have finished.
        let _ = socket.write_all(said[n % said.len()]);
        Some(socket)
    };
    (0..n).filter_map(connect).collect()
}

/// Whether gamma hears these octets soon.
fn hears(gamma: &mut endpoint::Endpoint, sdu: &[u8]) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < SOON {
        if let Some(got) = gamma.receive(Some(Duration::from_millis(50))).unwrap()
            && got[..] == *sdu
        {
            return true;
        }
    }
    false
}

#[test]
fn connections_that_say_nothing_keep_no_peer_out() {
    Trial::new(Class::Other, || outside(None)).withstand(|field, attack| {
        let (mut gamma, _) = field.open("gamma", 200);
        let mut silent = strangers(field.address, 5);
        std::thread::sleep(Duration::from_millis(50));
        let mut real = TcpStream::connect(field.address).unwrap();
        let mut number = 0u8;
        while attack.goes_on() {
            number = number.wrapping_add(1);
            real.write_all(&frame(&[number; 40])).unwrap();
            assert!(hears(&mut gamma, &[number; 40]), "PDU {number} beside {} strangers", silent.len());
            silent.extend(strangers(field.address, 20));
        }
        assert!(silent.len() > 50, "only {} strangers", silent.len());
        drop(silent);
        // The next peer comes in a crowd of strangers.
        drop(real);
        let _silent = strangers(field.address, 40);
        let mut next = TcpStream::connect(field.address).unwrap();
        next.write_all(&frame(b"next")).unwrap();
        assert!(hears(&mut gamma, b"next"));
    });
}

/// Texts of the two ends of a link, with certificates that an authority made for this run signs.
fn texts() -> &'static [TlsTexts; 2] {
    static TEXTS: OnceLock<[TlsTexts; 2]> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        ["127.0.0.1", "far.example"].map(|name| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            TlsTexts {
                certificate: params.signed_by(&key, &authority).unwrap().pem().into_bytes(),
                key: key.serialize_pem().into_bytes(),
                trust: authority.pem().into_bytes(),
                name: None,
            }
        })
    })
}

/// Sends one SDU again and again.
struct Caller(Vec<u8>);

impl Node for Caller {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        if io.is_up(0) && io.room(0) > 0 && io.pool().in_use() == 0 {
            let circuit = "0.200".parse().unwrap();
            let sdu = io.pool_mut().copy_in(circuit, FrameAal::Aal5, SduMeta::default(), &self.0).unwrap();
            assert!(io.put_frame(0, sdu).is_ok());
        }
        false
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A peer with a good certificate, for as long as `goes_on` says.
fn call(address: SocketAddr, goes_on: impl Fn() -> bool) {
    let mut network = Network::new(FramePool::new(16, 65_568));
    let node = network.add_node("caller", Box::new(Caller(b"real".to_vec())));
    let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    let tls = Tls::new(&texts()[1]).unwrap();
    network.attach(link, Box::new(Shell::with_tls(Role::Connect(address), Some(tls)).unwrap()));
    let begin = Instant::now();
    while goes_on() {
        let now = Time::from_nanos(begin.elapsed().as_nanos() as u64);
        network.handle_ready(link, true, false, now);
        network.run(now);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn connections_without_a_certificate_keep_no_peer_out() {
    let attack = |field: &Outside, attack: &Attack| {
        let (mut gamma, _) = field.open("gamma", 200);
        let mut silent = strangers(field.address, 5);
        std::thread::sleep(Duration::from_millis(50));
        let heard = std::sync::atomic::AtomicBool::new(false);
        let is_over = || heard.load(std::sync::atomic::Ordering::Relaxed);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| call(field.address, || !is_over() && begin.elapsed() < 2 * SOON));
            scope.spawn(|| {
                while attack.goes_on() && !is_over() {
                    silent.extend(strangers(field.address, 5));
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let soon = hears(&mut gamma, b"real");
            heard.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(soon, "not heard after {:?}", begin.elapsed());
        });
        attack.rest();
    };
    Trial::new(Class::Other, || outside(Some(&texts()[0]))).withstand(attack);
}

#[test]
fn garbage_from_thousands_of_connections_fills_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A port that nobody has: bound once and let go.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let net =
        format!("[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\natmtcp = \"listen {address}\"\n");
    std::fs::write(at("net.toml"), net).unwrap();
    let mut daemon = Command::new(interop::program::cellway().unwrap());
    daemon.env("CELLWAY_SOCKET", at("socket")).arg("up").arg(at("net.toml")).stdout(Stdio::null());
    let mut daemon = daemon.stderr(std::fs::File::create(at("log")).unwrap()).spawn().unwrap();
    let log = || std::fs::read_to_string(at("log")).unwrap();
    let begin = Instant::now();
    while !log().contains("up: ") && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (begin, mut connections) = (Instant::now(), 0u32);
    while begin.elapsed() < Duration::from_secs(2) {
        if let Ok(mut socket) = TcpStream::connect(address) {
            connections += 1;
            // Each time another reason.
            let _ = socket.write_all(&[0xff, connections as u8, (connections >> 8) as u8, 1, 2, 3, 4, 5]);
        }
    }
    let id = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert!(daemon.wait().unwrap().success());
    let log = log();
    assert!(connections > 100, "only {connections} connections");
    assert!(log.len() < 20_000, "{} octets of log from {connections} connections", log.len());
    // What was left out is told, with its number.
    assert!(log.contains("were left out") && log.contains("down"), "{log}");
}
