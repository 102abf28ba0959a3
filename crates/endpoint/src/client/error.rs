//! Why the service did not do something, and why an SDU was not taken.

use crate::segment::SegmentError;
use crate::seqpacket::{PacketError, TRUST_VARIABLE};
use crate::socket_path::too_long;
use rustix::io::Errno;
use std::path::PathBuf;
use std::time::Duration;

/// Why the service did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there.
    #[error("no service at {path}: {source} ({})", cure(*source))]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: Errno,
    },
    /// No socket can be there.
    #[error("{}", too_long(.0))]
    PathTooLong(PathBuf),
    /// The service is there and has not answered in time: it is stopped, or its machine has no time for it.
    #[error("the service at {path} does not answer: waited {} for it (is it stopped?)", seconds(*waited))]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// How long this was waited for; zero where an earlier request had no answer.
        waited: Duration,
    },
    /// The connection broke, or no answer came, while a change was asked for: it may be in force or not.
    #[error(
        "it is not known whether the change is in force: {why} (see `cellway status` once the service at {path} answers)"
    )]
    Unknown {
        /// The socket.
        path: PathBuf,
        /// What broke.
        why: Box<Error>,
    },
    /// Somebody else serves there than this user, root, or the user that was named.
    #[error("the service at {path} is run by user {uid}: set {TRUST_VARIABLE}={uid} if you trust it")]
    Untrusted {
        /// The socket.
        path: PathBuf,
        /// Who serves.
        uid: u32,
    },
    /// The service has gone.
    #[error("the service has gone; its circuits ended with it (start `cellway up` again, then this)")]
    ServiceGone,
    /// The service refused.
    #[error("{0}")]
    Refused(String),
    /// The service said something unexpected.
    #[error("the service does not speak this version of the protocol: {0}")]
    Protocol(String),
    /// The service lacks something that this needs.
    #[error("the service does not know `{0}` (it is older than this program: restart `cellway up`)")]
    NoFeature(&'static str),
    /// The other end of a direct circuit was not opened in time.
    #[error("nobody opened the other end of the circuit directly in {0:?}")]
    NoPeer(Duration),
    /// Shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The system.
    #[error(transparent)]
    System(#[from] Errno),
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

impl Error {
    /// Whether there is no service, or it has gone, or does not answer.
    pub fn is_no_service(&self) -> bool {
        matches!(self, Error::NoService { .. } | Error::NoAnswer { .. } | Error::ServiceGone | Error::Unknown { .. })
    }
}

fn cure(source: Errno) -> &'static str {
    match source {
        Errno::ACCESS | Errno::PERM => "the socket is another user's: let that user run this, or say --socket",
        _ => "is `cellway up` running, with this socket?",
    }
}

impl From<PacketError> for Error {
    fn from(e: PacketError) -> Self {
        match e {
            PacketError::Closed => Error::ServiceGone,
            PacketError::System(e) => Error::System(e),
            PacketError::Malformed(what) => Error::Protocol(what),
        }
    }
}

/// Why an SDU was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The send ring is full or no buffer is free: wait ([`Endpoint::wait_send`](crate::Endpoint::wait_send)).
    #[error("the send ring is full")]
    Full,
    /// Longer than a buffer.
    #[error("{octets} octets do not fit a buffer of {buffer_octets}")]
    TooLong {
        /// Octets to be sent.
        octets: usize,
        /// Octets of a buffer.
        buffer_octets: usize,
    },
    /// An SDU has at least one octet.
    #[error("an SDU of no octets")]
    Empty,
    /// Own memory is for the data path `single-copy`.
    #[error("the endpoint has another data path than `single-copy`: create it with that one")]
    OtherPath,
}
