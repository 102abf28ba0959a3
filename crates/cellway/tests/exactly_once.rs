//! Changes by command: made once though a connection breaks, on the revision that is expected, and on trial; and what a
//! person is told of a state that is not kept.

use crate::up::{Net, within};
use endpoint::seqpacket::Packets;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(90);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";

fn with_circuit(vci: u16) -> String {
    format!("{NETWORK}[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n")
}

/// A daemon with a state folder, which goes on where a file may not grow.
fn daemon(place: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cellway"), "--socket"]);
    command.arg(place.join("s")).arg("up").arg(place.join("net.toml")).arg("--state").arg(place.join("state"));
    command.stdin(Stdio::null()).stderr(fs::File::create(place.join("log")).unwrap()).spawn().unwrap()
}

fn up(description: &str) -> Net {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("net.toml"), description).unwrap();
    let daemon = daemon(folder.path());
    let net = Net { folder, daemon };
    answers(&net);
    net
}

fn answers(net: &Net) {
    within(WAIT, "the service answers", || net.run(&["status"]).status.success());
}

fn kill(net: &mut Net) {
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
}

fn restart(net: &mut Net) {
    kill(net);
    net.daemon = daemon(net.folder.path());
    answers(net);
}

fn circuits(net: &Net) -> Vec<String> {
    let list = net.done(&["circuit", "list"]);
    list.as_array().unwrap().iter().map(|circuit| circuit["name"].as_str().unwrap().to_owned()).collect()
}

fn name(vci: u16) -> String {
    format!("alpha 0.{vci} - beta 0.{vci}")
}

fn log(net: &Net) -> String {
    fs::read_to_string(net.folder.path().join("log")).unwrap()
}

/// A service that takes requests and, of each connection, does as `acts` says with the request: an answer, or none and
/// the connection's end. Gives the requests.
fn service(socket: &Path, acts: Vec<Option<Value>>) -> std::thread::JoinHandle<Vec<Value>> {
    let listener = Packets::listen(socket).unwrap();
    std::thread::spawn(move || {
        let serve = |answer: Option<Value>| {
            let client = next(|| Packets::accept(&listener).unwrap());
            let hello = next(|| client.receive::<Value>().unwrap()).0;
            let features = &hello["hello"]["features"];
            client.send(&json!({ "welcome": { "version": 2, "features": features } }), &[]).unwrap();
            let request = next(|| client.receive::<Value>().unwrap()).0;
            if let Some(answer) = answer {
                client.send(&json!({ "managed": { "text": answer.to_string(), "last": true } }), &[]).unwrap();
            }
            request["manage"].clone()
        };
        acts.into_iter().map(serve).collect()
    })
}

fn next<T>(mut take: impl FnMut() -> Option<T>) -> T {
    let mut taken = None;
    within(WAIT, "the client comes", || {
        taken = take();
        taken.is_some()
    });
    taken.unwrap()
}

fn add(socket: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(socket).args(["circuit", "add", "alpha 0.200", "beta 0.200"]);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_command_whose_connection_breaks_asks_again_under_the_same_id_and_says_whether_its_change_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let service_thread = service(&socket, vec![None, Some(json!({ "done": true }))]);
    let added = add(&socket);
    let requests = service_thread.join().unwrap();
    assert_eq!(requests[0], requests[1]);
    assert!(requests[0]["id"].as_str().is_some_and(|id| id.len() == 32), "{requests:?}");
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(added.status.success() && said.contains("the change is in force"), "{said}");
    // Nobody answers any more: it may be in force, and the command says so.
    fs::remove_file(&socket).unwrap();
    let service_thread = service(&socket, vec![None, None]);
    let added = add(&socket);
    service_thread.join().unwrap();
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert_eq!(added.status.code(), Some(3), "{said}");
    assert!(said.contains("it is not known whether the change is in force"), "{said}");
}

#[test]
fn a_change_on_another_revision_than_the_expected_one_ends_with_status_5_and_says_what_has_changed() {
    let net = up(NETWORK);
    let known = net.done(&["export"])["revision"].to_string();
    net.done(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    let file = net.folder.path().join("net.toml");
    fs::write(&file, with_circuit(100)).unwrap();
    let file = file.to_str().unwrap();
    for words in [&["apply", file, "--expect", &known][..], &["reset", "--expect", &known]] {
        let refused = net.run(words);
        assert_eq!(refused.status.code(), Some(5), "{words:?}");
        let said: Value = serde_json::from_slice(&refused.stderr).unwrap();
        assert_eq!(said["exit_status"], 5);
        assert_eq!(said["wrong_revision"]["expected_revision"].to_string(), known, "{said}");
        let text = said["error"].as_str().unwrap();
        assert!(text.contains("add") && text.contains("+ circuit alpha 0.200 - beta 0.200"), "{text}");
        assert_eq!(circuits(&net), [name(200)], "{words:?}: nothing was done");
    }
    let current = net.done(&["export"])["revision"].to_string();
    net.done(&["apply", file, "--expect", &current]);
    assert_eq!(circuits(&net).len(), 2);
}

#[test]
fn an_apply_on_trial_is_undone_unless_it_is_confirmed_also_by_a_daemon_that_was_killed_meanwhile() {
    let mut net = up(NETWORK);
    let file = net.folder.path().join("net.toml");
    fs::write(&file, with_circuit(100)).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(net.done(&["apply", path, "--confirm", "1s"])["confirm_seconds"], 1);
    within(WAIT, "it is undone", || circuits(&net).is_empty());
    assert!(log(&net).contains("nobody has confirmed"), "{}", log(&net));
    assert_eq!(net.run(&["confirm"]).status.code(), Some(1));

    net.done(&["apply", path, "--confirm", "60min"]);
    assert_eq!(circuits(&net), [name(100)]);
    restart(&mut net);
    assert!(circuits(&net).is_empty(), "nobody has confirmed it");
    assert!(log(&net).contains("starting with the description before it"), "{}", log(&net));

    net.done(&["apply", path, "--confirm", "60min"]);
    assert_eq!(net.done(&["confirm"])["confirmed"], true);
    restart(&mut net);
    assert_eq!(circuits(&net), [name(100)]);
}

#[test]
fn a_state_that_is_not_kept_is_told_by_the_command_the_log_status_and_doctor_until_it_is_kept() {
    let mut net = up(NETWORK);
    let limit = |net: &Net, octets: Option<u64>| {
        let limits = Rlimit { current: octets, maximum: None };
        prlimit(Some(Pid::from_child(&net.daemon)), Resource::Fsize, limits).unwrap();
    };
    let doctor = |net: &Net| {
        let checks = net.done(&["doctor"])["checks"].clone();
        let kept = checks.as_array().unwrap().iter().find(|check| check["check"] == "changes are kept for a restart");
        kept.unwrap()["ok"].as_bool().unwrap()
    };
    let told = |net: &Net| net.done(&["status"])["state"]["not_kept"].as_str().map(str::to_owned);
    assert!(doctor(&net) && told(&net).is_none());
    // No file may have more than one octet: as on a full disk.
    limit(&net, Some(1));
    let added = net.run(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(added.status.success() && said.contains("in force, but not kept yet"), "{said}");
    assert!(told(&net).unwrap().contains("File too large"));
    assert!(!doctor(&net));
    let words = ["--socket", net.folder.path().join("s").to_str().unwrap(), "status"].map(str::to_owned);
    let text = Command::new(env!("CARGO_BIN_EXE_cellway")).args(words).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&text).contains("state: changes are in force, but not kept"));
    limit(&net, None);
    within(WAIT, "it is kept", || told(&net).is_none());
    assert!(doctor(&net));
    restart(&mut net);
    assert_eq!(circuits(&net), [name(200)]);
}

#[test]
fn the_log_of_changes_goes_on_in_a_new_file_after_it_was_moved_away_and_the_daemon_told() {
    let net = up(NETWORK);
    net.done(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    let state = net.folder.path().join("state");
    fs::rename(state.join("audit.jsonl"), state.join("audit.jsonl.1")).unwrap();
    kill_process(Pid::from_child(&net.daemon), Signal::HUP).unwrap();
    within(WAIT, "the new file is there", || state.join("audit.jsonl").exists());
    net.done(&["circuit", "add", "alpha 0.201", "beta 0.201"]);
    let read = |name: &str| fs::read_to_string(state.join(name)).unwrap();
    assert!(read("audit.jsonl.1").contains("alpha 0.200") && !read("audit.jsonl.1").contains("alpha 0.201"));
    assert!(read("audit.jsonl").contains("alpha 0.201"));
}
