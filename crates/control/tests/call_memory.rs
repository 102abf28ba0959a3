//! What a call costs a running daemon: at both hosts, in the switch between them, in call control and in its book.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;
#[path = "calls/ground.rs"]
#[expect(dead_code, reason = "tests of calls need more of it")]
mod ground;

use control::calls::applications::User;
use control::calls::setup::Wanted;
use counting_allocator::held_by_all;
use endpoint::calls::{Answer, Event, Sap, Traffic};
use ground::{Ground, STAR};
use std::time::{Duration, Instant};
use wire::aesa::Aesa;

const USER: User = User::unlimited(0);
/// Sessions of nobody's: connections are counted from 1.
const CALLER: u64 = u64::MAX;
const CALLEE: u64 = u64::MAX - 1;
/// Calls that are counted of each kind.
const CALLS: usize = 4000;
/// Calls under way at a time.
const UNDER_WAY: usize = 64;
/// What a call may cost, best effort and with a contract that switches and hosts keep. A hash table that has just doubled
/// counts with what it has to spare. What is reserved for calls when the daemon starts does not count: 136 octets each.
const MOST_OCTETS: [i64; 2] = [3300, 4300];

/// Sets up so many calls, which stay.
fn set_up(ground: &Ground, to: Aesa, traffic: &Traffic, wanted: usize) {
    let (mut begun, mut up, mut last) = (0, 0, Instant::now());
    while up < wanted {
        let more = (wanted - begun).min(UNDER_WAY + up - begun);
        begun += more;
        let came = ground.controller(|exchange, now| {
            let asked = Wanted { sap: Sap::LLC, forward: traffic, backward: traffic, multipoint: false };
            for _ in 0..more {
                exchange.call(CALLER, USER, "alpha", to, asked, now).unwrap();
            }
            let mut events = |session| match exchange.take_events(session, true) {
                Some(Answer::Events(events)) => events,
                _ => Vec::new(),
            };
            let (presented, told) = (events(CALLEE), events(CALLER));
            for event in presented {
                if let Event::Incoming { call, .. } = event {
                    exchange.accept(CALLEE, USER, call, now).unwrap();
                }
            }
            assert!(!told.iter().any(|event| matches!(event, Event::Released { .. })), "{told:?}");
            told.iter().filter(|event| matches!(event, Event::Connected { .. })).count()
        });
        up += came;
        if came > 0 {
            last = Instant::now();
        }
        assert!(last.elapsed() < Duration::from_secs(20), "{up} of {wanted} calls are up");
        std::thread::yield_now();
    }
}

#[test]
fn a_call_takes_no_more_memory_than_a_hundred_thousand_of_them_may() {
    let ground = Ground::new(STAR);
    let [to] = ground.addresses("beta");
    ground.controller(|exchange, _| exchange.listen(CALLEE, USER, "beta", None, Sap::ANY)).unwrap();
    // With a contract, whose schedules are kept too.
    let contract = Traffic { category: "cbr".into(), pcr: Some(10), ..Traffic::default() };
    set_up(&ground, to, &contract, 500);
    set_up(&ground, to, &Traffic::default(), 500);
    for (what, traffic, most) in
        [("best effort", &Traffic::default(), MOST_OCTETS[0]), ("a contract", &contract, MOST_OCTETS[1])]
    {
        let before = held_by_all();
        set_up(&ground, to, traffic, CALLS);
        // What is under way behind the last answer.
        std::thread::sleep(Duration::from_millis(100));
        let each = (held_by_all() - before) / CALLS as i64;
        println!("{what}: {each} octets a call");
        assert!(each <= most, "{what}: {each} octets a call, more than {most}");
    }
}
