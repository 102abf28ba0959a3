//! A window that another program reads: one that was not forked from its owner. It sees what its owner's pages are, and changes nothing.

use crate::family::{OCTETS, PAGES, PATIENCE, alone, endpoint, endpoint_to_windows, pattern, seen};
use crate::lan::{self, Held, Lan};
use endpoint::Overlap;
use endpoint::seqpacket::Packets;
use endpoint::window::{PAGE, ReaderView, Window};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fs::read_to_string;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Says that this program is to be the reader.
const READER: &str = "CELLWAY_TEST_READER";

/// What the reader is asked, with two numbers: for the sum of its pages' octets, whether it gets its pages to write, to store.
const SUM: u8 = 0;
const MAKE_WRITABLE: u8 = 1;
const STORE: u8 = 2;

/// FNV-1a.
fn sum(octets: &[u8]) -> u64 {
    octets.iter().fold(0xcbf2_9ce4_8422_2325, |sum, octet| (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3))
}

/// The other program: this one, executed anew. Its standard input is a socket of packets. Where nobody has asked for a reader, nothing is
/// tested here.
#[test]
fn reader() {
    if std::env::var_os(READER).is_none() {
        return;
    }
    let socket = Packets::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let view = ReaderView::take(&socket).unwrap().unwrap();
    assert!(!view.is_empty());
    while let Ok(Some((question, _))) = socket.receive::<u8>() {
        let answer = match question {
            SUM => {
                let mut octets = vec![0; view.len()];
                view.read(0, &mut octets);
                sum(&octets)
            }
            MAKE_WRITABLE => {
                let maps = read_to_string("/proc/self/maps").unwrap();
                assert!(
                    maps.lines().filter(|line| line.contains("memfd:")).all(|line| line.contains(" r--s ")),
                    "{maps}"
                );
                let access = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
                // SAFETY: pages of the view; nothing else depends on whether they can be written.
                let made = unsafe { rustix::mm::mprotect(view.as_ptr().cast_mut().cast(), PAGE, access) };
                u64::from(made != Err(rustix::io::Errno::ACCESS))
            }
            _ => {
                // SAFETY: none: the store ends the process, which is what is tested.
                unsafe { view.as_ptr().cast_mut().write_volatile(1) };
                1
            }
        };
        socket.send(&answer, &[]).unwrap();
    }
}

/// A program that reads a window.
struct Reader {
    program: Child,
    socket: Packets,
}

impl Reader {
    fn start() -> Self {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, theirs) = rustix::net::socketpair(kind.0, kind.1, kind.2, None).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "readers::reader"]).env(READER, "1").stdin(Stdio::from(theirs)).stdout(Stdio::null());
        Reader { program: command.spawn().unwrap(), socket: Packets::from(ours) }
    }

    fn of(window: &Window) -> Self {
        let reader = Reader::start();
        window.admit_reader(&reader.socket).unwrap();
        reader
    }

    fn ask(&self, question: u8) -> u64 {
        self.socket.send(&question, &[]).unwrap();
        self.socket.receive().unwrap().unwrap().0
    }

    /// It sees what the owner does.
    fn sees(&self, window: &Window) -> bool {
        self.ask(SUM) == sum(&seen(window))
    }

    /// Ends it; how it ended.
    fn end(mut self) -> std::process::ExitStatus {
        drop(self.socket);
        self.program.wait().unwrap()
    }
}

#[test]
fn another_program_sees_pages_as_they_are_replaced_and_copied_and_received_and_writes_none() {
    let _alone = alone();
    let lan = Lan::new();
    let ((mut a, to_b), (mut b, to_a)) = (endpoint_to_windows(&lan, "alpha"), endpoint(&lan, "beta"));
    let window = a.window(OCTETS, 8 * OCTETS).unwrap();
    let readers = [Reader::of(&window), Reader::of(&window)];
    let see = |what: &str| assert!(readers.iter().all(|reader| reader.sees(&window)), "{what}");
    for round in 0..8u8 {
        let (sdu, news) = (pattern(OCTETS - 1, round), pattern(OCTETS, !round));
        window.write(0, &sdu);
        see("what the owner writes");
        if window.overlap() == Overlap::CopyOnWrite {
            let held = Held::new(&lan.engine);
            let before = window.counts();
            a.send_window(to_b, &window, 0, sdu.len()).unwrap();
            window.write(3 * PAGE + 5, &[!sdu[3 * PAGE + 5]]);
            assert_eq!(window.counts().copied - before.copied, 1);
            see("a copy in place of a page that is leaving");
            assert_eq!(window.overwrite(0, &news), OCTETS);
            assert_eq!(window.counts().replaced - before.replaced, PAGES as u64 - 1);
            see("pages that were replaced");
            assert!(held.release(), "somebody has waited");
        } else {
            a.send_window(to_b, &window, 0, sdu.len()).unwrap();
            assert_eq!(window.overwrite(0, &news), OCTETS);
        }
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
        assert!(seen(&window) == news);
        see("what was read");
        // Frames in a row may be lacking at last.
        if a.post_window(&window, 3 * PAGE + 100, 0).is_ok() {
            let sdu = pattern(3 * PAGE + 100, round ^ 0x55);
            b.send_blocking(to_a, &sdu).unwrap();
            let given = a.receive(PATIENCE).unwrap().expect("an SDU").into_window(&window, 0, 2 * PAGE).unwrap();
            assert_eq!((given.octets, given.pages), (sdu.len(), 3));
            assert!(seen(&window)[2 * PAGE..][..sdu.len()] == sdu);
            see("pages that were received");
        }
    }
    assert!(window.counts().mapped > 0);
    assert_eq!(readers[0].ask(MAKE_WRITABLE), 0, "a reader could write");
    let [first, mut second] = readers;
    // A store ends who made it, and changes nothing.
    let before = seen(&window);
    first.socket.send(&STORE, &[]).unwrap();
    assert_eq!(first.end().signal(), Some(libc::SIGSEGV));
    assert!(seen(&window) == before && second.sees(&window));
    // One that is killed is waited for no longer.
    second.program.kill().unwrap();
    assert_eq!(second.end().signal(), Some(libc::SIGKILL));
    let sdu = pattern(OCTETS - 1, 99);
    window.write(0, &sdu);
    a.send_window(to_b, &window, 0, sdu.len()).unwrap();
    assert_eq!(window.overwrite(0, &[7; OCTETS]), OCTETS);
    assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
    assert_eq!(window.failures(), 0);
    // A reader that closes its socket ends in order.
    let third = Reader::of(&window);
    assert!(third.sees(&window) && third.end().success());
}

#[test]
fn a_program_that_does_not_take_the_window_is_given_up_and_one_that_gets_something_else_says_so() {
    let _alone = alone();
    let lan = Lan::new();
    let (mut a, _) = endpoint(&lan, "alpha");
    let window = a.window(PAGE, PAGE).unwrap();
    let pair = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Packets::from(ours), Packets::from(theirs))
    };
    let (ours, theirs) = pair();
    drop(theirs);
    assert_eq!(window.admit_reader(&ours), Err(rustix::io::Errno::PIPE));
    let (ours, theirs) = pair();
    assert!(ReaderView::take(&theirs).unwrap().is_none());
    ours.send(&"no window", &[]).unwrap();
    assert_eq!(ReaderView::take(&theirs).unwrap_err(), rustix::io::Errno::PROTO);
    // Memory that is not sealed against shrinking would end its reader.
    let loose: OwnedFd = rustix::fs::memfd_create("loose", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&loose, 2 * PAGE as u64).unwrap();
    let admission = serde_json::json!({ "octets": PAGE, "frames": 2 * PAGE });
    ours.send(&admission, &[loose.as_fd(), loose.as_fd(), loose.as_fd()]).unwrap();
    assert_eq!(ReaderView::take(&theirs).unwrap_err(), rustix::io::Errno::INVAL);
    window.write(0, &[1; PAGE]);
    assert_eq!((window.failures(), seen_first(&window)), (0, 1));
}

fn socket_pair() -> (Packets, Packets) {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, theirs) = rustix::net::socketpair(kind.0, kind.1, kind.2, None).unwrap();
    (Packets::from(ours), Packets::from(theirs))
}

/// A reader made by hand, which maps nothing.
struct Liar {
    orders: OwnedFd,
    reports: OwnedFd,
}

/// The order that says that all pages are there.
const READY: u32 = 8;
const MOVES: u32 = 1;

impl Liar {
    /// Takes the window that comes over `socket`, and answers orders well until all pages are there, that one as it is told.
    fn take(socket: &Packets, ready: u32) -> Self {
        let (_, passed) = socket.receive::<serde_json::Value>().unwrap().unwrap();
        let [_, orders, reports] = <[OwnedFd; 3]>::try_from(passed).unwrap();
        let liar = Liar { orders, reports };
        assert!(liar.answer(0, 0));
        while let Some([number, kind]) = liar.next_order() {
            if kind & READY != 0 {
                liar.answer(number, ready);
                break;
            }
            assert!(liar.answer(number, 0));
        }
        liar
    }

    /// The number and the kind of the next order.
    fn next_order(&self) -> Option<[u32; 2]> {
        let mut octets = [0; 20];
        let all = rustix::net::recv(&self.orders, &mut octets[..], RecvFlags::empty()).ok()?.1;
        (all == 20).then(|| [0, 1].map(|at| u32::from_ne_bytes(octets.as_chunks().0[at])))
    }

    fn answer(&self, number: u32, code: u32) -> bool {
        let octets = [number.to_ne_bytes(), code.to_ne_bytes()].concat();
        rustix::net::send(&self.orders, &octets, SendFlags::NOSIGNAL).is_ok()
    }
}

#[test]
fn a_reader_that_answers_nonsense_or_ahead_or_reports_is_forgotten_and_stops_and_copies_nothing() {
    let _alone = alone();
    let lan = Lan::new();
    let ((mut a, to_b), (mut b, _)) = (endpoint(&lan, "alpha"), endpoint(&lan, "beta"));
    let window = a.window(OCTETS, 8 * OCTETS).unwrap();
    let mut ends = Vec::new();
    let mut admit = |behaves: fn(Liar)| {
        let (ours, theirs) = socket_pair();
        let reader = std::thread::spawn(move || behaves(Liar::take(&theirs, 0)));
        window.admit_reader(&ours).unwrap();
        ends.push(reader);
    };
    // No number of an error.
    admit(|liar| {
        let [number, _] = liar.next_order().unwrap();
        assert!(liar.answer(number, 5000) && liar.next_order().is_none());
    });
    // To another order.
    admit(|liar| {
        let [number, _] = liar.next_order().unwrap();
        assert!(liar.answer(number.wrapping_sub(1), 0) && liar.next_order().is_none());
    });
    // Ahead of orders, of which it takes none.
    admit(|liar| {
        let mut number = liar.next_order().unwrap()[0];
        while liar.answer(number, 0) {
            number = number.wrapping_add(1);
        }
    });
    // A page in a row that leaves.
    admit(|liar| {
        for page in (0..PAGES as u32).cycle() {
            let reported =
                rustix::net::send(&liar.reports, &page.to_ne_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            assert!(reported.is_err(), "it takes reports");
            if page == 0 && !liar.next_order().is_some_and(|[number, _]| liar.answer(number, 0)) {
                return;
            }
        }
    });
    // One that means well.
    let honest = Reader::of(&window);
    for round in 0..500u32 {
        let sdu = pattern(2 * PAGE, round as u8);
        let at = round as usize % (PAGES - 2) * PAGE;
        assert_eq!(window.overwrite(at, &sdu), sdu.len());
        a.send_window(to_b, &window, at, sdu.len()).unwrap();
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
    }
    assert!(honest.sees(&window) && honest.end().success());
    assert_eq!((window.failures(), window.counts().copied), (0, 0));
    drop(window);
    ends.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn descriptors_that_take_long_to_close_do_not_come_from_a_reader() {
    let _alone = alone();
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha");
    // Found with an answer; or only when the window ends.
    for answers in [true, false] {
        let window = a.window(OCTETS, OCTETS).unwrap();
        let (ours, theirs) = socket_pair();
        let reader = std::thread::spawn(move || Liar::take(&theirs, 0));
        window.admit_reader(&ours).unwrap();
        let liar = reader.join().unwrap();
        let (slow, far) = lan::lingering();
        let octets = [1u32.to_ne_bytes(), [0; 4]].concat();
        lan::pass(&liar.orders, &octets, slow);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        assert_eq!(rustix::net::send(&liar.reports, &octets, flags), Err(Errno::PIPE), "then nor can descriptors");
        let begin = Instant::now();
        if answers {
            assert_eq!(window.overwrite(0, &[1; PAGE]), PAGE);
            a.send_window(to_b, &window, 0, PAGE).unwrap();
            assert_eq!(window.overwrite(0, &[2; PAGE]), PAGE);
            assert_eq!(window.failures(), 0);
        }
        drop(window);
        assert!(begin.elapsed() < Duration::from_secs(5), "it has taken {:?}", begin.elapsed());
        drop(far);
    }
}

#[test]
fn places_at_a_window_are_free_again_once_those_who_had_them_have_gone() {
    let _alone = alone();
    let lan = Lan::new();
    let (mut a, _) = endpoint(&lan, "alpha");
    let window = a.window(PAGE, PAGE).unwrap();
    for round in 0..20 {
        window.write(0, &[round; PAGE]);
        // One that is not ready in the end, one that ends, and a view here.
        let (ours, theirs) = socket_pair();
        let liar = std::thread::spawn(move || Liar::take(&theirs, 5000));
        assert_eq!(window.admit_reader(&ours), Err(Errno::PROTO), "round {round}");
        let _liar = liar.join().unwrap();
        let (ours, theirs) = socket_pair();
        let reader = std::thread::spawn(move || ReaderView::take(&theirs).unwrap().unwrap());
        window.admit_reader(&ours).unwrap();
        let (reader, view, mut octets) = (reader.join().unwrap(), window.view().unwrap(), [[0; PAGE]; 2]);
        reader.read(0, &mut octets[0]);
        view.read(0, &mut octets[1]);
        assert_eq!(octets, [[round; PAGE]; 2]);
        drop(reader);
        // The window itself and this view have two of eight.
        assert_eq!(std::iter::from_fn(|| window.view()).take(10).collect::<Vec<_>>().len(), 6);
    }
    assert_eq!(window.failures(), 0);
}

#[test]
fn a_reader_takes_no_window_of_which_pages_are_missing() {
    // The owner is made by hand: it says that all pages are there after so many of them, in this order.
    for (mapped, taken) in [(&[][..], false), (&[0][..], false), (&[1, 1][..], false), (&[1, 0][..], true)] {
        let (ours, theirs) = socket_pair();
        let reader = std::thread::spawn(move || ReaderView::take(&theirs).map(|view| view.is_some()));
        let memory = rustix::fs::memfd_create("frames", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&memory, 4 * PAGE as u64).unwrap();
        rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::SHRINK).unwrap();
        let pair = || rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let ((orders, their_orders), (_reports, their_reports)) = (pair().unwrap(), pair().unwrap());
        let admission = serde_json::json!({ "octets": 2 * PAGE, "frames": 4 * PAGE });
        ours.send(&admission, &[memory.as_fd(), their_orders.as_fd(), their_reports.as_fd()]).unwrap();
        drop((their_orders, their_reports));
        let orders_of_pages = mapped.iter().map(|page| [MOVES, *page, 1, page + 2]);
        for (number, order) in (1u32..).zip(orders_of_pages.chain([[READY, 0, 0, 0]])) {
            let octets: Vec<u8> = std::iter::once(number).chain(order).flat_map(u32::to_ne_bytes).collect();
            rustix::net::send(&orders, &octets, SendFlags::NOSIGNAL).unwrap();
        }
        let said = reader.join().unwrap();
        assert_eq!(said, if taken { Ok(true) } else { Err(Errno::PROTO) }, "{mapped:?}");
    }
}

fn seen_first(window: &Window) -> u8 {
    let mut octets = [0];
    window.read(0, &mut octets);
    octets[0]
}
