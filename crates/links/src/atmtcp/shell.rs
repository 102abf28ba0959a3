//! ATM over TCP on sockets: one connection at a time, made or awaited, made again when it ends; by TLS if it is to be.

use super::stream::Stream;
use super::tls::Tls;
use super::{Machine, qos_text};
use net::external::{CircuitNotice, External, PeerCircuit};
use net::frame::Aal;
use net::node::NodeIo;
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use wire::{CircuitId, Time};

/// Octets read at once.
const READ_OCTETS: usize = 64 * 1024;
/// Reads of one call at most, so that a fast peer leaves time to others.
const READS: usize = 8;
/// Time until the first new attempt to connect; then twice as long each time.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest time between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A connection that has lived so long was a good one: the next attempts begin anew.
const GOOD: Duration = Duration::from_secs(10);
/// A peer that does not answer in this time is taken for absent.
const ANSWER: Duration = Duration::from_secs(10);
/// A connection on which nothing comes is asked after this time, and then so often, whether it is still there.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 4);
/// Octets that the peer's machine does not take in this time end the connection: a line was cut, or the peer hangs.
const UNANSWERED: Duration = Duration::from_secs(30);

/// A connection that the peer has ended lasts so long at most, for what it had sent before to be taken.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Who makes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The peer connects to this address; while one is connected, others are refused.
    Listen(SocketAddr),
    /// This side connects, and tries again after half a second, a second, two, ... thirty.
    Connect(SocketAddr),
}

#[derive(Debug)]
enum State {
    Listening,
    Connecting {
        stream: TcpStream,
        until: Time,
    },
    /// Connected; TLS is not agreed yet.
    Securing {
        stream: Stream,
        peer: SocketAddr,
        until: Time,
    },
    Up(Stream, SocketAddr),
    Waiting {
        until: Time,
    },
}

/// An ATM-over-TCP link's socket.
#[derive(Debug)]
pub struct Shell {
    role: Role,
    tls: Option<Tls>,
    listener: Option<TcpListener>,
    state: State,
    machine: Machine,
    input: Box<[u8]>,
    /// What of `input` the machine has not taken yet.
    unread: std::ops::Range<usize>,
    /// Whether more may be there to read, though the socket does not say so: TLS has taken it.
    more: bool,
    last_error: Option<String>,
    /// Why nothing can be written any more; what the peer had sent before is read to its end.
    broken: Option<String>,
    /// The peer has ended the connection, why, and until when what it had sent may still be on its way.
    ended: Option<(String, Time)>,
    retry: Duration,
    up_since: Time,
}

impl Shell {
    /// Listens, or gets ready to connect at the first run.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn new(role: Role) -> io::Result<Self> {
        Shell::with_tls(role, None)
    }

    /// As [`Shell::new`]; with TLS, a peer that has none, or no certificate that is trusted, is refused.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn with_tls(role: Role, tls: Option<Tls>) -> io::Result<Self> {
        let (listener, state) = match role {
            Role::Listen(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                (Some(listener), State::Listening)
            }
            Role::Connect(_) => (None, State::Waiting { until: Time::ZERO }),
        };
        let input = vec![0; READ_OCTETS].into_boxed_slice();
        Ok(Shell {
            role,
            tls,
            listener,
            state,
            machine: Machine::new(),
            input,
            unread: 0..0,
            more: false,
            last_error: None,
            broken: None,
            ended: None,
            retry: FIRST_RETRY,
            up_since: Time::ZERO,
        })
    }

    /// The same at a [`crate::Relay`]: [`Machine::relaying`].
    #[must_use]
    pub fn relaying(self) -> Self {
        Shell { machine: Machine::relaying(), ..self }
    }

    /// The address that is listened on, with the port that the system chose.
    ///
    /// # Errors
    /// As the system says; [`ErrorKind::NotConnected`] if this side connects.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().map_or(Err(ErrorKind::NotConnected.into()), TcpListener::local_addr)
    }

    /// The protocol: which circuits are AAL0, what the peer has opened.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// A connection is there.
    fn connected(&mut self, socket: TcpStream, peer: SocketAddr, io: &mut NodeIo<'_>) {
        // A PDU is written whole; waiting for more to send with it would only add delay.
        let ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).and_then(|()| watch(&socket));
        if let Err(error) = ready {
            return self.down(error.to_string(), io);
        }
        let session = match (&self.tls, self.role) {
            (None, _) => return self.up(Stream::plain(socket), peer, io),
            (Some(tls), Role::Connect(_)) => tls.connect(peer.ip()),
            (Some(tls), Role::Listen(_)) => tls.accept(),
        };
        match session {
            Ok(session) => {
                self.state = State::Securing { stream: Stream::tls(socket, session), peer, until: io.now() + ANSWER };
                self.secure(io);
            }
            Err(reason) => self.down(reason, io),
        }
    }

    /// Goes on with TLS's handshake.
    fn secure(&mut self, io: &mut NodeIo<'_>) {
        let State::Securing { stream, .. } = &mut self.state else { return };
        match stream.shake_hands() {
            Ok(false) => {}
            Ok(true) => {
                let waiting = State::Waiting { until: io.now() + self.retry };
                let State::Securing { stream, peer, .. } = std::mem::replace(&mut self.state, waiting) else { return };
                self.up(stream, peer, io);
            }
            Err(reason) => self.down(reason, io),
        }
    }

    fn up(&mut self, stream: Stream, peer: SocketAddr, io: &mut NodeIo<'_>) {
        self.last_error = None;
        self.up_since = io.now();
        self.more = true;
        self.state = State::Up(stream, peer);
    }

    fn down(&mut self, reason: String, io: &mut NodeIo<'_>) {
        // An attempt that fails as the one before is not told again.
        if self.last_error.as_ref() != Some(&reason) {
            tracing::info!(role = ?self.role, reason, "ATM-over-TCP connection ended");
        }
        if let State::Up(stream, _) = &mut self.state {
            stream.end();
            if self.up_since + GOOD <= io.now() {
                self.retry = FIRST_RETRY;
            }
        }
        self.machine.disconnect(io);
        self.unread = 0..0;
        self.more = false;
        self.broken = None;
        self.ended = None;
        self.last_error = Some(reason);
        self.state = match self.role {
            Role::Listen(_) => State::Listening,
            Role::Connect(_) => {
                let until = io.now() + self.retry;
                self.retry = (self.retry * 2).min(LAST_RETRY);
                State::Waiting { until }
            }
        };
    }

    fn connect(&mut self, address: SocketAddr, io: &mut NodeIo<'_>) {
        match start_connect(address) {
            Ok(stream) => self.state = State::Connecting { stream, until: io.now() + ANSWER },
            Err(error) => self.down(error.to_string(), io),
        }
    }

    /// Octets that were read go to the machine. False if the connection has ended.
    fn feed(&mut self, io: &mut NodeIo<'_>) -> bool {
        match self.machine.receive(&self.input[self.unread.clone()], io) {
            Ok(n) => {
                self.unread.start += n;
                true
            }
            Err(error) => {
                self.down(error.to_string(), io);
                false
            }
        }
    }

    /// Whether the network has taken all that the peer has sent: when the link goes down, what is on it is lost.
    fn all_taken(&self, io: &NodeIo<'_>) -> bool {
        self.unread.is_empty() && !self.machine.is_blocked() && io.is_drained(0)
    }

    /// What waits for the connection is written as far as it takes it. True if any was.
    fn flush(&mut self) -> bool {
        let mut any = false;
        while let (State::Up(stream, _), None) = (&mut self.state, &self.broken) {
            let octets = self.machine.poll_transmit();
            let written = if octets.is_empty() { stream.flush().map(|()| 0) } else { stream.write(octets) };
            match written {
                Ok(0) => break,
                Ok(n) => {
                    self.machine.transmitted(n);
                    any = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.broken = Some(error.to_string());
                    break;
                }
            }
        }
        any
    }
}

/// Has the system notice a peer that is gone without a word.
fn watch(stream: &TcpStream) -> io::Result<()> {
    let (idle, interval, count) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, count)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED.as_millis() as u32)?;
    Ok(())
}

/// A socket whose connection is under way.
fn start_connect(address: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&fd, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd.into()),
        Err(error) => Err(error.into()),
    }
}

impl External for Shell {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Listening => self.listener.as_ref().map(AsFd::as_fd),
            State::Connecting { stream, .. } => Some(stream.as_fd()),
            State::Securing { stream, .. } | State::Up(stream, _) => Some(stream.as_fd()),
            State::Waiting { .. } => None,
        }
    }

    fn wants_read(&self) -> bool {
        match self.state {
            State::Listening | State::Securing { .. } => true,
            State::Up(..) => self.unread.is_empty() && self.ended.is_none(),
            State::Connecting { .. } | State::Waiting { .. } => false,
        }
    }

    fn wants_write(&self) -> bool {
        match &self.state {
            State::Connecting { .. } => true,
            State::Securing { stream, .. } => stream.wants_write(),
            State::Up(stream, _) => {
                self.broken.is_none() && (stream.wants_write() || !self.machine.poll_transmit().is_empty())
            }
            State::Listening | State::Waiting { .. } => false,
        }
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        if let (State::Listening, Some(listener)) = (&self.state, &self.listener) {
            if let Ok((socket, peer)) = listener.accept() {
                self.connected(socket, peer, io);
            }
            return;
        }
        self.secure(io);
        for _ in 0..READS {
            let State::Up(stream, _) = &mut self.state else { return };
            if !self.unread.is_empty() || self.ended.is_some() {
                return;
            }
            let read = stream.read(&mut self.input);
            self.more = matches!(read, Ok(1..));
            match read {
                Ok(0) => {
                    let reason = self.broken.take().unwrap_or_else(|| "the peer closed the connection".into());
                    if self.all_taken(io) {
                        return self.down(reason, io);
                    }
                    self.ended = Some((reason, io.now() + LAST_WORDS));
                    return;
                }
                Ok(n) => self.unread = 0..n,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
                Err(error) => return self.down(error.to_string(), io),
            }
            if !self.feed(io) {
                return;
            }
        }
    }

    fn handle_writable(&mut self, io: &mut NodeIo<'_>, now: Time) {
        if let State::Connecting { .. } = self.state {
            let waiting = State::Waiting { until: now + self.retry };
            let State::Connecting { stream, until } = std::mem::replace(&mut self.state, waiting) else { return };
            match sockopt::socket_error(&stream).map_err(io::Error::from) {
                Ok(Ok(())) => match stream.peer_addr() {
                    Ok(peer) => self.connected(stream, peer, io),
                    Err(error) if error.kind() == ErrorKind::NotConnected => {
                        self.state = State::Connecting { stream, until }
                    }
                    Err(error) => self.down(error.to_string(), io),
                },
                Ok(Err(error)) => self.down(io::Error::from(error).to_string(), io),
                Err(error) => self.down(error.to_string(), io),
            }
        }
        self.secure(io);
        self.flush();
    }

    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        if let (State::Waiting { until }, Role::Connect(address)) = (&self.state, self.role)
            && *until <= now
        {
            self.connect(address, io);
        }
        if let State::Connecting { until, .. } = &self.state
            && *until <= now
        {
            self.down(format!("no answer within {} s", ANSWER.as_secs()), io);
        }
        if let State::Securing { until, .. } = &self.state
            && *until <= now
        {
            self.down(format!("no TLS within {} s: does the peer's link have `tls`?", ANSWER.as_secs()), io);
        }
        if self.more && self.unread.is_empty() {
            self.handle_readable(io, now);
        }
        let mut busy = false;
        if let Some((reason, until)) = &self.ended
            && (*until <= now || self.all_taken(io))
        {
            let reason = reason.clone();
            self.down(reason, io);
        }
        if let State::Up(..) = self.state {
            if !self.unread.is_empty() || self.machine.is_blocked() {
                let before = (self.unread.len(), self.machine.is_blocked());
                self.feed(io);
                busy |= (self.unread.len(), self.machine.is_blocked()) != before;
            }
            while self.machine.transmit(io) {
                busy = true;
            }
            busy |= self.flush();
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } | State::Connecting { until, .. } | State::Securing { until, .. } => Some(until),
            State::Up(..) => self.ended.as_ref().map(|(_, until)| *until),
            State::Listening => None,
        }
    }

    fn is_up(&self) -> bool {
        matches!(self.state, State::Up(..))
    }

    fn set_circuit(&mut self, circuit: CircuitId, what: Option<CircuitNotice>) {
        self.machine.set_aal(circuit, what.map_or(Aal::Aal5, |c| c.aal));
        match what {
            Some(notice) => self.machine.open(circuit, &qos_text(&notice)),
            None => self.machine.close(circuit),
        }
    }

    fn poll_peer(&mut self) -> Option<PeerCircuit> {
        self.machine.poll_peer()
    }

    fn status(&self) -> String {
        let why = self.last_error.as_ref().map(|e| format!(" (last: {e})")).unwrap_or_default();
        match (&self.state, self.role) {
            (State::Up(stream, peer), _) => {
                format!("connected to {peer}{}", if stream.is_tls() { " by TLS" } else { "" })
            }
            (State::Listening, Role::Listen(address)) => {
                format!("listening on {}{why}", self.local_address().unwrap_or(address))
            }
            (_, Role::Connect(address) | Role::Listen(address)) => format!("connecting to {address}{why}"),
        }
    }
}
