//! A link's end on TCP: one connection at a time, made or awaited, made again when it ends.

use super::speech::Speech;
use super::watch::Watch;
use super::{Role, start_connect};
use crate::atmtcp;
use crate::connection::{Stream, Tls, prepare};
use crate::connection_acceptor::{Arrival, Seat};
use net::external::{CircuitNotice, External, PeerCircuit};
use net::frame::FrameAal;
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
/// The connection acceptor ends a handshake itself, a little earlier than this.
const HANDSHAKE: Duration = Duration::from_secs(12);
/// A connection that the peer has ended lasts so long at most, for what it had sent before to be taken.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum State {
    Listening,
    Connecting {
        stream: TcpStream,
        until: Time,
    },
    /// Connected; the connection acceptor agrees on TLS.
    Securing {
        until: Time,
    },
    Up(Stream, SocketAddr),
    Waiting {
        until: Time,
    },
}

/// A TCP link's end.
#[derive(Debug)]
pub struct Shell {
    role: Role,
    tls: Option<Tls>,
    seat: Seat,
    watch: Watch,
    state: State,
    speech: Speech,
    input: Box<[u8]>,
    /// What of `input` the protocol has not taken yet.
    unread: std::ops::Range<usize>,
    /// Whether more may be there to read, though the socket does not say so: TLS has taken it.
    more: bool,
    last_error: Option<String>,
    /// Why nothing can be written any more; what the peer had sent before is read to its end.
    broken: Option<String>,
    /// The peer has ended the connection, why, and until when what it had sent may still be on its way.
    ended: Option<(String, Time)>,
    /// Where a message begins in what the peer sends is known.
    in_step: bool,
    retry: Duration,
    up_since: Time,
    /// Attempts to connect by TLS.
    attempt: u64,
}

impl Shell {
    /// A link of ATM over TCP ([`atmtcp`]): listens, or gets ready to connect at the first run.
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
        Shell::with_speech(role, tls, Speech::Frames(Box::default()))
    }

    /// A link of cells ([`crate::cells`]).
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn of_cells(role: Role, tls: Option<Tls>) -> io::Result<Self> {
        Shell::with_speech(role, tls, Speech::Cells(Box::default()))
    }

    fn with_speech(role: Role, tls: Option<Tls>, speech: Speech) -> io::Result<Self> {
        let (seat, state) = match role {
            Role::Listen(address) => {
                let listener = TcpListener::bind(address)?;
                (Seat::listen(listener, tls.clone(), speech.judge())?, State::Listening)
            }
            Role::Connect(_) => (Seat::connect()?, State::Waiting { until: Time::ZERO }),
        };
        Ok(Shell {
            role,
            tls,
            watch: Watch::new(seat.bell())?,
            seat,
            state,
            speech,
            input: vec![0; READ_OCTETS].into_boxed_slice(),
            unread: 0..0,
            more: false,
            last_error: None,
            broken: None,
            ended: None,
            in_step: true,
            retry: FIRST_RETRY,
            up_since: Time::ZERO,
            attempt: 0,
        })
    }

    /// The same at a [`crate::Relay`]: [`atmtcp::Machine::relaying`].
    #[must_use]
    pub fn relaying(self) -> Self {
        Shell { speech: Speech::Frames(Box::new(atmtcp::Machine::relaying())), ..self }
    }

    /// The address that is listened on, with the port that the system chose.
    ///
    /// # Errors
    /// As the system says; [`ErrorKind::NotConnected`] if this side connects.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.seat.local_address()
    }

    /// A connection is made.
    fn connected(&mut self, socket: TcpStream, peer: SocketAddr, io: &mut NodeIo<'_>) {
        if let Err(error) = prepare(&socket) {
            return self.down(error.to_string(), io);
        }
        let Some(tls) = self.tls.clone() else { return self.up(Stream::new(socket, None), peer, io) };
        self.attempt += 1;
        self.state = State::Securing { until: io.now() + HANDSHAKE };
        if let Err(error) = self.seat.secure(socket, peer, tls, self.attempt) {
            self.down(error.to_string(), io);
        }
    }

    /// The connection acceptor has something for this link.
    fn answered(&mut self, io: &mut NodeIo<'_>) {
        let Some((attempt, answer)) = self.seat.take() else { return };
        match answer {
            Ok(Arrival { stream, peer }) if attempt == 0 => {
                if let State::Up(..) = self.state {
                    self.end("another connection of the peer's has taken its place".into(), io);
                }
                self.up(stream, peer, io);
            }
            Ok(Arrival { stream, peer }) if attempt == self.attempt && matches!(self.state, State::Securing { .. }) => {
                self.up(stream, peer, io);
            }
            Err(reason) if attempt == self.attempt && matches!(self.state, State::Securing { .. }) => {
                self.down(reason, io);
            }
            // Of an attempt that has been given up.
            _ => {}
        }
    }

    fn up(&mut self, stream: Stream, peer: SocketAddr, io: &mut NodeIo<'_>) {
        self.last_error = None;
        self.up_since = io.now();
        self.more = true;
        self.in_step = true;
        self.state = State::Up(stream, peer);
    }

    fn down(&mut self, reason: String, io: &mut NodeIo<'_>) {
        self.end(reason, io);
        self.seat.leave();
    }

    /// Ends the connection, or the attempt to make one; what of it is lost is counted.
    fn end(&mut self, reason: String, io: &mut NodeIo<'_>) {
        // An attempt that fails as the one before is not told again.
        if self.last_error.as_ref() != Some(&reason) {
            let (Role::Listen(address) | Role::Connect(address)) = self.role;
            tracing::info!(source = %address, reason, "a TCP link's connection ended");
        }
        if let (State::Up(..), true) = (&self.state, self.in_step) {
            self.lose_unread(io);
        }
        match &mut self.state {
            State::Up(stream, _) => {
                let out = self.speech.out_mut();
                out.acknowledge(stream.acknowledged(out.taken()));
                // What is counted as lost must not arrive after all.
                if out.is_acknowledged() {
                    stream.end()
                } else {
                    stream.abort()
                }
                self.watch.forget(stream.as_fd());
                if self.up_since + GOOD <= io.now() {
                    self.retry = FIRST_RETRY;
                }
            }
            State::Connecting { stream, .. } => self.watch.forget(stream.as_fd()),
            _ => {}
        }
        self.speech.disconnect(io);
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

    /// What the peer has sent, and the network has not taken, is counted.
    fn lose_unread(&mut self, io: &mut NodeIo<'_>) {
        self.speech.lose(&self.input[self.unread.clone()], io);
        for _ in 0..READS {
            let State::Up(stream, _) = &mut self.state else { return };
            let Ok(n @ 1..) = stream.read(&mut self.input) else { return };
            self.speech.lose(&self.input[..n], io);
        }
    }

    fn connect(&mut self, address: SocketAddr, io: &mut NodeIo<'_>) {
        match start_connect(address) {
            Ok(stream) => self.state = State::Connecting { stream, until: io.now() + ANSWER },
            Err(error) => self.down(error.to_string(), io),
        }
    }

    /// Octets that were read go to the protocol. False if the connection has ended.
    fn feed(&mut self, io: &mut NodeIo<'_>) -> bool {
        match self.speech.receive(&self.input[self.unread.clone()], io) {
            Ok(n) => {
                self.unread.start += n;
                self.seat.set_heard(self.speech.heard());
                true
            }
            Err(error) => {
                self.in_step = false;
                self.down(error.to_string(), io);
                false
            }
        }
    }

    /// Whether the network has taken all that the peer has sent: when the link goes down, what is on it is lost.
    fn all_taken(&self, io: &NodeIo<'_>) -> bool {
        self.unread.is_empty() && !self.speech.is_blocked() && io.is_drained(0)
    }

    /// What waits for the connection is written as far as it takes it. True if any was.
    fn flush(&mut self) -> bool {
        let mut any = false;
        while let (State::Up(stream, _), None) = (&mut self.state, &self.broken) {
            let octets = self.speech.out().poll_transmit();
            let written = if octets.is_empty() { stream.flush().map(|()| 0) } else { stream.write(octets) };
            match written {
                Ok(0) => break,
                Ok(n) => {
                    let out = self.speech.out_mut();
                    out.transmitted(n);
                    if out.is_worth_asking() {
                        let acknowledged = stream.acknowledged(out.taken());
                        out.acknowledge(acknowledged);
                    }
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

    fn read(&mut self, io: &mut NodeIo<'_>) {
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

    /// An attempt to connect may have come to its end.
    fn look_at_attempt(&mut self, io: &mut NodeIo<'_>) {
        if !matches!(self.state, State::Connecting { .. }) {
            return;
        }
        let waiting = State::Waiting { until: io.now() + self.retry };
        let State::Connecting { stream, until } = std::mem::replace(&mut self.state, waiting) else { return };
        self.watch.forget(stream.as_fd());
        match sockopt::socket_error(&stream).map_err(io::Error::from) {
            Ok(Ok(())) => match stream.peer_addr() {
                Ok(peer) => self.connected(stream, peer, io),
                Err(error) if error.kind() == ErrorKind::NotConnected => {
                    self.state = State::Connecting { stream, until };
                }
                Err(error) => self.down(error.to_string(), io),
            },
            Ok(Err(error)) => self.down(io::Error::from(error).to_string(), io),
            Err(error) => self.down(error.to_string(), io),
        }
    }

    /// Says what to wait for, where that has changed.
    fn tell(&mut self) {
        match &self.state {
            State::Connecting { stream, .. } => self.watch.tell(stream.as_fd(), false, true),
            State::Up(stream, _) => {
                let readable = self.unread.is_empty() && self.ended.is_none();
                let waits = stream.wants_write() || !self.speech.out().poll_transmit().is_empty();
                self.watch.tell(stream.as_fd(), readable, waits && self.broken.is_none());
            }
            State::Listening | State::Securing { .. } | State::Waiting { .. } => {}
        }
    }
}

impl External for Shell {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn keeps_fd(&self) -> bool {
        true
    }

    fn wants_read(&self) -> bool {
        true
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        let ready = self.watch.poll();
        if ready.bell {
            self.answered(io);
        }
        if ready.writable {
            self.look_at_attempt(io);
            self.flush();
        }
        if ready.readable {
            self.read(io);
        }
        self.tell();
    }

    fn handle_writable(&mut self, _: &mut NodeIo<'_>, _: Time) {}

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
        if let State::Securing { until } = &self.state
            && *until <= now
        {
            self.down(format!("no TLS within {} s: does the peer's link have `tls`?", ANSWER.as_secs()), io);
        }
        if self.more && self.unread.is_empty() {
            self.read(io);
        }
        let mut busy = false;
        if let Some((reason, until)) = &self.ended
            && (*until <= now || self.all_taken(io))
        {
            let reason = reason.clone();
            self.down(reason, io);
        }
        if let State::Up(..) = self.state {
            if !self.unread.is_empty() || self.speech.is_blocked() {
                let before = (self.unread.len(), self.speech.is_blocked());
                self.feed(io);
                busy |= (self.unread.len(), self.speech.is_blocked()) != before;
            }
            while self.speech.transmit(io) {
                busy = true;
            }
            busy |= self.flush();
        }
        self.tell();
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } | State::Connecting { until, .. } | State::Securing { until } => Some(until),
            State::Up(..) => self.ended.as_ref().map(|(_, until)| *until),
            State::Listening => None,
        }
    }

    fn is_up(&self) -> bool {
        matches!(self.state, State::Up(..))
    }

    fn set_circuit(&mut self, circuit: CircuitId, what: Option<CircuitNotice>) {
        let Speech::Frames(machine) = &mut self.speech else { return };
        machine.set_aal(circuit, what.map_or(FrameAal::Aal5, |c| c.aal));
        match what {
            Some(notice) => machine.open(circuit, &atmtcp::qos_text(&notice)),
            None => machine.close(circuit),
        }
    }

    fn poll_peer(&mut self) -> Option<PeerCircuit> {
        match &mut self.speech {
            Speech::Frames(machine) => machine.poll_peer(),
            Speech::Cells(_) => None,
        }
    }

    fn status(&self) -> String {
        let why = || self.last_error.clone().or_else(|| self.seat.refusal());
        let why = |at: String| why().map_or(at.clone(), |why| format!("{at} (last: {why})"));
        match (&self.state, self.role) {
            (State::Up(stream, peer), _) => {
                format!("connected to {peer}{}", if stream.is_tls() { " by TLS" } else { "" })
            }
            (State::Listening, Role::Listen(address)) => {
                why(format!("listening on {}", self.local_address().unwrap_or(address)))
            }
            (_, Role::Connect(address) | Role::Listen(address)) => why(format!("connecting to {address}")),
        }
    }
}
