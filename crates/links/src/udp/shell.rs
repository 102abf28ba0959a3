//! A UDP link's socket. Datagrams from other addresses than the peer's are dropped by the system.

use super::buffers::set_buffers;
use super::heartbeat::Heartbeats;
use super::{Codec, Form, Written, buffer_octets};
use crate::sys::datagrams::{self, Inbox, MAX_SENT, MAX_SENT_OCTETS};
use net::external::External;
use net::node::NodeIo;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wire::{CellRate, Counters, DropReason, Time};

/// Times that the socket is read or written in one call at most, so that a fast peer leaves time to others.
const CALLS: usize = 4;

/// Errors of sending datagrams as one message that sending them one by one may not have.
const NOT_TOGETHER: [i32; 5] = [libc::EIO, libc::EINVAL, libc::EMSGSIZE, libc::ENOPROTOOPT, libc::EOPNOTSUPP];

/// See the module's head.
#[derive(Debug)]
pub struct Shell {
    socket: UdpSocket,
    peer: SocketAddr,
    codec: Codec,
    /// The socket took no more at the last attempt.
    full: bool,
    inbox: Inbox,
    outbox: Box<[u8]>,
    /// The system takes many datagrams as one message.
    together: bool,
    /// When it was run last.
    now: Time,
}

impl Shell {
    /// Binds to `local` and sends to `peer`.
    ///
    /// # Errors
    /// As the system says.
    pub fn new(local: SocketAddr, peer: SocketAddr, form: Form) -> io::Result<Self> {
        Shell::with_socket(UdpSocket::bind(local)?, peer, form)
    }

    /// The same with a socket that is bound already.
    ///
    /// # Errors
    /// As the system says.
    pub fn with_socket(socket: UdpSocket, peer: SocketAddr, form: Form) -> io::Result<Self> {
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        set_buffers(&socket, buffer_octets(None));
        // An older system hands over one by one.
        datagrams::receive_together(socket.as_fd());
        Ok(Shell {
            socket,
            peer,
            codec: Codec::starting_at(form, rand::random()),
            full: false,
            inbox: Inbox::new(),
            outbox: vec![0; MAX_SENT_OCTETS].into_boxed_slice(),
            together: true,
            now: Time::ZERO,
        })
    }

    /// Datagrams that the system dropped at this socket: nobody had read those before them, or their checksum was
    /// wrong.
    pub fn overflowed_datagrams(&self) -> u32 {
        datagrams::dropped(self.socket.as_fd()).unwrap_or(0)
    }

    /// What datagrams have shown.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Datagrams that are here go to the link as far as it has room for them. True if all have gone.
    fn deliver(&mut self, io: &mut NodeIo<'_>) -> bool {
        while let Some(datagram) = self.inbox.first() {
            if !self.codec.release(io) {
                return false;
            }
            self.codec.receive(datagram, io);
            self.inbox.pass();
        }
        true
    }

    /// Reads what has come, as far as the link has room for it. True if all has gone there, and no more has come.
    fn read(&mut self, io: &mut NodeIo<'_>) -> bool {
        for _ in 0..CALLS {
            if !self.deliver(io) {
                return false;
            }
            if !self.inbox.fill(self.socket.as_fd()) {
                return true;
            }
        }
        self.deliver(io);
        false
    }

    /// Sends the heartbeat that is due, and notices a peer that is silent once all that has come is read.
    fn watch(&mut self, io: &mut NodeIo<'_>, now: Time) {
        let missed = |codec: &Codec| codec.heartbeats().and_then(Heartbeats::missed_at).is_some_and(|at| at <= now);
        let all_read = !missed(&self.codec) || self.read(io);
        let Some(heartbeats) = self.codec.heartbeats_mut() else { return };
        if all_read {
            heartbeats.handle_timeout(now)
        } else {
            heartbeats.handle_unread(now)
        }
        if let Some(heartbeat) = heartbeats.poll_transmit(now) {
            // One that is lost is followed by the next. The first attempt may be answered with an error of an earlier
            // datagram.
            let octets = heartbeat.emit();
            let _ = self.socket.send(&octets).or_else(|_| self.socket.send(&octets));
        }
    }

    /// Sends what has been written; gives how many datagrams and cells went. None: the socket is full.
    fn send(&mut self, written: &Written, io: &mut NodeIo<'_>) -> Option<(usize, usize)> {
        let octets = &self.outbox[..written.octets];
        let datagrams = octets.len().div_ceil(written.segment);
        // An error may be the answer to an earlier datagram, such as that nobody listened there: the next attempt is
        // this one's own.
        for last in [false, true] {
            let sent = if self.together {
                datagrams::send_together(self.socket.as_fd(), octets, written.segment).map(|()| datagrams)
            } else {
                datagrams::send_each(self.socket.as_fd(), octets, written.segment)
            };
            match sent {
                Ok(n) => return Some((n, written.cells.min(n * self.codec.max_cells()))),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock) => return None,
                // The device cannot take messages apart, or is too narrow for one of its datagrams.
                Err(e) if self.together && NOT_TOGETHER.map(Some).contains(&e.raw_os_error()) => self.together = false,
                Err(_) if last => break,
                Err(_) => {}
            }
        }
        let cells = written.cells.min(self.codec.max_cells());
        io.count_drops(0, DropReason::LinkDown, cells as u64);
        Some((1, cells))
    }
}

impl External for Shell {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn keeps_fd(&self) -> bool {
        true
    }

    fn wants_read(&self) -> bool {
        self.inbox.first().is_none()
    }

    fn wants_write(&self) -> bool {
        self.full
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        self.read(io);
    }

    fn handle_writable(&mut self, io: &mut NodeIo<'_>, now: Time) {
        self.full = false;
        self.run(io, now);
    }

    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        self.now = now;
        let before = io.room(0);
        self.watch(io, now);
        self.codec.release(io);
        self.deliver(io);
        // What is overdue may be at the socket.
        if self.codec.poll_timeout().is_some_and(|until| until <= now) && self.read(io) {
            self.codec.handle_timeout(io);
        }
        let mut busy = io.room(0) != before;
        for _ in 0..CALLS {
            if self.full {
                break;
            }
            self.codec.drop_unfit(io);
            let Some(written) = self.codec.fill(io, MAX_SENT, &mut self.outbox) else { break };
            match self.send(&written, io) {
                Some((datagrams, cells)) => {
                    self.codec.sent(datagrams, cells, io);
                    busy = true;
                }
                None => self.full = true,
            }
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        // Where the link has no room, time does not help.
        let order = self.codec.poll_timeout().filter(|_| self.inbox.first().is_none());
        let heartbeats = self.codec.heartbeats().and_then(Heartbeats::poll_timeout);
        order.into_iter().chain(heartbeats).min()
    }

    fn is_up(&self) -> bool {
        self.codec.heartbeats().is_none_or(Heartbeats::is_up)
    }

    fn set_signal(&mut self, signal: bool) {
        if let Some(heartbeats) = self.codec.heartbeats_mut() {
            heartbeats.set_signal(signal);
        }
    }

    fn set_rate(&mut self, rate: Option<CellRate>) {
        set_buffers(&self.socket, buffer_octets(rate));
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let mut datagrams = Counters::default();
        let overflowed = u64::from(self.overflowed_datagrams());
        // Those that the system dropped are missing in the sequence too.
        datagrams.drop_n(DropReason::Sequence, self.codec.lost_datagrams().saturating_sub(overflowed));
        datagrams.drop_n(DropReason::SocketFull, overflowed);
        vec![("datagrams", datagrams)]
    }

    fn status(&self) -> String {
        let local = self.socket.local_addr().map(|a| a.to_string()).unwrap_or_default();
        let mut text = format!("{local} to {}", self.peer);
        let told = [
            (self.codec.lost_datagrams(), "missing"),
            (self.codec.late_datagrams(), "late"),
            (self.codec.repeated_datagrams(), "twice"),
            (self.overflowed_datagrams().into(), "dropped by the system"),
        ];
        for (n, what) in told.into_iter().filter(|(n, _)| *n > 0) {
            text += &format!(", {n} datagrams {what}");
        }
        if let Some(trouble) = self.codec.heartbeats().and_then(|heartbeats| heartbeats.trouble(self.now)) {
            text += &format!(", {trouble}");
        }
        text
    }
}
