//! Links that commands removed and added in the place of a description's, then and after a restart.

use control::audit::Who;
use control::config::{Config, parse};
use control::controller::Applying;
use control::daemon::{Daemon, DaemonOptions};
use endpoint::Connection;
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

/// A network with a state folder.
struct Net {
    text: String,
    daemon: Option<Daemon>,
    folder: TempDir,
}

impl Net {
    fn up(text: &str) -> Self {
        let mut net = Net { text: text.to_owned(), daemon: None, folder: tempfile::tempdir().unwrap() };
        net.restart();
        net
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn restart(&mut self) {
        self.daemon = None;
        let options = DaemonOptions { state: Some(self.folder.path().join("state")), ..DaemonOptions::default() };
        self.daemon = Some(Daemon::start_with(self.config(), &self.socket(), &options).unwrap());
    }

    fn config(&self) -> Config {
        parse(&self.text, "net.toml").unwrap()
    }

    fn ask(&self, request: Value) -> Value {
        Connection::open(&self.socket()).unwrap().manage(request).unwrap()
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }
}

#[test]
fn a_host_whose_link_with_signalling_a_command_removed_signals_at_another() {
    let mut net = Net::up(
        "[host.alpha]\n[switch.s1]\nprefix = \"47000580ffe100000000000001\"\n\
         [switch.s2]\nprefix = \"47000580ffe100000000000002\"\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\nsignalling = { version = \"uni40\" }\n",
    );
    let signal = |net: &Net| {
        let interfaces = net.daemon().controller().calls().report().interfaces.into_iter();
        let mut stations: Vec<String> = interfaces.map(|interface| interface.station).collect();
        stations.sort();
        stations
    };
    net.ask(json!({ "remove_link": { "name": "alpha - s1:0" } }));
    net.ask(json!({ "add_link": { "ends": ["alpha", "s2:0"], "signalling": { "version": "uni40" } } }));
    assert_eq!(signal(&net), ["alpha", "s2"]);
    net.restart();
    assert_eq!(signal(&net), ["alpha", "s2"]);
    // The description by itself has its own back, and a host has one.
    let exactly = Applying { exact: true, ..Applying::default() };
    net.daemon().controller().apply(net.config(), &Who::Operator, &|_| Ok(()), exactly).unwrap();
    assert_eq!(signal(&net), ["alpha", "s1"]);
}
