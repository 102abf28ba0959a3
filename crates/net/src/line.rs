//! One direction of a link. Unlimited: one ring that the sender writes and the receiver reads. With rate, delay or
//! faults: a transmit queue whose items leave at the line's rate, the line itself, and the ring of what has arrived.

mod stale_filter;
mod timed;
mod unit;

pub(crate) use stale_filter::Purged;
pub(crate) use unit::ends_pdu;

use crate::fault::{FaultConfig, Faults};
use crate::frame::{FramePool, LONG_FRAME_CELLS};
use crate::parcel::{Parcel, Parcels};
use crate::ring::Ring;
use stale_filter::StaleFilter;
use std::time::Duration;
use timed::{Timed, flight_limit};
use unit::Unit;
use wire::{CellRate, Counters, DropReason, Time};

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Carries {
    /// 53-octet cells.
    #[default]
    Cells,
    /// Whole SDUs: no segmentation on the way.
    Frames,
}

/// One of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that was named first.
    A,
    /// The other.
    B,
}

impl Side {
    /// The sender of a line: lines lie two by two, the one from A first.
    pub(crate) const fn of_line(line: u32) -> Side {
        if line.is_multiple_of(2) { Side::A } else { Side::B }
    }
}

/// Counters of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounters {
    /// What the sender gave to the link, and what was dropped on it or before it for want of room.
    pub sent: Counters,
    /// What arrived at the far end, and was there when the far end looked.
    pub delivered: Counters,
    /// Units (cells or frames) that were sent, and dropped on the line: a part of what `sent` counts by reason.
    pub lost: u64,
    /// Units that arrived twice, by a fault.
    pub duplicated: u64,
    /// Units on the line now.
    pub waiting: u64,
    /// Units that have arrived, and that the far end has not taken yet.
    pub unread: u64,
}

impl LineCounters {
    /// Whether each unit that was sent is accounted for: delivered, lost for a reason, or still on the line.
    pub fn add_up(&self, carries: Carries) -> bool {
        units(&self.sent, carries).wrapping_add(self.duplicated)
            == units(&self.delivered, carries).wrapping_add(self.lost).wrapping_add(self.waiting)
    }

    /// Units (cells or frames) that the sender has given to the line, or has dropped and told the line.
    pub fn given(&self, carries: Carries) -> u64 {
        units(&self.sent, carries).wrapping_add(self.sent.dropped_total()).wrapping_sub(self.lost)
    }

    /// Units (cells or frames) that the far end has taken off the line.
    pub fn taken(&self, carries: Carries) -> u64 {
        units(&self.delivered, carries).wrapping_sub(self.unread)
    }
}

/// A frame of AAL0 counts as the cell that it is, others as PDUs; a cell that ends a PDU is counted as a cell.
fn units(c: &Counters, carries: Carries) -> u64 {
    match carries {
        Carries::Cells => c.cells,
        Carries::Frames => c.cells.wrapping_add(c.pdus),
    }
}

/// One direction of a link for one kind of unit.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    pub(crate) arrived: Ring<T>,
    /// Among the cells that have arrived.
    parcels: Parcels,
    /// While units of circuits that have gone are to be dropped: which.
    stale_filter: Option<Box<StaleFilter>>,
    /// Of the oldest units, how many may be read; all that there are, without a filter.
    clean: usize,
    timed: Option<Box<Timed<T>>>,
    up: bool,
    sent: Counters,
    delivered: Counters,
    /// What had arrived, and went before the far end looked.
    cleared: Counters,
    lost: u64,
    /// Cell times that may wait at the sender before it puts another unit there, on a line with a rate.
    window: u64,
}

impl<T: Unit> Lane<T> {
    pub(crate) fn new(
        queue: usize,
        rate: Option<CellRate>,
        delay: Duration,
        faults: Option<&FaultConfig>,
        direction: u64,
    ) -> Self {
        let timed = (rate.is_some() || !delay.is_zero() || faults.is_some()).then(|| {
            let flight_limit = flight_limit(queue, rate, delay + faults.map_or(Duration::ZERO, |f| f.reorder_by));
            let faults = faults.map(|f| Faults::new(f, direction));
            Box::new(Timed::new(queue, rate, delay, faults, flight_limit))
        });
        Lane {
            arrived: Ring::new(queue.max(1)),
            parcels: Parcels::default(),
            stale_filter: None,
            clean: usize::MAX,
            timed,
            up: true,
            sent: Counters::default(),
            delivered: Counters::default(),
            cleared: Counters::default(),
            lost: 0,
            window: u64::MAX,
        }
    }

    /// Lets another unit wait at the sender of a line with a rate only while those that do take less than so many cell
    /// times. The unit that is leaving counts as one cell, however long it is: the line would else be idle from its end
    /// until the sender's next look.
    pub(crate) fn set_window(&mut self, cells: Option<usize>) {
        self.window = cells.map_or(u64::MAX, |cells| cells.max(1) as u64);
    }

    /// Another rate and delay from now on. What waits leaves at the new rate; what is on the line arrives when it would
    /// have, and before all that leaves later.
    pub(crate) fn set_rate(&mut self, queue: usize, rate: Option<CellRate>, delay: Duration, now: Time) {
        let flight_limit = flight_limit(queue, rate, delay);
        let Some(timed) = &mut self.timed else {
            if rate.is_some() || !delay.is_zero() {
                self.timed = Some(Box::new(Timed::new(queue, rate, delay, None, flight_limit)));
                // Nothing was between the two ends until now.
                let sent = self.sent;
                (self.delivered.cells, self.delivered.pdus, self.delivered.octets) =
                    (sent.cells, sent.pdus, sent.octets);
            }
            return;
        };
        timed.delay = delay;
        timed.flight_limit = timed.flight_limit.max(flight_limit);
        timed.set_rate(rate, now);
    }

    /// Whether what is put on it arrives later than at once.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed.is_some()
    }

    /// Slots that the sender may write.
    pub(crate) fn writable(&mut self) -> &mut [T] {
        match &mut self.timed {
            Some(timed) => {
                let most = self.window.saturating_sub(timed.waiting());
                let slots = timed.queue.writable();
                let most = slots.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                &mut slots[..most]
            }
            None => {
                // Parcels take as much of the queue as their cells would.
                let most = self.arrived.room().saturating_sub(self.parcels.cells());
                let slots = self.arrived.writable();
                let most = most.min(slots.len());
                &mut slots[..most]
            }
        }
    }

    /// What has arrived, oldest first, up to the first parcel or the end of the ring's memory.
    pub(crate) fn readable(&self) -> &[T] {
        let units = self.arrived.readable();
        &units[..units.len().min(self.parcels.cells_before()).min(self.clean)]
    }

    /// Takes the first `n` of [`Lane::readable`].
    pub(crate) fn consume(&mut self, n: usize) {
        self.arrived.consume(n);
        self.handle_taken(n);
    }

    /// Moves the oldest `n` units that may be read to another line, where they arrive at once: one that is up, has no
    /// rate, delay or faults, and [`Lane::room`] for them. `f` changes each on the way.
    pub(crate) fn move_to(&mut self, to: &mut Lane<T>, n: usize, now: Time, mut f: impl FnMut(&mut T)) {
        let n = n.min(self.parcels.cells_before()).min(self.clean);
        let sent = &mut to.sent;
        let moved = self.arrived.move_to(&mut to.arrived, n, |unit, slot| {
            unit.pass_to(slot);
            f(slot);
            slot.count(sent);
            slot.set_at(now);
        });
        self.handle_taken(moved);
    }

    /// The oldest that has arrived.
    pub(crate) fn front(&self) -> Option<&T> {
        self.readable().first()
    }

    /// Takes the oldest that has arrived.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.clean == 0 {
            return None;
        }
        let unit = self.arrived.pop()?;
        self.handle_taken(1);
        Some(unit)
    }

    #[inline]
    fn handle_taken(&mut self, n: usize) {
        self.parcels.handle_taken(n);
        if self.clean != usize::MAX {
            self.pass_clean(n);
        }
    }

    /// The ring of what has arrived, for a reader that gives it back by [`Lane::return_ring`].
    pub(crate) fn lend_ring(&mut self) -> (Ring<T>, usize) {
        (core::mem::take(&mut self.arrived), self.parcels.cells_before().min(self.clean))
    }

    /// Takes the ring back, out of which `taken` units were taken.
    pub(crate) fn return_ring(&mut self, ring: Ring<T>, taken: usize) {
        self.arrived = ring;
        self.handle_taken(taken);
    }

    /// Cells that a parcel may stand for which is put now. `None`: the line does not carry them at once, or is down.
    pub(crate) fn parcel_room(&self) -> Option<usize> {
        let at_once = self.timed.is_none() && self.up;
        at_once.then(|| self.arrived.room().saturating_sub(self.parcels.cells()))
    }

    /// Puts a parcel of no more cells than [`Lane::parcel_room`] behind all that is on the line.
    pub(crate) fn put_parcel(&mut self, parcel: Parcel) {
        let cells = parcel.cells();
        self.sent.pass([cells as u64, parcel.pdus() as u64, (cells * wire::cell::PAYLOAD_OCTETS) as u64]);
        self.parcels.put(parcel, self.arrived.len());
    }

    /// Takes the parcel that is the oldest on the line.
    pub(crate) fn take_parcel(&mut self) -> Option<Parcel> {
        if self.clean == usize::MAX {
            return self.parcels.take();
        }
        let parcel = if self.is_parcel_clean() { self.parcels.take() } else { None };
        self.pass_clean(usize::from(parcel.is_some()));
        parcel
    }

    /// What is on it.
    pub(crate) fn len(&self) -> usize {
        self.parcels.cells()
            + self.arrived.len()
            + self.timed.as_ref().map_or(0, |timed| timed.queue.len() + timed.flight.len())
    }

    /// How many more the sender may put on it, if they are of one cell: of a promised rate, or of others.
    pub(crate) fn room(&self, promised: bool) -> usize {
        let Some(timed) = &self.timed else { return self.arrived.room().saturating_sub(self.parcels.cells()) };
        let past = if promised { LONG_FRAME_CELLS } else { 0 };
        let window = self.window.saturating_add(past).saturating_sub(timed.waiting());
        timed.queue.room().min(usize::try_from(window).unwrap_or(usize::MAX))
    }

    /// Where the sender writes.
    fn queue(&mut self) -> &mut Ring<T> {
        self.timed.as_mut().map_or(&mut self.arrived, |timed| &mut timed.queue)
    }

    /// Sends the first `n` slots of [`Lane::writable`]: they are counted and, on a line with a rate, get their time.
    /// On a line that is down they go nowhere and are counted so.
    pub(crate) fn commit(&mut self, n: usize, now: Time, pool: &mut FramePool) {
        let up = self.up;
        let n = n.min(self.queue().writable().len());
        let mut unqueued = 0;
        let (ring, mut clock, queued_cells) = match &mut self.timed {
            Some(timed) => (&mut timed.queue, timed.clock.as_mut(), &mut timed.queued_cells),
            None => (&mut self.arrived, None, &mut unqueued),
        };
        if up && clock.is_none() {
            *queued_cells += ring.writable()[..n].iter().map(T::cell_times).sum::<u64>();
            T::send_at(&mut ring.writable()[..n], now, &mut self.sent);
            return ring.commit(n);
        }
        for unit in &mut ring.writable()[..n] {
            if up {
                unit.count(&mut self.sent);
                *queued_cells += unit.cell_times();
                let left = clock.as_mut().map_or(now, |c| c.send(unit.cell_times(), now));
                unit.set_at(left);
            } else {
                self.sent.drop_one(DropReason::LinkDown);
                core::mem::take(unit).discard(pool);
            }
        }
        if up {
            ring.commit(n);
        }
    }

    /// Sends one unit; whoever does has asked for [`Lane::room`]. On a line that is down it goes nowhere and is counted
    /// so.
    ///
    /// # Errors
    /// The unit itself, if the line is full.
    #[inline]
    pub(crate) fn put(&mut self, mut unit: T, now: Time, pool: &mut FramePool) -> Result<(), T> {
        if self.up && self.timed.is_none() {
            let Some(slot) = self.arrived.writable().first_mut() else { return Err(unit) };
            unit.count(&mut self.sent);
            unit.set_at(now);
            *slot = unit;
            self.arrived.commit(1);
        } else {
            let Some(slot) = self.queue().writable().first_mut() else { return Err(unit) };
            *slot = unit;
            self.commit(1, now, pool);
        }
        Ok(())
    }

    /// [`Lane::commit`] of cells of which `pdus` are the last of a PDU. What arrives at once needs no time: the cells
    /// are not looked at.
    pub(crate) fn commit_pdus(&mut self, n: usize, pdus: u64, now: Time, pool: &mut FramePool) {
        if !self.up || self.timed.is_some() {
            return self.commit(n, now, pool);
        }
        let n = n.min(self.writable().len());
        self.sent.cells = self.sent.cells.wrapping_add(n as u64);
        self.sent.pdus = self.sent.pdus.wrapping_add(pdus);
        self.sent.octets = self.sent.octets.wrapping_add((n * wire::cell::PAYLOAD_OCTETS) as u64);
        self.arrived.commit(n);
    }

    /// Whether the receiver has taken all that was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.arrived.is_empty()
            && self.parcels.is_empty()
            && self.timed.as_ref().is_none_or(|t| t.queue.is_empty() && t.flight.is_empty())
    }

    /// What the sender could not send.
    pub(crate) fn count_drops(&mut self, reason: DropReason, n: u64) {
        self.sent.drop_n(reason, n);
    }

    /// What had arrived here from another shard and was dropped before anybody read it: cells, PDUs and octets, and how
    /// many units.
    pub(crate) fn unread_drops(&self) -> (Counters, u64) {
        (self.cleared, self.lost)
    }

    pub(crate) fn counters(&self) -> LineCounters {
        // Nothing can happen between the two ends of one ring.
        let arrived = if self.timed.is_some() { &self.delivered } else { &self.sent };
        let mut delivered = Counters::default();
        delivered.cells = arrived.cells.wrapping_sub(self.cleared.cells);
        delivered.pdus = arrived.pdus.wrapping_sub(self.cleared.pdus);
        delivered.octets = arrived.octets.wrapping_sub(self.cleared.octets);
        let on_the_line = |timed: &Timed<T>| ((timed.queue.len() + timed.flight.len()) as u64, timed.duplicated);
        let (waiting, duplicated) = self.timed.as_deref().map_or((0, 0), on_the_line);
        let unread = (self.arrived.len() + self.parcels.cells()) as u64;
        LineCounters { sent: self.sent, delivered, lost: self.lost, duplicated, waiting, unread }
    }

    /// Moves what is due. True if anything moved.
    pub(crate) fn run(&mut self, now: Time, pool: &mut FramePool) -> bool {
        // Without faults nothing overtakes what is on the line: once that has arrived, what leaves now and has arrived
        // too need not lie there first.
        let in_order = self.timed.as_ref().is_some_and(|timed| timed.faults.is_none() && !timed.flight.is_empty());
        let mut moved = in_order && self.arrive(now, pool);
        moved |= self.pass_on(now);
        let Some(timed) = &mut self.timed else { return false };
        while timed.flight.len() < timed.flight_limit && timed.queue.front().is_some_and(|u| u.at() <= now) {
            let Some(unit) = timed.queue.pop() else { break };
            timed.queued_cells -= unit.cell_times();
            timed.handle_taken(1);
            moved = true;
            match timed.pass(unit, now) {
                Ok(unit) if self.arrived.room() > 0 => {
                    unit.count(&mut self.delivered);
                    if let Err(unit) = self.arrived.push(unit) {
                        unit.discard(pool);
                    }
                }
                Ok(unit) => timed.insert(unit),
                Err(unit) => self.lost += u64::from(!timed.depart(unit, &mut self.sent, pool)),
            }
        }
        self.arrive(now, pool) || moved
    }

    /// Moves to the far end what has left the sender and has arrived by now, if nothing is before it and nothing can
    /// befall it; as far as there is room. True if there was anything.
    fn pass_on(&mut self, now: Time) -> bool {
        let Some(timed) = self.timed.as_mut().filter(|timed| timed.faults.is_none() && timed.flight.is_empty()) else {
            return false;
        };
        let (delay, mut moved) = (timed.delay, false);
        loop {
            let settled = timed.settled();
            let Timed { queue, queued_cells, .. } = &mut **timed;
            let waiting = queue.readable().iter().take(self.arrived.room().min(settled));
            let due = waiting.take_while(|unit| unit.at() + delay <= now).count();
            if due == 0 {
                return moved;
            }
            moved = true;
            let units = &queue.readable()[..due];
            *queued_cells -= units.iter().map(T::cell_times).sum::<u64>();
            T::count_all(units, &mut self.delivered);
            let taken = queue.move_to(&mut self.arrived, due, |unit, slot| {
                unit.pass_to(slot);
                slot.set_at(slot.at() + delay);
            });
            timed.handle_taken(taken);
        }
    }

    /// Takes off the line what has arrived, as far as there is room for it. True if there was anything.
    fn arrive(&mut self, now: Time, pool: &mut FramePool) -> bool {
        let Some(timed) = &mut self.timed else { return false };
        let mut moved = false;
        while self.arrived.room() > 0 && timed.flight.front().is_some_and(|u| u.at() <= now) {
            let Some(unit) = timed.flight.pop_front() else { break };
            moved = true;
            unit.count(&mut self.delivered);
            if let Err(unit) = self.arrived.push(unit) {
                unit.discard(pool);
            }
        }
        moved
    }

    /// When [`Lane::run`] has something to do next, if the far end reads what has arrived.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let timed = self.timed.as_ref()?;
        let leaves = timed.queue.front().filter(|_| timed.flight.len() < timed.flight_limit).map(Unit::at);
        let arrives = timed.flight.front().filter(|_| self.arrived.room() > 0).map(Unit::at);
        [leaves, arrives].into_iter().flatten().min()
    }

    /// Takes the line down (all that is on it is lost) or up.
    pub(crate) fn set_up(&mut self, up: bool, pool: &mut FramePool) {
        if self.up && !up {
            let n = self.clear(pool);
            self.sent.drop_n(DropReason::LinkDown, n);
            self.lost += n;
        }
        self.up = up;
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// Lets go of parcels that are on it, and whose data are others'.
    pub(crate) fn drop_parcels(&mut self) {
        self.parcels.clear().for_each(drop);
    }

    /// Empties the line; how much was on it.
    pub(crate) fn clear(&mut self, pool: &mut FramePool) -> u64 {
        self.end_sieve();
        let mut n = 0;
        for parcel in self.parcels.clear() {
            let cells = parcel.cells() as u64;
            self.cleared.pass([cells, parcel.pdus() as u64, cells * wire::cell::PAYLOAD_OCTETS as u64]);
            n += cells;
        }
        let mut discard = |unit: T| {
            unit.discard(pool);
            n += 1;
        };
        while let Some(unit) = self.arrived.pop() {
            unit.count(&mut self.cleared);
            discard(unit);
        }
        if let Some(timed) = &mut self.timed {
            timed.clear_queue(&mut discard);
            timed.flight.drain(..).for_each(discard);
        }
        n
    }
}
