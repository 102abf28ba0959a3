//! Senders that lend their memory and receivers that borrow it: what either does to its own SDUs, and what is left when one has gone.

use endpoint::control::Request;
use endpoint::layout::{Head, Lent};
use endpoint::{DataPath, Events, Geometry};
use hostile::{Attack, Class, Field, Ground, Raw, Trial, mappings};
use net::LinkConfig;
use std::time::{Duration, Instant};
use traffic::{Contract, Flow};

const SMALL: Geometry = Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 4096 };
const WHAT: (Geometry, Events, DataPath) = (SMALL, Events::Polling, DataPath::Shared);

/// An innocent circuit, and one with credits for who attacks, by one switch.
fn ground() -> Ground {
    let mut build = Ground::build().host("alpha").host("beta").switch("s1");
    build = build.link("alpha", "s1:0", LinkConfig::default()).link("beta", "s1:1", LinkConfig::default());
    build = build.circuit("alpha 0.100", "beta 0.100", Contract::default());
    let contract = Contract { flow: Flow::Credit, ..Contract::default() };
    build.circuit("alpha 0.200", "beta 0.200", contract).up()
}

#[test]
fn buffers_that_are_named_twice_rewritten_and_given_back_by_false_numbers_harm_their_own_circuit_only() {
    Trial::new(Class::Other, ground).small().withstand(|ground, attack| {
        let mut lent = 0;
        while attack.goes_on() {
            // A circuit that has lost its buffers to this stands still, and another one begins.
            lent += lend_falsely(ground, attack, Instant::now() + Duration::from_millis(50));
        }
        assert!(lent > 0, "nothing was lent");
    });
}

/// Lends and gives back falsely until then; gives how many SDUs came lent.
fn lend_falsely(ground: &Ground, attack: &Attack, until: Instant) -> u32 {
    let mut lender = Raw::lender(ground.socket(), "alpha", 200, WHAT);
    let mut borrower = Raw::borrower(ground.socket(), "beta", 200, WHAT);
    (0..SMALL.buffers).for_each(|buffer| assert!(borrower.free.push(Head::of_buffer(buffer))));
    let (channel, mut n, mut lent) = (lender.channel.0, 0u32, 0);
    while attack.goes_on() && Instant::now() < until {
        let head = Head { channel, octets: 41 + n % 4000, ..Head::of_buffer(n % 3) };
        n += u32::from(lender.send.push(head));
        lender.segment.copy_in(SMALL.buffer_at(n % 3).unwrap(), &n.to_ne_bytes().repeat(1000));
        while let Some(got) = borrower.receive.pop() {
            lent += u32::from(Lent::from_buffer(got.head.buffer).is_some());
            // Back, back again, and what was never out: of this region, of none, of regions to come.
            let nonsense = n.wrapping_mul(2_654_435_761) | 1 << 31;
            for back in [got.head.buffer, got.head.buffer, nonsense, 1 << 31 | 31, u32::MAX - 3] {
                borrower.free.push(Head::of_buffer(back));
            }
        }
    }
    lent
}

#[test]
fn a_borrower_that_gives_nothing_back_holds_up_its_lender_only_whoever_dies() {
    Trial::new(Class::Engine, ground).small().withstand(|ground, attack| {
        let mut n = 0;
        while attack.goes_on() {
            let mut lender = Raw::lender(ground.socket(), "alpha", 200, WHAT);
            let mut borrower = Raw::borrower(ground.socket(), "beta", 200, WHAT);
            let channel = lender.channel.0;
            (0..SMALL.buffers).for_each(|buffer| {
                assert!(lender.send.push(Head { channel, octets: 3000, ..Head::of_buffer(buffer) }));
            });
            let until = Instant::now() + Duration::from_millis(20);
            while attack.goes_on() && Instant::now() < until && borrower.receive.waiting_now() < SMALL.buffers {
                std::thread::yield_now();
            }
            if n % 2 == 0 {
                drop(lender);
                drop(borrower.ask(&Request::Release));
            } else {
                drop(borrower);
                drop(lender.ask(&Request::Release));
            }
            n += 1;
        }
    });
}

#[test]
fn lenders_that_are_gone_leave_no_memory_with_a_borrower_that_gives_nothing_back() {
    // No other test of this process has segments of this size.
    let geometry = Geometry { buffers: 77, ..SMALL };
    let ground = ground();
    let mut borrower = Raw::borrower(ground.socket(), "beta", 200, WHAT);
    for n in 1..=40 {
        let mut lender = Raw::lender(ground.socket(), "alpha", 200, (geometry, Events::Polling, DataPath::Shared));
        let channel = lender.channel.0;
        assert!(lender.send.push(Head { channel, octets: 3000, ..Head::of_buffer(5) }));
        let within = Instant::now() + Duration::from_secs(5);
        while borrower.receive.waiting_now() < n {
            assert!(Instant::now() < within, "SDU {n} does not come");
            std::thread::yield_now();
        }
    }
    // As long as an endpoint may take to leave.
    let within = Instant::now() + Duration::from_millis(1000);
    while mappings(geometry) > 0 && Instant::now() < within {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(mappings(geometry), 0, "segments of lenders that are gone");
}
