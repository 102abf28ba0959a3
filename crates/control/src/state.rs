//! The state folder: what commands added, removed and took down, kept for a restart.
//!
//! `state.json` has a line with the octets and the check sum (SHA-256) of what follows, and JSON. It is written beside, flushed to
//! the disk, and renamed; what was there before becomes `state.1.json`. A file that is torn is noticed by its first line, and the
//! one before is used.

use crate::sources::commands::Kept;
use anyhow::{Context as _, Result, bail};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &str = "cellway-state 1";
/// More than any network's; what is larger is not ours.
const MAX_OCTETS: u64 = 256 << 20;

/// The folder.
#[derive(Debug)]
pub struct StateFolder {
    folder: PathBuf,
    last: Option<Kept>,
}

impl StateFolder {
    /// Uses a folder, and makes it, for its user alone, if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> Result<Self> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("the state folder {}", folder.display()))?;
        Ok(StateFolder { folder: folder.to_path_buf(), last: None })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What was kept; of a torn file, what the one before has. `None` without either.
    pub fn read(&self) -> Option<Kept> {
        for name in ["state.json", "state.1.json"] {
            match read(&self.path(name)) {
                Ok(Some(kept)) => return Some(kept),
                Ok(None) => {}
                Err(e) => tracing::warn!("{}: {e:#}; using the one before", self.path(name).display()),
            }
        }
        None
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
        let (new, current) = (self.path("state.new"), self.path("state.json"));
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        writeln!(file, "{MAGIC} {} {}", body.len(), hex(&Sha256::digest(&body)))?;
        file.write_all(&body)?;
        file.sync_all()?;
        // Only a whole file takes the place of the one before.
        if let Ok(Some(_)) = read(&current) {
            fs::rename(&current, self.path("state.1.json"))?;
        }
        fs::rename(&new, &current)?;
        File::open(&self.folder)?.sync_all()?;
        self.last = Some(kept.clone());
        Ok(())
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn read(path: &Path) -> Result<Option<Kept>> {
    let octets = match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?.len(),
    };
    if octets > MAX_OCTETS {
        bail!("{octets} octets are no state of a network");
    }
    let all = fs::read(path)?;
    let end = all.iter().position(|octet| *octet == b'\n').context("torn: its first line is not whole")?;
    let (head, body) = (String::from_utf8_lossy(&all[..end]).into_owned(), &all[end + 1..]);
    if head != format!("{MAGIC} {} {}", body.len(), hex(&Sha256::digest(body))) {
        bail!("torn, or of another version: its first line does not fit what follows");
    }
    Ok(Some(serde_json::from_slice(body)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::ObjectId;

    fn kept(n: usize) -> Kept {
        let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
        Kept { down, ..Kept::default() }
    }

    #[test]
    fn what_was_kept_last_is_read_and_of_a_torn_file_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = StateFolder::open(&folder.path().join("s")).unwrap();
        assert_eq!(state.read(), None);
        for n in 0..4 {
            state.write(&kept(n)).unwrap();
            assert_eq!(state.read(), Some(kept(n)));
        }
        let path = state.path("state.json");
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(state.read(), Some(kept(2)), "torn after {cut} octets");
        }
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&path, &flipped).unwrap();
        assert_eq!(state.read(), Some(kept(2)));
        // A torn one does not take the place of the whole one before it.
        state.write(&kept(9)).unwrap();
        assert_eq!(state.read(), Some(kept(9)));
        fs::write(&path, b"").unwrap();
        assert_eq!(state.read(), Some(kept(2)));
    }
}
