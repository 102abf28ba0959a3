//! Each number of a description grows by 2, grows to its limit, and shrinks again, beside a circuit that carries data: no
//! change makes a round of a millisecond of the engine's processor time, in three of five attempts at least. The numbers
//! are those of the description's schema, so that none is forgotten.

use super::{BOUND, Net, PATIENCE, apply, open};
use cellway::kinds::kinds;
use control::config::{File, parse_with};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What has all of them: `KEY = NUMBER # WHERE`, the key by the way to it.
const DESCRIPTION: &str = r#"
[engine]
max_users_octets = 4294967296 # engine.max_users_octets
cycle_limit_percent = 50 # engine.cycle_limit_percent
[host.alpha]
max_endpoints = 256 # host.*.max_endpoints
[host.beta]
[host.guest]
[switch.s1]
ports = 64 # switch.*.ports
max_routes = 65536 # switch.*.max_routes
prefix = "47000580ffe1000000f21a26d8"
[outside.away]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[link]]
ends = ["guest", "s1:2"]
rate = "OC-3c"
delay_us = 10 # link[].delay_us
cdvt_us = 1000 # link[].cdvt_us
queue_cells = 4096 # link[].queue_cells
[link.faults]
seed = 1 # link[].faults.seed
[link.signalling]
version = "uni40"
labels = "200.32-2000"
max_calls = 64 # link[].signalling.max_calls
max_calls_per_second = 64 # link[].signalling.max_calls_per_second
[[link]]
ends = ["away", "s1:3"]
cells_udp = { local = "127.0.0.1:0", peer = "127.0.0.1:9" }
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
category = "rt-vbr"
pcr = "1000 cell/s"
scr = "100 cell/s"
mbs = 20 # circuit[].mbs
cdvt_us = 1000 # circuit[].cdvt_us
max_ctd_us = 1000000 # circuit[].max_ctd_us
max_cdv_us = 1000000 # circuit[].max_cdv_us
[circuit.back]
category = "rt-vbr"
pcr = "1000 cell/s"
scr = "100 cell/s"
mbs = 20 # circuit[].back.mbs
cdvt_us = 1000 # circuit[].back.cdvt_us
max_ctd_us = 1000000 # circuit[].back.max_ctd_us
max_cdv_us = 1000000 # circuit[].back.max_cdv_us
[circuit.oam]
monitoring = 128 # circuit[].oam.monitoring
[[circuit]]
ends = ["alpha 0.102", "beta 0.102"]
category = "gfr"
pcr = "1000 cell/s"
mcr = "10 cell/s"
mbs = 200000000
mfs = 20 # circuit[].mfs
[circuit.back]
category = "gfr"
pcr = "1000 cell/s"
mcr = "10 cell/s"
mbs = 200000000
mfs = 20 # circuit[].back.mfs
[myrinet.ssn]
hosts = ["alpha", "beta"]
cables = [{ ends = ["alpha", "m1:0"] }, { ends = ["beta", "m1:1"] }]
slack_symbols = 60 # myrinet.*.slack_symbols
stop_mark = 20 # myrinet.*.stop_mark
go_mark = 4 # myrinet.*.go_mark
timeout_ms = 50 # myrinet.*.timeout_ms
map_every_ms = 100 # myrinet.*.map_every_ms
[myrinet.ssn.switches]
m1 = 8 # myrinet.*.switches.*
[desk.den]
chips = 4 # desk.*.chips
cached_connections = 64 # desk.*.cached_connections
[desk.den.devices.eye]
kind = "camera"
chip = 1
size = [320, 240] # desk.*.devices.*.size[]
[desk.den.devices.wall]
kind = "display"
chip = 2
max_octets = 1024 # desk.*.devices.*.max_octets
[[allow]]
users = [54321]
circuits = ["1.*"]
max_connections = 64 # allow[].max_connections
max_endpoints = 32 # allow[].max_endpoints
max_octets = 1024 # allow[].max_octets
max_channels = 1024 # allow[].max_channels
max_polling = 0 # allow[].max_polling
max_calls = 64 # allow[].max_calls
"#;

/// The most that a number of a description may be where nothing else bounds it: what a number of TOML has.
const MOST: &str = "9223372036854775807";

/// The way to each number, what it is first, 2 more or what comes next, and at its limit.
const NUMBERS: &[(&str, &str, &str)] = &[
    ("engine.cycle_limit_percent", "52", "100"),
    ("engine.max_users_octets", "8589934592", MOST),
    ("host.*.max_endpoints", "258", MOST),
    ("switch.*.ports", "66", "65534"),
    ("switch.*.max_routes", "65538", "4194304"),
    ("link[].delay_us", "12", "10000000"),
    ("link[].cdvt_us", "1002", MOST),
    ("link[].queue_cells", "4098", "1048576"),
    ("link[].faults.seed", "3", MOST),
    ("link[].signalling.max_calls", "66", MOST),
    ("link[].signalling.max_calls_per_second", "66", "4294967295"),
    ("circuit[].mbs", "22", "4294967295"),
    ("circuit[].cdvt_us", "1002", "10000000"),
    ("circuit[].max_ctd_us", "1000002", "10000000"),
    ("circuit[].max_cdv_us", "1000002", "10000000"),
    ("circuit[].mfs", "22", "4096"),
    ("circuit[].back.mbs", "22", "4294967295"),
    ("circuit[].back.cdvt_us", "1002", "10000000"),
    ("circuit[].back.max_ctd_us", "1000002", "10000000"),
    ("circuit[].back.max_cdv_us", "1000002", "10000000"),
    ("circuit[].back.mfs", "22", "4096"),
    ("circuit[].oam.monitoring", "256", "1024"),
    ("myrinet.*.slack_symbols", "62", "65536"),
    ("myrinet.*.stop_mark", "22", "60"),
    ("myrinet.*.go_mark", "6", "19"),
    ("myrinet.*.timeout_ms", "52", MOST),
    ("myrinet.*.map_every_ms", "102", "600000"),
    ("myrinet.*.switches.*", "10", "16"),
    ("desk.*.chips", "6", "256"),
    ("desk.*.cached_connections", "66", "1024"),
    ("desk.*.devices.*.size[]", "[322, 240]", "[65535, 64]"),
    ("desk.*.devices.*.max_octets", "1026", MOST),
    ("allow[].max_connections", "66", MOST),
    ("allow[].max_endpoints", "34", MOST),
    ("allow[].max_octets", "1026", MOST),
    ("allow[].max_channels", "1026", MOST),
    ("allow[].max_polling", "2", MOST),
    ("allow[].max_calls", "66", MOST),
];

/// Numbers that bound nothing, and why.
const NO_BOUNDS: &[(&str, &str)] = &[
    ("engine.shards", "another number takes a restart"),
    ("engine.processor", "the number of a processor"),
    ("engine.processor[]", "the same"),
    ("host.*.shard", "the number of a shard, for a host that is yet to be made"),
    ("switch.*.shard", "the same of a switch"),
    ("desk.*.off[]", "the number of a chip; chips without power are tested beside this"),
    ("desk.*.devices.*.chip", "the number of a chip"),
    ("allow[].users[]", "the number of a user"),
    ("allow[].groups[]", "the number of a group"),
    ("link[].pseudowire.label_in", "a label of MPLS: no table is as large, and the far end is made as any other"),
    ("link[].pseudowire.label_out", "the same"),
    ("interface.*.mtu", "a device of the system has it, which is made, and exchanged, as any far end of a link"),
];

/// The ways to all numbers below a part of a schema.
fn numbers(root: &Value, schema: &Value, way: &str, found: &mut BTreeSet<String>) {
    if let Some(to) = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?)) {
        numbers(root, to, way, found);
    }
    for one in ["anyOf", "oneOf", "allOf"].iter().flat_map(|all| schema[all].as_array()).flatten() {
        numbers(root, one, way, found);
    }
    let is = |name: &str| match &schema["type"] {
        Value::Array(all) => all.iter().any(|one| one == name),
        one => one == name,
    };
    if is("integer") {
        found.insert(way.trim_start_matches('.').to_owned());
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        numbers(root, schema, &format!("{way}.{name}"), found);
    }
    for (of, more) in [("additionalProperties", ".*"), ("items", "[]")] {
        if schema[of].is_object() {
            numbers(root, &schema[of], &format!("{way}{more}"), found);
        }
    }
    for schema in schema["prefixItems"].as_array().into_iter().flatten() {
        numbers(root, schema, &format!("{way}[]"), found);
    }
}

/// The description with another number.
fn with(way: &str, number: &str) -> String {
    let mut text = String::new();
    let mut found = 0;
    for line in DESCRIPTION.lines() {
        match line.split_once(" # ") {
            Some((written, at)) if at == way => {
                let (key, _) = written.split_once(" = ").expect("a key");
                let _ = writeln!(text, "{key} = {number}");
                found += 1;
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    assert_eq!(found, 1, "{way} stands in the description once");
    text
}

#[test]
fn each_number_of_a_description_is_in_the_list_and_its_limit_is_the_most() {
    let schema: Value = kinds().schema_for::<File>();
    let mut found = BTreeSet::new();
    numbers(&schema, &schema, "", &mut found);
    let listed = NUMBERS.iter().map(|(way, ..)| *way).chain(NO_BOUNDS.iter().map(|(way, _)| *way));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(found, listed, "the numbers of the schema, and those of the test");
    let may_be = |way: &str, number: &str| {
        parse_with(&kinds(), &with(way, number), "net.toml").map(drop).map_err(|e| e.to_string())
    };
    let wrong: Vec<String> = NUMBERS
        .iter()
        .filter_map(|(way, _, limit)| {
            if let Err(cause) = may_be(way, limit) {
                return Some(format!("{way} = {limit}: {cause}"));
            }
            // Of some the network has the limit, and a description with more is refused when it is applied.
            let beyond = limit.parse::<u64>().ok().filter(|_| *limit != MOST && !way.ends_with(".mfs"))? + 1;
            may_be(way, &beyond.to_string()).is_ok().then(|| format!("{way} = {limit} is not the most"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sends on a circuit and receives at its other end until it is told to end; what arrived of what was sent.
fn carry(net: &Net, end: &AtomicBool) -> (u64, u64) {
    let (mut sender, to) = open(&net.socket, "alpha", 100);
    let (mut receiver, _) = open(&net.socket, "beta", 100);
    let (mut sent, mut came) = (0, 0);
    let mut last = Instant::now();
    while !end.load(Ordering::Relaxed) || (came < sent && last.elapsed() < PATIENCE) {
        if !end.load(Ordering::Relaxed) && sent - came < 8 {
            sent += u64::from(sender.send_copy(to, &[7; 1000]).is_ok());
        }
        while let Some(received) = receiver.try_receive() {
            drop(received);
            (came, last) = (came + 1, Instant::now());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    (sent, came)
}

#[test]
fn no_number_of_a_description_makes_a_long_round_when_it_grows_or_shrinks() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    let net = Net::of(DESCRIPTION, 3, BOUND);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let innocent = scope.spawn(|| carry(&net, &end));
        let mut failed = Vec::new();
        for (way, more, limit) in NUMBERS {
            for number in [more, limit] {
                let name = format!("{way} = {number}");
                let change = || {
                    net.measure_often(&name, |socket| {
                        apply(socket, &with(way, number), false);
                        apply(socket, DESCRIPTION, false);
                    });
                };
                if catch_unwind(AssertUnwindSafe(change)).is_err() {
                    failed.push(name.clone());
                }
            }
        }
        end.store(true, Ordering::Relaxed);
        let (sent, came) = innocent.join().expect("the innocent");
        assert!(failed.is_empty(), "long rounds, or refused: {failed:#?}");
        assert!(sent > 100 && came == sent, "{came} of {sent} PDUs arrived beside the changes");
    });
}
