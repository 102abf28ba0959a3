//! The channels' shares of one send ring and its buffers: a channel whose SDUs leave slowly must leave room for others.
//!
//! With several channels open, each may have as many SDUs on their way as are still free for all (the dynamic threshold
//! of Choudhury and Hahne, 1998, with a factor of one): one busy channel takes half, two take a third each.

use crate::ChannelId;

/// Where a channel's count is. What an earlier channel at this place has on its way counts too: its slots are not free
/// either.
#[inline]
fn place(channel: u32) -> usize {
    usize::from(ChannelId(channel).place())
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// What all channels have in common: slots of the ring, or send buffers if those are fewer.
    limit: u32,
    /// SDUs on their way, by channel.
    taken: Vec<u32>,
    sum: u32,
    open: u32,
    /// The channel that was refused last for having its share.
    refused: Option<u32>,
}

impl Shares {
    pub(super) fn new(limit: u32) -> Self {
        Shares { limit, ..Shares::default() }
    }

    pub(super) fn open(&mut self, channel: ChannelId) {
        let place = usize::from(channel.place());
        if place >= self.taken.len() {
            self.taken.resize(place + 1, 0);
        }
        self.open += 1;
    }

    pub(super) fn close(&mut self, channel: ChannelId) {
        self.open = self.open.saturating_sub(1);
        self.refused.take_if(|refused| *refused == channel.0);
    }

    /// Whether `channel` has less than its share on the way.
    #[inline]
    pub(super) fn has_room(&self, channel: u32) -> bool {
        let taken = self.taken.get(place(channel)).copied().unwrap_or_default();
        self.open < 2 || taken < self.limit.saturating_sub(self.sum).max(1)
    }

    /// [`Shares::has_room`], and remembers who had none.
    #[inline]
    pub(super) fn admits(&mut self, channel: u32) -> bool {
        let admits = self.has_room(channel);
        self.refused = (!admits).then_some(channel);
        admits
    }

    /// Whether the channel that was refused last would be refused again.
    pub(super) fn refuses(&self) -> bool {
        self.refused.is_some_and(|channel| !self.has_room(channel))
    }

    #[inline]
    pub(super) fn take(&mut self, channel: u32) {
        self.sum += 1;
        if let Some(taken) = self.taken.get_mut(place(channel)) {
            *taken += 1;
        }
    }

    #[inline]
    pub(super) fn give_back(&mut self, channel: u32) {
        self.sum = self.sum.saturating_sub(1);
        if let Some(taken) = self.taken.get_mut(place(channel)) {
            *taken = taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(shares: &mut Shares, channel: u32) -> u32 {
        let mut n = 0;
        while shares.admits(channel) {
            shares.take(channel);
            n += 1;
        }
        n
    }

    #[test]
    fn one_busy_channel_of_several_takes_half_and_the_others_still_find_room() {
        let mut shares = Shares::new(64);
        (0..3).for_each(|channel| shares.open(ChannelId(channel)));
        assert_eq!(fill(&mut shares, 0), 32);
        assert!(shares.refuses());
        assert_eq!(fill(&mut shares, 1), 16);
        assert_eq!(fill(&mut shares, 2), 8);
        for _ in 0..32 {
            shares.give_back(0);
        }
        assert!(!shares.refuses() || shares.has_room(0));
        assert!(fill(&mut shares, 0) >= 16);
    }
}
