//! What each user's calls have of what all users share: places in call control, and the bandwidth that their contracts
//! reserve.
//!
//! A call has a place from its beginning until call control has forgotten it, so also while a release waits for the
//! other side. Each party of a root has one. A call that was presented and has no answer has no place of the called
//! user's, so that nobody is kept from calling by being called. One caller has a quarter of a user's unanswered calls
//! at most, and where there is no room for one more, who has most of them yields one to a caller who has two less. A
//! caller is a host that the network has checked, whatever its selector; all others are one.
//!
//! A user whose answered calls have all places is still presented a quarter as many: a server decides which of its
//! callers yields. What it releases for an answer keeps its place for a moment, so answers may exceed `max_calls` by
//! that quarter.
//!
//! Sums only grow between two counts: whoever seems to have too much is counted anew before anything is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use uni::call::CallId;
use wire::aesa::Aesa;

/// Calls of a user that are being cleared, before a look which of them are gone.
const LOOK: usize = 64;

/// Calls that were presented to a user and have no answer, at most: less than half of a session's events, so that a
/// session hears of them and of their end.
pub(super) const MAX_OFFERED: usize = 384;

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

    /// Calls that a user with `max_calls` answered ones may still be presented, so that it can release one for another.
    /// Answers may exceed `max_calls` by as many while others are being released.
    const fn spare(&self) -> u64 {
        self.max_calls.div_ceil(4)
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

/// Who calls, as far as the network knows.
pub(super) type Caller = Option<Aesa>;

/// Whether a user may be presented one call more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Yes,
    /// If this call ends.
    InsteadOf(u64),
    No,
}

/// Of all users.
#[derive(Debug, Default)]
pub(super) struct Shares {
    users: HashMap<u32, Share>,
    /// Calls that were presented to a user and have no answer, by who calls.
    offered: HashMap<u32, BTreeMap<Caller, BTreeSet<u64>>>,
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

    /// Whether a user may answer one call more, of whose calls `live` are not being released.
    pub(super) fn fits_answer(&self, user: User, live: u64) -> bool {
        live < user.max_calls && self.of(user.uid).places < user.max_calls.saturating_add(user.spare())
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
    pub(super) fn room(&self, user: User, caller: Caller) -> Room {
        let none = BTreeMap::new();
        let offered = self.offered.get(&user.uid).unwrap_or(&none);
        let own = offered.get(&caller).map_or(0, BTreeSet::len);
        let all: usize = offered.values().map(BTreeSet::len).sum();
        if own as u64 >= user.max_calls.div_ceil(4) {
            return Room::No;
        }
        let all_places = self.of(user.uid).places.saturating_add(all as u64);
        if all < MAX_OFFERED && (all_places < user.max_calls || (all as u64) < user.spare()) {
            return Room::Yes;
        }
        match offered.values().max_by_key(|calls| calls.len()) {
            Some(most) if most.len() >= own + 2 => most.last().map_or(Room::No, |last| Room::InsteadOf(*last)),
            _ => Room::No,
        }
    }

    /// A call was presented.
    pub(super) fn offer(&mut self, uid: u32, caller: Caller, call: u64) {
        self.offered.entry(uid).or_default().entry(caller).or_default().insert(call);
    }

    /// It has an answer, or has gone.
    pub(super) fn end_offer(&mut self, uid: u32, caller: Caller, call: u64) {
        let Some(offered) = self.offered.get_mut(&uid) else { return };
        if let Some(calls) = offered.get_mut(&caller) {
            calls.remove(&call);
            if calls.is_empty() {
                offered.remove(&caller);
            }
        }
        if offered.is_empty() {
            self.offered.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: u32 = 7;

    fn caller(n: u8) -> Caller {
        Some(Aesa([n; 20]))
    }

    #[test]
    fn a_caller_has_a_quarter_and_one_of_who_has_most_yields_to_who_has_two_less() {
        let user = User { max_calls: 9, ..User::unlimited(UID) };
        let mut shares = Shares::default();
        for call in 0..9 {
            // Three callers have a quarter, rounded up, each.
            let caller = caller(call as u8 / 3);
            assert_eq!(shares.room(user, caller), Room::Yes, "{call}");
            shares.offer(UID, caller, call);
        }
        assert_eq!(shares.room(user, caller(2)), Room::No, "more than a quarter");
        let last = |room| match room {
            Room::InsteadOf(call) => call,
            other => panic!("{other:?}"),
        };
        let first = last(shares.room(user, caller(3)));
        assert_eq!(first % 3, 2, "the latest of its caller");
        shares.end_offer(UID, caller(first as u8 / 3), first);
        shares.offer(UID, caller(3), 9);
        let second = last(shares.room(user, caller(3)));
        assert_ne!(second / 3, first / 3, "who has yielded one has not most");
        shares.end_offer(UID, caller(second as u8 / 3), second);
        shares.offer(UID, caller(3), 10);
        // 3, 2, 2 and 2: nobody has two more.
        assert_eq!(shares.room(user, caller(3)), Room::No);
        (0..=10).for_each(|call| (0..4).for_each(|n| shares.end_offer(UID, caller(n), call)));
        assert!(shares.offered.is_empty());
    }

    #[test]
    fn who_has_no_bound_is_presented_so_many_calls_and_who_has_no_place_left_a_quarter() {
        let user = User::unlimited(UID);
        let mut shares = Shares::default();
        for call in 0..MAX_OFFERED as u64 {
            assert_eq!(shares.room(user, None), Room::Yes);
            shares.offer(UID, None, call);
        }
        assert_eq!(shares.room(user, None), Room::No);
        assert_eq!(shares.room(user, caller(1)), Room::InsteadOf(MAX_OFFERED as u64 - 1));
        // Of one with a bound, answered calls have places too, but a quarter can be presented beside them.
        let bounded = User { max_calls: 8, ..User::unlimited(UID + 1) };
        (0..8).for_each(|_| shares.take(bounded.uid, 0));
        for call in 1000..1002 {
            assert_eq!(shares.room(bounded, None), Room::Yes);
            shares.offer(bounded.uid, None, call);
        }
        assert_eq!(shares.room(bounded, None), Room::No);
        assert_eq!(shares.room(bounded, caller(1)), Room::InsteadOf(1001));
    }

    #[test]
    fn an_answer_takes_a_place_beside_calls_that_are_being_released_and_a_quarter_at_most() {
        let user = User { max_calls: 8, ..User::unlimited(UID) };
        let mut shares = Shares::default();
        (0..8).for_each(|_| shares.take(UID, 0));
        assert!(!shares.fits_answer(user, 8), "all are up");
        assert!(shares.fits_answer(user, 7) && !shares.fits(user, 0), "one is being released");
        (0..2).for_each(|_| shares.take(UID, 0));
        assert!(!shares.fits_answer(user, 6), "as many as may be released at a time");
    }
}
