//! The tour of `README.md`, run as it is printed: three terminals, and every line of the third one succeeds.

use crate::up::within;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// What a terminal runs: ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The three blocks of commands.
fn blocks(readme: &str) -> Vec<&str> {
    let tour = readme.split_once("\n## A tour\n").expect("a tour").1.split("\n## ").next().unwrap();
    tour.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// Lines as a user types them: where the project is, with the program in the path.
fn terminal(socket: &Path, lines: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_cellway")).parent().unwrap().to_path_buf();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others))).unwrap();
    let mut command = Command::new("sh");
    // `exec`: the program ends with the test, not with the shell in front of it.
    let lines = if lines.lines().count() == 1 { format!("exec {lines}") } else { format!("set -e\n{lines}") };
    command.args(["-c", &lines]).env("PATH", path).env("CELLWAY_SOCKET", socket);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).stdin(Stdio::null());
    command
}

#[test]
fn the_tour_of_the_readme_works_as_it_is_printed() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = blocks(&readme);
    let [first, second, third] = blocks[..] else { panic!("three terminals: {blocks:?}") };
    let folder = tempfile::tempdir().unwrap();
    let socket: PathBuf = folder.path().join("s");
    let _daemon = Running(terminal(&socket, first).stderr(Stdio::null()).spawn().unwrap());
    let status = || terminal(&socket, "cellway status --json").stderr(Stdio::null()).output().unwrap();
    within(PATIENCE, "the service answers", || status().status.success());
    let got = folder.path().join("got");
    let receiving = terminal(&socket, second).stdout(std::fs::File::create(&got).unwrap()).spawn();
    let _receiver = Running(receiving.unwrap());
    within(PATIENCE, "the receiver has its circuit open", || {
        let status: Value = serde_json::from_slice(&status().stdout).unwrap();
        status["endpoints"].as_array().is_some_and(|all| all.iter().any(|endpoint| endpoint["channels"] == 1))
    });
    let output = terminal(&socket, third).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("3 sent, 3 received"), "{said}");
    assert!(said.contains("s1"), "the trace names the switch: {said}");
    within(PATIENCE, "the receiver prints what was sent", || {
        std::fs::read_to_string(&got).is_ok_and(|got| got.contains("hello"))
    });
}
