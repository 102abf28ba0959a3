//! A porter: the process that has one user's connections.
//!
//! It passes packets between each client and the service, unread but for their first word. Of the descriptors that come
//! along it passes on memory files, keeps sockets as bells, carries octets for captures, and closes all others. It seals the
//! memory that the service shares with a client once the client has mapped it. Closing a descriptor, or sealing memory that the
//! client is busy with, may take as long as the client likes: then this user waits, and nobody else.

use super::board::{Bells, Board, SLOTS, serve};
use super::frame::{self, Frame, Got, HAS_BELL, HEAD, KEEP_BELL, MAKE_PAGES, REFUSED_FD, SEAL_MEMORY};
use crate::sys;
use endpoint::control::{Refusal, Response};
use endpoint::shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The user has all connections that it may have.
pub(super) const NO_SLOT: u32 = u32::MAX;
/// Connections that have said nothing yet; the oldest goes when one more comes.
const MAX_SILENT: usize = 32;
/// A connection says something within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packets of one connection in one turn.
const TURN: usize = 16;
/// Captures of one user at the same time.
const MAX_CARRIERS: usize = 16;
const PIECE_OCTETS: usize = 64 * 1024;

/// A connection's place among its user's. It goes back to the gate once the connection and its captures have ended:
/// a porter whose places are all back is ended.
struct Slot {
    number: u32,
    gate: Arc<OwnedFd>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The gate's queue holds a word for each slot.
        let _ = frame::send(&*self.gate, &[&self.number.to_ne_bytes()], &[]);
    }
}

/// One connection.
struct Guest {
    slot: Arc<Slot>,
    /// The client's socket; `None` once it has gone.
    client: Option<OwnedFd>,
    /// The way to the service.
    line: OwnedFd,
    inward: Option<Frame>,
    outward: Option<Frame>,
    /// Memory that has been passed to the client and is to be sealed, and whether its pages are to be made.
    unsealed: Vec<(OwnedFd, bool)>,
    silent_since: Option<Instant>,
}

/// What a packet's way out found.
enum Passed {
    Yes,
    Full,
    Gone,
}

/// The porter's whole life.
pub(super) fn run(gate: OwnedFd, board: Board) {
    sys::die_with_parent();
    let gate = Arc::new(gate);
    let bells: Bells = Arc::new(Mutex::new(vec![None; SLOTS as usize]));
    let ringers = bells.clone();
    let board = Arc::new(board);
    if std::thread::Builder::new().spawn(move || serve(&board, &ringers)).is_err() {
        return;
    }
    let carriers = Arc::new(AtomicUsize::new(0));
    let mut guests: Vec<Guest> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(&*gate, PollFlags::IN)];
        for guest in &guests {
            guest.watch(&mut fds);
        }
        let silent = guests.iter().filter_map(|g| g.silent_since).min();
        let left = silent.map(|since| (since + PATIENCE).saturating_duration_since(Instant::now()));
        let spec = left.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let _ = poll(&mut fds, spec.as_ref());
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let mut place = 1;
        guests.retain_mut(|guest| {
            let has_client = guest.client.is_some();
            let (line, client) = (ready[place], if has_client { ready[place + 1] } else { PollFlags::empty() });
            place += if has_client { 2 } else { 1 };
            let stays = guest.turn(line, client, &bells, &carriers);
            if !stays {
                guest.end(&bells);
            }
            stays
        });
        if !ready[0].is_empty() && !welcome(&gate, &mut guests) {
            return;
        }
        dismiss_the_silent(&mut guests, &bells);
    }
}

/// Takes what the gate has for this user. False if the gate has gone.
fn welcome(gate: &Arc<OwnedFd>, guests: &mut Vec<Guest>) -> bool {
    loop {
        let frame = match frame::receive(&**gate, 0) {
            Got::Frame(frame) => frame,
            Got::Nothing => return true,
            Got::End => return false,
        };
        let Some(number) = frame.octets.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word)) else { continue };
        let mut fds = frame.fds.into_iter();
        let (Some(client), Some(line)) = (fds.next(), fds.next()) else { continue };
        if number == NO_SLOT {
            let reason = format!("this user has {SLOTS} connections, which is the limit");
            let refused = Response::Refused { reason, kind: Refusal::Limit };
            let _ = frame::send(&client, &[&serde_json::to_vec(&refused).unwrap_or_default()], &[]);
            continue;
        }
        let slot = Arc::new(Slot { number, gate: gate.clone() });
        let silent_since = Some(Instant::now());
        guests.push(Guest {
            slot,
            client: Some(client),
            line,
            inward: None,
            outward: None,
            unsealed: Vec::new(),
            silent_since,
        });
    }
}

fn dismiss_the_silent(guests: &mut [Guest], bells: &Bells) {
    let now = Instant::now();
    let mut silent: Vec<(Instant, usize)> =
        guests.iter().enumerate().filter_map(|(i, g)| g.silent_since.map(|since| (since, i))).collect();
    silent.sort_unstable();
    let many = silent.len().saturating_sub(MAX_SILENT);
    for (n, (since, i)) in silent.into_iter().enumerate() {
        if n < many || now.duration_since(since) >= PATIENCE {
            guests[i].leave(bells);
        }
    }
}

impl Guest {
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        fds.push(PollFd::new(&self.line, flags(self.outward.is_none(), self.inward.is_some())));
        if let Some(client) = &self.client {
            fds.push(PollFd::new(client, flags(self.inward.is_none(), self.outward.is_some())));
        }
    }

    /// Passes on what there is. False if the connection is over.
    fn turn(&mut self, line: PollFlags, client: PollFlags, bells: &Bells, carriers: &Arc<AtomicUsize>) -> bool {
        if line.is_empty() && client.is_empty() {
            return true;
        }
        for _ in 0..TURN {
            match self.pass_outward(bells) {
                Passed::Yes => {}
                Passed::Full => break,
                Passed::Gone => return false,
            }
        }
        for _ in 0..TURN {
            match self.pass_inward(bells, carriers) {
                Passed::Yes => {}
                Passed::Full => break,
                Passed::Gone => {
                    self.leave(bells);
                    break;
                }
            }
        }
        true
    }

    /// From the service to the client. Gone: the service has ended the connection.
    fn pass_outward(&mut self, bells: &Bells) -> Passed {
        let mut frame = match self.outward.take() {
            Some(frame) => frame,
            None => match frame::receive(&self.line, HEAD) {
                Got::Frame(frame) => frame,
                Got::Nothing => return Passed::Full,
                Got::End => return Passed::Gone,
            },
        };
        let wanted = std::mem::take(&mut frame.head[0]);
        if wanted & KEEP_BELL != 0
            && let Some(bell) = frame.fds.pop()
        {
            self.set_bell(Some(bell), bells);
        }
        if wanted & SEAL_MEMORY != 0
            && let Some(memory) = frame.fds.first().and_then(|fd| fd.try_clone().ok())
        {
            self.unsealed.push((memory, wanted & MAKE_PAGES != 0));
        }
        let Some(client) = &self.client else { return Passed::Yes };
        let fds: Vec<_> = frame.fds.iter().map(OwnedFd::as_fd).collect();
        match frame::send(client, &[&frame.octets], &fds) {
            Err(Errno::AGAIN) => {
                drop(fds);
                self.outward = Some(frame);
                Passed::Full
            }
            // A client that has gone is seen where it is read.
            _ => Passed::Yes,
        }
    }

    /// From the client to the service. Gone: the client is.
    fn pass_inward(&mut self, bells: &Bells, carriers: &Arc<AtomicUsize>) -> Passed {
        let frame = match self.inward.take() {
            Some(frame) => frame,
            None => {
                let Some(client) = &self.client else { return Passed::Full };
                match frame::receive(client, 0) {
                    Got::Frame(frame) => self.sort(frame, bells, carriers),
                    Got::Nothing => return Passed::Full,
                    Got::End => return Passed::Gone,
                }
            }
        };
        self.silent_since = None;
        let fds: Vec<_> = frame.fds.iter().map(OwnedFd::as_fd).collect();
        match frame::send(&self.line, &[&frame.head, &frame.octets], &fds) {
            Ok(()) => Passed::Yes,
            Err(Errno::AGAIN) => {
                drop(fds);
                self.inward = Some(frame);
                Passed::Full
            }
            Err(_) => Passed::Gone,
        }
    }

    /// Keeps of a packet's descriptors what the service may have.
    fn sort(&mut self, mut frame: Frame, bells: &Bells, carriers: &Arc<AtomicUsize>) -> Frame {
        for (memory, pages) in self.unsealed.drain(..) {
            // What is not sealed in the end the service does not use.
            let made = if pages { shared::make_pages(&memory) } else { Ok(()) };
            let _ = made.and_then(|()| shared::seal(&memory));
        }
        let manages = frame.octets.trim_ascii_start().starts_with(b"{\"manage\"");
        for fd in std::mem::take(&mut frame.fds) {
            let is_socket = sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX)
                && sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
            if sys::is_memory_file(&fd) {
                frame.fds.push(fd);
            } else if is_socket && manages {
                match carry(fd, self.slot.clone(), carriers) {
                    Some(end) => frame.fds.push(end),
                    None => frame.head[0] |= REFUSED_FD,
                }
            } else if is_socket {
                self.set_bell(Some(fd), bells);
            } else {
                frame.head[0] |= REFUSED_FD;
            }
        }
        if self.bell_slot(bells, |bell| bell.is_some()) {
            frame.head[0] |= HAS_BELL;
        }
        frame
    }

    fn bell_slot<R>(&self, bells: &Bells, f: impl FnOnce(&mut Option<Arc<OwnedFd>>) -> R) -> R {
        f(&mut bells.lock().unwrap_or_else(PoisonError::into_inner)[self.slot.number as usize])
    }

    fn set_bell(&self, bell: Option<OwnedFd>, bells: &Bells) {
        // The old one ends after the lock is free.
        let _old = self.bell_slot(bells, |slot| std::mem::replace(slot, bell.map(Arc::new)));
    }

    /// The client has gone, or has to: the service hears of it, and the slot stays until it has forgotten the connection.
    fn leave(&mut self, bells: &Bells) {
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Write);
        self.silent_since = None;
        self.set_bell(None, bells);
        self.inward = None;
        self.client = None;
    }

    fn end(&mut self, bells: &Bells) {
        self.set_bell(None, bells);
        self.client = None;
    }
}

/// Carries octets from the service to a client's socket, and the client's end to the service: on a thread of its own.
/// Gives the service's end.
fn carry(to: OwnedFd, slot: Arc<Slot>, carriers: &Arc<AtomicUsize>) -> Option<OwnedFd> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
    if carriers.fetch_add(1, Ordering::Relaxed) >= MAX_CARRIERS {
        carriers.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let count = carriers.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        carry_on(&ours, &to);
        drop((ours, to));
        count.fetch_sub(1, Ordering::Relaxed);
        drop(slot);
    });
    if thread.is_err() {
        carriers.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    Some(theirs)
}

fn carry_on(from: &OwnedFd, to: &OwnedFd) {
    let _ = sockopt::set_socket_send_buffer_size(to, 4 * PIECE_OCTETS);
    let mut piece = vec![0; PIECE_OCTETS];
    let mut pending = 0..0;
    let mut client_talks = true;
    loop {
        let out = if pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let talk = if client_talks { PollFlags::IN } else { PollFlags::empty() };
        let read = if pending.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [PollFd::new(from, read), PollFd::new(to, out | talk)];
        if !matches!(poll(&mut fds, None), Ok(_) | Err(Errno::INTR)) {
            return;
        }
        let (service, client) = (fds[0].revents(), fds[1].revents());
        if client.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return;
        }
        if client_talks && client.intersects(PollFlags::IN | PollFlags::HUP) {
            // Whatever it says ends the capture; it goes on reading until the service has ended it.
            client_talks = false;
            let _ = rustix::net::shutdown(from, rustix::net::Shutdown::Write);
        } else if client.contains(PollFlags::HUP) {
            return;
        }
        if pending.is_empty() && !service.is_empty() {
            match rustix::net::recv(from, &mut piece[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
                    return;
                }
                Ok((n, _)) => pending = 0..n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
        if !pending.is_empty() {
            match rustix::net::send(to, &piece[pending.clone()], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => pending.start += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
