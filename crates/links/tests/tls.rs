//! Links by TLS: two of ours, and a peer of the test's own making, with certificates that are made for it.

use links::tcp::{Role, Shell, Tls, TlsTexts};
use net::{Carries, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use sar::SduMeta;
use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use wire::{CircuitId, Time};

/// Sends what it is given as soon as there is room, and keeps what comes.
#[derive(Default)]
struct Sink {
    to_send: Vec<Vec<u8>>,
    got: Vec<Vec<u8>>,
}

fn circuit() -> CircuitId {
    "0.100".parse().unwrap()
}

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut busy = false;
        while let Some((_, octets)) = io.frame_in(0) {
            self.got.push(octets.to_vec());
            io.release_frame(0);
            busy = true;
        }
        while io.room(0) > 0 && !self.to_send.is_empty() && io.pool().in_use() < 16 {
            let octets = self.to_send.remove(0);
            let frame = io.pool_mut().copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), &octets).unwrap();
            assert!(io.put_frame(0, frame).is_ok());
            busy = true;
        }
        busy
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Side {
    network: Network,
    sink: NodeId,
    link: LinkId,
    start: Instant,
}

impl Side {
    fn new(shell: Shell) -> Self {
        let mut network = Network::new(FramePool::new(32, 65_568));
        let sink = network.add_node("sink", Box::<Sink>::default());
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = network.connect(End::Port(sink, 0), End::External, config).unwrap();
        assert!(network.attach(link, Box::new(shell)));
        Side { network, sink, link, start: Instant::now() }
    }

    fn sink(&mut self) -> &mut Sink {
        self.network.node_mut(self.sink).unwrap()
    }

    fn is_up(&self) -> bool {
        self.network.link_info(self.link).unwrap().up
    }

    fn status(&self) -> String {
        self.network.externals().next().unwrap().1.status()
    }

    /// What the engine does, with a poll for the socket as it has.
    fn step(&mut self) {
        let now = Time::from_nanos(self.start.elapsed().as_nanos() as u64);
        let ready = self.network.externals().next().map(|(_, e)| (e.wants_read(), e.wants_write()));
        if let Some((read, write)) = ready {
            self.network.handle_ready(self.link, read, write, now);
        }
        while self.network.run(now) {}
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// An authority, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// Texts of an end with a certificate for `names`, valid from and for so many days from now, that trusts `trust`.
    fn texts(&self, names: &[&str], days: (i64, i64), trust: &Authority) -> TlsTexts {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let day = |n| OffsetDateTime::now_utc() + time::Duration::days(n);
        (params.not_before, params.not_after) = (day(days.0), day(days.1));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        TlsTexts {
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            trust: trust.pem(),
            name: None,
        }
    }
}

const NOW: (i64, i64) = (-1, 30);

fn listener(texts: &TlsTexts) -> (Side, SocketAddr) {
    let shell = Shell::with_tls(Role::Listen("127.0.0.1:0".parse().unwrap()), Some(Tls::new(texts).unwrap())).unwrap();
    let address = shell.local_address().unwrap();
    (Side::new(shell), address)
}

fn connecting(address: SocketAddr, texts: &TlsTexts) -> Side {
    Side::new(Shell::with_tls(Role::Connect(address), Some(Tls::new(texts).unwrap())).unwrap())
}

/// Two ends that shall not come together; what each says of it.
fn refused(listens: &TlsTexts, connects: &TlsTexts) -> (String, String) {
    let (mut a, address) = listener(listens);
    let mut b = connecting(address, connects);
    until("both say why", || {
        a.step();
        b.step();
        a.status().contains("(last") && b.status().contains("(last")
    });
    assert!(!a.is_up(), "{}", a.status());
    assert_eq!(a.network.pool().in_use(), 0);
    (a.status(), b.status())
}

#[test]
fn two_ends_that_trust_each_other_exchange_sdus_of_all_sizes_and_connect_again() {
    let authority = Authority::new();
    let (mut a, address) = listener(&authority.texts(&["127.0.0.1"], NOW, &authority));
    for _ in 0..2 {
        let mut b = connecting(address, &authority.texts(&["beta.example"], NOW, &authority));
        until("up", || {
            a.step();
            b.step();
            a.is_up() && b.is_up()
        });
        assert!(a.status().contains("by TLS"), "{}", a.status());
        // Far more than a session and the sockets keep at once.
        let sdus: Vec<Vec<u8>> = (0..200u32).map(|i| vec![i as u8; 1 + (i * i * 37 % 65_535) as usize]).collect();
        a.sink().to_send = sdus.clone();
        b.sink().to_send = sdus.clone();
        until("both ways", || {
            a.step();
            b.step();
            a.sink().got.len() == sdus.len() && b.sink().got.len() == sdus.len()
        });
        assert!(std::mem::take(&mut a.sink().got) == sdus, "from b to a");
        assert!(b.sink().got == sdus, "from a to b");
        drop(b);
        until("its end is seen", || {
            a.step();
            !a.is_up()
        });
    }
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused_on_either_side_and_both_say_why() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let good = known.texts(&["127.0.0.1"], NOW, &known);
    let stranger = unknown.texts(&["127.0.0.1"], NOW, &known);
    let (listens, connects) = refused(&good, &stranger);
    assert!(listens.contains("`trust` does not have"), "{listens}");
    assert!(connects.contains("add it to the peer's `trust`"), "{connects}");
    let (listens, connects) = refused(&stranger, &good);
    assert!(connects.contains("`trust` does not have"), "{connects}");
    assert!(listens.contains("add it to the peer's `trust`"), "{listens}");
}

#[test]
fn an_expired_certificate_and_one_of_the_future_name_cause_and_cure() {
    let authority = Authority::new();
    let good = authority.texts(&["127.0.0.1"], NOW, &authority);
    let (listens, connects) = refused(&good, &authority.texts(&["127.0.0.1"], (-30, -1), &authority));
    assert!(listens.contains("has expired: renew it"), "{listens}");
    assert!(connects.contains("this end's certificate expired"), "{connects}");
    let (_, connects) = refused(&authority.texts(&["127.0.0.1"], (1, 30), &authority), &good);
    assert!(connects.contains("not valid yet"), "{connects}");
}

#[test]
fn a_certificate_for_another_name_is_refused_where_a_name_is_asked_for() {
    let authority = Authority::new();
    let alpha = authority.texts(&["alpha.example", "127.0.0.1"], NOW, &authority);
    let beta = authority.texts(&["beta.example"], NOW, &authority);
    let wants = |texts: &TlsTexts, name: &str| TlsTexts { name: Some(name.into()), ..texts.clone() };
    // Who connects has the address it connects to for the name, if no other is given.
    let (_, connects) = refused(&beta, &alpha);
    assert!(
        connects.contains("for") && connects.contains("beta.example") && connects.contains("127.0.0.1"),
        "{connects}"
    );
    let (_, connects) = refused(&alpha, &wants(&beta, "gamma.example"));
    assert!(connects.contains("not for gamma.example: set `name`"), "{connects}");
    // Who listens asks for a name only if it is told to.
    let (mut a, address) = listener(&wants(&alpha, "gamma.example"));
    let mut b = connecting(address, &beta);
    until("the listener says why", || {
        a.step();
        b.step();
        a.status().contains("(last")
    });
    assert!(a.status().contains("beta.example, not for gamma.example"), "{}", a.status());
    let (mut a, address) = listener(&wants(&alpha, "beta.example"));
    let mut b = connecting(address, &wants(&beta, "alpha.example"));
    until("up", || {
        a.step();
        b.step();
        a.is_up() && b.is_up()
    });
}

/// A session of `rustls` in the hands of the test, without a certificate of its own.
#[test]
fn a_peer_without_a_certificate_is_refused() {
    let authority = Authority::new();
    let (mut a, address) = listener(&authority.texts(&["127.0.0.1"], NOW, &authority));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let peer = std::thread::spawn(move || {
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let mut session = rustls::ClientConnection::new(config.into(), name).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        let written = stream.write_all(b"\0\0\0\x64\0\0\0\x05hello");
        let read = stream.read(&mut [0; 8]);
        written.and(read.map(|_| ())).unwrap_err().to_string()
    });
    until("refused", || {
        a.step();
        a.status().contains("(last")
    });
    assert!(a.status().contains("shows no certificate"), "{}", a.status());
    assert!(peer.join().unwrap().contains("CertificateRequired"));
    assert!(!a.is_up() && a.sink().got.is_empty());
}

#[test]
fn with_tls_at_one_end_only_each_says_what_the_other_lacks() {
    let authority = Authority::new();
    let texts = authority.texts(&["127.0.0.1"], NOW, &authority);
    let (mut a, address) = listener(&texts);
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"\0\0\0\x64\0\0\0\x05hello").unwrap();
    until("refused", || {
        a.step();
        a.status().contains("(last")
    });
    assert!(a.status().contains("speaks no TLS"), "{}", a.status());
    assert!(a.sink().got.is_empty());
    let shell = Shell::new(Role::Listen("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = shell.local_address().unwrap();
    let (mut a, mut b) = (Side::new(shell), connecting(address, &texts));
    until("refused", || {
        a.step();
        b.step();
        a.status().contains("(last") && b.status().contains("(last")
    });
    assert!(a.status().contains("the peer speaks TLS"), "{}", a.status());
    assert!(b.status().contains("in the TLS handshake"), "{}", b.status());
}

#[test]
fn texts_that_make_no_tls_say_which_and_why() {
    let authority = Authority::new();
    let good = authority.texts(&["alpha.example"], NOW, &authority);
    let says = |texts: TlsTexts| Tls::new(&texts).unwrap_err().to_string();
    assert!(
        says(TlsTexts { certificate: b"nothing".into(), ..good.clone() }).starts_with("certificate: no certificate")
    );
    assert!(says(TlsTexts { key: good.certificate.clone(), ..good.clone() }).starts_with("key: no private key"));
    assert!(says(TlsTexts { trust: Vec::new(), ..good.clone() }).starts_with("trust: no certificate"));
    assert!(says(TlsTexts { name: Some("not a name".into()), ..good.clone() }).contains("neither a DNS name"));
    let other = authority.texts(&["alpha.example"], NOW, &authority);
    assert!(says(TlsTexts { key: other.key, ..good }).starts_with("the certificate and its key"));
}
