//! An engine of several shards, each with a thread: applications at hosts of different shards, by a switch of a third.

use crate::lan::Lan;
use endpoint::{ChannelId, Endpoint, Events, SendError};
use host::HostInterface;
use host::engine;
use host::service::Everybody;
use net::topology::{CircuitDescription, LinkDescription};
use net::{Carries, LinkConfig, Network, SwitchElementConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::{Contract, Flow};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));
/// Of best effort, and with credits.
const CIRCUITS: [(u16, Flow); 2] = [(100, Flow::BestEffort), (200, Flow::Credit)];

/// alpha, a switch and beta, each in a shard of its own if there are so many.
fn lan(shards: usize, carries: Carries) -> Lan {
    Lan::of(Network::sharded(shards, 64, 65_536), Everybody, move |core| {
        let (fabric, network) = (&mut core.fabric, &mut core.network);
        let stations = [
            fabric.add_host(network, "alpha", HostInterface::new(64)).unwrap(),
            fabric.add_switch(network, "s1", SwitchElementConfig::default()).unwrap(),
            fabric.add_host(network, "beta", HostInterface::new(64)).unwrap(),
        ];
        for (n, node) in stations.into_iter().enumerate() {
            assert!(network.move_node(node, n % shards));
        }
        for ends in [["alpha", "s1:0"], ["s1:1", "beta"]] {
            let ends = ends.map(|end| end.parse().unwrap());
            let config = LinkConfig { carries, ..LinkConfig::default() };
            fabric.add_link(network, &LinkDescription { ends, config }).unwrap();
        }
        for (vci, flow) in CIRCUITS {
            if carries == Carries::Frames && flow == Flow::Credit {
                continue;
            }
            let ends = ["alpha", "beta"].map(|host| format!("{host} 0.{vci}").parse().unwrap()).to_vec();
            let contract = Contract { flow, ..Contract::default() };
            let circuit = CircuitDescription { ends, contract, ..CircuitDescription::default() };
            fabric.add_circuit(network, &circuit).unwrap();
        }
    })
}

fn sdu(n: u32) -> Vec<u8> {
    let mut sdu: Vec<u8> = (0..4 + n * 37 % 3000).map(|j| (n + j * 7) as u8).collect();
    sdu[..4].copy_from_slice(&n.to_be_bytes());
    sdu
}

fn send(endpoint: &mut Endpoint, channel: ChannelId, sdu: &[u8]) {
    while endpoint.send_copy(channel, sdu) == Err(SendError::Full) {
        assert!(endpoint.wait_send(TIMEOUT).unwrap(), "no room in the send ring");
    }
}

#[test]
fn applications_of_different_shards_talk_to_each_other_whatever_their_events_are() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = lan(3, carries);
        for events in [Events::Interrupt, Events::Polling, Events::Clocked { hertz: 1000 }, Events::default()] {
            let (mut a, to_b) = lan.endpoint("alpha", events, 100);
            let (mut b, to_a) = lan.endpoint("beta", events, 100);
            for n in 0..100 {
                send(&mut a, to_b, &sdu(n));
                let got = b.receive(TIMEOUT).unwrap().expect("an SDU").to_vec();
                assert!(got == sdu(n));
                send(&mut b, to_a, &got);
                assert!(a.receive(TIMEOUT).unwrap().expect("it comes back")[..] == got[..]);
            }
        }
    }
}

/// Sends both ways as fast as can be on the circuit with credits, while `meanwhile` goes on.
fn flood(lan: &Lan, count: u32, meanwhile: impl Fn()) {
    let ends = ["alpha", "beta"].map(|host| lan.endpoint(host, Events::default(), 200));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let both = ends.map(|(mut endpoint, channel)| {
            scope.spawn(move || {
                let (mut next, mut got) = (0, 0);
                while next < count || got < count {
                    while next < count && endpoint.send_copy(channel, &sdu(next)).is_ok() {
                        next += 1;
                    }
                    let wait = if next < count { Some(Duration::ZERO) } else { TIMEOUT };
                    while let Some(octets) =
                        endpoint.receive(if got < count { wait } else { Some(Duration::ZERO) }).unwrap()
                    {
                        assert!(octets[..] == sdu(got)[..], "number {got}");
                        got += 1;
                        if next < count || got == count {
                            break;
                        }
                    }
                }
            })
        });
        let done = &done;
        scope.spawn(move || {
            both.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            meanwhile();
        }
    });
}

#[test]
fn nothing_is_lost_between_shards_while_commands_and_jobs_stop_them() {
    let lan = lan(3, Carries::Cells);
    let engine = lan.engine.clone();
    flood(&lan, 20_000, || {
        let stations = engine.with(|core| core.network.nodes().count()).unwrap();
        assert_eq!(stations, 3, "a command has the whole network");
        let mut slices = 0;
        let mut rounds: Vec<Vec<u64>> = Vec::new();
        let rounds = engine.in_slices(move |core| {
            rounds.push(core.shard_stats().iter().map(|stats| stats.rounds).collect());
            slices += 1;
            (slices == 10).then(|| std::mem::take(&mut rounds))
        });
        let each_has_a_round = |two: &[Vec<u64>]| two[0].iter().zip(&two[1]).all(|(before, after)| before < after);
        assert!(rounds.unwrap().windows(2).all(each_has_a_round), "between two slices");
        std::thread::sleep(Duration::from_millis(1));
    });
    let lost = |core: &mut engine::Core| {
        core.network.links().map(|l| l.from_a.sent.dropped_total() + l.from_b.sent.dropped_total()).sum::<u64>()
    };
    assert_eq!(engine.with(lost), Ok(0));
}

#[test]
fn at_rest_no_shard_wakes_up() {
    let lan = lan(3, Carries::Cells);
    flood(&lan, 100, || std::thread::sleep(Duration::from_millis(1)));
    std::thread::sleep(Duration::from_millis(100));
    let stats = || lan.engine.with(|core| core.shard_stats()).unwrap();
    let before = stats();
    std::thread::sleep(Duration::from_secs(1));
    for (before, after) in before.into_iter().zip(stats()) {
        // The two questions woke it, and what it heard of them from the others.
        assert!(after.sleeps - before.sleeps <= 12, "{} sleeps in a second of rest", after.sleeps - before.sleeps);
        assert!(after.rounds - before.rounds <= 300, "{} rounds in a second of rest", after.rounds - before.rounds);
    }
}

#[test]
fn a_command_waits_for_no_more_than_a_round_of_each_shard_and_the_threads_end() {
    let lan = lan(3, Carries::Cells);
    let begun = Instant::now();
    for _ in 0..200 {
        lan.engine.with(|_| ()).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?} for 200 commands", begun.elapsed());
    assert_eq!(lan.engine.with(|core| core.threads().len()), Ok(3));
    lan.engine.stop();
    assert!(lan.engine.with(|_| ()).is_err());
}
