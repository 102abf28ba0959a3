//! Streams between two endpoints of a live network: alpha, a switch, beta.

use endpoint::{ChannelId, Endpoint, EndpointConfig, Geometry, OpenOptions};
use host::HostInterface;
use host::engine::{self, EngineHandle};
use host::service::{Everybody, Service};
use net::topology::{Attachment, CircuitDescription, LinkDescription};
use net::{FramePool, LinkConfig, Network};
use stack::transfer::{TransferError, receive_stream, send_stream};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Live {
    engine: EngineHandle,
    service: Option<Service>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Live {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cellway.sock");
        let engine = engine::start(Network::new(FramePool::new(256, 65_536))).unwrap();
        engine.with(build).unwrap();
        let service = Service::start(&socket, engine.clone(), Arc::new(Everybody), 16).unwrap();
        Live { engine, service: Some(service), socket, _folder: folder }
    }

    fn endpoint(&self, host: &str) -> (Endpoint, ChannelId) {
        let geometry = Geometry { buffers: 128, buffer_octets: 65_536, ..Geometry::default() };
        let config = EndpointConfig { host: host.to_owned(), geometry, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(&self.socket, &config).unwrap();
        let channel = endpoint.open("0.100".parse().unwrap(), OpenOptions::default()).unwrap();
        (endpoint, channel)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.service.take();
        self.engine.stop();
    }
}

fn build(core: &mut engine::Core) {
    let (network, fabric) = (&mut core.network, &mut core.fabric);
    let end = |station: &str| Attachment { station: station.to_owned(), port: None };
    fabric.add_switch(network, "s1", Default::default()).unwrap();
    for host in ["alpha", "beta"] {
        fabric.add_host(network, host, HostInterface::new(16)).unwrap();
        let link = LinkDescription { ends: [end(host), end("s1")], config: LinkConfig::default() };
        fabric.add_link(network, &link).unwrap();
    }
    let ends = ["alpha 0.100", "beta 0.100"].map(|e| e.parse().unwrap()).to_vec();
    let circuit = CircuitDescription { ends, ..Default::default() };
    fabric.add_circuit(network, &circuit).unwrap();
}

fn pattern(octets: usize) -> Vec<u8> {
    (0..octets as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Writes slowly, as a disk or a pipe may.
struct Slow(Vec<u8>);

impl Write for Slow {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(5));
        self.0.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_arrives_whole() {
    let live = Live::new();
    let data = pattern(100_000_000);
    let (mut beta, to_alpha) = live.endpoint("beta");
    let (mut alpha, to_beta) = live.endpoint("alpha");
    let mut got = Vec::with_capacity(data.len());
    let begin = Instant::now();
    let repeated = std::thread::scope(|s| {
        let receiver = s.spawn(|| receive_stream(&mut beta, to_alpha, &mut got, &mut |_| true));
        let (octets, repeated) = send_stream(&mut alpha, to_beta, &mut &data[..], 65_535, &mut |_| true).unwrap();
        assert_eq!(octets, data.len() as u64);
        assert_eq!(receiver.join().unwrap().unwrap(), octets);
        repeated
    });
    let took = begin.elapsed();
    assert!(got == data);
    println!("100 MB in {took:?}, {repeated} PDUs sent again");
}

#[test]
fn a_slow_receiver_gets_all_of_it() {
    let live = Live::new();
    let data = pattern(10_000_000);
    let (mut beta, to_alpha) = live.endpoint("beta");
    let (mut alpha, to_beta) = live.endpoint("alpha");
    let mut got = Slow(Vec::new());
    std::thread::scope(|s| {
        let receiver = s.spawn(|| receive_stream(&mut beta, to_alpha, &mut got, &mut |_| true));
        send_stream(&mut alpha, to_beta, &mut &data[..], 65_535, &mut |_| true).unwrap();
        receiver.join().unwrap().unwrap();
    });
    assert!(got.0 == data);
}

#[test]
fn a_receiver_that_comes_in_the_middle_is_said_so_at_once() {
    let live = Live::new();
    let (mut alpha, to_beta) = live.endpoint("alpha");
    let (mut first, channel) = live.endpoint("beta");
    let begin = Instant::now();
    let over = AtomicBool::new(false);
    let result = std::thread::scope(|s| {
        let (live, over) = (&live, &over);
        s.spawn(move || {
            // The first receiver gives up after a while, as if it had died.
            let stopped = receive_stream(&mut first, channel, &mut io::sink(), &mut |octets| octets < 10_000_000);
            assert!(matches!(stopped, Err(TransferError::Interrupted { .. })));
            drop(first);
            let (mut second, channel) = live.endpoint("beta");
            let mut got = Vec::new();
            let _ = receive_stream(&mut second, channel, &mut got, &mut |_| !over.load(Ordering::Relaxed));
            assert!(got.is_empty());
        });
        let result = send_stream(&mut alpha, to_beta, &mut io::repeat(7), 65_535, &mut |_| true);
        over.store(true, Ordering::Relaxed);
        result
    });
    assert!(matches!(result, Err(TransferError::Refused { .. })), "{result:?}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_side_that_gives_up_ends_the_other_at_once_and_both_say_what_is_missing() {
    let live = Live::new();
    let begin = Instant::now();
    for receiver_stops in [false, true] {
        let (mut beta, to_alpha) = live.endpoint("beta");
        let (mut alpha, to_beta) = live.endpoint("alpha");
        let (sent, received) = std::thread::scope(|s| {
            let mut goes_on = move |octets| !receiver_stops || octets < 1_000_000;
            let receiver = s.spawn(move || receive_stream(&mut beta, to_alpha, &mut io::sink(), &mut goes_on));
            let mut goes_on = |octets| receiver_stops || octets < 10_000_000;
            let sent = send_stream(&mut alpha, to_beta, &mut io::repeat(7), 65_535, &mut goes_on);
            (sent, receiver.join().unwrap())
        });
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        let missing = |e: &TransferError| e.to_string().contains("missing");
        assert!(missing(&sent) && missing(&received), "{sent}; {received}");
        let told = if receiver_stops {
            matches!(sent, TransferError::Refused { sent, acknowledged } if acknowledged > 0 && acknowledged <= sent)
        } else {
            matches!(received, TransferError::GivenUp { octets } if octets > 0)
        };
        assert!(told, "{sent:?}; {received:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "nobody waits for the time-out");
}
