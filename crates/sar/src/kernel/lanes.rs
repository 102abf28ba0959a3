//! The vector engine, over any vectors of 128-bit lanes with a carry-less multiplication.
//!
//! A payload is three lanes. Groups of cells fill three vectors, whatever the vector's width: one cell of 128-bit
//! vectors, two of 256, four of 512. Three accumulators, folded over one group at each step, keep the multiplications
//! independent; at the end of a run they are folded into one lane, which is the CRC state.

use super::engine::{Engine, Expect, PAYLOAD, TOGETHER, Tail};
use super::polynomial::{BARRETT, GENERATOR, START, power};
use core::marker::PhantomData;

/// Octets of a lane.
pub(super) const LANE: usize = 16;

/// 128 bits. In memory order when loaded; as a polynomial, the first octet highest, when turned.
///
/// # Safety of all its functions
/// The processor has what the implementation uses; pointers give 16 octets.
pub(super) trait Lane: Copy {
    /// Whether SSE4.2 is among what it uses.
    const SSE4: bool = false;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn of(value: u128) -> Self;
    unsafe fn value(self) -> u128;
    unsafe fn xor(self, other: Self) -> Self;
    /// Octets in the opposite order.
    unsafe fn turn(self) -> Self;
    /// The octets that `index` names, zero where it has its highest bit set.
    unsafe fn pick(self, index: Self) -> Self;
    /// Upper half times upper half of `by`, plus lower half times lower half.
    unsafe fn fold(self, by: Self) -> Self;
    /// Upper half times the lower half of `by`.
    unsafe fn multiply_upper(self, by: Self) -> Self;
    /// Lower half times the lower half of `by`.
    unsafe fn multiply_lower(self, by: Self) -> Self;
    /// The lower half alone.
    unsafe fn lower(self) -> Self;
    /// Both halves shifted right by 32 bits.
    unsafe fn shift32(self) -> Self;
}

/// A vector of one or more lanes.
///
/// # Safety of all its functions
/// As [`Lane`]; `from` and `to` give the octets of a group of cells.
pub(super) trait Wide: Copy {
    type Lane: Lane;
    /// Cells of a group.
    const CELLS: usize;
    /// From how many cells on groups are worth their final folds.
    const WORTH: usize;
    /// Whether two remainders at once cost less than one after the other.
    const PAIRS: bool = false;

    /// Copies a group's payloads into cells; gives them, turned, in lanes of the implementation's choice.
    unsafe fn group_out<const S: usize>(from: *const u8, to: *mut u8, head: u64) -> [Self; 3];
    /// Copies the payloads of a group of cells out of them.
    unsafe fn group_in<const S: usize>(from: *const u8, to: *mut u8) -> [Self; 3];
    /// Folds `state`, which stands right before the group, into it.
    unsafe fn begin(state: Self::Lane, group: [Self; 3]) -> [Self; 3];
    /// Folds the accumulators over one group and adds the next.
    unsafe fn next(acc: [Self; 3], group: [Self; 3]) -> [Self; 3];
    /// All lanes folded to the end of the group.
    unsafe fn gather(acc: [Self; 3]) -> Self::Lane;

    /// A payload in a register or more, in memory order.
    type Payload: Copy;

    /// # Safety
    /// `from` gives 48 octets.
    unsafe fn load(from: *const u8) -> Self::Payload;
    /// # Safety
    /// `to` has room for 48 octets.
    unsafe fn store(payload: Self::Payload, to: *mut u8);
    /// A tail, zeros, and a trailer.
    ///
    /// # Safety
    /// As [`Tail`] says.
    unsafe fn tail(tail: Tail) -> Self::Payload;
    /// Writes a cell: header, and what lies between it and the payload, then the payload.
    ///
    /// # Safety
    /// `to` is a cell of `S` octets.
    unsafe fn put<const S: usize>(to: *mut u8, head: u64, payload: Self::Payload);
    /// The state after one more payload.
    unsafe fn one(state: Self::Lane, payload: Self::Payload) -> Self::Lane;
    /// The same in 96 bits at most.
    unsafe fn last(state: Self::Lane, payload: Self::Payload) -> Self::Lane;
    /// The remainders of two states.
    ///
    /// # Safety
    /// None.
    #[inline(always)]
    unsafe fn remainders([a, b]: [Self::Lane; 2]) -> [u32; 2] {
        // SAFETY: the caller's. No closure: it would be compiled without the processor's features.
        unsafe { [remainder(to96(a)), remainder(to96(b))] }
    }
    /// The remainders of four PDUs of one cell each, whose payloads are copied to `to`.
    ///
    /// # Safety
    /// Four cells of `S` octets; four places with room for 48.
    #[inline(always)]
    unsafe fn four_singles<const S: usize>(from: *const u8, to: [*mut u8; TOGETHER]) -> [u32; TOGETHER] {
        let mut remainders = [0; TOGETHER];
        for i in 0..TOGETHER {
            // SAFETY: the caller's.
            unsafe {
                let payload = Self::load(from.add(i * S + S - PAYLOAD));
                Self::store(payload, to[i]);
                remainders[i] = remainder(Self::last(Self::Lane::of(START), payload));
            }
        }
        remainders
    }
    /// The state after two cells' payloads, which are copied to `to`.
    ///
    /// # Safety
    /// Two cells of `S` octets; `to` has room for 96.
    #[inline(always)]
    unsafe fn two_in<const S: usize>(
        state: Self::Lane,
        first: *const u8,
        second: *const u8,
        to: *mut u8,
    ) -> Self::Lane {
        // SAFETY: the caller's.
        unsafe {
            let state = one_in::<Self, S>(state, first, to);
            one_in::<Self, S>(state, second, to.add(PAYLOAD))
        }
    }
}

/// # Safety
/// `from` gives 48 octets.
#[inline(always)]
pub(super) unsafe fn payload<L: Lane>(from: *const u8) -> [L; 3] {
    // SAFETY: the caller's.
    unsafe { [L::load(from), L::load(from.add(LANE)), L::load(from.add(2 * LANE))] }
}

/// # Safety
/// `to` has room for 48 octets.
#[inline(always)]
pub(super) unsafe fn store<L: Lane>([a, b, c]: [L; 3], to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        a.store(to);
        b.store(to.add(LANE));
        c.store(to.add(2 * LANE));
    }
}

/// # Safety
/// The processor's features.
#[inline(always)]
pub(super) unsafe fn turned<L: Lane>([a, b, c]: [L; 3]) -> [L; 3] {
    // SAFETY: the caller's.
    unsafe { [a.turn(), b.turn(), c.turn()] }
}

/// Writes a cell: header, and what lies between it and the payload, then the payload.
///
/// # Safety
/// `to` is a cell of `S` octets.
#[inline(always)]
pub(super) unsafe fn put<L: Lane, const S: usize>(to: *mut u8, head: u64, lanes: [L; 3]) {
    // SAFETY: eight octets of header on the wire reach three octets into the payload, which is written after them.
    unsafe {
        if S == 64 {
            L::of(u128::from(head)).store(to);
        } else {
            to.cast::<u64>().write_unaligned(head);
        }
        store(lanes, to.add(S - PAYLOAD));
    }
}

/// Up to 16 octets of an SDU, zeros after them. None is read that is not the SDU's.
///
/// # Safety
/// `from` gives `n` octets, and so do the `before` octets that precede it.
#[inline(always)]
pub(super) unsafe fn partial<L: Lane>(from: *const u8, n: usize, before: usize) -> L {
    /// Sixteen places in order, then sixteen that pick nothing.
    static SLIDE: [u8; 2 * LANE] = {
        let mut s = [0x80; 2 * LANE];
        let mut i = 0;
        while i < LANE {
            s[i] = i as u8;
            i += 1;
        }
        s
    };
    // SAFETY: with 16 octets up to the end of the piece, the load ends there; the index begins within the first 17
    // octets of the slide. Shorter SDUs are read in overlapping parts that cover their `n` octets exactly.
    unsafe {
        if n == 0 {
            L::of(0)
        } else if before + n >= LANE {
            L::load(from.add(n).sub(LANE)).pick(L::load(SLIDE.as_ptr().add(LANE - n)))
        } else if n >= 8 {
            let (a, b) = (from.cast::<u64>().read_unaligned(), from.add(n - 8).cast::<u64>().read_unaligned());
            L::of(u128::from(u64::from_le(a)) | u128::from(u64::from_le(b)) << (8 * (n - 8)))
        } else if n >= 4 {
            let (a, b) = (from.cast::<u32>().read_unaligned(), from.add(n - 4).cast::<u32>().read_unaligned());
            L::of(u128::from(u32::from_le(a)) | u128::from(u32::from_le(b)) << (8 * (n - 4)))
        } else {
            let (a, b, c) = (from.read(), from.add(n / 2).read(), from.add(n - 1).read());
            L::of(u128::from(a) | u128::from(b) << (8 * (n / 2)) | u128::from(c) << (8 * (n - 1)))
        }
    }
}

/// A state folded to 96 bits.
///
/// # Safety
/// The processor's features.
#[inline(always)]
pub(super) unsafe fn to96<L: Lane>(state: L) -> L {
    // SAFETY: the caller's.
    unsafe { state.multiply_upper(L::of(const { power(64) as u128 })).xor(state.lower()) }
}

/// The remainder of 96 bits modulo the generator: one fold to 64 bits, then Barrett.
///
/// # Safety
/// The processor's features.
#[inline(always)]
unsafe fn remainder<L: Lane>(ninety_six: L) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        let down = L::of(const { power(64) as u128 });
        let sixty_four = ninety_six.multiply_upper(down).xor(ninety_six.lower());
        let quotient = sixty_four.shift32().multiply_lower(L::of(BARRETT as u128)).shift32();
        quotient.multiply_lower(L::of(GENERATOR as u128)).xor(sixty_four).value() as u32
    }
}

/// The engine.
pub(super) struct Vectors<W>(PhantomData<W>);

// The safety conditions are the trait's; each access is within the cells and octets that it names.
impl<W: Wide> Engine for Vectors<W> {
    type Acc = W::Lane;
    const START: u128 = START;
    const SSE4: bool = W::Lane::SSE4;
    const PAIRS: bool = W::PAIRS;

    #[inline(always)]
    unsafe fn enter(state: u128) -> W::Lane {
        // SAFETY: the caller's.
        unsafe { W::Lane::of(state) }
    }

    #[inline(always)]
    unsafe fn leave(acc: W::Lane) -> u128 {
        // SAFETY: the caller's.
        unsafe { acc.value() }
    }

    #[inline(always)]
    unsafe fn enter_from(state: *const u128) -> W::Lane {
        // SAFETY: the caller's: 16 octets, lowest first.
        unsafe { W::Lane::load(state.cast()) }
    }

    #[inline(always)]
    unsafe fn leave_to(acc: W::Lane, state: *mut u128) {
        // SAFETY: as above.
        unsafe { acc.store(state.cast()) }
    }

    #[inline(always)]
    unsafe fn remainder(acc: W::Lane) -> u32 {
        // SAFETY: the caller's.
        unsafe { remainder(to96(acc)) }
    }

    #[inline(always)]
    unsafe fn remainders(acc: [W::Lane; 2]) -> [u32; 2] {
        // SAFETY: the caller's.
        unsafe { W::remainders(acc) }
    }

    #[inline(always)]
    unsafe fn cells_out<const S: usize>(
        mut acc: W::Lane,
        from: *const u8,
        to: *mut u8,
        cells: usize,
        head: u64,
    ) -> W::Lane {
        let mut i = 0;
        // SAFETY: payloads and cells `i` and the rest of their group are below `cells`.
        unsafe {
            if cells >= W::WORTH {
                let mut group = W::begin(acc, W::group_out::<S>(from, to, head));
                i = W::CELLS;
                while i + W::CELLS <= cells {
                    group = W::next(group, W::group_out::<S>(from.add(i * PAYLOAD), to.add(i * S), head));
                    i += W::CELLS;
                }
                acc = W::gather(group);
            }
            while i < cells {
                acc = one_out::<W, S>(acc, from.add(i * PAYLOAD), to.add(i * S), head);
                i += 1;
            }
        }
        acc
    }

    #[inline(always)]
    unsafe fn tail_out<const S: usize>(acc: W::Lane, tail: Tail, to: *mut u8, head: u64) -> W::Lane {
        // SAFETY: the caller's.
        unsafe {
            let payload = W::tail(tail);
            W::put::<S>(to, head, payload);
            W::one(acc, payload)
        }
    }

    #[inline(always)]
    unsafe fn last_out<const S: usize>(acc: W::Lane, tail: Tail, to: *mut u8, head: u64) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            let payload = W::tail(tail);
            W::put::<S>(to, head, payload);
            remainder(W::last(acc, payload))
        }
    }

    #[inline(always)]
    unsafe fn cells_in<const S: usize>(
        mut acc: W::Lane,
        from: *const u8,
        cells: usize,
        expect: Expect,
        seen: &mut u64,
        to: *mut u8,
    ) -> (W::Lane, usize) {
        let mut i = 0;
        // SAFETY: as in `cells_out`.
        unsafe {
            // Differences of a group's headers, gathered before one test.
            let group_difference =
                |i: usize| (i..i + W::CELLS).fold(0, |all, i| all | expect.difference(from.add(i * S)));
            if cells >= W::WORTH {
                let difference = group_difference(0);
                if difference & expect.fixed == 0 {
                    *seen |= difference;
                    let mut group = W::begin(acc, W::group_in::<S>(from, to));
                    i = W::CELLS;
                    while i + W::CELLS <= cells {
                        let difference = group_difference(i);
                        if difference & expect.fixed != 0 {
                            break;
                        }
                        *seen |= difference;
                        group = W::next(group, W::group_in::<S>(from.add(i * S), to.add(i * PAYLOAD)));
                        i += W::CELLS;
                    }
                    acc = W::gather(group);
                }
            }
            while i < cells {
                let cell = from.add(i * S);
                let difference = expect.difference(cell);
                if difference & expect.fixed != 0 {
                    break;
                }
                *seen |= difference;
                acc = one_in::<W, S>(acc, cell, to.add(i * PAYLOAD));
                i += 1;
            }
        }
        (acc, i)
    }

    #[inline(always)]
    unsafe fn cell_in<const S: usize>(acc: W::Lane, from: *const u8, to: *mut u8, fit: usize) -> W::Lane {
        // SAFETY: the payload is the cell's last 48 octets; `fit` of them may be written.
        unsafe { W::one(acc, take::<W, S>(from, to, fit)) }
    }

    #[inline(always)]
    unsafe fn column_in<const S: usize>(
        mut acc: W::Lane,
        mut from: *const u8,
        apart: usize,
        cells: usize,
        mut to: *mut u8,
    ) -> W::Lane {
        // SAFETY: the caller's: as many cells.
        unsafe {
            for _ in 0..cells / 2 {
                acc = W::two_in::<S>(acc, from, from.add(apart), to);
                from = from.wrapping_add(2 * apart);
                to = to.add(2 * PAYLOAD);
            }
            if !cells.is_multiple_of(2) {
                acc = one_in::<W, S>(acc, from, to);
            }
        }
        acc
    }

    #[inline(always)]
    unsafe fn singles_in<const S: usize>(from: *const u8, to: [*mut u8; TOGETHER]) -> [u32; TOGETHER] {
        // SAFETY: the caller's: so many cells, and as many places.
        unsafe { W::four_singles::<S>(from, to) }
    }

    #[inline(always)]
    unsafe fn last_in<const S: usize>(acc: W::Lane, from: *const u8, to: *mut u8, fit: usize) -> u32 {
        // SAFETY: as above.
        unsafe { remainder(W::last(acc, take::<W, S>(from, to, fit))) }
    }
}

/// Copies one payload into a cell.
///
/// # Safety
/// `from` gives 48 octets, `to` is a cell of `S` octets.
#[inline(always)]
unsafe fn one_out<W: Wide, const S: usize>(state: W::Lane, from: *const u8, to: *mut u8, head: u64) -> W::Lane {
    // SAFETY: the caller's.
    unsafe {
        let payload = W::load(from);
        W::put::<S>(to, head, payload);
        W::one(state, payload)
    }
}

/// Copies one payload out of a cell.
///
/// # Safety
/// `cell` is one of `S` octets, `to` has room for 48.
#[inline(always)]
unsafe fn one_in<W: Wide, const S: usize>(state: W::Lane, cell: *const u8, to: *mut u8) -> W::Lane {
    // SAFETY: the caller's.
    unsafe {
        let payload = W::load(cell.add(S - PAYLOAD));
        W::store(payload, to);
        W::one(state, payload)
    }
}

/// A cell's payload, of which `fit` octets (0..=48) are written to `to`.
///
/// # Safety
/// `cell` is one of `S` octets, `to` has room for `fit`.
#[inline(always)]
unsafe fn take<W: Wide, const S: usize>(cell: *const u8, to: *mut u8, fit: usize) -> W::Payload {
    // SAFETY: 48 octets of ours, of which at most 48 are copied.
    unsafe {
        let payload = W::load(cell.add(S - PAYLOAD));
        if fit == PAYLOAD {
            W::store(payload, to);
        } else if fit > 0 {
            let mut whole = [0u8; PAYLOAD];
            W::store(payload, whole.as_mut_ptr());
            to.copy_from_nonoverlapping(whole.as_ptr(), fit.min(PAYLOAD));
        }
        payload
    }
}

/// The lanes of a tail, zeros, and a trailer.
///
/// # Safety
/// As [`Tail`] says.
#[inline(always)]
pub(super) unsafe fn tail<L: Lane>(tail: Tail) -> [L; 3] {
    // SAFETY: a tail has at most 47 octets; each piece is of its octets.
    unsafe {
        let piece = |at: usize| -> L {
            let n = tail.octets.saturating_sub(at).min(LANE);
            partial(tail.from.wrapping_add(at), n, tail.before + at)
        };
        [piece(0), piece(LANE), piece(2 * LANE).xor(L::of(u128::from(tail.trailer) << 64))]
    }
}

/// A single lane is a vector too: one cell a group.
macro_rules! lane_is_wide {
    ($lane:ty) => {
        impl $crate::kernel::lanes::Wide for $lane {
            type Lane = $lane;
            const CELLS: usize = 1;
            const WORTH: usize = 1;

            #[inline(always)]
            unsafe fn group_out<const S: usize>(from: *const u8, to: *mut u8, head: u64) -> [Self; 3] {
                use $crate::kernel::lanes::{payload, put, turned};
                // SAFETY: the caller's: one payload, one cell.
                unsafe {
                    let lanes = payload::<Self>(from);
                    put::<Self, S>(to, head, lanes);
                    turned(lanes)
                }
            }

            #[inline(always)]
            unsafe fn group_in<const S: usize>(from: *const u8, to: *mut u8) -> [Self; 3] {
                use $crate::kernel::lanes::{payload, store, turned};
                // SAFETY: the caller's: one cell, one payload.
                unsafe {
                    let lanes = payload::<Self>(from.add(S - 48));
                    store(lanes, to);
                    turned(lanes)
                }
            }

            type Payload = [Self; 3];

            #[inline(always)]
            unsafe fn load(from: *const u8) -> [Self; 3] {
                // SAFETY: the caller's.
                unsafe { $crate::kernel::lanes::payload(from) }
            }

            #[inline(always)]
            unsafe fn store(payload: [Self; 3], to: *mut u8) {
                // SAFETY: the caller's.
                unsafe { $crate::kernel::lanes::store(payload, to) }
            }

            #[inline(always)]
            unsafe fn tail(tail: $crate::kernel::engine::Tail) -> [Self; 3] {
                // SAFETY: the caller's.
                unsafe { $crate::kernel::lanes::tail(tail) }
            }

            #[inline(always)]
            unsafe fn put<const S: usize>(to: *mut u8, head: u64, payload: [Self; 3]) {
                // SAFETY: the caller's.
                unsafe { $crate::kernel::lanes::put::<Self, S>(to, head, payload) }
            }

            #[inline(always)]
            unsafe fn one(state: Self, payload: [Self; 3]) -> Self {
                use $crate::kernel::{lanes::Lane, lanes::turned, polynomial::fold};
                // SAFETY: the caller's.
                unsafe {
                    let [a, b, c] = turned(payload);
                    let before = state.fold(Self::of(const { fold(48) })).xor(a.fold(Self::of(const { fold(32) })));
                    before.xor(b.fold(Self::of(const { fold(16) })).xor(c))
                }
            }

            #[inline(always)]
            unsafe fn last(state: Self, payload: [Self; 3]) -> Self {
                use $crate::kernel::lanes::{Wide, to96};
                // SAFETY: the caller's.
                unsafe { to96(<Self as Wide>::one(state, payload)) }
            }

            #[inline(always)]
            unsafe fn begin(state: Self, [a, b, c]: [Self; 3]) -> [Self; 3] {
                use $crate::kernel::{lanes::Lane, polynomial::fold};
                // SAFETY: the caller's.
                unsafe { [a, b, c.xor(state.fold(Self::of(const { fold(48) })))] }
            }

            #[inline(always)]
            unsafe fn next(acc: [Self; 3], group: [Self; 3]) -> [Self; 3] {
                use $crate::kernel::{lanes::Lane, polynomial::fold};
                // SAFETY: the caller's.
                unsafe {
                    let k = Self::of(const { fold(48) });
                    [acc[0].fold(k).xor(group[0]), acc[1].fold(k).xor(group[1]), acc[2].fold(k).xor(group[2])]
                }
            }

            #[inline(always)]
            unsafe fn gather([a, b, c]: [Self; 3]) -> Self {
                use $crate::kernel::{lanes::Lane, polynomial::fold};
                // SAFETY: the caller's.
                unsafe { a.fold(Self::of(const { fold(32) })).xor(b.fold(Self::of(const { fold(16) }))).xor(c) }
            }
        }
    };
}
pub(super) use lane_is_wide;
