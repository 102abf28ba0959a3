//! SDUs that signal handlers send while the thread that they interrupted has its turn on the same socket. A handler
//! cannot wait for that turn to end, so the SDU waits for it, in memory that a handler may ask for: the system's own.

use crate::memory::Parts;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Before an SDU's octets.
struct Head {
    next: *mut Head,
    octets: usize,
}

/// What is to be sent, the last first.
#[derive(Default)]
pub(crate) struct Deferred(AtomicPtr<Head>);

impl Deferred {
    /// Keeps an SDU. May be called in a signal handler, whatever it has interrupted.
    ///
    /// # Errors
    /// No memory.
    ///
    /// # Safety
    /// The parts are readable, and nobody writes them during the call.
    pub(crate) unsafe fn push(&self, parts: Parts<'_>) -> Result<usize, Errno> {
        let octets = parts.octets();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let room = size_of::<Head>() + octets;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let memory = unsafe { rustix::mm::mmap_anonymous(null_mut(), room, access, MapFlags::PRIVATE) }?.cast::<Head>();
        // SAFETY: the mapping is page-aligned and has room for the head and the octets after it; nobody else knows it
        // yet.
        unsafe {
            let after = memory.add(1).cast::<u8>();
            parts.gather(|at, part| after.add(at).copy_from_nonoverlapping(part.as_ptr(), part.len()));
            memory.write(Head { next: self.0.load(Ordering::Relaxed), octets });
            while let Err(now) =
                self.0.compare_exchange_weak((*memory).next, memory, Ordering::Release, Ordering::Relaxed)
            {
                (*memory).next = now;
            }
        }
        Ok(octets)
    }

    /// Takes all SDUs, the first first.
    #[inline]
    pub(crate) fn take(&self, send: impl FnMut(&[u8])) {
        if !self.0.load(Ordering::Relaxed).is_null() {
            self.take_all(send);
        }
    }

    #[cold]
    fn take_all(&self, mut send: impl FnMut(&[u8])) {
        let mut last = self.0.swap(null_mut(), Ordering::Acquire);
        let mut first = null_mut();
        while !last.is_null() {
            // SAFETY: what was swapped out is this thread's alone, each a mapping that `push` made and filled.
            unsafe { (first, last) = (last, std::mem::replace(&mut (*last).next, first)) };
        }
        while !first.is_null() {
            // SAFETY: as above; unmapped once, after its last use.
            unsafe {
                let Head { next, octets } = first.read();
                send(std::slice::from_raw_parts(first.add(1).cast(), octets));
                let _ = rustix::mm::munmap(first.cast(), size_of::<Head>() + octets);
                first = next;
            }
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.take(|_| ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::part;

    #[test]
    fn sdus_come_out_in_the_order_in_which_they_went_in() {
        let deferred = Deferred::default();
        let sdus: Vec<Vec<u8>> = (1..20u8).map(|n| vec![n; usize::from(n) * 3000]).collect();
        for sdu in &sdus {
            let part = part(sdu.as_ptr().cast(), sdu.len());
            // SAFETY: the part is the SDU, which outlives it.
            assert_eq!(unsafe { deferred.push(Parts::new(&part).unwrap()) }, Ok(sdu.len()));
        }
        let mut taken = Vec::new();
        deferred.take(|sdu| taken.push(sdu.to_vec()));
        assert_eq!(taken, sdus);
        deferred.take(|_| panic!("taken twice"));
    }
}
