//! A network that `cellway up` brings up for a test, and commands to it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Net {
    pub folder: tempfile::TempDir,
    pub daemon: Child,
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Waits for something for as long as `patience`.
pub fn within(patience: Duration, what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !f() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Net {
    /// Running, if its service answers in time.
    pub fn up(patience: Duration, description: &str) -> Net {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), description).unwrap();
        let up = [PathBuf::from("up"), folder.path().join("net.toml")];
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        let daemon = command.arg("--socket").arg(folder.path().join("s")).args(up).stderr(Stdio::null()).spawn();
        let net = Net { folder, daemon: daemon.unwrap() };
        within(patience, "the service answers", || net.run(&["status"]).status.success());
        net
    }

    fn describe(&self, description: &str) -> PathBuf {
        let path = self.folder.path().join("net.toml");
        std::fs::write(&path, description).unwrap();
        path
    }

    /// Has the daemon read another description.
    pub fn apply(&self, description: &str) {
        self.describe(description);
        let daemon = self.daemon.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &daemon]).status().unwrap().success());
    }

    /// Makes the network what another description says, without what commands have changed.
    pub fn apply_exactly(&self, description: &str) {
        self.done(&["apply", "--exact", self.describe(description).to_str().unwrap()]);
    }

    /// A command, with its results as JSON.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(self.folder.path().join("s")).arg("--json").args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The results of a command that must succeed.
    pub fn done(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
