//! Performance monitoring beside a link with faults: what two observers at the ends of the link see is what monitoring says.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{HostEndpoint, HostInterface};
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{End, FaultConfig, FramePool, LinkConfig, Network, Node, NodeIo};
use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::oam::{Flow, Function};
use wire::{Cell, CellRate, CircuitId, Time};

const CIRCUIT: CircuitId = CircuitId::from_key(100);
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 9216 };

/// What passes a point of the circuit from alpha to beta: user cells, in blocks that a monitoring cell ends.
#[derive(Debug, Default)]
struct Blocks {
    ended: Vec<(u8, Vec<Cell>)>,
    open: Vec<Cell>,
}

/// Passes cells on and writes down those from port 0 to port 1.
struct Observer(Arc<Mutex<Blocks>>);

impl Node for Observer {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut any = false;
        for (from, to) in [(0, 1), (1, 0)] {
            while !io.cells_in(from).is_empty() && io.room(to) > 0 {
                let mut cell = io.cells_in(from)[0];
                io.consume(from, 1);
                any = true;
                assert!(io.put_cell(to, &cell));
                if from == 1 || cell.circuit() != CIRCUIT {
                    continue;
                }
                cell.set_at(Time::ZERO);
                let blocks = &mut *self.0.lock().unwrap();
                match Flow::of(cell.header()).map(|flow| (flow, Function::parse(&cell.payload))) {
                    Some((Flow::F5EndToEnd, Ok(Function::Monitoring(told)))) => {
                        blocks.ended.push((told.sequence, std::mem::take(&mut blocks.open)));
                    }
                    None if cell.header_word() & 8 == 0 => blocks.open.push(cell),
                    _ => {}
                }
            }
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[derive(Debug, Default, PartialEq)]
struct Truth {
    blocks: u64,
    cells: u64,
    lost: u64,
    misinserted: u64,
    errored_parities: u64,
    errored_blocks: u64,
    monitoring_lost: u64,
}

/// How many cells of `sent` are not in `arrived`, how many of `arrived` are not in `sent` or there for the second time, and the
/// columns in which an odd number of bits differs. Order holds on a link.
fn compare(sent: &[Cell], arrived: &[Cell]) -> (u64, u64, u16) {
    let distance =
        |a: &Cell, b: &Cell| a.payload.iter().zip(&b.payload).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    let (mut lost, mut more, mut next) = (0, 0, 0);
    for (at, cell) in arrived.iter().enumerate() {
        if at > 0 && cell.payload == arrived[at - 1].payload {
            more += 1;
            continue;
        }
        // A monitoring cell whose header was damaged may have become a user cell.
        let Some(skipped) = sent[next..].iter().position(|other| distance(cell, other) <= 1) else {
            more += 1;
            continue;
        };
        lost += skipped as u64;
        next += skipped + 1;
    }
    let pairs = sent.iter().chain(arrived).flat_map(|cell| cell.payload.chunks(2));
    let columns = pairs.fold(0, |columns, pair| columns ^ u16::from_be_bytes([pair[0], pair[1]]));
    (lost + (sent.len() - next) as u64, more, columns)
}

/// From the first monitoring cell that both have seen to the last.
fn truth(sent: &Blocks, arrived: &Blocks) -> Truth {
    let mut truth = Truth::default();
    let mut from = sent.ended.iter();
    let all = &arrived.ended;
    let (first, _) = all[0];
    while from.next().expect("sent").0 != first {}
    for (at, (sequence, arrived)) in arrived.ended.iter().enumerate().skip(1) {
        if *sequence == all[at - 1].0 {
            // The monitoring cell came twice.
            assert!(arrived.is_empty());
            truth.blocks += 1;
            continue;
        }
        let (mut cells, mut told) = (Vec::new(), 0);
        loop {
            let (other, block) = from.next().expect("a monitoring cell that nobody sent");
            cells.extend_from_slice(block);
            told += 1;
            if other == sequence {
                break;
            }
        }
        let (lost, more, columns) = compare(&cells, arrived);
        truth.blocks += 1;
        truth.cells += cells.len() as u64;
        truth.monitoring_lost += told - 1;
        truth.lost += lost.saturating_sub(more);
        truth.misinserted += more.saturating_sub(lost);
        if told == 1 && lost == more {
            truth.errored_parities += u64::from(columns.count_ones());
            truth.errored_blocks += u64::from(columns != 0);
        }
    }
    truth
}

/// Sends some 30 000 cells over a link with these faults; what monitoring says, and what was.
fn run(faults: FaultConfig) -> (Truth, Truth) {
    let mut network = Network::new(FramePool::new(16, 2048));
    let [alpha, beta] = ["alpha", "beta"].map(|n| network.add_node(n, Box::new(HostInterface::new(4).named(n))));
    let seen = [0, 1].map(|_| Arc::new(Mutex::new(Blocks::default())));
    let [before, behind] = [0, 1].map(|n| network.add_node("observer", Box::new(Observer(seen[n].clone()))));
    let clean = || LinkConfig { rate: Some(CellRate::OC3C), ..LinkConfig::default() };
    let faulty = LinkConfig { faults: Some(faults), ..clean() };
    network.connect(End::Port(alpha, 0), End::Port(before, 0), clean()).unwrap();
    network.connect(End::Port(before, 1), End::Port(behind, 0), faulty).unwrap();
    network.connect(End::Port(behind, 1), End::Port(beta, 0), clean()).unwrap();
    let oam = OamOptions { continuity: false, monitoring: Some(128) };
    let contract = traffic::Contract::default();
    let options = CircuitOptions { aal: net::FrameAal::Aal5, contract, sends: true, receives: true, oam };
    for host in [alpha, beta] {
        let host = network.node_mut::<HostInterface>(host).unwrap();
        CircuitTable::add_circuit(host, 0, CIRCUIT, &options).unwrap();
    }
    let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
    let mut local = Local::new(&segment);
    let host = network.node_mut::<HostInterface>(alpha).unwrap();
    let endpoint = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
    let channel = host.open(endpoint, CIRCUIT, Aal::Aal5).unwrap().0;
    let (mut now, mut number) = (Time::ZERO, 0u64);
    for pdu in 0..320u32 {
        // No two cells are alike, nor but for a bit.
        let octets: Vec<u8> = std::iter::repeat_with(|| {
            number += 1;
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
        })
        .take(570)
        .flatten()
        .collect();
        local.segment.copy_in(GEOMETRY.buffer_at(pdu % 64).unwrap(), &octets);
        let of = Head { channel, octets: octets.len() as u32, ..Head::of_buffer(pdu % 64) };
        assert!(local.send.push(of));
        let until = now + Duration::from_millis(1);
        loop {
            while network.run(now) {}
            match network.poll_timeout() {
                Some(next) if next <= until => now = next.max(now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        now = until;
    }
    let found = network.node_mut::<HostInterface>(beta).unwrap().oam(CIRCUIT).unwrap().received.unwrap();
    let found = Truth {
        blocks: found.blocks,
        cells: found.cells,
        lost: found.lost,
        misinserted: found.misinserted,
        errored_parities: found.errored_parities,
        errored_blocks: found.errored_blocks,
        monitoring_lost: found.monitoring_lost,
    };
    let was = truth(&seen[0].lock().unwrap(), &seen[1].lock().unwrap());
    (found, was)
}

#[test]
fn monitoring_finds_exactly_the_cells_that_a_link_with_faults_lost_doubled_or_damaged() {
    for seed in 0..6 {
        let none = FaultConfig { seed, ..FaultConfig::default() };
        let (found, was) = run(FaultConfig { loss: 0.004, ..none.clone() });
        assert_eq!(found, was, "seed {seed}");
        assert!(was.lost > 50 && was.misinserted == 0 && was.errored_parities == 0 && was.cells > 25_000, "{was:?}");
        let (found, was) = run(FaultConfig { duplication: 0.004, ..none.clone() });
        assert_eq!(found, was, "seed {seed}");
        assert!(was.misinserted > 50 && was.lost == 0, "{was:?}");
        // A bit of a header, too, which then names another circuit.
        let (found, was) = run(FaultConfig { corruption: 0.004, ..none.clone() });
        assert_eq!(found, was, "seed {seed}");
        assert!(was.errored_parities > 30 && was.lost > 0, "{was:?}");
        let (found, was) = run(none);
        assert_eq!(found, was);
        assert_eq!((was.lost, was.misinserted, was.errored_parities, was.monitoring_lost), (0, 0, 0, 0));
    }
}
