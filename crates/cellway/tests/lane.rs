//! LAN emulation through two switches: servers at one host, stations at others that exchange Ethernet frames by the BUS
//! and then by a call between them.

use crate::up::{Net, within};
use endpoint::{Endpoint, EndpointConfig, Geometry};
use serde_json::Value;
use stack::device::lane::Station;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::q2931::Octets;

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[switch.s1]
prefix = "47000580ffe100000000000001"
[switch.s2]
prefix = "47000580ffe100000000000002"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
[[link]]
ends = ["gamma", "s2:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["s1:2", "s2:2"]
signalling = { version = "iisp" }
"#;
const BROADCAST: [u8; 6] = [0xff; 6];

/// The servers' process until it is dropped, and their addresses.
struct Servers(Child, Value);

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(net: &Net) -> Servers {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).args(["--json", "lane", "serve", "gamma", "--lan", "lab"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Servers(child, serde_json::from_str(&line).unwrap())
}

fn station(net: &Net, host: &str, servers: &Servers, is_les: bool) -> Station {
    let socket = net.folder.path().join("s");
    let geometry = Geometry { buffers: 256, ..Geometry::default() };
    let config = EndpointConfig { host: host.into(), geometry, send_buffers: Some(64), ..EndpointConfig::default() };
    let endpoint = Endpoint::create(&socket, &config).unwrap();
    let server = servers.1[if is_les { "les" } else { "lecs" }].as_str().unwrap().parse().unwrap();
    Station::new(&socket, host, endpoint, server, is_les, Octets::new(b"lab").unwrap()).unwrap()
}

/// Lets stations do what there is to do until something holds.
fn run_until(stations: &mut [Station], what: &str, mut f: impl FnMut(&mut [Station]) -> bool) {
    let end = Instant::now() + WAIT;
    while !f(stations) {
        assert!(Instant::now() < end, "not in time: {what}: {:?}", stations.iter().map(Station::client));
        let mut any = false;
        for station in stations.iter_mut() {
            any |= station.turn().unwrap();
        }
        if !any {
            stations[0].wait(Duration::from_millis(1)).unwrap();
        }
    }
}

fn frame(to: [u8; 6], from: &Station, number: u32) -> Vec<u8> {
    [&to[..], &from.mac(), &[0x88, 0xb5], &number.to_be_bytes(), &[number as u8; 1400]].concat()
}

/// The numbers of frames from a station that have come, each whole.
fn numbers(station: &mut Station, from: [u8; 6], got: &mut Vec<u32>) {
    while let Some(frame) = station.receive() {
        let number = u32::from_be_bytes(frame[14..18].try_into().unwrap());
        assert_eq!((&frame[6..12], frame.len()), (&from[..], 1418));
        assert!(frame[18..].iter().all(|octet| *octet == number as u8));
        got.push(number);
    }
}

fn calls(net: &Net) -> usize {
    net.done(&["call", "list"])["calls"].as_array().unwrap().len()
}

#[test]
fn stations_join_a_lan_and_exchange_frames_by_the_bus_and_then_by_a_call_of_their_own() {
    let net = Net::up(WAIT, NETWORK);
    let has_address = |host: &str| net.done(&["address", host])[0]["addresses"][0].is_string();
    within(WAIT, "the hosts have addresses", || ["alpha", "beta", "gamma"].iter().all(|host| has_address(host)));
    let servers = serve(&net);
    // One by the LECS, one by the LES.
    let mut stations = [station(&net, "alpha", &servers, false), station(&net, "beta", &servers, true)];
    run_until(&mut stations, "both are in the LAN", |all| all.iter().all(|s| s.client().is_up()));
    let [alpha, beta] = [stations[0].mac(), stations[1].mac()];
    assert_ne!(stations[0].client().lecid(), stations[1].client().lecid());
    // Each has a call to the LES and one to the BUS, seen at both ends, and is a leaf of a tree from either.
    let before = 2 * 2 * 2 + 2 * (1 + 2);
    within(WAIT, "no call but these", || calls(&net) == before);

    let (mut got, mut back) = (Vec::new(), Vec::new());
    let broadcast = frame(BROADCAST, &stations[0], 0);
    stations[0].send(&broadcast);
    run_until(&mut stations, "a broadcast", |all| {
        numbers(&mut all[1], alpha, &mut got);
        !got.is_empty()
    });
    assert!(stations[0].receive().is_none(), "a sender does not hear its own broadcast");
    assert_eq!(calls(&net), before, "the BUS has carried it");

    // The first frame goes by the BUS, and raises the question that leads to a call.
    for number in 1..200 {
        let next = frame(beta, &stations[0], number);
        stations[0].send(&next);
        run_until(&mut stations, "a frame", |all| {
            numbers(&mut all[1], alpha, &mut got);
            got.len() > number as usize
        });
    }
    assert_eq!(got, (0..200).collect::<Vec<_>>(), "each frame once, in order");
    assert_eq!(stations[0].client().direct().collect::<Vec<_>>(), [beta]);
    assert_eq!(calls(&net), before + 2, "one call more, seen at both hosts");
    for number in 0..50 {
        let next = frame(alpha, &stations[1], number);
        stations[1].send(&next);
        run_until(&mut stations, "a frame back", |all| {
            numbers(&mut all[0], beta, &mut back);
            back.len() > number as usize
        });
    }
    assert_eq!(back, (0..50).collect::<Vec<_>>());
    assert_eq!(stations[1].client().direct().collect::<Vec<_>>(), [alpha]);
    assert_eq!(calls(&net), before + 2, "the way back is the same call");

    // The servers' process dies: the LAN is gone until others are there.
    drop(servers);
    run_until(&mut stations, "they notice", |all| all.iter().all(|s| !s.client().is_up()));
    let _servers = serve(&net);
    run_until(&mut stations, "they join anew", |all| all.iter().all(|s| s.client().is_up()));
    let broadcast = frame(BROADCAST, &stations[1], 1000);
    stations[1].send(&broadcast);
    run_until(&mut stations, "a broadcast in the new LAN", |all| {
        numbers(&mut all[0], beta, &mut back);
        back.last() == Some(&1000)
    });
    // A station that dies is out of the LAN: its calls are gone.
    let [first, second] = stations;
    let mut rest = [first];
    drop(second);
    within(WAIT, "its calls are gone", || {
        rest[0].turn().unwrap();
        calls(&net) == 2 * 2 + 2 * (1 + 1)
    });
    assert!(rest[0].client().is_up());
}
