//! Circuits of one endpoint do not wait for each other.

use crate::lan::{Lan, circuit};
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use net::Carries;
use std::time::{Duration, Instant};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

fn endpoint(lan: &Lan, host: &str, path: endpoint::DataPath) -> Endpoint {
    let geometry = Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 192, buffer_octets: 2048 };
    let config = EndpointConfig { host: host.into(), geometry, path, ..EndpointConfig::default() };
    Endpoint::create(&lan.socket, &config).unwrap()
}

#[test]
fn a_circuit_that_waits_for_its_contract_does_not_delay_another_of_the_same_endpoint() {
    for carries in [Carries::Cells, Carries::Frames] {
        for path in [endpoint::DataPath::Shared, endpoint::DataPath::Copying] {
            let lan = Lan::carrying(carries);
            let (mut a, mut b) = (endpoint(&lan, "alpha", path), endpoint(&lan, "beta", path));
            // 1000 cells a second, and 32 cells an SDU.
            let paced = a.open(circuit(200), OpenOptions::default()).unwrap();
            let free = a.open(circuit(100), OpenOptions::default()).unwrap();
            b.open(circuit(200), OpenOptions::default()).unwrap();
            let arrives = b.open(circuit(100), OpenOptions::default()).unwrap();
            let begin = Instant::now();
            for i in 0..200u32 {
                while a.send_copy(paced, &[0xaa; 1500]) != Err(SendError::Full) {}
                let mut sdu = [0; 1500];
                sdu[..4].copy_from_slice(&i.to_be_bytes());
                a.send_copy(free, &sdu).unwrap_or_else(|e| panic!("{carries:?}, SDU {i}: {e}"));
                loop {
                    let got = b.receive(TIMEOUT).unwrap().unwrap_or_else(|| panic!("SDU {i} did not come"));
                    if got.channel() == arrives {
                        assert_eq!(got[..4], i.to_be_bytes());
                        break;
                    }
                }
            }
            // By the contract, the paced circuit has carried so many SDUs and one.
            let paced = lan.received("beta", 200).pdus;
            let most = begin.elapsed().as_secs_f64() * 1000.0 / 32.0 + 2.0;
            assert!(paced as f64 <= most, "{carries:?}: {paced} SDUs where the contract allows {most}");
        }
    }
}
