//! `examples/classroom`: forty students and a teacher on one switch, each student with the rights to the own host only.

use crate::up::{Net, within};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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

/// One PDU from each student to the teacher, all at once, as the commands that `as_student` makes; whether each was delivered.
fn hand_in(net: &Net, as_student: impl Fn(usize, &[&str]) -> Command) {
    let at = |name: String| net.folder.path().join(name);
    let receive = |n: usize| -> Child {
        let (circuit, file) = (format!("0.{}", 100 + n), at(format!("of{n}")));
        let words = ["receive", "teacher", &circuit, file.to_str().unwrap(), "--datagrams", "--count", "1"];
        teacher(net).args(words).stderr(fs::File::create(at(format!("ready{n}"))).unwrap()).spawn().unwrap()
    };
    let mut receivers: Vec<Child> = (1..=STUDENTS).map(receive).collect();
    let is_ready = |n: usize| fs::read_to_string(at(format!("ready{n}"))).unwrap().contains("ready at");
    within(WAIT, "all circuits of the teacher are open", || (1..=STUDENTS).all(is_ready));
    let send = |n: usize| -> Child {
        let paper = at(format!("paper{n}"));
        fs::write(&paper, format!("the paper of student {n}")).unwrap();
        let words = ["send", &format!("student{n:02}"), "0.100", paper.to_str().unwrap()];
        as_student(n, &words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let senders: Vec<Child> = (1..=STUDENTS).map(send).collect();
    for (n, mut sender) in (1..).zip(senders) {
        assert!(sender.wait().unwrap().success(), "student {n}");
    }
    for (n, receiver) in (1..).zip(&mut receivers) {
        assert!(receiver.wait().unwrap().success(), "the teacher's circuit of student {n}");
        assert_eq!(fs::read_to_string(at(format!("of{n}"))).unwrap(), format!("the paper of student {n}"));
    }
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
fn forty_students_hand_in_at_once() {
    let net = Net::up(WAIT, &classroom(&["40"]));
    hand_in(&net, |_, words| {
        let mut command = teacher(&net);
        command.args(words);
        command
    });
}

#[test]
fn each_of_forty_users_has_the_own_host_and_no_other() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "root is needed in CI");
        eprintln!("left out: only root can become another user");
        return;
    }
    let net = Net::up(WAIT, &classroom(&["40", &FIRST_USER.to_string()]));
    // What students run, and read, is where they may reach it.
    fs::set_permissions(net.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = net.folder.path().join("cellway");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_cellway")).arg(&program).status().unwrap().success());
    let as_user = |n: usize, words: &[&str]| {
        let user = FIRST_USER + n as u32 - 1;
        let mut command = cellway(&program, &net);
        command.args(words).uid(user).gid(user);
        command
    };
    hand_in(&net, as_user);
    let other = as_user(1, &["send", "student02", "0.100", "/dev/null"]).output().unwrap();
    assert_eq!(other.status.code(), Some(1), "{}", String::from_utf8_lossy(&other.stderr));
}
