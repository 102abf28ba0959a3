//! Why the service did not do something, and why an SDU was not taken.

use crate::control::Refusal;
use crate::segment::SegmentError;
use crate::seqpacket::{PacketError, TRUST_VARIABLE};
use crate::socket_path::too_long;
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// An error of the operating system, by its number (`errno`). Shows the system's words for it.
///
/// ```
/// fn retry(e: endpoint::SystemError) -> bool {
///     std::io::Error::from(e).kind() == std::io::ErrorKind::Interrupted
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemError(Errno);

impl SystemError {
    /// The number, as `errno(3)` has it.
    pub fn raw_os_error(self) -> i32 {
        self.0.raw_os_error()
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for SystemError {}

impl From<Errno> for SystemError {
    fn from(e: Errno) -> Self {
        SystemError(e)
    }
}

impl From<SystemError> for std::io::Error {
    fn from(e: SystemError) -> Self {
        std::io::Error::from_raw_os_error(e.raw_os_error())
    }
}

/// Why the service did not do something. Its text says what was wrong, and what to do.
///
/// ```
/// use endpoint::{Error, Refusal};
///
/// fn is_worth_another_try(e: &Error) -> bool {
///     matches!(e, Error::Refused { kind: Refusal::InUse | Refusal::Limit, .. }) || e.is_no_service()
/// }
/// assert!(is_worth_another_try(&Error::ServiceGone));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens there.
    #[error("no service at {path}: {source} ({})", cure(source.0))]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: SystemError,
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
    #[error("{reason}")]
    Refused {
        /// Why, for programs.
        kind: Refusal,
        /// Why, in words, and what to do.
        reason: String,
    },
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
    System(#[from] SystemError),
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

impl Error {
    /// Why the service refused, for programs; `None` if it did not refuse.
    pub fn refusal(&self) -> Option<Refusal> {
        if let Error::Refused { kind, .. } = self { Some(*kind) } else { None }
    }

    /// What was asked cannot be done, as this side knows without the service.
    pub(crate) fn invalid(reason: impl ToString) -> Self {
        Error::Refused { kind: Refusal::Invalid, reason: reason.to_string() }
    }

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

impl From<Errno> for Error {
    fn from(e: Errno) -> Self {
        Error::System(e.into())
    }
}

impl From<PacketError> for Error {
    fn from(e: PacketError) -> Self {
        match e {
            PacketError::Closed => Error::ServiceGone,
            PacketError::System(e) => e.into(),
            PacketError::Malformed(what) => Error::Protocol(what),
        }
    }
}

/// Why an SDU was not taken.
///
/// ```no_run
/// # fn send(endpoint: &mut endpoint::Endpoint, channel: endpoint::ChannelId) -> Result<(), Box<dyn std::error::Error>> {
/// use endpoint::SendError;
///
/// match endpoint.send_copy(channel, &[0; 64]) {
///     Err(SendError::Full) => drop(endpoint.wait_send(None)?),
///     sent => sent?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Response;

    fn kind_of(text: &str) -> Refusal {
        match serde_json::from_str(text).unwrap() {
            Response::Refused { kind, .. } => kind,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_of_a_kind_that_this_library_does_not_know_is_other() {
        assert_eq!(kind_of(r#"{ "refused": { "reason": "the tide is out", "kind": "tide" } }"#), Refusal::Other);
        assert_eq!(kind_of(r#"{ "refused": { "reason": "an older service says no more" } }"#), Refusal::Other);
    }

    #[test]
    fn the_name_of_a_kind_is_the_word_in_the_message() {
        for kind in [Refusal::NoHost, Refusal::InUse, Refusal::NotAllowed, Refusal::Limit, Refusal::Invalid] {
            let text = format!(r#"{{ "refused": {{ "reason": "no", "kind": "{}" }} }}"#, kind.name());
            assert_eq!(kind_of(&text), kind);
            let error = Error::Refused { kind, reason: "no".into() };
            assert_eq!((error.refusal(), error.is_no_service()), (Some(kind), false));
        }
    }

    #[test]
    fn an_error_of_the_system_keeps_its_number_and_the_systems_words() {
        let error = SystemError::from(Errno::NOENT);
        assert_eq!(error.raw_os_error(), 2);
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), Errno::NOENT.to_string());
    }
}
