//! The service's side of the acceptor: connections that have come, and another acceptor where one has ended.
//!
//! The service has a copy of each user proxy's channel, so that the proxies and their connections outlive an acceptor.
//! The next acceptor gets these, asks each proxy which places it has taken, and accepts again.

use super::bell_table::BellTable;
use super::frame::{self, Frame, ReceiveResult};
use super::messages::{Arrival, ToAcceptor, ToService};
use super::spawner::Spawner;
use super::{Connection, ProxiedConnection};
use crate::sys::Child;
use endpoint::seqpacket::{Groups, Peer};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time from an acceptor's end to the start of the next one: this after one that has lived for [`STEADY`] ...
const FIRST_DELAY: Duration = Duration::from_millis(10);
/// ... twice as long after each that has not, and never longer than this.
const MAX_DELAY: Duration = Duration::from_secs(5);
const STEADY: Duration = Duration::from_secs(30);
/// Until what an acceptor has no room for is sent again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// User proxies that are kept for the next acceptor: twice as many as an acceptor has.
const MAX_KEPT: usize = 1024;
/// Messages that wait for the acceptor, beside those that it begins with.
const MAX_ORDERS: usize = 1024;

/// How the process fares that accepts connections.
#[derive(Debug)]
pub struct Accepting {
    accepts: AtomicBool,
    restarts: AtomicU64,
}

impl Accepting {
    /// Whether there is one now.
    pub fn accepts(&self) -> bool {
        self.accepts.load(Ordering::Relaxed)
    }

    /// How many have begun in the place of one that had ended.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// A user proxy, as the next acceptor needs it.
#[derive(Debug)]
struct Kept {
    uid: u32,
    admitted: bool,
    /// The acceptor's end of its channel, its board, its process.
    fds: [OwnedFd; 3],
}

/// The service's side.
#[derive(Debug)]
pub(crate) struct Connections {
    listener: OwnedFd,
    spawner: Spawner,
    /// The way to the acceptor; `None` between two.
    acceptor: Option<OwnedFd>,
    child: Child,
    /// When the acceptor was begun, or the next one is to be.
    begun: Instant,
    delay: Duration,
    orders: VecDeque<(ToAcceptor, Vec<OwnedFd>)>,
    kept: BTreeMap<u64, Kept>,
    /// The number of the next user proxy.
    next: u64,
    boards: HashMap<u64, Weak<BellTable>>,
    state: Arc<Accepting>,
}

impl Connections {
    /// Lets an acceptor accept what comes to `listener`.
    ///
    /// # Errors
    /// No process to be had.
    pub(crate) fn open(listener: OwnedFd) -> Result<Self, Errno> {
        let spawner = Spawner::begin(&listener)?;
        let mut connections = Connections::with(listener, spawner, None);
        connections.begin()?;
        connections.child = connections.spawner.wait_begun()?;
        Ok(connections)
    }

    fn with(listener: OwnedFd, spawner: Spawner, acceptor: Option<OwnedFd>) -> Self {
        Connections {
            listener,
            spawner,
            acceptor,
            child: Child::none(),
            begun: Instant::now(),
            delay: FIRST_DELAY,
            orders: VecDeque::new(),
            kept: BTreeMap::new(),
            next: 1,
            boards: HashMap::new(),
            state: Arc::new(Accepting { accepts: AtomicBool::new(true), restarts: AtomicU64::new(0) }),
        }
    }

    /// How the acceptor fares.
    pub(crate) fn state(&self) -> Arc<Accepting> {
        self.state.clone()
    }

    /// Readable when a connection has come, or the acceptor has gone.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        match &self.acceptor {
            Some(acceptor) => PollFd::new(acceptor, PollFlags::IN),
            None => PollFd::new(&self.listener, PollFlags::empty()),
        }
    }

    /// When [`Connections::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.acceptor {
            None => Some(self.begun),
            Some(_) => (!self.orders.is_empty()).then(|| Instant::now() + LOOK_AGAIN),
        }
    }

    /// Begins an acceptor in the place of one that has ended, when it is time, and tells it what it has no room for
    /// otherwise.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.acceptor.is_none() && self.begun <= now {
            self.begin_anew(now);
        }
        if let Some(child) = self.spawner.take_begun() {
            self.child = child;
        }
        self.flush();
    }

    /// A user was admitted: its user proxy does not end for others'.
    pub(crate) fn admit(&mut self, uid: u32) {
        self.kept.values_mut().filter(|kept| kept.uid == uid).for_each(|kept| kept.admitted = true);
        // If many wait, the user's next connection says it again.
        if self.acceptor.is_some() && self.orders.len() < MAX_ORDERS {
            self.orders.push_back((ToAcceptor::Admit { uid }, Vec::new()));
            self.flush();
        }
    }

    /// The next connection that has come.
    pub(crate) fn next(&mut self) -> Option<Connection> {
        loop {
            let frame = match frame::receive(self.acceptor.as_ref()?, 0) {
                ReceiveResult::Frame(frame) => frame,
                ReceiveResult::Nothing => return None,
                ReceiveResult::End => {
                    self.lose(Instant::now());
                    return None;
                }
            };
            let Frame { octets, fds, .. } = frame;
            match serde_json::from_slice::<ToService>(&octets) {
                Ok(ToService::Arrival(arrival)) => {
                    if let Some(connection) = self.arrive(arrival, fds) {
                        return Some(connection);
                    }
                }
                Ok(ToService::Unconfined { missing }) => tracing::warn!(
                    "service: the processes that take what clients send are confined less than they could be: {}",
                    missing.join("; ")
                ),
                Ok(ToService::Begun { user_proxy, uid }) => self.keep(user_proxy, uid, fds),
                Ok(ToService::Ended { user_proxy }) => {
                    if let Some(kept) = self.kept.remove(&user_proxy) {
                        crate::reaper::dispose(kept.fds);
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn keep(&mut self, user_proxy: u64, uid: u32, fds: Vec<OwnedFd>) {
        self.next = self.next.max(user_proxy.saturating_add(1));
        if let Ok(fds) = <[OwnedFd; 3]>::try_from(fds)
            && self.kept.len() < MAX_KEPT
        {
            self.kept.insert(user_proxy, Kept { uid, admitted: false, fds });
        }
    }

    fn arrive(&mut self, arrival: Arrival, fds: Vec<OwnedFd>) -> Option<Connection> {
        let mut fds = fds.into_iter();
        let (end, board) = (fds.next()?, fds.next()?);
        let board = match self.boards.get(&arrival.user_proxy).and_then(Weak::upgrade) {
            Some(board) => board,
            None => {
                let board = match BellTable::open(&board) {
                    Ok(board) => Arc::new(board),
                    // The system has no room for it now: the connection ends, and nobody else's.
                    Err(e) => {
                        tracing::warn!("service: a connection of user {} was not accepted: {e}", arrival.uid);
                        return None;
                    }
                };
                self.boards.retain(|_, board| board.strong_count() > 0);
                self.boards.insert(arrival.user_proxy, Arc::downgrade(&board));
                board
            }
        };
        let Arrival { pid, uid, gid, groups, slot, .. } = arrival;
        let peer = Peer { pid, uid, gid, groups: Groups::new(&groups) };
        let line = ProxiedConnection::new(Arc::new(end), slot, board);
        Some(Connection { line, peer })
    }

    /// The acceptor has ended.
    fn lose(&mut self, now: Instant) {
        if let Some(child) = self.spawner.take_begun() {
            self.child = child;
        }
        self.state.accepts.store(false, Ordering::Relaxed);
        crate::reaper::dispose((self.acceptor.take(), std::mem::take(&mut self.orders)));
        let lived = now.saturating_duration_since(self.begun);
        self.delay = if lived >= STEADY { FIRST_DELAY } else { (2 * self.delay).clamp(FIRST_DELAY, MAX_DELAY) };
        self.begun = now + self.delay;
    }

    fn begin_anew(&mut self, now: Instant) {
        let cause = self.child.outcome().unwrap_or_else(|| "its channel has ended".to_owned());
        // One that has closed its channel and lives is not to accept beside the next one.
        self.child.kill();
        let begun = self.begin();
        let (kept, delay) = (self.kept.len(), self.delay);
        match begun {
            Ok(()) => {
                self.state.restarts.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "service: the acceptor, the process that accepts connections, has ended ({cause}); another one was \
                     started after {delay:?}. Connections, endpoints and circuits stay ({kept} users have proxies); \
                     connections that were just being accepted have ended"
                );
            }
            Err(e) => {
                tracing::error!("service: no acceptor, which accepts connections, can be started: {e}");
                self.delay = (2 * self.delay).min(MAX_DELAY);
                self.begun = now + self.delay;
            }
        }
    }

    /// Begins an acceptor, and tells it what there is.
    fn begin(&mut self) -> Result<(), Errno> {
        let (acceptor, theirs) = frame::pair()?;
        if matches!(self.spawner.ask(&theirs), Err(Errno::PIPE | Errno::CONNRESET)) {
            tracing::warn!("service: the spawner, which starts acceptors, has ended: another one is started");
            self.spawner = Spawner::begin(&self.listener)?;
            self.spawner.ask(&theirs)?;
        }
        self.orders.clear();
        for (user_proxy, Kept { uid, admitted, fds }) in &self.kept {
            let order = ToAcceptor::Adopt { user_proxy: *user_proxy, uid: *uid, admitted: *admitted };
            // One that there is no descriptor for ends with the next acceptor.
            if let Ok(fds) = fds.iter().map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>() {
                self.orders.push_back((order, fds));
            }
        }
        self.orders.push_back((ToAcceptor::Accept { next: self.next }, Vec::new()));
        (self.acceptor, self.begun) = (Some(acceptor), Instant::now());
        self.state.accepts.store(true, Ordering::Relaxed);
        self.flush();
        Ok(())
    }

    /// Sends what waits for the acceptor, as far as there is room.
    fn flush(&mut self) {
        let Some(acceptor) = &self.acceptor else { return };
        while let Some((order, fds)) = self.orders.front() {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match frame::send(acceptor, &[&serde_json::to_vec(order).unwrap_or_default()], &fds) {
                Err(e) if e == Errno::AGAIN || frame::is_out_of_room(e) => return,
                // Sent; or it has gone, which is seen where it is read.
                _ => drop(self.orders.pop_front()),
            }
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // The acceptor ends when this side of the channel does; its user proxies with it.
        if let Some(acceptor) = &self.acceptor {
            let _ = rustix::net::shutdown(acceptor, rustix::net::Shutdown::Both);
        }
        self.child.end(Duration::from_secs(2));
        self.spawner.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        let listener = endpoint::seqpacket::Packets::listen(&folder.path().join("socket")).unwrap();
        (folder, listener)
    }

    #[test]
    fn a_connection_whose_board_cannot_be_mapped_ends_and_the_next_one_is_served() {
        let (_folder, listener) = listener();
        let (acceptor, theirs) = frame::pair().unwrap();
        let spawner = Spawner::begin(&listener).unwrap();
        let mut connections = Connections::with(listener, spawner, Some(acceptor));
        let arrive = |user_proxy: u64, board: BorrowedFd<'_>| {
            let arrival = Arrival { pid: 1, uid: 1, gid: 1, groups: Vec::new(), user_proxy, slot: 0 };
            let (end, _) = frame::pair().unwrap();
            let text = serde_json::to_vec(&ToService::Arrival(arrival)).unwrap();
            frame::send(&theirs, &[&text], &[end.as_fd(), board]).unwrap();
        };
        arrive(1, theirs.as_fd());
        let (_board, fd) = BellTable::create().unwrap();
        arrive(2, fd.as_fd());
        assert_eq!(connections.next().expect("the next one").peer.uid, 1);
        assert!(connections.next().is_none() && connections.acceptor.is_some(), "the acceptor is there");
    }

    #[test]
    fn the_time_to_the_next_acceptor_doubles_up_to_a_bound_and_is_short_after_one_that_has_lived() {
        let (_folder, listener) = listener();
        let spawner = Spawner::begin(&listener).unwrap();
        let mut connections = Connections::with(listener, spawner, None);
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..12 {
            connections.begun = now;
            connections.lose(now);
            delays.push(connections.poll_timeout().unwrap() - now);
            now += connections.delay;
        }
        assert!(delays.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(MAX_DELAY)), "{delays:?}");
        assert_eq!(delays.last(), Some(&MAX_DELAY));
        connections.begun = now;
        connections.lose(now + STEADY);
        assert_eq!(connections.delay, FIRST_DELAY);
    }

    #[test]
    fn an_acceptor_begins_again_where_its_spawner_was_killed_too() {
        let (_folder, listener) = listener();
        let mut connections = Connections::open(listener).unwrap();
        connections.spawner.end();
        connections.child.kill();
        let begin = Instant::now();
        while connections.state.restarts() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "no acceptor has begun");
            assert!(connections.next().is_none());
            connections.handle_timeout(Instant::now());
            std::thread::yield_now();
        }
        assert!(connections.state.accepts() && connections.next().is_none());
    }
}
