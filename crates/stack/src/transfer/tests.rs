//! A sender and a receiver in virtual time, with a path that does its worst between them; each failure names its seed.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// One direction of a path with loss, duplication, delay and, where asked for, PDUs that overtake each other.
struct Path {
    rng: StdRng,
    loss: f64,
    overtaking: f64,
    queue: VecDeque<(Time, Vec<u8>)>,
}

impl Path {
    fn send(&mut self, pdu: &[u8], now: Time) {
        let n = if self.rng.random_bool(self.loss) { 0 } else { 1 + usize::from(self.rng.random_bool(0.02)) };
        for _ in 0..n {
            let late = if self.rng.random_bool(self.overtaking) { self.rng.random_range(1..2000) } else { 0 };
            let at = now + Duration::from_micros(300 + late);
            let place = self.queue.partition_point(|(t, _)| *t <= at);
            self.queue.insert(place, (at, pdu.to_vec()));
        }
    }
    fn arrived(&mut self, now: Time) -> Option<Vec<u8>> {
        self.queue.pop_front_if(|(at, _)| *at <= now).map(|(_, pdu)| pdu)
    }
}

fn run(seed: u64, loss: f64, overtaking: f64, octets: usize) -> (Vec<u8>, Vec<u8>, u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let data: Vec<u8> = (0..octets).map(|_| rng.random()).collect();
    let path = |n| Path { rng: StdRng::seed_from_u64(seed + n), loss, overtaking, queue: VecDeque::new() };
    let mut there = path(1);
    let mut back = path(2);
    let mut now = Time::ZERO;
    let (mut s, mut r) = (Sender::new(9, now), Receiver::new());
    let mut chunks = data.chunks(1000).peekable();
    let mut got = Vec::new();
    for _ in 0..2_000_000 {
        while s.has_room()
            && let Some(chunk) = chunks.next()
        {
            s.push(chunk, chunks.peek().is_none(), now);
        }
        while let Some(pdu) = s.poll_transmit() {
            there.send(pdu, now);
            s.sent(now);
        }
        while let Some(pdu) = there.arrived(now) {
            r.handle_pdu(&pdu);
        }
        while let Some(octets) = r.poll_octets() {
            got.extend(octets);
        }
        while let Some(ack) = r.poll_transmit(true) {
            back.send(&ack, now);
        }
        while let Some(pdu) = back.arrived(now) {
            s.handle_pdu(&pdu, now);
        }
        s.handle_timeout(now);
        if s.is_done() {
            break;
        }
        now += Duration::from_micros(50);
    }
    assert!(s.is_done() && r.is_done(), "seed {seed}, loss {loss}: the transfer did not end");
    (data, got, s.repeated)
}

#[test]
fn a_clean_path_needs_no_repetition() {
    let (data, got, repeated) = run(1, 0.0, 0.0, 300_000);
    assert!(data == got);
    assert_eq!(repeated, 0);
}

#[test]
fn whatever_is_lost_the_stream_arrives_whole() {
    for seed in 0..30 {
        let (data, got, _) = run(seed, [0.01, 0.1, 0.3][seed as usize % 3], 0.0, 100_000);
        assert!(data == got, "seed {seed}");
    }
}

#[test]
fn nonsense_changes_nothing() {
    let mut s = Sender::new(1, Time::ZERO);
    let mut r = Receiver::new();
    let mut rng = StdRng::seed_from_u64(3);
    s.push(&[1, 2, 3], true, Time::ZERO);
    for _ in 0..20_000 {
        let mut pdu: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
        if pdu.len() > 3 {
            pdu[..3].copy_from_slice(&[b'C', b'w', rng.random_range(0..4)]);
        }
        s.handle_pdu(&pdu, Time::ZERO);
        r.handle_pdu(&pdu);
        assert!(r.early.len() <= WINDOW as usize);
        r.poll_octets();
    }
    assert!(!s.is_done());
}

#[test]
fn pdus_that_overtake_each_other_are_put_in_order_again() {
    for seed in 100..120 {
        let (data, got, _) = run(seed, [0.0, 0.05][seed as usize % 2], 0.2, 100_000);
        assert!(data == got, "seed {seed}");
    }
}

/// A sender of `stream` with `n` PDUs, the last of which ends it.
fn sender(stream: u32, n: u8) -> Sender {
    let mut s = Sender::new(stream, Time::ZERO);
    for i in 0..n {
        s.push(&[i], i + 1 == n, Time::ZERO);
    }
    s
}

#[test]
fn a_second_stream_is_refused_at_once_and_does_not_disturb_the_first() {
    let (mut a, mut b, mut r) = (sender(1, 2), sender(2, 1), Receiver::new());
    assert!(r.handle_pdu(a.poll_transmit().unwrap()));
    a.sent(Time::ZERO);
    assert!(!r.handle_pdu(b.poll_transmit().unwrap()));
    let refusal = r.poll_refusal().unwrap();
    assert_eq!(r.poll_refusal(), None);
    a.handle_pdu(&refusal, Time::ZERO);
    b.handle_pdu(&refusal, Time::ZERO);
    assert!(b.is_refused() && !a.is_refused());
    assert!(r.handle_pdu(a.poll_transmit().unwrap()));
    a.handle_pdu(&r.poll_transmit(true).unwrap(), Time::ZERO);
    assert!(a.is_done() && r.ended);
}

#[test]
fn a_receiver_that_comes_in_the_middle_never_passes_octets_on() {
    let mut r = Receiver::new();
    let pdu = head(DATA, 5, WINDOW);
    assert!(!r.handle_pdu(&pdu));
    assert!(!r.has_begun());
    assert_eq!(r.poll_octets(), None);
}

#[test]
fn nothing_is_taken_after_the_end_and_its_acknowledgement_is_given_again() {
    let mut r = Receiver::new();
    let last = head(LAST, 5, 0);
    assert!(r.handle_pdu(&last));
    assert!(r.poll_transmit(true).is_some());
    r.handle_pdu(&head(DATA, 5, 1));
    r.handle_pdu(&last);
    assert_eq!(r.poll_octets(), Some(Vec::new()));
    assert_eq!(r.poll_octets(), None);
    assert!(r.poll_transmit(false).is_some());
}

proptest::proptest! {
    #[test]
    fn a_hostile_sender_cannot_make_a_receiver_hold_more_than_a_window(
        pdus in proptest::collection::vec((1u8..5, 0u32..3, 0u64..200, proptest::prelude::any::<bool>()), 0..400),
    ) {
        let mut r = Receiver::new();
        for (kind, stream, number, far) in pdus {
            r.handle_pdu(&head(kind, stream, if far { u64::MAX - number } else { number }));
            proptest::prop_assert!(r.early.len() <= WINDOW as usize);
            let _ = r.poll_transmit(true);
            while r.poll_octets().is_some() {}
        }
    }
}

/// A sender of two PDUs, of which the receiver has one.
fn half_way() -> (Sender, Receiver) {
    let (mut sender, mut receiver) = (Sender::new(7, Time::ZERO), Receiver::new());
    for last in [false, true] {
        sender.push(b"half", last, Time::ZERO);
    }
    receiver.handle_pdu(sender.poll_transmit().unwrap());
    sender.sent(Time::ZERO);
    let ack = receiver.poll_transmit(true).unwrap();
    sender.handle_pdu(&ack, Time::ZERO);
    (sender, receiver)
}

#[test]
fn a_receiver_knows_from_the_senders_last_pdu_whether_the_stream_is_whole() {
    let (mut sender, mut receiver) = half_way();
    assert_eq!(sender.acknowledged(), 4);
    let mut other = sender.closing();
    other[4..8].copy_from_slice(&8u32.to_be_bytes());
    assert!(!receiver.handle_pdu(&other) && !receiver.is_closed(), "another stream's");
    assert!(receiver.handle_pdu(&sender.closing()));
    assert!(receiver.is_closed() && !receiver.is_done(), "given up in the middle");

    let (_, mut receiver) = half_way();
    receiver.handle_pdu(sender.poll_transmit().unwrap());
    sender.sent(Time::ZERO);
    sender.handle_pdu(&receiver.poll_transmit(true).unwrap(), Time::ZERO);
    receiver.handle_pdu(&sender.closing());
    while receiver.poll_octets().is_some() {}
    assert!(sender.is_done() && sender.acknowledged() == 8 && receiver.is_done() && receiver.is_closed());
}

#[test]
fn a_sender_hears_that_its_receiver_gives_up() {
    let (mut sender, receiver) = half_way();
    assert!(Receiver::new().refusal().is_none(), "of no stream");
    sender.handle_pdu(&receiver.refusal().unwrap(), Time::ZERO);
    assert!(sender.is_refused());
}

#[test]
fn only_the_first_pdus_of_a_stream_begin_one_and_an_invitation_is_none() {
    let mut sender = Sender::new(7, Time::ZERO);
    sender.push(b"text", true, Time::ZERO);
    assert!(may_begin(sender.poll_transmit().unwrap()));
    let invitation = head(INVITATION, 0, 0);
    assert!(is_invitation(&invitation) && !may_begin(&invitation));
    for other in [&head(DATA, 7, WINDOW)[..], &head(ACK, 7, 0), &head(REFUSED, 7, 0), &sender.closing(), b"Cw", b"text"]
    {
        assert!(!may_begin(other) && !is_invitation(other), "{other:?}");
    }
}
