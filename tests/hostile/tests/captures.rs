//! Captures: what links carry is for who may record it, as long as they may.

use control::config::parse;
use control::daemon::Daemon;
use endpoint::{Connection, Endpoint, EndpointConfig, OpenOptions};
use hostile::{as_user, assert_all_is_accounted_for, circuit};
use serde_json::json;
use std::fs::Permissions;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const EVE: u32 = 60_001;
const ALICE: u32 = 60_002;
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[host.gamma]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
     [[link]]\nends = [\"gamma\", \"beta:1\"]\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
const SOON: Duration = Duration::from_secs(5);

fn manages(user: u32) -> String {
    format!("[[allow]]\nusers = [{user}]\nrole = \"manage\"\n")
}

/// Reads until the stream ends, or for as long; true if it has ended.
fn ends(stream: &mut UnixStream, patience: Duration) -> bool {
    let (begin, mut piece) = (Instant::now(), [0; 4096]);
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while begin.elapsed() < patience {
        if matches!(stream.read(&mut piece), Ok(0)) {
            return true;
        }
    }
    false
}

/// Begins a capture; `None` where the service refuses it.
fn capture(connection: &Connection, link: &str, buffer_mib: u64) -> Option<UnixStream> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let request = json!({ "capture_start": { "link": link, "circuits": [], "buffer_mib": buffer_mib } });
    // It goes on without the connection that asked for it.
    connection.manage_with(request, &[theirs.as_fd()]).ok().map(|_| ours)
}

/// Until nothing is left of the first link's captures.
fn wait_until_free(daemon: &Daemon) {
    let has_tap = || {
        let looked = daemon.engine.with(|core| {
            let link = core.fabric.find_link("alpha:0 - beta:0").expect("the link is there");
            core.network.has_tap(link)
        });
        looked.unwrap()
    };
    let next = Instant::now();
    while has_tap() {
        assert!(next.elapsed() < SOON, "the link has its tap still");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_capture_ends_with_its_users_right_and_anothers_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("socket");
    let network = |rules: &[String]| parse(&(NETWORK.to_owned() + &rules.concat()), "net.toml").unwrap();
    let daemon = Daemon::start(network(&[manages(EVE), manages(ALICE)]), &socket).unwrap();
    let capture_of = |user: u32, link: &str| {
        let connection = as_user(user, || Connection::open(&socket).unwrap())?;
        Some(capture(&connection, link, 1).unwrap())
    };
    // One that is read, one that is not, and another user's.
    let Some(mut eve) = capture_of(EVE, "alpha - beta") else { return };
    let mut alice = capture_of(ALICE, "gamma - beta:1").unwrap();
    let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
    let mut sender = Endpoint::create(&socket, &config).unwrap();
    let channel = sender.open(circuit(100), OpenOptions::default()).unwrap();
    sender.send_copy(channel, &[7; 1000]).unwrap();
    let mut piece = [0; 64];
    eve.set_read_timeout(Some(SOON)).unwrap();
    assert!(eve.read(&mut piece).is_ok_and(|octets| octets > 0), "there is a capture");

    daemon.reload(network(&[manages(EVE), manages(ALICE), manages(60_003)])).unwrap();
    assert!(!ends(&mut eve, Duration::from_millis(200)), "a reload that leaves the right ends the capture");
    daemon.reload(network(&[manages(ALICE)])).unwrap();
    assert!(ends(&mut eve, SOON), "the capture goes on without the right");
    assert!(!ends(&mut alice, Duration::from_millis(200)), "another user's capture has ended");
    wait_until_free(&daemon);
    drop(sender);
    assert_all_is_accounted_for(&daemon.engine);
}

#[test]
fn a_recorder_that_says_its_end_and_reads_nothing_leaves_the_link_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let daemon = Daemon::start(parse(NETWORK, "net.toml").unwrap(), &socket).unwrap();
    let mut recorder = capture(&Connection::open(&socket).unwrap(), "alpha - beta", 4).unwrap();
    let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
    let mut sender = Endpoint::create(&socket, &config).unwrap();
    let channel = sender.open(circuit(100), OpenOptions::default()).unwrap();
    // More than the socket takes, so that the end is said while the service writes.
    let (mut sent, begin) = (0, Instant::now());
    while sent < 400 && begin.elapsed() < SOON {
        match sender.send_copy(channel, &[7; 9000]) {
            Ok(()) => sent += 1,
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    let mut piece = [0; 64];
    recorder.set_read_timeout(Some(SOON)).unwrap();
    assert!(recorder.read(&mut piece).is_ok_and(|octets| octets > 0), "there is a capture");
    recorder.shutdown(std::net::Shutdown::Write).unwrap();
    wait_until_free(&daemon);
    drop((sender, recorder));
    assert_all_is_accounted_for(&daemon.engine);
}
