//! Copies of memory that another process, or another thread, may write meanwhile.
//!
//! A plain copy of such memory would be a data race by the language's rules, whatever becomes of the octets: the
//! compiler may assume that nobody else writes what it copies. Here the C library's `memmove` copies, called from an
//! assembly block. To the compiler that is code that it cannot see, which reads and writes memory as a device does; it
//! assumes nothing of what was read but that it is octets. A copy costs what a plain one does, since a copy of a length
//! that is not known is a call of the same function.
//!
//! The result is octets of before and of after, in any mixture. Callers check what they have copied, and never the
//! original. Words that both sides use to agree (indices, bells, states) are atomics, and no copy touches these.

use std::sync::atomic::AtomicU8;

/// Copies octets that others may be writing, as many as there is room for.
#[inline(always)]
pub fn copy_out(from: &[AtomicU8], into: &mut [u8]) {
    let octets = from.len().min(into.len());
    // SAFETY: both slices have so many octets, and live through the call.
    unsafe { move_octets(from.as_ptr().cast(), into.as_mut_ptr(), octets) }
}

/// Copies octets to memory that others may be reading or writing, as many as there is room for.
#[inline(always)]
pub fn copy_in(from: &[u8], to: &[AtomicU8]) {
    let octets = from.len().min(to.len());
    // SAFETY: both slices have so many octets, and live through the call. Atomics may be written through a shared
    // reference.
    unsafe { move_octets(from.as_ptr(), to.as_ptr().cast::<u8>().cast_mut(), octets) }
}

/// Copies octets between two such memories, as many as there is room for. They may overlap.
#[inline(always)]
pub fn copy(from: &[AtomicU8], to: &[AtomicU8]) {
    let octets = from.len().min(to.len());
    // SAFETY: as above.
    unsafe { move_octets(from.as_ptr().cast(), to.as_ptr().cast::<u8>().cast_mut(), octets) }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
unsafe extern "C" {
    fn memmove(to: *mut u8, from: *const u8, octets: usize) -> *mut u8;
}

/// # Safety
/// There are so many octets at both, which this process may read there and write here.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline(always)]
unsafe fn move_octets(from: *const u8, to: *mut u8, octets: usize) {
    // SAFETY: the arguments of `memmove` by the platform's calling convention, with the registers that a call may
    // change; the caller vouches for the memory. The block has no option, so that the stack is aligned for a call and
    // the compiler keeps nothing of memory in registers over it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "call {memmove}",
            memmove = sym memmove,
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rdx") octets => _,
            clobber_abi("C"),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "bl {memmove}",
            memmove = sym memmove,
            inout("x0") to => _,
            inout("x1") from => _,
            inout("x2") octets => _,
            clobber_abi("C"),
        );
    }
}

/// The same, octet by octet, where there is no assembly.
///
/// # Safety
/// As above.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn move_octets(from: *const u8, to: *mut u8, octets: usize) {
    use std::sync::atomic::Ordering::Relaxed;
    let one = |at: usize| {
        // SAFETY: the caller's; an atomic has its octet's layout.
        let [from, to] = unsafe { [&*from.add(at).cast::<AtomicU8>(), &*to.add(at).cast::<AtomicU8>()] };
        to.store(from.load(Relaxed), Relaxed);
    };
    if (from as usize) < to as usize { (0..octets).rev().for_each(one) } else { (0..octets).for_each(one) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn shared(octets: impl IntoIterator<Item = u8>) -> Vec<AtomicU8> {
        octets.into_iter().map(AtomicU8::new).collect()
    }

    fn plain(octets: &[AtomicU8]) -> Vec<u8> {
        octets.iter().map(|octet| octet.load(Relaxed)).collect()
    }

    proptest! {
        #[test]
        fn a_copy_has_what_there_is_as_far_as_there_is_room(
            octets in proptest::collection::vec(any::<u8>(), 0..3000), room in 0usize..3000
        ) {
            let n = octets.len().min(room);
            let expected = [&octets[..n], &vec![7; room - n][..]].concat();
            let (from, mut out) = (shared(octets.iter().copied()), vec![7; room]);
            copy_out(&from, &mut out);
            prop_assert_eq!(&out, &expected);
            let to = shared(vec![7; room]);
            copy_in(&octets, &to);
            prop_assert_eq!(&plain(&to), &expected);
            let to = shared(vec![7; room]);
            copy(&from, &to);
            prop_assert_eq!(&plain(&to), &expected);
        }

        #[test]
        fn memory_may_overlap(octets in proptest::collection::vec(any::<u8>(), 1..600), a in 0usize..600, b in 0usize..600) {
            let (a, b) = (a % octets.len(), b % octets.len());
            let all = shared(octets.iter().copied());
            copy(&all[a..], &all[b..]);
            let mut expected = octets.clone();
            expected.copy_within(a..a + (octets.len() - a).min(octets.len() - b), b);
            prop_assert_eq!(plain(&all), expected);
        }
    }

    #[test]
    fn what_another_thread_writes_meanwhile_is_octets_of_before_and_of_after() {
        let memory = shared(vec![0; 4096]);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in (0..2).cycle().take_while(|_| !stop.load(Relaxed)) {
                    copy_in(&[value * 255; 4096], &memory);
                }
            });
            let mut seen = [0; 4096];
            for _ in 0..200 {
                copy_out(&memory, &mut seen);
                assert!(seen.iter().all(|octet| [0, 255].contains(octet)));
            }
            stop.store(true, Relaxed);
        });
    }
}
