//! The socket of a virtual adapter, and the outside end of the link that its cells travel on.
//!
//! One client at a time; another waits in the socket's queue until that one has gone, however it went, and finds the
//! adapter reset. What cannot go on now goes on at the next call. A client's descriptors may make a call take long: beside
//! others, a server has a thread of its own ([`super::apart`]).

use super::bus::Bus;
use super::passed;
use super::protocol::{HEADER_OCTETS, Header, MAX_MESSAGE_OCTETS};
use super::session::{Session, Violation};
use crate::{Config, Eni155p};
use endpoint::passed::{collect_circles, lie_in};
use endpoint::socket_path::SocketPath;
use net::NodeIo;
use net::external::External;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;
use wire::{Cell, Counters, Time};

/// Why there is no server.
pub use endpoint::socket_path::SocketPathError as StartError;

/// Octets of messages that wait at most; more are left in the socket.
const INPUT_OCTETS: usize = 2 * MAX_MESSAGE_OCTETS;
/// Reads of one call at most, so that a fast client leaves time to others.
const READS: usize = 16;
/// Octets of answers that may wait before no more requests are taken.
const OUTPUT_OCTETS: usize = 1 << 18;
/// After a client could not be accepted for lack of what others have.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Octets of DMA per call.
const DMA_OCTETS: usize = 1 << 16;
/// File descriptors that may wait for their message.
const MAX_FDS: usize = 8;
/// Most that the system lets one message bring. The system would close those without room in this thread.
const SCM_MAX_FD: usize = 253;
/// How often descriptors are looked for that lie unread: the client's own end may be among them.
const LOOK: Duration = Duration::from_secs(1);

/// A connected client.
#[derive(Debug)]
struct Client {
    stream: OwnedFd,
    session: Session,
    input: Box<[u8]>,
    /// What of `input` waits.
    filled: usize,
    /// Octets of the stream before `input`.
    before: u64,
    /// Descriptors, each with the place in the stream where the read that brought it ended: it belongs to the message
    /// that holds the octet before that place.
    fds: VecDeque<(u64, OwnedFd)>,
    replies: Vec<u8>,
    replied: usize,
}

/// Why a client has gone.
#[derive(Debug, thiserror::Error)]
enum Gone {
    #[error("the client closed the connection")]
    Closed,
    #[error("the client passed a descriptor that is no memory and no eventfd, or many")]
    Descriptor,
    #[error("the client passed a descriptor and does not take its answers")]
    Unread,
    #[error(transparent)]
    System(#[from] Errno),
    #[error(transparent)]
    Violation(#[from] Violation),
}

impl Client {
    fn new(stream: OwnedFd) -> Self {
        Client {
            stream,
            session: Session::default(),
            input: vec![0; INPUT_OCTETS].into(),
            filled: 0,
            before: 0,
            fds: VecDeque::new(),
            replies: Vec::new(),
            replied: 0,
        }
    }

    /// Reads once; false if nothing was there.
    fn read(&mut self) -> Result<bool, Gone> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_MAX_FD))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.input[self.filled..])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let n = match rustix::net::recvmsg(&self.stream, &mut parts, &mut rights, flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(Errno::CONNRESET) => return Err(Gone::Closed),
            Err(error) => return Err(error.into()),
        };
        self.filled += n;
        let end = self.before + self.filled as u64;
        let before = self.fds.len();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                self.fds.extend(more.map(|fd| (end, fd)));
            }
        }
        if n == 0 {
            return Err(Gone::Closed);
        }
        if self.fds.len() > MAX_FDS || !self.fds.range(before..).all(|(_, fd)| passed::is_plain(fd)) {
            return Err(Gone::Descriptor);
        }
        Ok(true)
    }

    /// Whether it is not read for now, since its answers are to be taken first.
    fn is_behind(&self) -> bool {
        self.replies.len() >= OUTPUT_OCTETS
    }

    /// Answers whole messages that have been read.
    fn answer(&mut self, adapter: &mut Eni155p, now: Time) -> Result<(), Gone> {
        let mut at = 0;
        while self.filled - at >= HEADER_OCTETS && !self.is_behind() {
            let header = Header::parse(&self.input[at..self.filled]).map_err(Violation::from)?;
            if self.filled - at < header.size {
                break;
            }
            let end = self.before + (at + header.size) as u64;
            let mut fds = Vec::new();
            while self.fds.front().is_some_and(|(place, _)| *place <= end) {
                fds.extend(self.fds.pop_front().map(|(_, fd)| fd));
            }
            let payload = &self.input[at + HEADER_OCTETS..at + header.size];
            self.session.handle(&header, payload, fds, adapter, now, &mut self.replies)?;
            at += header.size;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.before += at as u64;
        Ok(())
    }

    /// Sends answers as far as the socket takes them.
    fn flush(&mut self) -> Result<(), Gone> {
        while self.replied < self.replies.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.stream, &self.replies[self.replied..], flags) {
                Ok(n) => self.replied += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Gone::Closed),
                Err(error) => return Err(error.into()),
            }
        }
        self.replies.clear();
        self.replied = 0;
        Ok(())
    }
}

/// An adapter that waits for a client at a socket, or has one.
#[derive(Debug)]
pub struct Server {
    place: SocketPath,
    listener: OwnedFd,
    client: Option<Client>,
    adapter: Eni155p,
    bus: Bus,
    /// The link had no room for the adapter's next cell.
    blocked: bool,
    last_gone: Option<String>,
    /// No client could be accepted; until when none is.
    rests_until: Option<Time>,
    /// The socket's path is another's by now.
    left_path: bool,
    /// When it is looked for descriptors again that lie unread, while there is a client.
    looks_at: Time,
}

impl Server {
    /// Listens at `path`, over a stale socket file of a server that died. The socket is its user's alone.
    ///
    /// # Errors
    /// Another server is there, or the path cannot be made.
    pub fn listen(path: &Path, config: Config) -> Result<Self, StartError> {
        Server::listen_at(SocketPath::new(path), config)
    }

    /// The same where another server of the caller's is yet: clients come once its [`SocketPath`] was taken.
    ///
    /// # Errors
    /// The same.
    pub fn listen_beside(path: &Path, config: Config) -> Result<Self, StartError> {
        Server::listen_at(SocketPath::beside(path), config)
    }

    fn listen_at(mut place: SocketPath, config: Config) -> Result<Self, StartError> {
        place.clear(SocketType::STREAM)?;
        let path = place.now();
        let system = |source| StartError::System { path: path.to_path_buf(), source };
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(system)?;
        rustix::net::bind(&listener, &address).map_err(system)?;
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600)).map_err(system)?;
        rustix::net::listen(&listener, 4).map_err(system)?;
        place.handle_made();
        Ok(Server {
            place,
            listener,
            client: None,
            adapter: Eni155p::new(config),
            bus: Bus::default(),
            blocked: false,
            last_gone: None,
            rests_until: None,
            left_path: false,
            looks_at: Time::ZERO,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The same, with the file that it is.
    pub fn place(&self) -> &SocketPath {
        &self.place
    }

    /// The path is not removed when this ends.
    pub(super) fn leave_path(&mut self) {
        self.left_path = true;
    }

    /// The adapter, to look at its counters or to cut its signal.
    pub fn adapter(&mut self) -> &mut Eni155p {
        &mut self.adapter
    }

    fn accept(&mut self, now: Time) {
        self.rests_until = None;
        match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(stream) => {
                tracing::info!(socket = %self.path().display(), "a client attached to the adapter");
                self.client = Some(Client::new(stream));
                self.last_gone = None;
                self.looks_at = now + LOOK;
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            // A lack of descriptors or memory: the client stays where it is, and would be heard of at once again.
            Err(error) => {
                tracing::warn!(socket = %self.path().display(), %error, "a client cannot attach to the adapter yet");
                self.rests_until = Some(now + ACCEPT_PAUSE);
            }
        }
    }

    /// Does `f` with the client, if there is one; a client that has gone leaves an adapter as it was at power-on.
    fn with_client(&mut self, f: impl FnOnce(&mut Client, &mut Eni155p) -> Result<(), Gone>) {
        let Some(client) = &mut self.client else { return };
        if let Err(gone) = f(client, &mut self.adapter) {
            tracing::info!(socket = %self.path().display(), reason = %gone, "a client has gone");
            self.last_gone = Some(gone.to_string());
            if let Some(Client { stream, fds, .. }) = self.client.take() {
                passed::end(stream, fds.into_iter().map(|(_, fd)| fd));
            }
            self.adapter.reset();
        }
    }

    /// Looks for descriptors that lie unread: in the client's connection, and in those that wait for it to go.
    fn look(&mut self, now: Time) {
        if self.client.is_none() || now < self.looks_at {
            return;
        }
        self.looks_at = now + LOOK;
        collect_circles();
        self.with_client(|client, _| match client.is_behind() && lie_in(&client.stream) {
            true => Err(Gone::Unread),
            false => Ok(()),
        });
        if lie_in(&self.listener) {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            while let Ok(waiting) = rustix::net::accept_with(&self.listener, flags) {
                passed::end(waiting, None);
            }
        }
    }

    /// Takes cells from the line; without a client they are nobody's.
    pub(super) fn take_cells(&mut self, cells: &[Cell]) {
        if self.client.is_none() {
            self.adapter.drop_cells(cells.len());
        } else if !cells.is_empty() {
            self.adapter.handle_cells(cells);
        }
    }

    /// Cells for the line, as many as are due and there is room for. Without a client they end what the last one had begun.
    pub(super) fn give_cells(&mut self, room: &mut [Cell], now: Time) -> usize {
        self.adapter.fill(room, now)
    }

    /// When to run next while the line takes nothing.
    pub(super) fn blocked_timeout(&self) -> Option<Time> {
        let dma = self.adapter.dma_waits().then(|| self.bus.free());
        let look = self.client.is_some().then_some(self.looks_at);
        self.rests_until.into_iter().chain(look).chain(dma).chain(self.adapter.hold_off_end()).min()
    }

    /// What the client has said.
    pub(super) fn read(&mut self, now: Time) {
        if self.client.is_none() {
            return self.accept(now);
        }
        for _ in 0..READS {
            let mut more = false;
            self.with_client(|client, adapter| {
                more = !client.is_behind() && client.read()?;
                client.answer(adapter, now)
            });
            self.settle(now);
            if !more {
                return;
            }
        }
    }

    /// What waited for room to be answered is answered too.
    pub(super) fn write(&mut self, now: Time) {
        self.with_client(|client, adapter| {
            client.flush()?;
            client.answer(adapter, now)
        });
        self.settle(now);
    }

    /// DMA, the interrupt, answers; a client that could not be accepted before.
    pub(super) fn settle(&mut self, now: Time) {
        if self.rests_until.is_some_and(|end| end <= now) {
            self.accept(now);
        }
        self.look(now);
        let mut bus = self.bus;
        self.with_client(|client, adapter| {
            if adapter.dma_waits() && bus.free() <= now {
                bus.take(adapter.move_portions(&mut client.session.memory, DMA_OCTETS), now);
            }
            adapter.handle_timeout(now);
            client.session.update_interrupt(adapter.interrupt(now));
            client.flush()
        });
        self.bus = bus;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.left_path {
            self.place.remove();
        }
    }
}

impl External for Server {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.as_ref().map_or(self.listener.as_fd(), |client| client.stream.as_fd()))
    }

    fn wants_read(&self) -> bool {
        self.client.as_ref().map_or(self.rests_until.is_none(), |client| !client.is_behind())
    }

    fn wants_write(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.replies.is_empty())
    }

    fn handle_readable(&mut self, _: &mut NodeIo<'_>, now: Time) {
        self.read(now);
    }

    fn handle_writable(&mut self, _: &mut NodeIo<'_>, now: Time) {
        self.write(now);
    }

    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = self.adapter.dma_waits() && self.bus.free() <= now;
        loop {
            let cells = io.cells_in(0);
            let n = cells.len();
            if n == 0 {
                break;
            }
            self.take_cells(cells);
            io.consume(0, n);
            any = true;
        }
        let room = io.cells_out(0);
        self.blocked = room.is_empty();
        let n = self.adapter.fill(room, now);
        if n > 0 {
            io.commit(0, n);
            any = true;
        }
        self.settle(now);
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        let line = self.adapter.next_transmit().filter(|_| !self.blocked);
        self.blocked_timeout().into_iter().chain(line).min()
    }

    /// While a client is there, and until what it had begun has ended.
    fn is_up(&self) -> bool {
        self.client.is_some() || self.adapter.ends_pdus()
    }

    fn set_signal(&mut self, signal: bool) {
        self.adapter.set_signal(signal);
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let (adapter, phy) = (&self.adapter, self.adapter.phy());
        let all = [
            ("received", adapter.received()),
            ("sent", adapter.sent()),
            ("dma", adapter.dma_errors()),
            ("line_received", phy.received()),
            ("line_sent", phy.transmitted()),
        ];
        all.map(|(name, counters)| (name, *counters)).into()
    }

    fn status(&self) -> String {
        let (received, sent) = (self.adapter.received(), self.adapter.sent());
        match (&self.client, &self.last_gone) {
            (Some(client), _) => {
                let mut text = format!("attached; PDUs in {}, out {}", received.pdus, sent.pdus);
                let drops = [("in", received), ("out", sent), ("DMA", self.adapter.dma_errors())];
                for (what, reason, n) in drops.iter().flat_map(|(what, c)| c.drops().map(move |(r, n)| (what, r, n))) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "; {what} {reason} {n}");
                }
                if !self.adapter.phy().has_signal() {
                    text += "; no signal";
                }
                if client.session.memory.reachable() == 0 {
                    text += "; no memory of the guest's is shared";
                }
                if client.session.memory.refused() {
                    text += "; memory was refused: share it from a memfd or a file of tmpfs";
                }
                text
            }
            (None, Some(reason)) => format!("waits at {}; the last client: {reason}", self.path().display()),
            (None, None) => format!("waits at {}", self.path().display()),
        }
    }
}
