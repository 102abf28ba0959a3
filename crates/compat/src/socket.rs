//! A socket of `AF_ATMPVC` or `AF_ATMSVC`: its settings, and its circuit once it is connected.

use crate::abi::{ANY, Address, FIRST_USER_VCI};
use crate::contract;
use crate::data::Live;
use crate::descriptors::{self, Hidden};
use crate::interfaces;
use crate::qos::Qos;
use crate::service::{Failed, Session, complain};
use crate::shared::{Estate, Mapped, Settings, Shared, Stage};
use crate::system::{empty, fill, is_capable};
use rustix::fd::{AsFd, OwnedFd, RawFd};
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::thread::CapabilitySet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};
use wire::CircuitId;

/// Why no call is made or taken, and what the kernel says for want of a signalling daemon.
pub(crate) fn no_calls() -> Errno {
    complain("signalled circuits (AF_ATMSVC) are not served: use permanent ones, itf.vpi.vci");
    Errno::UNATCH
}

/// A socket.
pub(crate) struct Socket {
    pub(crate) family: i32,
    pub(crate) kind: i32,
    shared: Mapped,
    /// The program's end of the pair, once more: what the program closes, or opens anew under the number, while a call
    /// of another thread is under way is then nothing to that call.
    near: Hidden<OwnedFd>,
    /// The other end of the pair, until the host has it.
    far: Mutex<Option<Hidden<OwnedFd>>>,
    live: OnceLock<Live>,
    /// Of a socket that listens: the connection by which it is presented calls.
    pub(crate) listener: OnceLock<Session>,
    /// Of a program's control socket: the connection by which it reports.
    pub(crate) reports: OnceLock<Session>,
}

impl Socket {
    /// A new one, and the descriptor for the program.
    ///
    /// # Errors
    /// No memory or no descriptor is left.
    pub(crate) fn create(
        family: i32,
        kind: i32,
        protocol: i32,
        flags: SocketFlags,
    ) -> Result<(OwnedFd, Socket), Errno> {
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // A short queue: filling it, which says that the send ring is full, is quick.
        sockopt::set_socket_send_buffer_size(&near, 1)?;
        let (own, far) = (Hidden::new(&near)?, Hidden::new(&far)?);
        let shared = Mapped::create(protocol)?;
        // Nobody can send before the QoS says so.
        fill(&near);
        let near_inode = rustix::fs::fstat(&near)?.st_ino;
        let zero = *shared.estate.lock()?;
        *shared.estate.lock()? = Estate { near_inode, family, kind, far: far.number(), ..zero };
        let socket = Socket {
            family,
            kind,
            shared,
            near: own,
            far: Mutex::new(Some(far)),
            live: OnceLock::new(),
            listener: OnceLock::new(),
            reports: OnceLock::new(),
        };
        socket.set_inherited(!flags.contains(SocketFlags::CLOEXEC));
        Ok((near, socket))
    }

    /// A socket of the program before an `exec`, whose page is `page`; `end` finds a descriptor of the program's end by
    /// the kernel's number of it.
    ///
    /// # Errors
    /// The page or the descriptors are not what they were, or the program's end is not among them. What this library
    /// kept for the socket is closed then.
    pub(crate) fn inherit(page: OwnedFd, end: impl FnOnce(u64) -> Option<RawFd>) -> Result<Socket, Errno> {
        let shared = Mapped::inherit(page)?;
        let estate = *shared.estate.lock()?;
        let settings = *shared.settings.lock()?;
        let (live, listener) = (OnceLock::new(), OnceLock::new());
        let mut far = None;
        if matches!(settings.stage, Stage::LISTENING | Stage::SIGNALLING) {
            let _ = listener.set(Session::inherit(descriptors::inherit(estate.session).ok_or(Errno::BADF)?)?);
        } else if settings.connected {
            let circuit = settings.address.circuit().ok_or(Errno::INVAL)?;
            let _ = live.set(Live::inherit(&estate, circuit, settings.qos)?);
        } else {
            far = descriptors::inherit(estate.far).map(Hidden::here).transpose()?;
        }
        let near = Hidden::new(descriptors::borrow(end(estate.near_inode).ok_or(Errno::BADF)?))?;
        // Where a fork went before this, it has been counted; where a program was spawned, it has not. One owner too
        // many means only that the circuit is closed by the end of its connection.
        shared.owners.fetch_add(1, Ordering::AcqRel);
        let (family, kind) = (estate.family, estate.kind);
        Ok(Socket { family, kind, shared, near, far: Mutex::new(far), live, listener, reports: OnceLock::new() })
    }

    /// Whether a program that this one starts by `exec` gets the socket.
    pub(crate) fn set_inherited(&self, inherited: bool) {
        let Ok(estate) = self.shared.estate.lock() else { return };
        let all = [self.shared.fd.number(), estate.far, estate.session, estate.memory, estate.wake_host];
        // Zero: there is none.
        for fd in all.into_iter().filter(|fd| *fd > 0 && descriptors::is_hidden(*fd)) {
            descriptors::set_inherited(fd, inherited);
        }
    }

    /// Before the circuit is open: makes the program's end writable. An end that was so stays so.
    pub(crate) fn set_writable(&self, writable: bool) {
        if let (true, Ok(Some(far))) = (writable, self.far.lock().as_deref()) {
            empty(&far.0);
        }
    }

    /// What is shared with forked processes.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The circuit.
    ///
    /// # Errors
    /// `ENOTCONN`.
    #[inline]
    pub(crate) fn live(&self) -> Result<&Live, Errno> {
        self.live.get().ok_or(Errno::NOTCONN)
    }

    /// The address of a connected socket.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn address(&self) -> Result<Address, Errno> {
        let settings = self.shared.settings.lock()?;
        if settings.connected { Ok(settings.address) } else { Err(Errno::NOTCONN) }
    }

    /// `bind` and `connect`, which are the same on a PVC.
    ///
    /// # Errors
    /// As the kernel; beyond that `EADDRNOTAVAIL`: the network has no such circuit at this host.
    pub(crate) fn connect(&self, octets: &[u8]) -> Result<(), Errno> {
        let mut address = Address::parse(octets)?;
        let mut settings = self.shared.settings.lock()?;
        if !settings.has_qos {
            return Err(Errno::BADFD);
        }
        if settings.partial {
            let before = settings.address;
            if i32::from(before.vpi) != crate::abi::UNSPEC {
                address.vpi = before.vpi;
            }
            if before.vci != crate::abi::UNSPEC {
                address.vci = before.vci;
            }
        }
        if settings.connected {
            return Err(Errno::ISCONN);
        }
        if address.vpi == 0 && address.vci == 0 {
            return Err(Errno::INVAL);
        }
        if address.is_partial() && settings.partial {
            return Err(Errno::INVAL);
        }
        if settings.qos.has_any_class() {
            return Err(Errno::INVAL);
        }
        let (itf, host) = interfaces::host(address.itf)?;
        address.itf = itf;
        address.check_range()?;
        if (1..FIRST_USER_VCI).contains(&address.vci) && !is_capable(CapabilitySet::NET_BIND_SERVICE) {
            return Err(Errno::PERM);
        }
        let mut qos = settings.qos;
        qos.settle()?;
        if address.is_partial() {
            (settings.address, settings.partial) = (address, true);
            return Ok(());
        }
        let opened = self.open(&mut settings, host, address, qos);
        opened.map_err(|Failed { errno, why }| {
            complain(&format!("{}.{}.{} at {host}: {why}", address.itf, address.vpi, address.vci));
            errno
        })
    }

    fn open(&self, settings: &mut Settings, host: &str, wanted: Address, qos: Qos) -> Result<(), Failed> {
        let mut far = self.far.lock().map_err(|_| Errno::BADFD)?;
        // Another process that shares this socket has connected it, or is about to: the kernel's other answer.
        let bell = far.as_ref().ok_or(Errno::INVAL)?;
        let mut last = None;
        for circuit in candidates(wanted)? {
            match Live::connect(host, circuit, qos, bell) {
                Ok(live) => {
                    settings.address =
                        Address { vpi: circuit.vpi.get() as i16, vci: i32::from(circuit.vci.get()), ..wanted };
                    (settings.connected, settings.partial, settings.qos) = (true, false, qos);
                    self.begin_live(live);
                    *far = None;
                    contract::compare(host, settings.address, circuit, &qos);
                    return Ok(());
                }
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or(Failed { errno: Errno::ADDRINUSE, why: "no circuit is free".into() }))
    }

    /// Has the circuit of a call, by the connection whose call it is.
    ///
    /// # Errors
    /// The service says no.
    pub(crate) fn open_call(&self, session: Session, host: &str, address: Address, qos: Qos) -> Result<&Live, Failed> {
        let mut far = self.far.lock().map_err(|_| Errno::BADFD)?;
        let bell = far.as_ref().ok_or(Errno::INVAL)?;
        let circuit = address.circuit().ok_or(Errno::PROTO)?;
        let live = Live::connect_by(session, host, circuit, qos, bell)?;
        let mut settings = self.shared.settings.lock()?;
        (settings.address, settings.connected, settings.qos, settings.has_qos) = (address, true, qos, true);
        if settings.stage == Stage::CALLING {
            settings.stage = Stage::CALLED;
        }
        drop(settings);
        let bell = far.take();
        self.begin_live(live);
        // Whoever waits for this finds all the rest done.
        if let Some(bell) = bell.filter(|_| qos.direction().sends()) {
            empty(&bell.0);
        }
        self.live.get().ok_or_else(|| Errno::ISCONN.into())
    }

    /// From now on the host's is the only other end: when the host goes, the program's end says so.
    fn begin_live(&self, live: Live) {
        if let Ok(mut estate) = self.shared.estate.lock() {
            live.bequeath(&mut estate);
            estate.far = 0;
        }
        let _ = self.live.set(live);
        let kept = rustix::io::fcntl_getfd(&self.shared.fd.0);
        self.set_inherited(kept.is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)));
    }

    /// Has the program's end, under its numbers `ends`, be a connection by which calls are presented: it can be read
    /// when there is one.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub(crate) fn begin_listening(&self, session: Session, ends: &[RawFd]) -> Result<(), Errno> {
        let mode = rustix::fs::fcntl_getfl(&self.near.0)?;
        rustix::fs::fcntl_setfl(session.as_fd(), mode)?;
        for fd in ends {
            let flags = rustix::io::fcntl_getfd(descriptors::borrow(*fd))?;
            descriptors::replace(*fd, session.as_fd())?;
            rustix::io::fcntl_setfd(descriptors::borrow(*fd), flags)?;
        }
        descriptors::replace(self.near(), session.as_fd())?;
        let mut estate = self.shared.estate.lock()?;
        (estate.session, estate.far) = (session.number(), 0);
        estate.near_inode = rustix::fs::fstat(session.as_fd())?.st_ino;
        drop(estate);
        let _ = self.listener.set(session);
        let kept = rustix::io::fcntl_getfd(&self.shared.fd.0);
        self.set_inherited(kept.is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)));
        if let Ok(mut far) = self.far.lock() {
            *far = None;
        }
        Ok(())
    }

    /// Before a fork: one process more will have the socket.
    pub(crate) fn note_fork(&self) {
        self.shared.owners.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of this library's own copy of the program's end.
    pub(crate) fn near(&self) -> RawFd {
        self.near.number()
    }

    /// Before a wait on the descriptor; `watched` if others may follow unannounced.
    pub(crate) fn announce_wait(&self, watched: bool) {
        if watched {
            self.shared.watched.store(true, Ordering::Relaxed);
        }
        if let Some(live) = self.live.get() {
            live.announce_wait(&self.shared, self.near());
        }
    }

    /// Before another program takes the process: what was sent leaves.
    pub(crate) fn flush(&self) {
        if let Some(live) = self.live.get() {
            live.flush(&self.shared, self.near());
        }
    }

    /// At the end of the process: what was sent leaves, and the circuit is free for whoever comes next.
    pub(crate) fn finish(&self) {
        if let Some(live) = self.live.get() {
            live.flush(&self.shared, self.near());
            if self.shared.owners.load(Ordering::Acquire) == 1 {
                live.close();
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.shared.owners.load(Ordering::Acquire) == 1 {
            self.finish();
        }
        self.shared.owners.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The circuits that an address may mean: itself, or with wildcards those of the host that nobody has open.
fn candidates(address: Address) -> Result<Vec<CircuitId>, Failed> {
    let (vpi, vci) = (i32::from(address.vpi), address.vci);
    if vpi != ANY && vci != ANY {
        return Ok(address.circuit().into_iter().collect());
    }
    let fits = |wanted: i32, value: u16| wanted == ANY || wanted == i32::from(value);
    let circuits = interfaces::ask(i32::from(address.itf))?.circuits.into_iter().filter(|c| c.open.is_none());
    let circuits = circuits.map(|c| c.id).filter(|id| fits(vpi, id.vpi.get()) && fits(vci, id.vci.get()));
    Ok(circuits.filter(|id| vci != ANY || i32::from(id.vci.get()) >= FIRST_USER_VCI).collect())
}
