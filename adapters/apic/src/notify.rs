//! The notification queue: channels with events, one entry each until it is read, and when the interrupt pin is set.

use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// A descriptor has its status.
pub const DONE: u8 = 1;
/// A channel has stopped at a descriptor that is not granted, or whose area was revoked.
pub const STOPPED: u8 = 2;
/// Received data had no buffer.
pub const NO_BUFFER: u8 = 4;

/// When a channel's events set the interrupt pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interrupt {
    /// At once.
    #[default]
    AtOnce,
    /// Within so long, together with whatever else comes until then.
    Within(Duration),
    /// Never: who reads the queue finds them.
    Never,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Notifications {
    /// Events of each channel since its entry was read.
    events: Vec<u8>,
    queue: VecDeque<u16>,
    armed: bool,
    due: Option<Time>,
    pin: bool,
    pub(super) interrupts: u64,
}

impl Notifications {
    pub(super) fn new(channels: usize) -> Self {
        Notifications {
            events: vec![0; channels],
            queue: VecDeque::with_capacity(channels),
            armed: true,
            due: None,
            pin: false,
            interrupts: 0,
        }
    }

    /// Something has happened at a channel.
    pub(super) fn note(&mut self, channel: u16, event: u8, when: Interrupt, now: Time) {
        let Some(events) = self.events.get_mut(usize::from(channel)) else { return };
        if *events == 0 {
            self.queue.push_back(channel);
        }
        *events |= event;
        let due = match when {
            Interrupt::AtOnce => now,
            Interrupt::Within(delay) => now + delay,
            Interrupt::Never => return,
        };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// The oldest entry: a channel and its events.
    pub(super) fn read(&mut self) -> Option<(u16, u8)> {
        let channel = self.queue.pop_front()?;
        let events = core::mem::take(&mut self.events[usize::from(channel)]);
        if self.queue.is_empty() {
            self.due = None;
        }
        Some((channel, events))
    }

    /// The host has read what there was and wants to be interrupted again.
    pub(super) fn arm(&mut self) {
        self.armed = true;
        self.pin = false;
    }

    /// The pin. Once set it stays until the queue is armed again, so that one interrupt serves all that comes
    /// meanwhile.
    pub(super) fn pin(&mut self, now: Time) -> bool {
        if self.armed && self.due.is_some_and(|due| due <= now) {
            (self.armed, self.pin) = (false, true);
            self.interrupts += 1;
        }
        self.pin
    }

    /// When the pin may change by itself.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due.filter(|_| self.armed)
    }

    /// A channel is there no more.
    pub(super) fn forget(&mut self, channel: u16) {
        if let Some(events) = self.events.get_mut(usize::from(channel)) {
            *events = 0;
            self.queue.retain(|other| *other != channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_one_entry_and_many_events_have_one_interrupt() {
        let mut queue = Notifications::new(4);
        let us = Time::from_micros;
        for n in 0..100 {
            queue.note(1, DONE, Interrupt::Within(Duration::from_micros(50)), us(n));
            queue.note(2, NO_BUFFER, Interrupt::Never, us(n));
        }
        queue.note(9, DONE, Interrupt::AtOnce, us(0));
        assert!(!queue.pin(us(49)));
        assert_eq!(queue.poll_timeout(), Some(us(50)));
        assert!(queue.pin(us(50)) && queue.pin(us(500)));
        assert_eq!((queue.read(), queue.read(), queue.read()), (Some((1, DONE)), Some((2, NO_BUFFER)), None));
        queue.note(3, STOPPED, Interrupt::AtOnce, us(600));
        queue.arm();
        assert!(queue.pin(us(600)), "it came before the queue was armed: armed and not empty is an interrupt");
        assert_eq!(queue.interrupts, 2);
        assert_eq!(queue.read(), Some((3, STOPPED)));
        queue.arm();
        assert!(!queue.pin(us(700)));
    }
}
