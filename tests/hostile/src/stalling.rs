//! A file whose close takes as long as its maker likes: of a file system of its own (FUSE), whose server answers everything but
//! FLUSH, which the kernel sends at each close and waits for.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Octets of a request's head and of an answer's (fuse_kernel.h, `fuse_in_header` and `fuse_out_header`).
const HEAD: usize = 40;
const ANSWER: usize = 16;
/// Octets of `fuse_attr`.
const ATTRIBUTES: usize = 88;
/// Requests, by their numbers there.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// `ENOSYS`.
const UNKNOWN: i32 = -38;
const FILE: u64 = 2;

/// See the module's head. At its end all closes end.
#[derive(Debug)]
pub struct Stalling {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    flushes: AtomicUsize,
    over: AtomicBool,
}

impl Stalling {
    /// `None`, with the reason on standard error, where this machine lets this user mount no such file system.
    pub fn mount() -> Option<Self> {
        let device = match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(device) => device,
            Err(error) => {
                eprintln!("skipped: /dev/fuse: {error}");
                return None;
            }
        };
        let folder = tempfile::tempdir().ok()?;
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other";
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", options, "stalling"]).arg(folder.path());
        let mounted = mount.stdin(device.try_clone().ok()?).output().ok()?;
        if !mounted.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&mounted.stderr).trim_end());
            return None;
        }
        let shared = Arc::<Shared>::default();
        let server = Arc::clone(&shared);
        let server = Some(std::thread::spawn(move || serve(device, &server)));
        Some(Stalling { folder, shared, server })
    }

    /// A new descriptor of the file. To close it takes as long as this lives.
    ///
    /// # Panics
    /// If the system does not open it.
    pub fn open(&self) -> OwnedFd {
        let path = self.folder.path().join("file");
        rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("a file that stalls")
    }

    /// Closes that have begun.
    pub fn closing(&self) -> usize {
        self.shared.flushes.load(Ordering::Relaxed)
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // With the device the connection to it ends, and whatever waits for an answer has failed.
        let _ = self.server.take().map(JoinHandle::join);
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

/// Whether there is a request.
fn asked(device: &File) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    matches!(poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&wait)), Ok(1..))
}

fn serve(mut device: File, shared: &Shared) {
    let mut request = vec![0; 1 << 17];
    while !shared.over.load(Ordering::Relaxed) {
        if !asked(&device) {
            continue;
        }
        let Ok(octets) = device.read(&mut request) else { return };
        let Some(head) = request.get(..HEAD.min(octets)).filter(|head| head.len() == HEAD) else { continue };
        let opcode = u32::from_ne_bytes(head[4..8].try_into().expect("four octets"));
        let (error, answer) = match opcode {
            FLUSH => {
                shared.flushes.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            INIT => (0, greeting()),
            LOOKUP => (0, entry()),
            GETATTR => {
                let node = u64::from_ne_bytes(head[16..24].try_into().expect("eight octets"));
                (0, [&[0; 16][..], &attributes(node)].concat())
            }
            OPEN => (0, vec![0; 16]),
            _ => (UNKNOWN, Vec::new()),
        };
        let length = (ANSWER + answer.len()) as u32;
        let all = [&length.to_ne_bytes()[..], &i32::to_ne_bytes(error), &head[8..16], &answer].concat();
        let _ = device.write_all(&all);
    }
}

/// `fuse_init_out` of version 7.31, with writes of a page.
fn greeting() -> Vec<u8> {
    let mut out = [7u32, 31, 0, 0].map(u32::to_ne_bytes).concat();
    out.extend([0; 4]);
    out.extend(4096u32.to_ne_bytes());
    out.resize(64, 0);
    out
}

/// `fuse_entry_out` of the only file.
fn entry() -> Vec<u8> {
    let mut out = FILE.to_ne_bytes().to_vec();
    out.resize(40, 0);
    out.extend(attributes(FILE));
    out
}

/// `fuse_attr` of a node: the file, or the folder.
fn attributes(node: u64) -> [u8; ATTRIBUTES] {
    let mode: u32 = if node == FILE { 0o100_666 } else { 0o040_777 };
    let mut out = [0; ATTRIBUTES];
    out[..8].copy_from_slice(&node.to_ne_bytes());
    out[60..64].copy_from_slice(&mode.to_ne_bytes());
    out[64..68].copy_from_slice(&1u32.to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::Stalling;
    use std::time::{Duration, Instant};

    #[test]
    fn a_close_takes_as_long_as_the_file_system_is_there() {
        let Some(stalling) = Stalling::mount() else { return };
        let fd = stalling.open();
        let closing = std::thread::spawn(move || drop(fd));
        let begin = Instant::now();
        while stalling.closing() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(5), "no close has begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!closing.is_finished());
        drop(stalling);
        closing.join().unwrap();
    }
}
