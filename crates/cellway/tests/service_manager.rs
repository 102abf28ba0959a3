//! A daemon under a service manager: what it sends to the notification socket, and how its log reaches the journal.

use crate::up::within;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";

/// A service manager with one service.
struct Manager {
    folder: TempDir,
    notifications: UnixDatagram,
    daemon: Child,
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Also where a test has stopped it.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Manager {
    fn start(description: &str, watchdog: Option<Duration>) -> Manager {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("net.toml"), description).unwrap();
        let notifications = UnixDatagram::bind(at("notify")).unwrap();
        notifications.set_read_timeout(Some(WAIT)).unwrap();
        let mut command = cellway(folder.path());
        command.arg("up").arg(at("net.toml")).env("NOTIFY_SOCKET", at("notify"));
        command.env_remove("WATCHDOG_PID").env_remove("WATCHDOG_USEC");
        if let Some(limit) = watchdog {
            command.env("WATCHDOG_USEC", limit.as_micros().to_string());
        }
        let daemon = command.stderr(Stdio::null()).spawn().unwrap();
        Manager { folder, notifications, daemon }
    }

    /// The next notification, if one comes in time.
    fn next(&self) -> Option<String> {
        let mut octets = [0; 1024];
        let length = self.notifications.recv(&mut octets).ok()?;
        Some(String::from_utf8(octets[..length].to_vec()).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemon), signal).unwrap();
    }
}

fn cellway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(folder.join("s")).stdin(Stdio::null());
    command
}

#[test]
fn a_service_manager_is_told_that_the_daemon_is_ready_works_and_ends() {
    let mut manager = Manager::start(NETWORK, Some(Duration::from_millis(200)));
    let ready = manager.next().expect("READY=1");
    assert!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    assert!(ready.lines().any(|line| line == "STATUS=2 stations, 1 links, 0 circuits"), "{ready}");
    // Ready means that the first request is answered.
    let status = cellway(manager.folder.path()).arg("status").output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    // The engine sleeps, and works: it has nothing to do.
    for _ in 0..3 {
        assert_eq!(manager.next().as_deref().map(str::trim_end), Some("WATCHDOG=1"));
    }
    manager.signal(Signal::TERM);
    let mut last = String::new();
    within(WAIT, "STOPPING=1", || {
        last = manager.next().unwrap_or_default();
        last.trim_end() == "STOPPING=1"
    });
    assert!(manager.daemon.wait().unwrap().success());
}

#[test]
fn a_daemon_that_hangs_sends_no_watchdog_notification() {
    let manager = Manager::start(NETWORK, Some(Duration::from_millis(200)));
    let mut seen = String::new();
    within(WAIT, "WATCHDOG=1", || {
        seen = manager.next().unwrap_or_default();
        seen.trim_end() == "WATCHDOG=1"
    });
    manager.signal(Signal::STOP);
    // Those that were on their way; then none for as long as ten limits.
    manager.notifications.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let begun = Instant::now();
    while manager.next().is_some() {
        assert!(begun.elapsed() < WAIT, "a stopped process sends notifications");
    }
    manager.signal(Signal::CONT);
    manager.notifications.set_read_timeout(Some(WAIT)).unwrap();
    assert_eq!(manager.next().as_deref().map(str::trim_end), Some("WATCHDOG=1"));
}

#[test]
fn a_description_that_is_refused_is_not_told_to_be_ready() {
    let mut manager = Manager::start("[host.alpha]\nnonsense = 1\n", None);
    assert_eq!(manager.daemon.wait().unwrap().code(), Some(1));
    manager.notifications.set_nonblocking(true).unwrap();
    assert_eq!(manager.next(), None);
}

/// What the log of a daemon says, from its start to the line for a description that is refused. `stream` makes the value of
/// `JOURNAL_STREAM` of the log file's device and inode.
fn log(stream: impl Fn(u64, u64) -> String) -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("net.toml"), NETWORK).unwrap();
    let file = fs::File::create(at("log")).unwrap();
    let is = file.metadata().unwrap();
    let mut command = cellway(folder.path());
    command.arg("up").arg(at("net.toml")).env("JOURNAL_STREAM", stream(is.dev(), is.ino())).stderr(file);
    let mut daemon = command.spawn().unwrap();
    let text = || fs::read_to_string(at("log")).unwrap();
    within(WAIT, "the daemon is up", || text().contains("up: 2 stations"));
    fs::write(at("net.toml"), "[host.alpha]\nnonsense = 1\n").unwrap();
    kill_process(Pid::from_child(&daemon), Signal::HUP).unwrap();
    within(WAIT, "the description is refused", || text().contains("not applied"));
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    text()
}

#[test]
fn lines_for_the_journal_begin_with_their_priority_and_have_no_time() {
    let said = log(|device, inode| format!("{device}:{inode}"));
    assert!(said.lines().all(|line| line.starts_with('<') && line[2..].starts_with('>')), "{said}");
    assert!(said.lines().any(|line| line.starts_with("<6>up: 2 stations")), "{said}");
    assert!(said.lines().any(|line| line.starts_with("<3>not applied")), "{said}");
}

#[test]
fn lines_elsewhere_have_time_and_level_and_no_priority() {
    let said = log(|device, inode| format!("{device}:{}", inode + 1));
    assert!(said.lines().all(|line| !line.starts_with('<')), "{said}");
    assert!(said.lines().any(|line| line.contains("ERROR") && line.contains("not applied")), "{said}");
}
