//! SDUs that stay in their senders' memory until they are read (`net::parcel`): senders that rewrite them, receivers that take
//! nothing, and the death of either.

use endpoint::control::Request;
use endpoint::layout::{HEAD_OCTETS, Head};
use endpoint::{DataPath, Events, Geometry};
use hostile::{Attack, Class, Field, Ground, Raw, Trial, mappings};
use net::LinkConfig;
use std::time::{Duration, Instant};
use traffic::{Contract, Flow};

/// Circuits with credits of those who attack.
const CIRCUITS: std::ops::Range<u16> = 1000..1100;
const LONG: Geometry = Geometry { send_ring: 256, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 65_536 };
const WHAT: (Geometry, Events, DataPath) = (LONG, Events::Polling, DataPath::Shared);

/// An innocent circuit and those of the attack, all by one switch.
fn ground() -> Ground {
    let mut build = Ground::build().host("alpha").host("beta").switch("s1");
    build = build.link("alpha", "s1:0", LinkConfig::default()).link("beta", "s1:1", LinkConfig::default());
    build = build.circuit("alpha 0.100", "beta 0.100", Contract::default());
    build = build.circuit("alpha 0.200", "beta 0.200", Contract::default());
    for vci in CIRCUITS {
        let contract = Contract { flow: Flow::Credit, ..Contract::default() };
        build = build.circuit(&format!("alpha 0.{vci}"), &format!("beta 0.{vci}"), contract);
    }
    build.up()
}

/// An endpoint that has all circuits with credits open; their channels.
fn with_all(ground: &Ground, host: &str) -> (Raw, Vec<u32>) {
    let raw = Raw::with(ground.socket(), host, CIRCUITS.start, WHAT);
    let others = CIRCUITS.skip(1).map(|vci| raw.open(vci).0);
    let channels = std::iter::once(raw.channel.0).chain(others).collect();
    (raw, channels)
}

fn push(raw: &mut Raw, channel: u32, buffer: u32, octets: u32) -> bool {
    raw.send.push(Head { channel, octets, ..Head::of_buffer(buffer) })
}

#[test]
fn sdus_and_descriptors_that_are_rewritten_while_parcels_name_them_harm_their_own_circuit_only() {
    Trial::new(Class::Other, ground).small().withstand(|ground, attack| {
        let mut sender = Raw::with(ground.socket(), "alpha", 200, WHAT);
        let mut receiver = Raw::with(ground.socket(), "beta", 200, WHAT);
        (0..LONG.buffers).for_each(|buffer| assert!(receiver.free.push(Head::of_buffer(buffer))));
        let heads = Geometry::heads_at(LONG.send_at());
        let (channel, mut n, mut came) = (sender.channel.0, 0u32, 0);
        while attack.goes_on() {
            // A buffer is named by many descriptors at once, and it and they are written as long as parcels name them.
            if push(&mut sender, channel, n % 3, 41 + n % 1000 * 59) {
                if n.is_multiple_of(4) {
                    let head = heads + (n % LONG.send_ring) as usize * HEAD_OCTETS;
                    sender.segment.copy_in(head, &n.wrapping_mul(2_654_435_761).to_ne_bytes().repeat(4));
                }
                n += 1;
            }
            sender.segment.copy_in(LONG.buffer_at(n % 3).unwrap(), &n.to_ne_bytes().repeat(1000));
            while let Some(got) = receiver.receive.pop() {
                came += 1;
                receiver.free.push(Head::of_buffer(got.head.buffer));
            }
        }
        assert!(came > 100, "{came} came");
    });
}

/// Fills what a receiver of all circuits with credits keeps, of a receiver that gives no buffers.
fn fill(ground: &Ground) -> (Raw, Raw) {
    let ((mut sender, channels), (receiver, _)) = (with_all(ground, "alpha"), with_all(ground, "beta"));
    for channel in channels {
        assert!(push(&mut sender, channel, 0, 65_000));
    }
    (sender, receiver)
}

#[test]
fn parcels_of_a_hundred_circuits_for_a_receiver_that_takes_nothing_hold_up_nobody_whoever_dies() {
    Trial::new(Class::Engine, ground).small().length(Duration::from_millis(900)).withstand(|ground, attack| {
        let pause = |attack: &Attack, millis| {
            let until = Instant::now() + Duration::from_millis(millis);
            while attack.goes_on() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        // Long enough for what is kept to become cells; then shorter, so that parcels are under way and kept.
        for (n, millis) in [120, 20, 5, 1].into_iter().cycle().enumerate() {
            if !attack.goes_on() {
                break;
            }
            let (sender, receiver) = fill(ground);
            pause(attack, millis);
            if n % 2 == 0 {
                drop(sender);
                pause(attack, 1);
                drop(receiver.ask(&Request::Release));
            } else {
                drop(receiver);
                pause(attack, 1);
                drop(sender.ask(&Request::Release));
            }
        }
    });
}

#[test]
fn senders_that_are_gone_leave_no_memory_with_a_receiver_that_takes_nothing() {
    // No other test of this process has segments of this size.
    let geometry = Geometry { buffers: 77, ..LONG };
    let ground = ground();
    let (_receiver, _) = with_all(&ground, "beta");
    for vci in CIRCUITS.take(40) {
        let mut sender = Raw::with(ground.socket(), "alpha", vci, (geometry, Events::Polling, DataPath::Shared));
        let channel = sender.channel.0;
        assert!(push(&mut sender, channel, 0, 100));
        let within = Instant::now() + Duration::from_secs(5);
        while ground.received("beta", vci).cells == 0 {
            assert!(Instant::now() < within, "nothing comes on circuit 0.{vci}");
        }
    }
    // As long as an endpoint may take to leave.
    let within = Instant::now() + Duration::from_millis(1000);
    while mappings(geometry) > 0 && Instant::now() < within {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(mappings(geometry), 0, "segments of senders that are gone");
}
