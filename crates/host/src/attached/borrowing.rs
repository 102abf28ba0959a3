//! SDUs that a receiving application reads where their sender has them ([`crate::lent`]): which are out, and whose they are.

use super::Attached;
use crate::lent::{Borrower, Lent};
use crate::outbound::{Held, Sent};
use endpoint::ChannelId;
use endpoint::layout;
use net::{Parcel, SduAt};
use sar::SduMeta;
use std::any::Any;
use std::sync::Arc;
use wire::DropReason;

/// Looks at the free ring in a round, each for as many as [`Attached::collect_free`] takes.
const LOOKS_FOR_LOANS: usize = 16;

/// SDUs of one parcel that are out.
#[derive(Debug)]
struct Load {
    /// While it is here, the sender's slots and buffers are not its own again.
    held: Option<Arc<Held>>,
    /// How many are out; one more while the parcel is being delivered, since the free ring may be read meanwhile.
    out: u32,
}

/// The memory of one sender.
#[derive(Debug)]
struct Region {
    number: u16,
    lent: Arc<Lent>,
    loads: Vec<Load>,
    free: Vec<u32>,
}

/// What a receiving endpoint has borrowed.
#[derive(Debug, Default)]
pub(crate) struct Borrowing {
    regions: Vec<Region>,
    /// Regions that there have been: a number is used once, since its borrower keeps a mapping for it.
    numbered: u16,
    /// SDUs that are out, of all regions.
    out: u32,
}

/// Where the SDUs of a parcel are lent from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoanOf {
    region: usize,
    load: u32,
}

impl Region {
    fn new(number: u16, lent: Arc<Lent>) -> Self {
        Region { number, lent, loads: Vec::new(), free: Vec::new() }
    }

    /// A load whose parcel is being delivered: it does not end before [`Region::end_one`].
    fn load(&mut self, held: Arc<Held>) -> u32 {
        let load = Load { held: Some(held), out: 1 };
        match self.free.pop() {
            Some(at) => {
                self.loads[at as usize] = load;
                at
            }
            None => {
                self.loads.push(load);
                self.loads.len() as u32 - 1
            }
        }
    }

    /// One SDU of a load is back, or its parcel has been delivered. With the last of these the load ends.
    fn end_one(&mut self, load: u32) {
        let at = &mut self.loads[load as usize];
        at.out -= 1;
        if at.out == 0 {
            at.held = None;
            self.free.push(load);
        }
    }

    fn take_back(&mut self, buffer: u16) -> bool {
        let Some(load) = self.lent.take_back(buffer) else { return false };
        self.end_one(load);
        true
    }

    fn out(&self) -> u32 {
        self.loads.iter().map(|load| load.out).sum()
    }
}

impl Borrowing {
    /// The place of a sender's region; a new one if it is the first time. `None`: there have been as many as there can be.
    fn region_of(&mut self, lent: &Arc<Lent>) -> Option<usize> {
        if let Some(at) = self.regions.iter().position(|region| Arc::ptr_eq(&region.lent, lent)) {
            return Some(at);
        }
        if self.numbered == layout::Lent::MAX_REGIONS {
            return None;
        }
        self.regions.push(Region::new(self.numbered, lent.clone()));
        self.numbered += 1;
        Some(self.regions.len() - 1)
    }

    /// An SDU comes back. False if it is not out. Of a region that is forgotten nothing is, and that is no mistake.
    fn take_back(&mut self, back: layout::Lent) -> bool {
        let Some(region) = self.regions.iter_mut().find(|region| region.number == back.region) else {
            return back.region < self.numbered;
        };
        let was_out = region.take_back(back.buffer);
        self.out -= u32::from(was_out);
        was_out
    }

    /// Forgets the regions of lenders that have ended. True if anything was out.
    fn forget_ended(&mut self) -> bool {
        let before = self.out;
        self.regions.retain(|region| !region.lent.has_ended());
        self.out = self.regions.iter().map(Region::out).sum();
        self.out < before
    }
}

impl Attached {
    /// Lets SDUs of a channel be delivered where their sender has them. False if the channel is not there.
    pub(crate) fn borrow(&mut self, channel: ChannelId) -> bool {
        let Some(open) = self.channels.find_mut(channel) else { return false };
        open.borrows.get_or_insert_with(Borrower::new);
        self.borrowing.get_or_insert_default();
        true
    }

    /// The memory of a region that it has been told of.
    pub(crate) fn borrowed(&self, number: u16) -> Option<&Arc<Lent>> {
        let borrowing = self.borrowing.as_ref()?;
        borrowing.regions.iter().find(|region| region.number == number).map(|region| &region.lent)
    }

    /// Whether SDUs are out.
    pub(crate) fn has_borrowed(&self) -> bool {
        self.borrowing.as_ref().is_some_and(|borrowing| borrowing.out > 0)
    }

    /// Begins to deliver SDUs of a parcel where they are, if its sender lends them to this channel.
    #[inline]
    pub(crate) fn begin_loan(&mut self, channel: u32, parcel: &Parcel) -> Option<LoanOf> {
        let borrowing = self.borrowing.as_mut()?;
        let sent = (parcel.memory() as &dyn Any).downcast_ref::<Sent>()?;
        let (lent, held) = sent.lent()?;
        let borrower = self.channels.find(ChannelId(channel))?.borrows?;
        if !lent.lends_to(borrower) {
            return None;
        }
        let region = borrowing.region_of(lent)?;
        Some(LoanOf { region, load: borrowing.regions[region].load(held.clone()) })
    }

    /// Whether one more SDU can be out: each comes back by the free ring.
    #[inline]
    pub(crate) fn has_room_for_loan(&self) -> bool {
        self.borrowing.as_ref().is_some_and(|borrowing| borrowing.out < self.geometry().free_ring)
    }

    /// Delivers an SDU where it is. `None`: it is to be copied, since its buffer is out already or there is no room for more.
    #[inline]
    pub(crate) fn deliver_lent(
        &mut self,
        channel: u32,
        loan: LoanOf,
        sdu: &SduAt,
        meta: SduMeta,
    ) -> Option<Result<(), DropReason>> {
        if !self.has_room_for_loan() {
            return None;
        }
        let region = &mut self.borrowing.as_mut()?.regions[loan.region];
        let buffer = region.lent.buffer_of(sdu.at).filter(|buffer| !region.lent.is_out(*buffer))?;
        let number = layout::Lent { region: region.number, buffer }.to_buffer()?;
        let delivered = self.push_lent(channel, sdu.octets.into(), meta, number);
        if delivered.is_ok()
            && let Some(borrowing) = &mut self.borrowing
        {
            let region = &mut borrowing.regions[loan.region];
            region.lent.give_out(buffer, loan.load);
            region.loads[loan.load as usize].out += 1;
            borrowing.out += 1;
        }
        Some(delivered)
    }

    /// No more SDUs of the parcel are delivered by this loan.
    #[inline]
    pub(crate) fn finish_loan(&mut self, loan: Option<LoanOf>) {
        if let (Some(LoanOf { region, load }), Some(borrowing)) = (loan, &mut self.borrowing) {
            borrowing.regions[region].end_one(load);
        }
    }

    /// An SDU comes back by the free ring. False if it is not out.
    pub(super) fn take_back(&mut self, back: layout::Lent) -> bool {
        self.borrowing.as_mut().is_some_and(|borrowing| borrowing.take_back(back))
    }

    /// Takes back what its application is done with. True if anything was.
    pub(crate) fn take_back_loans(&mut self) -> bool {
        let out = |attached: &Attached| attached.borrowing.as_ref().map_or(0, |borrowing| borrowing.out);
        let before = out(self);
        for _ in 0..LOOKS_FOR_LOANS {
            if !self.collect_free() {
                break;
            }
        }
        out(self) < before
    }

    /// All that is out goes back: nobody reads it any more. The rest of the endpoint may end later, and elsewhere.
    pub(crate) fn end_borrowing(&mut self) {
        self.borrowing = None;
    }

    /// Lenders that have ended have their memory back. True if anything of it was out.
    pub(crate) fn forget_ended_loans(&mut self) -> bool {
        self.borrowing.as_mut().is_some_and(|borrowing| borrowing.forget_ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::Geometry;

    fn lent() -> Arc<Lent> {
        Arc::new(Lent::of_nothing(Geometry::default()))
    }

    /// So many of a lender's first buffers go out with a new load.
    fn give_out(borrowing: &mut Borrowing, lent: &Arc<Lent>, held: &Arc<Held>, buffers: u16) -> u32 {
        let at = borrowing.region_of(lent).unwrap();
        let region = &mut borrowing.regions[at];
        let load = region.load(held.clone());
        for buffer in 0..buffers {
            lent.give_out(buffer, load);
            region.loads[load as usize].out += 1;
            borrowing.out += 1;
        }
        region.end_one(load);
        load
    }

    fn back(region: u16, buffer: u16) -> layout::Lent {
        layout::Lent { region, buffer }
    }

    #[test]
    fn a_load_is_held_until_its_last_sdu_is_back_and_its_place_is_used_again() {
        let (mut borrowing, lent) = (Borrowing::default(), lent());
        for _ in 0..3 {
            let held = Arc::new(Held);
            assert_eq!(give_out(&mut borrowing, &lent, &held, 2), 0);
            assert!(borrowing.take_back(back(0, 1)));
            assert_eq!((Arc::strong_count(&held), borrowing.out), (2, 1));
            assert!(borrowing.take_back(back(0, 0)));
            assert_eq!((Arc::strong_count(&held), borrowing.out), (1, 0));
            assert!(!borrowing.take_back(back(0, 0)), "it is not out");
        }
        assert_eq!(borrowing.regions[0].loads.len(), 1);
    }

    #[test]
    fn a_load_does_not_end_while_its_parcel_is_being_delivered() {
        let (mut borrowing, lent, held) = (Borrowing::default(), lent(), Arc::new(Held));
        let at = borrowing.region_of(&lent).unwrap();
        let region = &mut borrowing.regions[at];
        let load = region.load(held.clone());
        for buffer in 0..2 {
            lent.give_out(buffer, load);
            region.loads[load as usize].out += 1;
        }
        assert!((0..2).all(|buffer| region.take_back(buffer)));
        assert_eq!(Arc::strong_count(&held), 2);
        // The next parcel's load is another one.
        assert_ne!(region.load(Arc::new(Held)), load);
        region.end_one(load);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn of_a_lender_that_has_ended_nothing_is_out_and_another_lenders_stays() {
        let (mut borrowing, gone, stays) = (Borrowing::default(), lent(), lent());
        let held = Arc::new(Held);
        give_out(&mut borrowing, &gone, &held, 3);
        give_out(&mut borrowing, &stays, &Arc::new(Held), 2);
        assert!(!borrowing.forget_ended());
        gone.end();
        assert!(borrowing.forget_ended());
        assert_eq!((borrowing.out, borrowing.regions.len(), Arc::strong_count(&held)), (2, 1, 1));
        assert!(!borrowing.forget_ended(), "once");
        assert!(borrowing.take_back(back(0, 1)), "what comes back late is no mistake");
        assert_eq!(borrowing.out, 2);
        assert!(!borrowing.take_back(back(2, 0)), "there is no such region");
        assert!(borrowing.take_back(back(1, 1)));
        // Its number is not given again: a borrower keeps its mapping.
        assert_eq!(borrowing.region_of(&lent()), Some(1));
        assert_eq!(borrowing.regions[1].number, 2);
    }
}
