//! How the two sides of a direct circuit come together: by the service, or both in one process.

use super::layout::{DirectGeometry, VERSION};
use super::link::Link;
use super::memory::{MemoryError, Ours, Theirs};
use super::receiver::Receiver;
use super::sender::Sender;
use super::spin::Spin;
use crate::client::{Connection, Error};
use crate::control::{DIRECT, Request, Response};
use crate::raw_stream::RawStream;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::CircuitId;

/// What a direct circuit is to have on this side.
///
/// ```
/// use endpoint::direct::{DirectConfig, Spin};
///
/// let patience = Some(std::time::Duration::from_secs(5));
/// let config = DirectConfig { spin: Spin::None, patience, ..DirectConfig::default() };
/// assert!(config.geometry.max_message_octets() >= 9188);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectConfig {
    /// Ring and blocks that this side sends with.
    pub geometry: DirectGeometry,
    /// How to wait.
    pub spin: Spin,
    /// How long to wait for the other side to open the circuit too; `None`: as long as it takes.
    pub patience: Option<Duration>,
}

/// One side of a direct circuit. Its two halves may go to two threads.
///
/// ```
/// use endpoint::{Direct, DirectConfig};
///
/// let (mut here, mut there) = Direct::pair(&DirectConfig::default())?;
/// here.sender.send_copy(b"hello")?;
/// assert_eq!(there.receiver.receive(None)?.ok_or("nothing came")?.to_vec(), b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Direct {
    /// Sends.
    pub sender: Sender,
    /// Receives.
    pub receiver: Receiver,
}

impl From<MemoryError> for Error {
    fn from(e: MemoryError) -> Self {
        match e {
            MemoryError::System { source, .. } => source.into(),
            e => Error::invalid(e),
        }
    }
}

impl Direct {
    /// Opens this host's end of `circuit` and waits until the other end is opened in the same way.
    ///
    /// # Errors
    /// No service, no such circuit, no right to it, or one that cannot be direct: with a contract, to more than one
    /// end, or to another machine. The other side did not come in time ([`Error::NoPeer`]).
    pub fn open(socket: &Path, host: &str, circuit: CircuitId, config: &DirectConfig) -> Result<Self, Error> {
        let connection = Connection::open(socket)?;
        connection.need(DIRECT)?;
        let (ours, memory) = Ours::create(&config.geometry)?;
        let request = Request::OpenDirect {
            host: host.to_owned(),
            vpi_vci: circuit.to_string(),
            layout: VERSION,
            geometry: config.geometry,
        };
        let (answer, fds) = connection.ask_with(&request, &[rustix::fd::AsFd::as_fd(&memory)], config.patience)?;
        let (Response::DirectOpened { geometry }, Ok([memory, messages, room])) =
            (&answer, <[OwnedFd; 3]>::try_from(fds))
        else {
            return Err(Error::Protocol(format!("{answer:?} without its file descriptors")));
        };
        let [messages, room] = [messages, room].map(RawStream::from);
        let theirs = Theirs::open(&memory, geometry)?;
        let link = Link { ours, theirs, messages, room, control: Some(connection.into()) };
        Ok(Self::over(link, &config.geometry, geometry, config.spin))
    }

    /// Both sides in one process: for two threads, and for tests.
    ///
    /// # Errors
    /// Sizes that cannot be, or no memory.
    pub fn pair(config: &DirectConfig) -> Result<(Self, Self), Error> {
        let geometry = config.geometry;
        geometry.fits(&geometry).map_err(MemoryError::from)?;
        let [(a, a_memory), (b, b_memory)] = [Ours::create(&geometry)?, Ours::create(&geometry)?];
        let (theirs_of_a, theirs_of_b) = (Theirs::open(&b_memory, &geometry)?, Theirs::open(&a_memory, &geometry)?);
        let [(a_messages, b_messages), (a_room, b_room)] = [bells()?, bells()?];
        let side = |ours, theirs, messages: OwnedFd, room: OwnedFd| {
            let (messages, room) = (messages.into(), room.into());
            Self::over(Link { ours, theirs, messages, room, control: None }, &geometry, &geometry, config.spin)
        };
        Ok((side(a, theirs_of_a, a_messages, a_room), side(b, theirs_of_b, b_messages, b_room)))
    }

    fn over(link: Link, ours: &DirectGeometry, theirs: &DirectGeometry, spin: Spin) -> Self {
        let link = Arc::new(link);
        Direct { sender: Sender::new(&link, ours, theirs, spin), receiver: Receiver::new(&link, ours, theirs, spin) }
    }
}

/// A pair of bells.
///
/// # Errors
/// No file descriptors left.
pub fn bells() -> Result<(OwnedFd, OwnedFd), rustix::io::Errno> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}
