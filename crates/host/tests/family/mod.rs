//! Processes that share a window: a parent, its children, and what they agree on.
#![allow(dead_code)] // Each test program uses a part.

use crate::lan::{Lan, circuit};
use endpoint::window::{PAGE, Seat};
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, Overlap, Window};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
pub const PAGES: usize = 16;
pub const OCTETS: usize = PAGES * PAGE;
const BUFFERS: u32 = 16;
/// Threads of the child that write all the time.
const WRITERS: u64 = 2;
/// One test at a time makes children: they inherit what others have open.
static FORKS: Mutex<()> = Mutex::new(());

/// An endpoint that sends from windows; its buffers are to receive into.
pub fn endpoint(lan: &Lan, host: &str) -> (Endpoint, ChannelId) {
    endpoint_with(lan, host, 0)
}

/// One that receives into windows: it has no buffers to receive into.
pub fn endpoint_to_windows(lan: &Lan, host: &str) -> (Endpoint, ChannelId) {
    endpoint_with(lan, host, BUFFERS)
}

fn endpoint_with(lan: &Lan, host: &str, send_buffers: u32) -> (Endpoint, ChannelId) {
    let config = EndpointConfig {
        host: host.into(),
        path: DataPath::SingleCopy,
        geometry: Geometry { buffers: BUFFERS, ..Geometry::default() },
        events: Events::default(),
        send_buffers: Some(send_buffers),
    };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(100), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

pub fn alone() -> MutexGuard<'static, ()> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// Words and a copy of the child's view, in memory that both processes map.
#[derive(Clone, Copy)]
pub struct Board(&'static [AtomicU64]);

/// Words of it: whether the child's writers may write; which of them rest; how often they wrote; questions so far, the last one, and
/// how many were answered; whether writers write nothing but the ends of pages.
pub const MAY_WRITE: usize = 0;
const RESTING: usize = 1;
pub const WRITTEN: usize = 2;
const ASKED: usize = 3;
const ANSWERED: usize = 4;
const QUESTION: usize = 5;
const ONLY_ENDS: usize = 6;
const COPY_AT: usize = PAGE / 8;

/// Octets at the end of each page that writers keep to, if they are told so.
pub const END_OCTETS: usize = 8;

/// Questions: to copy part of the view, to end, to write an octet. The kind, an argument of 32 bits from bit 8 on, another one above.
const COPY: u64 = 0;
const END: u64 = 1;
const WRITE: u64 = 2;

impl Board {
    pub fn new() -> Self {
        let octets = PAGE + OCTETS;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, which stays as long as the process.
        let words = unsafe {
            let start = rustix::mm::mmap_anonymous(std::ptr::null_mut(), octets, access, MapFlags::SHARED).unwrap();
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), octets / 8)
        };
        Board(words)
    }

    /// As new, for another child.
    pub fn clear(&self) {
        self.0[..COPY_AT].iter().for_each(|word| word.store(0, Ordering::Release));
    }

    pub fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    pub fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }

    fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    fn ask(&self, kind: u64, at: usize, value: usize) {
        self.set(QUESTION, kind | (at as u64) << 8 | (value as u64) << 40);
        let number = self.0[ASKED].fetch_add(1, Ordering::AcqRel) + 1;
        self.wait("the child does not answer", || self.get(ANSWERED) == number);
    }

    /// Has the child write an octet.
    pub fn write(&self, at: usize, value: u8) {
        self.ask(WRITE, at, value.into());
    }

    /// Has the child end.
    pub fn end(&self) {
        self.ask(END, 0, 0);
    }

    /// What the child sees.
    pub fn seen(&self) -> Vec<u8> {
        self.part(0, OCTETS)
    }

    /// What the child sees of a part, whole words of it.
    pub fn part(&self, at: usize, octets: usize) -> Vec<u8> {
        self.ask(COPY, at, octets);
        let words = &self.0[COPY_AT..COPY_AT + octets / 8];
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    /// The child's writers write the ends of pages, now and then.
    pub fn write_ends(&self) {
        self.set(ONLY_ENDS, 1);
        self.set(MAY_WRITE, 1);
    }

    pub fn rest(&self) {
        self.set(MAY_WRITE, 0);
        self.set(RESTING, 0);
        self.wait("the child's writers do not rest", || self.get(RESTING) == (1 << WRITERS) - 1);
    }
}

fn child(seat: Seat<'_>, board: Board) {
    let view = seat.take().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let view = &view;
            scope.spawn(move || {
                let mut at = writer as usize * 1009;
                while board.get(QUESTION) != END {
                    if board.get(MAY_WRITE) == 1 {
                        at = (at + 4099) % OCTETS;
                        let only_ends = board.get(ONLY_ENDS) == 1;
                        if only_ends {
                            at = at / PAGE * PAGE + PAGE - END_OCTETS + at % END_OCTETS;
                            std::thread::sleep(Duration::from_micros(50));
                        }
                        view.octets()[at].store(0xee, Ordering::Relaxed);
                        board.0[WRITTEN].fetch_add(1, Ordering::Relaxed);
                    } else {
                        board.0[RESTING].fetch_or(1 << writer, Ordering::AcqRel);
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut done = 0;
        loop {
            board.wait("no question came", || board.get(ASKED) > done);
            done += 1;
            let question = board.get(QUESTION);
            let (kind, at, value) = (question & 0xff, (question >> 8) as u32 as usize, (question >> 40) as usize);
            match kind {
                COPY => {
                    let mut octets = vec![0; value];
                    view.read(at, &mut octets);
                    for (word, octets) in board.0[COPY_AT..].iter().zip(octets.as_chunks::<8>().0) {
                        word.store(u64::from_ne_bytes(*octets), Ordering::Relaxed);
                    }
                }
                END => return board.set(ANSWERED, done),
                _ => view.write(at, &[value as u8]),
            }
            board.set(ANSWERED, done);
        }
    });
}

/// A child that has the window; `None` where the machine forbids faults.
pub fn share(window: &Window, board: Board) -> Option<libc::pid_t> {
    if window.overlap() == Overlap::Block {
        assert_eq!(window.seat().unwrap_err(), rustix::io::Errno::OPNOTSUPP);
        println!("not tested: {}", window.why_not().unwrap());
        return None;
    }
    let seat = window.seat().unwrap();
    // SAFETY: the child uses what it takes itself, allocates by an allocator that `fork` leaves usable, and ends without a return.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: has the system end the child with the thread that made it, should a test fail.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child(seat, board)));
        // SAFETY: ends the process at once; nothing of the parent's is run.
        unsafe { libc::_exit(i32::from(ended.is_err())) }
    }
    seat.keep().unwrap();
    Some(process)
}

/// How a child ended.
pub fn wait(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process's, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    status
}

/// What the parent sees.
pub fn seen(window: &Window) -> Vec<u8> {
    let mut octets = vec![0; OCTETS];
    window.read(0, &mut octets);
    octets
}
