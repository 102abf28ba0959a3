//! Where connections wait until it is clear whose they are.
//!
//! One thread of the process accepts the connections of all listening links, and does the TLS handshakes of both roles:
//! nothing that somebody unknown sends, or does not send, takes time of the thread that runs the network. In: listening
//! sockets, and connections that this side has made ([`Seat`]). Out: an [`Arrival`] through the link's seat, one at a
//! time.
//!
//! Whoever connects is a *candidate*. A candidate of a link with TLS is *ready* when its handshake has ended, another
//! when it has said something that the link's protocol has. A free seat is given to the oldest candidate that is ready;
//! without TLS, to any. A ready candidate also takes the seat of a connection that has proven nothing, and of one from
//! its own address that has been silent for long: so connections that say nothing keep nobody out ([`table`]).

mod table;
mod thread;

use crate::connection::{Judge, Stream, Tls};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::Shutdown;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// A connection that is ready.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
}

/// An arrival, or why there is none, of the attempt with this number (0 where the peer connects).
type Answer = (u64, Result<Arrival, String>);

/// What a link and the connection acceptor know of each other.
#[derive(Debug)]
struct Shared {
    /// Rings where an answer waits.
    bell: OwnedFd,
    /// Whether a connection sits there.
    occupied: AtomicBool,
    /// Answers taken.
    taken: AtomicU64,
    /// Messages heard from who sits there.
    heard: AtomicU64,
    /// The link is gone.
    gone: AtomicBool,
    /// Why the last candidate was refused.
    refusal: Mutex<Option<String>>,
}

impl Shared {
    fn refuse(&self, reason: &str) {
        *self.refusal.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(reason.to_owned());
    }
}

/// The connection acceptor's way to a link.
#[derive(Debug)]
struct Offers {
    shared: Arc<Shared>,
    answers: SyncSender<Answer>,
}

impl Offers {
    /// False if the link has not taken the one before, or is gone.
    fn offer(&self, answer: Answer) -> bool {
        let taken = self.answers.try_send(answer).is_ok();
        if taken {
            // A bell that is full has rung.
            let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
        }
        taken
    }
}

/// A link's place in the connection acceptor: the connections that are ready for it come from here.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    answers: Receiver<Answer>,
    /// Kept so that the address is free again as soon as the seat is dropped.
    listener: Option<Arc<TcpListener>>,
    /// What the connection acceptor answers by.
    offers: Option<Offers>,
}

impl Seat {
    fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            bell,
            occupied: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            refusal: Mutex::new(None),
        });
        let (send, answers) = sync_channel(1);
        let offers = Some(Offers { shared: shared.clone(), answers: send });
        Ok(Seat { shared, answers, listener: None, offers })
    }

    /// Of a link whose peers connect to `listener`.
    ///
    /// # Errors
    /// The system has no room for the connection acceptor's thread or for what it waits by.
    pub(crate) fn listen(listener: TcpListener, tls: Option<Tls>, judge: Judge) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut seat = Seat::new()?;
        let listener = Arc::new(listener);
        seat.listener = Some(listener.clone());
        if let Some(offers) = seat.offers.take() {
            thread::tell(thread::Command::Listen { offers, listener, tls, judge })?;
        }
        Ok(seat)
    }

    /// Of a link that connects, by TLS.
    ///
    /// # Errors
    /// As [`Seat::listen`].
    pub(crate) fn connect() -> io::Result<Self> {
        Seat::new()
    }

    /// Lets the connection acceptor do the handshake of a connection that this side has made; the answer has the
    /// attempt's number.
    ///
    /// # Errors
    /// The system has no room for the connection acceptor's thread.
    pub(crate) fn secure(&mut self, socket: TcpStream, peer: SocketAddr, tls: Tls, attempt: u64) -> io::Result<()> {
        let (send, answers) = sync_channel(1);
        self.answers = answers;
        let offers = Offers { shared: self.shared.clone(), answers: send };
        thread::tell(thread::Command::Secure { offers, socket, peer, tls, attempt })
    }

    /// Readable where [`Seat::take`] has something.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// The next answer. Whoever sits there must make room: an arrival's place is here.
    pub(crate) fn take(&mut self) -> Option<Answer> {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        let answer = self.answers.try_recv().ok()?;
        self.shared.heard.store(0, Ordering::Relaxed);
        self.shared.occupied.store(answer.1.is_ok(), Ordering::Relaxed);
        self.shared.taken.fetch_add(1, Ordering::Release);
        Some(answer)
    }

    /// Whoever sat there has gone.
    pub(crate) fn leave(&mut self) {
        if self.shared.occupied.swap(false, Ordering::Release) {
            thread::ring();
        }
    }

    /// How many messages whoever sits there has sent.
    pub(crate) fn set_heard(&mut self, messages: u64) {
        self.shared.heard.store(messages, Ordering::Relaxed);
    }

    /// Why the last candidate was refused.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.shared.refusal.try_lock().ok()?.clone()
    }

    /// The address that is listened on.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().map_or(Err(io::ErrorKind::NotConnected.into()), |listener| listener.local_addr())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.gone.store(true, Ordering::Release);
        if let Some(listener) = &self.listener {
            // Whoever binds to the address next need not wait for the connection acceptor's thread.
            let _ = rustix::net::shutdown(listener, Shutdown::Both);
            thread::ring();
        }
    }
}
