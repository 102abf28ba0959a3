//! The files of devices. Whoever names one may be somebody else than who runs the network: it is a regular file, so nobody waits
//! for what gives nothing, and nothing is read without end.

use super::{DeviceError, MAX_FILE_OCTETS};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A file, whole, if it is not too long.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, DeviceError> {
    let mut octets = Vec::new();
    let file = regular(path, OFlags::RDONLY).map_err(fault(path))?;
    file.take(MAX_FILE_OCTETS + 1).read_to_end(&mut octets).map_err(fault(path))?;
    if octets.len() as u64 > MAX_FILE_OCTETS {
        return Err(DeviceError::TooLong(path.to_owned()));
    }
    Ok(octets)
}

/// A file to write, made if it is not there.
pub(super) fn create(path: &Path) -> Result<File, DeviceError> {
    regular(path, OFlags::WRONLY | OFlags::CREATE).map_err(fault(path))
}

pub(super) fn fault(path: &Path) -> impl Fn(io::Error) -> DeviceError {
    move |cause| DeviceError::File { path: path.to_owned(), cause }
}

fn regular(path: &Path, flags: OFlags) -> io::Result<File> {
    // A FIFO is opened at once, too, or not at all.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o666))?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file.into())
}
