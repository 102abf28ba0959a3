//! What comes out of a ring, and what a forged index or a shared side does to it.

use super::*;
use crate::layout::Geometry;

fn segment() -> Arc<Segment> {
    let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4, buffers: 1, buffer_octets: 64 };
    Arc::new(Segment::anonymous(geometry).unwrap())
}

#[test]
fn descriptors_come_out_in_order_and_a_full_ring_refuses() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Send), Consumer::new(&s, Which::Send));
    for round in 0..10 {
        for i in 0..4 {
            assert!(p.push(Head::of_buffer(round * 4 + i)));
        }
        assert!(!p.push(Head::of_buffer(99)));
        for i in 0..4 {
            assert_eq!(c.pop().map(|d| d.head.buffer), Some(round * 4 + i));
        }
        assert_eq!(c.pop(), None);
        assert_eq!(p.consumed(), (round + 1) * 4);
    }
}

#[test]
fn a_descriptor_is_where_the_tables_of_the_layout_say() {
    let s = segment();
    let (at, octets) = (s.geometry().free_at(), |at: usize, n: usize| {
        let mut octets = vec![0; n];
        s.copy_out(at, &mut octets);
        octets
    });
    let mut p = Producer::new(&s, Which::Free);
    let sdu = std::array::from_fn(|i| i as u8 + 1);
    let of = Head { channel: 0x0102, octets: 40, uu: 7, cpi: 8, congestion: true, ..Head::of_buffer(3) };
    let d = Descriptor { head: of, address: 0, inline: sdu };
    assert!(p.push(d));
    assert!(p.push(Descriptor { head: Head { buffer: Descriptor::INLINE, clp: true, ..of }, ..d }));
    assert!(p.push(Descriptor { head: Head { buffer: Descriptor::OWN, ..of }, address: 0x0a0b, ..d }));
    let head = |n: usize| octets(at + 128 + 16 * n, 16);
    let body = |n: usize| octets(at + 128 + 64 + 64 * n, 64);
    let word = |buffer: u32| [0x0102u32, 40, buffer].map(u32::to_ne_bytes).concat();
    assert_eq!(head(0), [word(3), vec![7, 8, 2, 0]].concat());
    assert_eq!(head(1), [word(Descriptor::INLINE), vec![7, 8, 3, 0]].concat());
    assert_eq!(head(2), [word(Descriptor::OWN), vec![7, 8, 2, 0]].concat());
    assert_eq!(body(0), [0; 64], "a buffer's descriptor has no body");
    assert_eq!(body(1), [vec![0; 8], sdu.to_vec(), vec![0; 16]].concat());
    assert_eq!(body(2), [0x0a0bu64.to_ne_bytes().to_vec(), vec![0; 56]].concat());
    let mut c = Consumer::new(&s, Which::Free);
    assert_eq!(c.pop(), Some(Descriptor { inline: [0; 40], ..d }));
    assert_eq!(c.pop().map(|d| (d.inline, d.head.clp, d.head.congestion)), Some((sdu, true, true)));
    assert_eq!(c.pop().map(|d| (d.address, d.inline)), Some((0x0a0b, [0; 40])));
    let head = Head { channel: 9, octets: 8, buffer: 1, uu: 5, cpi: 6, clp: true, congestion: false };
    assert!(p.push_head_unseen(head) && p.publish());
    let same = Head { channel: 9, octets: 8, uu: 5, cpi: 6, clp: true, ..Head::of_buffer(1) };
    assert_eq!(c.pop(), Some(same.into()));
    for n in 0..4 {
        assert!(p.push_head_unseen(Head { buffer: n, ..head }));
    }
    assert!(!p.push_head_unseen(head), "a full ring refuses");
}

#[test]
fn a_descriptor_that_is_done_with_before_an_older_one_is_named_in_the_slot_that_comes_back() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Send), Consumer::new(&s, Which::Send));
    for i in 0..3 {
        assert!(p.push(Head { channel: i, ..Head::of_buffer(10 + i) }));
    }
    let read: Vec<_> = (0..3).map(|i| c.read(i)).collect();
    assert_eq!((c.peek_head(2).map(|head| head.channel), c.peek_head(3)), (Some(2), None));
    for i in [2, 0, 1] {
        c.give_back(i, read[i as usize].head.channel, read[i as usize].head.buffer);
    }
    assert_eq!(p.consumed(), 0, "not before it is published");
    c.publish();
    assert_eq!(p.consumed(), 3);
    assert_eq!([0, 1, 2].map(|at| p.given_back(at)), [(2, 12), (0, 10), (1, 11)]);
}

#[test]
fn a_descriptor_without_a_body_leaves_that_of_the_one_before() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Receive), Consumer::new(&s, Which::Receive));
    let inline = std::array::from_fn(|i| i as u8);
    assert!(p.push(Descriptor { address: 7, inline, ..Head::of_buffer(Descriptor::INLINE).into() }));
    assert!(p.push(Head::of_buffer(3)));
    let mut taken = Descriptor::from(Head::of_buffer(0));
    assert!(c.pop_into(&mut taken));
    assert_eq!((taken.head.buffer, taken.address, taken.inline), (Descriptor::INLINE, 7, inline));
    assert!(c.pop_into(&mut taken));
    assert_eq!((taken.head.buffer, taken.address, taken.inline), (3, 7, inline));
    assert!(!c.pop_into(&mut taken));
    assert_eq!(taken.head.buffer, 3);
}

#[test]
fn an_index_that_goes_back_or_too_far_tells_of_nothing_new() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Send), Consumer::new(&s, Which::Send));
    for i in 0..3 {
        assert!(p.push(Head::of_buffer(i)));
    }
    assert!(c.has_ahead(2) && !c.has_ahead(3));
    let index = s.word32(s.geometry().send_at() + 64);
    for forged in [1, 0, u32::MAX, 5, 3] {
        index.store(forged, Ordering::Release);
        assert_eq!((c.has_ahead(3), c.waiting(), c.waiting_seen()), (false, 3, 3), "{forged}");
    }
    index.store(4, Ordering::Release);
    assert!(c.has_ahead(3));
    assert_eq!(c.waiting_seen(), 4);
}

#[test]
fn a_frozen_ring_ends_where_the_producer_was() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Send), Consumer::new(&s, Which::Send));
    assert!(p.push(Head::of_buffer(0)) && p.push(Head::of_buffer(1)));
    c.freeze();
    assert!(p.push(Head::of_buffer(2)));
    assert_eq!((c.waiting_now(), c.has_ahead(2)), (2, false));
    for expected in [Some(0), Some(1), None] {
        assert_eq!(c.pop().map(|d| d.head.buffer), expected);
        s.word32(s.geometry().send_at() + 64).store(c.head().wrapping_add(4), Ordering::Release);
    }
    c.freeze();
    assert_eq!((c.waiting_now(), c.waiting()), (0, 0), "once for all");
}

#[test]
fn what_was_pushed_unseen_is_there_once_it_is_published() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Receive), Consumer::new(&s, Which::Receive));
    assert!(p.push_unseen(Head::of_buffer(1).into()) && p.push_head_unseen(Head::of_buffer(2)));
    assert_eq!(c.waiting(), 0);
    p.publish();
    assert_eq!((c.waiting(), c.waiting_seen()), (2, 2));
    c.advance_unseen();
    assert_eq!((c.waiting_seen(), p.consumed()), (1, 0));
    c.publish();
    assert_eq!((p.consumed(), p.room()), (1, 3));
}

#[test]
fn forged_indices_never_give_more_than_the_slots() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Receive), Consumer::new(&s, Which::Receive));
    for forged in [5, 1000, u32::MAX, 1 << 31] {
        s.word32(s.geometry().receive_at() + 64).store(forged, Ordering::Relaxed);
        assert_eq!(c.waiting(), 0);
        s.word32(s.geometry().receive_at()).store(forged, Ordering::Relaxed);
        assert!(p.room() <= 4);
        assert!(p.consumed() <= 4);
    }
}

#[test]
fn two_who_share_a_side_take_turns() {
    let s = segment();
    let mut producers = [Producer::new(&s, Which::Send), Producer::new(&s, Which::Send)];
    let mut consumers = [Consumer::new(&s, Which::Send), Consumer::new(&s, Which::Send)];
    for i in 0..20 {
        let (p, c) = (&mut producers[i % 2], &mut consumers[i / 2 % 2]);
        p.catch_up();
        assert_eq!((p.pushed(), p.room()), (i as u32, 4));
        assert!(p.push(Head::of_buffer(i as u32)));
        c.catch_up();
        assert_eq!(c.pop().map(|d| d.head.buffer), Some(i as u32));
    }
}

#[test]
fn two_threads_pass_200_000_descriptors() {
    let s = segment();
    let (mut p, mut c) = (Producer::new(&s, Which::Send), Consumer::new(&s, Which::Send));
    const N: u32 = 200_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..N {
                while !p.push(Head { octets: i ^ 0x5555, ..Head::of_buffer(i) }) {
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..N {
            let d = loop {
                match c.pop() {
                    Some(d) => break d,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!((d.head.buffer, d.head.octets), (i, i ^ 0x5555));
        }
    });
}
