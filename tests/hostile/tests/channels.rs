//! A channel's number belongs to one circuit: what is pushed for it, however late, leaves on no other.

use endpoint::control::{Request, Response};
use endpoint::layout::HOST_SLEEPS;
use hostile::{Field, Ground, Raw};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::DropReason;

fn ground() -> Ground {
    Ground::two_circuits()
}

/// Pushes one message for the channel that `eve` believes to have.
fn push(eve: &mut Raw, mark: u8) {
    let mut message = eve.message();
    message.inline.fill(mark);
    eve.send.push(message);
    if eve.segment.word32(HOST_SLEEPS).swap(0, Ordering::SeqCst) != 0 {
        eve.ring();
    }
}

/// All SDUs on 0.200 in a while are marked 2.
fn only_twos_come(ground: &Ground, eve: &mut Raw, steps: impl Fn(&mut Raw)) {
    let (mut receiver, _) = ground.open("beta", 200);
    let end = Instant::now() + Duration::from_millis(700);
    let mut came = 0;
    while Instant::now() < end {
        steps(eve);
        while let Some(sdu) = receiver.try_receive() {
            assert!(sdu.iter().all(|octet| *octet == 2), "a PDU of another circuit: {:?}", &sdu[..4]);
            came += 1;
        }
    }
    assert!(came > 0, "nothing came at all");
}

#[test]
fn what_is_pushed_for_a_channel_after_it_was_closed_leaves_on_no_other() {
    let ground = ground();
    let mut eve = Raw::new(ground.socket(), "alpha", 100);
    only_twos_come(&ground, &mut eve, |eve| {
        push(eve, 1);
        assert!(matches!(eve.ask(&Request::Close { channel: eve.channel }), Response::Closed));
        // As a thread would that has not heard of it.
        push(eve, 1);
        let other = eve.open(200);
        push(eve, 1);
        let first = std::mem::replace(&mut eve.channel, other);
        assert_ne!(first, other);
        push(eve, 2);
        assert!(matches!(eve.ask(&Request::Close { channel: other }), Response::Closed));
        eve.channel = eve.open(100);
    });
}

#[test]
fn what_is_pushed_for_a_circuit_that_was_removed_leaves_on_no_other() {
    let ground = ground();
    let mut eve = Raw::new(ground.socket(), "alpha", 100);
    let described = hostile::between("alpha 0.100", "beta 0.100", Contract::default());
    only_twos_come(&ground, &mut eve, |eve| {
        let circuit = described.clone();
        let change = move |core: &mut host::engine::Core| {
            core.fabric.remove_circuit(&mut core.network, &circuit).expect("a circuit");
            core.fabric.add_circuit(&mut core.network, &circuit).expect("a path");
        };
        push(eve, 1);
        ground.engine().with(change).unwrap();
        push(eve, 1);
        let other = eve.open(200);
        push(eve, 1);
        eve.channel = other;
        push(eve, 2);
        assert!(matches!(eve.ask(&Request::Close { channel: other }), Response::Closed));
        eve.channel = eve.open(100);
    });
}

#[test]
fn what_came_too_late_is_counted_as_closed() {
    let ground = ground();
    let mut eve = Raw::new(ground.socket(), "alpha", 100);
    assert!(matches!(eve.ask(&Request::Close { channel: eve.channel }), Response::Closed));
    (0..5).for_each(|_| push(&mut eve, 1));
    let sent = || {
        let find = |core: &mut host::engine::Core| core.host("alpha").expect("a host").1.endpoints()[0].sent;
        ground.engine().with(find).unwrap()
    };
    let end = Instant::now() + Duration::from_secs(5);
    while sent().dropped(DropReason::Closed) < 5 {
        assert!(Instant::now() < end, "{:?}", sent());
        std::thread::sleep(Duration::from_millis(1));
    }
}
