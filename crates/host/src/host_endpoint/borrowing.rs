//! SDUs that a receiving application reads where their sender has them ([`crate::lent`]): which are out, and whose they
//! are.

use super::HostEndpoint;
use crate::lent::{Borrower, Lent};
use crate::outbound::{ParcelMemory, ReadGuard};
use endpoint::ChannelId;
use endpoint::layout;
use net::{Parcel, SduAt};
use sar::SduMeta;
use std::any::Any;
use std::sync::Arc;
use wire::DropReason;

/// Looks at the free ring in a round, each for as many as [`HostEndpoint::collect_free`] takes.
const LOOKS_FOR_LOANS: usize = 16;

/// SDUs of one parcel that are out.
#[derive(Debug)]
struct Load {
    /// While it is here, the sender's slots and buffers are not its own again.
    held: Option<Arc<ReadGuard>>,
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
    /// SDUs that are out.
    out: u32,
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
struct LoanOf {
    region: usize,
    load: u32,
}

/// A parcel whose SDUs may be lent.
#[derive(Debug)]
pub(crate) struct Loan<'p> {
    lent: &'p Arc<Lent>,
    held: &'p Arc<ReadGuard>,
    /// There once one is out.
    of: Option<LoanOf>,
}

/// Regions of which nothing is out any more. Their loads are ended in pieces: there may be one for each slot of a ring.
#[derive(Debug, Default)]
pub(crate) struct OrphanedRegions(Vec<Region>);

impl OrphanedRegions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends `most` loads at most. A thread of its own frees the memory that they were in.
    pub(crate) fn end(&mut self, mut most: usize) {
        let mut left = self.0.len();
        while most > 0 && left > 0 {
            let loads = &mut self.0[left - 1].loads;
            let ended = loads.len().min(most);
            loads.truncate(loads.len() - ended);
            left -= usize::from(loads.is_empty());
            most -= ended.max(1);
        }
        if left < self.0.len() {
            crate::reaper::dispose(self.0.split_off(left));
        }
    }
}

impl Region {
    fn new(number: u16, lent: Arc<Lent>) -> Self {
        Region { number, lent, loads: Vec::new(), free: Vec::new(), out: 0 }
    }

    /// A load whose parcel is being delivered: it does not end before [`Region::end_one`].
    fn load(&mut self, held: Arc<ReadGuard>) -> u32 {
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
        self.out -= 1;
        self.end_one(load);
        true
    }
}

impl Borrowing {
    /// The place and number of a sender's region, which [`Borrowing::begin`] makes if it is the first time. `None`:
    /// there have been as many as there can be.
    fn region_of(&self, lent: &Arc<Lent>) -> Option<(usize, u16)> {
        if let Some(at) = self.regions.iter().position(|region| Arc::ptr_eq(&region.lent, lent)) {
            return Some((at, self.regions[at].number));
        }
        (self.numbered < layout::Lent::MAX_REGIONS).then_some((self.regions.len(), self.numbered))
    }

    /// The first SDU of a parcel goes out, from a region at this place.
    fn begin(&mut self, region: usize, lent: &Arc<Lent>, held: &Arc<ReadGuard>) -> LoanOf {
        if region == self.regions.len() {
            self.regions.push(Region::new(self.numbered, lent.clone()));
            self.numbered += 1;
        }
        LoanOf { region, load: self.regions[region].load(held.clone()) }
    }

    fn give_out(&mut self, of: LoanOf, buffer: u16) {
        let region = &mut self.regions[of.region];
        region.lent.give_out(buffer, of.load);
        region.loads[of.load as usize].out += 1;
        region.out += 1;
        self.out += 1;
    }

    /// No more SDUs of a parcel go out.
    fn finish(&mut self, of: LoanOf) {
        self.regions[of.region].end_one(of.load);
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
    fn forget_ended(&mut self, orphaned: &mut OrphanedRegions) -> bool {
        let before = self.out;
        for region in self.regions.extract_if(.., |region| region.lent.has_ended()) {
            self.out -= region.out;
            orphaned.0.push(region);
        }
        self.out < before
    }
}

impl HostEndpoint {
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
    pub(crate) fn begin_loan<'p>(&self, channel: u32, parcel: &'p Parcel) -> Option<Loan<'p>> {
        self.borrowing.as_ref()?;
        let sent = (parcel.memory() as &dyn Any).downcast_ref::<ParcelMemory>()?;
        let (lent, held) = sent.lent()?;
        let borrower = self.channels.find(ChannelId(channel))?.borrows?;
        lent.lends_to(borrower).then_some(Loan { lent, held, of: None })
    }

    /// Whether one more SDU can be out: each comes back by the free ring.
    #[inline]
    pub(crate) fn has_room_for_loan(&self) -> bool {
        self.borrowing.as_ref().is_some_and(|borrowing| borrowing.out < self.geometry().free_ring)
    }

    /// Delivers an SDU where it is. `None`: it is to be copied, since its buffer is out already or there is no room for
    /// more. The lender's memory is kept only once an SDU of it is out.
    #[inline]
    pub(crate) fn deliver_lent(
        &mut self,
        channel: u32,
        loan: &mut Loan<'_>,
        sdu: &SduAt,
        meta: SduMeta,
    ) -> Option<Result<(), DropReason>> {
        if !self.has_room_for_loan() {
            return None;
        }
        let buffer = loan.lent.buffer_of(sdu.at).filter(|buffer| !loan.lent.is_out(*buffer))?;
        let borrowing = self.borrowing.as_ref()?;
        let (place, region) = match loan.of {
            Some(of) => (of.region, borrowing.regions[of.region].number),
            None => borrowing.region_of(loan.lent)?,
        };
        let number = layout::Lent { region, buffer }.to_buffer()?;
        let delivered = self.push_lent(channel, sdu.octets.into(), meta, number);
        if delivered.is_ok()
            && let Some(borrowing) = &mut self.borrowing
        {
            let of = *loan.of.get_or_insert_with(|| borrowing.begin(place, loan.lent, loan.held));
            borrowing.give_out(of, buffer);
        }
        Some(delivered)
    }

    /// No more SDUs of the parcel are delivered by this loan.
    #[inline]
    pub(crate) fn finish_loan(&mut self, loan: Option<Loan<'_>>) {
        if let (Some(of), Some(borrowing)) = (loan.and_then(|loan| loan.of), &mut self.borrowing) {
            borrowing.finish(of);
        }
    }

    /// An SDU comes back by the free ring. False if it is not out.
    pub(super) fn take_back(&mut self, back: layout::Lent) -> bool {
        self.borrowing.as_mut().is_some_and(|borrowing| borrowing.take_back(back))
    }

    /// Takes back what its application is done with. True if anything was.
    pub(crate) fn take_back_loans(&mut self) -> bool {
        let out = |attached: &HostEndpoint| attached.borrowing.as_ref().map_or(0, |borrowing| borrowing.out);
        let before = out(self);
        for _ in 0..LOOKS_FOR_LOANS {
            if !self.collect_free() {
                break;
            }
        }
        out(self) < before
    }

    /// All that is out goes back: nobody reads it any more. The rest of the endpoint may end later, and elsewhere.
    pub(crate) fn end_borrowing(&mut self, orphaned: &mut OrphanedRegions) {
        if let Some(mut borrowing) = self.borrowing.take() {
            orphaned.0.append(&mut borrowing.regions);
        }
    }

    /// Lenders that have ended have their memory back. True if anything of it was out.
    pub(crate) fn forget_ended_loans(&mut self, orphaned: &mut OrphanedRegions) -> bool {
        self.borrowing.as_mut().is_some_and(|borrowing| borrowing.forget_ended(orphaned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::Geometry;

    fn lent() -> Arc<Lent> {
        Arc::new(Lent::of_nothing(Geometry::default()))
    }

    fn begin(borrowing: &mut Borrowing, lent: &Arc<Lent>, held: &Arc<ReadGuard>) -> LoanOf {
        let (region, _) = borrowing.region_of(lent).unwrap();
        borrowing.begin(region, lent, held)
    }

    /// So many of a lender's first buffers go out with a new load.
    fn give_out(borrowing: &mut Borrowing, lent: &Arc<Lent>, held: &Arc<ReadGuard>, buffers: u16) -> u32 {
        let of = begin(borrowing, lent, held);
        (0..buffers).for_each(|buffer| borrowing.give_out(of, buffer));
        borrowing.finish(of);
        of.load
    }

    fn back(region: u16, buffer: u16) -> layout::Lent {
        layout::Lent { region, buffer }
    }

    #[test]
    fn a_load_is_held_until_its_last_sdu_is_back_and_its_place_is_used_again() {
        let (mut borrowing, lent) = (Borrowing::default(), lent());
        for _ in 0..3 {
            let held = Arc::new(ReadGuard);
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
        let (mut borrowing, lent, held) = (Borrowing::default(), lent(), Arc::new(ReadGuard));
        let of = begin(&mut borrowing, &lent, &held);
        borrowing.give_out(of, 0);
        assert!(borrowing.take_back(back(0, 0)));
        assert_eq!(Arc::strong_count(&held), 2);
        borrowing.give_out(of, 1);
        borrowing.finish(of);
        // The next parcel's load is another one.
        assert_eq!(give_out(&mut borrowing, &lent, &Arc::new(ReadGuard), 1), 1);
        assert_eq!(Arc::strong_count(&held), 2, "an SDU is out");
        assert!(borrowing.take_back(back(0, 1)));
        assert_eq!((Arc::strong_count(&held), borrowing.out), (1, 1));
    }

    #[test]
    fn of_a_lender_that_has_ended_nothing_is_out_and_another_lenders_stays() {
        let (mut borrowing, gone, stays, mut orphaned) =
            (Borrowing::default(), lent(), lent(), OrphanedRegions::default());
        let held = Arc::new(ReadGuard);
        give_out(&mut borrowing, &gone, &held, 3);
        give_out(&mut borrowing, &stays, &Arc::new(ReadGuard), 2);
        assert!(!borrowing.forget_ended(&mut orphaned) && orphaned.is_empty());
        gone.end();
        assert!(borrowing.forget_ended(&mut orphaned));
        orphaned.end(1);
        assert_eq!((borrowing.out, borrowing.regions.len(), Arc::strong_count(&held)), (2, 1, 1));
        assert!(!borrowing.forget_ended(&mut orphaned) && orphaned.is_empty(), "once");
        assert!(borrowing.take_back(back(0, 1)), "what comes back late is no mistake");
        assert_eq!(borrowing.out, 2);
        assert!(!borrowing.take_back(back(2, 0)), "there is no such region");
        assert!(borrowing.take_back(back(1, 1)));
        // Its number is not given again: a borrower keeps its mapping.
        assert_eq!(borrowing.region_of(&lent()), Some((1, 2)));
    }

    #[test]
    fn a_look_for_ended_lenders_takes_no_longer_for_all_that_is_out() {
        let (mut borrowing, mut orphaned) = (Borrowing::default(), OrphanedRegions::default());
        let lent = Arc::new(Lent::of_nothing(Geometry { buffers: 60_000, ..Geometry::default() }));
        let held = Arc::new(ReadGuard);
        for buffer in 0..60_000 {
            let of = begin(&mut borrowing, &lent, &held);
            borrowing.give_out(of, buffer);
            borrowing.finish(of);
        }
        let begun = crate::rounds::processor_time();
        for _ in 0..1000 {
            assert!(!borrowing.forget_ended(&mut orphaned));
        }
        let took = crate::rounds::processor_time() - begun;
        assert!(took < std::time::Duration::from_millis(5), "{took:?}");
    }

    #[test]
    fn loads_of_ended_regions_end_in_pieces() {
        let (mut borrowing, mut orphaned) = (Borrowing::default(), OrphanedRegions::default());
        let held = Arc::new(ReadGuard);
        for loads in [30, 1, 9] {
            let lent = lent();
            for buffer in 0..loads {
                let of = begin(&mut borrowing, &lent, &held);
                borrowing.give_out(of, buffer);
                borrowing.finish(of);
            }
            lent.end();
        }
        assert!(borrowing.forget_ended(&mut orphaned));
        for left in [25, 10, 0] {
            assert!(!orphaned.is_empty());
            orphaned.end(15);
            assert_eq!(Arc::strong_count(&held) - 1, left);
        }
        assert!(orphaned.is_empty());
    }
}
