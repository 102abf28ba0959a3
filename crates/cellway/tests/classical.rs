//! Classical IP over calls through two switches: a server, clients that register, and a call between them that ends
//! when it is idle.

use crate::up::{Net, within};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = r#"
[host.alpha]
ip = "10.0.0.1/24"
[host.beta]
ip = "10.0.0.2/24"
[host.gamma]
ip = "10.0.0.3/24"
[switch.s1]
prefix = "47000580ffe100000000000001"
[switch.s2]
prefix = "47000580ffe100000000000002"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
[[link]]
ends = ["gamma", "s2:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["s1:2", "s2:2"]
signalling = { version = "iisp" }
"#;

/// A command that runs until it is dropped, once it has said its first line.
struct Running(Child, String);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(net: &Net, arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).arg("--json").args(arguments);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Running(child, line)
}

fn calls(net: &Net) -> usize {
    // Each call has an end at both hosts.
    net.done(&["call", "list"])["calls"].as_array().unwrap().len() / 2
}

#[test]
fn clients_register_by_a_call_and_call_each_other_and_an_idle_call_is_released() {
    let net = Net::up(WAIT, NETWORK);
    let address = |host: &str| net.done(&["address", host])[0]["addresses"][0].as_str().map(str::to_owned);
    within(WAIT, "the hosts have addresses", || ["alpha", "beta", "gamma"].iter().all(|host| address(host).is_some()));
    let server = address("gamma").unwrap();
    let nobody = net.run(&["ip", "ping", "alpha", &server, "10.0.0.2", "-c", "1"]);
    let says = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && says.contains("no registration"), "{says}");
    let _gamma = start(&net, &["ip", "serve", "gamma", &server, "--serve-atmarp"]);
    let mut beta = start(&net, &["ip", "serve", "beta", &server, "--idle", "2"]);
    let said: Value = serde_json::from_str(&beta.1).unwrap();
    assert_eq!((&said["serving"], &said["circuit"]), (&"10.0.0.2".into(), &server.clone().into()));
    assert_eq!(calls(&net), 1, "beta has called the server");
    let ping = |to| net.done(&["ip", "ping", "alpha", &server, to, "-c", "3", "-i", "20", "-s", "3000"]);
    for to in ["10.0.0.2", "10.0.0.3"] {
        assert_eq!(ping(to)["received"], 3, "{to}");
    }
    within(WAIT, "alpha's calls end with its process", || calls(&net) == 1);

    let _alpha = start(&net, &["ip", "serve", "alpha", &server]);
    let from_server = net.run(&["ip", "ping", "gamma", &server, "10.0.0.1", "-c", "1"]);
    let says = String::from_utf8_lossy(&from_server.stderr).into_owned();
    assert!(!from_server.status.success() && says.contains("listening"), "one interface listens at a host: {says}");
    assert_eq!(calls(&net), 2);
    drop(_alpha);
    within(WAIT, "the call of alpha is gone", || calls(&net) == 1);
    // A call from alpha to beta that carries nothing more ends by beta's time, while alpha still runs.
    let (file, got) = (net.folder.path().join("file"), net.folder.path().join("got"));
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    let _ = beta.0.kill();
    let _ = beta.0.wait();
    within(WAIT, "the call of beta is gone", || calls(&net) == 0);
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).arg("--json");
    command.args(["ip", "receive", "beta", &server, &path(&got), "--idle", "2"]).stderr(Stdio::piped());
    let mut receiving = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(receiving.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let sent = net.done(&["ip", "send", "alpha", &server, "10.0.0.2", &path(&file)]);
    assert_eq!(sent["octets"], 100_000);
    assert!(receiving.wait().unwrap().success());
    assert_eq!(std::fs::read(got).unwrap(), vec![7; 100_000]);
}

#[test]
fn an_idle_call_is_released_and_made_again_for_the_next_packet() {
    let net = Net::up(WAIT, NETWORK);
    let address = |host: &str| net.done(&["address", host])[0]["addresses"][0].as_str().map(str::to_owned);
    within(WAIT, "the hosts have addresses", || ["alpha", "beta", "gamma"].iter().all(|host| address(host).is_some()));
    let server = address("gamma").unwrap();
    let _gamma = start(&net, &["ip", "serve", "gamma", &server, "--serve-atmarp"]);
    let _beta = start(&net, &["ip", "serve", "beta", &server, "--idle", "1"]);
    // Two pings three seconds apart: the call goes between them, and the second one has its own.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).arg("--json");
    command.args(["ip", "ping", "alpha", &server, "10.0.0.2", "-c", "2", "-i", "4000"]);
    let pinging = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    within(WAIT, "alpha has called beta", || calls(&net) == 3);
    within(Duration::from_secs(4), "the idle call is released", || calls(&net) == 2);
    let output = pinging.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["received"], 2, "{result}");
}
