//! The portable kernel: slicing tables. The others are proved equal to it.

use super::engine::{Engine, Expect, PAYLOAD, Tail};
use super::polynomial::down32;
use wire::crc::Crc32;

/// Its state is the CRC register.
pub(super) struct Portable;

impl Portable {
    #[inline(always)]
    fn absorb(register: u32, payload: &[u8; PAYLOAD]) -> u32 {
        let mut crc = Crc32::from_register(register);
        crc.update(payload);
        crc.register()
    }

    /// # Safety
    /// `cell` has `S` writable octets.
    #[inline(always)]
    unsafe fn put<const S: usize>(cell: *mut u8, head: u64, payload: &[u8; PAYLOAD]) {
        // SAFETY: header octets first, then the payload in the last 48 of the cell's octets; on the wire the header's
        // eight octets reach into the payload, which is written after them.
        unsafe {
            cell.cast::<[u8; 8]>().write_unaligned(head.to_le_bytes());
            if S == 64 {
                cell.add(8).cast::<[u8; 8]>().write_unaligned([0; 8]);
            }
            cell.add(S - PAYLOAD).cast::<[u8; PAYLOAD]>().write_unaligned(*payload);
        }
    }
}

// The safety conditions are the trait's; each access is within the cells and octets that it names.
impl Engine for Portable {
    type Acc = u32;
    const START: u128 = u32::MAX as u128;

    #[inline(always)]
    unsafe fn enter(state: u128) -> u32 {
        state as u32
    }

    #[inline(always)]
    unsafe fn leave(acc: u32) -> u128 {
        u128::from(acc)
    }

    #[inline(always)]
    unsafe fn remainder(acc: u32) -> u32 {
        down32(acc)
    }

    #[inline(always)]
    unsafe fn cells_out<const S: usize>(mut acc: u32, from: *const u8, to: *mut u8, cells: usize, head: u64) -> u32 {
        for i in 0..cells {
            // SAFETY: payload and cell `i` of those the caller gives.
            unsafe {
                let payload = from.add(i * PAYLOAD).cast::<[u8; PAYLOAD]>().read_unaligned();
                acc = Self::absorb(acc, &payload);
                Self::put::<S>(to.add(i * S), head, &payload);
            }
        }
        acc
    }

    #[inline(always)]
    unsafe fn tail_out<const S: usize>(acc: u32, tail: Tail, to: *mut u8, head: u64) -> u32 {
        let mut payload = [0; PAYLOAD];
        payload[PAYLOAD - 8..].copy_from_slice(&tail.trailer.to_le_bytes());
        // SAFETY: at most 47 octets, which the caller gives; one cell.
        unsafe {
            tail.from.copy_to_nonoverlapping(payload.as_mut_ptr(), tail.octets);
            Self::put::<S>(to, head, &payload);
        }
        Self::absorb(acc, &payload)
    }

    #[inline(always)]
    unsafe fn cells_in<const S: usize>(
        mut acc: u32,
        from: *const u8,
        cells: usize,
        expect: Expect,
        seen: &mut u64,
        to: *mut u8,
    ) -> (u32, usize) {
        for i in 0..cells {
            // SAFETY: cell and payload `i` of those the caller gives.
            unsafe {
                let cell = from.add(i * S);
                let difference = expect.difference(cell);
                if difference & expect.fixed != 0 {
                    return (acc, i);
                }
                *seen |= difference;
                acc = Self::cell_in::<S>(acc, cell, to.add(i * PAYLOAD), PAYLOAD);
            }
        }
        (acc, cells)
    }

    #[inline(always)]
    unsafe fn cell_in<const S: usize>(acc: u32, from: *const u8, to: *mut u8, fit: usize) -> u32 {
        // SAFETY: the payload is the cell's last 48 octets; `fit` of them may be written.
        unsafe {
            let payload = from.add(S - PAYLOAD).cast::<[u8; PAYLOAD]>().read_unaligned();
            to.copy_from_nonoverlapping(payload.as_ptr(), fit);
            Self::absorb(acc, &payload)
        }
    }

    #[inline(always)]
    unsafe fn last_out<const S: usize>(acc: u32, tail: Tail, to: *mut u8, head: u64) -> u32 {
        // SAFETY: the caller's.
        down32(unsafe { Self::tail_out::<S>(acc, tail, to, head) })
    }

    #[inline(always)]
    unsafe fn last_in<const S: usize>(acc: u32, from: *const u8, to: *mut u8, fit: usize) -> u32 {
        // SAFETY: the caller's.
        down32(unsafe { Self::cell_in::<S>(acc, from, to, fit) })
    }
}
