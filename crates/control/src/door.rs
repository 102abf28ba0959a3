//! Where the service's socket is: its folder, and who reaches it.

use crate::folder;
use anyhow::{Context as _, Result, anyhow};
use rustix::fd::AsRawFd as _;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::path::Path;

/// The socket's folder, for its user alone if it is made here.
pub(crate) fn prepare_folder(socket: &Path) -> Result<()> {
    folder::prepare(folder::of(socket), "choose another place with --socket").map(drop)
}

/// Says who reaches a socket. What has taken its place is left as it is, and what it leads to.
pub(crate) fn set_mode(socket: &Path, mode: u32) -> Result<()> {
    let rights = || format!("the rights of {} stay as they are", socket.display());
    let found = open(socket, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let found = found.with_context(|| socket.display().to_string()).with_context(rights)?;
    if FileType::from_raw_mode(fstat(&found).with_context(rights)?.st_mode) != FileType::Socket {
        return Err(anyhow!("it is no socket any more")).with_context(rights);
    }
    // A descriptor of a path has no rights to be changed, but by this name.
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmod(name, Mode::from_raw_mode(mode)).with_context(rights)
}
