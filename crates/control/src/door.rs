//! Where the service's socket is: its folder, and who reaches it. What is checked is what is used: nothing is looked up by its
//! name twice where somebody else could have exchanged it between.

use anyhow::{Context as _, Result, anyhow};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdir, open};
use rustix::io::Errno;
use std::path::Path;

/// The socket's folder, for its user alone if it is made here. One that others own or may write could be exchanged under
/// our feet, and the socket in it for theirs.
pub(crate) fn prepare_folder(socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent().filter(|f| !f.as_os_str().is_empty()) else { return Ok(()) };
    let making = || format!("making {} for the socket", folder.display());
    if let Some(outer) = folder.parent() {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(outer).with_context(making)?;
    }
    match mkdir(folder, Mode::RWXU) {
        // Whoever made it, it is looked at as it is now.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e).with_context(making),
    }
    let (_, mut is) = look(folder, OFlags::NOFOLLOW)?;
    if FileType::from_raw_mode(is.st_mode) == FileType::Symlink {
        // Its owner says where it leads.
        of_ours(folder, &is)?;
        (_, is) = look(folder, OFlags::DIRECTORY)?;
    }
    of_ours(folder, &is)?;
    if FileType::from_raw_mode(is.st_mode) != FileType::Directory {
        return Err(anyhow!("{} is no folder: choose another place with --socket", folder.display()));
    }
    // In a sticky folder, such as /tmp, nobody exchanges another user's file.
    if is.st_mode & 0o022 != 0 && is.st_mode & 0o1000 == 0 {
        return Err(anyhow!(
            "others may write in {} (mode {:o}): take that right away (chmod go-w), or choose another place with --socket",
            folder.display(),
            is.st_mode & 0o7777
        ));
    }
    Ok(())
}

/// What is at a path, without opening it for anything else.
fn look(path: &Path, how: OFlags) -> Result<(OwnedFd, Stat)> {
    let looked = || -> rustix::io::Result<(OwnedFd, Stat)> {
        let found = open(path, OFlags::PATH | OFlags::CLOEXEC | how, Mode::empty())?;
        let is = fstat(&found)?;
        Ok((found, is))
    };
    looked().with_context(|| format!("{}", path.display()))
}

fn of_ours(folder: &Path, is: &Stat) -> Result<()> {
    if is.st_uid == rustix::process::geteuid().as_raw() || is.st_uid == 0 {
        return Ok(());
    }
    Err(anyhow!("{} belongs to user {}: choose another place with --socket", folder.display(), is.st_uid))
}

/// Says who reaches a socket. What has taken its place is left as it is, and what it leads to.
pub(crate) fn set_mode(socket: &Path, mode: u32) -> Result<()> {
    let rights = || format!("the rights of {} stay as they are", socket.display());
    let (found, is) = look(socket, OFlags::NOFOLLOW).with_context(rights)?;
    if FileType::from_raw_mode(is.st_mode) != FileType::Socket {
        return Err(anyhow!("it is no socket any more")).with_context(rights);
    }
    // A descriptor of a path has no rights to be changed, but by this name.
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmod(name, Mode::from_raw_mode(mode)).with_context(rights)
}
