//! The service is killed while commands run that sleep in a poll of their own: each says so and ends.

use crate::up::{Net, within};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
[[circuit]]
ends = ["alpha 0.102", "beta 0.102"]
"#;

/// A command that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command, whose standard input stays open, by the program and words that `by` begins with, if it does.
fn start(net: &Net, by: &[&str], arguments: &[&str]) -> Running {
    let socket = net.folder.path().join("s").display().to_string();
    let words = [by, &[env!("CARGO_BIN_EXE_cellway"), "--socket", &socket], arguments].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

#[test]
fn a_command_that_reconnects_begins_again_when_the_service_is_back() {
    let mut net = Net::up(WAIT, NETWORK);
    let serve = ["ip", "serve", "beta", "0.100", "--address", "10.9.0.2/24", "--reconnect"];
    let mut running = start(&net, &[], &serve);
    let command = &mut running.0;
    let serves = |net: &Net| {
        let status = net.run(&["status"]);
        let status = serde_json::from_slice::<serde_json::Value>(&status.stdout).unwrap_or_default();
        status["endpoints"].as_array().is_some_and(|all| all.iter().any(|endpoint| endpoint["channels"] == 1))
    };
    within(WAIT, "it serves", || serves(&net));
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_cellway"));
    daemon.arg("--socket").arg(net.folder.path().join("s")).arg("up").arg(net.folder.path().join("net.toml"));
    net.daemon = daemon.stderr(Stdio::null()).spawn().unwrap();
    within(WAIT, "it serves again", || serves(&net));
    assert!(Command::new("kill").args(["-INT", &command.id().to_string()]).status().unwrap().success());
    within(WAIT, "it ends", || command.try_wait().unwrap().is_some());
    let mut said = String::new();
    command.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(command.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("waiting for the service"), "{said}");
    // A command that ends by itself cannot begin again.
    assert_eq!(net.run(&["status", "--reconnect"]).status.code(), Some(2));
}

#[test]
fn commands_that_wait_for_packets_end_with_the_service() {
    let mut net = Net::up(WAIT, NETWORK);
    let serve = ["ip", "serve", "beta", "0.100", "--address", "10.9.0.2/24"];
    let tun = ["ip", "tun", "alpha", "0.100", "--address", "10.9.0.1/24"];
    let mut commands = vec![
        (start(&net, &[], &serve), "ip serve"),
        (start(&net, &[], &["ip", "ppp", "alpha", "0.101"]), "ip ppp"),
        (start(&net, &[], &["receive", "beta", "0.102"]), "receive"),
    ];
    // A network of its own, in which this user may make devices.
    const APART: &[&str] = &["unshare", "--user", "--map-root-user", "--net"];
    let apart = Command::new(APART[0]).args(&APART[1..]).arg("true").stderr(Stdio::null()).status();
    if apart.is_ok_and(|status| status.success()) && Path::new("/dev/net/tun").exists() {
        commands.push((start(&net, APART, &tun), "ip tun"));
    } else {
        eprintln!("no network namespace or no /dev/net/tun: without `ip tun`");
    }
    let open = || {
        let status = net.done(&["status"]);
        let endpoints = status["endpoints"].as_array().unwrap();
        endpoints.iter().filter(|endpoint| endpoint["channels"] == 1).count()
    };
    within(WAIT, "all have opened their circuits", || open() == commands.len());
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
    for (Running(command), name) in &mut commands {
        within(WAIT, &format!("{name} ends"), || command.try_wait().unwrap().is_some());
        let mut said = String::new();
        command.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("the service has gone"), "{name}: {said}");
        assert_eq!(command.wait().unwrap().code(), Some(3), "{name}");
    }
}
