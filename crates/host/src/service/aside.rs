//! Requests whose answer may wait for what is outside this program (a file, the name of a host): each on a thread of its own, so that
//! the service's thread waits for none of them. A connection is served nothing else meanwhile.

use super::handler::Handler;
use crate::panics::caught;
use endpoint::seqpacket::Peer;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Of one user at the same time: threads that nobody can end, if what they wait for does not come.
const OF_A_USER: usize = 8;

/// Who has so many under way.
type Users = Arc<Mutex<HashMap<u32, usize>>>;

/// Where such requests are begun.
pub(super) struct Desk {
    handler: Arc<dyn Handler>,
    /// Rings when one has its answer.
    bell: Arc<OwnedFd>,
    users: Users,
}

/// One that is under way.
#[derive(Debug)]
pub(super) struct Pending(Receiver<Result<String, String>>);

impl Pending {
    /// Its answer, once there is one.
    pub(super) fn take(&self) -> Option<Result<String, String>> {
        match self.0.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err("the request has failed inside the service: see its log".into()))
            }
        }
    }
}

/// One request of a user's, as long as it lasts.
struct Place(Users, u32);

impl Place {
    fn take(users: &Users, user: u32) -> Result<Self, String> {
        let mut counts = users.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(user).or_default();
        if *count >= OF_A_USER {
            return Err(format!("user {user} has {OF_A_USER} requests under way that take long: wait for one of them"));
        }
        *count += 1;
        Ok(Place(users.clone(), user))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

impl Desk {
    pub(super) fn new(handler: Arc<dyn Handler>) -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Desk { handler, bell, users: Users::default() })
    }

    /// Readable when a request has its answer.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Before the requests are asked for their answers: what comes after that rings anew.
    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    /// Begins one.
    ///
    /// # Errors
    /// The user has many under way, or the system has no thread.
    pub(super) fn begin(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> Result<Pending, String> {
        let place = Place::take(&self.users, peer.uid)?;
        let (handler, bell, (answers, pending)) = (self.handler.clone(), self.bell.clone(), sync_channel(1));
        let life = move || {
            // Without an answer, the connection is told that there is none.
            if let Some(answer) = caught(|| handler.manage(peer, request, fds)) {
                let _ = answers.send(answer);
            }
            drop((answers, place));
            let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
        };
        let thread = std::thread::Builder::new().name("request".into()).spawn(life);
        thread.map_err(|e| format!("the system has no thread for this request: {e}"))?;
        Ok(Pending(pending))
    }
}
