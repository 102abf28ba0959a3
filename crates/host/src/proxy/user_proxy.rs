//! A user proxy: the process that has one user's connections.
//!
//! It passes packets between each client and the service, unread but for their first word. Of the descriptors that come
//! along it passes on memory files, keeps sockets as bells, carries octets for captures, and closes all others. It
//! seals the memory that the service shares with a client once the client has mapped it, and sees for the service
//! whether memory that a client shares has all its pages. Closing a descriptor may take as long as the client likes,
//! and threads of the user proxy's do it ([`super::closer`]). Sealing memory that the client is busy with, and looking
//! at it, may, too: then this user waits, and nobody else.
//!
//! A connection ends when no process has its other end. So no descriptor of a client's stays unread in a socket that
//! the user proxy has: it might be that end, or lead to it. Where one lies that is not received at once
//! ([`super::watch`]), its connection ends.

use super::bell_table::{BellTable, Bells, SLOTS, serve};
use super::carrier::{self, Carriers};
use super::closer::Closer;
use super::frame::{
    self, Frame, HAS_BELL, HEAD, IS_WHOLE, KEEP_BELL, MAKE_PAGES, MAX_FDS, REFUSED_FD, ReceiveResult, SEAL_MEMORY,
};
use super::slot::{COUNT, Places, Slot};
use super::watch::Watch;
use crate::sys;
use endpoint::control::{Refusal, Response};
use endpoint::direct::memory::is_whole;
use endpoint::times::timespec;
use endpoint::{passed, shared};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketType, getpeername, shutdown, sockopt};
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
/// Until the next look whether a client has taken its answers, or the system has room for a packet, of which nothing
/// tells.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// While there are connections, circles of sockets in which their other ends may lie are collected this often.
const COLLECT: Duration = Duration::from_secs(1);

/// One connection.
struct Guest {
    slot: Arc<Slot>,
    /// The client's socket; `None` once it has gone.
    client: Option<OwnedFd>,
    /// The way to the service.
    line: OwnedFd,
    inward: Option<Frame>,
    outward: Option<Frame>,
    /// `outward` waits for what nothing tells of: it holds memory, and the client has not taken all before it (one who
    /// takes nothing holds little), or the system had no room for it.
    withheld: bool,
    /// `inward` waits for what nothing tells of: the system had no room for its descriptors.
    withheld_inward: bool,
    /// Memory that has been passed to the client, and what is to be done with it: [`MAKE_PAGES`], [`SEAL_MEMORY`].
    unfinished: Vec<(OwnedFd, u8)>,
    silent_since: Option<Instant>,
}

/// What all connections of a user proxy have in common.
struct Yard {
    bells: Bells,
    carriers: Carriers,
    closer: Closer,
    watch: Watch,
}

/// What a packet's way out found.
enum Passed {
    Yes,
    Full,
    Gone,
}

/// The whole life of a user's proxy.
pub(super) fn run(user: u32, acceptor: OwnedFd, board: BellTable) {
    // What the system does not have for it the acceptor has told.
    let _ = sys::confine(sys::Role::UserProxy { of: user });
    let acceptor = Arc::new(acceptor);
    if end_with(acceptor.clone()).is_err() {
        return;
    }
    let places = Places::new(acceptor.clone());
    let bells: Bells = Arc::new(Mutex::new(vec![None; SLOTS as usize]));
    let ringers = bells.clone();
    let board = Arc::new(board);
    if std::thread::Builder::new().spawn(move || serve(&board, &ringers)).is_err() {
        return;
    }
    let Ok(watch) = Watch::new() else { return };
    let yard = Yard { bells, carriers: Carriers::default(), closer: Closer::default(), watch };
    let mut guests: Vec<Guest> = Vec::new();
    let mut collects_at = Instant::now();
    loop {
        let owes = if places.flush() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds =
            vec![PollFd::new(&*acceptor, PollFlags::IN | owes), PollFd::new(&yard.watch, yard.watch.wanted())];
        for guest in &guests {
            guest.watch(&mut fds);
        }
        let silent = guests.iter().filter_map(|g| g.silent_since).min();
        let left = silent.map(|since| (since + PATIENCE).saturating_duration_since(Instant::now()));
        let left = left.into_iter().chain(guests.iter().any(Guest::is_withheld).then_some(LOOK_AGAIN));
        let closed = yard.closer.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.chain(closed).chain(yard.watch.timeout());
        let collects_in = collects_at.saturating_duration_since(Instant::now());
        let left = left.chain((!guests.is_empty()).then_some(collects_in)).min();
        let spec = left.map(timespec);
        let _ = poll(&mut fds, spec.as_ref());
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        if closed.is_some() && yard.closer.deadline().is_some_and(|at| at <= Instant::now()) {
            return guests.iter().for_each(Guest::cut);
        }
        if Instant::now() >= collects_at && !guests.is_empty() {
            passed::collect_circles();
            collects_at = Instant::now() + COLLECT;
        }
        let mut place = 2;
        guests.retain_mut(|guest| {
            let mut next = |is_watched: bool| {
                place += usize::from(is_watched);
                if is_watched { ready[place - 1] } else { PollFlags::empty() }
            };
            let (of_line, of_client) = guest.wanted();
            let (line, client) = (next(!of_line.is_empty()), next(!of_client.is_empty()));
            let stays = guest.turn(line, client, &yard);
            if !stays {
                guest.end(&yard);
            }
            stays
        });
        if !ready[1].is_empty() {
            let slots = yard.watch.take();
            let heard = guests.iter_mut().filter(|guest| slots.contains(&guest.slot.number()));
            heard.filter(|guest| guest.holds_unread(&yard)).for_each(|guest| guest.leave(&yard));
        }
        if !ready[0].is_empty() && !welcome(&acceptor, &places, &mut guests, &yard) {
            return;
        }
        dismiss_the_silent(&mut guests, &yard);
    }
}

/// Ends this process once neither an acceptor nor the service has the other end of its channel any more, whatever holds
/// its loop up.
fn end_with(acceptor: Arc<OwnedFd>) -> std::io::Result<()> {
    let watch = move || {
        loop {
            let mut fds = [PollFd::new(&*acceptor, PollFlags::empty())];
            if poll(&mut fds, None).is_ok() && fds[0].revents().contains(PollFlags::HUP) {
                sys::exit(0);
            }
        }
    };
    std::thread::Builder::new().stack_size(64 * 1024).spawn(watch).map(drop)
}

/// Takes what the acceptor has for this user. False if the acceptor has gone.
fn welcome(acceptor: &OwnedFd, places: &Arc<Places>, guests: &mut Vec<Guest>, yard: &Yard) -> bool {
    loop {
        let frame = match frame::receive(acceptor, 0) {
            ReceiveResult::Frame(frame) => frame,
            ReceiveResult::Nothing => return true,
            ReceiveResult::End => return false,
        };
        let (words, _) = frame.octets.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_ne_bytes(*word));
        let Some(number) = words.next() else { continue };
        if number == COUNT {
            words.next().into_iter().for_each(|acceptor| places.tell(acceptor));
            continue;
        }
        // Where there was no room for descriptors, the connection ends and its place goes back.
        let slot = (number != NO_SLOT).then(|| Arc::new(Slot::new(number, places.clone())));
        let mut fds = frame.fds.into_iter();
        let (Some(client), Some(line)) = (fds.next(), fds.next()) else { continue };
        let Some(slot) = slot else {
            let reason = format!("this user has {SLOTS} connections, which is the limit");
            let refused = Response::Refused { reason, kind: Refusal::Limit };
            let _ = frame::send(&client, &[&serde_json::to_vec(&refused).unwrap_or_default()], &[]);
            yard.closer.end(client);
            continue;
        };
        let silent_since = Some(Instant::now());
        if yard.watch.add(&client, number).is_err() {
            yard.closer.end(client);
            continue;
        }
        guests.push(Guest {
            slot,
            client: Some(client),
            line,
            inward: None,
            outward: None,
            withheld: false,
            withheld_inward: false,
            unfinished: Vec::new(),
            silent_since,
        });
    }
}

fn dismiss_the_silent(guests: &mut [Guest], yard: &Yard) {
    let now = Instant::now();
    let mut silent: Vec<(Instant, usize)> =
        guests.iter().enumerate().filter_map(|(i, g)| g.silent_since.map(|since| (since, i))).collect();
    silent.sort_unstable();
    let many = silent.len().saturating_sub(MAX_SILENT);
    for (n, (since, i)) in silent.into_iter().enumerate() {
        if n < many || now.duration_since(since) >= PATIENCE {
            guests[i].leave(yard);
        }
    }
}

impl Guest {
    /// What it waits for at the line and at the client. Where that is nothing, the descriptor is not watched: the end
    /// of the other side, of which the system tells in any case, would keep this process awake until somebody takes
    /// what waits.
    fn wanted(&self) -> (PollFlags, PollFlags) {
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let line = flags(self.outward.is_none(), self.inward.is_some() && !self.withheld_inward);
        let client = flags(self.inward.is_none(), self.outward.is_some() && !self.withheld);
        (line, if self.client.is_some() { client } else { PollFlags::empty() })
    }

    /// Whether it is to be looked at again though nothing tells of it.
    fn is_withheld(&self) -> bool {
        self.withheld || self.withheld_inward
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let (line, client) = self.wanted();
        if !line.is_empty() {
            fds.push(PollFd::new(&self.line, line));
        }
        if let Some(socket) = self.client.as_ref().filter(|_| !client.is_empty()) {
            fds.push(PollFd::new(socket, client));
        }
    }

    /// Passes on what there is. False if the connection is over.
    fn turn(&mut self, line: PollFlags, client: PollFlags, yard: &Yard) -> bool {
        if line.is_empty() && client.is_empty() && !self.is_withheld() {
            return true;
        }
        for _ in 0..TURN {
            match self.pass_outward(yard) {
                Passed::Yes => {}
                Passed::Full => break,
                Passed::Gone => return false,
            }
        }
        for _ in 0..TURN {
            match self.pass_inward(yard) {
                Passed::Yes => {}
                Passed::Full => break,
                Passed::Gone => {
                    self.leave(yard);
                    break;
                }
            }
        }
        true
    }

    /// From the service to the client. Gone: the service has ended the connection.
    fn pass_outward(&mut self, yard: &Yard) -> Passed {
        let mut frame = match self.outward.take() {
            Some(frame) => frame,
            None => match frame::receive(&self.line, HEAD) {
                ReceiveResult::Frame(frame) => frame,
                ReceiveResult::Nothing => return Passed::Full,
                ReceiveResult::End => return Passed::Gone,
            },
        };
        let wanted = std::mem::take(&mut frame.head[0]);
        if wanted & KEEP_BELL != 0
            && let Some(bell) = frame.fds.pop()
        {
            if yard.watch.add(&bell, self.slot.number()).is_err() {
                return Passed::Gone;
            }
            self.set_bell(Some(bell), yard);
        }
        if wanted & (MAKE_PAGES | SEAL_MEMORY) != 0
            && let Some(memory) = frame.fds.first().and_then(|fd| fd.try_clone().ok())
        {
            self.unfinished.push((memory, wanted));
        }
        let Some(client) = &self.client else {
            yard.closer.close(frame.fds);
            return Passed::Yes;
        };
        self.withheld = !frame.fds.is_empty() && sys::untaken(client) > 0;
        if self.withheld {
            self.outward = Some(frame);
            return Passed::Full;
        }
        let fds: Vec<_> = frame.fds.iter().map(OwnedFd::as_fd).collect();
        match frame::send(client, &[&frame.octets], &fds) {
            Err(Errno::AGAIN) => {
                drop(fds);
                self.outward = Some(frame);
                Passed::Full
            }
            Err(e) if frame::is_out_of_room(e) => {
                drop(fds);
                (self.outward, self.withheld) = (Some(frame), true);
                Passed::Full
            }
            Ok(()) => Passed::Yes,
            // A client that has gone is seen where it is read.
            Err(_) => {
                drop(fds);
                yard.closer.close(frame.fds);
                Passed::Yes
            }
        }
    }

    /// Whether descriptors lie in its sockets that nobody is about to receive.
    fn holds_unread(&self, yard: &Yard) -> bool {
        let holds = |socket: &OwnedFd| passed::lie_in(socket);
        let in_bell = self.bell_slot(yard, |bell| bell.clone()).is_some_and(|bell| holds(&bell));
        in_bell || (self.inward.is_some() && self.client.as_ref().is_some_and(holds))
    }

    /// From the client to the service. Gone: the client is, or has to.
    fn pass_inward(&mut self, yard: &Yard) -> Passed {
        self.withheld_inward = false;
        let frame = match self.inward.take() {
            Some(frame) => frame,
            None => {
                let Some(client) = &self.client else { return Passed::Full };
                match frame::receive(client, 0) {
                    ReceiveResult::Frame(frame) => self.sort(frame, yard),
                    ReceiveResult::Nothing => return Passed::Full,
                    ReceiveResult::End => return Passed::Gone,
                }
            }
        };
        self.silent_since = None;
        let fds: Vec<_> = frame.fds.iter().map(OwnedFd::as_fd).collect();
        match frame::send(&self.line, &[&frame.head, &frame.octets], &fds) {
            Ok(()) => Passed::Yes,
            Err(e) if e == Errno::AGAIN || frame::is_out_of_room(e) => {
                drop(fds);
                (self.inward, self.withheld_inward) = (Some(frame), e != Errno::AGAIN);
                // From here on its socket is not read.
                if self.holds_unread(yard) { Passed::Gone } else { Passed::Full }
            }
            Err(_) => Passed::Gone,
        }
    }

    /// Keeps of a packet's descriptors what the service may have.
    fn sort(&mut self, mut frame: Frame, yard: &Yard) -> Frame {
        for (memory, wanted) in self.unfinished.drain(..) {
            // What is not sealed in the end the service does not use.
            let made = if wanted & MAKE_PAGES != 0 { shared::make_pages(&memory) } else { Ok(()) };
            if wanted & SEAL_MEMORY != 0 {
                let _ = made.and_then(|()| shared::seal(&memory));
            }
        }
        let manages = frame.octets.trim_ascii_start().starts_with(b"{\"manage\"");
        let surplus = frame.fds.split_off(frame.fds.len().min(MAX_FDS));
        if !surplus.is_empty() {
            frame.head[0] |= REFUSED_FD;
            yard.closer.close(surplus);
        }
        for fd in std::mem::take(&mut frame.fds) {
            let is_socket = is_end_of_pair(&fd);
            if sys::is_memory_file(&fd) {
                frame.fds.push(fd);
            } else if is_socket && manages {
                match carrier::carry(fd, self.slot.clone(), &yard.carriers, &yard.closer) {
                    Some(end) => frame.fds.push(end),
                    None => frame.head[0] |= REFUSED_FD,
                }
            } else if is_socket && yard.watch.add(&fd, self.slot.number()).is_ok() {
                self.set_bell(Some(fd), yard);
            } else {
                frame.head[0] |= REFUSED_FD;
                yard.closer.close(fd);
            }
        }
        if !frame.fds.is_empty() && frame.fds.iter().all(is_whole) {
            frame.head[0] |= IS_WHOLE;
        }
        if self.bell_slot(yard, |bell| bell.is_some()) {
            frame.head[0] |= HAS_BELL;
        }
        frame
    }

    fn bell_slot<R>(&self, yard: &Yard, f: impl FnOnce(&mut Option<Arc<OwnedFd>>) -> R) -> R {
        f(&mut yard.bells.lock().unwrap_or_else(PoisonError::into_inner)[self.slot.number() as usize])
    }

    fn set_bell(&self, bell: Option<OwnedFd>, yard: &Yard) {
        if let Some(old) = self.bell_slot(yard, |slot| std::mem::replace(slot, bell.map(Arc::new))) {
            yard.closer.end(old);
        }
    }

    /// The client has gone, or has to: the service hears of it, and the slot stays until it has forgotten the
    /// connection.
    fn leave(&mut self, yard: &Yard) {
        let _ = shutdown(&self.line, Shutdown::Write);
        self.silent_since = None;
        self.inward = None;
        self.withheld_inward = false;
        // Nobody takes it any more, and the service may wait until there is room for what comes after it.
        if let Some(frame) = self.outward.take() {
            yard.closer.close(frame.fds);
        }
        self.withheld = false;
        self.end(yard);
    }

    fn end(&mut self, yard: &Yard) {
        self.set_bell(None, yard);
        if let Some(client) = self.client.take() {
            yard.closer.end(client);
        }
    }

    /// Ends it for both sides, whatever the user proxy has of it.
    fn cut(&self) {
        for socket in self.client.iter().chain([&self.line]) {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }
}

/// Whether a descriptor is an end of a pair of UNIX stream sockets in which no descriptor lies.
fn is_end_of_pair(fd: &OwnedFd) -> bool {
    let is_stream =
        sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX) && sockopt::socket_type(fd) == Ok(SocketType::STREAM);
    // One without another end can still become a listener, in whose queue connections have queues of their own.
    is_stream && getpeername(fd).is_ok() && !passed::lie_in(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with a descriptor, one way or the other, waits for room and comes then.
    fn pass_while_many_are_on_their_way(is_question: bool) {
        frame::tests::while_many_are_on_their_way(|make_room| {
            let [(acceptor, _acceptor), (line, service), (socket, client)] =
                std::array::from_fn(|_| frame::pair().unwrap());
            let yard = Yard {
                bells: Arc::new(Mutex::new(vec![None; SLOTS as usize])),
                carriers: Carriers::default(),
                closer: Closer::default(),
                watch: Watch::new().unwrap(),
            };
            let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
            let packet = Frame { head: [0; HEAD], octets: b"packet".into(), fds: vec![fd] };
            let (inward, outward) = if is_question { (Some(packet), None) } else { (None, Some(packet)) };
            let mut guest = Guest {
                slot: Arc::new(Slot::new(0, Places::new(Arc::new(acceptor)))),
                client: Some(socket),
                line,
                inward,
                outward,
                withheld: false,
                withheld_inward: false,
                unfinished: Vec::new(),
                silent_since: None,
            };
            let pass =
                |guest: &mut Guest| if is_question { guest.pass_inward(&yard) } else { guest.pass_outward(&yard) };
            for _ in 0..2 {
                assert!(matches!(pass(&mut guest), Passed::Full) && guest.is_withheld());
                let (line, client) = guest.wanted();
                assert!(!line.union(client).contains(PollFlags::OUT), "what would tell at once");
            }
            make_room();
            frame::tests::until(|| matches!(pass(&mut guest), Passed::Yes));
            assert!(!guest.is_withheld());
            let (from, head) = if is_question { (service, HEAD) } else { (client, 0) };
            let ReceiveResult::Frame(frame) = frame::receive(&from, head) else { panic!("nothing has come") };
            assert_eq!((&frame.octets[..], frame.fds.len()), (&b"packet"[..], 1));
        });
    }

    #[test]
    fn an_answer_whose_descriptors_the_system_has_no_room_for_waits_until_it_has() {
        pass_while_many_are_on_their_way(false);
    }

    #[test]
    fn a_question_whose_descriptors_the_system_has_no_room_for_waits_until_it_has() {
        pass_while_many_are_on_their_way(true);
    }
}
