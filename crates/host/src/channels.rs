//! The channels of one endpoint, by number. A number is a place and the place's generation, and is never used twice: a
//! descriptor that was pushed for a channel finds that one or none, whatever has been opened at its place since.

use crate::lent::Borrower;
use endpoint::{Aal, ChannelId, Direction};
use wire::{CircuitId, DropReason};

/// An endpoint's number on its host; not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u64);

/// Places at most.
const MAX_PLACES: usize = 1 << 16;

/// What a channel leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) circuit: CircuitId,
    pub(crate) aal: Aal,
    pub(crate) direction: Direction,
    /// Its receiver is behind.
    pub(crate) pressed: bool,
    /// Its circuit has credits.
    pub(crate) lossless: bool,
    /// Its SDUs may be delivered where their sender has them.
    pub(crate) borrows: Option<Borrower>,
}

impl Channel {
    pub(crate) fn new(circuit: CircuitId, aal: Aal, direction: Direction) -> Self {
        Channel { circuit, aal, direction, pressed: false, lossless: false, borrows: None }
    }
}

#[derive(Debug)]
struct ChannelSlot {
    open: Option<Channel>,
    generation: u16,
    /// Its channel is closed, and something of it has not left.
    held: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    places: Vec<ChannelSlot>,
    free: Vec<u16>,
}

impl Channels {
    /// Takes one in. `None`: there are as many as there can be.
    pub(crate) fn open(&mut self, channel: Channel) -> Option<ChannelId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() >= MAX_PLACES => return None,
            None => {
                self.places.push(ChannelSlot { open: None, generation: 0, held: false });
                (self.places.len() - 1) as u16
            }
        };
        let place = &mut self.places[usize::from(at)];
        place.open = Some(channel);
        Some(ChannelId::new(at, place.generation))
    }

    /// The channel of a number.
    pub(crate) fn find(&self, id: ChannelId) -> Option<&Channel> {
        self.place(id)?.open.as_ref()
    }

    /// The same, to change.
    pub(crate) fn find_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        let place = self.places.get_mut(usize::from(id.place()))?;
        place.open.as_mut().filter(|_| place.generation == id.generation())
    }

    fn place(&self, id: ChannelId) -> Option<&ChannelSlot> {
        self.places.get(usize::from(id.place())).filter(|place| place.generation == id.generation())
    }

    /// The channel that is open at a place.
    pub(crate) fn at(&self, place: u32) -> Option<&Channel> {
        self.places.get(place as usize)?.open.as_ref()
    }

    /// Ends the channel of a number. Where something of it is `leaving`, no other opens at its place before
    /// [`Channels::vacate`].
    pub(crate) fn close(&mut self, id: ChannelId, leaving: bool) -> Option<Channel> {
        self.find(id).copied().inspect(|_| self.free_place(id.place(), leaving))
    }

    fn free_place(&mut self, at: u16, held: bool) {
        let place = &mut self.places[usize::from(at)];
        place.open = None;
        // A place that has had all its generations stays empty.
        if let Some(next) = place.generation.checked_add(1) {
            (place.generation, place.held) = (next, held);
            if !held {
                self.free.push(at);
            }
        }
    }

    /// All has left of the channel that was closed at a place.
    pub(crate) fn vacate(&mut self, place: u32) {
        if self.places.get_mut(place as usize).is_some_and(|place| std::mem::take(&mut place.held)) {
            self.free.push(place as u16);
        }
    }

    /// Ends all channels of a circuit.
    pub(crate) fn forget(&mut self, circuit: CircuitId) {
        for at in 0..self.places.len() {
            if self.places[at].open.is_some_and(|open| open.circuit == circuit) {
                self.free_place(at as u16, false);
            }
        }
    }

    /// Why a descriptor of this number is not sent, if it is not.
    pub(crate) fn check_sends(&self, id: ChannelId) -> Result<(), DropReason> {
        match self.find(id) {
            Some(channel) if channel.direction.sends() => Ok(()),
            Some(_) => Err(DropReason::BadDescriptor),
            None => {
                let place = self.places.get(usize::from(id.place()));
                let was_open = place.is_some_and(|place| id.generation() < place.generation);
                Err(if was_open { DropReason::Closed } else { DropReason::BadDescriptor })
            }
        }
    }

    /// Whether there was ever one.
    pub(crate) fn has_opened(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether more than one may be open.
    pub(crate) fn has_several(&self) -> bool {
        self.places.len() - self.free.len() > 1
    }

    /// Those that are open, to change.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.places.iter_mut().filter_map(|place| place.open.as_mut())
    }

    /// Those that are open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.places.iter().filter_map(|place| place.open.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(vci: u16) -> Channel {
        Channel::new(CircuitId::new(0, vci).unwrap(), Aal::Aal5, Direction::Both)
    }

    #[test]
    fn a_number_is_used_once_and_says_afterwards_that_it_was() {
        let mut channels = Channels::default();
        let first = channels.open(channel(32)).unwrap();
        let other = channels.open(channel(33)).unwrap();
        assert_eq!((first.0, other.0), (0, 1), "as they always were");
        assert!(channels.close(first, false).is_some() && channels.close(first, false).is_none());
        let second = channels.open(channel(34)).unwrap();
        assert_eq!((second.place(), second.generation()), (0, 1));
        assert!(channels.find(first).is_none());
        assert_eq!(channels.check_sends(first), Err(DropReason::Closed));
        assert_eq!(channels.check_sends(second), Ok(()));
        for never in [ChannelId::new(0, 2), ChannelId::new(2, 0)] {
            assert_eq!(channels.check_sends(never), Err(DropReason::BadDescriptor));
        }
        channels.forget(CircuitId::new(0, 34).unwrap());
        assert_eq!(channels.check_sends(second), Err(DropReason::Closed));
        assert_eq!(channels.iter().count(), 1);
    }

    #[test]
    fn a_place_whose_channel_has_not_left_is_no_others_until_it_has() {
        let mut channels = Channels::default();
        let first = channels.open(channel(32)).unwrap();
        assert!(channels.close(first, true).is_some() && channels.find(first).is_none());
        assert_eq!(channels.check_sends(first), Err(DropReason::Closed));
        assert_eq!(channels.open(channel(33)), Some(ChannelId::new(1, 0)));
        // Once, however often that is said.
        (0..2).for_each(|_| channels.vacate(0));
        assert_eq!(channels.open(channel(34)), Some(ChannelId::new(0, 1)));
        assert_eq!(channels.open(channel(35)), Some(ChannelId::new(2, 0)));
    }

    #[test]
    fn a_place_whose_generations_are_used_up_stays_empty() {
        let mut channels = Channels::default();
        let mut last = None;
        for _ in 0..=u16::MAX {
            last = channels.open(channel(32));
            channels.close(last.unwrap(), false);
        }
        assert_eq!(last, Some(ChannelId::new(0, u16::MAX)));
        assert_eq!(channels.open(channel(32)), Some(ChannelId::new(1, 0)));
    }
}
