//! The state folder of a daemon: whose it is, what is in it, and what a daemon does that cannot use it.

use crate::up::{Net, within};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";
/// Nobody, on every Linux.
const OTHER: u32 = 65534;

/// A place for daemons and their state.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("net.toml"), NETWORK).unwrap();
    folder
}

/// A daemon at a socket of a place, which says what it says in the file `log`.
fn daemon(place: &Path, socket: &str, state: &Path, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(place.join(socket)).arg("up").arg(place.join("net.toml"));
    command.arg("--state").arg(state).args(more).stdin(Stdio::null());
    command.stderr(fs::File::create(place.join("log")).unwrap()).spawn().unwrap()
}

/// A running one.
fn up(folder: TempDir, state: &Path, more: &[&str]) -> Net {
    let daemon = daemon(folder.path(), "s", state, more);
    let mut net = Net { folder, daemon };
    within(WAIT, "the service answers", || {
        assert_eq!(net.daemon.try_wait().unwrap(), None, "{}", log(net.folder.path()));
        net.run(&["status"]).status.success()
    });
    net
}

fn log(place: &Path) -> String {
    fs::read_to_string(place.join("log")).unwrap()
}

/// Ended, with its exit status.
fn ended(mut daemon: Child) -> Option<i32> {
    let mut status = None;
    within(WAIT, "the daemon ends", || {
        status = daemon.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

/// Why a daemon with this state does not start.
fn refused(place: &Path, state: &Path) -> String {
    assert_eq!(ended(daemon(place, "refused", state, &[])), Some(1), "{}", log(place));
    assert!(!place.join("refused").exists(), "the socket stays");
    log(place)
}

fn kill(net: &mut Net) {
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "root is needed in CI");
        eprintln!("left out: only root can give files away");
    }
    is_root
}

#[test]
fn a_second_daemon_on_a_state_folder_is_refused_until_the_first_has_gone_however_it_went() {
    let folder = place();
    let (state, other_name) = (folder.path().join("state"), folder.path().join("other-name"));
    let mut first = up(folder, &state, &[]);
    symlink(&state, &other_name).unwrap();
    let place = first.folder.path().to_owned();
    let pid = first.daemon.id().to_string();
    for name in [&state, &other_name] {
        let why = refused(&place, name);
        assert!(why.contains(&format!("process {pid})")) && why.contains("--state"), "{why}");
    }
    // What the first acknowledges is what there is after it.
    first.done(&["circuit", "add", "alpha 0.100", "beta 0.100"]);
    kill(&mut first);
    first.daemon = daemon(&place, "s", &other_name, &[]);
    within(WAIT, "the service answers", || first.run(&["status"]).status.success());
    assert_eq!(first.done(&["circuit", "list"])[0]["name"], "alpha 0.100 - beta 0.100");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_wherever_one_is_expected() {
    let folder = place();
    let state = folder.path().join("state");
    type Make<'a> = &'a dyn Fn(&Path);
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let in_place: [(&str, Make<'_>); 4] = [
        ("FIFO", &fifo),
        ("folder", &|path| fs::create_dir(path).unwrap()),
        ("link", &|path| symlink("elsewhere", path).unwrap()),
        ("socket", &|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ];
    for name in ["state.json", "state.1.json", "audit.jsonl", "lock"] {
        for (what, make) in &in_place {
            fs::create_dir(&state).unwrap();
            make(&state.join(name));
            let why = refused(folder.path(), &state);
            assert!(why.contains(&format!("state/{name}")) || why.contains(&format!(": {name}")), "{what}: {why}");
            assert!(why.contains("remove it"), "{what} {name}: {why}");
            assert!(!state.join("elsewhere").exists());
            fs::remove_dir_all(&state).unwrap();
        }
    }
    fs::create_dir_all(state.join("state.new")).unwrap();
    assert!(refused(folder.path(), &state).contains("state.new"));
}

#[test]
fn a_daemon_that_waits_for_its_description_ends_at_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    mknodat(CWD, folder.path().join("net.toml"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let daemon = daemon(folder.path(), "s", &folder.path().join("state"), &[]);
    let status = fs::read_to_string;
    // Once the signal is caught, it is not the system that ends it.
    within(WAIT, "it hears signals", || {
        let status = status(format!("/proc/{}/status", daemon.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
    });
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(matches!(ended(daemon), Some(130)));
}

#[test]
fn a_folder_that_others_own_or_may_write_is_refused_and_so_is_a_file_of_others() {
    if !is_root() {
        return;
    }
    let folder = place();
    let (outer, precious) = (folder.path().join("outer"), folder.path().join("precious"));
    let state = outer.join("state");
    fs::write(&precious, "as it was").unwrap();
    let planted = || {
        let _ = fs::remove_dir_all(&outer);
        fs::create_dir_all(&state).unwrap();
        for name in ["state.new", "state.json", "audit.jsonl", "lock"] {
            symlink(&precious, state.join(name)).unwrap();
        }
    };
    for theirs in [&outer, &state] {
        planted();
        chown(theirs, Some(OTHER), None).unwrap();
        let why = refused(folder.path(), &state);
        assert!(why.contains(&format!("{} belongs to user {OTHER}", theirs.display())), "{why}");
        planted();
        fs::set_permissions(theirs, fs::Permissions::from_mode(0o777)).unwrap();
        let why = refused(folder.path(), &state);
        assert!(why.contains(&format!("others may write in {}", theirs.display())), "{why}");
    }
    assert_eq!(fs::read(&precious).unwrap(), b"as it was");
    for name in ["state.json", "state.1.json", "audit.jsonl", "lock"] {
        let _ = fs::remove_dir_all(&outer);
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join(name), "").unwrap();
        chown(state.join(name), Some(OTHER), None).unwrap();
        let why = refused(folder.path(), &state);
        assert!(why.contains(&format!("belongs to user {OTHER}")), "{name}: {why}");
    }
}

/// A user of this system other than root whose group nobody else has, with its number.
fn user_with_a_private_group() -> Option<(u32, u32)> {
    let read = |path| fs::read_to_string(path).unwrap();
    let numbers = |line: &str, from: usize| -> Vec<Option<u32>> {
        line.split(':').skip(from).take(2).map(|field| field.parse().ok()).collect()
    };
    let users: Vec<_> = read("/etc/passwd").lines().map(|line| numbers(line, 2)).collect();
    let groups = read("/etc/group");
    let is_alone = |group: u32| {
        users.iter().filter(|of| of.get(1) == Some(&Some(group))).count() == 1
            && groups.lines().filter(|line| numbers(line, 2).first() == Some(&Some(group))).all(|l| l.ends_with(':'))
            && groups.lines().any(|line| numbers(line, 2).first() == Some(&Some(group)))
    };
    users.iter().find_map(|of| match of[..] {
        [Some(user), Some(group)] if user != 0 && group != 0 && is_alone(group) => Some((user, group)),
        _ => None,
    })
}

#[test]
fn a_user_with_umask_002_has_folders_of_his_own_and_a_group_of_others_is_refused() {
    if !is_root() {
        return;
    }
    let Some((user, group)) = user_with_a_private_group() else {
        eprintln!("left out: no user of this system has a group of its own");
        return;
    };
    let folder = place();
    let place = folder.path().to_owned();
    let (program, home) = (place.join("cellway"), place.join("home"));
    fs::copy(env!("CARGO_BIN_EXE_cellway"), &program).unwrap();
    fs::create_dir(&home).unwrap();
    for path in [&place, &home] {
        chown(path, Some(user), Some(group)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o775)).unwrap();
    }
    let start = || {
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 002; mkdir -p \"$1\"; exec \"$0\" --socket \"$1/s\" up \"$2\" --state \"$1/state\""]);
        command.arg(&program).arg(home.join("run")).arg(place.join("net.toml")).uid(user).gid(group);
        command.stdin(Stdio::null()).stderr(fs::File::create(place.join("log")).unwrap()).spawn().unwrap()
    };
    let daemon = start();
    let mut net = Net { folder, daemon };
    within(WAIT, "the service answers", || {
        assert_eq!(net.daemon.try_wait().unwrap(), None, "{}", log(&place));
        let mut status = Command::new(&program);
        status.arg("--socket").arg(home.join("run/s")).arg("status").uid(user).gid(group);
        status.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    });
    assert_eq!(fs::metadata(home.join("run")).unwrap().permissions().mode() & 0o777, 0o775);
    kill(&mut net);
    // A group that this user is in, and others: not its own.
    chown(&home, None, Some(0)).unwrap();
    assert_eq!(ended(start()), Some(1), "{}", log(&place));
    let why = log(&place);
    assert!(why.contains(&format!("others may write in {}", home.display())) && why.contains("chmod g-w"), "{why}");
}

#[test]
fn an_adapters_socket_and_a_devices_file_are_in_folders_that_nobody_else_may_write() {
    let folder = place();
    let (open, state) = (folder.path().join("open"), folder.path().join("state"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let here = open.display();
    let descriptions = [
        format!("[adapter.eni0]\nhost = \"guest\"\nsocket = \"{here}/eni0\"\n[[link]]\nends = [\"guest\", \"s1:0\"]\n"),
        format!(
            "[desk.den]\nchips = 2\ndevices = {{ eye = {{ chip = 0, kind = \"store\", record = \"{here}/tape\" }} }}\n"
        ),
    ];
    for description in descriptions {
        fs::write(folder.path().join("net.toml"), format!("[switch.s1]\n{description}")).unwrap();
        let why = refused(folder.path(), &state);
        assert!(why.contains(&format!("others may write in {here}")), "{why}");
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }
}

#[test]
fn a_state_that_cannot_be_used_is_refused_until_it_is_set_aside_and_stays_then() {
    let mut folder = place();
    let state = folder.path().join("state");
    let file = |name: &str| state.join(name);
    let damaged = [(file("state.json"), "damaged"), (file("state.1.json"), "so is this")];
    let newer = [(file("state.json"), "cellway-state 3 1 x\n"), (file("state.1.json"), "and before")];
    for (round, (files, why)) in [(&damaged, "torn"), (&newer, "version 3")].into_iter().enumerate() {
        fs::create_dir_all(&state).unwrap();
        files.iter().for_each(|(path, text)| fs::write(path, text).unwrap());
        for _ in 0..3 {
            let said = refused(folder.path(), &state);
            let names = said.contains(&*files[0].0.to_string_lossy());
            assert!(names && said.contains(why) && said.contains("--state-reset"), "{said}");
        }
        let mut net = up(folder, &state, &["--state-reset"]);
        for vci in 100..105 {
            net.done(&["circuit", "add", &format!("alpha 0.{vci}"), &format!("beta 0.{vci}")]);
        }
        for (path, text) in files {
            let aside = PathBuf::from(format!("{}.set-aside-{}", path.display(), round + 1));
            assert_eq!(fs::read_to_string(aside).unwrap(), *text);
        }
        // What is kept now is what a restart has.
        kill(&mut net);
        folder = std::mem::replace(&mut net.folder, tempfile::tempdir().unwrap());
        let mut again = up(folder, &state, &[]);
        assert_eq!(again.done(&["circuit", "list"]).as_array().map(Vec::len), Some(5));
        kill(&mut again);
        folder = std::mem::replace(&mut again.folder, tempfile::tempdir().unwrap());
    }
}

/// How many links and circuits there are.
fn there(net: &Net) -> [usize; 2] {
    ["link", "circuit"].map(|what| net.done(&[what, "list"]).as_array().unwrap().len())
}

#[test]
fn a_description_that_is_empty_or_has_none_of_the_stations_is_refused_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let circuit = |vci: u16| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n");
    let full = format!("{NETWORK}{}", circuit(100));
    let file = folder.path().join("net.toml");
    fs::write(&file, &full).unwrap();
    let state = folder.path().join("state");
    let net = up(folder, &state, &[]);
    let is_there = || assert_eq!(there(&net), [1, 1]);
    let name = file.to_str().unwrap();
    let refusals = || log(net.folder.path()).matches("not applied").count();
    let empty = [
        "",
        "\n  \n",
        "# nothing\n\n# at all",
        "[engine]\n",
        "[[allow]]\nusers = [0]\nrole = \"watch\"\n",
        "[host.gamma]\n",
    ];
    for (n, text) in empty.into_iter().enumerate() {
        // As an editor does that empties the file and then writes it.
        net.apply(text);
        within(WAIT, "the signal is answered", || refusals() == n + 1);
        is_there();
        for command in [&["apply", name, "--dry-run"][..], &["apply", name]] {
            let output = net.run(command);
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{text:?}: {why}");
            assert!(why.contains("--allow-empty") && why.contains("net.toml"), "{text:?}: {why}");
            is_there();
        }
    }
    // Once the editor has written it, the same signal applies it.
    net.apply(&format!("{full}{}", circuit(101)));
    within(WAIT, "the new circuit is there", || there(&net) == [1, 2]);
    // Who asks for it gets it.
    fs::write(&file, "").unwrap();
    let shown = net.run(&["apply", name, "--dry-run", "--allow-empty"]);
    assert_eq!(shown.status.code(), Some(4));
    let done: Value = net.done(&["apply", name, "--allow-empty"]);
    assert!(done["removed"].as_u64().unwrap() > 3, "{done}");
    assert_eq!(there(&net), [0, 0]);
}

#[test]
fn a_daemon_starts_with_an_empty_description_which_is_filled_later() {
    let net = Net::up(WAIT, "# Nothing yet.\n");
    net.apply(NETWORK);
    within(WAIT, "the link is there", || there(&net) == [1, 0]);
}
