//! What a kernel has to know, and the runs that every kernel makes of it.
//!
//! An [`Engine`] copies payloads between SDU and cells and takes them into a CRC state on the way. The functions here
//! are the way through a PDU, written once: they are inlined into one entry point per kernel, which carries the
//! processor features that the engine needs. `S` is the distance of cells in octets: 64 for slots, 53 for the wire;
//! the payload is the last 48 of them in both.

use super::polynomial::GOOD;

/// Octets of a payload.
pub(super) const PAYLOAD: usize = wire::cell::PAYLOAD_OCTETS;
/// Of the first eight octets of a cell, read least significant first: the bits of the fourth that change in a PDU.
pub(super) const CLP: u64 = 1 << 24;
pub(super) const END: u64 = 1 << 25;
pub(super) const CONGESTION: u64 = 1 << 26;
pub(super) const NOT_USER: u64 = 1 << 27;

/// The last, short piece of an SDU, and what follows it in its cell.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    /// Where it begins.
    pub(super) from: *const u8,
    /// Its octets, 0..=47.
    pub(super) octets: usize,
    /// Octets of the same SDU that lie before it and may be read with it.
    pub(super) before: usize,
    /// The cell's last eight octets, first octet lowest; zero if this is not the PDU's last cell.
    pub(super) trailer: u64,
}

/// Headers that go on with a run of cells.
#[derive(Clone, Copy)]
pub(super) struct Expect {
    /// The first header of the run, as its first eight octets are read.
    pub(super) head: u64,
    /// The bits that belong to the header.
    pub(super) mask: u64,
    /// The bits that must not differ.
    pub(super) fixed: u64,
}

impl Expect {
    #[inline(always)]
    pub(super) fn new<const S: usize>(head: u64) -> Self {
        let mask = header_mask::<S>();
        // On the wire the HEC covers the bits that may change: a cell where they do is looked at by itself.
        let fixed = if S == 53 { mask } else { mask & !(CLP | CONGESTION) };
        Expect { head, mask, fixed }
    }

    /// How a cell's header differs from the first one's.
    ///
    /// # Safety
    /// `cell` is the first octet of a cell.
    #[inline(always)]
    pub(super) unsafe fn difference(self, cell: *const u8) -> u64 {
        // SAFETY: a cell has more than eight octets.
        (unsafe { cell.cast::<u64>().read_unaligned() } ^ self.head) & self.mask
    }
}

#[inline(always)]
const fn header_mask<const S: usize>() -> u64 {
    if S == 53 { 0xff_ffff_ffff } else { 0xffff_ffff }
}

/// A cell's header as its first octets are read: four in a slot, five on the wire.
///
/// # Safety
/// `cell` is the first octet of a cell.
#[inline(always)]
pub(super) unsafe fn header<const S: usize>(cell: *const u8) -> u64 {
    // SAFETY: a cell has more than eight octets.
    unsafe { cell.cast::<u64>().read_unaligned() & header_mask::<S>() }
}

/// Brings a line into the nearest cache, if there is one there.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// PDUs of one cell that are taken together.
pub(super) const TOGETHER: usize = 4;

/// A way to copy payloads and take them into a CRC.
///
/// # Safety of all its functions
/// The processor has the engine's features; `from` and `to` give the octets that are named; a cell has `S` octets.
pub(super) trait Engine {
    /// The CRC state in a register.
    type Acc: Copy;
    /// The state before a PDU.
    const START: u128;
    /// Whether SSE4.2 is among its features.
    const SSE4: bool = false;
    /// Whether two remainders at once cost less than one after the other.
    const PAIRS: bool = false;

    unsafe fn enter(state: u128) -> Self::Acc;
    unsafe fn leave(acc: Self::Acc) -> u128;
    /// The state in memory, at any place.
    #[inline(always)]
    unsafe fn enter_from(state: *const u128) -> Self::Acc {
        // SAFETY: the caller's.
        unsafe { Self::enter(state.read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn leave_to(acc: Self::Acc, state: *mut u128) {
        // SAFETY: the caller's.
        unsafe { state.write_unaligned(Self::leave(acc)) }
    }
    /// The remainder of all that has been taken.
    unsafe fn remainder(acc: Self::Acc) -> u32;
    /// The same of two.
    #[inline(always)]
    unsafe fn remainders([a, b]: [Self::Acc; 2]) -> [u32; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::remainder(a), Self::remainder(b)] }
    }
    /// `cells` whole payloads from `from` on into cells from `to` on, all with the header `head` (eight octets, first
    /// lowest; on the wire the last three are payload).
    unsafe fn cells_out<const S: usize>(
        acc: Self::Acc,
        from: *const u8,
        to: *mut u8,
        cells: usize,
        head: u64,
    ) -> Self::Acc;
    /// One cell of a tail and zeros, not the PDU's last.
    unsafe fn tail_out<const S: usize>(acc: Self::Acc, tail: Tail, to: *mut u8, head: u64) -> Self::Acc;
    /// The PDU's last cell: a tail, zeros and a trailer, its CRC zero. Gives the remainder of the PDU.
    unsafe fn last_out<const S: usize>(acc: Self::Acc, tail: Tail, to: *mut u8, head: u64) -> u32;
    /// Payloads of up to `cells` cells, while their headers go on as expected, to `to`; gives how many. Differences
    /// that are allowed are gathered in `seen`.
    unsafe fn cells_in<const S: usize>(
        acc: Self::Acc,
        from: *const u8,
        cells: usize,
        expect: Expect,
        seen: &mut u64,
        to: *mut u8,
    ) -> (Self::Acc, usize);
    /// The payload of one cell, of which `fit` octets (0..=48) are written to `to`.
    unsafe fn cell_in<const S: usize>(acc: Self::Acc, from: *const u8, to: *mut u8, fit: usize) -> Self::Acc;
    /// The payloads of `cells` cells that stand `apart` octets from each other, to `to`.
    #[inline(always)]
    unsafe fn column_in<const S: usize>(
        mut acc: Self::Acc,
        from: *const u8,
        apart: usize,
        cells: usize,
        to: *mut u8,
    ) -> Self::Acc {
        for i in 0..cells {
            // SAFETY: the caller's.
            acc = unsafe { Self::cell_in::<S>(acc, from.add(i * apart), to.add(i * PAYLOAD), PAYLOAD) };
        }
        acc
    }
    /// The same as `cell_in` for a PDU's last cell. Gives the remainder of the PDU.
    unsafe fn last_in<const S: usize>(acc: Self::Acc, from: *const u8, to: *mut u8, fit: usize) -> u32;
    /// The payloads of cells that follow each other, of a PDU each. Gives their remainders.
    #[inline(always)]
    unsafe fn singles_in<const S: usize>(from: *const u8, to: [*mut u8; TOGETHER]) -> [u32; TOGETHER] {
        let mut remainders = [0; TOGETHER];
        for i in 0..TOGETHER {
            // SAFETY: the caller's.
            remainders[i] = unsafe { Self::last_in::<S>(Self::enter(Self::START), from.add(i * S), to[i], PAYLOAD) };
        }
        remainders
    }
}

/// A PDU on its way out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) state: u128,
    /// The header of all cells but the last; its first four octets, first lowest.
    pub(crate) head: u32,
    pub(crate) sdu_octets: u32,
    pub(crate) cells: u32,
    pub(crate) done: u32,
    /// UU, CPI and length, first octet lowest.
    pub(crate) trailer: u32,
}

/// Writes up to `room` further cells of the PDU; gives how many.
///
/// # Safety
/// The engine's features; `sdu` has `sdu_octets` readable octets, `to` room for `room` cells.
#[inline(always)]
pub(super) unsafe fn segment<E: Engine, const S: usize>(
    out: &mut Out,
    sdu: *const u8,
    to: *mut u8,
    room: usize,
) -> usize {
    let (octets, cells, mut done) = (out.sdu_octets as usize, out.cells as usize, out.done as usize);
    let n = room.min(cells - done);
    let head = with_hec::<S>(out.head);
    // SAFETY: of `octets` octets there are `octets / 48` whole payloads, none of them in the PDU's last cell; all cells
    // written are the first `n` from `to` on.
    unsafe {
        let mut acc = E::enter(out.state);
        let whole = n.min((octets / PAYLOAD).saturating_sub(done));
        acc = E::cells_out::<S>(acc, sdu.wrapping_add(done * PAYLOAD), to, whole, head);
        done += whole;
        let mut written = whole;
        while written < n {
            let at = octets.min(done * PAYLOAD);
            let to = to.add(written * S);
            let last = done + 1 == cells;
            let trailer = if last { u64::from(out.trailer) } else { 0 };
            let tail = Tail { from: sdu.wrapping_add(at), octets: octets - at, before: at, trailer };
            if last {
                let crc = !E::last_out::<S>(acc, tail, to, with_hec::<S>(out.head | END as u32));
                to.add(S - 4).cast::<[u8; 4]>().write_unaligned(crc.to_be_bytes());
            } else {
                acc = E::tail_out::<S>(acc, tail, to, head);
            }
            done += 1;
            written += 1;
        }
        out.state = E::leave(acc);
    }
    out.done = done as u32;
    n
}

#[inline(always)]
pub(super) fn with_hec<const S: usize>(head: u32) -> u64 {
    match S {
        53 => u64::from(head) | u64::from(wire::hec::generate(head.to_le_bytes())) << 32,
        _ => u64::from(head),
    }
}

/// A PDU on its way in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct In {
    pub(crate) state: u128,
    /// Payload octets taken so far.
    pub(crate) octets: usize,
    /// The most that a PDU may have.
    pub(crate) longest: usize,
    pub(crate) clp: bool,
}

/// Why a run of cells ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No cells are left.
    More,
    /// The PDU's last cell was taken.
    End { trailer: u64, congestion: bool, good: bool },
    /// The next cell is not of user data.
    NotUser,
    /// The next cell's header is damaged (53-octet cells).
    Damaged,
    /// The next cell would make the PDU longer than allowed.
    Longer,
}

/// Takes cells up to the end of the PDU, or to one that is not for it; gives how many and why it stopped. Of their
/// payload, what fits in `room` octets is written to `to`.
///
/// # Safety
/// The engine's features; `cells` gives `n` cells, `to` has room for `room` octets.
#[inline(always)]
pub(super) unsafe fn reassemble<E: Engine, const S: usize>(
    pdu: &mut In,
    cells: *const u8,
    n: usize,
    to: *mut u8,
    room: usize,
) -> (usize, Stop) {
    let mut used = 0;
    // SAFETY: cells are read below `n` only; `fit` payloads, or the part of one, end before `room`.
    unsafe {
        let mut acc = E::enter(pdu.state);
        let stop = loop {
            if used == n {
                break Stop::More;
            }
            let cell = cells.add(used * S);
            let head = header::<S>(cell);
            if S == 53 && head != with_hec::<S>(head as u32) {
                break Stop::Damaged;
            }
            if head & NOT_USER != 0 {
                break Stop::NotUser;
            }
            if pdu.octets + PAYLOAD > pdu.longest {
                break Stop::Longer;
            }
            let fit = room.saturating_sub(pdu.octets);
            let at = to.wrapping_add(pdu.octets);
            pdu.clp |= head & CLP != 0;
            if head & END != 0 {
                let good = E::last_in::<S>(acc, cell, at, fit.min(PAYLOAD)) == GOOD;
                pdu.octets += PAYLOAD;
                used += 1;
                let trailer = cell.add(S - 8).cast::<u64>().read_unaligned();
                break Stop::End { trailer, congestion: head & CONGESTION != 0, good };
            }
            let run = (fit / PAYLOAD).min((pdu.longest - pdu.octets) / PAYLOAD).min(n - used);
            if run == 0 {
                acc = E::cell_in::<S>(acc, cell, at, fit.min(PAYLOAD));
                pdu.octets += PAYLOAD;
                used += 1;
                continue;
            }
            let mut seen = 0;
            let (next, taken) = E::cells_in::<S>(acc, cell, run, Expect::new::<S>(head), &mut seen, at);
            acc = next;
            // A bit that differs from the first cell's was set in one of them.
            pdu.clp |= seen & CLP != 0;
            pdu.octets += taken * PAYLOAD;
            used += taken;
        };
        pdu.state = E::leave(acc);
        (used, stop)
    }
}

/// What was passed over on the way to the end of a PDU that is lost already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) used: usize,
    pub(crate) user_cells: usize,
    pub(crate) damaged: usize,
    /// The last one ended the PDU.
    pub(crate) ended: bool,
}

/// Passes over the cells of a lost PDU, up to its last one.
///
/// # Safety
/// `cells` gives `n` cells.
pub(crate) unsafe fn pass_over<const S: usize>(cells: *const u8, n: usize) -> Passed {
    let mut passed = Passed { used: 0, user_cells: 0, damaged: 0, ended: false };
    while passed.used < n && !passed.ended {
        // SAFETY: below `n`.
        let head = unsafe { header::<S>(cells.add(passed.used * S)) };
        passed.used += 1;
        if S == 53 && head != with_hec::<S>(head as u32) {
            passed.damaged += 1;
        } else if head & NOT_USER == 0 {
            passed.user_cells += 1;
            passed.ended = head & END != 0;
        }
    }
    passed
}
