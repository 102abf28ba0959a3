//! The file of a server's socket: where it is to be, and where it is while somebody else's is there.

use rustix::fs::{lstat, rename, unlink};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    /// A name in the same folder.
    beside: Option<PathBuf>,
    /// The file's device and number: what somebody else has put at the path since is left alone.
    file: Option<(u64, u64)>,
}

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        Place { path: path.to_path_buf(), beside: None, file: None }
    }

    /// Beside the path, until [`Place::take`].
    pub(super) fn beside(path: &Path) -> Self {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".next");
        Place { beside: Some(beside.into()), ..Place::new(path) }
    }

    /// Where it is to be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is.
    pub(super) fn now(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.path)
    }

    /// The file has been made.
    pub(super) fn handle_made(&mut self) {
        self.file = file_at(self.now());
    }

    /// Takes the path: who comes from now on comes to this server, and no more to who had it.
    ///
    /// # Errors
    /// As the system says; then the file is where it was.
    pub fn take(&mut self) -> Result<(), Errno> {
        if let Some(beside) = &self.beside {
            rename(beside, &self.path)?;
            self.beside = None;
        }
        Ok(())
    }

    /// Removes the file, wherever it is by now.
    pub(super) fn remove(&self) {
        let places = self.beside.iter().chain([&self.path]);
        for path in places.filter(|path| self.file.is_some() && file_at(path) == self.file) {
            let _ = unlink(path);
        }
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    lstat(path).ok().map(|file| (file.st_dev, file.st_ino))
}
