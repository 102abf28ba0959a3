//! The application's side: connect, create, open, then `loan` / `send` / `receive`.

use crate::ChannelId;
use crate::control::{Aal, DataPath, Events, OpenOptions, Request, Response};
use crate::layout::{CLIENT_SLEEPS, Descriptor, Geometry, HOST_RESTS, HOST_SLEEPS, INLINE_OCTETS};
use crate::own::Given;
use crate::ring::{Consumer, Producer, Which};
use crate::segment::{Segment, SegmentError};
use crate::seqpacket::{PacketError, Packets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Looks at a ring this often before a caller that waits goes to sleep.
const SPINS: u32 = 2_000;
/// A caller that never sleeps looks this often before it asks whether the service is still there.
const SPINS_AWAKE: u32 = 100_000;

/// Why the service did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there.
    #[error("no service at {path}: {source} (is `cellway up` running, with this socket?)")]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: Errno,
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
    /// The send ring is full or no buffer is free: wait ([`Endpoint::wait_send`]).
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

/// A connection to the service.
#[derive(Debug)]
pub struct Connection {
    packets: Packets,
    features: Vec<String>,
}

impl From<Connection> for OwnedFd {
    fn from(connection: Connection) -> Self {
        connection.packets.into()
    }
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// No service, or one of another version.
    pub fn open(socket: &Path) -> Result<Self, Error> {
        let packets =
            Packets::connect(socket).map_err(|source| Error::NoService { path: socket.to_path_buf(), source })?;
        let mut connection = Connection { packets, features: Vec::new() };
        match connection.ask(&Request::hello())?.0 {
            Response::Welcome { features, .. } => {
                connection.features = features;
                Ok(connection)
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Whether the service has a feature ([`crate::negotiate`]).
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }

    pub(crate) fn need(&self, feature: &'static str) -> Result<(), Error> {
        if self.has(feature) { Ok(()) } else { Err(Error::NoFeature(feature)) }
    }

    fn ask(&self, request: &Request) -> Result<(Response, Vec<OwnedFd>), Error> {
        self.packets.send(request, &[])?;
        self.answer()
    }

    /// A request with file descriptors, whose answer may take until somebody else has done something.
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(Response, Vec<OwnedFd>), Error> {
        self.packets.send(request, fds)?;
        let deadline = patience.map(|p| Instant::now() + p);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let spec = left.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.packets, PollFlags::IN)], spec.as_ref()) {
                Ok(0) => return Err(Error::NoPeer(patience.unwrap_or_default())),
                Ok(_) => return self.answer(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn answer(&self) -> Result<(Response, Vec<OwnedFd>), Error> {
        loop {
            match self.packets.receive::<Response>()? {
                Some((Response::Refused { reason, .. }, _)) => return Err(Error::Refused(reason)),
                Some(answer) => return Ok(answer),
                None => {}
            }
        }
    }

    /// A request to the program behind the service.
    ///
    /// # Errors
    /// Refused, or the service has gone.
    pub fn manage(&self, request: serde_json::Value) -> Result<serde_json::Value, Error> {
        let mut whole = String::new();
        let mut answer = self.ask(&Request::Manage(request))?.0;
        loop {
            match answer {
                Response::Managed { text, last } => {
                    whole.push_str(&text);
                    if last {
                        return serde_json::from_str(&whole).map_err(|e| Error::Protocol(e.to_string()));
                    }
                    answer = self.answer()?.0;
                }
                other => return Err(Error::Protocol(format!("{other:?}"))),
            }
        }
    }
}

/// What an endpoint is to have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointConfig {
    /// The host it belongs to.
    pub host: String,
    /// Rings and buffers.
    pub geometry: Geometry,
    /// Of the buffers, how many are kept for sending; the others are for receiving. `None`: half.
    pub send_buffers: Option<u32>,
    /// Event strategy.
    pub events: Events,
    /// Data path.
    pub path: DataPath,
}

/// Buffers that are the application's to send with.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) segment: Arc<Segment>,
    /// Loans that ended without being sent.
    returned: Mutex<Vec<u32>>,
}

/// An endpoint. What it opened ends when it is dropped, or when its process dies.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) pool: Arc<Pool>,
    pub(crate) send: Producer,
    receive: Consumer,
    pub(crate) free: Producer,
    wake_host: OwnedFd,
    wake_client: OwnedFd,
    /// Buffers free for sending.
    idle: Vec<u32>,
    /// Buffers of the descriptors in the send ring, oldest first.
    sending: VecDeque<u32>,
    completed: u32,
    buffer_octets: usize,
    events: Events,
    path: DataPath,
    /// Memory of the application's own that the host has.
    pub(crate) given: Given,
}

impl Endpoint {
    /// Connects to the service and makes an endpoint.
    ///
    /// # Errors
    /// No service, no such host, no right, or no memory.
    pub fn create(socket: &Path, config: &EndpointConfig) -> Result<Self, Error> {
        let connection = Connection::open(socket)?;
        let geometry = config.geometry.checked().map_err(SegmentError::from)?;
        let request =
            Request::CreateEndpoint { host: config.host.clone(), geometry, events: config.events, path: config.path };
        let (answer, fds) = connection.ask(&request)?;
        let (Response::Created { .. }, Ok([memory, wake_host, wake_client])) = (&answer, <[OwnedFd; 3]>::try_from(fds))
        else {
            return Err(Error::Protocol(format!("{answer:?} without its file descriptors")));
        };
        let segment = Arc::new(Segment::open(&memory, geometry)?);
        let mut endpoint = Endpoint {
            send: Producer::new(&segment, Which::Send),
            receive: Consumer::new(&segment, Which::Receive),
            free: Producer::new(&segment, Which::Free),
            pool: Arc::new(Pool { segment, returned: Mutex::default() }),
            connection,
            wake_host,
            wake_client,
            idle: Vec::new(),
            sending: VecDeque::with_capacity(geometry.send_ring as usize),
            completed: 0,
            buffer_octets: geometry.buffer_octets as usize,
            events: config.events,
            path: config.path,
            given: Given::default(),
        };
        let for_sending = config.send_buffers.unwrap_or(geometry.buffers / 2).min(geometry.buffers);
        endpoint.idle = (0..for_sending).collect();
        for buffer in for_sending..geometry.buffers {
            if !endpoint.free.push(Descriptor::of_buffer(buffer)) {
                endpoint.idle.push(buffer);
            }
        }
        Ok(endpoint)
    }

    /// Opens a circuit of the host's.
    ///
    /// # Errors
    /// There is no such circuit, another endpoint has it, or no right.
    pub fn open(&mut self, circuit: CircuitId, options: OpenOptions) -> Result<ChannelId, Error> {
        if options.aal == Aal::Aal34 {
            self.connection.need(crate::negotiate::AAL34)?;
        }
        match self.connection.ask(&Request::open(circuit, options))?.0 {
            Response::Opened { channel } => Ok(channel),
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

    /// Changes the event strategy, on both sides; nothing that is on its way is lost.
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

    /// Closes a channel.
    ///
    /// # Errors
    /// It is not open.
    pub fn close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.connection.ask(&Request::Close { channel }).map(|_| ())
    }

    /// A request to the program behind the service, over this endpoint's connection.
    ///
    /// # Errors
    /// Refused, or the service has gone.
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
            self.completed = self.completed.wrapping_add(1);
            match self.sending.pop_front() {
                Some(Descriptor::INLINE) => {}
                Some(Descriptor::OWN) => self.given.complete(),
                Some(buffer) => self.idle.push(buffer),
                None => break,
            }
        }
        if let Ok(mut returned) = self.pool.returned.try_lock() {
            self.idle.append(&mut returned);
        }
    }

    /// A buffer to fill and send; `None` if all are on their way.
    pub fn loan(&mut self) -> Option<Loan> {
        if self.idle.is_empty() {
            self.reclaim();
        }
        let buffer = self.idle.pop()?;
        Some(Loan { pool: self.pool.clone(), buffer })
    }

    /// Sends the first `octets` octets of a loan. The loan goes back if this fails.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be.
    pub fn send(&mut self, channel: ChannelId, loan: Loan, octets: usize) -> Result<(), (SendError, Loan)> {
        if let Err(e) = self.check_length(octets) {
            return Err((e, loan));
        }
        let descriptor = Descriptor { channel: channel.0, octets: octets as u32, ..Descriptor::of_buffer(loan.buffer) };
        match self.push(descriptor) {
            Ok(()) => {
                loan.forget();
                Ok(())
            }
            Err(e) => Err((e, loan)),
        }
    }

    /// Sends a copy of `sdu`: inside the descriptor if it is short, else in a buffer.
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
        let mut d = Descriptor::of_buffer(Descriptor::INLINE);
        d.channel = channel.0;
        d.octets = sdu.len() as u32;
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
        if !self.send.push(descriptor) {
            self.reclaim();
            return Err(SendError::Full);
        }
        self.sending.push_back(descriptor.buffer);
        if self.sending.len() >= 64 {
            self.reclaim();
        }
        self.wake_host_if_asleep();
        Ok(())
    }

    fn wake_host_if_asleep(&self) {
        // The push must be visible before the flag is read: else host and client could each see the other's old state.
        fence(Ordering::SeqCst);
        let flag = self.pool.segment.word32(HOST_SLEEPS);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.wake_host, &1u64.to_ne_bytes());
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
        self.sending.len()
    }

    /// The next SDU, if one has arrived.
    pub fn try_receive(&mut self) -> Option<Received<'_>> {
        let descriptor = self.receive.pop()?;
        Some(Received { endpoint: self, descriptor })
    }

    /// Waits for an SDU; `None` if `timeout` passes first. Spins a little, then sleeps.
    ///
    /// # Errors
    /// The service has gone.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Received<'_>>, Error> {
        if self.wait(timeout, |e| e.receive.waiting() > 0)? { Ok(self.try_receive()) } else { Ok(None) }
    }

    /// Waits until a buffer and a place in the send ring are free; false if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_send(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(timeout, |e| {
            e.reclaim();
            !e.idle.is_empty() && e.send.room() > 0
        })
    }

    /// Waits until a place in the send ring is free.
    pub(crate) fn wait_room(&mut self) -> Result<(), Error> {
        self.wait(None, |e| e.send_space() > 0).map(|_| ())
    }

    /// Waits until all that was pushed has been taken by the host; false if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_sent(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(timeout, |e| e.unsent() == 0)
    }

    /// How often a caller that waits looks before it sleeps.
    fn spins(&self) -> u32 {
        match self.events {
            Events::Interrupt | Events::Clocked { .. } | Events::Soft { .. } => 1,
            Events::Hybrid { .. } => SPINS,
            Events::Polling => SPINS_AWAKE,
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, mut ready: impl FnMut(&mut Self) -> bool) -> Result<bool, Error> {
        let mut deadline = None;
        loop {
            for _ in 0..self.spins() {
                if ready(self) {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            // The clock is read only where there is something to wait for.
            let deadline = *deadline.get_or_insert_with(|| timeout.map(|t| Instant::now() + t));
            self.arm();
            if ready(self) {
                self.disarm();
                return Ok(true);
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let awake = self.events == Events::Polling;
            let nap = if awake { Some(Duration::ZERO) } else { left };
            let spec = nap.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
            let control = &self.connection.packets;
            let mut fds = [PollFd::new(&self.wake_client, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
            let polled = poll(&mut fds, spec.as_ref());
            let gone = !fds[1].revents().is_empty();
            match polled {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            self.disarm();
            if ready(self) {
                return Ok(true);
            }
            if gone {
                return Err(Error::ServiceGone);
            }
            if left.is_some_and(|d| d.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// The host may be resting until this application has caught up: now it has.
    fn say_caught_up(&self) {
        let flag = self.pool.segment.word32(HOST_RESTS);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.wake_host, &1u64.to_ne_bytes());
        }
    }

    /// Before sleeping in a poll of the caller's own on [`Endpoint::as_fd`]: asks the host for a wake-up. Look at the
    /// rings once more afterwards; something may have come just before.
    pub fn arm(&mut self) {
        self.say_caught_up();
        self.pool.segment.word32(CLIENT_SLEEPS).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After such a sleep: no wake-ups for now. Clears the eventfd.
    pub fn disarm(&mut self) {
        if self.pool.segment.word32(CLIENT_SLEEPS).swap(0, Ordering::AcqRel) == 0 {
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&self.wake_client, &mut count);
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end_given();
    }
}

impl AsFd for Endpoint {
    /// Readable when the host has rung, after [`Endpoint::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_client.as_fd()
    }
}

/// A buffer of the segment that is the application's to fill. Sending it gives it away; dropping it gives it back.
#[derive(Debug)]
pub struct Loan {
    pool: Arc<Pool>,
    buffer: u32,
}

impl Loan {
    fn forget(mut self) {
        self.buffer = Descriptor::INLINE;
    }
}

impl Deref for Loan {
    type Target = [u8];
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: a loan owns its buffer from `loan` to `send`; the buffer's number is in no ring meanwhile, and the only
        // slices of it are made here and in `deref_mut`, under this value's borrow; the service does not write it meanwhile.
        unsafe { self.pool.segment.buffer(self.buffer).as_ref() }
    }
}

impl DerefMut for Loan {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, under an exclusive borrow.
        unsafe { self.pool.segment.buffer(self.buffer).as_mut() }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.buffer != Descriptor::INLINE
            && let Ok(mut returned) = self.pool.returned.lock()
        {
            returned.push(self.buffer);
        }
    }
}

/// An SDU that has arrived. Its buffer goes back to the host when this is dropped.
#[derive(Debug)]
pub struct Received<'a> {
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) descriptor: Descriptor,
}

impl Received<'_> {
    /// The channel it came on.
    pub fn channel(&self) -> ChannelId {
        ChannelId(self.descriptor.channel)
    }

    /// AAL5 user-to-user indication.
    pub fn uu(&self) -> u8 {
        self.descriptor.uu
    }

    /// Whether a cell of it had its loss priority set.
    pub fn clp(&self) -> bool {
        self.descriptor.clp
    }

    /// Whether its last cell had met congestion.
    pub fn congestion(&self) -> bool {
        self.descriptor.congestion
    }
}

impl Deref for Received<'_> {
    type Target = [u8];
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        let octets = self.descriptor.octets as usize;
        if self.descriptor.buffer == Descriptor::INLINE {
            return &self.descriptor.inline[..octets.min(INLINE_OCTETS)];
        }
        if self.descriptor.buffer == Descriptor::OWN {
            return self.endpoint.given.octets(&self.descriptor);
        }
        if self.endpoint.pool.segment.geometry().buffer_at(self.descriptor.buffer).is_none() {
            return &[];
        }
        // SAFETY: the host gave the buffer away with this descriptor and does not write it until it is free again, which
        // `drop` says; this side makes no other slice of it.
        let buffer = unsafe { self.endpoint.pool.segment.buffer(self.descriptor.buffer).as_ref() };
        &buffer[..octets.min(buffer.len())]
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        let buffer = self.descriptor.buffer;
        if buffer == Descriptor::OWN {
            self.post_again();
        } else if buffer != Descriptor::INLINE && !self.endpoint.free.push(Descriptor::of_buffer(buffer)) {
            self.endpoint.idle.push(buffer);
        }
    }
}

/// The application's side over a segment in the same process: for virtual time and for tests.
#[derive(Debug)]
pub struct Local {
    /// Client to host.
    pub send: Producer,
    /// Host to client.
    pub receive: Consumer,
    /// Buffers to receive into.
    pub free: Producer,
    /// The memory.
    pub segment: Arc<Segment>,
}

impl Local {
    /// The client's ends of a fresh segment.
    pub fn new(segment: &Arc<Segment>) -> Self {
        Local {
            send: Producer::new(segment, Which::Send),
            receive: Consumer::new(segment, Which::Receive),
            free: Producer::new(segment, Which::Free),
            segment: segment.clone(),
        }
    }
}
