//! The process that accepts connections is killed: another one begins, and nothing ends but what was being accepted.

use endpoint::{Connection, Geometry};
use hostile::{Field, Program, Watch, child, children, descendants, kill, until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCEPTOR: &str = "cellway-accept";
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
     [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.200\", \"beta 0.200\"]\n";
const KILLS: u64 = 4;

fn service(program: &Program) -> Value {
    let status = program.run("status --json");
    serde_json::from_str::<Value>(&status).expect("a status")["service"].clone()
}

/// Kills the acceptor, and waits for the next one.
fn kill_acceptor(program: &Program) {
    let old = child(program.id(), ACCEPTOR);
    kill(old);
    until("another acceptor", || children(program.id(), ACCEPTOR).iter().any(|id| *id != old));
}

/// An answer to a new connection.
fn is_answered(program: &Program) -> bool {
    Connection::open(program.socket()).is_ok_and(|new| new.manage(json!("overview")).is_ok())
}

#[test]
fn a_killed_acceptor_is_started_anew_and_connections_endpoints_and_circuits_stay() {
    let program = Program::up(NETWORK);
    let mut watch = Watch::new(&program, "alpha", "beta", 100, Geometry::default());
    let old = Connection::open(program.socket()).unwrap();
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| watch.run(|| !over.load(Ordering::Relaxed)));
        for _ in 0..KILLS {
            kill_acceptor(&program);
            assert!(old.manage(json!("overview")).is_ok(), "a connection of before is served");
            until("a new client is answered", || is_answered(&program));
        }
        over.store(true, Ordering::Relaxed);
        traffic.join().unwrap()
    });
    assert_eq!((report.lost, report.damaged), (0, 0), "{report:?}");
    let line = program.wait_for("another one was started");
    assert!(line.contains("signal 9") && line.contains("endpoints and circuits stay"), "{line}");
    let service = service(&program);
    assert_eq!((&service["accepts"], &service["acceptor_restarts"]), (&json!(true), &json!(KILLS)), "{service}");
    let told = program.run("status");
    assert!(told.contains(&format!("was started anew {KILLS} times")), "{told}");
}

#[test]
fn places_of_a_users_connections_are_counted_on_over_the_death_of_an_acceptor() {
    let program = Program::up(NETWORK);
    let open = || Connection::open(program.socket());
    let mut held: Vec<Connection> = (0..600).map(|_| open().unwrap()).collect();
    kill_acceptor(&program);
    held.extend((0..400).map(|_| open().unwrap()));
    assert!(held.iter().all(|connection| connection.manage(json!("overview")).is_ok()), "each is served");
    drop(held);
    until("the places are free again", || {
        let again: Vec<_> = (0..1000).map_while(|_| open().ok()).collect();
        again.len() == 1000
    });
}

#[test]
fn a_daemon_whose_acceptor_and_spawner_are_killed_goes_on_and_leaves_no_process() {
    let program = Program::up(NETWORK);
    let mut watch = Watch::new(&program, "alpha", "beta", 100, Geometry::default());
    let mut processes = descendants(program.id());
    kill(child(program.id(), "cellway-spawn"));
    kill_acceptor(&program);
    until("a new client is answered", || is_answered(&program));
    let report = watch.run(|| false);
    assert_eq!((report.lost, report.damaged), (0, 0), "{report:?}");
    processes.extend(descendants(program.id()));
    drop((watch, program));
    let lives = |id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        let state = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        name.starts_with("cellway") && !state.contains("State:\tZ")
    };
    until("all processes have ended", || !processes.iter().any(lives));
}

#[test]
fn acceptors_that_are_killed_as_soon_as_they_begin_are_started_ever_more_slowly() {
    let program = Program::up(NETWORK);
    let begin = Instant::now();
    let mut killed = 0u64;
    while begin.elapsed() < Duration::from_secs(2) {
        for id in children(program.id(), ACCEPTOR) {
            kill(id);
            killed += 1;
        }
    }
    until("a new client is answered", || is_answered(&program));
    // 20 ms, then twice as long each time: 2 s have six or seven of them.
    let restarts = service(&program)["acceptor_restarts"].as_u64().unwrap();
    assert!((1..=9).contains(&restarts), "{restarts} restarts in 2 s, {killed} kills");
}
