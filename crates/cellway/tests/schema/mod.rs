//! What commands print with `--json` is what `cellway schema` says of them, on standard output, whole.

pub mod validate;

use crate::up::{Net, within};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

const NETWORK: &str = r#"
[host.alpha]
ip = "10.0.0.1/24"
[host.beta]
ip = "10.0.0.2/24"
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31", labels = "1.100-199" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni31", labels = "1.100-199" }
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
"#;

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Schemas, and how many outputs have been held against them.
struct Schemas {
    commands: Value,
    seen: usize,
}

impl Schemas {
    fn new() -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_cellway")).arg("schema").output().unwrap();
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        Schemas { commands: all["commands"].clone(), seen: 0 }
    }

    fn hold(&mut self, command: &str, value: &Value) {
        let schema = self.commands.get(command).unwrap_or_else(|| panic!("no schema of {command}"));
        let wrong = validate::wrong(schema, value);
        assert!(wrong.is_empty(), "{command}: {wrong:#?}\n{value:#}");
        self.seen += 1;
    }

    /// A command that succeeds and prints one value.
    fn done(&mut self, net: &Net, command: &str, rest: &[&str]) -> Value {
        let arguments: Vec<&str> = command.split(' ').chain(rest.iter().copied()).collect();
        let value = net.done(&arguments);
        self.hold(command, &value);
        value
    }

    /// A command that fails: what it says on standard error.
    fn fails(&mut self, net: &Net, arguments: &[&str]) -> Value {
        let output = net.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let value = serde_json::from_slice(&output.stderr).unwrap();
        self.hold("(a command fails, on standard error)", &value);
        value
    }
}

/// A command that runs while others do.
fn start(net: &Net, arguments: &[&str]) -> Background {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).arg("--json").args(arguments);
    Background(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn line(from: impl std::io::Read) -> Value {
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// Ends a command by Ctrl-C; its result.
fn ended(mut running: Background) -> Value {
    let stdout = running.0.stdout.take().unwrap();
    let id = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    serde_json::from_reader(stdout).unwrap()
}

fn result(mut running: Background) -> Value {
    serde_json::from_reader(running.0.stdout.take().unwrap()).unwrap()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn results_are_what_their_schemas_say() {
    let mut schemas = Schemas::new();
    let net = Net::up(WAIT, NETWORK);
    let here = |name: &str| path(net.folder.path(), name);
    network(&mut schemas, &net, &here("net.toml"));

    // Data and figures.
    std::fs::write(here("from"), vec![7; 50_000]).unwrap();
    let receiving = start(&net, &["receive", "beta", "0.100", &here("to"), "--reliable", "--timeout", "30"]);
    schemas.done(&net, "send", &["alpha", "0.100", &here("from"), "--reliable"]);
    schemas.hold("receive", &result(receiving));
    let receiving = start(&net, &["ttcp", "-r", "beta", "0.100", "-n", "5"]);
    let open = |end: &str| {
        let status = net.done(&["status"]);
        let ends = status["circuits"].as_array().unwrap().iter().flat_map(|c| c["ends"].as_array().unwrap().clone());
        ends.filter(|e| e["end"] == end).any(|e| e["open"] == "aal5")
    };
    within(WAIT, "ttcp -r has its circuit", || open("beta 0.100"));
    schemas.done(&net, "ttcp", &["-t", "alpha", "0.100", "-n", "5"]);
    schemas.hold("ttcp", &result(receiving));
    schemas.done(&net, "ping", &["alpha", "0.100", "-c", "2", "-i", "1"]);
    schemas.done(&net, "trace", &["alpha", "0.100", "-c", "2"]);

    // IP.
    let mut serving = start(&net, &["ip", "serve", "beta", "0.101"]);
    schemas.hold("ip serve", &line(serving.0.stdout.take().unwrap()));
    schemas.done(&net, "ip ping", &["alpha", "0.101", "10.0.0.2", "-c", "2", "-i", "1"]);
    drop(serving);
    let mut receiving = start(&net, &["ip", "receive", "beta", "0.101", &here("tcp")]);
    schemas.hold("(ip receive begins, on standard error)", &line(receiving.0.stderr.take().unwrap()));
    schemas.done(&net, "ip send", &["alpha", "0.101", "10.0.0.2", &here("from")]);
    schemas.hold("ip receive", &result(receiving));

    // Recordings.
    let file = here("recording");
    let mut capture = start(&net, &["capture", "alpha:0 - s1:0", &file, "--format", "atmtcp"]);
    schemas.hold("(capture begins, on standard error)", &line(capture.0.stderr.take().unwrap()));
    let mut receiving = start(&net, &["receive", "beta", "0.100", "/dev/null"]);
    schemas.hold("(receive, listen or ttcp -r is ready, on standard error)", &line(receiving.0.stderr.take().unwrap()));
    net.done(&["send", "alpha", "0.100", &here("from")]);
    assert!(receiving.0.wait().unwrap().success());
    schemas.hold("capture", &ended(capture));
    schemas.done(&net, "inject", &["alpha", "0.100", "--hex", "00"]);
    let replayed = schemas.done(&net, "replay", &[&file]);
    assert!(!replayed.as_array().unwrap().is_empty());
    let relaying = start(&net, &["relay", "listen", "127.0.0.1:0", "write", &here("relayed")]);
    std::thread::sleep(Duration::from_millis(300));
    schemas.hold("relay", &ended(relaying));

    calls(&mut schemas, &net);
    let output = net.run(&["doctor"]);
    schemas.hold("doctor", &serde_json::from_slice(&output.stdout).unwrap());
    assert!(schemas.seen > 35, "{}", schemas.seen);
}

/// Looking at the network and changing it.
fn network(schemas: &mut Schemas, net: &Net, file: &str) {
    schemas.done(net, "status", &[]);
    schemas.done(net, "circuit list", &[]);
    schemas.done(net, "link list", &[]);
    schemas.done(net, "circuit add", &["alpha 0.200", "beta 0.200", "--category", "cbr", "--pcr", "100 cell/s"]);
    schemas.done(net, "circuit remove", &["alpha 0.200", "beta 0.200"]);
    let added = schemas.done(net, "link add", &["alpha:1", "s1:5"]);
    let name = added["link"].as_str().unwrap();
    schemas.done(net, "link down", &[name]);
    schemas.done(net, "link up", &[name]);
    schemas.done(net, "link remove", &[name]);
    let shown = schemas.done(net, "config show", &[file]);
    // Nothing is left out: where there is no value, it says so.
    assert!(shown["switch"]["s1"]["max_routes"].is_u64() && shown["host"]["alpha"]["esi"].is_null());
    assert!(shown["host"]["alpha"].as_object().unwrap().contains_key("esi"), "{shown:#}");
    schemas.done(net, "config check", &[file]);
    schemas.done(net, "apply", &[file]);
    schemas.done(net, "export", &[]);
    let hosts = net.folder.path().join("hosts.atm");
    std::fs::write(&hosts, "47.000580ffde00000000000001.020000000001.00 server\n").unwrap();
    schemas.done(net, "import", &[hosts.to_str().unwrap()]);
    schemas.done(net, "reset", &[]);

    std::fs::write(file, NETWORK.replace("0.101", "0.102")).unwrap();
    let would = net.run(&["apply", file, "--dry-run"]);
    assert_eq!(would.status.code(), Some(4));
    let would: Value = serde_json::from_slice(&would.stdout).unwrap();
    assert_eq!(would["changes"].as_array().unwrap().len(), 2);
    schemas.hold("apply", &would);

    std::fs::write(file, NETWORK.replace("s1:1", "s1:0")).unwrap();
    for command in ["apply", "config check"] {
        let arguments: Vec<&str> = command.split(' ').chain([file]).collect();
        let output = net.run(&arguments);
        schemas.hold(command, &serde_json::from_slice(&output.stdout).unwrap());
        assert!(!schemas.fails(net, &arguments)["problems"].as_array().unwrap().is_empty());
    }
    assert!(schemas.fails(net, &["circuit", "remove", "alpha 0.9", "beta 0.9"])["problems"].is_null());
}

/// Calls a host: the call that is up, its output, and the event that says so. Until somebody listens, calls are refused.
fn call(
    schemas: &mut Schemas,
    net: &Net,
    address: &str,
) -> Option<(Background, impl Iterator<Item = Value> + use<>, Value)> {
    let mut calling = start(net, &["call", "alpha", address]);
    let said = BufReader::new(calling.0.stdout.take().unwrap()).lines();
    let mut said = said.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let connected = said.by_ref().find(|event: &Value| {
        schemas.hold("call", event);
        event.get("connected").is_some()
    })?;
    Some((calling, said, connected))
}

fn calls(schemas: &mut Schemas, net: &Net) {
    within(WAIT, "hosts have addresses", || {
        let all = net.done(&["address"]);
        all.as_array().unwrap().iter().all(|host| !host["addresses"].as_array().unwrap().is_empty())
    });
    let addresses = schemas.done(net, "address", &[]);
    let beta = addresses.as_array().unwrap().iter().find(|host| host["host"] == "beta").unwrap();
    let beta = beta["addresses"][0].as_str().unwrap();
    let mut listening = start(net, &["listen", "beta", "--count", "1"]);
    let mut connected = None;
    within(WAIT, "a call is answered", || {
        connected = call(schemas, net, beta);
        connected.is_some()
    });
    let (calling, _said, connected) = connected.unwrap();
    assert_eq!(connected["connected"]["host"], "alpha");
    schemas.done(net, "call list", &[]);
    let id = calling.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let heard = BufReader::new(listening.0.stdout.take().unwrap()).lines();
    let heard: Vec<Value> = heard.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(heard.len() >= 2, "{heard:?}");
    heard.iter().for_each(|event| schemas.hold("listen", event));
}

#[test]
fn results_about_myrinets_and_guests_are_what_their_schemas_say() {
    let mut schemas = Schemas::new();
    let example = include_str!("../../../../examples/myrinet.toml");
    let net = Net::up(WAIT, example);
    within(WAIT, "a map is drawn", || net.done(&["myrinet", "monitor"])["map_agrees"] == true);
    let map = schemas.done(&net, "myrinet map", &[]);
    let routes = schemas.done(&net, "myrinet routes", &[]);
    let hosts: Vec<&String> = routes.as_object().unwrap().keys().collect();
    assert!(map["hosts"].get(hosts[0].as_str()).is_some());
    schemas.done(&net, "myrinet monitor", &[]);
    schemas.done(&net, "myrinet send", &[hosts[0], hosts[1], "--count", "3"]);
    schemas.done(&net, "status", &[]);

    let adapter =
        "[adapter.card]\nhost = \"guest\"\nsocket = \"card.sock\"\n[host.a]\n[[link]]\nends = [\"guest\", \"a\"]\n";
    let file = path(net.folder.path(), "guest.toml");
    std::fs::write(&file, adapter).unwrap();
    schemas.done(&net, "vm", &[&file, "card", "--kernel", "k", "--initramfs", "i"]);
}
