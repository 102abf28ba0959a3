//! Requests that take time: those that look at all there is or change it, and those whose answer waits for what is
//! outside this program (a file, the name of a host). Threads of their user carry them out, so that the service's
//! thread waits for none of them. A connection is served nothing else meanwhile.

use super::handler::Handler;
use crate::panics::caught;
use endpoint::seqpacket::Peer;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Requests of one user at the same time that wait for what is outside: threads that nobody can end, if what they wait
/// for does not come.
const OUTSIDE_OF_A_USER: usize = 8;
/// Threads of one user for requests that take long; further ones wait for these.
const THREADS_OF_A_USER: usize = 2;

/// A request with what its answer needs.
struct Job {
    number: u64,
    peer: Peer,
    request: Value,
    fds: Vec<OwnedFd>,
    answers: SyncSender<Result<String, String>>,
}

/// What one user has under way.
#[derive(Default)]
struct User {
    outside: usize,
    threads: usize,
    /// At most one of each connection.
    waiting: VecDeque<Job>,
}

impl User {
    fn give_back(&mut self, is_outside: bool) {
        let count = if is_outside { &mut self.outside } else { &mut self.threads };
        *count = count.saturating_sub(1);
    }
}

/// By number; who has nothing under way is not here.
#[derive(Clone, Default)]
struct Users(Arc<Mutex<HashMap<u32, User>>>);

impl Users {
    fn with<R>(&self, user: u32, f: impl FnOnce(&mut User) -> R) -> R {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = users.entry(user).or_default();
        let result = f(of_user);
        if of_user.outside == 0 && of_user.threads == 0 && of_user.waiting.is_empty() {
            users.remove(&user);
        }
        result
    }
}

/// Where such requests are begun.
pub(super) struct WorkerPool {
    handler: Arc<dyn Handler>,
    /// Rings when one has its answer.
    bell: Arc<OwnedFd>,
    users: Users,
    number: std::cell::Cell<u64>,
}

/// One that is under way, or waits. If this is dropped while it waits, it is not carried out.
pub(super) struct Pending {
    answer: Receiver<Result<String, String>>,
    users: Users,
    user: u32,
    number: u64,
}

impl Pending {
    /// Its answer, once there is one.
    pub(super) fn take(&self) -> Option<Result<String, String>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err("the request has failed inside the service: see its log".into()))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let is_ours = |job: &Job| job.number == self.number;
        let gone = self.users.with(self.user, |user| {
            let place = user.waiting.iter().position(is_ours)?;
            user.waiting.remove(place)
        });
        if let Some(job) = gone {
            // Its descriptors may take long to close.
            crate::reaper::dispose(job.fds);
        }
    }
}

/// The place of a thread, as long as it has work.
struct WorkerSlot {
    users: Users,
    user: u32,
    is_outside: bool,
    is_held: bool,
}

impl WorkerSlot {
    fn new(users: &Users, user: u32, is_outside: bool) -> Self {
        WorkerSlot { users: users.clone(), user, is_outside, is_held: true }
    }

    /// The next request for a thread that has carried one out. Without one the place is given back in the same moment:
    /// whoever comes then begins a thread, and does not wait for this one.
    fn next(&mut self) -> Option<Job> {
        let is_outside = self.is_outside;
        self.users.with(self.user, |user| {
            let job = if is_outside { None } else { user.waiting.pop_front() };
            if job.is_none() {
                user.give_back(is_outside);
                self.is_held = false;
            }
            job
        })
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        if self.is_held {
            self.users.with(self.user, |user| user.give_back(self.is_outside));
        }
    }
}

impl WorkerPool {
    pub(super) fn new(handler: Arc<dyn Handler>) -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(WorkerPool { handler, bell, users: Users::default(), number: std::cell::Cell::new(0) })
    }

    /// Readable when a request has its answer.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Before the requests are asked for their answers: what comes after that rings anew.
    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    fn job(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> (Job, Pending) {
        let (answers, answer) = sync_channel(1);
        let number = self.number.replace(self.number.get().wrapping_add(1));
        let pending = Pending { answer, users: self.users.clone(), user: peer.uid, number };
        (Job { number, peer, request, fds, answers }, pending)
    }

    /// Begins one that waits for what is outside.
    ///
    /// # Errors
    /// The user has many under way, or the system has no thread.
    pub(super) fn begin(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> Result<Pending, String> {
        let taken = self.users.with(peer.uid, |user| {
            let is_free = user.outside < OUTSIDE_OF_A_USER;
            user.outside += usize::from(is_free);
            is_free
        });
        if !taken {
            return Err(format!(
                "user {} has {OUTSIDE_OF_A_USER} requests under way that take long: wait for one of them",
                peer.uid
            ));
        }
        let (job, pending) = self.job(peer, request, fds);
        self.work(WorkerSlot::new(&self.users, peer.uid, true), job)?;
        Ok(pending)
    }

    /// Begins one that takes long, or lets it wait for others of its user.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn queue(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> Result<Pending, String> {
        let (job, pending) = self.job(peer, request, fds);
        let at_once = self.users.with(peer.uid, |user| {
            if user.threads < THREADS_OF_A_USER {
                user.threads += 1;
                return Some(job);
            }
            user.waiting.push_back(job);
            None
        });
        if let Some(job) = at_once {
            self.work(WorkerSlot::new(&self.users, peer.uid, false), job)?;
        }
        Ok(pending)
    }

    /// Starts a thread for a request, and for those that wait for the thread then.
    fn work(&self, mut place: WorkerSlot, job: Job) -> Result<(), String> {
        let (handler, bell) = (self.handler.clone(), self.bell.clone());
        let life = move || {
            let mut work = Some(job);
            while let Some(Job { peer, request, fds, answers, .. }) = work {
                // Without an answer, the connection is told that there is none.
                if let Some(answer) = caught(|| handler.manage(peer, request, fds)) {
                    let _ = answers.send(answer);
                }
                drop(answers);
                // Who is told asks for the next one at once: its place is free by then.
                work = place.next();
                let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
            }
        };
        let thread = std::thread::Builder::new().name("request".into()).spawn(life);
        thread.map(drop).map_err(|e| format!("the system has no thread for this request: {e}"))
    }
}
