//! A window that a child process shares: pages are replaced in both, and neither changes what is leaving.

mod lan;

use endpoint::window::{PAGE, Seat};
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, Overlap, Window};
use lan::{Held, Lan, circuit};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
const PAGES: usize = 16;
const OCTETS: usize = PAGES * PAGE;
/// Threads of the child that write all the time.
const WRITERS: u64 = 2;
/// One test at a time makes children: they inherit what others have open.
static FORKS: Mutex<()> = Mutex::new(());

fn endpoint(lan: &Lan, host: &str) -> (Endpoint, ChannelId) {
    let config = EndpointConfig {
        host: host.into(),
        path: DataPath::SingleCopy,
        geometry: Geometry { buffers: 16, ..Geometry::default() },
        events: Events::default(),
        send_buffers: Some(0),
    };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(100), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

fn alone() -> MutexGuard<'static, ()> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// Words and a copy of the child's view, in memory that both processes map.
#[derive(Clone, Copy)]
struct Board(&'static [AtomicU64]);

const MAY_WRITE: usize = 0;
const RESTING: usize = 1;
const WRITTEN: usize = 2;
const ASKED: usize = 3;
const ANSWERED: usize = 4;
const QUESTION: usize = 5;
const COPY_AT: usize = PAGE / 8;

/// Questions: to copy the view, to end, or to write 0xdd at the octet that the number is less this.
const COPY: u64 = 0;
const END: u64 = 1;
const WRITE: u64 = 2;

impl Board {
    fn new() -> Self {
        let octets = PAGE + OCTETS;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, which stays as long as the process.
        let words = unsafe {
            let start = rustix::mm::mmap_anonymous(std::ptr::null_mut(), octets, access, MapFlags::SHARED).unwrap();
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), octets / 8)
        };
        Board(words)
    }

    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }

    fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    /// Has the child do something.
    fn ask(&self, question: u64) {
        self.set(QUESTION, question);
        let number = self.0[ASKED].fetch_add(1, Ordering::AcqRel) + 1;
        self.wait("the child does not answer", || self.get(ANSWERED) == number);
    }

    /// What the child sees.
    fn seen(&self) -> Vec<u8> {
        self.ask(COPY);
        let words = &self.0[COPY_AT..COPY_AT + OCTETS / 8];
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    fn rest(&self) {
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
            match board.get(QUESTION) {
                COPY => {
                    let mut octets = vec![0; OCTETS];
                    view.read(0, &mut octets);
                    for (word, octets) in board.0[COPY_AT..].iter().zip(octets.as_chunks::<8>().0) {
                        word.store(u64::from_ne_bytes(*octets), Ordering::Relaxed);
                    }
                }
                END => return board.set(ANSWERED, done),
                at => view.write((at - WRITE) as usize, &[0xdd]),
            }
            board.set(ANSWERED, done);
        }
    });
}

/// A child that has the window; `None` where the machine forbids faults.
fn share(window: &Window, board: Board) -> Option<libc::pid_t> {
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
fn wait(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process's, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    status
}

fn seen(window: &Window) -> Vec<u8> {
    let mut octets = vec![0; OCTETS];
    window.read(0, &mut octets);
    octets
}

#[test]
fn a_read_after_a_send_replaces_pages_in_all_processes_that_share_them_and_copies_none() {
    let _alone = alone();
    let lan = Lan::new();
    let ((mut a, to_b), (mut b, _)) = (endpoint(&lan, "alpha"), endpoint(&lan, "beta"));
    let window = a.window(OCTETS, 4 * OCTETS).unwrap();
    let boards = [Board::new(), Board::new()];
    let Some(first) = share(&window, boards[0]) else { return };
    let processes = [first, share(&window, boards[1]).unwrap()];
    for round in 0..4 {
        let (sdu, news) = (pattern(OCTETS - 1, round), pattern(OCTETS, !round));
        window.write(0, &sdu);
        assert!(boards.iter().all(|board| board.seen()[..sdu.len()] == sdu), "what the parent writes its children see");
        let (held, before) = (Held::new(&lan.engine), window.counts());
        a.send_window(to_b, &window, 0, sdu.len()).unwrap();
        assert_eq!(window.overwrite(0, &news), OCTETS);
        let counts = window.counts();
        assert_eq!((counts.replaced - before.replaced, counts.copied - before.copied), (PAGES as u64, 0));
        assert!(boards.iter().all(|board| board.seen() == news) && seen(&window) == news, "all see what was read");
        // What was replaced is writable at once, everywhere, with no copy.
        boards[usize::from(round) % 2].ask(WRITE + 5 * PAGE as u64);
        assert_eq!((seen(&window)[5 * PAGE], window.counts().copied), (0xdd, before.copied));
        // Sent again as it is now: a child's write gets a copy of its page, for all.
        let second = seen(&window);
        a.send_window(to_b, &window, 0, OCTETS - 1).unwrap();
        boards[1].ask(WRITE + 7 * PAGE as u64 + 3);
        assert_eq!((seen(&window)[7 * PAGE + 3], window.counts().copied), (0xdd, before.copied + 1));
        assert!(boards.iter().all(|board| board.seen() == seen(&window)));
        assert!(held.release(), "somebody has waited");
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == second[..OCTETS - 1]);
        assert!(a.wait_sent(PATIENCE).unwrap());
        assert_eq!(window.leaving(), 0);
    }
    boards.iter().for_each(|board| board.ask(END));
    assert_eq!((processes.map(wait), window.failures()), ([0, 0], 0));
    // They have gone; nobody waits for them.
    window.write(0, &[1; OCTETS]);
    a.send_window(to_b, &window, 0, OCTETS - 1).unwrap();
    assert_eq!(window.overwrite(0, &[2; OCTETS]), OCTETS);
    assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == [1; OCTETS - 1]);
    assert_eq!(window.failures(), 0);
}

/// Threads of a child that write all the time, and a parent that reads into what it has sent.
#[test]
fn what_leaves_is_what_was_there_at_the_send_though_a_child_writes_as_fast_as_it_can_and_is_killed() {
    let _alone = alone();
    let lan = Lan::new();
    let ((mut a, to_b), (mut b, _)) = (endpoint(&lan, "alpha"), endpoint(&lan, "beta"));
    let window = a.window(OCTETS, 4 * OCTETS).unwrap();
    let board = Board::new();
    let Some(process) = share(&window, board) else { return };
    // Until writers have met pages that were leaving often enough; when they run is the system's to say.
    let enough = |round: usize| round >= 80 && (window.counts().copied > 20 || round >= 3000);
    for round in (0..).take_while(|round| !enough(*round)) {
        board.rest();
        let octets = [300, PAGE, 9188, OCTETS - 4096][round % 4];
        let at = [0, 5, 4090, PAGE][round / 4 % 4];
        let sdu = pattern(octets, round as u8);
        let mut done = 0;
        while done < octets {
            done += window.overwrite(at + done, &sdu[done..]);
        }
        if round % 8 == 0 {
            assert!(board.seen() == seen(&window), "round {round}: the views differ");
        }
        a.send_window(to_b, &window, at, octets).unwrap();
        board.set(MAY_WRITE, 1);
        if round % 2 == 1 {
            window.overwrite(0, &pattern(OCTETS, !round as u8));
        }
        let got = b.receive(PATIENCE).unwrap().expect("an SDU").to_vec();
        assert!(got == sdu, "round {round}: {octets} octets at {at} changed on their way");
    }
    let counts = window.counts();
    assert!(counts.copied > 20 && counts.replaced > 40, "{counts:?}, {} writes", board.get(WRITTEN));
    // It is killed while it writes, with an SDU on its way.
    board.rest();
    let sdu = pattern(OCTETS - 1, 77);
    window.write(0, &sdu);
    let held = Held::new(&lan.engine);
    a.send_window(to_b, &window, 0, sdu.len()).unwrap();
    board.set(MAY_WRITE, 1);
    // SAFETY: a child of this process's.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    assert_eq!(wait(process), libc::SIGKILL);
    assert_eq!(window.overwrite(0, &[3; OCTETS]), OCTETS);
    assert!(held.release(), "somebody has waited");
    assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
    assert!(seen(&window) == [3; OCTETS]);
    assert_eq!(window.failures(), 0);
}

#[test]
fn a_seat_that_no_child_takes_is_given_up() {
    let _alone = alone();
    let lan = Lan::new();
    let (mut a, _) = endpoint(&lan, "alpha");
    let window = a.window(PAGE, PAGE).unwrap();
    if window.overlap() == Overlap::Block {
        return;
    }
    drop(window.seat().unwrap());
    let seat = window.seat().unwrap();
    // SAFETY: the child ends at once.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: ends the process at once; nothing of the parent's is run.
        unsafe { libc::_exit(0) }
    }
    assert_eq!(wait(process), 0);
    assert_eq!(seat.keep(), Err(rustix::io::Errno::PIPE));
    window.write(0, &[1; PAGE]);
    assert_eq!(window.failures(), 0);
}
