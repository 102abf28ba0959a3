//! `scripts/need`: what it does while another process has apt's locks. The programs that it calls are stand-ins.

use house::named::root;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const HELD: &str =
    "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)' >&2; exit 100";
const UNKNOWN: &str = "echo 'E: Unable to locate package there' >&2; exit 100";

fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Needs a file that the last of these answers of apt-get makes; gives what was asked of it, too.
fn need(answers: &[&str]) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (n, answer) in answers.iter().enumerate() {
        program(folder.path(), &format!("answer{n}"), answer);
    }
    let here = folder.path().display();
    program(
        folder.path(),
        "apt-get",
        &format!("n=$(wc -l < {here}/asked)\necho \"$*\" >> {here}/asked\nexec {here}/answer$n"),
    );
    program(folder.path(), "sudo", "[ \"$1\" = -n ] && shift\nexec \"$@\"");
    program(folder.path(), "sleep", "exit 0");
    fs::write(at("asked"), "").unwrap();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new(root().join("scripts/need"));
    let wanted = format!("{}=there", at("there").display());
    let output = command.args(["a test", &wanted]).env("PATH", path).output().unwrap();
    let asked = fs::read_to_string(at("asked")).unwrap();
    (output, asked.lines().map(str::to_owned).collect())
}

#[test]
fn need_waits_while_another_process_has_apts_locks_and_says_for_whom() {
    let (output, asked) = need(&[HELD, HELD, UNKNOWN, HELD, "exit 0", HELD, "exit 0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("waiting") && said.contains("process 4711 (apt-get)"), "{said}");
    assert_eq!(said.matches("4711").count(), 3, "once for each wait: {said}");
    let verbs = asked.iter().filter_map(|line| line.split(' ').find(|word| ["install", "update"].contains(word)));
    let verbs: Vec<&str> = verbs.collect();
    assert_eq!(verbs, ["install", "install", "install", "update", "update", "install", "install"]);
    assert!(asked.iter().all(|line| line.contains("DPkg::Lock::Timeout=")), "{asked:?}");
}

#[test]
fn need_gives_up_where_apt_has_no_such_package() {
    let (output, asked) = need(&[UNKNOWN, "exit 0", UNKNOWN]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && asked.len() == 3, "{asked:?}");
    assert!(said.contains("Unable to locate package there") && said.contains("could not install there"), "{said}");
}
