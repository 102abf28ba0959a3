//! The connection to the service: greeting, questions and answers, file descriptors that come along.

use super::Error;
use super::limit::{Allowance, LOOK, is_told, request_limit};
use crate::control::{Request, Response};
use crate::sealed;
use crate::seqpacket::{PacketError, Packets};
use crate::times::{deadline, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::Shutdown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A connection to the service. Each request blocks until its answer has come, for the process's limit at most
/// ([`set_request_limit`](crate::client::set_request_limit)) unless it has one of its own. After a request without an
/// answer the connection is over: a late answer would be taken for that of the next request.
#[derive(Debug)]
pub struct Connection {
    packets: Packets,
    features: Vec<String>,
    path: PathBuf,
    /// A request has had no answer in time.
    over: AtomicBool,
}

/// [`Request::Manage`] of something that is not made a [`serde_json::Value`] first.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Managing<'a, T> {
    Manage(&'a T),
}

impl From<Connection> for OwnedFd {
    fn from(connection: Connection) -> Self {
        connection.packets.into()
    }
}

impl Connection {
    /// Connects and greets. Blocks for the process's limit at most.
    ///
    /// # Errors
    /// No service, one that does not answer, one of a user that is not trusted, or one of another version.
    pub fn open(socket: &Path) -> Result<Self, Error> {
        Self::open_within(socket, request_limit())
    }

    /// The same with a limit of its own, for the whole.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn open_within(socket: &Path, limit: Duration) -> Result<Self, Error> {
        let mut allowance = Allowance::new(limit);
        let packets = connect(socket, &mut allowance)?;
        if let Some(uid) = packets.untrusted_server(socket)? {
            return Err(Error::Untrusted { path: socket.to_path_buf(), uid });
        }
        let over = AtomicBool::new(false);
        let mut connection = Connection { packets, features: Vec::new(), path: socket.to_path_buf(), over };
        let left = allowance.left().unwrap_or_default();
        match connection.ask_within(&Request::hello(), left)?.0 {
            Response::Welcome { features, .. } => {
                connection.features = features;
                Ok(connection)
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Whether the service has a feature ([`crate::negotiate`]).
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }

    pub(crate) fn need(&self, feature: &'static str) -> Result<(), Error> {
        if self.has(feature) { Ok(()) } else { Err(Error::NoFeature(feature)) }
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<(Response, Vec<OwnedFd>), Error> {
        self.ask_within(request, request_limit())
    }

    /// A request with a limit of its own.
    pub(crate) fn ask_within(&self, request: &Request, limit: Duration) -> Result<(Response, Vec<OwnedFd>), Error> {
        let mut allowance = Allowance::new(limit);
        self.send(request, &[], &mut allowance)?;
        self.answer(&mut allowance)
    }

    /// Sends once the service has taken enough of what was sent before.
    fn send(&self, request: &impl Serialize, fds: &[BorrowedFd<'_>], allowance: &mut Allowance) -> Result<(), Error> {
        if self.over.load(Ordering::Relaxed) {
            return Err(self.no_answer(Duration::ZERO));
        }
        loop {
            match self.packets.send(request, fds) {
                Err(PacketError::System(Errno::AGAIN)) if allowance.wait(&self.packets, PollFlags::OUT)? => {}
                Err(PacketError::System(Errno::AGAIN)) => return Err(self.no_answer(allowance.elapsed())),
                sent => return Ok(sent?),
            }
        }
    }

    /// The connection is over.
    fn no_answer(&self, waited: Duration) -> Error {
        if !self.over.swap(true, Ordering::Relaxed) {
            // What it has opened ends when the service runs again.
            let _ = rustix::net::shutdown(&self.packets, Shutdown::Both);
        }
        Error::NoAnswer { path: self.path.clone(), waited }
    }

    /// A request with file descriptors, whose answer may take until somebody else has done something.
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(Response, Vec<OwnedFd>), Error> {
        self.send(request, fds, &mut Allowance::new(request_limit()))?;
        let answers = self.await_answer(patience)?;
        if answers {
            self.answer(&mut Allowance::new(request_limit()))
        } else {
            Err(Error::NoPeer(patience.unwrap_or_default()))
        }
    }

    fn answer(&self, allowance: &mut Allowance) -> Result<(Response, Vec<OwnedFd>), Error> {
        loop {
            if !allowance.wait(&self.packets, PollFlags::IN)? {
                return Err(self.no_answer(allowance.elapsed()));
            }
            match self.packets.receive::<Response>()? {
                Some((Response::Refused { kind, reason }, _)) => return Err(Error::Refused { kind, reason }),
                Some(answer) => return Ok(answer),
                None => {}
            }
        }
    }

    /// A request to the program behind the service.
    ///
    /// # Errors
    /// Refused, or the service has gone.
    pub fn manage(&self, request: serde_json::Value) -> Result<serde_json::Value, Error> {
        self.manage_with(request, &[])
    }

    /// The same with file descriptors that go along.
    ///
    /// # Errors
    /// Refused, or the service has gone.
    pub fn manage_with(&self, request: serde_json::Value, fds: &[BorrowedFd<'_>]) -> Result<serde_json::Value, Error> {
        let text = self.manage_text(request, fds)?;
        serde_json::from_str(&text).map_err(|e| Error::Protocol(e.to_string()))
    }

    /// The same with the answer as it came, JSON text: for long ones.
    ///
    /// # Errors
    /// Refused, or the service has gone.
    pub fn manage_text(&self, request: serde_json::Value, fds: &[BorrowedFd<'_>]) -> Result<String, Error> {
        self.send(&Request::Manage(request), fds, &mut Allowance::new(request_limit()))?;
        self.managed()
    }

    /// A request to the program behind the service, whose answer is read later.
    pub(crate) fn begin_manage(&self, request: &impl Serialize) -> Result<(), Error> {
        self.send(&Managing::Manage(request), &[], &mut Allowance::new(request_limit()))
    }

    /// The answer to the oldest request that has none yet.
    pub(crate) fn finish_manage<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.managed()?).map_err(|e| Error::Protocol(e.to_string()))
    }

    /// Waits until an answer begins, or the service has gone; false if time is up, or the program was told to end.
    pub(crate) fn await_answer(&self, patience: Option<Duration>) -> Result<bool, Error> {
        let deadline = deadline(patience);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let slice = left.map_or(LOOK, |left| left.min(LOOK));
            match poll(&mut [PollFd::new(&self.packets, PollFlags::IN)], Some(&timespec(slice))) {
                Ok(0) if left.is_none_or(|left| left > slice) && !is_told() => {}
                Ok(n) => return Ok(n > 0),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn managed(&self) -> Result<String, Error> {
        let mut whole = String::new();
        // Each part has the whole time: what comes is an answer.
        let part = || self.answer(&mut Allowance::new(request_limit()));
        let (mut answer, fds) = part()?;
        loop {
            match answer {
                Response::ManagedMemory { octets } => {
                    let fd = fds.first().ok_or_else(|| Error::Protocol("an answer without its memory".into()))?;
                    let text = sealed::read(fd, octets as usize).map_err(|e| Error::Protocol(e.to_string()))?;
                    return String::from_utf8(text).map_err(|e| Error::Protocol(e.to_string()));
                }
                Response::Managed { text, last } => {
                    whole.push_str(&text);
                    if last {
                        return Ok(whole);
                    }
                    answer = part()?.0;
                }
                other => return Err(Error::Protocol(format!("{other:?}"))),
            }
        }
    }
}

/// Between two tries where so many wait for the service that there is no room for one more.
const AGAIN: Duration = Duration::from_millis(20);

fn connect(socket: &Path, allowance: &mut Allowance) -> Result<Packets, Error> {
    let path = || socket.to_path_buf();
    loop {
        match Packets::try_connect(socket) {
            Ok(Some(packets)) => return Ok(packets),
            Ok(None) if allowance.left().is_some() => std::thread::sleep(AGAIN),
            Ok(None) => return Err(Error::NoAnswer { path: path(), waited: allowance.elapsed() }),
            Err(Errno::NAMETOOLONG) => return Err(Error::PathTooLong(path())),
            Err(source) => return Err(Error::NoService { path: path(), source: source.into() }),
        }
    }
}
