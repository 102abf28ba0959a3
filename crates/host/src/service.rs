//! The door: a UNIX socket at which applications get endpoints and circuits.
//!
//! The kernel says who is at the other end (`SO_PEERCRED`); a policy says what they may. One thread, never blocking on
//! a client: connections and what comes with them are in processes of their own (`connections/`). What a connection
//! opened ends with it, however it ends.

mod client;
mod handler;
mod opened;
mod worker_pool;

pub use crate::proxy::Accepting;
pub use handler::{Everybody, Handler, Reply, Takes};
pub use opened::Opened;

use crate::direct::Broker;
use crate::engine::EngineHandle;
use crate::proxy::{Connection, Connections};
use crate::quota::{Account, Ledger, Pool};
use client::{Client, ServiceContext, TURN};
use endpoint::socket_path::{SocketPath, SocketPathError};
use endpoint::times::timespec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker_pool::WorkerPool;

/// The time of the service's thread that one user takes, with all connections, before the others' turn. One request may
/// take longer.
const SHARE: Duration = Duration::from_millis(2);

/// Until what the system had no room for is sent again, of which nothing tells.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Connections that each user may have even where all of the service's are taken.
const OWN_CONNECTIONS: usize = 16;

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody answers there.
    #[error("a service already listens at {0} (stop it, or choose another place with --socket)")]
    Running(PathBuf),
    /// Nothing can listen there.
    #[error(transparent)]
    Place(SocketPathError),
    /// The system.
    #[error("cannot listen at {path}: {source}")]
    System {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: Errno,
    },
}

/// A running service; stops when dropped.
#[derive(Debug)]
pub struct Service {
    place: SocketPath,
    stop: OwnedFd,
    reviewer: Reviewer,
    accepting: Arc<Accepting>,
    pool: Arc<Pool>,
    thread: Option<JoinHandle<()>>,
}

/// Has a service look again at what its clients may do, once that has changed.
#[derive(Debug, Clone)]
pub struct Reviewer(Arc<OwnedFd>);

impl Reviewer {
    /// What is not allowed any more is closed soon: connections, and circuits that are open.
    pub fn review(&self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Service {
    /// Listens at `path` and serves what comes ([`Opened`]).
    ///
    /// # Errors
    /// Another service is there, or the path cannot be made.
    pub fn start(
        path: &Path,
        engine: EngineHandle,
        handler: Arc<dyn Handler>,
        max_connections: usize,
    ) -> Result<Self, StartError> {
        Opened::at(path)?.serve(&engine, handler, max_connections)
    }

    /// Has it look again at what its clients may do.
    pub fn reviewer(&self) -> Reviewer {
        self.reviewer.clone()
    }

    /// How the process fares that accepts connections.
    pub fn accepting(&self) -> &Arc<Accepting> {
        &self.accepting
    }

    /// The memory that its users have together.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.place.remove();
    }
}

fn serve(
    mut connections: Connections,
    bells: [&OwnedFd; 2],
    engine: &EngineHandle,
    (handler, workers): (&dyn Handler, &WorkerPool),
    ledger: Ledger,
    max: usize,
) {
    let [stop, again] = bells;
    let mut clients: Vec<Client> = Vec::new();
    let mut context = ServiceContext { engine, handler, workers, broker: Broker::default(), ledger };
    let news = handler.news();
    let mut sessions = 0;
    loop {
        context.ledger.handle_timeout(Instant::now());
        connections.handle_timeout(Instant::now());
        let restart = connections.poll_timeout().map(|at| timespec(at.saturating_duration_since(Instant::now())));
        let door = connections.poll_fd();
        let answers = PollFd::from_borrowed_fd(workers.bell(), PollFlags::IN);
        let mut fds = vec![PollFd::new(stop, PollFlags::IN), door, PollFd::new(again, PollFlags::IN), answers];
        fds.extend(news.map(|news| PollFd::from_borrowed_fd(news, PollFlags::IN)));
        // A client that does not take its answers is asked nothing more.
        let wanted = |c: &Client| match (c.line.is_behind(), c.is_occupied()) {
            _ if c.line.is_withheld() => PollFlags::empty(),
            (true, _) => PollFlags::OUT,
            (false, true) => PollFlags::empty(),
            (false, false) => PollFlags::IN,
        };
        fds.extend(clients.iter().map(|c| PollFd::new(&c.line, wanted(c))));
        // Who has not come to an end, and whose turn has not come for want of time: what told of it may not tell again.
        let waits = |c: &Client| c.mapping.is_some() || c.is_ending() || c.passed_over;
        let goes_on = clients.iter().any(waits);
        let looks_again = context.broker.is_late() || clients.iter().any(|c| c.line.is_withheld());
        let most = match goes_on {
            true => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            false => looks_again.then_some(LOOK_AGAIN).into_iter().chain(restart).min_by_key(|t| (t.tv_sec, t.tv_nsec)),
        };
        match poll(&mut fds, most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => {
                panic!("service: waiting for clients: {e}");
            }
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            for client in &mut clients {
                client.go();
                while client.end_step(&mut context) {}
            }
            return;
        }
        let review = ready[2] && rustix::io::read(again, &mut [0; 8]).is_ok();
        if review {
            handler.review();
            context.ledger.set_octets(handler.users_octets());
        }
        let has_answers = ready[3];
        if has_answers {
            workers.silence();
        }
        let mut place = 4;
        let mut has_news = false;
        if let Some(news) = news {
            has_news = ready[place];
            place += 1;
            if has_news {
                // Before the sessions are asked: what comes after that is heard anew.
                let _ = rustix::io::read(news, &mut [0; 8]);
            }
        }
        context.broker.go_on();
        let mut spent: HashMap<u32, Duration> = HashMap::new();
        let mut passed_over = false;
        clients.retain_mut(|client| {
            let was_greeted = client.greeted;
            // A line that tells of something while nothing is asked of it has ended.
            let has_ended = ready[place] && client.pending.is_some() && !client.line.is_behind();
            let calls =
                ready[place] || waits(client) || client.line.is_withheld() || (has_answers && client.pending.is_some());
            place += 1;
            let of_user = spent.entry(client.peer.uid).or_default();
            client.passed_over = calls && *of_user >= SHARE;
            passed_over |= client.passed_over;
            if !calls && !has_news && !review {
                return true;
            }
            let begin = Instant::now();
            let until = begin + SHARE.saturating_sub(*of_user);
            let mut stays = !client.is_gone()
                && !has_ended
                && (!has_news || client.hears(&context))
                && (!calls || client.passed_over || client.turn(&mut context, until));
            stays &= !review || client.review(&mut context);
            if client.greeted && !was_greeted {
                connections.admit(client.peer.uid);
            }
            if !stays {
                client.go();
                // All that ends takes time of its user's.
                stays = client.passed_over || client.end_until(&mut context, until);
            }
            *of_user += begin.elapsed();
            stays
        });
        // Circuits that are not allowed any more are closed first.
        if review || passed_over {
            clients.sort_by_key(|client| (client.revoked.is_empty(), !client.passed_over));
        }
        let mut greeted = clients.iter().filter(|c| c.greeted).count();
        for _ in 0..if ready[1] { TURN } else { 0 } {
            let Some(Connection { line, peer }) = connections.next() else { break };
            let of_user = || clients.iter().filter(|client| client.peer.uid == peer.uid).count();
            let max_connections = (greeted >= max && of_user() >= OWN_CONNECTIONS).then_some(max);
            clients.push(Client {
                line,
                peer,
                greeted: false,
                memory_answers: false,
                remaps: false,
                segment: None,
                mapping: None,
                pending: None,
                made: None,
                endpoint: None,
                direct: None,
                open: Vec::new(),
                revoked: Vec::new(),
                ending: None,
                max_connections,
                session: (sessions, false),
                waits: false,
                passed_over: false,
                account: Account::default(),
            });
            sessions += 1;
            greeted += usize::from(max_connections.is_none());
        }
    }
}
