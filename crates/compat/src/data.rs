//! A connected circuit: SDUs between the program's buffers and shared memory.
//!
//! The socket's descriptor is one end of a pair whose other end the host has. It is readable exactly when SDUs wait, by
//! this protocol over the segment's word `CLIENT_SLEEPS`. The word is `NEWS_OF_SDUS` ("armed") or zero ("rung"). Armed,
//! the ring was empty and the pair holds no bell; the host rings with its next push, once, and the word is zero. Rung,
//! the pair holds one bell. To go back from rung to armed is to *settle*: arm, look at the ring again, and only if it
//! is still empty take the one bell out. A bell that takes long to come is owed: it is taken by whoever settles after
//! it has come.
//!
//! Settling costs system calls, so it is left until somebody could see the difference: before a call that waits, before
//! a `poll` or `select` (which `exports` announces), or after each receive once the descriptor is in an epoll set.
//!
//! A full send ring makes the descriptor unwritable: the program's end of the pair is filled, and the host empties it
//! when there is room. So waiting, to send or to receive, is one system call on the descriptor itself; `O_NONBLOCK`,
//! `SO_RCVTIMEO`, signals and the cancelling of threads have the effects that they have on any socket. Sending and
//! receiving themselves never wait: they say [`Pause::Wait`], and whoever called waits, holding nothing.

use crate::abi::{CELL_OCTETS, HEADER_VPI_VCI};
use crate::deferred::Deferred;
use crate::descriptors::{self, Hidden, borrow};
use crate::memory::Parts;
use crate::qos::{Qos, Way};
use crate::real;
use crate::service::{Created, Failed, Session};
use crate::shared::{Estate, Guard, Shared};
use crate::waits::Waits;
use endpoint::control::BELL_OCTETS;
use endpoint::layout::{
    CLIENT_SLEEPS, CLIENT_WAITS, Descriptor, HOST_RESTS, HOST_SLEEPS, Head, INLINE_OCTETS, NEWS_OF_SDUS,
};
use endpoint::ring::{Consumer, Producer, Which};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, Direction, Geometry};
use libc::c_int;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Memory for SDUs that wait to be read. Linux's default is 212 992 octets for each socket; here senders are faster.
const RECEIVE_OCTETS: usize = 64 << 20;
/// Memory for SDUs that wait to be sent.
const SEND_OCTETS: usize = 1 << 20;
/// How long closing waits for what was sent to leave.
const LINGER: Duration = Duration::from_secs(5);
/// How long a bell that has been promised may take.
const BELL_PATIENCE: Duration = Duration::from_millis(100);

/// One side of a ring, of which it is the turn of whoever holds the lock of that way.
struct Turned<T>(UnsafeCell<T>);

// SAFETY: reached by `Turned::get` only, which wants proof that the lock of its way is held.
unsafe impl<T: Send> Sync for Turned<T> {}

impl<T> Turned<T> {
    /// What is inside, for as long as it is the caller's turn.
    #[allow(clippy::mut_from_ref)]
    fn get<'a>(&'a self, _turn: &'a mut Guard<'_, ()>) -> &'a mut T {
        // SAFETY: the guard is of the lock of this way (each caller in this module passes it), exclusively borrowed for
        // as long as the result lives.
        unsafe { &mut *self.0.get() }
    }
}

/// Why something was not done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It may be once the descriptor says so: `wait_readable`, `wait_writable`.
    Wait,
    /// It cannot be.
    Failed(Errno),
}

impl From<Errno> for Pause {
    fn from(errno: Errno) -> Self {
        Pause::Failed(errno)
    }
}

/// A connected circuit.
pub(crate) struct Live {
    session: Session,
    channel: ChannelId,
    segment: Arc<Segment>,
    /// The segment's descriptor, for those who inherit the socket.
    memory: Hidden<OwnedFd>,
    wake_host: Hidden<OwnedFd>,
    send: Turned<Producer>,
    receive: Turned<(Consumer, Producer)>,
    qos: Qos,
    circuit: CircuitId,
    /// May write any VPI and VCI into the headers of cells.
    any_header: bool,
    gone: AtomicBool,
    /// What signal handlers of this process have sent.
    deferred: Deferred,
    /// Of this process.
    has_sent: AtomicBool,
    waits: Waits,
}

/// Sizes for a circuit's SDUs.
fn geometry(qos: &Qos) -> Geometry {
    let longest = |way| qos.max_sdu(way).clamp(1, 65_535) as usize;
    let direction = qos.direction();
    let mut octets = 64;
    if direction.sends() {
        octets = octets.max(longest(Way::Send));
    }
    if direction.receives() {
        octets = octets.max(longest(Way::Receive));
    }
    let octets = octets.next_multiple_of(64);
    let slots = |memory: usize, least, most| ((memory / octets) as u32).clamp(least, most).next_power_of_two();
    let send = if direction.sends() { slots(SEND_OCTETS, 32, 256) } else { 2 };
    let receive = if direction.receives() { slots(RECEIVE_OCTETS, 1024, 8192) } else { 2 };
    Geometry {
        send_ring: send,
        receive_ring: receive,
        free_ring: receive,
        buffers: send + receive,
        buffer_octets: octets as u32,
    }
}

/// Whether a call on the descriptor waits.
fn blocks(fd: RawFd) -> bool {
    rustix::fs::fcntl_getfl(borrow(fd)).is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::NONBLOCK))
}

impl Live {
    /// Descriptors that opening a circuit takes, beside the connection's.
    pub(crate) const DESCRIPTORS: usize = 4;

    /// Opens a circuit of `host` whose bell is `bell`.
    ///
    /// # Errors
    /// The service says no.
    pub(crate) fn connect(host: &str, circuit: CircuitId, qos: Qos, bell: &Hidden<OwnedFd>) -> Result<Live, Failed> {
        Self::connect_by(Session::open()?, host, circuit, qos, bell)
    }

    /// The same by a connection to the service that is there already.
    ///
    /// # Errors
    /// The service says no.
    pub(crate) fn connect_by(
        session: Session,
        host: &str,
        circuit: CircuitId,
        qos: Qos,
        bell: &Hidden<OwnedFd>,
    ) -> Result<Live, Failed> {
        use rustix::fd::AsFd;
        let geometry = geometry(&qos);
        let Created { memory, wake_host } = session.create(host, geometry, bell.0.as_fd())?;
        let no_memory = |e| Failed { errno: Errno::NOMEM, why: format!("{e}") };
        let segment = Arc::new(Segment::open(&memory, geometry).map_err(no_memory)?);
        let mut free = Producer::new(&segment, Which::Free);
        for buffer in geometry.send_ring..geometry.buffers {
            free.push(Head::of_buffer(buffer));
        }
        segment.word32(CLIENT_SLEEPS).store(NEWS_OF_SDUS, Ordering::SeqCst);
        let channel = session.open_circuit(circuit, qos.service_aal(), qos.direction())?;
        let (memory, wake_host) = (Hidden::new(&memory)?, Hidden::new(&wake_host)?);
        Ok(Self::new(session, segment, memory, wake_host, channel, circuit, qos))
    }

    /// A circuit that was opened before an `exec`. The rings' indices are taken up at each turn anyway.
    ///
    /// # Errors
    /// The descriptors are not what they were.
    pub(crate) fn inherit(estate: &Estate, circuit: CircuitId, qos: Qos) -> Result<Live, Errno> {
        let owned = |fd| descriptors::inherit(fd).ok_or(Errno::BADF);
        let session = Session::inherit(owned(estate.session)?)?;
        let (memory, wake_host) = (owned(estate.memory)?, Hidden::here(owned(estate.wake_host)?)?);
        let segment = Arc::new(Segment::open(&memory, geometry(&qos)).map_err(|_| Errno::BADF)?);
        let channel = ChannelId(estate.channel);
        Ok(Self::new(session, segment, Hidden::here(memory)?, wake_host, channel, circuit, qos))
    }

    fn new(
        session: Session,
        segment: Arc<Segment>,
        memory: Hidden<OwnedFd>,
        wake_host: Hidden<OwnedFd>,
        channel: ChannelId,
        circuit: CircuitId,
        qos: Qos,
    ) -> Live {
        let receive = (Consumer::new(&segment, Which::Receive), Producer::new(&segment, Which::Free));
        Live {
            channel,
            wake_host,
            memory,
            send: Turned(UnsafeCell::new(Producer::new(&segment, Which::Send))),
            receive: Turned(UnsafeCell::new(receive)),
            session,
            segment,
            qos,
            circuit,
            any_header: crate::system::is_capable(rustix::thread::CapabilitySet::NET_ADMIN),
            gone: AtomicBool::new(false),
            deferred: Deferred::default(),
            has_sent: AtomicBool::new(false),
            waits: Waits::default(),
        }
    }

    /// Leaves to those who inherit the socket what they need.
    pub(crate) fn bequeath(&self, estate: &mut Estate) {
        estate.session = self.session.number();
        estate.memory = self.memory.number();
        estate.wake_host = self.wake_host.number();
        estate.channel = self.channel.0;
    }

    /// The connection to the service.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Whether the program may send, as far as its QoS goes.
    pub(crate) fn direction(&self) -> Direction {
        self.qos.direction()
    }

    fn wake_host(&self) -> bool {
        // What was written must be visible before the flag is read: else host and client could each see the other's old
        // state.
        fence(Ordering::SeqCst);
        let flag = self.segment.word32(HOST_SLEEPS);
        let asleep = flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0;
        if asleep {
            let _ = rustix::io::write(&self.wake_host.0, &1u64.to_ne_bytes());
        }
        asleep
    }

    /// Whether the service has ended the circuit.
    fn is_gone(&self, fd: RawFd) -> bool {
        if !self.gone.load(Ordering::Relaxed) {
            let fd = borrow(fd);
            let mut fds = [PollFd::new(&fd, PollFlags::empty())];
            if matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..)) {
                self.gone.store(true, Ordering::Relaxed);
            }
        }
        self.gone.load(Ordering::Relaxed)
    }

    /// Sends one SDU, if there is room for it.
    ///
    /// # Errors
    /// As the kernel's `sendmsg` on a PVC; `EPIPE` is for the caller to signal.
    ///
    /// # Safety
    /// The parts are readable, and nobody writes them during the call.
    pub(crate) unsafe fn send(&self, shared: &Shared, fd: RawFd, parts: Parts<'_>) -> Result<usize, Pause> {
        let octets = parts.octets();
        if self.gone.load(Ordering::Relaxed) {
            return Err(Errno::PIPE.into());
        }
        if octets == 0 {
            return Ok(0);
        }
        if octets > self.qos.max_sdu(Way::Send).max(0) as usize {
            return Err(Errno::MSGSIZE.into());
        }
        if !self.direction().sends() {
            return Err(Errno::INVAL.into());
        }
        let mut descriptor = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
        descriptor.head.channel = self.channel.0;
        descriptor.head.octets = octets as u32;
        descriptor.head.clp = shared.clp.load(Ordering::Relaxed);
        let mut cell = [0; CELL_OCTETS];
        let is_cell = self.qos.service_aal() == Aal::Aal0;
        if is_cell {
            if octets != CELL_OCTETS {
                return Err(Errno::INVAL.into());
            }
            // SAFETY: as the caller says.
            unsafe { parts.gather(|at, part| cell[at..at + part.len()].copy_from_slice(part)) };
            let header = u32::from_ne_bytes([cell[0], cell[1], cell[2], cell[3]]);
            if !self.any_header && header & HEADER_VPI_VCI != self.circuit.key() << 4 {
                return Err(Errno::ADDRNOTAVAIL.into());
            }
            cell[..4].copy_from_slice(&header.to_be_bytes());
        } else if octets <= INLINE_OCTETS {
            // SAFETY: as the caller says.
            unsafe { parts.gather(|at, part| descriptor.inline[at..at + part.len()].copy_from_slice(part)) };
        }
        let pushed = self.in_turn(shared, fd, |ring| {
            if ring.room() == 0 {
                self.become_unwritable(fd, ring);
                return Err(Pause::Wait);
            }
            if octets > INLINE_OCTETS {
                // As many buffers as slots: the one of this slot is free because the slot is.
                let buffer = ring.pushed() & (self.segment.geometry().send_ring - 1);
                let Some(to) = self.segment.buffer_at(buffer) else { return Err(Errno::NOBUFS.into()) };
                descriptor.head.buffer = buffer;
                if is_cell {
                    self.segment.copy_in(to, &cell);
                } else {
                    // SAFETY: as the caller says.
                    unsafe { parts.gather(|at, part| self.segment.copy_in(to + at, part)) };
                }
            }
            ring.push(descriptor);
            Ok(())
        });
        match pushed {
            Ok(result) => result?,
            // This is a signal handler, and the thread was interrupted in its own turn: it sends this after what it is
            // at. SAFETY: as the caller says.
            Err(Errno::DEADLK) => return unsafe { self.deferred.push(parts) }.map_err(Pause::Failed),
            Err(e) => return Err(e.into()),
        }
        self.has_sent.store(true, Ordering::Relaxed);
        self.waits.handle_sent();
        // A host that sleeps may be one that is no more.
        if self.wake_host() && self.is_gone(fd) {
            return Err(Errno::PIPE.into());
        }
        Ok(octets)
    }

    /// Does something with the send ring, and after it what signal handlers wanted to send meanwhile.
    fn in_turn<R>(&self, shared: &Shared, fd: RawFd, f: impl FnOnce(&mut Producer) -> R) -> Result<R, Errno> {
        let mut turn = shared.send.lock()?;
        let ring = self.send.get(&mut turn);
        ring.catch_up();
        let result = f(ring);
        drop(turn);
        self.deferred.take(|sdu| {
            let part = crate::memory::part(sdu.as_ptr().cast(), sdu.len());
            // SAFETY: the parts are the SDU.
            while unsafe { Parts::new(&part).map_err(Pause::Failed).and_then(|p| self.send(shared, fd, p)) }
                == Err(Pause::Wait)
            {
                let fd = borrow(fd);
                let limit = Timespec { tv_sec: LINGER.as_secs() as i64, tv_nsec: 0 };
                if !matches!(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&limit)), Ok(1..) | Err(Errno::INTR)) {
                    return;
                }
            }
        });
        Ok(result)
    }

    /// Fills the program's end of the pair, unless there is room after all. The host empties it when half is free.
    fn become_unwritable(&self, fd: RawFd, ring: &mut Producer) {
        let waits = self.segment.word32(CLIENT_WAITS);
        if waits.load(Ordering::Relaxed) == 0 {
            crate::system::fill(borrow(fd));
        }
        waits.store(1, Ordering::SeqCst);
        self.wake_host();
        ring.catch_up();
    }

    /// Waits until there may be room in the send ring, as long as flags and descriptor say. A thread may be cancelled
    /// in it.
    ///
    /// # Errors
    /// As `send` on a socket; `EPIPE`: the circuit has ended.
    pub(crate) fn wait_writable(&self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        let flags = flags & libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: one octet of this function's own.
        match real::result(|| unsafe { real::send(fd, [0u8].as_ptr().cast(), 1, flags) }) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => {
                self.gone.store(true, Ordering::Relaxed);
                Err(Errno::PIPE)
            }
            Err(e) => Err(e),
        }
    }

    /// Receives one SDU, if one is there: octets copied, and whether it was cut off. Parts that cannot be are told of,
    /// as the kernel does, once there is something to be put there, which is lost then.
    ///
    /// # Errors
    /// As the kernel's `recvmsg` on a PVC; `ENETDOWN`: the service has gone.
    ///
    /// # Safety
    /// The parts are writable, and nobody else uses them during the call.
    pub(crate) unsafe fn receive(
        &self,
        shared: &Shared,
        fd: RawFd,
        parts: Result<Parts<'_>, Errno>,
        flags: c_int,
    ) -> Result<(usize, bool), Pause> {
        let (parts, nowhere) = match parts {
            Ok(parts) => (parts, None),
            Err(Errno::FAULT) => (Parts::NONE, Some(Errno::FAULT)),
            Err(e) => return Err(e.into()),
        };
        let mut looked = false;
        loop {
            let mut turn = shared.receive.lock()?;
            let (ring, free) = self.receive.get(&mut turn);
            ring.catch_up();
            while let Some(descriptor) = ring.peek() {
                // SAFETY: as the caller says.
                let copied = unsafe { self.copy_out(&descriptor, parts) };
                if flags & libc::MSG_PEEK != 0
                    && let Some(copied) = copied
                {
                    return Ok(copied);
                }
                ring.advance();
                if descriptor.head.buffer != Descriptor::INLINE {
                    free.catch_up();
                    free.push(Head::of_buffer(descriptor.head.buffer));
                }
                if let Some(copied) = copied {
                    self.waits.handle_received();
                    if shared.watched.load(Ordering::Relaxed) && ring.waiting() == 0 {
                        self.settle(shared, fd, ring);
                    }
                    if shared.stamped.load(Ordering::Relaxed) {
                        shared.stamp.store(crate::system::now_nanos(), Ordering::Relaxed);
                    }
                    return nowhere.map_or(Ok(copied), |e| Err(e.into()));
                }
            }
            if !looked && flags & libc::MSG_DONTWAIT == 0 && blocks(fd) {
                drop(turn);
                looked = true;
                self.waits
                    .look(|| self.segment.host_is_elsewhere(), || !matches!(self.segment_is_empty(shared), Ok(true)));
                continue;
            }
            if !self.settle(shared, fd, ring) {
                continue;
            }
            drop(turn);
            return match self.gone.load(Ordering::Relaxed) {
                false => Err(Pause::Wait),
                // As the kernel says of a call that the other side has released.
                true if self.session.is_served() => Ok((0, false)),
                // A program that reads again after nothing came would do so for ever.
                true => Err(self.session.network_down().into()),
            };
        }
    }

    fn segment_is_empty(&self, shared: &Shared) -> Result<bool, Errno> {
        let mut turn = shared.receive.lock()?;
        let (ring, _) = self.receive.get(&mut turn);
        ring.catch_up();
        Ok(ring.waiting() == 0)
    }

    /// Copies an SDU to the program; `None` if the descriptor is nonsense.
    ///
    /// # Safety
    /// As [`Live::receive`].
    unsafe fn copy_out(&self, descriptor: &Descriptor, parts: Parts<'_>) -> Option<(usize, bool)> {
        let octets = descriptor.head.octets as usize;
        let from = match descriptor.head.buffer {
            Descriptor::INLINE if octets <= INLINE_OCTETS => None,
            Descriptor::INLINE => return None,
            _ if octets > self.segment.geometry().buffer_octets as usize => return None,
            buffer => Some(self.segment.buffer_at(buffer)?),
        };
        let mut cell = [0; CELL_OCTETS];
        let is_cell = self.qos.service_aal() == Aal::Aal0;
        if is_cell {
            if octets != CELL_OCTETS {
                return None;
            }
            self.segment.copy_out(from?, &mut cell);
            let header = u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]);
            cell[..4].copy_from_slice(&header.to_ne_bytes());
        }
        let most = octets.min(parts.octets());
        let fill = |at: usize, into: &mut [u8]| match from {
            _ if is_cell => into.copy_from_slice(&cell[at..at + into.len()]),
            None => into.copy_from_slice(&descriptor.inline[at..at + into.len()]),
            Some(from) => self.segment.copy_out(from + at, into),
        };
        // SAFETY: as the caller says.
        unsafe { parts.scatter(most, fill) };
        Some((most, octets > most))
    }

    /// From rung to armed, if the ring is empty; false if something waits.
    fn settle(&self, shared: &Shared, fd: RawFd, ring: &mut Consumer) -> bool {
        let sleeps = self.segment.word32(CLIENT_SLEEPS);
        loop {
            if sleeps.load(Ordering::SeqCst) == NEWS_OF_SDUS {
                if shared.bells_owed.load(Ordering::Relaxed) == 0 || !self.holds_bell(fd) {
                    return true;
                }
                // Unless the host rings at this moment, this is as if it had rung with the bell that is late.
                if sleeps.compare_exchange(NEWS_OF_SDUS, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    shared.bells_owed.fetch_sub(1, Ordering::Relaxed);
                }
            }
            // The host may be resting until this program has caught up: now it has.
            let rests = self.segment.word32(HOST_RESTS);
            if rests.load(Ordering::Relaxed) != 0 && rests.swap(0, Ordering::AcqRel) != 0 {
                let _ = rustix::io::write(&self.wake_host.0, &1u64.to_ne_bytes());
            }
            sleeps.store(NEWS_OF_SDUS, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            ring.catch_up();
            if ring.waiting() > 0 {
                if sleeps.compare_exchange(NEWS_OF_SDUS, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                    // The host has rung again meanwhile: one of two bells.
                    self.take_bell(shared, fd);
                }
                return false;
            }
            self.take_bell(shared, fd);
        }
    }

    /// Whether a bell is in the pair.
    fn holds_bell(&self, fd: RawFd) -> bool {
        let mut bell = [0; BELL_OCTETS];
        let looked = rustix::net::recv(borrow(fd), &mut bell[..], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(looked, Ok((1.., _)))
    }

    /// Takes one bell out of the pair. It has been rung, or is being rung at this moment.
    fn take_bell(&self, shared: &Shared, fd: RawFd) {
        let begin = Instant::now();
        let mut bell = [0; BELL_OCTETS];
        loop {
            match rustix::net::recv(borrow(fd), &mut bell[..], RecvFlags::DONTWAIT) {
                Ok((1.., _)) => return,
                Err(Errno::AGAIN) if begin.elapsed() < BELL_PATIENCE => std::thread::yield_now(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    shared.bells_owed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(_) | Err(_) => return self.gone.store(true, Ordering::Relaxed),
            }
        }
    }

    /// Waits until an SDU may be there, or the circuit has ended, as long as flags and descriptor say. A thread may be
    /// cancelled in it.
    ///
    /// # Errors
    /// As `recv` on a socket.
    pub(crate) fn wait_readable(&self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        if !real::wait_readable(fd, flags)? {
            self.gone.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Before the program waits on the descriptor in a way of its own: makes it readable only if an SDU waits.
    pub(crate) fn announce_wait(&self, shared: &Shared, fd: RawFd) {
        if let Ok(mut turn) = shared.receive.lock() {
            let (ring, _) = self.receive.get(&mut turn);
            ring.catch_up();
            if ring.waiting() == 0 {
                self.settle(shared, fd, ring);
            }
        }
    }

    /// Octets of the first SDU that waits.
    ///
    /// # Errors
    /// `EDEADLK` in a signal handler.
    pub(crate) fn first_waiting(&self, shared: &Shared) -> Result<usize, Errno> {
        let mut turn = shared.receive.lock()?;
        let (ring, _) = self.receive.get(&mut turn);
        ring.catch_up();
        Ok(ring.peek().map_or(0, |d| d.head.octets as usize))
    }

    /// Octets that may be sent before the ring is full.
    ///
    /// # Errors
    /// `EDEADLK` in a signal handler.
    pub(crate) fn send_room(&self, shared: &Shared, fd: RawFd) -> Result<usize, Errno> {
        let room = self.in_turn(shared, fd, |ring| ring.room())?;
        Ok(room as usize * self.segment.geometry().buffer_octets as usize)
    }

    /// Waits until what this process has sent has left; not for what others, who share the socket, send meanwhile.
    pub(crate) fn flush(&self, shared: &Shared, fd: RawFd) {
        if !self.has_sent.load(Ordering::Relaxed) {
            return;
        }
        let begin = Instant::now();
        let mut until = None;
        while begin.elapsed() < LINGER && !self.gone.load(Ordering::Relaxed) {
            let Ok((pushed, consumed)) = self.in_turn(shared, fd, |ring| (ring.pushed(), ring.consumed())) else {
                return;
            };
            let until = *until.get_or_insert(pushed);
            if until.wrapping_sub(consumed).cast_signed() <= 0 || self.session_is_over() {
                return;
            }
            self.wake_host();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn session_is_over(&self) -> bool {
        let mut fds = [PollFd::new(&self.session, PollFlags::empty())];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
    }

    /// Gives the circuit back, now.
    pub(crate) fn close(&self) {
        if !self.session_is_over() {
            self.session.close(self.channel);
        }
    }
}
