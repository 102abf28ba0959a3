//! The connection acceptor's thread: sockets, and nothing that [`super::table`] could decide.

use super::table::{HANDSHAKE, Occupant, Rank, Table, origin};
use super::{Arrival, Offers};
use crate::connection::{JUDGED_OCTETS, Judge, Judgement, Stream, Tls, prepare};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections accepted for one link before others have their turn.
const ACCEPTS: usize = 16;
/// After an error that is not the connection's, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How often those who sit are looked at while somebody waits for their seat.
const LOOK: Duration = Duration::from_secs(1);
/// The number of the thread's own bell.
const BELL: u64 = 0;
/// How a process ends whose connection acceptor has panicked, as Rust's programs do after a panic.
const PANICKED: i32 = 101;

/// What a link asks for.
pub(super) enum Command {
    Listen { offers: Offers, listener: Arc<TcpListener>, tls: Option<Tls>, judge: Judge },
    Secure { offers: Offers, socket: TcpStream, peer: SocketAddr, tls: Tls, attempt: u64 },
}

struct Way {
    commands: Sender<Command>,
    bell: OwnedFd,
}

static WAY: Mutex<Option<Way>> = Mutex::new(None);

/// Gives the thread something to do, and starts it if need be. Waits for nobody.
pub(super) fn tell(command: Command) -> io::Result<()> {
    let mut way = WAY.lock().unwrap_or_else(PoisonError::into_inner);
    if way.is_none() {
        *way = Some(start()?);
    }
    if let Some(Way { commands, bell }) = &*way {
        let _ = commands.send(command);
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
    Ok(())
}

/// Lets the thread look at its links again.
pub(super) fn ring() {
    if let Some(Way { bell, .. }) = &*WAY.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

fn start() -> io::Result<Way> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let edge = EventFlags::IN | EventFlags::ET;
    epoll::add(&poll, &bell, epoll::EventData::new_u64(BELL), edge)?;
    let (commands, receiver) = channel();
    let life = move || {
        let mut acceptor = ConnectionAcceptor {
            poll,
            commands: receiver,
            doors: BTreeMap::new(),
            guests: BTreeMap::new(),
            table: Table::default(),
            next: BELL + 1,
        };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| acceptor.run())).is_err() {
            tracing::error!("the connection acceptor has panicked; ending");
            std::process::exit(PANICKED);
        }
    };
    std::thread::Builder::new().name("acceptor".into()).spawn(life)?;
    Ok(Way { commands, bell })
}

/// A link that listens.
struct Door {
    offers: Offers,
    listener: Arc<TcpListener>,
    address: String,
    tls: Option<Tls>,
    judge: Judge,
    offered: u64,
    occupant: Option<Occupant>,
    /// There may be more to accept, from then on.
    accepts_at: Option<Instant>,
}

/// A connection that waits.
struct Guest {
    arrival: Arrival,
    for_whom: For,
}

enum For {
    Door(u64),
    /// A link that has made the connection itself, until when, and its number for the attempt.
    Link {
        offers: Offers,
        until: Instant,
        attempt: u64,
    },
}

struct ConnectionAcceptor {
    poll: OwnedFd,
    commands: Receiver<Command>,
    doors: BTreeMap<u64, Door>,
    guests: BTreeMap<u64, Guest>,
    table: Table,
    next: u64,
}

impl ConnectionAcceptor {
    fn run(&mut self) {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        loop {
            let timeout = self.timeout(Instant::now());
            let spec = timeout.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
            // An error is EINTR or a lack of memory; either way all is looked at again.
            let n = epoll::wait(&self.poll, &mut events[..], spec.as_ref()).unwrap_or(0);
            let now = Instant::now();
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command, now);
            }
            for event in &events[..n] {
                let number = event.data.u64();
                if let Some(door) = self.doors.get_mut(&number) {
                    door.accepts_at = Some(now);
                } else {
                    self.go_on(number, now);
                }
            }
            self.end_overdue(now);
            let doors: Vec<u64> = self.doors.keys().copied().collect();
            for door in doors {
                self.attend(door, now);
            }
        }
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        let attempts = self.guests.values().filter_map(|guest| match guest.for_whom {
            For::Link { until, .. } => Some(until),
            For::Door(_) => None,
        });
        let looks = self.doors.keys().any(|door| self.table.waits_for(*door)).then(|| now + LOOK);
        let accepts = self.doors.values().filter_map(|door| door.accepts_at);
        attempts
            .chain(accepts)
            .chain(self.table.timeout(now))
            .chain(looks)
            .min()
            .map(|at| at.saturating_duration_since(now))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn obey(&mut self, command: Command, now: Instant) {
        let number = self.number();
        match command {
            Command::Listen { offers, listener, tls, judge } => {
                let address = listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
                let flags = EventFlags::IN | EventFlags::ET;
                if let Err(error) = epoll::add(&self.poll, &listener, epoll::EventData::new_u64(number), flags) {
                    return offers.shared.refuse(&io::Error::from(error).to_string());
                }
                let door =
                    Door { offers, listener, address, tls, judge, offered: 0, occupant: None, accepts_at: Some(now) };
                self.doors.insert(number, door);
            }
            Command::Secure { offers, socket, peer, tls, attempt } => {
                let session = tls.connect(peer.ip());
                let stream =
                    match session.and_then(|s| self.watch(&socket, number).map(|()| Stream::new(socket, Some(s)))) {
                        Ok(stream) => stream,
                        Err(reason) => {
                            offers.offer((attempt, Err(reason)));
                            return;
                        }
                    };
                let for_whom = For::Link { offers, until: now + HANDSHAKE, attempt };
                self.guests.insert(number, Guest { arrival: Arrival { stream, peer }, for_whom });
                self.go_on(number, now);
            }
        }
    }

    fn watch(&self, socket: &TcpStream, number: u64) -> Result<(), String> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.poll, socket, epoll::EventData::new_u64(number), flags)
            .map_err(|e| io::Error::from(e).to_string())
    }

    /// A link's new connections, and who gets its seat.
    fn attend(&mut self, number: u64, now: Instant) {
        let Some(door) = self.doors.get_mut(&number) else { return };
        if door.offers.shared.gone.load(Ordering::Acquire) {
            self.doors.remove(&number);
            for guest in self.table.of_door(number) {
                self.dismiss(guest);
            }
            return;
        }
        if door.accepts_at.is_some_and(|at| at <= now) {
            self.accept(number, now);
        }
        self.seat(number, now);
    }

    fn accept(&mut self, number: u64, now: Instant) {
        for _ in 0..ACCEPTS {
            let Some(door) = self.doors.get_mut(&number) else { return };
            let (socket, peer) = match door.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return door.accepts_at = None,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                // The link is gone, and its socket shut down.
                Err(e) if e.kind() == ErrorKind::InvalidInput => return door.accepts_at = None,
                Err(_) => return door.accepts_at = Some(now + PAUSE),
            };
            let session = match (prepare(&socket), &door.tls) {
                (Err(error), _) => Err(error.to_string()),
                (Ok(()), None) => Ok(None),
                (Ok(()), Some(tls)) => tls.accept().map(Some),
            };
            let tls = door.tls.is_some();
            let id = self.number();
            match session.and_then(|session| self.watch(&socket, id).map(|()| Stream::new(socket, session))) {
                Ok(stream) => {
                    self.guests.insert(id, Guest { arrival: Arrival { stream, peer }, for_whom: For::Door(number) });
                    if let Some(gone) = self.table.insert(id, number, origin(peer.ip()), tls, now) {
                        self.dismiss(gone);
                    }
                    self.go_on(id, now);
                }
                Err(reason) => self.refuse(number, &reason),
            }
            // Before the next one comes: it is to find the seat taken.
            self.seat(number, now);
        }
    }

    /// Gives a link's seat to whom it is due.
    fn seat(&mut self, number: u64, now: Instant) {
        let Some(door) = self.doors.get_mut(&number) else { return };
        let shared = &door.offers.shared;
        if shared.taken.load(Ordering::Acquire) != door.offered {
            return;
        }
        let heard = shared.heard.load(Ordering::Relaxed);
        match &mut door.occupant {
            Some(_) if !shared.occupied.load(Ordering::Acquire) => door.occupant = None,
            Some(occupant) if occupant.heard != heard => (occupant.heard, occupant.since) = (heard, now),
            _ => {}
        }
        let Some(id) = self.table.next(number, door.tls.is_some(), door.occupant.as_ref(), now) else { return };
        self.table.remove(id);
        let Some(guest) = self.guests.remove(&id) else { return };
        let _ = epoll::delete(&self.poll, &guest.arrival.stream);
        let occupant = Occupant { origin: origin(guest.arrival.peer.ip()), heard: 0, since: now };
        if door.offers.offer((0, Ok(guest.arrival))) {
            door.offered += 1;
            door.occupant = Some(occupant);
        }
    }

    /// Something has happened at a connection.
    fn go_on(&mut self, id: u64, now: Instant) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let judge = match &guest.for_whom {
            For::Door(door) => self.doors.get(door).map(|door| door.judge),
            For::Link { .. } => None,
        };
        let stream = &mut guest.arrival.stream;
        let rank = match (stream.is_tls(), judge) {
            (false, Some(judge)) => listen_to(stream, judge),
            _ => stream.shake_hands().map(|done| match done {
                true => Rank::Ready,
                false if stream.has_answered() => Rank::Begun,
                false => Rank::Silent,
            }),
        };
        match (rank, &guest.for_whom) {
            (Ok(rank), For::Door(_)) => self.table.promote(id, rank, now),
            (Ok(Rank::Ready), For::Link { .. }) => {
                let Some(Guest { arrival, for_whom: For::Link { offers, attempt, .. } }) = self.guests.remove(&id)
                else {
                    return;
                };
                let _ = epoll::delete(&self.poll, &arrival.stream);
                offers.offer((attempt, Ok(arrival)));
            }
            (Ok(_), For::Link { .. }) => {}
            (Err(reason), _) => self.fail(id, reason),
        }
    }

    /// A candidate has had its chance.
    fn fail(&mut self, id: u64, reason: String) {
        self.table.remove(id);
        match self.guests.remove(&id).map(|guest| guest.for_whom) {
            Some(For::Door(door)) if !reason.is_empty() => self.refuse(door, &reason),
            Some(For::Link { offers, attempt, .. }) => {
                offers.offer((attempt, Err(reason)));
            }
            _ => {}
        }
    }

    fn refuse(&self, door: u64, reason: &str) {
        if let Some(door) = self.doors.get(&door) {
            tracing::info!(source = door.address, reason, "a connection was refused");
            door.offers.shared.refuse(reason);
        }
    }

    fn dismiss(&mut self, id: u64) {
        self.table.remove(id);
        self.guests.remove(&id);
    }

    fn end_overdue(&mut self, now: Instant) {
        let text = || format!("no TLS within {} s: does the peer's link have `tls`?", HANDSHAKE.as_secs());
        while let Some(id) = self.table.overdue(now) {
            let tls = self.guests.get(&id).is_some_and(|guest| guest.arrival.stream.is_tls());
            self.fail(id, if tls { text() } else { String::new() });
        }
        let is_over = |guest: &Guest| matches!(guest.for_whom, For::Link { until, .. } if until <= now);
        let over: Vec<u64> = self.guests.iter().filter(|(_, guest)| is_over(guest)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.fail(id, text()));
    }
}

/// What a connection without TLS has said so far; the octets stay for whom it is for. An error without words: it has
/// ended.
fn listen_to(stream: &Stream, judge: Judge) -> Result<Rank, String> {
    let mut octets = [0; JUDGED_OCTETS];
    match recv(stream.as_fd(), &mut octets, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(String::new()),
        Ok((n, _)) => match judge(&octets[..n.min(JUDGED_OCTETS)]) {
            Judgement::Open => Ok(Rank::Silent),
            Judgement::Speaks => Ok(Rank::Ready),
            Judgement::Nonsense(error) => Err(error.to_string()),
        },
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Rank::Silent),
        Err(_) => Err(String::new()),
    }
}
