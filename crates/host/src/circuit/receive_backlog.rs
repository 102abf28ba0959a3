//! Parcels that a host keeps because their receiver has no room for them yet. On a circuit with credits a parcel is
//! kept until there is room. On a circuit of best effort it is kept for [`MOMENT`], then dropped.
//!
//! The SDUs of a kept parcel stay in their sender's memory. `outbound/in_flight.rs` bounds how many cells they stand
//! for. Nothing is kept of best effort for an application that has stopped ([`HostEndpoint::has_stopped`]).

use super::{Circuit, User};
use crate::events::machine::LINGER;
use crate::host_endpoint::HostEndpoint;
use net::{NodeIo, Parcel};
use std::collections::VecDeque;
use std::time::Duration;
use wire::{Cell, DropReason, Time};

/// Cells that a host keeps of one circuit, at most: 128 KiB.
pub(crate) const WINDOW: u16 = 2048;
/// How long a circuit of best effort keeps a parcel.
pub(crate) const MOMENT: Duration = Duration::from_micros(500);
/// How long a circuit with credits keeps a parcel. Then the parcel becomes cells: a sender's memory, which may outlive
/// the sender for this, is not kept for an application that takes little or nothing.
const KEPT_IN_PARCELS: Duration = Duration::from_millis(50);
/// A host that keeps something looks at least so often whether there is room for it; applications that empty their
/// receive ring ring earlier.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBacklog {
    /// Each with the time when it came.
    queue: VecDeque<(Time, Parcel)>,
    cells: usize,
}

impl ReceiveBacklog {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Cells that all of them stand for.
    pub(crate) fn cells(&self) -> usize {
        self.cells
    }

    /// PDUs in all of them.
    fn pdus(&self) -> usize {
        self.queue.iter().map(|(_, parcel)| parcel.pdus()).sum()
    }

    /// Whether the first has been kept for [`KEPT_IN_PARCELS`].
    pub(crate) fn is_old(&self, now: Time) -> bool {
        self.queue.front().is_some_and(|(came, _)| now.since(*came) >= KEPT_IN_PARCELS)
    }

    /// Keeps one behind the others.
    pub(crate) fn keep(&mut self, parcel: Parcel, now: Time) {
        self.cells += parcel.cells();
        self.queue.push_back((now, parcel));
    }

    /// Delivers as much as there is room for.
    pub(crate) fn deliver(
        &mut self,
        circuit: &mut Circuit,
        user: User,
        endpoint: &mut HostEndpoint,
        io: &mut NodeIo<'_>,
    ) {
        while let Some((_, parcel)) = self.queue.front_mut() {
            let cells = parcel.cells();
            let done = circuit.receive_what_fits_of_parcel(user, endpoint, parcel);
            parcel.drop_first(done);
            self.cells -= cells - parcel.cells();
            if parcel.pdus() > 0 {
                return;
            }
            if let Some((_, parcel)) = self.queue.pop_front() {
                io.recycle(parcel);
            }
        }
    }

    /// When the first has been kept for [`MOMENT`].
    fn due(&self) -> Option<Time> {
        self.queue.front().map(|(came, _)| *came + MOMENT)
    }

    fn take_due(&mut self, now: Time) -> Option<Parcel> {
        self.due().filter(|due| *due <= now)?;
        let (_, parcel) = self.queue.pop_front()?;
        self.cells -= parcel.cells();
        Some(parcel)
    }

    /// Makes them cells, behind others.
    pub(crate) fn cut(&mut self, into: &mut VecDeque<Cell>) {
        if self.is_empty() {
            return;
        }
        let mut cells = Vec::with_capacity(self.cells);
        self.queue.drain(..).for_each(|(_, parcel)| parcel.cut(&mut cells));
        self.cells = 0;
        into.extend(cells);
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.cells = 0;
    }
}

/// Which circuits of a host keep something.
#[derive(Debug, Default)]
pub(crate) struct BackloggedCircuits {
    pub(crate) circuits: Vec<u32>,
    /// When the application of one of them was last seen to have made room.
    pub(crate) progress: Time,
    pub(crate) look_again: Option<Time>,
}

impl BackloggedCircuits {
    /// A circuit keeps something that came just now, and did not before: it is looked at by then.
    pub(crate) fn begin(&mut self, key: u32, by: Time, now: Time) {
        self.circuits.push(key);
        self.progress = now;
        self.look_again = Some(self.look_again.map_or(by, |at| at.min(by)));
    }

    /// Whether an application that something is kept for takes what it was given: it is looked at without being asked
    /// to ring.
    pub(crate) fn gets_on(&self, now: Time) -> bool {
        !self.circuits.is_empty() && now.since(self.progress) < LINGER
    }

    pub(crate) fn rests(&self) -> bool {
        self.circuits.is_empty()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.look_again
    }
}

/// Of circuits of best effort.
impl Circuit {
    pub(crate) fn keeps_parcels(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| !kept.is_empty())
    }

    /// When the first has been kept for its time.
    pub(crate) fn kept_until(&self) -> Option<Time> {
        self.kept.as_ref().and_then(|kept| kept.due())
    }

    /// Delivers as many SDUs of a parcel as there is room for, and keeps the others. The parcel comes back if all of
    /// them are done with.
    pub(crate) fn receive_or_keep(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        mut parcel: Parcel,
        now: Time,
    ) -> Option<Parcel> {
        if !self.keeps_parcels() {
            let done = self.receive_what_fits_of_parcel(user, endpoint, &parcel);
            parcel.drop_first(done);
            if parcel.pdus() == 0 {
                return Some(parcel);
            }
        }
        let kept = self.kept.as_ref().map_or(0, |kept| kept.cells());
        if kept + parcel.cells() > usize::from(WINDOW) || endpoint.has_stopped() {
            self.give_up_kept(user, endpoint);
            self.receive_parcel(user, endpoint, &parcel);
            return Some(parcel);
        }
        self.kept.get_or_insert_default().keep(parcel, now);
        None
    }

    /// Delivers as much of what is kept as there is room for, and drops and counts what has been kept for its time.
    /// Gives how many PDUs are done with in either way.
    pub(crate) fn deliver_kept(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        io: &mut NodeIo<'_>,
        now: Time,
    ) -> [usize; 2] {
        let Some(mut kept) = self.kept.take() else { return [0; 2] };
        let before = kept.pdus();
        kept.deliver(self, user, endpoint, io);
        let delivered = before - kept.pdus();
        let mut dropped = 0;
        while let Some(parcel) = kept.take_due(now) {
            dropped += parcel.pdus();
            self.receive_parcel(user, endpoint, &parcel);
            io.recycle(parcel);
        }
        self.kept = Some(kept);
        [delivered, dropped]
    }

    /// What is kept is delivered now or dropped and counted: it is too much, or cells have come behind it.
    pub(crate) fn give_up_kept(&mut self, user: User, endpoint: &mut HostEndpoint) {
        let Some(mut kept) = self.kept.take() else { return };
        kept.queue.iter().for_each(|(_, parcel)| self.receive_parcel(user, endpoint, parcel));
        kept.clear();
        self.kept = Some(kept);
    }

    /// What is kept is dropped and counted: nobody receives it any more.
    pub(super) fn close_kept(&mut self, endpoint: Option<&mut HostEndpoint>) {
        let Some(kept) = self.kept.take() else { return };
        let pdus = kept.pdus();
        self.received.drop_n(DropReason::Closed, pdus as u64);
        if let Some(endpoint) = endpoint {
            endpoint.received.drop_n(DropReason::Closed, pdus as u64);
        }
    }
}
