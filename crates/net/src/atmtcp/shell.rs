//! ATM over TCP on sockets: one connection at a time, made or awaited, made again when it ends.

use super::{Machine, qos_text};
use crate::external::{CircuitNotice, External, PeerCircuit};
use crate::frame::Aal;
use crate::node::NodeIo;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
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
    Connecting(TcpStream),
    Up(TcpStream, SocketAddr),
    Waiting { until: Time },
}

/// An ATM-over-TCP link's socket.
#[derive(Debug)]
pub struct Shell {
    role: Role,
    listener: Option<TcpListener>,
    state: State,
    machine: Machine,
    input: Box<[u8]>,
    /// What of `input` the machine has not taken yet.
    unread: std::ops::Range<usize>,
    last_error: Option<String>,
    retry: Duration,
    up_since: Time,
}

impl Shell {
    /// Listens, or gets ready to connect at the first run.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn new(role: Role) -> io::Result<Self> {
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
            listener,
            state,
            machine: Machine::new(),
            input,
            unread: 0..0,
            last_error: None,
            retry: FIRST_RETRY,
            up_since: Time::ZERO,
        })
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

    fn up(&mut self, stream: TcpStream, peer: SocketAddr, io: &mut NodeIo<'_>) {
        // A PDU is written whole; waiting for more to send with it would only add delay.
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        match ready {
            Ok(()) => {
                self.machine.restart(io);
                self.unread = 0..0;
                self.last_error = None;
                self.up_since = io.now();
                self.state = State::Up(stream, peer);
            }
            Err(error) => self.down(error.to_string(), io),
        }
    }

    fn down(&mut self, reason: String, io: &mut NodeIo<'_>) {
        // An attempt that fails as the one before is not told again.
        if self.last_error.as_ref() != Some(&reason) {
            tracing::info!(role = ?self.role, reason, "ATM-over-TCP connection ended");
        }
        self.machine.end_peer_circuits();
        if matches!(self.state, State::Up(..)) && self.up_since + GOOD <= io.now() {
            self.retry = FIRST_RETRY;
        }
        self.machine.drop_input(io);
        self.unread = 0..0;
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
            Ok(stream) => self.state = State::Connecting(stream),
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

    /// What waits for the connection is written as far as it takes it. True if any was.
    fn flush(&mut self, io: &mut NodeIo<'_>) -> bool {
        let mut any = false;
        while let State::Up(stream, _) = &mut self.state {
            let octets = self.machine.poll_transmit();
            if octets.is_empty() {
                break;
            }
            match stream.write(octets) {
                Ok(n) => {
                    self.machine.transmitted(n);
                    any |= n > 0;
                    if n == 0 {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.down(error.to_string(), io),
            }
        }
        any
    }
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
            State::Connecting(stream) | State::Up(stream, _) => Some(stream.as_fd()),
            State::Waiting { .. } => None,
        }
    }

    fn wants_read(&self) -> bool {
        match self.state {
            State::Listening => true,
            State::Up(..) => self.unread.is_empty(),
            State::Connecting(_) | State::Waiting { .. } => false,
        }
    }

    fn wants_write(&self) -> bool {
        match self.state {
            State::Connecting(_) => true,
            State::Up(..) => !self.machine.poll_transmit().is_empty(),
            State::Listening | State::Waiting { .. } => false,
        }
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        if let (State::Listening, Some(listener)) = (&self.state, &self.listener) {
            if let Ok((stream, peer)) = listener.accept() {
                self.up(stream, peer, io);
            }
            return;
        }
        for _ in 0..READS {
            let State::Up(stream, _) = &mut self.state else { return };
            if !self.unread.is_empty() {
                return;
            }
            match stream.read(&mut self.input) {
                Ok(0) => return self.down("the peer closed the connection".into(), io),
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
        if let State::Connecting(_) = self.state {
            let waiting = State::Waiting { until: now + self.retry };
            let State::Connecting(stream) = std::mem::replace(&mut self.state, waiting) else { return };
            match sockopt::socket_error(&stream).map_err(io::Error::from) {
                Ok(Ok(())) => match stream.peer_addr() {
                    Ok(peer) => self.up(stream, peer, io),
                    Err(error) if error.kind() == ErrorKind::NotConnected => self.state = State::Connecting(stream),
                    Err(error) => self.down(error.to_string(), io),
                },
                Ok(Err(error)) => self.down(io::Error::from(error).to_string(), io),
                Err(error) => self.down(error.to_string(), io),
            }
        }
        self.flush(io);
    }

    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        if let (State::Waiting { until }, Role::Connect(address)) = (&self.state, self.role)
            && *until <= now
        {
            self.connect(address, io);
        }
        let mut busy = false;
        if let State::Up(..) = self.state {
            if !self.unread.is_empty() || self.machine.is_blocked() {
                let before = (self.unread.len(), self.machine.is_blocked());
                self.feed(io);
                busy |= (self.unread.len(), self.machine.is_blocked()) != before;
            }
            while self.machine.transmit(io) {
                busy = true;
            }
            busy |= self.flush(io);
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } => Some(until),
            _ => None,
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
            (State::Up(_, peer), _) => format!("connected to {peer}"),
            (State::Listening, Role::Listen(address)) => {
                format!("listening on {}{why}", self.local_address().unwrap_or(address))
            }
            (_, Role::Connect(address) | Role::Listen(address)) => format!("connecting to {address}{why}"),
        }
    }
}
