//! A window that a child process shares: pages are replaced in both, and neither changes what is leaving.

use crate::family::{Board, MAY_WRITE, OCTETS, PAGES, PATIENCE, WRITTEN, alone, endpoint, pattern, seen, share, wait};
use crate::lan::{Held, Lan};
use endpoint::Overlap;
use endpoint::window::PAGE;

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
        boards[usize::from(round) % 2].write(5 * PAGE, 0xdd);
        assert_eq!((seen(&window)[5 * PAGE], window.counts().copied), (0xdd, before.copied));
        // Sent again as it is now: a child's write gets a copy of its page, for all.
        let second = seen(&window);
        a.send_window(to_b, &window, 0, OCTETS - 1).unwrap();
        boards[1].write(7 * PAGE + 3, 0xdd);
        assert_eq!((seen(&window)[7 * PAGE + 3], window.counts().copied), (0xdd, before.copied + 1));
        assert!(boards.iter().all(|board| board.seen() == seen(&window)));
        assert!(held.release(), "somebody has waited");
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == sdu);
        assert!(b.receive(PATIENCE).unwrap().unwrap()[..] == second[..OCTETS - 1]);
        assert!(a.wait_sent(PATIENCE).unwrap());
        assert_eq!(window.leaving(), 0);
    }
    boards.iter().for_each(|board| board.end());
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
    // Until a child and the parent have both met pages that were leaving, often enough; when they run is the
    // system's to say.
    let enough = |round: usize| {
        let counts = window.counts();
        round >= 80 && (counts.copied > 20 && counts.replaced > 40 || round >= 3000)
    };
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
        // Each fourth round the SDU stays on its way until the parent has read into it: that it meets the
        // parent's read is then no matter of the engine's pace.
        let held = (round % 4 == 3).then(|| Held::new(&lan.engine));
        a.send_window(to_b, &window, at, octets).unwrap();
        board.set(MAY_WRITE, 1);
        if round % 2 == 1 {
            window.overwrite(0, &pattern(OCTETS, !round as u8));
        }
        assert!(held.is_none_or(|held| held.release()), "round {round}: somebody has waited");
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
