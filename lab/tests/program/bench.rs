//! `cellway-lab bench`: what each row has.

use super::program;
use serde_json::Value;

#[test]
fn bench_sar_has_a_row_for_each_kernel_and_peer_and_draws_its_figure() {
    let folder = tempfile::tempdir().unwrap();
    let figure = folder.path().join("sar.svg");
    let out =
        program(&["bench", "sar", "--runs", "1", "--millis", "1", "--sdu", "40,1500", "--no-dram", "--no-circuits"])
            .args(["--json", "--figure"])
            .arg(&figure)
            .output()
            .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let kernels = json["kernels"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (kernels.len() + 2), "two sizes; every kernel, two peers");
    for row in rows {
        assert!(row["kernel"].is_string() && row["working_set"] == "l2");
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} is missing"));
        for key in ["segment_gbit_s", "reassemble_gbit_s", "memcpy_gbit_s", "cells_per_s"] {
            assert!(of(key) > 0.0, "{key}");
        }
        let ratio = of("segment_gbit_s") / of("memcpy_gbit_s");
        assert!((of("segment_vs_memcpy") / ratio - 1.0).abs() < 0.01, "one run: its ratio is the medians'");
        assert!(of("reassemble_vs_memcpy") > 0.0 && of("sdu_octets") > 0.0);
    }
    assert!(json["interleaved"].as_array().unwrap().iter().all(|r| r["cells_per_s"].as_f64().unwrap() > 0.0));
    assert!(std::fs::read_to_string(figure).unwrap().starts_with("<svg"));

    let wrong = program(&["bench", "sar", "--kernel", "abacus"]).output().unwrap();
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("portable"), "it says which there are");
}

#[test]
fn bench_path_says_its_limit_beside_each_figure() {
    let output = program(&["bench", "path", "--runs", "1", "--millis", "40", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    // Cells with credits on all cores and on one, lent and copied, cells with a contract, cells and frames by best effort, and a direct
    // circuit, of four sizes each.
    assert_eq!(rows.len(), 32);
    for row in rows {
        for key in ["pdu_octets", "gbit_s", "memcpy_gbit_s", "vs_memcpy", "pdus_per_s"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} in {row}");
        }
    }
}

#[test]
fn bench_adapter_measures_the_model_alone_beside_memcpy_and_it_is_no_limit_to_the_line() {
    let output = program(&["bench", "adapter", "--runs", "3", "--octets", "500000", "--sdu", "1500,9188", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        for key in ["sdu_octets", "loop_back_mbit_s", "memcpy_mbit_s", "vs_memcpy", "pdus_per_s"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} in {row}");
        }
        // In seconds of its thread, so that other load does not matter.
        assert!(row["vs_line"].as_f64().unwrap() > 1.0, "slower than OC-3c: {row}");
    }
}

#[test]
fn bench_am_has_logp_and_the_endpoints_round_trip_beside_each_of_its_own() {
    let output = program(&["--json", "bench", "am", "--quick"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "circuits of cells, and a direct circuit");
    for row in rows {
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} is missing in {row}"));
        for key in ["rtt_ns", "raw_rtt_ns", "rtt_vs_raw", "send_ns", "receive_ns", "gap_ns"] {
            assert!(of(key) > 0.0, "{key} in {row}");
        }
        assert_eq!(of("octets"), 24.0, "four words fit a cell");
        // One run: its ratio is the medians'.
        assert!((of("rtt_vs_raw") / (of("rtt_ns") / of("raw_rtt_ns")) - 1.0).abs() < 0.01, "{row}");
        assert_eq!(row["reaches_goal"].as_bool(), Some(of("rtt_vs_raw") <= 1.2));
    }
}
