//! TCP (smoltcp) over IP over AAL5 over bad links, from endpoint to endpoint, in virtual time.

use crate::application::{Application, BUFFERS};
use endpoint::DataPath;
use host::HostInterface;
use lab::{World, for_seeds};
use net::{Carries, FaultConfig, LinkConfig};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use stack::device::netstack::NetStack;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use traffic::Contract;
use wire::{CellRate, DropReason, Time};

const ALPHA: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const BETA: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// How often the stacks are run while cells are on their way.
const TICK: Duration = Duration::from_micros(200);
const CIRCUIT: u32 = 1;

/// A stack, and the endpoint that it uses.
struct Machine {
    stack: NetStack,
    application: Application,
    sent: u32,
    waiting: VecDeque<Vec<u8>>,
}

impl Machine {
    fn new(world: &mut World<HostInterface>, name: &str, address: Ipv4Addr) -> Self {
        let application = Application::open(world, name, DataPath::Shared);
        let mut stack = NetStack::new(address, 24, stack::ip::MTU, world.seed());
        stack.ip().add_circuit(CIRCUIT, None, Time::ZERO);
        Machine { stack, application, sent: 0, waiting: VecDeque::new() }
    }

    fn run(&mut self, now: Time) {
        while let Some(pdu) = self.application.receive() {
            self.stack.handle_pdu(CIRCUIT, &pdu, now);
        }
        while self.stack.run(now) {}
        let mut sdu = vec![0; stack::ip::MTU + 8];
        while self.waiting.len() < BUFFERS as usize
            && let Some((_, octets)) = self.stack.poll_pdu(&mut sdu, now)
        {
            self.waiting.push_back(sdu[..octets].to_vec());
        }
        // Half of the buffers at a time, and only when the host has taken the half before: none is written while it is read.
        let ring = &mut self.application.local.send;
        if ring.consumed() == ring.pushed() {
            for pdu in self.waiting.drain(..self.waiting.len().min(BUFFERS as usize / 2)) {
                self.application.send(self.sent, &pdu);
                self.sent = self.sent.wrapping_add(1);
            }
        }
    }
}

/// What came of a transfer.
struct Outcome {
    got: Vec<u8>,
    took: Duration,
    /// Cells that the links lost.
    lost: u64,
    trace: u64,
}

/// Sends `data` from alpha to beta.
fn transfer(seed: u64, data: &[u8], link: &LinkConfig) -> Outcome {
    let mut world = World::new(seed);
    world.add_host("alpha", HostInterface::new(4));
    world.add_host("beta", HostInterface::new(4));
    world.add_switch("s1");
    world.add_link("alpha", "s1:0", link.clone());
    world.add_link("beta", "s1:1", link.clone());
    world.add_circuit(&["alpha 0.100", "beta 0.100"], net::FrameAal::Aal5, Contract::default()).unwrap();
    let mut alpha = Machine::new(&mut world, "alpha", ALPHA);
    let mut beta = Machine::new(&mut world, "beta", BETA);
    let server = beta.stack.listen(80).unwrap();
    let client = alpha.stack.connect(BETA, 80, 50_000).unwrap();

    let (mut sent, mut got) = (0, Vec::new());
    while world.now() < Time::ZERO + Duration::from_secs(600) {
        let now = world.now();
        alpha.run(now);
        beta.run(now);
        let socket = alpha.stack.tcp_socket(client);
        if socket.can_send() {
            sent += socket.send_slice(&data[sent..]).unwrap();
            if sent == data.len() {
                socket.close();
            }
        }
        let socket = beta.stack.tcp_socket(server);
        while socket.can_recv() {
            socket.recv(|octets| (octets.len(), got.extend_from_slice(octets))).unwrap();
        }
        if got.len() >= data.len() {
            let links = world.network().links().flat_map(|l| [l.from_a, l.from_b]);
            let lost = links.map(|d| d.sent.dropped(DropReason::Lost) + d.delivered.dropped(DropReason::Lost)).sum();
            return Outcome { got, took: now.since(Time::ZERO), lost, trace: world.trace().hash() };
        }
        world.at(now + TICK, |_| {});
        world.settle(TICK);
    }
    panic!("{} of {} octets after ten minutes", got.len(), data.len());
}

fn pattern(seed: u64, octets: usize) -> Vec<u8> {
    let mut data = vec![0; octets];
    StdRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

fn oc3c(faults: Option<FaultConfig>) -> LinkConfig {
    LinkConfig {
        carries: Carries::Cells,
        rate: Some(CellRate::OC3C),
        delay: Duration::from_micros(50),
        faults,
        ..LinkConfig::default()
    }
}

#[test]
fn tcp_fills_a_clean_oc3c_link() {
    let data = pattern(1, 4_000_000);
    let outcome = transfer(1, &data, &oc3c(None));
    assert!(outcome.got == data);
    // OC-3c carries 135.6 Mbit/s of cell payload, an IP packet of 9180 octets is 9140 of data in 192 cells: 134.5.
    let mbit_s = data.len() as f64 * 8.0 / outcome.took.as_secs_f64() / 1e6;
    println!("TCP over clean OC-3c: {mbit_s:.1} Mbit/s of data");
    assert!((120.0..134.6).contains(&mbit_s), "{mbit_s} Mbit/s");
}

#[test]
fn tcp_carries_all_octets_over_links_that_lose_damage_and_repeat_cells() {
    let (mut lost, mut cases) = (0, 0);
    for_seeds("tcp_carries_all_octets_over_links_that_lose_damage_and_repeat_cells", 10, |seed| {
        let faults = FaultConfig { loss: 1e-4, duplication: 1e-4, corruption: 1e-4, ..FaultConfig::default() };
        let data = pattern(seed, 200_000);
        let outcome = transfer(seed, &data, &oc3c(Some(faults)));
        assert!(outcome.got == data);
        lost += outcome.lost;
        cases += 1;
    });
    assert!(cases == 1 || lost > 0, "the links were good");
}

#[test]
fn the_same_seed_gives_the_same_transfer_cell_by_cell() {
    let faults = FaultConfig { loss: 2e-4, ..FaultConfig::default() };
    let data = pattern(7, 100_000);
    let run = || transfer(7, &data, &oc3c(Some(faults.clone())));
    let (a, b) = (run(), run());
    assert_eq!((a.trace, a.took), (b.trace, b.took));
}
