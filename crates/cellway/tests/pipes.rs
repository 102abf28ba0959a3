//! A reader that has gone, as `head` does: each command ends then, quietly and well, and one of which only the diagnostics have no
//! reader does its work.

use crate::up::{Net, within};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
                       [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";

fn cellway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.args(arguments).env_remove("CELLWAY_SOCKET").stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn ends_quietly(what: &[&str], output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{what:?}: {}, {said}", output.status);
}

/// The commands below one, as its help lists them.
fn below(path: &[&str]) -> Vec<String> {
    let help = cellway(path).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn all(path: &[&str], found: &mut Vec<Vec<String>>) {
    found.push(path.iter().map(|word| (*word).to_owned()).collect());
    for name in below(path) {
        all(&[path, &[name.as_str()]].concat(), found);
    }
}

#[test]
fn the_help_of_every_command_ends_quietly_where_nobody_reads_it() {
    let mut commands = Vec::new();
    all(&[], &mut commands);
    assert!(commands.len() > 60 && commands.contains(&vec!["ip".to_owned(), "tun".into()]), "{commands:?}");
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        ends_quietly(&words, &cellway(&words).stdout(closed()).output().unwrap());
    }
}

#[test]
fn what_commands_print_ends_them_quietly_where_nobody_reads_it() {
    let net = Net::up(WAIT, NETWORK);
    let socket = net.folder.path().join("s");
    let file = net.folder.path().join("net.toml");
    let file = file.to_str().unwrap();
    let recording = net.folder.path().join("recording");
    std::fs::write(&recording, "").unwrap();
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| vec!["completions", shell]);
    let others: &[&[&str]] = &[
        &["man"],
        &["schema"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show", file],
        &["config", "check", file],
        &["apply", file],
        &["status"],
        &["status", "--json"],
        &["status", "--watch"],
        &["circuit", "list"],
        &["link", "list", "--json"],
        &["call", "list"],
        &["address"],
        &["ping", "alpha", "0.100", "--count", "1000000"],
        &["ping", "alpha", "0.100", "--count", "1", "--json"],
        &["trace", "alpha", "0.100"],
        &["replay", recording.to_str().unwrap()],
        &["capture", "alpha - beta", "-", "--seconds", "0.1", "--json"],
        &["ip", "serve", "alpha", "0.100", "--address", "10.0.0.1/24"],
    ];
    for words in shells.iter().map(Vec::as_slice).chain(others.iter().copied()) {
        let output = cellway(words).arg("--socket").arg(&socket).stdout(closed()).output().unwrap();
        // A capture says that it has begun.
        let announced = output.stderr.starts_with(b"{\"capturing\"");
        ends_quietly(words, &Output { stderr: if announced { Vec::new() } else { output.stderr }, ..output });
    }
}

#[test]
fn what_is_received_ends_its_receiver_quietly_where_nobody_reads_it() {
    let net = Net::up(WAIT, NETWORK);
    let socket = net.folder.path().join("s");
    for how in [&[][..], &["--reliable"]] {
        let receive = [&["receive", "beta", "0.100"], how].concat();
        let mut receiving = cellway(&receive).arg("--socket").arg(&socket).stdout(closed()).spawn().unwrap();
        let send = || {
            let mut command = cellway(&["send", "alpha", "0.100", "/proc/self/status"]);
            command.args(how).arg("--socket").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        // What comes before the receiver is there is lost; a reliable sender waits for the one that has gone.
        let mut sending = send();
        within(WAIT, "the receiver has ended", || {
            if sending.try_wait().unwrap().is_some() {
                sending = send();
            }
            receiving.try_wait().unwrap().is_some()
        });
        let output = receiving.wait_with_output().unwrap();
        assert_eq!(output.stderr, b"cellway: ready at beta 0.100\n");
        ends_quietly(&receive, &Output { stderr: Vec::new(), ..output });
        let _ = sending.kill();
        sending.wait().unwrap();
        within(WAIT, "both have gone", || net.done(&["status"])["endpoints"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_command_whose_diagnostics_nobody_reads_does_its_work_and_says_by_its_status_what_came_of_it() {
    let net = Net::up(WAIT, NETWORK);
    let (socket, nowhere) = (net.folder.path().join("s"), net.folder.path().join("none"));
    let file = net.folder.path().join("capture");
    let capture = ["capture", "alpha - beta", file.to_str().unwrap(), "--seconds", "0.1"];
    let status = |words: &[&str], socket| {
        let mut command = cellway(words);
        command.arg("--socket").arg(socket).stdout(Stdio::null()).stderr(closed()).status().unwrap().code()
    };
    assert_eq!(status(&["status"], &nowhere), Some(3));
    assert_eq!(status(&["status", "--json"], &nowhere), Some(3));
    assert_eq!(status(&["ping", "gamma", "0.100"], &socket), Some(1));
    assert_eq!(status(&["no-such-command"], &socket), Some(2));
    assert_eq!(status(&capture, &socket), Some(0));
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
}
