//! How an endpoint, a circuit of it or a channel ends: what was pushed is sent, given up in a way that receivers understand, or
//! dropped and counted.

use super::Attached;
use crate::channels::Channel;
use endpoint::ChannelId;
use wire::{CircuitId, DropReason};

impl Attached {
    /// Its application has gone: what is in the send ring now is all that is still sent. False if that is nothing.
    pub(crate) fn depart(&mut self) -> bool {
        if self.asleep {
            return false;
        }
        // Who has a copy of the memory may go on to write into it: it is not read any more.
        self.take_up(self.geometry().send_ring as usize);
        self.strategy.forget_bell();
        self.departs = true;
        !self.outbound.is_empty()
    }

    /// Whether its application has gone.
    pub(crate) fn is_departing(&self) -> bool {
        self.departs
    }

    /// Whether all that its application left has been sent.
    pub(crate) fn has_left(&self) -> bool {
        self.departs && self.outbound.is_empty()
    }

    /// Begins with no more SDUs, and gives up those that are leaving in a way that their receivers understand. True if
    /// cells have to leave for that.
    pub(crate) fn end(&mut self) -> bool {
        self.ending = true;
        self.abort(|_| true);
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            if let Some(unseen) = self.outbound.take_back(channel) {
                self.path.end(&unseen.source);
            }
        }
        self.is_ending()
    }

    /// Gives up the SDUs that are leaving on some channels, as far as their receivers have seen a beginning.
    fn abort(&mut self, concerns: impl Fn(&Channel) -> bool) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            let Some(leaving) = self.outbound.leaving(channel).filter(|leaving| concerns(&leaving.channel)) else {
                continue;
            };
            leaving.aborted = leaving.aborted || leaving.cells.abort();
        }
    }

    /// Whether cells that end a PDU have not left yet.
    pub(crate) fn is_ending(&mut self) -> bool {
        let busy: Vec<u32> = self.outbound.busy().collect();
        busy.into_iter().any(|channel| self.outbound.leaving(channel).is_some_and(|leaving| leaving.aborted))
    }

    /// Takes a descriptor that is not sent any more out of its queue, and says of which circuit it was. `None`: there is
    /// none.
    pub(crate) fn drop_last(&mut self) -> Option<Option<CircuitId>> {
        let channel = self.outbound.busy().next()?;
        let leaving = self.outbound.leaving(channel).map(|leaving| leaving.channel.circuit);
        let open = self.channels.at(channel).copied();
        self.sent.drop_one(DropReason::Closed);
        self.done(channel);
        self.send.publish();
        Some(leaving.or(open.map(|open| open.circuit)))
    }

    /// Gives up what the channels of a circuit that is no more have to send, and ends them.
    pub(crate) fn forget_circuit(&mut self, circuit: CircuitId) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            if self.outbound.leaving(channel).is_some_and(|leaving| leaving.channel.circuit == circuit) {
                self.sent.drop_one(DropReason::Closed);
                self.done(channel);
            }
            if self.channels.at(channel).is_some_and(|open| open.circuit == circuit) {
                self.drop_queued(channel);
            }
        }
        self.send.publish();
        self.channels.forget(circuit);
    }

    /// Drops what a channel has to send, but for the SDU that is leaving.
    fn drop_queued(&mut self, channel: u32) -> u64 {
        let aborted = self.outbound.leaving(channel).is_some();
        let mut dropped = 0;
        while self.outbound.first_behind(channel, aborted, &mut self.send) {
            self.sent.drop_one(DropReason::Closed);
            self.strategy.note_taken(1);
            dropped += 1;
        }
        dropped
    }

    /// Ends a channel: what was pushed for it and has not begun to leave is dropped; an SDU in its middle ends in a way
    /// that its receiver understands. Gives how many were dropped, and whether a cell has to leave for that.
    pub(crate) fn close(&mut self, id: ChannelId, channel: &Channel) -> (u64, bool) {
        // All that was pushed before is counted here; what is pushed from now on finds no channel.
        self.take_up(self.geometry().send_ring as usize);
        self.channels.close(id);
        let number = u32::from(id.place());
        let mut dropped = self.drop_queued(number);
        self.abort(|leaving| leaving.circuit == channel.circuit && leaving.aal == channel.aal);
        let ends = self.outbound.leaving(number).is_some_and(|leaving| leaving.aborted);
        if !ends && self.outbound.leaving(number).is_some() {
            self.sent.drop_one(DropReason::Closed);
            self.done(number);
            dropped += 1;
        }
        self.send.publish();
        (dropped, ends)
    }
}
