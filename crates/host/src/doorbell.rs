//! Doorbells: how an application wakes the engine's thread, and why it can do no more than that.
//!
//! A doorbell is an eventfd of the service's that a client has a copy of. The engine hears it and never reads, writes
//! or empties it. The client's copy shares the eventfd's waiters, so that a client can make it slow to take a waiter
//! off (158 000 epoll registrations: 0.1 s). So each is in an epoll of its own, which is in the engine's: the engine
//! takes off that one, which the client cannot reach, and the reaper ends the rest.
//!
//! A client that rings for nothing is heard [`MOST_IDLE`] times in [`WINDOW`], and then no more until that is over.

use crate::channels::EndpointId;
use net::NodeId;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Rings without a reason that are heard in a window.
const MOST_IDLE: u32 = 64;
/// How long a window is.
const WINDOW: Duration = Duration::from_millis(10);

/// An application's doorbell, heard by the engine from `Doorbell::new` on.
#[derive(Debug)]
pub struct Doorbell {
    /// The shard whose thread hears it.
    shard: usize,
    number: u64,
    inner: Option<(OwnedFd, OwnedFd)>,
}

impl Doorbell {
    /// A new one, and the application's copy. For a thread other than the engine's: the system may take time to put an
    /// epoll into another.
    pub(crate) fn new(bells: &OwnedFd, shard: usize, number: u64) -> std::io::Result<(Self, OwnedFd)> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&inner, &bell, EventData::new_u64(0), flags)?;
        epoll::add(bells, &inner, EventData::new_u64(number), flags)?;
        let copy = bell.try_clone()?;
        Ok((Doorbell { shard, number, inner: Some((inner, bell)) }, copy))
    }
}

impl Doorbell {
    /// The shard whose thread hears it.
    pub(crate) fn shard(&self) -> usize {
        self.shard
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            crate::reaper::dispose(inner);
        }
    }
}

#[derive(Debug)]
struct Heard {
    node: NodeId,
    endpoint: EndpointId,
    doorbell: Doorbell,
    window: Instant,
    idle: u32,
    muted: bool,
}

/// The doorbells of an engine, by number.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    all: HashMap<u64, Heard>,
    muted: Vec<(Instant, u64)>,
}

impl Doorbells {
    pub(crate) fn insert(&mut self, node: NodeId, endpoint: EndpointId, doorbell: Doorbell, now: Instant) {
        let heard = Heard { node, endpoint, window: now, idle: 0, muted: false, doorbell };
        self.all.insert(heard.doorbell.number, heard);
    }

    /// Forgets those that `keeps` says no to.
    pub(crate) fn retain(&mut self, bells: &OwnedFd, keeps: impl Fn(NodeId, EndpointId) -> bool) {
        self.all.retain(|_, heard| {
            let stays = keeps(heard.node, heard.endpoint);
            if !stays && let Some((inner, _)) = &heard.doorbell.inner {
                let _ = epoll::delete(bells, inner.as_fd());
            }
            stays
        });
    }

    /// Whose doorbell has this number.
    pub(crate) fn find(&self, number: u64) -> Option<(NodeId, EndpointId)> {
        self.all.get(&number).map(|heard| (heard.node, heard.endpoint))
    }

    /// It rang for nothing. Heard no more for a while if it does so often.
    pub(crate) fn handle_idle(&mut self, bells: &OwnedFd, number: u64, now: Instant) {
        let Some(heard) = self.all.get_mut(&number) else { return };
        if now.duration_since(heard.window) >= WINDOW {
            (heard.window, heard.idle) = (now, 0);
        }
        heard.idle += 1;
        if heard.idle <= MOST_IDLE || heard.muted {
            return;
        }
        if let Some((inner, _)) = &heard.doorbell.inner {
            heard.muted = epoll::modify(bells, inner, EventData::new_u64(number), EventFlags::empty()).is_ok();
            self.muted.push((heard.window + WINDOW, number));
        }
    }

    /// Whether one is not heard for a while.
    pub(crate) fn has_muted(&self) -> bool {
        !self.muted.is_empty()
    }

    /// How long until one is to be heard again.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let until = self.muted.iter().map(|(until, _)| *until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Hears one again whose time is over, and says whose it is: it may have rung meanwhile.
    pub(crate) fn poll_unmuted(&mut self, bells: &OwnedFd, now: Instant) -> Option<(NodeId, EndpointId)> {
        let at = self.muted.iter().position(|(until, _)| *until <= now)?;
        let (_, number) = self.muted.swap_remove(at);
        let heard = self.all.get_mut(&number)?;
        if let Some((inner, _)) = &heard.doorbell.inner {
            let _ = epoll::modify(bells, inner, EventData::new_u64(number), EventFlags::IN | EventFlags::ET);
        }
        (heard.muted, heard.window, heard.idle) = (false, now, 0);
        Some((heard.node, heard.endpoint))
    }
}
