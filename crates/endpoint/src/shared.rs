//! Memory that two processes map: a memfd of ordinary pages, of a size that is sealed. Its maker maps it before anybody
//! else has its descriptor; once the other side has mapped it too, it is sealed against further writable mappings
//! ([`seal`]), and so against holes: nobody can take pages out of it, or make who uses it wait for one. For whoever
//! maps it, the other side may write it at any time.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// What `statfs` says of memory files of ordinary pages.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Seals memory that both sides have mapped: from now on nobody gets a writable mapping of it, writes it as a file,
/// takes pages out of it, or seals it otherwise. May wait for whoever else holds the file.
///
/// # Errors
/// No memory file, or one that is sealed against being sealed.
pub fn seal(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}

/// Whether memory is sealed by [`seal`]. Waits for nobody.
pub fn is_sealed(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::FUTURE_WRITE | SealFlags::SEAL))
}

/// Makes all pages of a memory file. Takes its time, and may wait for whoever else holds the file.
///
/// # Errors
/// No memory.
pub fn make_pages(fd: impl AsFd) -> Result<(), Errno> {
    let octets = u64::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or_default();
    rustix::fs::fallocate(fd, rustix::fs::FallocateFlags::empty(), 0, octets)
}

/// Has the system map the pages of a piece of shared memory into this process, so that whoever uses it meets no page
/// fault. A hint: what the system refuses is mapped by the first access.
pub(crate) fn map_pages(piece: &[AtomicU8]) {
    let begin = piece.as_ptr().cast_mut().cast();
    // SAFETY: the piece is mapped memory as long as the slice lives, and MADV_POPULATE_WRITE changes no octet of it.
    let mapped = unsafe { rustix::mm::madvise(begin, piece.len(), rustix::mm::Advice::LinuxPopulateWrite) };
    if mapped == Err(Errno::INVAL) {
        // Linux before 5.14.
        for octet in piece.iter().step_by(4096) {
            std::hint::black_box(octet.load(std::sync::atomic::Ordering::Relaxed));
        }
    }
}

/// A mapping of such memory.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    octets: usize,
}

// SAFETY: the mapping belongs to this value alone until it is dropped; nothing in it is tied to a thread.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; what `&self` gives are atomics and a raw pointer.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory, all zero, and its descriptor.
    ///
    /// # Errors
    /// No memory.
    pub fn create(octets: usize) -> Result<(Self, OwnedFd), Errno> {
        let fd = rustix::fs::memfd_create("cellway-own", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, octets as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok((Self::map(&fd, octets)?, fd))
    }

    /// Maps what somebody else made, after a look at its size and seals.
    ///
    /// # Errors
    /// Not such memory, shorter than `octets`, or no room for it.
    pub fn open(fd: &OwnedFd, octets: usize) -> Result<Self, Errno> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let ordinary = rustix::fs::fstatfs(fd)?.f_type as u64 == TMPFS_MAGIC;
        if !seals.contains(SealFlags::SHRINK)
            || rustix::fs::fstat(fd)?.st_size < octets as i64
            || octets == 0
            || !ordinary
        {
            return Err(Errno::INVAL);
        }
        Self::map(fd, octets)
    }

    fn map(fd: &OwnedFd, octets: usize) -> Result<Self, Errno> {
        Self::map_as(fd, octets, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    fn map_as(fd: &OwnedFd, octets: usize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), octets, access, flags, fd.as_fd(), 0) }?;
        Ok(SharedMemory { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, octets })
    }

    /// Where it is in this process.
    pub fn address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.octets
    }

    /// Never: there is none without an octet.
    pub fn is_empty(&self) -> bool {
        self.octets == 0
    }

    /// Part of it, as memory that the other side may write at any time. Panics if it is not inside.
    #[inline]
    pub fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        let inside = at.checked_add(octets).is_some_and(|end| end <= self.octets);
        assert!(inside, "{octets} octets at {at} are not inside the memory");
        // SAFETY: inside the mapping, which lives as long as `self`; an atomic has its octet's layout and may change
        // under a shared reference.
        unsafe { std::slice::from_raw_parts(self.base.add(at).as_ptr().cast::<AtomicU8>(), octets) }
    }

    /// A word of it. Panics if it is not inside or not aligned.
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        let word = self.octets(at, 4);
        assert!(at.is_multiple_of(4), "a word begins at a multiple of 4, not at {at}");
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned, since the base is a page; those who
        // use words use them in this size only.
        unsafe { &*word.as_ptr().cast::<AtomicU32>() }
    }

    /// Copies octets into it. Panics if they do not fit inside.
    pub fn copy_in(&self, at: usize, from: &[u8]) {
        crate::shared_copy::copy_in(from, self.octets(at, from.len()));
    }

    /// Maps up to `octets` octets of pages from `at` on, a multiple of a page, into this process: with no page fault
    /// later. Gives how many; 0 beyond the end.
    pub fn map_pages(&self, at: usize, octets: usize) -> usize {
        let octets = octets.min(self.octets.saturating_sub(at));
        if octets > 0 {
            map_pages(self.octets(at, octets));
        }
        octets
    }

    /// Part of it, for the process whose own it is. Panics if it is not inside.
    pub(crate) fn piece(&self, at: usize, octets: usize) -> NonNull<[u8]> {
        let piece = self.octets(at, octets);
        NonNull::slice_from_raw_parts(NonNull::from(piece).cast(), octets)
    }
}

/// A mapping of sealed memory by which it can be read and not written; its owner may write it at any time.
#[derive(Debug)]
pub struct ReadOnly(SharedMemory);

impl ReadOnly {
    /// Maps what somebody else made and sealed, all pages at once.
    ///
    /// # Errors
    /// It is no such memory, has another size, is not sealed, or there is no room for it.
    pub fn open(fd: &OwnedFd, octets: usize) -> Result<Self, Errno> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let ordinary = rustix::fs::fstatfs(fd)?.f_type as u64 == TMPFS_MAGIC;
        let fits = rustix::fs::fstat(fd)?.st_size as u64 == octets as u64;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) || !is_sealed(fd) || !fits || octets == 0 || !ordinary {
            return Err(Errno::INVAL);
        }
        SharedMemory::map_as(fd, octets, ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE).map(ReadOnly)
    }

    /// Part of it, to be loaded from and never stored to. Panics if it is not inside.
    #[inline]
    pub fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        self.0.octets(at, octets)
    }

    /// The whole words of a part of it, to be loaded from and never stored to. Panics if it is not inside or `at` is no
    /// multiple of 8.
    #[inline]
    pub fn words(&self, at: usize, octets: usize) -> &[AtomicU64] {
        let part = self.0.octets(at, octets);
        assert!(at.is_multiple_of(8), "words begin at multiples of 8, not at {at}");
        // SAFETY: inside the part just checked, which lives as long as `self`, and aligned, since the base is a page.
        // They are only loaded from: the pages cannot be written here.
        unsafe { std::slice::from_raw_parts(part.as_ptr().cast::<AtomicU64>(), octets / 8) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size, and all references into it have ended with `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.octets) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_are_the_same_memory_and_only_sealed_memory_is_mapped() {
        let (ours, fd) = SharedMemory::create(8192).unwrap();
        let theirs = SharedMemory::open(&fd, 8192).unwrap();
        ours.copy_in(5000, b"here");
        assert_eq!(theirs.octets(5000, 4)[3].load(Ordering::Relaxed), b'e');
        assert!(SharedMemory::open(&fd, 8193).is_err());
        let loose = rustix::fs::memfd_create("loose", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 8192).unwrap();
        assert_eq!(SharedMemory::open(&loose, 8192).unwrap_err(), Errno::INVAL);
    }

    #[test]
    fn sealed_memory_keeps_its_pages_and_who_has_mapped_it_goes_on_writing() {
        let (ours, fd) = SharedMemory::create(8192).unwrap();
        make_pages(&fd).unwrap();
        let theirs = SharedMemory::open(&fd, 8192).unwrap();
        theirs.copy_in(4096, b"data");
        assert!(!is_sealed(&fd));
        seal(&fd).unwrap();
        assert!(is_sealed(&fd));
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert_eq!(rustix::fs::fallocate(&fd, hole, 0, 8192), Err(Errno::PERM));
        assert!(SharedMemory::open(&fd, 8192).is_err(), "another writable mapping");
        assert!(rustix::io::pwrite(&fd, b"file", 0).is_err());
        theirs.copy_in(0, b"more");
        assert_eq!(ours.octets(4096, 1)[0].load(Ordering::Relaxed), b'd');
        assert_eq!(ours.octets(0, 1)[0].load(Ordering::Relaxed), b'm');
    }

    #[test]
    fn memory_is_mapped_for_reading_once_nobody_else_can_map_it_to_write() {
        let (ours, fd) = SharedMemory::create(8192).unwrap();
        make_pages(&fd).unwrap();
        assert_eq!(ReadOnly::open(&fd, 8192).unwrap_err(), Errno::INVAL, "not sealed");
        seal(&fd).unwrap();
        assert_eq!(ReadOnly::open(&fd, 4096).unwrap_err(), Errno::INVAL, "another size");
        let read = ReadOnly::open(&fd, 8192).unwrap();
        ours.copy_in(4096, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(read.octets(4104, 1)[0].load(Ordering::Relaxed), 9);
        let words = read.words(4096, 9);
        assert_eq!(words.len(), 1);
        assert_eq!(words[0].load(Ordering::Relaxed), u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]));
    }

    #[test]
    #[should_panic(expected = "not inside")]
    fn nothing_is_read_past_the_end() {
        let (ours, _) = SharedMemory::create(4096).unwrap();
        ours.octets(4000, 97);
    }
}
