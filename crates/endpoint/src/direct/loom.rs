//! The rings and the rule for sleeping under every order that the memory model allows
//! (`RUSTFLAGS="--cfg loom" cargo test --release -p cellway-endpoint --lib loom`; `scripts/test loom` does it).

use super::layout::{CONSUMED_LINE, INLINE, RING_LINE, SLEEPS_LINE};
use super::ring::{LineConsumer, LineProducer, ReadLines, ReturnConsumer, ReturnProducer, Sleeper, Waker, WriteLines};
use crate::sync::Ordering;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use std::sync::Arc;

const SLOTS: u32 = 2;
const RETURNS_LINE: usize = RING_LINE + SLOTS as usize;

/// Memory of one side.
#[derive(Debug)]
struct Memory(Vec<[AtomicU64; 8]>);

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Memory((0..=RETURNS_LINE).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect()))
    }
}

impl ReadLines for Arc<Memory> {
    fn load(&self, line: usize, word: usize, order: Ordering) -> u64 {
        self.0[line][word].load(order)
    }
}

impl WriteLines for Arc<Memory> {
    fn store(&self, line: usize, word: usize, value: u64, order: Ordering) {
        self.0[line][word].store(value, order);
    }
}

type Lines = (LineProducer<Arc<Memory>, Arc<Memory>>, LineConsumer<Arc<Memory>, Arc<Memory>>);

fn lines(sender: &Arc<Memory>, receiver: &Arc<Memory>) -> Lines {
    (
        LineProducer::new(sender.clone(), receiver.clone(), RING_LINE, SLOTS, CONSUMED_LINE),
        LineConsumer::new(receiver.clone(), sender.clone(), RING_LINE, SLOTS, CONSUMED_LINE),
    )
}

#[test]
fn loom_messages_in_lines_arrive_whole_and_in_order_over_reused_lines() {
    loom::model(|| {
        let (a, b) = (Memory::new(), Memory::new());
        let (mut producer, mut consumer) = lines(&a, &b);
        let sender = loom::thread::spawn(move || {
            for i in 1..=3u8 {
                while !producer.push(16, INLINE, i, &[i; 16]) {
                    loom::thread::yield_now();
                }
            }
        });
        for i in 1..=3u8 {
            let line = loop {
                match consumer.pop() {
                    Some(line) => break line,
                    None => loom::thread::yield_now(),
                }
            };
            let word = u64::from_ne_bytes([i; 8]);
            assert_eq!((line.octets, line.uu, line.inline[0], line.inline[1]), (16, i, word, word));
        }
        sender.join().unwrap();
    });
}

/// A block is a cell that loom watches: a write beside a read of the other side fails the test.
#[test]
fn loom_a_block_is_written_again_only_after_it_was_read_and_returned() {
    struct Block(UnsafeCell<u32>);
    // SAFETY: what is being tested: loom fails on any access that is not ordered by the rings.
    unsafe impl Sync for Block {}
    // SAFETY: as above.
    unsafe impl Send for Block {}
    loom::model(|| {
        let (a, b) = (Memory::new(), Memory::new());
        let (mut producer, mut consumer) = lines(&a, &b);
        let mut back = ReturnConsumer::new(b.clone(), RETURNS_LINE, 8);
        let mut returns = ReturnProducer::new(b.clone(), RETURNS_LINE, 8);
        let block = Arc::new(Block(UnsafeCell::new(0)));
        let theirs = block.clone();
        let sender = loom::thread::spawn(move || {
            for i in 1..=2 {
                // SAFETY: as above.
                block.0.with_mut(|octets| unsafe { *octets = i });
                assert!(producer.push(4, 0, 0, &[]));
                while back.pop() != Some(0) {
                    loom::thread::yield_now();
                }
            }
        });
        for i in 1..=2 {
            let line = loop {
                match consumer.pop() {
                    Some(line) => break line,
                    None => loom::thread::yield_now(),
                }
            };
            // SAFETY: as above.
            assert_eq!(theirs.0.with(|octets| unsafe { *octets }), i);
            returns.push(line.block);
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_one_who_goes_to_sleep_has_seen_the_message_or_is_woken_for_it() {
    loom::model(|| {
        let (a, b) = (Memory::new(), Memory::new());
        let (mut producer, consumer) = lines(&a, &b);
        let mut waker = Waker::new(b.clone(), SLEEPS_LINE);
        let sender = loom::thread::spawn(move || {
            assert!(producer.push(1, INLINE, 0, &[1]));
            waker.must_wake().is_some()
        });
        let mut sleeper = Sleeper::new(b.clone(), SLEEPS_LINE);
        sleeper.arm();
        let seen = consumer.has_line();
        let rung = sender.join().unwrap();
        assert!(seen || rung, "asleep for ever");
    });
}

#[test]
fn loom_a_sleep_is_rung_for_once() {
    loom::model(|| {
        let (a, b) = (Memory::new(), Memory::new());
        let (mut producer, _) = lines(&a, &b);
        let mut waker = Waker::new(b.clone(), SLEEPS_LINE);
        let sender = loom::thread::spawn(move || {
            let mut rings = 0;
            for i in 0..2 {
                assert!(producer.push(1, INLINE, 0, &[i]));
                rings += u32::from(waker.must_wake().is_some());
            }
            rings
        });
        let mut sleeper = Sleeper::new(b.clone(), SLEEPS_LINE);
        sleeper.arm();
        let rings = sender.join().unwrap();
        assert!(rings <= 1, "{rings} rings for one sleep");
    });
}
