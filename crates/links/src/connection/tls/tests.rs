//! A session between a peer of the test's own making and a socket that counts what is read from it.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// A socket's two directions.
#[derive(Default)]
struct Wire {
    inbound: VecDeque<u8>,
    outbound: Vec<u8>,
    /// Octets and calls.
    read: (usize, usize),
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.inbound.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = self.inbound.read(into)?;
        self.read = (self.read.0 + n, self.read.1 + 1);
        Ok(n)
    }
}

impl Write for Wire {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.outbound.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Carries both directions' octets once.
fn carry(peer: &mut ServerConnection, wire: &mut Wire) {
    let sent = std::mem::take(&mut wire.outbound);
    let mut sent = &sent[..];
    while !sent.is_empty() {
        peer.read_tls(&mut sent).unwrap();
        peer.process_new_packets().unwrap();
    }
    while peer.wants_write() {
        peer.write_tls(&mut wire.inbound).unwrap();
    }
}

/// A session of a client, and its peer, which sends so many session tickets after the handshake.
fn session(tickets: usize) -> (Session, ServerConnection, Wire) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let texts = TlsTexts {
        certificate: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        trust: authority.pem().into_bytes(),
        name: None,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    config.send_tls13_tickets = tickets;
    let mut peer = ServerConnection::new(config.into()).unwrap();
    peer.set_buffer_limit(None);
    let mut session = Tls::new(&texts).unwrap().connect("127.0.0.1".parse().unwrap()).unwrap();
    let mut wire = Wire::default();
    while !session.shake_hands(&mut wire).unwrap() {
        carry(&mut peer, &mut wire);
    }
    carry(&mut peer, &mut wire);
    (session, peer, wire)
}

#[test]
fn records_without_data_end_a_read_and_the_data_after_them_arrive() {
    let (mut session, mut peer, mut wire) = session(700);
    assert!(wire.inbound.len() > 3 * LONGEST_RECORD, "{} octets of tickets", wire.inbound.len());
    peer.writer().write_all(b"hello").unwrap();
    carry(&mut peer, &mut wire);
    let mut calls = 0;
    loop {
        wire.read = (0, 0);
        let mut data = [0; 64];
        let read = session.read(&mut wire, &mut data);
        assert!(wire.read.0 <= LONGEST_RECORD && wire.read.1 <= LONGEST_RECORD / READ_COST + 1, "{:?}", wire.read);
        calls += 1;
        match read {
            Ok(n) => break assert_eq!(&data[..n], b"hello"),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
        }
    }
    assert!(calls > 3, "{calls} calls");
}

#[test]
fn a_record_of_any_length_is_read_in_one_call() {
    let (mut session, mut peer, mut wire) = session(0);
    for length in [1, 100, 4096, RECORD_OCTETS - 1, RECORD_OCTETS] {
        peer.writer().write_all(&vec![7; length]).unwrap();
        carry(&mut peer, &mut wire);
        let mut data = vec![0; 2 * RECORD_OCTETS];
        assert_eq!(session.read(&mut wire, &mut data).unwrap(), length);
        assert_eq!(session.read(&mut wire, &mut data).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(wire.inbound.len(), 0);
    }
}
