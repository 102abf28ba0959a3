//! Both sides of a direct circuit in one process: messages, guarantees, blocks that come back, ends, and a peer that
//! writes nonsense into all that it may write.

use super::layout::{CONSUMED_LINE, DirectGeometry, INLINE, RING_LINE, WAKES_WORD};
use super::ring::WriteLines;
use super::{Changed, Direct, DirectConfig, Gone, Guarantee, Spin};
use crate::client::SendError;
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::DropReason;

const SMALL: DirectGeometry = DirectGeometry { ring: 8, returns: 16, blocks: 16, block_octets: 64 };
const SECONDS_10: Option<Duration> = Some(Duration::from_secs(10));

fn pair(geometry: DirectGeometry) -> (Direct, Direct) {
    Direct::pair(&DirectConfig { geometry, ..DirectConfig::default() }).unwrap()
}

fn pattern(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 131 + (i >> 8)) as u8).collect()
}

#[test]
fn messages_of_every_size_arrive_octet_for_octet() {
    let (mut a, mut b) = pair(SMALL);
    for octets in (1..=200).chain([512, 960, 1023, 1024]) {
        let message = pattern(octets);
        a.sender.send_copy(&message).unwrap();
        let got = b.receiver.try_receive().expect("a message");
        assert_eq!(got.to_vec(), message);
        assert_eq!(got.guarantee(), if octets <= 40 { Guarantee::Private } else { Guarantee::MayChange });
        assert_eq!((got.private().is_some(), got.shared().is_some()), (octets <= 40, octets > 40));
    }
    assert_eq!(a.sender.send_copy(&[0; 1025]), Err(SendError::TooLong { octets: 1025, buffer_octets: 1024 }));
    assert_eq!(a.sender.send_copy(&[]), Err(SendError::Empty));
    assert_eq!((b.receiver.counters().pdus, a.sender.forged_returns()), (204, 0));
}

#[test]
fn a_loan_is_given_away_by_sending_and_back_by_dropping() {
    let (mut a, mut b) = pair(SMALL);
    for _ in 0..100 {
        drop(a.sender.loan(1024).expect("all blocks"));
    }
    let (e, loan) = a.sender.loan(64).unwrap().send(65).unwrap_err();
    assert_eq!(e, SendError::TooLong { octets: 65, buffer_octets: 64 });
    loan.send_uu(64, 9).unwrap();
    assert_eq!(a.sender.away_blocks(), 1);
    assert!(a.sender.loan(1024).is_none());
    assert_eq!(b.receiver.try_receive().unwrap().uu(), 9);
    assert_eq!(a.sender.away_blocks(), 1, "short: with the next look");
    assert!(b.receiver.try_receive().is_none());
    assert_eq!(a.sender.away_blocks(), 0);
    a.sender.send_copy(&[1; 257]).unwrap();
    drop(b.receiver.try_receive().unwrap());
    assert_eq!(a.sender.away_blocks(), 0, "long: at once");
    assert!(a.sender.loan(1024).is_some());
}

#[test]
fn a_full_ring_refuses_and_there_is_room_again_once_it_was_received() {
    let (mut a, mut b) = pair(SMALL);
    for i in 0..8 {
        a.sender.send_copy(&[i]).unwrap();
    }
    assert_eq!(a.sender.send_copy(&[8]), Err(SendError::Full));
    assert_eq!(a.sender.wait_room(1, Some(Duration::from_millis(1))), Ok(false));
    for i in 0..8 {
        assert_eq!(b.receiver.try_receive().unwrap().private(), Some(&[i][..]));
    }
    assert!(b.receiver.try_receive().is_none());
    assert_eq!(a.sender.wait_room(1, Some(Duration::ZERO)), Ok(true));
}

#[test]
fn a_checked_copy_finds_a_sender_that_writes_after_sending() {
    let (mut a, mut b) = pair(SMALL);
    a.sender.send_copy(&[1; 64]).unwrap();
    let message = b.receiver.try_receive().unwrap();
    let mut copy = [0; 64];
    assert_eq!(message.checked_copy(&mut copy), Ok(64));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ours = b_view(&a);
            for i in 0u64.. {
                ours.store(SMALL.blocks_at() / 64, 7, i, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let deadline = Instant::now() + Duration::from_secs(10);
        let found = loop {
            match message.checked_copy(&mut copy) {
                Err(Changed { at }) => break Some(at),
                Ok(_) if Instant::now() > deadline => break None,
                Ok(_) => {}
            }
        };
        stop.store(true, Ordering::Relaxed);
        assert!(found.is_some_and(|at| at >= 56), "{found:?}");
    });
}

/// The memory that this side writes, to write nonsense into it.
fn b_view(side: &Direct) -> super::memory::Ours {
    side.sender.link().ours.clone()
}

#[test]
fn one_who_sleeps_is_woken_and_one_who_waits_for_room_too() {
    let config = DirectConfig { geometry: SMALL, spin: Spin::none(), patience: None };
    let (mut a, mut b) = Direct::pair(&config).unwrap();
    const N: u32 = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..N {
                let octets = 4 + (i as usize * 7) % 300;
                let mut message = pattern(octets);
                message[..4].copy_from_slice(&i.to_ne_bytes());
                while a.sender.send_copy(&message) == Err(SendError::Full) {
                    assert_eq!(a.sender.wait_room(octets, SECONDS_10), Ok(true));
                }
            }
            a.receiver.receive(SECONDS_10).unwrap().expect("the last word");
        });
        for i in 0..N {
            let got = b.receiver.receive(SECONDS_10).unwrap().expect("a message").to_vec();
            assert_eq!((&got[..4], got.len()), (&i.to_ne_bytes()[..], 4 + (i as usize * 7) % 300));
            assert_eq!(got[4..], pattern(got.len())[4..]);
        }
        b.sender.send_copy(b"done").unwrap();
    });
}

#[test]
fn a_peer_that_cuts_every_doze_short_does_not_keep_us_from_our_timeout() {
    let config = DirectConfig { geometry: SMALL, spin: Spin::none(), patience: None };
    let (a, mut b) = Direct::pair(&config).unwrap();
    let evil = b_view(&a);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                evil.wake(CONSUMED_LINE, WAKES_WORD);
            }
        });
        for ms in [0, 1, 5, 50] {
            assert!(b.receiver.receive(Some(Duration::from_millis(ms))).unwrap().is_none());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn one_who_dozes_learns_of_the_end() {
    let config = DirectConfig { geometry: SMALL, spin: Spin::none(), patience: None };
    let (mut a, b) = Direct::pair(&config).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || a.receiver.receive(SECONDS_10).map(|message| message.is_some()));
        drop(b);
        assert_eq!(waits.join().expect("no panic"), Err(Gone::Peer));
    });
}

#[test]
fn the_end_of_one_side_is_seen_by_the_other_after_all_that_came_before() {
    let (mut a, mut b) = pair(SMALL);
    a.sender.send_copy(&[7; 100]).unwrap();
    b.sender.send_copy(&[8; 100]).unwrap();
    assert_eq!(a.sender.away_blocks(), 2);
    drop(b);
    assert_eq!(a.sender.alive(), Err(Gone::Peer));
    assert_eq!(a.sender.away_blocks(), 0, "reclaimed");
    assert_eq!(a.receiver.receive(SECONDS_10).unwrap().expect("what came before").to_vec(), [8; 100]);
    assert!(matches!(a.receiver.receive(SECONDS_10), Err(Gone::Peer)));
    for _ in 0..8 {
        let _ = a.sender.send_copy(&[1]);
    }
    assert_eq!(a.sender.wait_room(1, SECONDS_10), Err(Gone::Peer));
}

#[test]
fn one_who_only_looks_learns_of_the_end_too() {
    let config = DirectConfig { spin: Spin::forever(), ..DirectConfig::default() };
    let (mut a, b) = Direct::pair(&config).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            drop(b);
        });
        assert!(matches!(a.receiver.receive(None), Err(Gone::Peer)));
    });
}

#[test]
fn lines_that_make_no_sense_are_counted_and_passed_over() {
    let (a, mut b) = pair(SMALL);
    let evil = b_view(&a);
    let lines = [(41, INLINE), (0, INLINE), (0, 3), (65, 15), (1025, 0), (64, 16), (u32::MAX, 0), (5, u32::MAX - 1)];
    for (i, (octets, block)) in lines.into_iter().enumerate() {
        evil.store(RING_LINE + i, 1, u64::from(block), Ordering::Relaxed);
        evil.store(RING_LINE + i, 0, (i as u64 + 1) | u64::from(octets) << 32, Ordering::Release);
    }
    assert!(b.receiver.try_receive().is_none());
    assert_eq!(b.receiver.counters().dropped(DropReason::BadDescriptor), 8);
}

#[test]
fn lines_that_make_no_sense_neither_end_a_wait_nor_make_it_longer() {
    let config = DirectConfig { geometry: SMALL, spin: Spin::none(), patience: None };
    let (mut a, mut b) = Direct::pair(&config).unwrap();
    // One that is there, and none after it.
    a.sender.send_nonsense();
    let (begin, wait) = (Instant::now(), Duration::from_millis(200));
    assert!(b.receiver.receive(Some(wait)).unwrap().is_none());
    assert!(begin.elapsed() >= wait, "over after {:?}", begin.elapsed());
    // One in the middle of a wait, and a message some time after it.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            a.sender.send_nonsense();
            std::thread::sleep(Duration::from_millis(50));
            a.sender.send_copy(b"sense").unwrap();
        });
        let message = b.receiver.receive(SECONDS_10).unwrap().expect("what came after it");
        assert_eq!(message.private(), Some(&b"sense"[..]));
    });
    assert_eq!(b.receiver.counters().dropped(DropReason::BadDescriptor), 2);
    // As many as can be, for as long as it takes.
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                a.sender.send_nonsense();
            }
        });
        for wait in [Duration::ZERO, Duration::from_millis(20)] {
            assert!(b.receiver.receive(Some(wait)).unwrap().is_none());
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_wait_for_as_long_as_can_be_said_ends_with_what_it_waits_for() {
    for spin in [Spin::none(), Spin::forever()] {
        let config = DirectConfig { geometry: SMALL, spin, patience: None };
        let (mut a, mut b) = Direct::pair(&config).unwrap();
        (0..8).for_each(|i| a.sender.send_copy(&[i]).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(a.sender.wait_room(1, Some(Duration::MAX)), Ok(true));
                // Longer than it dozes.
                std::thread::sleep(Duration::from_millis(30));
                a.sender.send_copy(b"last").unwrap();
                assert!(matches!(a.receiver.receive(Some(Duration::MAX)), Err(Gone::Peer)));
            });
            std::thread::sleep(Duration::from_millis(30));
            for i in 0..8 {
                assert_eq!(b.receiver.try_receive().unwrap().private(), Some(&[i][..]));
            }
            let message = b.receiver.receive(Some(Duration::MAX)).unwrap().expect("the last one");
            assert_eq!(message.private(), Some(&b"last"[..]));
            drop(message);
            std::thread::sleep(Duration::from_millis(30));
            drop(b);
        });
    }
}

#[test]
fn a_block_that_comes_back_twice_or_never_was_away_is_counted() {
    let (mut a, b) = pair(SMALL);
    let evil = b_view(&b);
    a.sender.send_copy(&[1; 64]).unwrap();
    for (i, block) in [0u64, 0, 5, 16, u64::from(u32::MAX)].into_iter().enumerate() {
        evil.store(SMALL.returns_line(), i, (i as u64 + 1) | block << 32, Ordering::Release);
    }
    assert_eq!(a.sender.away_blocks(), 0);
    assert_eq!(a.sender.forged_returns(), 4);
    let all: Vec<_> = (0..16).map(|_| a.sender.loan(64).unwrap().post(64).is_ok()).collect();
    assert_eq!(all.iter().filter(|sent| **sent).count(), 7, "one line of eight was used before");
}

proptest! {
    /// Whatever one side writes into its memory, the other neither panics nor gets more than its blocks and lines.
    #[test]
    fn nonsense_in_all_that_a_peer_may_write_does_no_harm(
        writes in prop::collection::vec((0usize..16, 0usize..8, any::<u64>(), 0u64..20, any::<bool>()), 1..300)
    ) {
        let (mut victim, peer) = pair(SMALL);
        let evil = b_view(&peer);
        for (line, word, random, near, targeted) in writes {
            let value = if targeted { near | (random << 32) } else { random };
            evil.store(line, word, value, Ordering::Release);
            let _ = victim.sender.send_copy(&[5; 100]);
            prop_assert!(victim.sender.room() <= 8);
            prop_assert!(victim.sender.away_blocks() <= 16);
            if let Some(message) = victim.receiver.try_receive() {
                prop_assert!(message.len() <= 1024 && message.to_vec().len() == message.len());
            }
            evil.store(CONSUMED_LINE, 0, value, Ordering::Release);
        }
    }
}
