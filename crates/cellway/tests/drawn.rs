//! Descriptions drawn key by key from their schema: what `config check` finds in order comes up and carries data on
//! every circuit between hosts, or fails for a reason of the machine. A new key is in it by being in the schema.

use cellway::kinds::kinds;
use control::config::{Config, File};
use control::daemon::Daemon;
use control::description::{read, rehearse};
use endpoint::{Aal, ChannelId, Endpoint, EndpointConfig, OpenOptions};
use net::FrameAal;
use net::topology::{CircuitDescription, CircuitEnd, Station};
use serde_json::Value as Json;
use std::path::Path;
use std::time::{Duration, Instant};
use toml::Value;
use wire::CircuitId;

const PATIENCE: Duration = Duration::from_secs(60);
/// Descriptions that come up in one run; in the long run, all that are in order.
const FEW: usize = 12;

/// Every section, and every table in one: where a key is drawn, its table is there.
const PLAIN: &str = r#"
[engine]
[host.alpha]
[host.beta]
[host.gamma]
[switch.s1]
prefix = "47000580ffe100000000000001"
[switch.s2]
prefix = "47000580ffe100000000000002"
[outside.far]
[desk.den]
chips = 2
devices = { eye = { kind = "camera", chip = 1, size = [16, 12], frames_per_s = 5 } }
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
faults = {}
[[link]]
ends = ["s1:1", "beta"]
[[link]]
ends = ["s1:2", "s2:2"]
[[link]]
ends = ["gamma", "s2:1"]
[[link]]
ends = ["s2:3", "far"]
cells_udp = { local = "127.0.0.1:0", peer = "127.0.0.1:9" }
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
back = {}
oam = {}
[[circuit]]
ends = ["alpha 0.101", "gamma 0.101"]
[[circuit]]
ends = ["beta 0.102", "alpha 0.102", "gamma 0.102"]
[[allow]]
users = ["root"]
circuits = ["*"]
"#;
const MYRINET: &str = r#"
[host.alpha]
[host.beta]
[myrinet.m]
hosts = ["alpha", "beta"]
switches = { m1 = 4 }
cables = [{ ends = ["alpha", "m1:0"] }, { ends = ["beta", "m1:1"] }]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
"#;
const GUESTS: &str = r#"
[host.alpha]
[switch.s1]
[adapter.card]
host = "guest"
socket = "card.sock"
[interface.atm0]
host = "stack"
address = "10.213.0.1/24"
device = "cwdrawn"
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["guest", "s1:1"]
[[link]]
ends = ["stack", "s1:2"]
"#;
/// Which of these has a section; [`PLAIN`] has the others.
const ELSEWHERE: [(&str, &str); 3] = [("myrinet", MYRINET), ("adapter", GUESTS), ("interface", GUESTS)];

/// What a text may be beside the words that its comment has in backticks.
const TEXTS: [&str; 20] = [
    "",
    "x",
    "alpha",
    "s1",
    "far",
    "alpha 0.100",
    "s1:1",
    "0.100",
    "1 cell/s",
    "20 Mbit/s",
    "OC-3c",
    "unlimited",
    "listen 127.0.0.1:0",
    "connect 127.0.0.1:9",
    "127.0.0.1:0",
    "10.0.0.1/24",
    "020000000001",
    "02:20:ea:00:00:01",
    "47000580ffe100000000000009",
    "47000580ffe10000000000000102000000000700",
];
const NUMBERS: [i64; 15] = [-1, 0, 1, 2, 5, 16, 64, 128, 256, 1000, 65_535, 65_536, 1 << 20, 4_294_967_295, i64::MAX];

/// Errors for which the machine is to blame, with the line in which `doctor` says so. A file or folder that is not there
/// is named by the error itself.
const OF_THE_MACHINE: [(&str, Option<&str>); 3] = [
    ("/dev/net/tun", Some("TUN device")),
    ("Operation not permitted", Some("TUN device")),
    ("No such file or directory", None),
];

/// Whether `doctor` finds that this machine lacks something.
fn doctor_names(what: &str) -> bool {
    let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_cellway"));
    let output = doctor.args(["--json", "doctor"]).output().unwrap();
    let found: Json = serde_json::from_slice(&output.stdout).unwrap();
    let mut checks = found["checks"].as_array().unwrap().iter();
    checks.any(|check| check["ok"] == false && check["check"].as_str().unwrap().contains(what))
}

/// A small generator: the same seed, the same descriptions.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// A key by the way to it, and what it may be.
struct Key {
    way: Vec<String>,
    candidates: Vec<Value>,
}

fn resolved<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    if let Some(to) = schema["$ref"].as_str() {
        return resolved(root, root.pointer(to.trim_start_matches('#')).expect("a type that is defined"));
    }
    let variants = schema["anyOf"].as_array().into_iter().flatten();
    variants.map(|one| resolved(root, one)).find(|one| one["type"] != "null").unwrap_or(schema)
}

fn is(schema: &Json, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind))
}

/// All keys below a schema, as far as tables are in tables.
fn keys(root: &Json, schema: &Json, way: &[String], comment: &str, found: &mut Vec<Key>) {
    let schema = resolved(root, schema);
    let comment = schema["description"].as_str().unwrap_or(comment);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, inner) in properties {
            let comment = inner["description"].as_str().unwrap_or(comment);
            keys(root, inner, &[way, std::slice::from_ref(name)].concat(), comment, found);
        }
    } else if resolved(root, &schema["additionalProperties"])["properties"].is_object() {
        keys(root, &schema["additionalProperties"], &[way, &["*".to_owned()]].concat(), comment, found);
    } else if is(schema, "array") && resolved(root, &schema["items"])["properties"].is_object() {
        keys(root, &schema["items"], &[way, &["*".to_owned()]].concat(), comment, found);
    } else {
        found.push(Key { way: way.to_vec(), candidates: candidates(root, schema, comment) });
    }
}

fn candidates(root: &Json, schema: &Json, comment: &str) -> Vec<Value> {
    if is(schema, "boolean") {
        return vec![true.into(), false.into()];
    }
    if is(schema, "integer") {
        return NUMBERS.into_iter().map(Value::Integer).collect();
    }
    if is(schema, "number") {
        return [-1.0, 0.0, 0.01, 1.0, 1.5].into_iter().map(Value::Float).collect();
    }
    if is(schema, "array") {
        let items = candidates(root, resolved(root, &schema["items"]), comment);
        let lists = items.iter().map(|item| vec![item.clone()]);
        let twice = items.first().map(|item| vec![item.clone(), item.clone()]);
        return lists.chain(twice).chain([Vec::new()]).map(Value::Array).collect();
    }
    let words = comment.split('`').skip(1).step_by(2);
    let values = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let long = "x".repeat(200);
    let texts = TEXTS.into_iter().chain(words).chain(values).chain([long.as_str()]);
    let mut all: Vec<Value> = texts.map(|text| Value::String(text.to_owned())).collect();
    // Of one form among several, such as a number of a processor or a list of them.
    if schema["anyOf"].is_array() || schema["oneOf"].is_array() {
        all.extend([0, 1, 4095].map(Value::Integer));
        all.push(Value::Array(vec![0.into()]));
    }
    all
}

/// Puts a value at its place; of lists and named tables, into the one that has the key's table, or else the first.
fn put(table: &mut Value, way: &[String], value: &Value) {
    let Some((step, rest)) = way.split_first() else {
        *table = value.clone();
        return;
    };
    match table {
        Value::Array(items) => {
            let has = |item: &Value| rest.first().is_none_or(|next| item.get(next).is_some());
            let at = items.iter().position(has).unwrap_or(0);
            if let Some(item) = items.get_mut(at) {
                put(item, rest, value);
            }
        }
        Value::Table(entries) if step == "*" => {
            if let Some((_, entry)) = entries.iter_mut().next() {
                put(entry, rest, value);
            }
        }
        Value::Table(entries) => {
            let empty = || Value::Table(toml::Table::new());
            put(entries.entry(step.clone()).or_insert_with(empty), rest, value);
        }
        _ => {}
    }
}

/// What a description says itself that no data comes: links that lose all, or that are down.
fn carries_nothing(config: &Config) -> bool {
    config.file.link.iter().any(|link| {
        let faults = link.faults.clone().unwrap_or_default();
        !link.enabled || link.follows.is_some() || faults.loss >= 1.0 || faults.corruption >= 1.0
    })
}

/// Opens an end; what another endpoint of this test has just left is free a moment later.
fn open(socket: &Path, end: &CircuitEnd, aal: FrameAal) -> (Endpoint, ChannelId) {
    let aal = match aal {
        FrameAal::Aal0 => Aal::Aal0,
        FrameAal::Aal34 => Aal::Aal34,
        FrameAal::Aal5 => Aal::Aal5,
    };
    let circuit = if end.path { CircuitId::new(end.circuit.vpi.get(), 77).expect("a label") } else { end.circuit };
    let config = EndpointConfig { host: end.station.clone(), ..EndpointConfig::default() };
    let begin = Instant::now();
    loop {
        let opened = Endpoint::create(socket, &config).and_then(|mut endpoint| {
            let channel = endpoint.open(circuit, OpenOptions { aal, ..OpenOptions::default() })?;
            Ok((endpoint, channel))
        });
        match opened {
            Ok(opened) => return opened,
            Err(e) if begin.elapsed() > PATIENCE => panic!("{end}: {e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A PDU of one cell comes to every other end of a circuit. It is sent again until it does: a cell may be lost where
/// the description has faults, and a receiver's circuit may be open a moment later than its sender's.
fn passes(socket: &Path, circuit: &CircuitDescription) {
    let mut ends: Vec<_> = circuit.ends.iter().map(|end| open(socket, end, circuit.aal)).collect();
    let Some(((sender, channel), receivers)) = ends.split_first_mut() else { return };
    let sdu = if circuit.aal == FrameAal::Aal0 { vec![0; 52] } else { b"drawn".to_vec() };
    let begin = Instant::now();
    for (receiver, _) in receivers {
        loop {
            assert!(begin.elapsed() < PATIENCE, "{}: nothing came", circuit.name());
            let _ = sender.send_copy(*channel, &sdu);
            match receiver.receive(Some(Duration::from_millis(200))) {
                Ok(Some(_)) => break,
                Ok(None) => {}
                Err(e) => panic!("{}: {e}", circuit.name()),
            }
        }
    }
}

/// A description that is in order comes up and carries data; an error of the machine is one that `doctor` names.
fn comes_up(config: &Config, folder: &Path) {
    let socket = folder.join("s");
    let _daemon = match Daemon::start(config.clone(), &socket) {
        Ok(daemon) => daemon,
        Err(e) => {
            let said = format!("{e:#}");
            let reason = OF_THE_MACHINE.iter().find(|(says, _)| said.contains(says));
            let (_, named) = reason.unwrap_or_else(|| panic!("it does not come up: {said}"));
            assert!(named.is_none_or(doctor_names), "doctor does not say so: {said}");
            return;
        }
    };
    if carries_nothing(config) {
        return;
    }
    let is_host = |end: &CircuitEnd| config.description.stations.get(&end.station) == Some(&Station::Host);
    config.description.circuits.iter().filter(|one| one.ends.iter().all(is_host)).for_each(|one| passes(&socket, one));
}

/// The descriptions that differ from the plain ones in one key.
fn drawn(random: &mut Random) -> Vec<String> {
    let root = kinds().schema_for::<File>();
    let mut all = Vec::new();
    for (section, schema) in root["properties"].as_object().expect("sections") {
        let mut found = Vec::new();
        keys(&root, schema, std::slice::from_ref(section), "", &mut found);
        assert!(!found.is_empty() || section == "outside", "{section} has no keys");
        let base = ELSEWHERE.iter().find(|(own, _)| own == section).map_or(PLAIN, |(_, base)| base);
        assert!(base.contains(&format!("[{section}")), "no description here has a {section}: add one to a base");
        for key in found {
            for candidate in &key.candidates {
                let mut description: Value = toml::from_str(base).expect("a base");
                put(&mut description, &key.way, candidate);
                all.push(toml::to_string(&description).expect("TOML"));
            }
        }
    }
    for n in (1..all.len()).rev() {
        all.swap(n, random.below(n + 1));
    }
    all
}

#[test]
fn what_check_finds_in_order_comes_up_and_carries_data_in_the_long_run() {
    let long = std::env::var_os("CELLWAY_LONG").is_some();
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let descriptions = drawn(&mut Random(seed | 1));
    assert!(descriptions.len() > 1000, "{}", descriptions.len());
    let (mut tried, mut refused) = (0, 0);
    for text in [PLAIN, MYRINET].map(str::to_owned).iter().chain(&descriptions) {
        let folder = tempfile::tempdir().unwrap();
        let kinds = kinds();
        let config = match read(&kinds, text, "drawn.toml", folder.path()) {
            Ok(config) if rehearse(&config).is_ok() => config,
            _ => {
                assert!(text != PLAIN && text != MYRINET, "{text}");
                refused += 1;
                continue;
            }
        };
        if !long && tried >= FEW {
            continue;
        }
        tried += 1;
        let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| comes_up(&config, folder.path())));
        assert!(came.is_ok(), "PROPTEST_RNG_SEED={seed} CELLWAY_LONG=1: this one:\n{text}");
    }
    assert!(tried >= FEW && refused > 100, "{tried} came up, {refused} were refused");
}
