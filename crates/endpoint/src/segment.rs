//! The shared memory itself: a sealed memfd that two processes map, or anonymous memory for both ends in one.
//!
//! The other side may write anything at any time. So no reference is ever made into the memory on the host's side:
//! words go by atomics, buffers by copies ([`shared_copy`]), and every offset is checked against the geometry that
//! this side keeps for itself.

use crate::layout::{Buffers, Geometry, GeometryError, HEAD_OCTETS, HOST_PROCESSOR, HOST_SLEEPS, MAGIC, VERSION};
use crate::shared_copy;
use crate::times::timespec;
use crate::waiting::is_elsewhere;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Why there is no segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The sizes cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The system refused memory.
    #[error("shared memory of {octets} octets: {source}")]
    System {
        /// What was asked for.
        octets: usize,
        /// What it said.
        source: rustix::io::Errno,
    },
    /// The descriptor that came is not a segment of this geometry.
    #[error("the shared memory that came has {got} octets; {want} were agreed")]
    Size {
        /// Octets it has.
        got: u64,
        /// Octets it should have.
        want: usize,
    },
}

/// A mapped segment.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    geometry: Geometry,
    /// Of the mapping, ...
    octets: usize,
    /// ... and where its buffers are.
    buffers: Buffers,
}

// SAFETY: the mapping belongs to this value alone until it is dropped, and all access goes by atomics or by raw copies
// that tolerate other writers; nothing in it is tied to a thread.
unsafe impl Send for Segment {}
// SAFETY: as above; methods that take `&self` make no reference to the memory other than to atomics.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new segment of a size that is sealed, and the descriptor to hand to the other side. Once that has mapped it,
    /// [`crate::shared::seal`] ends what else it could do with the descriptor.
    ///
    /// # Errors
    /// Sizes that cannot be, or no memory.
    pub fn create(geometry: Geometry) -> Result<(Self, OwnedFd), SegmentError> {
        let geometry = geometry.checked()?;
        let octets = geometry.octets();
        let system = |source| SegmentError::System { octets, source };
        let fd =
            rustix::fs::memfd_create("cellway", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(system)?;
        rustix::fs::ftruncate(&fd, octets as u64).map_err(system)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(system)?;
        let segment = Self::map(Some(fd.as_fd()), geometry)?;
        segment.write_head();
        Ok((segment, fd))
    }

    /// A segment for both ends in one process.
    ///
    /// # Errors
    /// Sizes that cannot be, or no memory.
    pub fn anonymous(geometry: Geometry) -> Result<Self, SegmentError> {
        let segment = Self::map(None, geometry.checked()?)?;
        segment.write_head();
        Ok(segment)
    }

    /// Maps a segment that the service made.
    ///
    /// # Errors
    /// Another size than agreed, or no memory.
    pub fn open(fd: &OwnedFd, geometry: Geometry) -> Result<Self, SegmentError> {
        let geometry = geometry.checked()?;
        let want = geometry.octets();
        let got = rustix::fs::fstat(fd).map_err(|source| SegmentError::System { octets: want, source })?.st_size as u64;
        if got != want as u64 {
            return Err(SegmentError::Size { got, want });
        }
        Self::map(Some(fd.as_fd()), geometry)
    }

    fn map(fd: Option<rustix::fd::BorrowedFd<'_>>, geometry: Geometry) -> Result<Self, SegmentError> {
        let octets = geometry.octets();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let base = unsafe {
            match fd {
                Some(fd) => rustix::mm::mmap(std::ptr::null_mut(), octets, access, MapFlags::SHARED, fd, 0),
                None => rustix::mm::mmap_anonymous(std::ptr::null_mut(), octets, access, MapFlags::SHARED),
            }
        };
        let base = base.map_err(|source| SegmentError::System { octets, source })?.cast();
        let base = NonNull::new(base).ok_or(SegmentError::System { octets, source: rustix::io::Errno::NOMEM })?;
        Ok(Segment { base, geometry, octets, buffers: Buffers::of(&geometry) })
    }

    fn write_head(&self) {
        let g = self.geometry;
        let words = [VERSION, HEAD_OCTETS as u32, g.send_ring, g.receive_ring, g.free_ring, g.buffers, g.buffer_octets];
        self.copy_in(0, &MAGIC.to_le_bytes());
        for (i, word) in words.iter().enumerate() {
            self.copy_in(8 + 4 * i, &word.to_ne_bytes());
        }
    }

    /// The sizes of its parts.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where buffer `index` begins, if there is one of that number.
    #[inline]
    pub fn buffer_at(&self, index: u32) -> Option<usize> {
        self.buffers.at(index)
    }

    #[inline]
    fn check(&self, at: usize, octets: usize, align: usize) {
        let inside = at.checked_add(octets).is_some_and(|end| end <= self.octets);
        assert!(inside && at.is_multiple_of(align), "{octets} octets at {at} are not inside the segment");
    }

    /// The 32-bit word at `at`. Panics if it is not inside: offsets come from this side's geometry, never from a peer.
    #[inline]
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4, 4);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned (the base is a page); all access to
        // this word, by either process, is atomic.
        unsafe { self.base.add(at).cast::<AtomicU32>().as_ref() }
    }

    /// Wakes a thread of either process that sleeps in [`Segment::await_change`] of this word.
    pub fn wake(&self, at: usize) {
        // Nobody there is no error.
        let _ = futex::wake(self.word32(at), futex::Flags::empty(), 1);
    }

    /// Sleeps until somebody wakes this word, if it still is `seen`; for `most`, or for no reason. False if the system
    /// cannot.
    pub fn await_change(&self, at: usize, seen: u32, most: Duration) -> bool {
        let most = timespec(most);
        let slept = futex::wait(self.word32(at), futex::Flags::empty(), seen, Some(&most));
        matches!(slept, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT))
    }

    /// Whether the host is awake on another processor than this thread's.
    pub fn host_is_elsewhere(&self) -> bool {
        self.word32(HOST_SLEEPS).load(Ordering::Relaxed) == 0
            && is_elsewhere(self.word32(HOST_PROCESSOR).load(Ordering::Relaxed))
    }

    /// The 64-bit words at `at`: part of a ring's slot. Panics as [`Segment::word32`] does.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, at: usize) -> &[AtomicU64; N] {
        self.check(at, 8 * N, 8);
        // SAFETY: as in `word32`, for each of them.
        unsafe { self.base.add(at).cast::<[AtomicU64; N]>().as_ref() }
    }

    /// Copies octets out of the segment. Panics if they are not inside.
    pub fn copy_out(&self, at: usize, into: &mut [u8]) {
        // The callers check what they have then as they check all that a peer sends, and read nothing twice.
        shared_copy::copy_out(self.octets(at, into.len()), into);
    }

    /// Copies octets into the segment. Panics if they do not fit inside.
    pub fn copy_in(&self, at: usize, from: &[u8]) {
        // The client's slices of a buffer end before the buffer goes to the host.
        shared_copy::copy_in(from, self.octets(at, from.len()));
    }

    /// Octets of the segment, as memory that the other side may write at any time. Panics if they are not inside.
    pub fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        self.check(at, octets, 1);
        // SAFETY: inside the mapping, which lives as long as `self`; an atomic has its octet's layout and may change
        // under a shared reference.
        unsafe { std::slice::from_raw_parts(self.base.add(at).as_ptr().cast::<AtomicU8>(), octets) }
    }

    /// Maps up to `octets` octets of pages from `at` on, a multiple of a page, into this process, so that whoever uses
    /// them meets no page fault. Gives how many; 0 beyond the end.
    pub fn map_pages(&self, at: usize, octets: usize) -> usize {
        let octets = octets.min(self.geometry.octets().saturating_sub(at));
        if octets > 0 {
            crate::shared::map_pages(self.octets(at, octets));
        }
        octets
    }

    /// Where a buffer begins in memory, for the client's slices of it. Panics if there is no such buffer.
    #[inline]
    pub(crate) fn buffer(&self, index: u32) -> NonNull<[u8]> {
        let Some(buffer) = self.find_buffer(index) else { panic!("there is no buffer {index}") };
        buffer
    }

    /// The same, if there is one of that number.
    #[inline]
    pub(crate) fn find_buffer(&self, index: u32) -> Option<NonNull<[u8]>> {
        let octets = self.geometry.buffer_octets as usize;
        // SAFETY: inside the mapping, which has as many octets as the geometry's parts together.
        self.buffer_at(index).map(|at| NonNull::slice_from_raw_parts(unsafe { self.base.add(at) }, octets))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size, and all references into it have ended with `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.octets) };
    }
}

/// Brings a line into the nearest cache, if there is a way to ask for it.
#[inline(always)]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4, buffers: 4, buffer_octets: 128 };

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (ours, fd) = Segment::create(SMALL).unwrap();
        let theirs = Segment::open(&fd, SMALL).unwrap();
        let at = SMALL.buffer_at(3).unwrap();
        ours.copy_in(at, b"hello");
        let mut got = [0; 5];
        theirs.copy_out(at, &mut got);
        assert_eq!(&got, b"hello");
        theirs.copy_out(0, &mut got);
        assert_eq!(&got, b"CELLW");
    }

    #[test]
    fn the_size_is_sealed() {
        let (_segment, fd) = Segment::create(SMALL).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 1 << 20).is_err());
        let other = Geometry { buffers: 400, ..SMALL };
        assert!(matches!(Segment::open(&fd, other), Err(SegmentError::Size { .. })));
    }

    #[test]
    #[should_panic(expected = "not inside")]
    fn nothing_is_copied_past_the_end() {
        let segment = Segment::anonymous(SMALL).unwrap();
        segment.copy_in(SMALL.octets() - 1, &[0; 2]);
    }
}
