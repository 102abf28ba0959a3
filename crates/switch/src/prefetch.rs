//! Hints to the processor and the system: fetch a cache line ahead of its use, back a table by large pages, or by
//! memory before it is used, and take that memory back.
//!
//! This is the only file of the crate with unsafe code. No hint changes what the program computes.
#![allow(unsafe_code)]

/// Asks for the cache line of `slice[index]`, for use soon: into all caches. An index beyond the slice is harmless.
#[inline(always)]
pub(crate) fn line<T>(slice: &[T], index: usize) {
    // Not dereferenced, so that it may point anywhere.
    let pointer = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and faults on no address; every x86-64 processor has SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(pointer.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM is a hint; it faults on no address and changes no register or memory.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = pointer;
}

/// As [`line()`], for use later: into the second-level cache, which waits for more lines at once than the first does.
#[inline(always)]
pub(crate) fn early<T>(slice: &[T], index: usize) {
    early_at(slice.as_ptr().wrapping_add(index).cast());
}

/// The pointer is not dereferenced, so that it may point anywhere.
#[inline(always)]
fn early_at(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and faults on no address; every x86-64 processor has SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(pointer.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM is a hint; it faults on no address and changes no register or memory.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = pointer;
}

const LARGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Has the system back what `table` has room for by memory, from its beginning to the end of its first large page.
pub(crate) fn first_pages<T>(table: &mut Vec<T>) {
    let (begin, octets) = (table.as_mut_ptr().cast::<u8>(), table.capacity() * size_of::<T>());
    let skip = begin.align_offset(PAGE);
    let end = octets.min(begin.align_offset(LARGE) + LARGE);
    let whole = end.saturating_sub(skip) / PAGE * PAGE;
    if whole == 0 {
        return;
    }
    let advice = rustix::mm::Advice::LinuxPopulateWrite;
    // SAFETY: begin + skip .. begin + skip + whole lies within the vector's allocation, and MADV_POPULATE_WRITE changes
    // how memory is backed, not what it holds. An older system refuses it, which is no error.
    let _ = unsafe { rustix::mm::madvise(begin.wrapping_add(skip).cast(), whole, advice) };
}

/// Asks the system to back what `table` has room for by large pages: random look-ups then miss the TLB less often.
/// Refusal is no error.
pub(crate) fn large_pages<T>(table: &mut Vec<T>) {
    let (begin, octets) = (table.as_mut_ptr().cast::<u8>(), table.capacity() * size_of::<T>());
    let skip = begin.align_offset(LARGE);
    let whole = octets.saturating_sub(skip) / LARGE * LARGE;
    if whole == 0 {
        return;
    }
    // SAFETY: begin + skip .. begin + skip + whole lies within the vector's allocation, and MADV_HUGEPAGE changes how
    // memory is backed, not what it holds.
    let _ = unsafe { rustix::mm::madvise(begin.wrapping_add(skip).cast(), whole, rustix::mm::Advice::LinuxHugepage) };
}

/// Empties `table`, and gives the memory behind it back to the system if it is much. The room stays.
pub(crate) fn release<T>(table: &mut Vec<T>) {
    table.clear();
    let (begin, octets) = (table.as_mut_ptr().cast::<u8>(), table.capacity() * size_of::<T>());
    let skip = begin.align_offset(PAGE);
    let whole = octets.saturating_sub(skip) / PAGE * PAGE;
    if whole < LARGE {
        return;
    }
    // SAFETY: begin + skip .. begin + skip + whole lies within the vector's allocation. The vector is empty, so that
    // nothing of it holds a value that MADV_DONTNEED could change.
    let _ = unsafe { rustix::mm::madvise(begin.wrapping_add(skip).cast(), whole, rustix::mm::Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    /// Pages of a table that are backed by memory (proc_pid_pagemap(5): bit 63).
    fn present(table: &Vec<u8>) -> usize {
        let (first, pages) = (table.as_ptr().addr() / PAGE, table.capacity() / PAGE);
        let mut entries = vec![0; pages * 8];
        std::fs::File::open("/proc/self/pagemap").unwrap().read_exact_at(&mut entries, first as u64 * 8).unwrap();
        entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    fn memory_of_a_table_that_is_released_goes_back_to_the_system_and_its_room_stays() {
        const OCTETS: usize = 8 << 20;
        let mut table = vec![7_u8; OCTETS];
        assert!(present(&table) >= OCTETS / PAGE - 1);
        release(&mut table);
        // The pages at its ends may have others' octets.
        assert!(present(&table) <= 2, "{}", present(&table));
        assert_eq!((table.len(), table.capacity()), (0, OCTETS));
        table.resize(OCTETS, 9);
        assert!(table.iter().all(|octet| *octet == 9));
    }
}
