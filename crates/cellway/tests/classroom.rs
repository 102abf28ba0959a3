//! `examples/classroom`: forty students and a teacher on one switch, each student with the rights to the own host only.

use crate::up::{Net, within};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const STUDENTS: usize = 40;
/// A range of users that no system gives to anybody by itself.
const FIRST_USER: u32 = 64_100;
const WAIT: Duration = Duration::from_secs(120);

/// The description that the script prints.
fn classroom(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/classroom");
    let output = Command::new(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A PDU from a student to the teacher, by the command that `as_student` makes.
fn hand_in(net: &Net, n: usize, as_student: impl Fn(usize, &[&str]) -> Command) {
    let at = |name: &str| net.folder.path().join(format!("{name}{n}"));
    let (circuit, got, paper) = (format!("0.{}", 100 + n), at("of"), at("paper"));
    let said = fs::File::create(at("ready")).unwrap();
    let words = ["receive", "teacher", &circuit, got.to_str().unwrap(), "--datagrams", "--count", "1"];
    let mut receiver = teacher(net).args(words).stderr(said).spawn().unwrap();
    within(WAIT, "the teacher's circuit is open", || fs::read_to_string(at("ready")).unwrap().contains("ready at"));
    fs::write(&paper, format!("the paper of student {n}")).unwrap();
    let words = ["send", &format!("student{n:02}"), "0.100", paper.to_str().unwrap()];
    let sent = as_student(n, &words).output().unwrap();
    assert!(sent.status.success(), "student {n}: {}", String::from_utf8_lossy(&sent.stderr));
    assert!(receiver.wait().unwrap().success(), "the teacher's circuit of student {n}");
    assert_eq!(fs::read_to_string(&got).unwrap(), format!("the paper of student {n}"));
}

fn teacher(net: &Net) -> Command {
    cellway(Path::new(env!("CARGO_BIN_EXE_cellway")), net)
}

fn cellway(program: &Path, net: &Net) -> Command {
    let mut command = Command::new(program);
    command.arg("--socket").arg(net.folder.path().join("s")).stdin(Stdio::null());
    command
}

#[test]
fn forty_students_hand_in_and_each_has_the_own_host_only() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("CI").is_none(), "root is needed in CI");
    let first = FIRST_USER.to_string();
    let words = ["40", &first];
    let net = Net::up(WAIT, &classroom(if is_root { &words } else { &words[..1] }));
    // What students run, and read, is where they may reach it.
    fs::set_permissions(net.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = net.folder.path().join("cellway");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_cellway")).arg(&program).status().unwrap().success());
    let as_user = |n: usize, words: &[&str]| {
        let user = FIRST_USER + n as u32 - 1;
        let mut command = cellway(&program, &net);
        command.args(words);
        if is_root {
            command.uid(user).gid(user);
        }
        command
    };
    (1..=STUDENTS).for_each(|n| hand_in(&net, n, as_user));
    if !is_root {
        eprintln!("left out: only root can become another user");
        return;
    }
    let other = as_user(1, &["send", "student02", "0.100", "/dev/null"]).output().unwrap();
    assert_eq!(other.status.code(), Some(1), "{}", String::from_utf8_lossy(&other.stderr));
}
