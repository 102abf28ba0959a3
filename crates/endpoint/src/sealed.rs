//! Octets that are passed as a memory file, sealed against any change: what is longer than a packet.
//!
//! Whoever reads one reads what was there when it was sealed, however long reading takes; nothing is mapped.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What `statfs` says of memory files of ordinary pages.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Against any change of contents or size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);

/// Why a descriptor is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealedError {
    /// Something else than a memory file, or one that may change.
    #[error("a long text comes as a memory file (memfd_create) that is sealed against writing, shrinking and growing")]
    NotSealed,
    /// More than is read.
    #[error("{octets} octets are more than the {most} that are read")]
    TooLong {
        /// What it has.
        octets: u64,
        /// The bound.
        most: usize,
    },
    /// The system.
    #[error(transparent)]
    System(#[from] Errno),
}

/// A memory file of these octets.
///
/// # Errors
/// No memory, or no descriptor.
pub fn write(octets: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::memfd_create("cellway-text", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = octets;
    while !rest.is_empty() {
        match rustix::io::write(&fd, rest) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => rest = &rest[n..],
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// What somebody else has written so, `most` octets at most.
///
/// # Errors
/// It is not sealed, or too long.
pub fn read(fd: &OwnedFd, most: usize) -> Result<Vec<u8>, SealedError> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| SealedError::NotSealed)?;
    let ordinary = rustix::fs::fstatfs(fd)?.f_type as u64 == TMPFS_MAGIC;
    if !seals.contains(SEALS) || !ordinary {
        return Err(SealedError::NotSealed);
    }
    let octets = rustix::fs::fstat(fd)?.st_size as u64;
    if octets > most as u64 {
        return Err(SealedError::TooLong { octets, most });
    }
    let mut all = vec![0; octets as usize];
    let mut at = 0;
    while at < all.len() {
        match rustix::io::pread(fd, &mut all[at..], at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    all.truncate(at);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_read_and_nothing_else() {
        let text: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let fd = write(&text).unwrap();
        assert_eq!(read(&fd, text.len()).unwrap(), text);
        assert_eq!(read(&fd, 99_999), Err(SealedError::TooLong { octets: 100_000, most: 99_999 }));
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err() && rustix::fs::ftruncate(&fd, 1).is_err());
        assert!(read(&write(&[]).unwrap(), 0).unwrap().is_empty());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("x", flags).unwrap();
        for seals in [SealFlags::empty(), SealFlags::SHRINK | SealFlags::GROW, SealFlags::FUTURE_WRITE] {
            rustix::fs::fcntl_add_seals(&open, seals).unwrap();
            assert_eq!(read(&open, 100), Err(SealedError::NotSealed));
        }
        let pipe = rustix::pipe::pipe().unwrap();
        assert_eq!(read(&pipe.0, 100), Err(SealedError::NotSealed));
    }
}
