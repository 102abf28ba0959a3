//! Death is clean: a daemon whose engine has panicked ends at once, and says so.

use endpoint::Connection;
use hostile::{Field, Ground};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Says to this program that it is the daemon to die, and where it tells of its socket.
const DAEMON: &str = "HOSTILE_DAEMON";

/// Not a test of its own: a daemon, and its end.
#[test]
fn daemon() {
    let Ok(told) = std::env::var(DAEMON) else { return };
    let ground = Ground::build().host("alpha").up();
    std::fs::write(told, ground.socket().to_str().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let _ = ground.engine().with(|_| panic!("a cause to be told"));
    std::thread::sleep(Duration::from_secs(20));
}

#[test]
fn a_panic_of_the_engine_ends_the_daemon_at_once_with_its_cause_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("socket");
    let mut daemon = Command::new(std::env::current_exe().unwrap());
    daemon.args(["--exact", "death::daemon", "--nocapture"]).env(DAEMON, &told);
    let mut daemon = daemon.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    let patience = Duration::from_secs(10);
    let socket = loop {
        match std::fs::read_to_string(&told) {
            Ok(socket) if !socket.is_empty() => break socket,
            _ if begin.elapsed() > patience => panic!("the daemon does not start"),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let connection = Connection::open(socket.as_ref()).unwrap();
    // Its standard error ends when the last process that has it does: user proxies have none of it.
    let mut said = String::new();
    std::io::Read::read_to_string(daemon.stderr.as_mut().unwrap(), &mut said).unwrap();
    let status = daemon.wait().unwrap();
    assert_eq!(status.code(), Some(101), "{said}");
    assert!(said.contains("a cause to be told"), "{said}");
    assert!(begin.elapsed() < patience, "it took {:?}", begin.elapsed());
    assert!(connection.manage(serde_json::Value::Null).is_err(), "its clients are told");
}
