//! A daemon with a state folder, in this process, and requests to it.

use control::config::parse;
use control::daemon::{Daemon, DaemonOptions};
use control::state::files::Files;
use endpoint::Connection;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const WAIT: Duration = Duration::from_secs(60);
pub const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";

pub struct Kept {
    pub daemon: Option<Daemon>,
    pub folder: TempDir,
    _turn: Turn,
}

/// The right to have state folders and daemons: one test's at a time.
pub type Turn = MutexGuard<'static, ()>;

pub fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A description with these circuits.
pub fn network(circuits: &[u16]) -> String {
    let circuit = |vci: &u16| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n");
    circuits.iter().fold(NETWORK.to_owned(), |text, vci| text + &circuit(vci))
}

pub fn add(vci: u16) -> Value {
    json!({ "add_circuit": { "ends": [format!("alpha 0.{vci}"), format!("beta 0.{vci}")] } })
}

impl Kept {
    pub fn up(text: &str, files: Files) -> Self {
        let mut kept = Kept { daemon: None, folder: tempfile::tempdir().unwrap(), _turn: turn() };
        kept.restart(text, files);
        kept
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A daemon in the place of the one that there was.
    pub fn restart(&mut self, text: &str, files: Files) {
        self.daemon = None;
        let options = DaemonOptions { state: Some(self.state()), files, ..DaemonOptions::default() };
        let config = parse(text, "net.toml").unwrap();
        self.daemon = Some(Daemon::start_with(config, &self.folder.path().join("socket"), &options).unwrap());
        assert_eq!(self.daemon().controller().not_kept(WAIT), None);
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub fn ask(&self, request: Value) -> Result<Value, String> {
        let connection = Connection::open(&self.folder.path().join("socket")).unwrap();
        connection.manage(request).map_err(|e| e.to_string())
    }

    /// A request under an id.
    pub fn once(&self, id: &str, request: Value) -> Result<Value, String> {
        self.ask(json!({ "version": 2, "request": request, "id": id }))
    }

    /// The numbers of the circuits that there are.
    pub fn circuits(&self) -> Vec<u16> {
        let all = self.ask(json!("circuits")).unwrap();
        let vci = |circuit: &Value| circuit["name"].as_str()?.split('.').next_back()?.parse().ok();
        let mut all: Vec<u16> = all.as_array().unwrap().iter().filter_map(vci).collect();
        all.sort_unstable();
        all
    }
}

pub fn within(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !f() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
