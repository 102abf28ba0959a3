//! Whether a user's calls have room beside those of others, and what ends when a right has gone.

use super::applications::{Refusal, User};
use super::book::Call;
use super::call_controller::{CallController, Interface, Role};
use super::shares::{Caller, Room};
use endpoint::calls::{Event, Order};
use uni::call::CallId;
use wire::Time;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// How many places a call has in call control, with its parties; 0 if it is forgotten there.
fn places(interfaces: &[Option<Interface>]) -> impl Fn(usize, CallId) -> u64 + Copy {
    move |interface, id| match interfaces.get(interface).and_then(Option::as_ref).map(|interface| &interface.role) {
        Some(Role::Host(port)) if port.calls().state(id).is_some() => port.calls().party_count(id).max(1) as u64,
        _ => 0,
    }
}

impl CallController {
    fn recount(&mut self, uid: u32) {
        let places = places(&self.interfaces);
        let live = self.book.live(uid, places);
        self.book.shares.recount(uid, live, places);
    }

    /// One place more for a user, and so many cells each second.
    pub(super) fn make_room(&mut self, user: User, reserved: u64) -> Result<(), Refusal> {
        let uid = user.uid;
        if self.book.shares.fits(user, reserved) {
            return Ok(());
        }
        self.recount(uid);
        if self.book.shares.fits(user, reserved) {
            return Ok(());
        }
        let has = self.book.shares.of(uid);
        if has.places >= user.max_calls {
            return Err(Refusal::Quota { uid, most: user.max_calls });
        }
        Err(Refusal::Bandwidth { uid, left: user.max_reserved.saturating_sub(has.reserved), asked: reserved })
    }

    /// Whether a user may answer one call more. Calls that are being released keep nobody from that, up to a bound.
    pub(super) fn may_answer(&mut self, user: User) -> bool {
        if self.make_room(user, 0).is_ok() {
            return true;
        }
        let live = self.book.live(user.uid, places(&self.interfaces)).places;
        self.book.shares.fits_answer(user, live)
    }

    /// Makes room for one call more of a caller's, if the user may be presented one.
    pub(super) fn make_room_for_offer(&mut self, user: User, caller: Caller, now: Time) -> bool {
        let mut room = self.book.shares.room(user, caller);
        // Without a bound no place can be wanting.
        if room != Room::Yes && user.max_calls < u64::MAX {
            self.recount(user.uid);
            room = self.book.shares.room(user, caller);
        }
        if let Room::InsteadOf(call) = room {
            self.fail(call, CauseValue::BUSY, now);
        }
        room != Room::No
    }

    /// A call that this side has ended keeps its place until call control has forgotten it.
    pub(super) fn leave(&mut self, call: &Call) {
        // A signalling program clears its calls itself.
        let Some(id) = call.id else { return };
        if self.book.shares.leave(call.uid, (call.interface, id), call.reserved) {
            self.book.shares.prune(call.uid, places(&self.interfaces));
        }
    }

    /// Cells each second that the calls of a user reserve.
    pub fn reserved_by(&mut self, uid: u32) -> u64 {
        if self.book.shares.of(uid).reserved > 0 {
            self.recount(uid);
        }
        self.book.shares.of(uid).reserved
    }

    /// What a session may do has changed: what it may not have any more ends. `may` says whether it may call an address
    /// from a host, or without one listen there.
    pub fn review(&mut self, session: u64, user: User, may: impl Fn(&str, Option<&Aesa>) -> bool, now: Time) {
        let why = CauseValue::BEARER_NOT_AUTHORISED;
        let mut listens = std::mem::take(&mut self.book.listens);
        let mut revoked = Vec::new();
        listens.retain_mut(|listen| {
            if listen.session != session {
                return true;
            }
            listen.user = user;
            let stays = may(&self.station(listen.interface), None);
            if !stays {
                revoked.push((listen.interface, listen.number));
            }
            stays
        });
        self.book.listens = listens;
        for (at, listener) in revoked {
            self.order(at, Order::Close { socket: listener });
        }
        for number in self.book.calls_of(session) {
            let Some(call) = self.book.calls.get(&number) else { continue };
            let host = self.station(call.interface);
            if !may(&host, call.to.as_ref().filter(|_| call.outgoing)) {
                self.fail(number, why, now);
                continue;
            }
            let parties = call.root.iter().flat_map(|root| &root.parties);
            let lost: Vec<u16> = parties.filter(|(_, to)| !may(&host, Some(to))).map(|(at, _)| *at).collect();
            for party in lost {
                // It may be leaving already.
                let dropped = self.drop_party(session, number, party, why, now).is_ok();
                if dropped && self.book.calls.contains_key(&number) {
                    let text = why.text().unwrap_or_default().to_owned();
                    self.book.tell(session, Event::PartyDropped { call: number, party, cause: why.0, text });
                }
            }
        }
    }
}
