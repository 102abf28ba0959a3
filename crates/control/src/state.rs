//! The state folder: what commands added, removed and took down, kept for a restart, and the log of changes.
//!
//! `state.json` has a line with the version, the octets and the check sum (SHA-256) of what follows, and JSON. It is
//! written beside, flushed to the disk, and renamed; what was there before becomes `state.1.json`. A file that is torn
//! is noticed by its first line, and the one before is used. What cannot be used is never overwritten: it is renamed to
//! `NAME.set-aside-N`.
//!
//! One daemon has the folder, as long as it holds the lock of the file `lock`: the system releases it however that
//! daemon ends.

use crate::folder;
use crate::sources::commands::Kept;
use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const MAGIC: &str = "cellway-state";
const VERSION: &str = "1";
/// More than any network's; what is larger is not ours.
const MAX_OCTETS: u64 = 256 << 20;

const LOCK: &str = "lock";
const LOG: &str = "audit.jsonl";
const NEW: &str = "state.new";
const CURRENT: &str = "state.json";
const BEFORE: &str = "state.1.json";

/// The folder.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    folder: OwnedFd,
    last: Option<Kept>,
    _lock: File,
}

/// What a file of the state has.
enum Found {
    Nothing,
    Whole(Kept),
    Torn(String),
    /// It is as it was written, by another version of this program.
    Foreign(String),
}

impl StateFolder {
    /// Takes a folder, and makes it, for its user alone, if it is not there.
    ///
    /// # Errors
    /// It cannot be made, others may write in it, a file in it is none that this user alone may write, or another
    /// daemon has it.
    pub fn open(folder: &Path) -> Result<Self> {
        let opened = || -> Result<Self> {
            let found = folder::prepare(folder, "choose another folder with --state")?;
            // To be flushed, it has to be open for more than its path.
            let found = openat(found, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let lock = lock(&found)?;
            let state = StateFolder { path: folder.to_path_buf(), folder: found, last: None, _lock: lock };
            state.remove_new()?;
            Ok(state)
        };
        opened().with_context(|| format!("the state folder {}", folder.display()))
    }

    /// The log of changes, to be appended to.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn log(&self) -> Result<File> {
        self.file(LOG, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)?.with_context(|| self.said(LOG))
    }

    /// What was kept; of a torn file, what the one before has. `None` without either. `reset`: what cannot be used is
    /// set aside.
    ///
    /// # Errors
    /// What was kept cannot be used.
    pub fn read(&self, reset: bool) -> Result<Option<Kept>> {
        let (current, before) = (self.look(CURRENT)?, self.look(BEFORE)?);
        let why = match (&current, &before) {
            (Found::Whole(_), Found::Torn(why) | Found::Foreign(why)) => {
                let aside = self.set_aside(BEFORE)?;
                tracing::warn!("{} {why}; it is {aside} now", self.said(BEFORE));
                None
            }
            (Found::Nothing, Found::Whole(_)) => {
                tracing::warn!("{} is not there; using the one before", self.said(CURRENT));
                None
            }
            (Found::Whole(_), _) | (Found::Nothing, Found::Nothing) => None,
            (Found::Torn(why), Found::Whole(_)) => {
                tracing::warn!("{} {why}; using the one before", self.said(CURRENT));
                None
            }
            (Found::Nothing, Found::Torn(why) | Found::Foreign(why)) => Some(format!("{} {why}", self.said(BEFORE))),
            (Found::Foreign(why), _) | (Found::Torn(why), Found::Nothing) => {
                Some(format!("{} {why}", self.said(CURRENT)))
            }
            (Found::Torn(why), Found::Torn(also) | Found::Foreign(also)) => {
                Some(format!("{} {why}, and {BEFORE} {also}", self.said(CURRENT)))
            }
        };
        let Some(why) = why else {
            return Ok([current, before].into_iter().find_map(|found| match found {
                Found::Whole(kept) => Some(kept),
                _ => None,
            }));
        };
        if !reset {
            bail!(
                "{why}: start the program that wrote it, or bring it back from a copy, or start from the description \
                 alone with --state-reset, which sets it aside"
            );
        }
        tracing::warn!("{why}; starting from the description alone");
        for (name, found) in [(CURRENT, current), (BEFORE, before)] {
            if !matches!(found, Found::Nothing) {
                // Before the line: without a log its parts are not evaluated.
                let aside = self.set_aside(name)?;
                tracing::warn!("{} is {aside} now", self.said(name));
            }
        }
        Ok(None)
    }

    /// Keeps something, if it is not what was kept last.
    ///
    /// # Errors
    /// The system refuses it; what was kept before still is.
    pub fn write(&mut self, kept: &Kept) -> Result<()> {
        if self.last.as_ref() == Some(kept) {
            return Ok(());
        }
        let body = serde_json::to_vec(kept)?;
        self.remove_new()?;
        let new = self.file(NEW, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
        let mut new = new.with_context(|| self.said(NEW))?;
        writeln!(new, "{}", head(&body))?;
        new.write_all(&body)?;
        new.sync_all()?;
        match self.look(CURRENT)? {
            Found::Nothing => {}
            // Only a whole file takes the place of the one before.
            Found::Whole(_) => renameat(&self.folder, CURRENT, &self.folder, BEFORE)?,
            Found::Torn(_) | Found::Foreign(_) => drop(self.set_aside(CURRENT)?),
        }
        renameat(&self.folder, NEW, &self.folder, CURRENT)?;
        rustix::fs::fsync(&self.folder)?;
        self.last = Some(kept.clone());
        Ok(())
    }

    /// What a file is called in messages.
    fn said(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn file(&self, name: &str, flags: OFlags) -> Result<Option<File>> {
        folder::file_in(&self.folder, name, flags).with_context(|| self.said(name))
    }

    /// Removes what a write that failed has left: a new one is never written into a file that is there.
    fn remove_new(&self) -> Result<()> {
        match unlinkat(&self.folder, NEW, AtFlags::empty()) {
            Err(e) if e != Errno::NOENT => Err(anyhow!(e).context(format!("removing {}", self.said(NEW)))),
            _ => Ok(()),
        }
    }

    fn look(&self, name: &str) -> Result<Found> {
        let Some(file) = self.file(name, OFlags::RDONLY)? else { return Ok(Found::Nothing) };
        let mut all = Vec::new();
        file.take(MAX_OCTETS + 1).read_to_end(&mut all).with_context(|| self.said(name))?;
        Ok(found(&all))
    }

    /// Gives a file a name that stays. Nobody else makes names here, by the lock and the folder's rights.
    fn set_aside(&self, name: &str) -> Result<String> {
        let free = |aside: &String| match statat(&self.folder, aside, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Some(Ok(aside.clone())),
            Err(e) => Some(Err(e)),
            Ok(_) => None,
        };
        let moved = || -> rustix::io::Result<String> {
            let mut names = (1u64..).map(|n| format!("{name}.set-aside-{n}"));
            let aside = names.find_map(|aside| free(&aside)).unwrap_or(Err(Errno::EXIST))?;
            renameat(&self.folder, name, &self.folder, &aside)?;
            rustix::fs::fsync(&self.folder)?;
            Ok(aside)
        };
        moved().with_context(|| format!("setting {} aside", self.said(name)))
    }
}

/// The lock, for as long as the file is open; who has it is written in the file.
fn lock(folder: &OwnedFd) -> Result<File> {
    let file = folder::file_in(folder, LOCK, OFlags::CREATE | OFlags::RDWR).context(LOCK)?.context(LOCK)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let _ = (&file).take(32).read_to_string(&mut text);
            let pid = text.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
            bail!("another daemon{pid} has it: stop that one, or choose another folder with --state");
        }
        Err(e) => return Err(anyhow!(e).context(LOCK)),
    }
    // Of one length, it takes the place of the one before on a full disk, too; without it the lock is one as well.
    let _ = file.write_all_at(format!("{:10}\n", std::process::id()).as_bytes(), 0);
    Ok(file)
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The first line.
fn head(body: &[u8]) -> String {
    format!("{MAGIC} {VERSION} {} {}", body.len(), hex(&Sha256::digest(body)))
}

fn found(all: &[u8]) -> Found {
    if all.len() as u64 > MAX_OCTETS {
        return Found::Torn(format!("is damaged: more than {MAX_OCTETS} octets are no state of a network"));
    }
    let mut halves = all.splitn(2, |octet| *octet == b'\n');
    let first = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let mut words = first.split(' ');
    if let (Some(MAGIC), Some(version), Some(_)) = (words.next(), words.next(), words.next())
        && version != VERSION
    {
        return Found::Foreign(format!("is of version {version}, and this program reads version {VERSION}"));
    }
    let Some(body) = halves.next() else { return Found::Torn("is torn: its first line is not whole".into()) };
    if first != head(body) {
        return Found::Torn("is torn: its first line does not fit what follows".into());
    }
    match serde_json::from_slice(body) {
        Ok(kept) => Found::Whole(kept),
        Err(e) => Found::Foreign(format!("is of another version of this program: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::ObjectId;
    use std::fs;

    fn kept(n: usize) -> Kept {
        let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
        Kept { down, ..Kept::default() }
    }

    /// A folder with these two files, if any.
    fn folder_of(current: Option<&[u8]>, before: Option<&[u8]>) -> (tempfile::TempDir, StateFolder) {
        let folder = tempfile::tempdir().unwrap();
        for (name, octets) in [(CURRENT, current), (BEFORE, before)] {
            octets.iter().for_each(|octets| fs::write(folder.path().join(name), octets).unwrap());
        }
        let state = StateFolder::open(folder.path()).unwrap();
        (folder, state)
    }

    fn whole(n: usize) -> Vec<u8> {
        let body = serde_json::to_vec(&kept(n)).unwrap();
        [format!("{}\n", head(&body)).as_bytes(), &body].concat()
    }

    fn set_aside(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<_> = names.filter(|name| name.contains("set-aside")).collect();
        all.sort();
        all.into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
    }

    #[test]
    fn what_was_kept_last_is_read_and_of_a_torn_file_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = StateFolder::open(&folder.path().join("s")).unwrap();
        let read = |state: &StateFolder| state.read(false).unwrap();
        assert_eq!(read(&state), None);
        for n in 0..4 {
            state.write(&kept(n)).unwrap();
            assert_eq!(read(&state), Some(kept(n)));
        }
        let path = state.path.join(CURRENT);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read(&state), Some(kept(2)), "torn after {cut} octets");
        }
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&path, &flipped).unwrap();
        assert_eq!(read(&state), Some(kept(2)));
        // A torn one does not take the place of the whole one before it, and stays.
        state.write(&kept(9)).unwrap();
        assert_eq!(read(&state), Some(kept(9)));
        assert_eq!(set_aside(&state.path), [("state.json.set-aside-1".to_owned(), flipped)]);
        fs::write(&path, b"").unwrap();
        assert_eq!(read(&state), Some(kept(2)));
    }

    #[test]
    fn what_cannot_be_used_is_refused_and_left_alone_or_set_aside_under_names_that_stay() {
        let (torn, good, newer) = (&whole(3)[..20], whole(4), b"cellway-state 2 3 abc\n{}".as_slice());
        let body = br#"{"added":[],"removed":[],"down":[],"more":1}"#;
        let unknown = [format!("{}\n", head(body)).as_bytes(), body].concat();
        let cases = [
            (Some(torn), Some(torn), "torn"),
            (Some(b"".as_slice()), None, "torn"),
            (None, Some(torn), "torn"),
            (Some(newer), None, "version 2"),
            (Some(newer), Some(good.as_slice()), "version 2"),
            (Some(torn), Some(newer), "version 2"),
            (None, Some(newer), "version 2"),
            (Some(unknown.as_slice()), Some(good.as_slice()), "unknown field `more`"),
        ];
        for (current, before, why) in cases {
            let (folder, mut state) = folder_of(current, before);
            for _ in 0..2 {
                let said = state.read(false).unwrap_err().to_string();
                let file = folder.path().join(if current.is_some() { CURRENT } else { BEFORE });
                assert!(said.starts_with(&*file.to_string_lossy()) && said.contains(why), "{said}");
                assert!(said.contains("--state-reset"), "{said}");
            }
            let there = |name| fs::read(folder.path().join(name)).ok();
            assert_eq!((there(CURRENT).as_deref(), there(BEFORE).as_deref()), (current, before), "{why}");
            // Set aside, it outlives later writes and later resets.
            assert_eq!(state.read(true).unwrap(), None);
            (0..4).for_each(|n| state.write(&kept(n)).unwrap());
            let mut first = Vec::new();
            first.extend(before.map(|octets| (format!("{BEFORE}.set-aside-1"), octets.to_vec())));
            first.extend(current.map(|octets| (format!("{CURRENT}.set-aside-1"), octets.to_vec())));
            assert_eq!(set_aside(folder.path()), first, "{why}");
            [CURRENT, BEFORE].iter().for_each(|name| fs::write(folder.path().join(name), "again").unwrap());
            assert_eq!(state.read(true).unwrap(), None);
            let all = set_aside(folder.path());
            assert!(all.len() == first.len() + 2 && first.iter().all(|one| all.contains(one)), "{all:?}");
        }
    }

    #[test]
    fn a_reset_leaves_alone_what_can_be_used() {
        let (torn, good) = (&whole(3)[..20], whole(4));
        for (current, before) in [(&*good, torn), (torn, &*good), (&*good, &*good)] {
            let (folder, state) = folder_of(Some(current), Some(before));
            assert_eq!(state.read(true).unwrap(), Some(kept(4)));
            let stays = set_aside(folder.path());
            assert!(stays.iter().all(|(_, octets)| octets == torn), "{stays:?}");
        }
    }

    #[test]
    fn one_daemon_has_the_folder_until_it_gives_it_up() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateFolder::open(folder.path()).unwrap();
        let refused = format!("{:#}", StateFolder::open(folder.path()).unwrap_err());
        assert!(refused.contains(&format!("(process {})", std::process::id())), "{refused}");
        assert!(refused.contains("--state"), "{refused}");
        drop(first);
        StateFolder::open(folder.path()).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "as it was").unwrap();
        let of = folder.path().join("state");
        let mut state = StateFolder::open(&of).unwrap();
        std::os::unix::fs::symlink(&precious, of.join(NEW)).unwrap();
        state.write(&kept(1)).unwrap();
        fs::hard_link(&precious, of.join(NEW)).unwrap();
        state.write(&kept(2)).unwrap();
        assert_eq!(state.read(false).unwrap(), Some(kept(2)));
        std::os::unix::fs::symlink(&precious, of.join(LOG)).unwrap();
        assert!(format!("{:#}", state.log().unwrap_err()).contains("symbolic link"));
        fs::remove_file(of.join(LOG)).unwrap();
        fs::hard_link(&precious, of.join(LOG)).unwrap();
        assert!(format!("{:#}", state.log().unwrap_err()).contains("hard link"));
        assert_eq!(fs::read(&precious).unwrap(), b"as it was");
    }
}
