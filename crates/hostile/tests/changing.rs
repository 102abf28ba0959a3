//! While a description of twenty thousand circuits is applied, new clients come in and open circuits, and somebody who asks
//! for the status meanwhile keeps nobody waiting.

use control::config::parse;
use control::daemon::Daemon;
use endpoint::{Connection, Endpoint, EndpointConfig, OpenOptions};
use hostile::{assert_all_is_accounted_for, circuit};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CIRCUITS: u32 = 20_000;
/// Of the time of a reload, what a client may wait at most: one that waits for the end of what has begun waits for most of it.
const PART: u32 = 3;
/// The machine may be somebody else's for a moment; nobody waits for a reload each time.
const ATTEMPTS: u32 = 4;

fn description(pcr: u32) -> String {
    let mut text = "[host.alpha]\n[host.beta]\n[switch.s1]\nmax_routes = 65536\n[[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"beta\"]\n".to_owned();
    for vci in 100..100 + CIRCUITS {
        let pcr = if vci > 100 { pcr } else { 1 };
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\npcr = \"{pcr} cell/s\"\n");
    }
    text
}

#[test]
fn who_comes_while_many_circuits_change_does_not_wait_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let network = |pcr| parse(&description(pcr), "net.toml").unwrap();
    let daemon = Daemon::start(network(1), &socket).unwrap();
    let mut seen = Vec::new();
    for attempt in 0..ATTEMPTS {
        let wanted = network(2 + attempt);
        let (over, mut worst) = (AtomicBool::new(false), Duration::ZERO);
        let goes_on = || !over.load(Ordering::Relaxed);
        let took = std::thread::scope(|scope| {
            scope.spawn(|| {
                let asks = Connection::open(&socket).unwrap();
                while goes_on() {
                    asks.manage(json!("overview")).expect("an answer");
                }
            });
            let change = scope.spawn(|| {
                let begin = Instant::now();
                let applied = daemon.reload(wanted);
                over.store(true, Ordering::Relaxed);
                (applied.map(drop), begin.elapsed())
            });
            while goes_on() {
                let begin = Instant::now();
                let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
                let mut endpoint = Endpoint::create(&socket, &config).unwrap();
                endpoint.open(circuit(100), OpenOptions::default()).unwrap();
                worst = worst.max(begin.elapsed());
            }
            let (applied, took) = change.join().unwrap();
            applied.expect("it can be applied");
            took
        });
        seen.push((worst, took));
        if worst * PART < took {
            break;
        }
    }
    assert!(seen.iter().any(|(worst, took)| *worst * PART < *took), "clients waited, of reloads that took: {seen:?}");
    assert_all_is_accounted_for(&daemon.engine);
}
