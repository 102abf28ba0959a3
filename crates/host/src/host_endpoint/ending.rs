//! How an endpoint, a circuit of it or a channel ends: what was pushed is sent, given up in a way that receivers
//! understand, or dropped and counted.

use super::{HostEndpoint, Life};
use endpoint::ChannelId;
use wire::{CircuitId, DropReason};

/// What becomes of an ending endpoint's SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unloading {
    /// Its application has gone: they are still sent.
    Send,
    /// Its application gives it up: they are dropped.
    Drop,
}

impl HostEndpoint {
    /// Its application has gone: what is in the send ring now is all that is still sent. False if that is nothing.
    pub(crate) fn depart(&mut self) -> bool {
        if self.life == Life::Asleep {
            return false;
        }
        self.end_lending();
        // Who has a copy of the memory may go on to push: those descriptors are not read.
        self.send.freeze();
        self.take_up(self.geometry().send_ring as usize);
        self.strategy.forget_bell();
        self.life = Life::Departing;
        !self.outbound.is_empty()
    }

    /// Lends nothing more; what is out is its own again once its borrower's host has heard of it.
    pub(crate) fn end_lending(&self) {
        if let Some(lent) = &self.lends {
            lent.end();
        }
    }

    /// Whether its application has gone.
    pub(crate) fn is_departing(&self) -> bool {
        self.life >= Life::Departing
    }

    /// Whether all that its application left has been sent.
    pub(crate) fn has_left(&self) -> bool {
        self.is_departing() && self.outbound.is_empty()
    }

    /// Begins with no more SDUs, and gives up those that are leaving in a way that their receivers understand. True if
    /// [`HostEndpoint::is_ending`].
    pub(crate) fn end(&mut self) -> bool {
        self.life = Life::Ending;
        self.land();
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            self.abort(channel);
            if let Some(unseen) = self.outbound.take_back(channel) {
                self.path.end(&unseen.source);
            }
        }
        self.is_ending()
    }

    /// Gives up the SDU that is leaving on a channel, as far as its receiver has seen a beginning.
    fn abort(&mut self, channel: u32) {
        if let Some(leaving) = self.outbound.leaving(channel) {
            leaving.aborted = leaving.aborted || leaving.cells.abort();
        }
    }

    /// Whether its memory is still needed. The cell that ends a PDU in its middle may wait for the line, and SDUs in
    /// parcels are read where they are.
    pub(crate) fn is_ending(&mut self) -> bool {
        let busy: Vec<u32> = self.outbound.busy().collect();
        self.outbound.is_aboard()
            || busy.into_iter().any(|channel| self.outbound.leaving(channel).is_some_and(|leaving| leaving.aborted))
    }

    /// Drops what is not sent any more, `most` descriptors at most, and says of each of which circuit it was. True if
    /// there are more.
    pub(crate) fn drop_unsent(&mut self, most: usize, mut dropped: impl FnMut(Option<CircuitId>)) -> bool {
        let (busy, mut left): (Vec<u32>, usize) = (self.outbound.busy().collect(), most - self.drop_given_up(most));
        for channel in busy {
            let open = self.channels.at(channel).map(|open| open.circuit);
            while self.outbound.first(channel).is_some() {
                if left == 0 {
                    self.send.publish();
                    return true;
                }
                left -= 1;
                dropped(self.outbound.leaving(channel).map(|leaving| leaving.channel.circuit).or(open));
                self.sent.drop_one(DropReason::Closed);
                self.done(channel);
            }
        }
        self.send.publish();
        self.has_given_up()
    }

    /// Before it ends: takes up `most` descriptors at most, and drops as many of those that will not leave, but for
    /// SDUs that are leaving. Says of which circuit how many were dropped. True if there may be more. The first call
    /// decides where the ring ends, so the application cannot prolong this by pushing more.
    pub(crate) fn unload(&mut self, what: Unloading, most: usize, mut dropped: impl FnMut(CircuitId, u64)) -> bool {
        if self.life != Life::Open {
            return false;
        }
        self.send.freeze();
        let before = self.passed.taken;
        self.take_up(most);
        let channels: Vec<u32> = match what {
            Unloading::Send => Vec::new(),
            Unloading::Drop => self.outbound.busy().collect(),
        };
        let mut left = (most - self.drop_given_up(most)) as u64;
        for channel in channels {
            let gone = self.drop_queued(channel, left);
            left -= gone;
            if let Some(open) = self.channels.at(channel).filter(|_| gone > 0) {
                dropped(open.circuit, gone);
            }
        }
        self.send.publish();
        left == 0 || self.passed.taken.wrapping_sub(before) >= most as u64
    }

    /// Gives up what the channels of a circuit that is no more have to send, and ends them. What has not begun to leave
    /// is dropped by [`HostEndpoint::drop_given_up`].
    pub(crate) fn forget_circuit(&mut self, circuit: CircuitId) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            if self.outbound.leaving(channel).is_some_and(|leaving| leaving.channel.circuit == circuit) {
                self.sent.drop_one(DropReason::Closed);
                self.done(channel);
            }
            if self.channels.at(channel).is_some_and(|open| open.circuit == circuit) {
                self.outbound.give_up(channel);
            }
        }
        self.send.publish();
        if self.channels.iter().any(|open| open.circuit == circuit) {
            self.end_lending();
        }
        self.channels.forget(circuit);
    }

    /// Whether SDUs of circuits that are no more have not been dropped.
    pub(crate) fn has_given_up(&self) -> bool {
        self.outbound.has_given_up()
    }

    /// Drops what waited for circuits that are no more, `most` descriptors at most; how many.
    pub(crate) fn drop_given_up(&mut self, most: usize) -> usize {
        let dropped = self.outbound.drop_given_up(u32::try_from(most).unwrap_or(u32::MAX), &mut self.send);
        self.sent.drop_n(DropReason::Closed, dropped.into());
        self.strategy.note_taken(dropped);
        self.send.publish();
        dropped as usize
    }

    /// Drops what a channel has to send, `most` SDUs at most, but for the one that is leaving.
    fn drop_queued(&mut self, channel: u32, most: u64) -> u64 {
        let aborted = self.outbound.leaving(channel).is_some();
        let mut dropped = 0;
        while dropped < most && self.outbound.first_behind(channel, aborted, &mut self.send) {
            self.sent.drop_one(DropReason::Closed);
            self.strategy.note_taken(1);
            dropped += 1;
        }
        dropped
    }

    /// Ends a channel: takes up `most` descriptors at most, and drops as many of the channel's; the others of its queue
    /// are given up ([`HostEndpoint::drop_given_up`]). What is still in the ring finds no channel, and is dropped then.
    /// An SDU in its middle ends in a way that its receiver understands, and nobody else has the channel's place
    /// before. Gives how many were dropped or given up, and whether a cell has to leave for that.
    pub(crate) fn close(&mut self, id: ChannelId, most: usize) -> (u64, bool) {
        self.take_up(most);
        self.end_lending();
        let number = u32::from(id.place());
        let mut dropped = self.drop_queued(number, most as u64);
        dropped += u64::from(self.outbound.give_up(number));
        self.abort(number);
        let ends = self.outbound.leaving(number).is_some_and(|leaving| leaving.aborted);
        if !ends && self.outbound.leaving(number).is_some() {
            self.sent.drop_one(DropReason::Closed);
            self.done(number);
            dropped += 1;
        }
        self.channels.close(id, ends);
        self.send.publish();
        (dropped, ends)
    }
}

#[cfg(test)]
mod tests;
