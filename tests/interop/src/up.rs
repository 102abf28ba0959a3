//! A network that `cellway up` has brought up, as a process of its own.

use crate::peer::Peer;
use crate::program;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

/// `cellway up`, and a folder for what a test leaves.
pub struct Up {
    program: PathBuf,
    folder: tempfile::TempDir,
    daemon: Peer,
}

impl Up {
    /// Brings up the network of a description.
    pub fn new(description: &str) -> Self {
        let program = program::cellway().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), description).unwrap();
        let mut command = Command::new(&program);
        command.env("CELLWAY_SOCKET", folder.path().join("socket")).arg("up").arg(folder.path().join("net.toml"));
        let mut daemon = Peer::start(&mut command).unwrap();
        daemon.wait_for("up: ", WAIT).unwrap();
        Up { program, folder, daemon }
    }

    /// The daemon's process.
    pub fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// Ends the daemon as `kill -9` does.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Lets the daemon read its description again: `net.toml` in the folder.
    pub fn hang_up(&self) {
        let id = self.daemon.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Waits for a line of the daemon's log.
    pub fn wait_for(&mut self, what: &str) -> String {
        self.daemon.wait_for(what, WAIT).unwrap()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command line of `cellway`; its words have no blanks.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("CELLWAY_SOCKET", self.path("socket")).args(line.split(' ')).current_dir(self.folder.path());
        command
    }

    /// Starts one.
    pub fn start_command(&self, line: &str) -> Peer {
        Peer::start(&mut self.command(line)).unwrap()
    }

    /// Runs one to its end.
    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// How many endpoints the service has.
    pub fn endpoints(&self) -> usize {
        let output = self.run("status --json");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["endpoints"].as_array().unwrap().len()
    }

    /// Waits until the only endpoint is one that has opened a circuit: what comes there from now on reaches it.
    pub fn wait_for_channel(&self, within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            let status: Value = serde_json::from_slice(&self.run("status --json").stdout).unwrap();
            if matches!(&status["endpoints"].as_array().unwrap()[..], [only] if only["channels"] == 1) {
                return;
            }
            assert!(Instant::now() < deadline, "no circuit is open: {}", status["endpoints"]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has so many.
    pub fn wait_for_endpoints(&self, n: usize, within: Duration) {
        let deadline = Instant::now() + within;
        while self.endpoints() != n {
            assert!(Instant::now() < deadline, "{} endpoints, {n} expected", self.endpoints());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
