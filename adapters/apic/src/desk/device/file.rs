//! The files of devices. Whoever names one may be somebody else than who runs the network: it is a regular file, so nobody waits
//! for what gives nothing, and nothing is read without end.

use super::{DeviceError, MAX_FILE_OCTETS};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::geteuid;
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
    // What others have put there is left alone, and what it leads to.
    let file = regular(path, OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW).map_err(fault(path))?;
    let owner = fstat(&file).map_err(|e| fault(path)(e.into()))?.st_uid;
    if owner != geteuid().as_raw() && owner != 0 {
        return Err(fault(path)(io::Error::other(format!("it belongs to user {owner}: choose another file"))));
    }
    Ok(file)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn what_others_have_put_in_a_files_place_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("precious"), "as it was").unwrap();
        symlink("precious", path("link")).unwrap();
        assert!(create(&path("link")).is_err());
        if rustix::process::geteuid().is_root() {
            std::fs::write(path("theirs"), "as it was").unwrap();
            chown(path("theirs"), Some(65534), None).unwrap();
            let why = create(&path("theirs")).unwrap_err().to_string();
            assert!(why.contains("user 65534"), "{why}");
            assert_eq!(std::fs::read(path("theirs")).unwrap(), b"as it was");
        }
        assert_eq!(std::fs::read(path("precious")).unwrap(), b"as it was");
        // Whoever has something to write empties it.
        create(&path("precious")).unwrap();
        assert_eq!(std::fs::read(path("precious")).unwrap(), b"as it was");
    }
}
