//! A daemon in the test's own process, at a socket that other users reach. All is accounted for when it ends.

use control::config::Config;
use control::daemon::{Daemon, DaemonOptions};
use hostile::{Field, assert_all_is_accounted_for};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// See the module's head.
pub struct Managed {
    pub daemon: Daemon,
    pub socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Managed {
    /// Brings up the network of a description, with options that may name files in its folder.
    pub fn up(network: Config, options: impl FnOnce(&Path) -> DaemonOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (socket, options) = (folder.path().join("socket"), options(folder.path()));
        let daemon = Daemon::start_with(network, &socket, &options).unwrap();
        Managed { daemon, socket, _folder: folder }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        assert_all_is_accounted_for(&self.daemon.engine);
    }
}

impl Field for Managed {
    fn socket(&self) -> &Path {
        &self.socket
    }
}
