//! Queues of channels, against plain queues and in the cases that these leave out.

use super::*;
use endpoint::layout::Geometry;
use endpoint::ring::{Producer, Which};
use endpoint::segment::Segment;
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #[test]
    fn channels_are_fifos_and_each_buffer_comes_back_once(
        steps in prop::collection::vec((0u8..7, 0u32..4), 0..300),
        in_order: bool,
    ) {
        let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let (mut producer, mut ring) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
        let mut outbound = Outbound::new(8, in_order);
        let mut queues = vec![VecDeque::new(); 4];
        let (mut pushed, mut done, mut read) = (0u32, 0usize, 0u32);
        let mut dropped = Vec::new();
        let mut back = Vec::new();
        let mut given_up = VecDeque::new();
        for (what, channel) in steps {
            match what {
                0..3 => if producer.push(Head { channel, ..Head::of_buffer(pushed) }) {
                    queues[channel as usize].push_back(pushed);
                    pushed += 1;
                },
                3 => while outbound.take(&mut ring, |_| Ok(())).is_some() {},
                4 => {
                    let queued = outbound.queued() - given_up.len() as u64;
                    let n = outbound.give_up(channel) as usize;
                    prop_assert!(n as u64 <= queued && outbound.first(channel).is_none());
                    given_up.extend(queues[channel as usize].drain(..n));
                }
                5 => {
                    let n = outbound.drop_given_up(channel + 1, &mut ring) as usize;
                    prop_assert_eq!(n, given_up.len().min(channel as usize + 1));
                    done += n;
                    dropped.extend(given_up.drain(..n));
                    prop_assert_eq!(outbound.has_given_up(), !given_up.is_empty());
                }
                _ => {
                    let first = outbound.first(channel).map(|d| d.head.buffer);
                    if let Some(buffer) = first {
                        prop_assert_eq!(queues[channel as usize].pop_front(), Some(buffer));
                        outbound.done(channel, &mut ring);
                        done += 1;
                    }
                }
            }
            ring.publish();
            while read != producer.consumed() {
                back.push(producer.given_back(read).1);
                read += 1;
            }
            prop_assert!(in_order || back.len() == done);
            prop_assert!(back.len() <= done);
        }
        prop_assert!(in_order || dropped.iter().all(|buffer| back.contains(buffer)));
        let mut sorted = back.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), back.len());
        if in_order {
            prop_assert_eq!(&back, &(0..back.len() as u32).collect::<Vec<_>>());
        }
    }
}

/// What an application with a send ring of eight slots has pushed: its end of the ring, the host's, and the queues.
fn bench() -> (Producer, Consumer, Outbound) {
    let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };
    let segment = Arc::new(Segment::anonymous(geometry).unwrap());
    (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send), Outbound::new(8, false))
}

/// Pushes a descriptor with a number for each of these channels; all are taken up.
fn push((producer, ring, outbound): &mut (Producer, Consumer, Outbound), descriptors: &[(u32, u32)]) {
    for (channel, buffer) in descriptors {
        assert!(producer.push(Head { channel: *channel, ..Head::of_buffer(*buffer) }));
    }
    while outbound.take(ring, |_| Ok(())).is_some() {}
}

#[test]
fn channels_take_turns_and_one_that_waits_for_its_pacer_does_not() {
    let mut bench = bench();
    push(&mut bench, &[(0, 0), (0, 1), (1, 2), (1, 3)]);
    let (_, ring, outbound) = &mut bench;
    assert_eq!(outbound.next_ready(Class::Rest), Some(0));
    outbound.wait_until(0, Time::from_micros(5));
    for _ in 0..2 {
        assert_eq!(outbound.next_ready(Class::Rest), Some(1));
        outbound.done(1, ring);
        outbound.again(1);
    }
    assert_eq!(outbound.next_ready(Class::Rest), None);
    assert_eq!(outbound.poll_timeout(), Some(Time::from_micros(5)));
    outbound.handle_due(Time::from_micros(5));
    assert_eq!(outbound.next_ready(Class::Rest), Some(0));
}

#[test]
fn a_channel_without_credit_is_not_ready_until_there_is_some_and_one_that_was_emptied_meanwhile_begins_anew() {
    let mut bench = bench();
    push(&mut bench, &[(0, 0)]);
    assert_eq!(bench.2.next_ready(Class::Rest), Some(0));
    bench.2.wait_for_credit(0);
    push(&mut bench, &[(0, 1)]);
    let (_, ring, outbound) = &mut bench;
    assert_eq!((outbound.next_ready(Class::Rest), outbound.ready(Class::Rest)), (None, 0));
    outbound.handle_credit();
    assert_eq!(outbound.next_ready(Class::Rest), Some(0));
    outbound.wait_for_credit(0);
    while outbound.first_behind(0, false, ring) {}
    push(&mut bench, &[(0, 2)]);
    let outbound = &mut bench.2;
    assert_eq!(outbound.next_ready(Class::Rest), Some(0));
    outbound.again(0);
    outbound.handle_credit();
    assert_eq!((outbound.next_ready(Class::Rest), outbound.next_ready(Class::Rest)), (Some(0), None));
}

#[test]
fn a_channel_keeps_its_class_wherever_it_waits() {
    let mut bench = bench();
    push(&mut bench, &[(0, 0), (1, 1)]);
    bench.2.set_class(1, Class::Reserved);
    // The class holds from the next turn on.
    assert_eq!([(); 2].map(|()| bench.2.next_ready(Class::Rest)), [Some(0), Some(1)]);
    (0..2).for_each(|channel| bench.2.again(channel));
    for why in ["its turn", "its pacer", "credit", "a descriptor"] {
        let (producer, ring, outbound) = &mut bench;
        assert_eq!((outbound.ready(Class::Reserved), outbound.ready(Class::Rest)), (1, 1), "after {why}");
        assert_eq!((outbound.next_ready(Class::Reserved), outbound.next_ready(Class::Reserved)), (Some(1), None));
        match why {
            "its turn" => {
                outbound.wait_until(1, Time::from_micros(5));
                outbound.handle_due(Time::from_micros(4));
                assert_eq!(outbound.next_ready(Class::Reserved), None);
                outbound.handle_due(Time::from_micros(5));
            }
            "its pacer" => {
                outbound.wait_for_credit(1);
                outbound.handle_credit();
            }
            "credit" => {
                // Without a descriptor it is idle, and the next one makes it ready.
                outbound.done(1, ring);
                outbound.again(1);
                assert_eq!(outbound.next_ready(Class::Reserved), None);
                ring.publish();
                assert!(producer.push(Head { channel: 1, ..Head::of_buffer(2) }));
                while outbound.take(ring, |_| Ok(())).is_some() {}
            }
            _ => {}
        }
    }
}

#[test]
fn channels_whose_time_has_come_go_in_its_order_and_before_those_that_wait_for_their_turn() {
    let mut bench = bench();
    push(&mut bench, &[(0, 0), (1, 1), (2, 2), (3, 3)]);
    let outbound = &mut bench.2;
    assert_eq!([(); 2].map(|()| outbound.next_ready(Class::Rest)), [Some(0), Some(1)]);
    outbound.wait_until(0, Time::from_micros(5));
    outbound.wait_until(1, Time::from_micros(3));
    outbound.handle_due(Time::from_micros(5));
    assert_eq!([(); 5].map(|()| outbound.next_ready(Class::Rest)), [Some(1), Some(0), Some(2), Some(3), None]);
}

#[test]
fn a_descriptor_behind_the_first_that_goes_leaves_the_queue_whole() {
    let mut bench = bench();
    push(&mut bench, &[(0, 1), (0, 2)]);
    let (_, ring, outbound) = &mut bench;
    assert!(outbound.first_behind(0, true, ring));
    assert!(!outbound.first_behind(0, true, ring));
    push(&mut bench, &[(0, 3), (0, 4)]);
    let (_, ring, outbound) = &mut bench;
    for number in [1, 3, 4] {
        assert_eq!(outbound.first(0).map(|d| d.head.buffer), Some(number));
        outbound.done(0, ring);
    }
    assert!(outbound.first(0).is_none() && outbound.is_empty());
}

#[test]
fn what_is_given_up_leaves_the_sdu_that_is_leaving_and_a_channel_that_waited_for_credit_is_ready_with_the_next() {
    let mut bench = bench();
    push(&mut bench, &[(0, 1), (0, 2), (1, 3), (1, 4)]);
    let outbound = &mut bench.2;
    assert_eq!([(); 2].map(|()| outbound.next_ready(Class::Rest)), [Some(0), Some(1)]);
    (0..2).for_each(|channel| outbound.wait_for_credit(channel));
    let circuit = wire::CircuitId::new(0, 100).unwrap();
    let channel = Channel::new(circuit, endpoint::Aal::Aal0, endpoint::Direction::Both);
    let (source, cells) = (Source::Inline([0; 40]), Outgoing::Cell);
    outbound.begin(0, Leaving { channel, source, octets: 40, meta: SduMeta::default(), cells, aborted: false });
    assert_eq!([0, 0, 1, 2].map(|channel| outbound.give_up(channel)), [1, 0, 2, 0]);
    assert_eq!((outbound.first(0).map(|d| d.head.buffer), outbound.first(1)), (Some(1), None));
    push(&mut bench, &[(0, 5), (1, 6)]);
    let (_, ring, outbound) = &mut bench;
    // The other still waits for credit, with what was leaving.
    assert_eq!([(); 2].map(|()| outbound.next_ready(Class::Rest)), [Some(1), None]);
    assert_eq!((outbound.queued(), outbound.taken()), (6, 6));
    assert_eq!([2, 2].map(|most| outbound.drop_given_up(most, ring)), [2, 1]);
    assert_eq!((outbound.queued(), outbound.has_given_up()), (3, false));
    for (channel, number) in [(0, 1), (0, 5), (1, 6)] {
        assert_eq!(outbound.first(channel).map(|d| d.head.buffer), Some(number));
        outbound.done(channel, ring);
    }
    assert!(outbound.is_empty());
}

#[test]
fn a_channel_that_has_lost_its_last_descriptor_while_it_waited_for_credit_is_ready_with_the_next() {
    let mut bench = bench();
    push(&mut bench, &[(0, 1)]);
    let (_, ring, outbound) = &mut bench;
    assert_eq!(outbound.next_ready(Class::Rest), Some(0));
    outbound.wait_for_credit(0);
    outbound.done(0, ring);
    push(&mut bench, &[(0, 2)]);
    assert_eq!(bench.2.next_ready(Class::Rest), Some(0));
}

#[test]
fn channels_that_wait_and_lose_what_they_wait_with_again_and_again_are_listed_no_more_often_than_there_are_lanes() {
    let mut bench = bench();
    for n in 1..=1000 {
        push(&mut bench, &[(0, 1), (1, 2)]);
        let (_, ring, outbound) = &mut bench;
        assert_eq!([(); 3].map(|()| outbound.next_ready(Class::Rest)), [Some(0), Some(1), None]);
        outbound.wait_for_credit(0);
        // For one time or another: several circuits had the place.
        outbound.wait_until(1, Time::from_micros(5 + n % 3));
        (0..2).for_each(|channel| assert!(outbound.done(channel, ring).is_none()));
        ring.publish();
    }
    let (_, _, outbound) = &mut bench;
    assert!(outbound.waiting.len() <= 2 && outbound.paced.len() <= 4, "{outbound:?}");
    outbound.handle_credit();
    outbound.handle_due(Time::from_micros(10));
    assert_eq!((outbound.next_ready(Class::Rest), outbound.poll_timeout()), (None, None));
    // Another one has the place, and waits for a later time.
    push(&mut bench, &[(1, 1)]);
    let (_, ring, outbound) = &mut bench;
    assert_eq!(outbound.next_ready(Class::Rest), Some(1));
    outbound.wait_until(1, Time::from_micros(20));
    outbound.done(1, ring);
    push(&mut bench, &[(1, 2)]);
    let outbound = &mut bench.2;
    assert_eq!(outbound.next_ready(Class::Rest), Some(1));
    outbound.wait_until(1, Time::from_micros(30));
    outbound.handle_due(Time::from_micros(20));
    assert_eq!(outbound.next_ready(Class::Rest), None, "it waits for its own time");
    outbound.handle_due(Time::from_micros(30));
    assert_eq!(outbound.next_ready(Class::Rest), Some(1));
}

#[test]
fn whoever_lets_go_of_the_last_parcel_of_an_endpoint_that_is_gone_does_not_free_its_memory() {
    let thread_time = || {
        let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        std::time::Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
    };
    let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 2048, buffer_octets: 65_536 };
    let segment = Arc::new(Segment::anonymous(geometry).unwrap());
    (0..2048).for_each(|buffer| segment.copy_in(geometry.buffer_at(buffer).unwrap(), &[1; 65_536]));
    let mut outbound = Outbound::new(8, false);
    let (parcels, gone) = (outbound.memory(&segment, None), Arc::downgrade(&segment));
    drop((outbound, segment));
    let begin = thread_time();
    drop(parcels);
    let took = thread_time() - begin;
    while gone.strong_count() > 0 {
        std::thread::yield_now();
    }
    assert!(took < std::time::Duration::from_millis(1), "{took:?}");
}

/// Buffers that have come back to the application, in the order of their slots.
fn given_back(producer: &mut Producer, ring: &mut Consumer) -> Vec<u32> {
    ring.publish();
    (0..producer.consumed()).map(|at| producer.given_back(at).1).collect()
}

#[test]
fn what_a_borrower_reads_has_left_the_network_and_comes_back_once_it_is_done_with() {
    let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 8, buffer_octets: 64 };
    let segment = Arc::new(Segment::anonymous(geometry).unwrap());
    let lent = Arc::new(crate::lent::Lent::of_nothing(geometry));
    let (mut producer, mut ring) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
    let mut outbound = Outbound::new(8, false);
    (0..3).for_each(|buffer| assert!(producer.push(Head::of_buffer(buffer))));
    while outbound.take(&mut ring, |_| Ok(())).is_some() {}
    let mut parcels = VecDeque::new();
    for _ in 0..3 {
        let memory = outbound.memory(&segment, Some(&lent));
        parcels.push_back(memory.clone());
        outbound.load(0, memory, (1, 500));
    }
    assert_eq!((outbound.land(&mut ring), outbound.room_aboard(0)), ((0, false), MOST_CELLS - 1500));
    // A borrower takes the second one over, though the first one is still in the network: it is behind that.
    let held = [0, 1].map(|n| parcels[n].lent().unwrap().1.clone());
    parcels.remove(1);
    assert_eq!((outbound.land(&mut ring), outbound.room_aboard(0)), ((0, false), MOST_CELLS - 1500));
    parcels.remove(0);
    assert_eq!((outbound.land(&mut ring), outbound.room_aboard(0)), ((0, true), MOST_CELLS - 500));
    assert!(given_back(&mut producer, &mut ring).is_empty() && outbound.is_aboard());
    // One comes back once the borrower is done with it, the other together with what was only read.
    let [first, second] = held;
    drop(first);
    assert_eq!(outbound.land(&mut ring), (1, false));
    assert_eq!(given_back(&mut producer, &mut ring), [0]);
    parcels.clear();
    assert_eq!((outbound.land(&mut ring), outbound.room_aboard(0)), ((0, true), usize::MAX));
    drop(second);
    assert_eq!(outbound.land(&mut ring), (2, false));
    assert_eq!(given_back(&mut producer, &mut ring), [0, 1, 2]);
    assert!(outbound.is_empty() && !outbound.is_aboard());
}

#[test]
fn what_has_been_read_is_given_back_in_pieces() {
    let geometry = Geometry { send_ring: 4096, receive_ring: 2, free_ring: 2, buffers: 8, buffer_octets: 64 };
    for lends in [false, true] {
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let lent = lends.then(|| Arc::new(crate::lent::Lent::of_nothing(geometry)));
        let (mut producer, mut ring) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
        let mut outbound = Outbound::new(4096, false);
        (0..3000).for_each(|buffer| assert!(producer.push(Head::of_buffer(buffer))));
        while outbound.take(&mut ring, |_| Ok(())).is_some() {}
        for _ in 0..1000 {
            let memory = outbound.memory(&segment, lent.as_ref());
            outbound.load(0, memory, (3, 6));
        }
        // A parcel is given back whole.
        let freed: Vec<u32> = (0..3).map(|_| outbound.land(&mut ring).0).collect();
        assert_eq!(freed, [1026, 1026, 948]);
        assert_eq!(outbound.land(&mut ring), (0, false));
        assert!(!outbound.is_aboard());
    }
}
