//! The service's side of a capture: a thread that takes from a link's tap what is there and writes it to whoever
//! records it, on a socket of the recorder's own. The engine does no more than ring a bell when there is something, and
//! exchange two buffers: where nothing passes, nobody is woken.
//!
//! The recorder ends the capture by closing its side, whole or for writing, or by dying: nothing of it is left then.
//! What it does not read in time is missed once the tap is full, and counted there; nobody waits for it. It ends too
//! when its user may not record any more ([`Capture::revoke`]).

use super::stream;
use anyhow::{Context as _, Result};
use host::engine::{EngineHandle, Stopped};
use net::{LinkId, TapBuffer, TapConfig, TapId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// From the first record in an empty tap to a look at it: more may come meanwhile, and no record waits longer before it
/// is sent.
const PACE: Duration = Duration::from_millis(10);
/// Octets written at once.
const PIECE_OCTETS: usize = 256 * 1024;
/// A recorder that takes nothing is asked after this time whether it, and the network, still exist.
const PATIENCE: Duration = Duration::from_millis(200);
/// What a recorder that has said its end may still take to read what there is: then the link is free for another.
const LAST_OCTETS: Duration = Duration::from_secs(2);

/// The end of a pair of sockets that a recorder has sent along.
///
/// # Errors
/// Something else came.
pub fn accept(fds: Vec<OwnedFd>) -> Result<UnixStream> {
    let fd = fds.into_iter().next().context("a capture needs a socket: pass an end of a pair along")?;
    let stream =
        sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX) && sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
    stream.then(|| UnixStream::from(fd)).context("a capture is written to an end of a pair of UNIX stream sockets")
}

/// A capture that has begun.
#[derive(Debug, Clone)]
pub struct Capture(Weak<Bell>);

impl Capture {
    /// Ends it.
    pub fn revoke(&self) {
        if let Some(bell) = self.0.upgrade() {
            bell.revoked.store(true, Ordering::Release);
            bell.ring();
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// A tap of a link: one of several that captures may have put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The link.
    pub link: LinkId,
    /// Which of its taps.
    pub tap: TapId,
}

impl From<LinkId> for Place {
    /// The tap of who is alone.
    fn from(link: LinkId) -> Self {
        Place { link, tap: TapId::default() }
    }
}

/// Starts the thread. The link has its tap, of this configuration, which is taken off at the end.
///
/// # Errors
/// No thread to be had.
pub fn start(engine: EngineHandle, place: impl Into<Place>, config: &TapConfig, to: UnixStream) -> io::Result<Capture> {
    let place = place.into();
    let Place { link, tap } = place;
    to.set_nonblocking(true)?;
    // As much as the system gives: each time that it is full costs a turn of the recorder's thread.
    let _ = sockopt::set_socket_send_buffer_size(&to, PIECE_OCTETS);
    let few = config.records / 8;
    // A link between two shards has a tap in each.
    let spare = [TapBuffer::new(config), TapBuffer::new(config)];
    let bell = Arc::new(Bell::new()?);
    let reader = Waker::from(bell.clone());
    if !engine.with(move |core| core.network.set_tap_reader_of(link, tap, reader)).map_err(io::Error::other)? {
        return Err(ErrorKind::NotFound.into());
    }
    let capture = Capture(Arc::downgrade(&bell));
    std::thread::Builder::new().name("capture".into()).spawn(move || {
        // An end that is not the recorder's wish: the link or the network is gone, which the recorder sees by the
        // closed socket.
        let _ = pump(&engine, place, &to, &bell, few, spare);
        let _ = end(&engine, place);
    })?;
    Ok(capture)
}

/// Takes a link's tap off.
///
/// # Errors
/// The engine has stopped.
pub fn end(engine: &EngineHandle, place: impl Into<Place>) -> Result<(), Stopped> {
    let Place { link, tap } = place.into();
    let rest = engine.with(move |core| {
        let mut rest = [TapBuffer::default(), TapBuffer::default()];
        core.network.drain_taps_of(link, tap, &mut rest);
        core.network.set_tap_of(link, tap, None);
        rest
    });
    // The memory goes here, not on the engine's thread.
    rest.map(drop)
}

/// Rings when the tap has something, or is gone, or its user may not record any more.
#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    revoked: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { fd, revoked: AtomicBool::new(false) })
    }

    /// Until it rings or the recorder has something to say; true for the latter, whether it rings or not.
    fn wait(&self, to: &UnixStream) -> io::Result<bool> {
        let mut fds = [PollFd::new(to, PollFlags::IN), PollFd::new(&self.fd, PollFlags::IN)];
        loop {
            match poll(&mut fds, None) {
                Err(Errno::INTR) => {}
                heard => return Ok(heard.map(|_| !fds[0].revents().is_empty())?),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.revoked.load(Ordering::Acquire) { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    fn silence(&self) {
        // An error says that it did not ring.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl Bell {
    fn ring(&self) {
        // It cannot have rung so often that there is no room for this.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

fn pump(
    engine: &EngineHandle,
    place: Place,
    to: &UnixStream,
    bell: &Bell,
    few: usize,
    mut buffers: [TapBuffer; 2],
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(PIECE_OCTETS, Patient { to, engine, place, bell, end: None });
    let Place { link, tap } = place;
    let mut pace = PACE;
    loop {
        // Short of the recorder's end, nothing comes from it.
        let over = bell.wait(to)? || ready(to, PollFlags::IN, pace)?;
        bell.check()?;
        // Before the tap is drained: what comes after that rings anew.
        bell.silence();
        // They come back from a link that has gone, too: their memory goes here, not on the engine's thread.
        let drained = engine.with(move |core| (core.network.drain_taps_of(link, tap, &mut buffers), buffers));
        let (is_there, drained) = drained.map_err(io::Error::other)?;
        if !is_there {
            return Err(ErrorKind::NotFound.into());
        }
        buffers = drained;
        if over || buffers.iter().any(|buffer| !buffer.is_empty() || buffer.dropped() > 0) {
            stream::write(&buffers, &mut out)?;
        }
        if over {
            return Ok(());
        }
        pace = if buffers.iter().any(|buffer| buffer.len() > few) { Duration::ZERO } else { PACE };
    }
}

fn ready(socket: &UnixStream, what: PollFlags, patience: Duration) -> io::Result<bool> {
    let spec = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut [PollFd::new(socket, what)], Some(&spec)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Writes, and waits for a recorder that is slow as long as there is something to record, and it wants more.
struct Patient<'a> {
    to: &'a UnixStream,
    engine: &'a EngineHandle,
    place: Place,
    bell: &'a Bell,
    /// Until when, once it has said its end.
    end: Option<Instant>,
}

impl Patient<'_> {
    /// # Errors
    /// The recorder has said its end long ago.
    fn check_end(&mut self) -> io::Result<()> {
        if self.end.is_none() && ready(self.to, PollFlags::IN, Duration::ZERO)? {
            self.end = Some(Instant::now() + LAST_OCTETS);
        }
        if self.end.is_some_and(|end| Instant::now() >= end) { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        loop {
            match self.to.write(octets) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let Place { link, tap } = self.place;
                    self.bell.check()?;
                    self.check_end()?;
                    if !ready(self.to, PollFlags::OUT, PATIENCE)?
                        && !self.engine.with(move |core| core.network.has_tap_of(link, tap)).unwrap_or(false)
                    {
                        return Err(ErrorKind::NotFound.into());
                    }
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
