//! Requests that take the service long: who has many connections with many of them keeps no other user waiting.

use endpoint::Connection;
use endpoint::control::{Request, Response};
use endpoint::seqpacket::{Packets, Peer};
use host::service::{Handler, Takes};
use hostile::{Class, Field, Ground, Trial, as_user};
use net::LinkConfig;
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::CircuitId;

const EVE: u32 = 60_001;
const ALICE: u32 = 60_002;
/// Users of one person, whom nobody admits: more than there are user proxies.
const STRANGERS: std::ops::Range<u32> = 100_000..100_520;
/// What a request takes, as the status of thousands of circuits does.
const LONG: Duration = Duration::from_millis(10);
/// An answer that comes as a memory file.
const LONG_OCTETS: usize = 1 << 20;
const CONNECTIONS: usize = 16;
/// Requests of each that wait at the same time.
const WAITING: usize = 4;

struct Slow;

impl Handler for Slow {
    fn admit(&self, peer: Peer) -> Result<(), String> {
        if STRANGERS.contains(&peer.uid) { Err("no rule names you".into()) } else { Ok(()) }
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn takes(&self, _: Peer, request: &serde_json::Value) -> Takes {
        if request["aside"] == true { Takes::Long } else { Takes::NoTime }
    }
    fn manage(&self, _: Peer, request: serde_json::Value, _: Vec<OwnedFd>) -> Result<String, String> {
        if request["aside"] == true {
            return Ok("2".into());
        }
        if request["long"] == true {
            return Ok(format!("\"{}\"", "x".repeat(LONG_OCTETS)));
        }
        std::thread::sleep(LONG);
        Ok("1".into())
    }
}

fn ground() -> Ground {
    let ground = Ground::build()
        .handler(Arc::new(Slow))
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .up();
    let open = |path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(ground.socket(), 0o666);
    open(ground.socket().parent().unwrap(), 0o755);
    ground
}

#[test]
fn a_user_whose_requests_take_long_keeps_no_other_user_waiting_and_none_of_the_users_own_for_ever() {
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let connect = || {
            let connect = |_| Packets::connect(ground.socket()).unwrap();
            (0..CONNECTIONS).map(connect).collect::<Vec<_>>()
        };
        let Some(eves) = as_user(EVE, connect) else { return };
        let begin = |eve: &Packets| eve.send(&Request::Manage(serde_json::json!({})), &[]).unwrap();
        let end = |eve: &Packets| eve.receive::<Response>().unwrap().expect("an answer");
        for eve in &eves {
            eve.send(&Request::hello(), &[]).unwrap();
            end(eve);
            (0..WAITING).for_each(|_| begin(eve));
        }
        let (mut slowest, mut served) = (Duration::ZERO, 0);
        std::thread::scope(|scope| {
            // All wait all the time, each for a turn of its own: one that is never served would stop this.
            let annoy = scope.spawn(|| {
                let mut answers = 0;
                while attack.goes_on() {
                    for eve in &eves {
                        end(eve);
                        begin(eve);
                        answers += 1;
                    }
                }
                answers
            });
            while attack.goes_on() {
                let begin = Instant::now();
                drop(Connection::open(ground.socket()).unwrap());
                slowest = slowest.max(begin.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            served = annoy.join().unwrap();
        });
        assert!(served > CONNECTIONS, "the attack has failed: {served} answers");
        // All that wait before it would take more than 600 ms.
        attack.took("another user's connection", slowest, Duration::from_millis(200));
    });
}

#[test]
fn connections_of_hundreds_of_users_whom_nobody_admits_keep_no_other_user_out() {
    let ground = ground();
    let Some(_eve) = as_user(EVE, || Connection::open(ground.socket()).unwrap()) else { return };
    let connect = |uid| as_user(uid, || Packets::connect(ground.socket()).unwrap());
    let kept: Vec<_> = STRANGERS.map(connect).collect();
    let begin = Instant::now();
    let alice = as_user(ALICE, || Connection::open(ground.socket()).map(drop));
    alice.expect("root becomes anybody").expect("Alice is served");
    assert!(begin.elapsed() < Duration::from_secs(3), "after {:?}", begin.elapsed());
    // Eve was there before, and still is.
    let again = as_user(EVE, || Connection::open(ground.socket()).map(drop));
    again.expect("root becomes anybody").expect("Eve is served");
    drop(kept);
}

#[test]
fn long_answers_that_nobody_takes_hold_little_memory() {
    const ASKED: usize = 100;
    let ground = ground();
    let Some(eve) = as_user(EVE, || Packets::connect(ground.socket()).unwrap()) else { return };
    let answer = || eve.receive::<Response>().unwrap().expect("an answer").0;
    eve.send(&Request::hello(), &[]).unwrap();
    answer();
    let ask = || eve.send(&Request::Manage(serde_json::json!({ "long": true })), &[]).unwrap();
    (0..ASKED).for_each(|_| ask());
    std::thread::sleep(Duration::from_millis(300));
    let mut long = 0;
    for _ in 0..ASKED {
        match answer() {
            Response::ManagedMemory { octets } => {
                assert!(octets > LONG_OCTETS as u64);
                long += 1;
            }
            Response::Refused { reason, .. } => assert!(reason.contains("take the answers first"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    // As fast as they were taken, there were more of them.
    assert!((1..ASKED / 2).contains(&long), "{long} of {ASKED}");
    // Who takes each answer has the next.
    for _ in 0..20 {
        ask();
        assert!(matches!(answer(), Response::ManagedMemory { .. }));
    }
}

#[test]
fn the_answer_of_another_thread_comes_though_its_user_has_had_the_time_of_a_round() {
    const ASKED: usize = 100;
    let ground = ground();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = || Connection::open(ground.socket()).unwrap().manage(serde_json::json!({ "aside": true })).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let connection = Connection::open(ground.socket()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    connection.manage(serde_json::json!({})).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ASKED {
                ask();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let begin = Instant::now();
        while answered.load(Ordering::Relaxed) < ASKED && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let in_time = answered.load(Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        // With a further answer, all are looked at.
        while answered.load(Ordering::Relaxed) < ASKED {
            ask();
        }
        assert_eq!(in_time, ASKED, "answered within 20 s");
    });
}
