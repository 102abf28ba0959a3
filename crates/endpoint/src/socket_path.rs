//! The file of a listening socket: where it is to be, and where it is while somebody else's is there.
//!
//! Only a socket to which nobody listens is replaced, by whoever listens there next. What else is at the path is
//! somebody's: it is refused, and stays.

use rustix::fs::{FileType, RenameFlags, lstat, rename, renameat_with, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::path::{Path, PathBuf};

/// Why nothing can listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketPathError {
    /// Somebody answers there.
    #[error("something already listens at {0}: stop it, or choose another socket")]
    InUse(PathBuf),
    /// It is there already, and no socket.
    #[error("{path} is {what} and no socket: it stays as it is (choose another path for the socket)")]
    NotASocket {
        /// Where.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// No socket can be there.
    #[error("cannot listen: {}", too_long(.0))]
    TooLong(PathBuf),
    /// The system.
    #[error("cannot listen at {path}: {source}")]
    System {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: Errno,
    },
}

/// Most octets of a socket's path (`sun_path`, without the octet that ends it).
pub const MAX_PATH_OCTETS: usize = 107;

/// What is said of a path that no socket can have.
pub(crate) fn too_long(path: &Path) -> String {
    let octets = path.as_os_str().len();
    format!("the socket's path has {octets} octets, of {MAX_PATH_OCTETS} at most: {}", path.display())
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct SocketPath {
    path: PathBuf,
    /// A name in the same folder.
    beside: Option<PathBuf>,
    /// The socket's device and number: what somebody else has put at the path since is left alone.
    file: Option<(u64, u64)>,
}

impl SocketPath {
    /// At this path.
    pub fn new(path: &Path) -> Self {
        SocketPath { path: path.to_path_buf(), beside: None, file: None }
    }

    /// Beside the path, until [`SocketPath::take`].
    pub fn beside(path: &Path) -> Self {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".next");
        SocketPath { beside: Some(beside.into()), ..SocketPath::new(path) }
    }

    /// Where it is to be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is.
    pub fn now(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.path)
    }

    /// Makes room for a socket of a kind: removes that of a server that has died.
    ///
    /// # Errors
    /// Somebody listens there, or what is there is no socket.
    pub fn clear(&self, kind: SocketType) -> Result<(), SocketPathError> {
        let path = self.now();
        if path.as_os_str().len() > MAX_PATH_OCTETS {
            return Err(SocketPathError::TooLong(path.to_path_buf()));
        }
        let system = |source| SocketPathError::System { path: path.to_path_buf(), source };
        if !is_socket(path)? {
            return Ok(());
        }
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let probe = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).map_err(system)?;
        match rustix::net::connect(&probe, &address) {
            // Or so many wait there that there is no room for one more, or it is one of another kind.
            Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketPathError::InUse(path.to_path_buf())),
            Err(Errno::CONNREFUSED) => unlink(path).or_else(unless_gone).map_err(system),
            Err(e) => unless_gone(e).map_err(system),
        }
    }

    /// The socket has been made.
    pub fn handle_made(&mut self) {
        self.file = socket_at(self.now());
    }

    /// Takes the path: who comes from now on comes to this server, and no more to who had it.
    ///
    /// # Errors
    /// As the system says, or what is at the path by now is no socket; then the file is where it was.
    pub fn take(&mut self) -> Result<(), SocketPathError> {
        let Some(beside) = &self.beside else { return Ok(()) };
        let system = |source| SocketPathError::System { path: self.path.clone(), source };
        if is_socket(&self.path)? {
            rename(beside, &self.path).map_err(system)?;
        } else {
            let here = rustix::fs::CWD;
            renameat_with(here, beside, here, &self.path, RenameFlags::NOREPLACE).map_err(system)?;
        }
        self.beside = None;
        Ok(())
    }

    /// Removes the file, wherever it is by now.
    pub fn remove(&self) {
        let places = self.beside.iter().chain([&self.path]);
        for path in places.filter(|path| self.file.is_some() && socket_at(path) == self.file) {
            let _ = unlink(path);
        }
    }
}

/// Whether a socket is at a path; false if nothing is.
fn is_socket(path: &Path) -> Result<bool, SocketPathError> {
    let kind = match lstat(path) {
        Ok(file) => FileType::from_raw_mode(file.st_mode),
        Err(e) => {
            let path = path.to_path_buf();
            return unless_gone(e).map(|()| false).map_err(|source| SocketPathError::System { path, source });
        }
    };
    let what = match kind {
        FileType::Socket => return Ok(true),
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        _ => "a device",
    };
    Err(SocketPathError::NotASocket { path: path.to_path_buf(), what })
}

fn unless_gone(e: Errno) -> Result<(), Errno> {
    if e == Errno::NOENT { Ok(()) } else { Err(e) }
}

/// The socket at a path. A number alone says too little: the next file that is made may have that of one that was
/// removed.
fn socket_at(path: &Path) -> Option<(u64, u64)> {
    let file = lstat(path).ok().filter(|file| FileType::from_raw_mode(file.st_mode) == FileType::Socket)?;
    Some((file.st_dev, file.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    /// What is no socket, each with the word for it.
    fn put(folder: &Path, what: &str) -> PathBuf {
        let path = folder.join(what.replace(' ', "-"));
        match what {
            "a file" => std::fs::write(&path, "the only copy").unwrap(),
            "a folder" => std::fs::create_dir(&path).unwrap(),
            "a FIFO" => {
                rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
                    .unwrap()
            }
            _ => std::os::unix::fs::symlink(folder.join("stale"), &path).unwrap(),
        }
        path
    }

    #[test]
    fn only_a_socket_to_which_nobody_listens_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        drop(UnixListener::bind(at("stale")).unwrap());
        let listens = UnixListener::bind(at("listens")).unwrap();
        let datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
        for what in ["a file", "a folder", "a FIFO", "a symbolic link"] {
            let path = put(folder.path(), what);
            let kind = || lstat(&path).unwrap().st_mode;
            let before = kind();
            let refused = SocketPath::new(&path).clear(SocketType::STREAM).unwrap_err().to_string();
            assert!(refused.contains(what) && refused.contains(path.to_str().unwrap()), "{refused}");
            assert_eq!(kind(), before, "{what}");
        }
        assert_eq!(std::fs::read(at("a-file")).unwrap(), b"the only copy");
        assert!(matches!(
            SocketPath::new(Path::new("/dev/null")).clear(SocketType::STREAM),
            Err(SocketPathError::NotASocket { what: "a device", .. })
        ));
        for name in ["listens", "datagrams"] {
            let refused = SocketPath::new(&at(name)).clear(SocketType::STREAM);
            assert!(matches!(refused, Err(SocketPathError::InUse(_))) && at(name).exists(), "{name}");
        }
        assert!(SocketPath::new(&at("none")).clear(SocketType::STREAM).is_ok());
        SocketPath::new(&at("stale")).clear(SocketType::STREAM).unwrap();
        assert!(!at("stale").exists());
        drop((listens, datagrams));
    }

    #[test]
    fn who_takes_a_path_or_leaves_it_spares_what_others_have_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let beside = || {
            let mut place = SocketPath::beside(&path);
            place.clear(SocketType::STREAM).unwrap();
            let listener = UnixListener::bind(place.now()).unwrap();
            place.handle_made();
            (place, listener)
        };
        let (mut place, _listener) = beside();
        std::fs::write(&path, "the only copy").unwrap();
        assert!(matches!(place.take(), Err(SocketPathError::NotASocket { what: "a file", .. })));
        place.remove();
        assert!(!place.now().exists());
        assert_eq!(std::fs::read(&path).unwrap(), b"the only copy");
        std::fs::remove_file(&path).unwrap();
        // Nothing, then the socket of another.
        for _ in 0..2 {
            let (mut place, _listener) = beside();
            place.take().unwrap();
            assert_eq!(place.file, socket_at(&path));
        }
        std::fs::remove_file(&path).unwrap();
        let mut place = SocketPath::new(&path);
        drop(UnixListener::bind(&path).unwrap());
        place.handle_made();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "the only copy").unwrap();
        place.remove();
        assert_eq!(std::fs::read(&path).unwrap(), b"the only copy");
    }
}
