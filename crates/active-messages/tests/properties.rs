//! What holds however circuits lose, repeat and reorder: each message is handled once and in its order, transfers are
//! whole, nobody waits for ever, and no buffer grows.

use crate::world::{DELAY, Faults, World};
use active_messages::message::HEADER_OCTETS;
use active_messages::{AreaId, Call, Config, Error, Node, PeerId, Rights};
use proptest::prelude::*;
use std::time::Duration;
use wire::{DropReason, Time};

const NUMBER: u8 = 1;
const ANSWER: u8 = 2;
const QUIET: u8 = 3;
const PUT: u8 = 4;
const AREA: AreaId = AreaId(7);

/// What handlers have seen, by peer.
#[derive(Debug, Default, Clone)]
struct Seen {
    requests: Vec<Vec<u32>>,
    replies: Vec<Vec<u32>>,
    puts: Vec<[u32; 3]>,
}

impl Seen {
    fn of(peers: usize) -> Self {
        Seen { requests: vec![Vec::new(); peers], replies: vec![Vec::new(); peers], puts: Vec::new() }
    }
}

fn number(seen: &mut Seen, call: &mut Call<'_>) {
    assert!(call.payload.iter().all(|octet| u32::from(*octet) == call.word(0) & 0xff));
    seen.requests[call.from.0].push(call.word(0));
    call.reply(ANSWER, &[call.word(0)], call.payload).unwrap();
    assert_eq!(call.reply(ANSWER, &[], &[]), Err(Error::NoReply), "one reply");
}

fn answer(seen: &mut Seen, call: &mut Call<'_>) {
    assert_eq!(call.reply(NUMBER, &[], &[]), Err(Error::NoReply), "a reply's handler sends nothing");
    seen.replies[call.from.0].push(call.word(0));
}

fn quiet(seen: &mut Seen, call: &mut Call<'_>) {
    seen.requests[call.from.0].push(call.word(0));
}

fn put(seen: &mut Seen, call: &mut Call<'_>) {
    let [area, offset, octets] = [0, 1, 2].map(|n| call.word(n));
    assert_eq!(call.payload.len(), octets as usize);
    seen.puts.push([area, offset, octets]);
}

/// Answers whatever comes.
fn echo(handled: &mut u64, call: &mut Call<'_>) {
    *handled += 1;
    let (word, payload) = (call.word(0), call.payload);
    let _ = call.reply(ANSWER, &[word], payload);
}

fn world(nodes: usize, config: Config, faults: Faults, seed: u64) -> World<Seen> {
    let mut world = World::new(vec![Seen::of(nodes - 1); nodes], config, faults, seed);
    for node in &mut world.nodes {
        for (n, handler) in
            [(NUMBER, number as active_messages::Handler<Seen>), (ANSWER, answer), (QUIET, quiet), (PUT, put)]
        {
            node.handle_with(n, handler);
        }
    }
    world
}

/// Virtual time for all of it, however unlucky.
const END: Time = Time::from_millis(600_000);

/// Each node sends `count` requests to each other one, as it is granted them; gives the world when all has come.
fn exchange(nodes: usize, count: u32, config: Config, faults: Faults, seed: u64) -> World<Seen> {
    let mut world = world(nodes, config, faults, seed);
    let mut sent = vec![vec![0; nodes]; nodes];
    loop {
        for (from, sent) in sent.iter_mut().enumerate() {
            for (to, next) in sent.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                while *next < count {
                    let n = *next;
                    // Every third expects no reply.
                    let handler = if n % 3 == 2 { QUIET } else { NUMBER };
                    let octets = if handler == QUIET { 0 } else { n as usize % 50 };
                    let payload = vec![n as u8; octets];
                    match world.nodes[from].request(World::<Seen>::peer(from, to), handler, &[n], &payload) {
                        Ok(()) => *next += 1,
                        Err(Error::Busy) => break,
                        Err(error) => panic!("{error} at {}", world.now),
                    }
                }
            }
        }
        let done = |seen: &Seen| {
            let all = |seen: &[Vec<u32>], count: u32| seen.iter().all(|numbers| numbers.len() >= count as usize);
            all(&seen.requests, count) && all(&seen.replies, count - count / 3)
        };
        if world.states.iter().all(done) {
            return world;
        }
        assert!(world.step() && world.now < END, "all wait, at {}: {:?}", world.now, world.states);
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0u32..300, 0u32..200, 0u32..50, 0u64..400).prop_map(|(lost, repeated, damaged, late)| Faults {
        lost,
        repeated,
        damaged,
        late: Duration::from_micros(late),
    })
}

fn config(window: u16) -> Config {
    Config { window, payload_octets: 64, attempts: 32, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn each_request_and_each_reply_is_handled_once_and_in_order(
        window in 1u16..40, faults in faults(), seed: u64, nodes in 2usize..4, count in 1u32..120,
    ) {
        let mut world = exchange(nodes, count, config(window), faults, seed);
        // What comes late finds nothing to do.
        let until = world.now + Duration::from_millis(50);
        while world.now < until && world.step() {}
        for seen in &world.states {
            for numbers in &seen.requests {
                prop_assert!(numbers.iter().copied().eq(0..count), "{:?}", numbers);
            }
            for numbers in &seen.replies {
                prop_assert!(numbers.iter().copied().eq((0..count).filter(|n| n % 3 != 2)), "{:?}", numbers);
            }
        }
        for node in &world.nodes {
            for peer in node.peers() {
                let peer = node.peer(peer).unwrap();
                prop_assert!(peer.outstanding() <= 2 * window);
                prop_assert_eq!(peer.counters().dropped(DropReason::NotPermitted), 0);
            }
        }
    }

    #[test]
    fn puts_and_gets_are_whole_and_each_ends_once(
        window in 1u16..20, faults in faults(), seed: u64, size in 0usize..3000, offset in 0u32..200,
    ) {
        let mut world = world(2, config(window), faults, seed);
        let data: Vec<u8> = (0..size).map(|n| (n as u8).wrapping_mul(37) ^ (n >> 8) as u8).collect();
        for node in &mut world.nodes {
            node.register(AREA, vec![0; 4000], Rights::ALL);
        }
        let at = PeerId(0);
        let ids = [
            world.nodes[0].put(at, AREA, offset, data.clone(), PUT).unwrap(),
            world.nodes[0].put(at, AREA, 3500, vec![9; 100], PUT).unwrap(),
        ];
        let mut ended = Vec::new();
        while ended.len() < 2 {
            prop_assert!(world.step() && world.now < END);
            ended.extend(std::iter::from_fn(|| world.nodes[0].poll_ended()));
        }
        prop_assert!(ids.iter().all(|id| ended.contains(&(*id, Ok(())))));
        let mut puts = world.states[1].puts.clone();
        puts.sort_unstable();
        let mut expected = [[7, offset, size as u32], [7, 3500, 100]];
        expected.sort_unstable();
        prop_assert_eq!(&puts[..], &expected[..], "handlers ran once, with what was stored");
        let begin = offset as usize;
        prop_assert!(world.nodes[1].area(AREA).unwrap()[begin..begin + size] == data[..]);
        // And back, to another place, by the other node's wish.
        let id = world.nodes[0].get(at, AREA, offset, size, (AREA, 17)).unwrap();
        if size > 0 {
            let end = loop {
                prop_assert!(world.step() && world.now < END);
                if let Some(end) = world.nodes[0].poll_ended() {
                    break end;
                }
            };
            prop_assert_eq!(end, (id, Ok(())));
            prop_assert!(world.nodes[0].area(AREA).unwrap()[17..17 + size] == data[..]);
        }
    }

    /// A hostile peer writes any octets: nothing panics, no handler runs for a message that has no right number twice.
    #[test]
    fn any_octets_from_a_peer_are_survived(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..48), 0..200),
        kinds in proptest::collection::vec(1u8..11, 200),
    ) {
        let mut node = Node::new(1, config(4));
        let state = &mut 0;
        (0..8).for_each(|number| node.handle_with(number, echo));
        node.register(AREA, vec![1; 100], Rights::ALL);
        for (n, (mut octets, kind)) in messages.into_iter().zip(kinds).enumerate() {
            if octets.len() >= HEADER_OCTETS {
                // Close to what is right, so that more of it is believed.
                octets[0] = kind << 4 | octets[0] & 7;
                octets[1] &= 7;
                let (acknowledged, granted) = (octets[5] & 3, octets[7] & 7);
                octets[2..8].copy_from_slice(&[0, *state as u8, 0, acknowledged, 0, granted]);
            }
            let now = Time::from_micros(n as u64 * 100);
            node.handle(PeerId(0), &octets, state, now);
            let _ = node.request(PeerId(0), NUMBER, &[1], &[]);
            if node.poll_transmit(PeerId(0), now).is_some() {
                node.sent(PeerId(0), now);
            }
            prop_assert!(node.peer(PeerId(0)).unwrap().outstanding() <= 8);
        }
    }
}

#[test]
fn without_faults_nothing_is_sent_again_and_replies_carry_the_acknowledgements() {
    let config = Config { window: 32, payload_octets: 64, ..Config::default() };
    let world = exchange(2, 3000, config, Faults::NONE, 1);
    for node in &world.nodes {
        let statistics = node.peer(PeerId(0)).unwrap().statistics();
        assert_eq!((statistics.sent, statistics.retransmitted), (5000, 0), "3000 requests and 2000 replies");
        assert!(statistics.acknowledgements < 500, "{statistics:?}");
    }
}

#[test]
fn one_lost_message_is_told_at_once_and_costs_a_window_not_a_timer() {
    let config = Config { retransmit_after: Duration::from_secs(5), ..config(16) };
    let mut world = world(2, config, Faults::NONE, 3);
    for n in 0..8 {
        world.nodes[0].request(PeerId(0), QUIET, &[n], &[]).unwrap();
    }
    // The first is lost: taken off the node and given to nobody.
    assert!(world.nodes[0].poll_transmit(PeerId(0), world.now).is_some());
    world.nodes[0].sent(PeerId(0), world.now);
    while world.states[1].requests[0].len() < 8 {
        assert!(world.step());
    }
    assert!(world.states[1].requests[0].iter().copied().eq(0..8));
    assert!(world.now <= Time::ZERO + 4 * DELAY, "the gap was told: {}", world.now);
    assert_eq!(world.nodes[1].peer(PeerId(0)).unwrap().counters().dropped(DropReason::Sequence), 7);
}

#[test]
fn a_peer_that_is_silent_is_given_up_and_its_transfers_end() {
    let dead = Faults { lost: 1000, ..Faults::NONE };
    let config = Config { attempts: 5, ..config(4) };
    let mut world = world(2, config, dead, 3);
    world.nodes[0].request(PeerId(0), QUIET, &[1], &[]).unwrap();
    let id = world.nodes[0].put(PeerId(0), AREA, 0, vec![1; 1000], PUT).unwrap();
    while world.step() {}
    assert!(world.nodes[0].peer(PeerId(0)).unwrap().is_lost());
    assert_eq!(world.nodes[0].poll_ended(), Some((id, Err(Error::Lost))));
    assert_eq!(world.nodes[0].request(PeerId(0), QUIET, &[1], &[]), Err(Error::Lost));
    // One request, three pieces of the put: a window.
    assert_eq!(world.nodes[0].peer(PeerId(0)).unwrap().counters().dropped(DropReason::Timeout), 4);
}

#[test]
fn a_grant_that_was_lost_is_asked_for_again() {
    let mut world = world(2, config(2), Faults::NONE, 3);
    for n in 0..2 {
        world.nodes[0].request(PeerId(0), QUIET, &[n], &[]).unwrap();
    }
    assert_eq!(world.nodes[0].request(PeerId(0), QUIET, &[2], &[]), Err(Error::Busy));
    let now = world.now;
    // What acknowledges and grants is lost, though each request came.
    for _ in 0..2 {
        let octets = world.nodes[0].poll_transmit(PeerId(0), now).unwrap().to_vec();
        world.nodes[0].sent(PeerId(0), now);
        world.nodes[1].handle(PeerId(0), &octets, &mut world.states[1], now);
    }
    while world.nodes[1].poll_transmit(PeerId(0), now).is_some() {
        world.nodes[1].sent(PeerId(0), now);
    }
    while world.nodes[0].request(PeerId(0), QUIET, &[2], &[]).is_err() {
        assert!(world.step() && world.now < END);
    }
    while world.states[1].requests[0].len() < 3 {
        assert!(world.step() && world.now < END);
    }
    assert!(world.states[1].requests[0].iter().copied().eq(0..3));
}

#[test]
fn a_transfer_whose_grants_were_lost_asks_for_them_again() {
    let mut world = world(2, config(2), Faults::NONE, 3);
    world.nodes[1].register(AREA, vec![0; 200], Rights::ALL);
    let id = world.nodes[0].put(PeerId(0), AREA, 0, vec![6; 180], PUT).unwrap();
    let now = world.now;
    // Two of three pieces come, and nothing tells of it.
    while let Some(octets) = world.nodes[0].poll_transmit(PeerId(0), now).map(<[u8]>::to_vec) {
        world.nodes[0].sent(PeerId(0), now);
        world.nodes[1].handle(PeerId(0), &octets, &mut world.states[1], now);
    }
    while world.nodes[1].poll_transmit(PeerId(0), now).is_some() {
        world.nodes[1].sent(PeerId(0), now);
    }
    let ended = loop {
        if let Some(ended) = world.nodes[0].poll_ended() {
            break ended;
        }
        assert!(world.step() && world.now < END);
    };
    assert_eq!(ended, (id, Ok(())));
    assert_eq!(world.nodes[1].area(AREA).unwrap()[..180], [6; 180]);
}

#[test]
fn an_area_is_changed_and_read_only_as_its_rights_and_its_length_allow() {
    let mut world = world(2, config(4), Faults::NONE, 3);
    let peer = PeerId(0);
    world.nodes[0].register(AREA, vec![0; 500], Rights::ALL);
    world.nodes[1].register(AREA, vec![5; 100], Rights { read: true, write: false });
    let refused = [
        world.nodes[0].put(peer, AREA, 0, vec![1; 10], PUT).unwrap(),
        world.nodes[0].put(peer, AreaId(8), 0, vec![1; 200], PUT).unwrap(),
        world.nodes[0].get(peer, AREA, 50, 51, (AREA, 0)).unwrap(),
    ];
    let granted = world.nodes[0].get(peer, AREA, 0, 100, (AREA, 0)).unwrap();
    assert_eq!(world.nodes[0].get(peer, AREA, 0, 100, (AREA, 450)), Err(Error::Area), "no room here");
    let mut ended = Vec::new();
    while ended.len() < 4 {
        assert!(world.step() && world.now < END);
        ended.extend(std::iter::from_fn(|| world.nodes[0].poll_ended()));
    }
    for id in refused {
        assert!(ended.contains(&(id, Err(Error::Area))), "{ended:?}");
    }
    assert!(ended.contains(&(granted, Ok(()))));
    assert_eq!(world.nodes[1].area(AREA).unwrap(), [5; 100]);
    assert!(world.states[1].puts.is_empty());
    assert!(world.nodes[1].counters().dropped(DropReason::NotPermitted) >= 3);
}

#[test]
fn two_runs_of_a_world_are_equal() {
    let faults = Faults { lost: 100, repeated: 50, damaged: 10, late: Duration::from_micros(300) };
    let run = || {
        let world = exchange(3, 200, config(8), faults, 42);
        let statistics = world.nodes.iter().map(|node| *node.peer(PeerId(0)).unwrap().statistics());
        (world.now, world.carried, statistics.collect::<Vec<_>>())
    };
    assert_eq!(run(), run());
}
