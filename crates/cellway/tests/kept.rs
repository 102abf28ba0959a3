//! Files that are there already: a socket replaces none, and a command that is refused, or that nothing comes to, leaves its output
//! file as it is.

use crate::up::{Net, within};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s1]\n[[link]]\nends = [\"alpha\", \"s1:0\"]\n\
                       [[link]]\nends = [\"beta\", \"s1:1\"]\n\
                       [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";

fn cellway(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(socket).args(arguments).stdin(Stdio::null());
    command
}

fn refused(output: &Output, says: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(says), "{}: {said}", output.status);
}

/// A file that is somebody's, a link to it, a link to nothing, a FIFO and a folder.
fn others(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let at = |name: &str| folder.join(name);
    std::fs::write(at("notes"), "the only copy").unwrap();
    std::os::unix::fs::symlink(at("notes"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("nothing"), at("loose")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    std::fs::create_dir(at("folder")).unwrap();
    let said = ["a file", "a symbolic link", "a symbolic link", "a FIFO", "a folder"];
    ["notes", "link", "loose", "fifo", "folder"].map(at).into_iter().zip(said).collect()
}

fn kind(path: &Path) -> (std::fs::FileType, Option<Vec<u8>>) {
    let kind = std::fs::symlink_metadata(path).unwrap().file_type();
    (kind, kind.is_file().then(|| std::fs::read(path).unwrap()))
}

#[test]
fn a_service_puts_its_socket_over_nothing_but_a_socket_that_nobody_listens_at() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.toml");
    std::fs::write(&file, NETWORK).unwrap();
    let up = ["up", file.to_str().unwrap()];
    for (path, what) in others(folder.path()) {
        let before = kind(&path);
        let output = cellway(&path, &up).output().unwrap();
        refused(&output, &format!("{} is {what} and no socket", path.display()));
        assert!(kind(&path) == before, "{what}");
    }
    let stale = folder.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let mut daemon = cellway(&stale, &up).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within(WAIT, "the service answers", || cellway(&stale, &["status"]).output().unwrap().status.success());
    // What has taken the socket's place since is not the service's to remove.
    std::fs::remove_file(&stale).unwrap();
    std::fs::write(&stale, "the only copy").unwrap();
    assert!(Command::new("kill").arg(daemon.id().to_string()).status().unwrap().success());
    daemon.wait().unwrap();
    assert_eq!(std::fs::read(&stale).unwrap(), b"the only copy");
}

#[test]
fn an_adapter_puts_its_socket_over_nothing_but_a_socket_at_a_start_and_at_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.toml");
    let with_adapter = |socket: &Path| {
        let socket = socket.display();
        format!(
            "[adapter.g]\nhost = \"guest\"\nsocket = \"{socket}\"\n{NETWORK}[[link]]\nends = [\"guest\", \"s1:2\"]\n"
        )
    };
    let net = Net::up(WAIT, NETWORK);
    for (path, what) in others(folder.path()) {
        let before = kind(&path);
        std::fs::write(&file, with_adapter(&path)).unwrap();
        let says = format!("{} is {what} and no socket", path.display());
        let file = file.to_str().unwrap();
        refused(&cellway(&folder.path().join("s"), &["up", file]).output().unwrap(), &says);
        refused(&net.run(&["apply", file]), &says);
        assert!(kind(&path) == before, "{what}");
    }
    let stale = folder.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    std::fs::write(&file, with_adapter(&stale)).unwrap();
    net.done(&["apply", file.to_str().unwrap()]);
    assert_eq!(net.done(&["status"])["adapters"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_that_is_refused_or_that_nothing_comes_to_leaves_its_output_file_as_it_is() {
    let net = Net::up(WAIT, NETWORK);
    let (socket, nowhere) = (net.folder.path().join("s"), net.folder.path().join("none"));
    let file = net.folder.path().join("yesterday");
    std::fs::write(&file, "yesterday's").unwrap();
    let out = file.to_str().unwrap();
    let commands: &[(&Path, &[&str])] = &[
        (&socket, &["capture", "alpha:0 - s1:7", out]),
        (&nowhere, &["capture", "alpha:0 - s1:0", out]),
        (&socket, &["capture", "alpha:0 - s1:7", out, "--format", "atmtcp"]),
        (&socket, &["receive", "beta", "9.99", out]),
        (&nowhere, &["receive", "beta", "0.100", out]),
        (&socket, &["receive", "beta", "0.100", out, "--timeout", "0"]),
        (&socket, &["receive", "beta", "0.100", out, "--timeout", "0", "--reliable"]),
        (&nowhere, &["ip", "receive", "beta", "0.100", out, "--address", "10.0.0.1/24"]),
        (&socket, &["ip", "receive", "beta", "9.99", out, "--address", "10.0.0.1/24"]),
        (&socket, &["relay", "write", out, "listen", "192.0.2.1:1"]),
    ];
    for (socket, words) in commands {
        let output = cellway(socket, words).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"yesterday's", "{words:?}: {output:?}");
    }
    // What is received takes its place, and a stream without an octet leaves an empty file.
    for sent in ["today", ""] {
        let from = net.folder.path().join("from");
        std::fs::write(&from, sent).unwrap();
        let mut receive = cellway(&socket, &["receive", "beta", "0.100", out, "--reliable"]);
        let mut receiving = receive.stdout(Stdio::null()).spawn().unwrap();
        net.done(&["send", "alpha", "0.100", from.to_str().unwrap(), "--reliable"]);
        assert!(receiving.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), sent);
    }
}
