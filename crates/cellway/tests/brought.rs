//! What people bring along: the tables of an exercise, the notations of a DSL sheet, names of who is called.

use crate::up::{Net, within};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(120);

/// The three-switch exercise: 100/101, 100/150, 100/50, 100/201.
const EXERCISE: &str = r#"
[host.r1]
[host.r2]
[switch.A]
[switch.B]
[switch.C]
[[link]]
ends = ["r1", "A:1"]
[[link]]
ends = ["A:3", "B:2"]
[[link]]
ends = ["B:3", "C:3"]
[[link]]
ends = ["C:1", "r2"]
"#;

const TABLE: [[&str; 2]; 3] =
    [["A:1 100.101", "A:3 100.150"], ["B:2 100/150", "B:3 100/50"], ["C:3 100.50", "C:1 100.201"]];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that says by a file descriptor that it is ready, and waits for that. It writes to `out`.
fn ready(net: &Net, arguments: &[&str], out: &str) -> Running {
    let told = net.folder.path().join(format!("ready-{out}"));
    // What an earlier command of the test said there does not count.
    let _ = std::fs::remove_file(&told);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" --ready-fd 3 3>\"$READY\"", env!("CARGO_BIN_EXE_cellway")]);
    command.arg("--socket").arg(net.folder.path().join("s")).args(arguments).env("READY", &told);
    command.stdin(Stdio::null()).stdout(std::fs::File::create(net.folder.path().join(out)).unwrap());
    let child = Running(command.stderr(Stdio::null()).spawn().unwrap());
    within(WAIT, "the command is ready", || std::fs::read(&told).is_ok_and(|text| text == b"ready\n"));
    child
}

fn crosses(net: &Net) {
    let mut receiver = ready(net, &["receive", "r2", "100/201", "--count", "1", "--datagrams"], "got");
    let hello = net.folder.path().join("hello");
    std::fs::write(&hello, "hello\n").unwrap();
    let sent = net.run(&["send", "r1", "100.101", hello.to_str().unwrap(), "--datagrams"]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(receiver.0.wait().unwrap().success());
    assert!(std::fs::read_to_string(net.folder.path().join("got")).unwrap().contains("hello"));
    let list = net.done(&["circuit", "list"]);
    let way = ["r1:0 - A:1 100.101", "A:3 - B:2 100.150", "B:3 - C:3 100.50", "C:1 - r2:0 100.201"];
    assert_eq!(list[0]["way"], serde_json::json!(way), "{list}");
}

#[test]
fn the_tables_of_an_exercise_are_described_and_carry_data_with_exactly_these_labels() {
    let circuits = TABLE.iter().map(|[a, b]| format!("[[circuit]]\nends = [\"{a}\", \"{b}\"]\n"));
    let net = Net::up(WAIT, &(EXERCISE.to_owned() + &circuits.collect::<String>()));
    crosses(&net);
    assert_eq!(net.done(&["circuit", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn the_tables_are_typed_switch_by_switch_or_as_one_circuit_and_are_exported() {
    let net = Net::up(WAIT, EXERCISE);
    for [a, b] in TABLE {
        net.done(&["circuit", "add", a, b]);
    }
    crosses(&net);
    let exported = net.done(&["export"])["description"].as_str().unwrap().to_owned();
    assert!(exported.contains("via = ["), "{exported}");
    net.done(&["circuit", "remove", "r1 100.101", "r2 100.201"]);
    net.done(&["circuit", "add", "r1 100.101", "r2 100.201", "--via", "A:3 100.150", "--via", "B:3 100.50"]);
    crosses(&net);
    // The exported description is what is there.
    let file = net.folder.path().join("exported.toml");
    std::fs::write(&file, exported).unwrap();
    assert!(net.run(&["config", "check", file.to_str().unwrap()]).status.success());
}

/// What a circuit promises, as `circuit list` has it.
fn contract(net: &Net, name: &str) -> Value {
    let list = net.done(&["circuit", "list"]);
    let circuit = list.as_array().unwrap().iter().find(|circuit| circuit["name"] == name);
    circuit.unwrap_or_else(|| panic!("no {name}: {list:#}"))["contract"].clone()
}

#[test]
fn each_notation_of_a_quantity_is_one_value_on_the_command_line() {
    let net = Net::up(WAIT, "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n");
    for label in ["8.35", "8/35", "0.8.35"] {
        net.done(&["circuit", "add", &format!("alpha {label}"), &format!("beta {label}")]);
        assert!(net.run(&["trace", "alpha", label]).status.code() != Some(2), "{label} is no wrong usage");
        net.done(&["circuit", "remove", "alpha 8/35", "beta 8.35"]);
    }
    let mut contracts: Vec<Value> = Vec::new();
    for (rate, time) in [("384 kbit/s", "1500"), ("384kbps", "1.5ms"), ("1000", "1500us"), ("1000 cps", "0.0015 s")] {
        net.done(&["circuit", "add", "alpha 8.36", "beta 8.36", "--category", "cbr", "--pcr", rate, "--cdvt-us", time]);
        contracts.push(contract(&net, "alpha 8.36 - beta 8.36"));
        net.done(&["circuit", "remove", "alpha 8.36", "beta 8.36"]);
    }
    assert!(contracts.windows(2).all(|pair| pair[0] == pair[1]), "{contracts:#?}");
}

const CALLS: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
"#;

#[test]
fn a_name_stands_for_an_address_of_the_network_or_of_hosts_atm() {
    let net = Net::up(WAIT, CALLS);
    let address = || net.done(&["address"]).as_array().unwrap().iter().find(|h| h["host"] == "beta").cloned();
    within(WAIT, "beta has an address", || {
        address().is_some_and(|host| host["addresses"].as_array().is_some_and(|all| !all.is_empty()))
    });
    let digits = address().unwrap()["addresses"][0].as_str().unwrap().to_owned();
    let _listener = ready(&net, &["listen", "beta"], "calls");
    let hosts = net.folder.path().join("hosts.atm");
    std::fs::write(&hosts, format!("{digits} server # beta\n0.99 line\n")).unwrap();
    let typed = |arguments: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(net.folder.path().join("s")).args(arguments).env("CELLWAY_HOSTS_ATM", &hosts);
        command.stdin(Stdio::null()).output().unwrap()
    };
    for name in ["beta", "server", &digits] {
        let output = typed(&["ping", "alpha", name, "-c", "1"]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = typed(&["ping", "alpha", "nobody", "-c", "1"]);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && says.contains("hosts.atm"), "{says}");
    let output = typed(&["call", "alpha", "line"]);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && says.contains("0.99 is a circuit"), "{says}");
}

#[test]
fn a_host_and_a_switch_are_renamed_and_their_circuit_stays() {
    let net = Net::up(WAIT, &format!("{EXERCISE}[[circuit]]\nends = [\"r1 0.100\", \"r2 0.100\"]\n"));
    let name = || net.done(&["circuit", "list"])[0]["name"].as_str().unwrap().to_owned();
    let before = name();
    net.done(&["rename", "r1", "paris"]);
    net.done(&["rename", "B", "middle"]);
    assert_eq!(name(), before.replace("r1", "paris"));
    assert_eq!(net.done(&["ping", "paris", "0.100", "--count", "1"])["received"], 1);
    let way = net.done(&["circuit", "list"])[0]["way"].to_string();
    assert!(way.contains("middle:") && !way.contains("B:"), "{way}");
    assert!(!net.run(&["rename", "paris", "r2"]).status.success(), "the name is taken");
}
