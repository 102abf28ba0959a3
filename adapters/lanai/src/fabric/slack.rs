//! The slack buffer of a receiver: what has come and not gone on, by packet, with the marks that say STOP and GO.
//!
//! Symbols are not handled one by one. Between two events a buffer gains one symbol a tick, loses one, or both, so its
//! content at any tick follows from that at the last event: [`Slack::advance`]. [`Slack::next`] says at which tick
//! something will happen.

use super::wheel::Tick;
use std::collections::VecDeque;

/// What a buffer holds of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) packet: u32,
    /// Symbols that are here.
    pub(super) count: u32,
    /// Symbols that have come.
    pub(super) arrived: u32,
    /// Symbols that will come, with the GAP that ends the packet.
    pub(super) expected: u32,
    /// The GAP has come.
    pub(super) complete: bool,
    /// What comes is thrown away.
    pub(super) discarded: bool,
}

/// See the module's head.
#[derive(Debug, Clone, Default)]
pub(super) struct Slack {
    pub(super) segments: VecDeque<Segment>,
    pub(super) at: Tick,
    pub(super) content: u32,
    /// Symbols come, one a tick, and belong to the last segment.
    pub(super) incoming: bool,
    /// Symbols go, one a tick, and belong to the first.
    pub(super) outgoing: bool,
    pub(super) size: u32,
    pub(super) stop: u32,
    pub(super) go: u32,
    /// STOP was sent last.
    pub(super) stopping: bool,
    pub(super) peak: u32,
}

impl Slack {
    /// Symbols come and stay.
    fn filling(&self) -> bool {
        self.incoming && self.segments.back().is_some_and(|last| !last.discarded)
    }

    /// Brings the content up to `now`; gives the packet whose symbols found no room, and how many.
    pub(super) fn advance(&mut self, now: Tick) -> Option<(u32, u32)> {
        let ticks = (now - self.at) as u32;
        self.at = now;
        if ticks == 0 || self.segments.is_empty() {
            return None;
        }
        let filling = self.filling();
        if let Some(last) = self.segments.back_mut().filter(|_| self.incoming) {
            last.arrived += ticks;
            if filling {
                last.count += ticks;
                self.content += ticks;
            }
        }
        if let Some(first) = self.segments.front_mut().filter(|_| self.outgoing) {
            debug_assert!(first.count >= ticks, "{first:?} {ticks}");
            first.count = first.count.saturating_sub(ticks);
            self.content = self.content.saturating_sub(ticks);
        }
        self.peak = self.peak.max(self.content.min(self.size));
        let lost = self.content.saturating_sub(self.size);
        let last = self.segments.back_mut().filter(|_| lost > 0)?;
        last.count -= lost.min(last.count);
        self.content = self.size;
        Some((last.packet, lost))
    }

    /// Whether the first packet has symbols to send at this tick.
    pub(super) fn has_symbols(&self) -> bool {
        let Some(first) = self.segments.front() else { return false };
        first.count > 0 || self.segments.len() == 1 && self.incoming && !first.discarded
    }

    /// The tick of the next mark, or of the first packet's last symbol here.
    pub(super) fn next(&self) -> Option<Tick> {
        let first = self.segments.front()?;
        let filling = self.filling();
        let runs_dry = (self.outgoing && !(filling && self.segments.len() == 1)).then(|| u64::from(first.count));
        let mark = match (filling, self.outgoing) {
            (true, false) if !self.stopping => self.stop.checked_sub(self.content),
            (false, true) if self.stopping => self.content.checked_sub(self.go),
            _ => None,
        };
        let ticks = runs_dry.into_iter().chain(mark.map(u64::from)).min()?;
        Some(self.at + ticks)
    }

    /// Throws the first packet away: what is here and what comes.
    pub(super) fn discard_first(&mut self) {
        if let Some(first) = self.segments.front_mut() {
            self.content -= first.count;
            first.count = 0;
            first.discarded = true;
        }
    }

    /// The control symbol that is to be sent now: true for STOP, false for GO.
    pub(super) fn signal(&mut self) -> Option<bool> {
        let stop = match self.stopping {
            false if self.content >= self.stop => true,
            true if self.content <= self.go => false,
            _ => return None,
        };
        self.stopping = stop;
        Some(stop)
    }
}
