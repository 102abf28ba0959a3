//! `cellway bench ip` measures something on every way, and says what; how fast it is, is not asked here.

use interop::namespace::available;
use interop::program::cellway;
use serde_json::Value;
use std::process::Command;

#[test]
fn every_way_between_the_namespaces_carries_tcp_and_ping() {
    if !available() || !interop::have(&[("iperf3", "iperf3"), ("nsenter", "util-linux")]) {
        return;
    }
    let output = Command::new(cellway().unwrap()).args(["--json", "bench", "ip", "--quick"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
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
