//! Shards of a bare network, run by threads of the benchmark's own.

use anyhow::{Context as _, Result, anyhow};
use net::{
    End, Label, LinkConfig, Network, Node, NodeId, NodeIo, RouteOptions, Shard, SwitchElement, SwitchElementConfig,
};
use std::any::Any;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, CircuitId, Time};

/// Circuits of the switches' load.
const CIRCUITS: u16 = 1000;
/// Cells that a source sends in a visit.
const RUN: usize = 512;
/// Cells of a copy.
const COPIED: usize = 4096;

/// What sends as much as there is room for.
struct Source {
    cells: Vec<Cell>,
}

/// What counts cells, and sends each back if it is to.
struct Sink {
    count: u64,
    echoes: bool,
}

impl Node for Source {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let room = io.cells_out(0);
        let n = room.len().min(self.cells.len());
        room[..n].copy_from_slice(&self.cells[..n]);
        io.commit_pdus(0, n, 0);
        n > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let cells = io.cells_in(0);
        let n = cells.len();
        let Some(last) = cells.last().copied() else { return false };
        black_box(cells.iter().fold(0u32, |sum, cell| sum ^ cell.header_word()));
        io.consume(0, n);
        self.count += n as u64;
        if self.echoes {
            io.put_cell(0, &last);
        }
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn rests(&self) -> bool {
        true
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn circuit(n: u16) -> Result<CircuitId> {
    CircuitId::new(0, 32 + n).context("a VCI")
}

fn source() -> Result<Box<Source>> {
    // Circuits in an order without a pattern, as of many senders.
    let cell = |n: usize| {
        let circuit = circuit((n * 7919 % usize::from(CIRCUITS)) as u16)?;
        Ok(Cell::new(CellHeader { circuit, ..CellHeader::default() }, [n as u8; 48]))
    };
    Ok(Box::new(Source { cells: (0..RUN).map(cell).collect::<Result<_>>()? }))
}

fn sink(echoes: bool) -> Box<Sink> {
    Box::new(Sink { count: 0, echoes })
}

/// Runs a shard until it is told to stop.
fn drive(shard: &mut Shard, stop: &AtomicBool, begun: Instant) {
    while !stop.load(Ordering::Relaxed) {
        if !shard.run(Time::ZERO + begun.elapsed()) {
            std::hint::spin_loop();
        }
    }
}

/// Runs shards of a network, a thread for each: the seconds that it took.
fn run(network: &mut Network, shards: &[usize], length: Duration) -> Result<f64> {
    let (begun, stop) = (Instant::now(), AtomicBool::new(false));
    let mut lent: Vec<Box<Shard>> = shards.iter().filter_map(|number| network.lend(*number)).collect();
    std::thread::scope(|scope| {
        let stop = &stop;
        for shard in &mut lent {
            scope.spawn(move || drive(shard, stop, begun));
        }
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    lent.into_iter().for_each(|shard| network.take_back(shard));
    Ok(seconds)
}

fn counted(network: &mut Network, sink: NodeId) -> Result<u64> {
    network.peek_node::<Sink>(sink).map(|sink| sink.count).ok_or_else(|| anyhow!("no sink"))
}

fn connect(network: &mut Network, a: End, b: End, queue_cells: usize) -> Result<()> {
    network.connect(a, b, LinkConfig { queue_cells, ..LinkConfig::default() })?;
    Ok(())
}

/// A cell between two shards, forth and back: nanoseconds for one way.
pub(super) fn ping(length: Duration) -> Result<f64> {
    let mut network = Network::sharded(3, 1, 64);
    let ends = [1, 2].map(|shard| {
        let node = network.add_node("end", sink(true));
        network.move_node(node, shard);
        node
    });
    connect(&mut network, End::Port(ends[0], 0), End::Port(ends[1], 0), 64)?;
    let cell = Cell::new(CellHeader { circuit: circuit(0)?, ..CellHeader::default() }, [0; 48]);
    network.with_node::<Sink, _>(ends[0], Time::ZERO, |_, io| io.put_cell(0, &cell));
    let seconds = run(&mut network, &[1, 2], length)?;
    let ways = counted(&mut network, ends[0])? + counted(&mut network, ends[1])?;
    Ok(seconds * 1e9 / ways.max(1) as f64)
}

/// Cells as fast as they go over one link, in one shard or from one to another: nanoseconds for each.
pub(super) fn stream(queue: usize, shards: usize, length: Duration) -> Result<f64> {
    let mut network = Network::sharded(3, 1, 64);
    let nodes = [network.add_node("from", source()?), network.add_node("to", sink(false))];
    network.move_node(nodes[0], 1);
    network.move_node(nodes[1], shards);
    connect(&mut network, End::Port(nodes[0], 0), End::Port(nodes[1], 0), queue)?;
    let at_work = &[1, 2][..shards];
    let seconds = run(&mut network, at_work, length)?;
    Ok(seconds * 1e9 / counted(&mut network, nodes[1])?.max(1) as f64)
}

/// A switch with its load in each of some shards: cells a second, in sum.
pub(super) fn switches(shards: usize, length: Duration) -> Result<f64> {
    let mut network = Network::sharded(1 + shards, 1, 64);
    let mut sinks = Vec::new();
    for shard in 1..=shards {
        let mut switch = SwitchElement::new(SwitchElementConfig { ports: 2, ..SwitchElementConfig::default() });
        for n in 0..CIRCUITS {
            let label = Label::Vc(circuit(n)?);
            let plain = RouteOptions::default();
            switch.add_route((0, label), (1, label), plain).map_err(|e| anyhow!("{e}"))?;
        }
        let nodes = [
            network.add_node("from", source()?),
            network.add_node("s", Box::new(switch)),
            network.add_node("to", sink(false)),
        ];
        nodes.into_iter().for_each(|node| _ = network.move_node(node, shard));
        connect(&mut network, End::Port(nodes[0], 0), End::Port(nodes[1], 0), 4096)?;
        connect(&mut network, End::Port(nodes[1], 1), End::Port(nodes[2], 0), 4096)?;
        sinks.push(nodes[2]);
    }
    let at_work: Vec<usize> = (1..=shards).collect();
    let seconds = run(&mut network, &at_work, length)?;
    let cells = sinks.into_iter().map(|sink| counted(&mut network, sink)).sum::<Result<u64>>()?;
    Ok(cells as f64 / seconds)
}

/// Threads that copy cells, each its own: cells a second, in sum.
pub(super) fn copies(threads: usize, length: Duration) -> Result<f64> {
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let copied = std::thread::scope(|scope| {
        let copy = |_| {
            scope.spawn(|| {
                let (from, mut to, mut cells) = (vec![Cell::default(); COPIED], vec![Cell::default(); COPIED], 0u64);
                while !stop.load(Ordering::Relaxed) {
                    to.copy_from_slice(black_box(&from));
                    black_box(&mut to);
                    cells += COPIED as u64;
                }
                cells
            })
        };
        let all: Vec<_> = (0..threads).map(copy).collect();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        all.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a copy panicked"))).sum::<Result<u64>>()
    })?;
    Ok(copied as f64 / begun.elapsed().as_secs_f64())
}
