//! A description that is wrong is told, with every line and column, to whoever asked: the command, or the daemon's log.

use crate::up::{Net, within};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";
/// Three lines that cannot be: 4, 6 and 8.
const BAD: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"bta\"]\n[[link]]\nrate = \"fast\"\n\
                   ends = [\"alpha\", \"beta\"]\nsize = 3\n";

fn lines(problems: &Value) -> Vec<u64> {
    problems.as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect()
}

#[test]
fn whoever_asks_for_a_description_that_is_wrong_is_told_every_line() {
    let net = Net::up(WAIT, NETWORK);
    let file = net.folder.path().join("bad.toml");
    std::fs::write(&file, BAD).unwrap();
    let file = file.to_str().unwrap();
    for command in [&["apply", file][..], &["apply", file, "--dry-run"], &["config", "check", file]] {
        let output = net.run(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(lines(&answer["problems"]), [4, 6, 8], "{command:?}: {answer}");
        let told: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(lines(&told["problems"]), [4, 6, 8], "{command:?}: {told}");
    }
    let mut plain = Command::new(env!("CARGO_BIN_EXE_cellway"));
    plain.arg("--socket").arg(net.folder.path().join("s")).args(["apply", file]);
    let output = plain.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    for part in ["bad.toml:4:18", "bad.toml:6:8", "bad.toml:8:1", "rate = \"fast\"", "^^^^^^", "3 errors"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What only the running network's plan knows: port 0 of alpha has two links.
    let twice = format!("{NETWORK}[[link]]\nends = [\"alpha:0\", \"beta:1\"]\n");
    std::fs::write(file, twice).unwrap();
    let output = net.run(&["apply", file]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((lines(&answer["problems"]), output.status.code()), (vec![6], Some(1)), "{answer}");
    assert_eq!(net.done(&["link", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_description_that_is_wrong_at_a_signal_is_told_in_the_log_and_at_the_start_by_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("net.toml"), folder.path().join("log"));
    let up = |log: File| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(folder.path().join("s")).arg("up").arg(&file).stderr(log);
        command
    };
    std::fs::write(&file, BAD).unwrap();
    let status = up(File::create(&log).unwrap()).status().unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(status.code() == Some(1) && text.contains("net.toml:6:8") && text.contains("3 errors"), "{text}");

    std::fs::write(&file, NETWORK).unwrap();
    let mut daemon = up(File::create(&log).unwrap()).spawn().unwrap();
    let said = |what: &str| std::fs::read_to_string(&log).unwrap().contains(what);
    within(WAIT, "it is up", || said("up: 2 stations"));
    std::fs::write(&file, BAD).unwrap();
    assert!(Command::new("kill").args(["-HUP", &daemon.id().to_string()]).status().unwrap().success());
    within(WAIT, "all three are told", || [":4:18: ", ":6:8: ", ":8:1: "].iter().all(|place| said(place)));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
