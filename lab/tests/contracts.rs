//! A circuit of a constant rate beside bulk data of the same endpoint, over real host interfaces and a switch, in virtual time.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{HostEndpoint, HostInterface};
use lab::World;
use net::random::Random;
use net::{Carries, FramePool, Label, LinkConfig};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId};

const RINGS: u32 = 512;
const BUFFERS: u32 = 64;
const GEOMETRY: Geometry =
    Geometry { send_ring: RINGS, receive_ring: RINGS, free_ring: RINGS, buffers: 2 * BUFFERS, buffer_octets: 9216 };
/// Octets of an SDU of one cell, and of one of 192.
const CONSTANT_OCTETS: usize = 40;
const BULK_OCTETS: u32 = 9180;
const BULK_CELLS: f64 = 192.0;
/// How late the network is said to be looked after.
const ROUND: Duration = Duration::from_millis(1);
/// Nothing is counted before.
const START: Duration = Duration::from_millis(200);
/// SDUs of the constant rate that are on their way at most: the host always has some, though those that have left it are known to have
/// come several rounds later, and the ring has room for others.
const ON_THEIR_WAY: u64 = 300;

/// An endpoint with both circuits open, the constant rate first.
struct Endpoint {
    local: Local,
    channels: [u32; 2],
    sent: [u64; 2],
    received: [u64; 2],
}

impl Endpoint {
    fn open(world: &mut World<HostInterface>, host: &str) -> Self {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host = world.host(host);
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channels = [110, 100].map(|vci| host.open(id, CircuitId::new(0, vci).unwrap(), Aal::Aal5).unwrap().0);
        Endpoint { local, channels, sent: [0; 2], received: [0; 2] }
    }

    /// Keeps both circuits busy: the ring is full whenever the application has looked.
    fn send(&mut self, arrived: u64) {
        let [constant, bulk] = self.channels;
        while self.sent[0] - arrived < ON_THEIR_WAY {
            let mut descriptor = Head { channel: constant, ..Head::of_buffer(Descriptor::INLINE) };
            descriptor.octets = CONSTANT_OCTETS as u32;
            if !self.local.send.push(descriptor) {
                break;
            }
            self.sent[0] += 1;
        }
        // What is in the buffers does not matter: they are used again at once.
        let buffer = |n: u64| BUFFERS + (n % u64::from(BUFFERS)) as u32;
        while self.local.send.push(Head { channel: bulk, octets: BULK_OCTETS, ..Head::of_buffer(buffer(self.sent[1])) })
        {
            self.sent[1] += 1;
        }
    }

    fn receive(&mut self) {
        while let Some(descriptor) = self.local.receive.pop() {
            let which = usize::from(descriptor.head.channel != self.channels[0]);
            self.received[which] += 1;
            if descriptor.head.buffer != Descriptor::INLINE {
                assert!(self.local.free.push(Head::of_buffer(descriptor.head.buffer)));
            }
        }
    }
}

/// What came of a run.
#[derive(Debug)]
struct Outcome {
    /// The constant rate as a share of its contract, and bulk data as a share of what that leaves.
    constant: f64,
    bulk: f64,
    /// Cells of the constant rate that the switch found beyond its contract, or dropped.
    refused: u64,
}

/// Runs both circuits, looked after after each of these times: at multiples of `grain` meanwhile.
fn run(carries: Carries, contract: Contract, grain: Duration, rounds: &[Duration]) -> Outcome {
    // A line holds half of what is free, and a late round brings many short frames.
    let mut world = World::with_pool(0, FramePool::new(1024, 9216));
    world.set_round(ROUND);
    world.set_grain(grain);
    for host in ["alpha", "beta"] {
        world.add_host(host, HostInterface::new(4));
    }
    world.add_switch("s1");
    for (host, port) in [("alpha", "s1:0"), ("beta", "s1:1")] {
        world.add_link(host, port, LinkConfig { carries, rate: Some(CellRate::OC3C), ..LinkConfig::default() });
    }
    world.add_circuit(&["alpha 0.100", "beta 0.100"], net::FrameAal::Aal5, Contract::default()).unwrap();
    world.add_circuit(&["alpha 0.110", "beta 0.110"], net::FrameAal::Aal5, contract).unwrap();
    let [mut alpha, mut beta] = ["alpha", "beta"].map(|host| Endpoint::open(&mut world, host));
    let mut begun = [0; 2];
    let (mut passed, mut counted) = (Duration::ZERO, Duration::ZERO);
    for round in rounds {
        alpha.send(beta.received[0]);
        world.settle(*round);
        beta.receive();
        if passed < START && passed + *round >= START {
            begun = beta.received;
        }
        counted += if passed < START { Duration::ZERO } else { *round };
        passed += *round;
    }
    let per_s = |which: usize| (beta.received[which] - begun[which]) as f64 / counted.as_secs_f64();
    let pcr = contract.pcr.unwrap().cells_per_s();
    let [from, to] = [0, 1].map(|port| (port, Label::Vc(CircuitId::new(0, 110).unwrap())));
    let switched = world.switch("s1").circuit_counters(from, to).unwrap();
    let refused = switched.dropped + u64::from(switched.excess);
    let bulk = per_s(1) * BULK_CELLS / (CellRate::OC3C.cells_per_s() - pcr);
    Outcome { constant: per_s(0) / pcr, bulk, refused }
}

fn contract(cdvt: Duration) -> Contract {
    let pcr = CellRate::from_payload_bits_per_s(10e6);
    Contract { category: Category::Cbr, pcr, cdvt, ..Contract::default() }
}

#[test]
fn a_constant_rate_beside_bulk_data_of_its_endpoint_is_kept_on_cell_and_frame_links_and_bulk_has_the_rest() {
    let rounds = vec![Duration::from_micros(500); 6400];
    for carries in [Carries::Cells, Carries::Frames] {
        // As often as something happens, and as often as a busy engine comes by.
        for micros in [1, 50, 200] {
            let outcome = run(carries, contract(Duration::from_millis(1)), Duration::from_micros(micros), &rounds);
            eprintln!("{carries:?}, {micros} us: {outcome:.5?}");
            assert!((outcome.constant - 1.0).abs() < 0.001, "{carries:?}, {micros} us: {outcome:?}");
            assert!(outcome.bulk > 0.98, "{carries:?}, {micros} us: {outcome:?}");
            assert_eq!(outcome.refused, 0, "{carries:?}, {micros} us: {outcome:?}");
        }
    }
}

/// Rounds of 50 us to 2 ms, as many short as long ones, for ten seconds and more.
fn any_rounds(seed: u64) -> Vec<Duration> {
    let mut random = Random::new(seed);
    let round = || Duration::from_secs_f64(50e-6 * 40f64.powf(random.share()));
    std::iter::repeat_with(round).take(20_000).collect()
}

/// The part of these rounds in which a line is busy that has so much to send in each.
fn busy(rounds: &[Duration], most: Duration) -> f64 {
    let (all, busy) = rounds
        .iter()
        .fold((Duration::ZERO, Duration::ZERO), |(all, busy), round| (all + *round, busy + (*round).min(most)));
    busy.as_secs_f64() / all.as_secs_f64()
}

#[test]
fn rounds_of_any_length_up_to_the_tolerance_cost_a_constant_rate_nothing_and_bulk_data_only_an_empty_line() {
    let pcr = contract(ROUND).pcr.unwrap().cells_per_s();
    let line = CellRate::OC3C.cells_per_s();
    for seed in 0..2 {
        let rounds = any_rounds(seed);
        for carries in [Carries::Cells, Carries::Frames] {
            let outcome = run(carries, contract(2 * ROUND), Duration::from_secs(1), &rounds);
            // In each round a sender has what may wait for the line: cells of a quarter of the round that is allowed for, or
            // a long frame.
            let waits = if carries == Carries::Cells { 90.0 } else { BULK_CELLS };
            let had = busy(&rounds, Duration::from_secs_f64(waits / line)) * line;
            let rest = (had - pcr) / (line - pcr);
            eprintln!("{carries:?}, seed {seed}: {outcome:.5?}, {rest:.4} of the rest to be had");
            assert!((outcome.constant - 1.0).abs() < 0.001, "{carries:?}, seed {seed}: {outcome:?}");
            assert!(outcome.bulk > 0.95 * rest, "{carries:?}, seed {seed}: {outcome:?}, {rest:.4} to be had");
            assert_eq!(outcome.refused, 0, "{carries:?}, seed {seed}: {outcome:?}");
        }
    }
}

#[test]
fn a_round_beyond_the_tolerance_costs_a_constant_rate_what_is_beyond_it_and_no_more() {
    let rounds = any_rounds(3);
    let beyond: Duration = rounds.iter().map(|round| round.saturating_sub(ROUND)).sum();
    let lost = beyond.as_secs_f64() / rounds.iter().sum::<Duration>().as_secs_f64();
    for carries in [Carries::Cells, Carries::Frames] {
        let outcome = run(carries, contract(ROUND), Duration::from_secs(1), &rounds);
        eprintln!("{carries:?}: {outcome:.5?}, {lost:.5} lost");
        assert!(lost > 0.1 && (outcome.constant + lost - 1.0).abs() < 0.02, "{carries:?}: {outcome:?}, {lost:.4} lost");
        assert_eq!(outcome.refused, 0, "{carries:?}: {outcome:?}");
    }
}
