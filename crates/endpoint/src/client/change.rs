//! A change of the network, asked for until it is known what became of it.
//!
//! The request has an id that no other has. Where the connection breaks before the answer has come, or the answer takes
//! too long, the client connects again and asks under the same id: the service makes the change once, and answers with
//! what it did the first time.

use super::limit::{is_told, request_limit};
use super::{Connection, Error};
use crate::negotiate::CHANGE_IDS;
use rustix::fd::BorrowedFd;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A service that has gone is waited for as long, at most, until it is asked again.
pub const RETURN_PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts to reach it.
const AGAIN: Duration = Duration::from_millis(100);
/// The version of the management protocol that a request with an id is of.
const MESSAGE_VERSION: u32 = 2;

/// A request that changes something.
#[derive(Debug, Clone)]
pub struct Change {
    request: Value,
    id: String,
    expect: Option<u64>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer as it came, JSON text.
    pub text: String,
    /// Times that it was asked for.
    pub attempts: u32,
}

impl Change {
    /// A request of the management protocol, under a new id.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(request: Value) -> Result<Self, Error> {
        Ok(Change { request, id: random_id()?, expect: None })
    }

    /// It is made only if this is the number of the last change.
    #[must_use]
    pub fn expecting(self, revision: Option<u64>) -> Self {
        Change { expect: revision, ..self }
    }

    /// Asks for it, with file descriptors that go along. Blocks for the process's limit at most, and once more for as
    /// long, and [`RETURN_PATIENCE`], where the connection breaks.
    ///
    /// # Errors
    /// Refused; no service; a service without [`CHANGE_IDS`] where a revision is expected; or [`Error::Unknown`]: it may
    /// be in force.
    pub fn ask(&self, socket: &Path, fds: &[BorrowedFd<'_>]) -> Result<Answer, Error> {
        let connection = Connection::open(socket)?;
        if !connection.has(CHANGE_IDS) {
            if self.expect.is_some() {
                return Err(Error::NoFeature(CHANGE_IDS));
            }
            // An older service: a broken connection leaves it open what became of it.
            let text = connection.manage_text(self.request.clone(), fds).map_err(|e| unknown(socket, e))?;
            return Ok(Answer { text, attempts: 1 });
        }
        match connection.manage_text(self.message(), fds) {
            Err(e) if e.is_no_service() && !is_told() => {
                drop(connection);
                self.ask_again(socket, fds, e)
            }
            answer => Ok(Answer { text: answer.map_err(|e| unknown(socket, e))?, attempts: 1 }),
        }
    }

    fn message(&self) -> Value {
        let mut message = json!({ "version": MESSAGE_VERSION, "request": self.request, "id": self.id });
        if let Some(revision) = self.expect {
            message["expect"] = revision.into();
        }
        message
    }

    fn ask_again(&self, socket: &Path, fds: &[BorrowedFd<'_>], broke: Error) -> Result<Answer, Error> {
        let Some(connection) = connect_again(socket) else { return Err(unknown(socket, broke)) };
        if !connection.has(CHANGE_IDS) {
            return Err(unknown(socket, broke));
        }
        let text = connection.manage_text(self.message(), fds).map_err(|e| unknown(socket, e))?;
        Ok(Answer { text, attempts: 2 })
    }
}

/// Waits until the service is back; `None` if it is not in time, or the program was told to end.
fn connect_again(socket: &Path) -> Option<Connection> {
    let limit = request_limit().min(RETURN_PATIENCE);
    let begun = Instant::now();
    loop {
        let left = limit.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
        match Connection::open_within(socket, left) {
            Ok(connection) => return Some(connection),
            Err(e) if !e.is_no_service() || is_told() => return None,
            Err(_) => std::thread::sleep(AGAIN.min(left)),
        }
    }
}

/// A change whose answer did not come may be in force.
fn unknown(socket: &Path, e: Error) -> Error {
    if e.is_no_service() { Error::Unknown { path: socket.to_path_buf(), why: Box::new(e) } } else { e }
}

/// 128 random bits in hexadecimal digits.
fn random_id() -> Result<String, Error> {
    let mut octets = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut octets));
    read.map_err(|e| Error::from(rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO)))?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_an_id_of_its_own_and_keeps_it() {
        let changes: Vec<Change> = (0..64).map(|_| Change::new(json!("reset")).unwrap()).collect();
        let ids: std::collections::BTreeSet<&str> = changes.iter().map(|change| change.id.as_str()).collect();
        assert_eq!(ids.len(), 64);
        let change = changes[0].clone().expecting(Some(7));
        assert_eq!(change.message(), change.message());
        assert_eq!(
            (change.message()["id"].as_str(), change.message()["expect"].as_u64()),
            (Some(&*change.id), Some(7))
        );
        assert!(changes[1].message().get("expect").is_none());
    }
}
