//! The system calls by which the files of a state folder are written, as a table: the daemon has the real ones, and a
//! test has some that fail or stop at a chosen call.

use crate::folder;
use anyhow::Result;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

/// The calls. Names are of files in the folder.
pub trait FileLayer: Debug + Send + Sync {
    /// Opens a regular file; `None` if it is not there.
    ///
    /// # Errors
    /// The system refuses it, or it is none that this user alone may write.
    fn open(&self, folder: &OwnedFd, name: &str, flags: OFlags) -> Result<Option<File>>;
    /// Writes all octets at the file's position.
    ///
    /// # Errors
    /// The system refuses it; some octets may be written.
    fn write(&self, file: &File, octets: &[u8]) -> io::Result<()>;
    /// Cuts a file to this length.
    ///
    /// # Errors
    /// The system refuses it.
    fn cut(&self, file: &File, octets: u64) -> io::Result<()>;
    /// Returns once the file's octets are on the disk.
    ///
    /// # Errors
    /// The system refuses it.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Gives a file another name, and replaces the file that had it.
    ///
    /// # Errors
    /// The system refuses it.
    fn rename(&self, folder: &OwnedFd, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system refuses it.
    fn remove(&self, folder: &OwnedFd, name: &str) -> io::Result<()>;
    /// Returns once the folder's names are on the disk.
    ///
    /// # Errors
    /// The system refuses it.
    fn sync_folder(&self, folder: &OwnedFd) -> io::Result<()>;
}

/// The system's own calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl FileLayer for SystemFiles {
    fn open(&self, folder: &OwnedFd, name: &str, flags: OFlags) -> Result<Option<File>> {
        folder::file_in(folder, name, flags)
    }

    fn write(&self, mut file: &File, octets: &[u8]) -> io::Result<()> {
        file.write_all(octets)
    }

    fn cut(&self, file: &File, octets: u64) -> io::Result<()> {
        file.set_len(octets)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, folder: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(folder, from, folder, to)?)
    }

    fn remove(&self, folder: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    fn sync_folder(&self, folder: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::fsync(folder)?)
    }
}

/// A table that many have.
#[derive(Debug, Clone)]
pub struct Files(pub Arc<dyn FileLayer>);

impl Default for Files {
    fn default() -> Self {
        Files(Arc::new(SystemFiles))
    }
}
