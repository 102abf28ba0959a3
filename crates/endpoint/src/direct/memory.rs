//! The two mappings of a direct circuit: [`Ours`], which we write, and [`Theirs`], which we can only read.
//!
//! Each side makes its own memory and seals it against every *further* writable mapping before anybody else sees it:
//! the other side cannot write it, whatever it tries. Sealed against shrinking, and with all its pages there, it cannot
//! fault under a reader either. The service checks both before it passes the memory on, and [`Theirs::open`] checks
//! again what can be seen without waiting for who else holds the file: not the pages ([`is_whole`]), of which sealed
//! memory loses none.

use super::layout::{DirectGeometry, DirectGeometryError, Head, LINE_OCTETS};
use super::ring::{ReadLines, WriteLines};
use crate::times::timespec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Seals that memory must have before it is shared.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);
/// What `statfs` says of memory files of ordinary pages: those of huge pages can fault under a reader.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Why there is no shared memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The sizes cannot be.
    #[error(transparent)]
    Geometry(#[from] DirectGeometryError),
    /// The system refused.
    #[error("memory of {octets} octets to share: {source}")]
    System {
        /// What was asked for.
        octets: usize,
        /// What it said.
        source: Errno,
    },
    /// The file descriptor is not memory as agreed.
    #[error("the memory that came is not as agreed: {0}")]
    NotAsAgreed(&'static str),
}

/// Whether memory is sealed and has all its pages. Takes its time, and may wait for whoever else holds the file: the
/// place in it (`lseek`) is one for all who have the descriptor.
pub fn is_whole(fd: impl AsFd) -> bool {
    // Sealed before it is looked at: what is there then stays there.
    let is_sealed = rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SEALS));
    // The file may have pages beyond its end, so how many it has says nothing of those before it.
    is_sealed
        && rustix::fs::fstat(&fd).is_ok_and(|stat| Ok(stat.st_size as u64) == rustix::fs::seek(&fd, SeekFrom::Hole(0)))
}

/// Holds a descriptor against what was agreed: memory, of this size, sealed. Waits for nobody; whether all pages are
/// there [`is_whole`] says.
///
/// # Errors
/// It is something else.
pub fn verify(fd: impl AsFd, geometry: &DirectGeometry) -> Result<(), MemoryError> {
    let octets = geometry.checked()?.octets();
    let system = |source| MemoryError::System { octets, source };
    let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| MemoryError::NotAsAgreed("no memory file"))?;
    if !seals.contains(SEALS) {
        return Err(MemoryError::NotAsAgreed("not sealed"));
    }
    let stat = rustix::fs::fstat(&fd).map_err(system)?;
    if stat.st_size as u64 != octets as u64 {
        return Err(MemoryError::NotAsAgreed("another size"));
    }
    if rustix::fs::fstatfs(&fd).map_err(system)?.f_type as u64 != TMPFS_MAGIC {
        return Err(MemoryError::NotAsAgreed("not of ordinary pages"));
    }
    Ok(())
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    octets: usize,
}

// SAFETY: a mapping belongs to this value until it is dropped; access goes by atomics, or by slices of blocks that the
// pool gives to one loan at a time. Nothing in it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, octets: usize, access: ProtFlags) -> Result<Arc<Self>, Errno> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), octets, access, flags, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Arc::new(Mapping { base, octets }))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size, and all pointers into it ended with `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.octets) };
    }
}

/// A way into a mapping; keeps it alive. The base is beside the reference, to be one step away.
#[derive(Debug, Clone)]
struct View {
    base: NonNull<u8>,
    lines: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: as for `Mapping`, of which this is a part.
unsafe impl Send for View {}
// SAFETY: as for `Mapping`.
unsafe impl Sync for View {}

impl View {
    fn new(mapping: Arc<Mapping>) -> Self {
        View { base: mapping.base, lines: mapping.octets / LINE_OCTETS, mapping }
    }

    #[inline]
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        assert!(line < self.lines && word < LINE_OCTETS / 8, "word {word} of line {line} is not inside");
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned, since the base is a page; all access
        // to words of the head and the rings, by either process, is atomic, and those of blocks are read atomically by
        // who does not own them.
        unsafe { self.base.add(line * LINE_OCTETS + word * 8).cast::<AtomicU64>().as_ref() }
    }

    /// The first four octets of a word, for words that are only used in this way.
    fn half(&self, line: usize, word: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = self.word(line, word);
        // SAFETY: inside the word just checked, and aligned as it is; this word is accessed in this size only.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    #[inline]
    fn check(&self, at: usize, octets: usize) {
        let inside = at.checked_add(octets).is_some_and(|end| end <= self.mapping.octets);
        assert!(inside, "{octets} octets at {at} are not inside");
    }
}

/// Memory that this side writes and the other reads.
#[derive(Debug, Clone)]
pub struct Ours(View);

/// Memory that the other side writes and this one reads.
#[derive(Debug, Clone)]
pub struct Theirs(View);

impl Ours {
    /// New memory, and the sealed descriptor to hand to the other side.
    ///
    /// # Errors
    /// Sizes that cannot be, or no memory.
    pub fn create(geometry: &DirectGeometry) -> Result<(Self, OwnedFd), MemoryError> {
        let octets = geometry.checked()?.octets();
        let system = |source| MemoryError::System { octets, source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("cellway-direct", flags).map_err(system)?;
        rustix::fs::ftruncate(&fd, octets as u64).map_err(system)?;
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, octets as u64).map_err(system)?;
        let mapping = Mapping::new(fd.as_fd(), octets, ProtFlags::READ | ProtFlags::WRITE).map_err(system)?;
        // From here on nobody, not even this process, gets another writable mapping.
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(system)?;
        let ours = Ours(View::new(mapping));
        for (i, word) in Head::new(geometry).to_words().into_iter().enumerate() {
            ours.store(0, i, word, Ordering::Relaxed);
        }
        Ok((ours, fd))
    }

    /// All of it, as long as nothing else of this process uses it: `None` if something does.
    pub fn as_mut_octets(&mut self) -> Option<&mut [u8]> {
        let mapping = Arc::get_mut(&mut self.0.mapping)?;
        // SAFETY: nobody else in this process holds this mapping, `self` is borrowed exclusively, and the other side
        // cannot write it.
        Some(unsafe { std::slice::from_raw_parts_mut(mapping.base.as_ptr(), mapping.octets) })
    }

    /// Counts a wake-up and wakes who waits for the count to change.
    pub(crate) fn wake(&self, line: usize, word: usize) {
        let count = self.0.half(line, word);
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        let _ = futex::wake(count, futex::Flags::empty(), 1);
    }

    /// The octets of a message's blocks, to be filled. Panics if they are not inside: the offset is this side's own.
    #[inline]
    pub(crate) fn octets(&self, at: usize, octets: usize) -> NonNull<[u8]> {
        self.0.check(at, octets);
        // SAFETY: inside the mapping, as just checked.
        NonNull::slice_from_raw_parts(unsafe { self.0.base.add(at) }, octets)
    }
}

impl ReadLines for Ours {
    #[inline]
    fn load(&self, line: usize, word: usize, order: Ordering) -> u64 {
        self.0.word(line, word).load(order)
    }
}

impl WriteLines for Ours {
    #[inline]
    fn store(&self, line: usize, word: usize, value: u64, order: Ordering) {
        self.0.word(line, word).store(value, order);
    }

    #[inline]
    fn claim(&self, line: usize) {
        let at: *const AtomicU64 = self.0.word(line, 0);
        // SAFETY: a prefetch changes nothing and cannot fault.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
        };
        // SAFETY: as above.
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
        };
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = at;
    }
}

impl Theirs {
    /// Maps the other side's memory, if it is as agreed. That its pages are there who passed it on has seen.
    ///
    /// # Errors
    /// It is not, or there is no memory.
    pub fn open(fd: impl AsFd, geometry: &DirectGeometry) -> Result<Self, MemoryError> {
        verify(&fd, geometry)?;
        let octets = geometry.octets();
        let mapping = Mapping::new(fd.as_fd(), octets, ProtFlags::READ);
        Ok(Theirs(View::new(mapping.map_err(|source| MemoryError::System { octets, source })?)))
    }

    /// Octets that the other side may write at any time. Panics if they are not inside.
    #[inline]
    pub(crate) fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        self.0.check(at, octets);
        // SAFETY: inside the mapping, which lives as long as `self`; an atomic has its octet's layout and may change
        // under a shared reference. They are only loaded from: the pages cannot be written.
        unsafe { std::slice::from_raw_parts(self.0.base.add(at).as_ptr().cast::<AtomicU8>(), octets) }
    }

    /// How often the other side has woken this one.
    pub(crate) fn wakes(&self, line: usize, word: usize) -> u32 {
        self.0.half(line, word).load(Ordering::Acquire)
    }

    /// Sleeps until that count is no longer `seen`, or for `most`, or for no reason. False if the system cannot.
    pub(crate) fn await_wake(&self, line: usize, word: usize, seen: u32, most: Duration) -> bool {
        let most = timespec(most);
        let slept = futex::wait(self.0.half(line, word), futex::Flags::empty(), seen, Some(&most));
        matches!(slept, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT))
    }

    /// Words of it, as [`super::Message::shared_words`] gives them. Panics if they are not inside, or `at` is no
    /// multiple of 8.
    pub fn shared_words(&self, at: usize, octets: usize) -> &[AtomicU64] {
        self.words(at, octets)
    }

    /// The same as words: whole ones. Panics if they are not inside, or `at` is not a multiple of 8.
    #[inline]
    pub(crate) fn words(&self, at: usize, octets: usize) -> &[AtomicU64] {
        self.0.check(at, octets);
        assert!(at.is_multiple_of(8), "words begin at multiples of 8, not at {at}");
        // SAFETY: as in `octets`, and aligned, since the base is a page.
        unsafe { std::slice::from_raw_parts(self.0.base.add(at).as_ptr().cast::<AtomicU64>(), octets / 8) }
    }
}

impl ReadLines for Theirs {
    #[inline]
    fn load(&self, line: usize, word: usize, order: Ordering) -> u64 {
        self.0.word(line, word).load(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: DirectGeometry = DirectGeometry { ring: 8, returns: 8, blocks: 4, block_octets: 64 };

    #[test]
    fn the_other_side_can_read_and_by_no_way_write() {
        let (ours, fd) = Ours::create(&SMALL).unwrap();
        let theirs = Theirs::open(&fd, &SMALL).unwrap();
        ours.store(5, 3, 42, Ordering::Release);
        assert_eq!(theirs.load(5, 3, Ordering::Acquire), 42);
        assert_eq!(theirs.load(0, 0, Ordering::Relaxed), super::super::layout::MAGIC);
        assert_eq!(rustix::io::pwrite(&fd, &[1], 0), Err(Errno::PERM));
        let again = rustix::fs::open(
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)),
            rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::empty(),
        );
        for fd in [Some(fd), again.ok()].into_iter().flatten() {
            assert!(Mapping::new(fd.as_fd(), SMALL.octets(), ProtFlags::READ | ProtFlags::WRITE).is_err());
            assert!(rustix::fs::ftruncate(&fd, 0).is_err());
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            assert!(rustix::fs::fallocate(&fd, hole, 0, 4096).is_err());
        }
    }

    #[test]
    fn memory_that_could_fault_or_change_its_size_is_refused() {
        let octets = SMALL.octets();
        let make = |written: usize, beyond: bool, seals: SealFlags| {
            let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&fd, octets as u64).unwrap();
            if beyond {
                rustix::fs::fallocate(&fd, FallocateFlags::KEEP_SIZE, octets as u64, octets as u64).unwrap();
            }
            assert_eq!(rustix::io::pwrite(&fd, &vec![0; written], 0), Ok(written));
            rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
            fd
        };
        let memory = make(octets, false, SEALS);
        assert!(verify(&memory, &SMALL).is_ok());
        assert_eq!(rustix::fs::seek(&memory, SeekFrom::Current(0)), Ok(0), "its place in the file is others' too");
        assert!(is_whole(&memory));
        for beyond in [false, true] {
            for written in [0, octets - 4096] {
                assert!(!is_whole(make(written, beyond, SEALS)), "{written} {beyond}");
            }
        }
        for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::FUTURE_WRITE, SealFlags::SEAL] {
            let memory = make(octets, false, SEALS.difference(missing));
            assert!(verify(&memory, &SMALL).is_err() && !is_whole(&memory));
        }
        assert!(verify(make(octets, false, SEALS), &DirectGeometry { blocks: 400, ..SMALL }).is_err());
        assert!(verify(tempfile_like(), &SMALL).is_err() && !is_whole(tempfile_like()));
    }

    fn tempfile_like() -> OwnedFd {
        rustix::fs::open("/proc/self/exe", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap()
    }
}
