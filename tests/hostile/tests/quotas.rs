//! What a user may have of endpoints, memory, circuits and polling, and where.

use endpoint::seqpacket::Peer;
use endpoint::{Endpoint, EndpointConfig, Events, Geometry, OpenOptions};
use host::quota::{Kind, Limits};
use host::service::Handler;
use hostile::{Class, Field, Ground, Trial, circuit};
use net::LinkConfig;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::CircuitId;

const ENDPOINTS: u64 = 6;
const OCTETS: u64 = 8 << 20;
const CHANNELS: u64 = 8;

/// Everybody has rights at alpha and beta, none at gamma, and these bounds with so many channels, each of which reserves a cell each
/// second.
struct Bounded {
    channels: u64,
}

impl Handler for Bounded {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn may_attach(&self, _: Peer, host: &str) -> Result<(), String> {
        if host == "gamma" { Err("no circuit of gamma's is yours".into()) } else { Ok(()) }
    }
    fn reserved(&self, _: &str, _: CircuitId) -> u64 {
        1
    }
    fn limits(&self, _: Peer) -> Limits {
        Limits::UNLIMITED
            .with(Kind::Endpoints, ENDPOINTS)
            .with(Kind::Octets, OCTETS)
            .with(Kind::Channels, self.channels)
            .with(Kind::Bandwidth, self.channels)
            .with(Kind::Polling, 0)
    }
    fn manage(&self, _: Peer, _: serde_json::Value, _: Vec<OwnedFd>) -> Result<String, String> {
        Err("nothing to manage here".into())
    }
}

fn ground() -> Ground {
    with_channels(CHANNELS)
}

fn with_channels(channels: u64) -> Ground {
    let mut build = Ground::build()
        .handler(Arc::new(Bounded { channels }))
        .host("alpha")
        .host("beta")
        .host("gamma")
        .link("alpha", "beta", LinkConfig::default());
    for vci in 100..120 {
        build = build.circuit(&format!("alpha 0.{vci}"), &format!("beta 0.{vci}"), Contract::default());
    }
    build.up()
}

fn small(host: &str) -> EndpointConfig {
    let geometry = Geometry { send_ring: 16, receive_ring: 16, free_ring: 16, buffers: 16, buffer_octets: 16_384 };
    EndpointConfig { host: host.into(), geometry, ..EndpointConfig::default() }
}

fn refused(result: Result<Endpoint, endpoint::Error>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn a_user_has_so_many_endpoints_and_gets_another_when_one_has_gone() {
    let ground = ground();
    let mut all: Vec<Endpoint> =
        (0..ENDPOINTS).map(|n| ground.endpoint(&small(["alpha", "beta"][n as usize % 2])).unwrap()).collect();
    for host in ["alpha", "beta"] {
        let why = refused(ground.endpoint(&small(host)));
        assert!(why.contains("max_endpoints") && why.contains('6'), "{why}");
    }
    all.pop();
    let patience = Instant::now() + Duration::from_secs(5);
    while ground.endpoint(&small("alpha")).is_err() {
        assert!(Instant::now() < patience, "the place of an endpoint that has gone stays taken");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_user_without_a_circuit_at_a_host_has_no_endpoint_there() {
    let why = refused(ground().endpoint(&small("gamma")));
    assert!(why.contains("gamma"), "{why}");
}

#[test]
fn a_user_has_so_much_memory_and_so_many_circuits() {
    let ground = ground();
    let why = refused(ground.endpoint(&EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() }));
    assert!(why.contains("max_octets"), "{why}");
    let mut endpoint = ground.endpoint(&small("alpha")).unwrap();
    let mut channels: Vec<_> =
        (0..CHANNELS as u16).map(|n| endpoint.open(circuit(100 + n), OpenOptions::default()).unwrap()).collect();
    let why = endpoint.open(circuit(119), OpenOptions::default()).unwrap_err().to_string();
    assert!(why.contains("max_channels"), "{why}");
    // A circuit that does not open is not counted.
    endpoint.close(channels.pop().unwrap()).unwrap();
    for _ in 0..2 {
        assert!(endpoint.open(circuit(100), OpenOptions::default()).unwrap_err().to_string().contains("open already"));
    }
    endpoint.open(circuit(119), OpenOptions::default()).unwrap();
}

#[test]
fn a_circuit_that_is_removed_while_it_is_open_is_not_counted_any_more() {
    for closes in [true, false] {
        let ground = with_channels(2);
        let mut endpoint = ground.endpoint(&small("alpha")).unwrap();
        for n in 1..=10 {
            let opened = endpoint.open(circuit(100), OpenOptions::default());
            let channel = opened.unwrap_or_else(|e| panic!("opened {n} times, closes: {closes}: {e}"));
            let again = |core: &mut host::engine::Core| {
                let described = hostile::between("alpha 0.100", "beta 0.100", Contract::default());
                core.fabric.remove_circuit(&mut core.network, &described).unwrap();
                core.fabric.add_circuit(&mut core.network, &described).unwrap();
            };
            ground.engine().with(again).unwrap();
            if closes {
                endpoint.close(channel).expect_err("it has ended with its circuit");
            }
        }
        // Those that are there count.
        let _both = [101, 102].map(|vci| endpoint.open(circuit(vci), OpenOptions::default()).unwrap());
        let why = endpoint.open(circuit(103), OpenOptions::default()).unwrap_err().to_string();
        assert!(why.contains("max_"), "{why}");
    }
}

#[test]
fn a_user_without_the_right_to_poll_keeps_no_thread_awake() {
    let ground = ground();
    let why = refused(ground.endpoint(&EndpointConfig { events: Events::Polling, ..small("alpha") }));
    assert!(why.contains("max_polling"), "{why}");
    let mut endpoint = ground.endpoint(&small("alpha")).unwrap();
    let why = endpoint.set_events(Events::Polling).unwrap_err().to_string();
    assert!(why.contains("max_polling"), "{why}");
    endpoint.set_events(Events::Clocked { hertz: 100 }).unwrap();
    // Clocks for which the thread would not sleep, or hardly.
    let fast = Events::Clocked { hertz: 20_000 };
    let why = refused(ground.endpoint(&EndpointConfig { events: fast, ..small("alpha") }));
    assert!(why.contains("max_polling") && why.contains("4000 Hz"), "{why}");
    let why = endpoint.set_events(fast).unwrap_err().to_string();
    assert!(why.contains("max_polling"), "{why}");
    endpoint.set_events(Events::Clocked { hertz: 4000 }).unwrap();
}

/// Whoever takes all that the service gives, again and again, holds up nobody.
#[test]
fn somebody_who_takes_what_there_is_disturbs_nobody() {
    let field = || {
        let ground = ground();
        let connect = |core: &mut host::engine::Core| {
            let described = hostile::between("alpha 0.200", "beta 0.200", Contract::default());
            core.fabric.add_circuit(&mut core.network, &described).unwrap();
        };
        ground.engine().with(connect).unwrap();
        ground
    };
    let trial = Trial::new(Class::Other, field).small().innocent("alpha", "beta", 200);
    trial.withstand(|field, attack| {
        while attack.goes_on() {
            let mut taken = Vec::new();
            while let Ok(mut endpoint) = field.endpoint(&small("alpha")) {
                let opened = (100..120).map_while(|vci| endpoint.open(circuit(vci), OpenOptions::default()).ok());
                let opened: Vec<_> = opened.collect();
                taken.push((endpoint, opened));
            }
            // Two are the innocent circuit's.
            assert!(taken.len() <= ENDPOINTS as usize - 2);
        }
    });
}
