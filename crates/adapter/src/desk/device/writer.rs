//! A file that a thread of its own writes: the network's thread hands buffers over and never waits.

use super::DeviceError;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Buffers that go round.
const BUFFERS: usize = 16;

/// See the module's head.
#[derive(Debug)]
pub struct Writer {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    failures: Arc<AtomicU64>,
    /// Buffers that nothing was free for.
    pub(super) lost: u64,
}

impl Writer {
    /// Makes the file, or empties it, and begins to write.
    ///
    /// # Errors
    /// The file or the thread cannot be made.
    pub fn create(path: &Path) -> Result<Self, DeviceError> {
        let fault = |cause| DeviceError::File { path: path.to_owned(), cause };
        let mut file = std::fs::File::create(path).map_err(fault)?;
        let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
        let (back, empty) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            // As many as it holds.
            let _ = back.try_send(Vec::new());
        }
        let failures = Arc::new(AtomicU64::new(0));
        let counted = failures.clone();
        let write = move || {
            while let Ok(octets) = to_write.recv() {
                if file.write_all(&octets).is_err() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let _ = back.try_send(octets);
            }
        };
        std::thread::Builder::new().name("device file".into()).spawn(write).map_err(fault)?;
        Ok(Writer { full, empty, failures, lost: 0 })
    }

    /// Hands octets over; false, and counted, if all buffers wait for the disk.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> bool {
        let taken = self.empty.try_recv().ok().and_then(|mut buffer| {
            buffer.clear();
            parts.iter().for_each(|part| buffer.extend_from_slice(part));
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
