//! The way to the service: a connection per socket, and questions about the network.

use crate::descriptors::Hidden;
use endpoint::control::{Refusal, Request, Response};
use endpoint::seqpacket::Packets;
use endpoint::times::timespec;
use endpoint::{ChannelId, Connection, DataPath, Direction, Events, Geometry, OpenOptions, calls};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Where the service is.
pub(crate) const SOCKET_VARIABLE: &str = "CELLWAY_SOCKET";
/// Hosts that serve interfaces 0, 1, ..., with commas between.
pub(crate) const INTERFACES_VARIABLE: &str = "CELLWAY_ITF";
/// If it is set, nothing is said on standard error.
const QUIET_VARIABLE: &str = "CELLWAY_QUIET";
/// A circuit that a process has just left is free a moment later.
const IN_USE_TRIES: u32 = 20;
/// An answer that takes longer does not come.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };

/// What the environment says.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) socket: PathBuf,
    pub(crate) hosts: Vec<String>,
    quiet: bool,
}

/// What the environment says: read once.
pub(crate) fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let hosts = std::env::var(INTERFACES_VARIABLE).unwrap_or_default();
        Environment {
            socket: std::env::var_os(SOCKET_VARIABLE).unwrap_or_default().into(),
            hosts: hosts.split(',').filter(|h| !h.is_empty()).map(str::to_owned).collect(),
            quiet: std::env::var_os(QUIET_VARIABLE).is_some(),
        }
    })
}

/// Standard error as the program began with it: device and number.
static STANDARD_ERROR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// At the beginning of a program.
pub(crate) fn note_standard_error() {
    let found = rustix::fs::fstat(crate::descriptors::borrow(libc::STDERR_FILENO));
    let _ = STANDARD_ERROR.set(found.ok().map(|s| (s.st_dev, s.st_ino)));
}

/// Whether somebody reads on descriptor 2. A program that has closed its standard error may have got that number for a
/// connection of its own, into which no word of ours belongs.
fn may_complain() -> bool {
    let Ok(now) = rustix::fs::fstat(crate::descriptors::borrow(libc::STDERR_FILENO)) else { return false };
    let as_in_the_beginning = STANDARD_ERROR.get().copied().flatten() == Some((now.st_dev, now.st_ino));
    as_in_the_beginning || FileType::from_raw_mode(now.st_mode) != FileType::Socket
}

/// Says on standard error what an errno cannot.
pub(crate) fn complain(what: &str) {
    if !environment().quiet && may_complain() {
        let _ =
            rustix::io::write(crate::descriptors::borrow(libc::STDERR_FILENO), format!("cellway: {what}\n").as_bytes());
    }
}

/// Why the service did not do something: for the program as errno, for its user in words.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) errno: Errno,
    pub(crate) why: String,
}

impl Failed {
    pub(crate) fn new(errno: Errno, why: impl ToString) -> Self {
        Failed { errno, why: why.to_string() }
    }

    fn refused(kind: Refusal, reason: String) -> Self {
        let errno = match kind {
            Refusal::NoHost => Errno::NODEV,
            Refusal::NoCircuit => Errno::ADDRNOTAVAIL,
            Refusal::InUse => Errno::ADDRINUSE,
            Refusal::NotAllowed => Errno::ACCESS,
            Refusal::Limit => Errno::NOBUFS,
            _ => Errno::IO,
        };
        Failed::new(errno, reason)
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Failed::new(errno, errno)
    }
}

/// The greeting: a program that inherits a socket through `exec` maps its segment again.
fn greeting() -> Request {
    let mut hello = Request::hello();
    if let Request::Hello { features, .. } = &mut hello {
        features.push(endpoint::negotiate::REMAP.to_owned());
    }
    hello
}

/// What an endpoint comes with.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) memory: OwnedFd,
    pub(crate) wake_host: OwnedFd,
}

/// Waits until something can be read, or the other side has gone. False if neither has come by the deadline.
fn answers_by(connection: impl AsFd, deadline: Instant) -> Result<bool, Errno> {
    rustix::io::retry_on_intr(|| {
        let left = deadline.saturating_duration_since(Instant::now());
        poll(&mut [PollFd::new(&connection, PollFlags::IN)], Some(&timespec(left))).map(|ready| ready > 0)
    })
}

/// What [`Session::asked`] says besides when it was asked last, in milliseconds of the system's clock.
const UNASKED: u64 = 0;
const NOT_SERVED: u64 = u64::MAX;
/// A service that is there is asked again after this: one that is just ending may still have answered.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// After so many answers that the network is down, a program has heard them.
const MOST_TOLD: u32 = 16;

/// A connection with an endpoint. The endpoint ends with the last copy of it.
#[derive(Debug)]
pub(crate) struct Session {
    packets: Hidden<Packets>,
    /// An answer did not come in time. It may still come, and what is asked after it would get the wrong one.
    late: AtomicBool,
    /// Whether the service was there when the connection had ended.
    asked: AtomicU64,
    /// How often the program was told that the network is down.
    told: AtomicU32,
}

impl From<Hidden<Packets>> for Session {
    fn from(packets: Hidden<Packets>) -> Self {
        Session { packets, late: AtomicBool::new(false), asked: AtomicU64::new(UNASKED), told: AtomicU32::new(0) }
    }
}

impl Session {
    /// Connects and greets.
    ///
    /// # Errors
    /// No service (`ENODEV`), or one that says no; no descriptor is left.
    pub(crate) fn open() -> Result<Self, Failed> {
        let path = &environment().socket;
        let no_service = |e: Errno| {
            let why = format!("no service at {}: {e} (is `cellway up` running?)", path.display());
            let ours = matches!(e, Errno::MFILE | Errno::NFILE);
            Failed::new(if ours { e } else { Errno::NODEV }, why)
        };
        let packets = Packets::connect(path).map_err(no_service)?;
        if let Some(uid) = packets.untrusted_server(path)? {
            let why = format!("the service at {} is run by user {uid}, who is not trusted", path.display());
            return Err(Failed::new(Errno::PERM, why));
        }
        let session = Session::from(Hidden::new(&packets)?);
        match session.ask(&greeting(), &[])?.0 {
            Response::Welcome { .. } => Ok(session),
            other => Err(unexpected(&other)),
        }
    }

    /// A connection that was opened before an `exec`.
    pub(crate) fn inherit(fd: OwnedFd) -> Result<Self, Errno> {
        Ok(Hidden::here(fd)?.into())
    }

    /// The number of its descriptor.
    pub(crate) fn number(&self) -> rustix::fd::RawFd {
        self.packets.number()
    }

    /// Whether the service that this connection leads to, or led to, is there and answers. Allocates nothing: it may be
    /// a signal handler that asks.
    pub(crate) fn is_served(&self) -> bool {
        // It is answered whatever the service makes of it.
        const GREETING: &[u8] = br#"{"hello":{"version":0}}"#;
        let answers = || {
            let server = |packets: &Packets| packets.peer().map(|peer| peer.pid);
            let new = Packets::connect(&environment().socket)?;
            if server(&new)? != server(&self.packets.0)? {
                return Ok(false);
            }
            rustix::net::send(&new, GREETING, SendFlags::NOSIGNAL)?;
            let deadline = Instant::now() + PATIENCE;
            Ok::<bool, Errno>(answers_by(&new, deadline)? && recv(&new, &mut [0; 64][..], RecvFlags::DONTWAIT)?.0 > 0)
        };
        // A program may read at the end again and again: it does not ask each time.
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000 + 1;
        let last = self.asked.load(Ordering::Relaxed);
        if last == UNASKED || last != NOT_SERVED && Duration::from_millis(now.saturating_sub(last)) > ASK_AGAIN {
            self.asked.store(if answers().unwrap_or(false) { now } else { NOT_SERVED }, Ordering::Relaxed);
        }
        self.asked.load(Ordering::Relaxed) != NOT_SERVED
    }

    /// What a receive call says once the service has gone. A program that reads again after each error, as `aread` does, gets
    /// SIGHUP, as for a lost line. If it survives that, each further call waits.
    pub(crate) fn network_down(&self) -> Errno {
        if self.told.fetch_add(1, Ordering::Relaxed) >= MOST_TOLD {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP);
            std::thread::sleep(ASK_AGAIN);
        }
        Errno::NETDOWN
    }

    fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(Response, Vec<OwnedFd>), Failed> {
        self.send(request, fds)?;
        match self.receive()? {
            (Response::Refused { reason, kind }, _) => Err(Failed::refused(kind, reason)),
            answer => Ok(answer),
        }
    }

    fn send(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(), Failed> {
        if self.late.load(Ordering::Relaxed) {
            return Err(Failed::new(Errno::NODEV, "the service has not answered what was asked before"));
        }
        self.packets.0.send(request, fds).map_err(|e| Failed::new(Errno::NODEV, e))
    }

    /// The next packet of an answer. Signals do not end it: they are the program's.
    fn receive(&self) -> Result<(Response, Vec<OwnedFd>), Failed> {
        let deadline = Instant::now() + PATIENCE;
        while self.has_answer_by(deadline)? {
            // `None`: another process that has this connection has taken it.
            if let Some(packet) = self.packets.0.receive().map_err(|e| Failed::new(Errno::NODEV, e))? {
                return Ok(packet);
            }
        }
        self.late.store(true, Ordering::Relaxed);
        Err(Failed::new(Errno::NODEV, "the service does not answer"))
    }

    /// Waits until an answer begins, or the service has gone. False if that has not come by the deadline. Signals do
    /// not end it.
    ///
    /// # Errors
    /// No memory is left.
    pub(crate) fn has_answer_by(&self, deadline: Instant) -> Result<bool, Errno> {
        answers_by(self, deadline)
    }

    /// Makes an endpoint whose bell is one end of a pair of sockets.
    ///
    /// # Errors
    /// No such host, no memory, a limit.
    pub(crate) fn create(&self, host: &str, geometry: Geometry, bell: BorrowedFd<'_>) -> Result<Created, Failed> {
        let request = Request::CreateEndpoint {
            host: host.to_owned(),
            geometry,
            events: Events::default(),
            path: DataPath::Shared,
        };
        let (answer, fds) = self.ask(&request, &[bell])?;
        match (answer, <[OwnedFd; 2]>::try_from(fds)) {
            (Response::Created { .. }, Ok([memory, wake_host])) => Ok(Created { memory, wake_host }),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Opens a circuit.
    ///
    /// # Errors
    /// There is none, or it is open already.
    pub(crate) fn open_circuit(
        &self,
        circuit: CircuitId,
        aal: endpoint::Aal,
        direction: Direction,
    ) -> Result<ChannelId, Failed> {
        let request = Request::open(circuit, OpenOptions { aal, direction, ..OpenOptions::default() });
        let mut tries = 0;
        loop {
            match self.ask(&request, &[]) {
                Ok((Response::Opened { channel }, _)) => return Ok(channel),
                Ok((other, _)) => return Err(unexpected(&other)),
                Err(e) if e.errno == Errno::ADDRINUSE && tries < IN_USE_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Asks something about calls, whose answer is read later.
    ///
    /// # Errors
    /// The service has gone.
    pub(crate) fn begin(&self, request: &calls::Request) -> Result<(), Failed> {
        let request = Request::Manage(serde_json::json!({ "calls": request }));
        self.send(&request, &[])
    }

    /// The answer to the oldest request about calls that has none yet. It must be there, or come soon.
    ///
    /// # Errors
    /// The service says no, or has gone.
    pub(crate) fn answer(&self) -> Result<calls::Answer, Failed> {
        serde_json::from_str(&self.answer_text()?).map_err(|e| Failed::new(Errno::PROTO, e))
    }

    fn answer_text(&self) -> Result<String, Failed> {
        let mut whole = String::new();
        loop {
            match self.receive()?.0 {
                Response::Managed { text, last } => {
                    whole.push_str(&text);
                    if last {
                        return Ok(whole);
                    }
                }
                Response::Refused { kind, reason } => return Err(Failed::refused(kind, reason)),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Asks something about calls. Nothing else may be under way.
    ///
    /// # Errors
    /// The service says no, or has gone.
    pub(crate) fn call(&self, request: &calls::Request) -> Result<calls::Answer, Failed> {
        self.begin(request)?;
        self.answer()
    }

    /// What there is of calls, as `cellway call list` shows it.
    ///
    /// # Errors
    /// The service has gone.
    pub(crate) fn list_calls(&self) -> Result<serde_json::Value, Failed> {
        self.begin(&calls::Request::List)?;
        serde_json::from_str(&self.answer_text()?).map_err(|e| Failed::new(Errno::PROTO, e))
    }

    /// Closes a channel and waits until that is done.
    pub(crate) fn close(&self, channel: ChannelId) {
        // If the service does not answer, it has closed everything anyway.
        let _ = self.ask(&Request::Close { channel }, &[]);
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.packets.0.as_fd()
    }
}

fn unexpected(answer: &Response) -> Failed {
    Failed::new(Errno::PROTO, format!("the service answers {answer:?}"))
}

/// What `cellway status` shows, as JSON.
///
/// # Errors
/// No service.
pub(crate) fn status() -> Result<serde_json::Value, Failed> {
    let failed = |e: endpoint::Error| Failed::new(Errno::NODEV, e);
    let connection = Connection::open(&environment().socket).map_err(failed)?;
    connection.manage(serde_json::Value::String("status".into())).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn an_answer_that_comes_too_late_is_not_taken_for_the_next_one() {
        let (ours, service) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (session, service) = (Session::inherit(ours).unwrap(), Packets::from(service));
        let answer = |text: &str| service.send(&Response::Managed { text: text.into(), last: true }, &[]).unwrap();
        answer("{}");
        assert!(session.list_calls().is_ok());
        assert_eq!(session.list_calls().unwrap_err().errno, Errno::NODEV);
        answer("{}");
        assert_eq!(session.list_calls().unwrap_err().errno, Errno::NODEV);
    }
}
