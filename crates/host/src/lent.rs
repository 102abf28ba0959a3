//! The memory of an endpoint that lends it: who may read SDUs where their sender has them, and for how long.
//!
//! A region is the segment of one endpoint, which has one channel in its life. Whoever borrows it can read all of it,
//! so the first channel to which an SDU of it is lent is the only one ever: SDUs for any other receiver are copied.
//! When the lender ends, the host forgets what is out on loan; a borrower that has the memory mapped keeps its own
//! mapping.

use endpoint::Geometry;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What a borrowing channel is told apart by, in the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Borrower(u64);

impl Borrower {
    /// One that nobody else is.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Borrower(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Division by a number that stays the same, by a multiplication (Granlund and Montgomery, 1994, section 4): a division
/// in each SDU's way takes longer than the rest of saying which buffer it is in.
#[derive(Debug, Clone, Copy)]
struct Quotient {
    /// 2^64 / divisor, rounded up; 0 stands for 2^64.
    reciprocal: u64,
}

impl Quotient {
    fn by(divisor: u32) -> Self {
        Quotient { reciprocal: (u64::MAX / u64::from(divisor.max(1))).wrapping_add(1) }
    }

    /// The reciprocal is too large by less than one, which adds less than 2^-32 to a quotient: the next whole number is
    /// further away.
    #[inline]
    fn quotient(self, dividend: u32) -> u32 {
        match self.reciprocal {
            0 => dividend,
            reciprocal => ((u128::from(dividend) * u128::from(reciprocal)) >> 64) as u32,
        }
    }
}

/// See [`Lent::ended`].
static ENDED: AtomicU64 = AtomicU64::new(0);

/// A lending endpoint's segment.
#[derive(Debug)]
pub struct Lent {
    pub(crate) geometry: Geometry,
    /// Where its buffers begin: the whole has no more octets than 32 bits count.
    buffers_at: u32,
    buffers: Quotient,
    /// By which a borrower maps it. There but for its drop.
    memory: Option<OwnedFd>,
    /// The only channel that it is lent to; 0: none yet.
    borrower: AtomicU64,
    /// Nothing more is lent: the endpoint or its channel has ended.
    ended: AtomicBool,
    /// For each buffer that is out the borrower's number of its load, counted from 1. The borrower's host alone uses
    /// it; it is here because it is made with the rest, and not between two PDUs.
    out: Box<[AtomicU32]>,
}

impl Lent {
    /// Of these sizes; `memory`: by which a borrower maps it.
    pub fn new(geometry: Geometry, memory: OwnedFd) -> Self {
        let out = (0..geometry.buffers).map(|_| AtomicU32::new(0)).collect();
        Lent {
            geometry,
            buffers_at: geometry.buffers_at() as u32,
            buffers: Quotient::by(geometry.buffer_octets),
            memory: Some(memory),
            borrower: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            out,
        }
    }

    /// Whether SDUs may be lent to this channel: to the first that asks, until the lender ends.
    pub(crate) fn lends_to(&self, Borrower(channel): Borrower) -> bool {
        let first = self.borrower.compare_exchange(0, channel, Ordering::Relaxed, Ordering::Relaxed);
        first.map_or_else(|borrower| borrower == channel, |_| true) && !self.has_ended()
    }

    pub(crate) fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            ENDED.fetch_add(1, Ordering::Release);
        }
    }

    /// Lenders that have ended, ever, in the whole process: while the number stays, nobody has to look for more of
    /// them.
    pub(crate) fn ended() -> u64 {
        ENDED.load(Ordering::Acquire)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A descriptor for the borrower.
    pub(crate) fn memory(&self) -> Option<OwnedFd> {
        self.memory.as_ref().and_then(|memory| memory.try_clone().ok())
    }

    /// Whether a buffer is out; one that is not there is.
    #[inline]
    pub(crate) fn is_out(&self, buffer: u16) -> bool {
        self.out.get(usize::from(buffer)).is_none_or(|load| load.load(Ordering::Relaxed) != 0)
    }

    /// A buffer goes out with a load.
    #[inline]
    pub(crate) fn give_out(&self, buffer: u16, load: u32) {
        if let Some(out) = self.out.get(usize::from(buffer)) {
            out.store(load + 1, Ordering::Relaxed);
        }
    }

    /// A buffer comes back: the load that it went out with, if it is out.
    #[inline]
    pub(crate) fn take_back(&self, buffer: u16) -> Option<u32> {
        let out = self.out.get(usize::from(buffer))?;
        let load = out.load(Ordering::Relaxed).checked_sub(1)?;
        out.store(0, Ordering::Relaxed);
        Some(load)
    }

    /// The buffer that begins at this octet of the segment.
    #[inline]
    pub(crate) fn buffer_of(&self, at: u32) -> Option<u16> {
        let from = at.checked_sub(self.buffers_at)?;
        u16::try_from(self.buffers.quotient(from)).ok()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The last close of a memory file frees its pages, which takes time.
        crate::reaper::dispose(self.memory.take());
    }
}

#[cfg(test)]
impl Lent {
    /// Of a memory file that has no octets.
    pub(crate) fn of_nothing(geometry: Geometry) -> Self {
        let memory = rustix::fs::memfd_create("lent", rustix::fs::MemfdFlags::CLOEXEC);
        Lent::new(geometry, memory.expect("a memory file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_lent_to_the_first_borrower_only_and_to_nobody_after_its_end() {
        let lent = Lent::of_nothing(Geometry::default());
        let (first, second) = (Borrower::new(), Borrower::new());
        assert_ne!(first, second);
        assert!(lent.lends_to(first) && lent.lends_to(first));
        assert!(!lent.lends_to(second));
        lent.end();
        assert!(!lent.lends_to(first));
    }

    #[test]
    fn a_quotient_is_that_of_a_division() {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 32) as u32 >> (random >> 8 & 31)
        };
        for _ in 0..1_000_000 {
            let (divisor, by) = (next().max(1), next());
            let multiple = (u64::from(divisor) * u64::from(by)).min(u64::from(u32::MAX)) as u32;
            for dividend in [by, multiple, multiple.wrapping_sub(1), multiple.wrapping_add(1), u32::MAX] {
                assert_eq!(Quotient::by(divisor).quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }

    #[test]
    fn a_buffer_is_out_once_and_comes_back_once() {
        let lent = Lent::of_nothing(Geometry::default());
        assert!(!lent.is_out(255) && lent.is_out(256), "there are 256");
        lent.give_out(255, 0);
        assert!(lent.is_out(255) && !lent.is_out(254));
        assert_eq!([255, 255, 254, 256].map(|buffer| lent.take_back(buffer)), [Some(0), None, None, None]);
        assert!(!lent.is_out(255));
    }

    #[test]
    fn an_octet_of_a_segment_tells_its_buffer() {
        let geometry = Geometry::default();
        let lent = Lent::of_nothing(geometry);
        for buffer in [0, 1, 255] {
            assert_eq!(lent.buffer_of(geometry.buffer_at(buffer).unwrap() as u32), Some(buffer as u16));
        }
        assert_eq!(lent.buffer_of(geometry.buffers_at() as u32 - 1), None);
    }
}
