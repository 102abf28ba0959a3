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

/// Copies the program to where another user may run it. By a process of its own: what this one has open for writing, a child
/// of another test would have open too, and the copy could not be run.
fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_cellway")).arg(to).status().unwrap();
    assert!(copied.success());
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
    copy_program(&program);
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

    // Somebody has the far end open, or nothing would be sent.
    let _receives =
        Daemon(command(&program, &socket, &["receive", "beta", "0.100", "/dev/null", "--datagrams"]).spawn().unwrap());
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

/// A network that root runs, and commands of another user.
struct Shared {
    folder: tempfile::TempDir,
    program: std::path::PathBuf,
    daemon: Daemon,
}

impl Shared {
    fn up(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("cellway");
        copy_program(&program);
        let file = folder.path().join("net.toml");
        std::fs::write(&file, [NETWORK, rules].concat()).unwrap();
        let socket = folder.path().join("s");
        let daemon = command(&program, &socket, &["up", file.to_str().unwrap(), "--log", "error"]).spawn().unwrap();
        let shared = Shared { folder, program, daemon: Daemon(daemon) };
        shared.within("the service answers", || shared.of(0, &["status"]).output().unwrap().status.success());
        shared
    }

    fn of(&self, user: u32, arguments: &[&str]) -> Command {
        let mut command = command(&self.program, &self.folder.path().join("s"), arguments);
        command.uid(user).gid(user);
        command
    }

    fn within(&self, what: &str, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end, "not within 20 s: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn apply(&self, rules: &str) {
        let file = self.folder.path().join("net.toml");
        std::fs::write(&file, [NETWORK, rules].concat()).unwrap();
        let output = self.of(0, &["apply", file.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// What a command of a user's says on standard error; `Ok` if it succeeds.
    fn try_as(&self, user: u32, arguments: &[&str]) -> Result<String, String> {
        let output = self.of(user, arguments).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

fn rule(user: u32, rest: &str) -> String {
    format!("\n[[allow]]\nusers = [{user}]\n{rest}\n")
}

#[test]
fn who_may_watch_looks_and_changes_nothing_and_who_may_manage_changes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let (watcher, manager) = (OTHER, OTHER - 1);
    let shared = Shared::up(&(rule(watcher, "role = \"watch\"") + &rule(manager, "role = \"manage\"")));
    for looking in [&["status"][..], &["circuit", "list"], &["link", "list"]] {
        for user in [watcher, manager] {
            shared.try_as(user, looking).unwrap_or_else(|e| panic!("user {user}, {looking:?}: {e}"));
        }
    }
    let file = shared.folder.path().join("net.toml");
    for changing in [
        &["circuit", "remove", "alpha 0.101", "beta 0.101"][..],
        &["circuit", "add", "alpha 0.200", "beta 0.200"],
        &["link", "down", "alpha:0 - beta:0"],
        &["apply", file.to_str().unwrap()],
        &["capture", "alpha:0 - beta:0", "-"],
    ] {
        let e = shared.try_as(watcher, changing).unwrap_err();
        assert!(e.contains("may watch, but not manage"), "{changing:?}: {e}");
    }
    let e = shared.try_as(watcher, &["send", "alpha", "0.100"]).unwrap_err();
    assert!(e.contains("alpha"), "{e}");
    let before = shared.try_as(watcher, &["--json", "circuit", "list"]).unwrap();
    shared.try_as(manager, &["circuit", "add", "alpha 0.200", "beta 0.200"]).unwrap();
    let after = shared.try_as(watcher, &["--json", "circuit", "list"]).unwrap();
    assert!(!before.contains("0.200") && after.contains("0.200"), "{after}");
}

#[test]
fn what_is_revoked_closes_what_is_open_and_leaves_another_users_circuit_alone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let (one, two) = (OTHER, OTHER - 1);
    let both = rule(one, "circuits = [\"0.100\"]") + &rule(two, "circuits = [\"0.101\"]");
    let shared = Shared::up(&both);
    let receive = |user, circuit| Daemon(shared.of(user, &["receive", "beta", circuit]).spawn().unwrap());
    let (mut first, mut second) = (receive(one, "0.100"), receive(two, "0.101"));
    let open = |circuit: &str| {
        let all: serde_json::Value =
            serde_json::from_str(&shared.try_as(0, &["--json", "circuit", "list"]).unwrap()).unwrap();
        let name = format!("alpha {circuit} - beta {circuit}");
        let found = all.as_array().unwrap().iter().find(|c| c["name"] == name.as_str()).unwrap().clone();
        !found["ends"][1]["open"].is_null()
    };
    shared.within("both are open", || open("0.100") && open("0.101"));
    // Another circuit for the first user: the connection may stay, its circuit may not.
    shared.apply(&(rule(one, "circuits = [\"0.102\"]") + &rule(two, "circuits = [\"0.101\"]")));
    shared.within("the first is closed", || !open("0.100"));
    assert!(open("0.101") && second.0.try_wait().unwrap().is_none());
    // No rule at all for the first user: the connection ends, and with it the command.
    shared.apply(&rule(two, "circuits = [\"0.101\"]"));
    shared.within("the first has ended", || first.0.try_wait().unwrap().is_some());
    assert!(open("0.101") && second.0.try_wait().unwrap().is_none());
    assert!(shared.daemon.0.id() > 0);
}

#[test]
fn what_is_revoked_ends_though_the_socket_has_gone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let shared = Shared::up(&rule(OTHER, "circuits = [\"0.100\"]"));
    let mut receives = Daemon(shared.of(OTHER, &["receive", "beta", "0.100"]).spawn().unwrap());
    shared.within("the circuit is open", || {
        let text = shared.try_as(0, &["--json", "status"]).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        all["endpoints"].as_array().unwrap().iter().any(|endpoint| endpoint["channels"] == 1)
    });
    std::fs::remove_file(shared.folder.path().join("s")).unwrap();
    std::fs::write(shared.folder.path().join("net.toml"), NETWORK).unwrap();
    let pid = rustix::process::Pid::from_child(&shared.daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    shared.within("the circuit has ended", || receives.0.try_wait().unwrap().is_some());
}

#[test]
fn a_list_of_calls_shows_who_may_watch_all_and_others_what_is_theirs() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let (caller, watcher, other) = (OTHER, OTHER - 1, OTHER - 2);
    let mut rules = "[host.gamma]\n[host.delta]\n[switch.s1]\nprefix = \"47000580ffe100000000000001\"\n".to_owned();
    for (port, host) in ["gamma", "delta"].into_iter().enumerate() {
        rules += &format!("[[link]]\nends = [\"{host}\", \"s1:{port}\"]\nsignalling = {{ version = \"uni40\" }}\n");
    }
    rules += &rule(caller, "host = \"gamma\"\ncalls = [\"*\"]");
    rules += &rule(watcher, "role = \"watch\"");
    rules += &rule(other, "circuits = [\"0.100\"]");
    let shared = Shared::up(&rules);
    let list = |user| -> serde_json::Value {
        serde_json::from_str(&shared.try_as(user, &["--json", "call", "list"]).unwrap()).unwrap()
    };
    let length = |list: &serde_json::Value, key: &str| list[key].as_array().unwrap().len();
    let address = || shared.try_as(0, &["address", "delta"]).ok()?.split_whitespace().nth(1).map(str::to_owned);
    shared.within("delta has an address", || address().is_some_and(|address| address.starts_with("47")));
    let _listens = Daemon(shared.of(0, &["listen", "delta"]).spawn().unwrap());
    let address = address().unwrap();
    let _calls = Daemon(shared.of(caller, &["call", "gamma", &address]).spawn().unwrap());
    shared.within("the call is up", || {
        let all = list(0);
        length(&all, "calls") == 2 && length(&all, "through") == 1
    });
    let all = list(watcher);
    assert_eq!(["interfaces", "calls", "through"].map(|key| length(&all, key)), [4, 2, 1], "{all}");
    let own = list(caller);
    assert_eq!(["interfaces", "calls", "through"].map(|key| length(&own, key)), [1, 1, 0], "{own}");
    let interface = &own["interfaces"][0];
    assert_eq!((&interface["station"], &interface["up"]), (&"gamma".into(), &true.into()));
    assert_eq!(["calls", "labels", "received", "sent"].map(|key| interface[key].as_u64()), [Some(0); 4], "{own}");
    assert_eq!(shared.try_as(caller, &["address"]).unwrap().lines().count(), 1);
    let nothing = list(other);
    assert_eq!(["interfaces", "calls", "through"].map(|key| length(&nothing, key)), [0; 3], "{nothing}");
}

#[test]
fn a_user_has_the_bandwidth_and_the_endpoints_of_the_rule_and_another_has_their_own() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let (one, two) = (OTHER, OTHER - 1);
    let quotas = "circuits = [\"*\"]\nmax_bandwidth = \"1500 cell/s\"\nmax_endpoints = 2";
    let contract = |vci: u16| {
        format!(
            "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\ncategory = \"cbr\"\npcr = \"1000 cell/s\"\n"
        )
    };
    let circuits: String = (200..204).map(contract).collect();
    let shared = Shared::up(&(circuits + &rule(one, quotas) + &rule(two, quotas)));
    let receive = |user, circuit: &str| Daemon(shared.of(user, &["receive", "beta", circuit]).spawn().unwrap());
    let endpoints = |n: usize| {
        let all: serde_json::Value = serde_json::from_str(&shared.try_as(0, &["--json", "status"]).unwrap()).unwrap();
        let all = all["endpoints"].as_array().unwrap();
        all.len() == n && all.iter().all(|endpoint| endpoint["channels"] == 1)
    };
    let _first = receive(one, "0.200");
    shared.within("one circuit is open", || endpoints(1));
    let e = shared.try_as(one, &["receive", "beta", "0.201"]).unwrap_err();
    assert!(e.contains("1500 cells/s") && e.contains("max_bandwidth"), "{e}");
    shared.within("the refused endpoint has gone", || endpoints(1));
    // Best effort reserves nothing, and the second endpoint is the last.
    let _second = receive(one, "0.100");
    shared.within("two circuits are open", || endpoints(2));
    let e = shared.try_as(one, &["receive", "beta", "0.101"]).unwrap_err();
    assert!(e.contains("2 endpoints") && e.contains("max_endpoints"), "{e}");
    let _other = receive(two, "0.202");
    shared.within("the other user's is open", || endpoints(3));
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
