//! What was sent and what arrived: a file between two ends of ours arrives whole; a receiver or a link that is missing is
//! named; the loss of single PDUs is told with its place and reason; counters outlive what they are of.

use crate::up::{Net, within};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(120);
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31", labels = "1.100-199" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni31", labels = "1.100-199" }
[[link]]
ends = ["gamma", "s1:2"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
one_way = true
[[circuit]]
ends = ["alpha 0.102", "beta 0.102", "gamma 0.102"]
[[circuit]]
ends = ["alpha 0.103", "gamma 0.103"]
"#;
/// Octets of a PDU that is sent unless told otherwise.
const PDU: usize = 9180;

/// A command that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Keeps it from running.
    fn stop(&self) {
        self.signal("-STOP");
        let stat = format!("/proc/{}/stat", self.0.id());
        within(WAIT, "it has stopped", || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T ")));
    }

    /// Its result, once it has ended: with its output in a file, on standard output.
    fn result(mut self) -> (Option<i32>, Value, String) {
        let (mut out, mut said) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().code(), serde_json::from_str(&out).unwrap_or(Value::Null), said)
    }
}

impl Net {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of so many octets that are not all alike.
    fn file(&self, name: &str, octets: usize) -> (String, Vec<u8>) {
        let data: Vec<u8> = (0..octets as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        std::fs::write(self.path(name), &data).unwrap();
        (self.path(name).to_str().unwrap().to_owned(), data)
    }

    /// Starts a command whose standard input stays open.
    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(self.path("s")).arg("--json").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Starts a receiver that says by a file descriptor that it is ready, and waits for that.
    fn ready(&self, arguments: &[&str]) -> Running {
        let told = self.path("ready");
        let _ = std::fs::remove_file(&told);
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" --ready-fd 3 3>\"$READY\"", env!("CARGO_BIN_EXE_cellway")]);
        command.arg("--socket").arg(self.path("s")).arg("--json").args(arguments).env("READY", &told);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = Running(command.spawn().unwrap());
        within(WAIT, "the receiver is ready", || std::fs::read(&told).is_ok_and(|text| text == b"ready\n"));
        running
    }

    fn address(&self, host: &str) -> String {
        let known = || self.done(&["address", host])[0]["addresses"][0].as_str().map(str::to_owned);
        within(WAIT, "the host has an address", || known().is_some());
        known().unwrap()
    }

    /// A file goes from alpha to beta, by the circuit or call of `to`, and arrives whole.
    fn carries(&self, to: &str, from: &str, octets: usize) -> [Value; 2] {
        let (file, data) = self.file("from", octets);
        let got = self.path("to");
        let receiving = self.ready(&["receive", "beta", from, got.to_str().unwrap()]);
        let sent = self.done(&["send", "alpha", to, &file]);
        let (code, received, said) = receiving.result();
        assert_eq!(code, Some(0), "{said}");
        assert!(std::fs::read(&got).unwrap() == data, "what arrived is not what was sent");
        let hash: String = Sha256::digest(&data).iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!((&sent["sha256"], &received["sha256"]), (&hash.clone().into(), &hash.into()));
        [sent, received]
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_to_a_receiver_of_the_same_network_arrives_whole_in_the_long_run() {
    let net = Net::up(WAIT, NETWORK);
    let runs = if std::env::var_os("CELLWAY_LONG").is_some() { 20 } else { 2 };
    let address = net.address("beta");
    for _ in 0..runs {
        for (to, from) in [(&*address, &*address), ("0.100", "0.100")] {
            let results = net.carries(to, from, 20_000_000);
            results.iter().for_each(|result| assert_eq!(result["transfer"], "reliable", "{result:#}"));
        }
    }
    net.carries("0.100", "0.100", 0);
}

#[test]
fn circuits_that_lead_one_way_or_to_many_and_who_asks_for_it_carry_single_pdus() {
    let net = Net::up(WAIT, NETWORK);
    let (file, data) = net.file("from", 3 * PDU);
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("0.101", &[], &["--count", "3"]),
        ("0.102", &[], &["--count", "3"]),
        ("0.100", &["--datagrams"], &["--count", "3"]),
        ("0.100", &[], &["--datagrams", "--timeout", "60"]),
    ];
    for (circuit, sends, receives) in cases {
        let (got, second) = (net.path("to"), net.path("second"));
        let receive =
            |host, to: &PathBuf| net.ready(&[&["receive", host, circuit, to.to_str().unwrap()], receives].concat());
        let receiving = receive("beta", &got);
        let leaf = (circuit == "0.102").then(|| receive("gamma", &second));
        let sent = net.done(&[&["send", "alpha", circuit, &file, "--strict"], sends].concat());
        assert_eq!((&sent["transfer"], &sent["pdus"]), (&"datagrams".into(), &3.into()), "{sent:#}");
        assert_eq!(sent["delivery"]["not_delivered"], 0, "{sent:#}");
        if receives.contains(&"--datagrams") {
            within(WAIT, "all is written", || std::fs::read(&got).is_ok_and(|got| got == data));
            receiving.signal("-INT");
        }
        let (code, received, why) = receiving.result();
        assert_eq!((code, &received["transfer"]), (Some(0), &"datagrams".into()), "{why}");
        assert_eq!((received["pdus"].as_u64(), &received["delivery"]["not_delivered"]), (Some(3), &0.into()));
        assert!(std::fs::read(&got).unwrap() == data);
        if let Some(leaf) = leaf {
            assert_eq!(leaf.result().0, Some(0));
            assert!(std::fs::read(&second).unwrap() == data);
        }
    }
}

#[test]
fn a_receiver_or_a_link_that_is_missing_is_named_and_is_a_failure() {
    let net = Net::up(WAIT, NETWORK);
    let (file, _) = net.file("from", 5 * PDU);
    let commands: [&[&str]; 2] = [&["send", "alpha", "0.100", &file], &["ttcp", "-t", "alpha", "0.100"]];
    for command in commands {
        let output = net.run(command);
        let why = said(&output);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {why}");
        assert!(why.contains("nobody has beta 0.100 open") && output.stdout.is_empty(), "{command:?}: {why}");
    }
    // What was sent is counted where it ended.
    let beta = &net.done(&["status"])["circuits"][0]["ends"][1]["received"]["dropped"];
    assert!(beta["not_open"].as_u64().is_some_and(|n| n > 0), "{beta}");
    for (by, link) in [("down", "beta:0 - s1:1"), ("up", "")] {
        net.done(&["link", by, "beta:0 - s1:1"]);
        let _receives = net.ready(&["receive", "beta", "0.100", "/dev/null"]);
        for command in commands {
            let output = net.run(command);
            assert_eq!(output.status.code(), Some(i32::from(by == "down")), "{command:?}: {}", said(&output));
            assert!(said(&output).contains(link), "{command:?}: {}", said(&output));
            if by == "up" {
                // It has what it was there for.
                break;
            }
        }
    }
}

#[test]
fn partial_loss_is_told_by_both_ends_with_place_reason_and_number() {
    let net = Net::up(WAIT, NETWORK);
    let pdus = 3000;
    let (file, _) = net.file("from", pdus * 1000);
    for (to, strict) in [("0.100", false), ("0.100", true)] {
        // Of each turn its own: what is in the other one says nothing of this.
        let got = net.path(if strict { "strict" } else { "to" });
        let receiving = net.ready(&["receive", "beta", to, got.to_str().unwrap(), "--datagrams"]);
        let strictly: &[&str] = if strict { &["--strict"] } else { &[] };
        let send = [&["send", "alpha", to, &file, "--pdu", "1000"], strictly].concat();
        // It has room for fewer than are sent, and takes none of them.
        receiving.stop();
        let output = net.run(&send);
        receiving.signal("-CONT");
        assert_eq!(output.status.code(), Some(i32::from(strict)), "{}", said(&output));
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        let lost = sent["delivery"]["not_delivered"].as_u64().unwrap();
        assert!(lost > 0 && lost < pdus as u64, "{sent:#}");
        let drops = sent["delivery"]["drops"].as_array().unwrap();
        assert!(drops.iter().any(|d| d["at"] == "beta" && d["reason"] == "no_buffer"), "{sent:#}");
        if strict {
            let told = format!("{lost} of {pdus} not delivered: no_buffer at beta, its application was slow");
            assert!(said(&output).contains(&told), "{}", said(&output));
        }
        let here = (pdus as u64 - lost) * 1000;
        within(WAIT, "all is written", || std::fs::metadata(&got).is_ok_and(|file| file.len() == here));
        receiving.signal("-INT");
        let (code, received, why) = receiving.result();
        assert_eq!(code, Some(0), "{why}");
        assert_eq!(received["delivery"]["not_delivered"], lost, "{received:#}");
        assert_eq!(
            (&received["delivery"]["sent"], received["pdus"].as_u64()),
            (&pdus.into(), Some(pdus as u64 - lost))
        );
    }
}

#[test]
fn what_was_lost_on_a_call_is_told_after_its_release() {
    let net = Net::up(WAIT, NETWORK);
    let address = net.address("beta");
    let got = net.path("to");
    let receiving = net.ready(&["receive", "beta", &address, got.to_str().unwrap(), "--datagrams"]);
    let mut sending = net.start(&["send", "alpha", &address, "--datagrams", "--pdu", "1000"]);
    let open = || {
        let endpoints = net.done(&["status"])["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.iter().filter(|endpoint| endpoint["channels"] == 1).count()
    };
    within(WAIT, "both have the call's circuit open", || open() == 2);
    receiving.stop();
    sending.0.stdin.take().unwrap().write_all(&vec![7; 3_000_000]).unwrap();
    let (code, sent, why) = sending.result();
    assert_eq!(code, Some(0), "{why}");
    let lost = |drops: &Value| {
        let drops = drops.as_array().cloned().unwrap_or_default();
        drops.iter().find(|d| d["at"] == "beta" && d["reason"] == "no_buffer").and_then(|d| d["count"].as_u64())
    };
    let of_sender = lost(&sent["delivery"]["drops"]);
    assert!(of_sender.is_some_and(|n| n > 0), "{sent:#}");
    // The call has gone with its sender, and the receiver has only its last counters.
    receiving.signal("-CONT");
    let (code, received, why) = receiving.result();
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(lost(&received["delivery"]["drops"]), of_sender, "{received:#}");
    let status = net.done(&["status", "--ended"]);
    let circuit = status["ended"].as_array().unwrap().iter().find(|e| e["received"]["dropped"]["no_buffer"].is_u64());
    assert_eq!(circuit.and_then(|e| e["received"]["dropped"]["no_buffer"].as_u64()), of_sender, "{status:#}");
}

#[test]
fn ttcp_says_how_many_it_sends_and_its_receiver_invents_no_loss() {
    let net = Net::up(WAIT, NETWORK);
    let receiving = net.ready(&["ttcp", "-r", "beta", "0.100"]);
    let sent = net.done(&["ttcp", "-t", "alpha", "0.100", "-n", "7", "--strict"]);
    assert_eq!((&sent["pdus"], &sent["delivery"]["not_delivered"]), (&7.into(), &0.into()), "{sent:#}");
    let (code, received, why) = receiving.result();
    assert_eq!(code, Some(0), "{why}");
    let counts = ["pdus", "pdus_expected", "pdus_lost"].map(|key| received[key].as_u64());
    assert_eq!(counts, [Some(7), Some(7), Some(0)], "{received:#}");
}

#[test]
fn counters_outlive_the_endpoint_the_link_and_the_call_that_they_are_of() {
    let net = Net::up(WAIT, NETWORK);
    let address = net.address("beta");
    let octets = 300_000;
    net.carries(&address, &address, octets);
    let (file, _) = net.file("from", 5 * PDU);
    assert_eq!(net.run(&["send", "alpha", "0.103", &file]).status.code(), Some(1));
    net.done(&["link", "remove", "gamma:0 - s1:2"]);
    let ended = || net.done(&["status", "--ended"])["ended"].as_array().cloned().unwrap_or_default();
    let of = |kind: &str, begins: &str| {
        let mut all = ended().into_iter();
        all.find(|e| e["kind"] == kind && e["name"].as_str().unwrap().starts_with(begins))
    };
    // The call's circuit has a label of its range.
    within(WAIT, "the call has ended", || of("circuit", "beta 1.").is_some() && of("endpoint", "beta ").is_some());
    let call = of("circuit", "beta 1.").unwrap();
    assert!(call["received"]["octets"].as_u64().unwrap() > octets as u64, "{call:#}");
    let link = of("link", "gamma:0 - s1:2 from s1:2").unwrap();
    assert!(link["sent"]["cells"].as_u64().unwrap() > 0, "{link:#}");
    let circuit = of("circuit", "gamma 0.103").unwrap();
    assert!(circuit["received"]["dropped"]["not_open"].as_u64().unwrap() > 0, "{circuit:#}");
    assert!(net.done(&["status"])["ended"].is_null(), "only where it is asked for");
}

#[test]
fn a_descriptor_that_cannot_be_told_is_refused_before_anything_is_opened() {
    let net = Net::up(WAIT, NETWORK);
    for command in [&["receive", "beta", "0.100", "--ready-fd", "77"][..], &["listen", "beta", "--ready-fd", "77"]] {
        let output = net.run(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(said(&output).contains("--ready-fd 77"), "{}", said(&output));
    }
    let mut command = Command::new("sh");
    let listen = "exec \"$0\" --socket \"$1\" listen beta --ready-fd 3 3>\"$2\" 2>/dev/null";
    command.args(["-c", listen, env!("CARGO_BIN_EXE_cellway")]).arg(net.path("s")).arg(net.path("told"));
    let _listening = Running(command.stdout(Stdio::null()).spawn().unwrap());
    within(WAIT, "it listens", || std::fs::read(net.path("told")).is_ok_and(|text| text == b"ready\n"));
}
