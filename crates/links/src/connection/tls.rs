//! TLS for links that leave the machine (RFC 8446, by `rustls`): both ends show a certificate, and each takes only a
//! peer whose certificate is of one of its trust anchors.
//!
//! [`Tls`] is made of PEM texts once; a [`Session`] is one connection's: octets of the socket on one side, those of
//! ATM over TCP on the other. Nothing here waits.

use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, Error, InvalidMessage, IoState,
    RootCertStore, ServerConfig, ServerConnection,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

/// Octets that a session keeps for its socket at most.
const SESSION_OCTETS: usize = 64 * 1024;
/// Octets of data in one record (RFC 8446 5.1), and what its head, its type and its tag add (5.2).
const RECORD_OCTETS: usize = 16_384;
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Octets of a record's head and its encrypted content at most (RFC 8446 5.2).
const LONGEST_RECORD: usize = 5 + RECORD_OCTETS + 256;
/// Octets that a read of the socket without data stands for at least in [`Session::without_data`].
const READ_COST: usize = 1024;
/// Writings that are remembered until they are acknowledged; beyond that, every second is forgotten.
const MAX_ENDS: usize = 4096;

/// What a link's TLS is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsTexts {
    /// PEM: this end's certificate, and after it those between it and a trust anchor.
    pub certificate: Vec<u8>,
    /// PEM: the certificate's private key.
    pub key: Vec<u8>,
    /// PEM: the certificates of the authorities whose certificates a peer may show.
    pub trust: Vec<u8>,
    /// A name of the peer's, DNS or address, for which its certificate must be. Without one who connects wants the
    /// address that it connects to, and who listens takes any certificate of the trust anchors.
    pub name: Option<String>,
}

/// Why texts make no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No such item in the text, or none that can be read.
    #[error("{what}: no {item} in PEM form in it")]
    Missing {
        /// Which text.
        what: &'static str,
        /// What was looked for.
        item: &'static str,
    },
    /// The certificate and the key do not fit, or one of them cannot be used.
    #[error("the certificate and its key: {0}")]
    Identity(Error),
    /// A trust anchor that cannot be used.
    #[error("trust: {0}")]
    Trust(String),
    /// Neither a DNS name nor an address.
    #[error("`{0}` is neither a DNS name nor an address")]
    Name(String),
}

/// A link's TLS, ready for connections of either role.
#[derive(Debug, Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the texts.
    ///
    /// # Errors
    /// [`TlsError`] says which of them is wrong, and how.
    pub fn new(texts: &TlsTexts) -> Result<Self, TlsError> {
        let certificates = |what, pem: &[u8]| {
            let all: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
            if all.is_empty() { Err(TlsError::Missing { what, item: "certificate" }) } else { Ok(all) }
        };
        let chain = certificates("certificate", &texts.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&texts.key)
            .map_err(|_| TlsError::Missing { what: "key", item: "private key" })?;
        let mut anchors = RootCertStore::empty();
        for anchor in certificates("trust", &texts.trust)? {
            anchors.add(anchor).map_err(|e| TlsError::Trust(e.to_string()))?;
        }
        let anchors = Arc::new(anchors);
        let name = texts
            .name
            .as_deref()
            .map(|name| ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned())));

        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let trust = |e: rustls::server::VerifierBuilderError| TlsError::Trust(e.to_string());
        let of_servers = WebPkiServerVerifier::builder_with_provider(anchors.clone(), provider.clone());
        let of_clients = WebPkiClientVerifier::builder_with_provider(anchors, provider.clone());
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::Identity)?
            .with_webpki_verifier(of_servers.build().map_err(trust)?)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(TlsError::Identity)?;
        // Each connection is judged by the certificates that are shown on it.
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::Identity)?
            .with_client_cert_verifier(of_clients.build().map_err(trust)?)
            .with_single_cert(chain, key)
            .map_err(TlsError::Identity)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server), name: name.transpose()? })
    }

    /// A session of a connection that this side has made to `address`.
    pub(crate) fn connect(&self, address: IpAddr) -> Result<Session, String> {
        let name = self.name.clone().unwrap_or_else(|| ServerName::from(address));
        let session = ClientConnection::new(self.client.clone(), name).map_err(|e| reason(&e))?;
        Ok(Session::new(session.into(), None))
    }

    /// A session of a connection that a peer has made.
    pub(crate) fn accept(&self) -> Result<Session, String> {
        let session = ServerConnection::new(self.server.clone()).map_err(|e| reason(&e))?;
        Ok(Session::new(session.into(), self.name.clone()))
    }
}

/// TLS on one connection.
#[derive(Debug)]
pub(crate) struct Session {
    session: Box<Connection>,
    /// The name that a client's certificate must be for; a server's is looked at by the handshake itself.
    client_name: Option<ServerName<'static>>,
    /// Octets that the socket has taken: in the handshake, and from then on those of data.
    written: u64,
    /// Octets of data, before and after encryption.
    data: Position,
    /// Where each writing ended, as far as it is not known to be acknowledged.
    ends: VecDeque<Position>,
    /// Octets of data that have been acknowledged.
    acknowledged: u64,
    /// Octets read from the socket that have not become data since [`Session::read`] last had none: key updates and
    /// tickets cost processor time, and a peer may send them without end.
    without_data: usize,
}

/// A place in what a session sends.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    plain: u64,
    encrypted: u64,
}

impl Session {
    fn new(mut session: Connection, client_name: Option<ServerName<'static>>) -> Self {
        session.set_buffer_limit(Some(SESSION_OCTETS));
        Session {
            session: Box::new(session),
            client_name,
            written: 0,
            data: Position::default(),
            ends: VecDeque::new(),
            acknowledged: 0,
            without_data: 0,
        }
    }

    /// Goes on with the handshake as far as the socket lets it. True if it has ended well.
    pub(crate) fn shake_hands(&mut self, socket: &mut (impl Read + Write)) -> Result<bool, String> {
        // One that has no TLS may end the connection before it has read all, and that is an error here.
        let broken = |e: io::Error| format!("{e} in the TLS handshake");
        while self.session.is_handshaking() {
            let before = self.session.wants_write();
            self.flush(socket).map_err(broken)?;
            match self.session.read_tls(socket) {
                Ok(0) => return Err("the peer ended the connection in the TLS handshake".into()),
                Ok(_) => {
                    self.process(socket).map_err(|e| e.to_string())?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock && before && !self.session.wants_write() => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(broken(e)),
            }
        }
        self.flush(socket).map_err(broken)?;
        if self.session.wants_write() {
            return Ok(false);
        }
        if let Some(name) = &self.client_name {
            let shown = self.session.peer_certificates().and_then(<[_]>::first);
            let shown = shown.ok_or(Error::NoCertificatesPresented);
            let parsed = shown.and_then(ParsedCertificate::try_from);
            parsed.and_then(|certificate| verify_server_name(&certificate, name)).map_err(|e| reason(&e))?;
        }
        self.written = 0;
        Ok(true)
    }

    /// Whether the peer has said something in the handshake that deserved an answer; of a server's session.
    pub(crate) fn has_answered(&self) -> bool {
        self.written > 0
    }

    /// What has been read goes through the session; what is wrong with it the peer is told, too.
    fn process(&mut self, socket: &mut impl Write) -> io::Result<IoState> {
        match self.session.process_new_packets() {
            Ok(state) => Ok(state),
            Err(error) => {
                let _ = self.flush(socket);
                Err(io::Error::new(ErrorKind::InvalidData, reason(&error)))
            }
        }
    }

    /// As [`Read::read`] on a socket that does not block; 0 is the connection's end. After as many octets without data
    /// as the longest record has, [`ErrorKind::WouldBlock`] although the socket may have more.
    pub(crate) fn read(&mut self, socket: &mut (impl Read + Write), into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // An end without TLS's own: what frames are whole their heads say.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            let left = LONGEST_RECORD.saturating_sub(self.without_data);
            if left == 0 {
                self.without_data = 0;
                return Err(ErrorKind::WouldBlock.into());
            }
            match self.session.read_tls(&mut Read::by_ref(socket).take(left as u64)) {
                Ok(0) => return Ok(0),
                Ok(n) => {
                    let data = self.process(socket)?.plaintext_bytes_to_read();
                    let cost = if data > 0 { n } else { n.max(READ_COST) };
                    self.without_data = (self.without_data + cost).saturating_sub(data);
                }
                Err(e) => {
                    self.without_data = 0;
                    return Err(e);
                }
            }
        }
    }

    /// As [`Write::write`] on a socket that does not block: 0 if there is no room.
    pub(crate) fn write(&mut self, socket: &mut TcpStream, octets: &[u8]) -> io::Result<usize> {
        let n = self.session.writer().write(octets)?;
        if n > 0 {
            self.data.plain += n as u64;
            self.data.encrypted += (n + n.div_ceil(RECORD_OCTETS) * RECORD_OVERHEAD) as u64;
            self.ends.push_back(self.data);
            if self.ends.len() > MAX_ENDS {
                let mut n = 0;
                self.ends.retain(|_| {
                    n += 1;
                    n % 2 == 0
                });
            }
        }
        self.flush(socket)?;
        Ok(n)
    }

    /// Octets of data that the peer's system has acknowledged, if `waiting` octets of the socket have not been.
    pub(crate) fn acknowledged(&mut self, waiting: u64) -> u64 {
        let encrypted = self.written.saturating_sub(waiting);
        while let Some(end) = self.ends.front().filter(|end| end.encrypted <= encrypted) {
            self.acknowledged = end.plain;
            self.ends.pop_front();
        }
        self.acknowledged
    }

    /// Hands the socket what it takes.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(socket) {
                Ok(0) => break,
                Ok(n) => self.written += n as u64,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    pub(crate) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Says the end, as far as the socket takes it.
    pub(crate) fn end(&mut self, socket: &mut TcpStream) {
        self.session.send_close_notify();
        let _ = self.flush(socket);
    }
}

#[cfg(test)]
mod tests;

/// What is wrong, and what to do, in words of a link's description.
fn reason(error: &Error) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer,
    };
    let text = match error {
        Error::NoCertificatesPresented => "the peer shows no certificate: it needs one of an authority in `trust`",
        Error::InvalidCertificate(wrong) => match wrong {
            UnknownIssuer | BadSignature => {
                "the peer's certificate is of an authority that `trust` does not have: add that authority's certificate there, if it is to be trusted"
            }
            Expired | ExpiredContext { .. } => {
                "the peer's certificate has expired: renew it, or set this machine's clock"
            }
            NotValidYet | NotValidYetContext { .. } => {
                "the peer's certificate is not valid yet: set this machine's clock, or the one that signed it"
            }
            NotValidForName => "the peer's certificate is for another name: set `name` to one of its names",
            NotValidForNameContext { expected, presented } => {
                // As DnsName("beta.example").
                let names: Vec<&str> = presented.iter().map(|n| n.split('"').nth(1).unwrap_or(n)).collect();
                let has = if names.is_empty() { "no name at all".into() } else { names.join(", ") };
                let expected = expected.to_str();
                return format!(
                    "the peer's certificate is for {has}, not for {expected}: set `name` to what it should be for"
                );
            }
            InvalidPurpose | InvalidPurposeContext { .. } => {
                "the peer's certificate is for another purpose: its extended key usage must name serverAuth and clientAuth"
            }
            Revoked => "the peer's certificate has been revoked",
            _ => return format!("the peer's certificate cannot be used: {wrong}"),
        },
        Error::AlertReceived(alert) => match alert {
            // What a certificate's signature says that is of another authority of the same name.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the peer does not trust the authority of this end's certificate: add it to the peer's `trust`"
            }
            AlertDescription::CertificateExpired => {
                "the peer finds this end's certificate expired: renew it, or set the peer's clock"
            }
            AlertDescription::CertificateRequired => "the peer wants a certificate and got none",
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => {
                "the peer refuses this end's certificate: its status says why (the name, perhaps, or the purpose)"
            }
            AlertDescription::ProtocolVersion => "the peer does not speak TLS 1.3",
            _ => return format!("the peer ended TLS: {alert:?}"),
        },
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the peer speaks no TLS: its link needs `tls` too, or this one none"
        }
        Error::PeerIncompatible(what) => return format!("the peer's TLS does not fit, 1.3 is needed: {what:?}"),
        other => return format!("TLS: {other}"),
    };
    text.to_owned()
}
