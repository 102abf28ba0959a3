//! The application's side: connect, create, open, then `loan` / `send` / `receive`.
//!
//! A file each: the connection, the buffers in the application's hands, the application's own memory, the channels'
//! shares, waiting, errors.

mod app_memory;
mod buffers;
mod change;
mod config;
mod connection;
mod error;
mod lent;
mod limit;
mod local;
mod shares;
mod wait;

use crate::ChannelId;
use crate::app_memory::OutstandingBuffers;
use crate::control::{Aal, DataPath, Events, OpenOptions, Request, Response};
use crate::layout::{Descriptor, Head, INLINE_OCTETS, Lent};
use crate::recycle::Recycle;
use crate::ring::{Consumer, Producer, Which};
use crate::segment::{Segment, SegmentError};
use crate::waiting::Patience;
use rustix::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::CircuitId;

pub(crate) use buffers::Pool;
pub use buffers::{Loan, Received};
pub use change::{Answer, Change, RETURN_PATIENCE};
pub use config::EndpointConfig;
pub use connection::Connection;
pub use error::{Error, SendError, SystemError};
use lent::Borrowed;
pub use lent::SharedSdu;
pub use limit::{HURRIED, REQUEST_LIMIT, hurry_once, request_limit, set_request_limit};
pub use local::Local;
use shares::Shares;

/// Handles of the pool of buffers that an endpoint keeps.
const HANDLES: usize = 8;
/// Descriptors between two looks at what the host has given back: its index is in a line that it writes.
const RECLAIM_EVERY: u32 = 64;
/// Most buffers that go back to the host together: four lines of the free ring.
const MOST_FREE_AT_ONCE: u32 = 16;

/// An endpoint. What it opened ends when it is dropped, or when its process dies. One thread at a time uses it.
///
/// ```no_run
/// use endpoint::{EndpointConfig, OpenOptions, SendError, Service};
///
/// let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
/// let mut endpoint = Service::connect_default()?.endpoint(&config)?;
/// let channel = endpoint.open("0.100".parse()?, OpenOptions::default())?;
/// while endpoint.send_copy(channel, b"hello") == Err(SendError::Full) {
///     endpoint.wait_send(None)?; // blocks until there is room
/// }
/// if let Some(sdu) = endpoint.receive(Some(std::time::Duration::from_secs(1)))? {
///     println!("{} octets on {:?}", sdu.len(), sdu.channel());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) pool: Arc<Pool>,
    pub(crate) send: Producer,
    receive: Consumer,
    /// The SDU that is in the application's hands, of which there is one at a time: [`Received`] borrows the endpoint.
    pub(crate) taken: Descriptor,
    pub(crate) free: Producer,
    wake_host: OwnedFd,
    /// The service's bell ringer sends on its other end.
    bell: OwnedFd,
    /// The service wakes by futex.
    futex: bool,
    /// Buffers free for sending.
    idle: Recycle<u32>,
    /// Descriptors that the host has given back, ever (wraps).
    completed: u32,
    shares: Shares,
    /// Handles of the pool, for the next loans: to count one up and down costs more than the rest of a loan.
    handles: Vec<Arc<Pool>>,
    /// A quarter of the receive ring's slots: between two looks whether the host waits for room there.
    receive_quarter: u32,
    /// Buffers that go back to the host together, while SDUs come.
    free_batch: u32,
    buffer_octets: usize,
    events: Events,
    patience: Patience,
    /// Descriptors pushed when it waited last (wraps).
    sent_before: u32,
    /// When it asked last whether the service is still there.
    asked: Instant,
    path: DataPath,
    /// Memory of the application's own that the host has.
    pub(crate) outstanding: OutstandingBuffers,
    /// Memory of senders that lend theirs.
    borrowed: Borrowed,
}

impl Endpoint {
    /// Connects to the service and makes an endpoint. Blocks until the service has answered, for the process's limit of
    /// requests at most ([`set_request_limit`]).
    ///
    /// # Errors
    /// No service, one that does not answer, no such host, no right, or no memory.
    pub fn create(socket: &Path, config: &EndpointConfig) -> Result<Self, Error> {
        Self::create_within(socket, config, request_limit())
    }

    /// The same with a limit of its own for each of its two requests: the greeting and the endpoint.
    ///
    /// # Errors
    /// As [`Endpoint::create`].
    pub fn create_within(socket: &Path, config: &EndpointConfig, limit: Duration) -> Result<Self, Error> {
        let connection = Connection::open_within(socket, limit)?;
        let geometry = config.geometry.checked().map_err(SegmentError::from)?;
        let request =
            Request::CreateEndpoint { host: config.host.clone(), geometry, events: config.events, path: config.path };
        let (answer, fds) = connection.ask_within(&request, limit)?;
        let (Response::Created { .. }, Ok([memory, wake_host, bell])) = (&answer, <[OwnedFd; 3]>::try_from(fds)) else {
            return Err(Error::Protocol(format!("{answer:?} without its file descriptors")));
        };
        let segment = Arc::new(Segment::open(&memory, geometry)?);
        let mut endpoint = Endpoint {
            send: Producer::new(&segment, Which::Send),
            receive: Consumer::new(&segment, Which::Receive),
            taken: Descriptor::from(Head::of_buffer(Descriptor::INLINE)),
            free: Producer::new(&segment, Which::Free),
            pool: Arc::new(Pool { segment, returned: Mutex::default() }),
            futex: connection.has(crate::negotiate::FUTEX),
            connection,
            wake_host,
            bell,
            idle: Recycle::new(geometry.buffer_octets as usize, geometry.buffers as usize),
            completed: 0,
            shares: Shares::default(),
            handles: Vec::with_capacity(HANDLES),
            receive_quarter: (geometry.receive_ring / 4).max(1),
            free_batch: 1,
            buffer_octets: geometry.buffer_octets as usize,
            events: config.events,
            patience: Patience::default(),
            sent_before: 0,
            asked: Instant::now(),
            path: config.path,
            outstanding: OutstandingBuffers::default(),
            borrowed: Borrowed::default(),
        };
        let for_sending = config.send_buffers.unwrap_or(geometry.buffers / 2).min(geometry.buffers);
        (0..for_sending).rev().for_each(|buffer| endpoint.idle.put_fresh(buffer));
        endpoint.shares = Shares::new(geometry.send_ring.min(for_sending.max(1)));
        endpoint.free_batch = ((geometry.buffers - for_sending) / 16).clamp(1, MOST_FREE_AT_ONCE);
        for buffer in for_sending..geometry.buffers {
            if !endpoint.free.push(Head::of_buffer(buffer)) {
                endpoint.idle.put_fresh(buffer);
            }
        }
        Ok(endpoint)
    }

    /// Opens a circuit of the host's. Blocks until the service has answered, for the process's limit of requests at most
    /// ([`set_request_limit`]).
    ///
    /// # Errors
    /// There is no such circuit, another endpoint has it, no right, or a service that does not answer: then the endpoint
    /// is over.
    pub fn open(&mut self, circuit: CircuitId, options: OpenOptions) -> Result<ChannelId, Error> {
        self.open_within(circuit, options, request_limit())
    }

    /// The same with a limit of its own.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub fn open_within(
        &mut self,
        circuit: CircuitId,
        options: OpenOptions,
        limit: Duration,
    ) -> Result<ChannelId, Error> {
        if options.aal == Aal::Aal34 {
            self.connection.need(crate::negotiate::AAL34)?;
        }
        // An older service takes no option that it does not know.
        let reliable = options.reliable && self.connection.has(crate::negotiate::RELIABLE);
        let options = OpenOptions { reliable, ..options };
        match self.connection.ask_within(&Request::open(circuit, options), limit)?.0 {
            Response::Opened { channel } => {
                self.shares.open(channel);
                Ok(channel)
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// The data path.
    pub fn path(&self) -> DataPath {
        self.path
    }

    /// The event strategy in force.
    pub fn events(&self) -> Events {
        self.events
    }

    /// Changes the event strategy, on both sides; nothing that is on its way is lost. Blocks as [`Endpoint::open`].
    ///
    /// # Errors
    /// The service has gone.
    pub fn set_events(&mut self, events: Events) -> Result<(), Error> {
        match self.connection.ask(&Request::SetEvents { events })?.0 {
            Response::EventsSet => {
                self.events = events;
                Ok(())
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Closes a channel. Blocks until the service has answered, for the process's limit of requests at most
    /// ([`set_request_limit`]).
    ///
    /// # Errors
    /// It is not open, or the service does not answer: then the endpoint is over.
    pub fn close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.close_within(channel, request_limit())
    }

    /// The same with a limit of its own.
    ///
    /// # Errors
    /// As [`Endpoint::close`].
    pub fn close_within(&mut self, channel: ChannelId, limit: Duration) -> Result<(), Error> {
        // The service has closed it already where its circuit has gone.
        self.shares.close(channel);
        self.connection.ask_within(&Request::Close { channel }, limit).map(drop)
    }

    /// A request to the program behind the service, over this endpoint's connection. Blocks as [`Endpoint::open`].
    ///
    /// # Errors
    /// Refused, or the service has gone.
    #[doc(hidden)]
    pub fn manage(&self, request: serde_json::Value) -> Result<serde_json::Value, Error> {
        self.connection.manage(request)
    }

    /// Octets of a buffer: the longest SDU.
    pub fn buffer_octets(&self) -> usize {
        self.buffer_octets
    }

    /// Takes back the buffers of what has been sent.
    pub(crate) fn reclaim(&mut self) {
        let consumed = self.send.consumed();
        while self.completed != consumed {
            let (channel, buffer) = self.send.given_back(self.completed);
            self.completed = self.completed.wrapping_add(1);
            self.shares.give_back(channel);
            match buffer {
                Descriptor::INLINE => {}
                Descriptor::OWN | Descriptor::PAGES => self.outstanding.complete(),
                buffer => self.idle.put(buffer),
            }
        }
        if let Ok(mut returned) = self.pool.returned.try_lock() {
            returned.drain(..).for_each(|buffer| self.idle.put_back(buffer));
        }
    }

    /// A buffer to fill and send, of [`Endpoint::buffer_octets`] octets; `None` if all are on their way. Never blocks.
    #[inline]
    pub fn loan(&mut self) -> Option<Loan> {
        if self.idle.is_empty() {
            self.flush();
            self.reclaim();
        }
        let buffer = self.idle.take()?;
        let pool = self.handles.pop().unwrap_or_else(|| self.pool.clone());
        Some(Loan::new(pool, buffer))
    }

    /// Sends the first `octets` octets of a loan. The loan goes back if this fails. Never blocks.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be.
    #[inline]
    pub fn send(&mut self, channel: ChannelId, loan: Loan, octets: usize) -> Result<(), (SendError, Loan)> {
        let sent = self.enqueue(channel, loan, octets);
        self.flush();
        sent
    }

    /// As [`Endpoint::send`], but the host need not see it before [`Endpoint::flush`]: for many in a row. Each wait for
    /// SDUs or for room flushes, and so does a ring or pool of buffers that has nothing left.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    // As `try_receive`: a loan that is handed over and back in memory is read by wider loads than it was written by.
    #[inline(always)]
    pub fn enqueue(&mut self, channel: ChannelId, loan: Loan, octets: usize) -> Result<(), (SendError, Loan)> {
        if let Err(e) = self.check_length(octets) {
            return Err((e, loan));
        }
        let head = Head { channel: channel.0, octets: octets as u32, ..Head::of_buffer(loan.buffer) };
        match self.push_unseen(channel.0, |ring| ring.push_head_unseen(head)) {
            Ok(()) => {
                let handle = loan.forget();
                if self.handles.len() < HANDLES {
                    self.handles.extend(handle);
                }
                Ok(())
            }
            Err(e) => Err((e, loan)),
        }
    }

    /// Sends a copy of `sdu`: inside the descriptor if it is short, else in a buffer. Never blocks.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be.
    pub fn send_copy(&mut self, channel: ChannelId, sdu: &[u8]) -> Result<(), SendError> {
        self.check_length(sdu.len())?;
        if sdu.len() > INLINE_OCTETS {
            let mut loan = self.loan().ok_or(SendError::Full)?;
            loan[..sdu.len()].copy_from_slice(sdu);
            return self.send(channel, loan, sdu.len()).map_err(|(e, _)| e);
        }
        let octets = sdu.len() as u32;
        let mut d = Descriptor::from(Head { channel: channel.0, octets, ..Head::of_buffer(Descriptor::INLINE) });
        d.inline[..sdu.len()].copy_from_slice(sdu);
        self.push(d)
    }

    fn check_length(&self, octets: usize) -> Result<(), SendError> {
        match octets {
            0 => Err(SendError::Empty),
            _ if octets > self.buffer_octets => Err(SendError::TooLong { octets, buffer_octets: self.buffer_octets }),
            _ => Ok(()),
        }
    }

    pub(crate) fn push(&mut self, descriptor: Descriptor) -> Result<(), SendError> {
        let pushed = self.push_unseen(descriptor.head.channel, |ring| ring.push_unseen(descriptor));
        self.flush();
        pushed
    }

    /// Pushes a descriptor of a channel by `push`, which says whether there was room.
    // A descriptor without a body is made in registers: in memory it would be read by wider loads than it was written
    // by.
    #[inline(always)]
    fn push_unseen(&mut self, channel: u32, push: impl FnOnce(&mut Producer) -> bool) -> Result<(), SendError> {
        if !self.shares.has_room(channel) {
            self.flush();
            self.reclaim();
        }
        if !self.shares.admits(channel) || !push(&mut self.send) {
            self.flush();
            self.reclaim();
            return Err(SendError::Full);
        }
        self.shares.take(channel);
        if self.send.pushed().is_multiple_of(RECLAIM_EVERY) {
            self.flush();
            self.reclaim();
        }
        Ok(())
    }

    /// Whether a descriptor of `channel` can be pushed now: there is a place, and it has not its share on the way.
    pub(crate) fn may_push(&mut self, channel: ChannelId) -> bool {
        self.send_space() > 0 && self.shares.admits(channel.0)
    }

    /// Lets the host see what was enqueued, and wakes it if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        if self.send.publish() {
            self.wake_host_if_asleep();
        }
    }

    /// Gives a buffer back to the host, which sees it when some have come together, or before the next wait.
    #[inline]
    pub(crate) fn give_free(&mut self, buffer: u32) {
        if !self.free.push_head_unseen(Head::of_buffer(buffer)) {
            match Lent::from_buffer(buffer) {
                Some(_) => self.borrowed.late.push(buffer),
                None => self.idle.put(buffer),
            }
        }
        if self.free.unpublished() >= self.free_batch {
            self.free.publish();
        }
    }

    /// How many SDUs can be pushed now.
    pub fn send_space(&mut self) -> usize {
        self.reclaim();
        self.send.room() as usize
    }

    /// How many SDUs have been pushed and not yet taken by the host.
    pub fn unsent(&mut self) -> usize {
        self.reclaim();
        self.send.pushed().wrapping_sub(self.completed) as usize
    }
}
