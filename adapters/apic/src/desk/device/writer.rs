//! A file that a thread of its own writes: the network's thread hands buffers over and never waits.
//!
//! Each buffer is a record. The file has whole records only, as many as its bound has room for.

use super::{DeviceError, file};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Buffers that go round.
const BUFFERS: usize = 16;
/// Octets of a file that a device writes at most, where its description says nothing else.
pub const MAX_RECORDED_OCTETS: u64 = 1 << 30;

/// See the module's head.
#[derive(Debug)]
pub struct Writer {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    failures: Arc<AtomicU64>,
    /// Octets of the file, with those that are to be written.
    octets: Arc<AtomicU64>,
    most: u64,
    /// Buffers that nothing was free for, or that the file has no room for.
    pub(super) lost: u64,
}

impl Writer {
    /// Makes the file if it is not there, and begins to write. What is in it stays until there is a record.
    ///
    /// # Errors
    /// The file or the thread cannot be made.
    pub fn create(path: &Path) -> Result<Self, DeviceError> {
        let mut file = file::create(path)?;
        let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
        let (back, empty) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            // As many as it holds.
            let _ = back.try_send(Vec::new());
        }
        let [failures, octets] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (failed, size) = (failures.clone(), octets.clone());
        let write = move || {
            let mut end = 0;
            while let Ok(record) = to_write.recv() {
                if end == 0 {
                    cut(&mut file, end);
                }
                if file.write_all(&record).is_ok() {
                    end += record.len() as u64;
                } else {
                    failed.fetch_add(1, Ordering::Relaxed);
                    size.fetch_sub(record.len() as u64, Ordering::Relaxed);
                    cut(&mut file, end);
                }
                let _ = back.try_send(record);
            }
        };
        std::thread::Builder::new().name("device file".into()).spawn(write).map_err(file::fault(path))?;
        Ok(Writer { full, empty, failures, octets, most: MAX_RECORDED_OCTETS, lost: 0 })
    }

    /// The same with another bound of the file's length.
    #[must_use]
    pub fn at_most(self, octets: u64) -> Self {
        Writer { most: octets, ..self }
    }

    /// Hands octets over; false, and counted, if all buffers wait for the disk or the file is full.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> bool {
        let octets = parts.iter().map(|part| part.len()).sum();
        self.hand_over(octets, |buffer| {
            buffer.clear();
            parts.iter().for_each(|part| buffer.extend_from_slice(part));
        })
    }

    /// The same with octets that need not be copied: they become others, which mean nothing.
    pub(super) fn exchange(&mut self, octets: &mut Vec<u8>) -> bool {
        self.hand_over(octets.len(), |buffer| core::mem::swap(buffer, octets))
    }

    fn hand_over(&mut self, octets: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let octets = octets as u64;
        let fits = self.octets.load(Ordering::Relaxed).saturating_add(octets) <= self.most;
        let taken = fits.then(|| self.empty.try_recv().ok()).flatten().and_then(|mut buffer| {
            fill(&mut buffer);
            // Before the thread may find that it is not written.
            self.octets.fetch_add(octets, Ordering::Relaxed);
            match self.full.try_send(buffer) {
                Ok(()) => Some(()),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
            }
        });
        self.lost += u64::from(taken.is_none());
        taken.is_some()
    }

    /// Buffers that the system did not write.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Takes off what stands behind the last whole record, as what a write that failed has left; of what is no file on a disk, nothing.
fn cut(file: &mut File, end: u64) {
    if file.set_len(end).is_ok() {
        let _ = file.seek(SeekFrom::Start(end));
    }
}
