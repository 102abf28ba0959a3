//! The connection to the service: greeting, questions and answers, file descriptors that come along.

use super::Error;
use crate::control::{Request, Response};
use crate::sealed;
use crate::seqpacket::Packets;
use crate::times::{deadline, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection to the service.
#[derive(Debug)]
pub struct Connection {
    packets: Packets,
    features: Vec<String>,
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
    /// Connects and greets.
    ///
    /// # Errors
    /// No service, one of a user that is not trusted, or one of another version.
    pub fn open(socket: &Path) -> Result<Self, Error> {
        let packets =
            Packets::connect(socket).map_err(|source| Error::NoService { path: socket.to_path_buf(), source })?;
        if let Some(uid) = packets.untrusted_server()? {
            return Err(Error::Untrusted { path: socket.to_path_buf(), uid });
        }
        let mut connection = Connection { packets, features: Vec::new() };
        match connection.ask(&Request::hello())?.0 {
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
        self.packets.send(request, &[])?;
        self.answer()
    }

    /// A request with file descriptors, whose answer may take until somebody else has done something.
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(Response, Vec<OwnedFd>), Error> {
        self.packets.send(request, fds)?;
        if self.await_answer(patience)? { self.answer() } else { Err(Error::NoPeer(patience.unwrap_or_default())) }
    }

    fn answer(&self) -> Result<(Response, Vec<OwnedFd>), Error> {
        loop {
            match self.packets.receive::<Response>()? {
                Some((Response::Refused { reason, .. }, _)) => return Err(Error::Refused(reason)),
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
        self.packets.send(&Request::Manage(request), fds)?;
        self.managed()
    }

    /// A request to the program behind the service, whose answer is read later.
    pub(crate) fn begin_manage(&self, request: &impl Serialize) -> Result<(), Error> {
        Ok(self.packets.send(&Managing::Manage(request), &[])?)
    }

    /// The answer to the oldest request that has none yet.
    pub(crate) fn finish_manage<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.managed()?).map_err(|e| Error::Protocol(e.to_string()))
    }

    /// Waits until an answer begins, or the service has gone; false if time is up.
    pub(crate) fn await_answer(&self, patience: Option<Duration>) -> Result<bool, Error> {
        let deadline = deadline(patience);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let spec = left.map(timespec);
            match poll(&mut [PollFd::new(&self.packets, PollFlags::IN)], spec.as_ref()) {
                Ok(n) => return Ok(n > 0),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn managed(&self) -> Result<String, Error> {
        let mut whole = String::new();
        let (mut answer, fds) = self.answer()?;
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
                    answer = self.answer()?.0;
                }
                other => return Err(Error::Protocol(format!("{other:?}"))),
            }
        }
    }
}
