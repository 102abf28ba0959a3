//! Cells of many circuits, mixed, each reassembled after a lookup: taking turns over 64 and 1024 circuits, in calls of some
//! cells or many, and in random order over 1 to 1 000 000.

use super::{median, seconds_per_pass};
use ::sar::{Delivery, Demux, DemuxConfig, Kernel, SduMeta, Segmentation};
use anyhow::{Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Duration;
use wire::octets::{Format, emit53};
use wire::{Cell, CircuitId, Time};

/// Numbers of circuits of the curve.
const CURVE: [usize; 13] = [1, 4, 16, 64, 256, 1024, 4096, 10_000, 30_000, 100_000, 200_000, 500_000, 1_000_000];
/// Cells of the curve's input, whatever the number of circuits.
const INPUT: usize = 1 << 17;

/// Cells of a call: some ten microseconds at the rates that are measured here.
const SOME: usize = 512;
/// Cells of a call that sees 1024 circuits eight times.
const MANY: usize = 8192;

/// How cells are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// A cell to a slot of 64 octets.
    Slots,
    /// 53 octets each.
    Wire,
}

/// One number of circuits in one order.
struct Mix {
    circuits: usize,
    order: &'static str,
    layout: Layout,
    /// Cells of a call.
    batch: usize,
    kernel: Kernel,
    config: DemuxConfig,
    cells: Vec<Cell>,
    /// The same, if they are measured as on the wire.
    octets: Vec<u8>,
    seconds_per_cell: Vec<f64>,
    state_octets: usize,
    buffer_octets: usize,
}

/// All of them.
pub(super) struct Mixed(Vec<Mix>);

fn circuit(i: usize) -> CircuitId {
    CircuitId::from_key(32 + i as u32)
}

fn cells_of(i: usize, octets: usize) -> Vec<Cell> {
    let sdu = vec![i as u8; octets];
    let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
    let begun = Segmentation::new(circuit(i), octets, SduMeta::default());
    begun.unwrap_or_else(|e| panic!("{e}")).fill(&sdu, &mut cells);
    cells
}

impl Mix {
    fn new(
        kernel: Kernel,
        circuits: usize,
        order: &'static str,
        octets: usize,
        cells: Vec<Cell>,
        batch: usize,
    ) -> Self {
        // Each circuit can have a PDU on its way, and some are delivered and not yet given back.
        let config = DemuxConfig {
            circuits,
            buffers: (circuits + batch) as u32,
            max_sdu_octets: octets,
            ..DemuxConfig::default()
        };
        Mix {
            circuits,
            order,
            layout: Layout::Slots,
            batch,
            kernel,
            config,
            cells,
            octets: Vec::new(),
            seconds_per_cell: Vec::new(),
            state_octets: 0,
            buffer_octets: 0,
        }
    }

    /// Circuits take turns, a cell each, with PDUs of 1500 octets.
    fn in_turn(kernel: Kernel, circuits: usize, batch: usize) -> Self {
        let lists: Vec<_> = (0..circuits).map(|i| cells_of(i, 1500)).collect();
        let mut cells = Vec::new();
        for n in 0..lists[0].len() {
            // Circuits begin at different places of their PDUs, or all would end at once.
            cells.extend(lists.iter().enumerate().map(|(i, list)| list[(n + i) % list.len()]));
        }
        Mix::new(kernel, circuits, "in turn", 1500, cells, batch)
    }

    /// The same cells as they are on the wire.
    fn on_the_wire(mut self) -> Self {
        self.layout = Layout::Wire;
        self.octets = self.cells.iter().flat_map(|cell| emit53(cell, Format::Nni)).collect();
        self
    }

    /// Circuits in random order, a cell each time, with PDUs of one to three cells at random: whether a cell ends its PDU
    /// is as hard to foretell with one circuit as with many.
    fn at_random(kernel: Kernel, circuits: usize) -> Self {
        const SIZES: [usize; 3] = [40, 88, 136];
        let mut random = SmallRng::seed_from_u64(circuits as u64);
        let mut rest: Vec<Vec<Cell>> = vec![Vec::new(); circuits];
        let mut cells = Vec::with_capacity(INPUT);
        while cells.len() < INPUT {
            let i = random.random_range(0..circuits);
            if rest[i].is_empty() {
                rest[i] = cells_of(i, SIZES[random.random_range(0..SIZES.len())]);
                rest[i].reverse();
            }
            cells.extend(rest[i].pop());
        }
        // The next pass begins with all circuits between PDUs.
        for left in &mut rest {
            left.reverse();
            cells.append(left);
        }
        Mix::new(kernel, circuits, "random", 136, cells, SOME)
    }

    /// One run. The memory is taken anew, so that runs differ in its pages.
    fn run(&mut self, length: Duration) -> Result<()> {
        let mut demux = Demux::with_kernel(self.kernel, self.config);
        for i in 0..self.circuits {
            demux.open(circuit(i))?;
        }
        let mut pool = vec![0; demux.pool_octets()];
        (self.state_octets, self.buffer_octets) = (demux.state_octets(), pool.len());
        let Mix { layout, batch, cells, octets, .. } = self;
        let mut out = vec![Delivery::default(); *batch];
        let seconds = seconds_per_pass(length, || {
            let mut at = 0;
            while at < cells.len() {
                let end = cells.len().min(at + *batch);
                let progress = match layout {
                    Layout::Slots => demux.push(&cells[at..end], &mut pool, &mut out, Time::ZERO),
                    Layout::Wire => {
                        let cell = wire::cell::CELL_OCTETS;
                        demux.push53(&octets[at * cell..end * cell], &mut pool, &mut out, Time::ZERO)
                    }
                };
                at += progress.cells_used;
                for d in black_box(&out[..progress.deliveries]) {
                    demux.release(d.buffer);
                }
            }
        });
        ensure!(demux.counters().pdus > 0, "no PDU was whole");
        let seconds = seconds / cells.len() as f64;
        self.seconds_per_cell.push(seconds);
        Ok(())
    }

    fn row(&mut self) -> Value {
        let seconds = median(&mut self.seconds_per_cell);
        json!({
            "circuits": self.circuits, "order": self.order, "batch_cells": self.batch,
            "cell_octets": match self.layout { Layout::Slots => size_of::<Cell>(), Layout::Wire => wire::cell::CELL_OCTETS },
            "cells_per_s": 1.0 / seconds, "nanoseconds_per_cell": seconds * 1e9,
            "state_octets": self.state_octets, "buffer_octets": self.buffer_octets,
        })
    }
}

impl Mixed {
    /// With a curve over numbers of circuits up to `most`.
    pub(super) fn new(kernel: Kernel, most: usize) -> Self {
        let turns = |circuits, batch| Mix::in_turn(kernel, circuits, batch);
        let mut mixes = vec![turns(64, SOME), turns(64, SOME).on_the_wire(), turns(1024, MANY), turns(1024, SOME)];
        mixes.extend(CURVE.into_iter().filter(|n| *n <= most).map(|n| Mix::at_random(kernel, n)));
        Mixed(mixes)
    }

    pub(super) fn run(&mut self, length: Duration) -> Result<()> {
        self.0.iter_mut().try_for_each(|mix| mix.run(length))
    }

    fn rows(&mut self, order: &str) -> Vec<Value> {
        self.0.iter_mut().filter(|m| m.order == order).map(Mix::row).collect()
    }

    pub(super) fn interleaved(&mut self) -> Vec<Value> {
        self.rows("in turn")
    }

    pub(super) fn curve(&mut self) -> Vec<Value> {
        self.rows("random")
    }
}
