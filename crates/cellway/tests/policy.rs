//! Another user and the description's `[[allow]]`: processes of two users on one socket. Needs root, to become one of them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nobody, on every Linux.
const OTHER: u32 = 65534;

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
"#;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(program: &Path, socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("--socket").arg(socket).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn another_user_opens_what_a_rule_gives_and_is_told_about_the_rest() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("cellway");
    std::fs::copy(env!("CARGO_BIN_EXE_cellway"), &program).unwrap();
    let (file, socket) = (folder.path().join("net.toml"), folder.path().join("s"));
    std::fs::write(&file, NETWORK).unwrap();
    let daemon = Daemon(command(&program, &socket, &["up", file.to_str().unwrap(), "--log", "error"]).spawn().unwrap());
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end, "not within 20 s: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until("the service answers", &|| command(&program, &socket, &["status"]).output().unwrap().status.success());
    let other = |arguments: &[&str]| -> Output {
        command(&program, &socket, arguments).uid(OTHER).gid(OTHER).output().unwrap()
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let send = |circuit| other(&["send", "alpha", circuit]);

    // Without a rule, the socket is its owner's.
    assert!(!send("0.100").status.success());

    let rule = format!("\n[[allow]]\nusers = [{OTHER}]\nhost = \"alpha\"\ncircuits = [\"0.100\"]\n");
    std::fs::write(&file, [NETWORK, &rule].concat()).unwrap();
    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    until("the rule is in force", &|| send("0.100").status.success());

    let refused = send("0.101");
    assert!(!refused.status.success());
    let why = said(&refused);
    assert!(why.contains("0.101") && why.contains("[[allow]]") && why.contains(&OTHER.to_string()), "{why}");
    let elsewhere = other(&["send", "beta", "0.100"]);
    assert!(!elsewhere.status.success() && said(&elsewhere).contains("beta"), "{}", said(&elsewhere));
    let managing = other(&["circuit", "remove", "alpha 0.101", "beta 0.101"]);
    assert!(!managing.status.success() && said(&managing).contains("not manage"), "{}", said(&managing));
    // Nor do they look at what is others': counters, circuits, cells.
    for looking in [&["status"][..], &["circuit", "list"], &["link", "list"], &["capture", "alpha:0 - beta:0", "-"]] {
        let looked = other(looking);
        let why = said(&looked);
        assert!(
            !looked.status.success() && looked.stdout.is_empty() && why.contains("not manage"),
            "{looking:?}: {why}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_is_told_with_file_line_and_cure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.toml");
    let rule = "[[allow]]\nusers = [\"no-such-user-here\"]\ncircuits = [\"*\"]\n";
    std::fs::write(&file, [NETWORK, rule].concat()).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_cellway"));
    let output =
        command(program, &folder.path().join("s"), &["config", "check", file.to_str().unwrap()]).output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        why.contains("net.toml:11:10") && why.contains("no user `no-such-user-here`") && why.contains("number"),
        "{why}"
    );
}
