//! Desks in a running network: changes, and links that commands add.

use apic::kind::DeskKind;
use control::config::{Config, parse_with};
use control::daemon::Daemon;
use control::kinds::Kinds;
use control::status::collect;
use endpoint::{ChannelId, Connection, Endpoint, EndpointConfig, OpenOptions};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use wire::CircuitId;

struct Net {
    daemon: Daemon,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn config(text: &str) -> Config {
    parse_with(&Kinds::none().with::<DeskKind>(), text, "net.toml").unwrap()
}

impl Net {
    fn up(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        Net { daemon: Daemon::start(config(text), &socket).unwrap(), socket, _folder: folder }
    }

    fn open(&self, host: &str, vci: u16) -> (Endpoint, ChannelId) {
        let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(&self.socket, &config).unwrap();
        let channel = endpoint.open(CircuitId::new(0, vci).unwrap(), OpenOptions::default()).unwrap();
        (endpoint, channel)
    }

    /// A PDU passes on circuits that were opened before.
    fn passes(&self, pair: &mut [(Endpoint, ChannelId); 2]) {
        let [(sender, channel), (receiver, _)] = pair;
        sender.send_copy(*channel, b"still here").unwrap();
        let got = receiver.receive(Some(Duration::from_secs(30))).unwrap().expect("the PDU");
        assert_eq!(&got[..], b"still here");
    }
}

/// Chips that have room for few circuits of a constant rate would replace those that have room for all.
#[test]
fn a_reload_that_fails_leaves_each_circuit_of_a_desk_its_way() {
    let text = |cached: u32, last: u32| {
        let mut text = format!(
            "[host.alpha]\n[host.beta]\n[desk.den]\nchips = 4\ncached_connections = {cached}\n\
             [[link]]\nends = [\"alpha\", \"den:0\"]\n[[link]]\nends = [\"beta\", \"den:3\"]\n"
        );
        for vci in 100..=last {
            let circuit = "category = \"cbr\"\npcr = \"100 cell/s\"";
            let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n{circuit}");
        }
        text
    };
    let net = Net::up(&text(64, 129));
    let mut pairs = [100, 101, 128, 129].map(|vci| [net.open("alpha", vci), net.open("beta", vci)]);
    let refused = format!("{:#}", net.daemon.reload(config(&text(2, 130))).unwrap_err());
    assert!(refused.contains("low-latency"), "{refused}");
    pairs.iter_mut().for_each(|pair| net.passes(pair));
    let status = collect(net.daemon.controller()).unwrap();
    assert_eq!(status.of_kinds.get::<DeskKind>()[0].circuit_routes, 60);
}

#[test]
fn a_link_that_a_command_adds_to_a_desk_is_held_to_what_one_of_a_description_is() {
    let net = Net::up("[host.beta]\n[desk.d]\nchips = 4\n");
    let connection = Connection::open(&net.socket).unwrap();
    let add = |link: Value| connection.manage(json!({ "add_link": link })).map_err(|e| e.to_string());
    let signals = json!({ "ends": ["beta", "d:0"], "signalling": { "version": "uni40" } });
    for (link, says) in
        [(signals, "a desk does not signal"), (json!({ "ends": ["beta", "d:9"] }), "the desk has no port 9")]
    {
        let why = add(link.clone()).expect_err(&format!("{link}"));
        assert!(why.contains(says), "{link}: {why}");
    }
    add(json!({ "ends": ["beta", "d:0"] })).unwrap();
}
