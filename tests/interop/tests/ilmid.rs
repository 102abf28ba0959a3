//! ILMI with a stock `ilmid`: it registers an address with our network side. tshark reads every message.

use interop::signalling::{Daemon, TOOLS};
use interop::{have, tshark};
use std::time::{Duration, Instant};
use uni::call::Side;
use uni::ilmi::{Config, Event, Identity, Ilmi};
use wire::aesa::Aesa;

const PREFIX: [u8; 13] = [0x47, 0, 5, 0x80, 0xff, 0xde, 0, 0, 0, 0, 0, 0, 1];
/// What `svc-sockets.c` gives as the interface's end system identifier.
const ESI: [u8; 6] = [2, 0, 0, 0, 0, 1];

#[test]
fn a_stock_ilmid_registers_its_address_with_our_network_side() {
    if !have(TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::ilmid(folder.path()).unwrap();
    let identity = Identity { system: [0, 0x20, 0x48, 0x12, 0xa0, 0xb0], interface: 7 };
    let mut network = Ilmi::new(Config { prefixes: vec![PREFIX], ..Config::new(Side::Network, identity) });
    network.start(daemon.now());
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut events = Vec::new();
    let registered = Event::Registered(Aesa::new(PREFIX, ESI, 0));
    while !events.contains(&registered) {
        assert!(Instant::now() < deadline, "not within 20 s: {events:?} {:?}", daemon.peer.log());
        let now = daemon.now();
        if network.poll_timeout().is_some_and(|at| at <= now) {
            network.handle_timeout(now);
        }
        while let Some(sdu) = network.poll_transmit() {
            daemon.transmit(sdu).unwrap();
        }
        events.extend(std::iter::from_fn(|| network.poll()));
        if let (Some(sdu), _) = daemon.receive(Duration::from_millis(20)).unwrap() {
            network.handle_sdu(&sdu, daemon.now());
        }
    }
    let path = folder.path().join("said.pcap");
    daemon.capture(&path).unwrap();
    // The daemon fills the values of its requests with whatever was in memory, integers of six octets. Ours, from the network:
    assert_eq!(tshark::count(&path, "_ws.malformed && atm.channel == 1").unwrap(), 0);
    assert!(tshark::count(&path, "ilmi && atm.channel == 1").unwrap() >= 3);
}
