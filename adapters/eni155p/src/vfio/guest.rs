//! The guest's memory: ranges of bus addresses, each a part of a file that the client sent.
//!
//! It is reached by `pread` and `pwrite`, not by mapping: a client that cuts its file short makes an access fail, where a
//! mapping would make it a signal. One system call moves up to a portion of DMA.
//!
//! Files are those of a memory: of a memfd or of tmpfs. An access to any other may take as long as who has it likes, and
//! what is on hugetlbfs cannot be written by a call. Ranges of one file share a descriptor.

use super::protocol::{MAP_READ, MAP_WRITE};
use bus::memory::{HostMemory, Unmapped};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Ranges at most.
pub const MAX_RANGES: usize = 4096;
/// Ranges are of whole pages, as those of a machine's memory: what DMA moves at once lies in two at most.
const PAGE: u64 = 4096;
/// Files at most: a machine has a few.
pub const MAX_FILES: usize = 64;

/// A file system in memory with ordinary pages.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A file as it was opened: device and inode, and whether for reading and for writing.
type FileKey = (u64, u64, u32);

#[derive(Debug)]
struct Range {
    size: u64,
    flags: u32,
    offset: u64,
    /// None: DMA cannot reach it. Clients announce such ranges too (ROMs, other devices' windows).
    file: Option<Arc<OwnedFd>>,
}

/// All ranges, by where they begin.
#[derive(Debug, Default)]
pub struct GuestMemory {
    ranges: BTreeMap<u64, Range>,
    /// Files of ranges, and of ranges that have gone since there were [`MAX_FILES`].
    files: BTreeMap<FileKey, Weak<OwnedFd>>,
    refused: bool,
}

impl GuestMemory {
    /// Adds a range.
    ///
    /// # Errors
    /// The number of the system's error: it is empty or not of whole pages, wraps around, overlaps another, is one too many,
    /// or its file is no memory or one too many.
    pub fn map(
        &mut self,
        flags: u32,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<OwnedFd>,
    ) -> Result<(), Errno> {
        let end = address.checked_add(size).ok_or(Errno::INVAL)?;
        offset.checked_add(size).filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::INVAL)?;
        if size == 0 || !size.is_multiple_of(PAGE) || !address.is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        let below = self.ranges.range(..end).next_back();
        if below.is_some_and(|(at, range)| at + range.size > address) {
            return Err(Errno::EXIST);
        }
        if self.ranges.len() >= MAX_RANGES {
            return Err(Errno::NOSPC);
        }
        let file = file.map(|file| self.hold(file)).transpose()?;
        self.ranges.insert(address, Range { size, flags, offset, file });
        Ok(())
    }

    /// The descriptor by which a file is held.
    fn hold(&mut self, file: OwnedFd) -> Result<Arc<OwnedFd>, Errno> {
        // The system asks no file system for the seals, which only files of a memory have.
        let is_memory = || fstatfs(&file).is_ok_and(|system| system.f_type as u64 == TMPFS_MAGIC);
        if fcntl_get_seals(&file).is_err() || !is_memory() {
            self.refused = true;
            return Err(Errno::NOTSUP);
        }
        let (stat, mode) = (fstat(&file)?, fcntl_getfl(&file)? & OFlags::ACCMODE);
        let key = (stat.st_dev, stat.st_ino, mode.bits());
        if let Some(held) = self.files.get(&key).and_then(Weak::upgrade) {
            return Ok(held);
        }
        if self.files.len() >= MAX_FILES {
            self.files.retain(|_, held| held.strong_count() > 0);
        }
        if self.files.len() >= MAX_FILES {
            return Err(Errno::NOSPC);
        }
        let file = Arc::new(file);
        self.files.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    /// Removes all ranges inside `address..address + size`.
    ///
    /// # Errors
    /// One is inside only in part, or none is there.
    pub fn unmap(&mut self, address: u64, size: u64) -> Result<(), Errno> {
        let end = address.checked_add(size).ok_or(Errno::INVAL)?;
        let reaches_in = self.ranges.range(..address).next_back().is_some_and(|(at, range)| at + range.size > address);
        let inside: Vec<u64> = self.ranges.range(address..end).map(|(at, _)| *at).collect();
        let reaches_out = inside.last().is_some_and(|at| at + self.ranges[at].size > end);
        if reaches_in || reaches_out {
            return Err(Errno::INVAL);
        }
        if inside.is_empty() {
            return Err(Errno::NOENT);
        }
        for at in inside {
            self.ranges.remove(&at);
        }
        Ok(())
    }

    /// Forgets all ranges.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a range was refused because its file is no memory.
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// How many ranges DMA can reach.
    pub fn reachable(&self) -> usize {
        self.ranges.values().filter(|range| range.file.is_some()).count()
    }

    /// Calls `access` with file, offset and length of each part of `address..address + octets`.
    fn parts(
        &self,
        flag: u32,
        mut address: u64,
        octets: usize,
        mut access: impl FnMut(&OwnedFd, u64, std::ops::Range<usize>) -> Result<(), Errno>,
    ) -> Result<(), Unmapped> {
        let mut done = 0;
        while done < octets {
            let unmapped = Unmapped { address };
            let (at, range) = self.ranges.range(..=address).next_back().ok_or(unmapped)?;
            let inside = address - at;
            let file =
                range.file.as_ref().filter(|_| inside < range.size && range.flags & flag != 0).ok_or(unmapped)?;
            let n = usize::try_from(range.size - inside).unwrap_or(usize::MAX).min(octets - done);
            access(file, range.offset + inside, done..done + n).map_err(|_| unmapped)?;
            done += n;
            address = address.wrapping_add(n as u64);
        }
        Ok(())
    }
}

impl HostMemory for GuestMemory {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        let octets = data.len();
        self.parts(MAP_READ, address, octets, |file, mut offset, part| {
            let mut rest = &mut data[part];
            while !rest.is_empty() {
                match rustix::io::pread(file, &mut *rest, offset) {
                    Ok(0) => return Err(Errno::FAULT),
                    Ok(n) => {
                        rest = &mut rest[n..];
                        offset += n as u64;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.parts(MAP_WRITE, address, data.len(), |file, mut offset, part| {
            let mut rest = &data[part];
            while !rest.is_empty() {
                match rustix::io::pwrite(file, rest, offset) {
                    Ok(0) => return Err(Errno::FAULT),
                    Ok(n) => {
                        rest = &rest[n..];
                        offset += n as u64;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn file(octets: u64) -> OwnedFd {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, octets).unwrap();
        fd
    }

    #[test]
    fn an_access_crosses_from_range_to_range_and_stops_at_a_hole() {
        let mut memory = GuestMemory::default();
        let all = MAP_READ | MAP_WRITE;
        memory.map(all, 4096, 0x1000, 0x1000, Some(file(8192))).unwrap();
        memory.map(all, 0, 0x2000, 0x1000, Some(file(4096))).unwrap();
        memory.map(MAP_READ, 0, 0x4000, 0x1000, Some(file(4096))).unwrap();
        memory.map(all, 0, 0x5000, 0x1000, None).unwrap();
        assert_eq!(memory.write(0x1ffe, &[1, 2, 3, 4]), Ok(()));
        let mut back = [0; 4];
        assert_eq!(memory.read(0x1ffe, &mut back), Ok(()));
        assert_eq!(back, [1, 2, 3, 4]);
        for (address, octets) in [(0x2fff, 2), (0xfff, 1), (0x3000, 1), (0x5000, 1), (u64::MAX, 2)] {
            assert!(memory.read(address, &mut vec![0; octets]).is_err(), "{address:#x}");
        }
        assert!(memory.write(0x4000, &[1]).is_err(), "only for reading");
        assert_eq!(memory.reachable(), 3);
    }

    #[test]
    fn a_file_cut_short_is_an_error_and_no_signal() {
        let mut memory = GuestMemory::default();
        let fd = file(8192);
        memory.map(MAP_READ | MAP_WRITE, 0, 0, 8192, Some(fd.try_clone().unwrap())).unwrap();
        ftruncate(&fd, 10).unwrap();
        assert_eq!(memory.read(0, &mut [0; 10]), Ok(()));
        assert!(memory.read(0, &mut [0; 11]).is_err());
    }

    #[test]
    fn ranges_of_one_file_share_a_descriptor_and_there_are_few_files() {
        const NAME: &str = "guest-of-many-ranges";
        let held = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter_map(|fd| std::fs::read_link(fd.path()).ok())
                .filter(|to| to.to_string_lossy().contains(NAME))
                .count()
        };
        let mut memory = GuestMemory::default();
        let files: Vec<OwnedFd> = (0..MAX_FILES).map(|_| memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap()).collect();
        for n in 0..MAX_RANGES {
            let file = files[n % MAX_FILES].try_clone().unwrap();
            memory.map(3, 0, n as u64 * 4096, 4096, Some(file)).unwrap();
        }
        assert_eq!((memory.len(), held()), (MAX_RANGES, 2 * MAX_FILES));
        memory.unmap(0, 4096).unwrap();
        let other = || memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(memory.map(3, 0, 0, 4096, Some(other())), Err(Errno::NOSPC));
        // One to be read only is another than the same to be written.
        let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&files[0]));
        let reads = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap();
        assert_eq!(memory.map(1, 0, 0, 4096, Some(reads.try_clone().unwrap())), Err(Errno::NOSPC));
        // Files whose ranges have all gone make room.
        memory.clear();
        assert_eq!(held(), MAX_FILES + 1);
        memory.map(1, 0, 0, 4096, Some(reads)).unwrap();
        memory.map(3, 0, 4096, 4096, Some(other())).unwrap();
        assert_eq!(held(), MAX_FILES + 2);
    }

    #[test]
    fn memory_is_in_files_of_memory() {
        let mut memory = GuestMemory::default();
        assert!(!memory.refused());
        let made = OwnedFd::from(std::fs::File::open("/proc/self/environ").unwrap());
        assert_eq!(memory.map(3, 0, 0, 4096, Some(made)), Err(Errno::NOTSUP));
        assert!(memory.refused() && memory.is_empty());
        memory.map(3, 0, 0, 4096, Some(file(4096))).unwrap();
    }

    #[test]
    fn ranges_are_of_whole_pages_so_that_a_portion_of_dma_lies_in_two_at_most() {
        let mut memory = GuestMemory::default();
        let held = file(4096);
        for (address, size) in [(0, 1), (1, 1), (0x800, 0x1000), (0x1000, 0x1001), (0x1000, 0xfff), (0xfff, 0x2000)] {
            let refused = memory.map(3, 0, address, size, Some(held.try_clone().unwrap()));
            assert_eq!(refused, Err(Errno::INVAL), "{size:#x} octets at {address:#x}");
        }
        for n in 0..16 {
            memory.map(3, 0, n * PAGE, PAGE, Some(held.try_clone().unwrap())).unwrap();
        }
        for address in (0..15 * PAGE).step_by(511) {
            let mut parts = 0;
            let count = |_: &OwnedFd, _, _| {
                parts += 1;
                Ok(())
            };
            memory.parts(MAP_READ, address, PAGE as usize, count).unwrap();
            assert!(parts <= 2, "{parts} at {address:#x}");
        }
    }

    #[test]
    fn ranges_do_not_overlap_and_go_as_they_came() {
        let mut memory = GuestMemory::default();
        memory.map(3, 0, 0x1000, 0x1000, None).unwrap();
        for (address, size, error) in [
            (0x0, 0x2000, Errno::EXIST),
            (0x1000, 0x1000, Errno::EXIST),
            (0x0, 0x4000, Errno::EXIST),
            (0x3000, 0, Errno::INVAL),
            (u64::MAX - 0xfff, 0x2000, Errno::INVAL),
        ] {
            assert_eq!(memory.map(3, 0, address, size, None), Err(error), "{address:#x}");
        }
        assert_eq!(memory.map(3, u64::MAX - 4, 0x8000, 0x1000, None), Err(Errno::INVAL));
        memory.map(3, 0, 0x2000, 0x1000, None).unwrap();
        assert_eq!(memory.unmap(0x1800, 0x1800), Err(Errno::INVAL));
        assert_eq!(memory.unmap(0x1000, 0x1800), Err(Errno::INVAL));
        assert_eq!(memory.unmap(0x3000, 0x1000), Err(Errno::NOENT));
        assert_eq!(memory.unmap(0, 0x10_0000), Ok(()));
        assert!(memory.ranges.is_empty());
    }
}
