//! The rings between client and host under every order that the memory model allows, over memory that loom watches. It
//! stands in for [`segment`](crate) where `--cfg loom` is set; `scripts/test loom` runs it.

use crate::layout::{Geometry, GeometryError};
use loom::sync::atomic::{AtomicU32, AtomicU64};

/// A segment's head and rings; no buffers.
#[derive(Debug)]
pub struct Segment {
    geometry: Geometry,
    words32: Vec<AtomicU32>,
    words64: Vec<AtomicU64>,
}

impl Segment {
    /// Fresh memory.
    ///
    /// # Errors
    /// Sizes that cannot be.
    pub fn anonymous(geometry: Geometry) -> Result<Self, GeometryError> {
        let geometry = geometry.checked()?;
        // The send ring is what the tests use.
        let octets = geometry.receive_at();
        let words32 = (0..octets / 64).map(|_| AtomicU32::new(0)).collect();
        let words64 = (0..octets / 8 - geometry.send_at() / 8).map(|_| AtomicU64::new(0)).collect();
        Ok(Segment { geometry, words32, words64 })
    }

    /// Its sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The 32-bit word that begins the line at `at`.
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        &self.words32[at / 64]
    }

    /// The 64-bit words at `at`, in the send ring.
    pub(crate) fn words<const N: usize>(&self, at: usize) -> &[AtomicU64; N] {
        let first = (at - self.geometry.send_at()) / 8;
        self.words64[first..].first_chunk().expect("a slot of the send ring")
    }
}

/// There is no cache here.
pub(crate) fn prefetch<T>(_: &T) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CLIENT_SLEEPS, Head};
    use crate::ring::{Consumer, Producer, Which};
    use crate::sync::{Ordering, fence};
    use std::sync::Arc;

    const SMALL: Geometry = Geometry { send_ring: 2, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };

    fn ring() -> (Arc<Segment>, Producer, Consumer) {
        let segment = Arc::new(Segment::anonymous(SMALL).unwrap());
        let (producer, consumer) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
        (segment, producer, consumer)
    }

    #[test]
    fn loom_descriptors_arrive_whole_and_in_order_over_reused_slots() {
        loom::model(|| {
            let (_segment, mut producer, mut consumer) = ring();
            let client = loom::thread::spawn(move || {
                for i in 0..3 {
                    while !producer.push(Head { octets: i ^ 0x55, ..Head::of_buffer(i) }) {
                        loom::thread::yield_now();
                    }
                }
            });
            for i in 0..3 {
                let descriptor = loop {
                    match consumer.pop() {
                        Some(descriptor) => break descriptor,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!((descriptor.head.buffer, descriptor.head.octets), (i, i ^ 0x55));
            }
            client.join().unwrap();
        });
    }

    #[test]
    fn loom_a_run_is_seen_as_a_whole_once_it_is_published_and_goes_back_so() {
        loom::model(|| {
            let (_segment, mut producer, mut consumer) = ring();
            let host = loom::thread::spawn(move || {
                assert!(producer.push_head_unseen(Head::of_buffer(1)) && producer.push_head_unseen(Head::of_buffer(2)));
                producer.publish();
                while producer.consumed() != 2 {
                    loom::thread::yield_now();
                }
                assert_eq!(producer.given_back(0).1, 1);
            });
            while consumer.waiting() == 0 {
                loom::thread::yield_now();
            }
            assert_eq!(consumer.waiting(), 2, "one store tells of both");
            for i in 0..2 {
                let descriptor = consumer.peek().unwrap();
                assert_eq!(descriptor.head.buffer, i + 1);
                consumer.give_back(i, descriptor.head.channel, descriptor.head.buffer);
            }
            consumer.publish();
            host.join().unwrap();
        });
    }

    #[test]
    fn loom_who_sets_its_flag_and_looks_has_seen_the_descriptor_or_is_rung() {
        loom::model(|| {
            let (segment, mut producer, mut consumer) = ring();
            let theirs = segment.clone();
            let pusher = loom::thread::spawn(move || {
                assert!(producer.push(Head::of_buffer(1)));
                fence(Ordering::SeqCst);
                let flag = theirs.word32(CLIENT_SLEEPS);
                flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
            });
            segment.word32(CLIENT_SLEEPS).store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let seen = consumer.waiting() > 0;
            assert!(pusher.join().unwrap() || seen, "asleep for ever");
        });
    }
}
