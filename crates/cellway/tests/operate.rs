//! What `docs/operating.md` and `docs/configuration.md` promise, by the commands that a person types.

use crate::up::{Net, within};
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// Two hosts, a switch, a path, a circuit one way.
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
ports = 8
[[link]]
ends = ["alpha", "s1:0"]
rate = "20 Mbit/s"
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["s1:0 7.*", "s1:1 9.*"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
one_way = true
"#;

/// A command as a person types it: exit status, and what it says.
fn typed(net: &Net, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).args(arguments).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn circuit<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|circuit| circuit["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {list:#}"))
}

#[test]
fn a_difference_is_shown_then_applied_and_paths_and_one_way_circuits_are_described_and_commanded() {
    let net = Net::up(WAIT, NETWORK);
    let file = net.folder.path().join("net.toml");
    let name = file.to_str().unwrap();
    assert_eq!(typed(&net, &["apply", name, "--dry-run"]).0, Some(0), "it is so already");

    let wanted =
        NETWORK.replace("ports = 8", "ports = 4").replace("20 Mbit/s", "10 Mbit/s").replace("beta 0.100", "beta 0.150")
            + "[[circuit]]\nends = [\"alpha 0.102\", \"beta 0.102\"]\n";
    std::fs::write(&file, &wanted).unwrap();
    let lines = [
        "~ switch s1: ports 8 to 4",
        "~ link alpha:0 - s1:0: ",
        "- circuit alpha 0.100 - beta 0.100  (interrupts)",
        "+ circuit alpha 0.100 - beta 0.150: ubr",
        "+ circuit alpha 0.102 - beta 0.102: ubr",
    ];
    let (status, text) = typed(&net, &["apply", name, "--dry-run"]);
    assert_eq!(status, Some(4), "{text}");
    assert!(
        lines.iter().all(|line| text.contains(line)) && text.contains("would be done: 2 added, 2 changed, 1 removed"),
        "{text}"
    );
    assert!(text.contains("circuits: 1 interrupted, 2 unchanged"), "{text}");
    assert_eq!(net.done(&["circuit", "list"]).as_array().unwrap().len(), 3, "nothing was done");
    let (status, text) = typed(&net, &["apply", name]);
    assert!(status == Some(0) && lines.iter().all(|line| text.contains(line)) && text.contains("\ndone: "), "{text}");
    assert_eq!(typed(&net, &["apply", name, "--dry-run"]).0, Some(0));

    // What does not fit is refused with a sentence, and nothing has changed.
    std::fs::write(&file, wanted.replace("ports = 4", "ports = 1")).unwrap();
    let (status, text) = typed(&net, &["apply", name]);
    assert!(status == Some(1) && text.contains("net.toml:") && text.contains("port"), "{text}");
    assert_eq!(net.done(&["status"])["switches"][0]["ports"], 4);

    net.done(&["circuit", "add", "s1:0 11.*", "s1:1 12.*"]);
    net.done(&["circuit", "add", "alpha 0.103", "beta 0.103", "--one-way", "--category", "cbr", "--pcr", "1 Mbit/s"]);
    let list = net.done(&["circuit", "list"]);
    for (name, one_way) in [
        ("s1:0 7.* - s1:1 9.*", false),
        ("s1:0 11.* - s1:1 12.*", false),
        ("alpha 0.101 - beta 0.101", true),
        ("alpha 0.103 - beta 0.103", true),
    ] {
        assert_eq!(circuit(&list, name)["one_way"], one_way, "{name}");
    }
    // Rate is taken in one direction only.
    let links = net.done(&["link", "list"]);
    let promised = |side: &str| links[0][side]["promised_cells_per_s"].as_f64().unwrap();
    assert!(promised("from_a") > 1000.0 && promised("from_b") == 0.0, "{links:#}");
    net.done(&["circuit", "remove", "s1:0 11.*", "s1:1 12.*"]);
}

/// A daemon with a state folder.
fn start(folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command
        .arg("--socket")
        .arg(folder.join("s"))
        .arg("up")
        .arg(folder.join("net.toml"))
        .arg("--state")
        .arg(folder.join("state"));
    command.stdin(Stdio::null()).stderr(std::fs::File::create(folder.join("log")).unwrap()).spawn().unwrap()
}

#[test]
fn changes_by_command_survive_a_crash_and_a_torn_file_and_are_in_the_log_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.toml"), NETWORK).unwrap();
    let daemon = start(folder.path());
    let mut net = Net { folder, daemon };
    let answers = |net: &Net| within(WAIT, "the service answers", || net.run(&["status"]).status.success());
    answers(&net);
    net.done(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    net.done(&["circuit", "remove", "alpha 0.100", "beta 0.100"]);
    net.done(&["link", "down", "beta:0 - s1:1"]);
    let names = |net: &Net| -> Vec<String> {
        let list = net.done(&["circuit", "list"]);
        list.as_array().unwrap().iter().map(|circuit| circuit["name"].as_str().unwrap().to_owned()).collect()
    };
    let enabled = |net: &Net| net.done(&["link", "list"])[1]["enabled"].as_bool().unwrap();
    let changed = names(&net);
    assert!(changed.contains(&"alpha 0.200 - beta 0.200".to_owned()) && changed.len() == 3, "{changed:?}");

    let again = |net: &mut Net| {
        net.daemon.kill().unwrap();
        net.daemon.wait().unwrap();
        net.daemon = start(net.folder.path());
        answers(net);
    };
    again(&mut net);
    assert_eq!((names(&net), enabled(&net)), (changed.clone(), false));

    // The last write is torn: the one before it is used, in which the link was up, and the log says so.
    let state = net.folder.path().join("state/state.json");
    net.done(&["link", "up", "beta:0 - s1:1"]);
    net.done(&["link", "down", "beta:0 - s1:1"]);
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
    again(&mut net);
    assert_eq!((names(&net), enabled(&net)), (changed, true));
    let log = std::fs::read_to_string(net.folder.path().join("log")).unwrap();
    assert!(log.contains("torn") && log.contains("using the one before"), "{log}");

    let audit = std::fs::read_to_string(net.folder.path().join("state/audit.jsonl")).unwrap();
    let audit: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own = format!("user {}", rustix::process::getuid().as_raw());
    let of = |verb: &str| audit.iter().filter(|entry| entry["verb"] == verb && entry["who"] == *own).count();
    assert_eq!((of("add"), of("remove"), of("link down"), of("link up")), (1, 1, 2, 1), "{audit:#?}");
    assert!(audit.iter().filter(|entry| entry["who"] == "operator").count() >= 3, "{audit:#?}");
    let first: Vec<u64> = audit.iter().take(4).map(|entry| entry["revision"].as_u64().unwrap()).collect();
    assert_eq!(first, [1, 2, 3, 4]);
    assert_eq!(audit[1]["what"][0], "+ circuit alpha 0.200 - beta 0.200: ubr");
}

#[test]
fn vpis_of_twelve_bits_pass_a_udp_link_at_the_nni_only() {
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [here, there] = sockets.map(|socket| socket.local_addr().unwrap());
    let network = |host: &str, header: &str, [local, peer]: [SocketAddr; 2]| {
        format!(
            "[host.{host}]\n[outside.far]\n[[link]]\nends = [\"{host}\", \"far\"]\n\
             cells_udp = {{ local = \"{local}\", peer = \"{peer}\", form = \"cell\", header = \"{header}\" }}\n\
             [[circuit]]\nends = [\"{host} 300.40\", \"far 300.40\"]\n"
        )
    };
    let (a, b) =
        (Net::up(WAIT, &network("a", "nni", [here, there])), Net::up(WAIT, &network("b", "nni", [there, here])));
    let way = a.done(&["circuit", "list"])[0]["way"][0].as_str().unwrap().to_owned();
    assert!(way.ends_with(" 300.40"), "{way}");
    let [sent, received] = ["sent", "received"].map(|name| a.folder.path().join(name));
    std::fs::write(&sent, vec![5; 3000]).unwrap();
    let mut receive = Command::new(env!("CARGO_BIN_EXE_cellway"));
    receive.arg("--socket").arg(b.folder.path().join("s")).args(["receive", "b", "300.40"]).arg(&received);
    let mut receive = receive.args(["--count", "1", "--timeout", "60"]).stdin(Stdio::null()).spawn().unwrap();
    within(WAIT, "a PDU arrives", || {
        a.done(&["send", "a", "300.40", sent.to_str().unwrap()]);
        receive.try_wait().unwrap().is_some()
    });
    assert_eq!(std::fs::read(&received).unwrap(), vec![5; 3000]);

    let file = a.folder.path().join("uni.toml");
    std::fs::write(&file, network("a", "uni", [here, there])).unwrap();
    let (status, text) = typed(&a, &["config", "check", file.to_str().unwrap()]);
    assert!(status == Some(1) && text.contains("300"), "{text}");
}
