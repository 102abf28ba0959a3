//! Circuits with credits between two daemons, by UDP and by TCP: a receiver that is slower than its sender loses nothing.

use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use interop::up::Up;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use wire::CircuitId;

const PDUS: u32 = 2000;
const PATIENCE: Duration = Duration::from_secs(30);
const BUFFERS: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 128, buffer_octets: 9216 };

fn endpoint(up: &Up) -> (Endpoint, endpoint::ChannelId) {
    let config = EndpointConfig { host: "here".into(), geometry: BUFFERS, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(&up.path("socket"), &config).unwrap();
    let channel = endpoint.open(CircuitId::new(0, 100).unwrap(), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

fn pdu(number: u32) -> Vec<u8> {
    let octets = 500 + (number.wrapping_mul(2_654_435_761) % 8500) as usize;
    let mut pdu: Vec<u8> = (0..octets as u32).map(|i| (number.wrapping_mul(31) + i * 7) as u8).collect();
    pdu[..4].copy_from_slice(&number.to_be_bytes());
    pdu
}

/// A network of a host behind a switch, and a link of this kind to the other.
fn network(kind: &str) -> Up {
    Up::new(&format!(
        "[host.here]\n[switch.s1]\n[outside.there]\n[[link]]\nends = [\"here\", \"s1:0\"]\n\
         [[link]]\nends = [\"s1:1\", \"there\"]\n{kind}\n\
         [[circuit]]\nends = [\"here 0.100\", \"there 0.100\"]\nflow = \"credit\"\n"
    ))
}

/// Sends from one to the other, which now and then looks away for longer than it has buffers for.
fn exchange(a: &Up, b: &Up) {
    let ((mut sender, to_b), (mut receiver, to_a)) = (endpoint(a), endpoint(b));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..PDUS {
                while let Err(error) = sender.send_copy(to_b, &pdu(number)) {
                    assert!(matches!(error, SendError::Full), "{error}");
                    assert!(begin.elapsed() < PATIENCE, "PDU {number} is not taken");
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            // With its endpoint would go what has not left yet.
            assert!(sender.receive(Some(PATIENCE)).unwrap().is_some(), "no answer");
        });
        for number in 0..PDUS {
            let got = receiver.receive(Some(PATIENCE)).unwrap();
            let got = got.unwrap_or_else(|| panic!("PDU {number} of {PDUS} does not come"));
            assert!(got[..] == pdu(number), "PDU {number}: {} octets of {:?}", got.len(), &got[..4]);
            drop(got);
            if number % 64 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        receiver.send_copy(to_a, b"all").unwrap();
        assert!(begin.elapsed() < 2 * PATIENCE);
        // The answer leaves while the endpoint lives.
        std::thread::sleep(Duration::from_millis(200));
    });
}

#[test]
fn nothing_is_lost_between_two_daemons_by_udp() {
    // Two ports that nobody has: bound once and let go.
    let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap()).map(|s| s.local_addr().unwrap());
    let udp = |here: SocketAddr, there: SocketAddr| {
        network(&format!("cells_udp = {{ local = \"{here}\", peer = \"{there}\", form = \"batch\" }}"))
    };
    let (a, b) = (udp(a, b), udp(b, a));
    exchange(&a, &b);
    exchange(&b, &a);
}

#[test]
fn nothing_is_lost_between_two_daemons_by_tcp() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let a = network(&format!("tcp = \"listen {address}\""));
    let b = network(&format!("tcp = \"connect {address}\""));
    exchange(&a, &b);
}

#[test]
fn links_whose_peers_take_no_credits_refuse_the_circuit() {
    for kind in ["atmtcp = \"listen 127.0.0.1:0\"", "cells_udp = { local = \"127.0.0.1:0\", peer = \"127.0.0.1:9\" }"] {
        let folder = tempfile::tempdir().unwrap();
        let net = format!(
            "[host.here]\n[outside.there]\n[[link]]\nends = [\"here\", \"there\"]\n{kind}\n\
             [[circuit]]\nends = [\"here 0.100\", \"there 0.100\"]\nflow = \"credit\"\n"
        );
        std::fs::write(folder.path().join("net.toml"), net).unwrap();
        let mut up = std::process::Command::new(interop::program::cellway().unwrap());
        let up = up.env("CELLWAY_SOCKET", folder.path().join("socket")).arg("up").arg(folder.path().join("net.toml"));
        let output = up.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("carries no credits") && said.contains("tcp"), "{said}");
    }
}
