//! The driver's clock: the POLL list (Traw and Smith 1993, section 4.1.3.3), the periodic timer, and the alarm.
//!
//! The list is sorted by the time of the next poll, so its head says when the fine-granularity alarm is to go off: an
//! insertion takes linear time, a removal and the look at the head constant time. The alarm is one of a timer that ticks
//! each [`Penn::resolution`], beside the periodic timer that looks at all tables.

use super::{Cards, Penn};
use bus::memory::CrossMemory;
use core::time::Duration;
use wire::Time;

/// AIX had timers of up to about 1000 Hz before few cycles were left (Traw and Smith, 1993).
pub const RESOLUTION: Duration = Duration::from_millis(1);

impl Penn {
    fn poll_time(&self, number: usize) -> Time {
        self.vcs[number].as_ref().map_or(Time::MAX, |vc| vc.poll_time)
    }

    /// Puts a VC into the POLL list: linear time (Traw and Smith, 1993).
    pub(super) fn insert_poll(&mut self, number: usize) {
        let own = self.poll_time(number);
        let (mut previous, mut at) = (None, self.poll_head);
        while let Some(n) = at.filter(|n| self.poll_time(*n) <= own) {
            previous = Some(n);
            at = self.vcs[n].as_ref().and_then(|vc| vc.next);
        }
        if let Some(vc) = &mut self.vcs[number] {
            (vc.previous, vc.next) = (previous, at);
        }
        if let Some(next) = at.and_then(|n| self.vcs[n].as_mut()) {
            next.previous = Some(number);
        }
        match previous.and_then(|n| self.vcs[n].as_mut()) {
            Some(previous) => previous.next = Some(number),
            None => self.poll_head = Some(number),
        }
    }

    /// Takes a VC out of the POLL list: constant time.
    pub(super) fn unlink_poll(&mut self, number: usize) {
        let Some((previous, next)) = self.vcs[number].as_mut().map(|vc| (vc.previous.take(), vc.next.take())) else {
            return;
        };
        match previous.and_then(|n| self.vcs[n].as_mut()) {
            Some(previous) => previous.next = next,
            None => self.poll_head = next,
        }
        if let Some(next) = next.and_then(|n| self.vcs[n].as_mut()) {
            next.previous = previous;
        }
    }

    /// The order in which circuits will be polled.
    pub fn poll_order(&self) -> Vec<u16> {
        let mut order = Vec::new();
        let mut at = self.poll_head;
        while let Some(vc) = at.and_then(|n| self.vcs[n].as_ref()) {
            order.push(vc.vci);
            at = vc.next;
        }
        order
    }

    /// What the alarm's timer can tell apart.
    pub fn resolution(&self) -> Duration {
        RESOLUTION.min(self.tick).max(Duration::from_nanos(1))
    }

    /// The first tick of the alarm's timer at which `time` has come.
    fn tick_at(&self, time: Time) -> Time {
        let tick = self.resolution().as_nanos() as u64;
        time.as_nanos().div_ceil(tick).checked_mul(tick).map_or(Time::MAX, Time::from_nanos)
    }

    /// When the head of the POLL list is due; not while a look is under way, at whose end the list is put in order.
    fn poll_alarm(&self) -> Option<Time> {
        let head = self.poll_head.filter(|_| self.look.is_none())?;
        Some(self.tick_at(self.poll_time(head)))
    }

    /// When the alarm goes off: for the head of the POLL list, an isochronous circuit's frame, a paced transfer.
    pub fn alarm(&self) -> Option<Time> {
        let clocked = self.isochronous_due().into_iter().chain(self.paced_due()).min();
        self.poll_alarm().into_iter().chain(clocked.map(|due| self.tick_at(due))).min()
    }

    /// The next tick or alarm, or the next look at a card that works.
    pub fn poll_timeout<M>(&self, cards: &Cards<'_, M>) -> Time {
        let fetch = self.fetch.and(cards.reassembler.poll_timeout());
        let started = self.fetch.is_some() || self.look.is_some();
        let transfer = if self.running.is_some() { cards.segmenter.poll_timeout() } else { None };
        let soon = started.then_some(Time::ZERO).filter(|_| fetch.is_none());
        let first = [fetch, transfer, soon, self.alarm()].into_iter().flatten().min().unwrap_or(Time::MAX);
        first.min(self.next_tick)
    }

    /// Serves the timer: looks at cards and tables as far as it can without waiting.
    pub fn handle_timeout<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let alarm = self.poll_alarm().is_some_and(|due| due <= now);
        self.poll_segmenter(cards, now);
        self.give_back(cards);
        if now >= self.next_tick {
            self.statistics.ticks += 1;
            // Ticks that came and went while the processor did something else are not made up for.
            self.next_tick = now + self.tick;
            self.look.get_or_insert(0);
        } else if alarm {
            self.statistics.alarms += 1;
            self.look.get_or_insert(0);
        }
        if self.fetch.is_some() && cards.reassembler.read(super::rr::STATUS) & super::IDLE == 0 {
            return;
        }
        self.finish_fetch(cards, now);
        self.examine(cards, now);
    }

    /// The circuits at the head of the POLL list that were due are due again later.
    pub(super) fn reschedule(&mut self, now: Time) {
        while let Some(number) = self.poll_head {
            let Some(vc) = self.vcs[number].as_mut().filter(|vc| vc.poll_time <= now) else { break };
            // Kept in step with the ticks; polls that were missed are not made up for.
            let next = vc.poll_time + vc.poll_rate;
            vc.poll_time = if next > now { next } else { now + vc.poll_rate };
            vc.polls += 1;
            self.unlink_poll(number);
            self.insert_poll(number);
        }
    }
}
