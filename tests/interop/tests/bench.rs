//! Each measurement of `cellway-lab bench` measures something, and says what; how fast it is, is not asked here.
//! A test program of its own: it measures, and nothing runs beside it.

use interop::namespace::available;
use interop::program::cellway_lab;
use serde_json::Value;
use std::process::Command;

fn said(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(cellway_lab().unwrap()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The names under "Commands:", as the program lists them.
fn benchmarks() -> Vec<String> {
    let help = String::from_utf8(said(&["bench", "--help"])).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let name =
        |line: &str| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()).map(String::from);
    commands.filter_map(name).filter(|name| name != "help").collect()
}

#[test]
fn each_benchmark_runs_in_short_and_gives_rows_and_the_figure_if_it_has_one() {
    let names = benchmarks();
    assert!(names.iter().any(|name| name == "ip") && names.len() >= 13, "{names:?}");
    let folder = tempfile::tempdir().unwrap();
    // That of IP over ATM needs more than the others, and has a test below.
    for name in names.iter().filter(|name| *name != "ip") {
        let figure = folder.path().join(format!("{name}.svg"));
        let mut arguments = vec!["--json", "bench", name, "--quick"];
        let draws = String::from_utf8(said(&["bench", name, "--help"])).unwrap().contains("--figure");
        if draws {
            arguments.extend(["--figure", figure.to_str().unwrap()]);
        }
        let json: Value = serde_json::from_slice(&said(&arguments)).unwrap();
        assert_eq!(json["bench"], **name);
        let lists: Vec<_> = json.as_object().unwrap().iter().filter(|(_, value)| value.is_array()).collect();
        assert!(!lists.is_empty(), "{name}: {json}");
        for (list, rows) in lists {
            assert!(!rows.as_array().unwrap().is_empty(), "{name}: no {list}");
        }
        if draws {
            assert!(std::fs::read_to_string(figure).unwrap().starts_with("<svg"), "{name}");
        }
    }
}

#[test]
fn every_way_between_the_namespaces_carries_tcp_and_ping() {
    if !available() || !interop::have(&[("iperf3", "iperf3"), ("nsenter", "util-linux")]) {
        return;
    }
    let said: Value = serde_json::from_slice(&said(&["--json", "bench", "ip", "--quick"])).unwrap();
    let rows = said["rows"].as_array().unwrap();
    for way in ["forwarder", "cellway", "endpoint", "veth"] {
        let of_way: Vec<_> = rows.iter().filter(|row| row["case"] == way).collect();
        assert_eq!(of_way.len(), if way == "veth" { 2 } else { 4 }, "{way}");
        for row in of_way {
            // 16 Mi octets are sent each way; iperf3 counts what had arrived when the sender was done.
            assert!(row["octets"].as_u64() > Some(8_000_000), "{row}");
            assert!(row["tcp_gbit_s"].as_f64() > Some(0.0) && row["ping_us"].as_f64() > Some(0.0), "{row}");
            assert_eq!(row["vs_veth"].is_null(), way == "veth", "{row}");
            assert_eq!(row["vs_forwarder"].is_null(), matches!(way, "veth" | "forwarder"), "{row}");
            assert!([1500, 9180].contains(&row["mtu"].as_u64().unwrap()) && row["offload"].is_boolean(), "{row}");
        }
    }
}
