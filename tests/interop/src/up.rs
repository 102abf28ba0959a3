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
        Self::with(description, &[])
    }

    /// The same with further words of `cellway up`.
    pub fn with(description: &str, words: &[&str]) -> Self {
        let program = program::cellway().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), description).unwrap();
        let mut command = Command::new(&program);
        command
            .env("CELLWAY_SOCKET", folder.path().join("socket"))
            .arg("up")
            .arg(folder.path().join("net.toml"))
            .args(words);
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

    /// Of each endpoint that the service has, how many circuits it has open.
    fn endpoints(&self) -> Vec<u64> {
        let status: Value = serde_json::from_slice(&self.run("status --json").stdout).unwrap();
        status["endpoints"].as_array().unwrap().iter().map(|of| of["channels"].as_u64().unwrap()).collect()
    }

    /// Waits until there are so many endpoints and each has opened a circuit: what comes there from now on reaches it.
    pub fn wait_for_endpoints(&self, n: usize, within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            let channels = self.endpoints();
            if channels.len() == n && !channels.contains(&0) {
                return;
            }
            assert!(Instant::now() < deadline, "endpoints with {channels:?} circuits, {n} with one expected");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
