//! How fast the libraries are, beside the crate `endpoint` in the same run. Prints rates and ratios. The goals are for a
//! release build on an idle machine: `cargo test --release -p bindings speed -- --nocapture`, `SPEED_SECONDS=2`.

use bindings::speed::flood;
use bindings::{Daemon, c_library, c_program, has_python, python_package, root, run, with_library};
use std::process::Command;
use std::time::Duration;

/// Rounds: each has every library once, and the median of the ratios counts.
const ROUNDS: usize = 5;

fn seconds() -> f64 {
    std::env::var("SPEED_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05)
}

/// Compares `other` with Rust at so many octets; gives the median ratio, and the median rate of the other.
fn compare(name: &str, octets: usize, goal: &str, mut other: impl FnMut() -> f64) -> (f64, f64) {
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let limit = flood(octets, Duration::from_secs_f64(seconds())).unwrap();
        let rate = other();
        assert!(rate > 0.0, "{name}: nothing arrived");
        ratios.push(rate / limit);
        rates.push(rate);
    }
    ratios.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    let (ratio, rate) = (ratios[ROUNDS / 2], rates[ROUNDS / 2]);
    println!("{name}, {octets} octets: {rate:.0} SDU/s, {ratio:.2} of Rust (goal: {goal})");
    (ratio, rate)
}

#[test]
fn c_is_about_as_fast_as_rust_on_a_direct_circuit() {
    let folder = tempfile::tempdir().unwrap();
    c_library(folder.path()).unwrap();
    let program = c_program(folder.path(), "tests/speed.c", &["-O2"]).unwrap();
    for (octets, goal) in [(64, "0.9"), (1500, "0.98")] {
        let words = [octets.to_string(), seconds().to_string()];
        let measure = || run(with_library(folder.path(), &program).args(&words)).unwrap().trim().parse().unwrap();
        let (ratio, _) = compare("C", octets, goal, measure);
        // A call too many, or a copy, costs more than that; what the machine does meanwhile costs less.
        assert!(ratio > 0.2, "{octets} octets: {ratio:.2}");
    }
}

#[test]
fn python_carries_long_sdus_at_a_good_part_of_rusts_rate() {
    if !has_python() {
        return;
    }
    let daemon = Daemon::start().unwrap();
    python_package(daemon.folder()).unwrap();
    let program = root().join("bindings/python/tests/speed.py").canonicalize().unwrap();
    for (octets, way, goal) in [(9188, "batch", "0.6"), (64, "batch", "-"), (64, "single", "1 M/s")] {
        let measure = || {
            let mut python = Command::new("python3");
            python.env("PYTHONPATH", daemon.folder()).env("CELLWAY_SOCKET", daemon.socket()).arg(&program);
            run(python.args([&octets.to_string(), &seconds().to_string(), way])).unwrap().trim().parse().unwrap()
        };
        let (ratio, rate) = compare(&format!("Python, {way}"), octets, goal, measure);
        assert!(ratio > 0.01 && rate > 1000.0, "{octets} octets, {way}: {ratio:.3}, {rate:.0} SDU/s");
    }
}
