//! A virtual adapter in a running network: its cable, then and after a restart.

use control::audit::Who;
use control::config::{Config, parse_in};
use control::controller::Applying;
use control::daemon::{Daemon, DaemonOptions};
use control::kinds::Kinds;
use control::status::collect;
use endpoint::Connection;
use eni155p::kind::Eni155pKind;
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
        let kinds = Kinds::none().with_adapter::<Eni155pKind>();
        parse_in(&kinds, &self.text, "net.toml", self.folder.path()).unwrap()
    }

    fn ask(&self, request: Value) -> Value {
        Connection::open(&self.socket()).unwrap().manage(request).unwrap()
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }
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
    // The description by itself has its cable where it says.
    let exactly = Applying { exact: true, ..Applying::default() };
    net.daemon().controller().apply(net.config(), &Who::Operator, &|_| Ok(()), exactly).unwrap();
    is_at(&net, "guest:0 - s1:0");
}
