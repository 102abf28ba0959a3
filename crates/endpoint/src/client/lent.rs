//! SDUs that are read where their sender has them: an endpoint that lends its segment, and channels that borrow.
//!
//! A sender that *lends* lets the receivers of its one channel map its segment, for reading. A receiver that *borrows*
//! is told where an SDU is in place of being given a copy. So the octets of an SDU are written once and read once, and
//! nobody moves them in between. Both have to agree; with either alone, and wherever an SDU has become cells on its
//! way, it is copied as ever. The buffer of a lent SDU is the sender's again once its receiver is done with it.

use super::{Endpoint, Error, Received};
use crate::ChannelId;
use crate::control::{Request, Response};
use crate::layout::{Buffers, Geometry, Head, Lent};
use crate::negotiate::LEND;
use crate::shared::ReadOnly;
use crate::view::{Changed, Guarantee, Octets};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

/// Memory that a channel borrows. SDUs of a channel come in order, so one that names another region is behind all of
/// the one before.
#[derive(Debug)]
struct Region {
    number: u16,
    channel: u32,
    memory: ReadOnly,
    geometry: Geometry,
    buffers: Buffers,
}

/// What an endpoint has borrowed.
#[derive(Debug, Default)]
pub(super) struct Borrowed {
    /// One for each channel that has borrowed something.
    regions: Vec<Region>,
    /// A copy of a lent SDU, for who receives as if it were none.
    copy: Vec<u8>,
    /// Buffers for which the free ring had no place when they were given back.
    pub(super) late: Vec<u32>,
}

impl Borrowed {
    /// Whether anything was borrowed.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.regions.is_empty()
    }

    #[inline]
    fn find(&self, lent: Lent) -> Option<&Region> {
        self.regions.iter().find(|region| region.number == lent.region)
    }

    /// The octets that a descriptor speaks of. `None`: there are no such octets, or the region is not mapped.
    #[inline]
    fn view(&self, head: &Head) -> Option<Octets<'_>> {
        let lent = Lent::from_buffer(head.buffer)?;
        let Region { memory, geometry, buffers, .. } = self.find(lent)?;
        let at = buffers.at(lent.buffer.into()).filter(|_| head.octets <= geometry.buffer_octets)?;
        let octets = head.octets as usize;
        Some(Octets::Shared(memory.octets(at, octets), memory.words(at, octets)))
    }

    /// The copy that [`Endpoint::try_receive`] has made.
    pub(super) fn copied(&self) -> &[u8] {
        &self.copy
    }
}

impl Endpoint {
    /// Lets whoever borrows from this endpoint's channel map its segment for reading. Before any circuit is opened: the
    /// endpoint has one channel then, by AAL5 and for sending only, since all that is in its segment can be read by
    /// that channel's receiver. An SDU's buffer comes back when the receiver is done with it, so a receiver that keeps
    /// SDUs keeps buffers of the sender.
    ///
    /// # Errors
    /// A circuit has been opened, the data path takes SDUs elsewhere (`copying`, `single-copy`), or the service is
    /// older.
    pub fn lend(&mut self) -> Result<(), Error> {
        self.connection.need(LEND)?;
        match self.connection.ask(&Request::Lend)?.0 {
            Response::Lends => Ok(()),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Lets SDUs of a channel be delivered where their sender has them, if it lends its memory. Receive them by
    /// [`Endpoint::receive_shared`]; by [`Endpoint::receive`] they are copied here.
    ///
    /// # Errors
    /// The channel is not open, does not receive by AAL5, or the service is older.
    pub fn borrow(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.connection.need(LEND)?;
        match self.connection.ask(&Request::Borrow { channel })?.0 {
            Response::Borrows => Ok(()),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Waits for an SDU, which may be where its sender has it; `None` if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone, or a sender's memory cannot be mapped: the SDU is lost then.
    #[inline]
    pub fn receive_shared(&mut self, timeout: Option<Duration>) -> Result<Option<SharedSdu<'_>>, Error> {
        if self.has_come(timeout)? { self.try_receive_shared() } else { Ok(None) }
    }

    /// The next SDU, if one has arrived; it may be where its sender has it.
    ///
    /// # Errors
    /// A sender's memory cannot be mapped: the SDU is lost then.
    #[inline(always)]
    pub fn try_receive_shared(&mut self) -> Result<Option<SharedSdu<'_>>, Error> {
        if !self.take_received() {
            return Ok(None);
        }
        let head = self.taken.head;
        if Lent::from_buffer(head.buffer).is_some_and(|lent| self.borrowed.find(lent).is_none()) {
            self.map_region(&head)?;
        }
        Ok(Some(SharedSdu(Received { endpoint: self })))
    }

    /// Hands each SDU that arrives to `f`, until `f` says [`ControlFlow::Break`] or nothing has come for `patience`.
    /// Gives how many there were. An SDU's memory is the sender's, or the host's, again when `f` returns.
    ///
    /// # Errors
    /// As [`Endpoint::receive_shared`].
    pub fn receive_shared_each(
        &mut self,
        patience: Option<Duration>,
        mut f: impl FnMut(&SharedSdu<'_>) -> ControlFlow<()>,
    ) -> Result<u64, Error> {
        let mut n = 0;
        while self.has_come(patience)?
            && let Some(sdu) = self.try_receive_shared()?
        {
            n += 1;
            if f(&sdu).is_break() {
                break;
            }
        }
        Ok(n)
    }

    /// Maps the region that a descriptor names, in place of the one that its channel has had before.
    #[cold]
    fn map_region(&mut self, head: &Head) -> Result<(), Error> {
        let Some(lent) = Lent::from_buffer(head.buffer) else { return Ok(()) };
        let mapped = self.ask_for_region(lent.region, head.channel);
        match mapped {
            Ok(region) => {
                self.borrowed.regions.retain(|old| old.channel != head.channel);
                self.borrowed.regions.push(region);
                Ok(())
            }
            Err(e) => {
                self.give_free(head.buffer);
                Err(e)
            }
        }
    }

    fn ask_for_region(&mut self, number: u16, channel: u32) -> Result<Region, Error> {
        let (answer, fds) = self.connection.ask(&Request::Borrowed { region: number })?;
        let (Response::Borrowed { geometry }, Some(fd)) = (&answer, fds.into_iter().next()) else {
            return Err(Error::Protocol(format!("{answer:?} without its file descriptor")));
        };
        let geometry = geometry.checked().map_err(crate::segment::SegmentError::from)?;
        let memory = ReadOnly::open(&fd, geometry.octets())?;
        Ok(Region { number, channel, memory, geometry, buffers: Buffers::of(&geometry) })
    }

    /// Copies the lent SDU that has been taken; its buffer goes back at once. What cannot be read is an empty SDU.
    #[cold]
    pub(super) fn copy_lent(&mut self) {
        let head = self.taken.head;
        let known = Lent::from_buffer(head.buffer).is_some_and(|lent| self.borrowed.find(lent).is_some());
        let mut copy = std::mem::take(&mut self.borrowed.copy);
        copy.clear();
        let mapped = known || self.map_region(&head).is_ok();
        if let Some(view) = self.borrowed.view(&head) {
            copy.resize(head.octets as usize, 0);
            view.copy_to(&mut copy);
        }
        self.borrowed.copy = copy;
        if mapped {
            self.give_free(head.buffer);
        }
        self.taken.head.buffer = Received::COPIED;
    }

    /// Gives back buffers for which the free ring had no place. True if there were any.
    #[cold]
    pub(super) fn give_late(&mut self) {
        while let Some(buffer) = self.borrowed.late.pop() {
            if !self.free.push_head_unseen(Head::of_buffer(buffer)) {
                self.borrowed.late.push(buffer);
                return;
            }
        }
    }
}

/// An SDU that has arrived. It is where its sender has it, if that one lends its memory, or in a buffer of this
/// endpoint's. When this is dropped, its memory goes back to whom it belongs.
///
/// ```no_run
/// # fn receive(endpoint: &mut endpoint::Endpoint, channel: endpoint::ChannelId) -> Result<(), endpoint::Error> {
/// endpoint.borrow(channel)?;
/// if let Some(sdu) = endpoint.receive_shared(None)? {
///     let octets = sdu.to_vec(); // check the copy, not what its sender may still write
///     println!("{} octets", octets.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedSdu<'a>(Received<'a>);

impl SharedSdu<'_> {
    #[inline]
    fn view(&self) -> Octets<'_> {
        self.0.endpoint.borrowed.view(&self.0.endpoint.taken.head).unwrap_or_else(|| Octets::Private(&self.0))
    }

    /// Its octets, how many.
    #[allow(clippy::len_without_is_empty)] // An SDU has one octet at least.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.endpoint.taken.head.octets as usize
    }

    /// The channel it came on.
    #[inline]
    pub fn channel(&self) -> ChannelId {
        self.0.channel()
    }

    /// AAL5 user-to-user indication.
    pub fn uu(&self) -> u8 {
        self.0.uu()
    }

    /// What holds of its octets.
    pub fn guarantee(&self) -> Guarantee {
        self.view().guarantee()
    }

    /// Its octets, if they are private.
    #[inline]
    pub fn private(&self) -> Option<&[u8]> {
        self.view().private()
    }

    /// Its octets as the sender's memory, if they are; to be loaded one by one.
    #[inline]
    pub fn shared(&self) -> Option<&[AtomicU8]> {
        self.view().shared()
    }

    /// The same in words of eight octets in memory's order, whole ones only: the faster way to look at many.
    #[inline]
    pub fn shared_words(&self) -> Option<&[AtomicU64]> {
        self.view().shared_words()
    }

    /// Copies as many octets as `into` has and the SDU has; gives how many. Check the copy, not the SDU.
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        self.view().copy_to(into)
    }

    /// Copies, then compares: an error if the sender was seen to write meanwhile.
    ///
    /// # Errors
    /// The sender writes what it has sent.
    pub fn checked_copy(&self, into: &mut [u8]) -> Result<usize, Changed> {
        self.view().checked_copy(into)
    }

    /// A copy of the whole.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.copy_to(&mut octets);
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{SharedMemory, make_pages, seal};

    #[test]
    fn what_a_descriptor_says_is_seen_where_the_region_has_it_and_nowhere_else() {
        let geometry = Geometry { send_ring: 2, receive_ring: 4, free_ring: 8, buffers: 3, buffer_octets: 64 };
        let (ours, fd) = SharedMemory::create(geometry.octets()).unwrap();
        make_pages(&fd).unwrap();
        seal(&fd).unwrap();
        let memory = ReadOnly::open(&fd, geometry.octets()).unwrap();
        let region = Region { number: 7, channel: 0, memory, geometry, buffers: Buffers::of(&geometry) };
        let borrowed = Borrowed { regions: vec![region], ..Borrowed::default() };
        let view = |region, buffer, octets| {
            let buffer = Lent { region, buffer }.to_buffer().unwrap();
            borrowed.view(&Head { octets, ..Head::of_buffer(buffer) }).map(|view| {
                let mut copy = vec![0; octets as usize];
                view.copy_to(&mut copy);
                copy
            })
        };
        for buffer in 0..3 {
            ours.copy_in(geometry.buffer_at(buffer).unwrap(), &[buffer as u8 + 1; 64]);
        }
        assert_eq!(view(7, 0, 64), Some(vec![1; 64]));
        assert_eq!(view(7, 2, 64), Some(vec![3; 64]));
        assert_eq!(view(7, 2, 1), Some(vec![3]));
        assert_eq!((view(7, 3, 1), view(7, 2, 65), view(6, 2, 64)), (None, None, None));
        assert!(borrowed.view(&Head { octets: 1, ..Head::of_buffer(2) }).is_none(), "a buffer of its own");
    }
}
