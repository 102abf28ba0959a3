//! Folders that the daemon writes in, and files in them. What is checked is what is used: each step of a path is opened
//! in the one before it, and nothing is looked up by its name twice where somebody else could have exchanged it
//! between.

mod private_group;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// As many as the system follows on one path (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// A folder, made for its user alone if it is not there. `cure` ends what is said of one that cannot be used.
///
/// # Errors
/// Others own it, or may write in it, or the same of a folder or a symbolic link on the way to it: what the daemon
/// writes could be exchanged under its feet.
pub(crate) fn prepare(folder: &Path, cure: &str) -> Result<OwnedFd> {
    walk(folder, cure, true)
}

/// The folder of a file, which has to be there.
///
/// # Errors
/// It is not there; others own it or may write in it, or in a folder on the way to it.
pub fn check_of(file: &Path, cure: &str) -> Result<()> {
    walk(of(file), cure, false).map(drop)
}

/// Where a file is.
pub(crate) fn of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn walk(folder: &Path, cure: &str, makes: bool) -> Result<OwnedFd> {
    let names = |path: &Path| -> Vec<OsString> {
        let named = path.components().rev().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
        named.map(|c| c.as_os_str().to_owned()).collect()
    };
    let root = || open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).context("/");
    let mut left = names(&std::path::absolute(folder)?);
    // Steps that the path has itself: where a link leads, nothing is made.
    let mut own = left.len();
    let (mut at, mut path, mut links) = (root()?, PathBuf::from("/"), 0);
    while let Some(name) = left.pop() {
        let makes = makes && left.len() < own;
        own = own.min(left.len());
        let here = path.join(&name);
        let (found, is) = step(&at, &name, makes).with_context(|| here.display().to_string())?;
        if is_of_others(&is) {
            bail!("{} belongs to user {}: {cure}", here.display(), is.st_uid);
        }
        match FileType::from_raw_mode(is.st_mode) {
            // Its owner says where it leads.
            FileType::Symlink if links < MAX_LINKS => {
                links += 1;
                let target = readlinkat(&at, &name, Vec::new()).with_context(|| here.display().to_string())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    (at, path) = (root()?, PathBuf::from("/"));
                }
                left.extend(names(&target));
            }
            // In a sticky folder, such as /tmp, nobody exchanges another user's file.
            FileType::Directory => {
                if let (Some(right), 0) = (right_of_others(&found, &is), is.st_mode & 0o1000) {
                    let (folder, mode) = (here.display(), is.st_mode & 0o7777);
                    bail!(
                        "others may write in {folder} (mode {mode:o}): take that right away (chmod {right}), or {cure}"
                    );
                }
                (at, path) = (found, here);
            }
            _ => bail!("{} is no folder: {cure}", here.display()),
        }
    }
    Ok(at)
}

/// What has a name in a folder, without opening it for anything else; a folder that is made if nothing is there.
fn step(at: &OwnedFd, name: &OsStr, makes: bool) -> rustix::io::Result<(OwnedFd, Stat)> {
    let look = || openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let found = match look() {
        Err(Errno::NOENT) if makes => match mkdirat(at, name, Mode::RWXU) {
            // Whoever made it, it is looked at as it is now.
            Ok(()) | Err(Errno::EXIST) => look()?,
            Err(e) => return Err(e),
        },
        found => found?,
    };
    let is = fstat(&found)?;
    Ok((found, is))
}

/// Neither this user's nor root's.
fn is_of_others(is: &Stat) -> bool {
    is.st_uid != rustix::process::geteuid().as_raw() && is.st_uid != 0
}

/// What of chmod(1) takes away the right of other users to write a file; `None` if none of them has it. A group of this
/// user alone may have it: with umask 002 it has.
fn right_of_others(file: impl AsFd, is: &Stat) -> Option<&'static str> {
    let group = is.st_mode & 0o020 != 0 && !private_group::is_of_user_alone(file, is);
    match (group, is.st_mode & 0o002 != 0) {
        (false, false) => None,
        (true, false) => Some("g-w"),
        (false, true) => Some("o-w"),
        (true, true) => Some("go-w"),
    }
}

/// Opens a file of a folder; `None` if it is not there. Nobody is waited for, whatever has taken the file's name.
///
/// # Errors
/// It is no regular file, or a symbolic link; others own it or may write it; it is to be written, and has another name.
pub(crate) fn file_in(folder: impl AsFd, name: &str, flags: OFlags) -> Result<Option<File>> {
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags | careful, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => bail!("it is a symbolic link, which is not followed: remove it"),
        Err(Errno::NXIO | Errno::ISDIR) => return Err(irregular()),
        Err(e) => return Err(e.into()),
    };
    let is = fstat(&file)?;
    let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    let others = right_of_others(&file, &is);
    match is.st_mode {
        mode if FileType::from_raw_mode(mode) != FileType::RegularFile => Err(irregular()),
        _ if is_of_others(&is) => Err(anyhow!("it belongs to user {}: remove it, or make it yours (chown)", is.st_uid)),
        mode if others.is_some() => Err(anyhow!(
            "others may write it (mode {:o}): take that right away (chmod {})",
            mode & 0o7777,
            others.unwrap_or_default()
        )),
        _ if writes && is.st_nlink > 1 => {
            Err(anyhow!("it has a second name (a hard link), whose file would be written, too: remove it"))
        }
        _ => Ok(Some(file.into())),
    }
}

fn irregular() -> anyhow::Error {
    anyhow!("it is no regular file: remove it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    const CURE: &str = "choose another one";
    /// Nobody, on every Linux.
    const OTHER: u32 = 65534;

    fn refused(folder: &Path) -> String {
        format!("{:#}", prepare(folder, CURE).unwrap_err())
    }

    #[test]
    fn a_folder_is_made_for_its_user_alone_and_ways_through_links_of_ours_are_followed() {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().join("a/b/c");
        prepare(&folder, CURE).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        symlink("a/b", here.path().join("relative")).unwrap();
        symlink(here.path().join("relative/../b"), here.path().join("absolute")).unwrap();
        let seen = prepare(&here.path().join("absolute/./c/../c"), CURE).unwrap();
        let (seen, there) = (fstat(seen).unwrap(), rustix::fs::stat(&folder).unwrap());
        assert_eq!((seen.st_dev, seen.st_ino), (there.st_dev, there.st_ino));
        symlink("nowhere", here.path().join("dangling")).unwrap();
        assert!(prepare(&here.path().join("dangling/x"), CURE).is_err() && !here.path().join("nowhere").exists());
        prepare(&here.path().join("relative/made"), CURE).unwrap();
        symlink("loop", here.path().join("loop")).unwrap();
        assert!(refused(&here.path().join("loop/x")).contains("is no folder"));
        fs::write(here.path().join("file"), "").unwrap();
        assert!(refused(&here.path().join("file")).contains("is no folder"));
        assert!(check_of(&here.path().join("absent/file"), CURE).is_err() && !here.path().join("absent").exists());
    }

    #[test]
    fn a_folder_in_which_others_may_write_is_refused_wherever_it_is_on_the_way() {
        let here = tempfile::tempdir().unwrap();
        let (outer, inner) = (here.path().join("outer"), here.path().join("outer/inner"));
        fs::create_dir_all(&inner).unwrap();
        for (mode, is_refused) in [(0o775, true), (0o757, true), (0o1777, false), (0o755, false)] {
            fs::set_permissions(&outer, fs::Permissions::from_mode(mode)).unwrap();
            for folder in [&outer, &inner] {
                assert_eq!(prepare(folder, CURE).is_err(), is_refused, "{mode:o} {}", folder.display());
            }
        }
        fs::set_permissions(&outer, fs::Permissions::from_mode(0o777)).unwrap();
        let why = refused(&inner);
        assert!(why.contains("outer (mode 777)") && why.contains("chmod") && why.ends_with(CURE), "{why}");
    }

    #[test]
    fn what_another_user_owns_is_refused_wherever_it_is_on_the_way() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can give files away");
            return;
        }
        let here = tempfile::tempdir().unwrap();
        let (outer, inner, way) = (here.path().join("outer"), here.path().join("outer/inner"), here.path().join("way"));
        fs::create_dir_all(&inner).unwrap();
        symlink(&inner, &way).unwrap();
        prepare(&way, CURE).unwrap();
        for theirs in [&outer, &inner, &way] {
            rustix::fs::chownat(
                CWD,
                theirs,
                Some(rustix::fs::Uid::from_raw(OTHER)),
                None,
                rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
            )
            .unwrap();
            let why = refused(&way);
            assert!(why.contains(&format!("{} belongs to user {OTHER}: {CURE}", theirs.display())), "{why}");
            rustix::fs::chownat(CWD, theirs, Some(rustix::fs::Uid::ROOT), None, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .unwrap();
        }
        fs::write(inner.join("file"), "planted").unwrap();
        chown(inner.join("file"), Some(OTHER), None).unwrap();
        let folder = prepare(&inner, CURE).unwrap();
        let why = file_in(&folder, "file", OFlags::RDONLY).unwrap_err().to_string();
        assert!(why.contains("user 65534"), "{why}");
    }

    #[test]
    fn only_a_regular_file_is_opened_and_nobody_waits_for_another() {
        let here = tempfile::tempdir().unwrap();
        let folder = prepare(here.path(), CURE).unwrap();
        let path = |name: &str| here.path().join(name);
        assert!(file_in(&folder, "absent", OFlags::RDONLY).unwrap().is_none());
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        fs::write(path("file"), "").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        for name in ["fifo", "folder", "socket", "link", "dangling"] {
            for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE] {
                let why = file_in(&folder, name, flags).unwrap_err().to_string();
                assert!(why.contains("remove it"), "{name}: {why}");
            }
        }
        assert!(!path("nowhere").exists());
        fs::hard_link(path("file"), path("second")).unwrap();
        assert!(file_in(&folder, "file", OFlags::RDONLY).unwrap().is_some());
        assert!(file_in(&folder, "file", OFlags::RDWR).unwrap_err().to_string().contains("hard link"));
        fs::remove_file(path("second")).unwrap();
        assert!(file_in(&folder, "file", OFlags::RDWR).unwrap().is_some());
        fs::set_permissions(path("file"), fs::Permissions::from_mode(0o620)).unwrap();
        assert!(file_in(&folder, "file", OFlags::RDONLY).unwrap_err().to_string().contains("mode 620"));
    }
}
