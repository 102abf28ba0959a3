//! `cellway-lab simulate` as its users run it: a scenario is a test by its exit status.

use super::program;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn simulate(more: &[&str], scenario: &Path) -> Output {
    program(more).arg("simulate").arg(scenarios().join("line.toml")).arg(scenario).output().unwrap()
}

#[test]
fn a_scenario_is_a_test_by_its_exit_status_and_its_result_is_a_table_or_json() {
    let short = std::fs::read_to_string(scenarios().join("overload.toml")).unwrap().replace("\"200 ms\"", "\"150 ms\"");
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario.toml");
    std::fs::write(&scenario, &short).unwrap();
    let output = simulate(&["--json"], &scenario);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["expectations"].as_array().unwrap().len(), 3);
    assert!(outcome["expectations"].as_array().unwrap().iter().all(|expectation| expectation["met"] == true));
    assert!(outcome["sources"][0]["delay_s"]["max"].as_f64().unwrap() > 0.0, "{outcome:#}");

    std::fs::write(&scenario, short.replace("delay = \"5 ms\"", "delay = \"5 us\"")).unwrap();
    let output = simulate(&[], &scenario);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let missed: Vec<&str> = text.lines().filter(|line| line.starts_with("NOT MET:")).collect();
    assert!(missed.len() == 1 && missed[0].contains("no CBR cell is lost"), "{text}");
    assert!(text.contains("link_down") && text.contains("voice"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 3 expectations are not met"));

    std::fs::write(&scenario, "duration = \"1 s\"\nspeed = 3\n").unwrap();
    let output = simulate(&[], &scenario);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && says.contains("scenario.toml") && says.contains("speed"), "{says}");
}
