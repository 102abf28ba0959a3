//! Links that commands removed and added in the place of a description's, then and after a restart.

use control::config::{Config, parse_in};
use control::daemon::{Daemon, DaemonOptions};
use control::kinds::Kinds;
use control::status::collect;
use endpoint::Connection;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
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
        parse_in(&Kinds::none(), &self.text, "net.toml", self.folder.path()).unwrap()
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
    // The description, read again, has its own back, and a host has one.
    let outcome = net.daemon().reload(net.config()).unwrap();
    assert_eq!(outcome.dropped, ["link alpha - s2:0"]);
    assert_eq!(signal(&net), ["alpha", "s1"]);
}

#[test]
fn a_cable_that_a_command_plugged_in_elsewhere_has_its_adapter_after_a_restart() {
    let mut net = Net::up(
        "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[host.alpha]\n[switch.s1]\n\
         [[link]]\nends = [\"guest\", \"s1:0\"]\n[[link]]\nends = [\"alpha\", \"s1:1\"]\n",
    );
    let is_at = |net: &Net, link: &str| {
        let adapters = || collect(net.daemon().controller()).unwrap().adapters;
        let deadline = Instant::now() + Duration::from_secs(30);
        while !adapters().iter().any(|adapter| adapter.signal && adapter.link.as_deref() == Some(link)) {
            assert!(Instant::now() < deadline, "{link}: {:?}", adapters());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    net.ask(json!({ "remove_link": { "name": "guest - s1:0" } }));
    net.ask(json!({ "add_link": { "ends": ["guest", "s1:5"] } }));
    is_at(&net, "guest:0 - s1:5");
    net.restart();
    is_at(&net, "guest:0 - s1:5");
    // The description, read again, has its cable where it says.
    net.daemon().reload(net.config()).unwrap();
    is_at(&net, "guest:0 - s1:0");
}
