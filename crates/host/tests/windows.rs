//! Windows: SDUs leave from pages that their application goes on writing, and arrive in pages that become the application's.

use crate::lan::{Held, Lan, circuit};
use endpoint::window::{PAGE, Window};
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, Overlap};
use net::Carries;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
/// A best-effort circuit.
const FAST: u16 = 100;

/// Its buffers are for receiving, but where SDUs are to come to windows.
fn endpoint(lan: &Lan, host: &str, vci: u16, to_windows: bool) -> (Endpoint, ChannelId) {
    let geometry = Geometry { buffers: 16, ..Geometry::default() };
    let (events, path) = (Events::default(), DataPath::SingleCopy);
    let config = EndpointConfig {
        host: host.into(),
        path,
        geometry,
        events,
        send_buffers: Some(if to_windows { 16 } else { 0 }),
    };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(vci), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

fn received(b: &mut Endpoint) -> Vec<u8> {
    b.receive(PATIENCE).unwrap().expect("an SDU").to_vec()
}

/// Where faults are forbidden sending blocks, and nothing here is about that.
fn copies(window: &Window) -> bool {
    if window.overlap() == Overlap::Block {
        assert!(window.why_not().unwrap().contains("userfaultfd"));
        println!("not tested: {}", window.why_not().unwrap());
    }
    window.overlap() == Overlap::CopyOnWrite
}

#[test]
fn sending_returns_at_once_and_a_write_gets_a_copy_of_its_page_without_waiting_for_the_sdu_to_leave() {
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, false);
    let (mut b, _) = endpoint(&lan, "beta", FAST, false);
    let window = a.window(4 * PAGE, 8 * PAGE).unwrap();
    let sdu = pattern(2 * PAGE, 1);
    window.write(100, &sdu);
    if !copies(&window) {
        a.send_window(to_b, &window, 100, sdu.len()).unwrap();
        return assert!(received(&mut b) == sdu);
    }
    // Whoever waits for the SDU to leave waits for an engine that does nothing.
    let held = Held::new(&lan.engine);
    a.send_window(to_b, &window, 100, sdu.len()).unwrap();
    window.write(100, &[0xee; 10]);
    window.write(PAGE + 7, &[0xee; 10]);
    assert_eq!(window.leaving(), 1);
    let mut now = [0; 10];
    window.read(PAGE + 7, &mut now);
    assert_eq!((now, window.counts().copied), ([0xee; 10], 2));
    assert!(held.release(), "somebody has waited");
    assert!(received(&mut b) == sdu);
    assert!(a.wait_sent(PATIENCE).unwrap());
    assert_eq!(window.leaving(), 0);
    // Unlocked: nothing is copied any more.
    window.write(0, &[1; 4 * PAGE]);
    assert_eq!((window.counts().copied, window.failures()), (2, 0));
}

/// Threads that write all the time: from when `send_window` has returned, anything may stand in the window.
#[test]
fn what_leaves_is_what_was_there_at_the_send_though_threads_write_as_fast_as_they_can() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = Lan::carrying(carries);
        let (mut a, to_b) = endpoint(&lan, "alpha", FAST, false);
        let (mut b, _) = endpoint(&lan, "beta", FAST, false);
        let window = a.window(24 * PAGE, 72 * PAGE).unwrap();
        if !copies(&window) {
            return;
        }
        let (may_write, resting, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (window, may_write, resting, done, written) = (&window, &may_write, &resting, &done, &written);
                scope.spawn(move || {
                    let octets = window.octets();
                    let mut at = thread as usize * 1009;
                    while !done.load(Ordering::Acquire) {
                        if may_write.load(Ordering::Acquire) {
                            at = (at + 4099) % octets.len();
                            octets[at].store(0xee, Ordering::Relaxed);
                            written.fetch_add(1, Ordering::Relaxed);
                        } else {
                            resting.fetch_or(1 << thread, Ordering::AcqRel);
                            std::thread::yield_now();
                        }
                    }
                });
            }
            // Until writers have met pages that were leaving often enough; when they run is the system's to say.
            let enough = |rounds: usize| rounds >= 120 && (window.counts().copied > 20 || rounds >= 50_000);
            for round in (0..).take_while(|rounds| !enough(*rounds)).map(|rounds| rounds as u8) {
                may_write.store(false, Ordering::Release);
                resting.store(0, Ordering::Release);
                while resting.load(Ordering::Acquire) != 0b111 {
                    std::thread::yield_now();
                }
                let octets = [300, PAGE, 9188, 65_535][usize::from(round) % 4];
                let at = [0, 5, 4090, PAGE][usize::from(round / 4) % 4];
                let sdu = pattern(octets, round);
                match round % 3 {
                    0 => window.write(at, &sdu),
                    // Where there is no frame for a page, some of it is written once an SDU has left.
                    _ => {
                        let mut done = 0;
                        while done < octets {
                            done += window.overwrite(at + done, &sdu[done..]);
                        }
                    }
                }
                a.send_window(to_b, &window, at, octets).unwrap();
                may_write.store(true, Ordering::Release);
                let got = received(&mut b);
                assert!(got == sdu, "round {round}: {octets} octets at {at} changed on their way");
            }
            done.store(true, Ordering::Release);
        });
        let counts = window.counts();
        assert!(counts.copied > 20 && counts.protected > 300, "{counts:?}, {written:?} writes");
        assert_eq!(window.failures(), 0);
    }
}

#[test]
fn a_child_that_writes_and_pages_that_are_unmapped_do_not_change_what_leaves() {
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, false);
    let (mut b, _) = endpoint(&lan, "beta", FAST, false);
    let window = a.window(4 * PAGE, 4 * PAGE).unwrap();
    if !copies(&window) {
        return;
    }
    let sdu = pattern(3 * PAGE, 9);
    window.write(0, &sdu);
    let held = Held::new(&lan.engine);
    a.send_window(to_b, &window, 0, sdu.len()).unwrap();
    let place = window.octets().as_ptr().cast_mut().cast::<u8>();
    // SAFETY: the child does nothing but one store and the end of its process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the memory is not the child's: this is the attack, and the system ends the child.
        unsafe {
            place.write_volatile(0xee);
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: a child of this process's, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "status {status:#x}");
    // SAFETY: a page of the window that nobody touches from here on.
    unsafe { rustix::mm::munmap(place.add(2 * PAGE).cast(), PAGE) }.unwrap();
    assert!(held.release(), "somebody has waited");
    assert!(received(&mut b) == sdu);
}

#[test]
fn a_read_after_a_send_replaces_pages_in_every_view_and_the_sdu_leaves_as_it_was() {
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, false);
    let (mut b, _) = endpoint(&lan, "beta", FAST, false);
    let window = a.window(4 * PAGE, 8 * PAGE).unwrap();
    let view = window.view().unwrap();
    let (sdu, news) = (pattern(4 * PAGE, 2), pattern(4 * PAGE - 10, 3));
    window.write(0, &sdu);
    // Where faults are forbidden the send itself waits for the host.
    let held = copies(&window).then(|| Held::new(&lan.engine));
    a.send_window(to_b, &window, 0, sdu.len()).unwrap();
    assert_eq!(window.overwrite(0, &news), news.len());
    let mut seen = vec![0; 4 * PAGE];
    view.read(0, &mut seen);
    assert!(seen[..news.len()] == news && seen[news.len()..] == sdu[news.len()..], "the other view");
    window.read(0, &mut seen);
    assert!(seen[..news.len()] == news);
    assert!(held.is_none_or(Held::release), "somebody has waited");
    assert!(received(&mut b) == sdu);
    if copies(&window) {
        let counts = window.counts();
        assert_eq!((counts.replaced, counts.copied), (3, 1), "three pages whole, one in part");
    }
}

#[test]
fn whole_pages_of_what_is_received_are_mapped_where_it_lies_as_it_is_wanted() {
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, true);
    let (mut b, _) = endpoint(&lan, "beta", FAST, true);
    // Frames in a row for each SDU, though those of the window come to lie all over.
    let window = b.window(40 * PAGE, 400 * PAGE).unwrap();
    let told = window.alignment();
    let (mut mapped, mut rounds) = (0, 0);
    for round in 0..150usize {
        let headers = [0, 36, 5000][round % 3];
        let octets = headers + 100 + round * 7919 % (60_000 - headers);
        let at = if round % 5 < 3 { round % 24 * PAGE } else { round * 611 % (24 * PAGE) };
        let sdu = pattern(octets, round as u8);
        if b.post_window(&window, octets, headers).is_err() {
            continue;
        }
        rounds += 1;
        a.send_blocking(to_b, &sdu).unwrap();
        let delivered = b.receive(PATIENCE).unwrap().expect("an SDU").into_window(&window, headers, at).unwrap();
        let whole = told.whole(at as u64, octets - headers);
        assert_eq!((delivered.octets, delivered.pages * PAGE), (octets - headers, whole), "round {round}");
        let mut seen = vec![0; octets - headers];
        window.read(at, &mut seen);
        assert!(seen == sdu[headers..], "round {round}");
        mapped += delivered.pages;
    }
    assert!(rounds > 100 && mapped > 200, "{mapped} pages in {rounds} rounds");
    assert_eq!(window.failures(), 0);
}

/// Pages in a row, which came in a row: one system call for all of them, and not one for each SDU.
#[test]
fn sdus_of_a_batch_leave_and_arrive_as_they_were_and_are_mapped_together() {
    const SDUS: usize = 8;
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, true);
    let (mut b, _) = endpoint(&lan, "beta", FAST, true);
    let windows = [a.window(SDUS * PAGE, SDUS * PAGE).unwrap(), b.window(SDUS * PAGE, 4 * SDUS * PAGE).unwrap()];
    let places: Vec<(usize, usize)> = (0..SDUS).map(|n| (n * PAGE, PAGE)).collect();
    for (round, batched) in [true, false, true].into_iter().enumerate() {
        let data = pattern(SDUS * PAGE, round as u8 + 1);
        windows[0].write(0, &data);
        places.iter().for_each(|_| b.post_window(&windows[1], PAGE, 0).unwrap());
        assert_eq!(a.send_windows(to_b, &windows[0], &places).unwrap(), SDUS);
        windows[0].fill(0, SDUS * PAGE, 0xee);
        let before = windows[1].mappings();
        let batch = batched.then(|| windows[1].batch());
        for (at, _) in &places {
            let given = b.receive(PATIENCE).unwrap().expect("an SDU").into_window(&windows[1], 0, *at).unwrap();
            assert_eq!((given.pages, given.copied), (1, 0));
        }
        assert_eq!(windows[1].mappings() - before, if batched { 0 } else { SDUS as u64 });
        drop(batch);
        assert_eq!(windows[1].mappings() - before, if batched { 1 } else { SDUS as u64 });
        let mut seen = vec![0; SDUS * PAGE];
        windows[1].read(0, &mut seen);
        assert!(seen == data, "round {round}");
        assert!(a.wait_sent(PATIENCE).unwrap());
    }
    // What does not fit sends nothing; what lies outside ends the batch before it.
    assert!(a.send_windows(to_b, &windows[0], &[(SDUS * PAGE, 1)]).is_err());
    b.post_window(&windows[1], PAGE, 0).unwrap();
    assert_eq!(a.send_windows(to_b, &windows[0], &[(0, 100), (SDUS * PAGE, 1), (0, 100)]).unwrap(), 1);
    assert_eq!(received(&mut b), [0xee; 100]);
    assert!(b.receive(Some(Duration::from_millis(50))).unwrap().is_none());
    assert!(windows.iter().all(|window| window.failures() == 0));
}

/// Both at once: what was mapped is sent on, and its frames come and go.
#[test]
fn an_echo_of_pages_comes_back_as_it_was_for_many_times() {
    let lan = Lan::new();
    let (mut a, to_b) = endpoint(&lan, "alpha", FAST, true);
    let (mut b, to_a) = endpoint(&lan, "beta", FAST, true);
    let windows = [a.window(16 * PAGE, 48 * PAGE).unwrap(), b.window(16 * PAGE, 48 * PAGE).unwrap()];
    let mut sdu = pattern(4 * PAGE + 100, 7);
    windows[0].write(0, &sdu);
    for round in 0..200usize {
        let to = round % 8 * PAGE;
        b.post_window(&windows[1], sdu.len(), 0).unwrap();
        a.send_window(to_b, &windows[0], (round + 7) % 8 * PAGE * usize::from(round > 0), sdu.len()).unwrap();
        let got = b.receive(PATIENCE).unwrap().expect("an SDU").into_window(&windows[1], 0, to).unwrap();
        assert_eq!(got.pages, 4);
        windows[1].write(to + round % sdu.len(), &[round as u8]);
        sdu[round % (4 * PAGE + 100)] = round as u8;
        a.post_window(&windows[0], sdu.len(), 0).unwrap();
        b.send_window(to_a, &windows[1], to, sdu.len()).unwrap();
        let got = a.receive(PATIENCE).unwrap().expect("an SDU").into_window(&windows[0], 0, to).unwrap();
        assert_eq!(got.pages, 4);
        let mut seen = vec![0; sdu.len()];
        windows[0].read(to, &mut seen);
        assert!(seen == sdu, "round {round}");
    }
    assert!(windows.iter().all(|window| window.failures() == 0 && window.counts().mapped == 800));
}
