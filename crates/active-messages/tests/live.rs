//! Active Messages on the circuits of a running network, and on direct ones.

use crate::lan::{Lan, circuit};
use crate::{all_to_all, ping_pong};
use active_messages::{Circuits, DirectCircuits};
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use host::HostInterface;
use net::topology::{Attachment, CircuitDescription, CircuitEnd, LinkDescription};
use net::{Carries, FramePool, LinkConfig, Network, SwitchElementConfig};

/// Asks and answers, each on its thread; the sums say that each message was handled once.
fn ping_pong<T: active_messages::Transport + Send + 'static>(here: T, there: T, count: u64, octets: usize) {
    let server = std::thread::spawn(move || ping_pong::serve(there, count));
    let (asked, _) = ping_pong::ask(here, count, octets).unwrap();
    let answered = server.join().unwrap().unwrap();
    let sum = count * (count - 1) / 2;
    assert_eq!(answered, ping_pong::Seen { messages: count, sum });
    assert_eq!(asked, ping_pong::Seen { messages: count, sum: sum + count });
}

fn circuits(lan: &Lan, host: &str, vcis: &[u16]) -> Circuits {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let open = |vci: &u16| endpoint.open(circuit(*vci), OpenOptions::default()).unwrap();
    let channels: Vec<ChannelId> = vcis.iter().map(open).collect();
    Circuits::new(endpoint, channels)
}

#[test]
fn ping_pong_on_circuits_of_cells_and_of_frames() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = Lan::carrying(carries);
        for octets in [0, 1000] {
            ping_pong(circuits(&lan, "alpha", &[100]), circuits(&lan, "beta", &[100]), 300, octets);
            for host in ["alpha", "beta"] {
                lan.until_free(host, 100);
            }
        }
    }
}

#[test]
fn ping_pong_on_a_direct_circuit_of_the_service() {
    let lan = Lan::new();
    for octets in [0, 1000] {
        let (here, there) = lan.both(101);
        ping_pong(DirectCircuits::new(vec![here]), DirectCircuits::new(vec![there]), 300, octets);
        for host in ["alpha", "beta"] {
            lan.until_free(host, 101);
        }
    }
}

#[test]
fn all_to_all_on_direct_circuits() {
    all_to_all::on_direct_circuits(4, 20_000).unwrap();
}

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

/// The circuit between two of four hosts.
fn between(a: usize, b: usize) -> u16 {
    100 + (4 * a.min(b) + a.max(b)) as u16
}

struct Everybody;

impl host::service::Handler for Everybody {
    fn admit(&self, _: endpoint::seqpacket::Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: endpoint::seqpacket::Peer, _: &str, _: wire::CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn manage(
        &self,
        _: endpoint::seqpacket::Peer,
        request: serde_json::Value,
        _: Vec<std::os::fd::OwnedFd>,
    ) -> Result<String, String> {
        Ok(request.to_string())
    }
}

/// Four hosts at a switch, whose cells queue at each other's ports: what is lost there is sent again.
#[test]
fn all_to_all_on_circuits_of_cells_through_a_switch() {
    let lan = Lan::of(Network::new(FramePool::new(64, 65_536)), Everybody, |core| {
        core.fabric.add_switch(&mut core.network, "s1", SwitchElementConfig::default()).unwrap();
        for (n, name) in HOSTS.iter().enumerate() {
            core.fabric.add_host(&mut core.network, name, HostInterface::new(16)).unwrap();
            let ends = [(*name, None), ("s1", Some(n as u16))];
            let ends = ends.map(|(station, port)| Attachment { station: station.into(), port });
            core.fabric.add_link(&mut core.network, &LinkDescription { ends, config: LinkConfig::default() }).unwrap();
        }
        for a in 0..HOSTS.len() {
            for b in a + 1..HOSTS.len() {
                let ends = [a, b].map(|host| CircuitEnd::new(HOSTS[host], circuit(between(a, b)))).to_vec();
                let described = CircuitDescription { ends, ..CircuitDescription::default() };
                core.fabric.add_circuit(&mut core.network, &described).unwrap();
            }
        }
    });
    let nodes: Vec<Circuits> = (0..HOSTS.len())
        .map(|own| {
            let vcis: Vec<u16> = (0..HOSTS.len()).filter(|to| *to != own).map(|to| between(own, to)).collect();
            circuits(&lan, HOSTS[own], &vcis)
        })
        .collect();
    let run = |(own, circuits)| std::thread::spawn(move || all_to_all::exchange(circuits, own, 30_000).unwrap());
    let threads: Vec<_> = nodes.into_iter().enumerate().map(run).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
