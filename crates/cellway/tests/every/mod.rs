//! Every command, from clap's own list: without a service, with one that goes in the middle or is stopped, with a reader
//! that has gone, on a full disk, in order, failing, and used wrongly. Exit status and JSON are as docs/promises.md says.

mod driver;
mod table;

use crate::schema::validate;
use crate::up::{Net, within};
use driver::{Ended, Reader, Running, drive};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use table::{BAD_VALUES, End, FILES_ON_A_FULL_DISK, ROWS, Row};

const WAIT: Duration = Duration::from_secs(90);
const FAILED: &str = "(a command fails, on standard error)";
/// Where nobody has an address yet.
const NOBODY: &str = "4700000000000000000000000000000000000000";

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.delta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31", labels = "1.100-199" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni31", labels = "1.100-199" }
[[link]]
ends = ["delta", "s1:2"]
"#;

fn network() -> String {
    let circuit = |vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n");
    let circuits: String = (100..110).map(circuit).collect();
    format!("{NETWORK}{circuits}{}", include_str!("../../../../examples/myrinet.toml"))
}

/// Where commands run: a service's socket, and files.
pub struct Place {
    pub dir: PathBuf,
    pub net: PathBuf,
    pub socket: PathBuf,
    pub beta: String,
}

impl Place {
    fn new(dir: &Path, socket: PathBuf, beta: String) -> Place {
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        write("net.toml", &network());
        write("bad.toml", "[host.alpha]\n[[link]]\nends = [\"alpha\", \"bta\"]\n");
        write("hosts.atm", "47.000580ffde00000000000001.020000000001.00 server\n");
        write(
            "guest.toml",
            "[adapter.card]\nhost = \"guest\"\nsocket = \"card.sock\"\n[host.a]\n[[link]]\nends = [\"guest\", \"a\"]\n",
        );
        write("data", &"what is sent\n".repeat(100));
        write("recording", "");
        Place { dir: dir.to_path_buf(), net: dir.join("net.toml"), socket, beta }
    }

    /// Without a service.
    fn empty(dir: &Path) -> Place {
        Place::new(dir, dir.join("none.sock"), NOBODY.to_owned())
    }

    /// In a network whose hosts have addresses and whose Myrinet has a map.
    fn of(net: &Net) -> Place {
        let beta = || {
            let hosts = net.done(&["address"]);
            let beta = hosts.as_array()?.iter().find(|host| host["host"] == "beta")?;
            Some(beta["addresses"][0].as_str()?.to_owned())
        };
        within(WAIT, "beta has an address", || beta().is_some());
        within(WAIT, "a map is drawn", || net.done(&["myrinet", "monitor"])["map_agrees"] == true);
        Place::new(net.folder.path(), net.folder.path().join("s"), beta().unwrap())
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let [dir, net] = [&self.dir, &self.net].map(|path| path.to_str().unwrap());
        words.iter().map(|w| w.replace("{dir}", dir).replace("{net}", net).replace("{beta}", &self.beta)).collect()
    }

    fn command(&self, command: &str, words: &[&str]) -> Vec<String> {
        self.words(&command.split(' ').chain(words.iter().copied()).collect::<Vec<_>>())
    }

    /// Channels that applications have open.
    fn open_channels(&self) -> u64 {
        let ended = Running::start(self, &self.words(&["status"]), Reader::Patient).end("status");
        let status: Value = serde_json::from_str(&ended.out).unwrap();
        status["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["channels"].as_u64().unwrap()).sum()
    }
}

/// The schemas of all commands.
struct Schemas(Value);

impl Schemas {
    fn new() -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_cellway")).arg("schema").output().unwrap();
        Schemas(serde_json::from_slice::<Value>(&output.stdout).unwrap()["commands"].clone())
    }

    fn hold(&self, of: &str, line: &str, what: &dyn std::fmt::Debug) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{what:?}: {e}: {line}"));
        let schema = self.0.get(of).unwrap_or_else(|| panic!("no schema of {of}"));
        let wrong = validate::wrong(schema, &value);
        assert!(wrong.is_empty(), "{what:?}: {wrong:#?}\n{line}");
    }

    /// Ended with this status, and said why in the one form that there is.
    fn failed(&self, ended: &Ended, status: i32, what: &dyn std::fmt::Debug) {
        let Ended { err, out, .. } = ended;
        assert_eq!(ended.status.code(), Some(status), "{what:?}: {err}{out}");
        let last = err.lines().last().unwrap_or_else(|| panic!("{what:?} says nothing"));
        self.hold(FAILED, last, what);
        let value: Value = serde_json::from_str(last).unwrap();
        assert_eq!(value["exit_status"], status, "{what:?}: {last}");
    }
}

fn up() -> Net {
    Net::up(WAIT, &network())
}

fn asking() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| row.asks)
}

#[test]
fn every_command_is_in_the_table() {
    let listed: Vec<&str> = ROWS.iter().map(|row| row.command).collect();
    let commands = cellway::schema::leaves(&cellway::command());
    for command in &commands {
        assert!(listed.contains(&command.as_str()), "{command} has no row in tests/every/table.rs");
    }
    assert_eq!(listed.len(), commands.len(), "a row twice, or one of a command that has gone");
    let without = ROWS.iter().filter(|row| matches!(row.end, End::Elsewhere(_))).count();
    assert!(without <= 9, "{without} commands are not run");
}

#[test]
fn without_a_service_each_command_that_asks_one_says_so() {
    let (folder, schemas) = (tempfile::tempdir().unwrap(), Schemas::new());
    let place = Place::empty(folder.path());
    for row in asking() {
        let words = place.command(row.command, row.words);
        let ended = Running::start(&place, &words, Reader::Patient).end(row.command);
        schemas.failed(&ended, 3, &words);
        assert!(ended.err.contains("none.sock") && ended.out.is_empty(), "{words:?}: {}", ended.err);
    }
}

#[test]
fn commands_in_order_succeed_and_print_what_their_schemas_say() {
    let (net, schemas) = (up(), Schemas::new());
    let place = Place::of(&net);
    let mut run = 0;
    for row in ROWS {
        let Some(ended) = drive(&place, row, Reader::Patient) else { continue };
        assert!(ended.status.success(), "{}: {}{}", row.command, ended.err, ended.out);
        if !row.is_text {
            let lines: Vec<&str> = ended.out.lines().collect();
            assert!(!lines.is_empty(), "{} prints nothing", row.command);
            lines.iter().for_each(|line| schemas.hold(row.command, line, &row.command));
        }
        run += 1;
    }
    assert!(run > 40, "{run}");
}

#[test]
fn a_reader_that_has_gone_ends_commands_quietly() {
    let net = up();
    let place = Place::of(&net);
    for row in ROWS {
        let Some(ended) = drive(&place, row, Reader::Gone) else { continue };
        let complains = ended.err.lines().any(|line| line.contains("\"exit_status\""));
        assert!(ended.status.success() && !complains, "{}: {}, {}", row.command, ended.status, ended.err);
    }
}

#[test]
fn a_full_disk_under_the_output_is_a_failure_that_is_told() {
    let (net, schemas) = (up(), Schemas::new());
    let place = Place::of(&net);
    for row in FILES_ON_A_FULL_DISK {
        schemas.failed(&drive(&place, row, Reader::Patient).unwrap(), 1, &row.words);
    }
    for row in ROWS {
        let Some(ended) = drive(&place, row, Reader::Full) else { continue };
        schemas.failed(&ended, 1, &row.command);
        assert!(ended.err.contains("No space left"), "{}: {}", row.command, ended.err);
    }
}

#[test]
fn failures_and_wrong_usage_are_json_and_have_their_status() {
    let (net, schemas) = (up(), Schemas::new());
    let place = Place::of(&net);
    let run = |words: &[String]| Running::start(&place, words, Reader::Patient).end(&words.join(" "));
    for row in ROWS {
        if let Ok(words) = row.fails {
            let words = place.command(row.command, words);
            schemas.failed(&run(&words), 1, &words);
        }
        // These take every word for one of another program's.
        if !["bench", "lab"].contains(&row.command) {
            let words = place.command(row.command, &["--no-such-option"]);
            schemas.failed(&run(&words), 2, &words);
        }
    }
    for words in BAD_VALUES {
        let words = place.words(words);
        schemas.failed(&run(&words), 2, &words);
    }
}

#[test]
fn a_service_that_is_stopped_leaves_no_command_without_an_end() {
    let (mut net, schemas) = (up(), Schemas::new());
    let place = Place::of(&net);
    let signal = |net: &Net, signal: &str| {
        let id = net.daemon.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    };
    signal(&net, "-STOP");
    // Its limit passes.
    let start = |row: &Row, wait: &str| {
        let words = [place.words(&["--wait", wait]), place.command(row.command, row.words)].concat();
        Running::start(&place, &words, Reader::Patient)
    };
    let all: Vec<(&Row, Running)> = asking().map(|row| (row, start(row, "0.5"))).collect();
    for (row, running) in all {
        let ended = running.end(row.command);
        schemas.failed(&ended, 3, &row.command);
        assert!(ended.err.contains("does not answer"), "{}: {}", row.command, ended.err);
    }
    // The first signal ends it, whatever its limit.
    let all: Vec<(&Row, Running)> = asking().map(|row| (row, start(row, "100000"))).collect();
    for (row, running) in &all {
        within(WAIT, &format!("{} asks", row.command), || running.has_socket());
        running.signal("-TERM");
    }
    for (row, running) in all {
        let ended = running.end(row.command);
        assert!(!ended.status.success(), "{}: {}", row.command, ended.err);
    }
    // The service is killed while they wait for it.
    let all: Vec<(&Row, Running)> = asking().map(|row| (row, start(row, "100000"))).collect();
    for (row, running) in &all {
        within(WAIT, &format!("{} asks", row.command), || running.has_socket());
    }
    net.daemon.kill().unwrap();
    net.daemon.wait().unwrap();
    for (row, running) in all {
        schemas.failed(&running.end(row.command), 3, &row.command);
    }
}

#[test]
fn commands_own_limits_hold_while_the_service_is_stopped() {
    let net = up();
    let place = Place::of(&net);
    let id = net.daemon.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    for words in [
        &["ping", "alpha", "0.100", "-W", "300"][..],
        &["trace", "alpha", "0.100", "-W", "300ms"],
        &["receive", "beta", "0.100", "{dir}/none", "--timeout", "0.3"],
        &["call", "alpha", "{beta}", "--timeout", "0.3"],
    ] {
        // Without its own limit this would take longer than the test waits.
        let words = [place.words(&["--wait", "100000"]), place.words(words)].concat();
        let ended = Running::start(&place, &words, Reader::Patient).end(&words.join(" "));
        assert_eq!(ended.status.code(), Some(3), "{words:?}: {}", ended.err);
    }
}
