//! A daemon whose network has two shards: descriptions, reloads and status are as with one.

use control::config::parse;
use control::daemon::Daemon;
use control::status::collect;
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions, SendError};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wire::CircuitId;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));
const TWO: &str = "[engine]\nshards = 2\n[host.alpha]\nshard = 1\n[host.beta]\nshard = 0\n[switch.s1]\nshard = 1\n\
    [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n\
    [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\nflow = \"credit\"\n";

fn open(socket: &Path, host: &str, vci: u16) -> (Endpoint, ChannelId) {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config).unwrap();
    let channel = endpoint.open(CircuitId::new(0, vci).unwrap(), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

/// One sends and the other takes; what comes is what was sent.
fn exchange(from: &mut (Endpoint, ChannelId), to: &mut (Endpoint, ChannelId), count: u32) {
    let mut got = 0;
    for n in 0..count {
        let sdu = vec![n as u8; 1 + n as usize % 2000];
        while from.0.send_copy(from.1, &sdu) == Err(SendError::Full) {
            assert!(from.0.wait_send(TIMEOUT).unwrap());
        }
        if n % 8 == 7 || n + 1 == count {
            while got <= n {
                let sdu = to.0.receive(TIMEOUT).unwrap().expect("an SDU");
                assert!(sdu.len() == 1 + got as usize % 2000 && sdu.iter().all(|octet| *octet == got as u8));
                got += 1;
            }
        }
    }
}

#[test]
fn stations_are_in_the_shards_that_the_description_says_and_reloads_go_on_under_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let daemon = Daemon::start(parse(TWO, "net.toml").unwrap(), &socket).unwrap();
    let where_they_are = || {
        let shards = collect(daemon.controller()).unwrap().engine.shards;
        let of = |(number, shard): (usize, &control::status::ShardStatus)| {
            shard.stations.iter().map(move |name| (name.clone(), number)).collect::<Vec<_>>()
        };
        shards.iter().enumerate().flat_map(of).collect::<BTreeMap<_, _>>()
    };
    let expected =
        |all: &[(&str, usize)]| all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<BTreeMap<_, _>>();
    assert_eq!(where_they_are(), expected(&[("alpha", 1), ("beta", 0), ("s1", 1)]));
    let (mut a, mut b) = (open(&socket, "alpha", 100), open(&socket, "beta", 100));
    exchange(&mut a, &mut b, 500);
    // More is added; what has no shard of its own goes to its neighbours, and what is there stays, whatever is said now.
    let more = format!(
        "{}[host.gamma]\n[[link]]\nends = [\"gamma\", \"s1:2\"]\n[[circuit]]\nends = [\"gamma 0.7\", \"beta 0.101\"]\n",
        TWO.replace("[host.beta]\nshard = 0", "[host.beta]\nshard = 1")
    );
    daemon.reload(parse(&more, "net.toml").unwrap()).unwrap();
    let placed = where_they_are();
    assert_eq!((placed["beta"], placed["alpha"], placed.len()), (0, 1, 4));
    exchange(&mut b, &mut a, 500);
    let (mut c, mut d) = (open(&socket, "gamma", 7), open(&socket, "beta", 101));
    exchange(&mut c, &mut d, 200);
    // Another number of shards takes a restart, and nothing has changed.
    let refused =
        daemon.reload(parse(&TWO.replace("shards = 2", "shards = 3"), "net.toml").unwrap()).unwrap_err().to_string();
    assert!(refused.contains("shards = 3") && refused.contains("started with 2"), "{refused}");
    exchange(&mut a, &mut b, 100);
    let status = collect(daemon.controller()).unwrap();
    assert!(status.engine.shards.iter().all(|shard| shard.rounds > 100 && shard.frames == status.engine.frames / 2));
    let dropped = status.links.iter().flat_map(|link| [&link.from_a, &link.from_b]).map(|line| line.sent.dropped.len());
    assert_eq!(dropped.sum::<usize>(), 0);
}

#[test]
fn a_network_of_one_shard_says_nothing_of_shards() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(parse("[host.alpha]\n", "net.toml").unwrap(), &folder.path().join("socket")).unwrap();
    let status = collect(daemon.controller()).unwrap();
    assert!(status.engine.shards.is_empty() && status.engine.frames > 0);
}
