//! Direct calls: which there are, and which of several to one station has the frames.

use super::super::Link;
use super::{Action, Client};
use crate::places::who_yields;
use std::time::Duration;
use wire::aesa::Aesa;
use wire::lane::{Operation, emit_ready};
use wire::{DropReason, Time};

/// Direct calls at a time.
pub(super) const MAX_DIRECT: usize = 64;
/// C28: how long the caller of a direct call may be silent.
pub(super) const READY: Duration = Duration::from_secs(4);

/// A direct call.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) peer: Option<Aesa>,
    pub(super) is_up: bool,
    /// The other side takes frames.
    pub(super) is_ready: bool,
    /// When the other side is asked whether it does.
    pub(super) query: Time,
    /// When a frame went or came.
    pub(super) used: Time,
    /// Since when it is up.
    since: Time,
}

impl Direct {
    /// One that was presented.
    pub(super) fn called(peer: Option<Aesa>, now: Time) -> Self {
        Direct { peer, is_up: false, is_ready: false, query: now + READY, used: now, since: now }
    }

    /// One that was asked for. Who has called may send as soon as the call is up.
    pub(super) fn made(peer: Aesa, now: Time) -> Self {
        Direct { is_ready: true, ..Direct::called(Some(peer), now) }
    }

    pub(super) fn handle_up(&mut self, now: Time) {
        (self.is_up, self.used, self.since) = (true, now, now);
    }
}

impl Client {
    /// The call that has the frames for a station. Where both sides have called each other it is the lower address's
    /// call (section 8.1.11), and of several such calls the last: Linux forgets a station that sends on another, and
    /// calls it anew.
    pub(super) fn best_call(&self, atm: Aesa) -> Option<Link> {
        let own_is_lower = self.config.own < atm;
        let usable =
            self.direct.iter().filter(|(_, direct)| direct.peer == Some(atm) && direct.is_up && direct.is_ready);
        let rank = |link: Link, direct: &Direct| (matches!(link, Link::Made(_)) == own_is_lower, direct.since, link);
        usable.max_by_key(|(link, direct)| rank(**link, direct)).map(|(link, _)| *link)
    }

    /// Whether there can be one direct call more, with this station; another that came ends for it where all are taken.
    pub(super) fn has_room(&mut self, with: Option<Aesa>, now: Time) -> bool {
        if self.direct.len() < MAX_DIRECT {
            return true;
        }
        let came = self.direct.iter().filter(|(link, _)| matches!(link, Link::Taken(_)));
        let Some(link) = who_yields(came.map(|(link, direct)| (*link, direct.peer, direct.is_ready)), with) else {
            return false;
        };
        self.out.counters.drop_one(DropReason::TableFull);
        self.out.act(Action::Release(link));
        // Its place is for somebody else.
        self.paths.values_mut().for_each(|path| path.yield_call(link, now));
        self.handle_released(link, now);
        self.direct.len() < MAX_DIRECT
    }

    pub(super) fn handle_ready(&mut self, link: Link, operation: Operation, now: Time) {
        let Some(direct) = self.direct.get_mut(&link) else {
            return self.out.counters.drop_one(DropReason::NotPermitted);
        };
        if operation == Operation::READY_QUERY {
            return self.out.frame(link, &emit_ready(Operation::READY_INDICATION));
        }
        direct.is_ready = true;
        self.change_paths(link, now);
    }

    /// Whether a frame came on a direct call; then the other side is ready, too.
    pub(super) fn handle_direct_data(&mut self, link: Link, now: Time) -> bool {
        let Some(direct) = self.direct.get_mut(&link) else { return false };
        direct.used = now;
        if !std::mem::replace(&mut direct.is_ready, true) {
            self.change_paths(link, now);
        }
        true
    }
}
