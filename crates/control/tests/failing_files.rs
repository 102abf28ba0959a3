//! The calls that write the state folder, failing: dead after so many, without room, or standing still.

use control::state::files::{FileLayer, Files, SystemFiles};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// What becomes of the next calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What the system makes of them.
    Works,
    /// So many are carried out, of a last write the first half; then the process is as good as dead.
    DiesAfter(usize),
    /// All are refused.
    Refuses(Errno),
    /// All wait.
    Stalls,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Calls since the mode was set.
    calls: usize,
    /// Files with octets that a power cut would take.
    unsynced: BTreeSet<u64>,
}

/// The table.
#[derive(Debug)]
pub struct Failing {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a call is to do.
enum Turn {
    Whole,
    Half,
}

impl Failing {
    pub fn new() -> Arc<Self> {
        let state = State { mode: Mode::Works, calls: 0, unsynced: BTreeSet::new() };
        Arc::new(Failing { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub fn files(self: &Arc<Self>) -> Files {
        Files(self.clone())
    }

    pub fn set(&self, mode: Mode) {
        let mut state = self.state.lock().unwrap();
        (state.mode, state.calls) = (mode, 0);
        self.changed.notify_all();
    }

    /// Calls since the mode was set.
    pub fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }

    /// Takes the octets that were not on the disk.
    pub fn cut_power(&self, folder: &Path) {
        let unsynced = std::mem::take(&mut self.state.lock().unwrap().unsynced);
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap()) {
            if unsynced.contains(&file.metadata().unwrap().ino()) {
                File::options().write(true).open(file.path()).unwrap().set_len(0).unwrap();
            }
        }
    }

    fn turn(&self) -> io::Result<Turn> {
        let state = self.state.lock().unwrap();
        let mut state = self.changed.wait_while(state, |state| state.mode == Mode::Stalls).unwrap();
        state.calls += 1;
        match state.mode {
            Mode::DiesAfter(calls) if state.calls == calls + 1 => Ok(Turn::Half),
            Mode::DiesAfter(calls) if state.calls > calls => Err(Errno::IO.into()),
            Mode::Refuses(errno) => Err(errno.into()),
            _ => Ok(Turn::Whole),
        }
    }

    /// A call that is carried out or not.
    fn whole(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.turn()? {
            Turn::Whole => call(),
            Turn::Half => Err(Errno::IO.into()),
        }
    }
}

impl FileLayer for Failing {
    fn open(&self, folder: &OwnedFd, name: &str, flags: OFlags) -> anyhow::Result<Option<File>> {
        if flags.contains(OFlags::CREATE) {
            self.whole(|| Ok(()))?;
        }
        SystemFiles.open(folder, name, flags)
    }

    fn write(&self, file: &File, octets: &[u8]) -> io::Result<()> {
        let turn = self.turn()?;
        self.state.lock().unwrap().unsynced.insert(fstat(file)?.st_ino);
        match turn {
            Turn::Whole => SystemFiles.write(file, octets),
            Turn::Half => {
                SystemFiles.write(file, &octets[..octets.len() / 2])?;
                Err(Errno::IO.into())
            }
        }
    }

    fn cut(&self, file: &File, octets: u64) -> io::Result<()> {
        self.whole(|| SystemFiles.cut(file, octets))
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.whole(|| SystemFiles.sync(file))?;
        self.state.lock().unwrap().unsynced.remove(&fstat(file)?.st_ino);
        Ok(())
    }

    fn rename(&self, folder: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
        self.whole(|| SystemFiles.rename(folder, from, to))
    }

    fn remove(&self, folder: &OwnedFd, name: &str) -> io::Result<()> {
        self.whole(|| SystemFiles.remove(folder, name))
    }

    fn sync_folder(&self, folder: &OwnedFd) -> io::Result<()> {
        self.whole(|| SystemFiles.sync_folder(folder))
    }
}
