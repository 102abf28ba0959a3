//! A reload that removes a circuit and adds another of the same label: what is under way on the first comes to nobody.

use control::config::{Config, parse};
use control::daemon::Daemon;
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::CircuitId;

const OLD: u8 = 0xee;
/// All links are slow: what is sent takes half a second on each.
const STATIONS: &str = "[host.alpha]\n[host.beta]\n[host.gamma]\n[switch.s1]\n\
    [[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"2 Mbit/s\"\n\
    [[link]]\nends = [\"beta\", \"s1:1\"]\nrate = \"2 Mbit/s\"\n\
    [[link]]\nends = [\"gamma\", \"s1:2\"]\nrate = \"2 Mbit/s\"\n";

fn config(circuits: &[[&str; 2]], shards: &str) -> Config {
    let circuits = circuits.iter().map(|[a, b]| format!("[[circuit]]\nends = [\"{a} 0.100\", \"{b} 0.100\"]\n"));
    parse(&[shards.to_owned(), STATIONS.to_owned()].into_iter().chain(circuits).collect::<String>(), "net.toml")
        .unwrap()
}

fn open(socket: &Path, host: &str) -> (Endpoint, ChannelId) {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config).unwrap();
    let channel = endpoint.open(CircuitId::new(0, 100).unwrap(), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

fn up(circuits: &[[&str; 2]], shards: &str) -> (Daemon, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    (Daemon::start(config(circuits, shards), &socket).unwrap(), socket, folder)
}

#[test]
fn a_reload_that_gives_a_label_to_another_circuit_gives_it_nothing_of_the_first_ones_data() {
    for (shards, old, new) in [
        ("", ["alpha", "beta"], ["alpha", "gamma"]),
        ("", ["alpha", "beta"], ["gamma", "beta"]),
        ("[engine]\nshards = 2\n", ["alpha", "beta"], ["alpha", "gamma"]),
    ] {
        let (daemon, socket, _folder) = up(&[old], shards);
        let (mut sender, channel) = open(&socket, old[0]);
        let (_receiver, _) = open(&socket, old[1]);
        for _ in 0..50 {
            sender.send_copy(channel, &[OLD; 1000]).unwrap();
        }
        // Some of it has passed the switch, and some has not.
        std::thread::sleep(Duration::from_millis(150));
        daemon.reload(config(&[new], shards)).unwrap();
        drop((sender, _receiver));
        let ((mut sender, channel), (mut receiver, _)) = (open(&socket, new[0]), open(&socket, new[1]));
        for _ in 0..5 {
            sender.send_copy(channel, &[1; 1000]).unwrap();
        }
        for n in 0..5 {
            let got = receiver.receive(Some(Duration::from_secs(30))).unwrap().expect("an SDU");
            assert_eq!(&got[..], &[1; 1000], "SDU {n}: {old:?} {new:?} {shards}");
        }
        assert!(receiver.receive(Some(Duration::from_millis(50))).unwrap().is_none());
    }
}
