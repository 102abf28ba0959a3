//! What a supervisor is told of a daemon: that it is up, that it lives, that it ends.

use crate::up::within;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn next(supervisor: &UnixDatagram) -> String {
    let mut said = [0; 256];
    let octets = supervisor.recv(&mut said).expect("something is told in time");
    String::from_utf8(said[..octets].to_vec()).unwrap()
}

#[test]
fn a_supervisor_is_told_that_the_network_is_up_that_it_lives_and_that_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let [net, socket, notify] = ["net.toml", "s", "notify"].map(|name| folder.path().join(name));
    std::fs::write(&net, "[host.alpha]\n").unwrap();
    let supervisor = UnixDatagram::bind(&notify).unwrap();
    supervisor.set_read_timeout(Some(WAIT)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(&socket).arg("up").arg(&net);
    command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "30000").env_remove("WATCHDOG_PID");
    let mut daemon = Daemon(command.stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(next(&supervisor), format!("READY=1\nMAINPID={}", daemon.0.id()));
    // What is told is so: the service answers.
    let status =
        Command::new(env!("CARGO_BIN_EXE_cellway")).arg("--socket").arg(&socket).arg("status").output().unwrap();
    assert!(status.status.success());
    (0..3).for_each(|_| assert_eq!(next(&supervisor), "WATCHDOG=1"));
    assert!(Command::new("kill").args(["-TERM", &daemon.0.id().to_string()]).status().unwrap().success());
    within(WAIT, "it says that it ends", || next(&supervisor) == "STOPPING=1");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}
