//! What each user's calls have of what all users share: places in call control, and the bandwidth that their contracts reserve.
//!
//! A call has a place from its beginning until call control has forgotten it, so also while a release waits for the other side.
//! Each party of a root has one. A call that was presented and has no answer has no place of the called user's, so that nobody
//! is kept from calling by being called. One caller has a quarter of a user's unanswered calls at most.
//!
//! Sums only grow between two counts: whoever seems to have too much is counted anew before anything is refused.

use std::collections::HashMap;
use uni::call::CallId;
use wire::aesa::Aesa;

/// Calls of a user that are being cleared, before a look which of them are gone.
const LOOK: usize = 64;

/// Who has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// How many calls the user may have, and parties of calls.
    pub max_calls: u64,
    /// Cells each second that the calls that the user begins may reserve together, in both directions.
    pub max_reserved: u64,
}

impl User {
    /// Without bounds: who runs the network.
    pub const fn unlimited(uid: u32) -> Self {
        User { uid, max_calls: u64::MAX, max_reserved: u64::MAX }
    }
}

/// A call that its user has ended, until call control has forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaving {
    interface: usize,
    id: CallId,
    reserved: u64,
}

/// What a user's calls have at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Has {
    /// Calls and parties.
    pub(super) places: u64,
    /// Cells each second that contracts reserve.
    pub(super) reserved: u64,
}

#[derive(Debug, Default)]
struct Share {
    has: Has,
    leaving: Vec<Leaving>,
    look_at: usize,
}

impl Share {
    /// Forgets what is gone; gives what the rest has.
    fn prune(&mut self, places: impl Fn(usize, CallId) -> u64) -> Has {
        let mut rest = Has::default();
        self.leaving.retain(|gone| {
            let own = places(gone.interface, gone.id);
            rest.places += own;
            rest.reserved += if own > 0 { gone.reserved } else { 0 };
            own > 0
        });
        self.look_at = LOOK.max(2 * self.leaving.len());
        rest
    }
}

/// Of all users.
#[derive(Debug, Default)]
pub(super) struct Shares {
    users: HashMap<u32, Share>,
    /// Calls that were presented to a user and have no answer, by who calls.
    offered: HashMap<u32, HashMap<Option<Aesa>, u64>>,
}

impl Shares {
    /// A call has begun, or a party.
    pub(super) fn take(&mut self, uid: u32, reserved: u64) {
        let has = &mut self.users.entry(uid).or_default().has;
        has.places += 1;
        has.reserved = has.reserved.saturating_add(reserved);
    }

    /// What a user has, or more.
    pub(super) fn of(&self, uid: u32) -> Has {
        self.users.get(&uid).map(|share| share.has).unwrap_or_default()
    }

    /// Whether a user may have one place more, and reserve so much more.
    pub(super) fn fits(&self, user: User, reserved: u64) -> bool {
        let has = self.of(user.uid);
        has.places < user.max_calls && (reserved == 0 || has.reserved.saturating_add(reserved) <= user.max_reserved)
    }

    /// A user has ended a call. True if [`Shares::prune`] is due.
    pub(super) fn leave(&mut self, uid: u32, (interface, id): (usize, CallId), reserved: u64) -> bool {
        let share = self.users.entry(uid).or_default();
        share.leaving.push(Leaving { interface, id, reserved });
        share.leaving.len() >= share.look_at.max(LOOK)
    }

    /// Forgets calls that are cleared. `places` says how many places a call still has in call control.
    pub(super) fn prune(&mut self, uid: u32, places: impl Fn(usize, CallId) -> u64) {
        if let Some(share) = self.users.get_mut(&uid) {
            share.prune(places);
        }
    }

    /// Counts a user anew: `live` is what the calls have that are there.
    pub(super) fn recount(&mut self, uid: u32, live: Has, places: impl Fn(usize, CallId) -> u64) {
        let Some(share) = self.users.get_mut(&uid) else { return };
        let left = share.prune(places);
        share.has = Has { places: live.places + left.places, reserved: live.reserved.saturating_add(left.reserved) };
        if share.has == Has::default() {
            self.users.remove(&uid);
        }
    }

    /// Whether a user may be presented one call more of a caller.
    pub(super) fn may_offer(&self, user: User, from: Option<Aesa>) -> bool {
        let Some(offered) = self.offered.get(&user.uid) else { return user.max_calls > self.of(user.uid).places };
        let all: u64 = offered.values().sum();
        let of_caller = offered.get(&from).copied().unwrap_or_default();
        self.of(user.uid).places.saturating_add(all) < user.max_calls && of_caller < user.max_calls.div_ceil(4)
    }

    /// A call was presented.
    pub(super) fn offer(&mut self, uid: u32, from: Option<Aesa>) {
        *self.offered.entry(uid).or_default().entry(from).or_default() += 1;
    }

    /// It has an answer, or has gone.
    pub(super) fn end_offer(&mut self, uid: u32, from: Option<Aesa>) {
        let Some(offered) = self.offered.get_mut(&uid) else { return };
        if let Some(count) = offered.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                offered.remove(&from);
            }
        }
        if offered.is_empty() {
            self.offered.remove(&uid);
        }
    }
}
