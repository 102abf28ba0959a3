//! What a capture holds is not freed by the engine's thread. A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use control::config::parse;
use control::daemon::Daemon;
use counting_allocator::held_octets;
use endpoint::Connection;
use serde_json::json;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const STATIONS: &str = "[host.alpha]\n[host.beta]\n";
const LINK: &str = "[[link]]\nends = [\"alpha\", \"beta\"]\n";
/// What the engine's thread may free of its own in the meantime.
const LITTLE_OCTETS: i64 = 1 << 20;

#[test]
fn the_buffers_of_a_capture_whose_link_goes_are_not_freed_by_the_engines_thread() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let network = |text: &str| parse(text, "net.toml").unwrap();
    let daemon = Daemon::start(network(&format!("{STATIONS}{LINK}")), &socket).unwrap();
    let (mut recorder, theirs) = UnixStream::pair().unwrap();
    let request = json!({ "capture_start": { "link": "alpha - beta", "circuits": [], "buffer_mib": 64 } });
    Connection::open(&socket).unwrap().manage_with(request, &[theirs.as_fd()]).unwrap();
    drop(theirs);
    let held = || daemon.engine.with(|_| held_octets()).unwrap();
    let before = held();
    daemon.reload(network(STATIONS)).unwrap();
    // The stream ends when the capture has.
    recorder.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    recorder.read_to_end(&mut Vec::new()).unwrap();
    let freed = before - held();
    assert!(freed < LITTLE_OCTETS, "the engine's thread has freed {freed} octets");
}
