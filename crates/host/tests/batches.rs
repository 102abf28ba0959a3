//! SDUs that are handed over together, and buffers that go back together.

use crate::lan::{Lan, circuit};
use endpoint::{ChannelId, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use std::time::Duration;

const SECONDS_10: Option<Duration> = Some(Duration::from_secs(10));
const A_MOMENT: Duration = Duration::from_millis(30);
const OCTETS: usize = 100;
/// Half of the buffers are for sending, half for receiving: 64 of each, of which four come back together.
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 128, buffers: 128, buffer_octets: 128 };

fn endpoint(lan: &Lan, host: &str) -> (Endpoint, ChannelId) {
    endpoint_with(lan, EndpointConfig { host: host.into(), geometry: GEOMETRY, ..EndpointConfig::default() })
}

fn endpoint_with(lan: &Lan, config: EndpointConfig) -> (Endpoint, ChannelId) {
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(100), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

/// Enqueues SDUs numbered from `first` on, as many as there is room for, `most` at most; how many.
fn enqueue(sender: &mut Endpoint, channel: ChannelId, first: u8, most: usize) -> usize {
    for n in 0..most {
        let Some(mut loan) = sender.loan() else { return n };
        loan[..OCTETS].fill(first + n as u8);
        match sender.enqueue(channel, loan, OCTETS) {
            Ok(()) => {}
            Err((SendError::Full, _)) => return n,
            Err((e, _)) => panic!("{e}"),
        }
    }
    most
}

fn next(receiver: &mut Endpoint, timeout: Option<Duration>) -> Option<u8> {
    receiver.receive(timeout).unwrap().map(|sdu| {
        assert_eq!(sdu.len(), OCTETS);
        sdu[OCTETS - 1]
    })
}

#[test]
fn what_is_enqueued_leaves_when_it_is_flushed_and_by_any_wait_and_with_what_is_sent() {
    let lan = Lan::new();
    // One that polls arms no wake-up in a wait, which would flush too.
    let config =
        EndpointConfig { host: "alpha".into(), geometry: GEOMETRY, events: Events::Polling, ..Default::default() };
    let (mut sender, channel) = endpoint_with(&lan, config);
    let (mut receiver, _) = endpoint(&lan, "beta");
    assert_eq!(enqueue(&mut sender, channel, 0, 3), 3);
    assert_eq!(next(&mut receiver, Some(A_MOMENT)), None);
    assert_eq!(sender.unsent(), 3);
    sender.flush();
    assert_eq!([(); 3].map(|()| next(&mut receiver, SECONDS_10)), [Some(0), Some(1), Some(2)]);

    enqueue(&mut sender, channel, 10, 1);
    assert_eq!(next(&mut sender, Some(A_MOMENT)), None);
    assert_eq!(next(&mut receiver, SECONDS_10), Some(10));

    enqueue(&mut sender, channel, 20, 1);
    sender.arm();
    assert_eq!(next(&mut receiver, SECONDS_10), Some(20));
    sender.disarm().unwrap();

    enqueue(&mut sender, channel, 30, 1);
    sender.send_copy(channel, &[31; OCTETS]).unwrap();
    assert_eq!([(); 2].map(|()| next(&mut receiver, SECONDS_10)), [Some(30), Some(31)]);
}

#[test]
fn what_is_enqueued_leaves_when_no_buffer_or_no_slot_is_left() {
    for (send_ring, least) in [(64, 64), (32, 32)] {
        let lan = Lan::new();
        let geometry = Geometry { send_ring, ..GEOMETRY };
        let config = EndpointConfig { host: "alpha".into(), geometry, ..EndpointConfig::default() };
        let (mut sender, channel) = endpoint_with(&lan, config);
        let (mut receiver, _) = endpoint(&lan, "beta");
        // Each 64th would leave by itself, with all before it.
        for n in [200, 201] {
            sender.send_copy(channel, &[n; OCTETS]).unwrap();
            assert_eq!(next(&mut receiver, SECONDS_10), Some(n));
        }
        assert!(sender.wait_sent(SECONDS_10).unwrap());
        // Who finds nothing gives all its buffers back.
        assert!(receiver.try_receive().is_none());
        let sent = enqueue(&mut sender, channel, 0, 100);
        assert!(sent >= least, "{sent}");
        // A host that was quicker has given buffers back, so that there was always one.
        if sent == 100 {
            sender.flush();
        }
        for n in 0..least {
            assert_eq!(next(&mut receiver, SECONDS_10), Some(n as u8), "of a ring of {send_ring}");
        }
    }
}

#[test]
fn buffers_that_go_back_together_are_all_back_when_their_application_waits() {
    let lan = Lan::new();
    let (mut sender, channel) = endpoint(&lan, "alpha");
    let (mut receiver, _) = endpoint(&lan, "beta");
    // An odd number each time, so that some buffers would be left over; then one for each buffer at once.
    for burst in [3, 64, 5, 64, 63, 64, 1, 64] {
        assert_eq!(enqueue(&mut sender, channel, 0, burst), burst);
        assert!(sender.wait_sent(SECONDS_10).unwrap());
        for n in 0..burst {
            assert_eq!(next(&mut receiver, SECONDS_10), Some(n as u8), "of {burst}");
        }
        assert!(receiver.try_receive().is_none());
    }
    assert_eq!(lan.received("beta", 100).dropped_total(), 0);
}

#[test]
fn buffers_go_back_while_their_application_has_more_to_take() {
    let lan = Lan::new();
    let (mut sender, channel) = endpoint(&lan, "alpha");
    let (mut receiver, _) = endpoint(&lan, "beta");
    assert_eq!(enqueue(&mut sender, channel, 0, 64), 64);
    assert!(sender.wait_sent(SECONDS_10).unwrap());
    for n in 0..32 {
        assert_eq!(next(&mut receiver, SECONDS_10), Some(n));
    }
    assert_eq!(enqueue(&mut sender, channel, 64, 32), 32);
    assert!(sender.wait_sent(SECONDS_10).unwrap());
    for n in 32..96 {
        assert_eq!(next(&mut receiver, SECONDS_10), Some(n));
    }
    assert_eq!(lan.received("beta", 100).dropped_total(), 0);
}
