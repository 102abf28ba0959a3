//! What the program behind the service decides and answers.

use crate::quota::{Amounts, Limits};
use endpoint::seqpacket::Peer;
use rustix::fd::{BorrowedFd, OwnedFd};
use wire::CircuitId;

/// The program's part: who may do what, and requests that are not about endpoints.
pub trait Handler: Send + Sync {
    /// Whether `peer` may connect at all.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, peer: Peer) -> Result<(), String>;

    /// Whether `peer` may open `circuit` of `host`.
    ///
    /// # Errors
    /// Why not.
    fn may_open(&self, peer: Peer, host: &str, circuit: CircuitId) -> Result<(), String>;

    /// Whether `peer` may have endpoints at `host`.
    ///
    /// # Errors
    /// Why not.
    fn may_attach(&self, _: Peer, _host: &str) -> Result<(), String> {
        Ok(())
    }

    /// `peer` has an endpoint at `host`, by its number there.
    fn endpoint_made(&self, _: Peer, _host: &str, _endpoint: u64) {}

    /// The endpoint has ended.
    fn endpoint_ended(&self, _host: &str, _endpoint: u64) {}

    /// Cells each second that the contract of `circuit` of `host` reserves.
    fn reserved(&self, _host: &str, _circuit: CircuitId) -> u64 {
        0
    }

    /// Cells each second that `peer` has reserved by other means than open circuits.
    fn reserved_beside(&self, _: Peer) -> u64 {
        0
    }

    /// How much `peer` may have of what all users share.
    fn limits(&self, _: Peer) -> Limits {
        Limits::UNLIMITED
    }

    /// Octets of memory that all users may have together.
    fn users_octets(&self) -> u64 {
        u64::MAX
    }

    /// A management request, and the file descriptors that came along. The answer is JSON.
    ///
    /// # Errors
    /// Why it is refused.
    fn manage(&self, peer: Peer, request: serde_json::Value, fds: Vec<OwnedFd>) -> Result<String, String>;

    /// How long [`Handler::manage`] may take for a request, which says where it is carried out.
    fn takes(&self, _: Peer, _: &serde_json::Value) -> Takes {
        Takes::NoTime
    }

    /// A management request that belongs to a session, which is a connection by its number, of a user who has so much.
    /// `None`: it does not, and [`Handler::manage`] is asked.
    fn converse(&self, _: Peer, _session: u64, _: &serde_json::Value, _has: &Amounts) -> Option<Result<Reply, String>> {
        None
    }

    /// What `peer` may do has changed: what a session has that it may not have any more ends.
    fn review_session(&self, _: Peer, _session: u64, _has: &Amounts) {}

    /// The rights of users have changed. Ends what outlives their connections and is no longer permitted.
    fn review(&self) {}

    /// The answer to a session that was told [`Reply::Later`], if there is one now. `ends`: it must be given now, since
    /// the session asks for something else. An error is why the request is refused.
    fn poll_reply(&self, _session: u64, _ends: bool) -> Option<Result<String, String>> {
        None
    }

    /// Whether a session's connection is to end, asked when there is [`Handler::news`].
    fn is_over(&self, _session: u64) -> bool {
        false
    }

    /// A session has ended.
    fn end_session(&self, _session: u64) {}

    /// An eventfd that can be read when [`Handler::poll_reply`] may have something.
    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// How long a management request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Microseconds: the service's thread carries it out.
    NoTime,
    /// As long as a look at all there is, or a change of it: threads of its user carry such requests out in the order
    /// in which they came.
    Long,
    /// As long as something outside this program likes, such as a file or the name of a host: it has a thread of its
    /// own, and is refused where its user has many.
    AsLongAsOthersLike,
}

/// The answer to a session's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// JSON.
    Now(String),
    /// [`Handler::poll_reply`] will give it.
    Later,
}

/// Lets every process that reaches the socket connect and open what it likes, and manages nothing: for tests, and for
/// programs that are their own only users.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everybody;

impl Handler for Everybody {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }

    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }

    fn manage(&self, _: Peer, _: serde_json::Value, _: Vec<OwnedFd>) -> Result<String, String> {
        Err("nothing to manage here".to_owned())
    }
}
