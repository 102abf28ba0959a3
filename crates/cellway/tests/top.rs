//! `cellway top` and `cellway graph` beside a network through which traffic passes.

use crate::up::{Net, within};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(90);
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[switch.s1]
[switch.s2]
[[link]]
ends = ["alpha", "s1:0"]
rate = "OC-3c"
[[link]]
ends = ["beta", "s2:0"]
rate = "OC-3c"
[[link]]
ends = ["s1:1", "s2:1"]
rate = "OC-3c"
[[link]]
ends = ["gamma", "s2:2"]
enabled = false
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "gamma 0.101"]
"#;

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(net: &Net, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).args(arguments).stdin(Stdio::null());
    command
}

fn start(net: &Net, arguments: &[&str]) -> Background {
    Background(command(net, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn text(net: &Net, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(net, arguments).output().unwrap();
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A network with traffic from alpha to beta for as long as this is held.
fn busy() -> (Net, [Background; 2]) {
    let net = Net::up(WAIT, NETWORK);
    let receiving = start(&net, &["receive", "beta", "0.100", "/dev/null"]);
    within(WAIT, "the receiver is there", || {
        let status = net.done(&["status"]);
        status["endpoints"].as_array().unwrap().iter().any(|endpoint| endpoint["channels"] == 1)
    });
    let sending = start(&net, &["send", "alpha", "0.100", "/dev/zero"]);
    (net, [receiving, sending])
}

fn sample(net: &Net, more: &[&str]) -> Value {
    net.done(&[&["top", "--interval", "100ms"], more].concat())
}

fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|each| each[key] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

#[test]
fn rates_users_and_the_hops_of_a_circuit_are_those_of_the_traffic_that_passes() {
    let (net, _traffic) = busy();
    let mut last = Value::Null;
    within(WAIT, "a rate appears at every hop", || {
        last = sample(&net, &["--circuit", "beta 0.100"]);
        let hops = last["path"]["hops"].as_array().unwrap();
        hops.iter().all(|hop| hop["forward_per_s"].as_f64().unwrap() > 0.0)
    });
    let hops: Vec<&str> =
        last["path"]["hops"].as_array().unwrap().iter().filter_map(|hop| hop["kind"].as_str()).collect();
    assert_eq!(hops, ["end", "link", "switch", "link", "switch", "link", "end"]);
    let circuit = named(&last["circuits"], "circuit", "alpha 0.100 - beta 0.100");
    assert!(circuit["pdus_per_s"].as_f64().unwrap() > 0.0 && circuit["bits_per_s"].as_f64().unwrap() > 0.0);
    let link = named(&last["links"], "link", "alpha:0 - s1:0");
    assert!(link["from_a"]["cells_per_s"].as_f64().unwrap() > 0.0, "{link:#}");
    let endpoint = named(&last["endpoints"], "host", "beta");
    assert_eq!(endpoint["opener"]["program"], "cellway", "{endpoint:#}");
    assert!(endpoint["received_pdus_per_s"].as_f64().unwrap() > 0.0);
    let alarm = named(&last["alarms"], "alarm", "link down");
    assert_eq!(alarm["place"], "gamma:0 - s2:2");
}

#[test]
fn one_frame_is_text_and_where_there_is_no_terminal_top_says_what_to_do() {
    let net = Net::up(WAIT, NETWORK);
    let frame = text(&net, &["top", "--once", "--interval", "10ms"]);
    let lines: Vec<&str> = frame.lines().collect();
    assert!(lines[0].starts_with("cellway top") && lines[0].contains("links 4  circuits 2"), "{frame}");
    for link in ["alpha:0 - s1:0", "gamma:0 - s2:2"] {
        assert!(frame.contains(link), "{frame}");
    }
    assert!(frame.contains("taken down") && !frame.contains('\u{1b}'), "{frame}");
    let frame = text(&net, &["top", "--once", "--interval", "10ms", "--filter", "gamma", "--size", "80x8"]);
    assert!(!frame.contains("alpha:0 - s1:0") && frame.lines().count() <= 8, "{frame}");
    let output = command(&net, &["top"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--once"));
    let output = command(&net, &["top", "--once", "--circuit", "nowhere 0.1", "--interval", "10ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_graph_of_a_running_network_has_its_rates_and_states() {
    let (net, _traffic) = busy();
    within(WAIT, "a link of the graph carries cells", || {
        let graph = net.done(&["graph", "--interval", "100ms"]);
        graph["links"].as_array().unwrap().iter().any(|link| link["cells_per_s"][0].as_f64().unwrap() > 0.0)
    });
    let graph = net.done(&["graph", "--interval", "10ms"]);
    assert_eq!(graph["stations"].as_array().unwrap().len(), 5);
    let down: Vec<&Value> = graph["links"].as_array().unwrap().iter().filter(|link| link["up"] == false).collect();
    assert_eq!((down.len(), &down[0]["ends"][0]["station"]), (1, &Value::from("gamma")));
    let mut svg = String::new();
    within(WAIT, "a green line", || {
        svg = text(&net, &["graph", "--interval", "100ms"]);
        svg.contains("<path class=\"l-green\"")
    });
    roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
    assert!(svg.contains("<path class=\"l-red\""));
    assert!(text(&net, &["graph", "--format", "mermaid", "--interval", "10ms"]).starts_with("flowchart LR\n"));
}

/// Graphviz's opinion of a graph, if it is here.
fn graphviz(dot: &str, folder: &Path) -> Option<Output> {
    let file = folder.join("graph.dot");
    std::fs::write(&file, dot).unwrap();
    Command::new("dot").arg("-Tplain").arg(file).output().ok()
}

#[test]
fn graphviz_reads_the_graph_of_every_example() {
    let folder = tempfile::tempdir().unwrap();
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut n = 0;
    for entry in std::fs::read_dir(examples).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let output = Command::new(env!("CARGO_BIN_EXE_cellway"))
            .args(["graph", "--format", "dot"])
            .arg(entry.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let dot = String::from_utf8(output.stdout).unwrap();
        assert!(dot.starts_with("graph cellway {") && dot.ends_with("}\n"), "{dot}");
        n += 1;
        let Some(read) = graphviz(&dot, folder.path()) else { continue };
        let says = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() && says.is_empty(), "{}: {says}\n{dot}", entry.path().display());
        let edges = String::from_utf8_lossy(&read.stdout).lines().filter(|line| line.starts_with("edge ")).count();
        assert_eq!(edges, dot.matches(" -- ").count());
    }
    assert!(n >= 5, "{n} examples");
}

/// The texts of a picture that stay the same from run to run: words without a digit.
fn words(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
    let texts = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
    let words = texts.flat_map(str::split_whitespace).filter(|word| word.chars().all(char::is_alphabetic));
    words.map(str::to_owned).collect()
}

#[test]
fn the_picture_of_the_readme_can_be_drawn_again() {
    let (net, _traffic) = busy();
    within(WAIT, "a rate appears", || sample(&net, &[])["circuits"][0]["pdus_per_s"].as_f64().unwrap() > 0.0);
    let file = net.folder.path().join("top.svg");
    let name = file.to_str().unwrap();
    assert_eq!(text(&net, &["top", "--view", "links", "--picture", name, "--interval", "100ms"]), "");
    let drawn = std::fs::read_to_string(&file).unwrap();
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/top.svg");
    let stored = std::fs::read_to_string(stored).unwrap();
    let heads = words(&stored);
    assert!(heads.len() > 15, "{heads:?}");
    let head = |all: &[String]| all.iter().take(17).cloned().collect::<Vec<_>>();
    assert_eq!(head(&words(&drawn)), head(&heads), "scripts/figure-top draws it again");
    let frame = |svg: &str| svg.split_once("</style>").unwrap().0.to_owned();
    assert_eq!(frame(&drawn), frame(&stored), "size, title and colours");
}
