//! Whom the system's administrator lets run a service: the owner of a folder `/run/cellway` or `/run/cellway-NAME`.
//!
//! Only root makes folders in `/run` and gives them away, as systemd does for `cellway.service`. So a socket in such a folder
//! is served by the user whom root chose. What counts is the path that the client uses: a server can bind under any name in
//! a mount namespace of its own.

use rustix::fs::{AtFlags, CWD, FileType, statat};
use std::path::{Component, Path};

/// The folder of runtime data (FHS 3.0 section 3.15).
const RUN: &str = "/run";
const NAME: &str = "cellway";

/// Whether the service at `socket` is the system's, and `uid` is the user who runs it by root's choice.
pub(crate) fn is_run_by(socket: &Path, uid: u32) -> bool {
    is_run_by_in(Path::new(RUN), socket, uid)
}

fn is_run_by_in(run: &Path, socket: &Path, uid: u32) -> bool {
    let Some(folder) = socket.parent().filter(|folder| is_named(run, folder)) else { return false };
    is_of(run, 0) && is_of(folder, uid)
}

/// Whether a folder is `cellway` or `cellway-NAME`, in `run` itself.
fn is_named(run: &Path, folder: &Path) -> bool {
    let mut names = match folder.strip_prefix(run) {
        Ok(below) => below.components(),
        Err(_) => return false,
    };
    let (Some(Component::Normal(name)), None) = (names.next(), names.next()) else { return false };
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { return false };
    rest.is_empty() || rest.starts_with('-')
}

/// Whether a path is a folder, no link, that this user owns and nobody else may write in.
fn is_of(folder: &Path, uid: u32) -> bool {
    let Ok(is) = statat(CWD, folder, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    FileType::from_raw_mode(is.st_mode) == FileType::Directory && is.st_uid == uid && is.st_mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    const SERVICE: u32 = 64_000;

    #[test]
    fn only_folders_of_the_service_directly_in_run_count() {
        let run = Path::new("/run");
        for yes in ["/run/cellway", "/run/cellway-second"] {
            assert!(is_named(run, Path::new(yes)), "{yes}");
        }
        for no in [
            "/run",
            "/run/cellwayx",
            "/run/lock",
            "/run/user/cellway",
            "/tmp/cellway",
            "/run/../tmp/cellway",
            "cellway",
        ] {
            assert!(!is_named(run, Path::new(no)), "{no}");
        }
    }

    #[test]
    fn the_owner_of_the_folder_is_trusted_and_nobody_else_and_not_where_others_write() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "root is needed in CI");
            eprintln!("left out: only root can give folders away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let run = place.path();
        fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = run.join("cellway");
        let trusted = |uid| is_run_by_in(run, &folder.join("cellway.sock"), uid);
        assert!(!trusted(SERVICE), "there is no folder");
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(SERVICE), Some(SERVICE)).unwrap();
        assert!(trusted(SERVICE) && !trusted(SERVICE + 1));
        let elsewhere = folder.join("below/cellway.sock");
        assert!(!is_run_by_in(run, &elsewhere, SERVICE));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!trusted(SERVICE), "others may replace the socket");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&folder, run.join("cellway-other")).unwrap();
        assert!(!is_run_by_in(run, &run.join("cellway-other/cellway.sock"), SERVICE), "a link is no folder");
        chown(run, Some(SERVICE), None).unwrap();
        assert!(!trusted(SERVICE), "the folder above is not root's");
    }
}
