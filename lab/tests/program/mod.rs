//! The program `cellway-lab` as its users run it, and a network for it in this process.

mod bench;
mod experiments;
mod pipes;
mod reference;
mod simulate;
mod ttcp;

use cellway::client;
use cellway::context::Context;
use control::daemon::Daemon;
use control::protocol::Request;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway-lab"));
    command.args(arguments).env_remove("CELLWAY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for something for as long as `patience`.
fn within(patience: Duration, what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !f() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Net {
    folder: tempfile::TempDir,
    _daemon: Daemon,
}

impl Net {
    fn up(description: &str) -> Net {
        let folder = tempfile::tempdir().unwrap();
        let config = control::config::parse(description, "the test's network").unwrap();
        let _daemon = Daemon::start(config, &folder.path().join("s")).unwrap();
        Net { folder, _daemon }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// The endpoints that `cellway status` shows.
    fn endpoints(&self) -> Vec<Value> {
        let context = Context { socket: self.socket(), json: true };
        let status: Value = client::ask_for(&context, &Request::Status).unwrap();
        status["endpoints"].as_array().cloned().unwrap_or_default()
    }

    /// A command, with its results as JSON.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(&[]);
        command.arg("--socket").arg(self.socket()).arg("--json").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The results of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
