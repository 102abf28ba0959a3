//! The program as its users run it: processes, sockets, signals.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
"#;

struct Net {
    folder: tempfile::TempDir,
    daemon: Child,
}

/// A child that does not outlive its test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cellway(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(socket).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn within(limit: Duration, what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !f() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start_daemon(folder: &Path) -> Child {
    let file = folder.join("net.toml");
    let daemon = cellway(&folder.join("s"), &["up", file.to_str().unwrap(), "--log", "error"]).spawn().unwrap();
    within(Duration::from_secs(10), "the service answers", || {
        cellway(&folder.join("s"), &["status"]).output().unwrap().status.success()
    });
    daemon
}

impl Net {
    fn up() -> Net {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), NETWORK).unwrap();
        let daemon = start_daemon(folder.path());
        Net { folder, daemon }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        cellway(&self.socket(), arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Background {
        Background(cellway(&self.socket(), arguments).spawn().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Ends of circuits that an application has open.
    fn open_ends(&self) -> usize {
        let status = self.json(&["status"]);
        let ends = status["circuits"].as_array().unwrap().iter().flat_map(|circuit| circuit["ends"].as_array().unwrap());
        ends.filter(|end| !end["open"].is_null()).count()
    }

    fn endpoints(&self) -> usize {
        self.json(&["status"])["endpoints"].as_array().unwrap().len()
    }

    /// What the daemon holds: descriptors, mappings of segments.
    fn held(&self) -> (usize, usize) {
        let pid = self.daemon.id();
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        (fds, maps.lines().filter(|l| l.contains("memfd:cellway")).count())
    }

    /// The same once it changes no more: a connection that has just ended takes a moment.
    fn held_at_rest(&self) -> (usize, usize) {
        let mut last = self.held();
        within(Duration::from_secs(20), "the daemon is at rest", || {
            std::thread::sleep(Duration::from_millis(200));
            std::mem::replace(&mut last, self.held()) == last
        });
        last
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.daemon.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn noise(octets: usize) -> Vec<u8> {
    let mut x = 88_172_645_463_325_252u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..octets).map(|_| next()).collect()
}

fn send_reliably(net: &Net, circuit: &str, data: &[u8], tag: &str) {
    let (from, to) = (net.path(&format!("from-{tag}")), net.path(&format!("to-{tag}")));
    std::fs::write(&from, data).unwrap();
    let mut receiving = net.start(&["receive", "beta", circuit, &to, "--reliable", "--timeout", "30"]);
    let sent = net.run(&["send", "alpha", circuit, &from, "--reliable"]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(receiving.0.wait().unwrap().success());
    assert!(std::fs::read(&to).unwrap() == data, "what arrived is not what was sent");
}

#[test]
fn messages_files_pings_and_changes_to_a_running_network() {
    let mut net = Net::up();
    // Raw PDUs, standard input to standard output.
    let mut receiving = net.start(&["receive", "beta", "0.100", "--count", "1"]);
    within(Duration::from_secs(20), "the receiver is there", || net.open_ends() == 1);
    let mut send = cellway(&net.socket(), &["send", "alpha", "0.100"]).stdin(Stdio::piped()).spawn().unwrap();
    send.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert!(send.wait().unwrap().success());
    let mut text = String::new();
    receiving.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello\n");
    assert!(receiving.0.wait().unwrap().success());

    send_reliably(&net, "0.100", &noise(3_000_000), "file");
    for way in [
        &["ping", "alpha", "0.100", "-c", "3", "-i", "10"][..],
        &["ping", "alpha", "0.100", "-c", "3", "-i", "10", "--segment"],
    ] {
        let ping: Value = {
            let output = net.run(&[way, &["--json"]].concat());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(ping["received"], 3);
    }

    // Circuits come and go; what is in use is not disturbed.
    net.json(&["circuit", "add", "alpha 0.300", "beta 0.301", "--category", "cbr", "--pcr", "20 Mbit/s"]);
    assert_eq!(net.json(&["circuit", "list"]).as_array().unwrap().len(), 3);
    let again = net.run(&["circuit", "add", "alpha 0.300", "beta 0.302"]);
    assert!(!again.status.success());
    net.json(&["circuit", "remove", "alpha 0.300", "beta 0.301"]);
    assert_eq!(net.json(&["circuit", "list"]).as_array().unwrap().len(), 2);
    assert_eq!(net.json(&["link", "list"]).as_array().unwrap().len(), 2);
    let link = net.json(&["link", "add", "alpha", "far", "--atmtcp", "listen 127.0.0.1:0"]);
    let name = link["link"].as_str().unwrap();
    net.json(&["link", "remove", name]);

    // SIGHUP applies the file's difference.
    let file = NETWORK.replace("alpha 0.101", "alpha 0.111");
    std::fs::write(net.folder.path().join("net.toml"), file).unwrap();
    net.signal("-HUP");
    within(Duration::from_secs(20), "the new circuit", || {
        net.json(&["circuit", "list"])[1]["name"].as_str().unwrap().contains("0.111")
    });
    let counted = &net.json(&["circuit", "list"])[0]["ends"][1]["received"]["pdus"];
    assert!(counted.as_u64().unwrap() > 100, "an unchanged circuit keeps its counters: {counted}");

    // One that cannot be changes nothing, not even what it could have changed.
    let wrong = NETWORK.replace("alpha 0.101", "alpha 0.121").replace("beta 0.101", "beta 0.100");
    std::fs::write(net.folder.path().join("net.toml"), &wrong).unwrap();
    let check = net.run(&["config", "check", net.folder.path().join("net.toml").to_str().unwrap()]);
    assert!(!check.status.success(), "two circuits with one end");
    net.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    let circuits = net.json(&["circuit", "list"]);
    assert_eq!(circuits.as_array().unwrap().len(), 2);
    assert!(circuits[1]["name"].as_str().unwrap().contains("0.111"), "{circuits}");

    // Ctrl-C leaves nothing behind.
    net.signal("-INT");
    assert!(net.daemon.wait().unwrap().success());
    assert!(!net.socket().exists());
}

#[test]
fn a_client_killed_in_mid_transfer_leaves_nothing_behind_and_disturbs_no_other() {
    let net = Net::up();
    // Everything that is made once has been made.
    send_reliably(&net, "0.101", &noise(100_000), "warm");
    within(Duration::from_secs(20), "idle", || net.endpoints() == 0);
    let before = net.held_at_rest();
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| send_reliably(&net, "0.101", &noise(20_000_000), "other"));
        for round in 0..8 {
            let receiver = net.start(&["receive", "beta", "0.100", "/dev/null"]);
            let is_open = || !net.json(&["circuit", "list"])[0]["ends"][1]["open"].is_null();
            within(Duration::from_secs(20), "the receiver is there", is_open);
            let mut sender = cellway(&net.socket(), &["send", "alpha", "0.100", "/dev/zero"]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(60 + 13 * round));
            sender.kill().unwrap();
            sender.wait().unwrap();
            let free = || net.json(&["circuit", "list"])[0]["ends"][0]["open"].is_null();
            within(Duration::from_secs(10), "the circuit is free again", free);
            drop(receiver);
        }
        other.join()
    });
    assert!(other.is_ok(), "the other transfer was disturbed");
    within(Duration::from_secs(10), "descriptors and mappings as before", || net.held() == before);
}

#[test]
fn when_the_daemon_is_killed_clients_say_so_and_a_restart_needs_no_cleaning() {
    let mut net = Net::up();
    let mut client = net.start(&["receive", "beta", "0.100"]);
    within(Duration::from_secs(20), "the client is there", || net.endpoints() == 1);
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
    assert_eq!(client.0.wait().unwrap().code(), Some(3));
    let mut why = String::new();
    client.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("the service has gone"), "{why}");
    assert!(net.socket().exists(), "kill -9 leaves the socket's file");
    let nobody = net.run(&["status"]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("cellway up"));
    net.daemon = start_daemon(net.folder.path());
    send_reliably(&net, "0.100", &noise(50_000), "again");
}

#[test]
fn the_demo_ends_well_and_tshark_reads_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, noise(2_000_000)).unwrap();
    let out = folder.path().join("out");
    let demo = Command::new(env!("CARGO_BIN_EXE_cellway"))
        .args(["demo", file.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        demo.status.success(),
        "{}{}",
        String::from_utf8_lossy(&demo.stdout),
        String::from_utf8_lossy(&demo.stderr)
    );
    let results: Value = serde_json::from_slice(&std::fs::read(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["file"]["sent"]["sha256"], results["file"]["received"]["sha256"]);
    assert_eq!(results["oam"]["end_to_end"]["received"], 10);
    assert!(results["capture"]["records"].as_u64().unwrap() > 50);
    // All that passes is less than the service keeps for a recorder that reads nothing meanwhile.
    assert_eq!((&results["capture"]["missed"], &results["capture"]["incomplete"]), (&0.into(), &0.into()));
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg"));
    // What the page says of the way of these PDUs is what their receiver has counted.
    assert!(page.contains("by reference, without cells") && page.contains("read in place"));
    for row in results["ttcp"].as_array().unwrap() {
        let [arrived, in_place] = ["arrived", "in_place"].map(|key| row[key].as_u64().unwrap());
        assert!(in_place <= arrived && 2 * in_place > arrived, "{row}");
    }

    let tshark = Command::new("tshark").arg("-r").arg(out.join("capture.pcapng")).arg("-V").output();
    let Ok(tshark) = tshark else {
        assert!(std::env::var_os("CI").is_none(), "tshark is needed in CI: apt install tshark");
        println!("skipped: tshark is not installed (apt install tshark)");
        return;
    };
    let text = String::from_utf8_lossy(&tshark.stdout);
    let with = |a: &str, b: &str| text.lines().any(|l| l.contains(a) && l.contains(b));
    assert!(with("AAL5 CRC", "(correct)"), "no PDU with a correct CRC");
    assert!(!with("AAL5 CRC", "ncorrect"));
    for layer in
        ["Internet Protocol Version 4", "Internet Control Message Protocol", "Transmission Control Protocol", "OAM"]
    {
        assert!(text.contains(layer), "tshark shows no {layer}");
    }
}

#[test]
fn a_capture_says_in_json_that_it_has_begun_and_what_it_came_to() {
    let net = Net::up();
    let file = net.path("cells.pcapng");
    let mut capture = net.start(&["capture", "alpha-s1:0", &file, "--what", "cells", "--json"]);
    let said = BufReader::new(capture.0.stderr.take().unwrap());
    let mut said = said.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(said.next().unwrap(), json!({ "capturing": "alpha:0 - s1:0", "file": file }));
    let ping = net.json(&["ping", "alpha", "0.100", "-c", "3", "-i", "10"]);
    assert_eq!(ping["received"], 3);
    assert!(Command::new("kill").args(["-INT", &capture.0.id().to_string()]).status().unwrap().success());
    // Three requests, and three answers.
    let came: Value = serde_json::from_reader(capture.0.stdout.take().unwrap()).unwrap();
    assert_eq!(came, json!({ "records": 6, "missed": 0, "incomplete": 0 }));
    assert!(said.next().is_none() && capture.0.wait().unwrap().success());
}

#[test]
fn who_receives_a_file_by_tcp_says_when_it_listens_and_gets_it() {
    let net = Net::up();
    let (from, to) = (net.path("from"), net.path("to"));
    std::fs::write(&from, noise(300_000)).unwrap();
    let mut receiving = net.start(&["ip", "receive", "beta", "0.100", &to, "--address", "10.9.0.2/24", "--json"]);
    let mut said = BufReader::new(receiving.0.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line, json!({ "listening": "10.9.0.2:5001", "host": "beta", "circuit": "0.100" }));
    let sent = net.json(&["ip", "send", "alpha", "0.100", "10.9.0.2", &from, "--address", "10.9.0.1/24"]);
    let mut received = String::new();
    receiving.0.stdout.take().unwrap().read_to_string(&mut received).unwrap();
    assert!(receiving.0.wait().unwrap().success());
    let received: Value = serde_json::from_str(&received).unwrap();
    assert_eq!(received["sha256"], sent["sha256"]);
    assert!(std::fs::read(&to).unwrap() == noise(300_000));
}

#[test]
fn wrong_usage_and_wrong_files_are_told_with_a_cure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, NETWORK.replace("ends = [\"beta\", \"s1:1\"]", "ends = [\"beta\", \"s2\"]")).unwrap();
    let check = cellway(Path::new("/nowhere"), &["config", "check", file.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(1));
    assert!(text.contains("bad.toml:8") && text.contains("is it `s1`?") && text.contains("[switch.s2]"), "{text}");
    let usage = cellway(Path::new("/nowhere"), &["ttcp", "alpha", "0.100"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    for command in [
        "up", "status", "circuit", "link", "send", "receive", "ttcp", "ping", "ip", "run", "capture", "doctor", "demo",
        "vm",
    ] {
        let help = cellway(Path::new("/nowhere"), &[command, "--help"]).output().unwrap();
        assert!(help.status.success() && help.stdout.len() > 200, "{command} --help teaches little");
    }
    assert!(cellway(Path::new("/tmp/s"), &["doctor", "--json"]).output().unwrap().status.success());
}

#[test]
fn commands_of_the_laboratory_run_its_program_where_it_is_and_say_how_to_get_it_where_it_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("cellway");
    std::fs::copy(env!("CARGO_BIN_EXE_cellway"), &own).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(&own);
        command.args(["--socket", "/a/socket"]).args(words).env("PATH", elsewhere.path()).output().unwrap()
    };
    for words in [&["lab", "list"][..], &["bench", "path"]] {
        let output = run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains("cellway-lab") && said.contains("make build"),
            "{said}"
        );
    }
    let script = |folder: &Path, name: &str| {
        let program = folder.join("cellway-lab");
        std::fs::write(&program, format!("#!/bin/sh\necho {name} \"$@\"\nexit 7\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(elsewhere.path(), "elsewhere");
    let said = |words: &[&str]| {
        let output = run(words);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let expected = |text: &str| (Some(7), format!("{text}\n"));
    assert_eq!(said(&["lab", "run", "--all"]), expected("elsewhere --socket /a/socket run --all"));
    // Beside the program it is of the same version.
    script(folder.path(), "beside");
    assert_eq!(said(&["--json", "bench", "sar"]), expected("beside --socket /a/socket --json bench sar"));
}
