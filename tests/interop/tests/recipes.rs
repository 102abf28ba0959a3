//! The recipes of `docs/recipes.md`: the files that they use do what the page says, as the tools that read them find.

use interop::namespace::Namespace;
use interop::peer::Peer;
use interop::{have, program, tshark};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::erf::{Head, Kind};
use wire::oam::{Flow, Function, Loopback};
use wire::{CellHeader, CircuitId};

const WAIT: Duration = Duration::from_secs(60);

fn packaging(name: &str) -> PathBuf {
    program::root().join("packaging").join(name)
}

#[test]
fn promtool_takes_the_alert_rules_and_their_tests_pass() {
    if !have(&[("promtool", "prometheus")]) {
        return;
    }
    for words in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let output = Command::new("promtool").args(words).current_dir(packaging("prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
}

fn record(kind: Kind, header: CellHeader, payload: &[u8]) -> Vec<u8> {
    let time = Duration::from_secs(1_000_000_000);
    let head = Head { time, kind, interface: 1, header, payload_octets: payload.len() as u16 };
    [&head.emit()[..], payload].concat()
}

#[test]
fn wiresharks_profile_shows_circuits_in_columns_and_oam_and_clp_in_colours() {
    if !have(tshark::TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("wireshark/profiles/cellway");
    fs::create_dir_all(&profiles).unwrap();
    for name in ["preferences", "colorfilters"] {
        fs::copy(packaging("wireshark/cellway").join(name), profiles.join(name)).unwrap();
    }
    let circuit: CircuitId = "3.4000".parse().unwrap();
    let header = CellHeader { circuit, ..CellHeader::default() };
    let loopback = Function::Loopback(Loopback::request(7)).emit();
    let records = [
        record(Kind::Cell, Flow::F5EndToEnd.header(header), &loopback),
        record(Kind::Cell, CellHeader { clp: true, ..header }, &[0x55; 48]),
    ];
    let capture = folder.path().join("capture.pcap");
    fs::write(&capture, tshark::pcap(&records)).unwrap();
    let shown = |words: &[&str]| -> Vec<String> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-C", "cellway", "-r"]).arg(&capture).args(words);
        let output = command.env("XDG_CONFIG_HOME", folder.path()).env("COLORTERM", "truecolor").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("isn't a valid"), "{said}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    let columns = shown(&[]);
    let words = |line: &str| line.split_whitespace().skip(2).take(4).map(str::to_owned).collect::<Vec<_>>();
    // Way, VPI, VCI, payload type.
    assert_eq!(words(&columns[0]), ["1", "3", "4000", "5"], "{columns:?}");
    assert_eq!(words(&columns[1])[..3], ["1", "3", "4000"], "{columns:?}");
    let colours = shown(&["--color", "-T", "fields", "-e", "frame.coloring_rule.name"]);
    assert_eq!(colours, ["OAM cells", "CLP is 1"]);
}

/// A command of `ip`.
fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// One of the two machines: its description is that of the topology.
struct Machine {
    namespace: Namespace,
    folder: tempfile::TempDir,
    _daemon: Peer,
}

impl Machine {
    fn start(namespace: Namespace, description: &Path) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let mut command = inside(&namespace, &socket);
        let mut daemon = Peer::start(command.arg("up").arg(description)).unwrap();
        daemon.wait_for("up: ", WAIT).unwrap();
        Machine { namespace, folder, _daemon: daemon }
    }

    fn command(&self) -> Command {
        inside(&self.namespace, &self.folder.path().join("s"))
    }
}

fn inside(namespace: &Namespace, socket: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).arg(program::cellway().unwrap());
    command.arg("--socket").arg(socket).stdin(Stdio::null());
    command
}

#[test]
fn the_two_machines_of_the_containerlab_topology_exchange_pdus_in_namespaces() {
    if !have(&[("ip", "iproute2")]) {
        return;
    }
    let topology = fs::read_to_string(packaging("containerlab/cellway.clab.yml")).unwrap();
    let west = Namespace::new("west").unwrap();
    let east = Namespace::new("east").unwrap();
    let machines = [(&west, "172.30.30.11", "west"), (&east, "172.30.30.12", "east")];
    // As containerlab joins its nodes: a pair of devices, an end in each.
    let [a, b] = ["a", "b"].map(|end| format!("cw{}{end}", std::process::id()));
    ip(&format!("link add {a} netns {} type veth peer name {b} netns {}", west.name(), east.name()));
    for ((namespace, address, name), device) in machines.into_iter().zip([&a, &b]) {
        assert!(topology.contains(&format!("mgmt-ipv4: {address}\n")), "{name} has another address in the topology");
        assert!(topology.contains(&format!("- {name}.toml:/etc/cellway.toml")), "{name}");
        ip(&format!("-n {} address add {address}/24 dev {device}", namespace.name()));
        ip(&format!("-n {} link set {device} up", namespace.name()));
    }
    let west = Machine::start(west, &packaging("containerlab/west.toml"));
    let east = Machine::start(east, &packaging("containerlab/east.toml"));
    let got = east.folder.path().join("got");
    let mut receive = east.command();
    receive.args(["receive", "beta", "0.100", "--datagrams", "--count", "1"]).arg(&got);
    let mut receiver = Peer::start(&mut receive).unwrap();
    receiver.wait_for("ready at", WAIT).unwrap();
    let paper = west.folder.path().join("paper");
    fs::write(&paper, "from west to east").unwrap();
    // The link is up once a heartbeat of the other machine has come.
    let begun = Instant::now();
    loop {
        let output = west.command().args(["send", "alpha", "0.100"]).arg(&paper).output().unwrap();
        if output.status.success() {
            break;
        }
        assert!(begun.elapsed() < WAIT, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, said) = receiver.wait(WAIT).unwrap();
    assert!(status.success(), "{said:?}");
    assert_eq!(fs::read_to_string(&got).unwrap(), "from west to east");
}
